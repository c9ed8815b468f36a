import pytest
import torch
import ttnn
from pcc import assert_with_pcc

STRATEGIES = {
    "height": (ttnn.ShardStrategy.HEIGHT, (1, 1, 2048, 64)),
    "width": (ttnn.ShardStrategy.WIDTH, (1, 1, 64, 2048)),
    "block": (ttnn.ShardStrategy.BLOCK, (1, 1, 512, 512)),
}


@pytest.fixture(params=STRATEGIES)
def placed(request, device):
    strategy, shape = STRATEGIES[request.param]
    values = torch.randn(shape)
    config = ttnn.create_sharded_memory_config(shape, core_grid=ttnn.CoreGrid(x=8, y=8), strategy=strategy)
    tensor = ttnn.from_torch(values, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device, memory_config=config)
    return values, tensor


@pytest.mark.parametrize("name", ["relu", "gelu", "exp"])
def test_unary_keeps_the_shards(placed, name):
    values, tensor = placed
    result = getattr(ttnn, name)(tensor, memory_config=tensor.memory_config())
    assert result.memory_config() == tensor.memory_config()
    golden = {"relu": torch.relu, "gelu": torch.nn.functional.gelu, "exp": torch.exp}[name](values)
    assert_with_pcc(golden, ttnn.to_torch(result))


def test_to_interleaved_and_back(placed):
    values, tensor = placed
    interleaved = ttnn.to_memory_config(tensor, ttnn.DRAM_MEMORY_CONFIG)
    again = ttnn.to_memory_config(interleaved, tensor.memory_config())
    assert torch.allclose(ttnn.to_torch(again).float(), values, atol=0.02)


def test_add_in_place_of_one_operand(placed):
    values, tensor = placed
    result = ttnn.add_(tensor, tensor)
    assert_with_pcc(values * 2, ttnn.to_torch(result))


@pytest.mark.parametrize("times", [2, 4, pytest.param(12, marks=pytest.mark.skip(reason="12 copies exceed L1"))])
def test_several_sharded_tensors(device, times):
    shape = (1, 1, 4096, 2048)
    config = ttnn.create_sharded_memory_config(shape, core_grid=ttnn.CoreGrid(x=8, y=8), strategy=ttnn.ShardStrategy.BLOCK)
    kept = [ttnn.empty(shape, ttnn.bfloat16, ttnn.TILE_LAYOUT, device, config) for _ in range(times)]
    assert all(tensor.is_allocated() for tensor in kept)
