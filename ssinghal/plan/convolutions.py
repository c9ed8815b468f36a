"""Makes the arguments of convolutions over rows and maps, by TTNN's names, for the call and for the preparation of its weights.

TTNN runs a convolution over rows, [N, C, L], as one over maps of height 1, and prepares its weights as for such maps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ssinghal.core.tensors import TILE_EDGE, Layout, Shape
from ssinghal.operators import named
from ssinghal.plan.lowering import PlannedCall

ROW, MAP, VOLUME = 3, 4, 5  # ranks
CONVOLUTIONS = frozenset(named("convolution conv_transpose2d"))
TRANSPOSED = "conv_transpose2d"


@dataclass(frozen=True)
class MapConvolution:
    """A convolution over rows or maps.

    ``function``: of TTNN. ``call``: its arguments without tensors. ``preparation``: those as a convolution over maps, which
    TTNN's functions take that prepare weight and bias. ``weight``: as those take it, [out, in, h, w]; of a transposed one
    [in, out, h, w]. ``out_channels``: of the bias.
    """

    function: str
    call: Mapping[str, Any]
    preparation: Mapping[str, Any]
    weight: Shape
    out_channels: int

    @property
    def is_transposed(self) -> bool:
        return self.function == TRANSPOSED

    @property
    def rows(self) -> int:
        """The height of the map as [1, 1, N*H*W, C], in which the call takes it."""
        sizes = (self.preparation[name] for name in ("batch_size", "input_height", "input_width"))
        batch, height, width = sizes
        return int(batch * height * width)

    @property
    def layout(self) -> Layout:
        """The layout in which the call takes its map; the prepared weight depends on it, so it is decided before.

        Tiles, as most calls leave it; but rows where the channels do not fill complete tiles, as in a first layer: for tiles
        TTNN would prepare the weight for more channels than its convolution counts.
        """
        return Layout.ROW_MAJOR if self.preparation["in_channels"] % TILE_EDGE else Layout.TILE


def map_convolution(step: PlannedCall) -> MapConvolution:
    """Returns a convolution over rows or maps as TTNN takes it."""
    image, weight = step.case.inputs[0], step.case.inputs[1]
    transposed, groups = step.attrs["transposed"], step.attrs["groups"]
    out = weight[1] * groups if transposed else weight[0]
    dims = len(image) - 2
    numbers = {name: spatial(step, name, dims) for name in ("stride", "padding", "dilation", "output_padding")}
    extra = numbers.pop("output_padding")
    common: dict[str, Any] = {"in_channels": image[1], "out_channels": out, "batch_size": image[0], "groups": groups}
    if dims == 1:
        call: dict[str, Any] = {
            "input_length": image[2],
            "kernel_size": weight[2],
            **{name: value[0] for name, value in numbers.items()},
        }
        usual = {"stride": 1, "padding": 0, "dilation": 1}
        wide = {name: (usual[name], *value) for name, value in numbers.items()}
        preparation = {"input_height": 1, "input_width": image[2], "kernel_size": (1, weight[2]), **wide}
        prepared = (*weight[:2], 1, weight[2])
        return MapConvolution("conv1d", {**common, **call}, {**common, **preparation}, prepared, out)
    maps: dict[str, Any] = {"input_height": image[2], "input_width": image[3], "kernel_size": weight[2:], **numbers}
    over_maps = {**common, **maps}
    if not transposed:
        return MapConvolution("conv2d", over_maps, over_maps, weight, out)
    return MapConvolution(TRANSPOSED, {**over_maps, "output_padding": extra}, over_maps, weight, out)


def spatial(step: PlannedCall, name: str, dims: int) -> tuple[int, ...]:
    """Returns an argument for each spatial dim, whether the call has one number for all of them or one for each."""
    value = step.attrs[name]
    numbers = (value,) if isinstance(value, int) else tuple(value)
    return numbers * dims if len(numbers) == 1 else numbers
