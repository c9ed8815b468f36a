"""Comparing values: the arithmetic, the forms of tensors, and that values of a virtual device are never compared."""

import math
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="numerics need torch")

from ssinghal.core.tensors import TensorSpec  # noqa: E402
from ssinghal.device.modes import DeviceMode, choose_device  # noqa: E402
from ssinghal.errors import NotProven  # noqa: E402
from ssinghal.operators import find_operator, make_case  # noqa: E402
from ssinghal.operators.binding import bind  # noqa: E402
from ssinghal.runner.numerics import compare_values, compare_with_torch, from_device_form, to_device_form  # noqa: E402
from ssinghal.runner.pool import Pool  # noqa: E402
from ssinghal.runner.tasks import PoolOptions  # noqa: E402

LINE = torch.arange(64, dtype=torch.float32).reshape(8, 8)


def test_equal_values_agree():
    comparison = compare_values(torch, LINE, LINE.clone(), 0.999)
    assert (comparison.fault, comparison.max_abs_error) == ("", 0.0)
    assert comparison.pcc == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("actual", "says"),
    [
        (LINE.reshape(64), "shape [64]; torch gives [8, 8]"),
        (LINE.flip(0), "PCC"),
        (LINE * 1.1, "values spread 1.1 times as far as torch's"),
        (LINE + 5, "and are +5 off on average"),
        (torch.zeros(8, 8), "a constant result that differs"),
        (torch.where(LINE == 3, math.nan, LINE), "finite in one"),
        (torch.where(LINE == 3, math.inf, LINE), "finite in one"),
    ],
)
def test_the_difference_is_named(actual, says):
    assert says in compare_values(torch, LINE, actual, 0.999).fault


def test_constants_are_compared_by_value():
    ones = torch.ones(4, 4)
    assert compare_values(torch, ones, ones.clone(), 0.999).fault == ""
    assert compare_values(torch, ones, ones * 2, 0.999).fault == "a constant result that differs"


def test_values_that_hardly_vary_agree_as_near_as_two_roundings():
    """By hand: at 64, two roundings to bfloat16 are 2 * 64 / 2^8 = 0.5. Values of 64 and 64.5 in another order have PCC -1."""
    expected = torch.tensor([64.0, 63.5] * 8)
    assert compare_values(torch, expected, expected.flip(0), 0.999).fault == ""
    assert compare_values(torch, expected, expected.flip(0) * 1.01, 0.999).fault.startswith("PCC")


def test_pcc_is_pearsons():
    """By hand: x = 1, 2, 3 and y = 1, 2, 4 give r = 3 / sqrt(2 * 14/3) = 0.98198."""
    comparison = compare_values(torch, torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 2.0, 4.0]), 0.9)
    assert comparison.pcc == pytest.approx(3 / math.sqrt(2 * 14 / 3))
    assert comparison.max_abs_error == 1.0


@pytest.mark.parametrize(
    ("shape", "placed", "name"),
    [
        ((2, 3, 4, 5), (1, 1, 2 * 4 * 5, 3), "max_pool2d"),
        ((2, 3, 4, 5), (2, 4, 5, 3), "upsample_nearest2d"),
        ((7, 5), (5, 7), "linear"),
    ],
)
def test_device_forms_keep_every_value_in_place(shape, placed, name):
    value = torch.arange(math.prod(shape)).reshape(shape)
    index = 1 if name == "linear" else 0
    form = to_device_form(value, TensorSpec(placed), index, find_operator(name))
    assert tuple(form.shape) == placed
    if name == "linear":
        assert torch.equal(form, value.T)
    else:
        assert torch.equal(form.reshape(2, 4, 5, 3)[1, 2, 3], value[1, :, 2, 3])
        assert torch.equal(from_device_form(form, shape, find_operator(name)), value)


@pytest.mark.parametrize(("name", "placed"), [("upsample_nearest2d", (2, 4, 4, 4)), ("max_pool2d", (1, 1, 32, 4))])
def test_channels_are_put_last_where_all_sizes_are_equal(name, placed):
    """[2, 4, 4, 4] has the same sizes as NHWC and as NCHW, so the order of dims must not depend on them."""
    value = torch.arange(2 * 4 * 4 * 4).reshape(2, 4, 4, 4)
    form = to_device_form(value, TensorSpec(placed), 0, find_operator(name))
    assert torch.equal(form.reshape(2, 4, 4, 4)[1, 2, 3], value[1, :, 2, 3])
    assert torch.equal(from_device_form(form, (2, 4, 4, 4), find_operator(name)), value)


def test_a_virtual_device_is_never_compared():
    with pytest.raises(NotProven, match="computes nothing"):
        Pool(choose_device("virtual"), PoolOptions(numerics=True))
    relu = bind(make_case("relu", ((1, 1, 32, 32),)))
    with pytest.raises(NotProven, match="computes nothing"):
        compare_with_torch(relu, SimpleNamespace(facts=SimpleNamespace(mode=DeviceMode.VIRTUAL)))
