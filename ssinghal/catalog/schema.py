"""The three kinds of catalog, as pydantic models.

crossed   a shape sweep: lists of shapes tried on every operator, each shape with its origin
captured  the calls that one model makes at one input size
imported  the calls of an operator list, each with the model and count that the list names
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import starmap
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    StrictBool,
    StrictInt,
    model_validator,
)

from ssinghal.core.case import KnownOom, ModuleCalls, OperandPlacement, OutputMemory, Placement, Source
from ssinghal.core.memory_config import MemoryRequest, Sharding
from ssinghal.core.sharding import memory_request
from ssinghal.core.tensors import MAX_DIM, MAX_RANK, BufferType, DType, Layout, Shape, check_shape
from ssinghal.errors import InvalidCase, unknown
from ssinghal.operators.case_json import operand_from_json, result_memory

Operand = Shape | tuple[Shape | None, ...]

MAX_MODULES = 64  # that a line names
MAX_NESTING = 16  # of the arguments of a call
PINNED = r"^[\w.-]+==\S+$"
FUNCTION = r"^\w+(\.\w+)*:\w+(\.\w+)*$"
TORCH_DTYPES = (
    *("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"),
    *("float8_e4m3fn", "float8_e5m2", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
)


def _shape(value: Any) -> Shape:
    if not isinstance(value, list):
        raise ValueError(f"expected a list of sizes, got {value!r}")
    if len(value) > MAX_RANK:
        raise ValueError(f"rank {len(value)} is outside 1..{MAX_RANK}")
    try:
        return check_shape(tuple(value))
    except InvalidCase as error:
        raise ValueError(str(error)) from error


def _shapes(value: Any) -> tuple[Shape, ...]:
    if not isinstance(value, list):
        raise ValueError(f"expected a list of shapes, got {value!r}")
    return tuple(_shape(item) for item in value)


def _tensor(value: Any) -> Shape:
    """Reads a shape as torch has it: ``[]`` is a scalar, a size may be 0."""
    if not isinstance(value, list):
        raise ValueError(f"expected a list of sizes, got {value!r}")
    if len(value) > MAX_RANK:
        raise ValueError(f"rank {len(value)} is outside 0..{MAX_RANK}")
    for size in value:
        if type(size) is not int or not 0 <= size <= MAX_DIM:
            raise ValueError(f"shape {value}: size {size!r} is not a whole number in 0..{MAX_DIM}")
    return tuple(value)


def _tensors(value: Any) -> tuple[Shape, ...]:
    if not isinstance(value, list):
        raise ValueError(f"expected a list of shapes, got {value!r}")
    return tuple(_tensor(item) for item in value)


def _operand(value: Any) -> Operand:
    """Reads one shape, or a list of shapes (the tensors of cat) in which null is an absent one (the indices of index)."""
    if isinstance(value, list) and value and (value[0] is None or isinstance(value[0], list)):
        return tuple(None if item is None else _tensor(item) for item in value)
    return _tensor(value)


def _outputs(value: Any) -> tuple[Shape, ...]:
    """Reads one shape, or a list of shapes, as a tuple of shapes."""
    return _tensors(value) if isinstance(value, list) and value and isinstance(value[0], list) else (_tensor(value),)


def _argument(value: Any) -> Any:
    if not _is_plain(value, MAX_NESTING):
        raise ValueError(f"{value!r} is not a number, a text, true, false, null or a list or a mapping of them")
    return value


def _is_plain(value: Any, depth: int) -> bool:
    if isinstance(value, dict):
        return depth > 0 and all(isinstance(key, str) and _is_plain(item, depth - 1) for key, item in value.items())
    if isinstance(value, list):
        return depth > 0 and all(_is_plain(item, depth - 1) for item in value)
    return isinstance(value, (int, float, bool, str, type(None)))


def _request(value: Any) -> MemoryRequest:
    try:
        return memory_request(_tensor_memory(value))
    except InvalidCase as error:
        raise ValueError(str(error)) from error


def _result(value: Any) -> tuple[OutputMemory, Sharding | None]:
    try:
        return result_memory(value)
    except InvalidCase as error:
        raise ValueError(str(error)) from error


def _operand_placements(value: Any) -> tuple[OperandPlacement, ...]:
    if not isinstance(value, list):
        raise ValueError(f"expected a list of what operands have of their own, got {value!r}")
    try:
        return tuple(operand_from_json(fields, f"operand {number}") for number, fields in enumerate(value, 1))
    except InvalidCase as error:
        raise ValueError(str(error)) from error


def _tensor_memory(value: Any) -> Any:
    if value == BufferType.L1_SMALL:
        raise ValueError("tensors go to 'dram' or 'l1'; l1_small is TTNN's own")
    return value


def _torch_dtype(value: Any) -> Any:
    if value not in TORCH_DTYPES:
        raise ValueError(unknown("dtype", str(value), TORCH_DTYPES))
    return value


def _modules(value: Any) -> Any:
    """Reads a module, or modules with the number of their calls."""
    if isinstance(value, str) and value:
        return value
    counts = value.items() if isinstance(value, dict) else ()
    if not counts or not all(isinstance(path, str) and path and type(calls) is int and calls > 0 for path, calls in counts):
        raise ValueError(f"expected a module, or modules with their calls like {{block.0: 2, (top): 1}}, got {value!r}")
    if len(counts) > MAX_MODULES:
        raise ValueError(f"names {len(counts)} modules; expected at most {MAX_MODULES}, and the number of the others in more")
    return value


def _result_text(value: tuple[OutputMemory, Sharding | None]) -> str:
    memory, sharding = value
    return f"{memory}:{sharding}" if sharding else memory.value


def _operands_json(value: tuple[OperandPlacement, ...]) -> list[Any]:
    return [operand.to_json() for operand in value]


ShapeField = Annotated[Shape, PlainValidator(_shape)]
Count = Annotated[StrictInt, Field(ge=1)]
Amount = Annotated[StrictInt, Field(ge=0)]
Text = Annotated[str, Field(min_length=1)]
TorchDType = Annotated[str, BeforeValidator(_torch_dtype)]
Pinned = Annotated[str, Field(pattern=PINNED)]
Function = Annotated[str, Field(pattern=FUNCTION)]
Modules = Annotated[str | Mapping[str, int], PlainValidator(_modules)]
Arguments = Mapping[str, Annotated[Any, PlainValidator(_argument)]]
Request = Annotated[MemoryRequest, PlainValidator(_request), PlainSerializer(str)]
Result = Annotated[tuple[OutputMemory, Sharding | None], PlainValidator(_result), PlainSerializer(_result_text)]
Operands = Annotated[tuple[OperandPlacement, ...], PlainValidator(_operand_placements), PlainSerializer(_operands_json)]


class CatalogModel(BaseModel):
    """The base of every mapping of a catalog: unknown keys are faults."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class PlacementModel(CatalogModel):
    """How the shapes of a catalog go to the device. Memories may have shards, as ``l1:block@8x8``.

    Without ``channels_last``, and without ``l1_small_size``, the bytes of each core's L1_SMALL region, each operator decides
    for itself.
    """

    dtype: DType
    layout: Layout
    memory: Request
    output_memory: Result
    output_dtype: DType | None = None
    channels_last: StrictBool | None = None
    l1_small_size: Amount | None = None

    def placement(self) -> Placement:
        output_memory, output_sharding = self.output_memory
        return Placement(
            self.dtype,
            self.layout,
            self.memory.buffer,
            output_memory,
            self.channels_last,
            self.l1_small_size,
            self.memory.sharding,
            output_sharding,
            self.output_dtype,
        )


