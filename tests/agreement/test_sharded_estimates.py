"""What ``estimate`` states of calls with shards, mixed dtypes and settings is what ``probe`` finds, in all numbers."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

import pytest

from benchmarks.random_calls import calls
from ssinghal.core.boards import load_board
from ssinghal.core.device_facts import DeviceMode
from ssinghal.core.estimate import Prediction
from ssinghal.core.verdict import Resource, Status
from ssinghal.device.modes import DeviceChoice
from ssinghal.device.session import Session
from ssinghal.device.virtual import apply_environment, environment_for
from ssinghal.device.virtual_cache import scratch_folder
from ssinghal.estimation.estimator import MemoryEstimate, estimate
from ssinghal.operators.case_json import case_from_json
from ssinghal.runner.probe import probe

pytestmark = pytest.mark.virtual_device

NUMBERS = ("stage", "resource", "total_bytes", "banks", "bytes_per_bank", "bank_bytes", "allocated_bytes", "free_bytes")


def _compare(board_name: str, count: int, seed: int) -> tuple[Counter[str], list[str]]:
    choice, board = DeviceChoice(DeviceMode.VIRTUAL, board_name, "requested"), load_board(board_name)
    seen: Counter[str] = Counter()
    faults = []
    with scratch_folder() as scratch:
        apply_environment(environment_for(choice, scratch))
        with Session(choice) as session:
            for call in calls(count, seed, board.grid, board.dram.num_banks):
                case = case_from_json(call.case())
                estimated, verdict = estimate(case, board), probe(case, session).verdict
                expected = _numbers(estimated)
                found = tuple(getattr(verdict, name) for name in NUMBERS)
                operand = verdict.status is Status.OOM and verdict.stage.startswith("input")
                kind = "output" if estimated.stage.startswith("output") else "input" if estimated.stage else ""
                seen[f"{estimated.verdict} {kind}".strip()] += 1
                if estimated.verdict is Prediction.EXCEEDS:
                    # a temporary may fail before the result
                    early = estimated.temporaries and kind == "output" and verdict.resource is Resource.L1_BUFFER
                    wrong = verdict.status is not Status.OOM or (found != expected and not early)
                else:
                    wrong = operand or (estimated.verdict is Prediction.FITS and verdict.status is not Status.FITS)
                if wrong:
                    faults.append(
                        f"{case.name} {case.id}: estimate {estimated.verdict} {expected}; probe {verdict.status} {found}"
                    )
    return seen, faults


def _numbers(estimated: MemoryEstimate) -> tuple[object, ...]:
    return tuple(getattr(estimated, name) for name in NUMBERS)


@pytest.mark.parametrize(("board", "seed"), [("n150", 20261129), ("p150", 20261130)])
def test_what_exceeds_by_arithmetic_runs_out_with_the_same_numbers(board: str, seed: int) -> None:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as worker:
        seen, faults = worker.submit(_compare, board, 300, seed).result(timeout=240)
    assert faults == []
    assert seen["exceeds input"] > 30
    assert seen["exceeds output"] > 5
    assert seen["unknown"] > 100
