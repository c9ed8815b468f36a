"""Parses MLIR of the TTNN dialect, as compilers and their runtimes print it, into operations; unknown text is left out.

It knows types by alias (``#ttnn_layout16``) and spelled out, names of all releases (``!tt.tile``, ``!ttcore.tile``) and the
loose types that people write: ``tensor<4x32xbf16, row_major>``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO

from ssinghal.core.tensors import (
    TILE_EDGE,
    BufferType,
    Cores,
    DType,
    Layout,
    MemoryConfig,
    Shape,
    ShardKind,
    ShardSpec,
    TensorSpec,
    ceil_div,
)
from ssinghal.diagnose.model import MlirValue, Module, Operation
from ssinghal.diagnose.parse.line_reader import Lines, joined
from ssinghal.errors import InvalidCase

STATEMENT_CHARS = 1 << 16  # of a statement that are read; a constant can print its values
STATEMENT_LINES = 40
OPERATION_LIMIT = 200_000  # of a module's operations that are kept
RESULT_LIMIT = 400_000  # of a module's results that are kept; ``%0:99`` alone stands for 99
ALIAS_DEPTH = 20

_DTYPES = {
    "bf16": DType.BFLOAT16, "f32": DType.FLOAT32, "bfp_bf8": DType.BFLOAT8_B, "bfp8": DType.BFLOAT8_B,
    "bfp_bf4": DType.BFLOAT4_B, "bfp4": DType.BFLOAT4_B, "u8": DType.UINT8, "ui8": DType.UINT8, "u16": DType.UINT16,
    "ui16": DType.UINT16, "u32": DType.UINT32, "ui32": DType.UINT32, "i32": DType.INT32, "si32": DType.INT32,
}  # fmt: skip
_TOKEN = re.compile(r'->|loc\(|[<>()\[\]{},"]')
_CLOSING = {"<": ">", "(": ")", "[": "]", "{": "}"}
_HEAD = re.compile(
    r"(?:(?P<results>%[\w$.#:-]+(?:\s*,\s*%[\w$.#:-]+)*)\s*=\s*)?(?:\"(?P<quoted>[\w.]+)\"|(?P<bare>ttnn\.\w+))\s*\("
)
_ALIAS = re.compile(r"([#!][A-Za-z_][\w.$-]*)\s*=\s*(?=\S)")
_DIMS = re.compile(r"((?:\d+x)*)(.*)", re.DOTALL)
_REMARK = re.compile(r"\s*(?:[←✓✗⊗✅❌].*|\s//(?=\s)[^\"]*)$")  # added by someone who explains the listing
_QUOTED = re.compile(r'"[^"]*"')
_MEMORY = re.compile(r"#(?:\w+\.)?memory_config<\s*(#[\w.]+(?:<\w+>)?)")
_ENUM = re.compile(r"#[\w.]+<([A-Za-z_]\w*)>")
_NUMBER = re.compile(r"(-?\d+)(?:\s*:\s*(?:[su]?i\d+|index))?")
_FLOAT = re.compile(r"(-?\d+\.\d*(?:[eE][+-]?\d+)?)(?:\s*:\s*\w+)?")
_GRID = re.compile(r"(?:\w+\s*=\s*)?(?:#\w+\.grid)?<\s*(\d{1,6})x(\d{1,6})\s*(?:,(.*))?>", re.DOTALL)
_SHARDED = re.compile(r"\b(height|width|block)_sharded\b")
_COLUMNS = re.compile(r"(?:floordiv|mod)\s+(\d{1,6})\b")


@dataclass
class ModuleText:
    """Collects the statements of a module, and the aliases that their types and locations use.

    Locations are defined after the module, so its operations are parsed at the end.
    """

    aliases: dict[str, str] = field(default_factory=dict)
    statements: list[tuple[str, int]] = field(default_factory=list)
    left_out: int = 0

    def add(self, lines: Sequence[str], widths: Sequence[int], number: int) -> None:
        """Adds the statement that starts on line ``number``. A layout defined after operations starts another module."""
        text = next(joined([without_remark(line) for line in lines], widths))[:STATEMENT_CHARS].strip()
        alias = _ALIAS.match(text)
        if alias:
            if self.statements and not alias[1].startswith("#loc"):
                self.aliases, self.statements, self.left_out = {}, [], 0
            self.aliases[alias[1]] = text[alias.end() :].strip()
        elif _HEAD.match(text):
            if len(self.statements) < OPERATION_LIMIT:
                self.statements.append((text, number))
            else:
                self.left_out += 1

    def operations(self) -> tuple[Operation, ...]:
        """Parses the statements into operations, up to a number of results that is far beyond any compiler's module."""
        operations: list[Operation] = []
        results = 0
        for text, number in self.statements:
            operation = parse_operation(text, self.aliases, number)
            if operation is None or operation.name.startswith(("func.", "builtin.")):
                continue
            results += len(operation.results)
            if results > RESULT_LIMIT:
                break
            operations.append(operation)
        self.left_out += len(self.statements) - len(operations) if results > RESULT_LIMIT else 0
        return tuple(operations)


