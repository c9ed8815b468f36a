"""How far a model goes on a board: the largest batch, the largest resolution, both sides of the edge run."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from ssinghal.capacity.parameters import Goal
from ssinghal.capacity.search import Edge, SearchLimits, search_edge
from ssinghal.capture.client import Captures
from ssinghal.capture.trace import Trace
from ssinghal.capture.trace_library import trace_for
from ssinghal.core.boards import load_board
from ssinghal.core.record import Status
from ssinghal.core.tensors import Shape
from ssinghal.errors import CaptureError, InvalidCase
from ssinghal.plan.input_sizes import STRIDE, shapes_of, size_of
from ssinghal.plan.liveness import Outlook, arithmetic
from ssinghal.plan.planner import Boards
from ssinghal.plan.policy import PortingPolicy, Rewrite
from ssinghal.plan.result import PlanResult
from ssinghal.plan.text import verdict_line
from ssinghal.runs.files import GrowingFile

KIND = "plan edge"
# A run of a whole model takes seconds to minutes, so only one value on either side of the edge is checked: sizes that suit
# TTNN's slices of a map may fit where a smaller one does not.
LIMITS = SearchLimits(neighbours=1, samples=0)


@dataclass(frozen=True)
class ModelRun:
    """What one run of a model said, as a search keeps it."""

    input_shape: Shape
    status: Status
    message: str
    peak_bytes: int
    peak_share: float
    steps_sha256: str

    @property
    def fits(self) -> bool:
        return self.status is Status.FITS


@dataclass(frozen=True)
class CapacityResult:
    """An edge of one model on one board under one policy."""

    model: str
    board: str
    policy: str
    goal: Goal
    shape: Shape
    edge: Edge[Shape, ModelRun]

    @property
    def fit(self) -> ModelRun | None:
        return None if self.edge.fit is None else self.edge.tried[self.edge.fit]

    @property
    def fail(self) -> ModelRun | None:
        return None if self.edge.fail is None else self.edge.tried[self.edge.fail]


class Explorer:
    """Runs a model at many inputs. ``journal``: a file of runs, which are taken from it instead of being made again."""

    def __init__(self, model: str, boards: Boards, captures: Captures, journal: Path | None = None) -> None:
        self.model, self._boards, self._captures = model, boards, captures
        self._traces: dict[Shape, Trace | str] = {}
        self._known: dict[str, ModelRun] = {}
        self._file: GrowingFile | None = None
        if journal is not None:
            self._known = dict(_read(journal))
            self._file = GrowingFile(journal)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def reach(self, goal: Goal, shape: Shape, policy: PortingPolicy, board: str, stride: int = STRIDE) -> CapacityResult:
        """Begins with the input that was asked for: a run takes the longer the more a model has to do."""
        values = shapes_of(goal, shape, stride)

        def hint(value: Shape) -> bool | None:
            return self._hint(value, policy, board)

        start = next((i for i, value in enumerate(values) if math.prod(value) >= math.prod(shape)), 0)
        edge = search_edge(values, lambda value: self._run(value, policy, board), hint, start=start, limits=LIMITS)
        return CapacityResult(self.model, board, str(policy), goal, shape, edge)

    def _hint(self, value: Shape, policy: PortingPolicy, board: str) -> bool | None:
        """False where arithmetic leaves no way; what fits is for a run to say."""
        trace = self._trace(value)
        if isinstance(trace, str):
            return None
        found = arithmetic(trace, load_board(board))
        writes_over = Rewrite.SOFTMAX_IN_PLACE in policy.rewrites
        outlook = found.outlook_in_place if writes_over or Rewrite.SDPA in policy.rewrites else found.outlook
        return False if outlook is Outlook.EXCEEDS else None

    def _trace(self, value: Shape) -> Trace | str:
        """The model recorded at this input, or why it cannot be."""
        if value not in self._traces:
            try:
                self._traces[value] = trace_for(self.model, (value,), self._captures)
            except CaptureError as error:
                self._traces[value] = str(error)
        return self._traces[value]

    def _run(self, value: Shape, policy: PortingPolicy, board: str) -> ModelRun:
        trace = self._trace(value)
        if isinstance(trace, str):
            return ModelRun(value, Status.INVALID, trace, 0, 0.0, "")
        key = self._key(trace, policy, board)
        if key not in self._known:
            self._known[key] = _tried(value, self._boards.run(trace, policy, board))
            if self._file is not None:
                facts = {**asdict(self._known[key]), "status": self._known[key].status.value}
                self._file.write(json.dumps({"kind": KIND, "key": key, **facts}))
        return self._known[key]

    def _key(self, trace: Trace, policy: PortingPolicy, board: str) -> str:
        settings = self._boards.settings
        what = (trace.head, len(trace.steps), str(policy), policy.to_json(), board, self._boards.ttnn(board), settings)
        return hashlib.sha256(repr(what).encode()).hexdigest()[:16]


def _tried(value: Shape, result: PlanResult) -> ModelRun:
    return ModelRun(value, result.status, verdict_line(result), result.peak_bytes, result.peak_share, result.steps_sha256)


def _read(path: Path) -> Iterator[tuple[str, ModelRun]]:
    """The runs that a file holds; a torn last line is left out. InvalidCase for a file of something else."""
    if not path.exists():
        return
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        with suppress(json.JSONDecodeError, KeyError, TypeError, ValueError):
            data = json.loads(line)
            if data.pop("kind") == KIND:
                key = data.pop("key")
                yield key, ModelRun(**{**data, "input_shape": tuple(data["input_shape"]), "status": Status(data["status"])})
                continue
        if number < len(lines):
            raise InvalidCase(f"{path}:{number}: no run of a model's edge; name another file")


def cell(reach: CapacityResult) -> str:
    """An edge in a table: what fits, and the next that does not."""
    fits = "none" if reach.fit is None else size_of(reach.goal, reach.fit.input_shape)
    if reach.edge.is_open:
        return f"{fits} and more"
    return fits if reach.fail is None else f"{fits}, not {size_of(reach.goal, reach.fail.input_shape)}"
