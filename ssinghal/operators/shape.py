"""The shape family: operators that move elements and compute nothing."""

from __future__ import annotations

from ssinghal.operators.core import OperatorInfo
from ssinghal.operators.lookups import LOOKUPS
from ssinghal.operators.pads import PADS
from ssinghal.operators.pieces import PIECES
from ssinghal.operators.views import VIEWS

OPERATORS: tuple[OperatorInfo, ...] = (*VIEWS, *PIECES, *PADS, *LOOKUPS)

__all__ = ["OPERATORS"]
