"""Standard error that may be full or broken: what it does not take is lost, and changes nothing else."""

from __future__ import annotations

import sys
from io import BufferedWriter, FileIO, TextIOWrapper
from select import select


class _Unfailing(FileIO):
    """Drops what the system does not take, and waits where it does not take it yet, as a terminal may that another program made
    non-blocking."""

    def write(self, data: memoryview) -> int:  # type: ignore[override]  # called with a memoryview alone
        try:
            while (written := super().write(data)) is None:
                select([], [self], [])
        except OSError:
            return data.nbytes
        return written


def let_standard_error_fail() -> None:
    """Replaces ``sys.stderr`` by one whose writes raise nothing: progress and messages must decide neither what is done nor the
    exit code. One that is closed, or that tests have replaced, stays."""
    given = sys.stderr
    if not isinstance(given, TextIOWrapper) or given is not sys.__stderr__:
        return
    raw = _Unfailing(given.fileno(), "w", closefd=False)
    sys.stderr = TextIOWrapper(BufferedWriter(raw), given.encoding, given.errors, line_buffering=True)
