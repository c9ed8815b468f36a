"""Edges of real calls on the virtual board, and ``ssinghal edge``. The tests run both sides of each edge again."""

import json
import os
import signal
import subprocess
import sys
import threading

import pytest

from ssinghal.capacity.finder import EdgeSearch, lean
from ssinghal.capacity.journal import Journal
from ssinghal.capacity.parameters import Bounds, Goal
from ssinghal.capacity.search import SearchLimits
from ssinghal.capacity.text import lines
from ssinghal.core.case import Placement
from ssinghal.core.memory_config import Cores, Sharding, ShardKind
from ssinghal.core.tensors import BufferType
from ssinghal.core.verdict import Resource, Status
from ssinghal.device.modes import choose_device
from ssinghal.errors import HarnessError
from ssinghal.operators import make_case
from ssinghal.runner.pool import Pool
from ssinghal.runner.tasks import PoolOptions
from ssinghal.runs.setting import Setting
from tests.support.processes import wait_for

L1 = Placement(memory=BufferType.L1)
L1_BANK, BANKS, TILE = 1_393_312, 64, 2048  # of an n150 under ttnn 0.81.1
PATIENT = SearchLimits(check_seconds=60)


@pytest.fixture(scope="module")
def pool():
    choice = choose_device("virtual", "n150")
    with Pool(choice, lean(PoolOptions.of(choice, workers=1))) as opened:
        yield opened


def edge_of(pool, goal, name, *shapes, placement=Placement(), bounds=Bounds(), journal=None, **attrs):
    """Searches, and probes both sides of the edge once more."""
    result = EdgeSearch(goal, make_case(name, shapes, attrs, placement), bounds, PATIENT).on(pool, journal)
    for run in (result.fit, result.fail):
        if run is not None:
            assert pool.submit(run.case).result().verdict.status is run.verdict.status
    return result


def values(result):
    return tuple(None if run is None else run.value for run in (result.fit, result.fail))


# Calls ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.virtual_device
def test_the_largest_batch_is_the_one_that_arithmetic_gives(pool):
    """A sum of [n, 64, 160, 100]: 64 x 5 x 4 tiles for each n over 64 banks, for two operands and a result. Program buffers
    take 24 KiB at most."""
    result = edge_of(pool, Goal.BATCH, "add", (1, 64, 160, 100), (1, 64, 160, 100), placement=L1)
    most = L1_BANK // (3 * 20 * TILE)
    assert 3 * 20 * TILE * most + 24 * 1024 <= L1_BANK < 3 * 20 * TILE * (most + 1)
    assert values(result) == (most, most + 1) == (11, 12)
    assert result.edge.is_confirmed
    assert result.new_runs == 2, "arithmetic knows all others"
    assert result.fail.verdict.resource is Resource.L1_BUFFER
    assert (result.fail.verdict.bytes_per_bank, result.fail.verdict.stage) == (12 * 20 * TILE, "output")


@pytest.mark.virtual_device
def test_the_largest_resolution_of_a_convolution(pool):
    result = edge_of(pool, Goal.RESOLUTION, "convolution", (1, 64, 320, 320), (64, 64, 3, 3), (64,), placement=L1, padding=1)
    assert result.edge.is_confirmed
    assert result.parameter.value_text(result.fit.value) == "256x256"
    assert result.fail.case.inputs[0] == (1, 64, 288, 288)
    assert result.fail.verdict.resource is Resource.CLASH
    assert not result.edge.contradicted


@pytest.mark.virtual_device
def test_the_longest_sequence_of_scores(pool):
    result = edge_of(pool, Goal.SEQUENCE, "softmax", (1, 12, 1024, 1024), placement=L1, dim=-1)
    assert result.edge.is_confirmed
    assert result.fail.value == result.fit.value + 32
    assert {result.fit.value} == set(result.fit.case.inputs[0][2:])


@pytest.mark.virtual_device
def test_values_that_fit_again_beyond_a_failure_are_found(pool):
    """The mean of a complete map of 256 channels. TTNN makes a second copy unless the rows fill complete tiles: those of
    376 x 235 do not, those of 384 x 240 do."""
    result = edge_of(pool, Goal.RESOLUTION, "adaptive_avg_pool2d", (1, 256, 80, 50), placement=L1, output_size=[1, 1])
    assert result.edge.is_confirmed
    holes = [result.parameter.value_text(hole.first) for hole in result.edge.holes]
    assert "376x235" in holes
    assert pool.submit(result.parameter.case_of(376)).result().status is Status.OOM
    assert pool.submit(result.parameter.case_of(384)).result().status is Status.FITS
    assert any("before that, 376x235 does not fit: " in line for line in lines(result))
    assert any(line == "every value run up to 368x230 fits" for line in lines(result))


