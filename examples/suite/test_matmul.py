import pytest
import torch
import ttnn
from pcc import assert_with_pcc

SIZES = [(32, 32, 32), (128, 256, 64), (512, 768, 384), (1024, 512, 1024)]


def on_device(values, device, memory=ttnn.DRAM_MEMORY_CONFIG, dtype=ttnn.bfloat16):
    return ttnn.from_torch(values, dtype=dtype, layout=ttnn.TILE_LAYOUT, device=device, memory_config=memory)


@pytest.mark.parametrize("memory", [ttnn.DRAM_MEMORY_CONFIG, ttnn.L1_MEMORY_CONFIG], ids=["dram", "l1"])
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize(("m", "k", "n"), SIZES)
def test_matmul(device, batch, m, k, n, memory):
    a, b = torch.randn(batch, 1, m, k), torch.randn(1, 1, k, n)
    result = ttnn.matmul(on_device(a, device, memory), on_device(b, device), memory_config=memory)
    assert_with_pcc(a @ b, ttnn.to_torch(result))


@pytest.mark.parametrize("activation", [None, "relu", "gelu"])
@pytest.mark.parametrize(("m", "k", "n"), SIZES)
def test_linear(device, m, k, n, activation):
    x, w, bias = torch.randn(1, 1, m, k), torch.randn(k, n), torch.randn(1, n)
    result = ttnn.linear(
        on_device(x, device), on_device(w, device, dtype=ttnn.bfloat8_b), bias=on_device(bias, device), activation=activation
    )
    golden = x @ w + bias
    if activation is not None:
        golden = getattr(torch.nn.functional, activation)(golden)
    assert_with_pcc(golden, ttnn.to_torch(result), 0.98)


@pytest.mark.parametrize("rows", [256, 512, 1024])
def test_block_sharded(device, rows):
    a, b = torch.randn(1, 1, rows, 512), torch.randn(1, 1, 512, 512)
    config = ttnn.create_sharded_memory_config(
        (1, 1, rows, 512), core_grid=ttnn.CoreGrid(x=8, y=8), strategy=ttnn.ShardStrategy.BLOCK
    )
    sharded = ttnn.to_memory_config(on_device(a, device), config)
    result = ttnn.matmul(sharded, on_device(b, device), memory_config=ttnn.L1_BLOCK_SHARDED_MEMORY_CONFIG)
    assert ttnn.is_sharded(result)
    assert_with_pcc(a @ b, ttnn.to_torch(result))


@pytest.mark.xfail(reason="the weights of a vocabulary do not fit in L1", raises=RuntimeError)
@pytest.mark.parametrize("vocabulary", [32000, 128256])
def test_head_with_weights_in_l1(device, vocabulary):
    x = on_device(torch.randn(1, 1, 32, 4096), device)
    weights = ttnn.empty((1, 1, 4096, vocabulary), ttnn.bfloat16, ttnn.TILE_LAYOUT, device, ttnn.L1_MEMORY_CONFIG)
    ttnn.matmul(x, weights)


@pytest.mark.skipif(ttnn.get_arch_name() != "blackhole", reason="circular buffers clash with L1 buffers on Wormhole")
def test_matmul_beside_a_resident_tensor(device):
    resident = ttnn.empty((1, 1, 40960, 960), ttnn.bfloat16, ttnn.TILE_LAYOUT, device, ttnn.L1_MEMORY_CONFIG)
    a, b = on_device(torch.randn(1, 1, 2048, 2048), device), on_device(torch.randn(1, 1, 2048, 2048), device)
    ttnn.matmul(a, b, core_grid=ttnn.CoreGrid(x=8, y=8))
    assert resident.is_allocated()
