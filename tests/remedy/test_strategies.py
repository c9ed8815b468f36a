"""Every strategy on calls of all catalogs, without a device; and the limits of the arithmetic that rules changes out."""

from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace

import pytest

from ssinghal.catalog.expansion import expand
from ssinghal.catalog.loader import load_catalogs
from ssinghal.core.boards import load_board
from ssinghal.core.case import Placement
from ssinghal.core.device_facts import DeviceMode
from ssinghal.core.record import Record
from ssinghal.core.remedy_outcome import ValueComparison
from ssinghal.core.tensors import BufferType, DType
from ssinghal.core.verdict import Resource, Status, Verdict
from ssinghal.device.modes import choose_device
from ssinghal.errors import InvalidCase
from ssinghal.operators import make_case
from ssinghal.remedy.equivalence import ValueCheck
from ssinghal.remedy.problem import Problem
from ssinghal.remedy.record_remedies import Searcher, outcome_of
from ssinghal.remedy.resident_buffers import live_set
from ssinghal.remedy.rewrites import PREPARATIONS
from ssinghal.remedy.search import Budget, search, strategies
from ssinghal.remedy.solver import without_other_values
from ssinghal.remedy.strategies.chunking import cuts_of
from ssinghal.remedy.strategies.count_search import smallest_count
from ssinghal.remedy.strategies.registry import REWRITES
from ssinghal.remedy.text import RemedyReport, shown_code
from ssinghal.remedy.trial import Impact, Resident, RewriteName, TrialResult
from ssinghal.runner.tasks import PoolOptions

BOARD = load_board("n150")
FAILURES = (Resource.L1_BUFFER, Resource.DRAM_BUFFER, Resource.CIRCULAR_BUFFER, Resource.CLASH, Resource.L1_SMALL_BUFFER)


L1, DRAM = BufferType.L1, BufferType.DRAM
ROWS = "rows with their neighbours"
HOLD = (Resident(L1, 64),)


def problem(name, *shapes, resource=Resource.L1_BUFFER, live=(), memory=L1, placed=DType.BFLOAT16, small=None, **attrs):
    case = make_case(name, shapes, attrs, Placement(placed, memory=memory, l1_small_bytes=small))
    return Problem.of(case, Verdict(Status.OOM, resource), BOARD, live)


def answering(verdict):
    """Returns a device with the same verdict for every trial."""
    return lambda trial: TrialResult(trial, verdict, "n150", "0", "none")


