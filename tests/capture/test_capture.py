"""Capture: what a model's forward calls, recorded without weights and without running it."""

import json
import os
import subprocess
import sys
import textwrap

import pytest

from ssinghal.capture.catalog_lines import Operand, RecordedCall, merged
from ssinghal.capture.client import Captures, request_of, write_capture
from ssinghal.capture.request import CaptureRequest, Level
from ssinghal.catalog.captured import CapturedCatalog, CapturedLine
from ssinghal.catalog.loader import catalog_files
from ssinghal.catalog.writer import flow
from ssinghal.errors import CaptureError, CaptureUnavailable, CatalogError, InvalidCase
from tests.support.packages import needs_torch

# Text and lines ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e-05, "1.0e-05"),
        (0.1767766952966369, "0.1767766952966369"),
        (2.5e-7, "2.5e-07"),
        (float("-inf"), "-.inf"),
        (1.0, "1.0"),
        (True, "true"),
        (None, "null"),
        ("model.8.m.0.0.attn", "model.8.m.0.0.attn"),
        ("0", '"0"'),
        ("0.1", '"0.1"'),
        ("2.14.1", "2.14.1"),
        ("no", '"no"'),
        ("a: b", '"a: b"'),
        ("𝄞 ü", '"𝄞 ü"'),
        ({"n": 2, "in": {"self": (1, 2)}}, "{n: 2, in: {self: [1, 2]}}"),
    ],
)
def test_a_value_is_written_so_that_yaml_reads_it_back(value, text):
    import yaml

    assert flow(value) == text
    read = yaml.safe_load(text)
    assert json.loads(json.dumps(value)) == read


def call(shape=(1, 2), at="a", args=None, dtype="bfloat16", constant=False, overload="aten.add.Tensor"):
    other = Operand("other", shape, dtype, constant)
    return RecordedCall(overload, (Operand("self", (1, 2), "bfloat16", False), other), args or {}, (1, 2), "bfloat16", at)


def test_equal_calls_are_one_line_with_the_number_that_each_module_makes():
    calls = [call(at="second"), call((2,)), call(at="first"), call(at="second"), call((3,), at="b"), call((3,), at="b")]
    lines = merged(calls, "bfloat16")["aten.add.Tensor"]
    assert [(line["n"], line["at"], line["in"]["other"]) for line in lines] == [
        (3, {"second": 2, "first": 1}, (1, 2)),
        (1, "a", (2,)),
        (2, {"b": 2}, (3,)),
    ]
    assert list(lines[0]["at"]) == ["second", "first"]  # in the order of their first calls
    assert not any("more" in line for line in lines)


def test_modules_beyond_the_bound_are_counted():
    """70 modules, the last six of which make 1 + 2 + … + 6 calls."""
    places = [f"block.{i}" for i in range(64)] + [f"late.{i}" for i in range(6) for _ in range(i + 1)]
    (line,) = merged([call(at=place) for place in places], "bfloat16")["aten.add.Tensor"]
    assert (line["n"], line["at"]) == (64 + 21, {f"block.{i}": 1 for i in range(64)})
    assert line["more"] == {"modules": 6, "calls": 21}
    read = CapturedLine.model_validate({**json.loads(json.dumps(line))})
    assert (len(read.source("c", "m", "8").modules), read.source("c", "m", "8").other_modules) == (64, 6)


@pytest.mark.parametrize("other", [call(args={"alpha": 2}), call(dtype="float32"), call(constant=True), call((2,))])
def test_calls_that_differ_in_anything_but_their_place_are_two_lines(other):
    assert len(merged([call(), other], "bfloat16")["aten.add.Tensor"]) == 2


def test_lines_do_not_depend_on_the_order_of_calls():
    calls = [call((i,), args={"alpha": a}) for i in (10, 9, 2, 1) for a in (2, 1)]
    assert [line["in"]["other"] for line in merged(calls, "bfloat16")["aten.add.Tensor"]] == [
        (i,) for i in (1, 1, 2, 2, 9, 9, 10, 10)
    ]
    assert merged(calls, "bfloat16") == merged(reversed(calls), "bfloat16")


