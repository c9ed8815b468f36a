"""Placements of the first calls of resnet50 on an n150, made by hand: what a search returns, and what its run measures.

A convolution with 64 channels over 112x112 pixels is 12,544 rows: 392 x 2 tiles of 2,048 B, 1,605,632 B. Cut into 56 shards of
224 rows each core holds 7 x 2 tiles, 28,672 B. The pool leaves 3,136 rows of 128 B, 401,408 B. The image has 50,176 rows of 3
values, 6 B, which DRAM books as 32: 1,605,632 B again. The convolution's weights are 448 x 64 values and a bias of 64, 30 tiles
of 2,048 B: 61,440 B.
"""

from __future__ import annotations

import json
from dataclasses import replace

from ssinghal.capture.trace import Trace, read_trace, trace_of, trace_text
from ssinghal.capture.trace_library import trace_files
from ssinghal.core.memory_config import BufferType, Cores, MemoryConfig, ShardKind, ShardSpec
from ssinghal.core.tensors import DType, Layout, Shape
from ssinghal.core.verdict import Resource, Status, Verdict
from ssinghal.plan.axis_layout import AxisLayout
from ssinghal.plan.passes.registry import rewritten
from ssinghal.plan.placement import DRAM, L1, Form, Held, Outcome, StepChoice, Traffic, frozen
from ssinghal.plan.placing.found import Found, LiveForm, NoPlacement, PlacedStep, Rejected
from ssinghal.plan.policy import find_policy
from ssinghal.plan.result import PlanResult, Split, StepUse

L1_BANK = 1_360_544  # of an n150 with an L1_SMALL region of 32,768 B
SHARDS = MemoryConfig(BufferType.L1, ShardSpec(ShardKind.HEIGHT, (224, 64), Cores.grid(8, 7)))
IMAGE, WEIGHTS, MAP, POOLED = 1_605_632, 61_440, 1_605_632, 401_408
TOO_LARGE = Verdict(Status.OOM, Resource.L1_BUFFER, "ttnn.conv2d", bytes_per_bank=2_000_000, free_bytes=1_360_544)
RULE = Verdict(Status.UNSUPPORTED, message="pool needs an even grid\nbacktrace:\n at 0x1234")


def small_trace(calls: int = 4) -> Trace:
    """Returns the first calls of resnet50 as the policy ``l1`` makes them: of four, the batch norm is folded."""
    data = json.loads(trace_text(read_trace(next(file for file in trace_files() if "resnet50" in file.name))))
    data["steps"] = data["steps"][:calls]
    data["results"] = list(data["steps"][-1][3])
    data["values"] = data["values"][: data["results"][-1] + 1]
    return rewritten(trace_of(json.dumps(data)), find_policy("l1"))


def form(memory: MemoryConfig, shape: Shape, layout: Layout = Layout.TILE) -> Form:
    return Form(memory, shape, DType.BFLOAT16, layout, AxisLayout.plain(shape))


IMAGE_FORM = form(DRAM, (1, 1, 50_176, 3), Layout.ROW_MAJOR)
MAP_FORM = form(SHARDS, (1, 1, 12_544, 64))
POOLED_FORM = form(DRAM, (1, 1, 3_136, 64), Layout.ROW_MAJOR)
SETTINGS = (
    ("conv_config", frozen({"type": "Conv2dConfig", "shard_layout": "HEIGHT_SHARDED", "act_block_h_override": 64})),
    ("slice_config", frozen({"type": "Conv2dSliceConfig", "slice_type": "L1Full"})),
)


def convolution() -> PlacedStep:
    """Reads the image and weights from DRAM; to move the image there is no move."""
    choice = StepChoice(moves=((0, DRAM),), memory=None, settings=SETTINGS)
    traffic = Traffic(IMAGE + WEIGHTS, 0, 0)
    outcome = Outcome({0: Held(IMAGE_FORM)}, (Held(MAP_FORM),), 131_488, 69_696, traffic=traffic, calls=("ttnn.conv2d",))
    return PlacedStep(0, choice, outcome, 0, L1_BANK)


