"""Files that are none, and texts beyond every bound: each reader ends with one line about them, and waits for nothing."""

from __future__ import annotations

import json
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Thread

import pytest

from ssinghal import api
from ssinghal.capacity.journal import Journal
from ssinghal.capture.trace import read_trace
from ssinghal.catalog.csv_import import read_list
from ssinghal.catalog.loader import load_catalog
from ssinghal.catalog.placement_fields import PlacementModel
from ssinghal.catalog.recorded.importer import is_recording, read_recording
from ssinghal.cli.profile_report import _read_tried
from ssinghal.cli.streams import InputLines, input_lines
from ssinghal.core import files
from ssinghal.core.boards import load_board
from ssinghal.core.cluster_descriptor import read_descriptor
from ssinghal.core.files import MAX_LINE_BYTES, read_limited
from ssinghal.core.json_text import read_json
from ssinghal.diagnose.failed_call.own_run import read_own_run
from ssinghal.errors import HarnessError
from ssinghal.operators.case_json import MAX_FAULTS
from ssinghal.plan.capacity import _journal_runs
from ssinghal.plan.policy import find_policy
from ssinghal.precision.tensor_files import check_file
from ssinghal.profile.reading import read_profiles
from ssinghal.pytest_plugin.memory.baseline import Baseline
from ssinghal.remedy.resident_buffers import live_set
from ssinghal.runs.compressing import repack
from ssinghal.runs.folders import INFO, MAX_HEAD_BYTES, read_head
from ssinghal.runs.index import Store
from ssinghal.runs.line_files import COMPRESSED
from ssinghal.runs.parsing import stored_records
from ssinghal.runs.reader import read_run
from ssinghal.runs.resuming import UnfinishedRun
from tests.support.run_builder import a_record

WAIT_S = 20  # a reader that waits for a pipe would never end
DEPTH = 100_000


def _rows(path: Path) -> object:
    placed = {"dtype": "bfloat16", "layout": "tile", "memory": "dram", "output_memory": "same"}
    return read_list(path, PlacementModel.model_validate(placed))


def _lines(path: Path) -> object:
    with InputLines(path) as lines:
        return list(lines)


def _journal(path: Path) -> object:
    with Journal(path) as journal:
        return journal


def _unfinished(folder: Path) -> object:
    with UnfinishedRun(folder) as run:
        return run.unanswered([])


def _beside_records(path: Path) -> object:
    (path.parent / "records.jsonl").write_text(json.dumps(a_record()) + "\n")
    return read_run(path.parent)


# Each reader by the name of the file that it reads.
READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "catalog": ("a.yaml", lambda path: load_catalog(str(path))),
    "list": ("a.csv", _rows),
    "recording": ("a.json", lambda path: (is_recording(path), read_recording(path))),
    "descriptor": ("a.yaml", read_descriptor),
    "policy": ("a.yaml", lambda path: find_policy(str(path))),
    "trace": ("a.trace.json.gz", read_trace),
    "lines": ("a.txt", input_lines),
    "live": ("a.jsonl", lambda path: live_set([str(path)], load_board("n150"))),
    "baseline": ("a.jsonl", Baseline),
    "plan-journal": ("a.jsonl", lambda path: list(_journal_runs(path))),
    "journal": ("a.jsonl", _journal),
    "records": ("records.jsonl", stored_records),
    "compressed": (COMPRESSED, stored_records),
    "run": ("records.jsonl", lambda path: read_run(path.parent)),
    "tensors": ("a.pt", check_file),
    "limited": ("a", read_limited),
    "store": ("store.sqlite", lambda path: Store(path).runs()),
    "tried": ("tried.json", lambda path: _read_tried([], path)),
    "profile": ("records-1.jsonl", read_profiles),
    "profiles": ("records-1.jsonl", lambda path: read_profiles(path.parent)),
    "notes": ("records-1.jsonl", lambda path: read_own_run(path.parent, "n150")),
    "header": (INFO, lambda path: read_head(path.parent)),
    "header-of-run": (INFO, _beside_records),
    "unfinished": ("records.jsonl", lambda path: _unfinished(path.parent)),
    "repacked": ("records.jsonl", lambda path: repack(path.parent)),
}
# Read as streams where the user names them, so that a pipe waits for its writer, as in every program.
STREAMS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "cases": ("a.jsonl", _lines),
    "log": ("a.log", lambda path: api._opened(path, ExitStack())),
}


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


