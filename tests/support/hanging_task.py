"""A task that never ends, of which a pickled instance reaches a worker."""

from __future__ import annotations

import ctypes
import os
import time
from dataclasses import dataclass
from pathlib import Path

from ssinghal.core.device_facts import DeviceFacts
from ssinghal.core.verdict import Verdict
from ssinghal.device.session import Session
from ssinghal.runner.tasks import PoolOptions, Task


@dataclass(frozen=True)
class Hanging(Task[int]):
    """``where``: in native code that holds the interpreter lock, in native code without it, or in Python. ``begun``: the file
    with the number of its process."""

    where: str
    begun: Path

    def run(self, session: Session, options: PoolOptions) -> int:
        self.begun.with_suffix(".new").write_text(str(os.getpid()))
        self.begun.with_suffix(".new").rename(self.begun)
        while self.where == "python":
            time.sleep(0.01)
        library = ctypes.PyDLL(None) if self.where == "native, holding the interpreter" else ctypes.CDLL(None)
        library.sleep(100_000)
        return 0

    def lost(self, verdict: Verdict, facts: DeviceFacts) -> int:
        return 1