def test_what_every_convolution_says_is_left_out():
    args = {"stride": [2, 2], "padding": [1, 1], "dilation": [1, 1], "transposed": False, "output_padding": [0, 0], "groups": 1}
    plain = call(args=args, overload="aten.convolution.default").line("bfloat16")
    assert plain["args"] == {"stride": [2, 2], "padding": [1, 1]}
    grouped = call(args={**args, "groups": 2, "dilation": [1, 2]}, overload="aten.convolution.default").line("bfloat16")
    assert grouped["args"] == {"stride": [2, 2], "padding": [1, 1], "dilation": [1, 2], "groups": 2}


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({}, "give either a model"),
        ({"model": "torchvision/resnet18"}, "--input is missing"),
        ({"model": "torchvision/resnet18", "factory": "a:b", "inputs": ((1,),)}, "give either a model"),
        ({"model": "torchvision/resnet18", "inputs": ((1, 3, 0, 64),)}, "size 0 of the input"),
        ({"factory": "my_models/unet.py:small"}, "expected package.module:function"),
        ({"factory": "broken"}, "expected package.module:function"),
        ({"model": "torchvison/resnet50", "inputs": ((1,),)}, "did you mean torchvision"),
        ({"model": "resnet50", "inputs": ((1,),)}, "models are named package/name"),
        ({"model": "torchvison/resnet50"}, "did you mean torchvision"),
        ({"model": "resnet50"}, "models are named package/name"),
    ],
)
def test_a_request_that_contradicts_itself_is_rejected(fields, fault):
    with pytest.raises(CaptureError, match=fault):
        CaptureRequest(**fields)


# Factories: the user's own models -----------------------------------------------------------------------------------------

MODULE = """
    import os, socket, torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 8, 3, stride=2, padding=1)
            self.act = nn.ReLU(inplace=True)
            self.head = nn.Linear(8, 5)
            self.register_buffer("scale", torch.full((8,), 2.0))

        def forward(self, x):
            x = self.act(self.conv(x)) * self.scale.reshape(1, 8, 1, 1)
            parts = torch.split(x, 6, dim=1)
            self.extra(x)
            return self.head(torch.cat(parts, 1).mean((2, 3)))

        def extra(self, x):
            pass

    def net(cls=Net):
        return cls(), torch.empty(2, 3, 32, 16)
"""


@pytest.fixture
def capture_mine(captures, tmp_path, monkeypatch):
    """The text captured from ``factory`` of a module that holds MODULE and ``more``."""

    def capture(factory="net", more="", level=Level.ATEN):
        (tmp_path / "mine.py").write_text(textwrap.dedent(MODULE) + textwrap.dedent(more))
        monkeypatch.chdir(tmp_path)
        return captures.capture(CaptureRequest(factory=f"mine:{factory}", level=level))

    return capture


def captured(text, tmp_path) -> CapturedCatalog:
    return write_capture(text, tmp_path)


def rejection(capture_mine, more):
    with pytest.raises(CaptureError) as error:
        capture_mine("bad", more)
    assert "\n" not in str(error.value)
    return str(error.value)


