"""Translates TTNN's error texts by the table of their wordings.

TTNN raises a plain ``RuntimeError`` for everything, so only the wording distinguishes "out of memory" from "wrong argument",
and it changes between releases. A row is a wording as the libraries print it, matched at the *start* of the message: a text
that only quotes one, or an unknown one that sounds like memory, stays ``error``. ``tests/data/error_samples.yaml`` has a sample
of each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ssinghal.core.verdict import Resource, Status, Verdict
from ssinghal.device.error_wordings import FEW_DEVICES, OUT_OF_MEMORY, PLACEMENTS, REJECTED

HEAD_CHARS = 8192  # a message and its numbers are at the start of a text; a complete printed tensor may follow
MESSAGE_CHARS = 1000  # the longest one-line message of the libraries has about 700


@dataclass(frozen=True)
class Pattern:
    """One wording of one exception type, and its meaning. ``shards``: it rejects the shards that a call requests."""

    name: str
    regex: re.Pattern[str]
    status: Status
    resource: Resource | None = None
    error_type: str = "RuntimeError"
    shards: bool = False


# What a log or an issue has in place of figures that must not be known.
_MASK = r"<[A-Za-z]\w{0,11}>|\[(?:num|number|redacted|hidden)\]|[X*#]{2,20}"
_NUMBER = rf"(?:\d{{1,3}}(?:[,_']\d{{3}}){{1,6}}(?!\d)|\d{{1,3}}(?:[ \u00a0\u202f]\d{{3}}){{1,6}}(?= ?B)|\d{{1,20}}|{_MASK})"
_INDEX = rf"(?:\d{{1,4}}|{_MASK})"
# As printed by 0.66, by releases since, and by people.
_CORE = rf"(?:\(x ?= ?{_INDEX}, ?y ?= ?{_INDEX}\)|{_INDEX}-{_INDEX}|\({_INDEX}, ?{_INDEX}\))"
_RANGE = rf"\[?{_CORE} ?(?:-|to|\.\.|\u2013) ?{_CORE}\]?|\[{_CORE}\]"
# From its start on: a long text without blanks would else be read again from each of its characters.
_PATH = r"(?<![\w./+~@-])[\w./+:~@-]{1,300}"
_TOKENS = {
    "path": _PATH,
    "cores": rf"\{{?(?:{_RANGE})(?:, (?:{_RANGE}))*\}}?|{_CORE}|\[?<[a-z_ ]{{1,20}}>\]?",
    "buffer_kind": "circular|dataflow|CB|DFB|staging",
    "mask": _MASK,
    "one": f"(?:1|{_MASK})",  # of "L1"
    "n": _NUMBER,
}
_FIELDS = ("cores", "buffer_kind")
_KINDS = {"cb": "circular", "dfb": "dataflow"}


def _compiled(wording: str) -> re.Pattern[str]:
    def token(name: re.Match[str]) -> str:
        expression = _TOKENS.get(name[1], _NUMBER)
        return f"(?P<{name[1]}>{expression})" if name[1] in _FIELDS or name[1] not in _TOKENS else f"(?:{expression})"

    return re.compile(re.sub(r"\{([a-z_]+)\}", token, wording), re.IGNORECASE)


def _openings(wording: str) -> Iterator[str]:
    """Yields the first two fixed words of each alternative of a wording, with anything between them, as expressions."""
    for alternative in re.findall(r"(?:\((?:[^()]|\([^()]*\))*\)|\[[^\]]*\]|[^|])+", wording):
        words = re.findall(r"(?:\((?:[^()]|\([^()]*\))*\)|\[[^\]]*\]|[^\s])+", alternative)
        fixed = [i for i, word in enumerate(words) if not word.startswith(".{")][:2]
        words = [re.sub(r"\{([a-z_]+)\}", lambda name: f"(?:{_TOKENS.get(name[1], _NUMBER)})", word) for word in words]
        yield r"\s+".join(words[: fixed[-1] + 1])


def _any_of(expressions: Iterator[str]) -> re.Pattern[str]:
    """Returns a pattern for any of these, in any case. By first letters: a line is compared with few of them."""
    by_letter: dict[str, list[str]] = {}
    for expression in dict.fromkeys(expressions):
        letter = expression[0].lower() if expression[0].isalpha() else ""
        by_letter.setdefault(letter, []).append(expression[1:] if letter else expression)
    groups = (
        f"(?-i:[{letter}{letter.upper()}])(?:{'|'.join(rests)})" if letter else "|".join(rests)
        for letter, rests in by_letter.items()
    )
    return re.compile("|".join(groups), re.IGNORECASE)


PATTERNS: tuple[Pattern, ...] = (
    Pattern("host, Python", re.compile(""), Status.OOM, Resource.HOST, error_type="MemoryError"),
    *(
        Pattern(name, _compiled(wording), Status.OOM, resource)
        for resource, wordings in OUT_OF_MEMORY.items()
        for name, wording in wordings.items()
    ),
    *(Pattern(name, _compiled(wording), Status.UNSUPPORTED) for name, wording in REJECTED.items()),
    *(Pattern(name, _compiled(wording), Status.UNSUPPORTED, shards=True) for name, wording in PLACEMENTS.items()),
)

# A cheap test whether a text may match a row; it is true for every text that does.
_WORDINGS = [wording for kind in (*OUT_OF_MEMORY.values(), REJECTED, PLACEMENTS) for wording in kind.values()]
OPENING = _any_of(opening for wording in _WORDINGS for opening in _openings(wording))

# "TT_FATAL @ <file>:<line>: <condition>", then "info:", then the message, then perhaps a backtrace.
_THROWN = re.compile(r"\s*TT_(?:FATAL|THROW) @ (?P<file>\S{1,400}):(?P<line>\d{1,7}): ")
_PROGRAM = re.compile(r"\bin program \d+")  # its index in the process, which differs every time
_SOURCE = re.compile(r"(?:^|/)((?:tt_metal|tt_stl|ttnn)/.*)")  # without the folder of the build


def translate_error(error_type: str, text: str, *, plain: bool = True) -> Verdict:
    """Returns the verdict of an exception with type name ``error_type`` and text ``text``; the caller sets its ``stage``.

    ``oom`` with all numbers of the message for the wording of a memory failure, ``unsupported`` for one that rejects a call for
    another reason, else ``error``. Only the first ``HEAD_CHARS`` characters are used.

    ``plain``: whether all tensors are interleaved and alike, and no setting is given. Of a call that is not, every check of its
    arguments that fails is a rule of TTNN, whatever the wording, and the call is ``unsupported`` (see ``_refusal``).
    """
    head = text[:HEAD_CHARS].partition("\nbacktrace:")[0]
    thrown = _THROWN.match(head)
    if thrown:
        condition, _, info = head[thrown.end() :].partition("\ninfo:\n")
        head = info or condition
    line = next((line.strip() for line in head.splitlines() if line.strip()), "")
    unknown = Verdict(
        Status.ERROR,
        error_type=error_type,
        message=_PROGRAM.sub("in a program", line)[:MESSAGE_CHARS],
        thrown_at=f"{_without_build_folder(thrown['file'])}:{thrown['line']}" if thrown else "",
    )
    message = " ".join(head.split())  # a message may be wrapped by a log
    pattern, match = known_wording(error_type, message)
    if pattern is None or match is None or pattern.shards:
        return unknown if plain or not thrown else _refusal(unknown)
    return understood(pattern, match, unknown)


def understood(pattern: Pattern, match: re.Match[str], unknown: Verdict) -> Verdict:
    """Returns ``unknown``, the verdict of a text that was not understood, with the meaning and the numbers of its wording."""
    fields = _fields(match)
    return replace(unknown, status=pattern.status, resource=_resource(pattern, fields), **fields)


# Where TTNN checks what a call requests: in its operators, in the specs of tensors, in what a program says of its buffers. Not
# in the allocator, the dispatch of programs or the compiler of kernels, whose failures are its own.
_CHECKS = re.compile(
    r"(?:ttnn/|tt_metal/(?:api/tt-metalium/|common/work_split|common/(?:shape|core_coord)|impl/(?:tensor|buffers|data_format|"
    r"metal2_host_api/program_spec/validation)/))"
)
# What a failed check states of TTNN itself, or of a memory in words that no row has, is no rule of the operator.
_NO_RULE = re.compile(
    r"unreachable|unexpected|internal|should (?:not|never)|std::|null|\bassert|\bbug\b|not (?:initialized|allocated)"
    r"|failed to\b"
    r"|cannot set circular buffer|out of memory|not enough|not fit\b|insufficient|too (?:large|big) (?:for|to)\b"
    r"|exceed.*(?:\bL1\b|memory|bytes|\d B\b)",
    re.IGNORECASE,
)
# Rules in words that are also those of faults.
_RULE = re.compile(r"should not be (?:provided|given|set|specified|passed)\b|not fit within \w+ grid\b")
_SENTENCE_END = re.compile(r"[.!?](?=\s+[A-Z])")


def _refusal(error: Verdict) -> Verdict:
    """Returns ``unsupported``, with the sentence of TTNN's check alone, where a check of the call's arguments failed."""
    if not _CHECKS.match(error.thrown_at) or _NO_RULE.search(_RULE.sub("", error.message)):
        return error
    end = _SENTENCE_END.search(error.message)
    return replace(error, status=Status.UNSUPPORTED, message=error.message[: end.end()] if end else error.message)


def known_wording(error_type: str, message: str) -> tuple[Pattern, re.Match[str]] | tuple[None, None]:
    """Returns the row that matches ``message``, on one line and without TTNN's header, and the match."""
    for pattern in candidates_for(message):
        if pattern.error_type == error_type and (match := pattern.regex.match(message)):
            return pattern, match
    return None, None