def _nowhere(path: Path) -> None:
    path.symlink_to("nowhere")


def _socket(path: Path) -> None:
    import socket

    here = os.getcwd()
    os.chdir(path.parent)  # the path of a socket has 107 bytes at most
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(path.name)
    finally:
        os.chdir(here)


ALL = {**READERS, **STREAMS}
KINDS = {"pipe": _fifo, "device": _device, "folder": Path.mkdir, "loop": _loop, "nowhere": _nowhere, "socket": _socket}
# What these take for a file that is not there yet.
ABSENT_IS_EMPTY = {"plan-journal", "journal", "header-of-run", "store"}


@contextmanager
def ends_soon() -> Iterator[None]:
    def waits(*_: object) -> None:
        raise AssertionError(f"still reading after {WAIT_S} s")

    before = signal.signal(signal.SIGALRM, waits)
    signal.alarm(WAIT_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def refusal(read: Callable[[Path], object], path: Path) -> str | None:
    """Returns what a reader refuses a file with; None where it reads it."""
    with ends_soon():
        try:
            read(path)
        except HarnessError as error:
            return str(error)
    return None


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name in ALL for kind in KINDS if name in READERS or kind != "pipe"]
)
def test_what_is_no_file_ends_a_reader_with_one_line(name, kind, tmp_path):
    file, read = ALL[name]
    path = tmp_path / "given" / file
    path.parent.mkdir()
    KINDS[kind](path)
    text = refusal(read, path)
    if text is None:
        assert kind in ("loop", "nowhere")
        assert name in ABSENT_IS_EMPTY
    else:
        assert len(text.splitlines()) == 1
        assert str(tmp_path) in text


def test_what_a_shell_passes_is_read():
    reading, writing = os.pipe()
    os.write(writing, b"text")
    os.close(writing)
    try:
        assert read_limited(Path(f"/dev/fd/{reading}")) == b"text"
    finally:
        os.close(reading)
    assert read_limited(Path(os.devnull)) == b""


# Pipes without an end -------------------------------------------------------------------------------------------------

PIPE_BYTES = 2**21
LINES = {
    "blank": b"\n",
    "object": b"{}\n",
    "word": b"word\n",
    "case": b'{"op": "relu", "inputs": [[32, 32]]}\n',
    "record": json.dumps(a_record()).encode() + b"\n",
    "row": b"op,shape,model,count\n",
    "unended": b" ",
}


