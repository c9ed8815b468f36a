"""The search for edges of functions that are not monotone, and the parameters of calls; no call is run here."""

import math
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from ssinghal.capacity.parameters import Bounds, Goal, parameter_of
from ssinghal.capacity.search import EDGE_ALONE, SearchLimits, last_possible, search_edge
from ssinghal.catalog.expansion import expand
from ssinghal.catalog.loader import load_catalogs
from ssinghal.core.boards import load_board
from ssinghal.core.case import Placement
from ssinghal.errors import InvalidCase
from ssinghal.operators import find_operator, make_case
from ssinghal.operators.operator_info import working_shapes
from ssinghal.operators.resizing import resized, subject_of

MANY = SearchLimits(runs=10_000)


@dataclass(frozen=True)
class Ran:
    fits: bool | None


class RecordedRun:
    """Records the values that a search runs, in order."""

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
    run = RecordedRun(lambda value: value <= edge)
    result = search_edge(range(1, count + 1), run, start=start)
    assert found(result) == (None, 1) if edge == 0 else (min(edge, count), None if edge >= count else edge + 1)
    assert result.is_open == (edge >= count)
    assert result.is_confirmed == (0 < edge < count)
    assert not result.holes
    assert not result.is_spent
    assert len(set(run.values)) == len(run.values), "nothing is run twice"


@given(table=st.lists(st.booleans(), min_size=1, max_size=60), start=st.integers(0, 59))
def test_both_sides_are_run_for_any_function_and_nothing_else_is_claimed(table, start):
    run = RecordedRun(lambda value: table[value - 1])
    result = search_edge(range(1, len(table) + 1), run, start=start, limits=MANY)
    assert list(result.tried) == sorted(value - 1 for value in run.values)
    assert all(outcome.fits == table[index] for index, outcome in result.tried.items())
    if result.fit is None:
        assert not any(table[value - 1] for value in run.values)
    else:
        assert table[result.fit]
        assert result.is_confirmed or result.is_open
        assert result.is_open or not table[result.fail]
    holes = {value for hole in result.holes for value in range(hole.first, hole.last + 1) if value - 1 in result.tried}
    assert holes == {value for value in run.values if not table[value - 1] and value - 1 < (result.fit or 0)}


@given(table=st.lists(st.booleans(), min_size=1, max_size=40))
def test_with_as_many_samples_as_values_islands_below_twice_the_edge_are_found(table):
    result = search_edge(
        range(1, len(table) + 1), RecordedRun(lambda value: table[value - 1]), limits=SearchLimits(10_000, 2, 10_000)
    )
    if result.fit is not None:
        assert not any(table[result.fit + 1 : 2 * result.fit + 2])
        assert all(index in result.tried for index in range(result.fit))


@given(edge=st.integers(1, 100_000), known=st.integers(0, 100_000), ruled_out=st.integers(0, 100_000))
def test_arithmetic_saves_all_runs_but_those_of_the_two_sides(edge, known, ruled_out):
    """Arithmetic is certain of the first values and of those far beyond the edge."""

    def hint(value):
        return True if value <= min(known, edge) else False if value > edge + ruled_out else None

    run = RecordedRun(lambda value: value <= edge)
    result = search_edge(range(1, 1_000_000), run, hint)
    assert found(result) == (edge, edge + 1)
    assert not result.contradicted
    if known >= edge and not ruled_out:
        assert sorted(run.values) == [edge, edge + 1]
    certain = [value for value in run.values if hint(value) is not None]
    assert set(certain) <= {edge, edge + 1}


@given(edge=st.integers(1, 500), claimed=st.integers(0, 500))
def test_a_run_counts_more_than_arithmetic(edge, claimed):
    """Arithmetic is certain of a wrong edge."""
    result = search_edge(range(1, 501), RecordedRun(lambda value: value <= edge), lambda value: value <= claimed)
    assert found(result) == (edge, edge + 1 if edge < 500 else None)
    assert bool(result.contradicted) == (edge != claimed)


def test_an_island_beyond_the_edge_becomes_the_answer_and_the_hole_is_reported():
    """Halving from 8 and 16 finds 12 and 13; of the values beyond them 15 fits."""
    result = search_edge(range(1, 1000), RecordedRun(lambda value: value <= 12 or value == 15))
    assert found(result) == (15, 16)
    (hole,) = result.holes
    assert (hole.first, hole.last) == (13, 14)


