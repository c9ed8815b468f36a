"""The shape family: operators that move elements and compute nothing."""

from __future__ import annotations

from ssinghal.operators.indexing import LOOKUPS
from ssinghal.operators.joining import JOINS
from ssinghal.operators.layouts import LAYOUTS
from ssinghal.operators.operator_info import OperatorInfo
from ssinghal.operators.padding import PADS
from ssinghal.operators.reorder import REORDERS
from ssinghal.operators.repeating import REPEATS
from ssinghal.operators.reshape import AS_STRIDED, RESHAPES
from ssinghal.operators.slicing import SLICES
from ssinghal.operators.splitting import SPLITS

OPERATORS: tuple[OperatorInfo, ...] = (
    *RESHAPES,
    *REORDERS,
    *LAYOUTS,
    AS_STRIDED,
    *JOINS,
    *SPLITS,
    *SLICES,
    *REPEATS,
    *PADS,
    *LOOKUPS,
)
