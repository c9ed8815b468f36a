"""``ssinghal remedy`` and ``ssinghal diagnose`` on the command line: output, files, exit codes."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from ssinghal.cli.remedy_run import FITS, NO_REMEDY, REMEDY, _summary
from ssinghal.core.boards import load_board
from ssinghal.core.verdict import Status, Verdict
from ssinghal.operators import make_case
from ssinghal.remedy.problem import Problem
from ssinghal.remedy.search import Remedies
from ssinghal.remedy.solver import solve_all
from ssinghal.remedy.text import RemedyReport, lines
from tests.support.run_builder import a_record, write_run

ADD = ("add", "1,64,640,400", "1,64,640,400", "--memory", "l1", "--channels-last")
PROGRAM = [sys.executable, "-c", "from ssinghal.cli import main; main()"]
LOGS = Path(__file__).parents[1] / "data" / "logs"
RAN_OUT = (
    "RuntimeError: TT_FATAL @ /project/tt_metal/impl/allocator/bank_manager.cpp:514: false\n"
    "info:\n"
    "Out of Memory: Not enough space to allocate 34078720 B L1 buffer across 64 banks, where each bank needs to store 532480 B,"
    " but bank size is 1393312 B (allocated: 1064960 B, free: 328352 B, largest free block: 328352 B).\n"
)


def executed(script):
    """Runs a script on the virtual board, as a user does."""
    command = [*PROGRAM, "exec", "python", str(script)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.mark.virtual_device
def test_one_call(run):
    done = run("remedy", *ADD, "--no-values")
    assert done.code == 0
    assert done.out.startswith(
        "add [1,640,400,64] [1,640,400,64] (bfloat16, tile, l1)  on n150\nfails: L1 bank needs 532,480 B"
    )
    assert "1. same tensor: in place" in done.out
    assert "values: not compared" in done.out


@pytest.mark.virtual_device
def test_the_script_of_a_remedy_runs_on_the_virtual_board(run, tmp_path):
    assert run("remedy", *ADD, "--no-values", "--script", "fits.py").code == 0
    text = (tmp_path / "fits.py").read_text()
    assert text.startswith("# same tensor: in place (the first operand is overwritten")
    assert "device = ttnn.open_device(device_id=0, l1_small_size=0)" in text
    done = subprocess.run(
        [sys.executable, "-m", "ssinghal", "exec", "python", str(tmp_path / "fits.py")],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.virtual_device
def test_the_output_file_is_complete_or_as_it_was(run, tmp_path, monkeypatch):
    """A script is written beside it; after an interruption the file has what it had."""
    assert run("remedy", *ADD, "--no-values", "-o", "out.jsonl", "--script", "fits.py").code == 0
    (line,) = (tmp_path / "out.jsonl").read_text().splitlines()
    assert json.loads(line)["case"]["op"] == "add"
    assert (tmp_path / "fits.py").read_text().startswith("# same tensor: in place")

    def interrupted(cases, *arguments, **options):
        yield from solve_all(cases[:1], *arguments, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr("ssinghal.cli.remedy_run.solve_all", interrupted)
    (tmp_path / "cases.jsonl").write_text('{"op": "relu", "inputs": [[32, 32]]}\n' * 2)
    assert run("remedy", "--from", "cases.jsonl", "-o", "out.jsonl").code == 130
    assert (tmp_path / "out.jsonl").read_text() == line + "\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cases.jsonl", "fits.py", "out.jsonl"]


@pytest.mark.virtual_device
def test_a_call_that_fits_needs_no_remedy(run):
    done = run("remedy", "relu", "1,64,80,80", "--memory", "l1")
    assert (done.code, "it fits: there is nothing to remedy" in done.out) == (0, True)


@pytest.mark.virtual_device
def test_a_call_that_no_strategy_makes_fit(run):
    done = run("remedy", "bmm", "1,136240,256", "1,256,136240", "--memory", "l1", "--json")
    assert done.code == 1
    answer = json.loads(done.out)
    assert answer["remedies"] == []
    assert all(refused["reason"] for refused in answer["refused"])


@pytest.mark.virtual_device
def test_many_cases_from_a_file_and_from_a_diagnosis(run, tmp_path):
    identity = {"op": "add", "inputs": [[1, 64, 640, 400]] * 2, "memory": "l1", "channels_last": True}
    lines = [identity, {"op": "relu", "inputs": [[32, 32]]}, {"line": 3, "case": {**identity, "op": "mul"}}]
    (tmp_path / "cases.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = run("remedy", "--from", "cases.jsonl", "-o", "out.jsonl", "--no-values")
    assert done.code == 0
    assert "3 cases: 2 have a remedy, 1 fits as it is\n" in done.out
    assert "kinds of remedies: 2 same tensor, 2 other memory, 2 chunked\n" in done.out
    answers = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [m["case"]["op"] for m in answers] == ["add", "relu", "mul"]
    assert [(m["status"], len(m["remedies"])) for m in answers] == [("oom", 3), ("fits", 0), ("oom", 3)]


@pytest.mark.parametrize(
    ("fitting", "helped", "helpless", "line"),
    [
        (1, 0, 0, "1 case: 1 fits as it is"),
        (2, 0, 0, "2 cases: 2 fit as they are"),
        (0, 1, 0, "1 case: 1 has a remedy"),
        (0, 0, 1, "1 case: 1 has none of those tried"),
        (2, 1, 0, "3 cases: 2 fit as they are, 1 has a remedy"),
        (1, 0, 2, "3 cases: 2 have none of those tried, 1 fits as it is"),
        (1, 1001, 1, "1,003 cases: 1,001 have a remedy, 1 fits as it is, 1 has none of those tried"),
    ],
)
def test_one_case_is_counted_in_the_singular(fitting, helped, helpless, line):
    outcomes = Counter({FITS: fitting, REMEDY: helped, NO_REMEDY: helpless})
    assert _summary(fitting + helped + helpless, +outcomes) == [line]


@pytest.mark.virtual_device
def test_the_failing_calls_of_a_run(run, tmp_path):
    ran_out = a_record("add", inputs=[[1, 64, 640, 400]] * 2, status="oom", channels_last=True)
    folder = write_run(tmp_path / "results", [ran_out, a_record("relu", (4, 4))])
    done = run("remedy", "--run", str(folder), "--no-values", "--json")
    assert done.code == 0, done.err
    assert [json.loads(line)["case"]["op"] for line in done.out.splitlines()] == ["add"]


@pytest.mark.virtual_device
def test_many_cases_are_a_line_each_unless_all_is_requested(run, tmp_path):
    (tmp_path / "cases.jsonl").write_text(
        "\n".join(
            json.dumps({"op": name, "inputs": [[1, 64, 640, 400]] * count, "memory": memory, "channels_last": True})
            for name, count, memory in (("add", 2, "l1"), ("mul", 2, "l1"), ("relu", 1, "dram"))
        )
    )
    short = run("remedy", "--from", "cases.jsonl", "--no-values")
    head, add, mul, relu, *rest = short.out.splitlines()
    assert head.split() == ["call", "runs", "out", "of", "made", "to", "fit", "by"]
    for line, name in ((add, "add"), (mul, "mul")):
        assert line.startswith(f"{name} [1,640,400,64]")
        assert " l1_buffer " in line
        assert "other memory: all in DRAM" in line
    assert relu.endswith("it fits as it is")
    assert "ttnn." not in short.out
    assert any(line.startswith("3 cases: ") for line in rest)
    assert "ttnn.add(" in run("remedy", "--from", "cases.jsonl", "--no-values", "--verbose").out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give one of these: an operator and its shapes, --from, --run, --catalog"),
        (("relu", "4,4", "--run", "latest"), "give one of these: an operator and its shapes"),
        (("relu", "4,x"), "4,x"),
        (("relu", "4,4", "-o", "nosuch/out.jsonl"), "cannot write nosuch/out.jsonl: there is no folder nosuch"),
        (("relu", "4,4", "--script", "nosuch/fits.py"), "cannot write nosuch/fits.py: there is no folder nosuch"),
        (("rleu", "4,4"), "relu"),
        (("--from", "none.jsonl"), "none.jsonl"),
        (("relu", "4,4", "--ttnn", "0.70.1"), "gives no full verdicts on a virtual device"),
        (("relu", "4,4", "--board", "n1500"), "n150"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(run, arguments, message):
    done = run("remedy", *arguments)
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err


@pytest.mark.virtual_device
def test_a_live_set_that_cannot_be_read(run):
    done = run("remedy", "relu", "4,4", "--live", "40MB@l1")
    expected = "ssinghal: --live 40MB@l1: expected SIZE@MEMORY in B, KiB, MiB or GiB: 400MiB@dram, 64KiB@l1; or a file\n"
    assert (done.code, done.err) == (2, expected)


@pytest.mark.virtual_device
def test_a_diagnosis_is_searched_for_its_calls(run, tmp_path):
    (tmp_path / "log").write_text(RAN_OUT)
    diagnosis = run(
        "diagnose", "log", "--call", "add 1,64,640,400 1,64,640,400 --memory l1 --channels-last", "--no-replay", "--json"
    )
    (tmp_path / "diagnosis.json").write_text(diagnosis.out)
    done = run("remedy", "--from", "diagnosis.json", "--no-values")
    assert (done.code, "1 case: 1 has a remedy" in done.out) == (0, True)
    (tmp_path / "nothing.json").write_text(json.dumps({"log": "x", "failures": [{"case": None}]}))
    assert run("remedy", "--from", "nothing.json").err == "ssinghal: nothing.json: no call in it\n"


@pytest.mark.virtual_device
def test_peaks_include_temporaries_and_other_buffers(run):
    """A pool from DRAM works in L1: TTNN's capture of the call shows how much. 60 MiB over 64 banks are 983,040 B."""
    pool = ("max_pool2d", "1,64,1080,1920", "--attr", "kernel_size=3,3", "--attr", "stride=2,2", "--attr", "padding=1,1")
    answer = json.loads(run("remedy", *pool, "--memory", "l1", "--no-values", "--json").out)
    dram = next(r for r in answer["remedies"] if r["lever"] == "all in DRAM")
    inside = json.loads(run("probe", *pool, "--memory", "dram", "--json").out)["usage"]["l1_bytes"]
    assert inside > 1_000_000
    assert dram["peak_includes_inside"]
    assert dram["peak_bytes_per_bank"]["l1"] == pytest.approx(inside, rel=0.05)
    relu = json.loads(
        run("remedy", "relu", "1,64,320,400", "--memory", "l1", "--channels-last", "--live", "60MiB@l1", "--json").out
    )
    assert relu["bytes_per_bank_before"]["l1"] == 983_040 + 2 * 266_240
    assert relu["remedies"][0]["peak_bytes_per_bank"]["l1"] == 983_040 + 266_240


