"""Numbers that SQLite has no room for, in a profile that is written as TTNN's report database."""

from __future__ import annotations

import json
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from ssinghal.report.visualizer_export import REPORTS
from tests.profile.measure import run_ssinghal
from tests.profile.records import NET

LARGEST = 2**63 - 1  # SQLite's integers have 64 bits and a sign; JSON's of others are read up to 2**64 - 1


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of each number."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if type(item) is int:
            yield (*path, key)
        yield from places(item, (*path, key))


def with_number(path: tuple[Any, ...], number: int) -> list[Any]:
    records = deepcopy(NET)
    at: Any = records
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = number
    return records


def written(folder: Path, records: list[Any]) -> Path:
    folder.mkdir()
    (folder / "records-1.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder


STORED = [(1, "grid", 0), (1, "l1_base"), (1, "l1_top"), (1, "memories", "l1", 1)]  # in the row of the device
ADDRESSES = [path for path in places(NET) if path[1:3] == ("ev", 0) and path[3] in (2, 3)]  # and bytes per bank, of buffers


def export(folder: Path, form: str = "visualizer") -> subprocess.CompletedProcess[str]:
    return run_ssinghal(folder.parent, "profile", "export", folder.name, "--format", form)


def test_the_records_have_such_numbers():
    assert len(ADDRESSES) >= 2 * 4, "the allocations of the program"


@pytest.mark.parametrize(
    ("path", "number"), [*((path, 2**63) for path in STORED), (ADDRESSES[0], 2**63), (ADDRESSES[1], 2**64 - 1)], ids=str
)
def test_a_number_beyond_is_one_line_and_nothing_is_written(path, number, tmp_path):
    folder = written(tmp_path / "p", with_number(path, number))
    done = export(folder)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("ssinghal: p/records-1.jsonl: ")
    assert str(LARGEST) in line
    assert [file.name for file in folder.iterdir()] == ["records-1.jsonl"]


@pytest.mark.parametrize("form", ["speedscope", "collapsed", "perfetto", "memory_viz"])
def test_other_formats_take_it(form, tmp_path):
    assert export(written(tmp_path / "p", with_number(ADDRESSES[-1], 2**63)), form).returncode == 0


def test_the_largest_number_is_stored(tmp_path):
    done = export(written(tmp_path / "p", with_number((1, "l1_base"), -LARGEST - 1)))
    assert done.returncode == 2, "the L1 above it is larger than the largest number"
    path = next(path for path in ADDRESSES if path[3] == 2)
    folder = written(tmp_path / "q", with_number(path, LARGEST))
    assert export(folder).returncode == 0
    with sqlite3.connect(folder / "visualizer" / REPORTS / "net" / "db.sqlite") as database:
        assert (LARGEST,) in database.execute("SELECT address FROM buffers").fetchall()


def test_an_earlier_report_stays(tmp_path):
    folder = written(tmp_path / "p", NET)
    assert export(folder).returncode == 0
    before = sorted(folder.rglob("*"))
    (folder / "records-1.jsonl").write_text("".join(json.dumps(one) + "\n" for one in with_number((1, "l1_top"), 2**63)))
    assert export(folder).returncode == 2
    assert sorted(folder.rglob("*")) == before


def test_an_argument_that_is_no_text_is_stored_with_a_mark(tmp_path):
    """A byte that is no UTF-8 comes as half of a character, which no database holds."""
    folder = written(tmp_path / "p", [{**NET[0], "argv": ["net.py", "\udcff"]}, *NET[1:]])
    done = export(folder)
    assert (done.returncode, done.stderr) == (0, "")
    with sqlite3.connect(folder / "visualizer" / REPORTS / "net" / "db.sqlite") as database:
        assert ("net.py ?",) in database.execute("SELECT value FROM report_metadata").fetchall()


def test_a_database_that_cannot_be_written_is_one_line(tmp_path):
    folder = written(tmp_path / "p", NET)
    command = [sys.executable, "-m", "ssinghal", "profile", "export", "p", "--format", "visualizer"]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8_192, 8_192)),  # of a file: less than its tables take
    )
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("ssinghal: cannot write ")
    assert "p/visualizer" in line
    assert [file.name for file in folder.iterdir()] == ["records-1.jsonl"]