@needs_torch
def test_a_factory_s_calls_with_shapes_roles_arguments_and_paths(capture_mine, tmp_path):
    """Written out: the model is read from top to bottom, sizes by the formulas of convolution (floor((32+2-3)/2)+1 = 16)."""
    catalog = captured(capture_mine(), tmp_path)
    seen = {
        (overload, tuple(line.inputs.values()), line.w, tuple(line.args), line.out, line.at)
        for overload, lines in catalog.sections.items()
        for line in lines
    }
    x, y = (2, 3, 32, 16), (2, 8, 16, 8)
    assert seen == {
        ("aten.convolution.default", (x, (8, 3, 3, 3), (8,)), ("weight", "bias"), ("stride", "padding"), (y,), "conv"),
        ("aten.relu_.default", (y,), (), (), (y,), "act"),
        ("aten.mul.Tensor", (y, (1, 8, 1, 1)), ("other",), (), (y,), "(top)"),
        ("aten.split.Tensor", (y,), (), ("split_size", "dim"), ((2, 6, 16, 8), (2, 2, 16, 8)), "(top)"),
        ("aten.cat.default", (((2, 6, 16, 8), (2, 2, 16, 8)),), (), ("dim",), (y,), "(top)"),
        ("aten.mean.dim", (y,), (), ("dim",), ((2, 8),), "(top)"),
        ("aten.addmm.default", ((5,), (2, 8), (8, 5)), ("self", "mat2"), (), ((2, 5),), "head"),
    }
    head = catalog.head
    assert (head.counts.calls, head.counts.cases) == (7, 7)
    assert head.counts.left_out == {"constants": 2}  # the buffer's view, the weight's transpose
    assert head.model.params == 3 * 8 * 9 + 8 + 8 * 5 + 5
    assert (head.model.factory, head.model.package, head.input.shapes) == ("mine:net", "mine==local", (x,))
    assert catalog.path == tmp_path / "mine-net-2x3x32x16.yaml"


@needs_torch
def test_inputs_by_name_reach_forward_by_name_each_with_its_dtype(capture_mine, tmp_path):
    more = """
    class Two(Net):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(10, 8)
        def forward(self, *, tokens, image):
            return super().forward(image) + self.table(tokens).sum(1)[:, :5]

    def bad(): return Two(), {"image": torch.empty(2, 3, 32, 16), "tokens": torch.zeros(2, 7, dtype=torch.int64)}
    """
    head = captured(capture_mine("bad", more), tmp_path).head
    assert (head.input.shapes, head.input.dtypes) == (((2, 3, 32, 16), (2, 7)), ("bfloat16", "int64"))


@needs_torch
def test_the_torch_level_records_what_the_code_calls(capture_mine, tmp_path):
    catalog = captured(capture_mine(level=Level.TORCH), tmp_path)
    assert {"aten.conv2d.default", "aten.linear.default"} <= set(catalog.sections)
    assert not {"aten.convolution.default", "aten.addmm.default"} & set(catalog.sections)
    assert catalog.path.name == "mine-net-2x3x32x16-torch.yaml"
    assert request_of(catalog) == CaptureRequest(factory="mine:net", inputs=((2, 3, 32, 16),), level=Level.TORCH)


@needs_torch
def test_the_same_capture_gives_the_same_bytes(capture_mine):
    assert capture_mine() == capture_mine()


@needs_torch
def test_what_is_written_into_a_buffer_in_place_is_an_activation_from_then_on(capture_mine, tmp_path):
    more = """
    class Filled(Net):
        def extra(self, x):
            room = x.new_zeros(2, 8, 16, 16)
            room.neg()
            room[..., :8].copy_(x)
            room.abs()

    def bad(): return net(Filled)
    """
    catalog = captured(capture_mine("bad", more), tmp_path)
    assert "aten.abs.default" in catalog.sections
    assert "aten.neg.default" not in catalog.sections


@needs_torch
@pytest.mark.parametrize("level", Level)
def test_a_value_read_back_is_guessed_counted_and_named(capture_mine, tmp_path, level):
    more = """
    class Reads(Net):
        def extra(self, x):
            if (x > 0).any() and int(self.scale.sum()) and torch.tensor([3.0]).item() == 3.0:
                self.act(x)

    def bad(): return net(Reads)
    """
    catalog = captured(capture_mine("bad", more, level), tmp_path)
    assert catalog.head.capture.guesses == {"(top)": 2}  # any() and the sum; the literal has its value
    assert catalog.sections["aten.relu_.default"][0].n == 2


