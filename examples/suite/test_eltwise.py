import pytest
import torch
import ttnn
from pcc import assert_with_pcc

SHAPES = [(1, 1, 32, 32), (1, 3, 320, 384), (2, 1, 1024, 96)]
UNARY = {
    "relu": torch.relu,
    "gelu": torch.nn.functional.gelu,
    "silu": torch.nn.functional.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "exp": torch.exp,
    "sqrt": torch.sqrt,
    "neg": torch.neg,
    "abs": torch.abs,
    "square": torch.square,
}
BINARY = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "maximum": torch.maximum}


@pytest.mark.parametrize("dtype", [ttnn.bfloat16, ttnn.bfloat8_b], ids=["bf16", "bf8"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", UNARY)
def test_unary(device, name, shape, dtype):
    values = torch.rand(shape)
    tensor = ttnn.from_torch(values, dtype=dtype, layout=ttnn.TILE_LAYOUT, device=device)
    result = getattr(ttnn, name)(tensor, memory_config=ttnn.L1_MEMORY_CONFIG)
    assert_with_pcc(UNARY[name](values), ttnn.to_torch(result), 0.99)


@pytest.mark.parametrize("memory", [ttnn.DRAM_MEMORY_CONFIG, ttnn.L1_MEMORY_CONFIG], ids=["dram", "l1"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", BINARY)
def test_binary(device, name, shape, memory):
    a, b = torch.randn(shape), torch.randn(shape)
    on_device = [
        ttnn.from_torch(x, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device, memory_config=memory) for x in (a, b)
    ]
    result = ttnn.to_torch(getattr(ttnn, name)(*on_device))
    assert result.shape == a.shape
    assert_with_pcc(BINARY[name](a, b), result)


@pytest.mark.parametrize("scalar", [0.5, 3.0])
def test_scalar_and_in_place(device, scalar):
    values = torch.randn(1, 1, 64, 64)
    tensor = ttnn.from_torch(values, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    tensor = ttnn.multiply_(tensor, scalar)
    torch.testing.assert_close(ttnn.to_torch(tensor).float(), values * scalar, rtol=0.02, atol=0.02)


@pytest.mark.skip(reason="OOM on N150: two operands and the result do not fit in L1")
@pytest.mark.parametrize("rows", [4096, 16384])
def test_add_of_large_maps_in_l1(device, rows):
    a, b = (ttnn.empty((1, 1, rows, 1024), ttnn.bfloat16, ttnn.TILE_LAYOUT, device, ttnn.L1_MEMORY_CONFIG) for _ in range(2))
    assert ttnn.add(a, b, memory_config=ttnn.L1_MEMORY_CONFIG).shape == (1, 1, rows, 1024)
