"""Counts what a recording leaves out: calls of other threads, and buffers on other devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from ssinghal.profile.model import Profile


class Unrecorded:
    """Adds up the counts that a tracker writes, from 0 for each device."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self.begin()

    def begin(self) -> None:
        """A device is opened."""
        self.thread_calls = self._viewed_calls = self._elsewhere = 0
        self._held: Counter[str] = Counter()  # bytes per bank of each memory

    def count(self, record: Mapping[str, Any]) -> None:
        self._profile.others += record["others"] - self.thread_calls
        self.thread_calls = record["others"]
        elsewhere = record.get("elsewhere", 0)
        self._profile.elsewhere += elsewhere - self._elsewhere
        self._elsewhere = elsewhere

    def take_news(self) -> bool:
        """Whether other threads made calls since the allocator's last view."""
        is_new, self._viewed_calls = self.thread_calls != self._viewed_calls, self.thread_calls
        return is_new

    def note(self, memory: str, more_bytes: int) -> None:
        """Other threads allocated so much more, or freed it."""
        self._held[memory] += more_bytes
        if self._held[memory] > self._profile.others_bytes.get(memory, 0):
            self._profile.others_bytes[memory] = self._held[memory]
