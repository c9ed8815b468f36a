"""Finds the date of a log: a build cannot be newer than a log that it wrote."""

from __future__ import annotations

import re

PREFIX_CHARS = 160  # a date stands before the words of a line
_MONTH = re.compile(r"(?<![\w.-])(20[2-3]\d)[-/](0[1-9]|1[0-2])[-/](?:0[1-9]|[12]\d|3[01])[T _]\d\d:\d\d")


def month_of(text: str) -> str:
    """Returns the month of the date and time at the start of a line; "" where it has none, or one without a year.

    >>> month_of("2025-11-26 19:48:22.915 | critical |          Always | TT_FATAL: Out of Memory")
    '2025-11'
    """
    match = _MONTH.search(text, 0, PREFIX_CHARS)
    return f"{match[1]}-{match[2]}" if match else ""
