"""Runs a complete model on a virtual board: whether it fits, where memory peaks, and which change makes it fit."""
