"""Runs of few small cases on a Dask cluster, without the command."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import psutil

from ssinghal.core.case import Case
from ssinghal.core.record import Record
from ssinghal.device.modes import choose_device
from ssinghal.operators.case_json import case_from_json
from ssinghal.remedy.probing import probing
from ssinghal.runner.cluster.checks import environment
from ssinghal.runner.cluster.held import DeviceSetup
from ssinghal.runner.cluster.link import Link
from ssinghal.runner.cluster.prober import DaskProber
from ssinghal.runner.cluster.tasks import Run
from ssinghal.runner.probers import Submitting
from ssinghal.runner.tasks import PoolOptions

PLAIN = partial(probing, remedies=False)


def cases(count: int) -> list[Case]:
    return [case_from_json({"op": "relu", "inputs": [[1, 32, 32 * n]]}) for n in range(1, count + 1)]


def descendants(pid: int) -> list[int]:
    return [process.pid for process in psutil.Process(pid).children(recursive=True)]


@contextmanager
def prober_on(
    link: Link, submitting: Submitting = PLAIN, note: Callable[[str], object] = str, wait_s: float = 30.0
) -> Iterator[DaskProber]:
    choice = choose_device("virtual", "n150")
    setup = DeviceSetup(choice, PoolOptions.of(choice), submitting).pickled()
    run = Run(uuid.uuid4().hex, setup, "", False, environment("", torch=False))
    with DaskProber(link, run, wait_s=wait_s, note=note) as prober:
        yield prober


def answers(
    prober: DaskProber,
    given: list[Case],
    after_first: Callable[[], object] = lambda: None,
    until: Callable[[], bool] = lambda: False,
) -> dict[int, Record]:
    """The record of each case by number; a case with two fails here."""
    found: dict[int, Record] = {}
    for number, record in prober.answers(enumerate(given), until):
        assert number not in found
        assert record.key == given[number].key
        found[number] = record
        if len(found) == 1:
            after_first()
    return found
