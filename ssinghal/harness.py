"""What one pytest process knows: its options, its cases, the device pool and the case results so far."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from ssinghal.baseline import load_baseline
from ssinghal.boards import DEFAULT_BOARD, load_board
from ssinghal.cases import Case
from ssinghal.catalog import load_catalogs
from ssinghal.device.modes import DeviceChoice, DeviceMode, choose_device
from ssinghal.errors import HarnessError
from ssinghal.estimate import MemoryEstimate, estimate
from ssinghal.expand import expand
from ssinghal.operators import find_operator
from ssinghal.pool import DEFAULT_TIMEOUT_S, Pool, PoolOptions
from ssinghal.probe import Limits
from ssinghal.records import Record, Status, Verdict
from ssinghal.results import package_versions
from ssinghal.specs import BufferType

# name, type, default, help; every option has an ini twin oom_<name> that the command line overrides
OPTIONS: tuple[tuple[str, Callable[[str], Any], Any, str], ...] = (
    ("board", str, None, "board to open or estimate for (default n150)"),
    ("device", str, "auto", "auto, silicon, simulator or virtual"),
    ("memory", BufferType, None, "put operands into dram or l1 instead of where the catalog says"),
    (
        "policy",
        str,
        "skip",
        "skip: an OOM skips its test; strict: an OOM the estimate did not foresee, or a stale known one, fails",
    ),
    ("results", Path, None, "folder that gets <run>/run.json, records.jsonl, summary.txt and the link latest"),
    ("timeout", float, DEFAULT_TIMEOUT_S, "seconds one case may take on the device"),
    (
        "host-tiles",
        int,
        Limits().host_tiles,
        "tiles that TTNN may map on the host for one reshape; beyond, the case is not run",
    ),
    ("max-bytes", int, None, "leave out cases whose largest operand has more logical bytes"),
    ("workers", int, None, "device processes (default: 2 on a virtual device, 1 on a real one)"),
)
LISTS = (
    ("catalog", "catalog names, name prefixes or files (repeatable; default: all)"),
    ("op", "operator names (repeatable; exact, unlike -k)"),
)


def identity(case: Case) -> tuple[str, str]:
    return case.name, case.key


class Settings:
    """The options in force. UsageError for a value that cannot be used."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self.board = load_board(self.get("board") or DEFAULT_BOARD)
        self.policy = self.get("policy")
        if self.policy not in ("skip", "strict"):
            raise HarnessError(f"--oom-policy {self.policy!r}: expected skip or strict")
        self.choice: DeviceChoice = choose_device(
            self.get("device"), self.board.name, ttnn_log=bool(config.getoption("oom_ttnn_log"))
        )
        virtual = self.choice.mode is DeviceMode.VIRTUAL
        workers = self.get("workers") or (2 if virtual and not hasattr(config, "workerinput") else 1)
        limits = replace(Limits(), host_tiles=self.get("host-tiles"))
        self.pool_options = PoolOptions(workers=workers, timeout_s=self.get("timeout"), numerics=not virtual, limits=limits)
        self.operators = set(self._list("op"))
        for name in self.operators:
            find_operator(name)
        catalogs = load_catalogs(self._list("catalog") or None)
        self.cases: dict[str, list[Case]] = {}
        for case in expand(catalogs, memory=self.get("memory"), max_bytes=self.get("max-bytes")).cases:
            self.cases.setdefault(case.name, []).append(case)

    def get(self, name: str) -> Any:
        kind, default = next((k, d) for n, k, d, _ in OPTIONS if n == name)
        given = self._config.getoption(f"oom_{name.replace('-', '_')}")
        if given is not None:
            return given
        ini = self._config.getini(f"oom_{name.replace('-', '_')}")
        try:
            return kind(ini) if ini else default
        except ValueError as error:
            raise HarnessError(f"ini option oom_{name.replace('-', '_')} = {ini!r}: {error}") from error

    def given(self) -> dict[str, Any]:
        """Every option with the value in force, for ``run.json``."""
        plain = {name: self.get(name) for name, *_ in OPTIONS}
        return {
            **{k: v if v is None or isinstance(v, (int, float)) else str(v) for k, v in plain.items()},
            **{n: self._list(n) for n, _ in LISTS},
        }

    def _list(self, name: str) -> list[str]:
        return self._config.getoption(f"oom_{name}") or list(self._config.getini(f"oom_{name}") or ())


class Harness:
    """The state of one pytest process: settings, the device pool, and what each case turned out to be."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._pool: Pool | None = None
        self._futures: dict[tuple[str, str], Future[Record]] = {}
        self.on_device: set[tuple[str, str]] = set()
        self.selected: dict[tuple[str, str], Case] = {}
        self.stale: list[str] = []

    def pool(self) -> Pool:
        """The device, opened when first needed."""
        if self._pool is None:
            self._pool = Pool(self.settings.choice, self.settings.pool_options)
        return self._pool

    def device_facts(self) -> dict[str, Any]:
        """What was opened, for ``run.json``; empty while no device was needed."""
        return asdict(self._pool.facts) if self._pool is not None else {}

    def submit(self, case: Case) -> Future[Record]:
        """The case's record to come; a case is run once, however many tests ask for it."""
        if identity(case) not in self._futures:
            self._futures[identity(case)] = self.pool().submit(case)
        return self._futures[identity(case)]

    def estimate(self, case: Case) -> MemoryEstimate:
        return estimate(case, self.settings.board.with_l1_small(case.placement.l1_small_bytes or 0))

    def is_known_oom(self, case: Case) -> bool:
        """A card ran out on it, TTNN's allocator did, or arithmetic says that it must."""
        entry = load_baseline(self.settings.board.name).get(case.key)
        return (
            case.known_oom is not None
            or (entry is not None and entry.status == "oom")
            or self.estimate(case).verdict == "exceeds"
        )

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()

    # Records --------------------------------------------------------------------------------------------------------------

    def record_json(self, case: Case, record: Record, nodeid: str) -> dict[str, Any]:
        """The record as its line will read, with the estimate beside it."""
        return {**record.to_json(), "estimate": self.estimate(case).to_json(), "test": nodeid}

    def not_run(self, case: Case, nodeid: str = "") -> dict[str, Any]:
        """The record of a case that no device was asked about: its estimate alone."""
        record = Record(
            case=case.identity(),
            key=case.key,
            id=case.id,
            operator=case.operator,
            verdict=Verdict(Status.NOT_RUN),
            device_mode="none",
            board=self.settings.board.name,
            ttnn=package_versions().get("ttnn", ""),
            sources=tuple(asdict(s) for s in case.sources),
        )
        return self.record_json(case, record, nodeid)