def candidates_for(message: str) -> tuple[Pattern, ...]:
    """Returns the rows that may match ``message`` according to its first letter, in the order of the table."""
    return _BY_LETTER.get(message[:1].lower(), _OF_ANY_LETTER)


def _first_letter(pattern: Pattern) -> str:
    """Returns the letter that every text of a row begins with, "" where several may."""
    source = pattern.regex.pattern
    return "" if "|" in re.sub(r"\((?:[^()]|\([^()]*\))*\)", "", source) or source[1:2] in "?*{" else source[:1].lower()


_LETTERS = {pattern.name: letter if (letter := _first_letter(pattern)).isalpha() else "" for pattern in PATTERNS}
_OF_ANY_LETTER = tuple(pattern for pattern in PATTERNS if not _LETTERS[pattern.name])
_BY_LETTER = {
    letter: tuple(pattern for pattern in PATTERNS if _LETTERS[pattern.name] in ("", letter)) for letter in {*_LETTERS.values()}
}


def lacks_devices(verdict: Verdict) -> bool:
    """Whether TTNN has fewer devices than a mesh needs."""
    pattern, _ = known_wording(verdict.error_type, verdict.message)
    return pattern is not None and pattern.name == FEW_DEVICES


def _without_build_folder(path: str) -> str:
    source = _SOURCE.search(path)
    return source[1] if source else path.removeprefix("/project/")


