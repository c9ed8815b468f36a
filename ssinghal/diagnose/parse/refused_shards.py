"""Recognises refusals of shards, and states both counts or sizes in plain words.

There are more shards than cores, banks or devices, or a program's buffer is larger than the shard that it uses. No memory ran
out: TTNN, or a compiler's assertion before it, refuses the placement itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from ssinghal.core.verdict import Status, Verdict
from ssinghal.device.error_patterns import PATTERNS

MOST_BANKS = 12  # of DRAM, of any chip

_OF_TTNN = (
    *(pattern.regex for pattern in PATTERNS if pattern.shards),
    re.compile(r"\bnum_shards(?:_along_\w{1,20})? <= (?:num_cores\b|\w*grid\.)"),  # the condition, where no message follows it
)
_ROOM = r"(?P<room>\d{1,7}) ?(?:\w+ )?"
_COUNTS = (  # 8 shards … 7 cores; shards: 8 … cores: 7
    re.compile(
        r"\b(?P<shards>\d{1,7}) (?:\w+ )?shards?\b[^.;\d]{1,60}?" + _ROOM + r"(?P<what>banks?|cores?|devices?)\b", re.IGNORECASE
    ),
    re.compile(
        r"\b(?:num_)?shards?\b(?P<side> along (?:height|width))?[^.;\d]{0,40}?(?P<shards>\d{1,7})\b[^.;\d]{1,60}?"
        r"(?P<what>banks?|cores?|devices?|columns?|rows?|worker grid)[^.;\d]{0,20}?(?P<room>\d{1,7})\b",
        re.IGNORECASE,
    ),
)
_GRIDS = re.compile(r"shard-?grid \((?P<grid>\d+x\d+)[^)]*\) exceeds compute grid \((?P<room>\d+x\d+)\)", re.IGNORECASE)
_SMALL_SHARD = tuple(
    re.compile(expression, re.IGNORECASE)
    for expression in (
        r"Cannot (?:set|grow) circular buffer (?:size )?to (?P<need>\d{1,12}).{0,40}?\blarger than (?:the )?associated"
        r" dynamically allocated L1 buffer (?:bank )?(?:of )?size (?:of )?(?P<room>\d{1,12})",
        r"Borrowed-memory DFB .{1,200}? total size (?P<need>\d{1,12}) B, which exceeds the borrowed Buffer's per-bank size of"
        r" (?P<room>\d{1,12})",
        r"DFB .{1,200}? = (?P<need>\d{1,12}) bytes\) is larger than (?:the per-bank allocation of )?its borrowed"
        r" TensorParameter .{1,100}?\((?P<room>\d{1,12}) bytes\)",
    )
)
_CHEAP = re.compile(r"shard|gridshape|dynamically|borrowed", re.IGNORECASE)
_MORE = re.compile(r"exceed|more .{1,40}than|>|only|too (?:many|few)|not fit|not enough|<=", re.IGNORECASE)


def refusal(verdict: Verdict) -> Verdict:
    """Returns ``verdict`` as ``unsupported`` if its message refuses shards anywhere, with the text from there on."""
    message = verdict.message
    if verdict.status is not Status.ERROR or not _CHEAP.search(message):
        return verdict
    found = next((match for regex in (*_OF_TTNN, *_SMALL_SHARD) if (match := regex.search(message))), None)
    if found is not None:
        return replace(verdict, status=Status.UNSUPPORTED, message=message[found.start() :])
    return replace(verdict, status=Status.UNSUPPORTED) if _counts(message) and _MORE.search(message) else verdict


@dataclass(frozen=True)
class Refused:
    """What is refused, in words, and how many shards there is room for, where the message has that.

    ``may_be_banks``: TTNN counts the DRAM banks as cores too.
    """

    words: str
    room: int | None = None
    may_be_banks: bool = False


def refused_counts(message: str) -> Refused | None:
    """Returns how many shards are too many for what, or how large they are; None where the message lacks either figure.

    >>> refused_counts("Number of shards along width 8 must not exceed number of cores 7").words
    '8 shards along the width, 7 cores to hold them (DRAM banks, if the tensor is in DRAM)'
    """
    grids = _GRIDS.search(message)
    if grids is not None:
        return Refused(f"shards on {grids['grid']} cores, a grid of {grids['room']}")
    small = next((match for regex in _SMALL_SHARD if (match := regex.search(message))), None)
    if small is not None:
        return Refused(f"a program's buffer of {int(small['need']):,} B in a shard of {int(small['room']):,} B")
    counts = _counts(message)
    if counts is None:
        return None
    what, room = counts["what"].lower().removesuffix("s"), int(counts["room"])
    side = (counts.groupdict().get("side") or "").replace("along ", "along the ")
    of = "a grid of " if what == "worker grid" else ""
    what = "core" if of else what
    may_be_banks = room <= MOST_BANKS and what in ("core", "bank") and not of
    note = " (DRAM banks, if the tensor is in DRAM)" if what == "core" and may_be_banks else ""
    return Refused(f"{int(counts['shards']):,} shards{side}, {of}{room:,} {what}s to hold them{note}", room, may_be_banks)


def _counts(message: str) -> re.Match[str] | None:
    """Returns the counts of a sentence in which there are more shards than room."""
    found = (match for regex in _COUNTS if (match := regex.search(message)))
    return next((match for match in found if int(match["shards"]) > int(match["room"])), None)
