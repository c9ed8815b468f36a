"""Records what a part of a program does on an open device, in this process: for notebooks and scripts."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

from ssinghal.errors import InvalidCase
from ssinghal.profile.model import Call, Profile
from ssinghal.profile.reading import read_profiles
from ssinghal.profile.text import summary
from ssinghal.profile.tried_changes import TriedChanges
from ssinghal.tracker.start import Follower


class Recording:
    """The memory of a program on an open device, from ``with ssinghal.profiling(device) as p:``.

    It can be read within the block, up to the last call that returned, and after it, also if an exception ended the block.
    """

    def __init__(self, device: Any, *, program_buffers: bool) -> None:
        self._device, self._program_buffers = device, program_buffers
        self._follower: Follower | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._profile = Profile()

    def __enter__(self) -> Recording:
        ttnn = sys.modules.get("ttnn")
        if ttnn is None or not isinstance(self._device, ttnn.MeshDevice):
            raise InvalidCase(f"profiling: {type(self._device).__name__} is not a device of ttnn; expected one that is open")
        if not _is_open(ttnn, self._device):
            raise InvalidCase("profiling: the device is closed; expected one that is open")
        if Follower.is_following(ttnn):
            raise InvalidCase("profiling: the calls of this process are recorded already, by ssinghal profile or profiling")
        if getattr(ttnn.graph, "is_graph_capture_active", bool)():
            raise InvalidCase("profiling: a graph capture is active, and TTNN has one at a time; expected it to end before")
        self._folder = tempfile.TemporaryDirectory(prefix="ssinghal-profile-")
        self._follower = Follower(ttnn, self._folder.name, has_shadows=self._program_buffers)
        self._follower.follow(self._device)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._follower is None or self._folder is None:
            return
        self._follower.leave()
        self._profile = self.profile
        self._folder.cleanup()
        self._follower = self._folder = None

    @property
    def profile(self) -> Profile:
        """All that was recorded: calls, buffers with the lines that made them, peaks, differences from the allocator's view."""
        if self._folder is None:
            return self._profile
        profile = read_profiles(Path(self._folder.name))[0]
        profile.is_part = True
        profile.tried = TriedChanges(why_not="ssinghal profile tries changes, not ssinghal.profiling")
        return profile

    @property
    def peak(self) -> dict[str, int]:
        """The most bytes per bank that were allocated of each memory: ``dram``, ``l1``, ``l1_small``, ``trace``."""
        return {memory: peak.bank_bytes for memory, peak in self.profile.peaks.items()}

    @property
    def operations(self) -> list[Call]:
        """The calls in order: ``name``, ``site`` (file, line, function), ``peak`` and ``after`` in bytes per bank of each
        memory, ``programs`` with their program buffers, ``error``."""
        return self.profile.calls

    def report(self) -> str:
        """Returns the summary that ``ssinghal profile`` prints."""
        return "\n".join(summary(self.profile))


def _is_open(ttnn: Any, device: Any) -> bool:
    """Whether a device has an allocator: TTNN has no other function that states whether it is closed."""
    try:
        ttnn.get_memory_view(device, ttnn.BufferType.L1)
    except RuntimeError:
        return False
    return True
