"""The declaration of one operator, and the arithmetic that all operators share.

An operator is declared once, as an ``OperatorInfo`` in one of the family modules next to this file. The declaration is data
plus small functions that receive ``ttnn`` or ``torch`` as an argument, so importing a declaration needs neither.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any, NamedTuple

from ssinghal.core.case import Case, OutputMemory
from ssinghal.core.memory_config import MemoryRequest, Sharding
from ssinghal.core.parsing import dtype_named
from ssinghal.core.tensors import Board, BufferType, DType, Layout, Shape, TensorSpec
from ssinghal.errors import InvalidCase, RegistryError, unknown
from ssinghal.operators.dim_rule import DimRule

REQUIRED = object()
MESH = "mesh"  # see Traits.collective
FABRIC = "fabric_config"  # how the chips of a mesh are connected when it is opened: an attribute of calls that need it
FABRICS = (
    *("FABRIC_1D", "FABRIC_1D_RING", "FABRIC_1D_NEIGHBOR_EXCHANGE"),
    *("FABRIC_2D", "FABRIC_2D_TORUS_X", "FABRIC_2D_TORUS_Y", "FABRIC_2D_TORUS_XY"),
)

Attrs = Mapping[str, Any]


@dataclass(frozen=True)
class Attr:
    """A non-tensor argument."""

    # int, ints, float, floats, bool, str, none, or several of them joined by "|"
    kind: str
    # the value where a case gives none; REQUIRED: it must
    default: Any = REQUIRED


@dataclass(frozen=True)
class Limitation:
    """A known gap of TTNN as data: where all its conditions hold, the call is ``unsupported`` and not tried."""

    # what TTNN lacks, for the record
    reason: str
    # layouts of the placement, or of the first operand where it has its own; none: all
    layouts: tuple[Layout, ...] = ()
    # dtypes likewise
    dtypes: tuple[DType, ...] = ()
    # architecture of the board; empty: every one
    arch: str = ""
    # (working shapes, completed attributes) -> whether the call is such; None: every call
    when: Callable[[Sequence[Shape], Attrs], bool] | None = None
    # only calls whose first operand is interleaved
    interleaved: bool = False
    # TTNN takes at least some of these calls, with results that are not torch's: the reason says which
    taken: bool = False

    def applies(self, info: OperatorInfo, case: Case, attrs: Attrs, board: Board | None) -> bool:
        """Returns whether the call is one of those. Without a board, limitations of one architecture do not apply."""
        placement = case.placement
        first = placement if placement.is_plain else placement.operand(0)
        return (
            (not self.layouts or (first.layout or placement.layout) in self.layouts)
            and (not self.dtypes or (first.dtype or placement.dtype) in self.dtypes)
            and (not self.arch or (board is not None and board.arch == self.arch))
            and (not self.interleaved or first_request(case).sharding is None)
            and (self.when is None or self.when(working_shapes(info, case), attrs))
        )


class Sample(NamedTuple):
    """Operands and attributes built from one listed shape, for shape sweeps (shapes x operators)."""

    # shape of each operand
    inputs: tuple[Shape, ...]
    # attributes of the call
    attrs: dict[str, Any]
    # whether rank-4 shapes go to the device as NHWC; None: as the operator takes them
    channels_last: bool | None = None


@dataclass
class Call:
    """All that a TTNN call needs."""

    # the module
    ttnn: Any
    # where to run
    device: Any
    # operands on the device, as ``place`` specifies them
    inputs: list[Any]
    # completed attributes
    attrs: Attrs
    # {"memory_config": …}, or empty where TTNN is to choose
    out: dict[str, Any]
    # the call as it was written
    case: Case
    # whether the result's values will be read
    values: bool = False
    # settings of the call in their JSON form; they reach TTNN's functions by themselves, but for ``merged_settings``
    settings: Attrs = field(default_factory=dict)


Infer = Callable[[Sequence[Shape], Attrs], list[Shape]]
Program = Callable[[Sequence[TensorSpec], Sequence[TensorSpec]], int | None]
DTypes = tuple[DType | None, ...]
ResultForm = Callable[[Shape, Attrs], tuple[Shape, Layout | None]]
OwnShards = Callable[[Sequence[Shape], Attrs, Attrs, Sharding, TensorSpec, tuple[int, int]], Sharding]


class MapResult(Enum):
    """How a call that takes channels-last maps returns them."""

    NHWC = "nhwc"
    FLAT = "flat"  # [1, 1, N*H*W, C]


@dataclass(frozen=True)
class Traits:
    """Facts that only some operators have. Functions of (inputs, outputs) take the specs of operands and results."""

    # the call takes channels-last maps, and returns them so
    nhwc: MapResult | None = None
    # L1_SMALL of each core that the device needs, unless the case says otherwise
    l1_small_bytes: int = 0
    # the result is input 0
    in_place: bool = False
    # (inputs, outputs) -> whether the result shares input 0's buffer: nothing is allocated, or run unless ``program`` is given
    alias: Callable[[Sequence[TensorSpec], Sequence[TensorSpec]], bool] | None = None
    # (inputs, outputs) -> exact bytes of program buffers per core; None: no formula is known
    program: Program | None = None
    # TTNN allocates more tensors than inputs and outputs on the way
    temporaries: bool = False
    # where TTNN puts the result unless it gets a memory config; None: with input 0
    ttnn_output: BufferType | None = None
    # without a memory config TTNN shards or moves the result by its own rules
    moves_output: bool = False
    # (inputs, attrs) -> whether TTNN may put the result of such a call elsewhere than its memory config has it
    may_stray: Callable[[Sequence[TensorSpec], Attrs], bool] | None = None
    # TTNN places the result by its own rules unless the case names a memory: the operand's would not do
    ttnn_places: bool = False
    # TTNN takes no memory config for the result, which always goes to ``ttnn_output``
    output_fixed: bool = False
    # of each result, None: the case's; or (dtype, shapes, attrs) -> dtypes where they depend on the call
    output_dtypes: DTypes | Callable[[DType, Sequence[Shape], Attrs], DTypes] = ()
    # operands whose dtype the result does not follow: a condition, the pattern of a tensor of one value
    untyped: tuple[int, ...] = ()
    # operands that are parameters of a layer: not sharded with the others, as ports keep them interleaved in DRAM
    weights: tuple[int, ...] = ()
    # operands that go to the device with their last two dims swapped (the weight of a linear layer)
    transposed: tuple[int, ...] = ()
    # layout of every result; None: the placement's
    output_layout: Layout | None = None
    # (shape, attrs) -> shape and layout on the device of a result that torch gives as ``shape``, where the call decides them;
    # layout None: the placement's. Dim 1 goes last wherever a dim moves
    result_form: ResultForm | None = None
    # elements to whose multiple TTNN pads the rows of a row-major result
    row_alignment: int = 1
    # (inputs, outputs) -> output tiles for which TTNN lists all source pages on the host (1-70 us and up to some KB each)
    host_map: Callable[[Sequence[TensorSpec], Sequence[TensorSpec]], int] | None = None
    # operands whose values must be positive for a result that can be compared (a logarithm's, a variance)
    positive: tuple[int, ...] = ()
    # operands hold whole numbers when values are compared, so that equal ones and zeros are among them
    whole: bool = False
    # how far values that are compared spread around 0: beyond the limits that the operator has
    spread: float = 1.0
    # operands that hold indices: uint32 on the device, whatever the case's dtype
    indices: tuple[int, ...] = ()
    # it moves data between the chips of a mesh, whose rows and columns are its attribute MESH, which no case has
    collective: bool = False
    # (shapes, attributes) -> the TTNN function that makes the call, where the operator has several; None: all of them
    function: Callable[[Sequence[Shape], Attrs], str] | None = None
    # setting -> the TTNN function that makes a call with it, in place: of those that only this function takes
    in_place_with: Mapping[str, str] = field(default_factory=dict)
    # (shapes, attributes, settings, sharding, spec of operand 0, columns and rows of cores) -> the shards that the call itself
    # makes of operand 0 in L1, where a case states their kind alone; None: those of TTNN's general helper
    own_shards: OwnShards | None = None
    # settings that the operator's own call passes, merged with its attributes
    merged_settings: tuple[str, ...] = ()
    # (settings, attributes): raises InvalidCase where they contradict each other
    check_settings: Callable[[Attrs, Attrs], None] | None = None
    # correlation with torch's result below which the values are wrong
    min_pcc: float = 0.999


def same_as_first(inputs: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    return [inputs[0]]


@dataclass(frozen=True)
class OperatorInfo:
    """One operator: all that the harness knows of it."""

    # the canonical name, then those that torch and the operator lists have for the same thing
    names: tuple[str, ...]
    # ATen overloads that run as this operator
    aten: tuple[str, ...]
    # tensor arguments in ATen order: "name?" is optional, "name*" stands for any number
    operands: tuple[str, ...]
    # the TTNN functions that it calls, separated by commas
    ttnn: str
    # runs it on the device; None: TTNN has no such call, and a limitation says why
    call: Callable[[Call], Any] | None
    # (torch, tensors, attrs) -> the reference result, on tensors as placed (NCHW for ``nhwc`` operators)
    torch: Callable[[Any, Sequence[Any], Attrs], Any]
    # (shapes, attrs) -> shapes of the results, in the same order of dims as the operands
    infer: Infer = same_as_first
    # non-tensor arguments by name
    attrs: Mapping[str, Attr] = field(default_factory=dict)
    # (case, shapes, attrs) -> each operand's spec on the device; None: as the placement says
    place: Callable[[Case, Sequence[Shape], Attrs], list[TensorSpec]] | None = None
    # a listed shape -> a complete call with it, for shape sweeps; None: they cannot have the operator
    sample: Callable[[Shape], Sample] | None = None
    # which dims go together, so that calls can be cut and resized; None: not known
    dims: DimRule | None = None
    # what only some operators have
    traits: Traits = Traits()
    # what TTNN cannot do of it
    limitations: tuple[Limitation, ...] = ()

    def __post_init__(self) -> None:
        if not self.names:
            raise RegistryError("an operator needs a name")
        if self.call is None and not self.limitations:
            raise RegistryError(f"{self.name}: an operator without a TTNN call needs a Limitation that says why")

    @property
    def name(self) -> str:
        return self.names[0]

    @cached_property
    def functions(self) -> tuple[str, ...]:
        """The TTNN functions that it calls, by their paths in the module."""
        return tuple(name.strip().removeprefix("ttnn.") for name in self.ttnn.split(",") if name.strip())

    @property
    def layouts(self) -> tuple[Layout, ...]:
        """The layouts in which it can be called: none without a TTNN call, and none that a limitation rules out everywhere."""
        everywhere = (x for x in self.limitations if x.when is None and not x.arch and not x.dtypes)
        blocked = {layout for limitation in everywhere for layout in limitation.layouts}
        return () if self.call is None else tuple(layout for layout in Layout if layout not in blocked)

    @cached_property
    def min_operands(self) -> int:
        return sum(not o.endswith(("?", "*")) for o in self.operands) + any(o.endswith("*") for o in self.operands)

    @cached_property
    def max_operands(self) -> int | None:
        return None if any(o.endswith("*") for o in self.operands) else len(self.operands)

    def complete_attrs(self, attrs: Attrs) -> dict[str, Any]:
        """Returns the attributes with defaults filled in; InvalidCase for an unknown, ill-typed or missing one."""
        for name, value in attrs.items():
            if name not in self.attrs:
                raise InvalidCase(f"{self.name}: {unknown('attribute', name, self.attrs)}")
            if not _is_kind(value, self.attrs[name].kind):
                raise InvalidCase(
                    f"{self.name}: attribute {name}={value!r} is not {self.attrs[name].kind}{_example(self.attrs[name].kind)}"
                )
        missing = [n for n, a in self.attrs.items() if a.default is REQUIRED and n not in attrs]
        if missing:
            raise InvalidCase(f"{self.name}: attribute {', '.join(missing)} is missing")
        return {n: attrs.get(n, a.default) for n, a in self.attrs.items()}

    def check_operands(self, inputs: Sequence[Shape]) -> None:
        """Raises InvalidCase unless the operator takes this number of tensor operands."""
        most = self.max_operands
        if len(inputs) < self.min_operands or (most is not None and len(inputs) > most):
            count = f"at least {self.min_operands}" if most is None else _range(self.min_operands, most)
            names = f" ({', '.join(self.operands)})" if self.operands else ""
            operands = f"tensor operand{'s' * ((most or self.min_operands) != 1)}"
            raise InvalidCase(f"{self.name} takes {count} {operands}{names}; got {len(inputs)}")


def _range(least: int, most: int) -> str:
    if least == most:
        return str(least or "no")
    return f"{least} {'or' if most == least + 1 else 'to'} {most}"


_KINDS: dict[str, Callable[[Any], bool]] = {
    "int": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "ints": lambda v: isinstance(v, (list, tuple)) and all(_KINDS["int"](x) for x in v),
    "float": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
    "floats": lambda v: isinstance(v, (list, tuple)) and all(_KINDS["float"](x) for x in v),
    "bool": lambda v: isinstance(v, bool),
    "str": lambda v: isinstance(v, str),
    "none": lambda v: v is None,
}


def _example(kinds: str) -> str:
    return ", as [768] or 3,3" if {"ints", "floats"} & set(kinds.split("|")) else ""


def _is_kind(value: Any, kinds: str) -> bool:
    return any(_KINDS[kind](value) for kind in kinds.split("|"))


def to_nhwc(shape: Shape) -> Shape:
    """Converts [N, C, H, W] to [N, H, W, C]; other ranks stay."""
    return (shape[0], shape[2], shape[3], shape[1]) if len(shape) == 4 else shape


def to_nchw(shape: Shape) -> Shape:
    """Converts [N, H, W, C] to [N, C, H, W]; other ranks stay."""
    return (shape[0], shape[3], shape[1], shape[2]) if len(shape) == 4 else shape


def flat_nhwc(shape: Shape) -> Shape:
    """Converts [N, C, H, W] or [N, C, L] to [1, 1, N*H*W, C], as TTNN's pools take and return maps."""
    return (1, 1, shape[0] * math.prod(shape[2:]), shape[1])


