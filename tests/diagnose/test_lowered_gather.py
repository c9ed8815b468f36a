"""Gathers along a dim in modules: which operations are one, and which constant has its indices, if there is no doubt."""

from __future__ import annotations

import io

import pytest

from ssinghal.diagnose.lowered_gather import Gather, gather_of
from ssinghal.diagnose.model import MlirValue, Operation
from ssinghal.diagnose.parse.mlir import read_module

EDGES = (0, 0, 0, 1, 2, 3)
CONSTANT = '%{} = "ttnn.constant"(%0) <{{value = {}}}> : (!ttnn.device) -> tensor<{}xui32, row_major>'


def constant(number: int, value: str, size: str = "1x6") -> str:
    return CONSTANT.format(number, f"{value} : tensor<{size}xui32>", size)


def function(*before: str, taken: str = "%1", size: int = 4, form: str = "1x6") -> str:
    """Six rows taken of [3,``size``,5] along its second dim, after ``before``."""
    return "\n".join(
        (
            "func.func @f(%arg0: tensor<1x6xui32>) {",
            '%0 = "ttnn.get_device"() : () -> !ttnn.device',
            *before,
            '%11 = "ttnn.permute"(%arg1) <{permutation = array<i64: 1, 0, 2>}>'
            f" : (tensor<3x{size}x5xbf16>) -> tensor<{size}x3x5xbf16>",
            f'%12 = "ttnn.reshape"(%11) : (tensor<{size}x3x5xbf16>) -> tensor<{size}x15xbf16>',
            f'%13 = "ttnn.to_layout"(%12) : (tensor<{size}x15xbf16>) -> tensor<{size}x15xbf16, row_major>',
            f'%14 = "ttnn.embedding"({taken}, %13) : (tensor<{form}xui32, row_major>, tensor<{size}x15xbf16, row_major>)'
            " -> tensor<1x6x15xbf16, row_major>",
            "}",
        )
    )


def evaluated(value: str, *more: str) -> str:
    """A function that runs once, at compile time."""
    return "\n".join(('%0 = "ttnn.get_device"() : () -> !ttnn.device', constant(1, value), *more, "return"))


def gathered(*functions: str, at: str = "ttnn.embedding", which: int = -1) -> Gather:
    module = read_module(io.BytesIO("\n".join(functions).encode()), "m").operations
    gather = gather_of([op for op in module if op.name == at][which], module)
    assert gather is not None
    return gather


def test_each_step_shows_the_gather() -> None:
    text = function(constant(1, "dense<[[0, 0, 0, 1, 2, 3]]>"))
    for step in ("ttnn.permute", "ttnn.reshape", "ttnn.to_layout", "ttnn.embedding"):
        gather = gathered(text, at=step)
        assert (gather.source.shape, gather.dim, gather.count, gather.indices) == ((3, 4, 5), 1, 6, EDGES)
        assert gather.padding == (2, 0)


KNOWN = {
    "nested": ("dense<[[0, 0, 0], [1, 2, 3]]>", EDGES),
    "negative": ("dense<[[0, -1, 0, 1, 2, 3]]>", (0, -1, 0, 1, 2, 3)),
    "one value for all": ("dense<2>", (2,) * 6),
}
UNKNOWN = {
    "a hex string": 'dense<"0x000000000000000000000000010000000200000003000000">',
    "a resource": "dense_resource<__elided__>",
    "floats": "dense<[[0.0, 0.0, 0.0, 1.0, 2.0, 3.0]]>",
    "too few": "dense<[[0, 0, 1, 2, 3]]>",
    "truth": "dense<true>",
    "cut off": "dense<[[0, 0, 0, 1, 2",
    "a number too long to be one": f"dense<{'9' * 5000}>",
}


@pytest.mark.parametrize(("value", "indices"), KNOWN.values(), ids=KNOWN)
def test_indices_are_read_as_they_are_written(value: str, indices: tuple[int, ...]) -> None:
    gather = gathered(function(constant(1, value)))
    assert gather.indices == indices
    assert (gather.padding is not None) == (indices == EDGES)


@pytest.mark.parametrize("value", UNKNOWN.values(), ids=UNKNOWN)
def test_a_constant_without_readable_numbers_is_unknown(value: str) -> None:
    gather = gathered(function(constant(1, value)))
    assert (gather.indices_known, gather.padding) == (False, (2, 0))
    assert "may be replicate padding" in gather.padding_line()


def test_of_several_constants_the_embeddings_own_are_the_indices() -> None:
    both = constant(1, "dense<[[0, 0, 0, 1, 2, 3]]>"), constant(2, "dense<[[3, 3, 2, 1, 0, 0]]>")
    assert gathered(function(*both, taken="%1")).indices == EDGES
    assert gathered(function(*both, taken="%2")).indices == (3, 3, 2, 1, 0, 0)


