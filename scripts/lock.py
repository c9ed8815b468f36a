"""Writes the locks: the newest versions that pip resolves on each supported Python. ``LOCKS`` maps a lock to its extras:
those that share ``.venv``, and one each for the environments that stand alone (see pyproject.toml).

    python scripts/lock.py python3.12 python3.10

A lock is used as pip constraints, so a pin acts only where something asks for the package: the CUDA packages that the
default torch build needs bind nobody who installs a CPU build. For the same reason local versions (``+cpu``) are cut off.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCKS = {
    "requirements.lock": "device,capture,ultralytics,dev",
    "requirements-docs.lock": "docs",
    "requirements-visualizer.lock": "visualizer",
}
HEADER = "# Exact versions, used as pip constraints. Written by scripts/lock.py; edit pyproject.toml and run that again.\n"


def resolve(python: str, extras: str) -> tuple[str, dict[str, str]]:
    """The interpreter's version, "3.12", and what pip would install there: version by package name."""
    with tempfile.TemporaryDirectory() as scratch:
        report, pip = Path(scratch, "report.json"), Path(scratch, "venv", "bin", "pip")
        subprocess.run([python, "-m", "venv", pip.parent.parent], check=True)
        install: list[str | Path] = [pip, "install", "--quiet", "--dry-run", "--ignore-installed", "--report", report]
        subprocess.run([*install, f"{ROOT}[{extras}]", "setuptools"], check=True)
        answer = json.loads(report.read_text())
    found = {item["metadata"]["name"]: item["metadata"]["version"].partition("+")[0] for item in answer["install"]}
    del found["ssinghal"]
    return answer["environment"]["python_version"], found


def locked(pythons: list[str], extras: str) -> str:
    """The text of a lock."""
    pins: dict[str, dict[str, str]] = defaultdict(dict)
    for python in pythons:
        version, found = resolve(python, extras)
        for name, pin in found.items():
            pins[name][version] = pin
    lines = []
    for name, by_python in sorted(pins.items(), key=lambda item: item[0].lower()):
        if len(by_python) == len(pythons) and len(set(by_python.values())) == 1:
            lines.append(f"{name}=={next(iter(by_python.values()))}\n")
        else:
            lines += [f'{name}=={pin} ; python_version == "{version}"\n' for version, pin in by_python.items()]
    return HEADER + "".join(lines)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    for lock, extras in LOCKS.items():
        (ROOT / lock).write_text(locked(sys.argv[1:], extras))
