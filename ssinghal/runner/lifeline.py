"""Ends a device process in the middle of a call if the process that started it is gone, however that ended.

A call of native code can last for ever, and may hold Python's interpreter lock, so that no thread of Python could end it. The
kernel can: it sends a signal when the other end of a pipe is closed. A signal at the death of the parent, ``PR_SET_PDEATHSIG``,
would come with the end of the thread that started the process, which may be earlier.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO


def lifeline() -> tuple[FileIO, FileIO]:
    """Returns the end of a pipe for the device process, and the one that its starter keeps open. Nothing is written to it."""
    theirs, ours = os.pipe()
    return FileIO(theirs), FileIO(ours, "w")


class Lifeline:
    """The device process's end of the pipe. It is not inherited by other processes."""

    def __init__(self, descriptor: int) -> None:
        os.set_inheritable(descriptor, False)
        self._descriptor = descriptor
        self._flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
        self._closed = select.poll()
        self._closed.register(descriptor, select.POLLHUP)
        fcntl.fcntl(descriptor, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGKILL)

    @contextmanager
    def needed(self) -> Iterator[None]:
        """Within the block, this process is killed as soon as its starter is gone. Outside, it ends by itself."""
        fcntl.fcntl(self._descriptor, fcntl.F_SETFL, self._flags | os.O_ASYNC)
        try:
            if self._closed.poll(0):  # closed before the kernel knew that it should watch
                os.kill(os.getpid(), signal.SIGKILL)
            yield
        finally:
            fcntl.fcntl(self._descriptor, fcntl.F_SETFL, self._flags)
