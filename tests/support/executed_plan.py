"""Runs the executor of plans itself, as a program that ``ssinghal profile`` follows: python executed_plan.py TRACE [POLICY]."""

from __future__ import annotations

import sys
from pathlib import Path

from ssinghal.capture.trace import read_trace
from ssinghal.core.record import Status
from ssinghal.device.modes import choose_device
from ssinghal.device.session import Session
from ssinghal.plan.executor import PlanTask
from ssinghal.plan.passes.registry import rewritten
from ssinghal.plan.policy import POLICIES
from ssinghal.runner.tasks import PoolOptions


def main() -> None:
    trace, policy = read_trace(Path(sys.argv[1])), POLICIES[sys.argv[2] if len(sys.argv) > 2 else "port"]
    with Session(choose_device("virtual", "n150")) as session:
        result = PlanTask(rewritten(trace, policy), policy, 32768, inside=False).run(session, PoolOptions())
        assert result.status is Status.FITS, result.message
        spec = session.ttnn.TensorSpec([1], session.ttnn.bfloat16, session.ttnn.ROW_MAJOR_LAYOUT, session.ttnn.BufferType.DRAM)
        session.ttnn.allocate_tensor_on_host(spec, session.device)  # what was freed is recorded with the next call


if __name__ == "__main__":
    main()
