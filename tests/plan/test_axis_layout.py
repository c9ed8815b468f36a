"""Forms against numpy: whatever views are taken, the device tensor still holds the elements that the form says it does.

A device tensor is a flat array here. ``read`` evaluates a form on it from its definition alone: an axis for each atom, in the
order of the device, then the atoms of each dim brought together.
"""

import math
from itertools import accumulate, pairwise, permutations
from operator import mul

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssinghal.core.tensors import TILE_EDGE, Layout, TensorSpec
from ssinghal.plan.axis_layout import AxisLayout
from ssinghal.plan.layout_ops import keeps_tiles, padding_factor

quickly = settings(max_examples=60, deadline=None, derandomize=True)
SIZES = st.sampled_from((1, 2, 3, 4, 6))


def read(form, flat):
    """What the model would read: an array of ``form.shape``."""
    atoms = flat.reshape([form.sizes[a] for a in form.order])
    wanted = [a for dim in form.dims for a in dim]
    return atoms.transpose([form.order.index(a) for a in wanted]).reshape(form.shape)


def counted(shape):
    return np.arange(math.prod(shape)).reshape(shape)


@st.composite
def placed(draw):
    """A tensor as numpy has it, its form after a chain of views, and the device tensor, which no view changes."""
    shape = draw(st.lists(SIZES, min_size=0, max_size=5))
    x, order = counted(shape), draw(st.permutations(range(len(shape))))
    form, flat = AxisLayout.plain(shape, order), x.transpose(order).reshape(-1)
    for _ in range(draw(st.integers(0, 4))):
        if draw(st.booleans()):
            dims = draw(st.permutations(range(x.ndim)))
            x, form = x.transpose(dims), form.permuted(dims)
        else:
            shape = draw(shapes_of(x.size))
            viewed = form.viewed(shape)
            if viewed is not None:
                x, form = x.reshape(shape), viewed
    return x, form, flat


@st.composite
def shapes_of(draw, volume):
    """Any shape of so many elements."""
    shape = []
    while volume > 1 and len(shape) < 5:
        shape.append(draw(st.sampled_from([n for n in range(1, volume + 1) if volume % n == 0])))
        volume //= shape[-1]
    return (*shape, volume) if volume > 1 or draw(st.booleans()) else tuple(shape)


def runs(x, flat):
    """Sizes of the longest axes along which steps of the tensor are even steps on the device, outermost first."""
    places, found = np.argsort(flat)[x.reshape(-1)], []
    while len(places) > 1:
        steps = np.diff(places)
        even = [n for n in range(2, len(places) + 1) if len(places) % n == 0 and is_axis(places.reshape(-1, n), steps[0])]
        found.insert(0, max(even))
        places = places[:: max(even)]
    return found


def is_axis(rows, step):
    return (np.diff(rows, axis=1) == step).all()


def edges_of(sizes):
    """How many elements lie within each axis: 1, then one size after the other from the last."""
    return [1, *accumulate(reversed(sizes), mul)]


# Any chain of views ---------------------------------------------------------------------------------------------------------


@quickly
@given(placed())
def test_a_form_says_what_the_device_tensor_holds(made):
    x, form, flat = made
    assert (form.shape, form.volume) == (x.shape, x.size)
    assert (read(form, flat) == x).all()
    assert sorted(form.order) == sorted(a for dim in form.dims for a in dim) == list(range(len(form.sizes)))
    assert all(size > 1 for size in form.sizes), "atoms of size 1 do not exist"


@quickly
@given(placed(), st.data())
def test_a_shuffle_brings_the_dims_into_any_order(made, data):
    x, form, flat = made
    dims = data.draw(st.permutations(range(x.ndim)))
    shuffle = form.shuffle(dims)
    wanted = x.transpose(dims).reshape(-1)
    assert form.lies(dims) == (shuffle is None)
    if shuffle is None:
        assert (flat == wanted).all()
        return
    moved = flat.reshape(shuffle.shape).transpose(shuffle.dims)
    assert moved.shape == shuffle.result
    assert (moved.reshape(-1) == wanted).all()
    # as few axes as can be: neighbours before are none after, else they would be one axis
    assert all(b != a + 1 for a, b in zip(shuffle.dims, shuffle.dims[1:], strict=False))


@quickly
@given(placed())
def test_the_order_on_the_device_is_told_where_it_is_one_of_dims(made):
    x, form, flat = made
    dims = form.device_dims()
    if dims is not None:
        assert sorted(dims) == list(range(x.ndim))
        assert form.lies(dims)
        assert (x.transpose(dims).reshape(-1) == flat).all()
    else:
        assert not any(map(form.lies, permutations(range(x.ndim))))
    assert form.is_plain == bool((flat == x.reshape(-1)).all())


@quickly
@given(placed(), st.data())
def test_a_view_is_refused_where_no_axes_make_it_and_nowhere_else(made, data):
    """The axes are what the edges of the runs and of the new dims cut: each must be so many times the one within it."""
    x, form, flat = made
    shape = data.draw(shapes_of(x.size))
    viewed = form.viewed(shape)
    edges = sorted({*edges_of(runs(x, flat)), *edges_of(shape)})
    assert (viewed is not None) == all(b % a == 0 for a, b in pairwise(edges))
    if viewed is not None:
        assert viewed.shape == shape
        assert (read(viewed, flat) == x.reshape(shape)).all()


@quickly
@given(placed(), st.data())
def test_a_view_back_is_never_refused(made, data):
    x, form, flat = made
    viewed = form.viewed(data.draw(shapes_of(x.size)))
    if viewed is not None:
        back = viewed.viewed(x.shape)
        assert back is not None
        assert (read(back, flat) == x).all()


