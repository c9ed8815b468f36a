"""Repeats recorded cases, each in a process of its own: the same device must give the same answer, whatever ran before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from hashlib import blake2b
from heapq import heappush, heappushpop
from typing import Any

from ssinghal.core.device_facts import DeviceMode
from ssinghal.core.record import Record
from ssinghal.core.verdict import Status
from ssinghal.device.modes import DeviceChoice
from ssinghal.errors import DEVICE_ERRORS
from ssinghal.runner.pool import Pool
from ssinghal.runner.probers import POLL_S
from ssinghal.runner.tasks import PoolOptions
from ssinghal.runs.parsing import case_of, case_or_none
from ssinghal.runs.setting import Setting

# What a repetition need not have: it belongs to the run, to the catalogs, or to arithmetic, or is a time.
NOT_REPEATED = frozenset(
    {"run", "sources", "altered", "test", "retried", "taken_from", "duration_s", "estimate", "remedies", "listed_shape"}
)
# A repetition of these only repeats a wait, or the reason why there was no answer.
_UNANSWERED = (Status.TIMEOUT, Status.NOT_RUN)


@dataclass(frozen=True)
class Repetition:
    """A record and the answer of a fresh process to the same case."""

    record: Record
    again: Record

    @property
    def differences(self) -> dict[str, tuple[Any, Any]]:
        """The fields of ``records.jsonl`` that differ: the recorded value and that of the repetition, None where absent."""
        before, after = self.record.to_json(), self.again.to_json()
        names = [name for name in {**before, **after} if name not in NOT_REPEATED]
        return {name: (before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)}


def choose_repeated(records: Iterable[Record], count: int, seed: str) -> list[Record]:
    """Returns at most ``count`` (above 0) of the records that a device answered and this version can call again, at random but
    the same for the same ``seed``. No more than these are in memory. Of several records of a case, the last one counts; where
    that is no answer, there may be one less."""
    lowest: list[tuple[int, str]] = []  # a heap of what is chosen: places as negative numbers, so that the last one is in front
    chosen: dict[tuple[int, str], Record] = {}
    for record in records:
        if record.device_mode is DeviceMode.NONE:
            continue
        place = (-int.from_bytes(blake2b(f"{seed} {record.op} {record.key}".encode()).digest(), "big"), str(Setting.of(record)))
        can_repeat = record.status not in _UNANSWERED
        if place in chosen:  # the last answer for a case counts
            chosen[place] = record
        elif can_repeat and (len(lowest) < count or place > lowest[0]) and case_or_none(record) is not None:
            chosen[place] = record
            if len(lowest) < count:
                heappush(lowest, place)
            else:
                del chosen[heappushpop(lowest, place)]
    return [chosen[place] for place in sorted(chosen, reverse=True) if chosen[place].status not in _UNANSWERED]


def repeated(
    records: Sequence[Record], choice: DeviceChoice, options: PoolOptions, stopped: Callable[[], bool]
) -> Iterator[Repetition]:
    """Yields the repetition of each record, in their order: ``options.workers`` fresh processes at a time. Ends early once
    ``stopped()``; the processes end too, also within a call.

    Raises:
        DeviceError: No device opens.
    """
    alone = replace(options, workers=1)

    def repeat(record: Record) -> Repetition | None:
        if stopped():
            return None
        with Pool(choice, alone) as pool:
            again = pool.submit(case_of(record))
            while not stopped():
                if wait([again], POLL_S).done:
                    return Repetition(record, again.result())
        return None

    with ThreadPoolExecutor(options.workers, "recheck") as executor:
        try:
            for repetition in executor.map(repeat, records):
                if repetition is None or stopped():  # a signal to the whole group ends workers too: no difference
                    return
                yield repetition
        except DEVICE_ERRORS:
            if not stopped():  # else a device that was about to open when the signal came
                raise
        finally:
            executor.shutdown(wait=True, cancel_futures=True)
