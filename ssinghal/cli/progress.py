"""A progress bar on standard error, where that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


def track(items: Iterable[T], what: str, total: int) -> Iterable[T]:
    if not sys.stderr.isatty():
        return items
    from rich.console import Console  # takes longer to import than most commands run
    from rich.progress import track as bar

    return bar(items, what, total, console=Console(stderr=True))