def read_module(stream: BinaryIO, name: str) -> Module:
    """Returns the MLIR module in ``stream``; it has no operations where the stream is no module. ``name``: the file's."""
    module_text = ModuleText()
    open_braces = 0
    statement: list[str] = []
    widths: list[int] = []
    number = 0
    for line in Lines(stream):
        text = line.text[: line.own]
        unquoted = _QUOTED.sub("", text)
        open_braces += unquoted.count("{") - unquoted.count("}")
        if not statement or starts_statement(text.lstrip()) or not continues_statement(statement, text.strip()):
            if statement:
                module_text.add(statement, widths, number)
            statement, widths, number = [], [], line.number
        if statement or starts_statement(text.lstrip()):
            statement.append(text)
            widths.append(len(text))
    if statement:
        module_text.add(statement, widths, number)
    module = Module(module_text.operations())
    remarks = []
    if module_text.left_out:
        remarks.append(f"{name} is too large: about {module_text.left_out:,} of its operations were left out")
    if not module.is_ttnn:
        why = "it ends after its definitions" if module_text.aliases else "it is not a module of the TTNN dialect"
        remarks.append(f"{name} has no TTNN operation: {why}")
    if open_braces > 0 or (statement and _open_brackets(" ".join(map(without_remark, statement))) > 0):
        remarks.append(f"{name} ends in the middle of a module: the rest is missing")
    return replace(module, remarks=tuple(remarks))


def starts_statement(text: str) -> bool:
    """Returns whether a line starts an operation or an alias of a module."""
    return text[:1] in ("%", '"', "#", "!") and (_ALIAS.match(text) is not None or _HEAD.match(text) is not None)


def continues_statement(lines: Sequence[str], text: str) -> bool:
    """Returns whether ``text`` continues the statement of ``lines``: a bracket is open, or it cannot start a statement."""
    if not text or len(lines) > STATEMENT_LINES or sum(map(len, lines)) > STATEMENT_CHARS:
        return False
    if text.startswith((":", "->", "loc(", "<{", "(", "{")) or lines[-1].rstrip().endswith(("->", ":", "=")):
        return True
    before = " ".join(without_remark(line) for line in lines)
    return before.count('"') % 2 == 1 or _open_brackets(before) > 0


def without_remark(text: str) -> str:
    """Returns a line of MLIR without a remark at its end."""
    return _REMARK.sub("", text)


