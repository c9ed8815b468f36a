"""The parameters of a call that a search varies, and their values: batch, resolution, sequence, slices, L1_SMALL.

A parameter is a pure function from a value to a case. Its values are in the order of growing demand, so the values of a
parameter whose smallest is searched for go down.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ssinghal.core.case import DEFAULT_L1_SMALL_BYTES, Case
from ssinghal.core.tensors import TILE_EDGE, Board, Shape, ShardKind, TextEnum, format_bytes, format_shape
from ssinghal.errors import InvalidCase
from ssinghal.operators import find_operator, named
from ssinghal.operators.binding import bind
from ssinghal.operators.operator_info import normal_dim
from ssinghal.operators.resizing import check, resized, spatial_dims, subject_of

MAX_COUNT = 2**20  # default for a batch, a sequence and the rows of a map
MAX_SLICES = 256
MAX_L1_SMALL_BYTES = 2 * DEFAULT_L1_SMALL_BYTES
MIN_STEPS = 8  # up to the size as given; a lattice with fewer is too coarse


class Goal(TextEnum):
    """What a search looks for: the largest of the first three, the smallest of the others."""

    BATCH = "batch"
    RESOLUTION = "resolution"
    SEQUENCE = "sequence"
    SLICES = "slices"
    L1_SMALL = "l1_small"

    @property
    def is_smallest(self) -> bool:
        return self in (Goal.SLICES, Goal.L1_SMALL)


LARGEST = tuple(goal for goal in Goal if not goal.is_smallest)
SMALLEST = tuple(goal for goal in Goal if goal.is_smallest)


@dataclass(frozen=True)
class Bounds:
    """Limits what is varied: ``dims`` counted from the front or the back, ``step`` between values, ``upto`` the largest value
    (the height of a resolution). None: as the call suggests."""

    dims: tuple[int, ...] = ()
    step: int | None = None
    upto: int | None = None


@dataclass(frozen=True)
class SearchParameter:
    """``values``: in the order of growing demand. ``start``: index of the value to run first, that of the call as given if
    possible. ``case_of``: the call at a value. ``value_text``: a value as printed. ``description``: what is varied and how."""

    goal: Goal
    values: range
    start: int
    case_of: Callable[[int], Case]
    value_text: Callable[[int], str]
    description: str

    @property
    def favoured(self) -> range:
        """Indices of the values that fill complete tiles; empty if all do."""
        if self.goal.is_smallest:
            return range(0)
        full = [n for n in range(min(len(self.values), TILE_EDGE)) if self.values[n] % TILE_EDGE == 0]
        period = TILE_EDGE // math.gcd(self.values.step, TILE_EDGE)
        return range(full[0], len(self.values), period) if full and period > 1 else range(0)


def parameter_of(goal: Goal, case: Case, board: Board, bounds: Bounds = Bounds()) -> SearchParameter:
    """Returns the parameter of ``case`` that ``goal`` varies.

    Raises:
        InvalidCase: the call is invalid as it is, has no such parameter, or holds it at a fixed size.
    """
    check(case)
    if bounds.dims and goal.is_smallest:
        raise InvalidCase(f"--dim is for a batch, a resolution or a sequence; {goal} has no dims")
    if not case.placement.is_plain:
        _check_shards(goal, case, board)
    return _PARAMETERS[goal](case, board, bounds)


def _check_shards(goal: Goal, case: Case, board: Board) -> None:
    """Raises InvalidCase for shards of a fixed size where the tensors' sizes vary, and for cores that the board lacks."""
    placement = case.placement
    requests = [placement.request, *(operand.memory for operand in placement.operands if operand.memory is not None)]
    for sharding in (*(request.sharding for request in requests), placement.output_sharding):
        if sharding is not None and sharding.shape is not None and not goal.is_smallest:
            chosen = "" if sharding.kind is ShardKind.ND else f"; {replace(sharding, shape=None)} has one chosen for each size"
            raise InvalidCase(f"{goal}: the shape of the shards {sharding} is fixed{chosen}")
    bind(case, board).specs()


# One size -------------------------------------------------------------------------------------------------------------------


def _batch(case: Case, board: Board, bounds: Bounds) -> SearchParameter:
    return _counted(Goal.BATCH, case, board, _dims(case, bounds, 1, (0,)), bounds)


def _sequence(case: Case, board: Board, bounds: Bounds) -> SearchParameter:
    return _counted(Goal.SEQUENCE, case, board, _dims(case, bounds, None, _sequence_dims(case)), bounds)


EMBEDDING, SOFTMAX, ATTENTION = named("embedding softmax scaled_dot_product_attention")
PRODUCTS = named("matmul bmm")


