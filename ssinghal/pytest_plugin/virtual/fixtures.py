"""The fixtures that suites of TTNN tests expect of TT-Metal's conftest, for suites that lack them.

pytest prefers every fixture of a conftest or a test module to these. Names and parameters are TT-Metal's; each device is
opened for one test.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from ssinghal.pytest_plugin.virtual.opening import opened_device, opened_mesh

SEED = 213919  # of TT-Metal's own suite


@pytest.fixture
def device_params(request: pytest.FixtureRequest) -> Mapping[str, Any]:
    """What a device is opened with, such as ``{"l1_small_size": 24576}``; tests give it as an indirect parameter."""
    return getattr(request, "param", None) or {}


@pytest.fixture
def device(request: pytest.FixtureRequest, device_params: Mapping[str, Any]) -> Iterator[Any]:
    """The virtual board's device, open for one test; for the cases of an operator, the processes that probe them."""
    if request.node.get_closest_marker("operator") is not None:
        yield request.getfixturevalue("device")  # the one that this one hides
        return
    with opened_device(device_params) as opened:
        yield opened


@pytest.fixture
def mesh_device(request: pytest.FixtureRequest, device_params: Mapping[str, Any]) -> Iterator[Any]:
    """A mesh of a number of devices, or of (rows, columns), which tests give as an indirect parameter; else of all."""
    with opened_mesh(getattr(request, "param", None), device_params) as opened:
        yield opened


@pytest.fixture
def n300_mesh_device(request: pytest.FixtureRequest, device_params: Mapping[str, Any]) -> Iterator[Any]:
    """A mesh of the two devices of an N300."""
    with opened_mesh((1, 2), device_params) as opened:
        yield opened


@pytest.fixture
def t3k_mesh_device(request: pytest.FixtureRequest, device_params: Mapping[str, Any]) -> Iterator[Any]:
    """A mesh of the eight devices of a T3000."""
    with opened_mesh((2, 4), device_params) as opened:
        yield opened


@pytest.fixture
def reset_seeds() -> None:
    """Starts the random numbers of Python, NumPy and torch at a fixed seed."""
    random.seed(SEED)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(SEED)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(SEED)


@pytest.fixture
def function_level_defaults(reset_seeds: None) -> None:
    """The random seeds."""


@pytest.fixture
def use_program_cache() -> None:
    """Nothing: the program cache is always on."""


@pytest.fixture
def silicon_arch_name(pytestconfig: pytest.Config) -> str:
    """``wormhole_b0`` or ``blackhole``."""
    from ssinghal.core.boards import load_board
    from ssinghal.pytest_plugin.virtual.environment import BOARD

    return load_board(pytestconfig.stash[BOARD]).arch


@pytest.fixture
def silicon_arch_wormhole_b0(silicon_arch_name: str) -> None:
    """Skips a test on other boards than Wormhole's."""
    if silicon_arch_name != "wormhole_b0":
        pytest.skip(f"needs wormhole_b0, the board is {silicon_arch_name}")


@pytest.fixture
def silicon_arch_blackhole(silicon_arch_name: str) -> None:
    """Skips a test on other boards than Blackhole's."""
    if silicon_arch_name != "blackhole":
        pytest.skip(f"needs blackhole, the board is {silicon_arch_name}")


@pytest.fixture
def is_ci_env() -> bool:
    """False: what a suite leaves out on the machines of TT-Metal's own checks is run."""
    return False
