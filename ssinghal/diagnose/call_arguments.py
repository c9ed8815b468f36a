"""Arguments by name of a call in a line of Python, or as a test report prints them, carried into a case.

Only what the text states is carried: literals, constants of TTNN, configs made of these, and what TTNN printed. A name that
stands for something else is reported, never guessed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ssinghal.core.case import Case, OutputMemory
from ssinghal.core.memory_config import MemoryRequest
from ssinghal.core.parsing import dtype_named
from ssinghal.core.tensors import DType
from ssinghal.diagnose.parse.brackets import split
from ssinghal.diagnose.printed import memory_in
from ssinghal.errors import InvalidCase, cut
from ssinghal.operators import make_case
from ssinghal.operators.case_words import attr_text
from ssinghal.operators.operator_info import OperatorInfo
from ssinghal.operators.settings import settings_of, table
from ssinghal.operators.settings.table import Field
from ssinghal.operators.settings.values import canonical

_CORES = ("CoreGrid", "CoreCoord", "CoreRange", "CoreRangeSet", "MemoryConfig", "ShardSpec", "UnaryWithParam", "ttnn", "set")
_DTYPE = re.compile(r"<?(?:ttnn\.)?(?:DataType(?:\.|::))?(\w+)(?:: \d+>)?")
_FLAGS: Mapping[str, bool] = {"True": True, "False": False, "true": True, "false": False}
_NONE = ("None", "std::nullopt")
_SHOWN = 80


@dataclass(frozen=True)
class CallArguments:
    """What the arguments of a call set. ``memory`` and ``dtype``: of its result. ``left_out``: what could not be carried."""

    attrs: Mapping[str, Any]
    memory: MemoryRequest | None = None
    dtype: DType | None = None
    left_out: tuple[str, ...] = ()

    def applied_to(self, case: Case) -> Case:
        """Returns ``case`` with these settings, result memory and dtype."""
        placement = case.placement
        if self.memory is not None:
            output = OutputMemory(self.memory.buffer.value)
            is_same = self.memory == placement.request
            placement = replace(placement, output_memory=OutputMemory.SAME if is_same else output)
            placement = replace(placement, output_sharding=None if is_same else self.memory.sharding)
        if self.dtype is not None and self.dtype is not (placement.operand(0).dtype or placement.dtype):
            placement = replace(placement, output_dtype=self.dtype)
        if not self.attrs and placement == case.placement:
            return case
        return make_case(case.name, case.inputs, {**case.attrs, **self.attrs}, placement, case.sources)

    def words(self) -> list[str]:
        """Returns them as options of ``probe``."""
        words = [word for name, value in self.attrs.items() for word in ("--attr", f"{name}={attr_text(value)}")]
        words += ["--output-memory", str(self.memory)] if self.memory else []
        return words + (["--output-dtype", self.dtype.value] if self.dtype else [])


def call_arguments(texts: Mapping[str, str], info: OperatorInfo) -> CallArguments:
    """Returns what ``texts``, arguments by name, set of a call of ``info``."""
    settings = settings_of(info)
    attrs: dict[str, Any] = {}
    memory: MemoryRequest | None = None
    dtype: DType | None = None
    left_out: list[str] = []
    for name, text in texts.items():
        is_flag = name in info.attrs and text in _FLAGS
        if text in _NONE or not (name in ("memory_config", "dtype") or name in settings or is_flag):
            continue
        if unknown := sorted(_unknown_names(text)):
            left_out.append(f"{name}={cut(text, _SHOWN)} ({', '.join(unknown)} is not in the text)")
            continue
        try:
            if name == "memory_config":
                memory = memory_in(text)
            elif name == "dtype":
                dtype = _dtype(text)
            elif is_flag:
                attrs[name] = _FLAGS[text]
            else:
                attrs[name] = canonical(_written(text, settings[name]), settings[name], name)
        except InvalidCase as error:
            left_out.append(f"{name}={cut(text, _SHOWN)} ({error})")
    return CallArguments(attrs, memory, dtype, tuple(left_out))


def _written(text: str, field: Field) -> Any:
    """Returns a literal's value; configs and names stay text, which the settings read."""
    try:
        return ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return text


def _dtype(text: str) -> DType:
    match = _DTYPE.fullmatch(text)
    if match is None:
        raise InvalidCase(f"{cut(text, _SHOWN)}: expected a dtype")
    return dtype_named(match[1].lower())


def _unknown_names(text: str) -> set[str]:
    """Returns the names in an expression of Python that are not TTNN's; none in what TTNN prints, which is no Python."""
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return set()
    known = {*_CORES, *table().classes, *table().aliases}
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id not in known}


def keywords_of(call: ast.Call) -> dict[str, str]:
    """Returns the arguments by name of a call in a line of Python."""
    return {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords if keyword.arg}


def printed_keywords(text: str) -> dict[str, str]:
    """Returns arguments by name as a test report prints them: ``{'core_grid': ttnn.CoreGrid(x=8, y=8), 'dtype': None}``."""
    inner = text.strip()
    if not (inner.startswith("{") and inner.endswith("}")):
        return {}
    return dict(_pairs(inner[1:-1]))


def _pairs(inner: str) -> Iterator[tuple[str, str]]:
    for part in split(inner):
        name, colon, value = part.partition(":")
        if colon and re.fullmatch(r"\s*'\w+'\s*", name):
            yield name.strip().strip("'"), value.strip()
