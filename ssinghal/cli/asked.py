"""What ``ssinghal plan`` was asked for, whichever way it answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ssinghal.plan.policy import Policy
from ssinghal.specs import Shape


@dataclass(frozen=True)
class Asked:
    """``inputs``: of the model, None where its trace brings it. ``l1_small_bytes``: None for as much as the model needs."""

    model: str
    inputs: tuple[Shape, ...] | None
    boards: Sequence[str]
    policies: Sequence[Policy]
    l1_small_bytes: int | None
    allow_stand_ins: bool
    timeout_s: float


__all__ = ["Asked"]