@pytest.mark.virtual_device
def test_the_fewest_slices_where_more_are_rejected(pool):
    """A result 256 wide has 8 tiles: TTNN rejects more slices, and 7 do not suffice."""
    result = edge_of(pool, Goal.SLICES, "convolution", (1, 128, 768, 256), (128, 128, 3, 3), padding=1, slices="width:2")
    assert values(result) == (8, 7)
    assert result.fail.verdict.status is Status.OOM
    (hole,) = result.edge.holes
    assert hole.last == 9
    assert result.edge.tried[hole.last_index].verdict.status is Status.UNSUPPORTED
    assert any(line.startswith("before that, 256 to 9 (") and "unsupported" in line for line in lines(result))


@pytest.mark.virtual_device
def test_the_smallest_l1_small_region(pool):
    result = edge_of(pool, Goal.L1_SMALL, "max_pool2d", (1, 64, 320, 320), placement=L1, kernel_size=3, stride=2, padding=1)
    fit, fail = values(result)
    assert fit == fail + 32, "one granule of the allocator"
    assert result.fail.verdict.resource is Resource.L1_SMALL_BUFFER
    assert result.fit.case.placement.l1_small_bytes == fit < 32768


@pytest.mark.virtual_device
def test_a_limit_that_is_not_memory_is_named(pool):
    """TTNN lists the pages of each tile of a view on the host, 8 for each n: more than 2,000 are not run here."""
    choice = choose_device("virtual", "n150")
    with Pool(choice, lean(PoolOptions.of(choice, workers=1, host_tiles=2_000))) as hurried:
        result = edge_of(hurried, Goal.BATCH, "view", (1, 64, 100), size=[1, 100, 64])
    assert values(result) == (250, None)
    assert (result.untried[0].value, result.untried[0].verdict.status) == (251, Status.NOT_RUN)
    assert not result.edge.is_confirmed
    assert any(line.startswith("no memory verdict, may fit: 251, ") and "not_run: TTNN" in line for line in lines(result))


@pytest.mark.virtual_device
def test_nothing_fits_and_no_edge(pool):
    none = edge_of(pool, Goal.BATCH, "add", (1, 64, 640, 400), (1, 64, 640, 400), placement=L1)
    assert values(none) == (None, 1)
    assert any(
        line.startswith("nothing fits, tried 1: L1 bank needs 532,480 B, 328,352 B free (output)") for line in lines(none)
    )
    created = edge_of(pool, Goal.BATCH, "ones", placement=L1, size=[1, 64, 32, 32])
    assert f"{L1_BANK // TILE} fits: [{L1_BANK // TILE},64,32,32]" in lines(created), "64 tiles for each n, one in every bank"
    every = edge_of(pool, Goal.BATCH, "relu", (1, 64, 32, 32), placement=L1, bounds=Bounds(upto=4))
    assert values(every) == (4, None)
    assert "no edge up to 4, the last value" in lines(every)


@pytest.mark.virtual_device
def test_a_crash_costs_one_run_and_is_reported(pool):
    """Both workers that list 240,000 pages are killed: the first, and the one that repeats the call."""
    choice = choose_device("virtual", "n150")
    ended, over = set(), threading.Event()

    def end_each(crashing: Pool) -> None:
        while not over.wait(0.3):
            for worker in tuple(crashing._busy):
                ended.add(worker._process.pid)
                os.kill(worker._process.pid, signal.SIGSEGV)

    with Pool(choice, lean(PoolOptions.of(choice, workers=1, host_tiles=300_000))) as crashing:
        killing = threading.Thread(target=end_each, args=(crashing,))
        killing.start()
        slow = make_case("view", ((1, 240_000, 1024),), {"size": [1, 240_000, 32, 32]})
        result = EdgeSearch(Goal.BATCH, slow, Bounds(upto=1)).on(crashing)
        over.set()
        killing.join()
        assert len(ended) == 2
        after = crashing.submit(make_case("relu", ((32, 32),))).result()
    assert (result.fit, result.fail, result.untried[0].verdict.status) == (None, None, Status.CRASH)
    assert "no memory verdict, may fit: 1: crash: the process that ran the call ended with SIGSEGV" in "\n".join(lines(result))
    assert not any("does not fit" in line or "nothing fits" in line for line in lines(result))
    assert after.status is Status.FITS


# Journals -------------------------------------------------------------------------------------------------------------------