@quickly
@given(st.lists(SIZES, min_size=1, max_size=4), st.sampled_from((2, 3)), st.sampled_from((2, 5)), st.data())
def test_features_that_are_turned_lie_with_the_inner_part_first(shape, outer, inner, data):
    """As a linear layer writes them whose rows of weights are put into that order."""
    shape = (*shape, outer * inner)
    order = (*data.draw(st.permutations(range(len(shape) - 1))), len(shape) - 1)
    x = counted(shape)
    turned = x.reshape(*shape[:-1], outer, inner).swapaxes(-1, -2).reshape(shape)
    form = AxisLayout.plain(shape, order).last_turned(inner)
    assert form.shape == shape
    assert (read(form, turned.transpose(order).reshape(-1)) == x).all()


# Written out ----------------------------------------------------------------------------------------------------------------


def test_a_map_with_its_channels_last():
    form = AxisLayout.plain((1, 64, 8, 16), (0, 2, 3, 1))
    assert form == AxisLayout((64, 8, 16), ((), (0,), (1,), (2,)), (1, 2, 0))
    assert not form.is_plain
    assert form.lies((0, 2, 3, 1))
    assert form.device_dims() == [2, 3, 0, 1], "the batch of 1 is before the channels, wherever those are"
    assert form.in_order((0, 2, 3, 1)) == (1, 2, 0)
    # to torch's order: rows of pixels x channels, turned
    assert form.shuffle(range(4)) == ((128, 64), (1, 0))


def test_tokens_of_a_map_cost_nothing():
    """flatten(2).transpose(1, 2): [1, 64, 8, 16] -> [1, 64, 128] -> [1, 128, 64], which is as it lies."""
    form = AxisLayout.plain((1, 64, 8, 16), (0, 2, 3, 1)).viewed((1, 64, 128))
    assert form is not None
    assert not form.is_plain
    assert form.permuted((0, 2, 1)).is_plain


def test_channels_cannot_be_joined_with_the_rows_they_lie_behind():
    form = AxisLayout.plain((1, 64, 8, 16), (0, 2, 3, 1))
    split = form.viewed((4, 16, 128))
    assert split is not None, "channels may be split"
    assert split.sizes == (4, 8 * 16, 16)
    assert form.viewed((1, 64 * 8, 16)) == AxisLayout((64, 8, 16), ((), (0, 1), (2,)), (1, 2, 0)), (
        "a dim may be of several atoms"
    )
    assert AxisLayout.plain((3, 4), (1, 0)).viewed((2, 6)) is None, "2 is no part of 3"
    assert AxisLayout.plain((3, 4)).viewed((2, 6)) is not None, "but of 12 in a row"


def test_windows_of_a_map():
    """Swin: [1, 8, 12, 5] -> [1, 2, 4, 3, 4, 5] -> [6, 16, 5], windows of 4x4: one shuffle of four axes."""
    form = AxisLayout.plain((1, 8, 12, 5)).viewed((1, 2, 4, 3, 4, 5))
    assert form is not None
    windows = form.permuted((0, 1, 3, 2, 4, 5)).viewed((6, 16, 5))
    assert windows is not None
    assert windows.device_dims() is None, "the atoms of windows and of their pixels are mixed"
    assert windows.shuffle((0, 1, 2)) == ((2, 4, 3, 4 * 5), (0, 2, 1, 3))


def test_dims_of_size_1_lie_before_the_one_that_follows():
    assert AxisLayout.plain((2, 1, 3, 1), (2, 0, 1, 3)).device_dims() == [1, 2, 0, 3]
    assert AxisLayout.plain((1, 1)).device_dims() == [0, 1]
    assert AxisLayout.plain(()).device_dims() == []
    assert AxisLayout.plain(()).viewed((1, 1)) == AxisLayout((), ((), ()), ())


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        ((1, 1, 64, 96), (2, 32, 96), True),  # rows of tiles: 2 of 32
        ((1, 1, 64, 96), (4, 16, 96), False),  # 16 rows would be padded to 32
        ((4, 16, 96), (2, 2, 16, 96), True),  # the last two dims stay
        ((4, 16, 96), (1, 64, 96), False),
        ((1, 1, 64, 96), (1, 1, 96, 64), False),
        ((64,), (64,), True),
        ((64,), (1, 64), False),
        ((32, 64), (64,), False),
    ],
)
def test_tiles_are_kept(before, after, kept):
    assert keeps_tiles(before, after) == kept


@quickly
@given(st.lists(st.sampled_from((1, 2, 31, 32, 64)), min_size=2, max_size=4), st.data())
def test_tiles_are_kept_where_the_padded_rows_are_the_same(shape, data):
    """Row ``r`` of the tensor must be row ``r`` of the tiles before and after, and nothing else be in them."""
    shape = tuple(shape)
    after = (*data.draw(shapes_of(math.prod(shape[:-1]))), shape[-1])

    def rows(s):
        """Place of each row of the tensor among the rows of the padded one."""
        height = s[-2] if len(s) > 1 else 1
        padded = -(-height // TILE_EDGE) * TILE_EDGE
        return [r // height * padded + r % height for r in range(math.prod(s[:-1]))], math.prod(s[:-1]) // height * padded

    if keeps_tiles(shape, after):
        assert rows(shape) == rows(after)


@quickly
@given(st.lists(st.integers(1, 70), min_size=1, max_size=4))
def test_the_padding_of_tiles(shape):
    spec = TensorSpec(tuple(shape), layout=Layout.TILE)
    assert padding_factor(tuple(shape)) == math.prod(spec.padded_shape) / spec.volume
