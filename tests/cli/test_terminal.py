"""The program in a shell: colours, pipes, full devices, interrupts and completion."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import COMMANDS
from tests.support.run_builder import a_record, write_run

PROGRAM = [sys.executable, "-m", "ssinghal"]
GREEN, RED, YELLOW, END = "\x1b[32m\x1b[1m", "\x1b[31m\x1b[1m", "\x1b[33m\x1b[1m", "\x1b[0m"
ADD = ["estimate", "add", "1,64,640,400", "1,64,640,400", "--memory", "l1", "--channels-last"]


# Colours -------------------------------------------------------------------------------------------------------------------


def on_a_terminal(*arguments: str, **environ: str) -> list[str]:
    """The lines that a terminal gets."""
    terminal, theirs = pty.openpty()
    kept = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    with subprocess.Popen([*PROGRAM, *arguments], stdout=theirs, stderr=theirs, env={**kept, **environ}):
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # a terminal that nobody has open any more
            while chunk := os.read(terminal, 4096):
                shown += chunk
    os.close(terminal)
    return shown.decode().splitlines()


@pytest.mark.parametrize(
    ("arguments", "colour", "verdict", "rest"),
    [
        (["estimate", "relu", "1,32"], GREEN, "fits", ": its tensors and program buffers fit"),
        (ADD, RED, "exceeds", " (l1_buffer): output needs 532,480 B in each L1 bank"),
    ],
)
def test_a_verdict_is_coloured_on_a_terminal_only(run, arguments, colour, verdict, rest):
    assert on_a_terminal(*arguments)[-1].startswith(f"{colour}{verdict}{END}{rest}")
    assert on_a_terminal(*arguments, NO_COLOR="1")[-1].startswith(f"{verdict}{rest}")
    assert on_a_terminal(*arguments, NO_COLOR="")[-1].startswith(colour)  # as no-color.org has it: set and not empty
    assert run(*arguments).out.splitlines()[-1].startswith(f"{verdict}{rest}")


@pytest.mark.virtual_device
def test_verdicts_of_a_device_are_coloured():
    arguments = ["--memory", "l1", "--device", "virtual"]
    assert on_a_terminal("probe", "relu", "1,32", *arguments)[1] == f"{GREEN}FITS{END}"
    oom = on_a_terminal("probe", "add", "1,64,640,400", "1,64,640,400", *arguments)[1]
    assert oom.startswith(f"{RED}OOM{END}: ")
    unsupported = on_a_terminal("probe", "as_strided", "1,32", "--attr", "size=[32]", "--attr", "stride=[1]", *arguments)[1]
    assert unsupported.startswith(f"{YELLOW}UNSUPPORTED{END}: ")


def test_json_has_no_colours():
    assert "\x1b" not in "".join(on_a_terminal(*ADD, "--json"))


# Progress ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "steps"),
    [
        (["report", "{b}"], ["reading the records", "comparing it with an earlier run", "writing the report of 3 cases"]),
        (["report", "{b}", "--since", "{a}"], ["comparing it with an earlier run"]),
        (["compare", "{a}", "{b}"], ["comparing the runs"]),
    ],
)
def test_a_terminal_shows_what_takes_long(run, arguments, steps, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    records = [a_record("relu", shape=(1, 32, 32 * n)) for n in (1, 2, 3)]
    paths = {name: str(write_run(tmp_path / "results", records, run=name)) for name in "ab"}
    command = [argument.format(**paths) for argument in arguments]
    shown = "\n".join(on_a_terminal(*command))
    assert [step for step in steps if step not in shown] == []
    assert run(*command).err == ""  # no terminal


# Pipes and full devices ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", ["operators", "operators --json", "catalog list", "--help", "probe --help"])
@pytest.mark.parametrize("reader", ["head -1", "true"])
def test_a_closed_pipe_is_no_error(arguments, reader):
    script = f"{shlex.join(PROGRAM)} {arguments} | {reader} >/dev/null; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert (done.returncode in (0, 141), done.stderr) == (True, "")


def test_a_reader_that_is_gone_ends_the_program_as_it_ends_others():
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([*PROGRAM, "operators"], stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert (done.returncode, done.stderr) == (128 + 13, "")


@pytest.mark.parametrize("arguments", [["--help"], ["-V"], ["operators"], ["estimate", "relu", "1,32"]])
def test_a_full_device_is_named(arguments):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*PROGRAM, *arguments], stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (2, "ssinghal: cannot write standard output: No space left on device\n")


@pytest.mark.parametrize(
    ("arguments", "folder", "purpose"),
    [
        (["exec", "true"], "virtual", "the files of virtual devices"),
        (["releases", "add", "0.75.0"], "releases", "added releases"),
    ],
)
def test_a_cache_folder_that_cannot_be_written_is_named(run, monkeypatch, tmp_path, arguments, folder, purpose):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    reason = "Not a directory; set XDG_CACHE_HOME to another folder"
    path = tmp_path / "file" / "ssinghal" / folder
    assert run(*arguments) == (2, "", f"ssinghal: cannot write {path}, for {purpose}: {reason}\n")


def _full() -> int:
    return os.open("/dev/full", os.O_WRONLY)


def _without_reader() -> int:
    reading, writing = os.pipe()
    os.close(reading)
    return writing


def _gone_terminal() -> int:
    terminal, theirs = pty.openpty()
    os.close(terminal)
    return theirs


BROKEN = {"full": _full, "without reader": _without_reader, "gone terminal": _gone_terminal}
BAD_ESTIMATE = ["estimate", "add", "1,64,640,400", "--memory", "l1"]  # a second operand is missing


def with_broken_error(kind: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    error = BROKEN[kind]()
    try:
        return subprocess.run([*PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=error, text=True, cwd=folder)
    finally:
        os.close(error)


@pytest.mark.parametrize("kind", BROKEN)
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["nosuch"], 2),
        (["compare", "a", "b"], 2),
        (BAD_ESTIMATE, 2),
        (["probe", "relu", "1,32", "--no-such-option"], 2),
        (["catalog", "check", "broken.yaml"], 2),
        (["profile"], 2),  # its help
        (ADD, 1),
        (["estimate", "relu", "1,32"], 0),
    ],
)
def test_a_broken_standard_error_changes_no_exit_code(kind, arguments, code, tmp_path):
    (tmp_path / "broken.yaml").write_text("schema: 2\n")
    assert with_broken_error(kind, *arguments, folder=tmp_path).returncode == code


RELUS = """
schema: 1
kind: crossed
title: Small
placement: {dtype: bfloat16, layout: tile, memory: l1, output_memory: same}
origins:
- {shape: [1, 1, 32, 32], none: "x"}
- {shape: [1, 1, 64, 32], none: "x"}
- {shape: [1, 1, 96, 32], none: "x"}
operators:
  relu:
  - {shape: [1, 1, 32, 32]}
  - {shape: [1, 1, 64, 32]}
  - {shape: [1, 1, 96, 32]}
