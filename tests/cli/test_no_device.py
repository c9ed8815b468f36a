"""Runs whose device does not open: one line, the exit code of settings that cannot be used, and nothing on disk."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.support.processes import catalog_text, wait_for, workers_of

PROGRAM = [sys.executable, "-m", "ssinghal"]
PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--oom-catalog", "catalog.yaml"]
CASES = {"relu": [{"shape": [1, 32, 64]}, {"shape": [1, 32, 96]}], "add": [{"shape": [1, 32, 64]}]}
SUITE = """
import pytest
pytestmark = pytest.mark.operator("relu")

def test_relu(case, compare):
    compare(case)
"""


class Fault:
    """Something that keeps a device from opening. ``line``: a part of the message. ``make``: gets an empty folder, and returns
    environment variables. ``words``: options of a command."""

    def __init__(self, line: str, make: Callable[[Path], Mapping[str, str]], *words: str) -> None:
        self.line, self.make, self.words = line, make, words


def broken_ttnn(folder: Path) -> dict[str, str]:
    (folder / "ttnn").mkdir(parents=True)
    (folder / "ttnn" / "__init__.py").write_text("raise ImportError('libtt_metal.so: cannot open shared object file')\n")
    return {"PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}


def no_cache(_: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": "/proc/nothing"}


def unusable_compiler(folder: Path) -> dict[str, str]:
    """The stand-in compiler cannot be made, as a file is where its folder should be."""
    folder.mkdir()
    (folder / "ssinghal").mkdir(mode=0o700)
    (folder / "ssinghal" / "virtual").write_text("")
    return {"XDG_CACHE_HOME": str(folder)}


FAULTS = {
    "no cache": Fault("cannot write /proc/nothing, for the files of virtual devices", no_cache),
    "no compiler": Fault("cannot write ", unusable_compiler),
    "broken ttnn": Fault("libtt_metal.so: cannot open shared object file", broken_ttnn),
}
COMMANDS = {
    "run": [*PROGRAM, "run", "catalog.yaml", "--workers", "1"],
    "run on a local cluster": [*PROGRAM, "run", "catalog.yaml", "--cluster", "local:1"],
    "sweep": [*PROGRAM, "sweep", "catalog.yaml", "--board", "n150"],
    "pytest": [*PYTEST, "--oom-results", "results"],
    "pytest with xdist": [*PYTEST, "--oom-results", "results", "-n", "1"],
}
EXIT = {name: 4 if "pytest" in name else 2 for name in COMMANDS}


@pytest.fixture
def place(tmp_path) -> Path:
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "catalog.yaml").write_text(catalog_text(CASES))
    (tmp_path / "here" / "conftest.py").write_text('pytest_plugins = ["ssinghal.plugin"]\n')
    (tmp_path / "here" / "test_relu.py").write_text(SUITE)
    return tmp_path / "here"


def ended(place: Path, command: Sequence[str], environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    without_files = {"PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        command, cwd=place, env={**os.environ, **without_files, **environ}, text=True, capture_output=True, check=False
    )


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.virtual_device
@pytest.mark.parametrize(
    ("fault", "command"),
    [
        *((fault, "run") for fault in FAULTS),
        ("no cache", "run on a local cluster"),
        ("broken ttnn", "sweep"),
        ("no compiler", "pytest"),
        ("no cache", "pytest with xdist"),
    ],
)
def test_nothing_is_left_of_a_run_without_a_device(place, fault, command):
    made = FAULTS[fault]
    environ = made.make(place.parent / "fault")
    before = files(place)
    done = ended(place, COMMANDS[command], environ)
    said = done.stdout + done.stderr
    assert (done.returncode, "Traceback" in said) == (EXIT[command], False), said
    assert made.line in said
    assert files(place) == before


def test_without_a_card_nothing_is_written(place, run, monkeypatch):
    monkeypatch.chdir(place)
    before = files(place)
    for command in ("run", "sweep"):
        done = run(command, "catalog.yaml", "--device", "silicon")
        assert (done.code, done.out, len(done.err.splitlines())) == (2, "", 1)
    assert files(place) == before


@pytest.mark.virtual_device
def test_a_sweep_goes_on_after_a_release_that_is_damaged(place):
    """Its files are there, but cannot be imported. The run of the next release is the latest; a faulty one leaves it so."""
    cache = place.parent / "cache"
    damaged = cache / "ssinghal" / "releases" / "ttnn-0.75.0"
    (damaged / "ttnn" / "tt_metal").mkdir(parents=True)
    for folder in (cache, *(cache / "ssinghal").rglob("*")):
        folder.chmod(0o700)
    (damaged / "ttnn" / "__init__.py").write_text("raise ImportError('libtt_metal.so: file too short')\n")
    (damaged / "ttnn" / "_ttnn.so").write_text("")
    (damaged / "ttnn-0.75.0.dist-info").mkdir()
    (damaged / "ttnn-0.75.0.dist-info" / "METADATA").write_text("Name: ttnn\nVersion: 0.75.0\n")
    (damaged / "ttnn-0.75.0.dist-info" / "RECORD").write_text("")
    command = [*COMMANDS["sweep"], "--op", "relu", "--json"]
    done = ended(place, [*command, "--ttnn", f"0.75.0,{version('ttnn')}"], {"XDG_CACHE_HOME": str(cache)})
    assert done.returncode == 2
    first, second = json.loads(done.stdout)["parts"]
    assert (first["run"], "libtt_metal.so: file too short" in first["fault"]) == ("", True), done.stderr
    assert second["fault"] == ""
    results = place / "results"
    assert [path.name for path in results.iterdir() if path.is_dir() and not path.is_symlink()] == [second["run"]]
    before = files(place)
    again = ended(place, [*command[:-1], "--ttnn", "0.75.0"], {"XDG_CACHE_HOME": str(cache)})
    (line,) = again.stdout.splitlines()
    assert (again.returncode, line.startswith("n150, ttnn 0.75.0: ")) == (2, True)
    assert files(place) == before
    assert os.readlink(results / "latest") == second["run"]


@pytest.mark.virtual_device
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("command", ["run", "sweep"])
def test_nothing_is_left_of_a_run_that_is_ended_while_its_device_opens(place, command, number, code):
    before = files(place)
    process = subprocess.Popen(
        COMMANDS[command],
        cwd=place,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    wait_for(lambda: bool(workers_of(process.pid)), "its worker")
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, "Traceback" in err) == (code, "", False)
    assert files(place) == before
