"""The shape family: operators that move elements and compute nothing."""

from __future__ import annotations

from ssinghal.operators.concat_split import PIECES
from ssinghal.operators.indexing import LOOKUPS
from ssinghal.operators.operator_info import OperatorInfo
from ssinghal.operators.padding import PADS
from ssinghal.operators.reshape import VIEWS

OPERATORS: tuple[OperatorInfo, ...] = (*VIEWS, *PIECES, *PADS, *LOOKUPS)
