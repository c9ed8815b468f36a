"""Every lever on calls of all catalogs, without a device; and the edges of the arithmetic that rules changes out."""

from dataclasses import replace

import pytest

from ssinghal.boards import load_board
from ssinghal.cases import Placement
from ssinghal.catalog.reading import load_catalogs
from ssinghal.errors import InvalidCase
from ssinghal.expand import expand
from ssinghal.operators import make_case
from ssinghal.records import Resource, Status, Verdict
from ssinghal.remedy.chunks import cuts_of
from ssinghal.remedy.counts import smallest_count
from ssinghal.remedy.problem import Problem
from ssinghal.remedy.search import Budget, levers, search
from ssinghal.remedy.trials import Contract, Resident, Tried
from ssinghal.specs import BufferType, DType

BOARD = load_board("n150")
FAILURES = (Resource.L1_BUFFER, Resource.DRAM_BUFFER, Resource.CIRCULAR_BUFFER, Resource.CLASH, Resource.L1_SMALL_BUFFER)


L1, DRAM = BufferType.L1, BufferType.DRAM
ROWS = "rows with their neighbours"
HOLD = (Resident(L1, 64),)


def problem(name, *shapes, resource=Resource.L1_BUFFER, live=(), memory=L1, placed=DType.BFLOAT16, small=None, **attrs):
    case = make_case(name, shapes, attrs, Placement(placed, memory=memory, l1_small_bytes=small))
    return Problem.of(case, Verdict(Status.OOM, resource), BOARD, live)


def answering(verdict):
    """A device that says the same of every trial."""
    return lambda trial: Tried(trial, verdict, "n150", "0", "none")


