"""Runs of a suite of TTNN tests as a user makes them, and what the JUnit file states of each test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

ROOT = Path(__file__).parents[2]


class Ended(NamedTuple):
    """A test: ``status`` is passed, skipped, failure or error, as JUnit has it."""

    status: str
    properties: dict[str, str]
    message: str

    @property
    def outcome(self) -> str:
        return self.properties.get("tt_outcome", "")


class Run(NamedTuple):
    code: int
    output: str
    tests: dict[str, Ended]

    @property
    def outcomes(self) -> dict[str, str]:
        return {name: test.outcome for name, test in self.tests.items()}


def run_suite(folder: Path, *words: str, within: tuple[str, ...] = (), **variables: str) -> Run:
    """Runs pytest in a folder; ``within``: the command that runs it, such as ``ssinghal exec``."""
    junit = folder / "junit.xml"
    junit.unlink(missing_ok=True)
    command = [*within, sys.executable, "-m", "pytest", f"--junitxml={junit}", *words]
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **variables}
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=300)
    return Run(done.returncode, done.stdout + done.stderr, _read(junit) if junit.exists() else {})


def _read(junit: Path) -> dict[str, Ended]:
    tests = {}
    for case in ElementTree.parse(junit).iter("testcase"):
        verdict = next((child for child in case if child.tag in ("failure", "error", "skipped")), None)
        properties = {one.get("name", ""): one.get("value", "") for one in case.iter("property")}
        status, message = ("passed", "") if verdict is None else (verdict.tag, verdict.get("message", ""))
        name = f"{case.get('classname')}::{case.get('name')}"
        assert name not in tests, f"{name} is reported twice"
        tests[name] = Ended(status, properties, message)
    return tests
