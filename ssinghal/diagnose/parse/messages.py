"""Reads the message of an error from the lines that may be its: however they are broken, escaped or marked up.

Where a message ends is unknown: it is read from the fewest lines that give the most numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from ssinghal.core.verdict import Status, Verdict
from ssinghal.device.error_patterns import HEAD_CHARS, OPENING, known_wording, translate_error, understood
from ssinghal.diagnose.parse.broken_wordings import (
    has_figures,
    is_beginning,
    is_torn_off,
    squeezed_wording,
    without_end,
    without_start,
)
from ssinghal.diagnose.parse.error_lines import Start, number_count
from ssinghal.diagnose.parse.line_reader import joined, terminal_width
from ssinghal.diagnose.parse.markup import plainly, without_separators

_NO_CONDITION = ("false", "tt::exception")  # printed by TTNN before "info:" where only the message has information
# Where TTNN throws for a memory alone: a condition without a message says too little to deny that.
_MEMORY_SOURCES = re.compile(r"/(?:allocator|bank_manager|mesh_trace|mesh_buffer|program|kernel)\.cpp:")
_FEW_WORDS = 4  # of a condition, or of a message that is cut
_BARE_HEADER = re.compile(r"TT_(?:FATAL|THROW)\s*(?:[@:]\s*)?(?:\S{1,400})?$")
_HEADER = re.compile(r"TT_(?P<kind>FATAL|THROW)\s*@\s*(?P<file>\S.{0,400}?)\s*:(?P<line>\d{1,7}):\s*(?P<rest>.*)", re.DOTALL)
_PLAIN_HEADER = re.compile(r"TT_(?:FATAL|THROW)\s*:\s*")
_ONLY_HEADER = re.compile(r"TT_(?:FATAL|THROW)\b")
# Also where pytest's marks are all that is left of a line end, and in a list of strings.
_INFO = re.compile(r"(?:^|[\s\"']|(?<=\S)E\s{2,})info:(?:E(?=\s{2,})|[\"'],\s{0,3}[\"'])?")
_STATUS = re.compile(r"\s*(?:[A-Z][A-Z_]{3,40}:\s+){1,3}")  # "INTERNAL: ", of a framework
_END = re.compile(r"\s(?:backtrace:|Traceback \(most recent call last\))")
# All of a line, or what its unit follows: no list, date or count begins so.
_REST_OF_NUMBER = re.compile(r"\d{1,12}(?:\s?B\b|\s?bytes\b|[.),;]{0,3}$)")
_ASSERTED = re.compile(r"\s*\(assert\.[ch]pp:\d+\)\s*$")


@dataclass(frozen=True)
class Message:
    """A verdict and the number of lines it was read from. ``is_cut``: the message itself, or a part of it, is missing."""

    verdict: Verdict
    lines: int
    is_cut: bool = False


@dataclass(frozen=True)
class _Reading:
    """What one line of text says. ``has_message``: TTNN's message and not only the condition before it."""

    verdict: Verdict
    has_message: bool

    @property
    def score(self) -> tuple[bool, bool, int]:
        return (self.verdict.status is not Status.ERROR, self.has_message, number_count(self.verdict))


def read_message(start: Start, lines: Sequence[str], widths: Sequence[int]) -> Message | None:
    """Returns the message of an error whose first line begins at ``start``; None where it is no message of TTNN after all.

    ``widths`` are those of the complete lines, with their prefixes.
    """
    return _message(replace(start, at=0), tuple(lines), tuple(widths))


def lacks_message(lines: Sequence[str]) -> bool:
    """Returns whether the lines are TTNN's header alone, perhaps with the condition that failed: its message is to come."""
    text = " ".join(line.strip() for line in lines)
    if _ONLY_HEADER.match(text) is None:
        return False
    parts = _header_and_message(text)
    return parts is None or (parts[0] != "" and not parts[0].endswith("\n")) or not parts[1].strip()


