"""Parses the text of a log: its lines, errors, crashes and MLIR."""
