"""Finds the largest batch or resolution of a model that fits on a board; both sides of the edge are run."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Protocol

from ssinghal.capacity.aiming import Aim
from ssinghal.capacity.parameters import Goal
from ssinghal.capacity.search import Edge, SearchLimits, search_edge
from ssinghal.capture.trace import Trace
from ssinghal.core.boards import load_board
from ssinghal.core.files import GrowingFile, read_limited
from ssinghal.core.json_text import read_json
from ssinghal.core.tensors import Shape
from ssinghal.core.verdict import Resource, Status, memory_verdict
from ssinghal.errors import InvalidCase
from ssinghal.plan.input_sizes import STRIDE, shapes_of, size_of
from ssinghal.plan.liveness import Outlook, arithmetic
from ssinghal.plan.planner import Boards
from ssinghal.plan.policy import PortingPolicy, Rewrite
from ssinghal.plan.recordings import Recordings
from ssinghal.plan.result import PlanResult
from ssinghal.plan.text import verdict_line

KIND = "plan edge"
# A run of a complete model takes seconds to minutes, so only one value on either side of the edge is checked: sizes that suit
# TTNN's slices of a map may fit where a smaller one does not.
LIMITS = SearchLimits(neighbours=1, samples=0)


@dataclass(frozen=True)
class ModelRun:
    """The outcome of one run of a model, as a search keeps it.

    ``activations_bytes``: of activations that calls write to DRAM and read from there, over all banks: not the model's weights
    and inputs that are read, nor its results that are written. None where calls were not watched. ``demand``: what the run
    needed of a DRAM bank, as a share; where it did not fit, up to the buffer for which no block was large enough. None where
    something else ended it.
    """

    input_shape: Shape
    status: Status
    message: str
    peak_bytes: int
    peak_share: float
    steps_sha256: str
    resource: Resource | None = None
    activations_bytes: int | None = None
    demand: float | None = None

    @property
    def fits(self) -> bool | None:
        """None if the model could not be recorded at this input, or its run ended without a verdict on memory."""
        return memory_verdict(self.status, self.resource)


@dataclass(frozen=True)
class RunInL1(ModelRun):
    """The same run, as the answer to whether all activations stay in L1."""

    @classmethod
    def of(cls, run: ModelRun) -> RunInL1:
        facts = {field.name: getattr(run, field.name) for field in fields(ModelRun)}
        if run.fits and run.activations_bytes is not None:
            moved = f"{run.activations_bytes:,} B of activations are" if run.activations_bytes else "no activation is"
            facts["message"] = f"{moved} moved through DRAM; {run.message}"
        return cls(**facts)

    @property
    def fits(self) -> bool | None:
        if not super().fits:
            return super().fits
        return None if self.activations_bytes is None else not self.activations_bytes


@dataclass(frozen=True)
class CapacityResult:
    """The edge of one model on one board under one policy.

    ``in_l1``: under a policy that places activations in L1, the edge up to which its plan moves none of them through DRAM,
    beside the model's inputs and results.
    """

    model: str
    board: str
    policy: str
    goal: Goal
    shape: Shape
    edge: Edge[Shape, ModelRun]
    in_l1: CapacityResult | None = None

    @property
    def fit(self) -> ModelRun | None:
        return None if self.edge.fit is None else self.edge.tried[self.edge.fit]

    @property
    def fail(self) -> ModelRun | None:
        return None if self.edge.fail is None else self.edge.tried[self.edge.fail]

    @property
    def untried(self) -> list[ModelRun]:
        """Inputs next to the answer without a verdict on memory: they may fit."""
        return [self.edge.tried[index] for index in self.edge.untried]


class Watch(Protocol):
    """Follows a search."""

    def starts(self, value: Shape, left: int) -> None:
        """A run starts. ``left``: how many runs are left at most, this one included; see ``search_edge``."""

    def ended(self, run: ModelRun) -> None:
        """It has ended."""


class _Unwatched:
    def starts(self, value: Shape, left: int) -> None: ...

    def ended(self, run: ModelRun) -> None: ...


class Explorer:
    """Runs a model at many inputs. ``journal``: a file of runs; those with a verdict on memory are not repeated."""

    def __init__(self, recordings: Recordings, boards: Boards, journal: Path | None = None) -> None:
        self._recordings, self._boards = recordings, boards
        self._known: dict[str, ModelRun] = {}
        self._file: GrowingFile | None = None
        if journal is not None:
            self._known = {key: run for key, run in _journal_runs(journal) if run.fits is not None}
            self._file = GrowingFile(journal)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def search(
        self,
        goal: Goal,
        shape: Shape,
        policy: PortingPolicy,
        board: str,
        stride: int = STRIDE,
        watch: Watch = _Unwatched(),
    ) -> CapacityResult:
        """Searches for the edge, starting at the requested input, as runs of larger inputs take longer.

        Under a policy that places activations in L1 there are two; a run at one input serves both.
        """
        values = shapes_of(goal, shape, stride)

        def hint(value: Shape) -> bool | None:
            return self._hint(value, policy, board)

        def result(edge: Edge[Shape, ModelRun], in_l1: CapacityResult | None = None) -> CapacityResult:
            return CapacityResult(self._recordings.model, board, str(policy), goal, shape, edge, in_l1)

        def run(value: Shape) -> ModelRun:
            ended = self._run(value, policy, board)
            watch.ended(ended)
            return ended

        start = first_index(values, shape)
        aim: Aim[ModelRun] = Aim([math.prod(value) for value in values], lambda ended: ended.demand)
        edge = search_edge(values, run, hint, start=start, limits=LIMITS, watch=watch.starts, aim=aim)
        if not policy.in_l1:
            return result(edge)
        start = min(start, start if edge.fit is None else edge.fit)

        def run_in_l1(value: Shape) -> ModelRun:
            ended = RunInL1.of(self._run(value, policy, board))
            watch.ended(ended)
            return ended

        in_l1 = search_edge(values, run_in_l1, hint, start=start, limits=LIMITS, watch=watch.starts)
        return result(edge, result(in_l1))

    def _hint(self, value: Shape, policy: PortingPolicy, board: str) -> bool | None:
        """Returns False where arithmetic rules a fit out; only a run decides that a model fits."""
        trace = self._recordings.at(value)
        if isinstance(trace, str):
            return None
        if policy.activations is not None and policy.activations.is_block_float:
            return None  # the arithmetic has activations in the model's dtype
        bounds = arithmetic(trace, load_board(board), policy.weights)
        overwrites = Rewrite.SOFTMAX_IN_PLACE in policy.rewrites
        outlook = bounds.outlook_in_place if overwrites or Rewrite.SDPA in policy.rewrites else bounds.outlook
        return False if outlook is Outlook.EXCEEDS else None

    def _run(self, value: Shape, policy: PortingPolicy, board: str) -> ModelRun:
        trace = self._recordings.at(value)
        if isinstance(trace, str):
            return ModelRun(value, Status.INVALID, trace, 0, 0.0, "")
        key = self._key(trace, policy, board)
        if key not in self._known:
            self._known[key] = _model_run(value, self._boards.run(trace, policy, board))
            if self._file is not None:
                facts = {**asdict(self._known[key]), "status": self._known[key].status.value}
                self._file.write(json.dumps({"kind": KIND, "key": key, **facts}))
        return self._known[key]

    def _key(self, trace: Trace, policy: PortingPolicy, board: str) -> str:
        settings = self._boards.settings
        recorded = (trace.head, trace.values, trace.steps, trace.results)
        facts = (recorded, str(policy), policy.to_json(), board, self._boards.ttnn(board), settings)
        return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


def _model_run(value: Shape, result: PlanResult) -> ModelRun:
    resource = None if result.failure is None else result.failure.verdict.resource
    message = verdict_line(result)
    watched = [use.activations_moved_bytes for use in result.steps] if any(use.dram_moved_bytes for use in result.steps) else []
    moved = sum(watched) if watched else None
    peak = result.peak_bytes, result.peak_share
    return ModelRun(value, result.status, message, *peak, result.steps_sha256, resource, moved, _demand(result))


def _demand(result: PlanResult) -> float | None:
    """Returns ``ModelRun.demand``."""
    if result.status is Status.FITS:
        return result.peak_share
    verdict = None if result.failure is None else result.failure.verdict
    if verdict is None or verdict.resource not in (Resource.DRAM_BUFFER, Resource.FRAGMENTATION):
        return None
    if verdict.banks != result.dram_banks or verdict.bytes_per_bank is None:  # a buffer in L1
        return None
    free = verdict.free_bytes if verdict.largest_free_bytes is None else verdict.largest_free_bytes
    if free is None or not result.dram_bank_bytes:
        return None
    return 1 + (verdict.bytes_per_bank - free) / result.dram_bank_bytes


def first_index(values: Sequence[Shape], shape: Shape) -> int:
    """Returns the index of the input that a search runs first: the first one as large as ``shape``."""
    return next((index for index, value in enumerate(values) if math.prod(value) >= math.prod(shape)), 0)


def _journal_runs(path: Path) -> Iterator[tuple[str, ModelRun]]:
    """Yields the runs of a journal, without a truncated last line.

    Raises:
        InvalidCase: the file is something else.
    """
    if not path.exists():
        return
    lines = read_limited(path).decode("utf-8", "replace").split("\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        with suppress(AttributeError, KeyError, RecursionError, TypeError, ValueError):
            data = read_json(line)
            if data.pop("kind") == KIND:
                key = data.pop("key")
                yield key, ModelRun(**{**data, "input_shape": tuple(data["input_shape"]), "status": Status(data["status"])})
                continue
        if number < len(lines):
            raise InvalidCase(f"{path}:{number}: not a run of a model's edge; choose another file")


def table_cell(capacity: CapacityResult) -> str:
    """Formats an edge for a table: what fits, the next input that does not, and the first without a verdict between them; then
    the edge up to which all activations stay in L1."""
    if capacity.in_l1 is not None:
        return f"{_cell(capacity)}; all in L1: {_cell(capacity.in_l1)}"
    return _cell(capacity)


def _cell(capacity: CapacityResult) -> str:

    def size(run: ModelRun) -> str:
        return size_of(capacity.goal, run.input_shape)

    if capacity.edge.is_open and capacity.fit is not None:
        return f"{size(capacity.fit)} and more"
    parts = [size(capacity.fit)] if capacity.fit is not None else ["none"] if capacity.fail is not None else []
    parts += [f"not {size(capacity.fail)}"] if capacity.fail is not None else []
    parts += [f"unknown at {size(run)}" for run in capacity.untried[:1]]
    return ", ".join(parts)
