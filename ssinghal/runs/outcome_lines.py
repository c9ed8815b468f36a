"""Takes the outcome out of a line of ``records.jsonl`` without parsing it: an index reads millions, most of them known.

Holds for lines whose keys are in the order that this version writes, which is checked; any other line has to be parsed.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import NamedTuple

DIGEST_BYTES = 16
_HEAD = b'{"schema": 1, "run": "'
_OP = b'", "op": "'
_DEVICE = b', "device_mode": "'
_TTNN = b'", "ttnn": "'
_ESTIMATE = b', "estimate": '
_SOURCES = b', "sources": ['
_AFTER_ESTIMATE = (b', "remedies": {', b', "left_allocated": {', _SOURCES)
_TEXT = rb'"(?:[^"\\]|\\.)*"'
_END = re.compile(
    rb'(?:, "altered": \[[a-z", ]*\])?'
    rb'(?:, "test": %s)?(?:, "retried": (%s))?(?:, "taken_from": "([^"\\]*)")?, "duration_s": ([0-9][0-9.e+-]*)\}'
    % (_TEXT, _TEXT)
)


class OutcomeLine(NamedTuple):
    """What the index keeps of a line.

    Attributes:
        digest: Of the outcome: all but the run, the release, the estimate, the sources and what follows them.
        ttnn: The release.
        retried: Whether the case was repeated, so that this is its second answer.
        taken_from: The id of the run that the answer was taken from, or "".
        duration_s: Seconds.
        estimate, sources: Where these begin and end.
    """

    digest: bytes
    ttnn: str
    retried: bool
    taken_from: str
    duration_s: float
    estimate: tuple[int, int]
    sources: tuple[int, int]

    def short(self, line: bytes) -> bytes:
        """Returns the line without estimate and sources, which are most of it."""
        (estimate, after_estimate), (sources, after_sources) = self.estimate, self.sources
        return b"".join((line[:estimate], line[after_estimate:sources], b', "sources": []', line[after_sources:]))


def outcome_line(line: bytes) -> OutcomeLine | None:
    """Returns None for a line that is not in the form that this version writes. The form does not make it a valid record."""
    if not line.startswith(_HEAD):
        return None
    op = line.find(_OP, len(_HEAD))
    ttnn = line.find(_TTNN, line.find(_DEVICE, op))
    after_ttnn = line.find(b'"', ttnn + len(_TTNN))
    estimate = line.find(_ESTIMATE, after_ttnn)
    if -1 in (op, ttnn, after_ttnn, estimate):
        return None
    after_estimate = _closed(line, estimate + len(_ESTIMATE), b"{", b"}")
    if not line.startswith(_AFTER_ESTIMATE, after_estimate):
        return None
    sources = line.find(_SOURCES, after_estimate)
    if sources < 0:
        return None
    after_sources = _closed(line, sources + len(_SOURCES) - 1, b"[", b"]")
    end = _END.fullmatch(line, after_sources)
    release = line[ttnn + len(_TTNN) : after_ttnn]
    if end is None or b"\\" in release:
        return None
    try:
        text, duration = release.decode(), float(end[3])
    except ValueError:
        return None
    digest = blake2b(line[op:ttnn], digest_size=DIGEST_BYTES)
    digest.update(line[after_ttnn:estimate])
    digest.update(line[after_estimate:sources])
    retried, taken_from = (end[1] or b'""') != b'""', (end[2] or b"").decode(errors="replace")
    places = (estimate, after_estimate), (sources, after_sources)
    return OutcomeLine(digest.digest(), text, retried, taken_from, duration, *places)


def _closed(line: bytes, start: int, opening: bytes, closing: bytes) -> int:
    """Returns where the object or array ends that begins at ``start``, if it does; the length of the line if it does not end.

    Brackets in texts may end it elsewhere; what follows in the line is then not what is expected.
    """
    if not line.startswith(opening, start):
        return len(line)
    depth, end = 0, start
    while after := line.find(closing, end) + 1:
        depth += line.count(opening, end, after) - 1
        if depth == 0:
            return after
        end = after
    return len(line)
