"""In which dtype, memory and weights a run had the calls of its catalogs, and why a record of another run is none of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from ssinghal.core.elements import DType, takes_dtype
from ssinghal.core.record import Record
from ssinghal.errors import InvalidCase
from ssinghal.operators import find_operator
from ssinghal.operators.operator_info import VOLUME_RANK, WEIGHTS_DTYPE

_KNOWN = {dtype.value: dtype for dtype in DType}


@dataclass(frozen=True)
class Variants:
    """What a run makes of each call; empty where it leaves it as the catalog has it.

    Attributes:
        placements: The memories in each of which every call is placed.
        memory: The memory of all calls.
        dtypes: The dtypes in each of which every call has its operands.
        weights: The dtype of the weights of convolutions and matrix products.
    """

    placements: tuple[str, ...] = ()
    memory: str | None = None
    dtypes: tuple[str, ...] = ()
    weights: str | None = None

    @property
    def memories(self) -> tuple[str, ...]:
        """The memories that operands are placed in; empty where the catalog's own are kept."""
        return self.placements or (() if self.memory is None else (self.memory,))

    def why_not(self, record: Record, theirs: Variants) -> str:
        """Returns why the run did not have a record of another one, whose variants are ``theirs``; "" if it had, or if that is
        not known.

        A dtype, a memory or weights that the other run alone gives are a reason where it altered the call of the catalog. A
        record states that; one of an earlier version does not, and then each of its calls may have been altered."""
        if self.memories and self.memories != theirs.memories and record.memory not in self.memories:
            return f"placed operands in {', '.join(self.memories)}"
        if record.memory in theirs.placements and self.lacks_move(record, theirs):
            return "placed operands in the memory of the call"
        if self.dtypes != theirs.dtypes and self._has_other_dtype(record, theirs):
            return f"had operands in {', '.join(self.dtypes) or 'the dtype of the call'}"
        if self.weights != theirs.weights and self._has_other_weights(record, theirs):
            return f"had weights in {self.weights or 'the dtype of the call'}"
        return ""

    def lacks_move(self, record: Record, theirs: Variants) -> bool:
        """Whether the other run placed the call of the catalog in another memory, and the run left all calls in theirs."""
        return not self.memories and record.memory in theirs.memories and _was_altered(record, "memory")

    def _has_other_dtype(self, record: Record, theirs: Variants) -> bool:
        """Integers, and rows where the dtypes have none, a run with dtypes has as they are."""
        if not self.dtypes:
            return record.dtype.value in theirs.dtypes and _was_altered(record, "dtype")
        changed = all(takes_dtype(record.dtype, record.layout, _KNOWN[name]) for name in self.dtypes if name in _KNOWN)
        return record.dtype.value not in self.dtypes and changed

    def _has_other_weights(self, record: Record, theirs: Variants) -> bool:
        own = set(_weights(record))
        if self.weights is None:
            return own == {theirs.weights} and _was_altered(record, "weights")
        return bool(own) and own != {self.weights}


def _was_altered(record: Record, what: str) -> bool:
    return record.altered is None or what in record.altered


def _weights(record: Record) -> Iterator[str]:
    """Yields the dtypes of the weights of a call that can have them in one of their own; nothing for other calls."""
    try:
        info = find_operator(record.operator)
    except InvalidCase:  # of another version
        return
    positions: Collection[int] = [position for position in info.traits.weights if position < len(record.inputs)]
    if not positions or WEIGHTS_DTYPE not in info.attrs:
        return
    if info.traits.nhwc is not None:
        if len(record.inputs[0]) < VOLUME_RANK:
            yield str(record.attrs.get(WEIGHTS_DTYPE) or record.dtype.value)
        return
    for position in positions:
        own = record.operands[position] if position < len(record.operands) else None
        yield str((own or {}).get("dtype") or record.dtype.value)