@needs_torch
def test_a_call_whose_shape_depends_on_values_ends_the_recording_and_the_catalog_names_the_place(capture_mine, tmp_path):
    more = """
    class Head(nn.Module):
        def forward(self, x): return x[x > 0]

    class Boxes(Net):
        def __init__(self):
            super().__init__()
            self.boxes = Head()
        def extra(self, x): self.boxes(x)

    def bad(): return net(Boxes)
    """
    catalog = captured(capture_mine("bad", more), tmp_path)
    assert "in boxes: aten.index.Tensor cannot be told from shapes alone" in catalog.head.capture.stopped
    assert "aten.convolution.default" in catalog.sections
    assert "aten.addmm.default" not in catalog.sections


@needs_torch
def test_what_is_written_into_a_tensor_made_without_a_device_is_followed_too(capture_mine, tmp_path):
    """On the CPU, where a model runs by default, these are activations like any other."""
    more = """
    class Writes(Net):
        def extra(self, x):
            made = torch.zeros(2, 8, 16, 8)
            made[:] = x
            made.abs()
            given = torch.tensor([[1.0] * 8] * 2)
            given.add_(x.mean((2, 3)))
            given.neg()
            if given.sum() > 0: given.sqrt()

    def bad(): return net(Writes)
    """
    catalog = captured(capture_mine("bad", more), tmp_path)
    assert {"aten.abs.default", "aten.neg.default", "aten.sqrt.default"} <= set(catalog.sections)
    assert catalog.head.capture.guessed == 1


@needs_torch
def test_a_constant_written_into_a_tensor_makes_no_activation_of_it(capture_mine, tmp_path):
    more = """
    class Writes(Net):
        def extra(self, x):
            given = torch.tensor([1.0] * 8)
            given.mul_(self.scale)
            given.exp()

    def bad(): return net(Writes)
    """
    catalog = captured(capture_mine("bad", more), tmp_path)
    assert not {"aten.mul_.Tensor", "aten.exp.default"} & set(catalog.sections)
    assert catalog.head.counts.calls == 7


@needs_torch
def test_what_is_written_by_a_call_without_a_result_is_an_activation_too(capture_mine, tmp_path):
    more = """
    class Each(Net):
        def extra(self, x):
            room = x.new_zeros(2, 8, 16, 8)
            torch._foreach_add_([room], [x])
            room.abs()

    def bad(): return net(Each)
    """
    catalog = captured(capture_mine("bad", more), tmp_path)
    assert "aten.abs.default" in catalog.sections
    assert catalog.head.counts.left_out["without_result"] == 1


@needs_torch
def test_a_call_of_unknown_result_is_named_also_where_the_model_goes_on(capture_mine, tmp_path):
    more = """
    class Swallows(Net):
        def extra(self, x):
            try: x[x > 0]
            except Exception: pass
            x.abs()

    def bad(): return net(Swallows)
    """
    catalog = captured(capture_mine("bad", more), tmp_path)
    assert "in (top): aten.index.Tensor cannot be told from shapes alone; the model goes on" in catalog.head.capture.stopped
    assert {"aten.abs.default", "aten.addmm.default"} <= set(catalog.sections)


@needs_torch
def test_modules_that_are_no_part_of_the_model_are_taken_as_bfloat16_too(capture_mine, tmp_path):
    more = """
    class Holder(nn.Module):
        def __init__(self):
            super().__init__()
            self.kept = [nn.Conv2d(8, 8, 1)]
        def forward(self, x): return self.kept[0](x)

    class Strange(Net):
        def __init__(self):
            super().__init__()
            self.holder = Holder()
        def extra(self, x): self.holder(x)

    def bad(): return net(Strange)
    """
    lines = captured(capture_mine("bad", more), tmp_path).sections["aten.convolution.default"]
    assert [(x.at, x.dtypes) for x in lines] == [("conv", {}), ("holder", {})]


@needs_torch
def test_the_path_is_right_after_an_exception_that_the_model_caught(capture_mine, tmp_path):
    more = """
    class Catches(Net):
        def extra(self, x):
            try: self.head(x)
            except RuntimeError: pass
            x.abs()

    def bad(): return net(Catches)
    """
    (line,) = captured(capture_mine("bad", more), tmp_path).sections["aten.abs.default"]
    assert line.at == "(top)"


