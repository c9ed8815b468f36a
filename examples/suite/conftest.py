"""Fixtures of the suite: one device per module, and one of its own for tests that need another L1_SMALL region."""

import pytest
import torch
import ttnn


def pytest_addoption(parser):
    parser.addoption("--device-id", type=int, default=0, help="the device to run on")


@pytest.fixture(scope="module")
def device(request):
    opened = ttnn.open_device(device_id=request.config.getoption("--device-id"), l1_small_size=24576)
    yield opened
    ttnn.close_device(opened)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)
