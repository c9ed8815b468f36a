"""The shards chosen for the map of a convolution are those that ttnn.conv2d makes of an interleaved one."""

from __future__ import annotations

import multiprocessing
import random
import re
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest

from ssinghal.core.case import OperandPlacement, Placement
from ssinghal.core.device_facts import DeviceMode
from ssinghal.core.memory_config import BufferType, MemoryRequest, Orientation, Sharding, ShardKind
from ssinghal.core.tensors import DType, Layout, MemoryConfig, TensorSpec
from ssinghal.device.modes import DeviceChoice
from ssinghal.device.session import Session
from ssinghal.device.virtual import apply_environment, environment_for
from ssinghal.device.virtual_cache import scratch_folder
from ssinghal.errors import InvalidCase
from ssinghal.operators import make_case
from ssinghal.operators.binding import bind

pytestmark = pytest.mark.virtual_device

KINDS = [ShardKind.HEIGHT, ShardKind.WIDTH, ShardKind.BLOCK]
# The memory config of a tensor that TTNN creates, as its graphs print it.
_SHARDED = re.compile(
    r"TensorMemoryLayout::(\w+)_SHARDED,buffer_type=BufferType::L1,"
    r"shard_spec=ShardSpec\{grid=\[(.*?)\], shape=\[(\d+), (\d+)\], orientation=ShardOrientation::(\w+)"
)
_RANGE = re.compile(r'"start":\{"x":(\d+),"y":(\d+)\},"end":\{"x":(\d+),"y":(\d+)\}')


def _random_call(rng: random.Random, transposed: bool) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], dict[str, Any]]:
    """Draws shapes and attributes of a convolution that TTNN does not fold: its stride is not its kernel."""
    kernel = rng.choice([1, 3, 3, 5])
    stride = rng.choice([1, 1, 2])
    groups = rng.choice([1, 1, 2])
    channels, out = (groups * rng.choice([8, 16, 24, 32, 48, 64, 96, 160, 256, 320]) for _ in range(2))
    image = (rng.choice([1, 1, 2]), channels, rng.randint(6, 64), rng.randint(6, 64))
    weight = (channels, out // groups, kernel, kernel) if transposed else (out, channels // groups, kernel, kernel)
    attrs: dict[str, Any] = {"stride": stride, "padding": kernel // 2, "groups": groups, "transposed": transposed}
    if not transposed and rng.random() < 0.3:
        attrs["act_block_h"] = rng.choice([32, 64, 128])
    return (image, weight), attrs


def _made_by_ttnn(session: Session, call: Any, kind: ShardKind, orientation: Orientation, layout: Layout) -> str | None:
    """Returns the first sharded tensor that TTNN creates for this call on an interleaved map; None where it creates none."""
    ttnn, attrs = session.ttnn, call.attrs
    (batch, channels, height, width), weight = call.case.inputs
    image = session.empty(TensorSpec((1, 1, batch * height * width, channels), DType.BFLOAT16, layout, MemoryConfig()))
    parameters = session.empty(TensorSpec(weight, DType.BFLOAT16, Layout.ROW_MAJOR, MemoryConfig()))
    config = ttnn.Conv2dConfig(
        shard_layout=getattr(ttnn.TensorMemoryLayout, f"{kind.name}_SHARDED"),
        transpose_shards=orientation is Orientation.COL_MAJOR,
        act_block_h_override=attrs["act_block_h"],
    )
    stride, padding = attrs["stride"], attrs["padding"]
    arguments = {
        "input_tensor": image,
        "weight_tensor": parameters,
        "device": session.device,
        "in_channels": channels,
        "out_channels": call.results[0][1],
        "batch_size": batch,
        "input_height": height,
        "input_width": width,
        "kernel_size": weight[2:],
        "stride": (stride, stride),
        "padding": (padding, padding),
        "groups": attrs["groups"],
        "conv_config": config,
    }
    convolve, slicing = (ttnn.conv_transpose2d, "dram_slice_config") if attrs["transposed"] else (ttnn.conv2d, "slice_config")

    def run() -> None:
        try:
            convolve(**arguments, **{slicing: ttnn.Conv2dL1FullSliceConfig})
        except RuntimeError:
            return  # it may fail after the map is sharded

    graph = session.capture_running(run)
    image.deallocate()
    parameters.deallocate()
    session.clear()
    calls = (node for node in graph if node["node_type"] == "function_start")
    created = (str(node["arguments"]) for node in calls if node["params"]["name"] == "tt::tt_metal::create_device_tensor")
    for found in filter(None, map(_SHARDED.search, created)):
        cores = "+".join("{},{}-{},{}".format(*numbers) for numbers in _RANGE.findall(found[2]))
        return f"{found[1].lower()} {cores} {found[3]}x{found[4]} {found[5].lower()}"
    return None


def _compare(board_name: str, calls: int) -> tuple[int, list[str]]:
    choice, rng = DeviceChoice(DeviceMode.VIRTUAL, board_name, "requested"), random.Random(16)
    compared, differences = 0, []
    with scratch_folder() as scratch:
        apply_environment(environment_for(choice, scratch))
        with Session(choice, l1_small_bytes=32768) as session:
            for number in range(calls):
                shapes, attrs = _random_call(rng, transposed=number % 4 == 3)
                kind, layout = rng.choice(KINDS), rng.choice(list(Layout))
                orientation = rng.choice(list(Orientation)) if kind is ShardKind.BLOCK else Orientation.ROW_MAJOR
                request = MemoryRequest(BufferType.L1, Sharding(kind, orientation=orientation))
                placement = Placement(operands=(OperandPlacement(layout=layout, memory=request),))
                call = bind(make_case("convolution", shapes, attrs, placement), session.board)
                try:
                    shard = call.inputs[0].memory.shard
                except InvalidCase as error:
                    differences.append(f"{call.case.id}: {error}")
                    continue
                made = _made_by_ttnn(session, call, kind, orientation, layout)
                if made is None or shard is None:
                    continue
                compared += 1
                cores = "+".join(f"{x0},{y0}-{x1},{y1}" for (x0, y0), (x1, y1) in shard.cores.ranges)
                chosen = f"{shard.kind} {cores} {shard.shape[0]}x{shard.shape[1]} {shard.orientation}"
                if chosen != made:
                    differences.append(f"{call.case.id}: {made}; here {chosen}")
    return compared, differences


@pytest.mark.parametrize("board", ["n150", "p150"])
def test_shards_of_the_map_are_those_of_conv2d(board: str) -> None:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as worker:
        compared, differences = worker.submit(_compare, board, 160).result(timeout=240)
    assert differences == []
    assert compared > 150