@needs_torch
def test_a_list_of_activations_and_weights_is_an_activation(capture_mine, tmp_path):
    more = """
    class Mixed(Net):
        def extra(self, x): torch.cat([self.scale.reshape(1, 8, 1, 1).expand(2, 8, 16, 8), x], 1)

    def bad(): return net(Mixed)
    """
    lines = captured(capture_mine("bad", more), tmp_path).sections["aten.cat.default"]
    assert [line.w for line in lines] == [(), ()]


@needs_torch
def test_calls_that_no_line_can_hold_are_left_out_by_number(capture_mine, tmp_path):
    more = """
    class Odd(Net):
        def extra(self, x):
            torch._assert_async((x == x).all())
            x.reshape(2, 1, 2, 1, 2, 1, 2, 16, 8).abs()

    def bad(): return net(Odd)
    """
    left_out = captured(capture_mine("bad", more), tmp_path).head.counts.left_out
    assert left_out == {"beyond_catalogs": 2, "constants": 2, "without_result": 1}


@needs_torch
def test_processes_that_a_factory_makes_do_not_answer_for_it(capture_mine, tmp_path):
    more = "\ndef bad():\n    if os.fork() == 0: import time; time.sleep(30)\n    return net()\n"
    assert captured(capture_mine("bad", more), tmp_path).head.counts.calls == 7
    more = "\ndef bad():\n    os.fork()\n    return net()\n"
    assert capture_mine("bad", more).startswith("# Every call")


@needs_torch
def test_code_that_loops_without_end_is_recorded_up_to_a_limit(capture_mine, tmp_path):
    more = """
    class Loops(Net):
        def extra(self, x):
            while True: x = x + 1

    def bad(): return net(Loops)
    """
    catalog = captured(capture_mine("bad", more), tmp_path)
    assert catalog.head.counts.calls == 20_000
    assert "after 20000 calls" in catalog.head.capture.stopped


@needs_torch
@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("def bad(): return 5", "returned an int; expected (torch.nn.Module, inputs)"),
        ("def bad(): return Net(), 'x'", "inputs are a str; expected a tensor, or a tuple or dict of tensors"),
        ("def bad(): return Net(), ()", "inputs are a tuple of ()"),
        ("bad = 5", "mine has no function bad"),
        ("import not_installed_here", "while it is built: ModuleNotFoundError: No module named 'not_installed_here'"),
        ("def bad(): return Net(), torch.empty(2, 4, 32, 16)", "in conv: RuntimeError"),
        ("def bad(): return Net(), torch.empty(2, 3)", "in conv: RuntimeError"),
        ("def bad(): raise KeyError('x')", "while it is built: KeyError"),
        ("def bad(): os._exit(3)", "its process ended with code 3"),
        ("def bad(): os.kill(os.getpid(), 9)", "its process was ended by SIGKILL"),
        (
            "def bad(): from huggingface_hub import hf_hub_download as f; f('a/b', 'c.safetensors')",
            "loads weights or a configuration",
        ),
        ("def bad(): return nn.Identity(), torch.empty(1, 3)", "makes no call on its inputs"),
    ],
)
def test_a_factory_that_does_wrong_is_one_line(capture_mine, tmp_path, more, says):
    assert says in rejection(capture_mine, more)
    assert {p.name for p in tmp_path.iterdir()} <= {"mine.py", "__pycache__"}


