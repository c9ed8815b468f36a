"""The devices that a log's failures are replayed on: each board and release is opened once, when first needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from packaging.version import Version

from ssinghal.core.boards import load_board
from ssinghal.device.modes import choose_device
from ssinghal.device.releases import added_releases, find_release, installed_release
from ssinghal.diagnose.fingerprint import Fingerprint
from ssinghal.diagnose.pipeline import Diagnosis, with_remedies, with_replays
from ssinghal.errors import HarnessError
from ssinghal.remedy.device_pools import DevicePools, why_no_values
from ssinghal.remedy.equivalence import MAX_ELEMENTS_ALONE
from ssinghal.remedy.resident_buffers import live_set
from ssinghal.remedy.search import Budget
from ssinghal.runner.pool_cache import PoolCache
from ssinghal.runner.tasks import DEFAULT_TIMEOUT_S, PoolOptions

MAX_BOARDS = 4  # that are tried where the numbers leave several


class ReplayPools(PoolCache[DevicePools]):
    """Replays failures on ``board`` and ``releases``, by default on those that a failure's numbers point to.

    ``live``: other buffers that stay allocated, as ``400MiB@dram`` or a file; by default those that the message implies.
    """

    def __init__(
        self,
        releases: Sequence[str] = (),
        live: Sequence[str] = (),
        board: str | None = None,
        mode: str = "auto",
        *,
        ttnn_log: bool = False,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        super().__init__()
        self._releases, self._live, self._board = releases, live, board
        self._mode, self._ttnn_log, self._timeout_s = mode, ttnn_log, timeout_s

    def replayed(self, diagnosis: Diagnosis, budget: Budget | None) -> Diagnosis:
        """Adds the replays of a failure, and its remedies where there is a budget for the search.

        Where the numbers leave several boards, the first one on which the call explains them counts, else the likeliest. Then
        releases count too to which the numbers do not point, as the report's build may lie between them and the others. Where
        no virtual board has those numbers, there is no replay: it would be another board's. A buffer on fewer cores than a
        board has may be in shards, of the call or of TTNN's own within it; then only a replay with a buffer on as many counts.
        """
        fingerprint = diagnosis.explanation.fingerprint
        why_not = "" if self._board else fingerprint.why_not_replayable
        if not diagnosis.is_replayable:
            return diagnosis
        if why_not and not (fingerprint.sharded and diagnosis.case is not None):
            with_call = "; a call with shards on as many cores can be replayed with --call" if fingerprint.sharded else ""
            return replace(diagnosis, not_replayed=(f"no replay: {why_not}{with_call}",))
        replayed, pools = self._likeliest(diagnosis)
        if why_not and replayed.replays and not any(one.has_banks for one in replayed.replays):
            here = replayed.replays[0].result
            buffer = f"on {here.verdict.banks}" if here.verdict.banks else "not of such a buffer"
            known = f"the message of the known call on {here.board} is {buffer}"
            return replace(diagnosis, not_replayed=(f"no replay counts: {why_not}, and {known}",))
        return with_remedies(replayed, pools, budget)

    def _likeliest(self, diagnosis: Diagnosis) -> tuple[Diagnosis, DevicePools]:
        """Returns the replays on the board that counts, and its devices."""
        fingerprint = diagnosis.explanation.fingerprint
        releases = self._releases or _releases_for(fingerprint)
        boards: list[str | None] = [self._board] if self._board else [*_unlike(fingerprint.boards)] or [None]
        tried: list[tuple[Diagnosis, DevicePools]] = []
        for board in boards[:MAX_BOARDS]:
            pools = self._on(board, releases[0])
            live = live_set(self._live, pools.board) if self._live else None
            tried.append((with_replays(diagnosis, pools, releases, live), pools))
            if tried[-1][0].is_explained or not tried[-1][0].replays:
                break
        if tried[-1][0].is_explained or diagnosis.case is None:
            return tried[-1] if tried[-1][0].is_explained else tried[0]
        likeliest, pools = tried[0]
        others = [] if self._releases else [version for version in _available() if version not in releases]
        live = live_set(self._live, pools.board) if self._live else None
        elsewhere = [one for one in with_replays(diagnosis, pools, others, live).replays if one.explains]
        if elsewhere or len(tried) == 1:
            return replace(likeliest, replays=(*likeliest.replays, *elsewhere)), pools
        also = f"nor does it fail with these numbers on {', '.join(other.board.name for _, other in tried[1:])}"
        return replace(likeliest, not_replayed=(*likeliest.not_replayed, also)), pools

    def _on(self, board: str | None, release: str) -> DevicePools:
        choice = choose_device(self._mode, board, ttnn_log=self._ttnn_log)

        def create() -> DevicePools:
            options = PoolOptions.of(choice, workers=1, timeout_s=self._timeout_s, release=find_release(release))
            return DevicePools(choice, options, no_values=why_no_values(), most_elements=MAX_ELEMENTS_ALONE)

        return self.pool((choice.board, release), create)


def _unlike(boards: Iterable[str]) -> Iterator[str]:
    """Yields the first of the boards whose chips are alike."""
    seen = set()
    for name in boards:
        board = load_board(name)
        if (chip := (board.arch, board.grid, board.dram.num_banks)) not in seen:
            seen.add(chip)
            yield name


def _releases_for(fingerprint: Fingerprint) -> list[str]:
    """Returns the releases that the numbers point to, the nearest first, as far as they are here, and the installed one.

    Raises:
        HarnessError: no release is here.
    """
    known = _available()
    if not known:
        raise HarnessError("no TTNN release is here to replay on; --no-replay reads and explains without one")
    here = installed_release()
    pointed_to = [version for version in (fingerprint.nearest_release, *fingerprint.releases) if version in known]
    return list(dict.fromkeys([*pointed_to, *([here.version] if here else known[-1:])]))


def _available() -> list[str]:
    """Returns the releases that are here, the oldest first."""
    here = installed_release()
    versions = {*([here.version] if here else []), *(release.version for release in added_releases())}
    return sorted(versions, key=Version)
