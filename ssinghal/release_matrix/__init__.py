"""Runs the same cases on several TTNN releases and shows what newly fails, newly fits or takes other bytes."""