@lru_cache(maxsize=256)  # a log repeats itself
def _message(start: Start, lines: tuple[str, ...], widths: tuple[int, ...]) -> Message | None:
    if start.bare and not any(_read(start, text) for count in {1, len(lines)} for text in joined(lines[:count], widths)):
        return _broken(start, lines, widths)
    best: Message | None = None
    best_score = (False, False, 0)
    for count in (count for count in range(1, len(lines) + 1) if not _breaks_number(lines, widths, count)):
        for text in (*_with_numbers(lines[:count]), *joined(lines[:count], widths[:count])):
            read = _read(start, text)
            if read is not None and (best is None or read.score > best_score):
                best, best_score = Message(read.verdict, count, _is_cut(start, read)), read.score
    if best is not None and best.verdict.status is not Status.ERROR:
        fuller = _squeezed(start, lines, widths)
        return fuller if fuller and number_count(fuller.verdict) > number_count(best.verdict) else best
    return _broken(start, lines, widths) or best or _header_alone(lines)


def _is_cut(start: Start, read: _Reading) -> bool:
    verdict = read.verdict
    if verdict.status is not Status.ERROR:
        return False
    if _MEMORY_SOURCES.search(f"/{verdict.thrown_at}") and len(verdict.message.split()) <= _FEW_WORDS:
        return True
    return not read.has_message and (start.short or verdict.message in _NO_CONDITION)


def _header_alone(lines: Sequence[str]) -> Message | None:
    """Returns the message of an error whose text ends within TTNN's header."""
    if _BARE_HEADER.match(lines[0].strip()) is None:
        return None
    return Message(Verdict(Status.ERROR, error_type="RuntimeError", message=lines[0].strip()), 1, is_cut=True)


def _breaks_number(lines: Sequence[str], widths: Sequence[int], count: int) -> bool:
    """Returns whether a number may have been broken after the first ``count`` lines: by a terminal, or as the next shows."""
    if count >= len(lines) or not (lines[count - 1][-1:].isdigit() and lines[count][:1].isdigit()):
        return False
    return widths[count - 1] == terminal_width(widths[:count]) or _REST_OF_NUMBER.match(lines[count]) is not None


def _with_numbers(lines: Sequence[str]) -> Iterator[str]:
    """Yields the lines as one, with the numbers that were broken at the end of a line; nothing where none shows as broken."""
    text, is_broken = lines[0], False
    for line in lines[1:]:
        goes_on = text[-1:].isdigit() and _REST_OF_NUMBER.match(line) is not None
        text += line if goes_on else f" {line}"
        is_broken = is_broken or goes_on
    if is_broken:
        yield text


# One text -------------------------------------------------------------------------------------------------------------------


def _variants(text: str) -> Iterator[str]:
    """Yields the text as the program may have printed it, then as it is."""
    plain = plainly(text)
    yield from dict.fromkeys((without_separators(plain), plain, text))


def _read(start: Start, text: str) -> _Reading | None:
    """Returns what one line of text says, None where it is no message of TTNN."""
    for variant in _variants(text):
        parts = _header_and_message(variant)
        if parts is not None and (read := _known(start, *parts)) is not None:
            return read
    parts = None if start.bare else _header_and_message(text)
    if parts is None:
        return None
    verdict = translate_error(start.error_type, "".join(parts))
    is_known = verdict.status is not Status.ERROR  # but its last number is cut
    return None if is_known else _Reading(verdict, _has_message(*parts))


def _has_message(header: str, message: str) -> bool:
    return bool(message) and (not header or header.endswith("\n"))


def _known(start: Start, header: str, message: str) -> _Reading | None:
    """Returns the reading of a message that is a known wording or has one with its numbers in it."""
    if not header and (status := _STATUS.match(message)):
        message = message[status.end() :]
    kind = "RuntimeError" if start.error_type.endswith("RuntimeError") else start.error_type  # XlaRuntimeError
    verdict = translate_error(kind, header + message)
    if verdict.status is not Status.ERROR:
        _, wording = known_wording(kind, " ".join(message[:HEAD_CHARS].split()))
        is_message = wording is not None and (start.loud or _is_complete(wording))
        if (not start.bare or is_message) and not (wording is not None and is_torn_off(wording)):
            return _Reading(verdict, has_message=True)
    head = message[:HEAD_CHARS]
    for opening in OPENING.finditer(head):
        rest = " ".join(head[opening.start() :].split())
        _, wording = known_wording("RuntimeError", rest)
        if wording is not None and not is_torn_off(wording) and (has_figures(wording) or _thrown(header) != header):
            verdict = translate_error("RuntimeError", _thrown(header) + rest)
            if verdict.status is not Status.ERROR:
                return _Reading(verdict, has_message=True)
    return None


