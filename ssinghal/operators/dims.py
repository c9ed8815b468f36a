"""Cutting: the axes along which a call can be made piece by piece, and rules that several operators share.

Imports neither torch nor ttnn.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from ssinghal.core.case import Case
from ssinghal.core.tensors import Shape
from ssinghal.operators.binding import BoundCall, bind
from ssinghal.operators.dim_rule import Axes, CuttableCall, DimRule, Dims, along
from ssinghal.operators.operator_info import broadcast, normal_dim, normal_dims


def as_placed(case: Case) -> Case:
    """Returns the same call with its inputs written in the order that they are placed in."""
    call = bind(case)
    if call.info.traits.nhwc or not case.placement.channels_last:
        return case
    return replace(case, inputs=tuple(call.shapes), placement=replace(case.placement, channels_last=False))


def axes_of(call: BoundCall) -> Axes | None:
    """Returns the axes of a call whose inputs are written as they are placed; None where no way to cut its operator is known.

    The call must be valid.
    """
    rule, inputs = call.info.dims, call.case.inputs
    if rule is None or rule.cut is None:
        return None
    device = [spec.shape for spec in call.inputs]
    channels_last = bool(call.info.traits.nhwc) and call.case.placement.channels_last is False and len(inputs[0]) == 4
    return rule.cut(CuttableCall(inputs, call.results, call.attrs, rule.ties(inputs), device, channels_last))


# Operands -----------------------------------------------------------------------------------------------------------------


def trailing(shape: Shape, of: Shape) -> Dims:
    """Returns the dims of ``of`` that the dims of ``shape`` correspond to, the last with the last; None for a broadcast one."""
    new = len(of) - len(shape)
    return tuple((d, 1) if d >= 0 and size == of[d] else None for d, size in enumerate(shape, new))


def broadcast_operands(inputs: Sequence[Shape]) -> Sequence[Dims]:
    """Trailing dims go together; one of size 1 is broadcast, so it stays."""
    result = broadcast(inputs, {})[0]
    return [trailing(shape, result) for shape in inputs]


def equal_operands(inputs: Sequence[Shape]) -> Sequence[Dims]:
    """Dims that have the size of the first operand's go with it."""
    return [trailing(shape, inputs[0]) if len(shape) == len(inputs[0]) else (None,) * len(shape) for shape in inputs]


# Pieces -------------------------------------------------------------------------------------------------------------------


def units(shape: Shape, but: Collection[int] = ()) -> dict[int, int]:
    """Returns the sizes of the dims that can be cut: all ``but`` some."""
    return {d: size for d, size in enumerate(shape) if d not in but}


def cut_elements(call: CuttableCall) -> Axes | None:
    """Every element of the result is computed by itself."""
    return call.axes([along(len(call.results[0]))], units(call.results[0]))


def cut_rows(call: CuttableCall, but: Collection[int] = ()) -> Axes | None:
    """The results have the first operand's dims, which can be cut ``but`` for some; other operands are not cut."""
    dims = along(len(call.inputs[0]))
    placed = (dims, *[()] * (len(call.inputs) - 1))
    return call.axes([dims] * len(call.results), units(call.inputs[0], but), placed=placed)


def cut_across(name: str) -> Callable[[CuttableCall], Axes | None]:
    """Operators that work along the dims of an attribute: every other dim can be cut."""
    return lambda call: cut_rows(call, normal_dims(call.attrs[name], len(call.inputs[0])))


OTHER_DIMS = DimRule(cut=cut_across("dim"))


def cut_equal_dims(call: CuttableCall) -> Axes | None:
    """Dims in which operand and result differ cannot be cut; leading dims may be new."""
    shape, out = call.inputs[0], call.results[0]
    new = len(out) - len(shape)
    dims = along(len(shape))
    return call.axes([((None,) * new) + dims], units(shape, [d for d, size in enumerate(shape) if size != out[new + d]]))


def cut_with_new_dim(call: CuttableCall) -> Axes | None:
    """The result has one more dim, at the attribute ``dim``."""
    rank = len(call.inputs[0])
    new = normal_dim(call.attrs["dim"], rank + 1)
    dims = along(rank)
    return call.axes([(*dims[:new], None, *dims[new:])], units(call.inputs[0]))
