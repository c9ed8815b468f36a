"""Writes the locks: versions and hashes of what pip resolves on each supported Python. ``LOCKS`` maps a lock to its extras:
those that share ``.venv``, and one each for the environments that stand alone (see pyproject.toml).

    python scripts/lock.py python3.12 python3.10             # keeps the pins there are, adds what is missing
    python scripts/lock.py --upgrade python3.12 python3.10   # the newest versions

Needs ``packaging``. One line a pin: version, the Python it is for where the others have another, the SHA-256 of each archive
that pip chose, and the extras that need it. scripts/setup.sh installs the lines of the extras it wants with
``--require-hashes --no-deps --only-binary :all:``: pip takes no archive that is not listed, resolves nothing and runs no build.
Local versions (``+cpu``) are cut off.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
LOCKS = {
    "requirements.lock": ("virtual", "device", "capture", "ultralytics", "cluster", "fuzz", "dev"),
    "requirements-docs.lock": ("docs",),
    "requirements-visualizer.lock": ("visualizer",),
}
BASE = "base"  # needed whatever the extras are
HEADER = """\
# Exact versions and the SHA-256 of their archives. Written by scripts/lock.py; edit pyproject.toml and run that again.
# The last comment of a line names the extras that need it. scripts/setup.sh installs it with --require-hashes.
"""


@dataclass(frozen=True)
class Pin:
    """What pip would install of one package on one Python. ``name`` is as its authors write it."""

    name: str
    version: str
    sha256: str
    needed_by: frozenset[str]


def resolve(python: str, extras: tuple[str, ...], kept: str) -> tuple[str, list[Pin]]:
    """The interpreter's version, "3.12", and what pip would install there under the constraints ``kept``.

    Exits where an archive is no wheel: building one would run code that no hash covers.
    """
    with tempfile.TemporaryDirectory() as scratch:
        report, pip, constraints = Path(scratch, "report.json"), Path(scratch, "venv", "bin", "pip"), Path(scratch, "kept.txt")
        constraints.write_text(kept)
        subprocess.run([python, "-m", "venv", pip.parent.parent], check=True)
        install: list[str | Path] = [pip, "install", "--quiet", "--dry-run", "--ignore-installed", "--report", report]
        subprocess.run([*install, "--constraint", constraints, f"{ROOT}[{','.join(extras)}]", "setuptools"], check=True)
        answer = json.loads(report.read_text())
    found = {canonicalize_name(item["metadata"]["name"]): item for item in answer["install"]}
    groups = {extra: needed(found, answer["environment"], extra) for extra in (BASE, *extras)}
    pins = []
    for key, item in found.items():
        if key == "ssinghal":
            continue
        name, version = item["metadata"]["name"], item["metadata"]["version"].partition("+")[0]
        if not item["download_info"]["url"].endswith(".whl"):
            sys.exit(f"{name} {version} has no wheel for Python {answer['environment']['python_version']}")
        sha256 = item["download_info"]["archive_info"]["hash"].removeprefix("sha256=")
        pins.append(Pin(name, version, sha256, frozenset(extra for extra, names in groups.items() if key in names)))
    return answer["environment"]["python_version"], pins


def needed(found: dict[Any, dict[str, Any]], environment: dict[str, str], extra: str) -> set[str]:
    """The packages that the project needs with an extra, directly or through others; with ``BASE`` whatever the extras are."""
    seen: set[tuple[str, str]] = set()
    ahead = [("ssinghal", "" if extra == BASE else extra)] + [("setuptools", "")] * (extra == BASE)
    while ahead:
        name, its_extra = ahead.pop()
        if (name, its_extra) in seen:
            continue
        seen.add((name, its_extra))
        for line in found[name]["metadata"].get("requires_dist", ()):
            need = Requirement(line)
            if need.marker is None or need.marker.evaluate({**environment, "extra": its_extra}):
                ahead += [(canonicalize_name(need.name), one) for one in ("", *need.extras)]
    return {name for name, _ in seen}


def text_of(resolved: dict[str, list[Pin]]) -> str:
    """The text of a lock, from the pins by version of Python."""
    versions: dict[tuple[str, str], dict[str, Pin]] = {}
    for python, pins in resolved.items():
        for pin in pins:
            versions.setdefault((pin.name, pin.version), {})[python] = pin
    lines = []
    for (name, version), by_python in sorted(
        versions.items(), key=lambda item: (item[0][0].lower(), list(item[1]) != list(resolved))
    ):
        for pythons in [list(by_python)] if len(by_python) == len(resolved) else [[python] for python in by_python]:
            marker = "" if len(pythons) == len(resolved) else f' ; python_version == "{pythons[0]}"'
            hashes = dict.fromkeys(f" --hash=sha256:{by_python[python].sha256}" for python in pythons)
            extras = frozenset().union(*(by_python[python].needed_by for python in pythons))
            lines.append(f"{name}=={version}{marker}{''.join(hashes)} # {','.join(sorted(extras))}\n")
    return HEADER + "".join(lines)


def main(arguments: list[str]) -> None:
    upgrade = "--upgrade" in arguments
    pythons = [argument for argument in arguments if argument != "--upgrade"]
    if not pythons or any(python.startswith("-") for python in pythons):
        sys.exit(__doc__)
    for lock, extras in LOCKS.items():
        before = (ROOT / lock).read_text() if (ROOT / lock).exists() and not upgrade else ""
        kept = "".join(line.partition(" --hash")[0].partition(" #")[0] + "\n" for line in before.splitlines())
        (ROOT / lock).write_text(text_of(dict(resolve(python, extras, kept) for python in pythons)))


if __name__ == "__main__":
    main(sys.argv[1:])
