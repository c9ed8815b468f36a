"""All strategies in the order of their impact, and all rewrites by name."""

from __future__ import annotations

from collections.abc import Mapping

from ssinghal.remedy.rewrites import BASIC_REWRITES, Rewrite
from ssinghal.remedy.strategies.chunking import CHUNKS
from ssinghal.remedy.strategies.configured import CONFIGURED
from ssinghal.remedy.strategies.elsewhere import NEWER_RELEASE, OTHER_BOARD
from ssinghal.remedy.strategies.form import AS_MATRIX, CHANNELS_FIRST, NARROWER_DTYPE, OTHER_VIEW, ROW_MAJOR, ROW_MAJOR_IN_DRAM
from ssinghal.remedy.strategies.linear import AS_LINEAR, LINEAR_REWRITES
from ssinghal.remedy.strategies.placement import ALL_IN_DRAM, IN_PLACE, OPERANDS_FROM_DRAM, RESULT_IN_DRAM
from ssinghal.remedy.strategies.residents import FREE_DEAD, REALLOCATE, SMALLER_REGION, SPILL
from ssinghal.remedy.strategies.shards import IN_SHARDS, OTHER_SHARDS
from ssinghal.remedy.strategies.sliding_window import WINDOW_REWRITES, WINDOW_STRATEGIES
from ssinghal.remedy.strategies.strategy import Strategy
from ssinghal.remedy.strategies.wide_rows import WIDE_REWRITES, WIDE_STRATEGIES
from ssinghal.remedy.trial import Impact, RewriteName

REWRITES: Mapping[RewriteName, Rewrite] = {**BASIC_REWRITES, **WINDOW_REWRITES, **WIDE_REWRITES, **LINEAR_REWRITES}

_ORDER = list(Impact)
STRATEGIES: tuple[Strategy, ...] = tuple(
    sorted(
        (
            *CONFIGURED,
            OTHER_SHARDS,
            REALLOCATE,
            IN_PLACE,
            SPILL,
            SMALLER_REGION,
            FREE_DEAD,
            OPERANDS_FROM_DRAM,
            ALL_IN_DRAM,
            RESULT_IN_DRAM,
            ROW_MAJOR,
            ROW_MAJOR_IN_DRAM,
            CHANNELS_FIRST,
            AS_MATRIX,
            OTHER_VIEW,
            NARROWER_DTYPE,
            NEWER_RELEASE,
            OTHER_BOARD,
            IN_SHARDS,
            CHUNKS,
            *WINDOW_STRATEGIES,
            AS_LINEAR,
            *WIDE_STRATEGIES,
        ),
        key=lambda s: _ORDER.index(s.impact),
    )
)
