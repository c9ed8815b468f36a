"""Finds the operators that call a function of TTNN."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from ssinghal.diagnose.mlir_to_case import OP_MAPPINGS
from ssinghal.operators import families

PREFIX = "ttnn."


def operators_calling(function: str) -> frozenset[str]:
    """Returns the canonical names of the operators that call ``function``, given with or without ``ttnn.``.

    >>> sorted(operators_calling("ttnn.reshape"))
    ['flatten', 'unflatten', 'view']
    """
    name = function.removeprefix(PREFIX)
    return _operators_by_function().get(name) or _operators_by_function().get(name.rpartition(".")[2], frozenset())


@cache
def _operators_by_function() -> Mapping[str, frozenset[str]]:
    """Returns operators by the functions that they declare and by their names in TT-MLIR, with and without module names."""
    table: dict[str, set[str]] = {}
    for info in (info for members in families().values() for info in members):
        for function in filter(None, info.ttnn.split(", ")):
            name = function.removeprefix(PREFIX)
            for known_as in {name, name.rpartition(".")[2]}:
                table.setdefault(known_as, set()).add(info.name)
    for name, mapping in OP_MAPPINGS.items():
        table.setdefault(name, set()).add(mapping.info.name)
    return MappingProxyType({name: frozenset(operators) for name, operators in table.items()})