def test_slices_end_at_a_ceiling():
    """From 64 slices downwards: at least 5 slices are needed, and at most 30 work."""
    result = search_edge(range(64, 0, -1), RecordedRun(lambda slices: 5 <= slices <= 30), start=63)
    assert found(result) == (5, 4)
    assert [(hole.first, hole.last) for hole in result.holes] == [(64, 31)]


def test_a_narrow_interval_that_the_strides_miss_is_found():
    """The strides down from one slice run 1, 2, 4, 8, 16 and 24 slices."""
    result = search_edge(range(24, 0, -1), RecordedRun(lambda slices: slices in (9, 10, 11)), start=23)
    assert found(result) == (9, 8)
    assert [(hole.first, hole.last) for hole in result.holes] == [(24, 12)]


def test_values_of_whole_tiles_are_followed_beyond_the_edge():
    """All values up to 640 fit, beyond it multiples of 32 up to 1,280, like an embedding whose result needs no second step."""
    values = range(1, 10_000)
    run = RecordedRun(lambda value: value <= 640 or (value % 32 == 0 and value <= 1280))
    result = search_edge(values, run, start=5, favoured=range(31, len(values), 32))
    assert found(result) == (1280, 1281)
    assert (result.holes[0].first, result.fit) == (641, 1279)


@given(table=st.lists(st.booleans(), min_size=1, max_size=60), first=st.integers(0, 9), period=st.integers(2, 9))
def test_favoured_values_end_like_others(table, first, period):
    favoured = range(first, len(table), period)
    result = search_edge(range(len(table)), RecordedRun(lambda value: table[value]), favoured=favoured, limits=MANY)
    assert result.is_open or result.is_confirmed or not any(outcome.fits for outcome in result.tried.values())


def test_a_search_where_nothing_fits():
    run = RecordedRun(lambda value: False)
    result = search_edge(range(1, 1_000_000), run)
    assert (result.fit, result.is_open, result.is_confirmed) == (None, False, False)
    assert run.values == [1, 2, 3], "larger batches are not run if smaller ones do not fit"
    assert search_edge([], run).fit is None


@given(
    edge=st.integers(1, 300),
    period=st.integers(2, 4),
    offset=st.integers(0, 3),
    start=st.integers(0, 299),
    valid=st.booleans(),
    certain=st.integers(0, 300),
)
@example(edge=1, period=2, offset=0, start=1, valid=True, certain=0)  # the only value in doubt cannot be tried
def test_values_that_cannot_be_tried_are_passed_over(edge, period, offset, start, valid, certain):
    """A model takes multiples of a size alone, or all but them: the answer is exact among what it takes."""

    def is_tried(value):
        return (value % period == offset % period) is valid

    assume(is_tried(start + 1))
    run = RecordedRun(lambda value: value <= edge if is_tried(value) else None)
    result = search_edge(range(1, 301), run, lambda value: False if value > edge + certain else None, start=start)
    tried = [value for value in range(1, 301) if is_tried(value)]
    fits, fails = [value for value in tried if value <= edge], [value for value in tried if value > edge]
    assert found(result) == (fits[-1] if fits else None, fails[0] if fails else None)
    assert result.is_confirmed == (bool(fits and fails) and fails[0] == fits[-1] + 1)
    between = range((found(result)[0] or 0) + 1, found(result)[1] or 301)
    assert {result.values[i] for i in result.untried} <= set(between) - set(tried)
    assert result.is_confirmed or result.is_open or result.untried, "what is unknown is named"
    assert result.is_monotone


@given(edge=st.integers(0, 300), start=st.integers(0, 299), certain=st.integers(0, 300))
@example(edge=1, start=223, certain=1)  # takes more than the 64 runs that a search has by default
def test_beyond_values_that_cannot_be_tried_nothing_is_claimed(edge, start, certain):
    """Every value beyond ``edge`` crashes: the last that fits is found, and the next is named as unknown."""
    run = RecordedRun(lambda value: True if value <= edge else None)
    hint = lambda value: True if value <= min(certain, edge) else None  # noqa: E731
    result = search_edge(range(1, 301), run, hint, start=start, limits=MANY)
    assert found(result) == (edge or None, None)
    assert not result.is_confirmed
    assert result.is_open == (edge == 300)
    assert [result.values[i] for i in result.untried][:1] == ([edge + 1] if edge < 300 else []) or edge == 0
    assert not result.holes
    assert not result.contradicted, "arithmetic that is certain of a value is not contradicted by a crash"
    assert len(run.values) <= 90, "six values at a time that cannot be tried, where halving takes one"


