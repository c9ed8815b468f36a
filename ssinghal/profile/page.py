"""The profiles of a folder as one self-contained page: timelines, what was resident when, addresses, peaks by line, tables.

Everything that the user's program says (names, paths, messages) is escaped by the template or inserted by the script as text.
Each process is a compressed part that the page decodes when it is chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ssinghal.profile.finding import Finding
from ssinghal.profile.model import Profile
from ssinghal.profile.page_data import process_data
from ssinghal.profile.text import exactness, remarks, summary, unknown_programs
from ssinghal.render import html
from ssinghal.render.numbering import packed

CALLS = 60_000  # of all processes together: with more, a browser is no longer quick
LEAST_CALLS = 2_000  # of each process
_SHARED = ("dom.js", "format.js", "unpack.js")  # scripts of the report
_SCRIPTS = (
    "decode.js", "view.js", "plot.js", "timeline.js", "addresses.js", "call.js", "icicle.js", "operations.js", "sections.js",
    "main.js",
)  # fmt: skip


def page(profiles: Sequence[Profile], findings: Sequence[Sequence[Finding]] = (), calls: int = CALLS) -> str:
    """Returns the HTML of ``profiles``, with the ``findings`` of each, in their order. With more than about ``calls`` calls the
    page has a selection, which it states."""
    found = [findings[number] if number < len(findings) else () for number in range(len(profiles))]
    limit = max(LEAST_CALLS, calls // max(1, len(profiles)))
    names = [_name(profile, number, profiles) for number, profile in enumerate(profiles, 1)]
    texts = [
        (f"{name} (ttnn {profile.ttnn})", *summary(profile, own))
        for name, profile, own in zip(names, profiles, found, strict=True)
    ]
    data = [
        {
            "data": packed(process_data(profile, own, limit)),
            "facts": _facts(profile),
            "notes": [*remarks(profile), *unknown_programs(profile)],
            "exactness": exactness(profile),
            "isExact": not profile.differences and not profile.unknown_frees,
        }
        for profile, own in zip(profiles, found, strict=True)
    ]
    return html.page(
        html.templates("ssinghal.profile").get_template("profile.html.j2"),
        title=f"Memory of {_program(profiles[0])}" if profiles else "Memory of no process",
        style=html.asset("ssinghal.report", "assets/page.css") + html.asset("ssinghal.profile", "assets/profile.css"),
        scripts=[
            *(html.asset("ssinghal.report", f"assets/{name}") for name in _SHARED),
            *(html.asset("ssinghal.profile", f"assets/{name}") for name in _SCRIPTS),
        ],
        data={"processes": data},
        processes=[{"name": name, "summary": "\n".join(lines)} for name, lines in zip(names, texts, strict=True)],
    )


def _program(profile: Profile) -> str:
    return Path(profile.argv[0]).name if profile.argv else "a program"


def _name(profile: Profile, number: int, profiles: Sequence[Profile]) -> str:
    command = " ".join(profile.argv) or "a program"
    return f"{number} of {len(profiles)}: {command}" if len(profiles) > 1 else command


def _facts(profile: Profile) -> str:
    """Returns what the process ran on."""
    if not profile.devices:
        return "no device was opened"
    device = profile.devices[-1]
    mesh = "x".join(map(str, device.mesh))
    facts: list[Any] = [
        " ".join(profile.argv),
        f"ttnn {device.ttnn}",
        device.arch.replace("_", " "),
        *([f"mesh {mesh}"] if mesh.strip("1x") else []),
        f"{device.grid[0]} x {device.grid[1]} cores",
        *([f"{len(profile.devices):,} devices, one after another"] if len(profile.devices) > 1 else []),
    ]
    return ", ".join(filter(None, facts))
