"""Layouts of axes against numpy: after any views, the device tensor has the elements where the layout places them.

A device tensor is a flat array here. ``read`` evaluates a layout on it from its definition alone: an axis for each atom, in the
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


def read(axes, flat):
    """Returns what the model would read: an array of ``axes.shape``."""
    atoms = flat.reshape([axes.sizes[a] for a in axes.order])
    wanted = [a for dim in axes.dims for a in dim]
    return atoms.transpose([axes.order.index(a) for a in wanted]).reshape(axes.shape)


def counted(shape):
    return np.arange(math.prod(shape)).reshape(shape)


@st.composite
def placed(draw):
    """Draws a numpy tensor, its layout after a chain of views, and the device tensor, which no view changes."""
    shape = draw(st.lists(SIZES, min_size=0, max_size=5))
    x, order = counted(shape), draw(st.permutations(range(len(shape))))
    axes, flat = AxisLayout.plain(shape, order), x.transpose(order).reshape(-1)
    for _ in range(draw(st.integers(0, 4))):
        if draw(st.booleans()):
            dims = draw(st.permutations(range(x.ndim)))
            x, axes = x.transpose(dims), axes.permuted(dims)
        else:
            shape = draw(shapes_of(x.size))
            viewed = axes.viewed(shape)
            if viewed is not None:
                x, axes = x.reshape(shape), viewed
    return x, axes, flat


@st.composite
def shapes_of(draw, volume):
    """Draws a shape of ``volume`` elements."""
    shape = []
    while volume > 1 and len(shape) < 5:
        shape.append(draw(st.sampled_from([n for n in range(1, volume + 1) if volume % n == 0])))
        volume //= shape[-1]
    return (*shape, volume) if volume > 1 or draw(st.booleans()) else tuple(shape)


def runs(x, flat):
    """Returns the sizes of the longest axes along which steps are even on the device, outermost first."""
    places, sizes = np.argsort(flat)[x.reshape(-1)], []
    while len(places) > 1:
        steps = np.diff(places)
        even = [n for n in range(2, len(places) + 1) if len(places) % n == 0 and is_axis(places.reshape(-1, n), steps[0])]
        sizes.insert(0, max(even))
        places = places[:: max(even)]
    return sizes


def is_axis(rows, step):
    return (np.diff(rows, axis=1) == step).all()


def edges_of(sizes):
    """Returns the number of elements within each axis, from the last: 1, then the products of sizes."""
    return [1, *accumulate(reversed(sizes), mul)]


# Any chain of views ---------------------------------------------------------------------------------------------------------


@quickly
@given(placed())
def test_a_layout_describes_the_device_tensor(drawn):
    x, axes, flat = drawn
    assert (axes.shape, axes.volume) == (x.shape, x.size)
    assert (read(axes, flat) == x).all()
    assert sorted(axes.order) == sorted(a for dim in axes.dims for a in dim) == list(range(len(axes.sizes)))
    assert all(size > 1 for size in axes.sizes), "atoms of size 1 do not exist"


@quickly
@given(placed(), st.sampled_from((1, 2, 5)))
def test_a_product_over_the_last_dim_keeps_the_order_of_the_others(drawn, columns):
    """The device multiplies its rows once the last dim is innermost, and the layout of the result reads the product."""
    x, axes, flat = drawn
    if not x.ndim:
        return
    weight = np.arange(x.shape[-1] * columns).reshape(x.shape[-1], columns) % 7 - 3
    shuffle = axes.shuffle_last()
    moved = flat if shuffle is None else flat.reshape(shuffle.shape).transpose(shuffle.dims).reshape(-1)
    assert (read(axes.with_last_innermost(), moved) == x).all()
    outer = [a for a in axes.order if a not in axes.dims[-1]]
    assert axes.with_last_innermost().order[: len(outer)] == tuple(outer)
    result = axes.with_last_innermost().with_last_dim(columns)
    assert result.shape == (*x.shape[:-1], columns)
    assert result.volume == math.prod(result.shape)
    assert (read(result, (moved.reshape(-1, x.shape[-1]) @ weight).reshape(-1)) == x @ weight).all()


@quickly
@given(placed(), st.data())
def test_a_shuffle_brings_the_dims_into_any_order(drawn, data):
    x, axes, flat = drawn
    dims = data.draw(st.permutations(range(x.ndim)))
    shuffle = axes.shuffle(dims)
    wanted = x.transpose(dims).reshape(-1)
    assert axes.has_order(dims) == (shuffle is None)
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
def test_the_order_on_the_device_is_known_where_it_is_one_of_dims(drawn):
    x, axes, flat = drawn
    dims = axes.device_dims()
    if dims is not None:
        assert sorted(dims) == list(range(x.ndim))
        assert axes.has_order(dims)
        assert (x.transpose(dims).reshape(-1) == flat).all()
    else:
        assert not any(map(axes.has_order, permutations(range(x.ndim))))
    assert axes.is_plain == bool((flat == x.reshape(-1)).all())


@quickly
@given(placed(), st.data())
def test_a_view_needs_a_copy_only_where_no_axes_give_it(made, data):
    """The axes are between the edges of the runs and of the new dims: each edge must be a multiple of the one before it."""
    x, axes, flat = made
    shape = data.draw(shapes_of(x.size))
    viewed = axes.viewed(shape)
    edges = sorted({*edges_of(runs(x, flat)), *edges_of(shape)})
    assert (viewed is not None) == all(b % a == 0 for a, b in pairwise(edges))
    if viewed is not None:
        assert viewed.shape == shape
        assert (read(viewed, flat) == x.reshape(shape)).all()


@quickly
@given(placed(), st.data())
def test_a_view_back_never_needs_a_copy(drawn, data):
    x, axes, flat = drawn
    viewed = axes.viewed(data.draw(shapes_of(x.size)))
    if viewed is not None:
        back = viewed.viewed(x.shape)
        assert back is not None
        assert (read(back, flat) == x).all()


@quickly
@given(st.lists(SIZES, min_size=1, max_size=4), st.sampled_from((2, 3)), st.sampled_from((2, 5)), st.data())
def test_swapped_features_have_the_inner_part_first(shape, outer, inner, data):
    """A linear layer writes them so if the rows of its weights are in that order."""
    shape = (*shape, outer * inner)
    order = (*data.draw(st.permutations(range(len(shape) - 1))), len(shape) - 1)
    x = counted(shape)
    turned = x.reshape(*shape[:-1], outer, inner).swapaxes(-1, -2).reshape(shape)
    axes = AxisLayout.plain(shape, order).with_last_dim_swapped(inner)
    assert axes.shape == shape
    assert (read(axes, turned.transpose(order).reshape(-1)) == x).all()


# By hand -------------------------------------------------------------------------------------------------------------------


def test_a_map_with_its_channels_last():
    axes = AxisLayout.plain((1, 64, 8, 16), (0, 2, 3, 1))
    assert axes == AxisLayout((64, 8, 16), ((), (0,), (1,), (2,)), (1, 2, 0))
    assert not axes.is_plain
    assert axes.has_order((0, 2, 3, 1))
    assert axes.device_dims() == [2, 3, 0, 1], "the batch of 1 is before the channels, wherever those are"
    assert axes.atoms_of((0, 2, 3, 1)) == (1, 2, 0)
    # to torch's order: rows of pixels x channels, transposed
    assert axes.shuffle(range(4)) == ((128, 64), (1, 0))


def test_tokens_of_a_map_cost_nothing():
    """flatten(2).transpose(1, 2): [1, 64, 8, 16] -> [1, 64, 128] -> [1, 128, 64], which is the order on the device."""
    axes = AxisLayout.plain((1, 64, 8, 16), (0, 2, 3, 1)).viewed((1, 64, 128))
    assert axes is not None
    assert not axes.is_plain
    assert axes.permuted((0, 2, 1)).is_plain


def test_channels_cannot_be_joined_with_rows_that_are_elsewhere_on_the_device():
    axes = AxisLayout.plain((1, 64, 8, 16), (0, 2, 3, 1))
    split = axes.viewed((4, 16, 128))
    assert split is not None, "channels may be split"
    assert split.sizes == (4, 8 * 16, 16)
    assert axes.viewed((1, 64 * 8, 16)) == AxisLayout((64, 8, 16), ((), (0, 1), (2,)), (1, 2, 0)), (
        "a dim may have several atoms"
    )
    assert AxisLayout.plain((3, 4), (1, 0)).viewed((2, 6)) is None, "2 does not divide 3"
    assert AxisLayout.plain((3, 4)).viewed((2, 6)) is not None, "but of 12 in a row"


def test_windows_of_a_map():
    """Swin: [1, 8, 12, 5] -> [1, 2, 4, 3, 4, 5] -> [6, 16, 5], windows of 4x4: one shuffle of four axes."""
    axes = AxisLayout.plain((1, 8, 12, 5)).viewed((1, 2, 4, 3, 4, 5))
    assert axes is not None
    windows = axes.permuted((0, 1, 3, 2, 4, 5)).viewed((6, 16, 5))
    assert windows is not None
    assert windows.device_dims() is None, "the atoms of windows and of their pixels are mixed"
    assert windows.shuffle((0, 1, 2)) == ((2, 4, 3, 4 * 5), (0, 2, 1, 3))


def test_dims_of_size_1_are_before_the_one_that_follows():
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
        """Returns the place of each row of the tensor among the rows of the padded one."""
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
