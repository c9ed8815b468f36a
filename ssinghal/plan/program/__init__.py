"""Writes the program of a plan: plain TTNN that makes the calls of the plan's run, without this package."""
