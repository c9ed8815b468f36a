"""Changes texts as their structure has them: JSON by its values and keys, all else by words and lines.

A mutation of bytes seldom is JSON again; these reach what a parser does after that.
"""

from __future__ import annotations

import copy
import gzip
import json
import re
import zlib
from random import Random
from typing import Any

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2**31, 2**63, -(2**63), 10**30, 0.5, -0.0, 1e308, float("nan"), float("inf")),
    *("", "0", "-1", "none", "l1", "dram", "l1:block@8x8", "bfloat16", "tile", "row_major", "add", "n150", "fits", "oom"),
    *("../../x", "/etc/passwd", "a\x1b]8;;x", "\u202e", "\x9b", "\0", "=1+1", "</script>", "é" * 50, "9" * 5000, "\ud800"),
    *([], {}, [[]], [0], [[1, 32], [1, 32]], {"a": 1}, [[[[[[]]]]]], {"type": "X"}, {"x": {"y": {}}}),
)
_WORD = re.compile(r"[\w.:@%-]+")
_WORDS = (
    "*a",
    "&a x",
    "!!int 3",
    "<<: *a",
    "0x1f",
    "1e999",
    "-",
    "[",
    "]",
    "{",
    "}",
    ":",
    "~",
    "#",
    '"',
    "9" * 30,
    "\x1b[31m",
    "\u202e",
)


def mutated(data: bytes, random: Random) -> bytes:
    """Returns a text with one to three changes, packed again if it was packed."""
    packed = data[:2] == b"\x1f\x8b"
    if packed:
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error):
            return data
    text = data.decode("utf-8", "replace")
    for _ in range(random.randint(1, 3)):
        text = _json_changed(text, random) or _text_changed(text, random)
    changed = text.encode("utf-8", "surrogatepass" if random.random() < 0.1 else "replace")
    return gzip.compress(changed, 1, mtime=0) if packed else changed


def _json_changed(text: str, random: Random) -> str:
    """Returns the text with a change in one of its JSON lines, or in the document that it is; "" if it is neither."""
    for document in (False, True):
        lines = [text] if document else text.split("\n")
        at = random.randrange(len(lines))
        try:
            value = json.loads(lines[at])
        except (ValueError, RecursionError):
            continue
        if isinstance(value, (dict, list)):
            _change(value, random)
            lines[at] = json.dumps(value)
            return "\n".join(lines)
    return ""


def _change(value: dict[str, Any] | list[Any], random: Random) -> None:
    """Changes one place at any depth."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    holder: Any = value
    if not keys:
        if isinstance(holder, list):
            holder.append(copy.deepcopy(random.choice(VALUES)))
        return
    key = random.choice(keys)
    inner = holder[key]
    if isinstance(inner, (dict, list)) and inner and random.random() < 0.7:
        return _change(inner, random)
    kind = random.randrange(5)
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder, list):
        holder.insert(key, copy.deepcopy(inner))
    elif kind == 1:
        holder[str(random.choice(VALUES))[:40]] = copy.deepcopy(inner)
    elif kind == 2 and isinstance(inner, (int, float)) and abs(inner) < 2**80:
        holder[key] = inner + random.choice((-1, 1)) if random.random() < 0.5 else -inner
    elif kind == 3:
        holder[key] = copy.deepcopy(holder[random.choice(keys)])
    else:
        holder[key] = copy.deepcopy(random.choice(VALUES))


def _text_changed(text: str, random: Random) -> str:
    words = list(_WORD.finditer(text))
    kind = random.randrange(4)
    if kind == 0 or not words:
        lines = text.split("\n")
        at = random.randrange(len(lines))
        lines[at : at + 1] = random.choice(([], [lines[at]] * 2, ["  " + lines[at]], [lines[at], random.choice(lines)]))
        return "\n".join(lines)
    word = random.choice(words)
    new = random.choice(words)[0] if kind == 1 else random.choice(_WORDS) if kind == 2 else str(random.choice(VALUES))
    return text[: word.start()] + new + text[word.end() :]
