"""Runs catalogs under pytest: options, fixtures, skips with numbers, and one record for each selected case."""
