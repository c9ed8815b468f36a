"""Standard input that does not end: a command that keeps what it reads ends in one line, and leaves nothing."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import ssinghal
from ssinghal.cli import streams
from ssinghal.core import files

PIPE_BYTES = 2**20
PACKAGE = Path(ssinghal.__file__).parent
BY_PIPE = "more than 1,048,576 B through a pipe: write them to a file, and name that"
BY_LIST = "holds more than 1,048,576 B"
COMMANDS = {
    ("probe", "--from", "-"): BY_PIPE,
    ("remedy", "--from", "-"): BY_LIST,
    ("releases", "run", "-", "-o", "timeline"): BY_LIST,
}
LINES = {"blank": b"\n", "case": b'{"op": "relu", "inputs": [[32, 32]]}\n', "word": b"word\n"}


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_more_than_the_bound_of_standard_input_is_one_line(command, line, run, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_PIPE_BYTES", PIPE_BYTES)
    monkeypatch.setattr(streams, "MAX_LIST_BYTES", PIPE_BYTES)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    result = run(*command, stdin=LINES[line] * (1 + PIPE_BYTES // len(LINES[line])))
    assert result == (2, "", f"ssinghal: -: {COMMANDS[command]}\n")
    assert list(tmp_path.iterdir()) == []


def test_the_bound_itself_is_read(run, monkeypatch):
    """A byte less than the first that is refused: the lines are read, of which none is a case."""
    monkeypatch.setattr(files, "MAX_PIPE_BYTES", PIPE_BYTES)
    result = run("probe", "--from", "-", stdin=b"\n" * PIPE_BYTES)
    assert result == (2, "", "ssinghal: -: no case in it, nothing to probe\n")


def test_no_other_command_reads_standard_input():
    """``diagnose`` reads a log on for as long as it is written, and keeps a bounded part of it."""
    readers = [path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py") if "sys.stdin" in path.read_text()]
    own_processes = {"capture/child/server.py", "runs/column_parts.py"}  # the command that started them writes
    assert set(readers) - own_processes == {"cli/streams.py", "cli/diagnose.py"}


def test_an_endless_writer_is_ended(tmp_path):
    """The bound of a list, as it is: 64 MiB."""
    command = [sys.executable, "-m", "ssinghal", "remedy", "--from", "-"]
    with subprocess.Popen(["yes", "{}"], stdout=subprocess.PIPE) as writer:
        done = subprocess.run(command, stdin=writer.stdout, capture_output=True, text=True, timeout=120, cwd=tmp_path)
        writer.stdout.close()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "ssinghal: -: holds more than 67,108,864 B\n"
    assert list(tmp_path.iterdir()) == []


def test_faults_of_many_lines_are_counted(run, tmp_path):
    (tmp_path / "cases.jsonl").write_text("{}\n" * 5_000)
    result = run("probe", "--from", "cases.jsonl")
    assert (result.code, result.out) == (2, "")
    lines = result.err.splitlines()
    assert lines[99] == "cases.jsonl:100: op: expected an operator's name, got None"
    assert lines[100:] == ["ssinghal: cases.jsonl: 4,900 more lines with faults"]
