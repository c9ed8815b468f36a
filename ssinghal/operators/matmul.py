"""Matrix products. TTNN multiplies tiles only, puts the result in DRAM by default, and picks its program by shape, so the
program buffers have no formula here.

A shape sweep gives one shape, to which the other operands are fitted. ``mm``, ``addmm`` and ``linear`` get a square matrix, a
layer that keeps the width, so that operand and result both have the listed shape. ``bmm`` and ``matmul`` get the listed shape
transposed, as attention scores do: it has the bytes of the equal operand that the runs on hardware placed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ssinghal.core.case import Case
from ssinghal.core.tensors import TILE_EDGE, BufferType, DType, Layout, MemoryConfig, Shape, TensorSpec
from ssinghal.errors import InvalidCase
from ssinghal.operators.dim_rule import Axes, CuttableCall, Dim, DimRule, Dims, ResizableCall, Sizes, along
from ssinghal.operators.dims import cut_rows, equal_operands, trailing, units
from ssinghal.operators.operator_info import (
    INTEGERS,
    SAME_DTYPE,
    WEIGHTS_DTYPE,
    Attr,
    Attrs,
    Call,
    Limitation,
    OperatorInfo,
    Sample,
    Traits,
    operand_spec,
    weights_dtype,
)

MATMUL = Traits(ttnn_output=BufferType.DRAM)
LIMITATIONS = (
    Limitation("TTNN multiplies matrices in tile layout only", layouts=(Layout.ROW_MAJOR,)),
    Limitation("TTNN multiplies matrices of floating-point dtypes only", dtypes=INTEGERS),
)


def _product(a: Shape, b: Shape) -> Shape:
    """Returns the shape of the product of two matrices, or of two batches of them."""
    if a[-1] != b[-2]:
        raise InvalidCase(f"cannot multiply {list(a)} by {list(b)}: {a[-1]} columns against {b[-2]} rows")
    return (*a[:-1], b[-1])


def _ranks(name: str, shapes: Sequence[Shape], *ranks: int) -> None:
    for shape, rank in zip(shapes, ranks, strict=True):
        if len(shape) != rank:
            raise InvalidCase(f"{name}: {list(shape)} has rank {len(shape)}; expected {rank}")


def _folded(shape: Shape, rank: int) -> Shape:
    """Returns a listed shape as one of ``rank``: missing dims are 1 in front, surplus ones are folded into the first."""
    surplus = max(len(shape) - rank, 0)
    return (*(1,) * (rank - len(shape)), math.prod(shape[: surplus + 1]), *shape[surplus + 1 :])


def _square(shape: Shape) -> Shape:
    return (shape[-1], shape[-1])


def _transposed(shape: Shape) -> Shape:
    return (*shape[:-2], shape[-1], shape[-2])


def _at_least_2d(shape: Shape) -> Shape:
    return shape if len(shape) > 1 else (1, *shape)


# TTNN reads either matrix transposed: of the shapes of a call, the last two dims then change places.
TRANSPOSES = {"transpose_a": Attr("bool", False), "transpose_b": Attr("bool", False)}


def _as_multiplied(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    """Returns the shapes of two matrices as they are multiplied."""
    return [
        _transposed(shape) if attrs[name] and len(shape) > 1 else shape for name, shape in zip(TRANSPOSES, shapes, strict=True)
    ]


def _turned(tensors: Sequence[Any], attrs: Attrs) -> list[Any]:
    """Returns two torch tensors as they are multiplied."""
    return [x.mT if attrs[name] and x.dim() > 1 else x for name, x in zip(TRANSPOSES, tensors, strict=True)]


def _transposes(attrs: Attrs) -> dict[str, bool]:
    """Returns the arguments of TTNN's call; none where nothing is transposed."""
    return {name: True for name in TRANSPOSES if attrs[name]}