@pytest.mark.virtual_device
def test_a_search_continues_where_it_stopped(pool, tmp_path):
    path = tmp_path / "runs.jsonl"
    softmax = ("softmax", (1, 12, 1024, 1024))

    def searched():
        with Journal(path) as journal:
            return edge_of(pool, Goal.SEQUENCE, *softmax, placement=L1, journal=journal, dim=-1)

    complete = searched()
    kept = path.read_bytes().splitlines(keepends=True)
    assert len(kept) == complete.new_runs
    again = searched()
    assert (again.new_runs, values(again)) == (0, values(complete))
    assert path.read_bytes() == b"".join(kept)
    path.write_bytes(b"".join(kept[:3]) + kept[3][:100])
    resumed = searched()
    assert (resumed.new_runs, values(resumed)) == (complete.new_runs - 3, values(complete))
    assert path.read_bytes().startswith(b"".join(kept[:3]) + b'{"schema": 1')
    assert all(json.loads(line)["op"] == "softmax" for line in path.read_text().splitlines())


@pytest.mark.virtual_device
def test_host_failures_are_run_again(pool, tmp_path):
    path, case = tmp_path / "runs.jsonl", make_case("relu", ((32, 32),))
    record = pool.submit(case).result()
    setting = Setting("virtual", "n150", record.ttnn)
    for status, is_known in (("fits", True), ("oom", True), ("unsupported", True), ("crash", False), ("timeout", False)):
        path.write_text(json.dumps({**record.to_json(), "status": status}) + "\n")
        with Journal(path) as journal:
            assert (journal.known(case, setting) is not None) == is_known, status
            assert journal.known(case, Setting("virtual", "p150", record.ttnn)) is None


@pytest.mark.parametrize(
    "content",
    [
        b"hello\n",
        b"hello",
        b'{"a": 1}\n',
        b"[1, 2]\n",
        b'{"schema": 1, "run": ""}\n',
        b"\x00\xff\n",
        b'{"schema": 1, "op": "x"\nx',
    ],
)
def test_another_file_is_rejected_and_left_as_it_is(tmp_path, content):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(HarnessError, match="file: expected one record per line"):
        Journal(path)
    assert path.read_bytes() == content


def test_a_journal_truncated_in_its_first_line_starts_again(tmp_path):
    path = tmp_path / "file"
    for truncated in (b"", b"{", b'{"schema": 1', b'{"schema": 1, "run": "", "op": "re'):
        path.write_bytes(truncated)
        with Journal(path):
            assert path.read_bytes() == b""


def test_nothing_is_added_to_the_records_of_a_run(tmp_path):
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(HarnessError, match="holds the records of a run"):
        Journal(tmp_path / "records.jsonl")
    with pytest.raises(HarnessError, match="Is a directory"):
        Journal(tmp_path)


# The command ----------------------------------------------------------------------------------------------------------------

ADD = ("edge", "add", "1,64,160,100", "1,64,160,100", "--memory", "l1", "--max", "batch")


@pytest.mark.virtual_device
def test_the_command_prints_both_sides(run):
    done = run(*ADD)
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[:4] == [
        "add [1,64,160,100] [1,64,160,100] (bfloat16, tile, l1)  on virtual n150, ttnn 0.81.1",
        "largest batch: dim 0 of [1,64,160,100]",
        "11 fits: [11,64,160,100] [11,64,160,100]",
        "12 does not fit: L1 bank needs 491,520 B, 410,272 B free (output)",
    ]


