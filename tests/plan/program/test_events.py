"""A written program allocates and frees what the run of its plan does, event for event, as ``ssinghal profile`` records both.

Compared are all events of both processes from the first allocation of the weights on the device to the last call of the model:
the kind (allocated or freed), the memory, the address and the bytes of each buffer, also of those that TTNN allocates within
its calls and keeps in its program cache, and the programs that ran. The preparation of weights before that is not compared: the
plan needs their specs alone.
"""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from ssinghal.capture.trace import read_trace
from ssinghal.core.verdict import Status
from ssinghal.plan.planner import Boards, PlanSettings
from ssinghal.plan.planner import plan as plan_of
from ssinghal.plan.policy import find_policy
from ssinghal.plan.program.saving import program_text
from tests.support import executed_plan

pytestmark = pytest.mark.virtual_device
pytest.importorskip("torch")

Event = tuple[object, ...]
ROOT = Path(__file__).parents[3]
MODELS = {
    "tokens": ("program_models:tokens", "2,3,64,64", "port"),
    "tokens of eager": ("program_models:tokens", "1,3,32,32", "eager"),
    "maps in L1": ("program_models:maps", "1,3,64,64", "l1"),
    "maps of block floats": ("program_models:maps", "1,3,64,64", "port+bfloat8_b"),
    "maps of block floats in L1": ("program_models:maps", "1,3,64,64", "l1+bfloat8_b"),
}


def events(folder: Path) -> list[Event]:
    """Returns the events from the first allocation on, before which the device was empty for the last time."""
    (records,) = folder.glob("records-*.jsonl")
    found: list[Event] = []
    for line in records.read_text().splitlines():
        record = json.loads(line)
        if record["k"] == "call":
            found += [tuple(event) for event in (*record["gap"], *record["ev"])]
    live: set[Event] = set()
    start = 0
    for number, event in enumerate(found):
        if event[0] == "+":
            start = start if live else number
            live.add(event[1:3])
        elif event[0] == "-":
            live.discard(event[1:3])
    return found[start:]


def profiled(folder: Path, name: str, *command: str) -> list[Event]:
    """Runs a program under the profiler and returns its events."""
    ssinghal(folder, "profile", "-o", name, "--", sys.executable, *command)
    return events(folder / name)


def ssinghal(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "ssinghal", *arguments], cwd=folder, capture_output=True, text=True, timeout=240,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests' / 'support'}"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", list(MODELS))
def test_a_program_allocates_what_its_plan_does(name, tmp_path):
    model, shape, named = MODELS[name]
    base, _, dtype = named.partition("+")
    policy = find_policy(base, weights=dtype or None, activations=dtype or None)
    ssinghal(tmp_path, "catalog", "capture", "--factory", model, "--input", shape, "--trace", "-o", "model.trace.json.gz")
    trace = read_trace(tmp_path / "model.trace.json.gz")
    with Boards(PlanSettings()) as boards:
        planned = plan_of(trace, policy, "n150", boards)
        assert planned.result.status is Status.FITS, planned.result.message
        task = boards.last_task(planned.result)
        (tmp_path / "program.py").write_text(program_text(trace, planned.result, boards))
    (tmp_path / "task.pickle").write_bytes(pickle.dumps(task))
    plan = profiled(tmp_path, "plan", executed_plan.__file__, "task.pickle")
    program = profiled(tmp_path, "written", "program.py")
    assert any(event[1] == "l1" for event in plan if event[0] == "+") or not policy.in_l1
    assert len(plan) > 100
    last = max(number for number, event in enumerate(plan) if event[0] != "-") + 1
    assert program[:last] == plan[:last]
    freed_by_plan, freed_by_program = (events[last:] for events in (plan, program))
    assert {event[0] for event in freed_by_program} <= {"-"}, "results are read, and nothing else is made"
    assert set(freed_by_program) <= set(freed_by_plan), "the plan frees results and weights too, the program ends"
