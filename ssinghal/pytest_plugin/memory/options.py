"""The options ``--tt-memory…`` and their ini twins. As of the other options, every run of pytest imports this module."""

from __future__ import annotations

from typing import Any

import pytest

from ssinghal.pytest_plugin.options import Option


class MemoryOption(Option):
    """``--tt-<name>`` and its ini twin ``tt_<name>``."""

    @property
    def prefix(self) -> str:
        return "tt"


MEMORY = MemoryOption("memory", None, "measure the device memory of each test, and show those that take most")
OUTPUT = MemoryOption("memory-output", None, "new folder for the records of the run (default: none are kept)")
TOP = MemoryOption("memory-top", 10, "show the N tests that come nearest to the end of a memory")
BASELINE = MemoryOption("memory-baseline", None, "file of earlier figures: a test that takes more fails")
UPDATE = MemoryOption("memory-update", None, "write the figures of the tests that passed to the baseline file")
TOLERANCE = MemoryOption("memory-tolerance", "0%", "growth over the baseline that is accepted")
TIMEOUT = MemoryOption("memory-timeout", 300.0, "seconds that one test may take on a board of its mark fits")

VALUES = (OUTPUT, TOP, BASELINE, TOLERANCE, TIMEOUT)
FLAGS = (MEMORY, UPDATE)


def add_options(parser: pytest.Parser) -> None:
    """Adds the options. Their values stay text until ``settings`` parses them."""
    group = parser.getgroup("tt-memory", "device memory of TTNN tests (ssinghal)")
    for option in VALUES:
        shown = "" if option.default is None else f" (default {option.default})"
        group.addoption(option.flag, default=None, help=f"{option.help}{shown}".replace("%", "%%"))
        parser.addini(option.key, option.help, default=None)
    for option in FLAGS:
        group.addoption(option.flag, action="store_true", default=None, help=option.help)
        parser.addini(option.key, option.help, type="bool", default=None)


def early_value(config: pytest.Config, option: Option) -> Any:
    """Returns an option's value before conftest files are read: the command line's, else the ini file's."""
    value = getattr(config.known_args_namespace, option.key, None)
    return config.getini(option.key) if value is None else value