@needs_torch
@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("torch.load('w.pt')", "loads weights (w.pt)"),
        ("torch.load('w.pt', weights_only=True)", "loads weights (w.pt)"),
        ("torch.jit.load('w.pt')", "loads weights (w.pt)"),
        ("torch.load(__import__('io').BytesIO(b'x'))", "loads weights (from memory)"),
        ("__import__('safetensors.torch').torch.load_file('w.safetensors')", "loads weights (w.safetensors)"),
        ("open('W.BIN', 'rb')", "loads weights (W.BIN)"),
        ("open('w.bin', 'rb')", "loads weights (w.bin)"),
        ("socket.create_connection(('127.0.0.1', 1))", "opens a network connection"),
        ("torch.hub.load_state_dict_from_url('http://localhost/w.pth')", "opens a network connection"),
    ],
)
@pytest.mark.parametrize("swallowed", [False, True])
def test_a_factory_that_wants_weights_or_a_network_is_one_line(capture_mine, tmp_path, body, says, swallowed):
    """Also where it goes on without them: what it would build with them is another model."""
    (tmp_path / "w.pt").write_bytes(b"")
    (tmp_path / "w.bin").write_bytes(b"")
    attempt = f"try: {body}\n        except Exception: pass" if swallowed else body
    assert says in rejection(capture_mine, f"\n    def bad():\n        {attempt}\n        return net()\n")


