"""A run by columns: every figure is that of the object reader, on whatever lines."""

from __future__ import annotations

import gzip
import json
import os
import random
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ssinghal.core.case import Source
from ssinghal.core.record import SCHEMA_VERSION
from ssinghal.core.verdict import Resource
from ssinghal.errors import HarnessError
from ssinghal.runs import column_file
from ssinghal.runs.columns import Columns
from ssinghal.runs.reader import Run, read_run
from tests.support.columns import opened
from tests.support.run_builder import a_record, write_run

SOURCES = [
    Source("yolo", "ultralytics/yolo12x", "4320x7680", 3),
    Source("yolo-copy", "ultralytics/yolo12x", "4320x7680", 5),
    Source("yolo", "ultralytics/yolo12x", "640x640", 2),
    Source("unet", "diffusers/unet", "64x64", 0),
    Source("sweep"),
]
DRAM = {"resource": Resource.DRAM_BUFFER, "stage": "input 1", "bytes_per_bank": 4096, "largest_free_bytes": 1024}
L1 = {"bytes_per_bank": 2_000_000, "largest_free_bytes": 500_000, "free_bytes": 600_000, "bank_bytes": 1_393_312}
POOL = [
    a_record("relu", sources=SOURCES[:3], measured={"duration_s": 0.75}),
    a_record("gelu", sources=SOURCES[3:], measured={"duration_s": 0.5}),
    a_record("add", inputs=[[1, 3, 8, 8]] * 2, status="oom", verdict=L1, sources=SOURCES[:1]),
    a_record("mul", inputs=[[1, 3, 8, 8]] * 2, status="oom", verdict={**L1, "bytes_per_bank": 2_000_001}),
    a_record("tanh", status="oom", verdict=DRAM, memory="dram"),
    a_record("silu", status="error", verdict={"message": "no core 12 of 1,024\x00\n'é", "error_type": "RuntimeError"}),
    a_record("silu", shape=(1, 1, 32, 64), status="error", verdict={"message": "no core 7 of 64\x00\n'é"}),
    a_record("silu", shape=(1, 1, 32, 96), status="crash", verdict={"message": "signal 11"}),
    a_record("exp", status="timeout", verdict={"message": "longer than 60 s"}),
    a_record("exp", shape=(1, 1, 32, 96), status="mismatch", measured={"left_allocated": {"l1": 2048}}),
    a_record("exp", shape=(1, 1, 64, 96), measured={"left_allocated": {"l1": 4096}}),
    a_record("cos", status="unsupported", verdict={"message": "not of rank 9"}),
    a_record("sin", status="not_run", mode="none", ttnn="", verdict={"message": "stopped"}),
    a_record("relu", status="not_run", mode="none", ttnn="", verdict={"message": "stopped"}),
    a_record("relu", board="p150", mode="none", status="not_run", verdict={"message": "the run ended"}),
    a_record("relu", ttnn="0.82.0"),
    a_record("relu", board="p150"),
    a_record("abs", status="crash", verdict={"message": "signal 9"}, measured={"retried": "signal 11"}),
    a_record("relu", mode="golden", status="agrees"),
]
BROKEN = [
    b"",
    b"  ",
    b"null",
    b"{}",
    b'{"schema": 1, "op": 7}',
    b"\x00\x00\x00",
    b"[" * 5000,
    b"\xff\xfe",
    json.dumps({**POOL[0], "status": "passed"}).encode(),
    json.dumps({**POOL[0], "duration_s": -1}).encode(),
    json.dumps({**POOL[0], "message": "\ud800"}).encode(),
    json.dumps({**POOL[2], "bank_bytes": 2**63}).encode(),
    json.dumps({"schema": SCHEMA_VERSION + 1}).encode(),
    json.dumps(POOL[1]).encode()[:300],
]


def assert_equal(path: Path) -> None:
    """What the columns have is what the objects have, or both refuse the run in the same words."""
    run = outcome_of(lambda: read_run(path))
    with ExitStack() as stack:
        columns = outcome_of(lambda: stack.enter_context(opened(path)))
        if not isinstance(run, Run) or not isinstance(columns, Columns):
            assert columns == run
            return
        assert_equal_to(columns, run)


