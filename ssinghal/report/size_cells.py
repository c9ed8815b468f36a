"""Cells of a table that tell one tensor's three sizes."""

from __future__ import annotations

from ssinghal.markdown import Number, size
from ssinghal.report.facts import Size

SIZE_COLUMNS = ("logical", "allocated, x logical", "per bank")


def padded(size_: Size) -> Number:
    """Allocated bytes and how many times the logical ones they are."""
    factor = f"{size_.padding or 1:.3f}".rstrip("0").rstrip(".")
    return Number(size(size_.allocated_bytes) + (f", {factor}x" if factor != "1" else ""))


def sizes(size_: Size) -> list[Number]:
    """Three cells: logical, allocated, per bank. See ``SIZE_COLUMNS``."""
    return [size(size_.logical_bytes), padded(size_), size(size_.bytes_per_bank)]