@given(table=st.lists(st.sampled_from([True, False, None]), min_size=1, max_size=60), start=st.integers(0, 59))
def test_for_any_function_what_is_unknown_is_on_neither_side(table, start):
    result = search_edge(range(len(table)), RecordedRun(lambda value: table[value]), start=start, limits=MANY)
    assert result.fit is None or table[result.fit] is True
    assert result.fail is None or table[result.fail] is False
    assert all(table[i] is None for i in result.untried)
    assert all(table[hole.first] is hole.fits and not hole.fits for hole in result.holes)
    if result.fit is not None and not result.is_open:
        assert result.is_confirmed == (table[result.fit + 1] is False)
        assert result.is_confirmed or result.fit + 1 in result.untried


@given(edge=st.integers(1, 60), guess=st.integers(1, 60))
def test_few_runs_where_the_guess_is_near(edge, guess):
    """Two runs confirm a right guess; strides double from a wrong one."""
    run = RecordedRun(lambda value: value <= edge)
    result = search_edge(range(1, 65), run, start=guess - 1, limits=EDGE_ALONE)
    assert found(result) == (edge, edge + 1)
    distance = abs(edge - guess)
    assert len(run.values) <= 2 + 2 * distance.bit_length()


def test_a_search_reports_that_it_stopped_at_its_limit():
    result = search_edge(range(1, 1_000_000), RecordedRun(lambda value: value <= 77_777), limits=SearchLimits(runs=20))
    assert result.is_spent
    assert not result.is_confirmed
    fit, fail = found(result)
    assert fit <= 77_777 < fail


def test_the_last_value_that_arithmetic_does_not_rule_out():
    assert last_possible(range(1, 100), lambda value: False if value > 42 else None) == 41
    assert last_possible(range(1, 100), lambda value: None) == 98
    assert last_possible(range(1, 100), lambda value: False) == 0


@settings(max_examples=50)
@given(table=st.lists(st.booleans(), min_size=1, max_size=60), stop=st.integers(1, 60))
def test_an_interrupted_search_continues_where_it_stopped(table, stop):
    """Known runs are not run again: the same runs in the same order, each once."""
    known = {}

    def remembered(value):
        if value not in known:
            if len(known) == stop:
                raise KeyboardInterrupt
            known[value] = Ran(table[value - 1])
        return known[value]

    values = range(1, len(table) + 1)
    complete = search_edge(values, RecordedRun(lambda value: table[value - 1]))
    try:
        result = search_edge(values, remembered)
    except KeyboardInterrupt:
        stop = len(table) + 1
        result = search_edge(values, remembered)
    assert result == complete


def test_after_its_time_a_search_makes_no_extra_checks():
    """The edge itself is still found."""
    run = RecordedRun(lambda value: value <= 100)
    result = search_edge(range(1, 1000), run, limits=SearchLimits(check_seconds=0))
    assert (found(result), result.is_spent) == ((100, 101), True)
    assert len(run.values) < len(search_edge(range(1, 1000), run).tried)
    hurried = search_edge(range(1, 1000), run, limits=SearchLimits(seconds=0))
    assert hurried.is_spent
    assert not hurried.tried


# Parameters -----------------------------------------------------------------------------------------------------------------

N150 = load_board("n150")


def parameter_for(goal, name, *shapes, bounds=Bounds(), placement=Placement(), **attrs):
    return parameter_of(goal, make_case(name, shapes, attrs, placement), N150, bounds)


def results(case):
    info = find_operator(case.name)
    return info.infer(working_shapes(info, case), info.complete_attrs(case.attrs))


