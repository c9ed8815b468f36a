"""Writes the report of a folder of records: the files that are made of what its profiles add up to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ssinghal.core.files import write_whole
from ssinghal.errors import printable
from ssinghal.profile.findings import find
from ssinghal.profile.json_report import write_json
from ssinghal.profile.model import Profile
from ssinghal.profile.page import page
from ssinghal.profile.text import summary

SUMMARY = "summary.txt"
DOCUMENT = "profile.json"
PAGE = "profile.html"


def write_report(folder: Path, profiles: Sequence[Profile]) -> list[str]:
    """Writes the report into ``folder`` and returns the lines of its summary."""
    findings = [find(profile) for profile in profiles]
    summaries = [
        (f"{printable(' '.join(one.argv))} (ttnn {one.ttnn})", *summary(one, found))
        for one, found in zip(profiles, findings, strict=True)
    ]
    lines = [line for one in summaries for line in ("", *one)][1:]
    write_whole(folder / SUMMARY, "\n".join(lines) + "\n")
    write_json(folder / DOCUMENT, profiles, findings)
    write_whole(folder / PAGE, page(profiles, findings))
    return lines
