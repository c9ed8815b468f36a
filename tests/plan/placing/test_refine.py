"""Policy ``l1`` on the virtual device: what it moves and takes of L1, and what it learns from a run that fails.

A tile of bfloat16 is 2,048 B. The pages of an interleaved tensor go round robin over the 64 cores of an n150, so 1,024 tiles
take 16 of each core: 32,768 B. A program of ``ttnn.relu`` has two tiles of its operand and two of its result on each core:
8,192 B.
"""

from dataclasses import replace

import pytest

from ssinghal.capture.trace import ValueKind
from ssinghal.core.boards import load_board
from ssinghal.core.memory_config import BufferType, Sharding, ShardKind
from ssinghal.core.sharding import complete
from ssinghal.core.tensors import TensorSpec
from ssinghal.core.verdict import Resource, Status
from ssinghal.device.error_patterns import translate_error
from ssinghal.device.modes import choose_device
from ssinghal.errors import InvalidCase
from ssinghal.plan.executor import PlanTask, empty_result
from ssinghal.plan.lowering import planned_steps
from ssinghal.plan.passes.registry import rewritten
from ssinghal.plan.placement import DRAM, IN_DRAM, L1, Held, StepChoice, Traffic, frozen
from ssinghal.plan.placing import device_calls
from ssinghal.plan.placing.device_calls import DeviceCalls
from ssinghal.plan.placing.refine import Refinement, input_forms, missing_bytes, step_nodes
from ssinghal.plan.planner import Boards, PlanSettings
from ssinghal.plan.policy import POLICIES, find_policy
from ssinghal.plan.result import CallFailure, StepUse
from ssinghal.runner.pool import Pool
from ssinghal.runner.tasks import PoolOptions
from tests.support.aborting_probe import DEADLY, AbortingProbe
from tests.support.compacted import Compacted
from tests.support.hand_traces import Model

pytestmark = pytest.mark.virtual_device

BLOCK, HEIGHT = ShardKind.BLOCK, ShardKind.HEIGHT
TENSOR, SHARE, PROGRAM = 2_097_152, 32_768, 8_192  # of [1024, 1024]: all of it, and on one core; of relu
L1_BANK = 1_393_312 - 32_768  # with the region L1_SMALL that plans have


@pytest.fixture(scope="module")
def boards():
    with Boards(PlanSettings()) as boards:
        yield boards


@pytest.fixture(scope="module")
def pool():
    with Pool(choose_device("virtual", "n150"), PoolOptions(workers=2)) as pool:
        yield pool


def two_steps():
    model = Model()
    x = model.input(1024, 1024)
    y = model.call("relu.default", (1024, 1024), self=x)
    return model.trace(model.call("relu.default", (1024, 1024), self=y))


def moved(boards, trace, **options):
    result = boards.run(trace, find_policy("l1", **options), "n150")
    assert (result.status, result.placement.confirmed) == (Status.FITS, True), result.message
    return result, sum(use.dram_moved_bytes for use in result.steps)


def test_only_the_input_is_read_from_dram(boards):
    result, dram = moved(boards, two_steps())
    assert dram == TENSOR
    assert result.placement.port.dram_bytes == 4 * TENSOR, "each of two calls reads and writes one"
    assert [use.l1_total_peak_bytes for use in result.steps] == [SHARE + PROGRAM, 2 * SHARE + PROGRAM]
    assert [use.l1_bytes for use in result.steps] == [SHARE, 2 * SHARE]


def test_headroom_is_kept_to_the_byte(boards):
    """The second call holds operand and result, whose shards are its program's buffers too. One byte less, and its result goes
    to DRAM."""
    most = 2 * SHARE
    assert moved(boards, two_steps(), headroom=str(L1_BANK - most))[1] == TENSOR
    assert moved(boards, two_steps(), headroom=str(L1_BANK - most + 1))[1] == 2 * TENSOR
    assert moved(boards, two_steps(), headroom=str(L1_BANK - SHARE - PROGRAM + 1))[1] == 4 * TENSOR, "nothing in L1"


def test_a_headroom_of_all_of_l1_is_refused(boards):
    with pytest.raises(InvalidCase, match="headroom 1360544: expected less than the 1,360,544 B that a core's L1 of n150 has"):
        boards.run(two_steps(), find_policy("l1", headroom=str(L1_BANK)), "n150")


def test_a_value_that_does_not_fit_into_l1_stays_in_dram_and_the_others_do_not(boards):
    """64 tiles in each of 700 rows of tiles: 700 on each core, 1,433,600 B, more than there are."""
    model = Model()
    x = model.input(32, 2048)
    wide = model.call("repeat.default", (32 * 700, 2048), {"repeats": [700, 1]}, self=x)
    narrow = model.call("sum.dim_IntList", (1, 2048), {"dim": [0], "keepdim": True}, self=wide)
    result, _ = moved(boards, model.trace(model.call("relu.default", (1, 2048), self=narrow)))
    places = [place.memory.partition(":")[0] for step in result.placement.steps for place in step.results]
    assert places == ["dram", "l1", "l1"]


