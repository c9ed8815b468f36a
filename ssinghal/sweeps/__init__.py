"""Sweeps: the same selection on several boards and releases."""