"""


def statuses(results: Path) -> list[str]:
    return [json.loads(line)["status"] for line in (results / "latest" / "records.jsonl").read_text().splitlines()]


@pytest.mark.virtual_device
@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_standard_error_ends_no_run(kind, tmp_path):
    (tmp_path / "small.yaml").write_text(RELUS)
    done = with_broken_error(kind, "run", "small.yaml", "--device", "virtual", "--results", "here", folder=tmp_path)
    assert (done.returncode, statuses(tmp_path / "here")) == (0, ["fits"] * 3)


@pytest.mark.virtual_device
@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_standard_error_that_breaks_midway_ends_no_run(is_terminal, tmp_path):
    """Its reader leaves after the first bytes: of the bar of a terminal, or the line before the first case."""
    (tmp_path / "small.yaml").write_text(RELUS)
    reading, theirs = pty.openpty() if is_terminal else os.pipe()
    command = [*PROGRAM, "run", "small.yaml", "--device", "virtual", "--results", "here"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs, cwd=tmp_path) as process:
        os.close(theirs)
        os.read(reading, 1)
        os.close(reading)
    assert (process.returncode, statuses(tmp_path / "here")) == (0, ["fits"] * 3)


# Interrupts and bad use ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "arguments"),
    [
        ("ssinghal.capture.client.capture", ["catalog", "capture", "torchvision/resnet50", "--input", "1,3,64,64"]),
        ("ssinghal.catalog.loader.load_catalogs", ["catalog", "check"]),
        ("ssinghal.cli.doctor.examine", ["doctor"]),
    ],
)
def test_ctrl_c_is_one_line_in_every_command(run, monkeypatch, target, arguments):
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(target, interrupted)
    assert run(*arguments) == (130, "", "ssinghal: interrupted\n")


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_bad_use_of_every_command_is_one_line(run, path):
    done = run(*path, "--no-such-option")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("ssinghal: No such option '--no-such-option'.")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["nosuch"], "unknown command 'nosuch'; 24 names are known"),
        (["run", "--board", "foo"], "unknown board 'foo'; known: n150,"),
        (["run", "--board", "n15"], "unknown board 'n15'; did you mean n150"),
        (["probe", "relu", "1,32", "--memory", "xyz"], "unknown memory 'xyz'; known: dram, l1"),
        (["catalog", "find"], "Missing argument 'SHAPE'."),
        (["completion"], "Missing argument 'SHELL'. Choose from: bash, zsh, fish"),
        (["probe", "relu", "1,32", "--workers", "65"], "Invalid value for '--workers': 65 is not in the range 1<=x<=64."),
        (["probe", "relu", "1,32", "--timeout"], "Option '--timeout' requires an argument."),
        (["run", "mochee"], "unknown catalog 'mochee'; did you mean mochi?"),
    ],
)
def test_what_was_expected_is_one_line(run, arguments, line):
    done = run(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"ssinghal: {line}")
    assert done.err.count("\n") == 1


def test_an_unknown_catalog_has_the_command_that_lists_them(run):
    assert run("run", "mochee").err.endswith("; ssinghal catalog list shows them\n")


# Completion ----------------------------------------------------------------------------------------------------------------


def completed(words: str) -> set[str]:
    """What bash is offered for the last of the words."""
    environ = {"_SSINGHAL_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = subprocess.run(PROGRAM, env={**os.environ, **environ}, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("ssinghal pr", {"plain,probe", "plain,precision", "plain,profile"}),
        ("ssinghal profile re", {"plain,report"}),
        ("ssinghal profile --bo", {"plain,--board"}),
        ("ssinghal profile --board p100,n1", {"plain,p100,n150"}),
        ("ssinghal catalog re", {"plain,recapture"}),
        ("ssinghal probe --out", {"plain,--output", "plain,--output-memory", "plain,--output-dtype"}),
        ("ssinghal probe relu", {"plain,relu", "plain,relu6", "plain,relu_"}),
        ("ssinghal probe relu 1,32 --board n1", {"plain,n150"}),
        ("ssinghal edge relu 1,32 --board p100,n1", {"plain,p100,n150"}),
        ("ssinghal probe relu 1,32 --board ./my", {"file,./my"}),
        ("ssinghal probe relu 1,32 --board other.yaml --layout r", {"plain,row_major"}),  # which opens no device
        ("ssinghal run moch", {"plain,mochi"}),
        ("ssinghal catalog diff mochi moch", {"plain,mochi"}),
        ("ssinghal remedy --catalog moch", {"plain,mochi"}),
        ("ssinghal run --op bm", {"plain,bmm"}),
        ("ssinghal completion z", {"plain,zsh"}),
    ],
)
def test_the_shell_completes(words, offered):
    assert completed(words) == offered


def test_a_bash_that_read_the_script_completes(tmp_path):
    program = tmp_path / "ssinghal"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(PROGRAM)} "$@"\n')
    program.chmod(0o755)
    script = """
        eval "$(ssinghal completion bash)"
        complete -p ssinghal
        COMP_WORDS=(ssinghal probe sigm) COMP_CWORD=2
        _ssinghal_completion ssinghal
        echo "${COMPREPLY[@]}"
    """
    environ = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], env=environ, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    registered, completions = done.stdout.splitlines()
    assert registered.split()[-3:] == ["-F", "_ssinghal_completion", "ssinghal"]
    assert completions.split()[0] == "sigmoid"


@pytest.mark.parametrize(("shell", "text"), [("zsh", "#compdef ssinghal"), ("fish", "complete --no-files --command ssinghal")])
def test_scripts_of_other_shells(run, shell, text):
    done = run("completion", shell)
    assert (done.code, done.err) == (0, "")
    assert text in done.out
    assert f"_SSINGHAL_COMPLETE={shell}_complete" in done.out
