"""What makes failing calls fit, on the virtual board: each remedy ran, each refusal has a reason, each count two sides."""

from pathlib import Path

import pytest

from ssinghal.core.boards import load_board
from ssinghal.core.case import Placement
from ssinghal.core.record import Resource, Status, Verdict
from ssinghal.core.tensors import BufferType, DType, Layout
from ssinghal.device.modes import choose_device
from ssinghal.device.releases import Release
from ssinghal.errors import CatalogError, HarnessError
from ssinghal.operators import make_case
from ssinghal.remedy import solver
from ssinghal.remedy.device_pools import DevicePools
from ssinghal.remedy.problem import Problem
from ssinghal.remedy.resident_buffers import live_set
from ssinghal.remedy.search import Budget, levers, search
from ssinghal.remedy.solver import Unsolved, newer_than, solve
from ssinghal.remedy.strategies.registry import LEVERS, REWRITES
from ssinghal.remedy.text import RemedyReport, lines, to_json
from ssinghal.remedy.trial import Impact, Resident, Trial
from ssinghal.runner.tasks import PoolOptions

pytestmark = pytest.mark.virtual_device
L1 = Placement(memory=BufferType.L1)
NHWC_L1 = Placement(memory=BufferType.L1, channels_last=True)
L1_BANK, DRAM_BANK, BANKS = 1_393_312, 1_072_693_184, 64  # of an n150 under ttnn 0.81.1
TILE = 2048


@pytest.fixture(scope="module")
def bench():
    with DevicePools(choose_device("virtual", "n150"), PoolOptions(workers=1), no_values="not asked") as opened:
        yield opened


def solved(bench, name, *shapes, placement=L1, live=(), budget=Budget(seconds=60), **attrs):
    return solve(make_case(name, shapes, attrs, placement), bench, budget, live)


def found(told):
    assert isinstance(told, RemedyReport), told
    return {remedy.contract: remedy for remedy in told.remedies.found}


def refused(told):
    return {r.lever: r.reason for r in told.remedies.refused}


