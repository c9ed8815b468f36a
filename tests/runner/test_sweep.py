"""A sweep on the virtual device: what earlier runs have answered is taken, equal calls are probed once, slow cases go first."""

from __future__ import annotations

import json
import random
import signal
import weakref
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import pytest

from ssinghal.core.boards import load_board
from ssinghal.core.case import Case
from ssinghal.core.verdict import Status
from ssinghal.device.modes import choose_device
from ssinghal.operators.case_json import case_from_json
from ssinghal.runner import sweep as sweep_module
from ssinghal.runner.answerer import answerer_of
from ssinghal.runner.pool import MAX_AHEAD, Pool
from ssinghal.runner.probers import LocalProber
from ssinghal.runner.sweep import sweep
from ssinghal.runner.tasks import PoolOptions
from ssinghal.runs.known import EarlierRuns
from ssinghal.runs.parsing import parse_record
from ssinghal.runs.writer import RunFolder, new_run

pytestmark = pytest.mark.virtual_device

OPTIONS = PoolOptions(workers=1)
# 64 x 1280 x 800 elements of 2 B are 131,072,000 B; 64 banks of at most 1,499,136 B have 95,944,704 B.
FITS, FULL = [1, 32, 64], [1, 64, 1280, 800]


def a_case(op, shape=FITS, memory="l1"):
    return case_from_json({"op": op, "inputs": [shape], "memory": memory})


CASES = [a_case("relu"), a_case("relu", FULL), a_case("gelu"), a_case("geluactivation")]


@pytest.fixture(scope="module")
def pool():
    with Pool(choose_device("virtual"), OPTIONS) as pool:
        yield pool


class Sweeps:
    """Sweeps into ``results``, with the cases that reached the device."""

    def __init__(self, pool: Pool, results: Path) -> None:
        self.pool, self.results = pool, results
        self.probed: list[str] = []
        self.started: list[Case] = []

    def submit(self, case):
        self.probed.append(case.name)
        self.started.append(case)
        return self.pool.submit(case)

    def __call__(self, cases=CASES, *, incremental=True, answerer="", stop_after=None):
        self.probed.clear()
        self.started.clear()
        earlier = EarlierRuns(self.results)
        earlier.sync()
        folder = RunFolder(self.results, new_run(Path.cwd(), {}, len(cases)))
        self.path = folder.path
        sweep(
            cases,
            load_board("n150"),
            folder,
            lambda record: None,
            opened=lambda: nullcontext(LocalProber(self.pool, self.submit)),
            answerer=lambda prober: answerer or answerer_of(prober.facts, OPTIONS),
            earlier=earlier,
            incremental=incremental,
        )
        self.lines = folder.finish(len(cases))
        return [json.loads(line) for line in (folder.path / "records.jsonl").read_text().splitlines()]


@pytest.fixture
def sweeps(pool, tmp_path):
    return Sweeps(pool, tmp_path)


def by_name(records):
    return {(r["op"], r["key"]): r for r in records}


def test_a_second_run_takes_all_answers(sweeps):
    first = sweeps()
    assert sorted(sweeps.probed) == ["gelu", "relu", "relu"]
    origin = sweeps.path.name
    second = sweeps()
    assert sweeps.probed == []
    assert {r["status"] for r in second} == {"fits", "oom"}
    assert [r["taken_from"] for r in second] == [origin] * len(CASES)
    apart = {"run": None, "taken_from": None, "duration_s": None}
    assert {k: {**r, **apart} for k, r in by_name(second).items()} == {k: {**r, **apart} for k, r in by_name(first).items()}
    assert (
        f"{len(CASES)} of {len(CASES)} answers taken from earlier runs (the same device, TTNN, code and limits)" in sweeps.lines
    )
    third = sweeps()
    assert [r["taken_from"] for r in third] == [origin] * len(CASES)


def test_equal_calls_of_several_names_are_probed_once_and_each_has_its_record(sweeps):
    records = by_name(sweeps(CASES[2:], incremental=False))
    assert sweeps.probed == ["gelu"]
    assert [name for name, _ in records] == ["gelu", "geluactivation"]
    one, other = records.values()
    assert one["key"] == other["key"]
    assert parse_record(json.dumps(one)).verdict == parse_record(json.dumps(other)).verdict
    assert (one["duration_s"] > 0, other["duration_s"]) == (True, 0)


def test_new_cases_alone_are_probed(sweeps):
    sweeps(CASES[:2])
    records = sweeps([*CASES, a_case("relu", memory="dram")])
    assert sorted(sweeps.probed) == ["gelu", "relu"]
    assert sum("taken_from" in r for r in records) == 2