@pytest.mark.parametrize(
    ("goal", "call", "attrs", "value", "shapes", "became"),
    [
        (Goal.BATCH, ("add", (2, 8, 8), (2, 8, 8)), {}, 5, ((5, 8, 8), (5, 8, 8)), {}),
        (Goal.BATCH, ("add", (2, 8, 8), (8, 8)), {}, 5, ((5, 8, 8), (8, 8)), {}),
        (Goal.BATCH, ("mul", (1, 8, 8, 8), (1, 8, 1, 1)), {}, 3, ((3, 8, 8, 8), (3, 8, 1, 1)), {}),
        (Goal.BATCH, ("add", (4, 12, 49, 49), (1, 12, 49, 49)), {}, 3, ((3, 12, 49, 49), (1, 12, 49, 49)), {}),
        (Goal.BATCH, ("view", (2, 6, 8)), {"size": [2, 48]}, 5, ((5, 6, 8),), {"size": [5, 48]}),
        (Goal.BATCH, ("view", (2, 6, 8)), {"size": [-1, 8]}, 5, ((5, 6, 8),), {"size": [-1, 8]}),
        (Goal.BATCH, ("view", (1, 6, 8)), {"size": [6, 8]}, 5, ((5, 6, 8),), {"size": [30, 8]}),
        (Goal.BATCH, ("view", (6, 2, 8)), {"size": [4, 24]}, 9, ((9, 2, 8),), {"size": [6, 24]}),
        (Goal.BATCH, ("expand", (1, 1, 8)), {"size": [1, 4, 8]}, 3, ((3, 1, 8),), {"size": [3, 4, 8]}),
        (Goal.BATCH, ("cat", (1, 3, 8), (1, 4, 8)), {"dim": 1}, 3, ((3, 3, 8), (3, 4, 8)), {"dim": 1}),
        (Goal.BATCH, ("matmul", (2, 8, 4), (2, 4, 8)), {}, 3, ((3, 8, 4), (3, 4, 8)), {}),
        (Goal.BATCH, ("linear", (2, 8, 4), (6, 4), (6,)), {}, 3, ((3, 8, 4), (6, 4), (6,)), {}),
        (Goal.BATCH, ("addmm", (6,), (8, 4), (4, 6)), {}, 9, ((6,), (9, 4), (4, 6)), {}),
        (Goal.BATCH, ("embedding", (100, 8), (2, 7)), {}, 3, ((100, 8), (3, 7)), {}),
        (Goal.BATCH, ("ones",), {"size": [2, 8]}, 3, (), {"size": [3, 8]}),
        (Goal.SEQUENCE, ("softmax", (1, 2, 64, 64)), {"dim": -1}, 96, ((1, 2, 96, 96),), {"dim": -1}),
        (Goal.SEQUENCE, ("native_layer_norm", (1, 197, 32)), {"normalized_shape": [32]}, 5, ((1, 5, 32),), None),
        (Goal.SEQUENCE, ("matmul", (1, 2, 64, 8), (1, 2, 8, 64)), {}, 32, ((1, 2, 32, 8), (1, 2, 8, 64)), {}),
        (Goal.SEQUENCE, ("matmul", (1, 2, 64, 64), (1, 2, 64, 8)), {}, 32, ((1, 2, 32, 32), (1, 2, 32, 8)), {}),
        (Goal.SEQUENCE, ("scaled_dot_product_attention", *[(1, 2, 64, 32)] * 3), {}, 96, ((1, 2, 96, 32),) * 3, {}),
        (Goal.RESOLUTION, ("relu", (1, 8, 640, 400)), {}, 768, ((1, 8, 768, 480),), {}),
        (Goal.RESOLUTION, ("relu", (1, 8, 67, 120)), {}, 134, ((1, 8, 134, 240),), {}),
        (Goal.RESOLUTION, ("mul", (1, 8, 64, 64), (1, 8, 1, 1)), {}, 96, ((1, 8, 96, 96), (1, 8, 1, 1)), {}),
        (Goal.RESOLUTION, ("cat", (1, 3, 64, 64), (1, 4, 64, 64)), {"dim": 1}, 96, ((1, 3, 96, 96), (1, 4, 96, 96)), None),
        (
            Goal.RESOLUTION, ("upsample_nearest2d", (1, 8, 64, 64)), {"output_size": [128, 128]},
            96, ((1, 8, 96, 96),), {"output_size": [192, 192]},
        ),
        (
            Goal.RESOLUTION, ("native_group_norm", (2, 32, 64, 64)), {"N": 2, "C": 32, "HxW": 4096, "group": 4},
            96, ((2, 32, 96, 96),), {"N": 2, "C": 32, "HxW": 9216, "group": 4},
        ),
        (Goal.SLICES, ("convolution", (1, 8, 64, 64), (8, 8, 3, 3)), {}, 4, None, {"slices": "height:4"}),
        (Goal.SLICES, ("convolution", (1, 8, 64, 64), (8, 8, 3, 3)), {"slices": "width:2"}, 4, None, {"slices": "width:4"}),
    ],
)  # fmt: skip
def test_what_grows_together(goal, call, attrs, value, shapes, became):
    parameter = parameter_for(goal, *call, **attrs)
    assert value in parameter.values
    case = parameter.case_of(value)
    assert case.inputs == (call[1:] if shapes is None else shapes)
    assert case.attrs == (attrs if became is None else became)