def parse_operation(text: str, aliases: Mapping[str, str], line: int = 0) -> Operation | None:
    """Returns the operation of a statement, with the types of its values as far as known; None for any other text."""
    head = _HEAD.match(text)
    if head is None:
        return None
    operands, rest = bracketed(text, head.end() - 1)
    attributes: dict[str, Any] = {}
    types = location = ""
    while rest:
        rest = rest.lstrip()
        if rest.startswith("<{"):
            inner, rest = bracketed(rest, 0)
            attributes |= _attributes(inner.strip()[1:-1], aliases)
        elif rest.startswith("{"):
            inner, rest = bracketed(rest, 0)
            attributes = _attributes(inner, aliases) | attributes
        elif rest.startswith("("):  # regions
            rest = bracketed(rest, 0)[1]
        elif rest.startswith("loc("):
            location, rest = bracketed(rest, 3)
        elif rest.startswith(":"):
            at = _top_level(rest, "loc(")
            types, rest = (rest[1:], "") if at is None else (rest[1:at], rest[at:])
        else:
            break
    arrow = _top_level(types, "->")
    operand_types, result_types = (types, "") if arrow is None else (types[:arrow], types[arrow + 2 :])
    results = _result_names(head["results"] or "")
    result_layout = _layout_in_attributes(attributes, aliases) if len(results) == 1 else _MlirLayout()
    names = [name for name in split(operands) if name.startswith("%")]
    return Operation(
        head["quoted"] or head["bare"],
        tuple(_values(results, result_types, aliases, result_layout)),
        tuple(_values(names, operand_types, aliases, _MlirLayout())),
        attributes,
        _location(location, aliases),
        line,
    )


def _result_names(text: str) -> list[str]:
    """Returns the names of results; ``%0:2`` stands for two, ``%0#0`` and ``%0#1``."""
    names: list[str] = []
    for name in split(text):
        base, _, count = name.partition(":")
        names += [f"{base}#{i}" for i in range(int(count))] if re.fullmatch(r"[2-9]|\d\d", count) else [base]
    return names


def _layout_in_attributes(attributes: Mapping[str, Any], aliases: Mapping[str, str]) -> _MlirLayout:
    """Returns the layout of an operation's result as far as its attributes have it."""
    layout, memory = str(attributes.get("layout", "")), _MEMORY.match(str(attributes.get("memory_config", "")))
    return _MlirLayout(
        layout=Layout(layout) if layout in tuple(Layout) else None,
        dtype=_DTYPES.get(str(attributes.get("dtype", ""))),
        buffer=_buffer(_resolved(memory[1], aliases)) if memory else None,
    )


def _values(names: Sequence[str], types: str, aliases: Mapping[str, str], fallback: _MlirLayout) -> Iterator[MlirValue]:
    """Yields the values of ``names``. ``fallback``: used for what their types lack."""
    inner = types.strip()
    inner = inner[1:-1] if inner.startswith("(") and inner.endswith(")") else inner
    texts = split(inner)
    for i, name in enumerate(names):
        yield _value(name, texts[i] if len(texts) == len(names) else "", aliases, fallback)


def _value(name: str, text: str, aliases: Mapping[str, str], fallback: _MlirLayout) -> MlirValue:
    """Returns the value of a type like ``tensor<4x4884480xbf16, #ttnn_layout16>``: a logical shape, and a layout as stored."""
    text = _resolved(text, aliases)
    text = text[: text.rfind(">") + 1]
    if not text.startswith("tensor<"):
        return MlirValue(name)
    content, *layouts = split(text[len("tensor<") : -1]) or [""]
    shape, dtype = _shape_and_dtype(content)
    if shape is None:
        return MlirValue(name)
    layout = _MlirLayout.of(_resolved(layouts[0], aliases) if layouts else "", aliases)
    dtype = layout.dtype or fallback.dtype or dtype
    if dtype is None:
        return MlirValue(name, grid=layout.grid)
    usual = Layout.ROW_MAJOR if layouts and "row_major" in layouts[0] else fallback.layout or Layout.TILE
    memory = MemoryConfig(layout.buffer or fallback.buffer or BufferType.DRAM)
    try:
        plain = TensorSpec(shape, dtype, layout.layout or usual, memory)
    except InvalidCase:
        return MlirValue(name, grid=layout.grid)
    return layout.placed(MlirValue(name, plain, layout.is_known, layout.grid))


