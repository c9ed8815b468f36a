"""Submits the cases of a run: to be probed only, or with a search for remedies after each that runs out of memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ssinghal.runner.pool import Pool
from ssinghal.runner.probers import Submit


@contextmanager
def probing(pool: Pool, *, remedies: bool) -> Iterator[Submit]:
    """Yields the function that submits a case. Must be left before the pool is closed."""
    if not remedies:
        yield pool.submit
        return
    from ssinghal.remedy.record_remedies import Searcher  # slow, and not needed without a search

    with Searcher(pool) as searcher:
        yield searcher.submit