def test_an_element_wise_call_that_writes_other_shards_reshards_its_operand(pool):
    """[1024, 1024] of 2,097,152 B as 32 rows of tiles: in eight rows of shards over eight columns, or all 32 on 32 cores."""
    trace = rewritten(two_steps(), POLICIES["l1"])
    steps, board = planned_steps(trace), load_board("n150")
    calls = DeviceCalls(trace, POLICIES["l1"], steps, pool, board, 0)
    form = input_forms(trace, POLICIES["l1"])[0]
    block, height = (complete(form.spec, BufferType.L1, Sharding(kind), board).memory for kind in (BLOCK, HEIGHT))
    held = Held(replace(form, memory=block))
    node = step_nodes(trace, steps)[1]
    same, other, dram = calls.outcomes(node, [({0: held}, StepChoice(memory=memory)) for memory in (block, height, DRAM)])
    assert (same.traffic, other.traffic) == (Traffic(0, 0, 0), Traffic(0, TENSOR, 1))
    assert dram.traffic == Traffic(TENSOR, 0, 0)


# Learning -----------------------------------------------------------------------------------------------------------------

CLASH = (
    "Statically allocated dataflow buffers in a program clash with L1 buffers on core range [0-0 - 7-5]."
    " L1 buffer allocated at 1048576 and static dataflow buffer region ends at 1064288"
)
FULL = (
    "Out of Memory: Not enough space to allocate 25690112 B L1 buffer across 64 banks, where each bank needs to store 401408 B,"
    " but bank size is 1360544 B (allocated: 1000000 B, free: 360544 B, largest free block: 300000 B)"
)


@pytest.mark.parametrize(("message", "bytes"), [(CLASH, 1_064_288 - 1_048_576), (FULL, 401_408 - 300_000)])
def test_the_bytes_that_a_message_of_ttnn_lacks(message, bytes):
    assert missing_bytes(translate_error("RuntimeError", message), load_board("n150")) == bytes


def refinement(pool, trace):
    task = PlanTask(trace, POLICIES["l1"], 32_768)
    return Refinement(task, replace(task, policy=POLICIES["port"]), pool)


def failed_at(refinement, step, message):
    verdict = translate_error("RuntimeError", message)
    empty = empty_result(refinement.task, "n150", "0.81.1", "virtual")
    return replace(empty, status=verdict.status, failure=CallFailure(step, "relu", "", "ttnn.relu", (), (), verdict))


def test_a_failed_step_is_first_compacted_then_given_less(pool):
    refined = refinement(pool, two_steps())
    refined.ran = refined.task
    assert refined._learn(failed_at(refined, 1, CLASH))
    assert (refined.compact, refined.learned) == ({1}, {})
    assert refined._learn(failed_at(refined, 1, CLASH))
    assert refined._learn(failed_at(refined, 1, FULL))
    assert refined.learned == {1: 15_712 + 101_408}
    assert [attempt.lowered_bytes for attempt in refined.attempts] == [0, 15_712, 101_408]


def test_a_call_that_ttnn_rejects_in_the_run_alone_is_excluded(pool):
    """Its kernels depend on what is free of L1."""
    refined = refinement(pool, two_steps())
    choice = StepChoice(memory=L1)
    refined.ran = replace(refined.task, choices={1: choice.with_compaction()})
    assert refined._learn(failed_at(refined, 1, "Kernel 'compute_cliff_col' references unknown DFB 'in_full'"))
    assert (refined.excluded, refined.compact, refined.learned) == ({(1, choice)}, set(), {})
    assert refined.attempts[0].excluded


def test_an_excluded_choice_is_no_candidate(pool):
    trace = rewritten(two_steps(), POLICIES["l1"])
    steps = planned_steps(trace)
    operands = {0: Held(input_forms(trace, POLICIES["l1"])[0])}
    board, node = load_board("n150"), step_nodes(trace, steps)[0]
    every = DeviceCalls(trace, POLICIES["l1"], steps, pool, board, 0).candidates(node, operands)
    one = next(choice for choice in every if choice.memory == L1)
    left = DeviceCalls(trace, POLICIES["l1"], steps, pool, board, 0, {}, {(0, one)}).candidates(node, operands)
    assert set(every) - set(left) == {one}


def test_a_run_that_takes_of_the_headroom_is_not_the_answer(pool):
    """The second step takes 900 B of 800 B that it may."""
    refined = refinement(pool, two_steps())
    empty = empty_result(refined.task, "n150", "0.81.1", "virtual")
    uses = [StepUse(n, "relu", "", Status.FITS, 0, 0, 0, 0, 0, 0, peak) for n, peak in enumerate((800, 900))]
    run = replace(empty, status=Status.FITS, steps=tuple(uses))
    assert refined._keeps(run, 900)
    assert not refined.attempts
    assert not refined._keeps(run, 800)
    assert (refined.learned, refined.attempts[0].lowered_bytes) == ({1: 100}, 100)


def test_a_failure_in_dram_teaches_nothing_about_l1(pool):
    refined = refinement(pool, two_steps())
    refined.ran = refined.task
    result = failed_at(refined, 1, FULL.replace("L1 buffer", "DRAM buffer"))
    assert result.failure.verdict.resource not in (Resource.L1_BUFFER, Resource.FRAGMENTATION)
    assert not refined._learn(result)


