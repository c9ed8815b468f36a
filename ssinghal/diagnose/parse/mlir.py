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
    BufferType,
    Layout,
    MemoryConfig,
    TensorSpec,
)
from ssinghal.diagnose.model import MlirValue, Module, Operation
from ssinghal.diagnose.parse.brackets import bracketed, open_brackets, split, top_level
from ssinghal.diagnose.parse.line_reader import Lines, joined
from ssinghal.diagnose.parse.mlir_layout import ALIAS_DEPTH, DTYPES, MlirLayout, buffer_named, resolved, shape_and_dtype
from ssinghal.errors import InvalidCase

STATEMENT_CHARS = 1 << 16  # of a statement that are read; a constant can print its values
STATEMENT_LINES = 40
OPERATION_LIMIT = 200_000  # of a module's operations that are kept
RESULT_LIMIT = 400_000  # of a module's results that are kept; ``%0:99`` alone stands for 99

_HEAD = re.compile(
    r"(?:(?P<results>%[\w$.#:-]+(?:\s*,\s*%[\w$.#:-]+)*)\s*=\s*)?(?:\"(?P<quoted>[\w.]+)\"|(?P<bare>ttnn\.\w+))\s*\("
)
_ALIAS = re.compile(r"([#!][A-Za-z_][\w.$-]*)\s*=\s*(?=\S)")
_REMARK = re.compile(r"\s*(?:[←✓✗⊗✅❌].*|\s//(?=\s)[^\"]*)$")  # added by someone who explains the listing
_QUOTED = re.compile(r'"[^"]*"')
_MEMORY = re.compile(r"#(?:\w+\.)?memory_config<\s*(#[\w.]+(?:<\w+>)?)")
_ENUM = re.compile(r"#[\w.]+<([A-Za-z_]\w*)>")
_NUMBER = re.compile(r"(-?\d+)(?:\s*:\s*(?:[su]?i\d+|index))?")
_FLOAT = re.compile(r"(-?\d+\.\d*(?:[eE][+-]?\d+)?)(?:\s*:\s*\w+)?")


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
    if open_braces > 0 or (statement and open_brackets(" ".join(map(without_remark, statement))) > 0):
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
    return before.count('"') % 2 == 1 or open_brackets(before) > 0


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
            at = top_level(rest, "loc(")
            types, rest = (rest[1:], "") if at is None else (rest[1:at], rest[at:])
        else:
            break
    arrow = top_level(types, "->")
    operand_types, result_types = (types, "") if arrow is None else (types[:arrow], types[arrow + 2 :])
    results = _result_names(head["results"] or "")
    result_layout = _layout_in_attributes(attributes, aliases) if len(results) == 1 else MlirLayout()
    names = [name for name in split(operands) if name.startswith("%")]
    return Operation(
        head["quoted"] or head["bare"],
        tuple(_values(results, result_types, aliases, result_layout)),
        tuple(_values(names, operand_types, aliases, MlirLayout())),
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


def _layout_in_attributes(attributes: Mapping[str, Any], aliases: Mapping[str, str]) -> MlirLayout:
    """Returns the layout of an operation's result as far as its attributes have it."""
    layout, memory = str(attributes.get("layout", "")), _MEMORY.match(str(attributes.get("memory_config", "")))
    return MlirLayout(
        layout=Layout(layout) if layout in tuple(Layout) else None,
        dtype=DTYPES.get(str(attributes.get("dtype", ""))),
        buffer=buffer_named(resolved(memory[1], aliases)) if memory else None,
    )


def _values(names: Sequence[str], types: str, aliases: Mapping[str, str], fallback: MlirLayout) -> Iterator[MlirValue]:
    """Yields the values of ``names``. ``fallback``: used for what their types lack."""
    inner = types.strip()
    inner = inner[1:-1] if inner.startswith("(") and inner.endswith(")") else inner
    texts = split(inner)
    for i, name in enumerate(names):
        yield _value(name, texts[i] if len(texts) == len(names) else "", aliases, fallback)


def _value(name: str, text: str, aliases: Mapping[str, str], fallback: MlirLayout) -> MlirValue:
    """Returns the value of a type like ``tensor<4x4884480xbf16, #ttnn_layout16>``: a logical shape, and a layout as stored."""
    text = resolved(text, aliases)
    text = text[: text.rfind(">") + 1]
    if not text.startswith("tensor<"):
        return MlirValue(name)
    content, *layouts = split(text[len("tensor<") : -1]) or [""]
    shape, dtype = shape_and_dtype(content)
    if shape is None:
        return MlirValue(name)
    layout = MlirLayout.of(resolved(layouts[0], aliases) if layouts else "", aliases)
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


def _attributes(text: str, aliases: Mapping[str, str]) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    for part in split(text):
        name, equals, value = part.partition("=")
        if name.strip():
            attributes[name.strip().strip('"')] = _attribute(value.strip(), aliases) if equals else True
    return attributes


def _attribute(text: str, aliases: Mapping[str, str]) -> Any:
    text = resolved(text, aliases)
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
