"""How a run probes its cases: each by itself, or with a search for remedies after those that run out of memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ssinghal.runner.pool import Pool
from ssinghal.runner.sweep import Submit


@contextmanager
def probing(pool: Pool, *, remedies: bool) -> Iterator[Submit]:
    """What takes a case and promises its record. To be left before the pool is closed."""
    if not remedies:
        yield pool.submit
        return
    from ssinghal.remedy.record_remedies import Searcher  # only who searches waits for all that a search needs

    with Searcher(pool) as searcher:
        yield searcher.submit
