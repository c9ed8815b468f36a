"""A task that makes a case's call, then runs the code that is shown for it: does it make the same calls?"""

from __future__ import annotations

from dataclasses import dataclass

from ssinghal.core.device_facts import DeviceFacts
from ssinghal.core.tensors import TensorSpec
from ssinghal.core.verdict import Verdict
from ssinghal.device.session import Session
from ssinghal.remedy.trial import Trial, TrialResult
from ssinghal.remedy.trial_runner import run_trial
from ssinghal.runner.probe import TTNN_ERRORS
from ssinghal.runner.tasks import PoolOptions, Task


@dataclass(frozen=True)
class Rerun:
    """``tried``: the trial. ``code_results``: tensors that its code left in its variables; ``raised``: what it raised."""

    tried: TrialResult
    code_results: tuple[TensorSpec, ...] = ()
    raised: str = ""


@dataclass(frozen=True)
class RerunTask(Task[Rerun]):
    trial: Trial

    def run(self, session: Session, options: PoolOptions) -> Rerun:
        tried = run_trial(self.trial, session)
        names: dict[str, object] = {"ttnn": session.ttnn, "device": session.device}
        session.use_regions(self.trial.case.placement.l1_small_bytes or 0)
        names["device"] = session.device
        try:
            exec("\n".join(tried.code), names)
            left = [v for v in names.values() if isinstance(v, session.ttnn.Tensor)]
            found = tuple(session.spec_of(t) for t in left if t.is_allocated())
            raised = ""
        except TTNN_ERRORS as error:
            found, raised = (), f"{type(error).__name__}: {error}"
        finally:
            for value in list(names.values()):
                if isinstance(value, session.ttnn.Tensor) and value.is_allocated():
                    value.deallocate()
            names.clear()
            session.clear()
        return Rerun(tried, found, raised)

    def lost(self, verdict: Verdict, facts: DeviceFacts) -> Rerun:
        return Rerun(TrialResult(self.trial, verdict, facts.board, facts.ttnn, facts.mode))