def test_attributes_of_maps_refer_to_the_placed_order():
    """Written NCHW and placed NHWC: dim 3 are channels, dim 1 is the height."""
    placement = Placement(channels_last=True)
    cat = ("cat", (1, 3, 64, 64), (1, 4, 64, 64))
    assert parameter_for(Goal.RESOLUTION, *cat, placement=placement, dim=3).case_of(96).inputs == (
        (1, 3, 96, 96),
        (1, 4, 96, 96),
    )
    with pytest.raises(InvalidCase, match="operands differ along it"):
        parameter_for(Goal.RESOLUTION, "cat", (1, 3, 64, 64), (1, 3, 64, 64), placement=placement, dim=1)


def test_resolutions_keep_the_aspect_and_multiples_of_the_stride():
    parameter = parameter_for(Goal.RESOLUTION, "convolution", (1, 3, 2160, 3840), (64, 3, 7, 7), stride=2)
    assert parameter.values[parameter.start] == 2160
    assert parameter.value_text(2160) == "2160x3840"
    for rows in parameter.values[:50]:
        height, width = parameter.case_of(rows).inputs[0][2:]
        assert height * 16 == width * 9
        assert height % 2 == width % 2 == 0
    uneven = parameter_for(Goal.RESOLUTION, "relu", (1, 8, 67, 120))
    assert uneven.value_text(67) == "67x120", "one row more or less, the nearest width"
    assert [uneven.value_text(rows) for rows in (66, 68)] == ["66x118", "68x122"]
    stepped = parameter_for(Goal.RESOLUTION, "relu", (1, 8, 640, 400), bounds=Bounds(step=32))
    assert [stepped.value_text(rows) for rows in stepped.values[:3]] == ["256x160", "512x320", "768x480"]


@pytest.mark.parametrize(
    ("goal", "call", "attrs", "bounds", "message"),
    [
        (
            Goal.RESOLUTION,
            ("view", (1, 8, 8, 8)),
            {"size": [1, 8, 64]},
            Bounds(),
            "the size [1, 8, 64] that it asks for",
        ),
        (Goal.RESOLUTION, ("relu", (8, 8)), {}, Bounds(), "relu: [8, 8] is no map of rank 4 or 5"),
        (Goal.RESOLUTION, ("matmul", (1, 2, 8, 8), (1, 2, 8, 8)), {}, Bounds(), "is no map"),
        (Goal.BATCH, ("cat", (1, 8), (2, 8)), {"dim": 0}, Bounds(), "dim 0 cannot grow, operands differ along it"),
        (Goal.BATCH, ("expand", (1, 8)), {"size": [4, 8]}, Bounds(), "dim 0 cannot grow, it is expanded to 4"),
        (Goal.BATCH, ("squeeze", (1, 8)), {"dim": 0}, Bounds(), "dim 0 cannot grow, it is squeezed away"),
        (Goal.BATCH, ("slice", (8, 8)), {"end": 4}, Bounds(), "a part that ends at 4 is taken of it"),
        (Goal.BATCH, ("scalar_tensor",), {"s": 1}, Bounds(), "it is not known what grows together"),
        (Goal.BATCH, ("view", (6, 8)), {"size": [4, 12]}, Bounds(step=1), "4 for 6 would be no whole number for 7"),
        (Goal.BATCH, ("relu", (8, 8)), {}, Bounds(dims=(0, 1)), "--dim: expected 1, got 2"),
        (Goal.SEQUENCE, ("relu", (8, 4)), {}, Bounds(dims=(0, 1)), "differ in size"),
        (Goal.SEQUENCE, ("relu", (8, 4)), {}, Bounds(dims=(2,)), "dim 2 is outside -2..1"),
        (Goal.BATCH, ("convolution", (1, 8, 8, 8), (8, 7, 3, 3)), {}, Bounds(), "does not go with 8 channels"),
        (Goal.SEQUENCE, ("convolution", (1, 8, 8, 8), (8, 8, 3, 3)), {}, Bounds(dims=(1,)), "does not go with"),
        (Goal.SLICES, ("relu", (8, 8)), {}, Bounds(), "only convolutions take a number of slices"),
        (Goal.L1_SMALL, ("relu", (8, 8)), {}, Bounds(), "needs no L1_SMALL"),
        (
            Goal.L1_SMALL,
            ("max_pool2d", (1, 8, 8, 8)),
            {"kernel_size": 2},
            Bounds(upto=2**21),
            "2097152 is outside 0..",
        ),
        (Goal.SLICES, ("convolution", (1, 8, 8, 8), (8, 8, 3, 3)), {}, Bounds(dims=(1,)), "slices has no dims"),
        (Goal.RESOLUTION, ("relu", (1, 8, 64, 64)), {}, Bounds(upto=7), "--upto 7: the first value is 8"),
    ],
)
def test_sizes_that_cannot_follow_are_rejected(goal, call, attrs, bounds, message):
    with pytest.raises(InvalidCase) as rejected:
        parameter_for(goal, *call, bounds=bounds, **attrs)
    assert message in str(rejected.value)
    assert "\n" not in str(rejected.value)


