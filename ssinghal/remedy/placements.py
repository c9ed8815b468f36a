"""Other placements of a call: without its shards, in another memory or dtype. Operands keep what is not changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ssinghal.core.case import AS_CASE, Case, OperandPlacement, OutputMemory, Placement
from ssinghal.core.tensors import BufferType, DType


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

    def narrow(own: DType | None) -> DType | None:
        return dtype if own is not None and own in WIDER[dtype] else own

    changed = with_operands(placement, lambda operand: replace(operand, dtype=narrow(operand.dtype)))
    return replace(changed, dtype=dtype, output_dtype=narrow(placement.output_dtype))


def bare(case: Case) -> Case:
    """Returns the case with nothing of its memory: the shapes and values of its tensors do not depend on it."""
    placement = replace(case.placement, sharding=None, output_sharding=None, output_dtype=None, operands=())
    return replace(case, placement=placement)


NARROWER = {
    DType.FLOAT32: (DType.BFLOAT16, DType.BFLOAT8_B, DType.BFLOAT4_B),
    DType.BFLOAT16: (DType.BFLOAT8_B, DType.BFLOAT4_B),
}
WIDER = {dtype: tuple(wide for wide, narrow in NARROWER.items() if dtype in narrow) for dtype in DType}
