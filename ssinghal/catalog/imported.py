"""Catalogs of kind ``imported``: the calls of an operator list, each with the model and count that the list names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from ssinghal.catalog.counted import CountedLine
from ssinghal.catalog.crossed import CrossedLine
from ssinghal.catalog.field_types import CatalogModel, Name, SchemaNumber
from ssinghal.catalog.placement_fields import PlacementModel


class ImportedLine(CrossedLine, CountedLine):
    """One call that ``model`` makes ``n`` times at an ``input`` size, in the modules ``at``, if the list has them."""

    never = ("oom",)
    model: Name | None = None
    input: Name | None = None

    @model_validator(mode="after")
    def _no_card_ran_it(self) -> ImportedLine:
        if self.oom is not None:
            raise ValueError("oom belongs to catalogs of kind crossed, which describe the run")
        return self


class ImportedHead(CatalogModel):
    """An imported catalog without its ``operators``."""

    read_apart = ("operators",)
    schema_version: SchemaNumber = Field(alias="schema")
    kind: Literal["imported"]
    title: Name
    placement: PlacementModel


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
