"""What a page needs that holds its style, scripts and data itself and asks for nothing: see the Content-Security-Policy."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

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


__all__ = ["content_policy", "script_data"]
