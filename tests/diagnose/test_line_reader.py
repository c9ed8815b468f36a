"""Bytes to lines: encodings, very long lines, colours, and independence of how the bytes are cut."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from ssinghal.diagnose.log_reader import read_log
from ssinghal.diagnose.parse import line_reader as text
from ssinghal.diagnose.parse.line_reader import Lines, joined

MESSAGE = (
    "Out of Memory: Not enough space to allocate 34078720 B L1 buffer across 64 banks, where each bank needs to store 532480 B,"
    " but bank size is 1393312 B (allocated: 1064960 B, free: 328352 B, largest free block: 328352 B)"
)
THROWN = f"RuntimeError: TT_FATAL @ /project/tt_metal/impl/allocator/bank_manager.cpp:514: false\ninfo:\n{MESSAGE}\n"
LOGS = sorted((Path(__file__).parents[1] / "data" / "logs").iterdir())


def texts(data: bytes) -> list[tuple[int, str]]:
    return [(line.number, line.text) for line in Lines(io.BytesIO(data))]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),
        (b"a", [(1, "a")]),
        (b"a\nb\n", [(1, "a"), (2, "b")]),
        (b"a\r\nb\r\n", [(1, "a"), (2, "b")]),
        (b"10%\r20%\rb\n", [(1, "10%"), (1, "20%"), (1, "b")]),
        (b"\xef\xbb\xbfa\n", [(1, "a")]),
        (b"\x1b[1;31mTT_FATAL\x1b[0m x\n", [(1, "TT_FATAL x")]),
        (b"[31mred[0m [0-0 - 7-7]\n", [(1, "red [0-0 - 7-7]")]),
        (b"\x1b]8;;file:///a\x07link\x1b]8;;\x07\n", [(1, "link")]),
        (b"1\x002\n", [(1, "1\N{REPLACEMENT CHARACTER}2")]),  # not 12
        (b"caf\xe9\n", [(1, "caf\N{REPLACEMENT CHARACTER}")]),
    ],
)
def test_lines(data: bytes, expected: list[tuple[int, str]]) -> None:
    assert texts(data) == expected


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1", "cp1252"])
def test_a_failure_is_found_in_every_encoding(encoding: str) -> None:
    reading = read_log(io.BytesIO(f"Speicher f\xfcr L1\r\n{THROWN}".encode(encoding)), "log")
    assert [(f.line, f.verdict.total_bytes) for f in reading.failures] == [(2, 34078720)]
    assert bool(reading.remarks) == (encoding not in ("utf-8", "utf-8-sig"))


def test_odd_bytes_are_remarked_once() -> None:
    reading = read_log(io.BytesIO(b"\xff\0\n" * 3 + THROWN.encode()), "log")
    assert len(reading.remarks) == 2
    assert len(reading.failures) == 1


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
@pytest.mark.parametrize("unskipped", [0, 100])
def test_nothing_depends_on_how_the_bytes_are_cut(monkeypatch: pytest.MonkeyPatch, size: int, unskipped: int) -> None:
    data = b"".join(path.read_bytes() + b"plain line\n" * 9 for path in LOGS)
    expected = read_log(io.BytesIO(data), "log")
    monkeypatch.setattr(text, "READ_BYTES", size)
    monkeypatch.setattr(text, "UNSKIPPED_BYTES", unskipped)
    assert len(expected.failures) > 1
    assert read_log(io.BytesIO(data), "log") == expected


@pytest.mark.parametrize("before", [0, 100, 255, 256, 257, 511, 600, 1023, 5000])
@pytest.mark.parametrize("after", [0, 700])
@pytest.mark.parametrize("newline", ["\n", "\\n", " "])
def test_a_failure_in_a_very_long_line(monkeypatch: pytest.MonkeyPatch, before: int, after: int, newline: str) -> None:
    """Pieces of 256 bytes that show 512 of the next: wherever a cut falls, the error is found, and found once."""
    monkeypatch.setattr(text, "READ_BYTES", 50)
    monkeypatch.setattr(text, "LONG_LINE_BYTES", 256)
    monkeypatch.setattr(text, "AHEAD_BYTES", 512)
    data = ("x" * before + " " + THROWN.rstrip().replace("\n", newline) + " " + "y" * after).encode()
    reading = read_log(io.BytesIO(data), "log")
    assert [(f.times, f.verdict.total_bytes, f.verdict.largest_free_bytes) for f in reading.failures] == [(1, 34078720, 328352)]


def test_irrelevant_lines_are_counted_and_not_built() -> None:
    data = b"plain\n" * 400_000 + b"an anchor\n" + b"plain\n" * 5 + b"end"
    lines_read = list(Lines(io.BytesIO(data), [b"anchor"]))
    first = text.UNSKIPPED_BYTES // len(b"plain\n")
    assert first <= len(lines_read) < 400_000
    lines = Lines(io.BytesIO(data), [b"anchor"])
    assert [line.number for line in lines if line.text != "plain"] == [400_001]
    assert lines.count == 400_007


@pytest.mark.parametrize(
    ("lines", "widths", "expected"),
    [
        (["needs 53248", "0 B"], [80, 3], ["needs 532480 B", "needs 53248 0 B"]),  # a terminal of 80 columns
        (["needs 532480", "B"], [79, 1], ["needs 532480 B"]),  # between words
        (["a", "b", "c"], [97, 97, 1], ["abc", "a b c"]),  # two full lines of any width
        (["a", "b", "c"], [100, 40, 1], ["ab c", "a b c"]),
    ],
)
def test_broken_lines_are_joined(lines: list[str], widths: list[int], expected: list[str]) -> None:
    assert list(joined(lines, widths)) == expected


@pytest.mark.parametrize("control", [0x01, 0x07, 0x08, 0x0E, 0x1B, 0x7F, 0x9D])
def test_no_control_character_reaches_a_terminal(control: int) -> None:
    (line,) = Lines(io.BytesIO(f"step\t7{chr(control)}8 \u00e9\n".encode()))
    assert line.text == "step\t7\N{REPLACEMENT CHARACTER}8 \u00e9"
