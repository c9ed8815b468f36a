"""A convolution whose kernel is as wide as the map, and whose windows do not overlap: a linear layer over its rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ssinghal.core.tensors import BufferType, Layout, Shape
from ssinghal.errors import InvalidCase
from ssinghal.operators import named
from ssinghal.operators.operator_info import Attrs
from ssinghal.remedy.config_changes import ACTIVATION, CONV_CONFIG
from ssinghal.remedy.problem import Problem
from ssinghal.remedy.rewrites import Params, Rewrite, RewriteBackend
from ssinghal.remedy.strategies.strategy import Strategy, StrategyResult, StrategySearch, why_not
from ssinghal.remedy.trial import Impact, RewriteName

(CONVOLUTION,) = named("convolution")


@dataclass(frozen=True)
class Product:
    """``rows`` of ``inner`` values each, times a matrix of ``inner`` x ``columns``."""

    rows: int
    inner: int
    columns: int


def product_of(shapes: Sequence[Shape], attrs: Attrs) -> Product | None:
    """Returns the product that a convolution of [N, C, (H,) W] is; None where its kernel is narrower than the map, or its
    windows overlap or leave rows out.

    >>> attrs = {"transposed": False, "groups": 1, "stride": 1, "padding": 0, "dilation": 1}
    >>> product_of([(256, 1, 1, 512), (2048, 1, 1, 512)], attrs)
    Product(rows=256, inner=512, columns=2048)
    """
    image, weight = shapes[0], shapes[1]
    spatial = {name: _numbers(attrs[name], len(image) - 2) for name in ("stride", "padding", "dilation")}
    plain = not attrs["transposed"] and attrs["groups"] == 1 and not any(spatial["padding"]) and len(image) in (3, 4)
    if not plain or weight[-1] != image[-1] or any(d != 1 for d in spatial["dilation"]):
        return None
    height, kernel = (image[2], weight[2]) if len(image) == 4 else (1, 1)
    if height != kernel and (spatial["stride"][0] != kernel or height % kernel):
        return None
    return Product(image[0] * height // kernel, math.prod(weight[1:]), weight[0])


def _numbers(value: int | Sequence[int], count: int) -> list[int]:
    return [value] * count if isinstance(value, int) else list(value) * (count if len(value) == 1 else 1)


def as_linear(backend: RewriteBackend, params: Params) -> Sequence[Any]:
    """Folds the map to a row for each window and the weight to a matrix, in DRAM, and multiplies them."""
    ttnn, dram = backend.ttnn, backend.in_memory(BufferType.DRAM)
    product = product_of(backend.bound.shapes, backend.bound.attrs)
    if product is None:
        raise InvalidCase(f"{backend.case.operator}: it is no product")
    image, weight, *bias = backend.tensors
    axes = list(range(2, len(weight.shape)))
    turned = ttnn.permute(weight, [*axes, 1, 0])
    matrix = ttnn.to_layout(ttnn.reshape(turned, [product.inner, product.columns]), ttnn.TILE_LAYOUT)
    rows = ttnn.to_layout(ttnn.reshape(image, [1, 1, product.rows, product.inner]), ttnn.TILE_LAYOUT)
    added = {"bias": ttnn.to_layout(ttnn.reshape(bias[0], [1, product.columns]), ttnn.TILE_LAYOUT)} if bias else {}
    return [ttnn.linear(rows, matrix, memory_config=dram, **added)]


def _is_product(problem: Problem) -> bool:
    if problem.info.name != CONVOLUTION or any(spec.layout is not Layout.ROW_MAJOR for spec in problem.call.inputs):
        return False
    return product_of(problem.call.shapes, problem.call.attrs) is not None


def _multiplied(problem: Problem) -> StrategySearch:
    product = product_of(problem.call.shapes, problem.call.attrs)
    if product is None:
        return StrategyResult(None, "it is no product")
    if (problem.settings.get(CONV_CONFIG) or {}).get(ACTIVATION):
        return StrategyResult(None, "not tried: the activation of the conv_config would be lost")
    result = yield problem.trial(problem.without_settings(problem.in_dram()), RewriteName.LINEAR)
    note = (
        f"the kernel is as wide as the map: ttnn.linear of [{product.rows}, {product.inner}] and"
        f" [{product.inner}, {product.columns}]; the weight is turned once, when it is loaded"
    )
    return StrategyResult(result, note=note) if result.works else StrategyResult(None, why_not(result))


LINEAR_REWRITES: Mapping[RewriteName, Rewrite] = {RewriteName.LINEAR: as_linear}
AS_LINEAR = Strategy("as a linear layer", Impact.REARRANGED, _is_product, _multiplied)
