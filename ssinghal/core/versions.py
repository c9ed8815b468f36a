"""Versions of the packages and the commit that a run was made with."""

from __future__ import annotations

import subprocess
from datetime import datetime, timezone
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("ssinghal", "ttnn", "torch", "numpy", "pytest")


def new_run_id() -> str:
    """UTC time to the microsecond: sorts by start, and two runs of one second do not meet."""
    return datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%S.%fZ")


def now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


@cache
def package_versions() -> dict[str, str]:
    """Versions of what decides a verdict, read from metadata (nothing is imported); absent packages are left out."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def commit_of(folder: Path) -> str:
    """The checked-out commit with ``-dirty`` where files differ; empty outside a repository."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
