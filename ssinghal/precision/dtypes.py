"""The dtypes that are compared."""

from __future__ import annotations

from ssinghal.specs import DType

PLAN_DTYPES = (DType.BFLOAT16, DType.BFLOAT8_B, DType.BFLOAT4_B)

__all__ = ["PLAN_DTYPES"]