def _multiplied(inputs: Sequence[Shape]) -> Sequence[Dims]:
    """Axes are the dims of the result, and one more for the columns of the first matrix, which are the rows of the second.

    Batches go together where both have them; what is added has the result's rows and columns, or is broadcast.
    """
    *added, a, b = inputs
    rank, further = len(a), len(a) - len(b)
    rows, columns, inner = (rank - 2, 1), (rank - 1, 1), (rank, 1)
    batches: Dims = tuple((d, 1) if d >= further and a[d] == b[d - further] else None for d in range(rank - 2))
    others: Dims = tuple(batches[d] if d >= 0 else None for d in range(further, rank - 2))
    first, second = (*batches, rows, inner)[-rank:], (*others, inner, columns) if len(b) > 1 else (inner,)
    return [*(trailing(shape, (*a[:-1], b[-1])) for shape in added), first, second]


def _cut_product(call: CuttableCall) -> Axes | None:
    """Batches, rows of the first matrix, and columns of the second; a bias of one dim is placed as a row."""
    *_, a, b = call.inputs
    if len(a) != len(b) or len(a) < 2 or any(call.attrs.get(name) for name in TRANSPOSES):
        return None
    batches = call.ties[-2][:-2]
    broadcast = [d for d, dim in enumerate(batches) if dim is None]
    placed = [dims if len(dims) > 1 else (None, *dims) for dims in call.ties]
    return call.axes([along(len(a))], units(call.results[0], broadcast), placed=placed)


def _resize_product(call: ResizableCall, sizes: Sizes) -> Attrs:
    if any(call.attrs.get(name) for name in TRANSPOSES):
        raise call.no(min(sizes), "since TTNN transposes a matrix of this call")
    return call.attrs


PRODUCT = DimRule(_multiplied, resize=_resize_product, cut=_cut_product)

# mm, bmm, matmul ----------------------------------------------------------------------------------------------------------


