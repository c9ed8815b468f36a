"""Which dims of a call's operands and results are one and the same, so that the call can be made piece by piece.

An axis is a number; a dim that has it is ``(axis, step)``: it grows by ``step`` for each unit of the axis. A softmax over the
last dim of [8, 64, 128] has axes of 8 and 64 units, and its last dim has none that may be cut. A view of [6, 32, 10] as
[4, 480] has one axis of gcd(6, 4) = 2 units: 3 rows of the operand make 2 of the result. Imports neither torch nor ttnn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ssinghal.core.case import Case
from ssinghal.core.tensors import Shape
from ssinghal.operators import families, find_operator
from ssinghal.operators.operator_info import Attrs, OperatorInfo, normal_dim, normal_dims, working_shapes

Dim = tuple[int, int] | None
Dims = tuple[Dim, ...]
Sizes = Mapping[int, int]


def _unchanged(attrs: Attrs, units: Sizes) -> Attrs:
    return attrs


@dataclass(frozen=True)
class Axes:
    """``units``: sizes of the axes, all above 1. ``written``: dims of the case's inputs, as its operator speaks of them.
    ``placed`` and ``results``: dims of the tensors on the device; none for an operand that stays whole. ``attrs_for``: the
    call's attributes where axes have other sizes."""

    units: Sizes
    written: tuple[Dims, ...]
    placed: tuple[Dims, ...]
    results: tuple[Dims, ...]
    attrs_for: Callable[[Attrs, Sizes], Attrs] = _unchanged

    def case_of(self, case: Case, units: Sizes) -> Case:
        """``case`` with other sizes of its axes."""
        sizes = {**self.units, **units}
        inputs = tuple(
            tuple(n if dim is None or dim[0] not in units else dim[1] * sizes[dim[0]] for n, dim in zip(s, dims, strict=True))
            for s, dims in zip(case.inputs, self.written, strict=True)
        )
        return replace(case, inputs=inputs, attrs=self.attrs_for(case.attrs, sizes))


def as_placed(case: Case) -> Case:
    """The same call with its inputs written in the order that they are placed in."""
    info = find_operator(case.operator)
    if info.traits.nhwc or not case.placement.channels_last:
        return case
    return replace(case, inputs=tuple(working_shapes(info, case)), placement=replace(case.placement, channels_last=False))


def axes_of(case: Case, attrs: Attrs) -> Axes | None:
    """The axes of a case whose inputs are written as they are placed; None where it is not known how to cut its operator.

    ``attrs`` are the completed ones. The case must be one that can be made.
    """
    info = find_operator(case.operator)
    results = info.infer(working_shapes(info, case), attrs)
    finder = _FINDERS.get(info.name) or (_elementwise if _works_by_element(info) else None)
    return finder(_PlacedCall(info, case, attrs, results)) if finder else None


def _works_by_element(info: OperatorInfo) -> bool:
    """A dropout's pieces would draw other random numbers."""
    return info in families()["elementwise"] and info.name != "dropout"


@dataclass(frozen=True)
class _PlacedCall:
    info: OperatorInfo
    case: Case
    attrs: Attrs
    results: Sequence[Shape]

    @property
    def inputs(self) -> Sequence[Shape]:
        return self.case.inputs

    def axes(self, inputs: Sequence[Dims], results: Sequence[Dims], units: Sizes, **rest: Any) -> Axes | None:
        """None without an axis of at least two units."""
        units = {axis: n for axis, n in units.items() if n > 1}
        if not units:
            return None

        def known(several: Iterable[Dims]) -> tuple[Dims, ...]:
            return tuple(tuple(d if d is not None and d[0] in units else None for d in dims) for dims in several)

        return Axes(units, known(inputs), known(rest.pop("placed", inputs)), known(results), **rest)


def _along(rank: int, *, but: Sequence[int] = ()) -> Dims:
    return tuple(None if d in but else (d, 1) for d in range(rank))


