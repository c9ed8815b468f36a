"""The two forms of catalog, as pydantic models.

crossed   shapes x operators: lists of shapes tried on every operator, each shape with its origin
captured  the calls that one model makes at one input size
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, StrictBool, StrictInt, model_validator

from ssinghal.cases import KnownOom, OutputMemory, Placement
from ssinghal.errors import InvalidCase
from ssinghal.specs import MAX_RANK, BufferType, DType, Layout, Shape, check_shape


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


def _operand(value: Any) -> tuple[Shape, ...] | Shape:
    """One shape, or a list of shapes (the tensors of cat)."""
    return _shapes(value) if isinstance(value, list) and value and isinstance(value[0], list) else _shape(value)


def _outputs(value: Any) -> tuple[Shape, ...]:
    """One shape (``[]`` is a scalar), or a list of shapes, as a tuple of shapes."""
    if value == []:
        return ((),)
    return _shapes(value) if isinstance(value, list) and isinstance(value[0], list) else (_shape(value),)


def _argument(value: Any) -> Any:
    plain = (int, float, bool, str, type(None))
    items = value if isinstance(value, list) else [value]
    for item in items:
        if not isinstance(item, plain) and not (isinstance(item, list) and all(isinstance(x, plain) for x in item)):
            raise ValueError(f"{value!r} is not a number, a text, true, false, null or a list of them")
    return value


def _tensor_memory(value: Any) -> Any:
    if value == BufferType.L1_SMALL:
        raise ValueError("tensors go to 'dram' or 'l1'; l1_small is TTNN's own")
    return value


ShapeField = Annotated[Shape, PlainValidator(_shape)]
Memory = Annotated[BufferType, BeforeValidator(_tensor_memory)]
Count = Annotated[StrictInt, Field(ge=1)]
Amount = Annotated[StrictInt, Field(ge=0)]
Text = Annotated[str, Field(min_length=1)]
Arguments = Mapping[str, Annotated[Any, PlainValidator(_argument)]]


class Form(BaseModel):
    """Every mapping of a catalog: unknown keys are faults."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class PlacementForm(Form):
    """How the shapes of a catalog go to the device. Without ``channels_last`` each operator decides for itself."""

    dtype: DType
    layout: Layout
    memory: Memory
    output_memory: OutputMemory
    channels_last: StrictBool | None = None

    def placement(self) -> Placement:
        return Placement(**dict(self))


class PlacementChange(Form):
    """What one line does otherwise than its catalog."""

    dtype: DType | None = None
    layout: Layout | None = None
    memory: Memory | None = None
    output_memory: OutputMemory | None = None
    channels_last: StrictBool | None = None

    def applied_to(self, base: Placement) -> Placement:
        return replace(base, **{name: getattr(self, name) for name in self.model_fields_set})


class Origin(Form):
    """Which call of which model has a tensor of this shape; ``none`` tells why no model has; ``artefact``, why it is no shape.

    ``role`` is the tensor's place in the call. ``traced_with`` lists packages where they differ from the catalog's.
    """

    shape: ShapeField
    model: Text | None = None
    input: Text | None = None
    call: Text | None = None
    role: Literal["in", "out"] | None = None
    at: Text | None = None
    traced_with: tuple[Text, ...] = ()
    none: Text | None = None
    artefact: Text | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Origin:
        traced = (self.model, self.input, self.call, self.role, self.at)
        reasons = [r for r in (self.none, self.artefact) if r is not None]
        if len(reasons) > 1 or (reasons and any(traced)) or (not reasons and not all(traced)):
            raise ValueError("needs model, input, call, role and at together, or none, or artefact")
        return self


class Oom(Form):
    """What a real card said when it ran out on this very call; bytes stand where the log of ``run`` gives them."""

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


class CrossedLine(Form):
    """One call: the operator makes its operands from ``shape``, or takes them as ``in`` gives them. ``args`` by ATen name."""

    shape: ShapeField | None = None
    inputs: Annotated[tuple[Shape, ...], PlainValidator(_shapes)] | None = Field(None, alias="in")
    args: Arguments = {}
    placement: PlacementChange | None = None
    oom: Oom | None = None

    @model_validator(mode="after")
    def _one_source_of_operands(self) -> CrossedLine:
        if (self.shape is None) != bool(self.inputs):
            raise ValueError("needs either shape or in (at least one shape)")
        return self

    @property
    def first_shape(self) -> Shape:
        """The shape whose origin the catalog tells."""
        return self.shape if self.shape is not None else (self.inputs or ())[0]


class CrossedHead(Form):
    """A crossed catalog without its ``origins`` and ``operators``. ``runs`` says what the runs named by an ``oom`` were."""

    schema_version: Literal[1] = Field(alias="schema")
    kind: Literal["crossed"]
    title: Text
    traced_with: tuple[Text, ...] = ()
    runs: Mapping[str, Text] = {}
    placement: PlacementForm


class Model(Form):
    name: Text
    package: Text
    config: Text
    params: Amount
    fused: StrictBool

    @property
    def full_name(self) -> str:
        """``ultralytics/yolo12x``: package and model, without the version."""
        return f"{self.package.partition('==')[0]}/{self.name}"


class Input(Form):
    shapes: Annotated[tuple[Shape, ...], PlainValidator(_shapes), Field(min_length=1)]
    dtype: DType


class Capture(Form):
    torch: Text
    level: Literal["aten", "torch"]
    device: Text
    guessed: Amount


class Counts(Form):
    """``calls`` the model makes, in ``cases`` lines; ``left_out`` says how many calls are not listed, and why."""

    calls: Count
    cases: Count
    left_out: Mapping[str, Amount] = {}


class CapturedLine(Form):
    """One call made ``n`` times. ``in``: all tensor arguments in ATen order, of which ``w`` names weights and constants.

    ``args``: the other arguments where they differ from their default. ``dtypes``: of tensors that differ from the input's.
    ``at``: the first module that makes the call.
    """

    n: Count
    inputs: Mapping[str, Annotated[Any, PlainValidator(_operand)]] = Field(alias="in")
    w: tuple[Text, ...] = ()
    args: Arguments = {}
    dtypes: Mapping[str, Text] = {}
    out: Annotated[tuple[Shape, ...], PlainValidator(_outputs)]
    at: Text

    @model_validator(mode="after")
    def _names_exist(self) -> CapturedLine:
        strange = (set(self.w) | set(self.dtypes)) - set(self.inputs) - {"out"}
        if strange:
            raise ValueError(f"{', '.join(sorted(strange))} is no tensor argument of this line")
        return self

    def shapes(self) -> tuple[Shape, ...]:
        """Every tensor argument, lists of tensors flattened."""
        flat: list[Shape] = []
        for operand in self.inputs.values():
            flat += operand if operand and isinstance(operand[0], tuple) else [operand]
        return tuple(flat)


class CapturedHead(Form):
    """A captured catalog without its ``ops``."""

    schema_version: Literal[1] = Field(alias="schema")
    kind: Literal["captured"]
    model: Model
    input: Input
    capture: Capture
    counts: Counts
    placement: PlacementForm


@dataclass(frozen=True)
class CrossedCatalog:
    """Shapes x operators. ``sections``: operator name -> its lines."""

    name: str
    path: Path
    head: CrossedHead
    origins: tuple[Origin, ...]
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
        """``2176x3840``: the model's first input, without batch and channels."""
        sizes = self.head.input.shapes[0]
        return "x".join(map(str, sizes[2:] or sizes))


Catalog = CrossedCatalog | CapturedCatalog
