"""Holds the vocabulary: tensors, boards, cases and records as plain data, and the arithmetic of bytes."""
