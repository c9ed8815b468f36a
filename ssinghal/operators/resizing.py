"""A call at another size: which dims of its operands, and which sizes in its attributes, grow together.

Dims are those of the call's subject as it is written: the first operand; of elementwise calls the shape that all operands are
broadcast to; of a creation its size. Imports neither torch nor ttnn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ssinghal.core.case import Case
from ssinghal.core.tensors import Shape
from ssinghal.errors import InvalidCase
from ssinghal.operators import families, find_operator
from ssinghal.operators.operator_info import Attrs, broadcast, normal_dim, normal_dims, working_shapes

Sizes = Mapping[int, int]  # of the subject, by dim
Follow = Callable[[Sequence[Shape], int], "Iterator[tuple[int, int]]"]


def subject_of(case: Case) -> Shape:
    """The shape that is to grow. InvalidCase where nothing is known to grow in calls of the operator."""
    tie = _tie_of(case)
    if tie.creates:
        return tuple(case.attrs["size"])
    if tie.follow is _broadcast:
        return broadcast(case.inputs, case.attrs)[0]
    return case.inputs[tie.subject]


def spatial_dims(case: Case) -> tuple[int, int]:
    """Height and width of maps; of as-written maps that TTNN takes channels-last they are dims 1 and 2.

    InvalidCase where the subject is no map.
    """
    shape, rank = subject_of(case), len(subject_of(case))
    if rank not in (4, 5) or find_operator(case.name) in families()["matmul"]:
        raise InvalidCase(f"{case.name}: {list(shape)} is no map of rank 4 or 5; --dim H,W says which dims to take for one")
    as_nhwc = rank == 4 and find_operator(case.name).traits.nhwc and case.placement.channels_last is False
    return (1, 2) if as_nhwc else (rank - 2, rank - 1)


def resized(case: Case, sizes: Sizes) -> Case:
    """``case`` with other sizes of some dims of its subject, and of all that goes with them.

    Raises:
        InvalidCase: an attribute holds a size that does not follow, or the call cannot be made so.
    """
    tie, subject = _tie_of(case), subject_of(case)
    grown = {dim: size for dim, size in sizes.items() if size != subject[dim]}
    inputs = [list(shape) for shape in case.inputs]
    for dim, size in grown.items():
        for operand, place in () if tie.creates else tie.follow(case.inputs, dim):
            inputs[operand][place] = size
    attrs = tie.attrs(_GrowingCall(case, subject), grown) if grown and tie.attrs else case.attrs
    made = replace(case, inputs=tuple(map(tuple, inputs)), attrs=attrs, sources=(), known_oom=None, listed_shape=None)
    check(made)
    return made


def check(case: Case) -> None:
    """InvalidCase where the call cannot be made: operands or attributes that are missing or do not go together."""
    info = find_operator(case.name)
    info.check_operands(case.inputs)
    info.infer(working_shapes(info, case), info.complete_attrs(case.attrs))


@dataclass(frozen=True)
class _GrowingCall:
    """A call before it grows."""

    case: Case
    subject: Shape

    @property
    def attrs(self) -> Attrs:
        return self.case.attrs

    def placed(self, dim: int) -> int:
        """The number under which attributes know a dim of the subject: those of maps speak of them as placed."""
        turned = self.case.placement.channels_last and len(self.subject) == 4
        return (0, 3, 1, 2)[dim] if turned and not find_operator(self.case.name).traits.nhwc else dim

    def no(self, dim: int, why: str) -> InvalidCase:
        return InvalidCase(f"{self.case.name}: dim {dim} cannot grow, {why}")


AttrsFor = Callable[[_GrowingCall, Sizes], Attrs]


@dataclass(frozen=True)
class _ResizeRule:
    """``follow``: the (operand, dim) that have the size of the subject's dim. ``subject``: which operand is it. ``attrs``: the
    attributes where dims have other sizes; None where none holds a size. ``creates``: the subject is the attribute size."""

    follow: Follow
    attrs: AttrsFor | None = None
    subject: int = 0
    creates: bool = False


# Operands ------------------------------------------------------------------------------------------------------------------


def _first(inputs: Sequence[Shape], dim: int) -> Iterator[tuple[int, int]]:
    """The others are weights and the like."""
    yield 0, dim


def _broadcast(inputs: Sequence[Shape], dim: int) -> Iterator[tuple[int, int]]:
    """Trailing dims go together; those that are broadcast stay."""
    result = broadcast(inputs, {})[0]
    for operand, shape in enumerate(inputs):
        place = dim - (len(result) - len(shape))
        if place >= 0 and shape[place] == result[dim]:
            yield operand, place


def _alike(inputs: Sequence[Shape], dim: int) -> Iterator[tuple[int, int]]:
    for operand, shape in enumerate(inputs):
        if len(shape) == len(inputs[0]) and shape[dim] == inputs[0][dim]:
            yield operand, dim


def _multiplied(inputs: Sequence[Shape], dim: int) -> Iterator[tuple[int, int]]:
    """Of the first matrices: batches that the second have too, rows that what is added has too, columns that are the rows of
    the second."""
    *added, a, b = inputs
    rank, at = len(a), len(added)
    yield at, dim
    if dim == rank - 1:
        yield at + 1, max(len(b) - 2, 0)
    place = dim - (rank - len(b))
    if dim < rank - 2 and place >= 0 and b[place] == a[dim]:
        yield at + 1, place
    for operand, shape in enumerate(added):
        if dim == rank - 2 and len(shape) == rank and shape[dim] == a[dim]:
            yield operand, dim


def _attending(inputs: Sequence[Shape], dim: int) -> Iterator[tuple[int, int]]:
    """Of the query: keys and values of the same size are of the same sequence, and a mask has it on either side."""
    query, *rest = inputs
    rank = len(query)
    yield 0, dim
    for operand, shape in enumerate(rest[:2], 1):
        if len(shape) == rank and shape[dim] == query[dim]:
            yield operand, dim
    if len(rest) > 2 and dim < rank - 1:
        mask, itself = rest[2], len(rest[0]) == rank and rest[0][-2] == query[-2]
        place = dim - (rank - len(mask))
        if place >= 0 and mask[place] == query[dim]:
            yield 3, place
        if dim == rank - 2 and itself and mask[-1] == query[dim]:
            yield 3, len(mask) - 1


def _sampled(inputs: Sequence[Shape], dim: int) -> Iterator[tuple[int, int]]:
    """A grid [N, H, W, 2] has the batch of the maps; as many points as pixels stay as many."""
    image, grid = inputs
    yield 0, dim
    place = {0: 0, 2: 1, 3: 2}.get(dim)
    if place is not None and grid[place] == image[dim]:
        yield 1, place


def _indexed(inputs: Sequence[Shape], dim: int) -> Iterator[tuple[int, int]]:
    yield 1, dim


# Attributes ----------------------------------------------------------------------------------------------------------------


def _scaled(call: _GrowingCall, dim: int, given: int, size: int) -> int:
    """A size that is to its dim what it was before."""
    if given * size % call.subject[dim]:
        raise call.no(dim, f"{given} for {call.subject[dim]} would be no whole number for {size}")
    return given * size // call.subject[dim]


def _viewed(call: _GrowingCall, sizes: Sizes) -> Attrs:
    """The outermost size follows the outermost dim; -1 follows by itself."""
    name = "size" if call.attrs.get("size") is not None else "shape"
    size = list(call.attrs[name])
    for dim, to in sizes.items():
        if dim == 0 and size[0] != -1:
            size[0] = _scaled(call, 0, size[0], to)
        elif dim and -1 not in size:
            raise call.no(dim, f"the {name} {size} that it asks for does not follow")
    return {**call.attrs, name: size}


def _expanded(call: _GrowingCall, sizes: Sizes) -> Attrs:
    size = list(call.attrs["size"])
    for dim, to in sizes.items():
        place = call.placed(dim) + len(size) - len(call.subject)
        if size[place] not in (-1, call.subject[dim]):
            raise call.no(dim, f"it is expanded to {size[place]}")
        size[place] = to if size[place] != -1 else -1
    return {**call.attrs, "size": size}


def _upsampled(call: _GrowingCall, sizes: Sizes) -> Attrs:
    given = call.attrs.get("output_size")
    first = spatial_dims(call.case)[0] - (len(given) - 2 if given else 0)
    made = list(given or ())
    for dim, to in sizes.items():
        if given and 0 <= dim - first < len(made):
            made[dim - first] = _scaled(call, dim, made[dim - first], to)
    return {**call.attrs, "output_size": made} if given else call.attrs


def _as_nchw(call: _GrowingCall, sizes: Sizes) -> Attrs:
    for dim in sizes:
        if dim and call.case.placement.channels_last is False:
            raise call.no(dim, "a grid is known to follow maps that are written NCHW alone")
    return call.attrs


def _grouped(call: _GrowingCall, sizes: Sizes) -> Attrs:
    whole = [sizes.get(dim, size) for dim, size in enumerate(call.subject)]
    counts = {"N": whole[0], "HxW": math.prod(whole[2:])}
    return {**call.attrs, **{name: n for name, n in counts.items() if call.attrs.get(name) is not None}}


def _sized(call: _GrowingCall, sizes: Sizes) -> Attrs:
    return {**call.attrs, "size": [sizes.get(dim, size) for dim, size in enumerate(call.subject)]}


def _not_along(what: str) -> AttrsFor:
    """The operator does something along the dim of its attribute that has no meaning at another size."""

    def attrs(call: _GrowingCall, sizes: Sizes) -> Attrs:
        along = normal_dim(call.attrs.get("dim", 0), len(call.subject))
        for dim in sizes:
            if call.placed(dim) == along:
                raise call.no(dim, what)
        return call.attrs

    return attrs


def _sliced(call: _GrowingCall, sizes: Sizes) -> Attrs:
    """What is taken to the end is still taken to the end; a part of fixed size does not follow."""
    along, end = normal_dim(call.attrs.get("dim", 0), len(call.subject)), call.attrs.get("end")
    for dim, to in sizes.items():
        if call.placed(dim) == along and end is not None:
            if end < call.subject[dim]:
                raise call.no(dim, f"a part that ends at {end} is taken of it")
            end = max(end, to) if end > call.subject[dim] else to
    return {**call.attrs, "end": end} if "end" in call.attrs else call.attrs


def _squeezed(call: _GrowingCall, sizes: Sizes) -> Attrs:
    gone = normal_dims(call.attrs.get("dim"), len(call.subject))
    for dim in sizes:
        if call.subject[dim] == 1 and call.placed(dim) in gone:
            raise call.no(dim, "it is squeezed away")
    return call.attrs


_ONLY_FIRST = (
    "argmax t permute movedim transpose to_layout tilize untilize flatten unflatten unsqueeze chunk select repeat "
    "repeat_interleave roll constant_pad_nd replication_pad2d replication_pad3d mean sum amax amin max min prod "
    "linalg_vector_norm softmax topk cumsum max_pool2d avg_pool2d adaptive_avg_pool2d adaptive_avg_pool1d "
    "adaptive_max_pool2d adaptive_max_pool1d native_batch_norm native_layer_norm rms_norm convolution conv_transpose2d "
    "linear ones_like zeros_like full_like"
)
_UPSAMPLINGS = ("upsample_nearest2d", "upsample_bilinear2d", "upsample_nearest3d")
_TIES: Mapping[str, _ResizeRule] = {
    **dict.fromkeys(_ONLY_FIRST.split(), _ResizeRule(_first)),
    **dict.fromkeys(_UPSAMPLINGS, _ResizeRule(_first, _upsampled)),
    **dict.fromkeys(("mm", "bmm", "matmul"), _ResizeRule(_multiplied)),
    "addmm": _ResizeRule(_multiplied, subject=1),
    "scaled_dot_product_attention": _ResizeRule(_attending),
    "view": _ResizeRule(_first, _viewed),
    "expand": _ResizeRule(_first, _expanded),
    "native_group_norm": _ResizeRule(_first, _grouped),
    "grid_sampler": _ResizeRule(_sampled, _as_nchw),
    "embedding": _ResizeRule(_indexed, subject=1),
    **dict.fromkeys(("stack", "place"), _ResizeRule(_alike)),
    **dict.fromkeys(("cat", "gather"), _ResizeRule(_alike, _not_along("operands differ along it"))),
    **dict.fromkeys(("split", "unbind"), _ResizeRule(_first, _not_along("it is cut along it"))),
    "slice": _ResizeRule(_first, _sliced),
    "squeeze": _ResizeRule(_first, _squeezed),
    **dict.fromkeys(("ones", "zeros", "full", "new_ones", "new_zeros", "new_full"), _ResizeRule(_first, _sized, creates=True)),
}


def _tie_of(case: Case) -> _ResizeRule:
    info = find_operator(case.name)
    if info in families()["elementwise"]:
        return _ResizeRule(_broadcast)
    if info.name not in _TIES:
        raise InvalidCase(f"{case.name}: it is not known what grows together in its calls")
    return _TIES[info.name]
