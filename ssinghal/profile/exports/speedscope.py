"""speedscope's own format: for each memory a profile of the stacks that hold it at its peak, weighted by their bytes.

Its schema is ``FileFormat`` in speedscope's ``src/lib/file-format-spec.ts``, published at the address in ``$schema``.
"""

from __future__ import annotations

from typing import Any

from ssinghal.profile.exports.stacks import Frame, peak_stacks
from ssinghal.profile.model import Profile
from ssinghal.profile.names import MEMORY_NAMES

SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def speedscope(profile: Profile, version: str) -> dict[str, Any]:
    """Returns the document. ``version``: of this program."""
    numbers: dict[Frame, int] = {}
    profiles = []
    for memory in profile.peaks:
        stacks = sorted(peak_stacks(profile, memory).items())
        profiles.append(
            {
                "type": "sampled",
                "name": f"{MEMORY_NAMES[memory]} at its peak",
                "unit": "bytes",
                "startValue": 0,
                "endValue": sum(size for _, size in stacks),
                "samples": [[numbers.setdefault(frame, len(numbers)) for frame in stack] for stack, _ in stacks],
                "weights": [size for _, size in stacks],
            }
        )
    return {
        "$schema": SCHEMA,
        "exporter": f"ssinghal@{version}",
        "name": " ".join(profile.argv),
        "activeProfileIndex": [*profile.peaks].index("l1") if "l1" in profile.peaks else 0,
        "shared": {"frames": [_frame(frame) for frame in numbers]},
        "profiles": profiles,
    }


def _frame(frame: Frame) -> dict[str, Any]:
    name, file, line = frame
    return {"name": name, "file": file, "line": line} if file else {"name": name}
