"""Compares what two texts state of failures: whether they may be one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields, replace

from ssinghal.core.verdict import Resource, Status, Verdict
from ssinghal.diagnose.parse.error_lines import error_key

_MAIN = ("total_bytes", "bytes_per_bank", "program_bytes", "tensor_address")  # of the failure itself, not of the board
_FIGURES = tuple(field.name for field in fields(Verdict) if field.name.endswith(("_bytes", "_address", "banks", "per_bank")))
_BUFFERS = frozenset({Resource.L1_BUFFER, Resource.DRAM_BUFFER})
_SAME_START = 20  # characters of messages without figures
# A condition of TT_FATAL, which the message follows: "address.has_value()", "num_shards <= num_cores", "false".
_CONDITIONS = ("false", "tt::exception")
_OPERATOR = re.compile(r"\(\)|[=!<>]=|&&|\|\||->|::| [<>] ")
_PROSE = re.compile(r"\b[A-Za-z]{2,},? [a-z]{2,}\b")
_HEADER = re.compile(r"\W*TT_(?:FATAL|THROW)\W*$")


def figures(verdict: Verdict) -> Iterator[tuple[str, int]]:
    """Yields the names and values of those figures that identify a failure."""
    for name in _MAIN:
        if (value := getattr(verdict, name)) is not None:
            yield name, value


def has_figures(verdict: Verdict) -> bool:
    return any(getattr(verdict, name) is not None for name in _FIGURES)


def known_figures(verdict: Verdict) -> int:
    """Returns how many figures the text states."""
    return sum(getattr(verdict, name) is not None for name in _FIGURES) + bool(verdict.cores)


def may_be_part(one: Verdict, other: Verdict) -> bool:
    """Returns whether two texts about memory differ only in what one of them does not state.

    They share a figure of the failure, or one has no figures at all and begins as the other.
    """
    if not _same_memory(one.resource, other.resource):
        return False
    if not (has_figures(one) and has_figures(other)):
        start, other_start = (verdict.message[:_SAME_START].casefold() for verdict in (one, other))
        return start == other_start
    pairs = [(getattr(one, name), getattr(other, name)) for name in (*_FIGURES, "cores")]
    shared = any(getattr(one, name) == value for name, value in figures(other))
    return shared and all(a == b or a in (None, "") or b in (None, "") for a, b in pairs)


def _same_memory(one: Resource | None, other: Resource | None) -> bool:
    """Returns whether both are of one memory: a text without the largest block does not show that a bank is fragmented."""
    if one is None or other is None:
        return False
    return one is other or (Resource.FRAGMENTATION in (one, other) and bool(_BUFFERS & {one, other}))


def is_header_alone(verdict: Verdict) -> bool:
    """Returns whether the text is what TTNN prints before a message: its place, with the condition that did not hold."""
    if verdict.resource is not None or verdict.status is Status.CRASH:
        return False
    message = verdict.message
    if _HEADER.match(message):
        return True
    is_condition = message in _CONDITIONS or (_OPERATOR.search(message) is not None and not _PROSE.search(message))
    return is_condition and verdict.thrown_at != ""


def places_agree(one: Verdict, other: Verdict) -> bool:
    """Returns whether two texts do not name different places in TTNN's source."""
    return not (one.thrown_at and other.thrown_at) or one.thrown_at == other.thrown_at


def fuller(one: Verdict, other: Verdict) -> Verdict:
    """Returns the text with more figures, with the place that either names."""
    more, less = (other, one) if known_figures(other) > known_figures(one) else (one, other)
    return replace(more, thrown_at=more.thrown_at or less.thrown_at)


def may_be_start(shortened: Verdict, known: Verdict) -> bool:
    """Returns whether a line of a test's summary may show the start of a message."""
    if shortened.status is not Status.ERROR:
        return error_key(shortened) == error_key(known) or may_be_part(shortened, known)
    if shortened.error_type != known.error_type or not places_agree(shortened, known):
        return False
    start = shortened.message.removesuffix("...").rstrip()
    return shortened.thrown_at != "" or start.startswith("TT_") or known.message.startswith(start)
