"""Follows the read-backs of each test on a virtual board."""

from __future__ import annotations

import sys
from collections.abc import Generator
from importlib.util import find_spec

import pytest

from ssinghal.device.session import import_ttnn
from ssinghal.errors import DeviceUnavailable
from ssinghal.pytest_plugin.virtual.comparisons import neutralise
from ssinghal.pytest_plugin.virtual.read_backs import ReadBacks
from ssinghal.pytest_plugin.virtual.traces import leave_out_traces

READ_BACKS = pytest.StashKey[ReadBacks]()


class ValuesFollower:
    """Registered where tests run on a virtual board. It imports ttnn before tests do, so that nothing is read back unseen.

    Raises:
        UsageError: ttnn cannot be imported.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._read_backs = config.stash[READ_BACKS] = ReadBacks()
        config.add_cleanup(self._read_backs.restore)
        try:
            ttnn = import_ttnn(with_torch=find_spec("torch") is not None)
        except DeviceUnavailable as error:
            raise pytest.UsageError(str(error)) from error
        self._read_backs.follow(ttnn)
        leave_out_traces(ttnn, self._read_backs)

    def pytest_collection_finish(self) -> None:
        neutralise(self._read_backs)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        self._read_backs.start_test()
        if sys.modules.get("torch") is None:
            return (yield)
        with self._read_backs.mode():
            return (yield)