def activation(in_place: bool = False) -> PlacedStep:
    """A relu within L1, that writes over its operand if it is ``in_place``."""
    outcome = Outcome(
        {0: Held(MAP_FORM)}, (Held(MAP_FORM, 0 if in_place else None),), 57_344, traffic=Traffic(), calls=("ttnn.relu",)
    )
    return PlacedStep(1, StepChoice(memory=SHARDS), outcome, 0, L1_BANK)


def pool() -> PlacedStep:
    """Moves the map to DRAM and pools it there; bytes and rules stop what would move less."""
    rejected = (
        Rejected(StepChoice(memory=SHARDS), failure=RULE),
        Rejected(StepChoice(moves=((0, DRAM),), memory=L1), over_bytes=None, cost=(POOLED + 2 * MAP, 1)),
        Rejected(StepChoice(memory=L1), over_bytes=45_056, cost=(POOLED, 1)),
        Rejected(StepChoice(moves=((0, L1),)), failure=TOO_LARGE),
    )
    traffic = Traffic(2 * MAP + 2 * POOLED, 0, 2)
    held = {0: Held(replace(MAP_FORM, memory=DRAM))}
    calls = ("ttnn.to_memory_config", "ttnn.max_pool2d")
    outcome = Outcome(held, (Held(POOLED_FORM),), 102_016, 16_640, traffic=traffic, calls=calls)
    return PlacedStep(2, StepChoice(moves=((0, DRAM),)), outcome, 1_000, L1_BANK - 5_000, rejected)


def found(*steps: PlacedStep) -> Found:
    steps = steps or (convolution(), activation(), pool())
    traffic = sum((step.traffic for step in steps), Traffic())
    return Found(steps, traffic, False, 321, (traffic.cost[0] - 1_000, 0))


NOWHERE = NoPlacement(
    2, "max_pool2d", "maxpool", 1_224_490, StepChoice(moves=((0, SHARDS),), memory=L1), 45_056, 28_672,
    (LiveForm(1, MAP_FORM, 28_672), LiveForm(0, IMAGE_FORM, 0)), (RULE, RULE, TOO_LARGE), exact=False,
)  # fmt: skip


def run(*, policy: str = "l1", **more) -> PlanResult:
    """Returns what a run of ``found`` measures: the map is written to DRAM and read again, the pool's result is the model's."""
    chosen = find_policy(policy)
    weights_per_bank = 3 * 2_048  # 30 tiles over 12 banks
    dram = [weights_per_bank + 133_824, weights_per_bank, weights_per_bank + 33_536]
    uses = (
        StepUse(0, "convolution", "conv1", Status.FITS, dram[0], dram[0], 28_672, 61_792, 224, 0, 131_488, 69_696,
                IMAGE + WEIGHTS, 0, 0, WEIGHTS, IMAGE, 0),
        StepUse(1, "relu", "relu", Status.FITS, dram[1], dram[1], 57_344, 57_344, 224, 0, 57_344, 0),
        StepUse(2, "max_pool2d", "maxpool", Status.FITS, dram[2], dram[2], 0, 85_376, 576, 0, 102_016, 16_640,
                2 * MAP + 2 * POOLED, 0, 2, 0, 0, POOLED),
    )  # fmt: skip
    result = PlanResult(
        "torchvision/resnet50", ((1, 3, 224, 224),), "n150", "0.81.1", "virtual", chosen.to_json(), str(chosen), "d6457262" * 8,
        32_768, Status.FITS, "", 1_072_693_184, 12, dram[0], 0, Split(weights_per_bank, 133_824, 0, 0, 0), (), 85_376,
        L1_BANK, 576, steps=uses, steps_sha256="894f09d9" * 8, checked=4, total_steps=3,
    )  # fmt: skip
    return replace(result, **more)
