"""Commands that read a run of many records keep few of them in memory: each record that a file gave is counted while it is
alive, with limits as for large runs."""

from __future__ import annotations

import json
import shutil
import weakref
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from ssinghal.core.measured import Usage
from ssinghal.core.record import Record
from ssinghal.operators.case_json import case_from_json
from ssinghal.release_matrix.matrix import Timeline, VerdictChange
from ssinghal.release_matrix.runner import ReleaseFolder
from ssinghal.runs import parsing, stored
from ssinghal.runs.reader import read_run
from ssinghal.runs.stored import read_run_of_any_size
from tests.cli.test_run import Run
from tests.support.run_builder import a_record, write_run

CALLS = 150
LARGE, LOADED = 100, 8  # records of which a run is large; complete ones in memory
AT_MOST = LOADED + 8  # and those at work


class Alive:
    """Counts the records that were read and are in use."""

    def __init__(self) -> None:
        self.read = self.now = self.most = 0

    def add(self, record: Record) -> Record:
        self.read += 1
        self.now += 1
        self.most = max(self.most, self.now)
        weakref.finalize(record, self._drop)
        return record

    def _drop(self) -> None:
        self.now -= 1


@pytest.fixture
def alive(monkeypatch) -> Iterator[Alive]:
    counted = Alive()
    parse = parsing.parse_record
    for module in (parsing, stored):
        monkeypatch.setattr(module, "parse_record", lambda text: counted.add(parse(text)))
    monkeypatch.setattr(stored, "LARGE_CASES", LARGE)
    monkeypatch.setattr(stored, "LOADED", LOADED)
    return counted


@pytest.fixture(scope="module")
def placed(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of 150 calls in two placements. A tensor of the last one takes 64 x 2160 x 1920 x 2 B, 530,841,600 B, more than the
    64 banks of L1 have (of 1,572,864 B at most), and fits in DRAM."""
    shapes = [[1, 32, 32 * n] for n in range(1, CALLS)] + [[1, 64, 2160, 1920]]
    run = Run(tmp_path_factory.mktemp("placed"), {"relu": [{"shape": shape} for shape in shapes]})
    code, _, err = run("--placements", "dram,l1")
    assert code == 0, err
    assert run.statuses() == {"fits": 2 * CALLS - 1, "oom": 1}
    return run


@pytest.fixture
def folder(placed, tmp_path) -> Path:
    shutil.copytree(placed.folder, tmp_path, symlinks=True, dirs_exist_ok=True)
    return tmp_path


def all_were_read(alive: Alive) -> None:
    assert alive.read >= 2 * CALLS
    assert alive.most <= AT_MOST


@pytest.mark.virtual_device
def test_the_placements_at_the_end_of_a_run(folder, run, alive):
    """The run has all its records, and lacks its end."""
    head = folder / "results" / "latest" / "run.json"
    before = (folder / "results" / "latest" / "summary.txt").read_text()
    head.write_text(json.dumps({**json.loads(head.read_text()), "finished": None}))
    done = run("run", "--resume", "latest", "--json")
    (view,) = json.loads(done.out)["placements"]
    (catalog,) = view["models"]
    assert (done.code, catalog["calls"], catalog["fit_in_dram_alone"]) == (0, CALLS, 1)
    assert "300 of 300 selected cases recorded" in before
    all_were_read(alive)


@pytest.mark.virtual_device
def test_recheck(folder, run, alive):
    done = run("recheck", "--cases", "2")
    assert (done.code, done.out) == (0, "2 cases repeated in fresh processes, 0 differ\n"), done.err
    all_were_read(alive)


@pytest.mark.virtual_device
def test_remedy_of_the_failures_of_a_run(folder, run, alive):
    done = run("remedy", "--run", "latest", "--no-values", "--probes", "1")
    assert done.code in (0, 1), done.err
    assert "1 case: 1 has a remedy" in done.out
    all_were_read(alive)


@pytest.mark.virtual_device
def test_reports_for_ttnn_visualizer(folder, run, alive):
    done = run("export-visualizer", "--all", "--sample", "2")
    assert (done.code, done.out.splitlines()[0][:18]) == (0, "2 of 2 reports in "), done
    all_were_read(alive)


# Releases, by hand -----------------------------------------------------------------------------------------------------------


def test_a_release_of_a_timeline(tmp_path, alive):
    """What is missing, and the records in the order of the cases, which is not that of the file."""
    options = {"board": "n150"}
    shapes = [[1, 32, 32 * n] for n in range(1, 301)]
    cases = [case_from_json({"op": "relu", "inputs": [shape], "memory": "l1"}) for shape in shapes]
    write_run(tmp_path, [a_record("relu", shape) for shape in reversed(shapes[:-1])], "0.81.1", options=options)
    release = ReleaseFolder(tmp_path, "0.81.1", options)
    assert release.missing(cases) == cases[-1:]
    assert (alive.read, alive.most <= 2) == (299, True)
    assert [record.inputs[0] for record in release.run_of(cases[:-1]).records] == [tuple(shape) for shape in shapes[:-1]]
    assert alive.most <= AT_MOST


def test_changes_between_releases_are_those_of_records_in_memory(tmp_path, alive):
    """One call of 300 no longer fits, one takes 32 B more at its peak, and one has another kind of program buffers."""

    def usage(**changed: int) -> dict[str, Any]:
        none = dict.fromkeys((field.name for field in fields(Usage)), 0)
        return {"usage": {**none, "l1_total_bytes": 4096, "circular_bytes": 4096, **changed}}

    def records(ttnn: str, *last: dict[str, Any]) -> list[dict[str, Any]]:
        plain = [a_record("relu", (1, 32, 32 * n), ttnn=ttnn, measured=usage()) for n in range(1, 301 - len(last))]
        return [*plain, *(a_record("gelu", (1, 32, 32 * n), ttnn=ttnn, **one) for n, one in enumerate(last, 1))]

    same = {"measured": usage()}
    changed = (
        {"status": "oom"},
        {"measured": usage(l1_total_bytes=4128)},
        {"measured": usage(circular_bytes=0, dataflow_bytes=4096)},
    )
    paths = [
        write_run(tmp_path, records("0.80.0", same, same, same), "a", options={"board": "n150"}),
        write_run(tmp_path, records("0.81.1", *changed), "b", options={"board": "n150"}),
    ]
    small = Timeline.of([read_run(path) for path in paths]).to_json()
    assert alive.most == 600, "here, they are in memory"
    alive.most = 0
    large = Timeline.of([read_run_of_any_size(path) for path in paths])
    assert large.to_json() == small
    assert alive.most <= 2 * AT_MOST
    counts = small["steps"][0]["counts"]
    assert (
        counts[VerdictChange.NEWLY_FAILS],
        counts[VerdictChange.BYTES_CHANGED],
        small["steps"][0]["program_buffers_of_another_kind"],
    ) == (1, 1, 1)
