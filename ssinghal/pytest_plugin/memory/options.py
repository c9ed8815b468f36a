"""The options ``--tt-memory…`` and their ini twins. As of the other options, every run of pytest imports this module."""

from __future__ import annotations

import pytest

from ssinghal.pytest_plugin.options import Option, add_option

SHARED = "SSINGHAL_TT_MEMORY"  # variable: folder of the run, for xdist's processes

MEMORY = Option("memory", None, "measure the device memory of each test, and show those that take most", prefix="tt")
OUTPUT = Option("memory-output", None, "new folder for the records of the run (default: none are kept)", prefix="tt")
TOP = Option("memory-top", 10, "show the N tests that take most of a memory", prefix="tt")
BASELINE = Option("memory-baseline", None, "file of earlier figures: a test that takes more fails", prefix="tt")
UPDATE = Option("memory-update", None, "write the figures of the tests that passed to the baseline file", prefix="tt")
TOLERANCE = Option("memory-tolerance", "0%", "growth over the baseline that is accepted", prefix="tt")
TIMEOUT = Option("memory-timeout", 300.0, "seconds that one test may take on a board of its mark fits", prefix="tt")

VALUES = (OUTPUT, TOP, BASELINE, TOLERANCE, TIMEOUT)
FLAGS = (MEMORY, UPDATE)
OPTIONS = (*VALUES, *FLAGS)


def add_options(parser: pytest.Parser) -> None:
    """Adds the options. Their values stay text until ``settings`` parses them."""
    group = parser.getgroup("tt-memory", "device memory of TTNN tests (ssinghal)")
    for option in VALUES:
        add_option(parser, group, option)
    for option in FLAGS:
        add_option(parser, group, option, action="store_true")
