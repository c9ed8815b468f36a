"""Every error the harness raises on purpose. Anything else that escapes is a bug."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable

LINE_LIMIT = 500
_LINE_END = re.compile("[\n\v\f\r\x1c-\x1e\x85\u2028\u2029]")  # what ``str.splitlines`` splits at
# Control characters (C0 but tab and line end, DEL, C1), and those that change the direction or the lines of a text.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]|\r(?!\n)")


class HarnessError(Exception):
    """The base of all errors below. Its text is one clear line of bounded length for the user."""

    def __init__(self, text: str = "") -> None:
        super().__init__(visible(cut(text.rstrip("\r\n"), LINE_LIMIT)))


class SeveralFaults(HarnessError):
    """An error whose text is one line per fault. ``faults``: all of them, as they were found."""

    def __init__(self, faults: Iterable[str]) -> None:
        self.faults = tuple(map(one_line, faults))
        Exception.__init__(self, "\n".join(visible(cut(fault, LINE_LIMIT)) for fault in self.faults))


class CatalogError(SeveralFaults):
    """A catalog that cannot be used. ``faults`` holds every fault of every file at once, each as ``file:line: path: what``."""


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


WORKING_FOLDER_GONE = "the working folder is gone (it was removed): change to another one"


def is_working_folder_gone() -> bool:
    """Returns whether the folder in which this process works was removed: relative paths lead nowhere, and no device opens."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def cut(text: str, limit: int) -> str:
    """Makes one line of a text, and shortens one of more than ``limit`` characters to its two ends: for texts of others in one
    line of output.

    >>> cut("0123456789" * 9, 60)
    '01234567890123456789 … (90 characters) … 56789'
    """
    text = one_line(text)
    if len(text) <= limit:
        return text
    return f"{text[: limit // 3]} … ({len(text):,} characters) … {text[-limit // 12 :]}"


def one_line(text: str) -> str:
    """Writes whatever ends a line as Python does: for names of others in a line of output.

    >>> one_line("a\\nrun 2\\u2028b")
    'a\\\\nrun 2\\\\u2028b'
    """
    return _LINE_END.sub(lambda one: ascii(one[0])[1:-1], text)


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
