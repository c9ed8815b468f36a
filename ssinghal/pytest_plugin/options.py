"""The options of the pytest plugin: each has an ini twin, and the command line overrides it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ssinghal.catalog.expansion import expand
from ssinghal.catalog.loader import load_catalogs
from ssinghal.catalog.sampling import sample
from ssinghal.core.boards import DEFAULT_BOARD, load_board
from ssinghal.core.case import Case
from ssinghal.core.parsing import one_of, seconds, tensor_memory, whole_number
from ssinghal.core.tensors import TextEnum
from ssinghal.device.modes import choose_device
from ssinghal.errors import HarnessError, InvalidCase
from ssinghal.operators import suite_name
from ssinghal.runner.custom_boards import board_name
from ssinghal.runner.probe import Limits
from ssinghal.runner.tasks import DEFAULT_TIMEOUT_S, PoolOptions

CARDS_ARCH = "wormhole_b0"  # of every card whose OOMs the catalogs record; they say nothing of another one's banks


class OomPolicy(TextEnum):
    """What an OOM does to its test."""

    SKIP = "skip"
    STRICT = "strict"


def _policy(text: str) -> OomPolicy:
    return one_of(OomPolicy, "policy", text)


class Option(NamedTuple):
    """``--oom-<name>`` and its ini twin ``oom_<name>``. ``read`` makes the value of the text, or raises InvalidCase."""

    name: str
    read: Callable[[str], Any]
    default: Any
    help: str

    @property
    def key(self) -> str:
        return f"oom_{self.name.replace('-', '_')}"


OPTIONS = (
    Option("board", board_name, DEFAULT_BOARD, "board to open or estimate for: a name, or the file of a cluster descriptor"),
    Option("device", str, "auto", "auto, silicon, simulator or virtual"),
    Option("memory", tensor_memory, None, "put operands into dram or l1 instead of where the catalog says"),
    Option(
        "policy",
        _policy,
        OomPolicy.SKIP,
        "skip: an OOM skips its test; strict: it fails where the estimate says fits, as does a fit where an OOM was foreseen",
    ),
    Option("results", Path, None, "folder that gets <run>/run.json, records.jsonl, summary.txt and the link latest"),
    Option("timeout", seconds, DEFAULT_TIMEOUT_S, "seconds one case may take on the device"),
    Option("host-tiles", whole_number, Limits().host_tiles, "run no reshape for which TTNN maps more tiles on the host"),
    Option("max-bytes", whole_number, None, "leave out cases whose largest operand has more logical bytes"),
    Option("sample", whole_number, None, "at most so many cases of each operator, spread over their sizes"),
    Option("workers", whole_number, None, "device processes (default: 2 on a virtual device, 1 on a real one)"),
)
FLAGS = (
    ("ttnn-log", "let TTNN write its log to standard error"),
    ("remedies", "search for what makes a case fit that is out of memory: its skip and its record name it"),
)
LISTS = (
    ("catalog", "catalog names, parts of names or files (repeatable; default: all)"),
    ("op", "operator names (repeatable; exact, unlike -k)"),
)


def add_options(parser: pytest.Parser) -> None:
    """Adds the options. Values stay text until ``PluginSettings`` parses them: ini values are text and xdist passes text."""
    group = parser.getgroup("oom", "TTNN memory verdicts (ssinghal)")
    for option in OPTIONS:
        shown = "" if option.default is None else f" (default {option.default})"
        group.addoption(f"--oom-{option.name}", default=None, help=f"{option.help}{shown}")
        parser.addini(option.key, option.help, default=None)
    for name, text in LISTS:
        group.addoption(f"--oom-{name}", action="append", default=None, help=text)
        parser.addini(f"oom_{name}", text, type="args", default=None)
    for name, text in FLAGS:
        group.addoption(f"--oom-{name}", action="store_true", default=None, help=text)
        parser.addini(f"oom_{name.replace('-', '_')}", text, type="bool", default=None)


class PluginSettings:
    """The options in force, and the cases they select.

    Raises:
        HarnessError: a value that cannot be used; one line, or one per fault of a catalog.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._values = {option.name: self._read(option) for option in OPTIONS}
        self._lists = {name: self._list(f"oom_{name}") for name, _ in LISTS}
        self._flags = {name: bool(self._given(f"oom_{name.replace('-', '_')}")) for name, _ in FLAGS}
        self.policy: OomPolicy = self.get("policy")
        self.board = load_board(self.get("board"))
        self.remedies = self._flags["remedies"]
        self.choice = choose_device(self.get("device"), self.board.name, ttnn_log=self._flags["ttnn-log"])
        self.pool_options = self._pool_options()
        self.operators = {suite_name(name) for name in self._lists["op"]}
        catalogs = load_catalogs(self._lists["catalog"] or None)
        found = expand(catalogs, memory=self.get("memory"), max_bytes=self.get("max-bytes"))
        self.unmapped = found.unmapped
        self.cases: dict[str, list[Case]] = {}
        for case in found.cases if self.get("sample") is None else sample(found.cases, self.get("sample")):
            if self.board.arch != CARDS_ARCH:
                case = replace(case, known_oom=None)
            self.cases.setdefault(case.name, []).append(case)

    def get(self, name: str) -> Any:
        return self._values[name]

    def given(self) -> dict[str, Any]:
        """Every option with the value in force, for ``run.json``."""
        plain = {k: v if v is None or isinstance(v, (int, float)) else str(v) for k, v in self._values.items()}
        return {**plain, **self._lists, **self._flags}

    def _pool_options(self) -> PoolOptions:
        alone = 1 if hasattr(self._config, "workerinput") else None  # xdist starts processes enough
        workers, timeout_s = self.get("workers") or alone, self.get("timeout")
        return PoolOptions.of(self.choice, workers=workers, timeout_s=timeout_s, host_tiles=self.get("host-tiles"))

    def _read(self, option: Option) -> Any:
        text = self._given(option.key)
        if text in (None, ""):
            return option.default
        try:
            return option.read(text)
        except InvalidCase as error:
            raise HarnessError(f"{self._origin(option.key)}: {error}") from error

    def _list(self, key: str) -> list[str]:
        return list(self._given(key) or ())

    def _given(self, key: str) -> Any:
        value = self._config.getoption(key)
        return self._config.getini(key) if value is None else value

    def _origin(self, key: str) -> str:
        on_command_line = self._config.getoption(key) is not None
        return f"--{key.replace('_', '-')}" if on_command_line else f"{key} in {self._config.inipath}"
