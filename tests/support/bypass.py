"""A call made on the device although the registry declares that TTNN cannot make it."""

from __future__ import annotations

from dataclasses import dataclass

from ssinghal.core.case import Case
from ssinghal.core.device_facts import DeviceFacts
from ssinghal.core.verdict import Verdict
from ssinghal.device.session import Session
from ssinghal.operators.binding import bind
from ssinghal.runner.probe import TTNN_ERRORS
from ssinghal.runner.tasks import PoolOptions, Task

TAKEN, REJECTED, CRASHED = "taken", "rejected", "crashed"
Answer = tuple[str, object]


@dataclass(frozen=True)
class BypassTask(Task[Answer]):
    """Returns ``TAKEN`` with the specs of the results, ``REJECTED`` with the last line of TTNN's error, or ``CRASHED``."""

    case: Case

    def run(self, session: Session, options: PoolOptions) -> Answer:
        session.use_regions(self.case.placement.l1_small_bytes or 0)
        call = bind(self.case, session.board)
        operands = [session.empty(spec) for spec in call.specs()[0]]
        try:
            out = session.output_arguments(call.requested_output)
            results = call.run(session.ttnn, session.device, operands, out, values=True)
            return TAKEN, tuple(map(session.spec_of, results))
        except (*TTNN_ERRORS, AssertionError) as error:
            return REJECTED, next((x for x in reversed(str(error).partition("\nbacktrace:")[0].splitlines()) if x.strip()), "")
        finally:
            operands.clear()
            if session.clear():
                session.reopen()

    def lost(self, verdict: Verdict, facts: DeviceFacts) -> Answer:
        return CRASHED, verdict.message