def _thrown(header: str) -> str:
    """Returns a header so that a message may follow it, whatever stood between them."""
    return header if not header or header.endswith("\n") else f"{header}\ninfo:\n"


def _header_and_message(text: str) -> tuple[str, str] | None:
    """Returns TTNN's header as it is thrown, "" where there is none, and the message after it.

    None where ``text`` only begins like a header.
    """
    end = _END.search(text)
    text = _ASSERTED.sub("", text[: end.start()] if end else text)
    header = _HEADER.match(text)
    if header is None:
        plain = _PLAIN_HEADER.match(text)
        return None if _ONLY_HEADER.match(text) and not plain else ("", text[plain.end() :] if plain else text)
    file = "".join(header["file"].split())
    thrown = f"TT_{header['kind']} @ {file}:{header['line']}: "
    info = _INFO.search(header["rest"])
    condition, message = (
        (header["rest"], "") if info is None else (header["rest"][: info.start()], header["rest"][info.end() :])
    )
    if not message.strip():
        return thrown, condition.strip()
    return f"{thrown}{condition.strip()}\ninfo:\n", message.strip()


def _is_complete(wording: re.Match[str]) -> bool:
    """Returns whether words that nothing introduces are a message, not prose: they have its numbers, or are all of it."""
    rest = wording.string[wording.end() :].strip(" .`")
    return has_figures(wording) or " " not in rest or wording[0].endswith(".")


# Texts that are broken or cut -----------------------------------------------------------------------------------------------

_SQUEEZED_HEADER = re.compile(r"TT_(?P<kind>FATAL|THROW)@(?P<file>\S{1,400}?):(?P<line>\d{1,7}):")


def _broken(start: Start, lines: Sequence[str], widths: Sequence[int]) -> Message | None:
    """Returns the message of lines whose white space is not TTNN's, or that lack its start or end."""
    squeezed = _squeezed(start, lines, widths)
    if squeezed is not None:
        return squeezed
    for count in range(len(lines), 0, -1):
        for text in joined(lines[:count], widths[:count]):
            for variant in _variants(text):
                verdict = _cut_verdict(start, variant)
                if verdict is not None:
                    return Message(verdict, count, is_cut=True)
    return None


def _squeezed(start: Start, lines: Sequence[str], widths: Sequence[int]) -> Message | None:
    """Returns the message of the fewest lines that have it, whatever white space is in it."""
    if len(lines) == 1:
        return None
    parts = ["".join(without_separators(plainly(line)).split()) for line in lines]
    squeezed = "".join(parts)[:HEAD_CHARS]
    found = squeezed_wording(squeezed)
    if found is None or is_torn_off(found[1]):
        return None
    end = found[1].end()
    count = next((n for n in range(1, len(parts) + 1) if len("".join(parts[:n])) >= end), len(parts))
    if count == 1 or _breaks_number(lines, widths, count):
        return None
    header = _SQUEEZED_HEADER.match(squeezed)
    thrown = f"TT_{header['kind']} @ {header['file']}:{header['line']}: false\ninfo:\n" if header else ""
    message = _INFO.split(plainly(" ".join(lines[:count])), maxsplit=1)[-1]
    return Message(understood(*found, translate_error(start.error_type, thrown + " ".join(message.split()))), count)


def _cut_verdict(start: Start, text: str) -> Verdict | None:
    parts = _header_and_message(text)
    if parts is None:
        return None
    header, message = parts
    message = " ".join(message.split())
    opening = OPENING.search(message)
    if opening is None and not start.torn:
        return None
    at = opening.start() if opening else 0
    complete = translate_error("RuntimeError", _thrown(header) + message[at:])
    unknown = Verdict(Status.ERROR, error_type=complete.error_type, message=complete.message, thrown_at=complete.thrown_at)
    found = without_end(message[at:], unknown) if opening else None
    if found is None and start.torn:
        found = without_start(message, unknown)
    if found is None and not start.bare and at == 0 and is_beginning(message):
        return unknown
    return found