CASES = expand(load_catalogs(("crossed", "swin_b-1280x800", "yolo12x-640", "rtdetr-r50"))).cases[::7]


@pytest.mark.parametrize("goal", [Goal.BATCH, Goal.RESOLUTION, Goal.SEQUENCE])
def test_every_call_of_the_catalogs_has_its_parameter_or_a_reason(goal):
    """At its own size a call is unchanged. With twice the batch its results have twice the elements, or as many if the call
    reduces the batch or selects from it."""
    varied, doubled = 0, []
    for case in CASES:
        try:
            parameter = parameter_of(goal, case, N150)
        except InvalidCase:
            continue
        varied += 1
        batch = subject_of(case)[0]
        assert resized(case, dict(enumerate(subject_of(case)))).identity() == case.identity()
        if goal is Goal.BATCH and {batch, 2 * batch} <= set(parameter.values[:10_000]):
            assert parameter.case_of(batch).identity() == case.identity()
            once, twice = (sum(map(math.prod, results(parameter.case_of(n)))) for n in (batch, 2 * batch))
            assert twice in (once, 2 * once), case.id
            doubled.append(twice > once)
    assert varied > len(CASES) // 3
    assert goal is not Goal.BATCH or sum(doubled) > 0.9 * len(doubled) > 0.5 * len(CASES)


# What is left ----------------------------------------------------------------------------------------------------------------


@given(count=st.integers(1, 40), edge=st.integers(0, 40), start=st.integers(0, 50), neighbours=st.integers(0, 2))
@settings(max_examples=50, deadline=None)
def test_a_search_never_takes_more_runs_than_it_states(count, edge, start, neighbours):
    """Before each run, and the number falls with each."""
    limits = SearchLimits(neighbours=neighbours, samples=0)
    stated = []
    run = RecordedRun(lambda value: value <= edge)
    values = range(1, count + 1)
    result = search_edge(values, run, start=start, limits=limits, watch=lambda value, left: stated.append((value, left)))
    assert [value for value, _ in stated] == run.values
    for done, (_, left) in enumerate(stated):
        assert len(result.tried) - done <= left
    assert all(later < earlier for (_, earlier), (_, later) in pairwise(stated))


@pytest.mark.parametrize("start", [0, 5, 15])
def test_what_is_stated_first_is_the_longest_of_all_searches(start):
    first, longest = set(), 0
    for edge in range(17):
        stated = []
        run = RecordedRun(lambda value, edge=edge: value <= edge)
        search_edge(range(1, 17), run, start=start, limits=EDGE_ALONE, watch=lambda _, left, stated=stated: stated.append(left))
        first.add(stated[0])
        longest = max(longest, len(run.values))
    assert first == {longest}


def test_the_limit_of_runs_bounds_what_is_stated():
    stated = []
    limits = SearchLimits(runs=3, neighbours=0, samples=0)
    search_edge(range(256), RecordedRun(lambda value: value <= 77), limits=limits, watch=lambda _, left: stated.append(left))
    assert stated == [3, 2, 1]


def test_arithmetic_that_is_known_is_no_run_that_is_left():
    """From 101 upwards arithmetic rules out: of 100 and 101, one is run to confirm it."""
    stated = []
    run = RecordedRun(lambda value: value <= 100)
    hint = {True: None, False: False}
    search_edge(
        range(1, 257), run, lambda value: hint[value <= 100], start=99, limits=EDGE_ALONE, watch=lambda _, n: stated.append(n)
    )
    assert run.values == [100, 101]
    assert stated[1] == 1
