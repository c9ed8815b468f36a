"""Cases of operations of the ttnn dialect, and the reason where no case is the same call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from ssinghal.core.boards import load_board
from ssinghal.core.memory_config import Sharding
from ssinghal.core.sharding import complete
from ssinghal.core.tensors import BufferType, Cores, DType, Layout, MemoryConfig, ShardKind, ShardSpec, TensorSpec
from ssinghal.diagnose.mlir_to_case import OP_MAPPINGS, case_of, left_out
from ssinghal.diagnose.model import MlirValue, Operation
from ssinghal.errors import InvalidCase
from ssinghal.estimation.estimator import estimate
from ssinghal.operators import find_operator
from ssinghal.operators.binding import specs_of

TILE, ROWS = Layout.TILE, Layout.ROW_MAJOR


def tensor(
    *shape: int, layout: Layout = TILE, dtype: DType = DType.BFLOAT16, memory: BufferType = BufferType.DRAM
) -> MlirValue:
    return MlirValue("%0", TensorSpec(shape, dtype, layout, MemoryConfig(memory)), known_layout=True)


def operation(name: str, operands: Sequence[MlirValue], result: MlirValue, **attributes: Any) -> Operation:
    return Operation(f"ttnn.{name}", (result,), tuple(operands), attributes)


DEVICE = MlirValue("%device")
X = tensor(2, 64, 96)

# operation, and the case: its operator, inputs and attributes
CALLS: Mapping[str, tuple[Operation, str, list[tuple[int, ...]], dict[str, Any]]] = {
    "add": (operation("add", [X, X], X), "add", [(2, 64, 96)] * 2, {}),
    "subtract": (operation("subtract", [X, X], X), "sub", [(2, 64, 96)] * 2, {}),
    "relu": (operation("relu", [X], X), "relu", [(2, 64, 96)], {}),
    "clamp_scalar": (operation("clamp_scalar", [X], X, min=0.0, max=6.0), "clamp", [(2, 64, 96)], {"min": 0.0, "max": 6.0}),
    "to_layout": (
        operation("to_layout", [tensor(4, 4884480)], tensor(4, 4884480, layout=ROWS), layout="row_major"),
        "to_layout",
        [(4, 4884480)],
        {"layout": "row_major"},
    ),
    "to_layout, layout only in the result": (
        operation("to_layout", [tensor(4, 64)], tensor(4, 64, layout=ROWS)),
        "to_layout",
        [(4, 64)],
        {"layout": "row_major"},
    ),
    "to_layout that casts as well": (
        operation("to_layout", [tensor(4, 64, layout=ROWS, dtype=DType.FLOAT32)], tensor(4, 64), layout="tile"),
        "to_layout",
        [(4, 64)],
        {"layout": "tile", "dtype": "bfloat16"},
    ),
    "untilize": (operation("untilize", [X], tensor(2, 64, 96, layout=ROWS)), "untilize", [(2, 64, 96)], {}),
    "to_device: the result is put there": (operation("to_device", [MlirValue("%1"), DEVICE], X), "place", [(2, 64, 96)], {}),
    "typecast": (
        operation("typecast", [X], tensor(2, 64, 96, dtype=DType.FLOAT32), dtype="f32"),
        "_to_copy",
        [(2, 64, 96)],
        {"dtype": "float32"},
    ),
    "permute": (
        operation("permute", [tensor(1, 4, 768, 60)], tensor(4, 1, 768, 60), permutation=[1, 0, 2, 3]),
        "permute",
        [(1, 4, 768, 60)],
        {"dims": [1, 0, 2, 3]},
    ),
    "reshape": (operation("reshape", [X], tensor(128, 96), shape=[128, 96]), "view", [(2, 64, 96)], {"size": [128, 96]}),
    "concat": (operation("concat", [X, X], tensor(2, 128, 96), dim=1), "cat", [(2, 64, 96)] * 2, {"dim": 1}),
    "slice_static": (
        operation("slice_static", [X], tensor(2, 32, 96), begins=[0, 32, 0], ends=[2, 64, 96], step=[1, 1, 1]),
        "slice",
        [(2, 64, 96)],
        {"dim": 1, "start": 32, "end": 64, "step": 1},
    ),
    "pad": (
        operation(
            "pad",
            [tensor(1, 60, 106, layout=ROWS)],
            tensor(1, 61, 109, layout=ROWS),
            padding=[0, 0, 0, 1, 1, 2], value=0.0,
        ),
        "constant_pad_nd",
        [(1, 60, 106)],
        {"pad": [1, 2, 0, 1, 0, 0], "value": 0.0},
    ),
    "embedding: indices come first": (
        operation(
            "embedding",
            [tensor(1, 7, layout=ROWS, dtype=DType.UINT32), tensor(1000, 64, layout=ROWS)],
            tensor(1, 7, 64, layout=TILE),
        ),
        "embedding",
        [(1000, 64), (1, 7)],
        {},
    ),
    "max_pool2d": (
        operation(
            "max_pool2d",
            [tensor(1, 1, 6 * 464 * 800, 64, layout=ROWS), DEVICE],
            tensor(1, 1, 6 * 232 * 400, 64, layout=ROWS),
            batch_size=6, input_height=464, input_width=800, channels=64,
            kernel_size=[3, 3], stride=[2, 2], padding=[1, 1, 1, 1], dilation=[1, 1], ceil_mode="false",
        ),
        "max_pool2d",
        [(6, 64, 464, 800)],
        {"kernel_size": [3, 3], "stride": [2, 2], "padding": [1, 1], "dilation": [1, 1], "ceil_mode": False},
    ),
    "conv2d: weights as torch has them": (
        operation(
            "conv2d",
            [tensor(1, 1, 1024, 32, layout=ROWS), tensor(1, 1, 288, 64), tensor(1, 1, 1, 64), DEVICE],
            tensor(1, 1, 1024, 64),
            in_channels=32, out_channels=64, batch_size=1, input_height=32, input_width=32,
            kernel_size=[3, 3], stride=[1, 1], padding=[1, 1], dilation=[1, 1], groups=1,
        ),
        "convolution",
        [(1, 32, 32, 32), (64, 32, 3, 3), (64,)],
        {"stride": [1, 1], "padding": [1, 1], "dilation": [1, 1], "groups": 1},
    ),
    "conv3d": (
        operation(
            "conv3d",
            [tensor(1, 6, 62, 108, 768, layout=ROWS), tensor(27 * 768, 768), tensor(1, 768), DEVICE],
            tensor(1, 4, 60, 106, 768, layout=ROWS),
            in_channels=768, out_channels=768, batch_size=1, input_depth=6, input_height=62, input_width=108,
            kernel_size=[3, 3, 3], stride=[1, 1, 1], padding=[0, 0, 0], padding_mode="zeros", groups=1,
        ),
        "convolution",
        [(1, 768, 6, 62, 108), (768, 768, 3, 3, 3), (768,)],
        {"stride": [1, 1, 1], "padding": [0, 0, 0], "groups": 1},
    ),
    "matmul": (
        operation("matmul", [tensor(2, 32, 64), tensor(2, 64, 96)], tensor(2, 32, 96), transpose_a=False, transpose_b="false"),
        "matmul",
        [(2, 32, 64), (2, 64, 96)],
        {},
    ),
    "linear: the weight lies [in, out]": (
        operation("linear", [tensor(1, 5, 64), tensor(64, 96), tensor(1, 96)], tensor(1, 5, 96)),
        "linear",
        [(1, 5, 64), (96, 64), (96,)],
        {},
    ),
    "softmax": (operation("softmax", [X], X, dimension=-1), "softmax", [(2, 64, 96)], {"dim": -1}),
    "mean": (
        operation("mean", [X], tensor(2, 64, 1), dim_arg=[-1], keep_dim=True),
        "mean",
        [(2, 64, 96)],
        {"dim": [-1], "keepdim": True},
    ),
    "layer_norm": (
        operation("layer_norm", [X, tensor(96), tensor(96)], X, epsilon=1e-6),
        "layer_norm",
        [(2, 64, 96), (96,), (96,)],
        {"normalized_shape": [96], "eps": 1e-6},
    ),
    "group_norm": (
        operation("group_norm", [tensor(2, 1, 1024, 320)], tensor(2, 1, 1024, 320), num_groups=32, epsilon=1e-5),
        "group_norm",
        [(2, 320, 1, 1024)],
        {"num_groups": 32, "eps": 1e-5},
    ),
    "upsample": (
        operation("upsample", [tensor(1, 8, 8, 64, layout=ROWS)], tensor(1, 16, 16, 64, layout=ROWS), scale_factor=2),
        "upsample_nearest2d",
        [(1, 64, 8, 8)],
        {"scale_factors": [2.0, 2.0]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("called", CALLS.values(), ids=CALLS)
def test_the_case_of_an_operation(called: tuple[Operation, str, list[tuple[int, ...]], dict[str, Any]]) -> None:
    op, operator, inputs, attrs = called
    case = case_of(op)
    assert (case.name, list(case.inputs), dict(case.attrs)) == (operator, inputs, attrs)


def test_every_mapping_names_an_operator() -> None:
    assert all(mapping.operator in find_operator(mapping.operator).names for mapping in OP_MAPPINGS.values())


def test_the_case_has_the_bytes_of_the_operation() -> None:
    """[4, 4884480]: 152,640 tiles of 2,048 B, and 4 rows of 9,768,960 B."""
    case = case_of(CALLS["to_layout"][0])
    source, target = estimate(case, load_board("n150")).allocations
    assert source.allocated_bytes == 152_640 * 2_048
    assert target.allocated_bytes == 4 * 9_768_960


def test_memory_comes_from_operands_and_result() -> None:
    moved = operation("to_memory_config", [tensor(64, 64)], tensor(64, 64, memory=BufferType.L1))
    placement = case_of(moved).placement
    assert (placement.memory.value, placement.output_memory.value) == ("dram", "l1")
    stays = operation("relu", [tensor(64, 64, memory=BufferType.L1)], tensor(64, 64, memory=BufferType.L1))
    assert case_of(stays).placement.output_memory.value == "same"


def test_a_tensor_put_on_the_device_has_the_placement_of_the_result() -> None:
    result = tensor(64, 64, layout=ROWS, dtype=DType.FLOAT32, memory=BufferType.L1)
    placement = case_of(operation("to_device", [MlirValue("%1")], result)).placement
    assert (placement.dtype, placement.layout, placement.memory) == (DType.FLOAT32, ROWS, BufferType.L1)


IN_SHARDS = complete(TensorSpec((1, 64, 640, 64)), BufferType.L1, Sharding(ShardKind.HEIGHT), load_board("n150"))
SHARDED = MlirValue("%1", IN_SHARDS, known_layout=True)

IN_WIDTH = ShardSpec(ShardKind.WIDTH, (32, 64), Cores.grid(8, 8))
IN_L1 = TensorSpec((32, 4096), memory=MemoryConfig(BufferType.L1, IN_WIDTH))
WEIGHT = tensor(4096, 14336, dtype=DType.BFLOAT8_B)

# operation, and what its case has beyond one dtype, layout and memory: the keys of its JSON
CARRIED: Mapping[str, tuple[Operation, dict[str, Any]]] = {
    "shards of the first operand, kept by the result": (
        operation("relu", [SHARDED], SHARDED),
        {"memory": "l1:height@8x8:640x64", "output_memory": "same"},
    ),
    "shards of the result": (
        operation("relu", [tensor(1, 64, 640, 64)], SHARDED),
        {"memory": "dram", "output_memory": "l1:height@8x8:640x64"},
    ),
    "a sharded operand to an interleaved result": (
        operation("relu", [SHARDED], tensor(1, 64, 640, 64, memory=BufferType.L1)),
        {"memory": "l1:height@8x8:640x64", "output_memory": "l1"},
    ),
    "shards on cores that are not in the text": (
        operation("relu", [MlirValue("%1", TensorSpec((32, 4096), memory=MemoryConfig(BufferType.L1)),
                                     sharding=Sharding(ShardKind.WIDTH, 64, (32, 64)))], tensor(32, 4096)),
        {"memory": "l1:width@64:32x64", "output_memory": "dram"},
    ),
    "a weight in block floats": (
        operation("matmul", [MlirValue("%1", IN_L1, True), WEIGHT], tensor(32, 14336)),
        {"memory": "l1:width@8x8:32x64", "output_memory": "dram", "operands": [None, {"dtype": "bfloat8_b", "memory": "dram"}]},
    ),
    "a weight beside its activation in l1": (
        operation("matmul", [MlirValue("%1", IN_L1, True), tensor(4096, 64, memory=BufferType.L1)], tensor(32, 64)),
        {"memory": "l1:width@8x8:32x64", "output_memory": "dram", "operands": [None, {"memory": "l1"}]},
    ),
    "two dtypes": (
        operation("add", [X, tensor(2, 64, 96, dtype=DType.FLOAT32)], X),
        {"memory": "dram", "operands": [None, {"dtype": "float32"}]},
    ),
    "two layouts": (operation("add", [X, tensor(2, 64, 96, layout=ROWS)], X), {"operands": [None, {"layout": "row_major"}]}),
    "two memories": (operation("add", [X, tensor(2, 64, 96, memory=BufferType.L1)], X), {"operands": [None, {"memory": "l1"}]}),
    "another dtype of the result": (
        operation("matmul", [tensor(32, 64), tensor(64, 64)], tensor(32, 64, dtype=DType.BFLOAT8_B)),
        {"output_dtype": "bfloat8_b"},
    ),
    "a tile table": (
        operation("embedding", [tensor(1, 7, layout=ROWS, dtype=DType.UINT32), tensor(1000, 64)], tensor(1, 7, 64)),
        {"operands": [{"layout": "tile"}]},
    ),
    "weights of a convolution": (
        operation("conv2d", [tensor(1, 1, 1024, 32, layout=ROWS, dtype=DType.FLOAT32), tensor(1, 1, 288, 64)],
                  tensor(1, 1, 1024, 64, dtype=DType.FLOAT32), in_channels=32, out_channels=64, batch_size=1,
                  input_height=32, input_width=32, kernel_size=[3, 3], stride=[1, 1], padding=[1, 1]),
        {"dtype": "float32", "operands": [None, {"dtype": "bfloat16"}]},
    ),
    "weights of a convolution in block floats": (
        operation("conv2d", [tensor(1, 1, 1024, 32, layout=ROWS), tensor(1, 1, 288, 64, dtype=DType.BFLOAT8_B)],
                  tensor(1, 1, 1024, 64), in_channels=32, out_channels=64, batch_size=1,
                  input_height=32, input_width=32, kernel_size=[3, 3], stride=[1, 1], padding=[1, 1]),
        {"attrs": {"weights_dtype": "bfloat8_b", "stride": [1, 1], "padding": [1, 1], "dilation": [1, 1], "groups": 1}},
    ),
}  # fmt: skip


@pytest.mark.parametrize("carried", CARRIED.values(), ids=CARRIED)
def test_what_tensors_have_of_their_own_is_carried(carried: tuple[Operation, dict[str, Any]]) -> None:
    op, expected = carried
    identity = case_of(op).identity()
    assert {key: identity[key] for key in expected} == expected
    assert ("operands" in identity, "output_dtype" in identity) == ("operands" in expected, "output_dtype" in expected)


@pytest.mark.parametrize("carried", CARRIED.values(), ids=CARRIED)
def test_the_case_puts_the_operations_tensors_on_the_device(carried: tuple[Operation, dict[str, Any]]) -> None:
    """Every tensor of known type has the operation's dtype, layout and memory, but for weights that a compiler prepared."""
    op, _ = carried
    inputs, outputs = specs_of(case_of(op), load_board("n150"))
    mapping = OP_MAPPINGS[op.name.removeprefix("ttnn.")]
    values = [op.operands[i] for i in mapping.order or range(len(op.operands))]
    pairs = [pair for i, pair in enumerate(zip(inputs, values, strict=True)) if i not in mapping.prepared]
    for spec, value in (*pairs, *zip(outputs, op.results, strict=True)):
        assert value.spec is not None
        assert (spec.dtype, spec.layout) == (value.spec.dtype, value.spec.layout)
        if value.known_layout:
            assert spec.memory == value.spec.memory


