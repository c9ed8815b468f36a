"""Runs cases in worker processes, so that a crash or a hang costs one case: one case in, one record out."""
