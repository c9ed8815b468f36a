"""A probe whose worker is lost is repeated once, alone, in a new process; then its second answer counts."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, wait
from pathlib import Path

import pytest

from ssinghal.core.record import Record
from ssinghal.core.verdict import Status
from ssinghal.device.modes import choose_device
from ssinghal.operators import make_case
from ssinghal.runner.gate import Gate
from ssinghal.runner.pool import Pool
from ssinghal.runner.tasks import PoolOptions
from tests.support.poison import Poison, attempts_of
from tests.support.processes import all_ended, wait_for

HANG_LIMIT_S = 2.0
LIMIT_S = 60  # of a test that would wait for ever
WORDS = {
    "is killed": "crash: the process that ran the call ended with SIGKILL",
    "aborts": "crash: the process that ran the call ended with SIGABRT",
    "is ended by a signal without a name": "crash: the process that ran the call ended with signal 35",
    "hangs": "timeout: no answer within 2 s",
}
EXITS = "crash: the process that ran the call ended with exit code 7"


def case_of(number: int):
    return make_case("relu", ((32, 32 * (number + 1)),))


@pytest.fixture
def journal(tmp_path):
    return tmp_path / "journal"


def opened(workers: int) -> Pool:
    return Pool(choose_device("virtual", "n150"), PoolOptions(workers=workers, timeout_s=HANG_LIMIT_S))


def first_words(ending: str) -> str:
    """Leaves out what the process wrote last."""
    return ending.partition("; last output")[0]


def results(futures: list[Future[Record]]) -> list[Record]:
    _, open_ = wait(futures, timeout=LIMIT_S)
    assert not open_, f"{len(open_)} of {len(futures)} tasks have no answer"
    return [future.result() for future in futures]


@pytest.mark.virtual_device
def test_what_ends_a_worker_once_costs_no_verdict(journal):
    """One of each kind among harmless cases, on two workers."""
    tasks = [Poison(case_of(n), journal=journal, name=f"harmless{n}", seconds=0.05) for n in range(3 * len(WORDS))]
    for place, ending in enumerate(WORDS):
        tasks[3 * place] = Poison(case_of(3 * place), journal=journal, name=f"poison{place}", ending=ending, lethal=1)
    with opened(2) as pool:
        records = results([pool.run(task) for task in tasks])
    assert [record.status for record in records] == [Status.FITS] * len(tasks)
    assert [record.key for record in records] == [task.case.key for task in tasks]
    assert [first_words(record.retried) for record in records[::3]] == list(WORDS.values())
    assert {record.retried for n, record in enumerate(records) if n % 3} == {""}
    attempts = attempts_of(journal)
    assert len(attempts) == len(tasks) + len(WORDS)
    for second in (list(filter(lambda a: a.name == f"poison{n}", attempts))[1] for n in range(len(WORDS))):
        beside = [a.name for a in attempts if a is not second and a.began < second.ended and a.ended > second.began]
        assert beside == [], f"{second.name} was not alone"
        assert next(a for a in attempts if a.pid == second.pid) is second, f"the process of {second.name} was not new"


@pytest.mark.virtual_device
def test_what_ends_each_worker_is_recorded_and_harms_no_other(journal):
    """More poison at once than there are workers."""
    endings = ["exits"] * 3
    poison = [
        Poison(case_of(n), journal=journal, name=f"poison{n}", ending=e, lethal=9, seconds=0.1) for n, e in enumerate(endings)
    ]
    harmless = [Poison(case_of(9 + n), journal=journal, name=f"harmless{n}") for n in range(4)]
    with opened(2) as pool:
        records = results([pool.run(task) for task in (*poison, *harmless)])
    assert [record.status for record in records] == [Status.CRASH] * 3 + [Status.FITS] * 4
    assert [record.retried for record in records] == [EXITS] * 3 + [""] * 4
    assert [f"crash: {record.message}" for record in records[:3]] == [EXITS] * 3
    names = [attempt.name for attempt in attempts_of(journal)]
    assert [names.count(f"poison{n}") for n in range(3)] == [2] * 3
    assert [names.count(f"harmless{n}") for n in range(4)] == [1] * 4


@pytest.mark.virtual_device
@pytest.mark.parametrize("moment", ["second attempt", "between the attempts"])
def test_closing_ends_poison_at_any_time_and_drops_what_waits(journal, moment):
    """A pool that is closed repeats nothing: Ctrl-C closes it while signals of the terminal end its workers."""
    pool, second = opened(2), moment == "second attempt"
    ending, harmless_s = ("hangs", 0.0) if second else ("exits", HANG_LIMIT_S - 0.5)
    futures = [
        pool.run(Poison(case_of(0), journal=journal, name="poison", ending=ending, lethal=9)),
        pool.run(Poison(case_of(1), journal=journal, name="harmless", seconds=harmless_s)),
        *(pool.run(Poison(case_of(2), journal=journal, name="waiting", seconds=30)) for _ in range(5)),
    ]
    wait_for(lambda: seen(journal, "harmless", "begins") == 1, "the harmless case")
    wait_for(lambda: seen(journal, "poison", "ends") == 1 + second, moment)
    closing = threading.Thread(target=pool.close, daemon=True)
    closing.start()
    closing.join(LIMIT_S)
    assert not closing.is_alive(), "the pool does not close"
    assert all(future.done() for future in futures)
    assert futures[-1].cancelled()
    assert futures[0].result().status is (Status.TIMEOUT if second else Status.CRASH)
    assert futures[0].result().retried == ""
    assert all_ended({int(line.split()[3]) for line in journal.read_text().splitlines()})


def seen(journal: Path, name: str, what: str) -> int:
    lines = journal.read_text().splitlines() if journal.exists() else []
    return sum(line.split()[:2] == [name, what] for line in lines)


@pytest.mark.virtual_device
def test_a_waiting_case_that_is_cancelled_beside_poison_is_not_run(journal):
    with opened(1) as pool:
        poison = pool.run(Poison(case_of(0), journal=journal, name="poison", ending="exits", lethal=1, seconds=0.5))
        cancelled = pool.run(Poison(case_of(1), journal=journal, name="cancelled"))
        last = pool.run(Poison(case_of(2), journal=journal, name="last"))
        assert cancelled.cancel()
        assert [record.status for record in results([poison, last])] == [Status.FITS] * 2
    assert seen(journal, "cancelled", "begins") == 0


# The gate -------------------------------------------------------------------------------------------------------------------


def test_a_gate_lets_many_in_or_one_alone():
    """Thirty threads, each third one alone: what each of them sees inside is counted while it is there."""
    gate, lock = Gate(), threading.Lock()
    inside: list[str] = []
    seen: list[tuple[str, ...]] = []
    start = threading.Barrier(30)

    def enter(kind: str) -> None:
        start.wait(LIMIT_S)
        for _ in range(5):
            with gate.alone() if kind == "alone" else gate.shared():
                with lock:
                    inside.append(kind)
                time.sleep(0.002)
                with lock:
                    seen.append(tuple(inside))
                    inside.remove(kind)

    threads = [threading.Thread(target=enter, args=("shared" if n % 3 else "alone",), daemon=True) for n in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    assert len(seen) == 150, "some wait for ever"
    assert {look for look in seen if "alone" in look} == {("alone",)}
    assert seen.count(("alone",)) == 50
    assert any(len(look) > 1 for look in seen), "none was ever beside another"


def test_a_gate_opens_again_after_an_error():
    gate = Gate()
    for enter in (gate.alone, gate.shared, gate.alone):
        with pytest.raises(ZeroDivisionError), enter():
            raise ZeroDivisionError
    with gate.alone():
        pass
    with gate.shared(), gate.shared():
        pass