class PlacementChange(CatalogModel):
    """How the placement of one line differs from its catalog's. Memories may have shards, as ``l1:block@8x8``; ``operands``:
    what single operands have of their own, null for those that have nothing."""

    dtype: DType | None = None
    layout: Layout | None = None
    memory: Request | None = None
    output_memory: Result | None = None
    output_dtype: DType | None = None
    channels_last: StrictBool | None = None
    l1_small_size: Amount | None = None
    operands: Operands = ()

    def applied_to(self, base: Placement) -> Placement:
        changes = {name: getattr(self, name) for name in self.model_fields_set}
        if "l1_small_size" in changes:
            changes["l1_small_bytes"] = changes.pop("l1_small_size")
        if self.memory is not None:
            changes |= {"memory": self.memory.buffer, "sharding": self.memory.sharding}
        if self.output_memory is not None:
            changes["output_memory"], changes["output_sharding"] = self.output_memory
        return replace(base, **changes)


class ShapeOrigin(CatalogModel):
    """The call of a model that has a tensor of this shape; ``none``: why no model has one; ``artefact``: why it is no shape.

    ``role`` is the tensor's place in the call. ``traced_with`` lists packages where they differ from the catalog's. ``note``:
    why the list did not have the shape from there.
    """

    shape: ShapeField
    model: Text | None = None
    input: Text | None = None
    call: Text | None = None
    role: Literal["in", "out"] | None = None
    at: Text | None = None
    traced_with: tuple[Text, ...] = ()
    note: Text | None = None
    none: Text | None = None
    artefact: Text | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> ShapeOrigin:
        traced = (self.model, self.input, self.call, self.role, self.at)
        reasons = [r for r in (self.none, self.artefact) if r is not None]
        if len(reasons) > 1 or (reasons and any((*traced, self.note))) or (not reasons and not all(traced)):
            raise ValueError("needs model, input, call, role and at together, or none, or artefact")
        return self