@needs_torch
def test_a_factory_that_cannot_be_imported_is_one_line(captures, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.py").write_text("import nothing_of_that_name")
    for factory, says in {
        "absent:f": "no module absent in this folder or the environment",
        "broken:f": "No module named 'nothing_of_that_name'",
    }.items():
        with pytest.raises(CaptureError, match=says):
            captures.capture(CaptureRequest(factory=factory))


SHAPES = """
    def takes(*shape): return net()[0], torch.empty(shape)
    def sizes(n, c, h, w=None): return net()[0], torch.empty(n, c, h, w or h)
    def stuck(*shape): return net()
    class Sum(nn.Module):
        def forward(self, x): return x.abs().sum(0)
    def summed(): return Sum(), torch.empty(2, 4)
    class Several(nn.Module):
        def forward(self, x, time, mask): return x * mask + time.to(x.dtype)[:, None], (x[:1].expand(len(x), 4),)
    def several(): return Several(), (torch.empty(2, 4), torch.zeros(2, dtype=torch.int64), torch.empty(1, 4))
"""


@needs_torch
@pytest.mark.parametrize(
    ("factory", "shape", "inputs"),
    [
        ("takes", (4, 3, 16, 48), ((4, 3, 16, 48),)),
        ("sizes", (4, 3, 16, 48), ((4, 3, 16, 48),)),
        ("sizes", (4, 3, 16), ((4, 3, 16, 16),)),
        ("net", (2, 3, 32, 16), ((2, 3, 32, 16),)),
        ("net", (7, 3, 32, 16), ((7, 3, 32, 16),)),
        ("several", (5, 4), ((5, 4), (5,), (1, 4))),
    ],
)
def test_a_factory_takes_a_shape_or_another_batch(captures, capture_mine, tmp_path, factory, shape, inputs):
    capture_mine(more=SHAPES)
    request = CaptureRequest(factory=f"mine:{factory}", inputs=(shape,))
    if len(shape) == 3:
        with pytest.raises(CaptureUnavailable, match="returned a first input of"):
            captures.capture(request)
        return
    catalog = captured(captures.capture(request), tmp_path)
    assert catalog.head.input.shapes == inputs
    assert request_of(catalog) == request


@needs_torch
@pytest.mark.parametrize(
    ("factory", "shape", "says"),
    [
        (
            "net",
            (2, 3, 64, 16),
            "brings an input [2,3,32,16], not [2,3,64,16]; for other inputs let it take the shape: def ne",
        ),
        ("takes", None, "takes the shape of its input: give --input"),
        ("sizes", (1, 3), "cannot be called with the sizes of [1,3]: missing a required argument: 'h'"),
        ("stuck", (1, 3, 8, 8), "called with [1,3,8,8], it returned a first input of [2,3,32,16]"),
        ("summed", (6, 4), "its results do not follow the batch: [4] at 2, [4] at 6"),
        ("nothing", (6, 4), "has no function nothing"),
    ],
)
def test_an_input_that_a_factory_cannot_have_is_one_line(captures, capture_mine, factory, shape, says):
    capture_mine(more=SHAPES)
    with pytest.raises(CaptureUnavailable) as error:
        captures.capture(CaptureRequest(factory=f"mine:{factory}", inputs=(shape,) if shape else ()))
    assert says in str(error.value)
    assert "\n" not in str(error.value)


@needs_torch
def test_another_batch_makes_the_calls_that_the_model_makes_there(captures, capture_mine, tmp_path):
    """The same as a factory that brings this batch."""
    capture_mine(more="def other(): return Net(), torch.empty(6, 3, 32, 16)")
    scaled = captures.capture(CaptureRequest(factory="mine:net", inputs=((6, 3, 32, 16),)))
    brought = captures.capture(CaptureRequest(factory="mine:other"))
    assert scaled == brought.replace("mine:other", "mine:net").replace("name: other", "name: net")


@needs_torch
def test_a_capture_that_takes_too_long_is_one_line(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("import time\ndef f(): time.sleep(600)")
    monkeypatch.chdir(tmp_path)
    with Captures(timeout_s=1) as captures, pytest.raises(CaptureError, match="not done after 1 s"):
        captures.capture(CaptureRequest(factory="mine:f"))


@needs_torch
def test_another_capture_is_not_overwritten_unless_named(capture_mine, tmp_path):
    text = capture_mine()
    file = captured(text, tmp_path).path
    assert captured(text, tmp_path).path == file
    file.write_text("mine")
    with pytest.raises(InvalidCase, match="is there already and differs"):
        captured(text, tmp_path)
    assert file.read_text() == "mine"
    assert write_capture(text, file).path == file


def test_only_files_are_replaced_and_links_go_on_pointing(tmp_path):
    text = catalog_files()["captured/torchvision-resnet50-224x224"].read_text()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidCase, match="no file that could be replaced"):
        write_capture(text, tmp_path / "pipe")
    (tmp_path / "real.yaml").write_text("")
    (tmp_path / "link.yaml").symlink_to("real.yaml")
    write_capture(text, tmp_path / "link.yaml")
    assert (tmp_path / "link.yaml").is_symlink()
    assert (tmp_path / "real.yaml").read_text() == text


def test_text_that_is_no_right_catalog_leaves_no_file(tmp_path):
    target = tmp_path / "a.yaml"
    with pytest.raises(CatalogError, match=f"{target}:"):
        write_capture("schema: 1\nkind: captured\n", target)
    assert not list(tmp_path.iterdir())


# The command --------------------------------------------------------------------------------------------------------------


def cli(*arguments, cwd):
    command = [sys.executable, "-m", "ssinghal", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=600)


@needs_torch
def test_the_command_writes_a_catalog_or_one_line(tmp_path):
    (tmp_path / "mine.py").write_text(textwrap.dedent(MODULE))
    done = cli("catalog", "capture", "--factory", "mine:net", "-o", "net.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "net.yaml: 7 calls in 7 lines"
    before = (tmp_path / "net.yaml").read_bytes()
    failed = cli("catalog", "capture", "--factory", "mine:nothing", "-o", "net.yaml", cwd=tmp_path)
    assert (failed.returncode, failed.stderr) == (2, "ssinghal: factory mine:nothing: mine has no function nothing\n")
    failed = cli("catalog", "capture", "--factory", "mein:net", "-o", "net.yaml", cwd=tmp_path)
    expected = "ssinghal: factory mein:net: no module mein in this folder or the environment\n"
    assert (failed.returncode, failed.stderr) == (2, expected)
    assert (tmp_path / "net.yaml").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["torchvision/resnet18"], "--input is missing"),
        (["torchvision/resnet18", "--input", "a,b"], "expected whole numbers"),
        (["torchvision/resnet18", "--input", "1,3,64,64", "--level", "onnx"], "unknown level 'onnx'"),
        (["torchvision/resnet18", "--input", "1,3,64,64", "-o", "no/such/file.yaml"], "there is no folder no/such"),
        ([], "give either a model"),
    ],
)
def test_bad_use_of_the_command_is_one_line(tmp_path, arguments, says):
    done = cli("catalog", "capture", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir())