def _infer_mm(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    _ranks("mm", shapes, 2, 2)
    return [_product(*_as_multiplied(shapes, attrs))]


def _infer_bmm(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    _ranks("bmm", shapes, 3, 3)
    if shapes[0][0] != shapes[1][0]:
        raise InvalidCase(f"bmm: batches of {shapes[0][0]} and {shapes[1][0]} matrices")
    return [_product(*_as_multiplied(shapes, attrs))]


def _infer_matmul(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    """Follows torch: a vector is a row on the left and a column on the right, batch dims broadcast."""
    a, b = _as_multiplied(shapes, attrs)
    left = _at_least_2d(a)
    right = b if len(b) > 1 else (*b, 1)
    height, width = _product(left[-2:], right[-2:])
    rank = max(len(left), len(right)) - 2
    batches = [(1,) * (rank - len(s) + 2) + s[:-2] for s in (left, right)]
    batch = []
    for sizes in zip(*batches, strict=True):
        if 1 not in sizes and sizes[0] != sizes[1]:
            raise InvalidCase(f"matmul: batch dims of {list(a)} and {list(b)} do not broadcast")
        batch.append(max(sizes))
    return [(*batch, *((height,) if len(a) > 1 else ()), *((width,) if len(b) > 1 else ()))]


def _broadcasts_batches(shapes: Sequence[Shape], attrs: Attrs) -> bool:
    """TTNN takes equal batches, or one matrix for a batch: on the right always, on the left in some of its programs."""
    a, b = (shape[:-2] for shape in shapes)
    one_right = all(size == 1 for size in b) and len(b) <= len(a)
    one_left = all(size == 1 for size in a) and len(a) == len(b)
    return not (a == b or one_right or one_left)


def _place_product(case: Case, shapes: Sequence[Shape], attrs: Attrs) -> list[TensorSpec]:
    return [operand_spec(case, shapes[0]), _weight(case, shapes[1], attrs)]


def _weight(case: Case, shape: Shape, attrs: Attrs) -> TensorSpec:
    """Places the second matrix, which TTNN takes in another dtype than the first."""
    return operand_spec(case, shape, dtype=weights_dtype(case.placement.dtype, attrs))


def _torch_product(name: str) -> Callable[[Any, Sequence[Any], Attrs], Any]:
    return lambda torch, tensors, attrs: getattr(torch.ops.aten, name)(*_turned(tensors, attrs))


def _matmul(c: Call) -> Any:
    return c.ttnn.matmul(*c.inputs, **_transposes(c.attrs), **c.out)


# addmm, linear ------------------------------------------------------------------------------------------------------------


def _infer_addmm(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    bias, a, b = shapes
    _ranks("addmm", (a, b), 2, 2)
    result = _product(a, b)
    if len(bias) > 2 or any(size not in (1, of) for size, of in zip(_at_least_2d(bias), result, strict=True)):
        raise InvalidCase(f"addmm: {list(bias)} does not broadcast to {list(result)}")
    return [result]


def _adds_row(shapes: Sequence[Shape]) -> bool:
    """Returns whether the bias has one number per column, as in layers: what ttnn.linear adds."""
    bias, a, b = shapes
    return _at_least_2d(bias) == (1, b[1]) and a[0] > 1


def _addmm(c: Call) -> Any:
    """Calls ttnn.addmm, which takes a bias of the result's shape, or ttnn.linear, which takes one row."""
    bias, a, b = c.inputs
    if _adds_row([tuple(x.shape) for x in c.inputs]):
        return c.ttnn.linear(a, b, bias=bias, **c.out)
    return c.ttnn.addmm(bias, a, b, alpha=float(c.attrs["alpha"]), beta=float(c.attrs["beta"]), **c.out)


def _place_addmm(case: Case, shapes: Sequence[Shape], attrs: Attrs) -> list[TensorSpec]:
    bias, a, b = shapes
    return [operand_spec(case, _at_least_2d(bias)), operand_spec(case, a), _weight(case, b, attrs)]


def _broadcasts_bias(shapes: Sequence[Shape], attrs: Attrs) -> bool:
    bias, a, b = shapes
    return not _adds_row(shapes) and _at_least_2d(bias) != (a[0], b[1])


def _scales_row(shapes: Sequence[Shape], attrs: Attrs) -> bool:
    return _adds_row(shapes) and bool(attrs["alpha"] != 1 or attrs["beta"] != 1)


def _infer_linear(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    x, weight, *bias = shapes
    _ranks("linear", (weight,), 2)
    x = _transposed(x) if attrs["transpose_a"] and len(x) > 1 else x
    if x[-1] != weight[1]:
        turned = f"; a weight is [out, in], as in torch: {weight[1]},{weight[0]}" if x[-1] == weight[0] else ""
        raise InvalidCase(f"linear: {list(x)} has {x[-1]} features, the weight {list(weight)} takes {weight[1]}{turned}")
    if bias and bias[0] != (weight[0],):
        raise InvalidCase(f"linear: bias {list(bias[0])} for {weight[0]} output features")
    return [(*x[:-1], weight[0])]


def _place_linear(case: Case, shapes: Sequence[Shape], attrs: Attrs) -> list[TensorSpec]:
    """Places the weight as ports of models prepare it, [in, out], and the bias as one row.

    With ``transpose_b`` it stays as torch has it, [out, in], and TTNN transposes it.
    """
    x, weight, *bias = shapes
    placed = weight if attrs["transpose_b"] else _transposed(weight)
    return [operand_spec(case, x), _weight(case, placed, attrs), *(operand_spec(case, (1, *b)) for b in bias)]


def _linear(c: Call) -> Any:
    x, weight, *bias = c.inputs
    return c.ttnn.linear(x, weight, bias=bias[0] if bias else None, **_transposes(c.attrs), **c.out)


def _torch_linear(torch: Any, tensors: Sequence[Any], attrs: Attrs) -> Any:
    x, *rest = tensors
    return torch.ops.aten.linear(x.mT if attrs["transpose_a"] and x.dim() > 1 else x, *rest)


def _sample_linear(shape: Shape) -> Sample:
    """Takes listed [rows, features] as a batch of one, as the runs on hardware did."""
    x = (1, *shape) if len(shape) < 3 else shape
    return Sample((x, _square(shape)), {}, channels_last=False)


def _cut_features(call: CuttableCall) -> Axes | None:
    """Rows of the input can be cut; weight and bias are not."""
    if call.attrs["transpose_a"]:
        return None
    return cut_rows(call, [len(call.inputs[0]) - 1])


# attention ----------------------------------------------------------------------------------------------------------------


def _infer_attention(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    q, k, v, *mask = shapes
    _ranks("scaled_dot_product_attention", (q, k, v), 4, 4, 4)
    groups = q[1] // k[1] if attrs["enable_gqa"] else 1
    if q[0] != k[0] or q[1] != k[1] * groups or q[3] != k[3] or k[:3] != v[:3]:
        raise InvalidCase(f"attention: query {list(q)}, key {list(k)} and value {list(v)} do not go together")
    if mask and (attrs["is_causal"] or mask[0][-2:] != (q[2], k[2])):
        raise InvalidCase(f"attention: mask {list(mask[0])} for {q[2]} queries and {k[2]} keys, causal {attrs['is_causal']}")
    return [(*q[:3], v[3])]


def _place_attention(case: Case, shapes: Sequence[Shape], attrs: Attrs) -> list[TensorSpec]:
    """Places the mask in DRAM, wherever the rest is, and with rank 4: TTNN takes no other."""
    q, k, v, *masks = shapes
    placed = [operand_spec(case, shape) for shape in (q, k, v)]
    masks = [(1,) * (4 - len(mask)) + mask for mask in masks]
    return placed + [operand_spec(case, mask, memory=MemoryConfig(BufferType.DRAM)) for mask in masks]


def _attention(c: Call) -> Any:
    q, k, v, *mask = c.inputs
    return c.ttnn.transformer.scaled_dot_product_attention(
        q,
        k,
        v,
        attn_mask=mask[0] if mask else None,
        is_causal=c.attrs["is_causal"],
        scale=c.attrs["scale"],
        **c.out,
    )


def _torch_attention(torch: Any, tensors: Sequence[Any], attrs: Attrs) -> Any:
    q, k, v, *mask = tensors
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, mask[0] if mask else None, **attrs)


def _attending(inputs: Sequence[Shape]) -> Sequence[Dims]:
    """Keys and values of the query's sizes belong to the same sequence, and a mask has it on either side."""
    query, *rest = inputs
    rank = len(query)
    ties = [along(rank), *equal_operands([query, *rest[:2]])[1:]]
    for mask in rest[2:]:
        attends_itself = len(rest[0]) == rank and rest[0][-2] == query[-2] == mask[-1]
        last: Dim = (rank - 2, 1) if attends_itself else None
        ties.append((*trailing(mask, query)[:-1], last))
    return ties


OPERATORS = (
    OperatorInfo(
        names=("mm",),
        aten=("aten.mm.default",),
        operands=("self", "mat2"),
        ttnn="ttnn.matmul",
        call=_matmul,
        torch=_torch_product("mm"),
        infer=_infer_mm,
        attrs={WEIGHTS_DTYPE: SAME_DTYPE, **TRANSPOSES},
        place=_place_product,
        sample=lambda shape: Sample((_folded(shape, 2), _square(shape)), {}),
        dims=PRODUCT,
        traits=replace(MATMUL, weights=(1,)),
        limitations=LIMITATIONS,
    ),
    OperatorInfo(
        names=("bmm",),
        aten=("aten.bmm.default",),
        operands=("self", "mat2"),
        ttnn="ttnn.matmul",
        call=_matmul,
        torch=_torch_product("bmm"),
        infer=_infer_bmm,
        attrs=TRANSPOSES,
        sample=lambda shape: Sample(((batch := _folded(shape, 3)), _transposed(batch)), {}),
        dims=PRODUCT,
        traits=MATMUL,
        limitations=LIMITATIONS,
    ),
    OperatorInfo(
        names=("matmul",),
        aten=("aten.matmul.default",),
        operands=("self", "other"),
        ttnn="ttnn.matmul",
        call=_matmul,
        torch=_torch_product("matmul"),
        infer=_infer_matmul,
        attrs={WEIGHTS_DTYPE: SAME_DTYPE, **TRANSPOSES},
        place=_place_product,
        sample=lambda shape: Sample((shape, _transposed(_at_least_2d(shape))), {}, channels_last=False),
        dims=PRODUCT,
        traits=MATMUL,
        limitations=(
            *LIMITATIONS,
            Limitation("TTNN does not broadcast one batch dim of several, or over ranks", when=_broadcasts_batches),
        ),
    ),
    OperatorInfo(
        names=("addmm",),
        aten=("aten.addmm.default",),
        operands=("self", "mat1", "mat2"),
        ttnn="ttnn.addmm, ttnn.linear",
        call=_addmm,
        torch=lambda t, tensors, a: t.addmm(*tensors, beta=a["beta"], alpha=a["alpha"]),
        infer=_infer_addmm,
        attrs={"beta": Attr("float", 1), "alpha": Attr("float", 1), WEIGHTS_DTYPE: SAME_DTYPE},
        place=_place_addmm,
        sample=lambda shape: Sample((_folded(shape, 2), _folded(shape, 2), _square(shape)), {}),
        dims=replace(PRODUCT, subject=1),
        traits=Traits(
            ttnn_output=BufferType.DRAM,
            temporaries=True,
            weights=(0, 2),
            function=lambda shapes, attrs: "linear" if _adds_row(shapes) else "addmm",
        ),
        limitations=(
            *LIMITATIONS,
            Limitation("TTNN adds a bias of the result's shape or one row, nothing between", when=_broadcasts_bias),
            Limitation("ttnn.linear, which adds a row of biases, does not scale", when=_scales_row, taken=True),
            Limitation(
                "ttnn.addmm does not take bfloat4_b",
                dtypes=(DType.BFLOAT4_B,),
                when=lambda shapes, attrs: not _adds_row(shapes),
            ),
        ),
    ),
    OperatorInfo(
        names=("linear", "Linear"),
        aten=("aten.linear.default",),
        operands=("input", "weight", "bias?"),
        ttnn="ttnn.linear",
        call=_linear,
        torch=_torch_linear,
        infer=_infer_linear,
        attrs={WEIGHTS_DTYPE: SAME_DTYPE, **TRANSPOSES},
        place=_place_linear,
        sample=_sample_linear,
        dims=DimRule(cut=_cut_features),
        traits=Traits(ttnn_output=BufferType.DRAM, temporaries=True, transposed=(1,), weights=(1, 2)),
        limitations=(
            *LIMITATIONS,
            Limitation(
                "ttnn.linear with a bias returns [1, out] for a vector",
                when=lambda shapes, attrs: len(shapes) > 2 and len(shapes[0]) == 1,
                taken=True,
            ),
        ),
    ),
    OperatorInfo(
        names=("scaled_dot_product_attention", "sdpa"),
        aten=("aten.scaled_dot_product_attention.default",),
        operands=("query", "key", "value", "attn_mask?"),
        ttnn="ttnn.transformer.scaled_dot_product_attention",
        call=_attention,
        torch=_torch_attention,
        infer=_infer_attention,
        attrs={
            "dropout_p": Attr("float", 0.0),
            "is_causal": Attr("bool", False),
            "scale": Attr("float|none", None),
            "enable_gqa": Attr("bool", False),
        },
        place=_place_attention,
        sample=lambda shape: Sample((_folded(shape, 4),) * 3, {}),
        dims=DimRule(_attending),
        traits=Traits(ttnn_output=BufferType.DRAM, temporaries=True),
        limitations=(
            *LIMITATIONS,
            Limitation("TTNN's attention takes bfloat16 and block floats only", dtypes=(DType.FLOAT32,)),
            Limitation(
                f"TTNN's attention takes head sizes that are multiples of {TILE_EDGE} only",
                when=lambda shapes, attrs: shapes[0][-1] % TILE_EDGE != 0,
            ),
            Limitation("TTNN's attention takes one head size for keys and values", when=lambda s, attrs: s[1] != s[2]),
            Limitation(
                "TTNN's causal attention takes as many keys as queries",
                when=lambda shapes, attrs: bool(attrs["is_causal"]) and shapes[0][2] != shapes[1][2],
            ),
            Limitation("TTNN's attention does not drop", when=lambda s, attrs: bool(attrs["dropout_p"]), taken=True),
        ),
    ),
)