class Oom(CatalogModel):
    """What a card reported when it ran out of memory on this call; with bytes if the log of ``run`` has them."""

    run: Text
    stage: Text | None = None
    total_bytes: Count | None = None
    bytes_per_bank: Count | None = None
    banks: Count | None = None

    @model_validator(mode="after")
    def _numbers_go_together(self) -> Oom:
        numbers = (self.total_bytes, self.bytes_per_bank, self.banks)
        if any(numbers) and not all(numbers):
            raise ValueError("needs total_bytes, bytes_per_bank and banks together, or none of them")
        return self

    def known(self) -> KnownOom:
        return KnownOom(self.run, self.stage or "", self.total_bytes, self.bytes_per_bank, self.banks)


class CrossedLine(CatalogModel):
    """One call: the operator builds its operands from ``shape``, or takes them from ``in``. ``args`` by ATen name."""

    shape: ShapeField | None = None
    inputs: Annotated[tuple[Shape, ...], PlainValidator(_shapes)] | None = Field(None, alias="in")
    args: Arguments = Field(default_factory=dict)
    placement: PlacementChange | None = None
    oom: Oom | None = None

    @model_validator(mode="after")
    def _one_source_of_operands(self) -> CrossedLine:
        if (self.shape is None) != bool(self.inputs):
            raise ValueError("needs either shape or in (at least one shape)")
        return self

    @property
    def first_shape(self) -> Shape:
        """The shape whose origin the catalog holds."""
        return self.shape if self.shape is not None else (self.inputs or ())[0]


class CrossedHead(CatalogModel):
    """A shape sweep without its ``origins`` and ``operators``. ``runs`` describes the runs that an ``oom`` names."""

    schema_version: Literal[1] = Field(alias="schema")
    kind: Literal["crossed"]
    title: Text
    traced_with: tuple[Text, ...] = ()
    runs: Mapping[str, Text] = {}
    placement: PlacementModel


class MoreModules(CatalogModel):
    """Calls beyond those of the modules that a line names. ``modules``: how many more modules make them; 0 if it is not
    recorded which."""

    modules: Amount
    calls: Count


