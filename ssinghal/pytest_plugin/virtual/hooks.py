"""The hooks that the options for suites of TTNN tests need; what does the work is imported when an option is given.

Every run of pytest imports this module where ssinghal is installed, so that it imports next to nothing.
"""

from __future__ import annotations

import pytest

from ssinghal.pytest_plugin.state import in_xdist
from ssinghal.pytest_plugin.virtual.options import (
    add_options,
    gives_classes,
    runs_skips_for_memory,
    separate_board,
    time_limit_s,
    virtual_board,
)


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config, parser: pytest.Parser, args: list[str]) -> None:
    """Prepares the process before conftests are imported, and ttnn with them."""
    separate_board(early_config, parser, args)
    _prepare(early_config)


def _prepare(config: pytest.Config) -> None:
    board = virtual_board(config)
    if board is not None:
        from ssinghal.pytest_plugin.virtual.environment import prepare

        prepare(config, board)


def pytest_configure(config: pytest.Config) -> None:
    """Registers what the options ask for. The environment is prepared here where a conftest names the plugin."""
    _prepare(config)
    if virtual_board(config) is not None:
        from ssinghal.pytest_plugin.virtual import fixtures

        config.addinivalue_line("markers", "use_module_device: of TT-Metal's own suite; each test has a device of its own here")
        config.pluginmanager.register(fixtures, "ssinghal-fixtures")
    if gives_classes(config):
        from ssinghal.pytest_plugin.virtual.reporting import OutcomeReporter

        config.pluginmanager.register(OutcomeReporter(config, time_limit_s(config)), "ssinghal-outcomes")
        if not in_xdist(config) and getattr(config.option, "dist", "no") == "no" and not config.option.collectonly:
            from ssinghal.pytest_plugin.virtual.last_test import LastTest

            config.pluginmanager.register(LastTest(config), "ssinghal-last-test")
    if runs_skips_for_memory(config):
        from ssinghal.pytest_plugin.virtual.unskip import Unskipper

        config.pluginmanager.register(Unskipper(config), "ssinghal-unskip")


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Registers what follows tests, in processes that run them: not in the one of xdist that distributes them."""
    config = session.config
    if config.pluginmanager.hasplugin("dsession"):
        return
    if virtual_board(config) is not None:
        from ssinghal.pytest_plugin.virtual.values import ValuesFollower

        config.pluginmanager.register(ValuesFollower(config), "ssinghal-values")
    limit_s = time_limit_s(config)
    if limit_s is not None:
        from ssinghal.pytest_plugin.virtual.time_limit import TimeLimit

        config.pluginmanager.register(TimeLimit(config, limit_s), "ssinghal-time-limit")


def pytest_report_header(config: pytest.Config) -> list[str]:
    if virtual_board(config) is None:
        return []
    from ssinghal.pytest_plugin.virtual.environment import BOARD

    return [f"ssinghal: virtual {config.stash[BOARD]}: values are not checked"]
