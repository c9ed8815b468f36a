"""The marks: what they mean, and what is wrong with them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from ssinghal.core.boards import load_board
from ssinghal.core.parsing import one_of, size_in_bytes
from ssinghal.core.verdict import Resource
from ssinghal.errors import InvalidCase


@dataclass(frozen=True)
class Budget:
    """Bytes that a test may take of a memory, None where there is no limit: per core (L1) or per bank (DRAM)."""

    l1_per_core: int | None = None
    dram_per_bank: int | None = None
    program_buffers: int | None = None
    l1_small: int | None = None


@dataclass(frozen=True)
class ExpectedOom:
    resources: tuple[Resource, ...]
    reason: str = ""

    def __str__(self) -> str:
        return f"expect_oom({' or '.join(self.resources)})"


@dataclass(frozen=True)
class Marks:
    """What the marks of one test say. ``leak_bytes``: per bank or core of each memory."""

    budget: Budget | None = None
    leak_bytes: int | None = None
    expected: ExpectedOom | None = None
    boards: tuple[str, ...] = ()


def limit_device_memory(
    *, l1_per_core: Any = None, dram_per_bank: Any = None, program_buffers: Any = None, l1_small: Any = None
) -> Budget:
    given = {"l1_per_core": l1_per_core, "dram_per_bank": dram_per_bank, "program_buffers": program_buffers}
    sizes = {name: size_in_bytes(value) for name, value in {**given, "l1_small": l1_small}.items() if value is not None}
    if not sizes:
        raise InvalidCase("expected at least one limit, such as l1_per_core='900 KiB'")
    return Budget(**sizes)


def limit_device_leaks(limit: Any) -> int:
    return size_in_bytes(limit)


def expect_oom(*, resource: Any, reason: str = "") -> ExpectedOom:
    if not isinstance(reason, str):
        raise InvalidCase(f"reason {reason!r}: expected a text")
    return ExpectedOom(tuple(one_of(Resource, "resource", name) for name in _names("resource", resource)), reason)


def fits(*, board: Any) -> tuple[str, ...]:
    return tuple(load_board(name).name for name in _names("board", board))


def _names(what: str, value: Any) -> list[str]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, (list, tuple)) or not names or not all(isinstance(name, str) for name in names):
        raise InvalidCase(f"{what} {value!r}: expected a name, or a list of names")
    return list(dict.fromkeys(names))


def marks_of(item: pytest.Item) -> Marks:
    """Returns what the marks of a test say. Of one that is at a test and at its class, the test's counts.

    Raises:
        InvalidCase: A mark that cannot be used; one line with the place of the test.
    """
    budgets = [_read(item, mark, limit_device_memory) for mark in item.iter_markers("limit_device_memory")]
    limits = {name: value for budget in reversed(budgets) for name, value in vars(budget).items() if value is not None}
    return Marks(
        Budget(**limits) if limits else None,
        _closest(item, "limit_device_leaks", limit_device_leaks, None),
        _closest(item, "expect_oom", expect_oom, None),
        _closest(item, "fits", fits, ()),
    )


def _closest(item: pytest.Item, name: str, parse: Callable[..., Any], default: Any) -> Any:
    values = [_read(item, mark, parse) for mark in item.iter_markers(name)]
    return values[0] if values else default


def _read(item: pytest.Item, mark: pytest.Mark, parse: Callable[..., Any]) -> Any:
    try:
        inspect.signature(parse).bind(*mark.args, **mark.kwargs)
        return parse(*mark.args, **mark.kwargs)
    except (TypeError, InvalidCase) as error:
        file, line, _ = item.location
        place = file if line is None else f"{file}:{line + 1}"
        names = ", ".join(
            f"{name}=" if p.kind is p.KEYWORD_ONLY else name for name, p in inspect.signature(parse).parameters.items()
        )
        form = f"{mark.name}({names})"
        expected = f"; expected {form}" if isinstance(error, TypeError) else ""
        raise InvalidCase(f"{place}: mark {mark.name}: {error}{expected}") from None
