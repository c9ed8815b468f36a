"""Remedies of failing calls on the virtual board: each remedy ran, each rejection has a reason, each count is the smallest."""

from pathlib import Path

import pytest

from ssinghal.core.boards import load_board
from ssinghal.core.case import Placement
from ssinghal.core.tensors import BufferType, DType, Layout
from ssinghal.core.verdict import Resource, Status, Verdict
from ssinghal.device.modes import choose_device
from ssinghal.device.releases import Release
from ssinghal.errors import CatalogError, HarnessError
from ssinghal.operators import make_case
from ssinghal.remedy import solver
from ssinghal.remedy.device_pools import DevicePools
from ssinghal.remedy.problem import Problem
from ssinghal.remedy.resident_buffers import live_set
from ssinghal.remedy.search import Budget, search, strategies
from ssinghal.remedy.solver import Unsolved, newer_than, solve
from ssinghal.remedy.strategies.registry import REWRITES, STRATEGIES
from ssinghal.remedy.text import RemedyReport, lines, to_json
from ssinghal.remedy.trial import Impact, Resident, Trial
from ssinghal.runner.tasks import PoolOptions

pytestmark = pytest.mark.virtual_device
L1 = Placement(memory=BufferType.L1)
NHWC_L1 = Placement(memory=BufferType.L1, channels_last=True)
L1_BANK, DRAM_BANK, BANKS = 1_393_312, 1_072_693_184, 64  # of an n150 under ttnn 0.81.1
TILE = 2048


@pytest.fixture(scope="module")
def pools():
    with DevicePools(choose_device("virtual", "n150"), PoolOptions(workers=1), no_values="not asked") as opened:
        yield opened


def solved(pools, name, *shapes, placement=L1, live=(), budget=Budget(seconds=60), **attrs):
    return solve(make_case(name, shapes, attrs, placement), pools, budget, live)


def found(report):
    assert isinstance(report, RemedyReport), report
    return {remedy.impact: remedy for remedy in report.remedies.found}


def refused(report):
    return {r.strategy: r.reason for r in report.remedies.refused}


