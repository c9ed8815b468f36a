"""Names of signals, of which real-time ones have none, and signals that end work between two of its steps."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


def signal_name(number: int) -> str:
    """Returns the name of a signal.

    >>> signal_name(9), signal_name(35)
    ('SIGKILL', 'signal 35')
    """
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


# Ctrl-C, and the end of the terminal: all its processes get them. Those that hold a device leave them to their parent.
OF_TERMINAL = frozenset({signal.SIGINT, signal.SIGHUP})
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def collected_signals() -> Iterator[list[signal.Signals]]:
    """Collects ``ENDING`` in a list, as an exception might come in the middle of a step."""
    caught: list[signal.Signals] = []

    def catch(number: int, _: object) -> None:
        caught.append(signal.Signals(number))

    handled = [number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, catch) for number in handled}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