def outcome_of(read: Callable[[], Run | Columns]) -> Run | Columns | str:
    try:
        return read()
    except HarnessError as error:
        return str(error)


def assert_equal_to(columns: Columns, run: Run) -> None:
    described = columns.id, columns.head, columns.losses, columns.remarks, columns.lacks_records, columns.cases
    assert described == (run.id, run.head, run.losses, run.remarks, run.lacks_records, len(run.records))
    groups = [(g.number, g.setting, g.cases, g.numerics, g.device) for g in columns.groups]
    assert groups == [(n, g.setting, len(g.records), g.numerics, g.device) for n, g in enumerate(run.groups)]
    assert columns.catalogs == {source.catalog for record in run.records for source in record.sources}
    places = list(range(len(run.records)))[::-1]
    assert columns.at(places) == [run.records[place] for place in places]
    assert columns.at(places[::2]) == [run.records[place] for place in places[::2]]


@given(data=st.data())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_figures_are_those_of_the_object_reader_on_damaged_files(tmp_path_factory, data):
    good = st.sampled_from([json.dumps(record).encode() for record in POOL])
    lines = data.draw(st.lists(st.one_of(good, good, good, st.sampled_from(BROKEN)), max_size=14))
    ends = data.draw(st.booleans())
    folder = write_run(tmp_path_factory.mktemp("run"), POOL[:1], selected=data.draw(st.integers(0, 9)))
    content = b"\n".join(lines) + b"\n" * ends
    cut = data.draw(st.integers(0, len(content)))
    (folder / "records.jsonl").write_bytes(content if data.draw(st.booleans()) else content[:cut])
    assert_equal(folder)


@pytest.mark.parametrize("order", range(3))
def test_figures_are_those_of_the_object_reader_in_several_processes(tmp_path, order, monkeypatch):
    """Blocks of few lines, whose columns two processes write side by side."""
    monkeypatch.setattr(column_file, "PARALLEL_BYTES", 0)
    monkeypatch.setattr(column_file, "blocks", lambda path: column_parts_of(path))
    records = [record for record in POOL if record["device_mode"] != "golden"] * 3
    random.Random(order).shuffle(records)
    folder = write_run(tmp_path, records)
    with (folder / "records.jsonl").open("ab") as file:
        file.write(b"null\n" * 30 + b'{"schema": 1, "op"')
    assert_equal(folder)


def column_parts_of(path):
    from ssinghal.runs.line_files import blocks

    return blocks(path, 5_000)


def test_an_empty_part_of_a_selection_is_a_run(tmp_path):
    folder = write_run(tmp_path, POOL[:1], selected=0)
    (folder / "records.jsonl").write_text("")
    assert_equal(folder)
    with opened(folder) as columns:
        assert (columns.cases, columns.groups, columns.at([])) == (0, (), [])


def test_a_compressed_run_has_the_same_figures(tmp_path):
    folder = write_run(tmp_path, POOL[:13])
    lines = folder / "records.jsonl"
    with gzip.open(folder / "records.jsonl.gz", "wb") as file:
        file.write(lines.read_bytes())
    lines.unlink()
    assert_equal(folder)
    assert_equal(folder / "records.jsonl.gz")


