"""Memory of ``probe --from``: neither the lines of a long file nor its cases and records stay in the process."""

import gc
import gzip
import json
import os
import threading
import tracemalloc
from pathlib import Path

import pytest

from ssinghal.cli.probe import _lines_of
from ssinghal.cli.streams import InputLines, input_lines
from ssinghal.core.boards import load_board
from ssinghal.core.device_facts import DeviceMode
from ssinghal.device.modes import choose_device
from ssinghal.errors import HarnessError, InvalidCase
from ssinghal.runner.pool import Pool
from ssinghal.runs.compressing import repack
from tests.support.run_builder import a_record, write_run


def a_line(number: int) -> str:
    return json.dumps({"op": "relu", "inputs": [[1, 1, 32, 32 + number]], "memory": "l1"})


@pytest.mark.virtual_device
def test_objects_do_not_grow_with_lines(tmp_path):
    """Between the 150th and the 450th line: less than one object a line, of any type."""
    source = tmp_path / "cases.jsonl"
    source.write_text("\n".join(map(a_line, range(500))) + "\n")
    alive = {}
    with InputLines(source) as lines, Pool(choose_device(DeviceMode.VIRTUAL, "n150")) as pool:
        for number, (record, line) in enumerate(_lines_of(pool, lines, load_board("n150")), 1):
            assert json.loads(line)["key"] == record.key
            if number in (150, 450):
                gc.collect()
                alive[number] = len(gc.get_objects())
    assert number == 500
    assert alive[450] - alive[150] < 300


def test_the_lines_of_a_file_are_not_kept(tmp_path):
    source = tmp_path / "cases.jsonl"
    source.write_text("\n".join(map(a_line, range(20_000))))  # 1.4 MB
    with InputLines(source) as lines:
        next(iter(lines))
        tracemalloc.start()
        count = sum(1 for _ in lines)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert count == 20_000
        assert peak < 200_000
        assert list(lines) == list(map(a_line, range(20_000)))  # again


def test_a_pipe_can_be_read_again(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_text("one\ntwo"))
    writer.start()
    with InputLines(pipe) as lines:
        assert list(lines) == list(lines) == ["one", "two"]
    writer.join()


def test_a_mark_of_the_byte_order_is_dropped_and_bad_bytes_have_a_place(tmp_path):
    source = tmp_path / "cases.jsonl"
    source.write_bytes(b"\xef\xbb\xbfone\ntwo\n")
    with InputLines(source) as lines:
        assert list(lines) == ["one", "two"]
    source.write_bytes(b"one\ntw\xff\n")
    with InputLines(source) as lines, pytest.raises(InvalidCase, match=r"not UTF-8 text \(byte 6\)"):
        list(lines)


def test_a_missing_file_is_one_line(tmp_path):
    with pytest.raises(InvalidCase, match="No such file"):
        InputLines(Path(tmp_path, "none"))


def test_the_lines_of_a_compressed_file(tmp_path):
    """As the records of a compressed run, which may unpack to 250 times their size."""
    source = tmp_path / "records.jsonl.gz"
    text = "\n".join(map(a_line, range(20_000)))
    for ending in ("", "\n"):
        source.write_bytes(gzip.compress(f"\ufeff{text}{ending}".encode()))
        with InputLines(source) as lines:
            assert list(lines) == list(lines) == text.split("\n")
        assert input_lines(source) == (text + ending).split("\n")
    source.write_bytes(source.read_bytes()[:-30])
    with InputLines(source) as lines, pytest.raises(HarnessError, match=rf"^{source}: the compressed file is truncated$"):
        list(lines)
    with pytest.raises(InvalidCase, match=rf"^{source}: is a damaged archive: "):
        input_lines(source)
    source.write_bytes(gzip.compress(b"x" * 2**25))
    with (
        InputLines(source) as lines,
        pytest.raises(HarnessError, match=r"unpacks to more than 250 times|a line of more"),
    ):
        list(lines)


@pytest.mark.virtual_device
def test_the_records_of_a_compressed_run_are_probed(tmp_path, run):
    records = [a_record("relu", (1, 32, 32)), a_record("relu", (1, 64, 1280, 800))]
    folder = write_run(tmp_path, records)
    repack(folder)
    done = run("probe", "--from", str(folder / "records.jsonl.gz"), "--workers", "1")
    assert [json.loads(line)["key"] for line in done.out.splitlines()] == [record["key"] for record in records]
    assert [json.loads(line)["status"] for line in done.out.splitlines()] == ["fits", "oom"]
    assert done.code == 0
