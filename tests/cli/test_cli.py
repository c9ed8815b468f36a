"""The command line: what each command prints and its exit code, for bad input, output and machines as well."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from ssinghal.cli import cli
from ssinghal.core.boards import load_board
from ssinghal.device.virtual_cache import scratch_folder, virtual_home
from ssinghal.operators import operators
from tests.support.commands import COMMANDS
from tests.support.environments import one_line, run_without
from tests.support.processes import BLOCKED, LISTED_NAMES, all_ended, read_lines, wait_for

PROGRAM = [sys.executable, "-c", "from ssinghal.cli import main; main()"]

ADD = ["add", "1,64,640,400", "1,64,640,400", "--memory", "l1", "--channels-last"]
SMALL_RELU = {"op": "relu", "inputs": [[1, 32]]}


# Help ----------------------------------------------------------------------------------------------------------------------


def test_the_commands():
    assert {" ".join(path) for path in COMMANDS} == {
        "baseline", "catalog", "catalog capture", "catalog check", "catalog diff", "catalog find", "catalog import",
        "catalog list", "catalog recapture", "compare", "completion", "compress", "diagnose", "doctor", "edge", "estimate",
        "exec", "export-visualizer", "history", "merge", "operators", "plan", "precision", "probe", "profile",
        "profile compare", "profile export", "profile report", "profile run", "recheck", "releases",
        "releases add", "releases list", "releases remove", "releases run", "remedy", "report", "run", "sweep",
    }  # fmt: skip


@pytest.mark.parametrize("path", [(), *COMMANDS], ids=" ".join)
def test_every_command_and_option_has_help(run, path):
    command = COMMANDS.get(path, cli)
    assert command.help
    assert [o.name for o in command.params if isinstance(o, click.Option) and not o.help] == []
    for flag in ("--help", "-h"):
        shown = run(*path, flag)
        assert (shown.code, shown.err) == (0, "")
        assert shown.out.startswith(f"Usage: ssinghal{''.join(f' {name}' for name in path)} ")


def test_help_needs_neither_torch_nor_ttnn_and_imports_nothing_slow(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(BLOCKED)
    code = "import atexit, sys; from ssinghal.cli import main; atexit.register(lambda: print(sorted(sys.modules))); main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "--help"], env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Usage: ssinghal ")
    imported = set(done.stdout.splitlines()[-1].strip("[]").replace("'", "").split(", "))
    assert "sitecustomize" in imported
    assert not imported & {"torch", "ttnn", "pydantic", "pytest", "rich", "numpy", "hypothesis"}


# Bad use: one line, exit code 2 --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["estimate", "probe"])
@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["rleu", "1,32"], "unknown operator 'rleu'; did you mean relu"),
        (["Tensor", "1,32"], "'Tensor' is not an operator: "),
        (["relu", "1,32", "--board", "n15"], "unknown board 'n15'; did you mean n150, p150?"),
        (["relu", "1,32", "--dtype", "float16"], "unknown dtype 'float16'; did you mean bfloat16, float32"),
        (["relu", "1,32", "--layout", "rowmajor"], "unknown layout 'rowmajor'; did you mean row_major?"),
        (["relu", "1,32", "--memory", "dam"], "unknown memory 'dam'; did you mean dram?"),
        (["relu", "1,32", "--output-memory", "ttn"], "unknown output_memory 'ttn'; did you mean ttnn?"),
        (["add", "1,32", "1,32", "--attr", "alpah=2"], "unknown attribute of add 'alpah'; did you mean alpha?"),
        (["relu", "1,32", "--attr", "dim=1"], "unknown attribute of relu 'dim'; there is none"),
        (["add", "1,32", "1,32", "--attr", "alpha"], "attribute 'alpha': expected NAME=VALUE"),
        (["add", "1,32", "1,32", "--attr", "alpha=2", "--attr", "alpha=3"], "alpha is given twice"),
        (["clamp", "1,32", "--attr", "min=NaN"], "attribute min: NaN is not a finite number"),
        (["relu", ""], "shape '': expected whole numbers like 1,64,80,80"),
        (["relu", "[]"], "shape '[]': expected whole numbers like 1,64,80,80"),
        (["relu", "1,2,3,4,5,6,7,8,9"], "relu: input shape [1, 2, 3, 4, 5, 6, 7, 8, 9] has rank 9; expected 1 to 8"),
        (["relu", "1,0"], "relu: input shape [1, 0]: size 0 is outside 1..4294967295"),
        (["relu", "1,-32"], "relu: input shape [1, -32]: size -32 is outside 1..4294967295"),
        (["relu", "4294967296"], "relu: input shape [4294967296]: size 4294967296 is outside 1..4294967295"),
        (["relu", "1.5,32"], "shape '1.5,32': expected whole numbers like 1,64,80,80"),
        (["relu", "a,b"], "shape 'a,b': expected whole numbers like 1,64,80,80"),
        (["relu", "9" * 5000], "shape '999"),
        (
            ["relu", "1,32", "--l1-small", "2000000000"],
            "l1_small_size 2000000000 is outside 0..1393311, the L1 of one core of n150",
        ),
        (["relu", "1,32", "--dtype", "bfloat8_b", "--layout", "row_major"], "bfloat8_b exists in tile layout only"),
    ],
)
def test_an_impossible_case_is_one_line(run, command, arguments, line):
    result = run(command, *arguments)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"ssinghal: {line}")
    assert result.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["add", "1,32"], "add takes two tensors, or one tensor and the number other"),
        (["permute", "1,32"], "permute: attribute dims is missing"),
        (["unsqueeze", "1,32", "--attr", "dim=1.5"], "unsqueeze: attribute dim=1.5 is not int"),
        (["concat", "1,32", "1,1,32", "--attr", "dim=2"], "dim 2 is outside -2..1"),
        (["upsample_nearest2d", "1,3,8,8", "--attr", "scales_h=1e308"], "upsample: 8 times 1e+308 is outside 1..4294967295"),
        (
            ["upsample_nearest2d", "1,3,8,8", "--attr", "scale_factors=2,2,2"],
            "upsample: scale_factors [2, 2, 2] are not two numbers",
        ),
    ],
)
def test_an_impossible_call_is_one_line(run, arguments, line):
    result = run("estimate", *arguments)
    assert (result.code, result.out, result.err) == (2, "", f"ssinghal: {line}\n")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ([], "Usage: ssinghal"),
        (["prob"], "ssinghal: unknown command 'prob'; did you mean probe, profile?"),
        (["estimate"], "give an operator and its shapes"),
        (["estimate", "relu", "1,32", "--memroy", "l1"], "No such option '--memroy'. (Did you mean one of: '--memory'"),
        (["estimate", "relu", "1,32", "--l1-small", "x"], "'x' is not a valid integer"),
        (["probe"], "give an operator and its shapes, or --from FILE"),
        (["probe", "relu", "1,32", "--from", "f"], "each line of the file has its own operator"),
        (["probe", "--from", "f", "--memory", "l1"], "each line of the file has its own operator"),
        (["probe", "--from", "f", "--attr", "dim=1"], "each line of the file has its own operator"),
        (["probe", "relu", "1,32", "--timeout", "nan"], "expected a number of seconds above 0"),
        (["probe", "relu", "1,32", "--timeout", "0"], "expected a number of seconds above 0"),
        (["probe", "relu", "1,32", "--timeout", "1e300"], "expected a number of seconds above 0 and up to 1,000,000"),
        (["probe", "relu", "1,32", "--attr", f"a={'[' * 900}{']' * 900}"], "nested too deep"),
        (["probe", "relu", "1,32", "--host-tiles", "0"], "0 is not in the range"),
        (["probe", "relu", "1,32", "--workers", "0"], "0 is not in the range"),
        (["probe", "relu", "1,32", "--device", "virtal"], "unknown device mode 'virtal'; did you mean virtual?"),
        (["probe", "--from", "missing.jsonl"], "missing.jsonl: No such file or directory"),
        (["probe", "--from", "."], "'.' is a directory"),
        (["exec"], "Missing argument 'COMMAND...'"),
        (["profile", "--"], "Missing argument 'COMMAND...'"),
        (["profile", "--", "compare"], "no program 'compare' on PATH"),
        (["profile", "compar", "a", "b"], "no command 'compar'; did you mean compare?"),
        (["profile", "compare", "a"], "Missing argument 'AFTER'"),
        (["profile", "compare", "a", "b"], "a: no such file or folder: expected a profile"),
        (
            ["profile", "compare", "a", "b", "--fail-on-increase", "1.%"],
            "increase '1.%': expected a share such as 1%, or a size",
        ),
        (["profile", "report", "a"], "a: no such file or folder: expected a profile"),
        (["exec", "--", "no_such_program"], "no program 'no_such_program' on PATH"),
        (["exec", "--board", "n15", "true"], "unknown board 'n15'; did you mean n150, p150?"),
        (["baseline", "--board", "n15"], "unknown board 'n15'; did you mean n150, p150?"),
        (["catalog", "check", "no_such_catalog"], "unknown catalog 'no_such_catalog'"),
    ],
)
def test_bad_use_is_exit_code_2(run, arguments, line):
    result = run(*arguments)
    assert (result.code, result.out) == (2, "")
    assert line in result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize(
    "arguments", [["probe", "r" * 5000, "1,32"], ["estimate", "relu", "9" * 4000], ["probe", "relu", "1," * 5000]]
)
def test_long_input_is_shortened_in_messages(run, arguments):
    result = run(*arguments)
    assert result.code == 2
    assert "characters) …" in result.err
    assert len(result.err) < 600


# estimate, operators, catalog ----------------------------------------------------------------------------------------------


def test_estimate(run):
    """[1, 640, 400, 64] in tiles of 32x32: 640 * 13 * 2 = 16,640 of 2,048 B, 260 of them in each of 64 banks."""
    result = run("estimate", *ADD, "--board", "n150", "--json")
    estimate = json.loads(result.out)
    assert result.code == 1
    assert (estimate["verdict"], estimate["resource"], estimate["stage"]) == ("exceeds", "l1_buffer", "output")
    assert (estimate["total_bytes"], estimate["bytes_per_bank"], estimate["banks"]) == (16_640 * 2_048, 260 * 2_048, 64)
    assert (estimate["op"], estimate["board"]) == ("add", "n150")
    text = run("estimate", *ADD)
    assert text.code == 1
    assert text.out.splitlines()[-1].startswith("exceeds (l1_buffer): output needs 532,480 B in each L1 bank")
    assert run("estimate", *ADD, "--board", "p150").code == 0


@pytest.mark.parametrize("shape", ["1,64,80", "1x64x80", "[1, 64, 80]", "(1,64,80)"])
def test_ways_to_write_a_shape(run, shape):
    assert json.loads(run("estimate", "relu", shape, "--json").out)["inputs"] == [[1, 64, 80]]


@pytest.mark.parametrize(
    ("text", "value"),
    [("2", 2), ("-0.5", -0.5), ("1,-1", [1, -1]), ("[3]", [3]), ("true", True), ("None", None), ("nearest", "nearest")],
)
def test_ways_to_write_an_attribute(text, value):
    from ssinghal.cli.requests import parse_attr

    assert parse_attr(f"name={text}") == ("name", value)


def test_operators(run):
    matrix = json.loads(run("operators", "--json").out)
    listed = {name for row in matrix["operators"] for name in (row["operator"], *row["aliases"])}
    assert set(LISTED_NAMES) <= listed == set(operators())
    rows = {row["operator"]: row for row in matrix["operators"]}
    assert (rows["add"]["ttnn"], rows["add"]["layouts"]) == ("ttnn.add", ["tile", "row_major"])
    assert rows["add"]["cases"] > 0
    assert rows["as_strided"]["layouts"] == []
    assert "no strides" in rows["as_strided"]["limitations"][0]
    assert {"Tensor", "Scalar", "int", "dim"} <= set(matrix["not_operators"])
    # Pieces of a dropout would draw other numbers; TT-MLIR has no roll.
    lacks = {
        "add": [], "softmax": [], "roll": ["mlir"], "dropout": ["cutting", "mlir"], "convolution": [],
        "conv_transpose2d": [], "arange": ["lowering", "cutting", "resizing", "mlir"],
    }  # fmt: skip
    assert {name: rows[name]["lacks"] for name in lacks} == lacks


def test_catalog(run, tmp_path):
    result = run("catalog", "check")
    assert (result.code, result.err) == (0, "")
    catalogs, lines = re.fullmatch(r"([0-9]+) catalogs, ([0-9,]+) lines: ok\n", result.out).groups()
    listed = json.loads(run("catalog", "list", "--json").out)
    assert len(listed) == int(catalogs)
    assert sum(row["lines"] for row in listed) == int(lines.replace(",", ""))
    title, *table = run("catalog", "list", "mochi", "torchvision-resnet50-1280x800").out.splitlines()
    assert title.split() == ["catalog", "lines", "calls", "level", "title"]
    assert [row.split()[:1] + row.split()[2:4] for row in table] == [
        ["crossed/mochi", "-", "-"],
        ["captured/torchvision-resnet50-1280x800", "175", "aten"],
    ]
    (tmp_path / "broken.yaml").write_text(
        "schema: 1\nkind: crossed\ntitle: x\nplacemnt: {}\norigins: []\noperators: {rleu: [{shape: [0]}]}\n"
    )
    result = run("catalog", "check", "broken.yaml")
    assert (result.code, result.out) == (2, "")
    errors = result.err.splitlines()
    assert len(errors) >= 3
    assert all(error.startswith("broken.yaml:") for error in errors)


# doctor --------------------------------------------------------------------------------------------------------------------


def test_without_ttnn_the_command_that_installs_it_is_named(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(BLOCKED)
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*PROGRAM, *arguments], env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=60)

    doctor = run("doctor", "--device", "virtual")
    lines = doctor.stdout.splitlines()
    assert doctor.returncode == 1
    assert lines[lines.index("FAIL ttnn: not installed") + 1].endswith("pip install 'ssinghal[device]'")
    assert any(line.startswith("FAIL device: ttnn is not installed") for line in lines)
    probe = run("probe", "relu", "1,32")
    assert probe.returncode == 2
    assert probe.stderr.startswith("ssinghal: ttnn is not installed in this environment; install it with: pip install")
    assert probe.stderr.count("\n") == 1


def test_doctor_states_why_a_mode_is_not_available(run):
    result = run("doctor", "--device", "simulator", "--json")
    checks = {check["name"]: check for check in json.loads(result.out)["checks"]}
    assert result.code == 1
    assert not checks["device"]["ok"]
    assert "set TT_METAL_SIMULATOR" in checks["device"]["found"]


@pytest.mark.virtual_device
@pytest.mark.parametrize("name", ["n150", "p150"])
def test_doctor_opens_the_board_that_the_board_file_describes(run, name):
    result = run("doctor", "--device", "virtual", "--board", name, "--json")
    answer = json.loads(result.out)
    device, board = answer["device"], load_board(name)
    assert result.code == 0
    assert (device["mode"], device["board"], device["arch"], tuple(device["grid"])) == ("virtual", name, board.arch, board.grid)
    for kind, region in (("l1", board.l1), ("dram", board.dram)):
        assert device[kind] == vars(region)
    assert device["l1_base_bytes"] == board.reserved_base_bytes
    assert (device["reason"], device["ttnn"]) == ("requested", answer["versions"]["ttnn"])
    assert "a program beyond L1 was rejected" in device["proof"]
    assert all(check["ok"] for check in answer["checks"])


def test_doctor_cleans_unless_a_process_has_a_device_open(run, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home = virtual_home()
    kernels = home / "ttnn-0.81.1-00000000" / "kernels"
    kernels.mkdir(parents=True)
    with scratch_folder() as scratch:
        rejected = run("doctor", "--clean")
        assert rejected == (2, "", f"ssinghal: {home} is in use; end what uses it, or remove its folder: {scratch}\n")
        assert kernels.exists()
        assert scratch.exists()
    assert run("doctor", "--clean") == (0, f"removed {home}\n", "")
    assert [path for path in home.rglob("*") if path.is_dir()] == []


# probe ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.virtual_device
def test_probe_one_case(run, tmp_path):
    result = run("probe", *ADD, "--json")
    record = json.loads(result.out)
    assert (result.code, result.err) == (1, "")
    numbers = {key: record[key] for key in ("status", "resource", "total_bytes", "bytes_per_bank", "banks")}
    assert numbers == {
        "status": "oom",
        "resource": "l1_buffer",
        "total_bytes": 34_078_720,
        "bytes_per_bank": 532_480,
        "banks": 64,
    }
    assert record["estimate"]["verdict"] == "exceeds"
    assert (record["device_mode"], record["numerics"]) == ("virtual", "not run")

    text = run("probe", *ADD)
    lines = text.out.splitlines()
    assert text.code == 1
    assert lines[0].startswith("add [1,64,640,400] [1,64,640,400]  on virtual n150, ttnn ")
    assert lines[1] == "OOM: L1 bank needs 532,480 B, 328,352 B free (output)"
    assert "short by 199.3 KiB (204,128 B) per bank" in lines  # 532,480 - 328,352
    assert lines[-1] == "numerics not run: a virtual device gives memory verdicts only"
    assert list(tmp_path.iterdir()) == []

    written = run("probe", "relu", "1,32", "-o", "record.jsonl")
    assert (written.code, written.out) == (0, "")
    assert [r["status"] for r in read_lines(tmp_path / "record.jsonl")] == ["fits"]
    full = run("probe", "relu", "1,32", "-o", "/dev/full")
    assert (full.code, full.err) == (2, "ssinghal: cannot write /dev/full: No space left on device\n")


@pytest.mark.virtual_device
def test_probe_a_file(run, tmp_path):
    """One record a line in the order of the cases, the first of which takes longest."""
    cases = [
        {"op": "unsqueeze", "inputs": [[1, 2048, 2048]], "attrs": {"dim": -1}},  # 131,072 tiles mapped on the host
        {
            "op": "view", "inputs": [[1, 640, 400, 64]], "attrs": {"size": [1, 64, 640, 400]}, "dtype": "bfloat16",
            "layout": "tile", "memory": "l1", "output_memory": "same", "channels_last": False,
        },
        SMALL_RELU,
        {"op": "add", "inputs": [[1, 64, 640, 400]] * 2, "memory": "l1", "channels_last": True},
        {"op": "relu", "inputs": [[1, 32]], "attrs": {"alpah": 1}},
        {"op": "as_strided", "inputs": [[1, 32]], "attrs": {"size": [32], "stride": [1]}},
        {"op": "ones", "inputs": [[1, 64]]},
    ]  # fmt: skip
    text = "\n\n".join(map(json.dumps, cases)) + "\n"
    (tmp_path / "cases.jsonl").write_text(text)

    result = run("probe", "--from", "cases.jsonl", "-o", "records.jsonl", "--workers", "2")

    assert result == (0, "", "")
    records = read_lines(tmp_path / "records.jsonl")
    assert [r["op"] for r in records] == [c["op"] for c in cases]
    assert [r["status"] for r in records] == ["fits", "fits", "fits", "oom", "invalid", "unsupported", "fits"]
    assert [r["inputs"] for r in records[:-1]] == [c["inputs"] for c in cases[:-1]]
    assert records[-1]["attrs"] == {"size": [1, 64]}
    assert records[3]["bytes_per_bank"] == 532_480
    assert {r["device_mode"] for r in records} == {"virtual"}

    relu = (json.dumps(SMALL_RELU) + "\r\n").encode()
    piped = run("probe", "--from", "-", stdin=b"\xef\xbb\xbf" + relu * 2)  # as Windows writes it
    assert (piped.code, piped.err) == (0, "")
    assert [json.loads(line)["status"] for line in piped.out.splitlines()] == ["fits", "fits"]

    unwritable = run("probe", "--from", "cases.jsonl", "-o", "no_such_folder/records.jsonl")
    message = "ssinghal: cannot write no_such_folder/records.jsonl: No such file or directory\n"
    assert unwritable == (2, "", message)
    over_itself = run("probe", "--from", "cases.jsonl", "-o", "cases.jsonl")
    assert over_itself == (2, "", "ssinghal: cases.jsonl: holds the cases; write the records elsewhere\n")
    assert (tmp_path / "cases.jsonl").read_text() == text


def test_a_rejected_file_runs_and_writes_nothing(run, tmp_path):
    output = tmp_path / "records.jsonl"
    output.write_text("what was there\n")
    (tmp_path / "cases.jsonl").write_text(f"{json.dumps(SMALL_RELU)}\n{{}}\nnot json\n")
    result = run("probe", "--from", "cases.jsonl", "-o", "records.jsonl")
    assert (result.code, result.out) == (2, "")
    assert result.err.splitlines() == [
        "cases.jsonl:2: op: expected an operator's name, got None",
        "cases.jsonl:3: not JSON: Expecting value (column 1)",
    ]
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    assert run("probe", "--from", "binary", "-o", "records.jsonl").err == "ssinghal: binary: not UTF-8 text (byte 128)\n"
    assert run("probe", "--from", "-", "-o", "records.jsonl", stdin=b"\xff").err == "ssinghal: -: not UTF-8 text (byte 0)\n"
    assert output.read_text() == "what was there\n"


@pytest.mark.virtual_device
@pytest.mark.virtual_device
def test_a_killed_probe_leaves_complete_lines(tmp_path):
    slow = {"op": "unsqueeze", "inputs": [[1, 2048, 2048]], "attrs": {"dim": -1}}
    (tmp_path / "cases.jsonl").write_text("\n".join(map(json.dumps, [SMALL_RELU, *[slow] * 50])))
    output = tmp_path / "records.jsonl"
    arguments = ["probe", "--from", "cases.jsonl", "-o", str(output), "--workers", "1"]
    process = subprocess.Popen([*PROGRAM, *arguments], cwd=tmp_path)
    try:
        wait_for(lambda: output.exists() and output.stat().st_size > 0, "the first record")
    finally:
        process.kill()
        process.wait()
    records = read_lines(output)
    assert 1 <= len(records) < 51
    assert records[0]["op"] == "relu"


@pytest.mark.virtual_device
def test_probe_runs_costly_host_work_where_it_may(run):
    """A tile for every 32 values of [1, 64, 4096], 8,192 of them."""
    arguments = ["probe", "unsqueeze", "1,64,4096", "--attr", "dim=-1", "--json"]
    rejected, ran = (json.loads(run(*arguments, "--host-tiles", limit).out) for limit in ("8191", "8192"))
    assert (rejected["status"], ran["status"]) == ("not_run", "fits")
    assert rejected["message"] == "TTNN maps 8,192 tiles on the host for this call; more than 8,191 are not tried"


@pytest.mark.parametrize("text", ["", "\n\n"])
def test_a_file_without_a_case_is_bad_input(run, tmp_path, text):
    (tmp_path / "empty.jsonl").write_text(text)
    line = "ssinghal: empty.jsonl: no case in it, nothing to probe\n"
    assert run("probe", "--from", "empty.jsonl", "-o", "records.jsonl") == (2, "", line)
    assert not (tmp_path / "records.jsonl").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["run"],
        ["run", "torchvision-resnet50-224x224", "--remedies"],
        ["probe", "relu", "32,32"],
        ["probe", "--from", "cases.jsonl"],
        ["edge", "relu", "1,32,32,32", "--max", "batch"],
        ["remedy", "relu", "32,32"],
    ],
)
def test_without_ttnn_nothing_is_selected_run_or_written(tmp_path, arguments):
    (tmp_path / "cases.jsonl").write_text(json.dumps(SMALL_RELU) + "\n")
    done = run_without(("ttnn",), tmp_path, *arguments)
    one_line(done, "ttnn is not installed in this environment")
    assert {path.name for path in tmp_path.iterdir()} == {"cases.jsonl", "links"}


@pytest.mark.virtual_device
@pytest.mark.parametrize("arguments", [["unsqueeze", "1,8192,8192", "--attr", "dim=-1"], ["--from", "cases.jsonl"]])
def test_ctrl_c_ends_a_probe_in_one_line(tmp_path, arguments):
    slow = {"op": "unsqueeze", "inputs": [[1, 8192, 8192]], "attrs": {"dim": -1}}
    (tmp_path / "cases.jsonl").write_text("\n".join(map(json.dumps, [slow] * 4)))
    command = [*PROGRAM, "probe", *arguments, "--host-tiles", "99999999"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True)
    wait_for(lambda: bool(descendants(process.pid)), "a device process")
    started = descendants(process.pid)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does, when the device process has hardly begun
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "ssinghal: interrupted\n")
    wait_for(lambda: all_ended(started), "the end of the device processes")


def descendants(pid: int) -> list[int]:
    return [int(child) for task in Path(f"/proc/{pid}/task").glob("*/children") for child in task.read_text().split()]


@pytest.mark.virtual_device
@pytest.mark.parametrize(
    ("redirection", "arguments", "code", "out", "err"),
    [
        ("<&-", "--from -", 2, "", "ssinghal: -: standard input is closed\n"),
        (">&-", "--from cases.jsonl", 2, "", "ssinghal: standard output is closed; write the records to a file with -o\n"),
        ("<&- >&- 2>&-", "--from cases.jsonl -o records.jsonl", 0, "", ""),
        ("<&- >&- 2>&-", "relu 1,32", 0, "", ""),
        ("<&-", "relu 1,32", 0, "relu [1,32]  on virtual n150", ""),
    ],
)
def test_closed_standard_streams(tmp_path, redirection, arguments, code, out, err):
    (tmp_path / "cases.jsonl").write_text("\n".join(map(json.dumps, [SMALL_RELU] * 3)))
    command = f"exec {shlex.join([*PROGRAM, 'probe'])} {arguments} {redirection}"
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (code, err)
    assert done.stdout.startswith(out)
    if "-o" in arguments:
        assert [r["status"] for r in read_lines(tmp_path / "records.jsonl")] == ["fits"] * 3


def test_the_package_runs_as_a_module():
    done = subprocess.run([sys.executable, "-m", "ssinghal", "--help"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: ssinghal ")


def test_a_reader_that_stops_reading_is_no_error():
    with subprocess.Popen([*PROGRAM, "operators"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().split() == [b"operator", b"also", b"ttnn", b"layouts", b"cases"]
        process.stdout.close()
        assert process.stderr.read() == b""


# exec ----------------------------------------------------------------------------------------------------------------------

OPEN_A_DEVICE = """
import os, sys, tempfile, ttnn
device = ttnn.open_device(device_id=0)
tempfile.mkstemp()
grid = device.compute_with_storage_grid_size()
config = {"dtype": ttnn.bfloat16, "layout": ttnn.TILE_LAYOUT, "memory_config": ttnn.L1_MEMORY_CONFIG}
try:
    ttnn.empty([1, 1, 32768, 32768], device=device, **config)
