"""Files that are none, under the names that commands write in folders that others may have packed: each is refused in one line,
or replaced, and nothing waits for a reader or is written to a device."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from ssinghal.core.device_facts import NOT_OPENED
from ssinghal.core.files import GrowingFile, LineFile, replacing
from ssinghal.device.releases import installed_release
from ssinghal.errors import HarnessError
from ssinghal.operators.case_json import case_from_json
from ssinghal.profile.report import write_report as write_profile
from ssinghal.release_matrix.runner import RemainingCases
from ssinghal.report.large_page import PARTS
from ssinghal.report.retry import REMEDIES, search_remedies
from ssinghal.report.visualizer_export import describe
from ssinghal.report.writer import write_report
from ssinghal.runs.compressing import repack
from ssinghal.runs.index import Store
from ssinghal.runs.reader import read_run
from ssinghal.runs.resuming import UnfinishedRun
from tests.profile.records import profile
from tests.support.run_builder import a_record, write_run
from tests.test_special_files import ends_soon, refusal

CASES = [case_from_json({"op": "relu", "inputs": [[1, 32, width]], "memory": "l1"}) for width in (32, 64)]


def _report(folder: Path, in_parts: bool = False) -> None:
    write_report(read_run(folder.parent), folder, in_parts=in_parts)


def _resume(folder: Path) -> None:
    with UnfinishedRun(folder) as run:
        run.unanswered(CASES)
        run.continued().finish(len(CASES))


def _release(folder: Path) -> None:
    release = installed_release()
    assert release is not None
    part = RemainingCases.of(release, folder.parent, {"board": "n150"}, CASES)
    with part.folder.growing(NOT_OPENED):
        pass


# Each writer, and names that it writes in a folder.
WRITERS: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "report": (_report, [".report-files", "report.html", "failures.csv", "per_operator/relu.md"]),
    "parts": (lambda folder: _report(folder, in_parts=True), [".report-files", "report.html", f"{PARTS}/0-0.js"]),
    "resume": (_resume, ["run.json", "summary.txt", "records.jsonl", ".lock", "other"]),
    "compress": (repack, ["records.jsonl.gz", ".lock"]),
    "index": (lambda folder: Store(folder.parent / "store.sqlite").index(folder), ["../store.sqlite"]),
    "remedies": (lambda folder: search_remedies(read_run(folder), lambda records, _: records), [REMEDIES]),
    "profile": (lambda folder: write_profile(folder, [profile()]), ["summary.txt", "profile.json", "profile.html"]),
    "visualizer": (describe, ["README.md"]),
    "release": (_release, ["run.json", "records.jsonl"]),
}


def _pipe(path: Path, beside: Path) -> None:
    os.mkfifo(path)


def _device(path: Path, beside: Path) -> None:
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 7))  # full: what is written to it is an error


def _link(path: Path, beside: Path) -> None:
    os.mkfifo(beside)
    path.symlink_to(beside)


def _loop(path: Path, beside: Path) -> None:
    path.symlink_to(path.name)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
KINDS = [
    pytest.param(_pipe, id="pipe"),
    pytest.param(_device, id="device", marks=needs_root),
    pytest.param(_link, id="link"),
    pytest.param(_loop, id="loop"),
]


def _folder(writer: str, parent: Path) -> Path:
    """Returns the folder that a writer gets: of a run that was killed after the first of two cases, or in it."""
    head = {"options": {"catalogs": ["some"]}, "selection_sha256": "ab", "answerer": "cd", "finished": None, "selected": 2}
    run = write_run(parent / "results", [a_record("relu", (1, 32, 32))], **head)
    if writer in ("report", "parts"):
        (run / "report" / "per_operator").mkdir(parents=True)
        (run / "report" / PARTS).mkdir()
        return run / "report"
    if writer == "release":
        release = installed_release()
        assert release is not None
        return run.rename(run.parent / release.version)
    return run


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("writer", "name"), [(writer, name) for writer, (_, names) in WRITERS.items() for name in names])
def test_what_is_no_file_is_refused_or_replaced(writer, name, kind, tmp_path):
    write, _ = WRITERS[writer]
    folder = _folder(writer, tmp_path)
    path = folder / name
    path.unlink(missing_ok=True)
    kind(path, tmp_path / "beside")
    before = path.lstat()
    text = refusal(write, folder)
    assert text is None or (len(text.splitlines()) == 1 and str(tmp_path) in text)
    after = path.lstat()
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode) or path.is_file()
    assert not (tmp_path / "beside").exists() or (tmp_path / "beside").is_fifo()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["run.json", "summary.txt", "records.jsonl", "other"])
def test_nothing_of_a_run_with_one_is_resumed(name, kind, tmp_path):
    folder = _folder("resume", tmp_path)
    (folder / name).unlink(missing_ok=True)
    kind(folder / name, tmp_path / "beside")
    before = {path.name: path.read_bytes() for path in folder.iterdir() if stat.S_ISREG(path.lstat().st_mode)}
    with ends_soon(), pytest.raises(HarnessError, match=rf"{name}: a (link|pipe or a device): expected"):
        _resume(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir() if stat.S_ISREG(path.lstat().st_mode)} == before


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["report/.report-files", "report/report.html", "report/other"])
def test_the_report_of_a_run_with_one_is_refused(name, kind, run, tmp_path):
    folder = _folder("report", tmp_path)
    kind(folder.parent / name, tmp_path / "beside")
    with ends_soon():
        done = run("report", str(folder.parent))
    assert (done.code, len(done.err.splitlines())) == (2, 1)
    assert done.err.startswith(f"ssinghal: {folder.parent / name}: a ")


def _replace(path: Path) -> None:
    with replacing(path) as temporary:
        temporary.write_text("x")


@pytest.mark.parametrize("kind", KINDS[:3])
@pytest.mark.parametrize("write", [_replace, LineFile, GrowingFile], ids=lambda write: write.__name__)
def test_the_writers_of_files_take_none_in_place_of_one(write, kind, tmp_path):
    kind(tmp_path / "file", tmp_path / "beside")
    with ends_soon(), pytest.raises((HarnessError, OSError), match="a pipe or a device: expected a file"):
        write(tmp_path / "file")
