"""Reads the cells of operator lists in common spellings. InvalidCase states why one cannot be read."""

from __future__ import annotations

import ast
import json
import re
from functools import lru_cache
from typing import Any

from ssinghal.catalog.aten_calls import operators_by_overload
from ssinghal.core.parsing import parse_shape
from ssinghal.core.tensors import Shape, check_shape
from ssinghal.errors import InvalidCase
from ssinghal.operators import find_operator, operators, suite_name
from ssinghal.operators.case_json import parse_json
from ssinghal.operators.unsupported import NOT_OPERATORS

COLUMNS = {
    "operator": ("operator", "op", "operator_name", "op_name", "aten_op", "overload", "function"),
    "shapes": ("input_shapes", "input_shape", "shapes", "shape", "inputs", "operands", "tensor_shapes", "listed_shape"),
    "arguments": ("arguments", "argument", "args", "attributes", "attrs", "kwargs", "parameters", "params"),
    "model": ("model", "models", "model_name", "network"),
    "count": ("count", "counts", "n", "calls", "num_calls", "occurrences", "frequency", "freq", "times"),
    "input": ("input_size", "model_input", "resolution", "image_size"),
    "module": ("module", "module_path", "first_module_path", "layer", "at"),
}
MAX_CELL = 10_000  # characters; Python's own parser, which reads arguments, recurses

_PREFIX = re.compile(r"(torch\.ops\.aten|torch\.nn\.functional|torch\.nn|torch|aten|ttnn|nn|F)(::|\.)")
_TYPE = re.compile(r"(torch\.)?(Size|Tensor)")
_BRACKETS = re.compile(r"[\[(]([^\[\]()]*)[\])]")
_ONLY_SEPARATORS = re.compile(r"[\[(][\s,;+|]*[\])]")
_COUNT = re.compile(r"([0-9]{1,18}|[0-9]{1,3}(,[0-9]{3})+)(\.0+)?")
_WORDS = {"true": True, "false": False, "none": None, "null": None}


def column(title: str) -> str:
    """Returns what a column of this title holds (a key of ``COLUMNS``), or "" if that is not known."""
    name = re.sub(r"[^a-z0-9]+", "_", title.lower()).strip("_")
    return next((meaning for meaning, titles in COLUMNS.items() if name in titles), "")


def operator_name(text: str) -> str:
    """Returns the suite of the operator, which may be written ``ReLU``, ``aten.relu.default``, ``ttnn.relu`` or ``F.relu``."""
    name = _named(text.strip())
    if isinstance(name, InvalidCase):
        raise InvalidCase(str(name))
    return name


@lru_cache(maxsize=2**12)  # the nearest of 200 names takes a millisecond to find, and a list has few operators in many rows
def _named(wanted: str) -> str | InvalidCase:
    if not wanted:
        return InvalidCase("names no operator")
    overload = "aten." + wanted.removeprefix("torch.ops.").removeprefix("aten.").removeprefix("aten::")
    info = operators_by_overload().get(overload)
    if info is not None:
        return info.name
    bare = _PREFIX.sub("", wanted, count=1)
    folded = {name.lower(): name for name in operators()}
    for name in (wanted, bare, bare.partition(".")[0]):
        if name in operators():
            return suite_name(name)
        if name.lower() in folded and name not in NOT_OPERATORS:
            return suite_name(folded[name.lower()])
    try:
        return find_operator(bare).name
    except InvalidCase as error:
        return InvalidCase(str(error))  # one that was raised would keep the frames, and the tables in them


