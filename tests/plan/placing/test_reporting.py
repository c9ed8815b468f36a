"""The report of placements: what stays in L1, what is moved against ``port``, and what stops better placements."""

from dataclasses import replace

import pytest

from ssinghal.core.boards import load_board
from ssinghal.core.verdict import Status
from ssinghal.plan.lowering import planned_steps
from ssinghal.plan.placed_result import Moved, PlacementReport
from ssinghal.plan.placement import DRAM, L1, StepChoice, frozen
from ssinghal.plan.placing.choice_words import choice_text, settings_text
from ssinghal.plan.placing.found import Found, NoPlacement
from ssinghal.plan.placing.reporting import moved_by, placement_of
from ssinghal.plan.planner import Boards, PlanSettings
from ssinghal.plan.policy import find_policy
from ssinghal.plan.result import PlanResult
from tests.plan.placements import (
    IMAGE,
    L1_BANK,
    MAP,
    NOWHERE,
    POOLED,
    WEIGHTS,
    activation,
    convolution,
    found,
    pool,
    run,
    small_trace,
)


def report(result: Found | NoPlacement, measured: PlanResult | None, **more) -> PlacementReport:
    trace = small_trace()
    board = load_board("n150").with_l1_small(32_768)
    assert board.l1.bank_bytes == L1_BANK
    return placement_of(result, measured, trace=trace, steps=planned_steps(trace), board=board, **more)


def test_it_states_where_each_result_is_and_what_it_takes():
    (conv,), (relu,), (pooled,) = (step.results for step in report(found(), run()).steps)
    assert (conv.memory, conv.grid, conv.shard) == ("l1:height@8x7:224x64", "8x7", (224, 64))
    assert (conv.total_bytes, conv.l1_bytes, conv.stays) == (56 * 14 * 2_048, 14 * 2_048, True)
    assert (pooled.memory, pooled.grid, pooled.shard, pooled.layout) == ("dram", "", (), "row_major")
    assert (pooled.total_bytes, pooled.l1_bytes, pooled.stays) == (3_136 * 128, 0, False)
    assert relu.stays is False  # the pool moves it to DRAM


@pytest.mark.parametrize(("in_place", "steps", "size"), [(False, 1, MAP), (True, 0, 0)])
def test_a_result_that_is_moved_to_dram_later_does_not_stay(in_place, steps, size):
    """In place, the convolution's result has the buffer that the pool moves."""
    one = report(found(convolution(), activation(in_place), pool()), run())
    assert one.steps_in_l1 == (steps, 3)
    assert one.bytes_in_l1 == (size, 2 * MAP + POOLED)


def test_views_are_no_steps_that_make_calls():
    still = replace(activation(), outcome=replace(activation().outcome, calls=()))
    assert report(found(convolution(), still, pool()), run()).steps_in_l1 == (1, 2)


def test_settings_and_moves_are_in_words_and_moves_to_the_same_place_are_none():
    conv, relu, pooled = report(found(), run()).steps
    assert conv.settings == "shards height, act_block_h 64, not sliced"
    assert conv.config == {
        "conv_config": {"type": "Conv2dConfig", "shard_layout": "HEIGHT_SHARDED", "act_block_h_override": 64},
        "slice_config": {"type": "Conv2dSliceConfig", "slice_type": "L1Full"},
    }
    assert (conv.moves, relu.moves) == ((), ())
    assert pooled.moves == ("operand 1 to dram before the call",)


def test_bytes_and_peaks_are_those_of_the_run():
    peaks = [(step.l1_peak_bytes, step.headroom_bytes, step.program_bytes) for step in report(found(), run()).steps]
    assert peaks == [(131_488, L1_BANK - 131_488, 69_696), (57_344, L1_BANK - 57_344, 0), (102_016, L1_BANK - 102_016, 16_640)]
    one = report(found(), run())
    assert (one.peak_bytes, one.peak_step, one.least_headroom_bytes) == (131_488, 0, 1_229_056)
    assert [step.activations_bytes for step in one.steps] == [0, 0, 2 * MAP + POOLED]
    assert (one.steps[2].expected_peak_bytes, one.steps[2].limit_bytes) == (103_016, L1_BANK - 5_000)


def test_what_is_moved_is_compared_with_port():
    port = run(policy="port", steps=tuple(replace(use, dram_moved_bytes=8 * MAP) for use in run().steps))
    one = report(found(), run(), port=port)
    assert one.moved == Moved(IMAGE + WEIGHTS + 2 * MAP + 2 * POOLED, WEIGHTS, IMAGE, POOLED, 0, 2)
    assert one.moved.activations_bytes == 2 * MAP + POOLED
    assert one.port is not None
    assert one.ratio == pytest.approx((IMAGE + WEIGHTS + 2 * MAP + 2 * POOLED) / (24 * MAP))
    assert report(found(), run(), port=replace(port, status=Status.OOM)).ratio is None


def test_better_choices_come_first_and_then_what_ttnn_rejects():
    pooled = report(found(), run()).steps[2]
    assert [(one.choice, one.saved_bytes, one.over_bytes) for one in pooled.not_chosen] == [
        ("result in l1", 2 * MAP + POOLED, 45_056),
        ("result in l1; operand 1 to dram before the call", POOLED, None),
        ("result in l1:height@8x7:224x64", None, None),
        ("result in dram; operand 1 to l1 before the call", None, None),
    ]
    reasons = [one.reason for one in pooled.not_chosen]
    assert "45,056 B of a core's L1 more" in reasons[0]
    assert "no part of the best plan" in reasons[1]
    assert reasons[2:] == ["pool needs an even grid", "L1 bank needs 2,000,000 B, 1,360,544 B free (ttnn.conv2d)"]


