"""Rewrites keep the values, in torch: pieces along every axis of every operator, rows of windows, permuted and folded calls."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssinghal.core.case import Placement
from ssinghal.core.tensors import DType
from ssinghal.errors import InvalidCase
from ssinghal.operators import families, find_operator, make_case
from ssinghal.operators.binding import bind
from ssinghal.operators.dims import as_placed, axes_of
from ssinghal.operators.operator_info import WEIGHTS_DTYPE
from ssinghal.remedy.equivalence import check_values, compare, fewer_elements
from ssinghal.remedy.replicate_padding import pad_values
from ssinghal.remedy.rewrites import cuts
from ssinghal.remedy.strategies.wide_rows import turned_case
from ssinghal.remedy.trial import Trial

torch = pytest.importorskip("torch")
SHAPES = [(4, 6, 8, 10), (2, 64, 6, 6), (6, 8), (1, 4, 6, 8)]
CALLED = [info for members in families().values() for info in members if info.sample and info.call and info.operands]
# Not cut: random numbers, statistics over all, windows (rows of their own), lists of sizes that name every dim, tables.
NEVER_CUT = {
    "dropout", "new_ones", "new_zeros", "new_full", "ones_like", "zeros_like", "full_like", "gather", "grid_sampler", "movedim",
    "adaptive_avg_pool2d", "adaptive_avg_pool1d", "adaptive_max_pool2d", "adaptive_max_pool1d",
    "scaled_dot_product_attention", "upsample_nearest3d",
}  # fmt: skip


def placed(info, shape):
    sample = info.sample(shape)
    return as_placed(make_case(info.name, sample.inputs, sample.attrs, Placement(channels_last=sample.channels_last)))


@pytest.mark.parametrize("info", CALLED, ids=lambda info: info.name)
def test_pieces_along_every_axis_give_the_same_values(info):
    """In two and in three pieces, the last one smaller; sums may have another order, and then differ in the last bits."""
    found = 0
    for shape in SHAPES:
        try:
            case = placed(info, shape)
            axes = axes_of(bind(case))
        except InvalidCase:
            continue
        for axis in axes.units if axes else ():
            for count in (2, 3):
                check = check_values(Trial(case, (), "pieces", {"axis": axis, "count": count, "memory": "dram"}))
                assert check.equal or check.rounding, (case.id, axis, count, check)
                found += 1
    assert bool(found) != (info.name in NEVER_CUT), f"{info.name}: {found} ways to cut; NEVER_CUT lists those that have none"


@pytest.mark.parametrize("dtype", [DType.BFLOAT16, DType.BFLOAT8_B])
@pytest.mark.parametrize(
    ("name", "shapes", "attrs", "units"),
    [
        ("conv2d", ((1, 8, 10, 6), (4, 8, 1, 1), (4,)), {}, 10),
        ("conv2d", ((1, 8, 12, 6), (4, 8, 1, 1)), {"stride": 2}, 6),
        ("conv2d", ((1, 8, 12, 8), (4, 8, 2, 2), (4,)), {"stride": 2}, 6),
        ("conv2d", ((1, 8, 12, 8), (8, 1, 3, 3)), {"stride": [3, 1], "padding": [0, 1], "groups": 8}, 4),
        ("conv2d", ((6, 8, 12, 8), (4, 8, 3, 3)), {"padding": 1}, 6),
        ("conv1d", ((1, 8, 12), (4, 8, 2)), {"stride": 2}, 6),
        ("conv1d", ((5, 8, 12), (4, 8, 3)), {"padding": 1}, 5),
        ("conv_transpose2d", ((1, 8, 6, 5), (8, 4, 2, 2), (4,)), {"stride": 2}, 6),
        ("conv_transpose2d", ((4, 8, 6, 5), (8, 4, 4, 4)), {"stride": 2, "padding": 1}, 4),
        ("conv2d", ((1, 8, 12, 8), (4, 8, 3, 3)), {"padding": 1}, None),
        ("conv2d", ((1, 8, 13, 8), (4, 8, 2, 2)), {"stride": 2}, None),
        ("conv_transpose2d", ((1, 8, 6, 5), (8, 4, 4, 4)), {"stride": 2, "padding": 1}, None),
    ],
)
def test_maps_or_stretches_of_a_convolution_are_convolved_alone(name, shapes, attrs, units, dtype):
    """Windows that do not overlap, without padding, over a whole number of strides; else several maps."""
    case = make_case(name, shapes, attrs, Placement(dtype))
    axes = axes_of(bind(case))
    assert (axes and dict(axes.units)) == (units and {0: units})
    for count in (2, 3, units) if units else ():
        check = check_values(Trial(case, (), "pieces", {"axis": 0, "count": count, "memory": "dram"}))
        assert check.equal or check.rounding, (count, check)


@pytest.mark.parametrize("info", [one for one in CALLED if WEIGHTS_DTYPE in one.attrs], ids=lambda info: info.name)
@pytest.mark.parametrize("dtype", ["bfloat8_b", "bfloat4_b"])
def test_weights_in_a_dtype_of_their_own_do_not_change_the_comparison(info, dtype):
    """Pieces are compared in float32, whatever the weights are stored in."""
    reasons = set()
    for shape in SHAPES:
        try:
            sample = info.sample(shape)
            attrs = {**sample.attrs, WEIGHTS_DTYPE: dtype}
            case = as_placed(make_case(info.name, sample.inputs, attrs, Placement(channels_last=sample.channels_last)))
            axes = axes_of(bind(case))
        except InvalidCase:
            continue
        for axis in axes.units if axes else ():
            check = check_values(Trial(case, (), "pieces", {"axis": axis, "count": 2, "memory": "dram"}))
            reasons.add(check.reason)
            assert check.equal or check.rounding, (case.id, axis, check)
    assert reasons == {""}


@pytest.mark.parametrize("as_written", [False, None])
@pytest.mark.parametrize(
    ("channels", "attrs", "units"),
    [(128, {"group": 8}, 4), (64, {"group": 8}, 2), (320, {"num_groups": 8}, 2), (96, {"group": 1, "C": 96}, None),
     (256, {"group": 32, "N": 1, "C": 256, "HxW": 30}, 8)],
)  # fmt: skip
def test_groups_of_channels_are_normalised_alone(channels, attrs, units, as_written):
    """So many groups together that they fill tiles: of 16 channels each, 2; of 8, 4; of 40, 4; one group is never cut."""
    shape = (1, 5, 6, channels) if as_written is False else (1, channels, 5, 6)
    case = make_case("native_group_norm", (shape, (channels,), (channels,)), attrs, Placement(channels_last=as_written))
    axes = axes_of(bind(case))
    assert (axes and dict(axes.units)) == (units and {1: units})
    for count in (2, units) if units else ():
        check = check_values(Trial(case, (), "pieces", {"axis": 1, "count": count, "memory": "dram"}))
        assert check.equal or check.rounding, (count, check)


def test_a_wrong_axis_is_detected():
    """A softmax cut along its own dim: the values of each piece add up to 1."""
    whole = torch.randn(4, 8)
    cut = torch.cat([torch.softmax(part, 1) for part in whole.split(4, 1)], 1)
    check = compare(torch, [torch.softmax(whole, 1)], [cut])
    assert check.equal is False
    assert not check.rounding
    assert check.differing == 1.0
    assert compare(torch, [whole], [whole.reshape(8, 4)]).reason == "the shapes differ"
    nan = torch.tensor([float("nan"), 1.0])
    assert compare(torch, [nan], [nan.clone()]).equal


window = st.integers(1, 4)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.integers(1, 3), st.integers(4, 20), st.integers(4, 9), window, st.integers(1, 3), st.integers(1, 2), st.integers(1, 5),
    st.booleans(),
)  # fmt: skip
def test_rows_of_a_max_pool_with_their_neighbours(n, height, width, kernel, stride, dilation, count, ceil):
    attrs = {"kernel_size": [kernel, 2], "stride": [stride, 1], "padding": [kernel // 2, 1], "ceil_mode": ceil}
    attrs["dilation"] = [dilation, 1]
    case = make_case("max_pool2d", ((n, 3, height, width),), attrs)
    info = find_operator("max_pool2d")
    try:
        rows = info.infer(case.inputs, info.complete_attrs(attrs))[0][2]
    except InvalidCase:
        return
    check = check_values(Trial(case, (), "pooled rows", {"rows": rows, "count": count, "memory": "dram"}))
    assert check.equal, (case.id, count, check)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.integers(1, 2), st.integers(2, 17), st.integers(2, 6), st.integers(1, 4), st.integers(2, 5))
def test_interpolated_rows_with_their_neighbours(n, height, width, scale, count):
    case = make_case(
        "upsample_bilinear2d", ((n, 4, height, width),), {"scale_factors": [float(scale), 2.0], "align_corners": False}
    )
    check = check_values(Trial(case, (), "interpolated rows", {"scale": [scale, 2], "count": count, "memory": "dram"}))
    assert check.equal or check.rounding, (case.id, count, check)


def test_rows_without_their_neighbours_give_other_values():
    """Without a halo, a difference of 0.97 was measured for a bilinear map."""
    case = make_case("max_pool2d", ((1, 3, 8, 8),), {"kernel_size": [3, 3], "stride": [1, 1], "padding": [1, 1]})
    image = torch.randn(1, 3, 8, 8)
    pool = torch.nn.functional.max_pool2d
    naive = torch.cat([pool(part, 3, 1, 1) for part in image.split(4, 2)], 2)
    assert not torch.equal(naive, pool(image, 3, 1, 1))
    assert check_values(Trial(case, (), "pooled rows", {"rows": 8, "count": 2, "memory": "dram"})).equal


@pytest.mark.parametrize(
    ("name", "shapes", "attrs"),
    [
        ("to_layout", [(4, 6, 8)], {"layout": "row_major"}),
        ("constant_pad_nd", [(4, 6, 8)], {"pad": [1, 2, 3, 4], "value": 7.0}),
        ("constant_pad_nd", [(2, 4, 6, 8)], {"pad": [0, 3]}),
        ("slice", [(4, 6, 8)], {"dim": -1, "start": 2, "end": 7, "step": 2}),
        ("cat", [(4, 6, 8), (4, 6, 2)], {"dim": -1}),
        ("add", [(4, 6, 8), (4, 6, 8)], {}),
    ],
)
@pytest.mark.parametrize("order", [[2, 1, 0], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1]])
def test_permuted_calls_keep_their_values(name, shapes, attrs, order):
    rank = len(shapes[0])
    order = order if rank == 3 else [0, *(d + 1 for d in order)]
    case = make_case(name, tuple(shapes), attrs, Placement(channels_last=False))
    assert turned_case(case, order).inputs[0] == tuple(shapes[0][d] for d in order)
    check = check_values(Trial(case, (), "turned", {"order": order}))
    assert check.equal, check


@pytest.mark.parametrize(("order", "changed"), [((0, 3, 1, 2), (2, 3, 4, 6)), ((), (6, 24))])
def test_rearranged_operands_give_the_rearranged_result(order, changed):
    original = make_case("relu", ((2, 4, 6, 3),), {}, Placement(channels_last=False))
    case = make_case("relu", (changed,), {}, Placement(channels_last=False))
    assert check_values(Trial(case, (), "call", {"original": original, "order": order})).equal


def test_large_shapes_are_reduced():
    """2 x 1 x 96 x 2160 x 3840 values are more than 2^22; dims are halved until they are not."""
    case = as_placed(make_case("relu", ((1, 96, 2160, 3840),), {}, Placement(channels_last=True)))
    check = check_values(Trial(case, (), "pieces", {"axis": 1, "count": 27, "memory": "l1"}))
    assert check.equal
    assert check.reduced
    (n, h, w, c) = check.inputs[0]
    assert 2 * n * h * w * c <= 2**22 < 2 * n * h * w * c * 2
    assert h >= 2 * 27 - 1
    softmax = make_case("softmax", ((1, 2, 3000, 1000),), {"dim": 2}, Placement(channels_last=False))
    assert fewer_elements(softmax, 2**12, {}) is None  # 3,000 elements of the dim itself cannot be left out, twice


@pytest.mark.parametrize("count", [2, 3, 5, 8])
@pytest.mark.parametrize("rewrite", ["pieces", "pieces apart"])
def test_reduced_shapes_have_as_many_pieces(rewrite, count):
    """Of 2 x 40 x 64 x 64 values only 200 may be compared."""
    case = make_case("relu", ((40, 64, 64),), {}, Placement(channels_last=False))
    check = check_values(Trial(case, (), rewrite, {"axis": 0, "count": count, "multiple": 32, "memory": "dram"}), 200)
    assert check.equal
    assert math.prod(check.inputs[0]) <= 100
    sizes = [end - begin for begin, end in cuts(check.inputs[0][0], count)]
    assert len(sizes) == count
    assert sizes[-1] < sizes[0]


def test_constant_padding_changes_the_model():
    """4x60x106 of 6x62x108 elements are the interior: 25,440 of 40,176, so 36.68 % are edges."""
    case = make_case(
        "replication_pad3d", ((1, 3, 4, 60, 106),), {"padding": [1, 1, 1, 1, 2, 0]}, Placement(channels_last=False)
    )
    values = pad_values(case)
    assert values.composed.equal
    assert values.interior_equal
    assert values.constant.equal is False
    assert values.constant.differing == pytest.approx(1 - 25_440 / 40_176, abs=1e-4)
