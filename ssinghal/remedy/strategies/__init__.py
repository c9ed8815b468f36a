"""Proposes changes to a call: other placement, pieces, windows of rows, fewer padded bytes."""