class CountedLine(CatalogModel):
    """A call made ``n`` times. ``at``: the modules that make it in the order of their first calls, each with its number of
    calls; at most 64 of them, the others are counted in ``more``. A module alone makes the first call; which modules make the
    others is not known then."""

    n: Count
    at: Modules | None = None
    more: MoreModules | None = None

    @model_validator(mode="after")
    def _modules_add_up(self) -> CountedLine:
        if isinstance(self.at, Mapping):
            calls = sum(self.at.values()) + (self.more.calls if self.more else 0)
            if calls != self.n:
                named = "at and more" if self.more else "at"
                raise ValueError(f"n is {self.n}, but the calls of the modules in {named} add up to {calls}")
        elif self.more:
            raise ValueError("more needs the modules in at with their calls")
        return self

    @property
    def modules(self) -> tuple[ModuleCalls, ...]:
        """The modules that are named, with their calls."""
        if self.at is None:
            return ()
        return tuple(starmap(ModuleCalls, self.at.items())) if isinstance(self.at, Mapping) else (ModuleCalls(self.at),)

    def made_in(self) -> tuple[tuple[ModuleCalls, ...], int, int]:
        """Returns ``modules``, ``other_modules`` and ``other_calls`` of the line's ``Source``."""
        modules = self.modules
        others = self.n - sum(m.calls for m in modules) if modules else 0
        return modules, self.more.modules if self.more else 0, others

    def source(self, catalog: str, model: str, input_size: str) -> Source:
        """Returns the line as the source of a case: ``model`` makes it at ``input_size``."""
        return Source(catalog, model, input_size, self.n, *self.made_in())


class ImportedLine(CrossedLine, CountedLine):
    """One call that ``model`` makes ``n`` times at an ``input`` size, in the modules ``at``, if the list has them."""

    model: Text | None = None
    input: Text | None = None

    @model_validator(mode="after")
    def _no_card_ran_it(self) -> ImportedLine:
        if self.oom is not None:
            raise ValueError("oom belongs to catalogs of kind crossed, which describe the run")
        return self


class ImportedHead(CatalogModel):
    """An imported catalog without its ``operators``."""

    schema_version: Literal[1] = Field(alias="schema")
    kind: Literal["imported"]
    title: Text
    placement: PlacementModel


class Model(CatalogModel):
    """The model. ``config``: what the package built it from, or the user's ``factory`` (``package.module:function``)."""

    name: Text
    package: Text
    config: Text
    factory: Function | None = None
    params: Amount
    fused: StrictBool

    @model_validator(mode="after")
    def _config_is_the_factory(self) -> Model:
        if self.factory is not None and self.config != self.factory:
            raise ValueError(f"config is {self.config!r}, but a model with a factory is built by that: {self.factory!r}")
        return self

    @property
    def full_name(self) -> str:
        """``ultralytics/yolo12x``: package and model, without the version."""
        return f"{self.package.partition('==')[0]}/{self.name}"


class Input(CatalogModel):
    """The input. ``dtype``: of parameters and activations. ``dtypes``: one for each input, if any has another (token ids)."""

    shapes: Annotated[tuple[Shape, ...], PlainValidator(_tensors), Field(min_length=1)]
    dtype: DType
    dtypes: tuple[TorchDType, ...] = ()

    @model_validator(mode="after")
    def _one_dtype_each(self) -> Input:
        if self.dtypes and len(self.dtypes) != len(self.shapes):
            raise ValueError(f"{len(self.dtypes)} dtypes for {len(self.shapes)} shapes")
        return self


class Capture(CatalogModel):
    """How it was recorded. ``packages``: further ones that decide the result. ``stopped``: why it ended before forward did.

    ``guessed``: number of data-dependent values that had to be guessed; ``guesses``: the number in each module.
    """

    torch: Text
    level: Literal["aten", "torch"]
    device: Text
    packages: tuple[Pinned, ...] = ()
    guessed: Amount
    guesses: Mapping[str, Count] = {}
    stopped: Text | None = None

    @model_validator(mode="after")
    def _guesses_add_up(self) -> Capture:
        if self.guesses and sum(self.guesses.values()) != self.guessed:
            raise ValueError(f"guessed is {self.guessed}, but guesses add up to {sum(self.guesses.values())}")
        return self


class Counts(CatalogModel):
    """Number of ``calls`` the model makes, in ``cases`` lines; ``left_out``: number of calls that are not listed, by reason."""

    calls: Count
    cases: Count
    left_out: Mapping[str, Amount] = {}


