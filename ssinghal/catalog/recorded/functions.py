"""The functions whose arguments TTNN and the operator name otherwise, one row each.

Others need no row: they take their tensors in the operator's order, and attributes by the operator's names.
"""

from __future__ import annotations

from collections.abc import Mapping

from ssinghal.catalog.recorded.arguments import REQUIRED
from ssinghal.catalog.recorded.drafts import (
    Function,
    attention,
    concat,
    convolved,
    embedding,
    grouped,
    item,
    linear,
    moved,
    normalized,
    pad,
    plain,
    pooled,
    reduced,
    size,
    sliced,
    to_layout,
    to_shards,
    typecast,
    upsample,
    with_scalar,
)

_CONV = (
    "input_tensor weight_tensor device in_channels out_channels batch_size input_height input_width kernel_size stride padding"
)
_PRODUCT = (  # in C++, where they have no names
    "transpose_a transpose_b memory_config dtype program_config activation compute_kernel_config core_grid output_tile"
)
_POOL = "input_tensor batch_size input_h input_w channels kernel_size stride padding"
_BINARY = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "eq": "eq", "ne": "ne", "gt": "gt", "ge": "ge",
    "lt": "lt", "le": "le",
}  # fmt: skip

FUNCTIONS: Mapping[str, Function] = {
    **{f"ttnn.{name}": with_scalar(operator) for name, operator in _BINARY.items()},
    **{f"ttnn.{name}": plain(name, "input_tensor_a input_tensor_b", operands=2) for name in ("maximum", "minimum")},
    "ttnn.leaky_relu": plain(
        "leaky_relu", "input_tensor negative_slope", lambda a: {"negative_slope": a.number("negative_slope")}
    ),
    "ttnn.clamp": plain(
        "clamp", "input_tensor min max", lambda a: {name: a.number(name) for name in ("min", "max") if name in a.rest()}
    ),
    "ttnn.pow": plain("pow", "input_tensor exponent", lambda a: {"exponent": a.number("exponent")}),
    "ttnn.typecast": plain("_to_copy", "input_tensor dtype", typecast),
    "ttnn.clone": plain("clone", "input"),
    "ttnn.reshape": plain("view", "input_tensor shape padded_shape", size),
    "ttnn.permute": plain("permute", "input_tensor dims", lambda a: {"dims": a.integers("dims")}),
    "ttnn.transpose": plain(
        "transpose", "input_tensor dim1 dim2", lambda a: {"dim0": a.integer("dim1"), "dim1": a.integer("dim2")}
    ),
    "ttnn.unsqueeze": plain("unsqueeze", "input_tensor dim", lambda a: {"dim": a.integer("dim")}),
    "ttnn.squeeze": plain("squeeze", "input_tensor dim", lambda a: {"dim": a.integers("dim")}),
    "ttnn.concat": Function(("tensors", "dim"), concat),
    "ttnn.slice": Function(("input_tensor", "starts", "ends", "steps"), sliced),
    "ttnn.Tensor.__getitem__": Function(("input_tensor", "index"), item),
    "ttnn.pad": Function(("input_tensor", "padding", "value"), pad),
    "ttnn.repeat": plain("repeat", "input_tensor repeat_dims", lambda a: {"repeats": a.integers("repeat_dims")}),
    "ttnn.repeat_interleave": plain(
        "repeat_interleave",
        "input_tensor repeats dim",
        lambda a: {"repeats": a.integer("repeats"), "dim": a.integer("dim")},
    ),
    "ttnn.split": plain(
        "split",
        "input_tensor split_size dim",
        lambda a: {"split_size": a.take("split_size", REQUIRED), "dim": a.integer("dim", 0)},
    ),
    **{f"ttnn.{name}_": with_scalar(f"{operator}_") for name, operator in _BINARY.items()},
    "ttnn.to_memory_config": moved("to_memory_config", "tensor memory_config dtype"),
    "ttnn.interleaved_to_sharded": Function(
        ("input_tensor", "sharded_memory_config", "shard_shape", "shard_scheme", "shard_orientation", "output_dtype"), to_shards
    ),
    "ttnn.sharded_to_interleaved": moved(
        "sharded_to_interleaved", "input_tensor memory_config output_dtype", dtype="output_dtype"
    ),
    "ttnn.reshard": moved("reshard", "input_tensor output_memory_config", memory="output_memory_config"),
    "ttnn.move": moved("move", "input_tensor memory_config"),
    "ttnn.reallocate": moved("reallocate", "input_tensor memory_config"),
    "ttnn.unsqueeze_to_4D": plain("unsqueeze_to_4D", "tensor"),
    "ttnn.untilize_with_unpadding": plain(
        "untilize_with_unpadding",
        "input_tensor output_tensor_end",
        lambda a: {"output_tensor_end": a.integers("output_tensor_end")},
    ),
    "ttnn.fold": plain(
        "fold",
        "input stride_h stride_w use_transpose_as_fold output_shape padding grid_size override_memory_config collapse_output",
        lambda a: {"stride_h": a.integer("stride_h"), "stride_w": a.integer("stride_w")},
        result_memory="override_memory_config",
    ),
    "ttnn.softmax_in_place": plain("softmax_in_place", "input_tensor dim", lambda a: {"dim": a.integer("dim", -1)}),
    "ttnn.to_layout": Function(("tensor", "layout", "dtype", "memory_config"), to_layout),
    "ttnn.matmul": plain("matmul", f"input_tensor_a input_tensor_b {_PRODUCT}", operands=2),
    "ttnn.linear": Function(tuple(f"input_tensor_a input_tensor_b bias {_PRODUCT}".split()), linear),
    "ttnn.softmax": plain("softmax", "input_tensor dim", lambda a: {"dim": a.integer("dim", -1)}),
    "ttnn.layer_norm": Function(("input_tensor",), normalized("layer_norm")),
    "ttnn.rms_norm": Function(("input_tensor",), normalized("rms_norm")),
    "ttnn.group_norm": Function(("input_tensor",), grouped),
    "ttnn.mean": reduced("mean"),
    "ttnn.sum": reduced("sum"),
    "ttnn.max": reduced("amax"),
    "ttnn.min": reduced("amin"),
    "ttnn.transformer.scaled_dot_product_attention": Function(
        ("input_tensor_q", "input_tensor_k", "input_tensor_v"), attention
    ),
    "ttnn.embedding": Function(("input_tensor", "weight"), embedding),
    "ttnn.max_pool2d": Function(tuple(f"{_POOL} dilation ceil_mode".split()), pooled("max_pool2d")),
    "ttnn.avg_pool2d": Function(tuple(f"{_POOL} ceil_mode count_include_pad divisor_override".split()), pooled("avg_pool2d")),
    "ttnn.conv2d": Function(tuple(f"{_CONV} dilation groups dtype bias_tensor".split()), convolved("convolution")),
    "ttnn.conv_transpose2d": Function(
        tuple(f"{_CONV} output_padding dilation groups dtype bias_tensor".split()), convolved("conv_transpose2d", True)
    ),
    "ttnn.upsample": Function(("input_tensor", "scale_factor"), upsample),
}