def test_another_answerer_takes_nothing(sweeps):
    sweeps(CASES[:1])
    (record,) = sweeps(CASES[:1], answerer="another")
    assert (sweeps.probed, "taken_from" in record) == (["relu"], False)


def test_without_the_mode_nothing_is_taken(sweeps):
    sweeps(CASES[:1])
    sweeps(CASES[:1], incremental=False)
    assert sweeps.probed == ["relu"]


@pytest.mark.parametrize("status", ["timeout", "crash", "error"])
def test_a_fault_is_probed_again(sweeps, status):
    (record,) = sweeps(CASES[:1])
    lines = sweeps.path / "records.jsonl"
    lines.write_text(json.dumps({**record, "status": status}) + "\n")
    (again,) = sweeps(CASES[:1])
    assert (sweeps.probed, again["status"]) == (["relu"], Status.FITS)


def test_records_of_a_killed_run_are_taken(sweeps):
    sweeps(CASES[:2])
    lines = sweeps.path / "records.jsonl"
    lines.write_bytes(lines.read_bytes()[:-100])
    records = sweeps(CASES[:2])
    assert sweeps.probed == ["relu"]
    assert sum("taken_from" in r for r in records) == 1


def test_the_slowest_of_earlier_runs_go_first_then_the_largest_of_the_others(sweeps):
    cases = [a_case("relu", [1, 32, 32 * n]) for n in range(1, 6)]
    records = sweeps(cases[:3])
    seconds = {cases[0].key: 0.5, cases[1].key: 5.0, cases[2].key: 0.01}
    lines = sweeps.path / "records.jsonl"
    lines.write_text("".join(json.dumps({**r, "duration_s": seconds[r["key"]]}) + "\n" for r in records))
    ended = sweeps(cases, incremental=False)
    assert [r["inputs"][0][2] // 32 for r in ended] == [2, 1, 5, 4, 3]


class Estimates:
    """Counts the estimates that are made of each case, and those that are in use."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.of: Counter[str] = Counter()
        self.now = self.most = 0
        self.also = lambda: None  # done with each
        self._make = sweep_module.estimate
        monkeypatch.setattr(sweep_module, "estimate", self.make)

    def make(self, case, board):
        made = self._make(case, board)
        self.of[case.key] += 1
        self.now += 1
        self.most = max(self.most, self.now)
        weakref.finalize(made, self._drop)
        self.also()
        return made

    def _drop(self):
        self.now -= 1


@pytest.fixture
def estimates(monkeypatch):
    return Estimates(monkeypatch)


LOOK_AHEAD, STARTED = 16, MAX_AHEAD + 1  # cases; of those that are started, one may just have ended


def many_cases(count):
    widths = list(range(1, count + 1))
    random.Random(7).shuffle(widths)
    return [a_case("relu", [1, 32, 32 * width]) for width in widths]


def test_the_next_case_is_the_largest_of_those_ahead_and_each_is_estimated_once(sweeps, estimates, monkeypatch):
    """A relu of 32 x 32 n elements takes n tiles twice, so the order is that of n."""
    monkeypatch.setattr(sweep_module, "LOOK_AHEAD", LOOK_AHEAD)
    cases = many_cases(4 * (LOOK_AHEAD + STARTED))
    records = sweeps(cases)
    assert len(by_name(records)) == len(records) == len(cases)
    ahead = []
    for place, started in enumerate(sweeps.started):
        ahead += cases[len(ahead) + place : place + LOOK_AHEAD + 1]
        assert started is max(ahead, key=lambda case: case.inputs[0][2]), place
        ahead.remove(started)
    assert set(estimates.of.values()) == {1}
    assert estimates.most <= LOOK_AHEAD + STARTED + 1


def test_ctrl_c_while_the_order_is_computed_ends_the_sweep(sweeps, estimates):
    """No further case is estimated, but for the records of all; none is probed."""
    empty = []

    def interrupt():
        empty.append((sweeps.path / "records.jsonl").stat().st_size == 0)
        if len(empty) == 5:
            signal.raise_signal(signal.SIGINT)

    estimates.also = interrupt
    records = sweeps(many_cases(300))
    assert (sweeps.started, empty.count(True)) == ([], 5)
    assert {(r["status"], r["message"]) for r in records} == {("not_run", "the run ended before it: SIGINT")}
    assert len(by_name(records)) == 300