def test_every_lever_takes_every_call_of_the_catalogs():
    """A fault of one lever would end a search of thousands of calls. Each operator's calls, every fifth of many."""
    by_operator = {}
    for case in expand(load_catalogs()).cases:
        by_operator.setdefault((case.operator, len(case.inputs), tuple(len(s) for s in case.inputs)), []).append(case)
    searched = 0
    for number, cases in enumerate(by_operator.values()):
        for case in cases[:: max(len(cases) // 4, 1)]:
            resource = FAILURES[(number + searched) % len(FAILURES)]
            live = (Resident(BufferType.L1, 4096),) if searched % 2 else ()
            try:
                made = Problem.of(case, Verdict(Status.OOM, resource), BOARD, live)
            except InvalidCase:
                continue
            found = search(made, answering(Verdict(Status.OOM, resource, message="no")), Budget(probes=12, seconds=60))
            assert found.found == ()
            assert all(r.reason for r in found.refused)
            searched += 1
    assert searched > 500


def names(made):
    return {lever.name for lever in levers(made)}


@pytest.mark.parametrize(
    ("made", "lever", "applies"),
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
        (problem("relu", (64, 64), live=HOLD), "reallocate what lives", False),
        (problem("relu", (64, 64), live=HOLD, resource=Resource.FRAGMENTATION), "reallocate what lives", True),
        (problem("untilize", (64, 64), resource=Resource.CIRCULAR_BUFFER), "folded to shorter rows", True),
        (problem("untilize", (64, 64)), "folded to shorter rows", False),
    ],
)  # fmt: skip
def test_when_a_lever_means_anything(made, lever, applies):
    assert (lever in names(made)) == applies


def test_a_region_of_the_device_is_mended_where_it_is_chosen():
    assert names(problem("max_pool2d", (1, 8, 8, 8), kernel_size=2, resource=Resource.L1_SMALL_BUFFER)) == {"l1_small_size"}


def test_proofs_know_what_lives_and_what_l1_small_takes():
    """1,393,312 B of a bank less 400,000 B that live, or less 32,768 B of L1_SMALL. 485 tiles per bank are 993,280 B."""
    tiles = 485
    fits = problem("relu", (1, 1, 64 * 32, tiles * 32))
    assert fits.held(fits.outputs, BufferType.L1) == tiles * 2048 == 993_280
    assert fits.results_beyond(BufferType.L1) == ""
    beside = problem("relu", (1, 1, 64 * 32, tiles * 32), live=(Resident(BufferType.L1, 400_064),))
    assert "one has 970 KiB (993,248 B)" in beside.results_beyond(BufferType.L1)
    assert problem("relu", (64, 64), live=(Resident(BufferType.L1, 64, freed=True),)).bank_bytes(BufferType.L1) == 1_393_312
    assert problem("relu", (64, 64), small=32_768).bank_bytes(BufferType.L1) == 1_393_312 - 32_768


def test_pieces_and_their_join_are_both_there():
    """An operand and a result have 29,184 tiles in each DRAM bank, 59,768,832 B; of eight times as much three do not fit."""
    per_bank = 29_184
    shape = (12, 32 * 16, 32 * (per_bank // 16))
    assert 3 * per_bank * 2048 <= 1_072_693_184 < 3 * 8 * per_bank * 2048
    found = search(problem("relu", shape), answering(Verdict(Status.FITS)), Budget(), only=[Contract.CHUNKED])
    assert found.found
    big = (96, *shape[1:])
    found = search(problem("relu", big), answering(Verdict(Status.FITS)), Budget(), only=[Contract.CHUNKED])
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
    made = problem("addmm", (12800,), (5120, 96), (96, 12800))
    assert {cut.axis for cut in cuts_of(made)} == {0, 1}


def test_dtypes_are_narrowed_step_by_step():
    asked = []

    def run(trial):
        asked.append(trial.case.placement.dtype)
        return Tried(trial, Verdict(Status.OOM, Resource.DRAM_BUFFER), "n150", "0", "none")

    made = problem("relu", (64, 64), memory=DRAM, placed=DType.FLOAT32)
    search(made, run, Budget(), only=[Contract.DTYPE])
    assert asked == [DType.BFLOAT16, DType.BFLOAT8_B, DType.BFLOAT4_B]


# Counts ---------------------------------------------------------------------------------------------------------------------


def counted(works, most, first=2, refused=0, ceiling=None):
    """What the search finds where ``works`` says which counts do, and how many it tried; above ``ceiling`` TTNN refuses."""
    steps, tried = smallest_count(lambda n: n, most, first, refused), 0
    try:
        count = next(steps)
        while True:
            tried += 1
            beyond = ceiling is not None and count > ceiling
            resource = None if beyond else Resource.L1_BUFFER
            fits = works(count) and not beyond
            verdict = Verdict(Status.FITS) if fits else Verdict(Status.ERROR if beyond else Status.OOM, resource, message="no")
            count = steps.send(replace(Tried(None, verdict, "", "", ""), calls=count))
    except StopIteration as stop:
        return stop.value.count if stop.value.tried else None, tried


@pytest.mark.parametrize("needed", [1, 2, 3, 5, 17, 46, 255, 256])
def test_the_smallest_count_is_found(needed):
    found, tried = counted(lambda n: n >= needed, 256)
    assert found == needed
    assert tried <= 17
    assert counted(lambda n: n >= needed, needed)[0] == needed
    assert counted(lambda n: n >= needed, needed - 1)[0] is None if needed > 2 else True


@pytest.mark.parametrize("needed", range(1, 9))
def test_a_ceiling_that_is_no_matter_of_memory_is_searched_below(needed):
    """Width slices of a small map end at 8: a doubling that sees the refusal goes on below it."""
    assert counted(lambda n: n >= needed, 64, ceiling=8)[0] == needed
    assert counted(lambda n: n >= 9, 64, ceiling=8)[0] is None


def test_counts_that_are_known_not_to_work_are_not_tried():
    """32 no, 64 yes, 48 yes, 40 yes, 36 no, 38 no, 39 no; nothing below 32."""
    assert counted(lambda n: n >= 40, 256, first=32, refused=31) == (40, 7)
