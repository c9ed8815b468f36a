"""Captures of the models that packages bring: against real runs, against the committed files, and what those must hold."""

import json
import os
import subprocess
import sys
import textwrap
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest

from ssinghal.capture.child.sandbox import QUIET
from ssinghal.capture.client import Captures, request_of, write_capture
from ssinghal.capture.request import CaptureRequest
from ssinghal.catalog.expansion import expand
from ssinghal.catalog.loader import load_catalogs
from ssinghal.errors import CaptureError
from tests.support.packages import PACKAGES, installed, needs_torch


@pytest.mark.parametrize(
    ("model", "shape", "message"),
    [
        ("torchvision/resnet51", "1,3,64,64", "did you mean resnet50"),
        ("torchvision/resnet18", "1,3,64", "in conv1: RuntimeError"),
        ("torchvision/vit_b_16", "1,3,64", "takes one input"),
        ("torchvision/vit_b_16", "1,3,64,96", "square"),
        ("torchvision/resnet18", "1,4,64,64", "in conv1: RuntimeError"),
        ("transformers/segfomer-b0", "1,3,64,64", "did you mean segformer-b0"),
        ("diffusers/mochi-decoder", "1,12,60,106", "takes one input of rank 5"),
        ("ultralytics/yolo12q", "1,3,64,64", "did you mean yolo12"),
        ("ultralytics/yolo12n", "1,3,2160,3840", "RuntimeError: Sizes of tensors must match"),
    ],
)
def test_a_model_or_size_that_does_not_exist_is_one_line(captures, model, shape, message):
    package = model.partition("/")[0]
    if not installed("torch") or (package in PACKAGES and not installed(package)):
        pytest.skip(f"needs torch and {package}")
    with pytest.raises(CaptureError) as error:
        captures.capture(CaptureRequest(model, inputs=(tuple(map(int, shape.split(","))),)))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("package", ["torchvision", "timm"])
def test_names_read_from_files_are_those_that_the_package_lists(package):
    if not installed(package):
        pytest.skip(f"needs {package}")
    listing = {
        "torchvision": "from torchvision.models import *; print(*{*list_models()} - {*list_models(module=quantization)})",
        "timm": "import timm; print(*timm.list_models())",
    }
    done = subprocess.run([sys.executable, "-c", listing[package]], capture_output=True, text=True, timeout=300, check=True)
    assert import_module(f"ssinghal.capture.zoo.{package}_models").names() == sorted(done.stdout.split())


@pytest.mark.parametrize(
    ("model", "near"),
    [("torchvision/nosuch", "names are known"), ("timm/resnet51", "resnet50"), ("ultralytics/yolo12q", "yolo12")],
)
def test_a_wrong_name_starts_no_process(monkeypatch, model, near):
    if not installed(model.partition("/")[0]):
        pytest.skip("needs the package")
    monkeypatch.setattr(subprocess, "Popen", lambda *arguments, **options: pytest.fail("a process was started"))
    with Captures() as captures, pytest.raises(CaptureError, match=near):
        captures.capture(CaptureRequest(model, inputs=((1, 3, 64, 64),)))


SMALL = {
    "torchvision/resnet18": (1, 3, 64, 64),
    "torchvision/mobilenet_v3_small": (2, 3, 64, 96),
    "torchvision/swin_t": (1, 3, 64, 96),
    "timm/convnextv2_atto": (1, 3, 64, 64),
    "transformers/segformer-b0": (1, 3, 64, 64),
    "ultralytics/yolov8n": (1, 3, 64, 64),
    "ultralytics/yolo12n": (1, 3, 64, 64),
}

REAL_RUNS = """
    import json, sys
    from collections import Counter
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_iter
    from ssinghal.capture.zoo import build

    class Count(TorchDispatchMode):
        # Counts calls that touch what was computed from x. All tensors are kept, so that no memory is used twice.
        def __init__(self, x):
            super().__init__()
            self.calls, self.kept, self.from_x = Counter(), [x], {x.untyped_storage().data_ptr()}
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            tensors = [t for t in tree_iter((args, kwargs or {})) if isinstance(t, torch.Tensor)]
            results = [t for t in tree_iter(result) if isinstance(t, torch.Tensor)]
            self.kept += results
            if self.from_x & {t.untyped_storage().data_ptr() for t in tensors}:
                name = f"{func._schema.name.replace('::', '.')}.{func._overloadname}"
                self.calls[f"{name} {[list(t.shape) for t in tensors]}"] += 1
                if ".new_" not in name:
                    self.from_x |= {t.untyped_storage().data_ptr() for t in results} - {0}
            return result

    found = {}
    for model, shape in json.loads(sys.argv[1]).items():
        built = build(model, (tuple(shape),))
        built.root.eval().to(torch.bfloat16)
        x = torch.randn(shape, dtype=torch.bfloat16)
        with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), Count(x) as counted:  # of attention's ways the one every device has
            built.run(x)
        found[model] = counted.calls
    sys.stdout.write("\\n" + json.dumps(found))
"""


@pytest.fixture(scope="module")
def real_runs(tmp_path_factory):
    """Model -> its calls that touch an activation, run with weights and values on the CPU, by overload and operand shapes."""
    models = {model: shape for model, shape in SMALL.items() if installed(model.partition("/")[0])}
    environ = {**os.environ, **QUIET, "YOLO_CONFIG_DIR": str(tmp_path_factory.mktemp("settings"))}
    code = [sys.executable, "-c", textwrap.dedent(REAL_RUNS), json.dumps(models)]
    done = subprocess.run(code, capture_output=True, text=True, timeout=600, env=environ, check=True)
    return {model: Counter(calls) for model, calls in json.loads(done.stdout.splitlines()[-1]).items()}


