"""Tests as users write them, with every outcome that tests have. A tile of bfloat16 has 2,048 B, L1 of an N150 64 banks."""

import pytest
import torch
import ttnn

KEPT = []
L1 = ttnn.L1_MEMORY_CONFIG


def pcc(a, b):
    a, b = a.flatten().double(), b.flatten().double()
    return 1.0 if torch.equal(a, b) else torch.corrcoef(torch.stack([a, b]))[0, 1].item()


def empty(device, *shape, memory=L1):
    return ttnn.empty(list(shape), ttnn.bfloat16, ttnn.TILE_LAYOUT, device, memory)


@pytest.fixture(scope="module")
def weights(device):
    """1,024 tiles, 16 in each bank of L1."""
    return ttnn.from_torch(
        torch.zeros(1024, 1024), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device, memory_config=L1
    )


@pytest.fixture
def bias(device):
    """32 tiles."""
    return empty(device, 1, 1024)


@pytest.mark.parametrize("rows", [64, 1024, 4096])
def test_add(device, rows):
    a = empty(device, rows, 1024)
    b = ttnn.add(a, a)
    assert b.shape[-2] == rows


def test_pcc(device):
    a = torch.zeros(64, 64, dtype=torch.bfloat16)
    b = ttnn.to_torch(ttnn.from_torch(a, layout=ttnn.TILE_LAYOUT, device=device))
    assert pcc(a, b) > 0.99


@pytest.mark.limit_device_leaks(0)
def test_weights(device, weights, bias):
    """Its fixtures allocate; the test leaves nothing."""
    assert ttnn.add(weights, bias).is_allocated()


@pytest.mark.limit_device_leaks(0)
def test_after_weights(device):
    """The weights of another test are on the device meanwhile."""
    empty(device, 64, 64)


@pytest.mark.skip(reason="OOM")
def test_skipped(device):
    raise AssertionError


def test_skips_itself(device):
    empty(device, 64, 64)
    pytest.skip("not here")


def test_fails(device):
    a = empty(device, 2048, 1024)
    assert a is None


@pytest.mark.xfail(reason="wrong", strict=True)
def test_xfail(device):
    a = empty(device, 2048, 1024)
    assert a is None


@pytest.mark.limit_device_leaks(0)
def test_after_failures(device):
    empty(device, 64, 64)


@pytest.mark.limit_device_leaks(0)
def test_handles_an_error(device):
    """The exception and the frame refer to each other."""
    a = empty(device, 64, 64)
    with pytest.raises(ValueError, match="no") as error:
        raise ValueError("no", a)
    assert error


@pytest.mark.limit_device_leaks("2 KiB")
def test_leaves_two_kib(device):
    KEPT.append(empty(device, 64, 64))


def test_leaves(device):
    KEPT.append(empty(device, 64, 64))


def test_pool(device):
    """Its program keeps a table in L1_SMALL."""
    x = ttnn.from_torch(torch.zeros(1, 1, 4096, 32), dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT, device=device)
    ttnn.max_pool2d(x, 1, 64, 64, 32, [2, 2], [2, 2], [0, 0], [1, 1])


def test_without_a_device():
    assert torch.zeros(1).sum() == 0
