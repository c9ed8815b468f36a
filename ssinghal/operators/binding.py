"""A case bound to its operator."""

from __future__ import annotations

from ssinghal.core.case import Case
from ssinghal.core.tensors import TensorSpec
from ssinghal.operators import find_operator
from ssinghal.operators.operator_info import input_specs, output_specs


def specs_of(case: Case) -> tuple[list[TensorSpec], list[TensorSpec]]:
    """Operands and results of a complete call. InvalidCase where operands, attributes or shapes do not go together."""
    info = find_operator(case.name)
    attrs = info.complete_attrs(case.attrs)
    info.check_operands(case.inputs)
    outputs = output_specs(info, case, attrs)  # first: it checks the shapes that the operands' specs are made from
    return input_specs(info, case, attrs), outputs
