"""Decodes the bytes of a log into lines of text: any encoding, any length, in bounded memory.

A log of a gigabyte has few lines about a failure. Lines without an anchor word are skipped as bytes, unless the reader of the
lines needs the next one (``Lines.busy``) or they are among the first of the file.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from typing import BinaryIO, NamedTuple

READ_BYTES = 1 << 20
UNSKIPPED_BYTES = 1 << 20  # at the file's start, where every line is read: a pasted text is no longer
LONG_LINE_BYTES = 1 << 18  # a longer line is read in pieces
AHEAD_BYTES = 1 << 14  # a look ahead from one piece into the next: longer than any message
TERMINAL_WIDTHS = (80, 100, 120, 132, 160)  # any other width counts only if two lines have it
FEWEST_COLUMNS = 40  # of a terminal

_BOMS = ((codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"), (codecs.BOM_UTF16_LE, "utf-16"),
         (codecs.BOM_UTF16_BE, "utf-16"))  # fmt: skip
# Colours and cursor movements, including those whose escape character was lost in a copy.
_ESCAPES = re.compile(r"\x1b\][^\x07\x1b]{0,400}(?:\x07|\x1b\\)|[\x1b\x9b]\[?[0-?]{0,40}[ -/]{0,4}[@-~]")
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]")  # no terminal may receive them from a log; none is a blank
_CONTROL_BYTES = bytes([*range(9), *range(14, 28), 0x7F, 0xC2])  # in UTF-8: 0xC2 begins the later ones
_LOST_ESCAPES = re.compile(r"\[(?:\d{1,3}(?:;\d{1,3}){0,5})?m")


class Line(NamedTuple):
    """One line, or a piece of a very long one; ``text`` is without colours and line end.

    ``own``: how many of its characters belong to this piece; the rest is a look ahead and comes again as the start of the next
    piece. ``cut``: the line continues after this piece. ``inside``: it began before this piece.
    """

    number: int
    text: str
    own: int
    cut: bool = False
    inside: bool = False


class Lines:
    """Iterates over the lines of ``stream``, numbered from 1 by their newlines; a carriage return alone also ends one.

    ``busy`` is set by the reader of the lines: whether it needs the next one in any case. ``count``: lines passed.
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
            everything = not self._anchors or passed < UNSKIPPED_BYTES
            passed += own
            ended = piece.endswith(b"\n")
            finder = _AnchorFinder(piece, self._anchors)
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
        """Yields the stream as UTF-8, whatever its encoding."""
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
    """Returns the encoding of a text with several bytes per character, None for any other.

    It has a byte order mark, or every other byte of its ASCII characters is 0.
    """
    by_mark = next((name for bom, name in _BOMS if start.startswith(bom)), None)
    if by_mark:
        return by_mark
    even, odd = start[0:256:2], start[1:256:2]
    if len(odd) < 4 or any(even) == any(odd):
        return None
    return "utf-16-le" if any(even) else "utf-16-be"


class _AnchorFinder:
    """Finds the next anchor in a piece. Each anchor is searched once over the piece, however often ``next`` is called."""

    def __init__(self, piece: bytes, anchors: Sequence[bytes]) -> None:
        self._piece = piece
        self._next = {anchor: -1 for anchor in anchors}  # an anchor that does not occur again is removed

    def next(self, start: int) -> int | None:
        """Returns where the first anchor at or after ``start`` is; ``start`` never decreases."""
        for anchor, known_at in list(self._next.items()):
            if known_at < start:
                at = self._piece.find(anchor, start)
                if at < 0:
                    del self._next[anchor]
                else:
                    self._next[anchor] = at
        return min(self._next.values(), default=None)


def _pieces(chunks: Iterator[bytes]) -> Iterator[tuple[bytes, int]]:
    """Yields pieces of the stream, each with its number of own bytes: complete lines, a part of a very long one, or the end."""
    rest = b""
    for chunk in chunks:
        rest += chunk
        complete = rest.rfind(b"\n") + 1
        if complete:
            yield rest[:complete], complete
            rest = rest[complete:]
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
    if len(raw.translate(None, _CONTROL_BYTES)) < len(raw):  # cheap; without a replacement two numbers would join
        text = _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text)
    return text


def joined(lines: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    """Yields the lines joined into one: first as a terminal broke them, wherever a line was full, then as broken between words.

    ``widths``: of the lines as printed.
    """
    full = terminal_width(widths[: len(lines) - 1])
    if full:
        yield "".join(line if width == full else line + " " for line, width in zip(lines, widths, strict=False)).rstrip()
    yield " ".join(lines)


def terminal_width(widths: Sequence[int]) -> int:
    """Returns the width at which a terminal broke lines of these widths, 0 where none seems to have."""
    widest = max(widths, default=0)
    return widest if widest in TERMINAL_WIDTHS or (widest >= FEWEST_COLUMNS and widths.count(widest) > 1) else 0