def test_the_sum_of_two_maps(bench):
    """The hardware log's add: each map is 34,078,720 B, 532,480 B per L1 bank; two fit a bank, three do not."""
    told = solved(bench, "add", (1, 64, 640, 400), (1, 64, 640, 400), placement=NHWC_L1)
    by = found(told)
    assert list(by) == [Impact.SAME, Impact.MEMORY, Impact.CHUNKED]
    in_place, dram, chunked = by.values()
    assert (in_place.lever, in_place.tried.peak_bytes[BufferType.L1]) == ("in place", 2 * 532_480)
    assert (in_place.tried.calls, in_place.tried.moved_bytes) == (1, 3 * 34_078_720)
    assert dram.tried.peak_bytes[BufferType.DRAM] == 3 * -(-34_078_720 // TILE // 12) * TILE
    assert dram.tried.peak_bytes.get(BufferType.L1, 0) == 0
    # two pieces of 320 rows of [640, 400, 64]: 400 rows are 13 tiles high, 64 values 2 wide
    piece = -(-320 * 13 * 2 // BANKS) * TILE
    assert 3 * piece <= L1_BANK < 3 * 532_480
    assert chunked.note.startswith("2 pieces along dim 1")
    assert chunked.tried.peak_bytes[BufferType.L1] == 3 * piece
    assert chunked.tried.results[0].shape == (1, 640, 400, 64)
    assert told.remedies.probes == 4


@pytest.mark.parametrize(("operator", "operands"), [("relu", 1), ("mul", 2), ("addcmul", 3)])
@pytest.mark.parametrize("shape", [(96, 512, 1024), (300, 1024, 512), (64, 5000, 1024)])
def test_the_fewest_pieces_of_elementwise_calls(bench, operator, operands, shape):
    """The formula that was measured equal to a search in 194 of 194: (operands + 1) x a piece + 8 KiB within a bank."""
    told = solved(bench, operator, *[shape] * operands)
    remedy = found(told)[Impact.CHUNKED]
    count = remedy.tried.trial.params["count"]

    def fits(n):
        units = -(-shape[0] // n)
        tiles = units * -(-shape[1] // 32) * -(-shape[2] // 32)
        return (operands + 1) * -(-tiles // BANKS) * TILE + 8192 <= L1_BANK

    assert fits(count)
    assert not fits(count - 1)


def test_one_piece_fewer_does_not_fit(bench):
    """Of a softmax, whose temporaries no formula here has: the largest of n - 1 pieces fails on the device."""
    case = make_case("softmax", ((1, 256, 512, 512),), {"dim": -1}, L1)
    told = solve(case, bench, Budget(seconds=60))
    remedy = found(told)[Impact.CHUNKED]
    count, problem = remedy.tried.trial.params["count"], told.remedies.problem
    from ssinghal.remedy.strategies.chunking import cuts_of

    cut = next(cut for cut in cuts_of(problem) if cut.axis == remedy.tried.trial.params["axis"])
    assert bench.run(problem.trial(cut.piece(count))).works
    assert bench.run(problem.trial(cut.piece(count - 1))).verdict.status is Status.OOM


def test_what_cannot_be_is_proved_and_not_tried(bench):
    """bmm of [136240, 256]: the result has 136,240^2 values; 4258 x 4258 tiles are 37 GB, of which a DRAM bank gets 3 GB."""
    told = solved(bench, "bmm", (1, 136240, 256), (1, 256, 136240))
    assert found(told) == {}
    tiles = (-(-136240 // 32)) ** 2
    per_bank = -(-tiles // 12) * TILE
    assert f"output needs {per_bank:,} B of each DRAM bank" in refused(told)["all in DRAM"]
    assert "the result alone takes" in refused(told)["operands from DRAM"]
    assert "beyond it by arithmetic" in refused(told)["another board"]
    assert told.remedies.probes == 0
    assert "none of the tried ones fits" in lines(told)


def test_padding_that_is_the_cause_is_avoided(bench):
    """[160, 100, 512] viewed with two dims of 1 behind: every value becomes a tile, 8,192,000 x 2,048 B."""
    told = solved(bench, "view", (160, 100, 512), placement=Placement(), size=[160, 100, 512, 1, 1])
    by = found(told)
    assert by[Impact.LAYOUT].tried.results[0].layout == "row_major"
    # a row of one bfloat16 takes 32 B of DRAM, each of 12 banks has 682,667 of the rows; the operand's rows have 1,024 B
    assert by[Impact.LAYOUT].tried.peak_bytes[BufferType.DRAM] == -(-8_192_000 // 12) * 32 + -(-16_000 // 12) * 1024
    assert by[Impact.REARRANGED].tried.results[0].shape == (1, 1, 160, 100, 512)
    assert by[Impact.REARRANGED].tried.moved_bytes == 0
    assert "operands, pieces and their join" in refused(told)["pieces"]


def test_a_result_of_another_shape_is_no_remedy(bench):
    """Judged against what the call must return: here a rewrite that returns a piece of it."""
    case = make_case("relu", ((1, 4, 64, 64),), {}, Placement())
    problem = Problem.of(case, Verdict(Status.OOM, Resource.L1_BUFFER), bench.board)
    wrong = Problem.of(make_case("relu", ((1, 4, 64, 32),), {}, Placement()), problem.verdict, bench.board)
    trial = Trial(case, wrong.call.outputs)
    tried = bench.run(trial)
    assert tried.verdict.status is Status.MISMATCH
    assert not tried.works
    assert "shape (1, 4, 64, 64); expected (1, 4, 64, 32)" in tried.verdict.message


# What lives meanwhile -----------------------------------------------------------------------------------------------------


def test_what_lives_meanwhile_changes_what_fits(bench):
    """relu of 256 tiles per bank takes 2 x 524,288 B: it fits alone, and not beside 400 KiB of each bank."""
    shape = (1, 1, 4096, 4096)
    assert isinstance(solved(bench, "relu", shape), Unsolved)
    live = live_set([f"{400 * 64}KiB@l1"], bench.board)
    assert live == (Resident(BufferType.L1, 400 * 1024),)
    told = solved(bench, "relu", shape, live=live)
    remedy = found(told)[Impact.SAME]
    assert remedy.lever == "in place"
    assert remedy.tried.peak_bytes[BufferType.L1] == 524_288 + 400 * 1024
    assert told.remedies.problem.verdict.free_bytes == L1_BANK - 400 * 1024 - 524_288


def test_what_lives_is_spilled_or_freed_where_nothing_else_helps(bench):
    """clone has no in-place form. 1,200 KiB live: neither operand nor result fit beside them."""
    live = (Resident(BufferType.L1, 1200 * 1024),)
    case = make_case("clone", ((1, 1, 2048, 4096),), {}, L1)
    problem = Problem.of(case, Verdict(Status.OOM, Resource.L1_BUFFER), bench.board, live)
    same = {lever.name: lever for lever in levers(problem) if lever.contract is Impact.SAME}
    assert "spill what lives to DRAM" in same
    freed = search(problem, bench.run, Budget(seconds=60), only=[Impact.SAME]).found[0]
    assert freed.lever in ("spill what lives to DRAM", "free what is dead")
    assert freed.tried.works


def test_a_fragmented_bank_is_reallocated(bench):
    """4096 x 3072 values are 393,216 B per bank; 300,000 B are free between small tensors that live, three times."""
    hole, wall = Resident(BufferType.L1, 300_000, freed=True), Resident(BufferType.L1, 4096)
    live = (hole, wall, hole, wall, hole, wall, Resident(BufferType.L1, 400_000))
    case = make_case("exp", ((1, 1, 4096, 3072),), {}, L1)
    told = solve(case, bench, Budget(seconds=60), live)
    assert isinstance(told, RemedyReport), told
    verdict = told.remedies.problem.verdict
    assert verdict.resource is Resource.FRAGMENTATION
    assert verdict.largest_free_bytes < verdict.bytes_per_bank <= verdict.free_bytes
    assert found(told)[Impact.SAME].lever == "reallocate what lives"


def test_live_sets_that_cannot_be_read(tmp_path, bench):
    board = bench.board
    with pytest.raises(HarnessError, match="expected SIZE@MEMORY in B, KiB, MiB or GiB"):
        live_set(["400@dram"], board)
    for texts in (["85.1MiB@l1"], ["50MiB@l1", "60MiB@l1"]):  # 85.04 MiB are 64 banks of 1,393,312 B
        with pytest.raises(HarnessError, match=r"B of each L1 bank, and one of n150 has 1,393,312 B"):
            live_set(texts, board)
    file = tmp_path / "live.jsonl"
    file.write_text(
        '{"shape": [64, 64], "memory": "l1"}\n{"bytes_per_bank": 4096, "memory": "dram"}\n\n{"shape": [0], "memory": "l1"}\n'
    )
    with pytest.raises(CatalogError, match=r"live\.jsonl:4: .*outside 1\.\."):
        live_set([str(file)], board)
    for line, said in (
        ('{"bytes_per_bank": -5}', "bytes_per_bank -5: expected a whole number from 1 on"),
        ('{"bytes_per_bank": true}', "bytes_per_bank True: expected a whole number"),
        ('{"bytes_per_bank": 1.5}', "bytes_per_bank 1.5: expected a whole number"),
        ('{"bytes_per_bank": 1e400}', "not a finite number"),
        ('{"shape": [2, 2], "mem": "l1"}', "unknown key 'mem'; did you mean memory"),
        ('{"shape": 4}', "shape 4: expected a list of sizes"),
        ("[1, 2]", "a JSON list; expected"),
        ("nonsense", "not JSON"),
    ):
        file.write_text(line)
        with pytest.raises(CatalogError) as error:
            live_set([str(file)], board)
        assert said in str(error.value), line
    file.write_text('{"shape": [64, 64], "memory": "l1"}\n{"bytes_per_bank": 4096, "memory": "dram"}\n')
    assert live_set([str(file)], board) == (Resident(BufferType.L1, 2048), Resident(BufferType.DRAM, 4096))


# Other resources -----------------------------------------------------------------------------------------------------------


def test_the_smallest_l1_small_region(bench):
    """One granule less is refused for the region, not for anything else."""
    case = make_case(
        "max_pool2d", ((1, 64, 32, 32),), {"kernel_size": 3, "stride": 2, "padding": 1}, Placement(l1_small_bytes=0)
    )
    told = solve(case, bench, Budget(seconds=60))
    remedy = found(told)[Impact.SAME]
    assert remedy.lever == "l1_small_size"
    size = remedy.tried.trial.case.placement.l1_small_bytes
    granule = bench.board.granule_bytes
    assert 0 < size <= 32_768
    assert size % granule == 0
    problem = told.remedies.problem
    below = bench.run(problem.trial(problem.placed(l1_small_bytes=size - granule)))
    assert below.verdict.resource is Resource.L1_SMALL_BUFFER


def test_a_convolution_takes_its_operand_from_dram(bench):
    """Slicing by itself is off for an operand in L1."""
    case = make_case("conv2d", ((1, 64, 512, 512), (64, 64, 3, 3)), {"padding": 1}, Placement(memory=BufferType.L1))
    told = solve(case, bench, Budget(seconds=60))
    by = found(told)
    assert by[Impact.MEMORY].tried.works
    assert by[Impact.MEMORY].lever in ("all in DRAM", "slices of a convolution from DRAM")


@pytest.mark.parametrize("along", ["width", "height"])
@pytest.mark.parametrize("block", [0, 32])
def test_slices_of_a_convolution_are_told(bench, along, block):
    told = {"padding": 1, "slices": f"{along}:4", "act_block_h": block}
    case = make_case("conv2d", ((1, 64, 128, 128), (64, 64, 3, 3)), told)
    tried = bench.run(Problem.of(case, Verdict(Status.OOM, Resource.L1_BUFFER), bench.board).trial())
    assert tried.works, tried.verdict
    code = "\n".join(tried.code)
    assert "num_slices=4" in code
    assert ("act_block_h_override=32" in code) == bool(block)


def test_a_narrower_dtype_is_a_contract_of_its_own(bench):
    """Where bfloat8_b alone fits: 1,088 B instead of 2,048 B a tile. The operand has 640 tiles per bank in bfloat16."""
    told = solved(bench, "relu", (1, 1, 8192, 3840), budget=Budget(seconds=60))
    remedy = found(told).get(Impact.DTYPE)
    if remedy is None:
        remedy = search(told.remedies.problem, bench.run, Budget(seconds=60), only=[Impact.DTYPE]).found[0]
    tiles = 256 * 120 // BANKS
    assert remedy.tried.trial.case.placement.dtype is DType.BFLOAT8_B
    assert remedy.tried.peak_bytes[BufferType.L1] == 2 * tiles * 1088


def test_another_board_is_tried_on_that_board(bench):
    """A p150 has 110 banks of 1,461,120 B: a relu of 600 tiles per bank of an n150 has 350 there."""
    case = make_case("relu", ((1, 1, 38400, 1024),), {}, L1)
    verdict = bench.probe(case).verdict
    problem = Problem.of(case, verdict, bench.board)
    remedy = search(problem, bench.run, Budget(seconds=60), only=[Impact.ELSEWHERE]).found[0]
    assert remedy.tried.board == "p150"
    assert remedy.tried.peak_bytes[BufferType.L1] == 2 * -(-38_400 // 110) * TILE


def test_what_lives_is_spread_over_the_banks_of_another_board(bench):
    """700 KiB in each of 64 banks are 417,047.3 B in each of 110, which Blackhole's allocator counts in steps of 64 B."""
    live = (Resident(BufferType.L1, 700 * 1024),)
    case = make_case("relu", ((1, 1, 16384, 1024),), {}, L1)  # 262,144 B per bank of an n150, twice
    problem = Problem.of(case, Verdict(Status.OOM, Resource.L1_BUFFER), bench.board, live)
    remedy = search(problem, bench.run, Budget(seconds=60), only=[Impact.ELSEWHERE]).found[0]
    (there,) = remedy.tried.trial.live
    assert there.bytes_per_bank == 6_517 * 64
    assert remedy.tried.peak_bytes[BufferType.L1] == pytest.approx(6_517 * 64 + 2 * -(-16_384 // 110) * TILE, abs=64)


# The search ----------------------------------------------------------------------------------------------------------------


def test_a_budget_ends_the_search_and_says_so(bench):
    told = solved(bench, "add", (1, 64, 640, 400), (1, 64, 640, 400), placement=NHWC_L1, budget=Budget(probes=1))
    assert told.remedies.spent
    assert [r.lever for r in told.remedies.found] == ["in place"]
    assert refused(told)["all in DRAM"] == "not finished: the budget was spent"


def test_a_crash_costs_its_trial_alone(bench):
    """A rewrite that is not there ends the worker, as a fault of native code does; the search goes on with the next lever."""
    case = make_case("relu", ((1, 64, 640, 400),), {}, NHWC_L1)
    problem = Problem.of(case, bench.probe(case).verdict, bench.board)

    def run(trial):
        return (
            bench.run(Trial(trial.case, trial.wanted, "no such rewrite")) if trial.rewrite == "in place" else bench.run(trial)
        )

    remedies = search(problem, run, Budget(seconds=60))
    assert "the process that ran the call ended" in {r.lever: r.reason for r in remedies.refused}["in place"]
    assert Impact.MEMORY in {r.contract for r in remedies.found}


def test_reshapes_that_cost_minutes_on_the_host_are_not_tried(bench):
    told = solved(bench, "view", (1, 2160, 3840, 96), size=[1, 96, 2160, 3840])
    tiles = 96 * -(-2160 // 32) * -(-3840 // 32)
    assert f"TTNN maps {tiles:,} tiles on the host" in refused(told)["all in DRAM"]
    assert found(told)[Impact.LAYOUT].lever == "row-major layout in DRAM"


@pytest.mark.parametrize(
    ("call", "status"),
    [
        (make_case("relu", ((32, 32),)), Status.FITS),
        (make_case("as_strided", ((32, 32),), {"size": [4, 4], "stride": [1, 1]}), Status.UNSUPPORTED),
        (make_case("add", ((3, 4), (5, 6))), Status.INVALID),
    ],
    ids=["fits", "unsupported", "invalid"],
)
def test_what_is_no_memory_failure_is_not_searched(bench, call, status):
    told = solve(call, bench)
    assert isinstance(told, Unsolved)
    assert told.verdict.status is status


def test_what_is_told(bench):
    told = solved(bench, "add", (1, 64, 640, 400), (1, 64, 640, 400), placement=NHWC_L1)
    assert told.before == {BufferType.L1: 3 * 532_480}
    text = "\n".join(lines(told))
    assert "fails: L1 bank needs 532,480 B, 328,352 B free (output)" in text
    assert "1. same tensor: in place (the first operand is overwritten" in text
    assert "peak per bank after its calls, what they hold on the way unknown: L1 1,064,960 B (as it was: 1,597,440 B)" in text
    assert "t0 = ttnn.add(a, b, output_tensor=a)" in text
    made = to_json(told)
    assert made["bytes_per_bank_before"] == {"l1": 3 * 532_480}
    assert [r["contract"] for r in made["remedies"]] == ["same tensor", "other memory", "chunked"]
    assert made["remedies"][0]["device_mode"] == "virtual"
    assert load_board("n150").l1.bank_bytes == L1_BANK


def test_levers_are_in_the_order_of_their_contracts_and_rewrites_have_names():
    order = [list(Impact).index(lever.contract) for lever in LEVERS]
    assert order == sorted(order)
    assert Impact.VALUES not in {lever.contract for lever in LEVERS}
    assert "call" in REWRITES
    assert Layout.TILE in Layout


def test_newer_releases_are_ordered_by_version(monkeypatch):
    """0.81.0 comes after its candidate, and 0.100.0 after 0.81.0."""
    versions = ("0.100.0", "0.81.0rc1", "0.75.0", "0.81.0")
    monkeypatch.setattr(solver, "installed_release", lambda: None)
    monkeypatch.setattr(solver, "added_releases", lambda: [Release(version, Path(version)) for version in versions])
    assert newer_than("0.81.0rc1") == ("0.81.0", "0.100.0")
    assert newer_than("0.9.0") == ("0.75.0", "0.81.0rc1", "0.81.0", "0.100.0")
