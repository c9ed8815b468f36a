"""Values as JSON has them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import pytest

from ssinghal.core.json_values import fields_of, plain
from ssinghal.core.tensors import BufferType, Layout


@dataclass(frozen=True)
class Inner:
    layout: Layout
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Outer:
    inner: Inner
    sizes: MappingProxyType[BufferType, int]


class Own:
    def to_json(self):
        return {"own": 1}


class Pair(NamedTuple):
    first: Layout
    second: int


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (1.5, "1.5"),
        ("text", '"text"'),
        (Layout.TILE, '"tile"'),
        ((1, (2, Layout.TILE)), '[1, [2, "tile"]]'),
        ([None, (True,)], "[null, [true]]"),
        (Pair(Layout.TILE, 2), '["tile", 2]'),
        ({BufferType.L1: (1, 2)}, '{"l1": [1, 2]}'),
        (MappingProxyType({"a": Layout.TILE}), '{"a": "tile"}'),
        (Own(), '{"own": 1}'),
        ((Own(),), '[{"own": 1}]'),
        (
            Outer(Inner(Layout.TILE, (1, 2)), MappingProxyType({BufferType.DRAM: 3})),
            '{"inner": {"layout": "tile", "shape": [1, 2]}, "sizes": {"dram": 3}}',
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_plain_values(value, text):
    assert json.dumps(plain(value)) == text


def test_fields_are_as_they_are():
    inner = Inner(Layout.TILE, (1,))
    fields = fields_of(inner)
    assert fields == {"layout": Layout.TILE, "shape": (1,)}
    assert fields["layout"] is Layout.TILE