def kept_files(folder: Path) -> list[Path]:
    return sorted(folder.glob(".records-*"))


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "cut in the middle": lambda whole: whole[: len(whole) // 2],
    "without its last byte": lambda whole: whole[:-1],
    "with a byte more": lambda whole: whole + b"1",
    "garbage": lambda whole: bytes(range(256)) * (len(whole) // 256 + 1),
    "zeros": lambda whole: bytes(len(whole)),
    "a flipped page": lambda whole: whole[:200] + bytes(255 - byte for byte in whole[200:300]) + whole[300:],
    "a flipped footer": lambda whole: whole[:-40] + bytes(255 - byte for byte in whole[-40:-20]) + whole[-20:],
}


class TestKept:
    """The Parquet file beside the lines."""

    @pytest.fixture
    def folder(self, tmp_path, monkeypatch):
        monkeypatch.setattr(column_file, "CACHED_BYTES", 0)
        return write_run(tmp_path / "odd name * [1] 'x'", POOL[:5])

    @pytest.fixture
    def made(self, monkeypatch):
        """The files whose columns were made."""
        made = []
        make = column_file._make
        monkeypatch.setattr(column_file, "_make", lambda *given: made.append(given) or make(*given))
        return made

    def test_it_is_made_once_and_is_the_users_own(self, folder, made):
        for _ in range(3):
            assert_equal(folder)
        (kept,) = kept_files(folder)
        assert (len(made), kept.stat().st_mode & 0o777) == (1, 0o600)

    def test_it_is_made_again_when_the_lines_change(self, folder, made):
        assert_equal(folder)
        (first,) = kept_files(folder)
        lines = folder / "records.jsonl"
        before = lines.stat()
        lines.write_text(lines.read_text().replace('"oom"', '"oom"', 1).replace("relu", "gelu"))
        os.utime(lines, ns=(before.st_atime_ns, before.st_mtime_ns))  # of equal size and time
        assert lines.stat().st_size == before.st_size
        assert_equal(folder)
        assert len(made) == 2
        assert kept_files(folder) != [first]
        assert len(kept_files(folder)) == 1

    def test_one_that_others_may_write_is_not_opened(self, folder, made):
        assert_equal(folder)
        (kept,) = kept_files(folder)
        kept.chmod(0o666)
        assert_equal(folder)
        assert len(made) == 2

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
    def test_one_of_another_user_is_not_opened(self, folder, made):
        assert_equal(folder)
        (kept,) = kept_files(folder)
        os.chown(kept, 1234, 1234)
        assert_equal(folder)
        assert len(made) == 2

    def test_a_link_is_not_opened(self, folder, made, tmp_path):
        assert_equal(folder)
        (kept,) = kept_files(folder)
        kept.rename(tmp_path / "elsewhere")
        kept.symlink_to(tmp_path / "elsewhere")
        assert_equal(folder)
        assert len(made) == 2
        assert not kept.is_symlink()

    @pytest.mark.parametrize("links", [True, False])
    @pytest.mark.parametrize("damage", DAMAGES)
    def test_a_damaged_one_is_made_again_once(self, folder, made, monkeypatch, damage, links):
        """``links``: whether files can be linked, else they are copied."""
        if not links:
            monkeypatch.setattr(os, "link", lambda *_, **__: (_ for _ in ()).throw(OSError()))
        assert_equal(folder)
        (kept,) = kept_files(folder)
        whole = kept.read_bytes()
        with kept.open("r+b") as file:  # in place, as a disk or a careless program does
            file.truncate(0)
            file.write(DAMAGES[damage](whole))
        for _ in range(2):
            assert_equal(folder)
        assert len(made) == 2
        assert len(kept_files(folder)) == 1

    @given(place=st.integers(0, 2**16), bit=st.integers(0, 7))
    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_no_flipped_bit_changes_a_figure(self, folder, place, bit):
        assert_equal(folder)
        (kept,) = kept_files(folder)
        data = bytearray(kept.read_bytes())
        data[place % len(data)] ^= 1 << bit
        kept.write_bytes(data)
        assert_equal(folder)

    def test_it_stays_readable_when_it_is_replaced(self, folder):
        assert_equal(folder)
        with opened(folder) as columns:
            for kept in kept_files(folder):
                kept.unlink()
            assert len(columns.at(range(5))) == 5

    def test_a_folder_that_cannot_be_written_is_read_without(self, folder, monkeypatch):
        """As for a user without the right to write there: the new file cannot be opened."""
        real = os.open

        def refused(path, flags, *given, **named):
            if flags & os.O_CREAT and ".records-" in str(path):
                raise PermissionError(13, "Permission denied")
            return real(path, flags, *given, **named)

        monkeypatch.setattr(os, "open", refused)
        assert_equal(folder)
        assert kept_files(folder) == []


def test_no_file_is_left_behind(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "private"))
    (tmp_path / "private").mkdir()
    folder = write_run(tmp_path, POOL[:3])
    assert_equal(folder)
    (folder / "records.jsonl").write_text("null\n")
    with pytest.raises(HarnessError, match="no complete record"), opened(folder):
        pass
    assert list((tmp_path / "private").iterdir()) == []
