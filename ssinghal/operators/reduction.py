"""Reductions, and operators that look at a whole row: softmax, topk, cumsum.

A reduction to one number without ``keepdim`` has rank 0 and is invalid, like every shape of rank 0.
TTNN picks its kernels by shape, so the program buffers have no formula here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ssinghal.core.tensors import DType, Layout, Shape, TensorSpec
from ssinghal.errors import InvalidCase
from ssinghal.operators.aliasing import in_requested_memory
from ssinghal.operators.dim_rule import Axes, CuttableCall, DimRule, along
from ssinghal.operators.dims import OTHER_DIMS, units
from ssinghal.operators.operator_info import (
    BLOCK_FLOATS,
    INTEGERS,
    Attr,
    Attrs,
    Call,
    DTypes,
    Limitation,
    OperatorInfo,
    Sample,
    Traits,
    aten,
    normal_dim,
    normal_dims,
)

IGNORED_DTYPE = Attr("str|int|none", None)
DIMS = Attr("int|ints|none", None)
KEEPDIM = Attr("bool", False)

MAX_UINT16_INDEX = 2**16  # ttnn.topk counts longer rows in 32 bits

TILE_ONLY = (Layout.ROW_MAJOR,)
FLOATS_ONLY = Limitation("TTNN reduces floating-point dtypes only here", dtypes=INTEGERS)
NO_BFLOAT4 = Limitation("TTNN's reductions do not take bfloat4_b", dtypes=(DType.BFLOAT4_B,))
NO_SMALL_INTEGERS = Limitation("TTNN's reductions do not take 8- and 16-bit integers", dtypes=(DType.UINT8, DType.UINT16))


def _infer(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    """Returns the shape without the reduced dims, or with 1 in their place."""
    shape = shapes[0]
    reduced = normal_dims(attrs["dim"], len(shape))
    if attrs["keepdim"]:
        return [tuple(1 if i in reduced else size for i, size in enumerate(shape))]
    return [tuple(size for i, size in enumerate(shape) if i not in reduced)]


def _infer_along(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    """Returns the shape itself; the attribute must name a dim of it."""
    normal_dim(attrs["dim"], len(shapes[0]))
    return [shapes[0]]


def _reshaped_tiles(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> int:
    """Without keepdim TTNN ends with a tile reshape, for which it lists the source pages of every output tile."""
    is_reshaped = len(inputs[0].shape) != len(outputs[0].shape) and outputs[0].layout is Layout.TILE
    return outputs[0].num_pages if is_reshaped else 0


def _cut_kept(call: CuttableCall) -> Axes | None:
    """Dims that are not reduced can be cut; the result has those alone, or with the others as 1."""
    shape = call.inputs[0]
    reduced = normal_dims(call.attrs["dim"], len(shape))
    dims = along(len(shape))
    kept = tuple(dim for d, dim in enumerate(dims) if d not in reduced)
    return call.axes([dims if call.attrs["keepdim"] else kept], units(shape, reduced))


REDUCTION = Traits(temporaries=True, host_map=_reshaped_tiles)
KEPT_DIMS = DimRule(cut=_cut_kept)


def _sample(shape: Shape, **attrs: Any) -> Sample:
    return Sample((shape,), attrs)


def _dims(attrs: Attrs, rank: int) -> list[int] | None:
    """Returns the dims for TTNN, counted from the front; None for all."""
    dims = normal_dims(attrs["dim"], rank)
    return dims if len(dims) < rank else None


def _reduce(c: Call, function: str, x: Any, **options: Any) -> Any:
    return getattr(c.ttnn, function)(x, dim=_dims(c.attrs, len(x.shape)), keepdim=c.attrs["keepdim"], **options, **c.out)


def _kept_layout(c: Call) -> dict[str, Any]:
    """Asks for a row-major result: by default TTNN's sum and mean tile it or not, depending on the dims."""
    return {"output_layout": c.ttnn.ROW_MAJOR_LAYOUT} if c.case.placement.layout is Layout.ROW_MAJOR else {}


