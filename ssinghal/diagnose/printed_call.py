"""Reads a line in which TTNN prints a call with its tensors and attributes: its own log, a graph, a dump of ``ttnn::prim``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ssinghal.diagnose.cpp_names import functions_of_frame
from ssinghal.diagnose.model import MlirValue
from ssinghal.diagnose.parse.brackets import bracketed
from ssinghal.diagnose.printed import tensors_in, with_closed_ranges
from ssinghal.diagnose.running_function import functions_called

TENSOR = "Tensor(storage="
_OPERATION = re.compile(r"(?<!::)\b(\w+DeviceOperation)\b")
_PYTHON = re.compile(r"\bttnn\.[a-z_][\w.]*")
_OBJECT = re.compile(r"(?:\b(?P<name>\w+)=)?\b(?P<kind>Tensor|MemoryConfig|\w*(?:Program|Kernel|Conv1d|Conv2d|Slice)Config)\(")
_DTYPE = re.compile(r"\b(?:output_)?dtype=(?P<dtype>DataType::\w+)")
# Names of arguments that the classes of their values imply, as newer releases print no names.
_BY_CLASS: Mapping[str, str] = {
    "MemoryConfig": "memory_config",
    "ProgramConfig": "program_config",
    "KernelConfig": "compute_kernel_config",
    "Conv1dConfig": "conv_config",
    "Conv2dConfig": "conv_config",
    "SliceConfig": "slice_config",
}


@dataclass(frozen=True)
class PrintedCall:
    """``functions``: of TTNN that may be printed, the likeliest first. ``arguments``: by name, as printed."""

    tensors: tuple[MlirValue, ...] = ()
    functions: tuple[str, ...] = ()
    arguments: Mapping[str, str] = field(default_factory=dict)


def printed_call(line: str) -> PrintedCall | None:
    """Returns the call that a line prints; None where it names no function of TTNN, or prints a tensor in part."""
    text = with_closed_ranges(line.replace('\\"', '"'))
    tensors = tensors_in(text)
    functions = _functions(text)
    if not tensors or not functions:
        return None
    return PrintedCall(tensors, functions, _arguments(text))


def _functions(text: str) -> tuple[str, ...]:
    if operation := _OPERATION.search(text):
        return functions_of_frame(f"ttnn::prim::{operation[1]}")
    if python := _PYTHON.search(text):
        return functions_called(f"{python[0]}()")
    return functions_of_frame(text)


def _arguments(text: str) -> dict[str, str]:
    """Returns configs outside tensors, and the dtype of the result."""
    found: dict[str, str] = {}
    rest, at = "", 0
    while match := _OBJECT.search(text, at):
        inner, _ = bracketed(text, match.end() - 1)
        end = match.end() + len(inner) + 1
        rest += text[at : match.start()]
        at = end
        if match["kind"] == "Tensor":
            continue
        suffix = next(one for one in _BY_CLASS if match["kind"].endswith(one))
        found.setdefault(_BY_CLASS[suffix], f"{match['kind']}({inner})")
    if dtype := _DTYPE.search(rest + text[at:]):
        found["dtype"] = dtype["dtype"]
    return found