def shapes(text: str) -> list[Shape]:
    """Reads shapes: ``[1, 3, 64, 64]``, ``(1,3);(4,5)``, ``[[1, 3], [4, 5]]``, ``1x3x64x64``, ``torch.Size([1, 3])``.

    A scalar ``[]`` among others is [1], as on a device. An empty cell, or ``[]`` alone, is a call without tensors.
    """
    cell = _TYPE.sub("", text).strip()
    if cell in ("", "[]", "()", "[[]]"):
        return []
    if cell.count("[") != cell.count("]") or cell.count("(") != cell.count(")"):
        raise InvalidCase(f"shapes {_cut(text)}: brackets do not match; a cell that holds the separator must be quoted")
    if any(bracket in cell for bracket in "[]()"):
        groups = _BRACKETS.findall(cell)
        around = _BRACKETS.sub("", cell)
        while (inside := _ONLY_SEPARATORS.sub("", around)) != around:
            around = inside
        if around.strip(" ,;+|"):
            raise InvalidCase(f"shapes {_cut(text)}: expected shapes like [1, 64, 80, 80] or 1x64x80x80, several joined by ;")
        return [_shape(sizes) if sizes.strip() else (1,) for sizes in groups]
    cell = re.sub(r"\s*[x×X]\s*", "x", cell)
    return [_shape(sizes) for sizes in re.split(r"[\s,;+|]+" if "x" in cell else r"[;+|]", cell)]


def _shape(text: str) -> Shape:
    return check_shape(tuple(parse_shape(text)))


def arguments(text: str, name: str) -> dict[str, Any]:
    """Reads attributes of a call of ``name``: a JSON or Python mapping, ``dim=1, keepdim=True``, or the value of the first."""
    cell = text.strip()
    if cell.lower() in ("", "{}", "[]", "()", "none", "null", "nan", "-"):
        return {}
    value = _value(cell)
    if isinstance(value, dict):
        return value
    first = next(iter(find_operator(name).attrs), None)
    if first is None:
        raise InvalidCase(f"arguments {_cut(text)}: {name} takes none")
    return {first: value}


def count(text: str) -> int:
    """Reads a whole number from 1, also as spreadsheets write it (``5.0``, ``1,180``); an empty cell is 1."""
    cell = text.strip()
    if not cell:
        return 1
    match = _COUNT.fullmatch(cell)
    if not match or not int(match[1].replace(",", "")):
        raise InvalidCase(f"count {_cut(text)}: expected a whole number from 1")
    return int(match[1].replace(",", ""))


def label(text: str, what: str) -> str:
    """Returns text that goes into the catalog unchanged."""
    cell = text.strip()
    if not cell.isprintable() or len(cell) > MAX_CELL:
        raise InvalidCase(f"{what} {_cut(text)}: expected printable text")
    return cell


def _value(cell: str) -> Any:
    """Returns the plain value of a cell; tuples become lists."""
    if len(cell) > MAX_CELL:
        raise InvalidCase(f"arguments {_cut(cell)}: longer than {MAX_CELL} characters")
    try:
        return _plain(parse_json(cell))
    except json.JSONDecodeError:
        pass
    try:
        call = ast.parse(f"f({cell})" if "=" in cell else cell, mode="eval").body
        if "=" not in cell:
            return _plain(_literal(call))
        if isinstance(call, ast.Call) and not call.args and all(keyword.arg for keyword in call.keywords):
            return _plain({str(keyword.arg): _literal(keyword.value) for keyword in call.keywords})
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        pass
    raise InvalidCase(f"arguments {_cut(cell)}: neither JSON nor Python nor name=value")


def _literal(node: ast.expr) -> Any:
    if isinstance(node, ast.Name) and node.id.lower() in _WORDS:
        return _WORDS[node.id.lower()]
    return ast.literal_eval(node)


def _plain(value: Any, depth: int = 0) -> Any:
    """Returns ``value`` as a catalog can hold it: a number, a text, a list of them or a mapping of these. Else InvalidCase."""
    if isinstance(value, dict) and depth == 0:
        if keys := [key for key in value if not isinstance(key, str)]:
            raise InvalidCase(f"arguments: the name {_cut(repr(keys[0]))} is not text")
        return {key: _plain(item, 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and depth < 3:
        return [_plain(item, max(depth, 1) + 1) for item in value]
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (int, float)) and abs(value) < 2**63:
        return value
    raise InvalidCase(f"arguments: {_cut(repr(value))} is not a number, a text, true, false, null or a list of them")


def _cut(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:79]}…")
