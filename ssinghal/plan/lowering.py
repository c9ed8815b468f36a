"""Lowers the steps of a trace to cases of operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ssinghal.capture.trace import Step, Trace
from ssinghal.catalog.aten_calls import Unmapped, captured_case
from ssinghal.catalog.captured import CapturedLine
from ssinghal.core.case import Case, ModuleCalls, Placement, Source
from ssinghal.core.tensors import DType, Shape
from ssinghal.errors import InvalidCase
from ssinghal.operators.binding import BoundCall, bind
from ssinghal.operators.operator_info import Attrs, OperatorInfo


@dataclass(frozen=True)
class PlannedStep:
    """A step of a trace. ``reason``: why no operator makes its call, "" for a ``PlannedCall``.

    ``operands``: its tensors, as values of the trace. ``extras``: arguments that a rewrite adds and torch does not have.
    """

    number: int
    step: Step
    operands: tuple[int, ...]
    extras: Mapping[str, Any]
    reason: str = ""

    @property
    def results(self) -> tuple[int, ...]:
        return self.step.results

    @property
    def operator(self) -> str:
        """The canonical name of the operator, or torch's overload where there is none."""
        return self.step.overload


@dataclass(frozen=True)
class PlannedCall(PlannedStep):
    """A step that is a call of an operator."""

    case: Case = field(kw_only=True)

    @property
    def operator(self) -> str:
        return self.case.operator

    @cached_property
    def call(self) -> BoundCall:
        return bind(self.case)

    @property
    def info(self) -> OperatorInfo:
        return self.call.info

    @property
    def attrs(self) -> Attrs:
        return self.call.attrs


def planned_steps(trace: Trace) -> tuple[PlannedStep, ...]:
    """Returns the steps of ``trace`` in order, as calls of operators where there are such."""
    return tuple(_planned(trace, number, step) for number, step in enumerate(trace.steps))


EXTRAS = "ssinghal:"  # prefix of an argument that a rewrite adds


def _planned(trace: Trace, number: int, step: Step) -> PlannedStep:
    extras = {key.removeprefix(EXTRAS): value for key, value in step.args.items() if key.startswith(EXTRAS)}
    if step.writes:
        return PlannedStep(number, step, step.inputs, extras, "writes in place through a view")
    args = {key: value for key, value in step.args.items() if not key.startswith(EXTRAS)}
    try:
        line = _line(trace, step, args)
        source = Source(trace.model, trace.model, modules=(ModuleCalls(step.at),))
        case = captured_case(step.overload, line, Placement(dtype=DType(trace.dtype)), source)
    except (InvalidCase, ValueError) as error:  # pydantic's errors of a line are ValueErrors
        return PlannedStep(number, step, step.inputs, extras, str(error).splitlines()[0])
    reason = case.reason if isinstance(case, Unmapped) else _limitation(case, trace, number)
    if isinstance(case, Unmapped) or reason:
        return PlannedStep(number, step, step.inputs, extras, reason)
    return PlannedCall(number, step, step.inputs[: len(case.inputs)], extras, case=case)


def _limitation(case: Case, trace: Trace, number: int) -> str:
    """Returns why TTNN has no such call, whatever the layout; some it would accept, and compute something else.

    Resizing to the present size is not a call.
    """
    results = trace.steps[number].results
    if case.operator.startswith("upsample") and case.inputs[0] == trace.values[results[0]].shape:
        return ""
    call = bind(case)
    returned = len(call.results)
    if any(trace.last_use[value] > number for value in results[returned:]):
        return f"{call.info.ttnn} returns {returned} of its {len(results)} results, but another one is read"
    return next((x.reason for x in call.limitations(None) if not x.layouts), "")


def _line(trace: Trace, step: Step, args: Mapping[str, Any]) -> CapturedLine:
    """Returns the call as a captured catalog has it, where absent operands are left out."""
    operands: dict[str, Any] = {}
    dtypes: dict[str, str] = {}
    for name, operand in step.operands.items():
        numbers = operand if isinstance(operand, tuple) else (operand,)
        present = [trace.values[n] for n in numbers if n is not None]
        if not present:
            continue
        shapes: list[Shape | None] = [None if n is None else trace.values[n].shape for n in numbers]
        operands[name] = [s if s is None else list(s) for s in shapes] if isinstance(operand, tuple) else list(shapes[0] or ())
        if present[0].dtype != trace.dtype:
            dtypes[name] = present[0].dtype
    results = [trace.values[n] for n in step.results]
    if results and results[0].dtype != trace.dtype:
        dtypes["out"] = results[0].dtype
    out: Any = [list(r.shape) for r in results] if len(results) > 1 else list(results[0].shape)
    return CapturedLine.model_validate(
        {"n": 1, "in": operands, "args": dict(args), "dtypes": dtypes, "out": out, "at": step.at or "(top)"}
    )
