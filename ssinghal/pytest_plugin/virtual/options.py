"""The options for suites of TTNN tests.

Every run of pytest imports this module where ssinghal is installed, so that it imports next to nothing.
"""

from __future__ import annotations

import copy

import pytest

from ssinghal.pytest_plugin.options import Option, add_option, value_of

AUTO = "auto"  # the board that ``ssinghal exec`` opens, where pytest runs in it, else the default one
VIRTUAL = Option("virtual", None, "run on this virtual board; values that tests read back are not checked", prefix="tt")
OUTCOMES = Option("outcomes", None, "class the outcome of every test, without a virtual board too", prefix="tt")
TIMEOUT = Option("timeout", None, "seconds that setup and call of a test may take together", prefix="tt")
UNSKIP_OOM = Option("oom", None, "run tests that are skipped for lack of memory, and state which fit now", prefix="unskip")
OPTIONS = (VIRTUAL, OUTCOMES, TIMEOUT, UNSKIP_OOM)


def add_options(parser: pytest.Parser) -> None:
    """Adds the options, each with its ini twin."""
    group = parser.getgroup("tt", "suites of TTNN tests (ssinghal)")
    add_option(parser, group, VIRTUAL, nargs="?", const=AUTO, metavar="BOARD")
    add_option(parser, group, TIMEOUT, metavar="SECONDS")
    for flag in (OUTCOMES, UNSKIP_OOM):
        add_option(parser, group, flag, action="store_true")


def separate_board(config: pytest.Config, parser: pytest.Parser, args: list[str]) -> None:
    """Leaves what follows a plain ``--tt-virtual`` on the command line to pytest, where it is a path of tests."""
    separated = [
        f"{word}={AUTO}" if word == VIRTUAL.flag and not _is_board(following) else word
        for word, following in zip(args, [*args[1:], ""], strict=True)
    ]
    if separated != args:
        args[:] = separated
        config.known_args_namespace = parser.parse_known_args(args, namespace=copy.copy(config.option))


def _is_board(text: str) -> bool:
    from ssinghal.core.boards import board_names

    return text.lower() in (AUTO, *board_names()) or text.endswith((".yaml", ".yml"))


def virtual_board(config: pytest.Config) -> str | None:
    """Returns the virtual board that is requested, None where none is."""
    return value_of(config, VIRTUAL) or None


def gives_classes(config: pytest.Config) -> bool:
    """Whether an option asks for the class of every outcome."""
    return any(value_of(config, option) for option in OPTIONS)


def runs_skips_for_memory(config: pytest.Config) -> bool:
    """Whether tests run that are skipped for lack of memory."""
    return bool(value_of(config, UNSKIP_OOM))


def time_limit_s(config: pytest.Config) -> float | None:
    """Returns the seconds that a test may take, None without a limit.

    Raises:
        UsageError: the value is no time.
    """
    text = value_of(config, TIMEOUT)
    if text in (None, ""):
        return None
    from ssinghal.core.parsing import seconds
    from ssinghal.errors import InvalidCase

    try:
        return seconds(text)
    except InvalidCase as error:
        raise pytest.UsageError(f"{TIMEOUT.flag}: {error}") from error
