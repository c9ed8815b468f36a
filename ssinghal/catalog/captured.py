"""Catalogs of kind ``captured``: the calls that one model makes at one input size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator, StrictBool, model_validator

from ssinghal.catalog.counted import CountedLine
from ssinghal.catalog.field_types import (
    Amount,
    Arguments,
    CatalogModel,
    Count,
    Function,
    Modules,
    Name,
    Pinned,
    SchemaNumber,
    Text,
    TorchDType,
    read_operand,
    read_outputs,
    read_tensors,
)
from ssinghal.catalog.placement_fields import PlacementModel
from ssinghal.core.tensors import DType, Shape


class Model(CatalogModel):
    """The model. ``config``: what the package built it from, or the user's ``factory`` (``package.module:function``)."""

    name: Name
    package: Name
    config: Name
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

    shapes: Annotated[tuple[Shape, ...], PlainValidator(read_tensors), Field(min_length=1)]
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
    left_out: Mapping[Name, Amount] = {}


class CapturedLine(CountedLine):
    """One call made ``n`` times. ``in``: all tensor arguments in ATen order, of which ``w`` names weights and constants.

    ``args``: the other arguments where they differ from their default. ``dtypes``: of tensors that differ from the catalog's.
    Shapes are torch's: ``[]`` is a scalar, sizes may be 0.
    """

    at: Modules
    inputs: Mapping[str, Annotated[Any, PlainValidator(read_operand)]] = Field(alias="in")
    w: tuple[Text, ...] = ()
    args: Arguments = Field(default_factory=dict)
    dtypes: Mapping[str, TorchDType] = Field(default_factory=dict)
    out: Annotated[tuple[Shape, ...], PlainValidator(read_outputs)]

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

    read_apart = ("ops",)
    schema_version: SchemaNumber = Field(alias="schema")
    kind: Literal["captured"]
    model: Model
    input: Input
    capture: Capture
    counts: Counts
    placement: PlacementModel


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
