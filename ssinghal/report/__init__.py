"""Writes the report of a run: one HTML page, Markdown documents, CSV and JSON, all counted from its records."""
