"""The entry of ``--tt-memory`` and its marks: imports next to nothing until one of them is used."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from ssinghal.errors import HarnessError
from ssinghal.pytest_plugin.memory.options import BASELINE, MEMORY, OUTPUT, SHARED, UPDATE, add_options
from ssinghal.pytest_plugin.options import value_of
from ssinghal.pytest_plugin.state import in_xdist

if TYPE_CHECKING:
    from ssinghal.tracker.inject.sitecustomize import TtnnFinder

MARKS = {
    "limit_device_memory": "(l1_per_core=, dram_per_bank=, program_buffers=, l1_small=): fail if the test takes more of a "
    "device's memory, in bytes or as '900 KiB'",
    "limit_device_leaks": "(limit): fail if the test leaves more bytes per bank or core allocated on the device",
    "expect_oom": "(resource=, reason=): the test must run out of this resource, such as 'l1_buffer'",
    "fits": "(board=[...]): run the test on each of these virtual boards; it must pass on all",
}


class Following(NamedTuple):
    """``owned``: by this process, which made the folder. ``kept``: after the run."""

    finder: TtnnFinder
    folder: Path
    owned: bool
    kept: bool


FOLLOWING = pytest.StashKey[Following]()


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Begins before a conftest imports ttnn, or opens a device."""
    if value_of(early_config, MEMORY):
        _follow(early_config, value_of(early_config, OUTPUT))


def pytest_configure(config: pytest.Config) -> None:
    for name, text in MARKS.items():
        config.addinivalue_line("markers", f"{name}{text}")
    if any(value_of(config, option) for option in (MEMORY, OUTPUT, BASELINE, UPDATE)):
        _start(config)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Marks have their effect without ``--tt-memory`` too."""
    config = session.config
    if FOLLOWING not in config.stash and any(item.get_closest_marker(name) for item in session.items for name in MARKS):
        _start(config)


def pytest_unconfigure(config: pytest.Config) -> None:
    following = config.stash.get(FOLLOWING, None)
    if following is None:
        return
    from ssinghal.pytest_plugin.memory.recording import leave

    leave(following.finder)
    if following.owned:
        os.environ.pop(SHARED, None)
        if not following.kept:
            shutil.rmtree(following.folder, ignore_errors=True)


def _follow(config: pytest.Config, output: str | None) -> Following:
    """Returns where records go, and has ttnn followed. xdist's processes take the folder of the one that started them."""
    if FOLLOWING in config.stash:
        return config.stash[FOLLOWING]
    from ssinghal.pytest_plugin.memory.recording import follow

    shared = os.environ.get(SHARED) if "PYTEST_XDIST_WORKER" in os.environ else None
    kept = bool(output)
    if shared is not None:
        folder = Path(shared)
    elif output:
        folder = Path(config.invocation_params.dir, output)
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise pytest.UsageError(f"--tt-memory-output: {folder} is not empty; expected a new folder")
        folder.mkdir(parents=True, exist_ok=True)
    else:
        folder = Path(tempfile.mkdtemp(prefix="ssinghal-memory-"))
    finder = follow(folder)
    owned = shared is None and Path(finder.folder) == folder
    if owned:
        os.environ[SHARED] = str(folder)
    following = config.stash[FOLLOWING] = Following(finder, folder, owned, kept)
    return following


def _start(config: pytest.Config) -> None:
    """Registers the parts of the plugin: one that runs tests, and one that reports them where ``--tt-memory`` is given."""
    from ssinghal.pytest_plugin.memory.baseline import Baseline
    from ssinghal.pytest_plugin.memory.collecting import Collector
    from ssinghal.pytest_plugin.memory.recording import why_not
    from ssinghal.pytest_plugin.memory.running import Runner
    from ssinghal.pytest_plugin.memory.settings import MemorySettings

    try:
        settings = MemorySettings(config)
        if settings.enabled and why_not():
            raise HarnessError(f"{MEMORY.flag}: {why_not()}")
        baseline = None
        if settings.baseline is not None:
            baseline = Baseline(settings.baseline, settings.tolerance, create=settings.update)
            baseline.check_environment()
    except HarnessError as error:
        raise pytest.UsageError(str(error)) from error
    following = _follow(config, value_of(config, OUTPUT))
    judged = None if settings.update else baseline
    config.pluginmanager.register(Runner(config, following.finder, judged, settings.timeout_s), "ssinghal-memory-runner")
    if settings.enabled and not in_xdist(config):
        collector = Collector(settings, Path(following.finder.folder), baseline, keeps=following.kept)
        config.pluginmanager.register(collector, "ssinghal-memory-collector")
