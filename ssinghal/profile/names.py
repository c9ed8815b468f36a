"""How messages name memories and lines."""

from __future__ import annotations

from ssinghal.profile.model import Call

MEMORY_NAMES = {"dram": "DRAM per bank", "l1": "L1 per core", "l1_small": "L1_SMALL per core", "trace": "trace region per bank"}


def where(call: Call) -> str:
    """Returns the name of a call, with its line."""
    return f"{call.name}, {call.site}" if call.site else call.name
