"""Writes the program of a plan to a file, once the run that it records was seen to be the plan's."""

from __future__ import annotations

from pathlib import Path

from ssinghal.capture.trace import Trace
from ssinghal.core.files import write_given
from ssinghal.core.verdict import Status
from ssinghal.errors import HarnessError, InvalidCase
from ssinghal.plan.planner import Boards, Plan
from ssinghal.plan.program.model_source import ModelSource, model_source
from ssinghal.plan.program.recording import RecordingTask
from ssinghal.plan.program.writer import ProgramText
from ssinghal.plan.result import PlanResult


def check_program(trace: Trace) -> None:
    """Refuses, before a plan runs, a model of which no program can be written.

    Raises:
        InvalidCase: The trace is not the complete model, or does not state how it is built.
    """
    if trace.stopped:
        raise InvalidCase(f"{trace.model}: no program can be written of a part of the model ({trace.stopped})")
    model_source(trace)


def write_program(path: Path, trace: Trace, plan: Plan, boards: Boards) -> None:
    """Writes the program of a plan that fits, if need be with the rewrites that make it fit.

    Raises:
        InvalidCase: The plan does not fit, or has calls that no operator makes.
        HarnessError: The recorded run differs from the plan's, or the file cannot be written.
    """
    result = plan.remedy or plan.result
    if result.status is not Status.FITS:
        raise InvalidCase(f"--write: {result.model} does not fit on {result.board}, so there is no program to write")
    if result.stand_ins:
        first = result.stand_ins[0]
        where = f"step {first.step} {first.overload} in {first.at}"
        raise InvalidCase(f"--write: no operator makes {where} ({first.reason}), so no program can be written")
    write_given(path, program_text(trace, result, boards))


def program_text(trace: Trace, result: PlanResult, boards: Boards, source: ModelSource | None = None) -> str:
    """Runs a plan once more, recorded, and returns its program.

    ``trace``: before rewrites. ``source``: how the model is built, None for what the trace states.
    """
    run, recording = boards.perform(RecordingTask(boards.last_task(result)), result.board)
    if recording is None or run.steps_sha256 != result.steps_sha256:
        raise HarnessError(f"--write: the recorded run differs from that of the plan: {run.message or 'other bytes'}")
    return ProgramText(trace, recording, result).text(source)
