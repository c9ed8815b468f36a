"""The conftest of a suite as users write it: a device of their own, opened once per module."""

import pytest
import ttnn


@pytest.fixture(scope="module")
def device():
    opened = ttnn.open_device(device_id=0, l1_small_size=16384)
    yield opened
    ttnn.close_device(opened)
