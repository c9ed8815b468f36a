"""Budgets and expected failures. 33,280 tiles of 2,048 B are 520 in each of 64 banks: 1,064,960 B."""

import pytest
import ttnn

L1, DRAM = ttnn.L1_MEMORY_CONFIG, ttnn.DRAM_MEMORY_CONFIG


def empty(device, tiles, memory=L1):
    return ttnn.empty([32 * tiles, 32], ttnn.bfloat16, ttnn.TILE_LAYOUT, device, memory)


@pytest.mark.limit_device_memory(l1_per_core=1_064_960)
def test_exactly(device):
    empty(device, 33_280)


@pytest.mark.limit_device_memory(l1_per_core="1 MiB", dram_per_bank="1 GiB")
def test_over(device):
    a = empty(device, 640)
    b = empty(device, 32_640)
    assert a is not b


@pytest.mark.limit_device_memory(dram_per_bank="8 KiB")
def test_over_in_dram(device):
    """120 tiles in 12 banks: 10 of 2,048 B in each."""
    empty(device, 120, DRAM)


@pytest.mark.limit_device_memory(l1_per_core="1 KiB")
def test_fails_by_itself(device):
    a = empty(device, 64)
    assert a is None, "its own reason"


@pytest.mark.limit_device_memory(l1_per_core="1 KiB")
class TestClass:
    def test_of_its_class(self, device):
        empty(device, 64)

    @pytest.mark.limit_device_memory(l1_per_core="2 KiB")
    def test_of_its_own(self, device):
        empty(device, 64)


@pytest.mark.expect_oom(resource="l1_buffer", reason="twice L1")
def test_expected(device):
    empty(device, 87_000)


@pytest.mark.expect_oom(resource=["clash", "dram_buffer"])
def test_another_resource(device):
    empty(device, 87_000)


@pytest.mark.expect_oom(resource="l1_buffer", reason="twice L1")
def test_fits_now(device):
    empty(device, 64)


@pytest.mark.expect_oom(resource="l1_buffer")
def test_another_error(device):
    raise ValueError("no memory")


@pytest.mark.limit_device_memory(l1="1 KiB")
def test_unknown_keyword():
    pass


@pytest.mark.limit_device_memory(l1_per_core="1 KB")
def test_unknown_unit():
    pass


@pytest.mark.limit_device_leaks(-1)
def test_negative():
    pass


@pytest.mark.expect_oom(resource="l1_bufer")
def test_unknown_resource():
    pass


@pytest.mark.fits(board=["n150", "n15"])
def test_unknown_board():
    pass