@contextmanager
def endless(line: bytes) -> Iterator[tuple[Path, list[int]]]:
    """Yields a pipe that has this line again and again, as a shell passes it, and how many bytes were taken from it."""
    reading, writing = os.pipe()
    taken: list[int] = []

    def write() -> None:
        block = line * (1 + 2**14 // len(line))
        with suppress(BrokenPipeError):
            while True:
                taken.append(os.write(writing, block))

    writer = Thread(target=write)
    writer.start()
    try:
        yield Path(f"/dev/fd/{reading}"), taken
    finally:
        os.close(reading)
        writer.join()
        os.close(writing)


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("name", [*READERS, "cases"])
def test_a_pipe_without_an_end_is_refused_in_one_line(name, line, tmp_path, monkeypatch):
    """All that keep what they read. ``diagnose`` reads a log on for as long as it is written, and keeps a bounded part."""
    monkeypatch.setattr(files, "MAX_PIPE_BYTES", PIPE_BYTES)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    file, read = ALL[name]
    path = tmp_path / "given" / file
    path.parent.mkdir()
    with endless(LINES[line]) as (pipe, taken):
        path.symlink_to(pipe)
        text = refusal(read, path)
    assert text is not None
    assert len(text.splitlines()) <= MAX_FAULTS + 1
    assert sum(taken) <= PIPE_BYTES + 2**17  # and what the pipe itself and a buffer hold
    assert [one.name for one in tmp_path.iterdir()] == ["given"]


# Beyond bounds --------------------------------------------------------------------------------------------------------

DOCUMENTS = {
    "line": b'"' + bytes(MAX_LINE_BYTES) + b'"\n',
    "nested": b"[" * DEPTH + b"\n",
    "mappings": b'{"a":' * DEPTH + b"\n",
    "digits": b'{"k": ' + b"9" * 5_000 + b"}\n",
    "nan": b'{"k": NaN}\n',
    "infinity": b'{"k": -Infinity}\n',
    "overflow": b'{"k": 1e999}\n',
    "surrogate": b'{"k": "\\ud800"}\n',
    "nul": b'{"k": "\\u0000"}\0\n',
    "latin": b'{"k": "\xe9"}\n',
    "escape": b"\x1b]8;;http://x\x1b\\ \xc2\x9b31m \xe2\x80\xae\n",
}


@pytest.mark.parametrize("document", DOCUMENTS)
@pytest.mark.parametrize("name", ALL)
def test_what_is_beyond_a_bound_ends_a_reader_with_one_line_at_most(name, document, tmp_path):
    file, read = ALL[name]
    path = tmp_path / "given" / file
    path.parent.mkdir()
    path.write_bytes(DOCUMENTS[document])
    text = refusal(read, path) or ""
    assert len(text) < 2_000
    assert not any(one in text for one in "\x1b\x9b\u202e\0")
    text.encode()  # no surrogate


@pytest.mark.parametrize("text", ["NaN", "-Infinity", "1e999", "-1E999", "9" * 5_000, str(2**64), "[" * DEPTH, "", "\0"])
def test_numbers_of_json_are_those_of_computers(text):
    with pytest.raises(ValueError, match=r"."):
        read_json(text)


@pytest.mark.parametrize("number", [0, -(2**64) + 1, 2**64 - 1, 2**53 + 1, 0.1234567890123456789, 1.5e300, 1e-999])
def test_numbers_within_64_bits_are_read_as_they_are(number):
    assert read_json(json.dumps(number)) == number


def test_a_header_has_a_size(tmp_path):
    (tmp_path / "records.jsonl").write_text(json.dumps(a_record()) + "\n")
    (tmp_path / INFO).write_text(" " * MAX_HEAD_BYTES + "{}")
    with pytest.raises(HarnessError, match=r"run\.json: not a run's header \(more than 16,777,216 B\)"):
        read_head(tmp_path)
    assert len(read_run(tmp_path).groups) == 1


def test_notes_with_a_list_for_the_text_of_a_line_are_damaged(tmp_path):
    """Equal failures of a run are one, by what a dictionary can have as a key."""
    from tests.profile.records import NET, OUT_OF_MEMORY

    failed = {"error": ["RuntimeError", OUT_OF_MEMORY], "test": "", "n": 0, "arguments": []}
    more = {"site": {"text": "f()"}, "call": failed, "start": {"n": 0, "test": ""}}
    notes = [{**more.get(record["k"], {}), **record} for record in NET]
    for note in notes:
        if note["k"] == "site":
            note["text"] = ["f()"]
    (tmp_path / "records-1.jsonl").write_text("".join(json.dumps(note) + "\n" for note in notes))
    with pytest.raises(HarnessError, match="the notes of a run are damaged"):
        read_own_run(tmp_path, "n150")
