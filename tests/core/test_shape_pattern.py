"""Which shapes are named where none is the one that was requested."""

from __future__ import annotations

import pytest

from ssinghal.core.shape_pattern import nearest, parse_pattern

KNOWN = [(1, 64, 56, 56), (1, 64, 112, 112), (1, 56, 64, 56), (1, 3, 224, 224), (1, 1000), (1, 2048, 1, 1), (0, 4)]


@pytest.mark.parametrize(
    ("pattern", "first"),
    [
        ("1,56,56,64", [(1, 56, 64, 56), (1, 64, 56, 56)]),  # another order; of two, the one with fewer sizes displaced
        ("1,64,56,57", [(1, 64, 56, 56)]),  # one size
        ("1,64,100,100", [(1, 64, 112, 112)]),  # the same rank alone: 1.12 twice
        ("1,9,9,9", [(1, 56, 64, 56), (1, 64, 56, 56), (1, 64, 112, 112), (1, 3, 224, 224), (1, 2048, 1, 1)]),
        ("2,4", [(0, 4)]),
    ],
)
def test_the_most_alike_come_first(pattern: str, first: list[tuple[int, ...]]) -> None:
    assert list(nearest(KNOWN, parse_pattern(pattern)))[: len(first)] == first


def test_the_same_rank_counts_only_where_nothing_is_more_alike() -> None:
    assert nearest(KNOWN, parse_pattern("1,64,56,57")) == ((1, 64, 56, 56),)


@pytest.mark.parametrize("pattern", ["1,*,56,56", "1,2,3"])
def test_nothing_is_like_any_size_or_another_rank(pattern: str) -> None:
    assert nearest(KNOWN, parse_pattern(pattern)) == ()
