"""Every error the harness raises on purpose. Anything else that escapes is a bug."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

LINE_LIMIT = 500
# Control characters (C0 but tab and line end, DEL, C1), and those that change the direction or the lines of a text.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]|\r(?!\n)")


class HarnessError(Exception):
    """The base of all errors below. Its text is one clear line for the user, or one line per fault, each of bounded length."""

    def __init__(self, text: str = "") -> None:
        super().__init__("\n".join(cut(visible(line), LINE_LIMIT) for line in text.splitlines()))


class CatalogError(HarnessError):
    """A catalog that cannot be used. ``faults`` holds every fault of every file at once, each as ``file:line: path: what``."""

    def __init__(self, faults: Iterable[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(self.faults))


class RegistryError(HarnessError):
    """An operator declaration that contradicts itself or another one."""


class InvalidCase(HarnessError):
    """Input that no device could run: an unknown operator, attribute, board or model, an impossible shape, too few operands."""


class CaptureError(HarnessError):
    """A model that cannot be captured; one line states why."""


class CaptureUnavailable(CaptureError):
    """A model that cannot be captured here at other inputs either: its package or module is missing, or its input is fixed."""


class DeviceError(HarnessError):
    """A problem of the device itself, not of a case."""


class DeviceUnavailable(DeviceError):
    """The requested device mode or board cannot be opened here; the text states what is missing and how to fix it."""


class NotProven(DeviceError):
    """A device that opened but failed the self-check of its mode, so that its verdicts cannot be trusted."""


class NoGolden(DeviceError):
    """A call that TTNN's golden functions cannot make; the text states the function and what is missing."""


DEVICE_ERRORS = (HarnessError, OSError)  # why a device does not open, or a run ends


def reason(error: Exception) -> str:
    """Returns the text of one of ``DEVICE_ERRORS`` without the number of an operating system's error.

    >>> reason(PermissionError(13, "Permission denied", "/dev/tenstorrent/0"))
    '/dev/tenstorrent/0: Permission denied'
    """
    if isinstance(error, OSError) and error.strerror:
        return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    return str(error)


def cut(text: str, limit: int) -> str:
    """Shortens a text of more than ``limit`` characters to its two ends: for texts of others in one line of output.

    >>> cut("0123456789" * 9, 60)
    '01234567890123456789 … (90 characters) … 56789'
    """
    if len(text) <= limit:
        return text
    return f"{text[: limit // 3]} … ({len(text):,} characters) … {text[-limit // 12 :]}"


def printable(text: str) -> str:
    """Writes control characters and the like as Python does: for names of others on a terminal.

    >>> printable("a\\x1b[31m.py")
    'a\\\\x1b[31m.py'
    """
    return text if text.isprintable() else "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def visible(text: str) -> str:
    """Writes what a terminal or a viewer would obey, not show, as JSON does: for all texts of several lines that are printed
    or written. In a JSON text it is the same value.

    >>> visible("a\\x1b]8;;\\u202e\\tb\\n")
    'a\\\\u001b]8;;\\\\u202e\\tb\\n'
    """
    return _CONTROL.sub(lambda one: f"\\u{ord(one[0]):04x}", text)


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """Returns one line about an unknown name, with the nearest known ones.

    >>> unknown("board", "n15", ["n150", "p100"])
    "unknown board 'n15'; did you mean n150? Known: n150, p100"
    >>> unknown("board", "foo", ["n150", "p100"])
    "unknown board 'foo'; known: n150, p100"
    """
    names = sorted(set(known))
    if not names:
        return f"unknown {kind} {name!r}; there is none"
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint, listing = (f"; did you mean {', '.join(near)}?", "Known") if near else (";", "known")
    listed = f"{listing}: {', '.join(names)}" if len(names) <= 12 else f"{len(names)} names are known"
    return f"unknown {kind} {name!r}{hint} {listed}"