except RuntimeError as error:
    print(os.getpid(), "Out of Memory" in str(error), grid.x, grid.y, *sys.argv[1:])
ttnn.close_device(device)
sys.exit(7)
"""


@pytest.mark.virtual_device
def test_exec_runs_a_ttnn_program_on_a_virtual_board_and_leaves_nothing(tmp_path):
    (tmp_path / "program.py").write_text(OPEN_A_DEVICE)
    work, temporary, shared = tmp_path / "work", tmp_path / "temporary", Path("/dev/shm")
    work.mkdir()
    temporary.mkdir()
    before = set(shared.iterdir())
    done = subprocess.run(
        [*PROGRAM, "exec", "--board", "p150", "python", "../program.py", "--board", "x"],
        cwd=work,
        env={**os.environ, "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 7, done.stderr
    pid, *printed = done.stdout.split()
    assert printed == ["True", "11", "10", "--board", "x"]
    notice = "ssinghal: virtual p150: memory verdicts are TTNN's own, every value read back is meaningless\n"
    assert done.stderr.startswith(notice)  # then the report of the call that the program handled
    assert [*work.iterdir(), *temporary.iterdir()] == []
    left = {path.name for path in set(shared.iterdir()) - before}
    assert not [name for name in left if pid in name or name.startswith("tt_device")]


WAIT_FOR_SIGNALS = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
signal.signal(signal.SIGINT, lambda *_: sys.exit(6))
print(os.getpid(), os.environ["TMPDIR"], flush=True)
time.sleep(60)
"""


@pytest.mark.virtual_device
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 5), (signal.SIGINT, 6)])
def test_exec_passes_signals_on(tmp_path, number, code):
    command = [*PROGRAM, "exec", "--", "python", "-c", WAIT_FOR_SIGNALS]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    pid, scratch = process.stdout.readline().split()
    assert Path(scratch).is_dir()
    process.send_signal(number)
    assert process.wait(60) == code
    assert all_ended([int(pid)])
    assert not Path(scratch).exists()


@pytest.mark.virtual_device
def test_exec_reports_the_signal_that_ended_the_program(tmp_path):
    suicide = "import os; os.kill(os.getpid(), 9)"
    done = subprocess.run([*PROGRAM, "exec", "--", "python", "-c", suicide], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 128 + 9
