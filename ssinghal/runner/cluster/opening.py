"""Where a run goes: the one module of this folder that is used without Dask."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec

from ssinghal.device.modes import DeviceChoice
from ssinghal.errors import HarnessError, InvalidCase
from ssinghal.runner.probers import Prober, Submitting
from ssinghal.runner.tasks import PoolOptions

LOCAL = "local"
MAX_LOCAL = 64
MAX_PORT = 65535
_PACKAGES = ("distributed", "cryptography")
_INSTALL = "pip install 'ssinghal[cluster]'"
_ADDRESS = re.compile(r"(tcp|tls)://(\[[0-9a-fA-F:.]+\]|[\w.-]+):([0-9]{1,5})")


@dataclass(frozen=True)
class Cluster:
    """A Dask cluster: the one whose scheduler is at ``address``, or one of this machine with ``workers`` processes."""

    address: str = ""
    workers: int = 0
    wait_s: float = 30.0  # for a worker, where there is none
    waits: Callable[[str], object] = str  # gets a line when the first such wait begins

    @classmethod
    def of(
        cls,
        scheduler: str | None,
        local: str | None,
        workers: int | None,
        default: int,
        waits: Callable[[str], object] = str,
    ) -> Cluster | None:
        """Returns the cluster of the options ``--scheduler``, ``--cluster`` and ``--workers``; None where neither of the first
        two is given. ``default``: workers of this machine where no number is given.

        Raises:
            InvalidCase: An option has no meaning beside another one, or is not written as it must be.
            HarnessError: Dask is not installed.
        """
        if scheduler is None and local is None:
            return None
        if scheduler is not None and local is not None:
            raise InvalidCase("--scheduler and --cluster both name a cluster: give one of them")
        if local is None:
            _check_address(scheduler or "")
            if workers is not None:
                raise InvalidCase("--workers counts processes of this machine: a scheduler has its own workers")
            cluster = cls(scheduler or "", waits=waits)
        else:
            kind, _, count = local.partition(":")
            if kind != LOCAL or (":" in local and not (count.isdecimal() and 1 <= int(count[:9]) <= MAX_LOCAL)):
                raise InvalidCase(f"--cluster {local!r}: expected local, or local:N with N from 1 to {MAX_LOCAL}")
            if count and workers is not None and workers != int(count):
                raise InvalidCase(f"--cluster {local} and --workers {workers} differ: give one of them")
            cluster = cls(workers=int(count) if count else default)
        missing = [name for name in _PACKAGES if find_spec(name) is None]
        if missing:
            raise HarnessError(f"a Dask cluster needs the package {missing[0]}; install it with: {_INSTALL}")
        return cluster

    def check(self) -> None:
        """Raises HarnessError where there is no scheduler at the address. A cluster of this machine is started by its run."""
        if self.address:
            from ssinghal.runner.cluster.link import connected

            with connected(self.address):
                pass


def _check_address(text: str) -> None:
    """Raises InvalidCase unless a text is the address of a scheduler."""
    address = _ADDRESS.fullmatch(text)
    expected = "expected the address of a Dask scheduler, like tcp://host:8786 or tls://host:8786"
    if address is None:
        raise InvalidCase(f"--scheduler {text!r}: {expected}")
    if not 1 <= int(address[3]) <= MAX_PORT:
        raise InvalidCase(f"--scheduler {text!r}: {address[3]} is not a port, from 1 to {MAX_PORT}; {expected}")


@contextmanager
def cluster_prober(
    cluster: Cluster, choice: DeviceChoice, options: PoolOptions, submitting: Submitting, note: Callable[[str], object]
) -> Iterator[Prober]:
    """Opens the device on each worker of a cluster. ``note`` gets lines about workers that were lost or are not used.

    Raises:
        HarnessError: There is no such cluster, it has no worker, one is not as the others, or no device opens.
    """
    from ssinghal.runner.cluster.checks import environment
    from ssinghal.runner.cluster.held import DeviceSetup
    from ssinghal.runner.cluster.link import connected, local_cluster
    from ssinghal.runner.cluster.prober import DaskProber
    from ssinghal.runner.cluster.tasks import Run

    release = "" if options.release is None else options.release.version
    wanted = environment(release, torch=options.numerics)
    setup = DeviceSetup(choice, options, submitting).pickled()
    run = Run(uuid.uuid4().hex, setup, release, options.numerics, wanted)
    with (
        connected(cluster.address) if cluster.address else local_cluster(cluster.workers) as link,
        DaskProber(link, run, wait_s=cluster.wait_s, note=note, waits=cluster.waits) as prober,
    ):
        yield prober
