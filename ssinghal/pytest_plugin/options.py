"""The options of the pytest plugin: each has an ini twin, and the command line overrides it.

Every run of pytest imports this module where ssinghal is installed, so that it imports next to nothing. ``settings`` reads the
values.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import pytest

PLUGIN = "ssinghal.plugin"  # its name for pytest: the entry point's, and the one that a conftest or -p uses


class Option(NamedTuple):
    """``--<prefix>-<name>`` and its ini twin ``<prefix>_<name>``."""

    name: str
    default: Any
    help: str
    prefix: str = "oom"

    @property
    def flag(self) -> str:
        return f"--{self.prefix}-{self.name}"

    @property
    def key(self) -> str:
        return f"{self.prefix}_{self.name.replace('-', '_')}"


OPTIONS = (
    Option("board", "n150", "board to open or estimate for: a name, or the file of a cluster descriptor"),
    Option("device", "auto", "auto, silicon, simulator or virtual; golden: no device, values only, for development"),
    Option("memory", None, "put operands into dram or l1 instead of where the catalog says"),
    Option("placements", None, "run each call once per placement, comma-separated: dram, l1, height, l1:block@8x8 …"),
    Option("dtypes", None, "run each call once per dtype of its operands, comma-separated, as bfloat16,bfloat8_b"),
    Option("weights", None, "dtype of the weights of convolutions and matrix products"),
    Option(
        "policy",
        "skip",
        "skip: an OOM skips its test; strict: an OOM fails if the estimate predicts a fit, and a fit if it predicts an OOM",
    ),
    Option(
        "results", None, "folder of the runs: writes <run>/run.json, records.jsonl and summary.txt there, and the link latest"
    ),
    Option("timeout", 120.0, "processor seconds of one case on the device (up to 20 times as long by the clock)"),
    Option("host-tiles", 200_000, "skip reshapes for which TTNN maps more tiles on the host"),
    Option("max-bytes", None, "leave out cases whose largest operand has more logical bytes"),
    Option("shard", None, "only part K/N of the cases whose tests are selected, as 2/8 (see ssinghal merge)"),
    Option("sample", None, "at most N cases of each operator, spread over their sizes"),
    Option("workers", None, "device processes (default: 2 on a virtual device, 1 on a real one)"),
)
PROGRESS = Option("progress", None, "show one line of progress instead of a letter for each test (not with -v or -q)")
FLAGS = (
    PROGRESS,
    Option("ttnn-log", None, "let TTNN write its log to standard error"),
    Option("incremental", None, "take what earlier runs in --oom-results have answered, and probe the rest"),
    Option("remedies", None, "search for what makes cases fit that run out of memory; their skips and records name it"),
)
LISTS = (
    Option("catalog", None, "catalog names, parts of names or files (repeatable; default: all)"),
    Option("op", None, "operator names (repeatable; exact, unlike -k)"),
)


def add_options(parser: pytest.Parser) -> None:
    """Adds the options. Their values stay text until ``settings`` parses them: ini values are text, and xdist passes text."""
    group = parser.getgroup("oom", "TTNN memory verdicts (ssinghal)")
    for option in OPTIONS:
        add_option(parser, group, option)
    for option in LISTS:
        add_option(parser, group, option, action="append")
    for option in FLAGS:
        add_option(parser, group, option, action="store_true")


INI_TYPES: dict[str | None, Literal["args", "bool"]] = {"append": "args", "store_true": "bool"}


def add_option(
    parser: pytest.Parser, group: pytest.OptionGroup, option: Option, action: str | None = None, **attributes: Any
) -> None:
    """Adds one option and its ini twin; ``attributes`` as argparse takes them."""
    shown = "" if option.default is None else f" (default {option.default})"
    given = attributes if action is None else {"action": action}
    group.addoption(option.flag, dest=option.key, default=None, help=f"{option.help}{shown}".replace("%", "%%"), **given)
    parser.addini(option.key, option.help, type=INI_TYPES.get(action), default=None)


def value_of(config: pytest.Config, option: Option) -> Any:
    """Returns what the command line gives, else the ini file; None, an empty text or list where neither does."""
    value = config.getoption(option.key)
    if value is None:
        value = getattr(config.known_args_namespace, option.key, None)  # before conftests are loaded, it is here alone
    return config.getini(option.key) if value is None else value


def is_requested(config: pytest.Config) -> bool:
    """Whether an option, ``-p`` or a conftest asks for the plugin. If not, tests with its mark or its fixtures may."""
    if any(value_of(config, option) for option in (*OPTIONS, *FLAGS, *LISTS)) or PLUGIN in config.getoption("plugins"):
        return True
    return any(PLUGIN in (getattr(plugin, "pytest_plugins", None) or ()) for plugin in config.pluginmanager.get_plugins())


def shows_progress(config: pytest.Config) -> bool:
    """Whether ``--oom-progress`` is given, and no ``-v`` or ``-q``, which choose another form."""
    return bool(value_of(config, PROGRESS)) and config.get_verbosity() == 0
