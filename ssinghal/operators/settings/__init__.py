"""Settings: the arguments of TTNN's calls that change how something is computed, by TTNN's names, among a case's attributes.

Program configs, core grids, compute kernel configs, fused activations. ``table``: which call takes which, in which release;
``values``: the forms in which users write them, and the one that a case keeps; ``passing``: how they reach TTNN.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from ssinghal.core.sharding import core_ranges
from ssinghal.core.tensors import Board
from ssinghal.errors import InvalidCase, unknown
from ssinghal.operators.operator_info import OperatorInfo
from ssinghal.operators.settings.table import Field, settings_of, table
from ssinghal.operators.settings.values import canonical

__all__ = ["check_board", "check_name", "settings_of", "table", "with_canonical_settings"]
_LISTED = 12


def with_canonical_settings(info: OperatorInfo, attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the attributes with each setting in its JSON form; attributes of the operator, and unknown ones, as they are.

    Raises:
        InvalidCase: A setting has a value that TTNN's argument cannot have.
    """
    known = settings_of(info)
    return {
        name: canonical(value, known[name], f"{info.name}: {name}") if name in known else value for name, value in attrs.items()
    }


def check_name(info: OperatorInfo, name: str, *, typed: str = "") -> None:
    """Raises InvalidCase, with the nearest names, unless it is an attribute of the operator or a setting of its calls.

    ``typed``: the operator's name as the user typed it, for the text.
    """
    settings = settings_of(info)
    if name in info.attrs or name in settings:
        return
    nearest = difflib.get_close_matches(name, settings, cutoff=0.6) and not difflib.get_close_matches(name, info.attrs)
    takers = [function for function, taken in table().functions.items() if name in taken and taken[name].is_config]
    if takers and not difflib.get_close_matches(name, settings, cutoff=0.9):
        near = difflib.get_close_matches(info.functions[0] if info.functions else name, takers, n=4, cutoff=0)
        listed = ", ".join(f"ttnn.{function}" for function in near) + (" and others" if len(takers) > 4 else "")
        own = difflib.get_close_matches(name, settings, n=1, cutoff=0.8)
        hint = f"; did you mean {own[0]}?" if own else ""
        raise InvalidCase(f"{info.name}: {name} is a setting of {listed}; {info.ttnn} does not take it{hint}")
    kind, known = ("setting", settings) if nearest else ("attribute", info.attrs)
    text = unknown(f"{kind} of {typed}", name, known) if typed else f"{info.name}: {unknown(kind, name, known)}"
    others = (
        f"; settings: {', '.join(sorted(settings))}" if typed and settings and not nearest and len(settings) <= _LISTED else ""
    )
    raise InvalidCase(text + others)


def check_board(operator: str, settings: Mapping[str, Any], fields: Mapping[str, Field], board: Board) -> None:
    """Raises InvalidCase for a grid or core ranges beyond the board's."""
    for name, value in settings.items():
        for where, (columns, rows) in _grids(value, fields[name], f"{operator}: {name}"):
            if columns > board.grid[0] or rows > board.grid[1]:
                grid, limit = f"{columns}x{rows}", "{}x{}".format(*board.grid)
                raise InvalidCase(f"{where}: a grid of {grid} cores; board {board.name} has {limit} (columns x rows)")


def _grids(value: Any, field: Field, where: str) -> Iterable[tuple[str, tuple[int, int]]]:
    """Yields each grid in a setting with its place in it."""
    if isinstance(value, Mapping):
        fields = table().classes[value["type"]]
        for name, item in value.items():
            if name in fields:
                yield from _grids(item, fields[name], f"{where}: {name}")
    elif {"CoreGrid", "CoreCoord"} & set(field.kinds) and isinstance(value, list):
        columns, rows = value
        yield where, (columns, rows)
    elif "CoreRangeSet" in field.kinds and isinstance(value, str):
        yield where, core_ranges(value, where).bounds
