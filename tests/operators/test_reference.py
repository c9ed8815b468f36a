"""Declarations of elementwise, matrix, reduction, pooling and creation operators, compared with torch.

torch's schema has the arguments of an overload with their defaults; its result has the shape that is inferred.
"""

from __future__ import annotations

from typing import Any

import pytest

from ssinghal.core.case import Placement
from ssinghal.operators import families, find_operator, make_case
from ssinghal.operators.binding import bind
from ssinghal.operators.operator_info import REQUIRED, OperatorInfo
from tests.support.reference_calls import CALLS as WRITTEN
from tests.support.reference_calls import Call

FAMILIES = ("elementwise", "matmul", "reduction", "pooling", "creation")
OPERATORS = [info for family in FAMILIES for info in families()[family]]
OVERLOADS = {overload: info for info in OPERATORS for overload in info.aten}


def sampled(infos: list[OperatorInfo]) -> tuple[Call, ...]:
    """Returns a call of each operator that no written one calls, as in a shape sweep."""
    called = {overload for overload, _, _ in WRITTEN}
    samples = {info.aten[0]: info.sample((2, 3, 40)) for info in infos if info.sample and not called.intersection(info.aten)}
    return tuple((overload, sample.inputs, sample.attrs) for overload, sample in samples.items())


CALLS = (*WRITTEN, *sampled([info for info in OPERATORS if info.aten]))

SEED_NAMES = (
    "add", "addmm", "bmm", "clamp", "clampmin", "clone", "copy", "div", "dropout", "gelu", "geluactivation", "hardtanh",
    "identity", "leakyrelu", "linalgvectornorm", "linear", "log", "maxpool2d", "mean", "mish", "mm", "mul", "ones", "relu",
    "sigmoid", "silu", "silu_inplace", "softmax", "softplus", "sub", "tanh", "topk", "upsample_nearest2d", "GELU", "Mish",
    "Identity", "Dropout", "Linear", "Upsample", "upsamplenearest2d", "AdaptiveAvgPool1d", "AdaptiveAvgPool2d",
    "AdaptiveMaxPool1d", "AdaptiveMaxPool2d", "SiLU", "ReLU", "LeakyReLU", "GELUActivation", "MaxPool2d",
)  # fmt: skip


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch", reason="the references are torch's")


def overload(torch: Any, name: str) -> Any:
    _, operator, variant = name.split(".")
    return getattr(getattr(torch.ops.aten, operator), variant)


def call_id(call: Call) -> str:
    name, shapes, attrs = call
    return "-".join([name, *("x".join(map(str, s)) for s in shapes), *(f"{k}={v}".replace(" ", "") for k, v in attrs.items())])


def operands(torch: Any, call: Call) -> list[Any]:
    """Returns positive values, which every operator here takes, and masks of both kinds of element."""
    generator = torch.Generator().manual_seed(0)
    info = OVERLOADS[call[0]]
    made = [torch.rand(shape, generator=generator) + 0.1 for shape in call[1]]
    return [(m > 0.6) if o in ("mask", "condition") else m for o, m in zip(expand_names(info, len(made)), made, strict=True)]


def expand_names(info: OperatorInfo, count: int) -> list[str]:
    return [name.rstrip("?*") for name in info.operands][:count]


def as_list(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


@pytest.mark.parametrize("name", SEED_NAMES)
def test_seed_names_are_selectable(name: str) -> None:
    assert find_operator(name) in OPERATORS


@pytest.mark.parametrize("info", [info for info in OPERATORS if info.aten], ids=lambda info: info.name)
def test_every_operator_has_a_call(info: OperatorInfo) -> None:
    """One without would have an untested reference."""
    assert {call[0] for call in CALLS} & set(info.aten), (
        f"{info.name} has no sample: add to CALLS in tests/support/reference_calls.py a line"
        f' ("{info.aten[0]}", shapes of {", ".join(info.operands)}, attributes)'
    )


@pytest.mark.parametrize("name", sorted(OVERLOADS))
def test_declares_every_argument_of_the_overload(torch: Any, name: str) -> None:
    info = OVERLOADS[name]
    tensors = 0
    for argument in overload(torch, name)._schema.arguments:
        if "Tensor" in str(argument.type):
            tensors += 1
            continue
        declared = info.attrs[argument.name].default
        if argument.has_default_value() and declared is not None and declared is not REQUIRED:
            expected = argument.default_value
            assert declared == (expected[0] if isinstance(expected, list) and expected else expected), argument.name
    assert info.min_operands <= tensors <= (info.max_operands or tensors)


@pytest.mark.parametrize("call", CALLS, ids=call_id)
def test_infers_the_shapes_that_torch_returns(torch: Any, call: Call) -> None:
    name, shapes, attrs = call
    info = OVERLOADS[name]
    completed = info.complete_attrs(attrs)
    reference = as_list(info.torch(torch, operands(torch, call), completed))
    inferred = info.infer(list(shapes), completed)
    assert inferred == [tuple(result.shape) for result in reference][: len(inferred)]


@pytest.mark.parametrize("call", CALLS, ids=call_id)
def test_reference_is_the_overload(torch: Any, call: Call) -> None:
    """The overload called with its arguments by name. Comparisons return numbers, not bools; pools leave indices out; a scalar
    is [1]."""
    name, _, attrs = call
    function, tensors = overload(torch, name), operands(torch, call)
    arguments: dict[str, Any] = {}
    for argument in function._schema.arguments:
        if "Tensor" in str(argument.type):
            arguments[argument.name] = tensors.pop(0).clone() if tensors else None
        elif argument.name in attrs:
            arguments[argument.name] = named_dtype(torch, attrs[argument.name])
        elif not argument.has_default_value():
            arguments[argument.name] = None
    returned = as_list(function(**arguments))
    expected = as_list(OVERLOADS[name].torch(torch, operands(torch, call), OVERLOADS[name].complete_attrs(attrs)))
    for ours, theirs in zip(expected, returned, strict=False):
        torch.testing.assert_close(ours, torch.atleast_1d(theirs).to(ours.dtype))


def named_dtype(torch: Any, value: Any) -> Any:
    return getattr(torch, value.removeprefix("torch.")) if isinstance(value, str) and value.startswith("torch.") else value


@pytest.mark.parametrize("info", OPERATORS, ids=lambda info: info.name)
@pytest.mark.parametrize("shape", [(1, 64, 40, 20), (1, 40, 64), (40, 64), (64,), (1, 3, 8, 10, 4)], ids=str)
def test_samples_are_complete_calls(info: OperatorInfo, shape: tuple[int, ...]) -> None:
    """The operands, attributes and results that are built from a listed shape go together."""
    assert info.sample is not None
    sample = info.sample(shape)
    placement = Placement(channels_last=sample.channels_last if sample.channels_last is not None else True)
    case = make_case(info.name, sample.inputs, sample.attrs, placement)
    operands, results = bind(case).specs()
    assert results
    assert len(operands) == len(case.inputs)
