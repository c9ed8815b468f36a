"""Runs the executor of plans itself, as a program that ``ssinghal profile`` follows: python executed_plan.py TASK.pickle."""

from __future__ import annotations

import pickle
import sys
from dataclasses import replace
from pathlib import Path

from ssinghal.core.verdict import Status
from ssinghal.device.modes import choose_device
from ssinghal.device.session import Session
from ssinghal.runner.tasks import PoolOptions


def main() -> None:
    task = replace(pickle.loads(Path(sys.argv[1]).read_bytes()), inside=False)
    with Session(choose_device("virtual", "n150")) as session:
        result = task.run(session, PoolOptions())
        assert result.status is Status.FITS, result.message
        spec = session.ttnn.TensorSpec([1], session.ttnn.bfloat16, session.ttnn.ROW_MAJOR_LAYOUT, session.ttnn.BufferType.DRAM)
        session.ttnn.allocate_tensor_on_host(spec, session.device)  # what was freed is recorded with the next call


if __name__ == "__main__":
    main()
