"""Precision planning: bytes in bfloat16, bfloat8_b and bfloat4_b, by arithmetic, and what storing values so loses, measured."""
