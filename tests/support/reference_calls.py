"""Small calls of ATen overloads, to hold the operators' declarations against torch. Data only.

An entry is (overload, operand shapes, attributes by their ATen names). Add a line for every way to call an operator that has
its own rule for shapes. An operator without a line is called as in a shape sweep, by its ``sample``.
"""

from __future__ import annotations

from typing import Any

Call = tuple[str, tuple[tuple[int, ...], ...], dict[str, Any]]

SAME_SHAPE = (
    "relu",
    "relu_",
    "clone",
    "contiguous",
    "gelu",
    "softplus",
    "leaky_relu",
    "hardtanh",
    "elu",
)  # and others, by their samples
MAP = (2, 6, 20, 15)
ATTENTION = ((2, 4, 40, 32), (2, 4, 70, 32), (2, 4, 70, 32))
WINDOW = {"kernel_size": [3, 3], "stride": [2, 2], "padding": [1, 1]}

CALLS: tuple[Call, ...] = (
    *((f"aten.{name}.default", ((2, 3, 40),), {}) for name in SAME_SHAPE),
    *((f"aten.{name}.{kind}", ((2, 3, 40), (3, 1)), {}) for name in ("add", "sub", "mul", "div") for kind in ("Tensor",)),
    *((f"aten.{name}.Tensor", ((3, 1), (2, 3, 40)), {}) for name in ("add", "sub", "mul", "div")),
    *((f"aten.{name}.Scalar", ((2, 3, 40),), {"other": 2}) for name in ("add", "sub", "mul", "div", "rsub")),
    *((f"aten.{name}.Scalar", ((2, 3, 40),), {"other": 0.5}) for name in ("eq", "ne", "gt", "ge", "lt", "le")),
    *((f"aten.{name}.Tensor", ((2, 3, 40), (3, 1)), {}) for name in ("eq", "ne", "gt", "ge", "lt", "le")),
    *(
        (f"aten.{name}.default", ((3, 1), (2, 3, 40)), {})
        for name in ("maximum", "minimum", "logical_and", "logical_or", "logical_xor", "floor_divide")
    ),
    ("aten.floor_divide.Scalar", ((2, 3),), {"other": 0.3}),
    ("aten.pow.Scalar", ((2, 3),), {"self": 10.0}),
    ("aten.elu.default", ((2, 3),), {"alpha": 0.5}),
    ("aten.clamp_max.default", ((2, 3),), {"max": 0.5}),
    ("aten.fill_.Scalar", ((2, 3),), {"value": 2.5}),
    ("aten.addcmul.default", ((1, 1, 40), (40,), (2, 3, 40)), {"value": 0.5}),
    ("aten.to.dtype", ((2, 3),), {"dtype": "torch.bfloat16"}),
    ("aten.add.Scalar", ((2, 3),), {"other": 2, "alpha": 3}),
    ("aten.sub.Scalar", ((2, 3),), {"other": 0.5, "alpha": 2}),
    ("aten.add.Tensor", ((2, 3), (2, 3)), {"alpha": 3}),
    ("aten.gelu.default", ((2, 3),), {"approximate": "tanh"}),
    ("aten.softplus.default", ((2, 3),), {"beta": 2.0, "threshold": 1.0}),
    ("aten.leaky_relu.default", ((2, 3),), {"negative_slope": 0.3}),
    ("aten.hardtanh.default", ((2, 3),), {"min_val": 0.0, "max_val": 6.0}),
    ("aten.clamp.default", ((2, 3),), {"min": -0.5, "max": 0.5}),
    ("aten.clamp.default", ((2, 3),), {"max": 0.5}),
    ("aten.clamp_min.default", ((2, 3),), {"min": 0.0}),
    ("aten.pow.Tensor_Scalar", ((2, 3),), {"exponent": 2.0}),
    ("aten.copy_.default", ((2, 3, 40), (3, 40)), {}),
    ("aten.dropout.default", ((2, 3),), {"p": 0.3, "train": False}),
    ("aten._to_copy.default", ((2, 3),), {"dtype": "torch.bfloat16"}),
    ("aten.where.self", ((2, 3), (3,), (2, 1)), {}),
    ("aten.masked_fill.Scalar", ((2, 3, 4), (3, 4)), {"value": -100.0}),
    ("aten.mm.default", ((5, 7), (7, 3)), {}),
    ("aten.bmm.default", ((2, 5, 7), (2, 7, 3)), {}),
    ("aten.matmul.default", ((4, 2, 5, 7), (7, 3)), {}),
    ("aten.matmul.default", ((4, 1, 5, 7), (2, 7, 3)), {}),
    ("aten.matmul.default", ((7,), (2, 7, 3)), {}),
    ("aten.matmul.default", ((2, 5, 7), (7,)), {}),
    ("aten.addmm.default", ((3,), (5, 7), (7, 3)), {}),
    ("aten.addmm.default", ((5, 3), (5, 7), (7, 3)), {"beta": 0.5, "alpha": 2.0}),
    ("aten.linear.default", ((2, 5, 7), (3, 7)), {}),
    ("aten.linear.default", ((2, 5, 7), (3, 7), (3,)), {}),
    ("aten.linear.default", ((7,), (3, 7), (3,)), {}),
    ("aten.scaled_dot_product_attention.default", ATTENTION, {}),
    ("aten.scaled_dot_product_attention.default", (*ATTENTION, (40, 70)), {"scale": 0.25}),
    ("aten.scaled_dot_product_attention.default", ((2, 4, 40, 32),) * 3, {"is_causal": True}),
    ("aten.scaled_dot_product_attention.default", ((2, 4, 9, 32), (2, 2, 9, 32), (2, 2, 9, 32)), {"enable_gqa": True}),
    *(
        (f"aten.{name}", ((2, 3, 4),), {"dim": dim, "keepdim": keepdim})
        for name in ("mean.dim", "sum.dim_IntList", "amax.default", "amin.default", "linalg_vector_norm.default")
        for dim in ([-1], [0, -1], [1])
        for keepdim in (True, False)
    ),
    *(
        (f"aten.{name}", ((2, 3, 4),), {"dim": dim, "keepdim": keepdim})
        for name in ("max.dim", "min.dim", "prod.dim_int")
        for dim, keepdim in ((-1, True), (1, False), (0, False))
    ),
    ("aten.linalg_vector_norm.default", ((2, 3),), {"ord": 3.0, "dim": [0]}),
    ("aten.argmax.default", ((2, 3, 4),), {"dim": 1, "keepdim": True}),
    ("aten.argmax.default", ((2, 3, 4),), {"dim": -1}),
    ("aten._softmax.default", ((2, 3, 4),), {"dim": 1, "half_to_float": False}),
    ("aten.softmax.int", ((2, 3, 4),), {"dim": -1}),
    ("aten.topk.default", ((2, 30),), {"k": 4}),
    ("aten.topk.default", ((20, 3),), {"k": 5, "dim": 0, "largest": False}),
    ("aten.cumsum.default", ((2, 3, 4),), {"dim": 1}),
    ("aten.max_pool2d.default", (MAP,), WINDOW),
    ("aten.max_pool2d.default", (MAP,), {"kernel_size": 2}),
    ("aten.max_pool2d.default", (MAP,), {"kernel_size": 2, "ceil_mode": True}),
    ("aten.max_pool2d.default", (MAP,), {"kernel_size": 3, "stride": 4, "padding": 1, "ceil_mode": True}),
    ("aten.max_pool2d.default", (MAP,), {"kernel_size": [3, 2], "stride": [1, 2], "dilation": [2, 3]}),
    ("aten.max_pool2d_with_indices.default", (MAP,), WINDOW),
    ("aten.avg_pool2d.default", (MAP,), WINDOW),
    ("aten.avg_pool2d.default", (MAP,), {"kernel_size": 2, "ceil_mode": True, "count_include_pad": False}),
    ("aten.avg_pool2d.default", (MAP,), {"kernel_size": [5, 3], "divisor_override": 7}),
    ("aten.adaptive_avg_pool2d.default", (MAP,), {"output_size": [5, 1]}),
    ("aten.adaptive_max_pool2d.default", (MAP,), {"output_size": [7, 7]}),
    ("aten.adaptive_avg_pool1d.default", ((2, 6, 20),), {"output_size": [3]}),
    ("aten.adaptive_max_pool1d.default", ((2, 6, 20),), {"output_size": [1]}),
    ("aten.upsample_nearest2d.default", (MAP,), {"output_size": [40, 30], "scales_h": 2.0, "scales_w": 2.0}),
    ("aten.upsample_nearest2d.default", (MAP,), {"output_size": [33, 15]}),
    ("aten.upsample_nearest2d.vec", (MAP,), {"scale_factors": [1.5, 2.3]}),
    ("aten.upsample_bilinear2d.default", (MAP,), {"output_size": [40, 45], "align_corners": False}),
    ("aten.upsample_bilinear2d.vec", (MAP,), {"scale_factors": [2.0, 2.0], "align_corners": True}),
    ("aten.upsample_nearest3d.default", ((1, 2, 3, 4, 5),), {"output_size": [6, 12, 5]}),
    ("aten.upsample_nearest3d.vec", ((1, 2, 3, 4, 5),), {"scale_factors": [1.0, 2.0, 2.0]}),
    *(
        (f"aten.{name}.default", (MAP, (2, 7, 9, 2)), {"interpolation_mode": 0, "padding_mode": 0, "align_corners": aligned})
        for name, aligned in (("grid_sampler", False), ("grid_sampler_2d", True))
    ),
    ("aten.arange.default", (), {"end": 7}),
    ("aten.arange.start", (), {"start": 2, "end": 7}),
    ("aten.arange.start_step", (), {"start": 10, "end": -3, "step": -4}),
    ("aten.scalar_tensor.default", (), {"s": 2.5}),
    ("aten.ones.default", (), {"size": [2, 3, 4]}),
    ("aten.zeros.default", (), {"size": [7]}),
    ("aten.full.default", (), {"size": [2, 3], "fill_value": 2.5}),
    ("aten.new_ones.default", ((5,),), {"size": [2, 3]}),
    ("aten.new_zeros.default", ((5,),), {"size": [2, 3]}),
    ("aten.new_full.default", ((5,),), {"size": [2, 3], "fill_value": 8.0}),
    ("aten.ones_like.default", ((2, 3),), {}),
    ("aten.zeros_like.default", ((2, 3),), {}),
    ("aten.full_like.default", ((2, 3),), {"fill_value": 3.0}),
)
