"""Tries changes to a failed call, one at a time, among exactly the buffers that were resident."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ssinghal.core.verdict import DecidedBy, Resource, Status, Verdict, sentence
from ssinghal.device.modes import DeviceChoice
from ssinghal.diagnose.failed_call.changes import Change, Lever
from ssinghal.diagnose.failed_call.configured import CONFIGURED
from ssinghal.diagnose.failed_call.placing import AROUND, freed
from ssinghal.diagnose.failed_call.registry import remedies
from ssinghal.diagnose.failed_call.stage import CallTask
from ssinghal.diagnose.failed_call.state import FailedCall, failed_call
from ssinghal.errors import InvalidCase
from ssinghal.profile.failure import Failure, explain
from ssinghal.profile.model import Profile, Site
from ssinghal.profile.tried_changes import TriedChange, TriedChanges
from ssinghal.remedy.device_pools import DevicePools
from ssinghal.runner.pool import Pool
from ssinghal.runner.tasks import PoolOptions

Run = Callable[[FailedCall], Verdict]
LEVERS: tuple[Lever, ...] = (*CONFIGURED, freed, *AROUND)
# What must be equal for a failure to be the same one.
_SAME = (
    "status",
    "resource",
    "bytes_per_bank",
    "free_bytes",
    "largest_free_bytes",
    "program_bytes",
    "limit_bytes",
    "tensor_address",
)


@dataclass(frozen=True)
class Limits:
    """No trial starts after ``seconds``, nor more than ``trials``."""

    trials: int = 80
    seconds: float = 15.0


def try_changes(profile: Profile, choice: DeviceChoice, options: PoolOptions, limits: Limits = Limits()) -> TriedChanges | None:
    """Makes the last call that ran out of memory again on the board and the release of the program, then with changes.

    Returns None where no call ran out of the device's memory.

    Raises:
        DeviceError: no device opens.
    """
    failure = explain(profile)
    return None if failure is None else changes_of(failure, profile, choice, options, limits)


def changes_of(
    failure: Failure, profile: Profile, choice: DeviceChoice, options: PoolOptions, limits: Limits = Limits()
) -> TriedChanges | None:
    """Makes the call of ``failure`` again, then with changes: see ``try_changes``."""
    if failure.resource is Resource.HOST:
        return None
    try:
        call = failed_call(profile, failure)
    except InvalidCase as error:
        return TriedChanges(why_not=str(error))
    torch = _needs_torch(call.arguments)
    options = replace(options, workers=1, numerics=False, torch=torch, timeout_s=2 * limits.seconds)
    with Pool(choice, options) as pool:
        tried = search(call, failure, lambda changed: pool.run(CallTask(changed)).result(), limits)
        if tried.why_not or tried.spent:
            return tried
        started = time.perf_counter()
        with DevicePools(choice, options, no_values="not requested", home=pool) as pools:
            found, trials = remedies(call, pools, limits.seconds - tried.seconds, str(failure.call.site or "the call"))
        seconds = tried.seconds + time.perf_counter() - started
        return replace(tried, changes=(*tried.changes, *found), trials=tried.trials + trials, seconds=seconds)


def _needs_torch(value: Any) -> bool:
    if isinstance(value, dict):
        return "torch" in value or any(map(_needs_torch, value.values()))
    return isinstance(value, list) and any(map(_needs_torch, value))


def search(call: FailedCall, failure: Failure, run: Run, limits: Limits = Limits()) -> TriedChanges:
    """Makes the call as it was; if it fails as it did, tries each lever until one of its changes fits."""
    again = run(call)
    if (again.status, again.decided_by) == (Status.INVALID, DecidedBy.HARNESS):  # it was not made
        return TriedChanges(why_not=sentence(again), trials=1)
    if any(getattr(again, name) != getattr(call.verdict, name) for name in _SAME):
        ended = "it fits" if again.status is Status.FITS else sentence(again)
        return TriedChanges(why_not=f"made again among the same buffers, the call ends otherwise: {ended}", trials=1)
    trials = _Trials(run, limits, failure.call.site)
    changes = tuple(change for lever in LEVERS if (change := trials.pull(lever, call, failure)) is not None)
    return TriedChanges(changes, "", trials.count, trials.seconds, trials.spent)


class _Trials:
    def __init__(self, run: Run, limits: Limits, site: Site | None) -> None:
        self._run, self._limits, self._line = run, limits, str(site or "the call")
        self._started = time.perf_counter()
        self.count, self.spent = 1, False

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._started

    def pull(self, lever: Lever, call: FailedCall, failure: Failure) -> TriedChange | None:
        """Returns the first change of a lever that fits, else the last; None where it has none."""
        changes = lever(call, failure)
        last: TriedChange | None = None
        change = next(changes, None)
        while change is not None:
            if self.count >= self._limits.trials or self.seconds >= self._limits.seconds:
                self.spent = True
                break
            self.count += 1
            verdict = self._run(change.call)
            if verdict.error_type != TypeError.__name__:  # the call has no such argument
                last = self._tried(change, verdict)
                if not last.ended:
                    break
            try:
                change = changes.send(verdict)
            except StopIteration:
                break
        return last

    def _tried(self, change: Change, verdict: Verdict) -> TriedChange:
        ended = "" if verdict.status is Status.FITS else sentence(verdict)
        return TriedChange(change.code, change.where.format(line=self._line), change.caution, ended=ended)
