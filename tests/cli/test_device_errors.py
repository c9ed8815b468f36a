"""A device that the operating system does not start: an OSError, which is no HarnessError, is one line of every command too."""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.support.processes import CONFTEST, catalog_text, operator_module

pytest_plugins = ["pytester"]

CATALOG = catalog_text({"relu": [{"shape": [1, 32, 64]}]})
LINE = "nosuch/python: No such file or directory"
BOARDS = ("n150", "p150")


@pytest.fixture(autouse=True)
def no_program(monkeypatch, tmp_path):
    """The program of device processes is not there."""
    monkeypatch.setattr(sys, "executable", "nosuch/python")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "catalog.yaml").write_text(CATALOG)


def test_a_sweep_has_the_line_for_each_board(run, tmp_path):
    words = ("sweep", "catalog.yaml", "--board", ",".join(BOARDS))
    done = run(*words, "--json")
    assert done.code == 2, done.err
    parts = [(part["board"], part["run"], part["fault"]) for part in json.loads(done.out)["parts"]]
    assert parts == [(board, "", LINE) for board in BOARDS]
    done = run(*words)
    assert done.code == 2
    assert done.out.splitlines() == [f"{board}, ttnn {version('ttnn')}: {LINE}" for board in BOARDS]
    assert not list(tmp_path.glob("results/2*")), "no run was begun"


def test_run_and_doctor_have_it(run, tmp_path):
    done = run("run", "catalog.yaml")
    assert (done.code, done.out, done.err.splitlines()[-1]) == (2, "", f"ssinghal: {LINE}")
    done = run("doctor", "--device", "virtual")
    assert done.code == 1
    assert LINE in done.out
    assert "Errno" not in done.out
    assert not list(tmp_path.glob("results/2*"))


def test_pytest_has_it(pytester):
    pytester.makeconftest(CONFTEST)
    pytester.path.joinpath("test_relu.py").write_text(operator_module("relu"))
    Path(pytester.path / "catalog.yaml").write_text(CATALOG)
    ended = pytester.runpytest_inprocess("-p", "no:cacheprovider", "--oom-catalog", "catalog.yaml")
    assert ended.ret == 4
    assert [line for line in ended.errlines if line] == [f"ERROR: {LINE}"]