# Calls --------------------------------------------------------------------------------------------------------------------


def test_a_call_that_ends_its_worker_is_lost_alone(pool, monkeypatch):
    monkeypatch.setattr(device_calls, "StepProbe", AbortingProbe)
    trace = rewritten(two_steps(), POLICIES["l1"])
    steps = planned_steps(trace)
    calls = DeviceCalls(trace, POLICIES["l1"], steps, pool, load_board("n150"), 0)
    operands = {0: Held(input_forms(trace, POLICIES["l1"])[0])}
    choices = [IN_DRAM, StepChoice(settings=DEADLY), StepChoice(memory=L1), StepChoice(memory=DRAM, after=L1)]
    node = step_nodes(trace, steps)[0]
    outcomes = calls.outcomes(node, [(operands, choice) for choice in choices])
    assert [x.failure.status if x.failure else str(x.results[0].form.memory) for x in outcomes] == [
        "dram",
        Status.CRASH,
        "l1",
        "l1",
    ]


def test_equal_calls_of_a_model_are_tried_once(pool):
    model = Model()
    x = model.input(1024, 1024)
    for _ in range(5):
        x = model.call("relu.default", (1024, 1024), self=x)
    trace = model.trace(x)
    steps = planned_steps(trace)
    calls = DeviceCalls(trace, POLICIES["l1"], steps, pool, load_board("n150"), 0)
    operands = {0: Held(input_forms(trace, POLICIES["l1"])[0])}
    for node in step_nodes(trace, steps)[:4]:  # the result of the last one is live to the end
        calls.outcomes(node, [(operands, IN_DRAM), (operands, StepChoice(memory=L1))])
    assert len(calls.tried) == 2


def test_weights_bound_what_a_call_reads(pool):
    """The elements of a linear layer's weight and bias: 2 B each, or as bfloat8_b 1,088 B a tile of 1,024 for both."""
    model = Model()
    x, weight, bias = model.input(32, 64), model.weight(128, 64), model.weight(128)
    trace = model.trace(model.call("linear.default", (32, 128), input=x, weight=weight, bias=bias))
    assert [v.kind for v in trace.values[1:3]] == [ValueKind.WEIGHT] * 2
    steps = planned_steps(trace)
    assert step_nodes(trace, steps)[0].least_bytes == 2 * (128 * 64 + 128)
    narrow = step_nodes(trace, steps, POLICIES["l1"].weights or find_policy("l1", weights="bfloat8_b").weights)
    assert narrow[0].least_bytes == 128 * 64 * 1_088 // 1_024 + 128 * 1_088 // 1_024


# Compaction ---------------------------------------------------------------------------------------------------------------


def test_tensors_are_moved_together(pool):
    """100, 50, 150 and 50 tiles of each core, of which the second and the fourth are freed: 250 stay, with a hole of 50."""
    before, after = pool.run(Compacted((100, 50, 150, 50))).result()
    tile = 2_048
    assert before.allocated_bytes == after.allocated_bytes == 250 * tile
    assert before.largest_free_bytes == before.bank_bytes - 300 * tile
    assert after.largest_free_bytes == after.bank_bytes - 250 * tile


# Calls that free their operand ----------------------------------------------------------------------------------------------


def test_a_convolution_that_fails_after_it_freed_its_map_is_a_failure_of_that_step(pool):
    """The map takes 800 rows of 64 channels, 102,400 B, of each of 63 cores. TTNN copies it with borders and frees it before
    it builds the program, whose buffers run into the other tensor in L1: 450 tiles of each core, 921,600 B."""
    model = Model()
    x, other, weight = model.input(16, 64, 56, 56), model.input(32 * 450, 2048), model.weight(64, 64, 3, 3)
    y = model.call("relu.default", (16, 64, 56, 56), self=x)
    beside = model.call("relu.default", (32 * 450, 2048), self=other)
    z = model.call("conv2d.default", (16, 64, 56, 56), {"stride": [1, 1], "padding": [1, 1]}, input=y, weight=weight)
    trace = rewritten(model.trace(z, model.call("relu.default", (32 * 450, 2048), self=beside)), POLICIES["l1"])
    shards = complete(TensorSpec((1, 1, 50_176, 64)), BufferType.L1, Sharding(HEIGHT), load_board("n150")).memory
    config = frozen({"type": "Conv2dConfig", "shard_layout": "HEIGHT_SHARDED"})
    full = frozen({"type": "Conv2dSliceConfig", "slice_type": "L1Full"})
    in_l1 = StepChoice(((0, shards),), None, (("conv_config", config), ("slice_config", full)))
    choices = {0: StepChoice(memory=L1, after=shards), 1: StepChoice(memory=L1), 2: in_l1}
    result = pool.run(PlanTask(trace, POLICIES["l1"], 32_768, choices=choices, to_the_end=False)).result()
    assert (result.status, result.failure.step, result.failure.operator) == (Status.OOM, 2, "convolution"), result.message
