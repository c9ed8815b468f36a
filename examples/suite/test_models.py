import pytest
import torch
import ttnn
from pcc import assert_with_pcc

pytestmark = pytest.mark.models


class Mlp:
    def __init__(self, device, width, hidden):
        self.up, self.down = torch.randn(width, hidden) * 0.02, torch.randn(hidden, width) * 0.02
        self.weights = [
            ttnn.from_torch(w, dtype=ttnn.bfloat8_b, layout=ttnn.TILE_LAYOUT, device=device) for w in (self.up, self.down)
        ]

    def golden(self, x):
        return torch.nn.functional.gelu(x @ self.up) @ self.down + x

    def __call__(self, x):
        hidden = ttnn.linear(x, self.weights[0], activation="gelu", memory_config=ttnn.L1_MEMORY_CONFIG)
        result = ttnn.linear(hidden, self.weights[1], memory_config=ttnn.L1_MEMORY_CONFIG)
        ttnn.deallocate(hidden)
        return ttnn.add(result, x)


class Attention:
    def __init__(self, device, width, heads):
        self.width, self.heads = width, heads
        self.qkv, self.out = torch.randn(width, 3 * width) * 0.05, torch.randn(width, width) * 0.05
        self.weights = [
            ttnn.from_torch(w, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device) for w in (self.qkv, self.out)
        ]

    def golden(self, x):
        q, k, v = (x @ self.qkv).reshape(x.shape[0], -1, 3, self.heads, self.width // self.heads).permute(2, 0, 3, 1, 4)
        values = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        return values.permute(0, 2, 1, 3).reshape(x.shape) @ self.out

    def __call__(self, x):
        fused = ttnn.linear(x, self.weights[0])
        q, k, v = ttnn.transformer.split_query_key_value_and_split_heads(fused, num_heads=self.heads, transpose_key=False)
        values = ttnn.transformer.scaled_dot_product_attention(q, k, v, is_causal=False)
        return ttnn.linear(ttnn.transformer.concatenate_heads(values), self.weights[1])


@pytest.mark.parametrize("tokens", [32, 128, 512])
@pytest.mark.parametrize(("width", "hidden"), [(256, 1024), (768, 3072)])
def test_mlp(device, tokens, width, hidden):
    model, x = Mlp(device, width, hidden), torch.randn(1, 1, tokens, width)
    result = model(ttnn.from_torch(x, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device))
    assert_with_pcc(model.golden(x), ttnn.to_torch(result), 0.98)


@pytest.mark.parametrize("batch", [1, 8])
@pytest.mark.parametrize(("tokens", "width", "heads"), [(64, 256, 4), (384, 768, 12)])
def test_attention(device, batch, tokens, width, heads):
    model, x = Attention(device, width, heads), torch.randn(batch, tokens, width)
    result = model(ttnn.from_torch(x, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device))
    assert_with_pcc(model.golden(x), ttnn.to_torch(result), 0.98)


@pytest.mark.parametrize("layers", [1, 4])
def test_encoder(device, layers):
    torch_x = torch.randn(1, 128, 256)
    x = ttnn.from_torch(torch_x, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    for _ in range(layers):
        attention, mlp = Attention(device, 256, 4), Mlp(device, 256, 1024)
        torch_x = mlp.golden(torch.nn.functional.layer_norm(torch_x + attention.golden(torch_x), (256,)))
        x = mlp(ttnn.layer_norm(ttnn.add(x, attention(x))))
        assert_with_pcc(torch_x, ttnn.to_torch(x), 0.95)


@pytest.mark.nightly
def test_generation_step_by_step(device):
    width = 256
    model, x = Mlp(device, width, 1024), torch.randn(1, 1, 32, width)
    state = ttnn.from_torch(x, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    for _ in range(8):
        state, x = model(state), model.golden(x)
        if not torch.isfinite(ttnn.to_torch(state)).all():
            pytest.fail("a value is not finite")
    assert_with_pcc(x, ttnn.to_torch(state), 0.9)


@pytest.mark.parametrize("batch", [8, 64, 512])
def test_mlp_of_large_batches(device, batch):
    model = Mlp(device, 768, 3072)
    x = ttnn.empty((1, 1, 128 * batch, 768), ttnn.bfloat16, ttnn.TILE_LAYOUT, device)
    try:
        result = model(x)
    except RuntimeError as error:
        if "Out of Memory" not in str(error):
            raise
        pytest.skip(f"OOM with batch {batch}")
    assert result.shape == (1, 1, 128 * batch, 768)
