"""Names of signals, of which real-time ones have none."""

from __future__ import annotations

import signal


def signal_name(number: int) -> str:
    """Returns the name of a signal.

    >>> signal_name(9), signal_name(35)
    ('SIGKILL', 'signal 35')
    """
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
