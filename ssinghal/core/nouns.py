"""Numbers with their nouns."""

from __future__ import annotations


def counted(count: int, what: str) -> str:
    """Returns a number with its noun.

    >>> counted(1, "case"), counted(2_000, "case")
    ('1 case', '2,000 cases')
    """
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