def _units(shape: Shape, dims: Dims) -> dict[int, int]:
    return {dim[0]: size // dim[1] for size, dim in zip(shape, dims, strict=True) if dim is not None}


def _elementwise(call: _PlacedCall) -> Axes | None:
    """Trailing dims go together; one of size 1 is broadcast, so it stays whole."""
    result = call.results[0]
    out = _along(len(result))
    dims = []
    for shape in call.inputs:
        trailing = out[len(out) - len(shape) :]
        dims.append(
            tuple(d if d is not None and size == result[d[0]] else None for size, d in zip(shape, trailing, strict=True))
        )
    return call.axes(dims, [out], _units(result, out))


def _keeping(*names: str) -> Callable[[_PlacedCall], Axes | None]:
    """Operators that work along the dims of an attribute and keep the shape: every other dim can be cut."""

    def find(call: _PlacedCall) -> Axes | None:
        shape = call.inputs[0]
        worked = [d for name in names for d in normal_dims(call.attrs[name], len(shape))]
        dims = _along(len(shape), but=worked)
        return call.axes([dims], [dims] * len(call.results), _units(shape, dims))

    return find


def _reducing(call: _PlacedCall) -> Axes | None:
    """Dims that are not reduced, of which the result has those alone, or with the others as 1."""
    shape = call.inputs[0]
    reduced = normal_dims(call.attrs["dim"], len(shape))
    dims = _along(len(shape), but=reduced)
    kept = tuple(d for d in dims if d is not None)
    outs = [dims if len(out) == len(shape) else kept if len(out) == len(kept) else None for out in call.results]
    if any(out is None for out in outs):
        return None
    return call.axes([dims], [out for out in outs if out is not None], _units(shape, dims))


def _normalized(call: _PlacedCall) -> Axes | None:
    """Layer and rms norms work along the trailing dims; their weights stay whole."""
    shape = call.inputs[0]
    worked = range(len(shape) - len(call.attrs["normalized_shape"]), len(shape))
    dims = _along(len(shape), but=worked)
    whole = [(None,) * len(s) for s in call.inputs[1:]]
    return call.axes([dims, *whole], [dims], _units(shape, dims), placed=(dims, *(() for _ in whole)))


def _batch_norm(call: _PlacedCall) -> Axes | None:
    """With given statistics every element is by itself; those of training are over all but the channels."""
    shape = call.inputs[0]
    if len(shape) != 4:
        return None
    dims = _along(4, but=(0, 2, 3) if call.attrs["training"] else ())
    stats: Dims = ((1, 1),)
    written = [dims, *[stats] * (len(call.inputs) - 1)]
    placed = (dims, *[(None, (1, 1), None, None)] * (len(call.inputs) - 1))
    return call.axes(written, [dims] * len(call.results), _units(shape, dims), placed=placed)


def _permuted(call: _PlacedCall) -> Axes | None:
    shape = call.inputs[0]
    rank = len(shape)
    if call.info.name == "permute":
        order = [normal_dim(d, rank) for d in call.attrs["dims"]]
    elif call.info.name == "t":
        order = list(reversed(range(rank)))
    else:
        order = list(range(rank))
        a, b = normal_dim(call.attrs["dim0"], rank), normal_dim(call.attrs["dim1"], rank)
        order[a], order[b] = order[b], order[a]
    dims = _along(rank)
    return call.axes([dims], [tuple(dims[d] for d in order)], _units(shape, dims))


def _first(shape: Shape) -> int:
    """The outermost dim that has more than one element: cutting along it leaves whole stretches of memory."""
    return next((d for d, size in enumerate(shape) if size > 1), 0)


def _reshaped(call: _PlacedCall) -> Axes | None:
    """A stretch of the operand's elements is one of the result's, where both outermost dims are cut at the same share."""
    shape, out = call.inputs[0], call.results[0]
    i, j = _first(shape), _first(out)
    units = math.gcd(shape[i], out[j])
    given: Dims = tuple((0, shape[i] // units) if d == i else None for d in range(len(shape)))
    made: Dims = tuple((0, out[j] // units) if d == j else None for d in range(len(out)))

    def attrs_for(attrs: Attrs, sizes: Sizes) -> Attrs:
        name = "size" if attrs.get("size") is not None else "shape"
        if attrs.get(name) is None:
            return attrs
        return {**attrs, name: [size if d != j else out[j] // units * sizes[0] for d, size in enumerate(out)]}

    return call.axes([given], [made], {0: units}, attrs_for=attrs_for)


def _expanded(call: _PlacedCall) -> Axes | None:
    """Dims that exist already are cut in both; new ones and those of size 1 only in the result, by asking for less."""
    shape, out = call.inputs[0], call.results[0]
    made = _along(len(out))
    trailing = made[len(out) - len(shape) :]
    given = tuple(d if d is not None and size == out[d[0]] else None for size, d in zip(shape, trailing, strict=True))

    def attrs_for(attrs: Attrs, sizes: Sizes) -> Attrs:
        return {**attrs, "size": [sizes.get(d, size) for d, size in enumerate(out)]}

    return call.axes([given], [made], _units(out, made), attrs_for=attrs_for)


def _concatenated(call: _PlacedCall) -> Axes | None:
    rank = len(call.inputs[0])
    dims = _along(rank, but=(normal_dim(call.attrs["dim"], rank),))
    return call.axes([dims] * len(call.inputs), [dims], _units(call.inputs[0], dims))


def _stacked(call: _PlacedCall) -> Axes | None:
    rank = len(call.inputs[0])
    new = normal_dim(call.attrs["dim"], rank + 1)
    dims = _along(rank)
    return call.axes([dims] * len(call.inputs), [(*dims[:new], None, *dims[new:])], _units(call.inputs[0], dims))


def _picked(call: _PlacedCall) -> Axes | None:
    """``select`` and ``unbind``: the dim is gone from the results."""
    rank = len(call.inputs[0])
    dim = normal_dim(call.attrs["dim"], rank)
    dims = _along(rank, but=(dim,))
    return call.axes([dims], [(*dims[:dim], *dims[dim + 1 :])] * len(call.results), _units(call.inputs[0], dims))


def _unsqueezed(call: _PlacedCall) -> Axes | None:
    rank = len(call.inputs[0])
    new = normal_dim(call.attrs["dim"], rank + 1)
    dims = _along(rank)
    return call.axes([dims], [(*dims[:new], None, *dims[new:])], _units(call.inputs[0], dims))


def _padded(call: _PlacedCall) -> Axes | None:
    """Dims whose size stays are not padded."""
    shape, out = call.inputs[0], call.results[0]
    dims = _along(len(shape), but=[d for d in range(len(shape)) if shape[d] != out[d]])
    return call.axes([dims], [dims], _units(shape, dims))


def _repeated(call: _PlacedCall) -> Axes | None:
    shape, out = call.inputs[0], call.results[0]
    new = len(out) - len(shape)
    dims = _along(len(shape), but=[d for d in range(len(shape)) if shape[d] != out[new + d]])
    return call.axes([dims], [((None,) * new) + dims], _units(shape, dims))


def _multiplied(call: _PlacedCall) -> Axes | None:
    """Rows of the first matrix and columns of the second make the result's; batches where both have them. What is added has the
    trailing dims of the result: a bias of one dim, which is placed as a row, its columns."""
    *added, a, b = call.inputs
    out = call.results[0]
    rank = len(out)
    if len(a) != rank or len(b) != rank or rank < 2:
        return None
    batches = tuple((d, 1) if a[d] == b[d] else None for d in range(rank - 2))
    made: Dims = (*batches, (rank - 2, 1), (rank - 1, 1))
    first, second = (*batches, made[-2], None), (*batches, None, made[-1])
    also = [tuple(d if s == out[i] else None for i, (s, d) in enumerate(_trailing(x, made), rank - len(x))) for x in added]
    placed = tuple(dims if len(dims) > 1 else (None, *dims) for dims in (*also, first, second))
    return call.axes([*also, first, second], [made], _units(out, made), placed=placed)


def _trailing(shape: Shape, dims: Dims) -> Iterator[tuple[int, Dim]]:
    return zip(shape, dims[len(dims) - len(shape) :], strict=True)


def _linear(call: _PlacedCall) -> Axes | None:
    """Rows of the input; the weight stays whole."""
    shape = call.inputs[0]
    dims = _along(len(shape), but=(len(shape) - 1,))
    whole = [(None,) * len(s) for s in call.inputs[1:]]
    return call.axes([dims, *whole], [dims], _units(shape, dims), placed=(dims, *(() for _ in whole)))


def _channels_of_map(call: _PlacedCall) -> Axes | None:
    """Pools: images and channels are by themselves. On the device the map is one matrix, [1, 1, N*H*W, C]."""
    n, c, h, w = call.inputs[0]
    oh, ow = call.results[0][2:]
    written: Dims = ((0, 1), (1, 1), None, None)
    placed, made = (None, None, (0, h * w), (1, 1)), (None, None, (0, oh * ow), (1, 1))
    return call.axes([written], [made], {0: n, 1: c}, placed=(placed,))


def _upsampled(call: _PlacedCall) -> Axes | None:
    """Images and channels are by themselves; of the nearest element so are rows. On the device: [N, H, W, C]."""
    n, c, h, _ = call.inputs[0]
    oh = call.results[0][2]
    by_rows = call.info.name == "upsample_nearest2d" and oh % h == 0
    written: Dims = ((0, 1), (1, 1), (2, 1) if by_rows else None, None)
    placed: Dims = ((0, 1), (2, 1) if by_rows else None, None, (1, 1))
    made: Dims = ((0, 1), (2, oh // h) if by_rows else None, None, (1, 1))

    def attrs_for(attrs: Attrs, sizes: Sizes) -> Attrs:
        given = attrs.get("output_size")
        return attrs if given is None or 2 not in sizes else {**attrs, "output_size": [oh // h * sizes[2], given[1]]}

    return call.axes([written], [made], {0: n, 1: c, 2: h} if by_rows else {0: n, 1: c}, placed=(placed,), attrs_for=attrs_for)


def _embedded(call: _PlacedCall) -> Axes | None:
    """Each index picks a row of the weight, so its columns can be cut. On the device indices and result are folded."""
    weight, indices = call.inputs
    columns: Dims = (None, (0, 1))
    made: Dims = (*(None for _ in range(len(call.results[0]) - 1)), (0, 1))
    return call.axes([columns, (None,) * len(indices)], [made], {0: weight[1]}, placed=(columns, ()))


def _squeezed(call: _PlacedCall) -> Axes | None:
    """Dims that the call does not name, else a piece of one element would lose them."""
    shape = call.inputs[0]
    dims = _along(len(shape), but=normal_dims(call.attrs["dim"], len(shape)))
    kept = tuple(d for d, size in zip(dims, shape, strict=True) if d is not None or size > 1)
    return call.axes([dims], [kept], _units(shape, dims)) if len(kept) == len(call.results[0]) else None


def _unwidened(call: _PlacedCall) -> Axes | None:
    dims = _along(len(call.inputs[0]))
    return call.axes([dims], [dims], _units(call.inputs[0], dims))


_FINDERS: dict[str, Callable[[_PlacedCall], Axes | None]] = {
    **dict.fromkeys(("softmax", "topk", "cumsum", "split", "chunk", "slice", "repeat_interleave"), _keeping("dim")),
    "roll": _keeping("dims"),
    **dict.fromkeys(("mean", "sum", "amax", "amin", "max", "min", "prod", "linalg_vector_norm", "argmax"), _reducing),
    **dict.fromkeys(("native_layer_norm", "rms_norm"), _normalized),
    "native_batch_norm": _batch_norm,
    **dict.fromkeys(("permute", "transpose", "t"), _permuted),
    **dict.fromkeys(("view", "flatten", "unflatten"), _reshaped),
    "unsqueeze": _unsqueezed,
    "squeeze": _squeezed,
    "expand": _expanded,
    "cat": _concatenated,
    "stack": _stacked,
    **dict.fromkeys(("select", "unbind"), _picked),
    **dict.fromkeys(("constant_pad_nd", "replication_pad2d", "replication_pad3d"), _padded),
    "repeat": _repeated,
    **dict.fromkeys(("mm", "bmm", "matmul", "addmm"), _multiplied),
    "linear": _linear,
    **dict.fromkeys(("max_pool2d", "avg_pool2d"), _channels_of_map),
    **dict.fromkeys(("upsample_nearest2d", "upsample_bilinear2d"), _upsampled),
    "embedding": _embedded,
    **dict.fromkeys(("to_layout", "tilize", "untilize"), _unwidened),
}
