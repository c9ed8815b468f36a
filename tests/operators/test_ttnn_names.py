"""TTNN's dotted names of functions, and the operators behind them."""

from __future__ import annotations

import pytest

from ssinghal.errors import InvalidCase
from ssinghal.operators import families, find_operator, make_case, operators
from ssinghal.operators.ttnn_names import NOT_OPERATIONS, functions_of, ttnn_operators


@pytest.mark.parametrize(
    ("function", "operator"),
    [
        ("ttnn.add", "add"),
        ("ttnn.subtract", "sub"),
        ("ttnn.mul", "mul"),
        ("ttnn.div", "div"),
        ("ttnn.max", "max"),
        ("ttnn.permute", "permute"),
        ("ttnn.slice", "slice"),
        ("ttnn.matmul", "matmul"),
        ("ttnn.conv2d", "convolution"),
        ("ttnn.experimental.conv3d", "convolution"),
        ("ttnn.conv_transpose2d", "conv_transpose2d"),
        ("ttnn.linear", "linear"),
        ("ttnn.swish", "silu"),
        ("ttnn.reshape", "view"),
        ("ttnn.transformer.scaled_dot_product_attention", "scaled_dot_product_attention"),
        ("transformer.scaled_dot_product_attention", "scaled_dot_product_attention"),
    ],
)
def test_a_function_is_the_operator_of_that_name_or_of_that_only_call(function: str, operator: str) -> None:
    assert find_operator(function).name == operator


def test_every_operator_that_is_one_call_has_its_function() -> None:
    """In-place forms of a plain function, and placing, are the exceptions."""
    known = ttnn_operators()
    single = {info.name: functions_of(info) for members in families().values() for info in members if not info.traits.in_place}
    assert [name for name, calls in single.items() if len(calls) == 1 and calls[0] not in known] == ["place"]
    assert set(known.values()) <= set(operators())
    assert not set(known) & set(NOT_OPERATIONS)


def test_a_function_is_no_name_of_a_case() -> None:
    """Cases keep the names that the suites have modules for; an alias behind the prefix stays."""
    assert make_case("ttnn.multiply", ((32, 32),), {"other": 2}).name == "mul"
    assert make_case("ttnn.concat", ((32, 32),) * 2, {"dim": 0}).name == "concat"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ttnn.from_torch", r"'ttnn\.from_torch' is not an operator: it moves a tensor between host and device"),
        ("ttnn.transformer.concat_heads", r"unknown operator 'ttnn\.transformer\.concat_heads'"),
        ("ttnn.sofmax", r"unknown operator 'ttnn\.sofmax'; did you mean ttnn\.softmax"),
        ("sofmax", r"unknown operator 'sofmax'; did you mean softmax"),
    ],
)
def test_what_is_no_operator_is_refused_in_one_line(name: str, message: str) -> None:
    with pytest.raises(InvalidCase, match=message):
        find_operator(name)
