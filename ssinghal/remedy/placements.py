"""Other placements of a call: without its shards, in another memory or dtype. Operands keep what is not changed."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from ssinghal.core.case import AS_CASE, Case, OperandPlacement, OutputMemory, Placement
from ssinghal.core.tensors import BufferType, DType
from ssinghal.operators import find_operator


def with_operands(placement: Placement, change: Callable[[OperandPlacement], OperandPlacement]) -> Placement:
    """Returns ``placement`` with each operand's own words changed; those that then have none are left out at the end."""
    operands = [change(operand) for operand in placement.operands]
    while operands and operands[-1] == AS_CASE:
        operands.pop()
    return replace(placement, operands=tuple(operands))


def interleaved(placement: Placement, memory: BufferType) -> Placement:
    """Returns the placement of all tensors in ``memory``, without shards; dtypes and layouts stay."""
    plain = with_operands(placement, lambda operand: replace(operand, memory=None))
    return replace(plain, memory=memory, sharding=None, output_memory=OutputMemory.SAME, output_sharding=None)


def narrowed(placement: Placement, dtype: DType) -> Placement:
    """Returns the placement with all floating-point tensors that are wider in ``dtype``."""
    changed = narrowed_operands(placement, range(len(placement.operands)), dtype)
    own = placement.output_dtype
    return replace(
        changed,
        dtype=dtype if placement.dtype in WIDER[dtype] else placement.dtype,
        output_dtype=dtype if own in WIDER[dtype] else own,
    )


def narrowed_operands(placement: Placement, positions: Collection[int], dtype: DType) -> Placement:
    """Returns the placement with those operands at ``positions`` that have a wider dtype of their own in ``dtype``."""
    return replace(
        placement,
        operands=tuple(
            replace(own, dtype=dtype) if number in positions and own.dtype in WIDER[dtype] else own
            for number, own in enumerate(placement.operands)
        ),
    )


def bare(case: Case) -> Case:
    """Returns the case without shards, dtypes of single operands and TTNN's settings: no shape depends on them, nor a value in
    torch."""
    placement = replace(case.placement, sharding=None, output_sharding=None, output_dtype=None, operands=())
    own = find_operator(case.operator).attrs
    return replace(case, placement=placement, attrs={name: value for name, value in case.attrs.items() if name in own})


NARROWER = {
    DType.FLOAT32: (DType.BFLOAT16, DType.BFLOAT8_B, DType.BFLOAT4_B),
    DType.BFLOAT16: (DType.BFLOAT8_B, DType.BFLOAT4_B),
}
NARROW = (DType.BFLOAT16, DType.BFLOAT8_B, DType.BFLOAT4_B)
WIDER = {dtype: tuple(wide for wide, narrow in NARROWER.items() if dtype in narrow) for dtype in DType}
