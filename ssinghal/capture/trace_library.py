"""Finds traces by the name of their model: built-in ones, those kept from earlier captures, and new ones."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from ssinghal.capture.request import PACKAGES, CaptureRequest, Level
from ssinghal.capture.trace import SUFFIX, Trace, packed, read_trace, trace_of, trace_text
from ssinghal.core.cache_folder import cache_folder, filling_cache
from ssinghal.core.files import is_file, write_whole
from ssinghal.core.tensors import Shape, format_shape
from ssinghal.errors import InvalidCase, unknown

if TYPE_CHECKING:
    from ssinghal.capture.client import Captures

_PACKAGE = Path(__file__).parents[1]
SHIPPED = _PACKAGE / "shapes" / "traces"


def trace_files() -> list[Path]:
    """Returns the files of the built-in traces."""
    return sorted(SHIPPED.glob(f"*{SUFFIX}"))


def file_name(model: str, inputs: Sequence[Shape]) -> str:
    """Returns ``ultralytics-yolo12x-2176x3840.trace.json.gz``; all sizes of the first input if that is a batch or no map.

    >>> file_name("torchvision/resnet50", [(2, 3, 224, 224)])
    'torchvision-resnet50-2x3x224x224.trace.json.gz'
    """
    sizes = inputs[0]
    size = "x".join(map(str, sizes[2:] if len(sizes) > 3 and sizes[0] == 1 else sizes)) or "scalar"
    return f"{model.replace('/', '-').replace(':', '-')}-{size}{SUFFIX}"


def is_path(model: str) -> bool:
    """Whether this is a file, not a model."""
    return model.endswith((".json", ".gz")) or is_file(model)


def find_trace(model: str, inputs: Sequence[Shape] | None = None) -> Trace:
    """Returns the trace in a file, or a built-in one.

    A built-in trace is found by its model (``ultralytics/yolo12x``, or ``yolo12x`` where that is one model) and the shape of
    its first input, which may be left out if there is only one. InvalidCase lists what there is, and how to record the rest.
    """
    if is_path(model):
        trace = read_trace(Path(model))
        if inputs and tuple(inputs[0]) != trace.input_shapes[0]:
            raise InvalidCase(f"{model}: a trace of input {_shapes([trace])}, not {format_shape(tuple(inputs[0]))}")
        return trace
    name = full_name(model)
    traces = _shipped(name)
    if not traces:
        raise InvalidCase(f"{unknown('traced model', model, _shipped_models())}; any other: {_how(model, inputs)}")
    matching = [t for t in traces if not inputs or t.input_shapes[0] == tuple(inputs[0])]
    if not matching:
        shape = format_shape(tuple(inputs[0])) if inputs else ""
        raise InvalidCase(f"{name}: no trace of input {shape} is there, only of {_shapes(traces)}; {_how(name, inputs)}")
    if len(matching) > 1:
        raise InvalidCase(f"{name}: give its input; traces are there of {_shapes(matching)}")
    return matching[0]


def trace_for(model: str, inputs: Sequence[Shape] | None, captures: Captures) -> Trace:
    """Returns what ``find_trace`` does; if it has none, one kept from a capture by the same packages, else a new one.

    A new trace is kept. A factory, ``module:function``, is recorded each time, as its code may have changed. CaptureError if a
    model cannot be recorded.
    """
    if is_path(model):
        return find_trace(model, inputs)
    if ":" in model:
        shapes = tuple(map(tuple, inputs or ()))
        return trace_of(captures.capture(CaptureRequest(factory=model, inputs=shapes, level=Level.TORCH, trace=True)))
    name = full_name(model)
    traces = _shipped(name)
    if traces and (not inputs or tuple(inputs[0]) in {trace.input_shapes[0] for trace in traces}):
        return find_trace(name, inputs)
    if "/" not in name:
        raise InvalidCase(f"{unknown('traced model', model, _shipped_models())}; any other is named package/name")
    request = CaptureRequest(name, inputs=tuple(map(tuple, inputs or ())), level=Level.TORCH, trace=True)
    kept = kept_folder() / _kept_name(request)
    if kept.is_file():
        with suppress(InvalidCase):  # a damaged one is recorded again
            return read_trace(kept)
    text = captures.capture(request)
    with filling_cache("traces", "traces of models"):
        kept.parent.mkdir(parents=True, exist_ok=True)
        return write_trace(text, kept)


def full_name(model: str) -> str:
    """Returns ``ultralytics/yolo12x`` for ``yolo12x``, if one model with built-in traces has that name; else the name as it is.

    InvalidCase for a name that several packages have.
    """
    models = [name for name in _shipped_models() if model == name.partition("/")[2]]
    if len(models) > 1:
        raise InvalidCase(f"{model}: one of {', '.join(models)}?")
    return models[0] if models else model


def write_trace(text: str, target: Path) -> Trace:
    """Writes a recorded trace to ``target``, completely or not at all, as plain JSON if that is its suffix.

    In a folder it is named after its model and input, and replaces no file with another content. InvalidCase for a file that
    stands in the way, or a text that is no trace.
    """
    trace = trace_of(text, target)
    file = target / file_name(trace.model, trace.input_shapes) if target.is_dir() else target
    data = trace_text(trace).encode() if file.suffix == ".json" else packed(trace)
    if file.exists() and not file.is_file():
        raise InvalidCase(f"{file} is no file that could be replaced")
    if not file.parent.is_dir():
        raise InvalidCase(f"{file}: there is no folder {file.parent}")
    if file != target and file.exists() and file.read_bytes() != data:
        raise InvalidCase(f"{file} is there already and differs: name the file with -o")
    write_whole(file, data)
    return replace(trace, path=file)


def trace_request(trace: Trace) -> CaptureRequest:
    """Returns the request that a trace was recorded by."""
    if "factory" in trace.head["model"]:
        return CaptureRequest(factory=trace.model, inputs=trace.input_shapes[:1], level=Level.TORCH, trace=True)
    return CaptureRequest(trace.model, inputs=trace.input_shapes[:1], level=Level.TORCH, trace=True)


# Kept traces --------------------------------------------------------------------------------------------------------------


def kept_folder() -> Path:
    """Returns the folder where traces of further models are kept."""
    return cache_folder("traces")


def _kept_name(request: CaptureRequest) -> str:
    """Returns a name that changes with the model, its input, the packages that affect the recording, and the recorder."""
    package = request.model.partition("/")[0]
    versions = [f"{name}=={_version(name)}" for name in ("torch", package, *PACKAGES[package][1])]
    mark = hashlib.sha256(repr((request.to_json(), versions, _recorder_mark())).encode()).hexdigest()[:12]
    return file_name(request.model, request.inputs).removesuffix(SUFFIX) + f"-{mark}{SUFFIX}"


@cache
def _recorder_mark() -> str:
    files = [_PACKAGE / "operators" / "unsupported.py", *sorted((_PACKAGE / "capture").rglob("*.py"))]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


# Built-in traces --------------------------------------------------------------------------------------------------------


def _shipped(model: str) -> list[Trace]:
    """Returns the built-in traces of this model, small inputs first."""
    files = [file for file in trace_files() if _model_of(file) == model]
    return sorted(map(_read_shipped, files), key=lambda trace: (math.prod(trace.input_shapes[0]), trace.path.name))


def _shipped_models() -> list[str]:
    return list(dict.fromkeys(map(_model_of, trace_files())))


def _model_of(file: Path) -> str:
    """Reads the model off the name that ``file_name`` gave; neither package nor size has a hyphen."""
    package, _, rest = file.name.partition("-")
    return f"{package}/{rest.rpartition('-')[0]}"


@cache
def _read_shipped(file: Path) -> Trace:
    return read_trace(file)


def _how(model: str, inputs: Sequence[Shape] | None) -> str:
    size = ",".join(map(str, inputs[0])) if inputs else "SHAPE"
    extra = PACKAGES.get(model.partition("/")[0], ("capture",))[0]
    return f"record it: ssinghal catalog capture {model} --input {size} --trace (needs pip install 'ssinghal[{extra}]')"


def _shapes(traces: Sequence[Trace]) -> str:
    return ", ".join(format_shape(trace.input_shapes[0]) for trace in traces)
