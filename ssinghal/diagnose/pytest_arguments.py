"""Reads the tensors that pytest shows as arguments of TTNN's own Python: shape, dtype and layout, but no memory.

It cuts the middle out of long arguments. The rest names all operands only where the user's line shows how many there are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ssinghal.core.tensors import DType, Layout, TensorSpec
from ssinghal.diagnose.call_arguments import printed_keywords
from ssinghal.diagnose.parse.brackets import split
from ssinghal.diagnose.running_function import arguments_of_call
from ssinghal.errors import InvalidCase

LINES_LIMIT = 400  # of arguments that are read; pytest shows more only if told to cut nothing

_BEGINS = "function_args = ("
_ENDS = "function_kwargs = "
_TENSOR = "ttnn.Tensor("
_SHOWN = re.compile(
    r"shape=Shape\(\[(?P<shape>[\d, ]{1,200})\]\), dtype=DataType::(?P<dtype>\w+), layout=Layout::(?P<layout>\w+)\)"
)
_CUT = re.compile(r"\.\.\.(?!,)")  # by pytest; in a tensor's values a comma follows


@dataclass
class Arguments:
    """Collects the arguments line by line. ``is_open``: more of their lines are to come."""

    is_open: bool = False
    _lines: list[str] = field(default_factory=list)
    _keywords: str = ""

    def feed(self, body: str) -> bool:
        """Takes the line if it belongs to the arguments; returns whether it does."""
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

    @property
    def keywords(self) -> dict[str, str]:
        """The arguments by name, as printed."""
        return printed_keywords(self._keywords.removeprefix(_ENDS))

    def tensors(self, source: str) -> tuple[TensorSpec, ...]:
        """Returns the tensors in order; none where the call in ``source`` may have had others, such as operands by name."""
        if not self._keywords or _TENSOR in self._keywords or _CUT.search(self._keywords):
            return ()
        text = " ".join(self._lines)
        cut = _CUT.search(text)
        shown = text[cut.end() :] if cut else text
        matches = list(_SHOWN.finditer(shown))
        if not matches:
            return ()
        if not (_are_all(text, shown[matches[0].end() :], source) if cut else text.count(_TENSOR) == len(matches)):
            return ()
        specs = [_spec(match) for match in matches]
        return tuple(spec for spec in specs if spec is not None) if None not in specs else ()


def _are_all(text: str, after: str, source: str) -> bool:
    """Returns whether the first tensor whose end is shown is the first argument.

    ``after``: the text with the other arguments; ``source`` shows how many there were.
    """
    arguments = arguments_of_call(source)
    others = split(after.rstrip().removesuffix(")").lstrip(" ,"))
    return text.startswith(_TENSOR) and arguments is not None and len(arguments) == 1 + len(others)


def _spec(match: re.Match[str]) -> TensorSpec | None:
    try:
        shape = tuple(int(size) for size in match["shape"].split(","))
        return TensorSpec(shape, DType(match["dtype"].lower()), Layout(match["layout"].lower()))
    except (ValueError, InvalidCase):
        return None
