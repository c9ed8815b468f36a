"""Reads what the lines near a message mention: functions of TTNN, and shapes of tensors. It is evidence, not proof."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

from ssinghal.core.tensors import DType
from ssinghal.diagnose.cpp_names import functions_of_part
from ssinghal.diagnose.model import PrintedShape

NEAR_LINES = 12  # before or after the message
NEAR_CHARS = 2_000  # of a line
MENTIONS_LIMIT = 3  # different functions; of more, none is evidence
SHAPES_LIMIT = 8
_ELEMENTS_LIMIT = 1 << 40
_LEAST_ELEMENTS = 1024  # of a list that no word calls a shape: a smaller one is a kernel, a stride or a grid

_SIGNS = ("hape", "ttnn", "tensor<", "Size(", "called", "alling", "unning", "float", "bf16", "bfp")
_OF_COMPILER = ('"ttnn.', "#ttnn")  # an operation or a layout of a module: read elsewhere
_FUNCTION = re.compile(
    r"(?<![\w/])ttnn(?:\.|::)(?P<name>[a-z_]\w*(?:(?:\.|::)\w+)*)|(?<![\w./-])(?P<word>[a-z]\w*_\w+)(?![\w/.=-])"
)
_NO_PROGRAM = ("deallocate", "from_torch", "to_torch", "synchronize_device")
_DIMS = r"\d{1,9}(?:\s?,\s?\d{1,9}){1,7}"
_NAMED = re.compile(
    r"\w{0,30}?(?:[Ss]hape|SHAPE|\bSize)s?[\"']?[^\[(\w]{0,6}(?:[\w.:]{0,20}Shape|torch\.Size)?[\[(]{1,2}"
    rf"({_DIMS}),?[\])]"
)
_LIST = re.compile(rf"(?<![\w.\])])\[({_DIMS})\]")
_CROSSED = re.compile(r"(?<![\w.,])(\d{1,9}(?:x\d{1,9}){2,7})(?![\w,])")
_COMPILED = re.compile(r"tensor<((?:\d{1,9}x){1,8})([a-z]\w{1,8})")
_OTHER_SHAPES = ("shard", "mesh", "grid", "core", "tile", "block", "page", "kernel")
_DTYPES = {
    DType.BFLOAT16: r"bfloat16|bf16",
    DType.FLOAT32: r"float32|fp32|f32",
    DType.BFLOAT8_B: r"bfloat8_b|bfloat8|bfp8_b|bfp8|bfp_bf8",
    DType.BFLOAT4_B: r"bfloat4_b|bfloat4|bfp4_b|bfp4|bfp_bf4",
    DType.UINT32: r"uint32|ui32|u32",
    DType.INT32: r"int32|si32|i32",
}
_DTYPE = re.compile(
    "|".join(rf"(?P<{dtype.name}>(?<![A-Za-z\d])(?:{words})(?![A-Za-z\d]))" for dtype, words in _DTYPES.items()),
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Mentions:
    """What lines mention."""

    functions: tuple[str, ...] = ()
    shapes: tuple[PrintedShape, ...] = ()

    def joined(self, other: Mentions) -> Mentions:
        functions = tuple(dict.fromkeys((*self.functions, *other.functions)))
        return Mentions(functions, tuple(dict.fromkeys((*self.shapes, *other.shapes)))[:SHAPES_LIMIT])

    def completed(self, other: Mentions) -> Mentions:
        """Returns these, and of ``other`` what these lack."""
        return Mentions(self.functions or other.functions, self.shapes or other.shapes)


NOTHING = Mentions()


@dataclass
class _NearLine:
    """A line that is read once, when a failure is near."""

    number: int
    text: str

    @cached_property
    def mentions(self) -> Mentions:
        return mentions_in(self.text, self.number)


@dataclass
class Nearby:
    """The latest lines of a log that may mention something."""

    _lines: deque[_NearLine] = field(default_factory=lambda: deque(maxlen=NEAR_LINES))

    def feed(self, number: int, text: str) -> bool:
        """Takes a line; returns whether it may mention something."""
        if not any(sign in text for sign in _SIGNS) or any(sign in text for sign in _OF_COMPILER):
            return False
        self._lines.append(_NearLine(number, text[:NEAR_CHARS]))
        return True

    @property
    def last(self) -> Mentions:
        """What the line that was taken last mentions."""
        return self._lines[-1].mentions if self._lines else NOTHING

    def before(self, line: int) -> Mentions:
        """Returns what the lines before ``line`` mention."""
        found = NOTHING
        for near in self._lines:
            if line - NEAR_LINES <= near.number < line:
                found = found.joined(near.mentions)
        return found


def mentions_in(text: str, number: int = 0) -> Mentions:
    """Returns what a line mentions.

    >>> mentions_in("all_reduce_async called on a tensor of Shape([1, 1, 32000, 2048]), bfloat16").functions
    ('experimental.all_reduce_async',)
    """
    text = text[:NEAR_CHARS]
    functions = tuple(dict.fromkeys(_functions(text)))
    return Mentions(functions, tuple(dict.fromkeys(_shapes(text, number, has_function=bool(functions)))))


def _functions(text: str) -> Iterator[str]:
    for match in _FUNCTION.finditer(text):
        parts = re.split(r"\.|::", match["name"] or match["word"])
        functions = functions_of_part(parts[-1])
        if functions and parts[-1] not in _NO_PROGRAM:
            yield functions[0]


def _shapes(text: str, number: int, *, has_function: bool) -> Iterator[PrintedShape]:
    dtypes = [(match.start(), DType[str(match.lastgroup)]) for match in _DTYPE.finditer(text)]
    found: dict[int, tuple[str, str]] = {}  # dims and dtype by place
    for match in _COMPILED.finditer(text):
        found[match.start()] = (match[1].strip("x").replace("x", ","), match[2])
    for match in _NAMED.finditer(text):
        before = text[max(0, match.start() - 8) : match.start(1)].lower()
        if not any(word in before for word in _OTHER_SHAPES):
            found[match.start(1)] = (match[1], "")
    if has_function or dtypes:
        for match in (*_LIST.finditer(text), *_CROSSED.finditer(text)):
            dims = match[1].replace("x", ",")
            if prod(map(int, dims.split(","))) >= _LEAST_ELEMENTS:
                found.setdefault(match.start(1), (dims, ""))
    for at, (dims, element) in sorted(found.items())[:SHAPES_LIMIT]:
        shape = tuple(map(int, dims.split(",")))
        if 0 < prod(shape) < _ELEMENTS_LIMIT:
            own = _DTYPE.fullmatch(element)
            yield PrintedShape(shape, DType[str(own.lastgroup)] if own else _dtype_at(at, dtypes), number)


def _dtype_at(at: int, dtypes: list[tuple[int, DType]]) -> DType | None:
    """Returns the dtype that a line states of the shape at ``at``: the next one, or the only one."""
    if len({dtype for _, dtype in dtypes}) == 1:
        return dtypes[0][1]
    return next((dtype for place, dtype in dtypes if place > at), None)