REFUSED: Mapping[str, tuple[Operation, str]] = {
    "shards of unknown size": (
        operation("relu", [replace(SHARDED, spec=X.spec, sharding=Sharding(ShardKind.HEIGHT))], X),
        "[2,64,96] is height sharded, but its shards are not in the text",
    ),
    "no such operation": (operation("point_to_point", [X], X), "unknown operation 'point_to_point'"),
    "another result": (operation("relu", [X], tensor(2, 64, 95)), "result is [2,64,95]"),
    "untyped operands": (operation("matmul", [MlirValue("%1"), MlirValue("%2")], X), "types of 0 operands; it takes 2"),
    "one operand of a binary": (operation("add", [X, MlirValue("%2")], X), "add takes two tensors"),
    "rows to be untilized": (operation("untilize", [tensor(64, 64, layout=ROWS)], X), "result is tile, not row_major"),
    "no attribute": (operation("permute", [X], X), "no attribute permutation"),
    "an attribute of another kind": (operation("permute", [X], X, permutation="rows"), "permutation is 'rows'"),
    "two cuts": (
        operation("slice_static", [X], tensor(2, 32, 64), begins=[0, 0, 0], ends=[2, 32, 64], step=[1, 1, 1]),
        "cuts dims [1, 2]",
    ),
    "lopsided padding": (
        operation(
            "max_pool2d", [tensor(1, 1, 64, 32, layout=ROWS)], tensor(1, 1, 16, 32, layout=ROWS),
            batch_size=1, input_height=8, input_width=8, channels=32, kernel_size=[2, 2], stride=[2, 2], dilation=[1, 1],
            padding=[0, 0, 1, 1],
        ),
        "differs between the sides",
    ),
}  # fmt: skip


@pytest.mark.parametrize("refused", REFUSED.values(), ids=REFUSED)
def test_an_operation_without_a_case(refused: tuple[Operation, str]) -> None:
    op, reason = refused
    with pytest.raises(InvalidCase) as error:
        case_of(op)
    assert reason in str(error.value)
    assert "\n" not in str(error.value)


def test_settings_that_a_case_cannot_have_are_named() -> None:
    plain = CALLS["matmul"][0]
    tuned = operation("matmul", plain.operands, plain.results[0], activation="relu", conv2d_config="#ttnn.conv2d_config<>")
    assert left_out(plain) == ()
    assert left_out(tuned) == ("conv2d_config",)
    assert case_of(tuned).attrs == {"activation": "relu"}
