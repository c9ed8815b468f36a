"""A sample is the same every time, spans the sizes, and is not reshuffled by what joins."""

from __future__ import annotations

import random

import pytest

from ssinghal.catalog.sampling import case_bytes, sample
from ssinghal.core.case import Case
from ssinghal.operators import make_case


def relu(*sizes: int) -> list[Case]:
    return [make_case("relu", ((1, 32, size),)) for size in sizes]


def widths(cases: list[Case]) -> list[int]:
    return [case.inputs[0][2] for case in cases]


def test_the_bytes_of_a_case_are_those_of_all_its_tensors():
    assert case_bytes(make_case("add", ((4, 8), (4, 8)))) == 3 * 32 * 2
    assert case_bytes(make_case("ones", ((4, 8),))) == 32 * 2


@pytest.mark.parametrize(("count", "kept"), [(1, [3]), (2, [3, 9000]), (100, [70, 3, 9000, 5])])
def test_the_ends_are_kept_and_the_order_is_that_of_the_cases(count, kept):
    cases = relu(70, 3, 9000, 5)
    assert widths(sample(cases, count)) == kept


def test_each_name_has_its_own_share():
    cases = [*relu(1, 2, 3), *(make_case("silu", ((1, 32, size),)) for size in (1, 2, 3))]
    kept = sample(cases, 2)
    assert [(case.name, case.inputs[0][2]) for case in kept] == [("relu", 1), ("relu", 3), ("silu", 1), ("silu", 3)]


def test_many_of_one_size_do_not_crowd_out_the_others():
    """200 cases between 32,768 and 65,535 columns, and one in each class of a factor of two below."""
    classes = [2**n for n in range(14)]
    kept = widths(sample(relu(*classes, *range(32_768, 65_536, 164)), 16))
    assert len(kept) == 16
    assert set(classes) <= set(kept)


def test_it_hangs_on_the_cases_and_not_on_their_order():
    cases = relu(*range(1, 400, 3))
    shuffled = random.Random(1).sample(cases, len(cases))
    assert sorted(widths(sample(cases, 9))) == sorted(widths(sample(shuffled, 9)))


def test_what_joins_changes_little():
    """A new case takes at most one place: in its class, or as the largest, whose predecessor then competes again."""
    cases = relu(*range(64, 1024, 7))
    before = set(widths(sample(cases, 12)))
    for size in (65, 300, 700, 1022, 5000):
        after = set(widths(sample([*cases, *relu(size)], 12)))
        assert len(after) == 12
        assert len(before - after) <= 2
