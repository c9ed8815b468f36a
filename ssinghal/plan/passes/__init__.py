"""Rewrites a recorded model without changing what it computes."""