def _sequence_dims(case: Case) -> tuple[int, ...]:
    """Returns the last dim but one; of scores, which have the sequence twice, the last two; of indices and vectors the last."""
    shape = subject_of(case)
    name, rank = find_operator(case.name).name, len(shape)
    if rank == 1 or name == EMBEDDING:
        return (rank - 1,)
    is_scores = shape[-1] == shape[-2] and (rank >= 4 or name == SOFTMAX)
    if name in PRODUCTS:
        return tuple(d for d in (rank - 2, rank - 1) if d == rank - 2 or is_scores)
    return (rank - 2, rank - 1) if is_scores and name != ATTENTION else (rank - 2,)


def _dims(case: Case, bounds: Bounds, count: int | None, usual: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the requested dims, else the usual ones. InvalidCase unless there are ``count`` of them, all of one size."""
    shape = subject_of(case)
    dims = tuple(dict.fromkeys(normal_dim(d, len(shape)) for d in bounds.dims)) or usual
    if count is not None and len(dims) != count:
        raise InvalidCase(f"--dim: expected {count}, got {len(dims)}")
    if count != 2 and len({shape[d] for d in dims}) > 1:
        raise InvalidCase(f"--dim: the dims {', '.join(map(str, dims))} of {format_shape(shape)} differ in size")
    return dims


def _counted(goal: Goal, case: Case, board: Board, dims: tuple[int, ...], bounds: Bounds) -> SearchParameter:
    size = subject_of(case)[dims[0]]

    def case_of(value: int) -> Case:
        return resized(case, dict.fromkeys(dims, value))

    unit = TILE_EDGE if goal is Goal.SEQUENCE else 1
    steps = [bounds.step] if bounds.step else _divisors(size, at_least=math.gcd(size, unit))
    step = _first_valid_step(case_of, steps, size, board)
    values = _possible(range(step, _upto(bounds, MAX_COUNT, step) + 1, step), case_of)
    names = f"dim {dims[0]}" if len(dims) == 1 else f"dims {' and '.join(map(str, dims))}"
    description = f"{names} of {format_shape(subject_of(case))}" + (f" in steps of {step}" if step > 1 else "")
    return SearchParameter(goal, values, _nearest(values, size), case_of, "{:,}".format, description)


def _divisors(number: int, at_least: int = 1) -> list[int]:
    """Returns the multiples of ``at_least`` that divide ``number``."""
    return [n for n in range(at_least, number + 1, at_least) if number % n == 0]


def _first_valid_step(case_of: Callable[[int], Case], steps: Sequence[int], size: int, board: Board) -> int:
    """Returns the first step by which the call can grow, in equal parts on all chips where an operand is cut over them.
    InvalidCase with the reason of the last one if there is none."""
    for step in steps:
        try:
            _ = bind(case_of(size + step if size % step == 0 else step * (size // step + 1)), board).on_chip
        except InvalidCase as error:
            why = error
            continue
        return step
    raise why


def _possible(values: range, case_of: Callable[[int], Case]) -> range:
    """Drops the first values if they are too small for the call, such as maps smaller than a window. InvalidCase if all are."""

    def is_valid(index: int) -> bool:
        try:
            case_of(values[index])
        except InvalidCase:
            return False
        return True

    if not values:
        raise InvalidCase("--upto is below the first possible value")
    low, high = -1, 0
    while not is_valid(high):
        if high == len(values) - 1:
            case_of(values[high])
        low, high = high, min(2 * high + 1, len(values) - 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_valid(middle) else (middle, high)
    return values[high:]


def _nearest(values: range, value: int) -> int:
    """Returns the index of the last value up to ``value``, 0 if there is none."""
    return max(min((value - values[0]) // values.step, len(values) - 1), 0)


def _upto(bounds: Bounds, usual: int, step: int) -> int:
    if bounds.upto is not None and bounds.upto < step:
        raise InvalidCase(f"--upto {bounds.upto}: the first value is {step}")
    return usual if bounds.upto is None else bounds.upto


# Two sizes ------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Lattice:
    """Maps of one aspect ratio, whose heights are multiples of ``unit``. If height and width have too small a common divisor,
    the lattice is not ``exact``: the width is the nearest multiple of ``grain``."""

    height: int
    width: int
    grain: int
    exact: bool

    @property
    def unit(self) -> int:
        """Number of rows by which the height grows."""
        return self.grain * self.height // math.gcd(self.height, self.width) if self.exact else self.grain

    def width_at(self, height: int) -> int:
        if self.exact:
            return height * self.width // self.height
        return max(round(height * self.width / self.height / self.grain), 1) * self.grain


def _resolution(case: Case, board: Board, bounds: Bounds) -> SearchParameter:
    dims = _dims(case, bounds, 2, spatial_dims(case) if not bounds.dims else ())
    height, width = (subject_of(case)[d] for d in dims)

    def case_on(lattice: _Lattice) -> Callable[[int], Case]:
        return lambda rows: resized(case, dict(zip(dims, (rows, lattice.width_at(rows)), strict=True)))

    for lattice in _lattices(height, width, _stride(case), bounds.step):
        try:
            _first_valid_step(case_on(lattice), [lattice.unit], height, board)
        except InvalidCase as error:
            why = error
            continue
        break
    else:
        raise why
    case_of = case_on(lattice)
    values = _possible(range(lattice.unit, _upto(bounds, MAX_COUNT, lattice.unit) + 1, lattice.unit), case_of)
    steps = f"in steps of {lattice.unit}x{lattice.width_at(lattice.unit)}"
    if not lattice.exact:
        steps = f"in steps of {lattice.unit} rows, the width to the nearest multiple of {lattice.grain}"
    description = f"dims {dims[0]} and {dims[1]} of {format_shape(subject_of(case))}, {steps}"
    return SearchParameter(
        Goal.RESOLUTION,
        values,
        _nearest(values, height),
        case_of,
        lambda rows: f"{rows}x{lattice.width_at(rows)}",
        description,
    )


def _lattices(height: int, width: int, stride: int, step: int | None) -> Iterator[_Lattice]:
    """Yields lattices with the call as given among their values, preferred ones first: multiples of the stride and of 32 pixels
    or a part of them, with at least a few values up to the size as given. With ``step``: the one whose sizes are multiples of
    it."""
    common = math.gcd(height, width)
    if step:
        sides = height // common, width // common
        yield _Lattice(height, width, math.lcm(*(step // math.gcd(step, side) for side in sides)), exact=True)
        return
    grains = sorted(_divisors(common), reverse=True)
    wanted = [g for g in grains if g <= TILE_EDGE and common // g >= MIN_STEPS]
    for grain in sorted(wanted, key=lambda g: (common % stride == 0 and g % stride != 0, -math.gcd(g, TILE_EDGE), -g)):
        yield _Lattice(height, width, grain, exact=True)
    for grain in sorted(grains, key=lambda g: g % stride != 0):
        if max(height, width) // grain >= MIN_STEPS:
            yield _Lattice(height, width, grain, exact=False)
    yield from (_Lattice(height, width, grain, exact=True) for grain in reversed(grains))


def _stride(case: Case) -> int:
    """Returns the number that sizes of maps should be multiples of: a window's stride, or the number of windows."""
    attrs: Mapping[str, Any] = case.attrs
    stride = attrs.get("stride") or 1
    windows = attrs.get("output_size") if "adaptive" in find_operator(case.name).name else 1
    return math.lcm(*(n for value in (stride, windows or 1) for n in ([value] if isinstance(value, int) else value)))


# Other arguments of the call --------------------------------------------------------------------------------------------------


def _slices(case: Case, board: Board, bounds: Bounds) -> SearchParameter:
    """Slices the height unless the call slices the width."""
    if "slices" not in find_operator(case.name).attrs:
        raise InvalidCase(f"{case.name}: only convolutions take a number of slices")
    along = "width" if str(case.attrs.get("slices", "")).startswith("width") else "height"
    rows = _result_of(case)[-2 if along == "height" else -1]
    step = bounds.step or 1
    most = min(bounds.upto or min(MAX_SLICES, rows), rows)

    def case_of(count: int) -> Case:
        return replace(case, attrs={**case.attrs, "slices": f"{along}:{count}"}, sources=(), known_oom=None)

    values = range(1 + (most - 1) // step * step, 0, -step)
    check(case_of(values[0]))
    description = f"slices along the {along} of {rows:,} in the result"
    return SearchParameter(Goal.SLICES, values, len(values) - 1, case_of, "{:,}".format, description)


def _result_of(case: Case) -> Shape:
    call = bind(case)
    return call.info.infer(case.inputs, call.attrs)[0]


def _l1_small(case: Case, board: Board, bounds: Bounds) -> SearchParameter:
    if not find_operator(case.name).traits.l1_small_bytes:
        raise InvalidCase(f"{case.name}: needs no L1_SMALL")
    step = bounds.step or board.granule_bytes
    most = bounds.upto if bounds.upto is not None else max(MAX_L1_SMALL_BYTES, case.placement.l1_small_bytes or 0)
    board.with_l1_small(most)

    def case_of(size: int) -> Case:
        return replace(case, placement=replace(case.placement, l1_small_bytes=size), sources=(), known_oom=None)

    values = range(most // step * step, -1, -step)
    return SearchParameter(Goal.L1_SMALL, values, len(values) - 1, case_of, format_bytes, f"l1_small_size in steps of {step} B")


_PARAMETERS: Mapping[Goal, Callable[[Case, Board, Bounds], SearchParameter]] = {
    Goal.BATCH: _batch,
    Goal.RESOLUTION: _resolution,
    Goal.SEQUENCE: _sequence,
    Goal.SLICES: _slices,
    Goal.L1_SMALL: _l1_small,
}
