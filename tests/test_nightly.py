"""The nightly workflow: what it says is valid, and its steps, run here in order, tell a good night from a bad one."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from ssinghal.cli import cli
from tests.support.processes import catalog_text, read_lines

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / ".github" / "workflows" / "nightly.yml"
WORKFLOW: dict[Any, Any] = yaml.safe_load(FILE.read_text())
(JOB,) = WORKFLOW["jobs"].values()
STEPS: list[dict[str, Any]] = JOB["steps"]
VIRTUAL = {"DEVICE": "virtual", "BOARD": "n150", "RECHECK": "0", "FAIL_ON": "new-oom,new-fault,lost-fit,nothing-compared"}
SILICON = {"DEVICE": "silicon", "BOARD": "p150", "RECHECK": "20", "FAIL_ON": "none"}


# Stands in for a command: writes its name and arguments down, one call a line, and succeeds.
RECORDER = """#!/bin/sh
{ printf '%s' "${0##*/}"; [ $# = 0 ] || printf '\\037%s' "$@"; echo; } >>"$CALLS"
"""
SHAPES = ([1, 32, 64], [1, 96, 544, 960], [1, 96, 2160, 3840])
IDS = ["1x32x64-l1-nhwc", "1x96x544x960-l1-nhwc", "1x96x2160x3840-l1-nhwc"]
# A night that runs for real, in the environment of these tests and on a small catalog of its own: one case fits, two do not.
REAL = {
    "run_all_tests.sh": f"#!/bin/sh\nln -s '{sys.prefix}' .venv\n",
    "catalog.yaml": catalog_text({"relu": [{"shape": shape} for shape in SHAPES]}),
}


@dataclass
class Night:
    """How a job ended: of each step that ran, its exit code."""

    codes: dict[str, int] = field(default_factory=dict)
    output: str = ""
    summary: str = ""

    @property
    def is_good(self) -> bool:
        return not any(self.codes.values())


@dataclass
class Runner:
    """A stand-in for GitHub's: runs shell steps as it does, and copies files where the workflow names its actions."""

    folder: Path
    environ: dict[str, str]
    uploaded: dict[str, list[str]] = field(default_factory=dict)

    @property
    def cache(self) -> Path:
        return self.folder / "cache"

    def night(self, name: str, **programs: str) -> Night:
        """One job in a workspace of its own; ``programs``: texts of stand-ins by path in it."""
        self.work = work = self.folder / name
        work.mkdir()
        for shared in ("ssinghal", "conftest.py", "pyproject.toml"):
            (work / shared).symlink_to(ROOT / shared)
        for program, text in programs.items():
            (work / program).parent.mkdir(parents=True, exist_ok=True)
            (work / program).write_text(text)
            (work / program).chmod(0o755)
        (work / "GITHUB_PATH").write_text("")
        (work / "GITHUB_STEP_SUMMARY").write_text("")
        ended = Night()
        for step in STEPS:
            if ended.is_good or step.get("if") == "always()":
                code, output = self._shell(step["run"]) if "run" in step else self._action(**step)
                ended.codes[step.get("name", step.get("uses"))] = code
                ended.output += output
        ended.summary = (work / "GITHUB_STEP_SUMMARY").read_text()
        return ended

    def _shell(self, script: str) -> tuple[int, str]:
        added = (self.work / "GITHUB_PATH").read_text().split()
        files = {name: str(self.work / name) for name in ("GITHUB_PATH", "GITHUB_STEP_SUMMARY")}
        path = os.pathsep.join([*reversed(added), os.environ["PATH"]])
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
            cwd=self.work,
            env={**os.environ, **self.environ, **files, "PATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=180,
        )
        return done.returncode, done.stdout

    def _action(self, uses: str, **step: Any) -> tuple[int, str]:
        action, given = uses.partition("@")[0], step.get("with", {})
        if action == "actions/cache/restore" and self.cache.exists():
            shutil.copytree(self.cache, self.work / given["path"])
        elif action == "actions/cache/save":
            shutil.rmtree(self.cache, ignore_errors=True)
            shutil.copytree(self.work / given["path"], self.cache)
        elif action == "actions/upload-artifact":
            for path in given["path"].split():
                if (self.work / path).exists():  # GitHub warns of what is missing, and goes on
                    self.uploaded.setdefault(self.work.name, []).append(path)
        return 0, ""


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    return Runner(tmp_path_factory.mktemp("nights"), {**VIRTUAL, "CATALOGS": "catalog.yaml"})


def records(path: Path) -> list[dict[str, Any]]:
    return read_lines(path / "records.jsonl")


def statuses(path: Path) -> list[str]:
    return sorted(record["status"] for record in records(path))


@pytest.mark.virtual_device
def test_nights_one_after_the_other(runner: Runner) -> None:
    """Two good ones, one that regresses, which is then accepted."""
    first = runner.night("first", **REAL)
    assert first.is_good, first.output
    assert "Nothing to compare with" in first.summary
    assert statuses(runner.cache) == ["fits", "oom", "oom"]

    runner.environ["RECHECK"] = "2"
    second = runner.night("second", **REAL)
    assert second.is_good, second.output
    assert "no change" in second.summary.lower()
    assert "2 cases repeated in fresh processes, 0 differ" in second.output
    assert "repeated" not in first.output
    runner.environ["RECHECK"] = "0"
    assert records(runner.cache) == records(runner.folder / "second" / "results" / "latest")

    # Of yesterday's verdicts one was better: as if the case had fitted then.
    lines = records(runner.cache)
    worse = next(record for record in lines if record["status"] == "oom")
    for name in ("resource", "stage", "message", "error_type"):
        worse.pop(name, None)
    worse["status"] = "fits"
    (runner.cache / "records.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    third = runner.night("third", **REAL)
    assert {name: code for name, code in third.codes.items() if code} == {"Compare with the last good run": 1}
    assert "Upload" in third.codes
    assert "Keep it for the next night" not in third.codes
    assert records(runner.cache) == lines
    assert [name for name in IDS if name in third.summary] == [worse["id"]]

    runner.environ["FAIL_ON"] = "none"  # the input accept
    assert runner.night("accepted", **REAL).is_good
    assert statuses(runner.cache) == ["fits", "oom", "oom"]

    for night in ("first", "third"):
        assert runner.uploaded[night] == ["report", "results", "junit.xml"]
        kept = runner.folder / night
        assert (kept / "report" / "report.html").exists()
        assert ElementTree.parse(kept / "junit.xml").getroot().find("testsuite").get("tests") != "0"


def test_a_device_that_does_not_open_fails_the_job_and_keeps_the_baseline(tmp_path: Path) -> None:
    runner = Runner(tmp_path, {**SILICON, "CATALOGS": "yolo12x", "CALLS": str(tmp_path / "calls")})
    runner.cache.mkdir()
    broken = "#!/bin/sh\nexit 2\n"
    ended = runner.night("night", **{"run_all_tests.sh": RECORDER, ".venv/bin/ssinghal": broken, "junit.xml": "", "report": ""})
    assert [name for name, code in ended.codes.items() if code] == ["Run the catalogs"]
    assert list(ended.codes)[-1] == "Upload"


@pytest.mark.parametrize("environ", [VIRTUAL, SILICON])
@pytest.mark.parametrize("has_baseline", [True, False])
@pytest.mark.parametrize("catalogs", ["", "yolo12x swin_b"])
def test_every_command_is_one_that_we_have(tmp_path: Path, environ: dict[str, str], has_baseline: bool, catalogs: str) -> None:
    """Each call of a night is parsed by the real command, with its options and their values, and not run."""
    calls = tmp_path / "calls"
    runner = Runner(tmp_path, {**environ, "CATALOGS": catalogs, "CALLS": str(calls)})
    if has_baseline:
        runner.cache.mkdir()
    recorded = dict.fromkeys(("run_all_tests.sh", ".venv/bin/ssinghal", ".venv/bin/python"), RECORDER)
    results = {"results/latest/records.jsonl": "", "junit.xml": "", "report": ""}
    ended = runner.night("night", **recorded, **results)
    assert ended.is_good, ended.output
    made = [line.split("\037") for line in calls.read_text().splitlines()]
    ours = [arguments for program, *arguments in made if program == "ssinghal"]
    assert [arguments[0] for arguments in ours] == [
        "run",
        "report",
        *(["compare"] if has_baseline else []),
        *([] if environ is VIRTUAL else ["recheck"]),
    ]
    with cli.make_context("ssinghal", ["run"]) as context:
        parsed = {}
        for name, *rest in ours:
            command = cli.get_command(context, name)
            assert command is not None
            parsed[name] = command.make_context(name, rest, parent=context).params
    run = parsed["run"]
    assert (run["mode"], run["board"]) == (environ["DEVICE"], environ["BOARD"])
    assert run["catalogs"] == tuple(catalogs.split())
    assert made[0] == ["run_all_tests.sh", "--setup-only", *(["--no-torch"] if environ is VIRTUAL else [])]
    (suites,) = [arguments for program, *arguments in made if program == "python"]
    assert suites.count("--oom-catalog") == len(catalogs.split())


def test_values_reach_the_shell_by_the_environment_alone() -> None:
    """An expression within a script would be pasted into it before the shell reads it. All are there that the scripts use."""
    scripts = [step["run"] for step in STEPS if "run" in step]
    assert not any("${{" in script for script in scripts)
    used = {name for script in scripts for name in re.findall(r"\$\{?([A-Z_]+)", script)}
    assert used - {"PWD"} == {*WORKFLOW["env"], "GITHUB_PATH", "GITHUB_STEP_SUMMARY"}


def test_the_job_may_read_and_ends() -> None:
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert JOB.keys() & {"permissions", "continue-on-error"} == set()
    assert WORKFLOW["concurrency"]["group"]
    assert 0 < JOB["timeout-minutes"] <= 360  # what GitHub allows
    assert JOB["defaults"]["run"]["shell"] == "bash"  # else without pipefail
    assert len({step["name"] for step in STEPS[1:]}) == len(STEPS) - 1
    on = WORKFLOW[True]  # YAML 1.1 reads the key "on" as true
    assert set(on) == {"schedule", "workflow_dispatch"}


def test_actions_are_githubs_own_at_a_major_version_and_nothing_names_a_host() -> None:
    uses = [step["uses"] for step in STEPS if "uses" in step]
    assert len(uses) == 4
    assert all(re.fullmatch(r"actions/[a-z/-]+@v\d+", use) for use in uses)
    assert "://" not in FILE.read_text()


def test_a_baseline_belongs_to_its_device_board_and_catalogs() -> None:
    restore, save = (step["with"] for step in STEPS if step.get("uses", "").startswith("actions/cache/"))
    assert (restore["path"], restore["key"]) == (save["path"], save["key"])
    assert restore["key"].startswith(restore["restore-keys"])
    assert all(name in restore["restore-keys"] for name in ("env.DEVICE", "env.BOARD", "inputs.catalogs"))
    names = [step.get("name") for step in STEPS]
    assert names.index("Compare with the last good run") < names.index("Keep it for the next night")
