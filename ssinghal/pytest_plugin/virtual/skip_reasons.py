"""Recognises reasons of skips that speak of a device's memory: words of people, not of TTNN."""

from __future__ import annotations

import re

_NOT = r"(?:\bnot|n't)"
_MEMORY = r"(?:L1(?:[ _-]SMALL)?|S?DRAM|SRAM|memory|mem)"
# What a shape fits, other than a memory: "doesn't fit the kernel's constraint", but not "doesn't fit in L1 for this op".
_FITS_RULE = (
    r"(?! (?!in |into |on |within )(?:[\w'-]+ ){0,3}?"
    r"(?:constraints?|requirements?|kernels?|ops?|operators?|operations?|patterns?|formats?|rules?|specs?|API|schemas?)\b)"
)
_WORDINGS = (
    r"\bOOM(?:s|ed|ing|'s)?\b",
    rf"\b(?:out|run\w*|ran) (?:out )?of (?:\w+ ){{0,2}}(?:{_MEMORY}|space)\b",
    rf"\bout-of-(?:{_MEMORY}|space)\b",
    rf"(?:{_NOT} (?:\w+ )?(?:enough|sufficient)|\binsufficient|\black of|\btoo little) (?:\w+ ){{0,3}}(?:{_MEMORY}|space)\b",
    rf"(?:{_NOT}|\bnever|\bcannot) (?:(?:quite|even|yet|currently|all|always|both) )?fit\b{_FITS_RULE}",
    r"\bfitting (?:issue|problem|error)s?\b",
    rf"\btoo (?:big|large|much|many|small)\b.{{0,40}}\b{_MEMORY}\b|\b{_MEMORY}\b.{{0,20}}\btoo (?:big|large|small|little)\b",
    rf"\bexceed\w*\b.{{0,40}}\b{_MEMORY}\b|\b{_MEMORY}\b.{{0,20}}\bexceed",
    rf"\b{_MEMORY} (?:\w+ )?(?:overflow\w*|limit\w*|limitation\w*|constraint\w*|pressure|shortage|exhaust\w*|fragmentation)",
    rf"\bfragmented {_MEMORY}\b",
    rf"\b(?:overflow\w*|exhaust\w*) (?:\w+ ){{0,2}}{_MEMORY}\b",
    rf"\bclash\w*\b.{{0,30}}\b(?:{_MEMORY}|CBs?|buffers?)\b|\b(?:{_MEMORY}|CBs?|buffers?)\b.{{0,30}}\bclash",
    r"\b(?:circular|dataflow) buffers?\b|\bCBs? (?:size|overflow\w*|grow\w*|exceed\w*|too)",
    r"\bbad_alloc\b|\b(?:alloc\w*|allocate) (?:fail\w*|error)|\b(?:cannot|can't|fail\w* to|unable to) allocate\b",
    r"\bbeyond (?:max )?L1\b|\b(?:larger|bigger|more) (?:\w+ )?than (?:\w+ )?L1\b",
)
_SPEAKS = re.compile("|".join(_WORDINGS), re.IGNORECASE)
_HOST = re.compile(r"\b(?:host|CPU|CI|runner|system|machine|disk)\b", re.IGNORECASE)


def speaks_of_memory(reason: str) -> bool:
    """Whether the reason of a skip is that a memory of the device is too small. That of a host is another one.

    >>> speaks_of_memory("OOM on N150"), speaks_of_memory("sharded memory_config unsupported")
    (True, False)
    """
    return _SPEAKS.search(reason) is not None and _HOST.search(reason) is None
