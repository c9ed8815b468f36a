"""Which dims go together: calls cut and resized, worked out by hand from torch's rules of broadcasting and multiplication."""

import pytest

from ssinghal.core.case import Placement
from ssinghal.errors import InvalidCase
from ssinghal.operators import make_case
from ssinghal.operators.binding import bind
from ssinghal.operators.dims import axes_of
from ssinghal.operators.resizing import resized

AS_WRITTEN = Placement(channels_last=False)


def axes(name, *inputs, **attrs):
    return axes_of(bind(make_case(name, inputs, attrs, AS_WRITTEN)))


def test_a_product_is_cut_along_rows_columns_and_the_batches_that_both_have():
    """[2, 3, 4, 5] x [1, 3, 5, 6]: the batch of 2 is broadcast, and the 5 that are summed cannot be cut."""
    cut = axes("matmul", (2, 3, 4, 5), (1, 3, 5, 6))
    assert cut.units == {1: 3, 2: 4, 3: 6}
    assert cut.written == ((None, (1, 1), (2, 1), None), (None, (1, 1), None, (3, 1)))
    assert cut.results == ((None, (1, 1), (2, 1), (3, 1)),)


def test_a_bias_is_cut_with_the_columns_it_belongs_to():
    cut = axes("addmm", (6,), (4, 5), (5, 6))
    assert cut.written[0] == ((1, 1),)
    assert cut.placed[0] == (None, (1, 1))
    assert cut.case_of(make_case("addmm", ((6,), (4, 5), (5, 6))), {1: 2}).inputs == ((2,), (4, 5), (5, 2))


@pytest.mark.parametrize(
    ("name", "inputs", "dim", "size", "expected"),
    [
        ("matmul", ((2, 3, 4, 5), (1, 3, 5, 6)), 0, 7, ((7, 3, 4, 5), (1, 3, 5, 6))),
        ("matmul", ((2, 3, 4, 5), (1, 3, 5, 6)), 1, 7, ((2, 7, 4, 5), (1, 7, 5, 6))),
        ("matmul", ((4, 5), (2, 5, 6)), 1, 7, ((4, 7), (2, 7, 6))),
        ("matmul", ((5,), (5,)), 0, 7, ((7,), (7,))),
        ("matmul", ((3, 4, 5), (5,)), 2, 7, ((3, 4, 7), (7,))),
        ("addmm", ((4, 6), (4, 5), (5, 6)), 0, 7, ((7, 6), (7, 5), (5, 6))),
        ("add", ((2, 3, 4), (3, 1)), 1, 7, ((2, 7, 4), (7, 1))),
        ("add", ((2, 3, 4), (3, 1)), 2, 7, ((2, 3, 7), (3, 1))),
        ("embedding", ((10, 8), (2, 3)), 1, 7, ((10, 8), (2, 7))),
    ],
)
def test_what_has_the_size_of_a_dim_grows_with_it(name, inputs, dim, size, expected):
    assert resized(make_case(name, inputs, {}, AS_WRITTEN), {dim: size}).inputs == expected


@pytest.mark.parametrize(
    ("keys", "mask", "expected"),
    [
        (64, (64, 64), (96, 96)),  # attention of a sequence to itself: the mask has it on both sides
        (77, (1, 1, 64, 77), (1, 1, 96, 77)),  # to another sequence: on the side of the queries
    ],
)
def test_a_mask_follows_the_sequence_of_the_queries(keys, mask, expected):
    case = make_case("scaled_dot_product_attention", ((2, 4, 64, 32), (2, 4, keys, 32), (2, 4, keys, 32), mask), {}, AS_WRITTEN)
    query, key, _, grown = resized(case, {2: 96}).inputs
    assert (query[2], key[2], grown) == (96, 96 if keys == 64 else 77, expected)


def test_rows_of_one_row_upsampled_to_a_given_size_are_not_cut():
    cut = axes("upsample_nearest2d", (2, 64, 1, 6), output_size=[3, 6])
    assert cut.units == {0: 2, 1: 64}
    case = make_case("upsample_nearest2d", ((2, 64, 1, 6),), {"output_size": [3, 6]}, AS_WRITTEN)
    assert cut.case_of(case, {0: 1}).attrs == {"output_size": [3, 6]}


def test_an_operator_that_declares_nothing_is_neither_cut_nor_resized():
    assert axes("arange", end=8) is None
    with pytest.raises(InvalidCase, match="it is not known what grows together in its calls"):
        resized(make_case("arange", (), {"end": 8}), {0: 16})
