"""Catalogs of kind ``crossed``: shape sweeps, lists of shapes tried on every operator, each shape with its origin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, PlainValidator, model_validator

from ssinghal.catalog.field_types import Arguments, CatalogModel, Count, Name, SchemaNumber, ShapeField, Text, read_shapes
from ssinghal.catalog.placement_fields import PlacementChange, PlacementModel
from ssinghal.core.case import KnownOom
from ssinghal.core.tensors import Shape


class ShapeOrigin(CatalogModel):
    """The call of a model that has a tensor of this shape; ``none``: why no model has one; ``artefact``: why it is no shape.

    ``role`` is the tensor's place in the call. ``traced_with`` lists packages where they differ from the catalog's. ``note``:
    why the list did not have the shape from there.
    """

    shape: ShapeField
    model: Name | None = None
    input: Name | None = None
    call: Text | None = None
    role: Literal["in", "out"] | None = None
    at: Name | None = None
    traced_with: tuple[Name, ...] = ()
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

    run: Name
    stage: Name | None = None
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
    inputs: Annotated[tuple[Shape, ...], PlainValidator(read_shapes)] | None = Field(None, alias="in")
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

    read_apart = ("origins", "operators")
    schema_version: SchemaNumber = Field(alias="schema")
    kind: Literal["crossed"]
    title: Name
    traced_with: tuple[Name, ...] = ()
    runs: Mapping[Name, Text] = {}
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
