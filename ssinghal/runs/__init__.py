"""Writes, reads, compares and indexes run folders."""
