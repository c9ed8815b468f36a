"""The search for edges, over functions that are not monotone, and the knobs of calls; ``test_edges_runs.py`` runs calls."""

import math
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssinghal.capacity.parameters import Bounds, Goal, knob_of
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
    made = search_edge(range(1, len(table) + 1), Asked(lambda value: table[value - 1]), effort=SearchLimits(10_000, 2, 10_000))
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


def test_values_of_whole_tiles_are_followed_beyond_the_edge():
    """Up to 640 all fit, beyond it multiples of 32 up to 1,280, as an embedding whose result needs no second step."""
    values = range(1, 10_000)
    asked = Asked(lambda value: value <= 640 or (value % 32 == 0 and value <= 1280))
    made = search_edge(values, asked, start=5, favoured=range(31, len(values), 32))
    assert found(made) == (1280, 1281)
    assert (made.holes[0].first, made.fit) == (641, 1279)


@given(table=st.lists(st.booleans(), min_size=1, max_size=60), first=st.integers(0, 9), period=st.integers(2, 9))
def test_favoured_values_end_like_others(table, first, period):
    favoured = range(first, len(table), period)
    made = search_edge(range(len(table)), Asked(lambda value: table[value]), favoured=favoured, effort=MANY)
    assert made.is_open or made.is_confirmed or not any(outcome.fits for outcome in made.tried.values())


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
    made = search_edge(range(1, 1_000_000), Asked(lambda value: value <= 77_777), effort=SearchLimits(runs=20))
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


def test_after_its_time_a_search_doubts_no_more():
    """The edge itself is narrowed all the same."""
    asked = Asked(lambda value: value <= 100)
    made = search_edge(range(1, 1000), asked, effort=SearchLimits(doubt_seconds=0))
    assert (found(made), made.is_spent) == ((100, 101), True)
    assert len(asked.values) < len(search_edge(range(1, 1000), asked).tried)
    hurried = search_edge(range(1, 1000), asked, effort=SearchLimits(seconds=0))
    assert hurried.is_spent
    assert not hurried.tried


# Knobs ----------------------------------------------------------------------------------------------------------------------

N150 = load_board("n150")


def knob(goal, name, *shapes, bounds=Bounds(), placement=Placement(), **attrs):
    return knob_of(goal, make_case(name, shapes, attrs, placement), N150, bounds)


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
    made = knob(goal, *call, **attrs)
    assert value in made.values
    case = made.case_of(value)
    assert case.inputs == (call[1:] if shapes is None else shapes)
    assert case.attrs == (attrs if became is None else became)


def test_attributes_of_maps_speak_of_them_as_placed():
    """Written NCHW and placed NHWC: dim 3 are channels, dim 1 is the height."""
    placement = Placement(channels_last=True)
    cat = ("cat", (1, 3, 64, 64), (1, 4, 64, 64))
    assert knob(Goal.RESOLUTION, *cat, placement=placement, dim=3).case_of(96).inputs == ((1, 3, 96, 96), (1, 4, 96, 96))
    with pytest.raises(InvalidCase, match="operands differ along it"):
        knob(Goal.RESOLUTION, "cat", (1, 3, 64, 64), (1, 3, 64, 64), placement=placement, dim=1)


def test_resolutions_keep_the_aspect_and_multiples_of_the_stride():
    made = knob(Goal.RESOLUTION, "convolution", (1, 3, 2160, 3840), (64, 3, 7, 7), stride=2)
    assert made.values[made.start] == 2160
    assert made.shown(2160) == "2160x3840"
    for rows in made.values[:50]:
        height, width = made.case_of(rows).inputs[0][2:]
        assert height * 16 == width * 9
        assert height % 2 == width % 2 == 0
    uneven = knob(Goal.RESOLUTION, "relu", (1, 8, 67, 120))
    assert uneven.shown(67) == "67x120", "one row more or less, the width as near as can be"
    assert [uneven.shown(rows) for rows in (66, 68)] == ["66x118", "68x122"]
    stepped = knob(Goal.RESOLUTION, "relu", (1, 8, 640, 400), bounds=Bounds(step=32))
    assert [stepped.shown(rows) for rows in stepped.values[:3]] == ["256x160", "512x320", "768x480"]


@pytest.mark.parametrize(
    ("goal", "call", "attrs", "bounds", "said"),
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
        (Goal.SLICES, ("relu", (8, 8)), {}, Bounds(), "only convolutions are told into how many slices"),
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
def test_what_cannot_follow_is_refused(goal, call, attrs, bounds, said):
    with pytest.raises(InvalidCase) as refused:
        knob(goal, *call, bounds=bounds, **attrs)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


CASES = expand(load_catalogs(("crossed", "swin_b-1280x800", "yolo12x-640", "rtdetr-r50"))).cases[::7]


@pytest.mark.parametrize("goal", [Goal.BATCH, Goal.RESOLUTION, Goal.SEQUENCE])
def test_every_call_of_the_catalogs_has_its_knob_or_a_reason(goal):
    """At its own size a call is itself, and with twice the batch its results have twice the elements; as many where it picks
    from the batch or reduces it."""
    turned, doubled = 0, []
    for case in CASES:
        try:
            made = knob_of(goal, case, N150)
        except InvalidCase:
            continue
        turned += 1
        batch = subject_of(case)[0]
        assert resized(case, dict(enumerate(subject_of(case)))).identity() == case.identity()
        if goal is Goal.BATCH and {batch, 2 * batch} <= set(made.values[:10_000]):
            assert made.case_of(batch).identity() == case.identity()
            once, twice = (sum(map(math.prod, results(made.case_of(n)))) for n in (batch, 2 * batch))
            assert twice in (once, 2 * once), case.id
            doubled.append(twice > once)
    assert turned > len(CASES) // 3
    assert goal is not Goal.BATCH or sum(doubled) > 0.9 * len(doubled) > 0.5 * len(CASES)
