"""Runs a suite of TTNN tests without a card: the device, its fixtures, what becomes of values, and a class for each outcome."""