def weights_dtype(usual: DType, attrs: Attrs) -> DType:
    """Returns the dtype of the weights of a call in dtype ``usual``; InvalidCase where there is no such floating-point one."""
    name = attrs[WEIGHTS_DTYPE]
    return usual if name == SAME_DTYPE.default else dtype_named(name, WEIGHTS_DTYPE, FLOATS)


def working_shapes(info: OperatorInfo, case: Case) -> list[Shape]:
    """Returns the input shapes in the order of ``infer`` and ``torch``: as placed, but NCHW maps for ``nhwc`` operators."""
    if info.traits.nhwc:
        as_written_nhwc = case.placement.channels_last is False
        return [to_nchw(case.inputs[0]) if as_written_nhwc else case.inputs[0], *case.inputs[1:]] if case.inputs else []
    return [to_nhwc(s) if case.placement.channels_last else s for s in case.inputs]


def first_request(case: Case) -> MemoryRequest:
    """Returns the memory that a case requests for its first operand."""
    return case.placement.operand(0).memory or case.placement.request


def output_request(case: Case) -> MemoryRequest | None:
    """Returns the memory that a case requests for its result; None where TTNN chooses it."""
    placement = case.placement
    if placement.output_memory is OutputMemory.SAME:
        return first_request(case)
    config = placement.output_config
    return None if config is None else MemoryRequest(config.buffer, placement.output_sharding)


