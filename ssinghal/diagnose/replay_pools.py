"""The devices that a log's failures are replayed on: each board and release is opened once, when first needed."""

from __future__ import annotations

from collections.abc import Sequence

from ssinghal.device.modes import choose_device
from ssinghal.device.releases import added_releases, find_release, installed_release
from ssinghal.diagnose.pipeline import Diagnosis, with_replays
from ssinghal.errors import HarnessError
from ssinghal.remedy.device_pools import DevicePools, why_no_values
from ssinghal.remedy.equivalence import MAX_ELEMENTS_ALONE
from ssinghal.remedy.resident_buffers import live_set
from ssinghal.remedy.search import Budget
from ssinghal.runner.pool_cache import PoolCache
from ssinghal.runner.tasks import DEFAULT_TIMEOUT_S, PoolOptions


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
        """Adds the replays of a failure, and its remedies where there is a budget for the search."""
        fingerprint = diagnosis.explanation.fingerprint
        releases = self._releases or _releases_for(fingerprint.nearest_release)
        pools = self._on(self._board or next(iter(fingerprint.boards), None), releases[0])
        live = live_set(self._live, pools.board) if self._live else None
        return with_replays(diagnosis, pools, releases, live, budget)

    def _on(self, board: str | None, release: str) -> DevicePools:
        choice = choose_device(self._mode, board, ttnn_log=self._ttnn_log)

        def create() -> DevicePools:
            options = PoolOptions.of(choice, workers=1, timeout_s=self._timeout_s, release=find_release(release))
            return DevicePools(choice, options, no_values=why_no_values(), most_elements=MAX_ELEMENTS_ALONE)

        return self.pool((choice.board, release), create)


def _releases_for(nearest: str) -> list[str]:
    """Returns the release that the numbers point to, where it is available, and the installed one."""
    here = installed_release()
    installed = [here.version] if here else []
    added = [r.version for r in added_releases() if r.version == nearest]
    releases = list(dict.fromkeys([*added, *installed]))
    if not releases:
        raise HarnessError("no TTNN release is here to replay on; --no-replay reads and explains without one")
    return releases
