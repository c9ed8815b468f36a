"""Understands memory failures in people's own words: a memory, and two figures of which the first exceeds the second.

"Circular buffers exceed L1 size (1880640 B > 1572864 B)", "L1 OOM: needs 1,880,640 of 1,572,864". Only where it is unmistakable
what the two figures are of; anything else that looks like a memory failure is a suspect (see ``suspects``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from ssinghal.core.verdict import L1_END_BYTES, Resource, Status, Verdict

LEAST_BYTES = 1_000  # smaller figures are counts, dims and indices
L1_BYTES = range(500_000, max(L1_END_BYTES) + 1)  # what may be the L1 of one core that is left for tensors and programs

_FIGURE = re.compile(
    r"(?<![\w.,:-])(?P<digits>\d{1,3}(?:[,_]\d{3}){1,6}|\d{1,3}(?: \d{3}){1,6}(?= ?B\b)|\d{1,15})"
    r"(?: ?(?P<unit>B|bytes?)\b|(?![\w%]|[.,]\d| ?[KMGT]i?B\b))",
    re.IGNORECASE,
)
_OPERATOR = re.compile(
    r"[\s)\]|`*]*(?:(?:needed|required|requested|used) )?(?:>|&gt;|exceeds?(?: the| its)?(?: [A-Za-z_]\w*){0,4})[\s(\[|`*]*",
    re.IGNORECASE,
)
_BELOW = re.compile(r"[\s)\]|`*]*(?:<|&lt;)[\s(\[|`*]*")
_OVER = re.compile(
    r"\bof\b|\bbut\b|\bonly\b|avail|limit|\bmax|\bha(?:ve|s)\b|\bvs\b|versus|exceed|than|beyond|\bover\b|fit|capacity|budget|\bfree\b|\bsize\b|/"
    r"|\bL1 (?:at|is|ends)\b",
    re.IGNORECASE,
)
# Before a figure: of what there is, and of what is needed. The halves of a message may be in any order.
_LIMIT_BEFORE = re.compile(r"\b(?:max\w*|limit\w*|only|size|capacity|budget|free|avail\w*)\b[^\d]{0,20}$", re.IGNORECASE)
_NEED_BEFORE = re.compile(
    r"\b(?:needs?|needed|grows?|grew|requires?|required|requests?|requested|store|allocate|wants?|asks?)\b[^\d]{0,20}$",
    re.IGNORECASE,
)
_BEFORE_CHARS = 40
_NO_HOST_MEMORY = re.compile(  # in the words of the operating system, NumPy, Ray and Kubernetes
    r"(?<!\d \()\bCannot allocate memory\b|\bENOMEM\b|MemoryError: Unable to allocate [\d.]+ \w{1,5} for an array"
    r"|\bnode running low on memory\b|\bnode was low on resource: memory\b"
)
_CLASH = re.compile(r"clash|overlap|collid|tensor (?:begins|starts) at", re.IGNORECASE)
_MEMORIES = re.compile(
    r"(?P<trace>\btrace)|(?P<small>\bL1[_ ]?SMALL\b)|(?P<config>\bkernel[-_ ]config|\bprogram size)"
    r"|(?P<args>\bruntime[-_ ]?arg)"
    r"|(?P<program>\b(?:circular|dataflow|static) buffer|\bCBs?\b|\bDFBs?\b)|(?P<dram>\bDRAM\b)|(?P<l1>\bL1\b)",
    re.IGNORECASE,
)
_DATAFLOW = re.compile(r"dataflow|\bDFBs?\b", re.IGNORECASE)
_PER_BANK = re.compile(r"\bbanks?\b|\bper[- ]core\b", re.IGNORECASE)
_FREE = re.compile(r"\bfree\b|avail", re.IGNORECASE)


_N = r"(?P<{}>\d{{1,3}}(?:,\d{{3}})*) B"
# The sentences of ``core.verdict.sentence``.
_OWN = re.compile(
    rf"\b(?P<memory>L1|L1_SMALL|DRAM) bank needs {_N.format('bytes_per_bank')}(?:, {_N.format('free_bytes')} free"
    rf"(?:, largest block {_N.format('largest_free_bytes')})?| of a bank of {_N.format('bank_bytes')})?"
    rf"|\b(?P<kind>circular|dataflow|program) buffers (?:end at {_N.format('end')}, (?:L1 at {_N.format('limit_bytes')}"
    rf"|an L1 tensor begins at {_N.format('tensor_address')})|need {_N.format('need')} of {_N.format('room')} per core)"
)
_BUFFERS = {"L1": Resource.L1_BUFFER, "L1_SMALL": Resource.L1_SMALL_BUFFER, "DRAM": Resource.DRAM_BUFFER}
_OWN_FIELDS = {"end": "program_bytes", "need": "program_bytes", "room": "limit_bytes"}


class _Figure(NamedTuple):
    value: int
    start: int
    end: int
    has_unit: bool


def paraphrase(text: str) -> Verdict | None:
    """Returns the memory failure that one line states, None where it states none, or not unmistakably."""
    if _NO_HOST_MEMORY.search(text):
        return Verdict(Status.OOM, Resource.HOST, message=text)
    if (own := own_sentence(text)) is not None:
        return own
    named = {kind for match in _MEMORIES.finditer(text) for kind, found in match.groupdict().items() if found}
    figures = list(_figures(text)) if named else []
    if len(figures) < 2:
        return None
    if _CLASH.search(text) and len(figures) == 2 and named <= {"program", "l1"}:
        low, high = sorted(figure.value for figure in figures)
        fields: dict[str, Any] = {"program_bytes": high, "tensor_address": low, "buffer_kind": _kind(text)}
        return Verdict(Status.OOM, Resource.CLASH, error_type="RuntimeError", message=text, **fields)
    compared = _compared(text, figures)
    meaning = _meaning(text, named, *compared) if compared else None
    if meaning is None:
        return None
    resource, fields = meaning
    return Verdict(Status.OOM, resource, error_type="RuntimeError", message=text, **fields)


def own_sentence(text: str) -> Verdict | None:
    """Returns the verdict that this package printed (``core.verdict.sentence``), None where it printed none."""
    match = _OWN.search(text)
    if match is None:
        return None
    numbers: dict[str, Any] = {
        _OWN_FIELDS.get(name, name): int(value.replace(",", ""))
        for name, value in match.groupdict().items()
        if value is not None and name not in ("memory", "kind")
    }
    if match["memory"]:
        resource = _BUFFERS[match["memory"]]
        largest, need = numbers.get("largest_free_bytes"), numbers["bytes_per_bank"]
        if largest is not None and largest < need <= numbers["free_bytes"]:
            resource = Resource.FRAGMENTATION
        return Verdict(Status.OOM, resource, message=text, **numbers)
    resource = Resource.CLASH if "tensor_address" in numbers else Resource.CIRCULAR_BUFFER
    kind = match["kind"] if match["kind"] != "program" else ""
    return Verdict(Status.OOM, resource, message=text, buffer_kind=kind, **numbers)


def _figures(text: str) -> Iterator[_Figure]:
    for match in _FIGURE.finditer(text):
        value = int(re.sub(r"[,_ ]", "", match["digits"]))
        if value >= LEAST_BYTES or match["unit"]:
            yield _Figure(value, match.start(), match.end(), match["unit"] is not None)


def _compared(text: str, figures: list[_Figure]) -> tuple[_Figure, _Figure] | None:
    """Returns the figure that is needed and the smaller one that there is."""
    direct = [(a, b) for a, b in pairwise(figures) if _OPERATOR.fullmatch(text, a.end, b.start)]
    direct += [(b, a) for a, b in pairwise(figures) if _BELOW.fullmatch(text, a.end, b.start)]
    with_unit = [figure for figure in figures if figure.has_unit]
    if len(with_unit) == 2:  # the others are counts
        figures = with_unit
    if not direct and len(figures) == 2:
        need, limit = figures
        is_swapped = _LIMIT_BEFORE.search(_before(text, need)) and _NEED_BEFORE.search(_before(text, limit))
        if need.value in L1_END_BYTES or is_swapped:
            direct = [(limit, need)]
        elif limit.start - need.end <= 80 and _OVER.search(text, need.end):
            direct = [(need, limit)]
    direct = [(need, limit) for need, limit in direct if need.value > limit.value]
    return direct[0] if len(direct) == 1 else None


def _before(text: str, figure: _Figure) -> str:
    return text[max(0, figure.start - _BEFORE_CHARS) : figure.start]


def _meaning(text: str, named: set[str], need: _Figure, limit: _Figure) -> tuple[Resource, dict[str, Any]] | None:
    """Returns what ran out, and the fields of the two figures."""
    program = {"program_bytes": need.value, "limit_bytes": limit.value}
    if "trace" in named and "dram" not in named:
        return Resource.TRACE_BUFFER, {"total_bytes": need.value, "limit_bytes": limit.value}
    if "small" in named and "l1" not in named:
        return Resource.L1_SMALL_BUFFER, {"bytes_per_bank": need.value, "bank_bytes": limit.value}
    if named & {"trace", "small"}:  # the size of a region, compared with the memory that it is in
        return None
    if "config" in named:
        return Resource.KERNEL_CONFIG, program
    if "args" in named:  # they are counted too
        return Resource.KERNEL_CONFIG, program if need.has_unit and limit.has_unit else {}
    if "program" in named:
        return Resource.CIRCULAR_BUFFER, {**program, "buffer_kind": _kind(text)}
    if named == {"l1"} and limit.value in L1_END_BYTES and "tensor" not in text.lower():
        return Resource.CIRCULAR_BUFFER, program  # only TTNN's check of programs has the end of L1 as its limit
    if len(named & {"l1", "dram"}) != 1:
        return None
    resource = Resource.L1_BUFFER if "l1" in named else Resource.DRAM_BUFFER
    per_bank = _PER_BANK.search(text) is not None
    if per_bank or ("l1" in named and limit.value in L1_BYTES and "tensor" not in text.lower()):
        # Not the bank's size where no bank is named: a compiler has a limit of its own.
        room = "free_bytes" if _FREE.search(text, need.end) else "bank_bytes" if per_bank else "limit_bytes"
        return resource, {"bytes_per_bank": need.value, room: limit.value}
    return None


def _kind(text: str) -> str:
    return "dataflow" if _DATAFLOW.search(text) else "circular"
