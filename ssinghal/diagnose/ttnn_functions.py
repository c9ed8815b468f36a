"""The functions of TTNN: their names in Python, and the operators that call them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from ssinghal.diagnose.mlir_to_case import OP_MAPPINGS
from ssinghal.operators import families

PREFIX = "ttnn."
_NAMES = Path(__file__).with_name("ttnn_functions.txt")  # of 0.66.0, 0.75.0 and 0.81.1, without those that run no program
_MODULES = ("", "transformer", "kv_cache", "experimental")  # the first one that has a name is meant


def operators_calling(function: str) -> frozenset[str]:
    """Returns the canonical names of the operators that call ``function``, given with or without ``ttnn.``.

    >>> sorted(operators_calling("ttnn.reshape"))
    ['flatten', 'unflatten', 'view']
    """
    name = function.removeprefix(PREFIX)
    return _operators_by_function().get(name) or _operators_by_function().get(name.rpartition(".")[2], frozenset())


def python_name(name: str) -> str | None:
    """Returns a function's name in Python, without ``ttnn.``, from a part of a name that C++, a compiler or a test gives it.

    >>> python_name("PagedUpdateCache"), python_name("top_k"), python_name("Buffer")
    ('experimental.paged_update_cache', 'topk', None)
    """
    return _names_by_key().get(_key(name))


def _key(name: str) -> str:
    return name.replace("_", "").lower()


@cache
def _names_by_key() -> Mapping[str, str]:
    names = sorted(_NAMES.read_text().split(), key=lambda name: _MODULES.index(name.rpartition(".")[0]))
    table: dict[str, str] = {}
    for name in (*names, *OP_MAPPINGS):
        table.setdefault(_key(name.rpartition(".")[2]), name)
    return MappingProxyType(table)


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
