"""Formats tables, Markdown and self-contained HTML."""