@dataclass(frozen=True)
class _MlirLayout:
    """A layout as printed. ``grid``: (columns, rows). ``columns``: of cores that shards fill row by row, if the text has the
    mapping."""

    layout: Layout | None = None
    dtype: DType | None = None
    buffer: BufferType | None = None
    grid: tuple[int, int] | None = None
    kind: ShardKind | None = None
    interleaved: bool = False
    shard: tuple[int, int] | None = None
    columns: int | None = None

    @classmethod
    def of(cls, text: str, aliases: Mapping[str, str]) -> _MlirLayout:
        if "layout<" not in text:
            return cls()
        parts = split(text[text.find("<") + 1 : -1])
        memref = next((part for part in parts if part.startswith("memref<")), "")
        grid = next((match for part in parts if (match := _GRID.fullmatch(part))), None)
        rest = [part for part in parts if part not in (memref, grid[0] if grid else "")]
        sharded = next((match[1] for part in rest if (match := _SHARDED.search(part))), None)
        element, *spaces = split(memref[len("memref<") : -1]) or [""]
        shape, dtype = _shape_and_dtype(element)
        tiled = "tile<" in element
        edge = TILE_EDGE if tiled else 1
        columns = _COLUMNS.search(grid[3] or "") if grid else None
        return cls(
            layout=(Layout.TILE if tiled else Layout.ROW_MAJOR) if shape else None,
            dtype=dtype,
            buffer=_buffer(_resolved(spaces[-1], aliases) if spaces else ""),
            grid=(int(grid[2]), int(grid[1])) if grid else None,
            kind=ShardKind(sharded) if sharded else None,
            interleaved=any("interleaved" in part for part in rest),
            shard=(shape[0] * edge, shape[1] * edge) if shape and len(shape) == 2 else None,
            columns=int(columns[1]) if columns else None,
        )

    @property
    def is_known(self) -> bool:
        return None not in (self.layout, self.buffer) and self.interleaved and self.kind is None

    def placed(self, value: MlirValue) -> MlirValue:
        """Returns ``value`` with its shards, where their shape and cores follow from the text and TTNN accepts them."""
        cores = self._shard_grid()
        if value.spec is None or self.kind is None or self.shard is None or self.buffer is None or cores is None:
            return value
        try:
            memory = MemoryConfig(self.buffer, ShardSpec(self.kind, self.shard, Cores.grid(*cores)))
            return replace(value, spec=replace(value.spec, memory=memory), known_layout=True, grid=cores)
        except InvalidCase:
            return value

    def _shard_grid(self) -> tuple[int, int] | None:
        """Returns the grid of cores. A printed grid of one row or column only counts shards: their cores are in its mapping."""
        if self.grid is None or self.kind is ShardKind.BLOCK or min(self.grid) > 1 or self.grid == (1, 1):
            return self.grid
        if not self.columns:
            return None
        shards = max(self.grid)
        full = min(shards, self.columns)
        return (full, ceil_div(shards, full)) if shards % full == 0 else None


def _buffer(text: str) -> BufferType | None:
    """Returns the memory of a buffer type. An alias without a definition is enough, for it is named after the memory."""
    name = re.fullmatch(r"#(?:\w+\.buffer_type<)?(dram|l1_small|l1)(?:_?\d*|>)", text)
    return BufferType(name[1]) if name else None


def _shape_and_dtype(text: str) -> tuple[Shape | None, DType | None]:
    """Parses ``4x4884480xbf16`` or ``1x152640x!ttcore.tile<32x32, bf16>``; no shape without dimensions or with dynamic ones."""
    match = _DIMS.fullmatch(text.strip())
    if match is None or not match[1] or len(match[1]) > 200:
        return None, None
    element = match[2]
    if "tile<" in element:
        element = split(element[element.find("<") + 1 : -1])[-1]
    return tuple(int(size) for size in match[1].split("x")[:-1]), _DTYPES.get(element.strip())


def _attributes(text: str, aliases: Mapping[str, str]) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    for part in split(text):
        name, equals, value = part.partition("=")
        if name.strip():
            attributes[name.strip().strip('"')] = _attribute(value.strip(), aliases) if equals else True
    return attributes


