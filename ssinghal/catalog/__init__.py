"""Reads, checks, writes, compares and searches shape catalogs, and expands them into cases."""