# Diagnoses ------------------------------------------------------------------------------------------------------------------


@pytest.mark.virtual_device
def test_numbers_alone_give_candidates_that_are_replayed(run):
    """34,078,720 B with two operands placed: what the sum of two [1,64,640,400] of the shape sweep requests."""
    done = run("diagnose", "-", "--no-remedies", stdin=RAN_OUT.encode())
    assert done.code == 1
    assert "call: unknown; the text names no operation with its tensors" in done.out
    assert "candidates, not proven: what requests exactly these bytes" in done.out
    assert "replay of the candidate on virtual n150" in done.out
    assert "it fails with the same numbers, all 7" in done.out


@pytest.mark.virtual_device
def test_a_call_that_the_user_names_is_replayed_and_its_script_fails_alike(run, tmp_path):
    done = run(
        "diagnose", "-", "--call", "add 1,64,640,400 1,64,640,400 --memory l1 --channels-last", "--script", "repro.py",
        "--no-remedies", stdin=RAN_OUT.encode(),
    )  # fmt: skip
    assert (
        "replay on virtual n150, ttnn 0.81.1: it fails with the same numbers, all 7; nothing else was allocated here"
        in done.out
    )
    ran = subprocess.run(
        [sys.executable, "-m", "ssinghal", "exec", "python", str(tmp_path / "repro.py")],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 1
    assert "Not enough space to allocate 34078720 B L1 buffer across 64 banks" in ran.stderr


def test_a_log_without_failure(run):
    done = run("diagnose", "-", stdin=b"all is well\nmemory in use: 4 of 12 GiB\n")
    assert (done.code, done.out) == (0, "-: no failure in 2 lines\n")
    unclear = run("diagnose", "-", stdin=b"all is well\nwe hit Out of Memory yesterday, not today\n")
    assert (unclear.code, unclear.out.startswith("line 2: looks like a memory failure")) == (1, True)


def test_a_failure_of_another_kind_is_named_and_no_device_is_opened(run):
    text = b"RuntimeError: TT_FATAL @ /project/ttnn/a.cpp:1: x\ninfo:\nInputs to matmul must be tilized\n"
    done = run("diagnose", "-", stdin=text)
    assert done.code == 1
    assert "refused, no memory ran out: Inputs to matmul must be tilized" in done.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("none.log",), "none.log: No such file or directory"),
        (("-", "--module", "none.mlir"), "none.mlir: No such file or directory"),
        (("-", "--call", "rleu 4,4"), "relu"),
        (("-", "--call", "relu 4,4 --layout"), "--call 'relu 4,4 --layout': Option '--layout' requires an argument"),
        (("-", "--ttnn", "0.70.0"), "gives no full verdicts on a virtual device"),
    ],
)
def test_bad_input_of_a_diagnosis(run, arguments, message):
    done = run("diagnose", *arguments)
    assert done.code == 2
    assert message in done.err