def _attribute(text: str, aliases: Mapping[str, str]) -> Any:
    text = _resolved(text, aliases)
    if number := _NUMBER.fullmatch(text):
        return int(number[1]) if len(number[1]) < 30 else text
    if number := _FLOAT.fullmatch(text):
        return float(number[1])
    if text in ("true", "false"):
        return text == "true"
    if text.startswith("[") and text.endswith("]"):
        return [_flat(part) for part in split(text[1:-1])]
    if text.startswith("array<") and text.endswith(">"):
        return [_flat(part) for part in split(text[len("array<") : -1].partition(":")[2])]
    if text.startswith("#ttnn.shape<") and text.endswith(">"):
        sizes = text[len("#ttnn.shape<") : -1].split("x")
        return [int(size) for size in sizes] if all(s.isdecimal() and len(s) < 20 for s in sizes) else text
    if enum := _ENUM.fullmatch(text):
        return enum[1]
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text


def _flat(text: str) -> Any:
    """Parses an element of a list; a list in it stays text."""
    return text if text.startswith("[") else _attribute(text, {})


def _location(text: str, aliases: Mapping[str, str]) -> str:
    """Returns the first text of a location such as ``"5|.../aten__index_workaround"(…)``, and all of ``"model.py":12:3``."""
    for _ in range(ALIAS_DEPTH):
        text = text.strip()
        if text.startswith("loc(") and text.endswith(")"):
            text = text[4:-1]
        elif text in aliases:
            text = aliases[text]
        else:
            break
    named = re.match(r'"([^"]*)"(:\d+:\d+)?', text)
    if named:
        return named[1] + (named[2] or "")
    return "" if text in ("unknown", "") else text


def _resolved(text: str, aliases: Mapping[str, str]) -> str:
    """Returns ``text``, or what it is an alias of."""
    text = text.strip()
    for _ in range(ALIAS_DEPTH):
        if text not in aliases:
            break
        text = aliases[text]
    return text


def split(text: str) -> list[str]:
    """Splits ``text`` at the commas outside brackets and quotes into stripped parts; an empty text has none.

    >>> split('tensor<4x32xbf16, #a>, (d0, d1) -> (d0, d1), "x, y"')
    ['tensor<4x32xbf16, #a>', '(d0, d1) -> (d0, d1)', '"x, y"']
    """
    parts: list[str] = []
    start = 0
    for at, depth in _depths(text):
        if depth == 0 and text[at] == ",":
            parts.append(text[start:at].strip())
            start = at + 1
    parts.append(text[start:].strip())
    return parts if any(parts) else []


def _top_level(text: str, token: str) -> int | None:
    """Returns where ``token`` first is outside brackets and quotes."""
    return next((at for at, depth in _depths(text) if depth == 0 and text.startswith(token, at)), None)


def bracketed(text: str, start: int) -> tuple[str, str]:
    """Returns the content of the bracket that opens at ``start``, and what follows; all the rest where it is never closed."""
    for at, depth in _depths(text, start):
        if depth == 0 and at > start:
            return text[start + 1 : at], text[at + 1 :]
    return text[start + 1 :], ""


def _open_brackets(text: str) -> int:
    depth = 0
    for at, before in _depths(text):
        depth = before + (text[at] in _CLOSING or text.startswith("loc(", at))
    return depth


def _depths(text: str, start: int = 0) -> Iterator[tuple[int, int]]:
    """Yields the positions of separators and brackets outside quotes, with the depth of brackets around them.

    A bracket that does not match the last one opened closes nothing.
    """
    closers: list[str] = []
    quoted = False
    for match in _TOKEN.finditer(text, start):
        token = match[0]
        if token == '"':
            quoted = not quoted
        elif not quoted:
            if closers and token == closers[-1]:
                closers.pop()
            yield match.start(), len(closers)
            if token[-1] in _CLOSING:
                closers.append(_CLOSING[token[-1]])