@pytest.mark.virtual_device
def test_several_boards_side_by_side_and_as_json(run, tmp_path):
    """A p150 has 110 banks of 1,461,120 B: three tensors of n x 1,280 tiles have room up to n = 18."""
    done = run(*ADD, "--board", "n150,p150", "-o", "runs.jsonl")
    most = next(n for n in range(1, 99) if 3 * -(-1280 * (n + 1) // 110) * TILE > 1_461_120)
    rows = {line.split()[0]: line.split()[1:3] for line in done.out.splitlines() if line.startswith(("n150 ", "p150 "))}
    assert rows == {"n150": ["11", "12"], "p150": [str(most), str(most + 1)]}
    again = run(*ADD, "--board", "n150,p150", "-o", "runs.jsonl", "--json")
    results = [json.loads(line) for line in again.out.splitlines()]
    assert [(m["board"], m["fit"]["value"], m["fail"]["value"], m["runs"]) for m in results] == [
        ("n150", 11, 12, 0),
        ("p150", most, most + 1, 0),
    ]
    assert results[0]["fail"]["shortfall_bytes"] == 491_520 - 410_272
    assert all(m["is_confirmed"] and m["is_monotone_as_run"] and not m["contradicted"] for m in results)


@pytest.mark.virtual_device
def test_ctrl_c_leaves_a_journal_from_which_the_search_continues(tmp_path):
    path = tmp_path / "runs.jsonl"
    call = ["edge", "convolution", "1,128,768,256", "128,128,3,3", "--attr", "padding=1", "--min", "slices", "-o", str(path)]
    program = [sys.executable, "-m", "ssinghal", *call]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_for(lambda: path.exists() and path.read_bytes().count(b"\n") >= 2, "two runs")
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, output, errors) == (130, "", "ssinghal: interrupted\n")
    known = path.read_bytes().count(b"\n")
    done = subprocess.run([*program, "--doubts", "60"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert f" and {known} reused from the journal in " in done.stdout


@pytest.mark.virtual_device
def test_exit_code_1_where_nothing_fits(run):
    done = run("edge", "add", "1,64,640,400", "1,64,640,400", "--memory", "l1", "--max", "batch")
    assert (done.code, "nothing fits, tried 1" in done.out) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("relu", "4,4"), "give one of these: --max batch|resolution|sequence, --min slices|l1_small"),
        (("relu", "4,4", "--max", "batch", "--min", "slices"), "give one of these"),
        (("--max", "batch"), "give an operator and its shapes"),
        (("rleu", "4,4", "--max", "batch"), "did you mean"),
        (("relu", "4,x", "--max", "batch"), "4,x"),
        (("relu", "4,4", "--max", "width"), "unknown --max 'width'; known: batch, resolution, sequence"),
        (("relu", "4,4", "--max", "batch", "--dim", "x"), "expected whole numbers"),
        (("relu", "4,4", "--max", "batch", "--step", "0"), "--step"),
        (("relu", "4,4", "--max", "batch", "--board", "n150,n1500"), "n1500"),
        (("relu", "4,4", "--max", "batch", "--ttnn", "0.70.1"), "gives no full verdicts on a virtual device"),
        (("relu", "4,4", "--max", "batch", "-o", "."), "is a directory"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(run, arguments, message):
    done = run("edge", *arguments)
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("relu", "4,4", "--max", "resolution"), "ssinghal: relu: [4, 4] is no map of rank 4 or 5"),
        (("add", "4,4", "3,4", "--max", "batch"), "ssinghal: shapes [4, 4] and [3, 4] do not broadcast"),
        (("relu", "4,4", "--max", "batch", "--dim", "5"), "ssinghal: dim 5 is outside -2..1"),
    ],
)
def test_a_call_without_the_parameter_costs_one_line_and_opens_no_device(run, monkeypatch, arguments, message):
    monkeypatch.setattr("ssinghal.cli.edge.Pool", None)
    done = run("edge", *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(message)
    assert done.err.count("\n") == 1


# Shards -------------------------------------------------------------------------------------------------------------------


def test_the_largest_batch_in_shards_that_are_chosen_for_each_size(pool):
    """98 tiles of rows per batch over 64 cores, 2 tiles wide, twice; above the base, relu's program has 2 x 2 tiles."""
    rows = (1_499_136 - 105_824 - 4 * TILE) // (2 * 2 * TILE)
    for cores in (None, Cores.grid(8, 8)):
        placement = Placement(memory=BufferType.L1, sharding=Sharding(ShardKind.HEIGHT, cores))
        result = edge_of(pool, Goal.BATCH, "relu", (1, 1, 3136, 64), placement=placement)
        assert (result.fit.value, result.fail.value) == (rows * 64 // 98, rows * 64 // 98 + 1)


@pytest.mark.parametrize(
    ("memory", "message"),
    [
        (
            "l1:height@8x8:64x64",
            "batch: the shape of the shards height@8x8:64x64 is fixed; height@8x8 has one chosen for each size",
        ),
        ("l1:nd:1x1x64x64", "batch: the shape of the shards nd:1x1x64x64 is fixed"),
        ("l1:height@9x8", "shards l1:height@9x8:64x64: they reach over 9x8 cores; n150 has 8x8 for l1"),
    ],
)
def test_shards_that_cannot_follow_the_size(run, memory, message):
    done = run("edge", "relu", "1,1,3136,64", "--memory", memory, "--max", "batch")
    assert (done.code, done.out, done.err.strip()) == (2, "", f"ssinghal: {message}")


def test_dtypes_and_shards_of_single_operands(run):
    done = run(
        "edge", "matmul", "1,1,3136,64/l1:height", "64,256/bfloat8_b/dram", "--output-memory", "l1:height",
        "--max", "sequence", "--upto", "6400", "--json",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert json.loads(done.out)["fit"]["value"] == 6400
