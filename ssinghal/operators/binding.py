"""A case bound to its operator: its complete attributes, the specs of its tensors, and the call itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ssinghal.core.case import Case
from ssinghal.core.tensors import Board, DType, Layout, MemoryConfig, Shape, TensorSpec, check_shape
from ssinghal.errors import RegistryError
from ssinghal.operators import find_operator
from ssinghal.operators.operator_info import (
    Attrs,
    Call,
    Limitation,
    MapResult,
    OperatorInfo,
    flat_nhwc,
    plain_specs,
    to_nhwc,
    working_shapes,
)


@dataclass(frozen=True)
class BoundCall:
    """A case with its operator. Everything else is computed when first read, and raises InvalidCase where it has no answer.

    >>> call = bind(make_case("softmax", ((2, 64),), {"dim": -1}))
    >>> call.attrs, call.results
    ({'dim': -1, 'half_to_float': False, 'dtype': None}, [(2, 64)])
    """

    case: Case
    info: OperatorInfo

    @cached_property
    def attrs(self) -> Attrs:
        """With the operator's defaults."""
        return self.info.complete_attrs(self.case.attrs)

    @cached_property
    def shapes(self) -> list[Shape]:
        """Of the operands, as ``infer`` and ``torch`` take them."""
        return working_shapes(self.info, self.case)

    @cached_property
    def results(self) -> list[Shape]:
        """Shapes of the results, as torch gives them."""
        return self.info.infer(self.shapes, self.attrs)

    @cached_property
    def inputs(self) -> list[TensorSpec]:
        """Each operand as it goes to the device."""
        place = self.info.place
        return plain_specs(self.case) if place is None else place(self.case, self.shapes, self.attrs)

    @cached_property
    def outputs(self) -> list[TensorSpec]:
        """Each result as TTNN must return it."""
        dtypes = self._output_dtypes()
        return [self._output(shape, dtype) for shape, dtype in zip(self.results, dtypes, strict=True)]

    def _output_dtypes(self) -> list[DType]:
        usual, declared = self.case.placement.dtype, self.info.traits.output_dtypes
        results = self.results  # first: the dtypes are those of shapes that go together
        dtypes = declared(usual, self.shapes, self.attrs) if callable(declared) else declared
        return [(dtypes[i] if i < len(dtypes) else None) or usual for i in range(len(results))]

    def _output(self, shape: Shape, dtype: DType) -> TensorSpec:
        placement, traits = self.case.placement, self.info.traits
        check_shape(shape, f"{self.info.name}: output shape")
        layout = traits.output_layout or placement.layout
        if traits.result_form is not None:
            shape, form_layout = traits.result_form(shape, self.attrs)
            layout = form_layout or layout
        elif traits.nhwc:
            shape = to_nhwc(shape) if traits.nhwc is MapResult.NHWC else flat_nhwc(shape)
        memory = placement.output_config
        if memory is None or traits.output_fixed:
            memory = MemoryConfig(traits.ttnn_output) if traits.ttnn_output else placement.memory_config
        return TensorSpec(shape, dtype, layout, memory, traits.row_alignment if layout is Layout.ROW_MAJOR else 1)

    def check(self) -> None:
        """Raises InvalidCase unless the number of operands, the attributes and the shapes go together."""
        self.info.check_operands(self.case.inputs)
        _ = self.results

    def specs(self) -> tuple[list[TensorSpec], list[TensorSpec]]:
        """Operands and results of a checked call."""
        self.check()
        outputs = self.outputs  # first: it checks the results' shapes, from which some operands' specs are built
        return self.inputs, outputs

    def limitations(self, board: Board | None) -> Iterator[Limitation]:
        """Known reasons why TTNN cannot make the call; on ``board``, or on any where it is None."""
        return (x for x in self.info.limitations if x.applies(self.info, self.case, self.attrs, board))

    @property
    def host_tiles(self) -> int:
        """Output tiles that TTNN maps on the host for the call, at 1 to 70 us each."""
        host_map = self.info.traits.host_map
        return host_map(self.inputs, self.outputs) if host_map else 0

    def run(self, ttnn: Any, device: Any, tensors: Sequence[Any], out: Mapping[str, Any], *, values: bool = False) -> list[Any]:
        """Calls TTNN and lists the results. ``out`` and ``values``: see ``Call``."""
        if self.info.call is None:
            raise RegistryError(f"{self.info.name}: no TTNN call")
        return _listed(self.info.call(Call(ttnn, device, list(tensors), self.attrs, dict(out), self.case, values)))

    def reference(self, torch: Any, tensors: Sequence[Any]) -> list[Any]:
        """torch's results on tensors of ``shapes``."""
        return _listed(self.info.torch(torch, tensors, self.attrs))


def _listed(returned: Any) -> list[Any]:
    return list(returned) if isinstance(returned, (list, tuple)) else [returned]


def bind(case: Case) -> BoundCall:
    """Finds the operator of ``case``; InvalidCase where there is none of that name."""
    return BoundCall(case, find_operator(case.operator))


def specs_of(case: Case) -> tuple[list[TensorSpec], list[TensorSpec]]:
    """Operands and results of a complete call; InvalidCase where operands, attributes or shapes do not go together."""
    return bind(case).specs()


def largest_bytes(case: Case) -> int:
    """Logical bytes of the largest operand, of the largest result where there is none; InvalidCase as of ``specs_of``."""
    operands, results = specs_of(case)
    return max(spec.logical_bytes for spec in operands or results)