def reduction(
    names: tuple[str, ...],
    overloads: tuple[str, ...],
    ttnn: str,
    call: Callable[[Call, Any], Any],
    *limitations: Limitation,
    attrs: dict[str, Attr],
    traits: Traits = REDUCTION,
    torch: Callable[[Any, Sequence[Any], Attrs], Any] | None = None,
) -> OperatorInfo:
    """Declares a reduction of some or all dims of one operand; a listed shape is reduced along its last dim."""
    return OperatorInfo(
        names=names,
        aten=overloads,
        operands=("self",),
        ttnn=f"ttnn.{ttnn}",
        call=lambda c: call(c, c.inputs[0]),
        torch=torch or aten(names[0]),
        infer=_infer,
        attrs=attrs,
        sample=lambda shape: _sample(shape, dim=[-1] if attrs["dim"].kind != "int" else -1, keepdim=True),
        dims=KEPT_DIMS,
        traits=traits,
        limitations=limitations,
    )


def _extreme(name: str) -> OperatorInfo:
    """Declares ``max`` or ``min`` along one dim: torch's values without their indices, which TTNN does not return."""
    return reduction(
        (name,),
        (f"aten.{name}.dim",),
        name,
        lambda c, x: _reduce(c, name, x),
        NO_BFLOAT4,
        NO_SMALL_INTEGERS,
        attrs={"dim": Attr("int"), "keepdim": KEEPDIM},
        traits=replace(REDUCTION, output_layout=Layout.TILE),
        torch=lambda t, tensors, a: getattr(t, name)(tensors[0], a["dim"], a["keepdim"]).values,
    )


# linalg_vector_norm -------------------------------------------------------------------------------------------------------


def _vector_norm(c: Call, x: Any) -> Any:
    """Computes sqrt(sum(square)), the root in place: moreh_norm takes bfloat16 tiles only and keeps the last two dims."""
    squares = c.ttnn.square(x, **c.out)
    total = _reduce(c, "sum", squares, **_kept_layout(c))
    squares.deallocate()
    return c.ttnn.sqrt(total, output_tensor=total)


# topk, argmax -------------------------------------------------------------------------------------------------------------


