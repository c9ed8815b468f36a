"""Every error the harness raises on purpose. Anything else that escapes is a bug."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

LINE_LIMIT = 500


class HarnessError(Exception):
    """Base of all errors below; its text is one clear line (or one line per fault) for the user, each of bounded length."""

    def __init__(self, text: str = "") -> None:
        super().__init__("\n".join(cut(line, LINE_LIMIT) for line in text.splitlines()))


class CatalogError(HarnessError):
    """A catalog that cannot be used. Carries every fault of every file at once as ``file:line: path: what``."""

    def __init__(self, faults: Iterable[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(self.faults))


class RegistryError(HarnessError):
    """An operator declaration that contradicts itself or another one."""


class InvalidCase(HarnessError):
    """A case that no device could run: unknown operator or attribute, impossible shape, missing operand."""


class DeviceError(HarnessError):
    """Something about the device itself, not about a case."""


class DeviceUnavailable(DeviceError):
    """The asked-for device mode or board cannot be opened here; the text says what is missing and what mends it."""


class NotProven(DeviceError):
    """A device that opened but failed the self-check of its mode, so its verdicts cannot be trusted."""


def cut(text: str, limit: int) -> str:
    """``text``, or its two ends where it is longer than ``limit`` characters: for what others wrote, in a line of ours.

    >>> cut("0123456789" * 9, 60)
    '01234567890123456789 … (90 characters) … 56789'
    """
    if len(text) <= limit:
        return text
    return f"{text[: limit // 3]} … ({len(text):,} characters) … {text[-limit // 12 :]}"


def unknown(kind: str, given: str, known: Iterable[str]) -> str:
    """One line for an unknown name, with the nearest known ones.

    >>> unknown("board", "n15", ["n150", "p100"])
    "unknown board 'n15'; did you mean n150? Known: n150, p100"
    """
    names = sorted(set(known))
    if not names:
        return f"unknown {kind} {given!r}; there is none"
    near = difflib.get_close_matches(given, names, n=3, cutoff=0.5)
    hint = f"; did you mean {', '.join(near)}?" if near else ";"
    listed = f" Known: {', '.join(names)}" if len(names) <= 12 else f" {len(names)} names are known"
    return f"unknown {kind} {given!r}{hint}{listed}"
