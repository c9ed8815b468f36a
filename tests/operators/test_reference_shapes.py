"""Shape, normalization and convolution operators, compared with torch and TTNN.

Torch determines the arguments of an ATen overload, its results and their shapes. TTNN's allocator, on a virtual device,
determines which calls are accepted, what they return and how much memory that takes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from ssinghal.core.boards import load_board
from ssinghal.core.case import Placement
from ssinghal.core.tensors import BufferType, Layout, Shape
from ssinghal.core.verdict import Status
from ssinghal.device.modes import choose_device
from ssinghal.estimation.estimator import estimate
from ssinghal.operators import families, make_case
from ssinghal.operators.operator_info import OperatorInfo
from ssinghal.runner.pool import Pool

OPERATORS = [info for family in ("shape", "normalization", "convolution") for info in families()[family]]
OVERLOADS = {overload: info for info in OPERATORS for overload in info.aten}


@dataclass(frozen=True)
class Example:
    """One call of an ATen overload or, where torch has none, of an operator. ``rejected``: layouts that TTNN does not take."""

    of: str
    shapes: tuple[Shape, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    rejected: tuple[Layout, ...] = ()

    @property
    def info(self) -> OperatorInfo:
        return OVERLOADS.get(self.of) or next(info for info in OPERATORS if info.name == self.of)

    def __str__(self) -> str:
        return f"{self.of}-{self.shapes}-{self.attrs}".replace(" ", "")


TILE, ROW_MAJOR = Layout.TILE, Layout.ROW_MAJOR
C32, C64 = (32,), (64,)

EXAMPLES = (
    Example("aten.view.default", ((2, 40, 64),), {"size": [80, 64]}),
    Example("aten.view.default", ((2, 64, 64),), {"size": [128, -1]}),
    Example("aten.view.default", ((1, 40, 30, 64),), {"size": [1, 64, 40, 30]}),
    Example("aten._unsafe_view.default", ((48, 32),), {"size": [4, 12, 32]}),
    Example("aten.reshape.default", ((4, 12, 32),), {"shape": [48, -1]}),
    Example("aten.flatten.using_ints", ((2, 5, 32, 64),), {"start_dim": 1, "end_dim": -2}),
    Example("aten.flatten.using_ints", ((2, 5, 6),)),
    Example("aten.unflatten.int", ((6, 40, 64),), {"dim": 0, "sizes": [2, -1]}),
    Example("aten.unflatten.int", ((6, 64),), {"dim": -1, "sizes": [4, 16]}),
    Example("aten.movedim.int", ((2, 3, 40, 64),), {"source": -1, "destination": 1}),
    Example("aten.movedim.intlist", ((2, 3, 40, 64),), {"source": [0, 1], "destination": [2, 0]}),
    Example("aten.unsqueeze.default", ((5, 40, 64),), {"dim": 0}),
    Example("aten.unsqueeze.default", ((5, 40),), {"dim": -1}),
    Example("aten.squeeze.default", ((1, 40, 1, 64),)),
    Example("aten.squeeze.dim", ((1, 40, 1, 64),), {"dim": -2}),
    Example("aten.squeeze.dims", ((1, 40, 1, 64),), {"dim": [0, 1]}),
    Example("aten.permute.default", ((1, 40, 30, 64),), {"dims": [0, 3, 1, 2]}),
    Example("aten.permute.default", ((1, 4, 2, 2, 3, 3, 8, 10),), {"dims": [0, 1, 5, 2, 6, 3, 7, 4]}),
    Example("aten.transpose.int", ((2, 40, 33),), {"dim0": -2, "dim1": -1}),
    Example("aten.transpose.int", ((2, 3, 5, 33),), {"dim0": 1, "dim1": 2}),
    Example("aten.t.default", ((40, 33),)),
    Example("to_layout", ((3, 40, 33),), {"layout": "row_major"}),
    Example("to_layout", ((3, 40, 33),), {"layout": "tile"}),
    Example("tilize", ((3, 40, 33),)),
    Example("untilize", ((3, 40, 33),)),
    Example("aten.as_strided.default", ((4, 6),), {"size": [3, 2], "stride": [6, 2]}, rejected=(TILE, ROW_MAJOR)),
    Example("aten.cat.default", ((2, 40, 64), (3, 40, 64))),
    Example("aten.cat.default", ((2, 40, 64), (2, 5, 64), (2, 7, 64)), {"dim": -2}),
    Example("aten.cat.default", ((2, 40, 64),), {"dim": 1}),
    Example("aten.stack.default", ((40, 64), (40, 64))),
    Example("aten.stack.default", ((40, 64), (40, 64), (40, 64)), {"dim": -1}),
    Example("aten.split.Tensor", ((2, 40, 64),), {"split_size": 25, "dim": 1}),
    Example("aten.split.Tensor", ((4, 40, 64),), {"split_size": 8}),
    Example("aten.split_with_sizes.default", ((2, 96, 64),), {"split_sizes": [32, 40, 24], "dim": -2}),
    Example("aten.chunk.default", ((9, 40, 64),), {"chunks": 4}),
    Example("aten.slice.Tensor", ((2, 13, 48, 64),), {"dim": 1, "start": -2, "end": 2**63 - 1}),
    Example("aten.slice.Tensor", ((2, 40, 64),), {"dim": 2, "start": 3, "end": 60, "step": 4}),
    Example("aten.select.int", ((3, 40, 64),), {"dim": 1, "index": -1}),
    Example("aten.unbind.int", ((3, 2, 40, 64),)),
    Example("aten.unbind.int", ((40, 3, 64),), {"dim": 1}),
    Example("aten.unbind.int", ((1, 40, 64),), {"dim": 0}),
    Example("aten.expand.default", ((1, 40, 1),), {"size": [2, -1, 40, 64]}),
    Example("aten.repeat.default", ((40, 33),), {"repeats": [2, 1, 3]}),
    Example("aten.repeat_interleave.self_int", ((2, 40, 64),), {"repeats": 2, "dim": 1}),
    Example("aten.roll.default", ((1, 24, 40, 64),), {"shifts": [-3, -3], "dims": [1, 2]}),
    Example("aten.roll.default", ((6, 64),), {"shifts": [5]}),
    Example("aten.constant_pad_nd.default", ((2, 40, 64),), {"pad": [0, 3, 0, 1], "value": 0.5}),
    Example("aten.constant_pad_nd.default", ((2, 40, 64),), {"pad": [2, 3, 1, 0]}, rejected=(TILE,)),
    Example("aten.constant_pad_nd.default", ((70,),), {"pad": [0, 0]}),
    Example("aten.constant_pad_nd.default", ((1, 24, 40, 64),), {"pad": [0, 0, 0, 2, 0, 4]}),
    Example("aten.replication_pad2d.default", ((2, 3, 40, 33),), {"padding": [1, 2, 0, 3]}),
    Example("aten.replication_pad3d.default", ((1, 4, 3, 20, 33),), {"padding": [1, 1, 1, 1, 2, 0]}),
    Example("aten.gather.default", ((2, 40, 64), (2, 33, 20)), {"dim": 2}),
    Example("aten.gather.default", ((3, 40, 64), (2, 40, 64)), {"dim": 0}),
    Example("aten.embedding.default", ((100, 64), (2, 33))),
    Example("aten.embedding.default", ((100, 64), (2, 3, 5))),
    Example("aten.native_batch_norm.default", ((2, 32, 20, 33), C32, C32, C32, C32), {"eps": 1e-3}, rejected=(ROW_MAJOR,)),
    Example("aten.batch_norm.default", ((2, 32, 20, 33), C32, C32, C32, C32), {"training": True}, rejected=(ROW_MAJOR,)),
    Example("aten._native_batch_norm_legit_no_training.default", ((2, 32, 8, 8), C32, C32, C32, C32), rejected=(ROW_MAJOR,)),
    Example("aten.native_layer_norm.default", ((2, 40, 64), C64, C64), {"normalized_shape": [64]}),
    Example("aten.layer_norm.default", ((2, 40, 70),), {"normalized_shape": [70]}, rejected=(ROW_MAJOR,)),
    Example("aten.rms_norm.default", ((2, 40, 64), C64), {"normalized_shape": [64], "eps": 1e-6}, rejected=(ROW_MAJOR,)),
    Example("aten.rms_norm.default", ((2, 40, 64), C64), {"normalized_shape": [64]}, rejected=(ROW_MAJOR,)),
    Example("aten.native_group_norm.default", ((2, 64, 16, 20), C64, C64), {"N": 2, "C": 64, "HxW": 320, "group": 32}),
    Example("aten.group_norm.default", ((4, 96, 10, 13),), {"num_groups": 12}, rejected=(ROW_MAJOR,)),
    Example("aten.convolution.default", ((2, 12, 40, 33), (32, 12, 3, 3), C32), {"stride": [2, 1], "padding": [1, 0]}),
    Example(
        "aten.convolution.default", ((1, 64, 40, 32), (64, 1, 5, 5)), {"padding": [4, 4], "dilation": [2, 2], "groups": 64}
    ),
    Example("aten.convolution.default", ((2, 32, 100), (64, 32, 3), C64), {"padding": [1]}),
    Example("aten.convolution.default", ((1, 12, 4, 20, 22), (32, 12, 1, 1, 1), C32), {"stride": [1, 1, 1]}),
    Example("aten.convolution.default", ((1, 32, 5, 20, 22), (64, 32, 3, 3, 3), C64), {"stride": [1, 2, 2]}),
    Example(
        "aten.convolution.default",
        ((2, 64, 20, 15), (64, 20, 3, 3), (20,)),
        {"stride": [2, 2], "padding": [1, 1], "transposed": True, "output_padding": [1, 1]},
    ),
    Example("aten.conv2d.default", ((1, 32, 20, 20), (64, 32, 1, 1))),
    Example("aten.conv_transpose2d.input", ((1, 64, 20, 20), (64, 16, 2, 2)), {"stride": [2, 2], "groups": 2}),
)

# Against torch ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch")


def overload(torch: Any, name: str) -> Any:
    _, operator, variant = name.split(".")
    return getattr(getattr(torch.ops.aten, operator), variant)


def is_tensor(argument: Any) -> bool:
    return "Tensor" in str(argument.type)


def same_default(declared: Any, schema: Any) -> bool:
    """Compares defaults: for all spatial dims torch has [1, 1], a declaration 1."""
    return declared == schema or (isinstance(schema, list) and {declared} == set(schema)) or (declared == () and schema == [])


@pytest.mark.parametrize("name", sorted(OVERLOADS))
def test_declares_every_argument_of_the_overload(torch: Any, name: str) -> None:
    info, arguments = OVERLOADS[name], overload(torch, name)._schema.arguments
    operands = [a.name for a in arguments if is_tensor(a)]
    assert operands == [o.rstrip("?*") for o in info.operands]
    for argument in arguments:
        if is_tensor(argument):
            continue
        declared = info.attrs[argument.name].default
        if argument.has_default_value() and declared is not None:
            assert same_default(declared, argument.default_value), argument.name


def values(torch: Any, example: Example) -> list[Any]:
    """Indices within every table here; positive variances."""
    generator = torch.Generator().manual_seed(0)
    names = [o.rstrip("?*") for o in example.info.operands]
    made = []
    for i, shape in enumerate(example.shapes):
        name = names[min(i, len(names) - 1)]
        if name in ("index", "indices"):
            made.append(torch.randint(0, 3, shape, generator=generator))
        else:
            value = torch.randn(shape, generator=generator)
            made.append(value.abs() + 0.5 if name == "running_var" else value)
    return made


def as_list(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


def reference(torch: Any, example: Example) -> list[Any]:
    attrs = example.info.complete_attrs(example.attrs)
    return as_list(example.info.torch(torch, [v.clone() for v in values(torch, example)], attrs))


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_infers_the_shapes_that_torch_returns(torch: Any, example: Example) -> None:
    attrs = example.info.complete_attrs(example.attrs)
    inferred = example.info.infer(list(example.shapes), attrs)
    assert inferred == [tuple(r.shape) for r in reference(torch, example)]


@pytest.mark.parametrize("example", [e for e in EXAMPLES if e.of in OVERLOADS], ids=str)
def test_reference_is_the_overload(torch: Any, example: Example) -> None:
    """Called with its arguments by name; the statistics that ``native_`` overloads also return are left out."""
    function = overload(torch, example.of)
    returned = as_list(function(**schema_arguments(function, example, values(torch, example))))
    expected = reference(torch, example)
    for ours, theirs in zip(expected, returned[: len(expected)], strict=True):
        torch.testing.assert_close(ours, theirs)


def schema_arguments(function: Any, example: Example, tensors: list[Any]) -> dict[str, Any]:
    """Attributes that are None, of no meaning to TTNN, get the schema's default, or False where it has none."""
    attrs = example.info.complete_attrs(example.attrs)
    dims = len(example.shapes[0]) - 2
    left = iter(tensors)
    arguments: dict[str, Any] = {}
    for argument in function._schema.arguments:
        if argument.name == "tensors":
            arguments["tensors"] = tensors
        elif is_tensor(argument):
            arguments[argument.name] = next(left, None)
        elif attrs[argument.name] is not None:
            arguments[argument.name] = spread(attrs[argument.name], argument, dims)
        elif not argument.has_default_value():
            arguments[argument.name] = False
    return arguments


def spread(value: Any, argument: Any, dims: int) -> Any:
    """One number for all spatial dims, where the schema has a list without a length."""
    return [value] * dims if isinstance(value, int) and str(argument.type) == "List[int]" else value


# Against TTNN -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool(choose_device("virtual", "n150")) as opened:
        yield opened


@pytest.mark.virtual_device
@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_ttnn_takes_the_call_and_its_memory_is_as_declared(pool: Pool, example: Example) -> None:
    """In L1 and in DRAM, in each layout: what is allocated after the call is what the declaration implies, to the byte."""
    for layout, memory in itertools.product(Layout, BufferType):
        if memory is BufferType.L1_SMALL:
            continue
        placement = Placement(layout=layout, memory=memory, channels_last=None if example.info.traits.nhwc else False)
        case = make_case(example.info.name, example.shapes, example.attrs, placement)
        record = pool.submit(case).result()
        rejected = layout in example.rejected
        assert record.verdict.status is (Status.UNSUPPORTED if rejected else Status.FITS), (layout, memory, record.verdict)
        if not rejected:
            declared = estimate(case, load_board("n150")).peak_bytes_per_bank
            assert record.resident == {str(kind): size for kind, size in declared.items()}, (layout, memory)
