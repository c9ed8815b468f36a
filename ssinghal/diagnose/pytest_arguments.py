"""The tensors that pytest shows as the arguments of TTNN's own Python, with shape, dtype and layout; their memory it does not.

It cuts the middle out of long arguments. What is left names all operands only where the user's line says how many there are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ssinghal.core.tensors import DType, Layout, TensorSpec
from ssinghal.diagnose.parse.mlir import split
from ssinghal.diagnose.running_function import arguments_of_call
from ssinghal.errors import InvalidCase

LINES_LIMIT = 400  # of arguments that are read; pytest shows more only where it is asked to cut nothing

_BEGINS = "function_args = ("
_ENDS = "function_kwargs = "
_TENSOR = "ttnn.Tensor("
_SHOWN = re.compile(
    r"shape=Shape\(\[(?P<shape>[\d, ]{1,200})\]\), dtype=DataType::(?P<dtype>\w+), layout=Layout::(?P<layout>\w+)\)"
)
_CUT = re.compile(r"\.\.\.(?!,)")  # of pytest; in a tensor's values a comma follows


@dataclass
class Arguments:
    """Put together line by line. ``is_open``: more lines of them are to come."""

    is_open: bool = False
    _lines: list[str] = field(default_factory=list)
    _keywords: str = ""

    def feed(self, body: str) -> bool:
        """Whether the line is one of the arguments."""
        if body.startswith(_BEGINS):
            self.is_open, self._lines, self._keywords = True, [body.removeprefix(_BEGINS)], ""
        elif self._lines and body.startswith(_ENDS):
            self.is_open, self._keywords = False, body
        elif self.is_open and len(self._lines) < LINES_LIMIT:
            self._lines.append(body)
        else:
            self.is_open = False
            return False
        return True

    def clear(self) -> None:
        self.is_open, self._lines, self._keywords = False, [], ""

    def tensors(self, source: str) -> tuple[TensorSpec, ...]:
        """In their order; none where the call in ``source`` may have had others. An operand given by name is one."""
        if not self._keywords or _TENSOR in self._keywords or _CUT.search(self._keywords):
            return ()
        text = " ".join(self._lines)
        cut = _CUT.search(text)
        shown = text[cut.end() :] if cut else text
        found = list(_SHOWN.finditer(shown))
        if not found or not (_are_all(text, shown[found[0].end() :], source) if cut else text.count(_TENSOR) == len(found)):
            return ()
        specs = [_spec(one) for one in found]
        return tuple(spec for spec in specs if spec is not None) if None not in specs else ()


def _are_all(text: str, after: str, source: str) -> bool:
    """Whether the tensor whose end is the first shown is the first argument: ``after`` has the others, and ``source`` tells how
    many there were."""
    given = arguments_of_call(source)
    others = split(after.rstrip().removesuffix(")").lstrip(" ,"))
    return text.startswith(_TENSOR) and given is not None and len(given) == 1 + len(others)


def _spec(found: re.Match[str]) -> TensorSpec | None:
    try:
        shape = tuple(int(size) for size in found["shape"].split(","))
        return TensorSpec(shape, DType(found["dtype"].lower()), Layout(found["layout"].lower()))
    except (ValueError, InvalidCase):
        return None
