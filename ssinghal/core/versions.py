"""The versions of packages, the commit and the time that identify a run."""

from __future__ import annotations

import subprocess
from datetime import datetime, timezone
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("ssinghal", "ttnn", "torch", "numpy", "pytest")


def new_run_id() -> str:
    """Returns the UTC time to the microsecond: ids sort by start, and runs that start in the same second differ."""
    return datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%S.%fZ")


def now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


@cache
def package_versions() -> dict[str, str]:
    """Returns the versions of the packages that decide a verdict, from their metadata. Absent packages are left out."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def commit_of(folder: Path) -> str:
    """Returns the checked-out commit, with ``-dirty`` if files differ; empty outside a repository."""
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