def operand_spec(case: Case, shape: Shape, **changes: Any) -> TensorSpec:
    """Returns ``shape`` under the case's dtype, layout and memory, with ``changes`` to any of them."""
    p = case.placement
    return TensorSpec(**{"shape": shape, "dtype": p.dtype, "layout": p.layout, "memory": p.memory_config, **changes})


def plain_specs(case: Case) -> list[TensorSpec]:
    """Places every input as it is, channels-last if the case says so: all that is known of an incomplete call."""
    placed = [to_nhwc(s) if case.placement.channels_last else s for s in case.inputs]
    return [operand_spec(case, s) for s in placed]


# What operators have in common -----------------------------------------------------------------------------------------

# torch's dtypes on a device. int64 holds indices and counts in models, and int32 is TTNN's one integer with a sign.
PLACED_DTYPES: Mapping[str, DType] = {**{dtype.value: dtype for dtype in DType}, "int64": DType.INT32}

# The dtype of a call's weights where it is not that of the call, under the name that TTNN's configs have for it.
WEIGHTS_DTYPE = "weights_dtype"
VOLUME_RANK = 5  # ttnn.experimental.conv3d takes rows, and weights in the dtype of the volume
SAME_DTYPE = Attr("str", "auto")
FLOATS = (DType.BFLOAT16, DType.FLOAT32, DType.BFLOAT8_B, DType.BFLOAT4_B)