class CapturedLine(CountedLine):
    """One call made ``n`` times. ``in``: all tensor arguments in ATen order, of which ``w`` names weights and constants.

    ``args``: the other arguments where they differ from their default. ``dtypes``: of tensors that differ from the catalog's.
    Shapes are torch's: ``[]`` is a scalar, sizes may be 0.
    """

    at: Modules
    inputs: Mapping[str, Annotated[Any, PlainValidator(_operand)]] = Field(alias="in")
    w: tuple[Text, ...] = ()
    args: Arguments = Field(default_factory=dict)
    dtypes: Mapping[str, TorchDType] = Field(default_factory=dict)
    out: Annotated[tuple[Shape, ...], PlainValidator(_outputs)]

    @model_validator(mode="after")
    def _names_exist(self) -> CapturedLine:
        unknown_names = (set(self.w) | set(self.dtypes)) - set(self.inputs) - {"out"}
        if unknown_names:
            raise ValueError(f"{', '.join(sorted(unknown_names))} is no tensor argument of this line")
        return self

    def operands(self) -> Iterator[tuple[str, Shape]]:
        """Yields every tensor argument with its name, lists of tensors flattened, absent ones left out."""
        for name, operand in self.inputs.items():
            if operand and not isinstance(operand[0], int):
                yield from ((name, shape) for shape in operand if shape is not None)
            else:
                yield name, operand

    @property
    def has_scalar(self) -> bool:
        """Whether a tensor of the call has rank 0 in torch; on a device its rank is 1."""
        return () in self.out or any(shape == () for _, shape in self.operands())

    @property
    def has_empty(self) -> bool:
        """Whether a tensor of the call has no elements: TTNN takes none such, so that the call is no case."""
        return any(0 in shape for shape in self.out) or any(0 in shape for _, shape in self.operands())

    def shapes(self) -> tuple[Shape, ...]:
        """Returns the tensor arguments as a device has them: there a scalar is [1]."""
        return tuple(shape or (1,) for _, shape in self.operands())


class CapturedHead(CatalogModel):
    """A captured catalog without its ``ops``."""

    schema_version: Literal[1] = Field(alias="schema")
    kind: Literal["captured"]
    model: Model
    input: Input
    capture: Capture
    counts: Counts
    placement: PlacementModel


@dataclass(frozen=True)
class CrossedCatalog:
    """A shape sweep: shapes x operators. ``sections``: operator name -> its lines."""

    name: str
    path: Path
    head: CrossedHead
    origins: tuple[ShapeOrigin, ...]
    sections: Mapping[str, tuple[CrossedLine, ...]]

    @property
    def title(self) -> str:
        return self.head.title

    @property
    def line_count(self) -> int:
        return sum(map(len, self.sections.values()))


@dataclass(frozen=True)
class CapturedCatalog:
    """The calls of one model at one input size. ``sections``: ATen overload -> its lines."""

    name: str
    path: Path
    head: CapturedHead
    sections: Mapping[str, tuple[CapturedLine, ...]]

    @property
    def title(self) -> str:
        return f"{self.head.model.full_name} at {self.input_size}"

    @property
    def line_count(self) -> int:
        return self.head.counts.cases

    @property
    def input_size(self) -> str:
        """``2176x3840``: the model's first input; for maps (rank 4 and more) without batch and channels."""
        sizes = self.head.input.shapes[0]
        return "x".join(map(str, sizes[2:] if len(sizes) > 3 else sizes)) or "scalar"


@dataclass(frozen=True)
class ImportedCatalog:
    """The calls of an operator list. ``sections``: operator name -> its lines."""

    name: str
    path: Path
    head: ImportedHead
    sections: Mapping[str, tuple[ImportedLine, ...]]

    @property
    def title(self) -> str:
        return self.head.title

    @property
    def line_count(self) -> int:
        return sum(map(len, self.sections.values()))


Catalog = CrossedCatalog | CapturedCatalog | ImportedCatalog