def _fields(match: re.Match[str]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for group, value in match.groupdict().items():
        name = group.partition("__")[0]
        if value is None:
            continue
        if name == "cores":
            fields[name] = _plain_cores(value)
        elif name == "buffer_kind":
            fields[name] = _KINDS.get(value.lower(), value.lower())
        elif (digits := re.sub(r"[,_'\s]", "", value)).isdecimal():  # else it is masked
            fields[name] = fields.get(name, 0) + int(digits)
    return fields


def _plain_cores(text: str) -> str:
    """Returns cores in one form for all wordings of a core, a range and a set of ranges; "" where they are masked.

    >>> _plain_cores("[(x=0,y=0) - (x=7,y=6)]"), _plain_cores("{[0-0 - 7-6], [0-7 - 3-7]}"), _plain_cores("(0, 0) to (7, 6)")
    ('0-0..7-6', '0-0..7-6 0-7..3-7', '0-0..7-6')
    >>> _plain_cores("(x=1,y=2)"), _plain_cores("[1-2]"), _plain_cores("[(x=<num>,y=<num>) - (x=<num>,y=<num>)]")
    ('1-2', '1-2..1-2', '')
    """
    numbers = re.findall(r"\d+", text)
    cores = [f"{x}-{y}" for x, y in zip(numbers[::2], numbers[1::2], strict=False)]
    if len(cores) == 1 and "[" in text:
        cores *= 2
    if len(cores) < 2:
        return "".join(cores)
    return " ".join(f"{start}..{end}" for start, end in zip(cores[::2], cores[1::2], strict=False))


_ALIGNMENT = 64  # bytes; the allocator rounds a buffer up by less than it


def _resource(pattern: Pattern, fields: Mapping[str, Any]) -> Resource | None:
    """Returns the resource that ran out: fragmentation where each bank has enough free bytes, but no block is large enough.

    A message without the largest block implies that none was. Not for L1_SMALL and trace regions: their size is set when the
    device is opened, and a larger size fixes them.
    """
    need, free = fields.get("bytes_per_bank"), fields.get("free_bytes")
    if pattern.resource not in (Resource.L1_BUFFER, Resource.DRAM_BUFFER) or need is None or free is None:
        return pattern.resource
    largest = fields.get("largest_free_bytes")
    fragmented = largest < need <= free if largest is not None else need + _ALIGNMENT <= free
    return Resource.FRAGMENTATION if fragmented else pattern.resource
