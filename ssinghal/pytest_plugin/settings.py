"""The values of the plugin's options, and the cases that they select."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ssinghal.catalog.choosing import Choice
from ssinghal.catalog.placements import parse_placements
from ssinghal.core.boards import load_board
from ssinghal.core.case import Case
from ssinghal.core.case_sets import Shard
from ssinghal.core.parsing import dtype_named, dtypes_named, one_of, seconds, tensor_memory, whole_number
from ssinghal.core.tensors import DType, TextEnum
from ssinghal.device.modes import choose_device
from ssinghal.errors import HarnessError, InvalidCase
from ssinghal.operators import suite_name
from ssinghal.pytest_plugin.options import FLAGS, LISTS, OPTIONS, Option, value_of
from ssinghal.runner.custom_boards import board_name
from ssinghal.runner.tasks import PoolOptions

CARDS_ARCH = "wormhole_b0"  # of every card whose OOMs the catalogs record; they prove nothing about another one's banks


class OomPolicy(TextEnum):
    """The effect of an OOM on its test."""

    SKIP = "skip"
    STRICT = "strict"


def _policy(text: str) -> OomPolicy:
    return one_of(OomPolicy, "policy", text)


def _board(text: str) -> str:
    name = board_name(text)
    load_board(name)
    return name


# Each makes the value of a text, or raises InvalidCase.
READERS: Mapping[str, Callable[[str], Any]] = {
    "board": _board,
    "device": str,
    "memory": tensor_memory,
    "placements": parse_placements,
    "dtypes": dtypes_named,
    "weights": dtype_named,
    "policy": _policy,
    "results": Path,
    "timeout": seconds,
    "host-tiles": whole_number,
    "max-bytes": whole_number,
    "sample": whole_number,
    "shard": Shard.parse,
    "workers": whole_number,
}


def _plain(value: Any) -> Any:
    """Returns an option's value as JSON has it."""
    if isinstance(value, tuple):
        return list(map(_plain, value))
    return value if value is None or isinstance(value, (int, float)) else str(value)


class PluginSettings:
    """The options in force, and the cases that they select.

    Raises:
        HarnessError: A value that cannot be used; one line, or one per fault of a catalog.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._values = {option.name: self._read(option) for option in OPTIONS}
        self._lists: dict[str, list[str]] = {option.name: list(value_of(config, option) or ()) for option in LISTS}
        self._flags = {option.name: bool(value_of(config, option)) for option in FLAGS}
        self.policy = OomPolicy(self.get("policy"))
        self.board = load_board(self.get("board"))
        self.remedies = self._flags["remedies"]
        self.incremental = self._flags["incremental"]
        if self.incremental and self.get("results") is None:
            raise HarnessError("--oom-incremental takes answers from the runs in --oom-results: name that folder")
        self.choice = choose_device(self.get("device"), self.board.name, golden=True, ttnn_log=self._flags["ttnn-log"])
        self.pool_options = self._pool_options()
        self.operators = {suite_name(name) for name in self._lists["op"]}
        self.placements: tuple[str, ...] = self.get("placements") or ()
        self.dtypes: tuple[DType, ...] = self.get("dtypes") or ()
        self.shard: Shard | None = self.get("shard")
        if self.get("memory") is not None and self.placements:
            raise HarnessError("--oom-memory and --oom-placements both place the operands: give one of them")
        choice = Choice(
            tuple(self._lists["catalog"]),
            memory=self.get("memory"),
            max_bytes=self.get("max-bytes"),
            per_operator=self.get("sample"),
            placements=self.placements,
            weights=self.get("weights"),
            dtypes=self.dtypes,
        )
        cases, self.unmapped = choice.of_all_shards(self.board)
        self.cases: dict[str, list[Case]] = {}
        for case in cases:
            if self.board.arch != CARDS_ARCH:
                case = replace(case, known_oom=None)
            self.cases.setdefault(case.name, []).append(case)

    def get(self, name: str) -> Any:
        return self._values[name]

    def to_json(self) -> dict[str, Any]:
        """Returns every option with the value in force, for ``run.json``, and what else selects tests where it is given."""
        plain = {k: _plain(v) for k, v in self._values.items()}
        option = self._config.option
        given = {"keyword": option.keyword, "markers": option.markexpr, "tests": list(option.file_or_dir)}
        return {**plain, **self._lists, **self._flags, **{name: value for name, value in given.items() if value}}

    def _pool_options(self) -> PoolOptions:
        alone = 1 if hasattr(self._config, "workerinput") else None  # xdist starts enough processes
        workers, timeout_s = self.get("workers") or alone, self.get("timeout")
        return PoolOptions.of(self.choice, workers=workers, timeout_s=timeout_s, host_tiles=self.get("host-tiles"))

    def _read(self, option: Option) -> Any:
        text = value_of(self._config, option)
        if text in (None, ""):
            return option.default
        try:
            return READERS[option.name](text)
        except InvalidCase as error:
            raise HarnessError(f"{self._origin(option)}: {error}") from error

    def _origin(self, option: Option) -> str:
        on_command_line = self._config.getoption(option.key) is not None
        return option.flag if on_command_line else f"{option.key} in {self._config.inipath}"
