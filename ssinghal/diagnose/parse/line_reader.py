"""Bytes of a log to lines of text: any encoding, any length, in bounded memory.

A log of a gigabyte has few lines that say something about a failure. Lines without an ``ANCHORS`` word are skipped as bytes,
unless the reader of the lines is in the middle of something (``Lines.busy``) or they are among the first of the file.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from typing import BinaryIO, NamedTuple

READ_BYTES = 1 << 20
WHOLE_BYTES = 1 << 20  # of the file's start, of which every line is read: a pasted text is no longer
LONG_LINE_BYTES = 1 << 18  # a line with no end by then is read in pieces
AHEAD_BYTES = 1 << 14  # that a piece shows of the next: longer than any message
TERMINALS = (80, 100, 120, 132, 160)  # columns at which lines are broken; any other width needs two full lines to be believed

_BOMS = ((codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"), (codecs.BOM_UTF16_LE, "utf-16"),
         (codecs.BOM_UTF16_BE, "utf-16"))  # fmt: skip
# Colours and cursor movements, also those whose escape character was lost on the way.
_ESCAPES = re.compile(r"\x1b\][^\x07\x1b]{0,400}(?:\x07|\x1b\\)|[\x1b\x9b]\[?[0-?]{0,40}[ -/]{0,4}[@-~]")
_LOST_ESCAPES = re.compile(r"\[(?:\d{1,3}(?:;\d{1,3}){0,5})?m")


class Line(NamedTuple):
    """``text`` without colours and line end. ``own``: how many of its characters belong here; the rest is a look ahead, given
    where a line is read in pieces, and comes again as the start of the next. ``cut``: the line goes on after this piece;
    ``inside``: it began before it."""

    number: int
    text: str
    own: int
    cut: bool = False
    inside: bool = False


class Lines:
    """The lines of ``stream``, numbered from 1 by their newlines; a carriage return alone also ends one.

    ``busy`` is for the reader of the lines to set: whether it wants the next one whatever it says. ``count``: lines passed.
    """

    def __init__(self, stream: BinaryIO, anchors: Sequence[bytes] = ()) -> None:
        self.busy = False
        self.count = 0
        self._stream = stream
        self._anchors = anchors
        self._oddities: dict[str, None] = {}

    @property
    def remarks(self) -> tuple[str, ...]:
        return tuple(self._oddities)

    def __iter__(self) -> Iterator[Line]:
        passed = 0
        inside = False
        ended = True
        for piece, own in _pieces(self._decoded()):
            self._look_at(piece, own)
            everything = not self._anchors or passed < WHOLE_BYTES
            passed += own
            ended = piece.endswith(b"\n")
            finder = _Finder(piece, self._anchors)
            at = 0
            while at < own:
                if not (everything or self.busy):
                    hit = finder.next(at)
                    skipped = own if hit is None or hit >= own else piece.rfind(b"\n", at, hit) + 1
                    self.count += piece.count(b"\n", at, skipped)
                    at = max(at, skipped)
                    if at >= own:
                        break
                end = piece.find(b"\n", at, own)
                if end >= 0:
                    yield from self._lines(piece[at:end], inside and at == 0)
                    self.count += 1
                    at = end + 1
                elif own == len(piece):  # the last line of the file has no newline
                    yield from self._lines(piece[at:], inside and at == 0)
                    break
                else:
                    yield self._part(piece[at:own], piece[own:], inside)
                    break
            inside = own < len(piece)
        self.count += not ended

    def _lines(self, raw: bytes, inside: bool) -> Iterator[Line]:
        for part in raw.removesuffix(b"\r").split(b"\r") if b"\r" in raw else (raw,):
            text = _text(part)
            yield Line(self.count + 1, text, len(text), inside=inside)
            inside = False

    def _part(self, raw: bytes, ahead: bytes, inside: bool) -> Line:
        self._oddities["lines longer than 256 KiB were read in pieces"] = None
        text = _text(raw)
        return Line(self.count + 1, text + _text(ahead), len(text), cut=True, inside=inside)

    def _look_at(self, piece: bytes, own: int) -> None:
        if b"\0" in piece:
            self._oddities["the file has NUL bytes: it is not plain text"] = None
        if own == len(piece) and not piece.isascii():
            try:
                piece.decode()
            except UnicodeDecodeError:
                self._oddities["some bytes are not UTF-8: they are shown as \N{REPLACEMENT CHARACTER}"] = None

    def _decoded(self) -> Iterator[bytes]:
        """The stream as UTF-8, whatever its byte order mark says that it is."""
        chunk = self._stream.read(READ_BYTES)
        encoding = _encoding(chunk)
        if encoding is None:
            chunk = chunk.removeprefix(codecs.BOM_UTF8)
            while chunk:
                yield chunk
                chunk = self._stream.read(READ_BYTES)
            return
        self._oddities[f"the file is {encoding.upper()}"] = None
        decoder = codecs.getincrementaldecoder(encoding)("replace")
        while chunk:
            yield decoder.decode(chunk).encode("utf-8", "replace")
            chunk = self._stream.read(READ_BYTES)
        yield decoder.decode(b"", final=True).encode("utf-8", "replace")


def _encoding(start: bytes) -> str | None:
    """Of a text of more than one byte a character: by its byte order mark, or because every other byte of ASCII in it is 0."""
    marked = next((name for bom, name in _BOMS if start.startswith(bom)), None)
    if marked:
        return marked
    even, odd = start[0:256:2], start[1:256:2]
    if len(odd) < 4 or any(even) == any(odd):
        return None
    return "utf-16-le" if any(even) else "utf-16-be"


class _Finder:
    """Where the next anchor is. Each anchor is looked for once over the whole piece, however often that is asked."""

    def __init__(self, piece: bytes, anchors: Sequence[bytes]) -> None:
        self._piece = piece
        self._next = {anchor: -1 for anchor in anchors}  # no more of it: removed

    def next(self, start: int) -> int | None:
        for anchor, at in list(self._next.items()):
            if at < start:
                found = self._piece.find(anchor, start)
                if found < 0:
                    del self._next[anchor]
                else:
                    self._next[anchor] = found
        return min(self._next.values(), default=None)


def _pieces(chunks: Iterator[bytes]) -> Iterator[tuple[bytes, int]]:
    """Bytes, and how many of them belong to this piece: whole lines, the file's end, or a part of a line without end."""
    rest = b""
    for chunk in chunks:
        rest += chunk
        whole = rest.rfind(b"\n") + 1
        if whole:
            yield rest[:whole], whole
            rest = rest[whole:]
        start = 0
        while len(rest) - start > LONG_LINE_BYTES + AHEAD_BYTES:
            yield rest[start : start + LONG_LINE_BYTES + AHEAD_BYTES], LONG_LINE_BYTES
            start += LONG_LINE_BYTES
        rest = rest[start:]
    if rest:
        yield rest, len(rest)


def _text(raw: bytes) -> str:
    text = raw.decode("utf-8", "replace")
    if "\x1b" in text or "\x9b" in text:
        text = _ESCAPES.sub("", text)
    if "[" in text:
        text = _LOST_ESCAPES.sub("", text)
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}") if "\0" in text else text  # dropped, it would join two numbers


def joined(lines: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    """The lines as one: broken by a terminal wherever a line was full, or between words. ``widths`` are as printed."""
    full = terminal(widths[: len(lines) - 1])
    if full:
        yield "".join(line if width == full else line + " " for line, width in zip(lines, widths, strict=False)).rstrip()
    yield " ".join(lines)


def terminal(widths: Sequence[int]) -> int:
    """The width at which a terminal broke lines of these widths, 0 where none seems to have."""
    widest = max(widths, default=0)
    return widest if widest in TERMINALS or (widest >= min(TERMINALS) and widths.count(widest) > 1) else 0
