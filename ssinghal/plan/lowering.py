"""The steps of a trace as cases of the registry's operators. Device-free."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ssinghal.capture.trace import Step, Trace
from ssinghal.catalog.aten_calls import Unmapped, captured_case
from ssinghal.catalog.schema import CapturedLine
from ssinghal.core.case import Case, Placement, Source
from ssinghal.core.tensors import DType, Shape
from ssinghal.errors import InvalidCase
from ssinghal.operators.binding import BoundCall, bind
from ssinghal.operators.operator_info import Attrs, OperatorInfo


@dataclass(frozen=True)
class PlannedStep:
    """``case``: the operator's call, None where there is none, for ``reason``. ``operands``: its tensors, as values of the
    trace; ``results`` likewise. ``extras``: what a rewrite tells the call that torch has no words for."""

    number: int
    step: Step
    case: Case | None
    reason: str
    operands: tuple[int, ...]
    extras: Mapping[str, Any]

    @property
    def results(self) -> tuple[int, ...]:
        return self.step.results

    @cached_property
    def call(self) -> BoundCall:
        assert self.case is not None
        return bind(self.case)

    @property
    def info(self) -> OperatorInfo:
        return self.call.info

    @property
    def attrs(self) -> Attrs:
        return self.call.attrs

    @property
    def operator(self) -> str:
        """The canonical name, or torch's overload where there is no operator."""
        return self.case.operator if self.case is not None else self.step.overload


def planned_steps(trace: Trace) -> tuple[PlannedStep, ...]:
    return tuple(_planned(trace, number, step) for number, step in enumerate(trace.steps))


EXTRAS = "ssinghal:"  # begins the name of an argument that a rewrite adds


def _planned(trace: Trace, number: int, step: Step) -> PlannedStep:
    extras = {key.removeprefix(EXTRAS): value for key, value in step.args.items() if key.startswith(EXTRAS)}
    if step.writes:
        return PlannedStep(number, step, None, "writes in place through a view", step.inputs, extras)
    args = {key: value for key, value in step.args.items() if not key.startswith(EXTRAS)}
    try:
        line = _line(trace, step, args)
        source = Source(trace.model, trace.model, count=1, module_path=step.at)
        found = captured_case(step.overload, line, Placement(dtype=DType(trace.dtype)), source)
    except (InvalidCase, ValueError) as error:  # pydantic's errors of a line are ValueErrors
        return PlannedStep(number, step, None, str(error).splitlines()[0], step.inputs, extras)
    reason = found.reason if isinstance(found, Unmapped) else _limitation(found, trace, number)
    if isinstance(found, Unmapped) or reason:
        return PlannedStep(number, step, None, reason, step.inputs, extras)
    return PlannedStep(number, step, found, "", step.inputs[: len(found.inputs)], extras)


def _limitation(case: Case, trace: Trace, number: int) -> str:
    """Why TTNN has no such call, whatever the layout: some it would make in silence, and compute something else. Resizing to
    the size that is there is no call."""
    results = trace.steps[number].results
    if case.operator.startswith("upsample") and case.inputs[0] == trace.values[results[0]].shape:
        return ""
    call = bind(case)
    returned = len(call.results)
    if any(trace.last_use[value] > number for value in results[returned:]):
        return f"{call.info.ttnn} returns {returned} of its {len(results)} results, and another one is read"
    return next((x.reason for x in call.limitations(None) if not x.layouts), "")


def _line(trace: Trace, step: Step, args: Mapping[str, Any]) -> CapturedLine:
    """The call as a captured catalog has it. An absent operand is left out there."""
    operands: dict[str, Any] = {}
    dtypes: dict[str, str] = {}
    for name, operand in step.operands.items():
        numbers = operand if isinstance(operand, tuple) else (operand,)
        given = [trace.values[n] for n in numbers if n is not None]
        if not given:
            continue
        shapes: list[Shape | None] = [None if n is None else trace.values[n].shape for n in numbers]
        operands[name] = [s if s is None else list(s) for s in shapes] if isinstance(operand, tuple) else list(shapes[0] or ())
        if given[0].dtype != trace.dtype:
            dtypes[name] = given[0].dtype
    results = [trace.values[n] for n in step.results]
    if results and results[0].dtype != trace.dtype:
        dtypes["out"] = results[0].dtype
    out: Any = [list(r.shape) for r in results] if len(results) > 1 else list(results[0].shape)
    return CapturedLine.model_validate(
        {"n": 1, "in": operands, "args": dict(args), "dtypes": dtypes, "out": out, "at": step.at or "(top)"}
    )