def test_the_sum_of_two_maps(pools):
    """The hardware log's add: each map is 34,078,720 B, 532,480 B per L1 bank; two fit into a bank, three do not."""
    report = solved(pools, "add", (1, 64, 640, 400), (1, 64, 640, 400), placement=NHWC_L1)
    by = found(report)
    assert list(by) == [Impact.SAME, Impact.MEMORY, Impact.CHUNKED]
    in_place, dram, chunked = by.values()
    assert (in_place.strategy, in_place.result.peak_bytes[BufferType.L1]) == ("in place", 2 * 532_480)
    assert (in_place.result.calls, in_place.result.moved_bytes) == (1, 3 * 34_078_720)
    assert dram.result.peak_bytes[BufferType.DRAM] == 3 * -(-34_078_720 // TILE // 12) * TILE
    assert dram.result.peak_bytes.get(BufferType.L1, 0) == 0
    # two pieces of 320 rows of [640, 400, 64]: 400 rows are 13 tiles high, 64 values 2 wide
    piece = -(-320 * 13 * 2 // BANKS) * TILE
    assert 3 * piece <= L1_BANK < 3 * 532_480
    assert chunked.note.startswith("2 pieces along dim 1")
    assert chunked.result.peak_bytes[BufferType.L1] == 3 * piece
    assert chunked.result.results[0].shape == (1, 640, 400, 64)
    assert report.remedies.probes == 4


@pytest.mark.parametrize(("operator", "operands"), [("relu", 1), ("mul", 2), ("addcmul", 3)])
@pytest.mark.parametrize("shape", [(96, 512, 1024), (300, 1024, 512), (64, 5000, 1024)])
def test_the_fewest_pieces_of_elementwise_calls(pools, operator, operands, shape):
    """The formula agreed with a search in 194 of 194 cases: (operands + 1) x a piece + 8 KiB within a bank."""
    report = solved(pools, operator, *[shape] * operands)
    remedy = found(report)[Impact.CHUNKED]
    count = remedy.result.trial.params["count"]

    def fits(n):
        units = -(-shape[0] // n)
        tiles = units * -(-shape[1] // 32) * -(-shape[2] // 32)
        return (operands + 1) * -(-tiles // BANKS) * TILE + 8192 <= L1_BANK

    assert fits(count)
    assert not fits(count - 1)


def test_one_piece_fewer_does_not_fit(pools):
    """The temporaries of softmax have no formula here: the largest of n - 1 pieces fails on the device."""
    case = make_case("softmax", ((1, 256, 512, 512),), {"dim": -1}, L1)
    report = solve(case, pools, Budget(seconds=60))
    remedy = found(report)[Impact.CHUNKED]
    count, problem = remedy.result.trial.params["count"], report.remedies.problem
    from ssinghal.remedy.strategies.chunking import cuts_of

    cut = next(cut for cut in cuts_of(problem) if cut.axis == remedy.result.trial.params["axis"])
    assert pools.run(problem.trial(cut.piece(count))).works
    assert pools.run(problem.trial(cut.piece(count - 1))).verdict.status is Status.OOM


def test_impossible_changes_are_proved_and_not_tried(pools):
    """bmm of [136240, 256]: the result has 136,240^2 values; 4258 x 4258 tiles are 37 GB, of which a DRAM bank gets 3 GB."""
    report = solved(pools, "bmm", (1, 136240, 256), (1, 256, 136240))
    assert found(report) == {}
    tiles = (-(-136240 // 32)) ** 2
    per_bank = -(-tiles // 12) * TILE
    assert f"output needs {per_bank:,} B of each DRAM bank" in refused(report)["all in DRAM"]
    assert "the result alone takes" in refused(report)["operands from DRAM"]
    assert "exceeds it by arithmetic" in refused(report)["another board"]
    assert report.remedies.probes == 0
    assert "no strategy makes it fit" in lines(report)


def test_padding_is_avoided(pools):
    """[160, 100, 512] viewed with two more dims of 1: every value becomes a tile, 8,192,000 x 2,048 B."""
    report = solved(pools, "view", (160, 100, 512), placement=Placement(), size=[160, 100, 512, 1, 1])
    by = found(report)
    assert by[Impact.LAYOUT].result.results[0].layout == "row_major"
    # a row of one bfloat16 takes 32 B of DRAM, each of 12 banks has 682,667 of the rows; the operand's rows have 1,024 B
    assert by[Impact.LAYOUT].result.peak_bytes[BufferType.DRAM] == -(-8_192_000 // 12) * 32 + -(-16_000 // 12) * 1024
    assert by[Impact.REARRANGED].result.results[0].shape == (1, 1, 160, 100, 512)
    assert by[Impact.REARRANGED].result.moved_bytes == 0
    assert "operands, pieces and their join" in refused(report)["pieces"]


def test_a_result_of_another_shape_is_no_remedy(pools):
    """Results are compared with what the call must return: here a rewrite returns only a piece."""
    case = make_case("relu", ((1, 4, 64, 64),), {}, Placement())
    problem = Problem.of(case, Verdict(Status.OOM, Resource.L1_BUFFER), pools.board)
    wrong = Problem.of(make_case("relu", ((1, 4, 64, 32),), {}, Placement()), problem.verdict, pools.board)
    trial = Trial(case, wrong.call.outputs)
    tried = pools.run(trial)
    assert tried.verdict.status is Status.MISMATCH
    assert not tried.works
    assert "shape (1, 4, 64, 64); expected (1, 4, 64, 32)" in tried.verdict.message


# Other live buffers -------------------------------------------------------------------------------------------------------


def test_other_buffers_change_the_verdict(pools):
    """relu of 256 tiles per bank takes 2 x 524,288 B: it fits alone, but not with 400 KiB of each bank taken."""
    shape = (1, 1, 4096, 4096)
    assert isinstance(solved(pools, "relu", shape), Unsolved)
    live = live_set([f"{400 * 64}KiB@l1"], pools.board)
    assert live == (Resident(BufferType.L1, 400 * 1024),)
    report = solved(pools, "relu", shape, live=live)
    remedy = found(report)[Impact.SAME]
    assert remedy.strategy == "in place"
    assert remedy.result.peak_bytes[BufferType.L1] == 524_288 + 400 * 1024
    assert report.remedies.problem.verdict.free_bytes == L1_BANK - 400 * 1024 - 524_288


def test_a_call_that_fails_alone_is_stated_as_it_fails_among_other_buffers(pools):
    """Its result of 1,024 tiles fits into no bank of 680; the other buffers and its operands take 5 and 2 x 32 of them."""
    report = solved(pools, "matmul", (1, 16, 2048, 64), (1, 16, 64, 2048), live=live_set(["655360B@l1"], pools.board))
    verdict = report.remedies.problem.verdict
    assert (verdict.bytes_per_bank, verdict.free_bytes) == (1024 * 2048, verdict.bank_bytes - (5 + 2 * 32) * 2048)


def test_other_buffers_are_spilled_or_freed_where_nothing_else_helps(pools):
    """clone has no in-place form. With 1,200 KiB taken, neither operand nor result fits."""
    live = (Resident(BufferType.L1, 1200 * 1024),)
    case = make_case("clone", ((1, 1, 2048, 4096),), {}, L1)
    problem = Problem.of(case, Verdict(Status.OOM, Resource.L1_BUFFER), pools.board, live)
    same = {strategy.name: strategy for strategy in strategies(problem) if strategy.impact is Impact.SAME}
    assert "spill live buffers to DRAM" in same
    freed = search(problem, pools.run, Budget(seconds=60), only=[Impact.SAME]).found[0]
    assert freed.strategy in ("spill live buffers to DRAM", "free dead buffers")
    assert freed.result.works


def test_a_fragmented_bank_is_reallocated(pools):
    """4096 x 3072 values are 393,216 B per bank; between small tensors there are three holes of 300,000 B."""
    hole, wall = Resident(BufferType.L1, 300_000, freed=True), Resident(BufferType.L1, 4096)
    live = (hole, wall, hole, wall, hole, wall, Resident(BufferType.L1, 400_000))
    case = make_case("exp", ((1, 1, 4096, 3072),), {}, L1)
    report = solve(case, pools, Budget(seconds=60), live)
    assert isinstance(report, RemedyReport), report
    verdict = report.remedies.problem.verdict
    assert verdict.resource is Resource.FRAGMENTATION
    assert verdict.largest_free_bytes < verdict.bytes_per_bank <= verdict.free_bytes
    assert found(report)[Impact.SAME].strategy == "reallocate live buffers"


def test_live_sets_that_cannot_be_read(tmp_path, pools):
    board = pools.board
    with pytest.raises(HarnessError, match="expected SIZE@MEMORY in B, KiB, MiB or GiB"):
        live_set(["400@dram"], board)
    for texts in (["85.1MiB@l1"], ["50MiB@l1", "60MiB@l1"]):  # 85.04 MiB are 64 banks of 1,393,312 B
        with pytest.raises(HarnessError, match=r"B of each L1 bank, which has 1,393,312 B on n150"):
            live_set(texts, board)
    file = tmp_path / "live.jsonl"
    file.write_text(
        '{"shape": [64, 64], "memory": "l1"}\n{"bytes_per_bank": 4096, "memory": "dram"}\n\n{"shape": [0], "memory": "l1"}\n'
    )
    with pytest.raises(CatalogError, match=r"live\.jsonl:4: .*outside 1\.\."):
        live_set([str(file)], board)
    for line, message in (
        ('{"bytes_per_bank": -5}', "bytes_per_bank -5: expected an integer of at least 1"),
        ('{"bytes_per_bank": true}', "bytes_per_bank True: expected an integer"),
        ('{"bytes_per_bank": 1.5}', "bytes_per_bank 1.5: expected an integer"),
        ('{"bytes_per_bank": 1e400}', "not a finite number"),
        ('{"shape": [2, 2], "mem": "l1"}', "unknown key 'mem'; did you mean memory"),
        ('{"shape": 4}', "shape 4: expected a list of sizes"),
        ("[1, 2]", "a JSON list; expected"),
        ("nonsense", "not JSON"),
    ):
        file.write_text(line)
        with pytest.raises(CatalogError) as error:
            live_set([str(file)], board)
        assert message in str(error.value), line
    file.write_text('{"shape": [64, 64], "memory": "l1"}\n{"bytes_per_bank": 4096, "memory": "dram"}\n')
    assert live_set([str(file)], board) == (Resident(BufferType.L1, 2048), Resident(BufferType.DRAM, 4096))


# Other resources -----------------------------------------------------------------------------------------------------------


def test_the_smallest_l1_small_region(pools):
    """One granule less fails because of the region, not for another reason."""
    case = make_case(
        "max_pool2d", ((1, 64, 32, 32),), {"kernel_size": 3, "stride": 2, "padding": 1}, Placement(l1_small_bytes=0)
    )
    report = solve(case, pools, Budget(seconds=60))
    remedy = found(report)[Impact.SAME]
    assert remedy.strategy == "l1_small_size"
    size = remedy.result.trial.case.placement.l1_small_bytes
    granule = pools.board.granule_bytes
    assert 0 < size <= 32_768
    assert size % granule == 0
    problem = report.remedies.problem
    below = pools.run(problem.trial(problem.placed(l1_small_bytes=size - granule)))
    assert below.verdict.resource is Resource.L1_SMALL_BUFFER


def test_a_convolution_takes_its_operand_from_dram(pools):
    """TTNN does not slice the work of an operand in L1."""
    case = make_case("conv2d", ((1, 64, 512, 512), (64, 64, 3, 3)), {"padding": 1}, Placement(memory=BufferType.L1))
    report = solve(case, pools, Budget(seconds=60))
    by = found(report)
    assert by[Impact.MEMORY].result.works
    assert by[Impact.MEMORY].strategy in ("all in DRAM", "slices of a convolution from DRAM")


@pytest.mark.parametrize("along", ["width", "height"])
@pytest.mark.parametrize("block", [0, 32])
def test_slices_of_a_convolution_are_in_the_code(pools, along, block):
    attrs = {"padding": 1, "slices": f"{along}:4", "act_block_h": block}
    case = make_case("conv2d", ((1, 64, 128, 128), (64, 64, 3, 3)), attrs)
    result = pools.run(Problem.of(case, Verdict(Status.OOM, Resource.L1_BUFFER), pools.board).trial())
    assert result.works, result.verdict
    code = "\n".join(result.code)
    assert "num_slices=4" in code
    assert ("act_block_h_override=32" in code) == bool(block)


def test_a_narrower_dtype_has_a_separate_impact(pools):
    """Only bfloat8_b fits: 1,088 B instead of 2,048 B per tile. The operand has 640 tiles per bank in bfloat16."""
    report = solved(pools, "relu", (1, 1, 8192, 3840), budget=Budget(seconds=60))
    remedy = found(report).get(Impact.DTYPE)
    if remedy is None:
        remedy = search(report.remedies.problem, pools.run, Budget(seconds=60), only=[Impact.DTYPE]).found[0]
    tiles = 256 * 120 // BANKS
    assert remedy.result.trial.case.placement.dtype is DType.BFLOAT8_B
    assert remedy.result.peak_bytes[BufferType.L1] == 2 * tiles * 1088


@pytest.mark.parametrize(
    ("name", "shapes", "attrs"),
    [
        ("conv2d", ((1, 64, 1024, 1024), (64, 64, 1, 1), (64,)), {}),
        ("conv2d", ((1, 64, 1024, 1024), (64, 64, 2, 2)), {"stride": 2}),
        ("conv2d", ((64, 64, 128, 128), (64, 64, 3, 3)), {"padding": 1}),
        ("native_group_norm", ((1, 256, 512, 512), (256,), (256,)), {"group": 8}),
    ],
)
def test_convolutions_and_group_norms_are_cut(pools, name, shapes, attrs):
    """Each runs out of L1 by itself; its pieces and their join run on the device, and the code has no call without use."""
    problem = solved(pools, name, *shapes, **attrs).remedies.problem
    (remedy,) = search(problem, pools.run, Budget(seconds=60), only=[Impact.CHUNKED]).found
    assert remedy.strategy == "pieces"
    assert any("ttnn.concat(pieces" in line for line in remedy.result.code)
    unused = [line.strip() for line in remedy.result.code if line.strip().startswith("ttnn.")]
    assert all(line.startswith("ttnn.deallocate(") for line in unused), unused


def test_a_group_norm_is_one_call(pools):
    """What it asks of the board's grid and banks is written as values."""
    remedy = found(solved(pools, "native_group_norm", (1, 256, 512, 512), (256,), (256,), group=8))[Impact.MEMORY]
    assert remedy.result.calls == 1
    *operands, call = remedy.result.code
    assert len(operands) == 3
    assert all(" = ttnn.empty(" in line for line in operands)
    assert "ttnn.group_norm(" in call
    assert "core_grid=ttnn.CoreGrid(" in call


def test_another_board_is_opened_for_its_trial(pools):
    """A p150 has 110 banks of 1,461,120 B: a relu of 600 tiles per bank of an n150 has 350 there."""
    case = make_case("relu", ((1, 1, 38400, 1024),), {}, L1)
    verdict = pools.probe(case).verdict
    problem = Problem.of(case, verdict, pools.board)
    remedy = search(problem, pools.run, Budget(seconds=60), only=[Impact.ELSEWHERE]).found[0]
    assert remedy.result.board == "p150"
    assert remedy.result.peak_bytes[BufferType.L1] == 2 * -(-38_400 // 110) * TILE


def test_other_buffers_are_spread_over_the_banks_of_another_board(pools):
    """700 KiB in each of 64 banks are 417,047.3 B in each of 110, which Blackhole's allocator counts in steps of 64 B."""
    live = (Resident(BufferType.L1, 700 * 1024),)
    case = make_case("relu", ((1, 1, 16384, 1024),), {}, L1)  # 262,144 B per bank of an n150, twice
    problem = Problem.of(case, Verdict(Status.OOM, Resource.L1_BUFFER), pools.board, live)
    remedy = search(problem, pools.run, Budget(seconds=60), only=[Impact.ELSEWHERE]).found[0]
    (there,) = remedy.result.trial.live
    assert there.bytes_per_bank == 6_517 * 64
    assert remedy.result.peak_bytes[BufferType.L1] == pytest.approx(6_517 * 64 + 2 * -(-16_384 // 110) * TILE, abs=64)


# The search ----------------------------------------------------------------------------------------------------------------


def test_a_budget_ends_the_search(pools):
    report = solved(pools, "add", (1, 64, 640, 400), (1, 64, 640, 400), placement=NHWC_L1, budget=Budget(probes=1))
    assert report.remedies.spent
    assert [r.strategy for r in report.remedies.found] == ["in place"]
    assert refused(report)["all in DRAM"] == "not finished: the budget was spent"


def test_a_crash_ends_its_trial_only(pools):
    """An unknown rewrite ends the worker, as a crash of native code does; the search continues with the next strategy."""
    case = make_case("relu", ((1, 64, 640, 400),), {}, NHWC_L1)
    problem = Problem.of(case, pools.probe(case).verdict, pools.board)

    def run(trial):
        return (
            pools.run(Trial(trial.case, trial.wanted, "no such rewrite")) if trial.rewrite == "in place" else pools.run(trial)
        )

    remedies = search(problem, run, Budget(seconds=60))
    assert "the process that ran the call ended" in {r.strategy: r.reason for r in remedies.refused}["in place"]
    assert Impact.MEMORY in {r.impact for r in remedies.found}


def test_reshapes_that_take_minutes_on_the_host_are_not_tried(pools):
    report = solved(pools, "view", (1, 2160, 3840, 96), size=[1, 96, 2160, 3840])
    tiles = 96 * -(-2160 // 32) * -(-3840 // 32)
    assert f"TTNN maps {tiles:,} tiles on the host" in refused(report)["all in DRAM"]
    assert found(report)[Impact.LAYOUT].strategy == "row-major layout in DRAM"


@pytest.mark.parametrize(
    ("call", "status"),
    [
        (make_case("relu", ((32, 32),)), Status.FITS),
        (make_case("as_strided", ((32, 32),), {"size": [4, 4], "stride": [1, 1]}), Status.UNSUPPORTED),
        (make_case("add", ((3, 4), (5, 6))), Status.INVALID),
    ],
    ids=["fits", "unsupported", "invalid"],
)
def test_other_verdicts_than_oom_are_not_searched(pools, call, status):
    report = solve(call, pools)
    assert isinstance(report, Unsolved)
    assert report.verdict.status is status


def test_text_and_json(pools):
    report = solved(pools, "add", (1, 64, 640, 400), (1, 64, 640, 400), placement=NHWC_L1)
    assert report.before == {BufferType.L1: 3 * 532_480}
    text = "\n".join(lines(report))
    assert "fails: L1 bank needs 532,480 B, 328,352 B free (output)" in text
    assert "1. same tensor: in place (the first operand is overwritten" in text
    assert "peak per bank after its calls, their temporaries unknown: L1 1,064,960 B (before: 1,597,440 B)" in text
    assert "t0 = ttnn.add(a, b, output_tensor=a)" in text
    answer = to_json(report)
    assert answer["bytes_per_bank_before"] == {"l1": 3 * 532_480}
    assert [r["contract"] for r in answer["remedies"]] == ["same tensor", "other memory", "chunked"]
    assert answer["remedies"][0]["device_mode"] == "virtual"
    assert load_board("n150").l1.bank_bytes == L1_BANK


def test_strategies_are_in_the_order_of_their_impact_and_rewrites_have_names():
    order = [list(Impact).index(strategy.impact) for strategy in STRATEGIES]
    assert order == sorted(order)
    assert Impact.VALUES not in {strategy.impact for strategy in STRATEGIES}
    assert "call" in REWRITES
    assert Layout.TILE in Layout


def test_newer_releases_are_ordered_by_version(monkeypatch):
    """0.81.0 comes after its candidate, and 0.100.0 after 0.81.0."""
    versions = ("0.100.0", "0.81.0rc1", "0.75.0", "0.81.0")
    monkeypatch.setattr(solver, "installed_release", lambda: None)
    monkeypatch.setattr(solver, "added_releases", lambda: [Release(version, Path(version)) for version in versions])
    assert newer_than("0.81.0rc1") == ("0.81.0", "0.100.0")
    assert newer_than("0.9.0") == ("0.75.0", "0.81.0rc1", "0.81.0", "0.100.0")
