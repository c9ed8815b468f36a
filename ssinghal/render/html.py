"""What a page needs that holds its style, scripts and data itself and asks for nothing: see the Content-Security-Policy."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

from ssinghal.core.record import Outcome, Resource, Status

_NOT_IN_SCRIPTS = {ord(c): f"\\u{ord(c):04x}" for c in "<>&"}  # U+2028 and all else beyond ASCII is escaped by json


def content_policy(style: str, script: str = "") -> str:
    """A browser may use this one inline style and script, and nothing else at all."""
    scripts = f"script-src {_hash(script)}; " if script else ""
    return f"default-src 'none'; style-src {_hash(style)}; {scripts}base-uri 'none'; form-action 'none'"


def script_data(value: Any) -> str:
    """JSON that may stand within a script element: no text in it can end that.

    >>> script_data(["</script>"])
    '["\\\\u003c/script\\\\u003e"]'
    """
    return json.dumps(value, separators=(",", ":")).translate(_NOT_IN_SCRIPTS)


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


# The class of an outcome in the style; what a device has run out of has its memory's.
_MEMORIES = {
    Resource.L1_BUFFER: "l1",
    Resource.L1_SMALL_BUFFER: "small",
    Resource.DRAM_BUFFER: "dram",
    Resource.CIRCULAR_BUFFER: "program",
    Resource.CLASH: "clash",
    Resource.KERNEL_CONFIG: "program",
}


_STATUSES = {
    Status.FITS: "fits",
    Status.UNSUPPORTED: "none",
    Status.NOT_RUN: "none",
    Status.INVALID: "none",
    Status.OOM: "other",
}


def kind_of(outcome: Outcome) -> str:
    """The class that colours it."""
    status, resource = Status(outcome[0]), outcome[1]
    return _MEMORIES.get(Resource(resource), "other") if resource else _STATUSES.get(status, "fault")


def in_words(outcome: Outcome) -> str:
    return " ".join(filter(None, outcome))
