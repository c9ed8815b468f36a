"""A call, or a tensor, that may be the one of a message."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ssinghal.core.case import Case, OutputMemory, Source
from ssinghal.core.json_values import value_text
from ssinghal.core.tensors import TensorSpec, format_shape
from ssinghal.diagnose.source_calls import SourceCall

PROGRAM = "program"  # the label of a candidate whose program buffers have the bytes


@dataclass(frozen=True)
class Candidate:
    """A call, or a tensor, that requests the bytes of the message.

    ``case``: of a catalog, in the memory of the message; None where arithmetic alone gives the shape. ``label``: which of its
    tensors, with ``spec``. ``as_allocated``: the tensors before it take what is allocated according to the message. ``calls``:
    how often models make the call; 0 where none is known to. ``sources``: those models. ``sizes_from``: the part of the text
    that has its sizes, else ""; its bytes may differ from the message's. ``left_out``: what else is set there.
    """

    description: str
    label: str = ""
    case: Case | None = None
    spec: TensorSpec | None = None
    as_allocated: bool = False
    calls: int = 0
    sources: tuple[Source, ...] = ()
    sizes_from: str = ""
    left_out: tuple[str, ...] = ()

    @classmethod
    def from_source(cls, call: SourceCall) -> Candidate:
        return cls(description(call.case), case=call.case, sizes_from=call.sizes_from, left_out=call.left_out)

    @property
    def by_arithmetic(self) -> bool:
        return self.case is None

    def line(self) -> str:
        if self.case is None:
            return f"by arithmetic: {self.description}"
        placement = self.case.placement
        moved = "" if placement.output_memory is OutputMemory.SAME else f" from {placement.request}"
        if self.sizes_from:
            without = f" (without {', '.join(self.left_out)})" if self.left_out else ""
            memory = f"{placement.request} to {placement.output_text}" if moved else str(placement.request)
            result = f", result {placement.output_dtype}" if placement.output_dtype else ""
            assumed = f"{placement.dtype}, {placement.layout}, {memory}{result}"
            return f"from {self.sizes_from}: {self.description}{without}, assumed in {assumed}"
        count = f", {self.calls:,} call{'s' if self.calls > 1 else ''}" if self.calls else ""
        where = f"; {_model_and_module(self.sources)}" if _model_and_module(self.sources) else ""
        allocated = "; its operands are what is allocated" if self.as_allocated else ""
        return f"candidate: {self.label} of {self.description}{moved}{count}{where}{allocated}"


def _model_and_module(sources: Iterable[Source]) -> str:
    """Returns the first model that makes the call, and where in it."""
    first = next((source for source in sources if source.model), None)
    return f"{first.model} at {first.input_size}, {first.where}" if first else ""


def merged(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Merges equal calls of several models, and sorts: those whose operands are what is allocated first, then by calls."""
    merged: dict[tuple[str, str], Candidate] = {}
    for one in candidates:
        key = (one.case.key if one.case else "", one.label)
        known = merged.get(key)
        sources = (*known.sources, *one.sources) if known else one.sources
        merged[key] = replace(one, sources=sources, calls=sum(source.count for source in sources))
    return sorted(merged.values(), key=lambda one: (not one.as_allocated, -one.calls, one.description, one.label))


def description(case: Case) -> str:
    shapes = " and ".join(map(format_shape, case.inputs))
    attrs = ", ".join(f"{name}={value_text(value)}" for name, value in case.attrs.items())
    return f"{case.name} of {shapes}{f' with {attrs}' if attrs else ''}"
