import pytest
import torch
import ttnn
from pcc import assert_with_pcc


def rows(values, device):
    return ttnn.from_torch(values, dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT, device=device)


def tiles(values, device):
    return ttnn.from_torch(values, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)


@pytest.mark.parametrize("layout", [rows, tiles])
@pytest.mark.parametrize("order", [(0, 2, 3, 1), (0, 3, 1, 2), (0, 1, 3, 2), (3, 2, 1, 0)])
def test_permute(device, layout, order):
    values = torch.randn(1, 32, 64, 96)
    result = ttnn.to_torch(ttnn.permute(layout(values, device), order))
    assert torch.allclose(result.float(), values.permute(order), atol=0.02)


@pytest.mark.parametrize("dim", [0, 1, 2, 3])
@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("layout", [rows, tiles])
def test_concat(device, layout, count, dim):
    parts = [torch.randn(1, 2, 64, 32) for _ in range(count)]
    result = ttnn.concat([layout(part, device) for part in parts], dim=dim)
    assert_with_pcc(torch.cat(parts, dim), ttnn.to_torch(result), 0.9999)


@pytest.mark.parametrize("shape", [(1, 1, 4096, 32), (1, 4, 32, 1024), (128, 1024)])
def test_reshape(device, shape):
    values = torch.randn(1, 1, 128, 1024)
    result = ttnn.to_torch(ttnn.reshape(tiles(values, device), shape))
    assert_with_pcc(values.reshape(shape), result, 0.9999)


@pytest.mark.parametrize(("begin", "end"), [((0, 0, 0, 0), (1, 1, 32, 64)), ((0, 0, 32, 0), (1, 1, 96, 128))])
def test_slice(device, begin, end):
    values = torch.randn(1, 1, 128, 128)
    result = ttnn.to_torch(ttnn.slice(tiles(values, device), begin, end))
    golden = values[tuple(slice(a, b) for a, b in zip(begin, end, strict=True))]
    assert (result.shape, comparable(result)) == (golden.shape, comparable(golden))


def comparable(values):
    return [round(value, 1) for value in values.float().flatten()[:8].tolist()]


@pytest.mark.parametrize("layout", [ttnn.TILE_LAYOUT, ttnn.ROW_MAJOR_LAYOUT])
@pytest.mark.parametrize("width", [32, 640, 4096])
def test_to_layout(device, width, layout):
    values = torch.randn(1, 1, 64, width)
    start = tiles if layout == ttnn.ROW_MAJOR_LAYOUT else rows
    result = ttnn.to_layout(start(values, device), layout)
    assert result.layout == layout
    assert torch.equal(ttnn.to_torch(result), values.bfloat16())


@pytest.mark.parametrize("size", [(64, 128), (1000, 256)])
def test_embedding(device, size):
    table, index = torch.randn(size), torch.randint(0, size[0], (1, 64))
    on_device = ttnn.from_torch(index, dtype=ttnn.uint32, device=device)
    result = ttnn.to_torch(ttnn.embedding(on_device, rows(table, device)))
    assert_with_pcc(table[index], result)


@pytest.mark.xfail(reason="a row of 4.9 million elements is larger than L1", raises=RuntimeError)
def test_permute_of_wide_rows(device):
    wide = ttnn.empty((1, 4, 4, 1_221_120), ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT, device)
    ttnn.permute(wide, (0, 2, 1, 3))
