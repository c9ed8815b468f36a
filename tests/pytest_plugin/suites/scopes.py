"""Devices of other scopes than a module."""

import pytest
import ttnn


def empty(device, *shape):
    return ttnn.empty(list(shape), ttnn.bfloat16, ttnn.TILE_LAYOUT, device, ttnn.L1_MEMORY_CONFIG)


@pytest.fixture
def own_device():
    opened = ttnn.open_device(device_id=0)
    yield opened
    ttnn.close_device(opened)


@pytest.fixture(scope="class")
def class_device():
    opened = ttnn.open_device(device_id=0)
    yield opened
    ttnn.close_device(opened)


@pytest.mark.limit_device_leaks(0)
@pytest.mark.parametrize("rows", [64, 128])
def test_function_scoped(own_device, rows):
    empty(own_device, rows, 1024)


def test_fails_on_its_own_device(own_device):
    a = empty(own_device, 64, 64)
    assert a is None


class TestClass:
    def test_first(self, class_device):
        self.kept = empty(class_device, 64, 64)

    @pytest.mark.limit_device_leaks(0)
    def test_second(self, class_device):
        empty(class_device, 64, 1024)


def test_opens_a_device_itself():
    device = ttnn.open_device(device_id=0)
    a = empty(device, 64, 64)
    ttnn.close_device(device)
    assert a is not None
