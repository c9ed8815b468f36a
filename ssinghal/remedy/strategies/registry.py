"""All levers in the order of their contracts, and all rewrites by name."""

from __future__ import annotations

from collections.abc import Mapping

from ssinghal.remedy.rewrites import BASIC_REWRITES, Rewrite
from ssinghal.remedy.strategies.chunking import CHUNKS
from ssinghal.remedy.strategies.placement import Strategy, placement_levers
from ssinghal.remedy.strategies.sliding_window import WINDOW_LEVERS, WINDOW_REWRITES
from ssinghal.remedy.strategies.wide_rows import WIDE_LEVERS, WIDE_REWRITES
from ssinghal.remedy.trial import Impact, RewriteName

REWRITES: Mapping[RewriteName, Rewrite] = {**BASIC_REWRITES, **WINDOW_REWRITES, **WIDE_REWRITES}

_ORDER = list(Impact)
LEVERS: tuple[Strategy, ...] = tuple(
    sorted((*placement_levers(), CHUNKS, *WINDOW_LEVERS, *WIDE_LEVERS), key=lambda lever: _ORDER.index(lever.contract))
)
