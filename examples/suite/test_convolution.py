import pytest
import torch
import ttnn
from pcc import assert_with_pcc


def convolve(device, x, weight, bias, stride=1, **options):
    batch, channels, height, width = x.shape
    flat = x.permute(0, 2, 3, 1).reshape(1, 1, batch * height * width, channels)
    return ttnn.conv2d(
        input_tensor=ttnn.from_torch(flat, dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT, device=device),
        weight_tensor=ttnn.from_torch(weight, dtype=ttnn.bfloat16),
        bias_tensor=ttnn.from_torch(bias.reshape(1, 1, 1, -1), dtype=ttnn.bfloat16),
        device=device,
        in_channels=channels,
        out_channels=weight.shape[0],
        batch_size=batch,
        input_height=height,
        input_width=width,
        kernel_size=tuple(weight.shape[2:]),
        stride=(stride, stride),
        padding=(weight.shape[2] // 2, weight.shape[3] // 2),
        **options,
    )


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize(("channels", "size"), [(32, 32), (64, 56), (128, 28)])
def test_conv2d(device, channels, size, kernel, stride):
    x, weight = torch.randn(1, channels, size, size), torch.randn(64, channels, kernel, kernel)
    bias = torch.randn(64)
    golden = torch.nn.functional.conv2d(x, weight, bias, stride=stride, padding=kernel // 2)
    result = ttnn.to_torch(convolve(device, x, weight, bias, stride)).reshape(1, *golden.shape[2:], 64).permute(0, 3, 1, 2)
    assert_with_pcc(golden, result, 0.97)


@pytest.mark.parametrize("size", [32, 112])
def test_max_pool(device, size):
    x = torch.randn(1, 64, size, size)
    flat = x.permute(0, 2, 3, 1).reshape(1, 1, size * size, 64)
    result = ttnn.max_pool2d(
        input_tensor=ttnn.from_torch(flat, dtype=ttnn.bfloat16, device=device),
        batch_size=1,
        input_h=size,
        input_w=size,
        channels=64,
        kernel_size=[3, 3],
        stride=[2, 2],
        padding=[1, 1],
        dilation=[1, 1],
    )
    golden = torch.nn.functional.max_pool2d(x, 3, 2, 1)
    assert_with_pcc(golden, ttnn.to_torch(result).reshape(1, *golden.shape[2:], 64).permute(0, 3, 1, 2))


@pytest.mark.xfail(reason="a map of 1,024 x 1,024 in one piece does not fit in L1", raises=RuntimeError)
def test_conv2d_of_a_large_map_in_l1(device):
    x, weight = torch.zeros(1, 64, 1024, 1024), torch.zeros(64, 64, 3, 3)
    convolve(device, x, weight, torch.zeros(64), slice_config=ttnn.Conv2dL1FullSliceConfig)
