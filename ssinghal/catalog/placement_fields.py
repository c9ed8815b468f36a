"""How a catalog, or a line of it, places tensors."""

from __future__ import annotations

from dataclasses import replace

from pydantic import StrictBool

from ssinghal.catalog.field_types import Amount, CatalogModel, Operands, Request, Result
from ssinghal.core.case import Placement
from ssinghal.core.tensors import DType, Layout


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
