"""A call at another size: its operands' dims, and the sizes in its attributes, that go with a dim of its subject.

The subject is the first operand, as it is written; of elementwise calls the shape that all operands are broadcast to; of a
creation its size: see ``DimRule.subject``. Imports neither torch nor ttnn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ssinghal.core.case import Case
from ssinghal.core.tensors import Shape
from ssinghal.errors import InvalidCase
from ssinghal.operators import families, find_operator
from ssinghal.operators.binding import bind
from ssinghal.operators.dim_rule import Dim, DimRule, Dims, ResizableCall, Sizes
from ssinghal.operators.operator_info import Attrs, normal_dim


def subject_of(case: Case) -> Shape:
    """Returns the shape that is resized. InvalidCase where no way to resize calls of the operator is known."""
    rule = _rule_of(case)
    if rule.subject is not None:
        return case.inputs[rule.subject]
    call = bind(case)
    return call.info.infer(case.inputs, call.attrs)[0]


def spatial_dims(case: Case) -> tuple[int, int]:
    """Returns height and width of maps; of as-written maps that TTNN takes channels-last they are dims 1 and 2.

    InvalidCase where the subject is no map.
    """
    shape, rank = subject_of(case), len(subject_of(case))
    if rank not in (4, 5) or find_operator(case.name) in families()["matmul"]:
        raise InvalidCase(f"{case.name}: {list(shape)} is no map of rank 4 or 5; --dim H,W says which dims to take for one")
    as_nhwc = rank == 4 and find_operator(case.name).traits.nhwc and case.placement.channels_last is False
    return (1, 2) if as_nhwc else (rank - 2, rank - 1)


def resized(case: Case, sizes: Sizes) -> Case:
    """Returns ``case`` with other sizes of some dims of its subject, and of all that goes with them.

    Raises:
        InvalidCase: an attribute holds a size that does not follow, or the call would be invalid.
    """
    rule, subject = _rule_of(case), subject_of(case)
    changed = {dim: size for dim, size in sizes.items() if size != subject[dim]}
    inputs = [list(shape) for shape in case.inputs]
    ties = rule.ties(case.inputs)
    for dim, size in changed.items():
        for operand, place in _tied_to(dim, rule, ties):
            inputs[operand][place] = size
    attrs = rule.resize(_resizable(case, subject), changed) if changed and rule.resize else case.attrs
    resized_case = replace(case, inputs=tuple(map(tuple, inputs)), attrs=attrs, sources=(), known_oom=None, listed_shape=None)
    check(resized_case)
    return resized_case


def check(case: Case) -> None:
    """Raises InvalidCase for a call that is invalid: operands or attributes that are missing or do not go together."""
    bind(case).check()


def _rule_of(case: Case) -> DimRule:
    rule = find_operator(case.name).dims
    if rule is None:
        raise InvalidCase(f"{case.name}: it is not known what grows together in its calls")
    return rule


def _tied_to(dim: int, rule: DimRule, ties: Sequence[Dims]) -> Iterator[tuple[int, int]]:
    """Yields operand and dim of every size that is one with that of the subject's ``dim``."""
    axis: Dim = (dim, 1)
    if rule.subject is not None:
        yield rule.subject, dim
        axis = ties[rule.subject][dim]
    if axis is not None:
        yield from ((operand, place) for operand, dims in enumerate(ties) for place, tied in enumerate(dims) if tied == axis)


def _resizable(case: Case, subject: Shape) -> ResizableCall:
    turned = case.placement.channels_last and len(subject) == 4 and not find_operator(case.name).traits.nhwc
    return ResizableCall(case, subject, (0, 3, 1, 2) if turned else range(len(subject)))


# Attributes ---------------------------------------------------------------------------------------------------------------


def scaled(call: ResizableCall, dim: int, value: int, size: int) -> int:
    """Returns the size that is to ``size`` what ``value`` was to the dim."""
    if value * size % call.subject[dim]:
        raise call.no(dim, f"{value} for {call.subject[dim]} would be no whole number for {size}")
    return value * size // call.subject[dim]


def not_along(why: str) -> Callable[[ResizableCall, Sizes], Attrs]:
    """The operator does something along the dim of its attribute that has no meaning at another size."""

    def resize(call: ResizableCall, sizes: Sizes) -> Attrs:
        along = normal_dim(call.attrs.get("dim", 0), len(call.subject))
        for dim in sizes:
            if call.placed[dim] == along:
                raise call.no(dim, why)
        return call.attrs

    return resize
