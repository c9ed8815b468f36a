"""Models the result of a plan: its peak, or the first call that does not fit, and the live values then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from ssinghal.core.json_values import plain
from ssinghal.core.tensors import Shape
from ssinghal.core.verdict import Status, Verdict
from ssinghal.plan.placed_result import PlacementReport

SCHEMA = 1


@dataclass(frozen=True)
class LiveValue:
    """A value on the device. ``shape``: torch's. ``placed``: the device tensor's.

    ``bytes_per_bank``: including padding. ``logical_bytes``: of the elements alone, over all banks. Values that are views of
    each other are listed once.
    """

    value: int
    name: str
    shape: Shape
    placed: Shape
    layout: str
    bytes_per_bank: int
    logical_bytes: int
    made_by: str = ""  # the operator, or the kind of value that none makes: input, weight, constant


@dataclass(frozen=True)
class Split:
    """The content of DRAM at one moment, per bank. ``padding_bytes`` are part of weights and activations."""

    weights_bytes: int = 0
    activations_bytes: int = 0
    program_cache_bytes: int = 0
    temporaries_bytes: int = 0
    padding_bytes: int = 0

    @property
    def total_bytes(self) -> int:
        return self.weights_bytes + self.activations_bytes + self.program_cache_bytes + self.temporaries_bytes


@dataclass(frozen=True)
class StepUse:
    """The bytes per bank around one step; after the first failure they are no evidence.

    ``dram_bytes``: after the step, before anything is freed. ``dram_peak_bytes``: the most within it. The same for the tensors
    in L1, without program buffers. ``cache_bytes``: kept by the program cache. ``l1_total_peak_bytes``: the most within it of
    tensors and program buffers together. ``program_bytes``: the largest program buffers. ``dram_moved_bytes``: over all banks,
    read from and written to DRAM by its calls; of it, the model's own: ``weights_read_bytes``, ``inputs_read_bytes`` and
    ``results_written_bytes``. ``resharded_bytes`` and ``layout_changes``: see ``placement.Traffic``.
    """

    number: int
    operator: str
    at: str
    status: Status
    dram_bytes: int
    dram_peak_bytes: int
    l1_bytes: int
    l1_peak_bytes: int
    l1_small_bytes: int
    cache_bytes: int
    l1_total_peak_bytes: int = 0
    program_bytes: int = 0
    dram_moved_bytes: int = 0
    resharded_bytes: int = 0
    layout_changes: int = 0
    weights_read_bytes: int = 0
    inputs_read_bytes: int = 0
    results_written_bytes: int = 0

    @property
    def activations_moved_bytes(self) -> int:
        """Bytes through DRAM that are not the model's own: activations that are written there, and read from there."""
        return self.dram_moved_bytes - self.weights_read_bytes - self.inputs_read_bytes - self.results_written_bytes


@dataclass(frozen=True)
class CallFailure:
    """A call that TTNN rejected.

    ``step``: -1 before the first. ``doing``: the TTNN call that was under way, or "placing the weights". ``at``: the module of
    the step, or the name of the weight or input. ``after``: another call failed before it, so that stand-ins were live instead
    of its results.
    """

    step: int
    operator: str
    at: str
    doing: str
    operands: tuple[Shape, ...]
    results: tuple[Shape, ...]
    verdict: Verdict
    alive: tuple[LiveValue, ...] = ()
    split: Split = Split()
    after: bool = False

    @property
    def where(self) -> str:
        """The step, or what was under way before the first one."""
        if self.step < 0:
            return f"while {self.doing}, before the first step"
        return f"at step {self.step} {self.operator} in {self.at}"


@dataclass(frozen=True)
class StandIn:
    """A call that no operator makes; a tensor of the size of its result took its place."""

    step: int
    overload: str
    at: str
    reason: str
    result_bytes: int


@dataclass(frozen=True)
class PlanResult:
    """The result of one run of a model on one board.

    ``peak``: of DRAM, per bank, at ``peak_step`` (-1: before the first). ``steps_sha256``: over the bytes allocated after each
    step. ``checked``: how often the computed sum of all live tensors was compared with the allocator; a difference makes the
    status ERROR. ``placement``: of the policy ``l1``, None under others.
    """

    model: str
    input_shapes: tuple[Shape, ...]
    board: str
    ttnn: str
    device_mode: str
    policy: Mapping[str, Any]
    policy_name: str
    trace_sha256: str
    l1_small_size: int
    status: Status
    message: str = ""
    dram_bank_bytes: int = 0
    dram_banks: int = 0
    peak_bytes: int = 0
    peak_step: int = -1
    peak: Split = Split()
    alive: tuple[LiveValue, ...] = ()
    l1_peak_bytes: int = 0
    l1_bank_bytes: int = 0
    l1_small_peak_bytes: int = 0
    failure: CallFailure | None = None
    later: tuple[CallFailure, ...] = ()
    stand_ins: tuple[StandIn, ...] = ()
    stand_in_share: float = 0.0
    steps: tuple[StepUse, ...] = ()
    steps_sha256: str = ""
    checked: int = 0
    total_steps: int = 0
    duration_s: float = 0.0
    notes: tuple[str, ...] = ()
    placement: PlacementReport | None = None

    @property
    def peak_share(self) -> float:
        """The peak as a share of a DRAM bank."""
        return self.peak_bytes / self.dram_bank_bytes if self.dram_bank_bytes else 0.0

    @property
    def where(self) -> StepUse | None:
        """The step of the peak; None where that is before the first."""
        return self.steps[self.peak_step] if 0 <= self.peak_step < len(self.steps) else None

    @property
    def is_unplaced(self) -> bool:
        """Whether nothing was run, as a step has no placement."""
        return self.placement is not None and self.placement.nowhere is not None

    def without_steps(self) -> PlanResult:
        placement = replace(self.placement, steps=()) if self.placement is not None else None
        return replace(self, steps=(), placement=placement)

    def to_json(self) -> dict[str, Any]:
        """Returns the result as a document that ``page.read_plan`` reads."""
        facts = plain(asdict(self))
        if self.placement is not None:
            facts["placement"] = self.placement.to_json()
        return {"schema": SCHEMA, "kind": "plan", "numerics": "not run", **facts}
