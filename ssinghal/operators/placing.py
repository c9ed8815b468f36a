"""No operator at all: tensors are put on the device and nothing runs. Shows whether a set of live tensors fits."""

from __future__ import annotations

from ssinghal.operators.dim_rule import DimRule
from ssinghal.operators.dims import equal_operands
from ssinghal.operators.operator_info import OperatorInfo, Traits

OPERATORS = (
    OperatorInfo(
        names=("place",),
        aten=(),
        operands=("tensors*",),
        ttnn="ttnn.empty",
        call=lambda c: [],
        torch=lambda torch, tensors, attrs: [],
        infer=lambda shapes, attrs: [],
        dims=DimRule(equal_operands),
        traits=Traits(program=lambda inputs, outputs: 0),
    ),
)
