"""A golden task whose torch reference is wrong on purpose: the comparison must find it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

from ssinghal.core.case import Case
from ssinghal.core.record import Record
from ssinghal.device.session import Session
from ssinghal.operators import find_operator
from ssinghal.operators.binding import BoundCall, bind
from ssinghal.runner import golden_probe
from ssinghal.runner.golden_check import Agreement, GoldenTask
from ssinghal.runner.numerics import float32_difference, run_both
from ssinghal.runner.tasks import PoolOptions, ProbeTask


@dataclass(frozen=True)
class BrokenReference(GoldenTask):
    """``operator``: whose reference is taken instead. ``attrs``: those that the reference gets instead of the call's."""

    operator: str = ""
    attrs: Mapping[str, Any] = field(default_factory=dict)

    def run(self, session: Session, options: PoolOptions) -> Agreement:
        call = bind(self.case)
        reference = find_operator(self.operator or self.case.operator).torch
        broken = replace(call.info, torch=lambda t, x, given: reference(t, x, {**given, **self.attrs}))
        return Agreement(self.case, float32_difference(*run_both(BoundCall(self.case, broken), session)))


@dataclass(frozen=True)
class BrokenProbe(ProbeTask):
    """Probes a case whose reference is that of ``operator``."""

    operator: str

    def run(self, session: Session, options: PoolOptions) -> Record:
        reference = find_operator(self.operator).torch

        def broken(case: Case) -> BoundCall:
            call = bind(case)
            return BoundCall(case, replace(call.info, torch=reference))

        with patch.object(golden_probe, "bind", broken):
            return super().run(session, options)
