"""Precision planning: bytes in bfloat16, bfloat8_b and bfloat4_b, by arithmetic, and what storing values so loses, measured."""

from ssinghal.precision.bytes import PLAN_DTYPES, Footprint, plan_bytes, plan_call

__all__ = ["PLAN_DTYPES", "Footprint", "plan_bytes", "plan_call"]
