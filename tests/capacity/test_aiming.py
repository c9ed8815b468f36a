"""Searches that aim by what runs needed: the same answers whatever a guess is worth, and fewer runs where it is good."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssinghal.capacity.aiming import Aim
from ssinghal.capacity.search import SearchLimits, search_edge

CHECKED = SearchLimits(neighbours=1, samples=0)
ALONE = SearchLimits(neighbours=0, samples=0)
SHARES = st.one_of(st.none(), st.floats(0.001, 3.0))


@dataclass(frozen=True)
class Ran:
    fits: bool | None
    demand: float | None


def searched(values, outcome, start=0, limits=CHECKED, hint=None):
    """The edge, the values in the order of their runs, and how many runs were left at most before each."""
    order, left = [], []

    def watch(value, most):
        order.append(value)
        left.append(most)

    aim = Aim(values, lambda ran: ran.demand)
    return search_edge(values, outcome, hint, start=start, limits=limits, aim=aim, watch=watch), order, left


@given(
    count=st.integers(1, 60),
    edge=st.integers(0, 60),
    start=st.integers(0, 70),
    demands=st.lists(SHARES, min_size=60, max_size=60),
    ruled_out=st.integers(0, 60),
)
@settings(deadline=None)
def test_the_edge_is_found_whatever_runs_state_of_their_demand(count, edge, start, demands, ruled_out):
    def hint(value):
        return False if value > edge + ruled_out else None

    result, order, left = searched(
        range(1, count + 1), lambda value: Ran(value <= edge, demands[value - 1]), start=start, hint=hint
    )
    fit = None if edge == 0 else min(edge, count)
    assert result.fit == (None if fit is None else fit - 1)
    assert result.fail == (None if edge >= count else edge)
    assert len(set(order)) == len(order), "nothing is run twice"
    for done, most in enumerate(left):
        assert len(order) - done <= most


@given(
    table=st.lists(st.sampled_from([True, False, None]), min_size=1, max_size=40),
    demands=st.lists(SHARES, min_size=40, max_size=40),
)
@settings(deadline=None)
def test_both_sides_are_run_for_any_function(table, demands):
    """Some values cannot be tried, and larger ones may fit where smaller ones do not."""
    result, order, _ = searched(range(1, len(table) + 1), lambda value: Ran(table[value - 1], demands[value - 1]))
    assert list(result.tried) == sorted(value - 1 for value in order)
    if result.fit is not None:
        assert table[result.fit]
        assert result.is_open or result.fail is not None or result.untried
    if all(fits is not None for fits in table) and result.fit is not None:
        assert result.is_confirmed or result.is_open


@pytest.mark.parametrize(
    ("edge", "demand", "order"),
    [
        # A share of 0.0166 for each: 60 are 0.996. The size grows eightfold at most.
        (60, lambda n: 0.0166 * n, [1, 2, 16, 60, 61]),
        # Beyond 50 no block is large enough: from 16, 0.2656, to 60, 1.166, the line is 1 at 51.9.
        (50, lambda n: 0.0166 * n + (0.17 if n > 50 else 0), [1, 2, 16, 60, 51, 50]),
        # Weights alone until 2, so there is no line: strides until there is one.
        (40, lambda n: max(0.05, 0.0245 * n), [1, 2, 4, 32, 40, 41]),
        # Another memory runs out, which states no demand: the gap from 16 to 60 is halved.
        (30, lambda n: 0.0166 * n if n <= 30 else None, [1, 2, 16, 60, 38, 27, 32, 29, 30, 31]),
        (256, lambda n: 0.00001 * n, [1, 2, 16, 128, 256]),
    ],
)
def test_runs_go_where_the_line_through_the_last_two_ends(edge, demand, order):
    assert searched(range(1, 257), lambda n: Ran(n <= edge, demand(n)), limits=ALONE)[1] == order


def test_a_straight_line_takes_half_the_work_of_strides():
    """Where a run takes as long as its value is large."""

    def outcome(n):
        return Ran(n <= 60, 0.0166 * n)

    values, strides = range(1, 257), []
    search_edge(values, outcome, limits=ALONE, watch=lambda value, _: strides.append(value))
    assert strides == [1, 2, 4, 8, 16, 32, 64, 48, 56, 60, 62, 61]
    assert sum(searched(values, outcome, limits=ALONE)[1]) < 0.5 * sum(strides)
