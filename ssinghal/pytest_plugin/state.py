"""Keeps the plugin's state of one pytest process in its config. There is none until the plugin is used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ssinghal.pytest_plugin.session import Harness

HARNESS = pytest.StashKey["Harness"]()
FAULTS = pytest.StashKey[list[str]]()  # of test modules, reported together when all are collected
RECORD = pytest.StashKey[dict[str, Any]]()  # of a test


def active(config: pytest.Config) -> Harness | None:
    """Returns the plugin's state, None as long as nothing has used the plugin."""
    return config.stash.get(HARNESS, None)


def activate(config: pytest.Config) -> Harness:
    """Returns the plugin's state; the first call reads the catalogs and chooses the device.

    Raises:
        HarnessError: An option cannot be used; one line, or one per fault of a catalog.
    """
    if HARNESS not in config.stash:
        from ssinghal.pytest_plugin.session import Harness
        from ssinghal.pytest_plugin.settings import PluginSettings

        harness = Harness(PluginSettings(config))
        if not in_xdist(config):  # there the controller has done so
            harness.index_earlier_runs()
        config.stash[HARNESS] = harness
    return config.stash[HARNESS]


def in_xdist(config: pytest.Config) -> bool:
    """True in the processes that xdist distributes tests to. Of these only reports reach the user, not a UsageError."""
    return hasattr(config, "workerinput")