INTEGERS = (DType.UINT8, DType.UINT16, DType.UINT32, DType.INT32)
BLOCK_FLOATS = (DType.BFLOAT8_B, DType.BFLOAT4_B)


def aten(name: str) -> Callable[[Any, Sequence[Any], Attrs], Any]:
    """Returns the ATen operator itself as reference: it takes the attributes by the names they have here."""

    def reference(torch: Any, tensors: Sequence[Any], attrs: Attrs) -> Any:
        return getattr(torch.ops.aten, name)(*tensors, **attrs)

    return reference


def broadcast(inputs: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    """Infers the result of an elementwise call: trailing dims are equal or 1."""
    rank = max(len(s) for s in inputs)
    padded = [(1,) * (rank - len(s)) + tuple(s) for s in inputs]
    result = []
    for sizes in zip(*padded, strict=True):
        wide = {s for s in sizes if s != 1}
        if len(wide) > 1:
            raise InvalidCase(f"shapes {' and '.join(str(list(s)) for s in inputs)} do not broadcast")
        result.append(wide.pop() if wide else 1)
    return [tuple(result)]


def normal_dim(dim: int, rank: int) -> int:
    """Returns ``dim`` counted from the front; InvalidCase outside -rank..rank-1."""
    if not -rank <= dim < rank:
        raise InvalidCase(f"dim {dim} is outside -{rank}..{rank - 1}")
    return dim % rank


def normal_dims(dims: int | Sequence[int] | None, rank: int) -> list[int]:
    """Returns sorted dims counted from the front; None or an empty list means all."""
    if dims is None or (not isinstance(dims, int) and not dims):
        return list(range(rank))
    listed = [dims] if isinstance(dims, int) else list(dims)
    normal = sorted(normal_dim(d, rank) for d in listed)
    if len(set(normal)) != len(normal):
        raise InvalidCase(f"dims {listed} name one dim twice")
    return normal


def pair(value: int | Sequence[int]) -> tuple[int, int]:
    """Returns both numbers of a torch argument that is one for both spatial dims, or one each."""
    numbers = [value] if isinstance(value, int) else list(value)
    if len(numbers) not in (1, 2):
        raise InvalidCase(f"expected one or two numbers, got {numbers}")
    return numbers[0], numbers[-1]


def tiles_twice(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> int:
    """Returns the program buffers of a plain elementwise kernel: two pages for every operand and result, on each core."""
    return sum(2 * spec.dtype.tile_bytes for spec in (*inputs, *outputs))