def test_a_script_that_cannot_be_written_does_not_suppress_the_answer(run):
    done = run("diagnose", "-", "--no-replay", "--script", "repro.py", stdin=RAN_OUT.encode())
    assert done.code == 1
    assert "L1 bank needs 532,480 B, 328,352 B free" in done.out
    assert done.err == "ssinghal: repro.py: not written: no call was replayed\n"


def test_of_many_failures_some_are_explained_and_the_rest_counted(run):
    sizes = [532_480 + 2048 * i for i in range(30)]
    log = "".join(RAN_OUT.replace("532480", str(size)).replace("34078720", str(64 * size)) for size in sizes).encode()
    done = run("diagnose", "-", "--no-replay", "--json", stdin=log)
    shown = json.loads(done.out)
    assert (done.code, len(shown["failures"]), shown["more_failures"]) == (1, 20, 10)
    few = run("diagnose", "-", "--no-replay", "--most", "2", stdin=log)
    assert "28 more failures, 28 of them of memory, were only counted: --most N explains N" in few.out.splitlines()
    every = json.loads(run("diagnose", "-", "--no-replay", "--json", "--most", "100", stdin=log).out)
    assert (len(every["failures"]), every["more_failures"]) == (30, 0)


def test_options_that_exclude_each_other(run):
    done = run("diagnose", "-", "--no-replay", "--live", "1MiB@l1", stdin=RAN_OUT.encode())
    assert done.code == 2
    assert "--ttnn and --live set how to replay, which --no-replay excludes" in done.err
    done = run("remedy", "--catalog", "mochi", "--script", "x.py")
    assert done.code == 2
    assert "--script writes the remedy of one call" in done.err


