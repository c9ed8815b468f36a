"""TTNN's functions by name, and the operators here that call them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from ssinghal.diagnose.mlir_to_case import FORMS
from ssinghal.operators import families

PREFIX = "ttnn."


def operators_calling(function: str) -> frozenset[str]:
    """Canonical names of the operators whose call is made by ``function``, with or without ``ttnn.``; none where none is.

    >>> sorted(operators_calling("ttnn.reshape"))
    ['flatten', 'unflatten', 'view']
    """
    name = function.removeprefix(PREFIX)
    return _operators_by_function().get(name) or _operators_by_function().get(name.rpartition(".")[2], frozenset())


@cache
def _operators_by_function() -> Mapping[str, frozenset[str]]:
    """By the declarations, and by what the functions are called in TT-MLIR; a name within a module counts without it too."""
    table: dict[str, set[str]] = {}
    for info in (info for members in families().values() for info in members):
        for function in filter(None, info.ttnn.split(", ")):
            name = function.removeprefix(PREFIX)
            for known_as in {name, name.rpartition(".")[2]}:
                table.setdefault(known_as, set()).add(info.name)
    for name, form in FORMS.items():
        table.setdefault(name, set()).add(form.info.name)
    return MappingProxyType({name: frozenset(operators) for name, operators in table.items()})
