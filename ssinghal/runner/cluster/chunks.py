"""Cuts the cases of a run into chunks for workers that may be lost."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from ssinghal.runner.probers import Numbered

# Seconds of a chunk: what a lost worker costs, and how long its records take to arrive. Handing over a chunk takes some
# milliseconds, so longer ones are hardly faster.
CHUNK_S = 1.0
LARGEST = 256  # cases
MAX_AHEAD = 16_384  # cases taken from the run before they are cut
MAX_LOSSES = 2  # workers that a chunk may cost


@dataclass(frozen=True)
class Chunk:
    """Cases that one worker answers together. ``losses``: how many workers were lost while they had it. ``suspect``: one of
    the cases may be the cause of a loss, so it is the only chunk of its worker."""

    cases: tuple[Numbered, ...]
    losses: int = 0
    suspect: bool = False


class Chunks:
    """Cuts chunks from ``cases`` as they are needed, each of as many cases as ended in ``CHUNK_S`` lately.

    The first ones have one case, and each at most twice as many as the one before it, as the slow cases come first. Those at
    the end are smaller, so that no worker has much to do when the others have nothing.
    """

    def __init__(self, cases: Iterable[Numbered]) -> None:
        self._cases = iter(cases)
        self._ahead: deque[Numbered] = deque()
        self._all_taken = False
        self._again: deque[Chunk] = deque()
        self._size = 1

    @property
    def remaining(self) -> bool:
        """Whether there is another chunk."""
        self._look_ahead(1)
        return bool(self._again or self._ahead)

    @property
    def has_suspects(self) -> bool:
        return any(chunk.suspect for chunk in self._again)

    def take(self, workers: int, *, idle: bool) -> Chunk | None:
        """Returns the next chunk for one of ``workers``; None where there is none for it. ``idle``: whether it has no other.

        While a suspect chunk waits, workers get no second one, so that one of them becomes idle.
        """
        if self._again and (idle or not self._again[0].suspect):
            return self._again.popleft()
        if self.has_suspects and not idle:
            return None
        self._look_ahead(min(2 * workers * self._size, MAX_AHEAD))
        size = self._size
        if self._all_taken:
            size = min(size, -(-len(self._ahead) // (2 * workers)))
        cases = tuple(self._ahead.popleft() for _ in range(min(size, len(self._ahead))))
        return Chunk(cases) if cases else None

    def ended(self, cases: int, seconds: float) -> None:
        """Learns how long a chunk took."""
        fitting = int(CHUNK_S * cases / seconds) if seconds > 0 else LARGEST
        self._size = max(1, min(fitting, 2 * self._size, LARGEST))

    def give_back(self, chunk: Chunk) -> None:
        """Takes back a chunk whose worker could not do it, for which the chunk is not to blame."""
        self._again.append(chunk)

    def lost(self, chunk: Chunk) -> Numbered | None:
        """Takes back a chunk whose worker was lost. After ``MAX_LOSSES`` it is split into its cases. Returns the case that
        cost so many workers alone, which must not be tried again; None where there is none."""
        losses = chunk.losses + 1
        if losses < MAX_LOSSES:
            self._again.append(Chunk(chunk.cases, losses, suspect=True))
            return None
        if len(chunk.cases) == 1:
            return chunk.cases[0]
        self._again.extend(Chunk((case,), suspect=True) for case in chunk.cases)
        return None

    def _look_ahead(self, count: int) -> None:
        missing = count - len(self._ahead)
        if missing > 0 and not self._all_taken:
            taken = list(islice(self._cases, missing))
            self._all_taken = len(taken) < missing
            self._ahead.extend(taken)