@needs_torch
@pytest.mark.parametrize("model", SMALL)
def test_captured_calls_are_those_of_a_real_run(captures, real_runs, tmp_path, model):
    """The same multiset of (overload, shapes of all operands), but for other names of the same tensor, which move no data."""
    if model not in real_runs:
        pytest.skip(f"needs {model.partition('/')[0]}")
    catalog = write_capture(captures.capture(CaptureRequest(model, inputs=(SMALL[model],))), tmp_path)
    listed = Counter()
    for overload, lines in catalog.sections.items():
        for line in lines:
            listed[f"{overload} {[list(s) for _, s in line.operands()]}"] += line.n
    renamed = ("aten.alias.", "aten.as_strided_.", "aten.detach.")
    assert listed == Counter({call: n for call, n in real_runs[model].items() if not call.startswith(renamed)})


def recapturable():
    """Committed catalogs to capture again here: the smallest of each package, and the largest input."""
    chosen = {}
    for catalog in load_catalogs(["captured/"]):
        package = catalog.head.model.full_name.partition("/")[0]
        chosen.setdefault(package, catalog)
    return [*chosen.values(), *load_catalogs(["ultralytics-yolo12x-4320x7680"])]


@pytest.mark.parametrize("catalog", recapturable(), ids=lambda c: c.name)
def test_recapturing_a_committed_catalog_gives_the_same_bytes(captures, catalog):
    """All of them: ``ssinghal catalog recapture --check``."""
    head = catalog.head
    pins = (head.model.package, f"torch=={head.capture.torch}", *head.capture.packages)
    here = installed(*PACKAGES)
    if any(here.get(name) != pin for name, _, pin in (p.partition("==") for p in pins)):
        pytest.skip(f"was captured with {', '.join(pins)}")
    assert captures.capture(request_of(catalog)) == Path(catalog.path).read_text()


# What the committed catalogs must hold: facts of independent captures --------------------------------------------------------


def lines_of(name, overload):
    (catalog,) = load_catalogs([name])
    return catalog.sections[overload]


def test_the_mochi_decoder_has_its_known_calls():
    (catalog,) = load_catalogs(["diffusers-mochi-decoder-4x60x106"])
    assert (catalog.head.counts.calls, catalog.head.counts.cases) == (499, 87)
    (pad,) = [x for x in catalog.sections["aten.replication_pad3d.default"] if x.inputs["self"] == (1, 768, 4, 60, 106)]
    assert pad.n == 18


def test_the_cogvideox_decode_runs_the_decoder_for_two_latent_frames_at_a_time():
    """4 latent frames: every norm of the module twice, each time on half of its frames."""
    (decode,) = load_catalogs(["diffusers-cogvideox-decode-4x60x90"])
    (decoder,) = load_catalogs(["diffusers-cogvideox-decoder-4x60x90"])
    assert (decode.head.counts.calls, decoder.head.counts.calls) == (1095, 573)
    assert decode.head.model.params == decoder.head.model.params

    def norms(catalog):
        return Counter({line.inputs["input"]: line.n for line in catalog.sections["aten.native_group_norm.default"]})

    assert norms(decode) == {(n, c, frames // 2, h, w): 2 * calls for (n, c, frames, h, w), calls in norms(decoder).items()}


def test_yolo12x_attends_over_8160_positions_at_padded_4k():
    lines = lines_of("ultralytics-yolo12x-2176x3840", "aten.bmm.default")
    attends = {f"model.8.m.{block}.{part}.attn": 1 for block in range(4) for part in range(2)}
    assert [(x.n, x.at) for x in lines if x.out == ((12, 8160, 8160),)] == [(8, attends)]


def test_yolo12x_s_first_map_at_8k_has_1518_mib():
    (line,) = [x for x in lines_of("ultralytics-yolo12x-4320x7680", "aten.convolution.default") if x.at == "model.0.conv"]
    assert line.out == ((1, 96, 2160, 3840),)


def test_enough_models_and_sizes_are_committed():
    catalogs = load_catalogs(["captured/"])
    models = {c.head.model.full_name for c in catalogs}
    assert len(catalogs) >= 40
    assert len(models) >= 20
    assert len({case.key for case in expand(catalogs).cases}) >= 5_000
    sizes = {(c.head.model.full_name, c.input_size) for c in catalogs if c.head.capture.level == "aten"}
    assert sizes >= {
        *(("ultralytics/yolo12x", size) for size in ("640x640", "1280x1280", "2176x3840", "4320x7680")),
        ("ultralytics/yolov8s-world", "1280x800"),
        ("torchvision/swin_b", "1280x800"),
        ("torchvision/swin_v2_b", "1280x800"),
        ("torchvision/resnet50", "1280x800"),
        ("torchvision/vit_b_16", "224x224"),
        ("transformers/segformer-b0", "1280x800"),
        ("transformers/detr-resnet-50", "800x1280"),
        ("diffusers/mochi-decoder", "4x60x106"),
        ("diffusers/cogvideox-decoder", "4x60x90"),
    }