def test_every_strategy_takes_every_call_of_the_catalogs():
    """An error of one strategy would end a search of thousands of calls. Some calls of each operator."""
    by_operator = {}
    for case in expand(load_catalogs()).cases:
        by_operator.setdefault((case.operator, len(case.inputs), tuple(len(s) for s in case.inputs)), []).append(case)
    searched = 0
    for number, cases in enumerate(by_operator.values()):
        for case in cases[:: max(len(cases) // 4, 1)]:
            resource = FAILURES[(number + searched) % len(FAILURES)]
            live = (Resident(BufferType.L1, 4096),) if searched % 2 else ()
            try:
                failing = Problem.of(case, Verdict(Status.OOM, resource), BOARD, live)
            except InvalidCase:
                continue
            found = search(failing, answering(Verdict(Status.OOM, resource, message="no")), Budget(probes=12, seconds=60))
            assert found.found == ()
            assert all(r.reason for r in found.refused)
            searched += 1
    assert searched > 500


def names(problem):
    return {strategy.name for strategy in strategies(problem)}


@pytest.mark.parametrize(
    ("failing", "strategy", "applies"),
    [
        (problem("relu", (64, 64)), "in place", True),
        (problem("clone", (64, 64)), "in place", False),
        (problem("silu_", (64, 64)), "in place", False),
        (problem("add", (64, 64), (1, 64)), "in place", True),
        (problem("add", (1, 64), (64, 64)), "in place", False),
        (problem("_to_copy", (64, 64), dtype="float32"), "in place", False),
        (problem("add", (64, 64), (1, 64)), "as a matrix", False),
        (problem("add", (64, 64), (64, 64)), "as a matrix", True),
        (problem("embedding", (64, 64), (4, 8), memory=DRAM), "narrower dtype", False),
        (problem("gather", (64, 64), (64, 64), dim=0), "narrower dtype", False),
        (problem("relu", (64, 64), placed=DType.INT32), "narrower dtype", False),
        (problem("avg_pool2d", (1, 8, 8, 8), kernel_size=2, padding=1, count_include_pad=False), ROWS, False),
        (problem("avg_pool2d", (1, 8, 8, 8), kernel_size=2, padding=1), ROWS, True),
        (problem("avg_pool2d", (1, 8, 8, 8), kernel_size=2, count_include_pad=False), ROWS, True),
        (problem("max_pool2d", (1, 8, 8, 8), kernel_size=2, ceil_mode=True), ROWS, True),
        (problem("place", (64, 64)), "operands from DRAM", False),
        (problem("max_pool2d", (1, 8, 8, 8), kernel_size=2, resource=Resource.CLASH), "a smaller L1_SMALL region", True),
        (problem("relu", (64, 64), resource=Resource.CLASH), "a smaller L1_SMALL region", False),
        (problem("relu", (64, 64), live=HOLD), "reallocate live buffers", False),
        (problem("relu", (64, 64), live=HOLD, resource=Resource.FRAGMENTATION), "reallocate live buffers", True),
        (problem("untilize", (64, 64), resource=Resource.CIRCULAR_BUFFER), "folded to shorter rows", True),
        (problem("untilize", (64, 64)), "folded to shorter rows", False),
    ],
)  # fmt: skip
def test_when_a_strategy_applies(failing, strategy, applies):
    assert (strategy in names(failing)) == applies


def test_for_a_small_region_only_its_size_helps():
    assert names(problem("max_pool2d", (1, 8, 8, 8), kernel_size=2, resource=Resource.L1_SMALL_BUFFER)) == {"l1_small_size"}


def test_proofs_count_other_buffers_and_l1_small():
    """1,393,312 B of a bank less 400,000 B of other buffers, or less 32,768 B of L1_SMALL. 485 tiles per bank are 993,280 B."""
    tiles = 485
    fits = problem("relu", (1, 1, 64 * 32, tiles * 32))
    assert fits.held(fits.call.outputs, BufferType.L1) == tiles * 2048 == 993_280
    assert fits.results_beyond(BufferType.L1) == ""
    beside = problem("relu", (1, 1, 64 * 32, tiles * 32), live=(Resident(BufferType.L1, 400_064),))
    assert "which has 970 KiB (993,248 B)" in beside.results_beyond(BufferType.L1)
    assert problem("relu", (64, 64), live=(Resident(BufferType.L1, 64, freed=True),)).bank_bytes(BufferType.L1) == 1_393_312
    assert problem("relu", (64, 64), small=32_768).bank_bytes(BufferType.L1) == 1_393_312 - 32_768


def test_pieces_and_their_join_exist_together():
    """An operand and a result have 29,184 tiles in each DRAM bank, 59,768,832 B; of eight times as much three do not fit."""
    per_bank = 29_184
    shape = (12, 32 * 16, 32 * (per_bank // 16))
    assert 3 * per_bank * 2048 <= 1_072_693_184 < 3 * 8 * per_bank * 2048
    found = search(problem("relu", shape), answering(Verdict(Status.FITS)), Budget(), only=[Impact.CHUNKED])
    assert found.found
    big = (96, *shape[1:])
    found = search(problem("relu", big), answering(Verdict(Status.FITS)), Budget(), only=[Impact.CHUNKED])
    assert f"take {3 * 8 * per_bank * 2048:,} B of each DRAM bank" in found.refused[0].reason


def test_a_batch_that_is_broadcast_is_not_cut():
    axes = cuts_of(problem("matmul", (6, 64, 96), (1, 96, 128)))
    assert {cut.axis for cut in axes} == {1, 2}
    both = cuts_of(problem("matmul", (6, 64, 96), (6, 96, 128)))
    assert {cut.axis for cut in both} == {0, 1, 2}


def test_statistics_of_training_leave_the_channels_alone_to_be_cut():
    stats = [(8,)] * 4
    training = cuts_of(problem("native_batch_norm", (4, 8, 64, 64), *stats, training=True))
    assert {cut.axis for cut in training} == {1}
    given = cuts_of(problem("native_batch_norm", (4, 8, 64, 64), *stats))
    assert {cut.axis for cut in given} == {0, 1, 2, 3}


def test_a_bias_of_one_dim_is_cut_with_the_columns():
    failing = problem("addmm", (12800,), (5120, 96), (96, 12800))
    assert {cut.axis for cut in cuts_of(failing)} == {0, 1}


@pytest.mark.parametrize(("count", "words"), [(1, "1 call that places"), (2, "2 calls that place")])
def test_calls_that_are_not_shown_are_counted_in_words(count, words):
    result = replace(answering(Verdict(Status.FITS))(None), code=("held = 1",) * count + ("a = 2",), lines_of_live=count)
    assert shown_code(result) == [f"# {words} the other buffers: --script writes them", "a = 2"]


@pytest.mark.parametrize(("first_to_fit", "words"), [(1, "1 slice along"), (2, "2 slices along")])
def test_slices_are_counted_in_words(first_to_fit, words):
    def run(trial):
        count = int(str(trial.case.attrs.get("slices", "width:0")).partition(":")[2])
        fits = count >= first_to_fit
        return TrialResult(trial, Verdict(Status.FITS) if fits else trial_verdict, "n150", "0", "none")

    trial_verdict = Verdict(Status.OOM, Resource.L1_BUFFER)
    failing = problem("convolution", (1, 32, 64, 64), (64, 32, 3, 3), stride=[1, 1], padding=[1, 1])
    found = search(failing, run, Budget(), only=[Impact.MEMORY]).found
    assert any(remedy.note.startswith(f"{words} the width") for remedy in found), [r.note for r in found]


def test_dtypes_are_narrowed_step_by_step():
    tried = []

    def run(trial):
        tried.append(trial.case.placement.dtype)
        return TrialResult(trial, Verdict(Status.OOM, Resource.DRAM_BUFFER), "n150", "0", "none")

    failing = problem("relu", (64, 64), memory=DRAM, placed=DType.FLOAT32)
    search(failing, run, Budget(), only=[Impact.DTYPE])
    assert tried == [DType.BFLOAT16, DType.BFLOAT8_B, DType.BFLOAT4_B]


def test_the_weights_are_narrowed_before_the_rest():
    """A convolution in bfloat16, then one whose weights are bfloat8_b already; and the reason against each dtype tried."""
    tried = []

    def run(trial):
        tried.append((trial.case.attrs.get("weights_dtype"), trial.case.placement.dtype))
        return TrialResult(trial, Verdict(Status.ERROR, message=f"no. {len(tried)}"), "n150", "0", "none")

    image, weight = (1, 64, 8, 8), (64, 64, 3, 3)
    search(problem("conv2d", image, weight, memory=DRAM), run, Budget(), only=[Impact.DTYPE])
    both = [("bfloat8_b", DType.BFLOAT16), (None, DType.BFLOAT8_B), ("bfloat4_b", DType.BFLOAT16), (None, DType.BFLOAT4_B)]
    assert tried == both
    tried.clear()
    failing = problem("conv2d", image, weight, memory=DRAM, weights_dtype="bf8")
    (refused,) = search(failing, run, Budget(), only=[Impact.DTYPE]).refused
    assert tried == both[1:]
    told = ("operands and result in bfloat8_b", "weights in bfloat4_b", "operands and result in bfloat4_b")
    for number, what in enumerate(told, 1):
        assert f"{what}: tried: no. {number}" in refused.reason


def test_a_dtype_that_is_declared_as_rejected_is_not_tried():
    failing = problem("native_group_norm", (1, 64, 8, 8), group=8, memory=DRAM)
    (refused,) = search(failing, answering(Verdict(Status.FITS)), Budget(), only=[Impact.DTYPE]).refused
    assert refused.probes == 0
    assert refused.reason.count("ttnn.group_norm takes bfloat16 and float32 only") == 2


@pytest.mark.parametrize(
    ("name", "shapes", "attrs", "most", "multiple"),
    [
        ("conv2d", ((1, 64, 64, 48), (64, 64, 1, 1)), {}, 32, 2),  # 48 pixels a row in the flat result: two rows are 3 tiles
        ("conv2d", ((1, 64, 64, 64), (64, 64, 2, 2)), {"stride": 2}, 32, 1),  # rows of 32 pixels
        ("conv2d", ((8, 64, 64, 64), (64, 64, 3, 3)), {"padding": 1}, 8, 1),
        ("conv2d", ((8, 64, 7, 7), (64, 64, 3, 3)), {"padding": 1}, None, 1),  # 8 x 49 pixels are never complete tiles
        ("native_group_norm", ((1, 256, 64, 64), (256,), (256,)), {"group": 8}, 8, 1),  # 32 channels each
    ],
)
def test_pieces_of_convolutions_and_group_norms_are_complete_tiles(name, shapes, attrs, most, multiple):
    cuts = cuts_of(problem(name, *shapes, **attrs))
    assert [(cut.most, cut.multiple) for cut in cuts] == ([(most, multiple)] if most else [])


# Other buffers --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "each"), [("1B@l1", 32), ("2048B@l1", 32), ("2049B@l1", 64), ("13B@dram", 32)])
def test_other_buffers_take_full_granules_of_every_bank(text, each):
    """2,049 B over 64 banks are 33 B in the fullest, which the allocator books as 64 B."""
    (resident,) = live_set([text], BOARD)
    assert resident.bytes_per_bank == each
    assert BOARD.granule_bytes == 32


@pytest.mark.parametrize("room", [0, 1, 300_000, 777_777, 999_999])
def test_the_part_that_may_stay_is_found_to_a_64th(room):
    held, tried = 1_000_000, []

    def run(trial):
        tried.append(trial)
        fits = trial.rewrite == "call" and sum(r.bytes_per_bank for r in trial.live) <= room
        verdict = Verdict(Status.FITS) if fits else Verdict(Status.OOM, Resource.L1_BUFFER, message="no")
        return TrialResult(trial, verdict, "n150", "0", "none")

    failing = problem("clone", (64, 64), live=(Resident(L1, 600_000), Resident(L1, 400_000)))
    (freed,) = [r for r in search(failing, run, Budget(), only=[Impact.SAME]).found if r.strategy == "free dead buffers"]
    stays = sum(r.bytes_per_bank for r in freed.result.trial.live)
    assert room - held / 64 - 2 <= stays <= room
    assert freed.probes <= 8


@pytest.mark.parametrize("held", [32, 1024, 1056])
def test_small_buffers_can_be_freed_too(held):
    """The call fits only without them, so all of them are freed, however few."""

    def run(trial):
        fits = trial.rewrite == "call" and not sum(r.bytes_per_bank for r in trial.live)
        verdict = Verdict(Status.FITS) if fits else Verdict(Status.OOM, Resource.L1_BUFFER, message="no")
        return TrialResult(trial, verdict, "n150", "0", "none")

    failing = problem("clone", (64, 64), live=(Resident(L1, held),))
    (freed,) = [r for r in search(failing, run, Budget(), only=[Impact.SAME]).found if r.strategy == "free dead buffers"]
    assert sum(r.bytes_per_bank for r in freed.result.trial.live) == 0


def test_a_buffer_without_bytes_is_ignored():
    failing = problem("clone", (64, 64), live=live_set(["0B@l1"], BOARD))
    found = search(failing, answering(Verdict(Status.OOM, Resource.L1_BUFFER, message="no")), Budget(), only=[Impact.SAME])
    assert {r.strategy: r.reason for r in found.refused}["free dead buffers"] == "there are no other buffers in it"


# Recorded -------------------------------------------------------------------------------------------------------------------


class OneRecord:
    """A pool that returns the same record for every case, and has no device to search on."""

    choice, options = choose_device("virtual", "n150"), PoolOptions(workers=1)
    facts = SimpleNamespace(ttnn="0")

    def __init__(self, record):
        self.record = record

    def submit(self, case):
        future = Future()
        future.set_result(self.record)
        return future


@pytest.mark.parametrize(
    ("verdict", "reason"),
    [
        (Verdict(Status.OOM, Resource.HOST), "the host ran out of memory"),
        (Verdict(Status.FITS), None),
        (Verdict(Status.ERROR), None),
    ],
)
def test_host_memory_and_other_verdicts_are_not_searched(verdict, reason):
    case = make_case("relu", ((64, 64),))
    record = Record.of(case, verdict, device_mode=DeviceMode.VIRTUAL, board="n150", ttnn="0")
    with Searcher(OneRecord(record)) as searcher:
        (searched,) = searcher.map([case])
    assert (searched.remedies.reason if searched.remedies else None) == reason


CHECKS = [
    (ValueCheck(True), ValueComparison.EQUAL),
    (ValueCheck(False, rounding=True), ValueComparison.ROUNDED),
    (ValueCheck(None), ValueComparison.NOT_COMPARED),
    (ValueCheck(False), None),
]


@pytest.mark.parametrize(("check", "values"), CHECKS)
def test_rounding_differences_are_accepted(check, values):
    """A rewrite with sums in another order is kept, and marked as rounded; one with other values is no remedy."""
    remedies = search(problem("relu", (64, 1024, 1024)), answering(Verdict(Status.FITS)), Budget(), only=[Impact.CHUNKED])
    checks = {remedy.strategy: check for remedy in remedies.found}
    report = RemedyReport(without_other_values(remedies, checks), checks)
    record = outcome_of(report)
    assert [working.values for working in record.found] == ([] if values is None else [values])
    assert ("it fits, with other values in torch" in [r.reason for r in record.refused]) == (values is None)


# Counts ---------------------------------------------------------------------------------------------------------------------


def counted(works, most, first=2, too_few=0, ceiling=None):
    """Returns the smallest count for which ``works`` is true, and the number of trials; TTNN rejects counts above
    ``ceiling``."""
    steps, trials = smallest_count(lambda n: n, most, first, too_few), 0
    try:
        count = next(steps)
        while True:
            trials += 1
            beyond = ceiling is not None and count > ceiling
            resource = None if beyond else Resource.L1_BUFFER
            fits = works(count) and not beyond
            verdict = Verdict(Status.FITS) if fits else Verdict(Status.ERROR if beyond else Status.OOM, resource, message="no")
            count = steps.send(replace(TrialResult(None, verdict, "", "", ""), calls=count))
    except StopIteration as stop:
        return stop.value.count if stop.value.result else None, trials


@pytest.mark.parametrize("needed", [1, 2, 3, 5, 17, 46, 255, 256])
def test_the_smallest_count_is_found(needed):
    count, trials = counted(lambda n: n >= needed, 256)
    assert count == needed
    assert trials <= 17
    assert counted(lambda n: n >= needed, needed)[0] == needed
    assert counted(lambda n: n >= needed, needed - 1)[0] is None if needed > 2 else True


@pytest.mark.parametrize("needed", range(1, 9))
def test_counts_above_a_failure_of_another_kind_are_not_tried(needed):
    """A small map takes at most 8 width slices: doubling that meets the rejection continues below it."""
    assert counted(lambda n: n >= needed, 64, ceiling=8)[0] == needed
    assert counted(lambda n: n >= 9, 64, ceiling=8)[0] is None


def test_counts_that_are_known_not_to_work_are_not_tried():
    """32 no, 64 yes, 48 yes, 40 yes, 36 no, 38 no, 39 no; nothing below 32."""
    assert counted(lambda n: n >= 40, 256, first=32, too_few=31) == (40, 7)


def test_every_rewrite_has_its_calls():
    assert set(REWRITES) == set(RewriteName)
    assert set(PREPARATIONS) <= set(RewriteName)
