"""The file that a tracker writes: one JSON object a line, in the order in which things happened.

Each line is one write to the system, so that a crash costs none of the lines before it. ``k`` is its kind:

``program``  ``version``, ``argv``, ``pid``, ``folder``: first line of each process that opened a device.
``device``   a device was opened: ``ttnn``, ``arch``, ``mesh``, ``grid`` [columns, rows], ``granule`` (the allocator books
             multiples of it), ``l1_base`` (address where program buffers start), ``l1_top``, ``memories``: per memory [banks,
             bytes per bank, bytes per bank allocated at that time], and of a device
             that was open before, ``held``: the buffers that are allocated already [memory, address, bytes per bank], but none
             of the memories ``unsized``, where TTNN does not report their sizes. Whatever an earlier device held is gone.
``site``     ``n``, ``file``, ``line``, ``function``, ``text``: a line of the user's program, referred to by ``n``.
``stack``    ``n``, ``sites``: innermost first.
``spec``     ``n``, ``shape``, ``dtype``, ``layout``, ``memory`` (None: on the host), ``memory_layout``, ``shard`` [shape, core
             ranges], ``config`` (TTNN's own JSON of the memory config) where it is sharded.
``given``    ``n``, ``values``: the arguments of calls, as ``tracker.arguments`` writes them.
``start``    ``n``, ``name``, ``stack``: a call starts; it is the last line if the process ends within it.
``call``     ``n``, ``name``, ``stack``, ``in`` and ``out`` ([spec, address] each), ``gap`` (events since the last call), ``ev``
             (events of the call), ``view`` (per memory [bytes per bank allocated, largest free block], as the allocator sees it
             afterwards), ``us`` (microseconds), ``given`` (number of its arguments; None if they are too long or cannot be
             read, absent in older files); where it raised, ``error`` (class and text) and ``arguments`` themselves instead.
``span``     ``name``, ``gap``: a named part of the program begins, such as a test; with an empty name the one before ends.
``end``      ``gap``: the device is about to be closed, or the program to end.
``lost``     ``why``: nothing is recorded from here on.

``others`` of a call, a span and the end: how many calls other threads have made so far, which are not recorded.
``elsewhere``: how many buffers were allocated so far on other devices and on submeshes of this one, which are not recorded,
where there are any.
``skipped`` of a call: true if it was not passed on to TTNN, as a trace on a virtual device.

Events: ``["+", memory, address, bytes per bank, bytes in all banks]`` a buffer was allocated, ``["-", memory, address]`` it was
freed, ``["p", name, bytes, source]`` a program ran; bytes: of its program buffers on the fullest core, None where TTNN did not
report them; source: ``measured``, ``memo`` (an equal program was measured before), ``shadow`` (TTNN reported them when the
call, or an equal one, was repeated without being dispatched) or ``unknown``.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from typing import Any

VERSION = 2
LOWEST_DESCRIPTOR = 512


class RecordFile:
    """Appends records; lines of the program, stacks and specs are written once and referred to by number."""

    def __init__(self, folder: str) -> None:
        self.pid = os.getpid()
        self._path = os.path.join(folder, f"records-{self.pid}.jsonl")
        self._file = self._opened()
        self._numbers: dict[tuple[str, Any], int] = {}

    def write(self, kind: str, **values: Any) -> None:
        if os.getpid() == self.pid:  # a fork's device is its parent's
            data = json.dumps({"k": kind, **values}, separators=(",", ":")).encode() + b"\n"
            while data:
                try:
                    data = data[os.write(self._file, data) :]
                except OSError as error:
                    if error.errno != errno.EBADF:
                        raise
                    self._file = self._opened()  # the program closed all that it had inherited

    def _opened(self) -> int:
        return opened_high(self._path)

    def number(self, kind: str, key: Any, **values: Any) -> int:
        """Returns the number of what ``key`` identifies, after writing it if it is new."""
        number = self._numbers.get((kind, key))
        if number is None:
            number = self._numbers[kind, key] = len(self._numbers)
            self.write(kind, n=number, **values)
        return number


def opened_high(path: str) -> int:
    """Opens a file to append to it; its descriptor is a high one, which the program does not get for a file of its own once it
    has closed it."""
    low = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        high = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, LOWEST_DESCRIPTOR)
    except OSError:  # the limit of open files is lower
        return low
    os.close(low)
    return high