def test_a_constant_is_followed_through_changes_of_layout_shape_and_memory() -> None:
    flat = constant(1, "dense<[0, 0, 0, 1, 2, 3]>", "6")
    form = '%2 = "ttnn.reshape"(%1) : (tensor<6xui32, row_major>) -> tensor<1x6xui32, row_major>'
    assert gathered(function(flat, form, taken="%2")).indices == EDGES
    rounded = form.replace("1x6xui32", "1x6xbf16")
    moved = '%3 = "ttnn.to_layout"(%2) : (tensor<1x6xbf16>) -> tensor<1x6xui32>'
    assert not gathered(function(flat, rounded, moved, taken="%3")).indices_known


def test_a_long_chain_of_changes_is_followed_to_its_start() -> None:
    """Longer than Python nests calls."""
    form = '%c{} = "ttnn.reshape"(%{}) : (tensor<1x6xui32, row_major>) -> tensor<1x6xui32, row_major>'
    chain = [form.format(i, f"c{i - 1}" if i else "1") for i in range(3000)]
    assert gathered(function(constant(1, "dense<[[0, 0, 0, 1, 2, 3]]>"), *chain, taken="%c2999")).indices == EDGES


def test_values_that_are_computed_from_each_other_are_unknown() -> None:
    form = '%c{} = "ttnn.reshape"(%c{}) : (tensor<1x6xui32, row_major>) -> tensor<1x6xui32, row_major>'
    assert not gathered(function(form.format(1, 2), form.format(2, 1), taken="%c1")).indices_known


def test_computed_indices_are_unknown() -> None:
    added = '%2 = "ttnn.add"(%1, %1) : (tensor<1x6xui32>, tensor<1x6xui32>) -> tensor<1x6xui32>'
    assert not gathered(function(constant(1, "dense<1>"), added, taken="%2")).indices_known


def test_an_argument_is_the_only_constant_that_a_function_returns() -> None:
    moved = '%2 = "ttnn.to_device"(%1, %0) : (tensor<1x6xui32>, !ttnn.device) -> tensor<1x6xui32>'
    assert gathered(evaluated("dense<[[0, 0, 0, 1, 2, 3]]>", moved), function(taken="%arg0")).indices == EDGES
    plain = evaluated("dense<[[0, 0, 0, 1, 2, 3]]>")
    assert gathered(plain, function(taken="%arg0")).indices == EDGES
    assert not gathered(plain, plain, function(taken="%arg0")).indices_known
    assert not gathered(plain, function(taken="%arg0", form="1x7")).indices_known
    assert not gathered(function(taken="%arg0")).indices_known


def test_a_constant_of_something_else_is_not_an_arguments() -> None:
    used = '%2 = "ttnn.add"(%1, %1) : (tensor<1x6xui32>, tensor<1x6xui32>) -> tensor<1x6xui32>'
    assert not gathered(evaluated("dense<[[0, 0, 0, 1, 2, 3]]>", used), function(taken="%arg0")).indices_known
    assert not gathered(function(constant(1, "dense<[[0, 0, 0, 1, 2, 3]]>"), used, taken="%arg0")).indices_known
    rounded = '%2 = "ttnn.to_layout"(%1) : (tensor<1x6xui32>) -> tensor<1x6xbf16>'
    assert not gathered(evaluated("dense<[[0, 0, 0, 1, 2, 3]]>", rounded), function(taken="%arg0")).indices_known


def test_a_name_that_two_functions_have_is_no_proof() -> None:
    """What gives %1 in the last one is not in a form that is read: the constant before it is another function's."""
    loaded = "%1 = ttcore.load_cached(@f_const_eval_1, []) : () -> tensor<1x6xui32>"
    last = "\n".join(line for line in function(loaded).split("\n") if "get_device" not in line)
    first, second = evaluated("dense<[[0, 0, 0, 1, 2, 3]]>"), evaluated("dense<[[3, 3, 3, 3, 3, 3]]>")
    assert not gathered(first, second, last).indices_known


def test_the_gather_is_of_the_function_that_runs() -> None:
    """Two functions of the same names: the last one that agrees with the log, as for everything else."""
    constants = constant(1, "dense<[[0, 0, 0, 1, 2, 3]]>"), constant(1, "dense<[[0, 0, 1, 2, 3, 4]]>")
    first, second = function(constants[0]), function(constants[1], size=5)
    assert gathered(first, second).source.shape == (3, 5, 5)
    assert gathered(first, second, which=0).source.shape == (3, 4, 5)
    module = read_module(io.BytesIO(f"{first}\n{second}".encode()), "m").operations
    gather = gather_of(Operation("ttnn.to_layout", (MlirValue("%13"),)), module)  # of a log that names no types
    assert gather is not None
    assert gather.source.shape == (3, 5, 5)


def test_steps_of_two_functions_are_no_gather() -> None:
    """The first turns and folds; what the second takes under the names of that is not in a form that is read."""
    first = "\n".join(line for line in function().split("\n") if "to_layout" not in line and "embedding" not in line)
    second = "\n".join(line for line in function().split("\n") if "permute" not in line and "reshape" not in line)
    module = read_module(io.BytesIO(f"{first}\n{second}".encode()), "m").operations
    assert [op.name.removeprefix("ttnn.") for op in module if "device" not in op.name] == [
        "permute", "reshape", "to_layout", "embedding",
    ]  # fmt: skip
    assert gather_of(module[-1], module) is None