@pytest.mark.virtual_device
def test_a_clash_is_replayed_with_the_buffers_that_its_address_implies(run):
    """Tensors reach from their lowest address to the end of L1, 1,499,136 B: 1,388,544 B are live where they start at
    110,592."""
    text = (
        "RuntimeError: TT_THROW @ /project/tt_metal/impl/dataflow_buffer/dataflow_buffer.cpp:3096: tt::exception\ninfo:\n"
        "Statically allocated dataflow buffers in program 4 clash with L1 buffers on core range [0-0 - 7-7]."
        " L1 buffer allocated at 110592 and static dataflow buffer region ends at 114016\n"
    )
    done = run("diagnose", "-", "--call", "relu 1,1,2048,2048", "--no-remedies", stdin=text.encode())
    assert (
        "with 1,388,544 B of each L1 bank allocated before, implied by the message: it fails with the same numbers, all 3"
        in done.out
    )


def test_binary_files_are_read_without_an_error(run, tmp_path):
    (tmp_path / "core").write_bytes(bytes(range(256)) * 4000)
    done = run("diagnose", "core", "--json")
    assert done.code == 0
    answer = json.loads(done.out)
    assert answer["failures"] == []
    assert answer["remarks"]


def test_reading_alone_needs_no_device(run):
    done = run(
        "diagnose", str(LOGS / "mochi_runtime.log"), "--module", str(LOGS / "mochi_module.mlir"), "--no-replay", "--json"
    )
    assert done.code == 1
    (failure,) = json.loads(done.out)["failures"]
    assert failure["operation"]["name"] == "ttnn.to_layout"
    assert failure["operation"]["results"] == ["%9"]
    assert failure["cores"] == "7-6..7-6"
    assert "ttnn.conv3d" in {op["name"] for op in failure["never_ran"]}
    assert failure["case"]["inputs"] == [[4, 4884480]]
    assert failure["replays"] == []


@pytest.mark.parametrize(("probes", "words"), [(0, "0 probes"), (1, "1 probe"), (2, "2 probes"), (1234, "1,234 probes")])
def test_the_probes_of_a_search_are_counted(probes, words):
    problem = Problem.of(make_case("relu", ((32, 32),)), Verdict(Status.OOM), load_board("n150"))
    text = lines(RemedyReport(Remedies(problem, probes=probes, seconds=0.35)))
    assert text[-1] == f"{words}, 0.35 s of search on the host"