def test_the_proof_and_the_effort_are_stated():
    attempts = [(2, "no room", 0), (2, "no room", 2_048)]
    one = report(found(), run(), failed_runs=attempts, probes=40, search_s=1.5, run_s=2.5, headroom_bytes=7)
    cost = IMAGE + WEIGHTS + 2 * MAP + 2 * POOLED
    assert (one.exact, one.cost_bytes, one.bound_bytes, one.states) == (False, cost, cost - 1_000, 321)
    assert [(x.step, x.operator, x.at, x.lowered_bytes) for x in one.failed_runs] == [
        (2, "max_pool2d", "maxpool", 0), (2, "max_pool2d", "maxpool", 2_048),
    ]  # fmt: skip
    assert (one.probes, one.search_s, one.run_s, one.headroom_bytes) == (40, 1.5, 2.5, 7)


def test_what_a_failed_run_did_not_reach_has_no_figures():
    first, second, third = run().steps
    failed = run(status=Status.OOM, steps=(first, replace(second, status=Status.OOM), replace(third, status=Status.NOT_RUN)))
    one = report(found(), failed)
    assert (one.confirmed, one.moved, one.ratio) == (False, None, None)
    assert [step.l1_peak_bytes for step in one.steps] == [131_488, None, None]
    assert [step.activations_bytes for step in one.steps] == [0, None, None]
    assert [step.dram_bytes for step in one.steps] == [IMAGE + WEIGHTS, 0, 2 * MAP + 2 * POOLED]


def test_without_a_placement_the_step_the_limit_and_the_values_are_named():
    one = report(NOWHERE, None, probes=9)
    nowhere = one.nowhere
    assert (one.confirmed, one.steps, one.probes) == (False, (), 9)
    assert nowhere is not None
    assert (nowhere.step, nowhere.operator, nowhere.at) == (2, "max_pool2d", "maxpool")
    assert (nowhere.limit_bytes, nowhere.over_bytes, nowhere.others_bytes, nowhere.exact) == (1_224_490, 45_056, 28_672, False)
    assert "45,056 B" in nowhere.message
    assert [(live.memory, live.l1_bytes) for live in nowhere.live] == [("l1:height@8x7:224x64", 28_672), ("dram", 0)]
    assert nowhere.rejections == (
        "pool needs an even grid", "L1 bank needs 2,000,000 B, 1,360,544 B free (ttnn.conv2d)",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("choice", "text"),
    [
        (StepChoice(), "result in dram"),
        (StepChoice(memory=None, after=DRAM), "result where TTNN puts it; result to dram after the call"),
        (StepChoice(memory=L1, spills=(1,)), "result in l1; operand 2 to dram after the call"),
        (StepChoice(memory=L1, compact=True), "result in l1; tensors in L1 moved together before the call"),
    ],
)
def test_choices_are_put_into_words(choice, text):
    assert choice_text(choice) == text


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ({"type": "Conv2dSliceConfig", "slice_type": "DRAMSliceHeight", "num_slices": 4}, "slices of rows x 4"),
        ({"type": "Conv2dConfig", "enable_act_double_buffer": True}, "enable_act_double_buffer"),
        ([8, 4], "a_setting 8x4"),
        (
            {
                "type": "Conv2dConfig",
                "compute_with_storage_grid_size": [8, 7],
                "per_core_M": 32,
                "per_core_N": 1,
                "out_subblock_w": 2,
                "out_subblock_h": 4,
                "out_block_h": 5,
                "mcast_in0": False,
            },
            "grid 8x7, per_core 32x1, out_subblock 4x2, out_block_h 5, mcast_in0 False",
        ),
    ],
)
def test_settings_are_put_into_words(setting, text):
    assert settings_text(StepChoice(settings=(("a_setting", frozen(setting)),))) == text


def test_a_program_is_named_without_what_all_of_them_have_in_common():
    program = frozen({"type": "MatmulMultiCoreReuseMultiCast1DProgramConfig", "in0_block_w": 1, "fuse_batch": True})
    assert settings_text(StepChoice(settings=(("program_config", program),))) == "ReuseMultiCast1D, in0_block_w 1, fuse_batch"


# On the device -----------------------------------------------------------------------------------------------------------


@pytest.mark.virtual_device
def test_a_small_model_as_ttnn_allocates_it():
    """What the allocator has after each step is what the placements book: operands and results, before any is freed."""
    trace = small_trace()
    with Boards(PlanSettings()) as boards:
        result = boards.run(trace, find_policy("l1"), "n150")
    one = result.placement
    assert one is not None
    assert (result.status, one.confirmed) == (Status.FITS, True)
    conv, relu, pooled = ([place.l1_bytes for place in step.results] for step in one.steps)
    assert [use.l1_bytes for use in result.steps] == [sum(conv), sum(conv + relu), sum(relu + pooled)]
    assert (one.moved, one.port) == (moved_by(result), one.port)
    assert one.moved.weights_bytes == WEIGHTS
    assert one.moved.inputs_bytes == IMAGE
    assert one.port is not None
    # port: the image, the weights, and the map written twice and read twice; the result is the model's. A call keeps the map as
    # [1, 112, 112, 64] in tiles, whose rows of 112 pixels are padded to 128, within itself: it is written and read
    within = 2 * 112 * 128 * 64 * 2
    assert one.port == Moved(IMAGE + WEIGHTS + 4 * MAP + POOLED + within, WEIGHTS, IMAGE, POOLED, 0, one.port.layout_changes)
    assert one.peak_bytes == max(use.l1_total_peak_bytes for use in result.steps)
