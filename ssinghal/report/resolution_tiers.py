"""Resolution tiers, by the input sizes that records name as their sources. Nothing is guessed from a shape."""

from __future__ import annotations

from collections.abc import Iterable

from ssinghal.runs.stored_record import StoredRecord

# Name and least number of input pixels, largest first. A padded size such as 2176x3840 belongs with what it was padded from.
TIERS = (
    ("8K", 7680 * 4320),
    ("4K", 3840 * 2160),
    ("1440p", 2560 * 1440),
    ("1080p", 1920 * 1080),
    ("720p", 1280 * 720),
    ("below 720p", 1),
)
OTHER = "inputs of more than two dims"
UNKNOWN = "no model input known"
NAMES = (*(name for name, _ in TIERS), OTHER, UNKNOWN)


def tier_of(input_size: str) -> str:
    """The tier of one input size, ``HxW`` as catalogs write it.

    >>> tier_of("4320x7680"), tier_of("2176x3840"), tier_of("4x60x106"), tier_of("")
    ('8K', '4K', 'inputs of more than two dims', 'no model input known')
    """
    if not input_size:
        return UNKNOWN
    sizes = input_size.split("x")
    if len(sizes) != 2 or not all(size.isdecimal() for size in sizes):
        return OTHER
    pixels = int(sizes[0]) * int(sizes[1])
    return next((name for name, least in TIERS if pixels >= least), OTHER)


def tiers_of(record: StoredRecord) -> dict[str, set[str]]:
    """Tier -> the input sizes in it at which a model has this call, or for crossed catalogs a tensor of its shape."""
    found: dict[str, set[str]] = {}
    for source in record.sources:
        if source.input_size:
            found.setdefault(tier_of(source.input_size), set()).add(source.input_size)
    return found or {UNKNOWN: set()}


def smallest(tiers: Iterable[str]) -> str:
    """Of several tiers the one with the smallest inputs; what has no resolution comes last."""
    return min(tiers, key=lambda tier: (tier in (OTHER, UNKNOWN), -NAMES.index(tier) if tier not in (OTHER, UNKNOWN) else 0))
