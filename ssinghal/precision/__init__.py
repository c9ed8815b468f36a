"""Computes what a narrower dtype saves, and measures what storing values in it loses."""
