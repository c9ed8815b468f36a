"""Reports of runs whose records stay in their file: every file as from records in memory, and few of them loaded at a time."""

import dataclasses
import gc
import gzip
import json
from pathlib import Path

import pytest

from ssinghal.core.case import ModuleCalls, Source
from ssinghal.core.record import Record
from ssinghal.errors import HarnessError
from ssinghal.report.json_stream import Streamed, json_pieces
from ssinghal.report.large_page import PARTS
from ssinghal.report.page_parts import unpacked
from ssinghal.report.writer import PAGE, WRITTEN, write_report
from ssinghal.runs import stored
from ssinghal.runs.diff import Changes
from ssinghal.runs.reader import read_run
from ssinghal.runs.stored import read_run_of_any_size, stored_records
from tests.report.test_writer import USAGE, an_oom, some_records
from tests.support.run_builder import a_record, write_run

EARLIER = "20260101T000000.000000Z"


def varied_records() -> list[dict]:
    """Of two boards, with placements of one call, two models and equal sizes."""
    net = [Source(f"net-{at}", "net", at, 3, (ModuleCalls("a.b", 2),), 1, 1) for at in ("640x400", "2160x3840")]
    shapes = [(1, 64, 32 * n, 400) for n in (1, 2, 3, 60, 90)]
    return [
        *some_records(),
        *(an_oom("tanh", s, memory=m, sources=net) for s in shapes[3:] for m in ("l1", "dram")),
        *(a_record("tanh", s, memory="dram", sources=net[:1], measured={"usage": USAGE}) for s in shapes),
        *(a_record("exp", s, channels_last=flag, layout=layout) for s in shapes for flag in (True, False)
          for layout in ("tile", "row_major")),
        *(an_oom("sigmoid", s, board="n300", sources=[Source("net-640x400", "net", "640x400", 0)]) for s in shapes),
        a_record("abs", (1, 1, 32, 32), board="n300", status="crash", verdict={"message": "the worker died"}),
    ]  # fmt: skip


def small(folder: Path):
    return read_run(folder)


def large(folder: Path):
    return read_run(folder, stored_records)


def golden() -> list[dict]:
    return [a_record(op, (1, 1, 32, 32), status="agrees", mode="golden") for op in ("relu", "silu")]


@pytest.mark.parametrize("records", [varied_records, golden], ids=lambda made: made.__name__)
def test_every_document_is_that_of_records_in_memory(tmp_path, records):
    made = records()
    folder = write_run(tmp_path, made)
    earlier = write_run(tmp_path, made[: len(made) // 2], EARLIER)
    for read, in_parts in ((small, False), (large, True)):
        after = read(folder)
        write_report(after, tmp_path / read.__name__, Changes.of(read(earlier), after), in_parts=in_parts)
    one, other = tmp_path / "small", tmp_path / "large"
    own = {PAGE, WRITTEN}
    names = {str(p.relative_to(one)) for p in one.rglob("*") if p.is_file()} - own
    assert names == {str(p.relative_to(other)) for p in other.rglob("*") if p.is_file() and p.parent.name != PARTS} - own
    assert len(names) > 8
    for name in names:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


def test_the_parts_have_every_case_once(tmp_path):
    folder = write_run(tmp_path, varied_records())
    write_report(large(folder), tmp_path / "report", in_parts=True)
    keys = []
    for path in (tmp_path / "report" / PARTS).glob("*.js"):
        if "details" not in path.name:
            _, _, (packed,) = json.loads(path.read_text().removeprefix("ssinghalPart(").removesuffix(");\n"))
            part = unpacked(packed)
            texts, columns = part["texts"], part["columns"]
            keys += [(texts[op], key) for op, key in zip(columns["op"], columns["key"], strict=True)]
    assert sorted(keys) == sorted({(r["op"], r["key"]) for r in varied_records()})


def test_a_record_in_its_file_reads_as_one_in_memory(tmp_path):
    folder = write_run(tmp_path, varied_records())
    fields = [field.name for field in dataclasses.fields(Record)]
    computed = ["shape", "subject", "calls", "callers", "sentence", "numerics", "is_oom", "failed", "call_shortfall_bytes"]
    for one, other in zip(small(folder).records, large(folder).records, strict=True):
        for name in (*fields, *computed, "placed_bytes", "largest_bytes", "call_digest", "verdict"):
            assert getattr(one, name) == getattr(other, name), name
        assert one.to_json() == other.to_json()
        with pytest.raises(AttributeError):
            _ = other.no_such_name


def test_few_records_are_in_memory_at_a_time(tmp_path, monkeypatch):
    """However many there are, and after the reports have gone through them all."""
    monkeypatch.setattr(stored, "LOADED", 8)
    shapes = [(1, 1, 32, 32 * (n + 1)) for n in range(200)]
    folder = write_run(tmp_path, [an_oom("relu", shape) for shape in shapes])
    run = large(folder)
    write_report(run, tmp_path / "report", in_parts=True)
    gc.collect()
    assert len(run.records) == 200
    assert sum(type(one) is Record for one in gc.get_objects()) <= 8


def test_size_decides(tmp_path, monkeypatch):
    folder = write_run(tmp_path, some_records())
    assert type(read_run_of_any_size(folder).records[0]) is Record
    monkeypatch.setattr(stored, "LARGE_CASES", len(some_records()) - 1)
    assert type(read_run_of_any_size(folder).records[0]) is not Record


def test_a_file_that_changes_meanwhile_is_one_line(tmp_path):
    folder = write_run(tmp_path, some_records())
    (record, *_) = large(folder).records
    (folder / "records.jsonl").write_text("{}\n")
    with pytest.raises(HarnessError, match="changed while it was read"):
        _ = record.message


def test_damaged_lines_are_reported_alike(tmp_path):
    folder = write_run(tmp_path, some_records())
    with (folder / "records.jsonl").open("a") as file:
        file.write('{"op": 1}\n\nno json\n' + '{"schema": 1, "op": "re')
    assert small(folder).losses == large(folder).losses
    assert len(small(folder).losses) == 3


@pytest.mark.parametrize(
    "value",
    [{"a": [1, "é\n"], "b": {"c": [{"d": 1}, {"d": None}]}}, [], {}, [{"x": (1, 2)}, 3], "text", {"a": []}],
)
def test_pieces_are_what_json_writes(value):
    assert "".join(json_pieces(value)) == json.dumps(value, ensure_ascii=False)
    nested = {"groups": [{"n": 1, "records": Streamed(lambda: iter([value, value]))}, {"records": Streamed(list)}], "z": value}
    expected = {"groups": [{"n": 1, "records": [value, value]}, {"records": []}], "z": value}
    assert "".join(json_pieces(nested)) == json.dumps(expected, ensure_ascii=False)


def test_a_compressed_run_is_read_alike(tmp_path):
    folder = write_run(tmp_path, varied_records())
    plain = [record.to_json() for record in small(folder).records]
    (folder / "records.jsonl.gz").write_bytes(gzip.compress((folder / "records.jsonl").read_bytes()))
    (folder / "records.jsonl").unlink()
    run = large(folder)
    assert [record.to_json() for record in run.records] == plain