def _infer_topk(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    shape, k = list(shapes[0]), attrs["k"]
    dim = normal_dim(attrs["dim"], len(shape))
    if not 1 <= k <= shape[dim]:
        raise InvalidCase(f"topk: k={k} of {shape[dim]} elements")
    shape[dim] = k
    return [tuple(shape), tuple(shape)]


def _topk_dtypes(dtype: DType, shapes: Sequence[Shape], attrs: Attrs) -> DTypes:
    """Values keep their dtype; indices have 16 bits where a row is short enough and the values have no more."""
    row = shapes[0][normal_dim(attrs["dim"], len(shapes[0]))]
    wide = dtype is DType.FLOAT32 or row > MAX_UINT16_INDEX
    return (None, DType.UINT32 if wide else DType.UINT16)


def _stays_row_major(shapes: Sequence[Shape], attrs: Attrs) -> bool:
    """TTNN tiles a row-major operand of rank 4 along the last dim, of rank 3 along the middle one (measured, ranks 1 to 5)."""
    rank = len(shapes[0])
    return (rank, normal_dim(attrs["dim"], rank)) not in ((4, 3), (3, 1))


def _softmax(c: Call) -> Any:
    """Calls ttnn.softmax, or where the call has a program config ttnn.softmax_in_place, which alone takes one."""
    if "program_config" in c.settings:
        return c.ttnn.softmax_in_place(c.inputs[0], dim=c.attrs["dim"])
    return c.ttnn.softmax(c.inputs[0], dim=c.attrs["dim"], **c.out)


def _topk(c: Call) -> Any:
    options = {name: c.attrs[name] for name in ("dim", "largest", "sorted")}
    return [in_requested_memory(c, result) for result in c.ttnn.topk(c.inputs[0], c.attrs["k"], **options, **c.out)]


def _infer_argmax(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    return _infer(shapes, {**attrs, "dim": None if attrs["dim"] is None else [attrs["dim"]]})


def _is_inner(shapes: Sequence[Shape], attrs: Attrs) -> bool:
    """Returns whether the dim is not the last one."""
    return attrs["dim"] is not None and normal_dim(attrs["dim"], len(shapes[0])) != len(shapes[0]) - 1


OPERATORS = (
    reduction(
        ("mean",),
        ("aten.mean.dim",),
        "mean",
        lambda c, x: _reduce(c, "mean", x, **_kept_layout(c)),
        FLOATS_ONLY,
        NO_BFLOAT4,
        attrs={"dim": DIMS, "keepdim": KEEPDIM, "dtype": IGNORED_DTYPE},
        torch=lambda t, tensors, a: t.mean(tensors[0], a["dim"], a["keepdim"]),
    ),
    reduction(
        ("sum",),
        ("aten.sum.dim_IntList",),
        "sum",
        lambda c, x: _reduce(c, "sum", x, **_kept_layout(c)),
        NO_BFLOAT4,
        NO_SMALL_INTEGERS,
        attrs={"dim": DIMS, "keepdim": KEEPDIM, "dtype": IGNORED_DTYPE},
        torch=lambda t, tensors, a: t.sum(tensors[0], a["dim"], a["keepdim"]),
    ),
    reduction(
        ("amax",),
        ("aten.amax.default",),
        "max",
        lambda c, x: _reduce(c, "max", x),
        NO_BFLOAT4,
        NO_SMALL_INTEGERS,
        attrs={"dim": Attr("int|ints", []), "keepdim": KEEPDIM},
        traits=replace(REDUCTION, output_layout=Layout.TILE),
    ),
    reduction(
        ("amin",),
        ("aten.amin.default",),
        "min",
        lambda c, x: _reduce(c, "min", x),
        NO_BFLOAT4,
        NO_SMALL_INTEGERS,
        attrs={"dim": Attr("int|ints", []), "keepdim": KEEPDIM},
        traits=replace(REDUCTION, output_layout=Layout.TILE),
    ),
    *map(_extreme, ("max", "min")),
    reduction(
        ("prod",),
        ("aten.prod.dim_int",),
        "prod",
        lambda c, x: c.ttnn.prod(x, c.attrs["dim"], c.attrs["keepdim"], **c.out),
        Limitation("ttnn.prod takes floating-point dtypes but bfloat4_b", dtypes=(*INTEGERS, DType.BFLOAT4_B)),
        Limitation("ttnn.prod cannot tile a row-major vector", TILE_ONLY, when=lambda shapes, attrs: len(shapes[0]) == 1),
        attrs={"dim": Attr("int"), "keepdim": KEEPDIM, "dtype": IGNORED_DTYPE},
        traits=replace(REDUCTION, output_layout=Layout.TILE),
        torch=lambda t, tensors, a: t.prod(tensors[0], a["dim"], a["keepdim"]),
    ),
    reduction(
        ("linalg_vector_norm", "linalgvectornorm", "norm"),
        ("aten.linalg_vector_norm.default",),
        "square, ttnn.sum, ttnn.sqrt",
        _vector_norm,
        FLOATS_ONLY,
        NO_BFLOAT4,
        Limitation("composed of square, sum and sqrt: ord 2 only", when=lambda shapes, attrs: bool(attrs["ord"] != 2)),
        attrs={"ord": Attr("float", 2), "dim": DIMS, "keepdim": KEEPDIM, "dtype": IGNORED_DTYPE},
        torch=lambda t, tensors, a: t.linalg.vector_norm(tensors[0], a["ord"], a["dim"], a["keepdim"]),
    ),
    OperatorInfo(
        names=("softmax", "_softmax"),
        aten=("aten._softmax.default", "aten._safe_softmax.default", "aten.softmax.int"),
        operands=("self",),
        ttnn="ttnn.softmax, softmax_in_place",
        call=_softmax,
        torch=lambda t, tensors, a: t.softmax(tensors[0], a["dim"]),
        infer=_infer_along,
        attrs={"dim": Attr("int"), "half_to_float": Attr("bool", False), "dtype": IGNORED_DTYPE},
        sample=lambda shape: _sample(shape, dim=-1),
        dims=OTHER_DIMS,
        traits=Traits(temporaries=True, output_layout=Layout.TILE, in_place_with={"program_config": "softmax_in_place"}),
        limitations=(
            Limitation(
                "ttnn.softmax tiles row-major operands for some ranks and dims only", layouts=TILE_ONLY, when=_stays_row_major
            ),
            Limitation("ttnn.softmax takes floating-point dtypes but bfloat4_b", dtypes=(*INTEGERS, DType.BFLOAT4_B)),
        ),
    ),
    OperatorInfo(
        names=("softmax_in_place",),
        aten=(),
        operands=("self",),
        ttnn="ttnn.softmax_in_place",
        call=lambda c: c.ttnn.softmax_in_place(c.inputs[0], dim=c.attrs["dim"]),
        torch=lambda t, tensors, a: t.softmax(tensors[0], a["dim"]),
        infer=_infer_along,
        attrs={"dim": Attr("int", -1)},
        sample=lambda shape: _sample(shape, dim=-1),
        dims=OTHER_DIMS,
        traits=Traits(temporaries=True, in_place=True, output_fixed=True),
        limitations=(
            Limitation("ttnn.softmax_in_place takes tile layout only", layouts=TILE_ONLY),
            Limitation("ttnn.softmax_in_place takes floating-point dtypes only", dtypes=INTEGERS),
        ),
    ),
    OperatorInfo(
        names=("topk",),
        aten=("aten.topk.default",),
        operands=("self",),
        ttnn="ttnn.topk",
        call=_topk,
        torch=aten("topk"),
        infer=_infer_topk,
        attrs={
            "k": Attr("int"),
            "dim": Attr("int", -1),
            "largest": Attr("bool", True),
            "sorted": Attr("bool", True),
        },
        # in a channels-last catalog the last dim as placed is the second one as listed
        sample=lambda shape: _sample(shape, k=min(5, *shape[1:], shape[-1])),
        dims=OTHER_DIMS,
        traits=Traits(temporaries=True, output_dtypes=_topk_dtypes),
        limitations=(
            Limitation("ttnn.topk takes tile layout only", layouts=TILE_ONLY),
            Limitation("ttnn.topk takes floating-point dtypes but bfloat4_b", dtypes=(*INTEGERS, DType.BFLOAT4_B)),
        ),
    ),
    OperatorInfo(
        names=("argmax",),
        aten=("aten.argmax.default",),
        operands=("self",),
        ttnn="ttnn.argmax",
        call=lambda c: c.ttnn.argmax(c.inputs[0], dim=c.attrs["dim"], keepdim=c.attrs["keepdim"], **c.out),
        torch=aten("argmax"),
        infer=_infer_argmax,
        attrs={"dim": Attr("int|none", None), "keepdim": KEEPDIM},
        sample=lambda shape: _sample(shape, dim=-1, keepdim=True),
        dims=KEPT_DIMS,
        traits=Traits(temporaries=True, output_dtypes=(DType.UINT32,), output_layout=Layout.ROW_MAJOR),
        limitations=(
            Limitation("ttnn.argmax takes neither block floats nor uint8", dtypes=(*BLOCK_FLOATS, DType.UINT8)),
            Limitation("ttnn.argmax takes integers in row-major layout only", layouts=(Layout.TILE,), dtypes=INTEGERS),
            Limitation("ttnn.argmax takes integers along the last dim only", dtypes=INTEGERS, when=_is_inner),
            Limitation(
                "ttnn.argmax over all dims wants row-major layout",
                layouts=(Layout.TILE,),
                when=lambda shapes, attrs: attrs["dim"] is None,
            ),
        ),
    ),
    OperatorInfo(
        names=("cumsum",),
        aten=("aten.cumsum.default",),
        operands=("self",),
        ttnn="ttnn.cumsum",
        call=lambda c: c.ttnn.cumsum(c.inputs[0], dim=c.attrs["dim"], **c.out),
        torch=lambda t, tensors, a: t.cumsum(tensors[0], a["dim"]),
        infer=_infer_along,
        attrs={"dim": Attr("int"), "dtype": IGNORED_DTYPE},
        sample=lambda shape: _sample(shape, dim=-1),
        dims=OTHER_DIMS,
        traits=Traits(temporaries=True),
        limitations=(Limitation("ttnn.cumsum takes tile layout only", layouts=TILE_ONLY),),
    ),
)
