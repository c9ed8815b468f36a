"""Turns calls of TTNN that others recorded into cases: profiles, operation traces, master traces, and lines of tensors."""
