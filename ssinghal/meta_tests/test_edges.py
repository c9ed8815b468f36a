"""Edges: the search over functions that are not monotone, and real calls on the virtual board with both sides run."""

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from ssinghal.edges.search import EDGE_ALONE, Effort, last_possible, search_edge

MANY = Effort(runs=10_000)


@dataclass(frozen=True)
class Ran:
    fits: bool


class Asked:
    """What a search runs, in order."""

    def __init__(self, fits):
        self._fits, self.values = fits, []

    def __call__(self, value):
        self.values.append(value)
        return Ran(self._fits(value))


def found(edge):
    """The answer and the value after it."""
    return tuple(None if i is None else edge.values[i] for i in (edge.fit, edge.fail))


# Searches -------------------------------------------------------------------------------------------------------------------


@given(count=st.integers(1, 3000), edge=st.integers(0, 3000), start=st.integers(0, 3000))
def test_one_edge_is_found_exactly_from_any_start(count, edge, start):
    asked = Asked(lambda value: value <= edge)
    made = search_edge(range(1, count + 1), asked, start=start)
    assert found(made) == (None, 1) if edge == 0 else (min(edge, count), None if edge >= count else edge + 1)
    assert made.is_open == (edge >= count)
    assert made.is_confirmed == (0 < edge < count)
    assert not made.holes
    assert not made.is_spent
    assert len(set(asked.values)) == len(asked.values), "nothing is run twice"


@given(table=st.lists(st.booleans(), min_size=1, max_size=60), start=st.integers(0, 59))
def test_of_any_function_the_two_sides_were_run_and_nothing_else_is_claimed(table, start):
    asked = Asked(lambda value: table[value - 1])
    made = search_edge(range(1, len(table) + 1), asked, start=start, effort=MANY)
    assert list(made.tried) == sorted(value - 1 for value in asked.values)
    assert all(outcome.fits == table[index] for index, outcome in made.tried.items())
    if made.fit is None:
        assert not any(table[value - 1] for value in asked.values)
    else:
        assert table[made.fit]
        assert made.is_confirmed or made.is_open
        assert made.is_open or not table[made.fail]
    holes = {value for hole in made.holes for value in range(hole.first, hole.last + 1) if value - 1 in made.tried}
    assert holes == {value for value in asked.values if not table[value - 1] and value - 1 < (made.fit or 0)}


@given(table=st.lists(st.booleans(), min_size=1, max_size=40))
def test_with_as_many_samples_as_values_islands_below_twice_the_edge_are_found(table):
    made = search_edge(range(1, len(table) + 1), Asked(lambda value: table[value - 1]), effort=Effort(10_000, 2, 10_000))
    if made.fit is not None:
        assert not any(table[made.fit + 1 : 2 * made.fit + 2])
        assert all(index in made.tried for index in range(made.fit))


@given(edge=st.integers(1, 100_000), known=st.integers(0, 100_000), ruled_out=st.integers(0, 100_000))
def test_arithmetic_spares_runs_but_not_those_of_the_two_sides(edge, known, ruled_out):
    """It is sure of the first values, and of those far beyond the edge."""

    def hint(value):
        return True if value <= min(known, edge) else False if value > edge + ruled_out else None

    asked = Asked(lambda value: value <= edge)
    made = search_edge(range(1, 1_000_000), asked, hint)
    assert found(made) == (edge, edge + 1)
    assert not made.contradicted
    if known >= edge and not ruled_out:
        assert sorted(asked.values) == [edge, edge + 1]
    spared = [value for value in asked.values if hint(value) is not None]
    assert set(spared) <= {edge, edge + 1}


@given(edge=st.integers(1, 500), claimed=st.integers(0, 500))
def test_a_run_counts_more_than_arithmetic(edge, claimed):
    """Which is certain of another edge than there is."""
    made = search_edge(range(1, 501), Asked(lambda value: value <= edge), lambda value: value <= claimed)
    assert found(made) == (edge, edge + 1 if edge < 500 else None)
    assert bool(made.contradicted) == (edge != claimed)


def test_an_island_beyond_the_edge_becomes_the_answer_and_the_hole_is_told():
    """Halving from 8 and 16 finds 12 and 13; of the values beyond them 15 fits."""
    made = search_edge(range(1, 1000), Asked(lambda value: value <= 12 or value == 15))
    assert found(made) == (15, 16)
    (hole,) = made.holes
    assert (hole.first, hole.last) == (13, 14)


def test_slices_end_at_a_ceiling():
    """Downwards, from the most demanding: 5 slices are the fewest, and 30 the most that work."""
    made = search_edge(range(64, 0, -1), Asked(lambda slices: 5 <= slices <= 30), start=63)
    assert found(made) == (5, 4)
    assert [(hole.first, hole.last) for hole in made.holes] == [(64, 31)]


def test_a_narrow_stretch_that_the_strides_miss_is_looked_for():
    """The strides down from one slice run 1, 2, 4, 8, 16 and 24 slices."""
    made = search_edge(range(24, 0, -1), Asked(lambda slices: slices in (9, 10, 11)), start=23)
    assert found(made) == (9, 8)
    assert [(hole.first, hole.last) for hole in made.holes] == [(24, 12)]


def test_where_nothing_fits_it_says_so():
    asked = Asked(lambda value: False)
    made = search_edge(range(1, 1_000_000), asked)
    assert (made.fit, made.is_open, made.is_confirmed) == (None, False, False)
    assert asked.values == [1, 2, 3], "batches are not thought to fit where smaller ones do not"
    assert search_edge([], asked).fit is None


@given(edge=st.integers(1, 60), guess=st.integers(1, 60))
def test_few_runs_where_the_guess_is_near(edge, guess):
    """Two confirm a guess that is right; strides double from one that is not."""
    asked = Asked(lambda value: value <= edge)
    made = search_edge(range(1, 65), asked, start=guess - 1, effort=EDGE_ALONE)
    assert found(made) == (edge, edge + 1)
    distance = abs(edge - guess)
    assert len(asked.values) <= 2 + 2 * distance.bit_length()


def test_runs_that_are_used_up_are_said_to_be():
    made = search_edge(range(1, 1_000_000), Asked(lambda value: value <= 77_777), effort=Effort(runs=20))
    assert made.is_spent
    assert not made.is_confirmed
    fit, fail = found(made)
    assert fit <= 77_777 < fail


def test_the_last_that_arithmetic_does_not_rule_out():
    assert last_possible(range(1, 100), lambda value: False if value > 42 else None) == 41
    assert last_possible(range(1, 100), lambda value: None) == 98
    assert last_possible(range(1, 100), lambda value: False) == 0


@settings(max_examples=50)
@given(table=st.lists(st.booleans(), min_size=1, max_size=60), stop=st.integers(1, 60))
def test_a_search_that_was_interrupted_goes_on_where_it_was(table, stop):
    """Runs known from before are answered, not run: the same runs in the same order, each once."""
    known = {}

    def remembered(value):
        if value not in known:
            if len(known) == stop:
                raise KeyboardInterrupt
            known[value] = Ran(table[value - 1])
        return known[value]

    values = range(1, len(table) + 1)
    whole = search_edge(values, Asked(lambda value: table[value - 1]))
    try:
        made = search_edge(values, remembered)
    except KeyboardInterrupt:
        stop = len(table) + 1
        made = search_edge(values, remembered)
    assert made == whole
