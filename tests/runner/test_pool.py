"""A crash, a hang or a missing device affects one case only."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from weakref import ref

import pytest

from ssinghal.core.case import Placement
from ssinghal.core.device_facts import DeviceFacts, DeviceMode
from ssinghal.core.record import Record
from ssinghal.core.tensors import BufferType, Layout, MemoryConfig, TensorSpec
from ssinghal.core.verdict import Resource, Status, Verdict
from ssinghal.device.modes import DeviceChoice, choose_device
from ssinghal.device.session import Session
from ssinghal.errors import DeviceUnavailable
from ssinghal.operators import make_case
from ssinghal.runner import pool as pool_module
from ssinghal.runner.pool import MAX_AHEAD, Pool
from ssinghal.runner.probe import Limits
from ssinghal.runner.tasks import PoolOptions, Task
from tests.support.processes import all_ended, wait_for, workers_of

pytestmark = pytest.mark.virtual_device

QUICK = make_case("relu", ((1, 1, 64, 64),))
# TTNN lists the source pages of 240,000 output tiles on the host: seconds of work, and memory.
SLOW = make_case("view", ((1, 1, 240_000, 1024),), {"size": [1, 240_000, 32, 32]})


def worker_pid(pool: Pool) -> int:
    worker = pool._idle.get()
    pool._idle.put(worker)
    return worker._process.pid


def test_a_worker_that_is_killed_from_outside_costs_no_verdict():
    """As the kernel does where the system's memory is at its end."""
    with Pool(choose_device("virtual"), PoolOptions(limits=unlimited())) as pool:
        pid = worker_pid(pool)
        threading.Thread(target=lambda: (time.sleep(0.5), os.kill(pid, signal.SIGSEGV))).start()
        before, killed, after = list(pool.map([QUICK, SLOW, QUICK]))
    assert [r.status for r in (before, killed, after)] == [Status.FITS] * 3
    assert [r.key for r in (before, killed, after)] == [QUICK.key, SLOW.key, QUICK.key]
    assert killed.retried.startswith("crash: the process that ran the call ended with SIGSEGV")
    assert (before.retried, after.retried) == ("", "")


def test_a_worker_that_ended_while_idle_affects_no_case():
    with Pool(choose_device("virtual")) as pool:
        os.kill(worker_pid(pool), signal.SIGKILL)
        time.sleep(0.2)
        assert pool.submit(QUICK).result().status is Status.FITS


def test_a_worker_that_cannot_restart_affects_its_case_and_not_the_run(monkeypatch):
    with Pool(choose_device("virtual")) as pool:
        monkeypatch.setitem(pool._environment, "TT_METAL_RUNTIME_ROOT", "/nowhere")
        os.kill(worker_pid(pool), signal.SIGKILL)
        time.sleep(0.2)
        failed = pool.submit(QUICK).result()
        monkeypatch.undo()
        after = pool.submit(QUICK).result()
    assert (failed.status, failed.verdict.stage) == (Status.ERROR, "device")
    assert failed.verdict.message.startswith("cannot open a virtual device")
    assert failed.retried == f"error: {failed.verdict.message}", "it was tried twice"
    assert after.status is Status.FITS


def test_a_worker_that_is_killed_while_it_starts_costs_no_verdict():
    """The first is killed while idle; the one that replaces it as soon as there is one."""
    with Pool(choose_device("virtual")) as pool:
        first = worker_pid(pool)
        before = set(workers_of(os.getpid()))
        os.kill(first, signal.SIGKILL)
        time.sleep(0.2)
        answer = pool.submit(QUICK)
        wait_for(lambda: bool(set(workers_of(os.getpid())) - before), "the next worker")
        (starting,) = set(workers_of(os.getpid())) - before
        os.kill(starting, signal.SIGKILL)
        record = answer.result(timeout=60)
    assert record.status is Status.FITS
    assert record.retried.startswith("error: the device worker did not start: the process that ran the call ended with SIGKILL")


def test_a_hang_affects_one_case():
    with Pool(choose_device("virtual"), PoolOptions(timeout_s=1.0, limits=unlimited())) as pool:
        hung, after = list(pool.map([SLOW, QUICK]))
    assert (hung.status, after.status) == (Status.TIMEOUT, Status.FITS)
    assert hung.verdict.message == "no answer within 1 s of processor time"
    assert hung.retried == "timeout: no answer within 1 s of processor time"


@dataclass(frozen=True)
class Dawdle(Task[str]):
    """Takes ``cpu_s`` of processor time, in pieces with pauses between them, as on a loaded machine."""

    cpu_s: float
    pause_s: float

    def run(self, session: Session, options: PoolOptions) -> str:
        started = time.process_time()
        while (taken := time.process_time() - started) < self.cpu_s:
            while time.process_time() - started < min(taken + 0.05, self.cpu_s):
                pass
            time.sleep(self.pause_s)
        return "done"

    def lost(self, verdict: Verdict, facts: DeviceFacts) -> str:
        return verdict.message


def test_the_time_limit_is_one_of_processor_time():
    """A call that waits for processors is not at fault: 0.5 s of work, spread over at least 10 pauses of 0.15 s."""
    with Pool(choose_device("virtual"), PoolOptions(timeout_s=1.0)) as pool:
        started = time.monotonic()
        assert pool.run(Dawdle(0.5, 0.15)).result() == "done"
        assert time.monotonic() - started > 1.0  # else nothing was tried
        assert pool.run(Dawdle(1000.0, 0.0)).result() == "no answer within 1 s of processor time"


def test_a_task_that_only_waits_has_the_limit_as_time():
    with Pool(choose_device("virtual"), PoolOptions(timeout_s=0.5)) as pool:
        started = time.monotonic()
        assert pool.run(Dawdle(0.01, 1000.0)).result() == "no answer within 0.5 s"
        assert time.monotonic() - started < 100  # of 1,000 s


def test_a_task_that_waits_for_processors_all_the_time_ends_by_the_clock(monkeypatch):
    """In 1.2 s, it computes for 0.1 s of its 0.4 s."""
    monkeypatch.setattr(pool_module, "MAX_WAIT_FACTOR", 3.0)
    monkeypatch.setattr(pool_module, "IDLE_SHARE", 0.0)  # so that a pause is one of a loaded machine
    with Pool(choose_device("virtual"), PoolOptions(timeout_s=0.4)) as pool:
        assert pool.run(Dawdle(1000.0, 1.0)).result() == "no answer within 1.2 s by the clock"


def test_exhausted_host_memory_is_not_an_oom_of_the_device():
    options = PoolOptions(host_limit_bytes=2**30, limits=unlimited())
    with Pool(choose_device("virtual"), options) as pool:
        pid = worker_pid(pool)
        exploded, after = list(pool.map([SLOW, QUICK]))
        assert not os.path.exists(f"/proc/{pid}")  # what it may still hold is not the next case's fault
    assert (exploded.status, exploded.verdict.resource) == (Status.OOM, Resource.HOST)
    assert after.status is Status.FITS


def test_a_worker_is_replaced_after_many_tasks(monkeypatch):
    monkeypatch.setattr("ssinghal.runner.pool.MAX_TASKS", 3)
    with Pool(choose_device("virtual")) as pool:
        pids = [pool.run(Describe()).result()["pid"] for _ in range(7)]
    assert [pids.count(pid) for pid in dict.fromkeys(pids)] == [3, 3, 1]


def test_workers_ignore_interrupts():
    """Ctrl-C reaches the whole process group. The worker gets it while it starts, idle and during a call, and continues."""
    before = set(workers_of(os.getpid()))
    stop = threading.Event()

    def interrupt():
        while not stop.wait(0.005):
            for pid in set(workers_of(os.getpid())) - before:
                os.kill(pid, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with Pool(choose_device("virtual")) as pool:
            pid = worker_pid(pool)
            records = list(pool.map([QUICK] * 20))
            assert worker_pid(pool) == pid
    finally:
        stop.set()
        thread.join()
    assert {r.status for r in records} == {Status.FITS}


def test_number_of_processes_by_device():
    card = DeviceChoice(DeviceMode.SILICON, "n150", "")
    virtual = choose_device("virtual")
    assert [PoolOptions.of(c).workers for c in (card, virtual)] == [1, 2]
    assert [PoolOptions.of(c, workers=5).workers for c in (card, virtual)] == [5, 5]
    assert [PoolOptions.of(c).numerics for c in (card, virtual)] == [True, False]
    assert PoolOptions.of(card, timeout_s=3, host_tiles=7) == PoolOptions(
        1, 3, numerics=True, limits=replace(Limits(), host_tiles=7)
    )


def test_slow_host_work_is_not_run():
    with Pool(choose_device("virtual")) as pool:
        record = pool.submit(SLOW).result()
    assert record.status is Status.NOT_RUN
    assert "240,000 tiles" in record.verdict.message


def test_records_of_several_workers_are_in_the_order_of_the_cases():
    sizes = [32 * n for n in range(1, 41)]
    cases = [make_case("relu", ((1, 1, size, 64),), {}, Placement(memory=BufferType.L1)) for size in sizes]
    with Pool(choose_device("virtual"), PoolOptions(workers=2)) as pool:
        records = list(pool.map(cases))
    assert [r.tensors[0].shape[2] for r in records] == sizes
    # one tile row is two tiles: pages go round robin over 64 banks
    assert [r.tensors[0].booked_bytes for r in records] == [2048 * -(-2 * n // 64) for n in range(1, 41)]


def test_a_device_that_cannot_open_is_one_error(monkeypatch):
    monkeypatch.setattr("ssinghal.runner.pool.environment_for", lambda *_, **__: {"TT_METAL_MOCK_CLUSTER_DESC_PATH": None})
    with pytest.raises(DeviceUnavailable, match="cannot open a virtual device"):
        Pool(choose_device("virtual"))


def test_closing_drops_waiting_cases_and_leaves_no_process():
    pool = Pool(choose_device("virtual"), PoolOptions(limits=unlimited()))
    pid = worker_pid(pool)
    futures = [pool.submit(QUICK) for _ in range(200)]
    pool.close()
    assert any(f.cancelled() for f in futures)
    assert not os.path.exists(f"/proc/{pid}")


def test_closing_does_not_wait_for_a_running_call():
    pool = Pool(choose_device("virtual"), PoolOptions(limits=unlimited()))
    future = pool.submit(SLOW)
    while not pool._busy:
        time.sleep(0.01)
    pool.close()
    assert future.result(timeout=0).status is Status.CRASH


# Tasks that are no probe ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TopUp(Task[str]):
    """Fills each L1 bank but ``left_bytes``, and returns what the allocator then has left; or the verdict of a lost task."""

    left_bytes: int

    def run(self, session: Session, options: PoolOptions) -> str:
        l1 = session.memory(BufferType.L1)
        rows = l1.num_banks * (l1.free_bytes - self.left_bytes) // 32
        filler = session.empty(TensorSpec((rows, 16), layout=Layout.ROW_MAJOR, memory=MemoryConfig(BufferType.L1)))
        left = session.memory(BufferType.L1).free_bytes
        filler.deallocate()
        return f"{left} B left"

    def lost(self, verdict: Verdict, facts: DeviceFacts) -> str:
        return f"{verdict.status} on {facts.board}: {verdict.message}"


def test_a_task_has_the_device_to_itself_and_returns_its_result():
    with Pool(choose_device("virtual", "n150")) as pool:
        left = [pool.run(TopUp(bytes_)) for bytes_ in (32, 4096)]
        assert [future.result() for future in left] == ["32 B left", "4096 B left"]


def test_a_task_that_fails_in_its_worker_is_the_only_one_lost():
    with Pool(choose_device("virtual", "n150")) as pool:
        both = [pool.run(TopUp(left)) for left in (-32, 64)]  # the first asks each bank for a row more than it has
        failed, fine = (future.result() for future in both)
    assert failed.startswith("crash on n150: the process that ran the call ended with exit code 1; last output: ")
    assert fine == "64 B left"


@dataclass(frozen=True)
class Describe(Task[dict[str, object]]):
    """Returns the worker's import paths, its working folder, and whether it has torch."""

    exhausted: bool = False

    def run(self, session: Session, options: PoolOptions) -> dict[str, object]:
        torch = sys.modules.get("torch") is not None
        return {"pid": os.getpid(), "path": sys.path, "folder": os.getcwd(), "torch": torch, "exhausted": self.exhausted}

    def lost(self, verdict: Verdict, facts: DeviceFacts) -> dict[str, object]:
        return {}

    def exhausted_host(self, result: dict[str, object]) -> bool:
        return bool(result["exhausted"])


def test_a_worker_imports_from_its_parents_paths_and_not_from_the_working_folder(tmp_path, monkeypatch):
    (tmp_path / "ssinghal.py").write_text("raise SystemExit('not this one')")
    monkeypatch.chdir(tmp_path)
    with Pool(choose_device("virtual")) as pool:
        worker = pool.run(Describe()).result()
    assert worker["folder"] == str(tmp_path)
    assert str(tmp_path) not in worker["path"]
    assert [entry for entry in worker["path"] if entry in sys.path] == list(dict.fromkeys(sys.path))


def test_a_task_may_report_that_the_host_was_exhausted():
    with Pool(choose_device("virtual")) as pool:
        first, second, third = (pool.run(Describe(exhausted)).result()["pid"] for exhausted in (False, True, False))
    assert first == second != third


def test_tasks_have_torch_where_the_options_ask_for_it():
    pytest.importorskip("torch")
    for torch in (False, True):
        with Pool(choose_device("virtual"), PoolOptions(torch=torch)) as pool:
            assert pool.run(Describe()).result()["torch"] is torch


def test_a_worker_ends_with_its_parent(tmp_path):
    """The parent is killed while the worker is in a call: the worker ends after the call."""
    code = f"""
import os, sys, time
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from tests.runner.test_pool import SLOW, unlimited
from ssinghal.device.modes import choose_device
from ssinghal.runner.pool import Pool, PoolOptions
pool = Pool(choose_device("virtual"), PoolOptions(limits=unlimited()))
pool.submit(SLOW)
while not pool._busy:
    time.sleep(0.01)
print("busy", flush=True)
time.sleep(60)
"""
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    assert parent.stdout.readline() == "busy\n"
    workers = workers_of(parent.pid)
    assert len(workers) == 1
    parent.kill()
    parent.communicate()
    wait_for(lambda: all_ended(workers), "the end of the worker")


def unlimited():
    return Limits(host_tiles=10**9, capture_tiles=0)


class Remembering(Pool):
    """A pool without workers, which answers each case at once."""

    def __init__(self) -> None:
        self._answers = []

    @property
    def alive(self) -> int:
        """The number of answers that somebody still holds."""
        return sum(answer() is not None for answer in self._answers)

    def submit(self, case):
        record = Record.of(case, Verdict(Status.FITS), device_mode=DeviceMode.VIRTUAL, board="n150", ttnn="0.81.1")
        answer = Future()
        self._answers.append(ref(record))
        answer.set_result(record)
        return answer


def test_map_holds_few_records_however_many_cases_there_are():
    """The records of a hundred thousand cases would take hundreds of megabytes: the cases are taken as they are needed."""
    cases = (make_case("relu", ((1, width),)) for width in range(1, 3 * MAX_AHEAD + 1))
    pool, shapes, most = Remembering(), [], 0
    for record in pool.map(cases):
        shapes.append(record.inputs)
        most = max(most, pool.alive)
    assert shapes == [((1, width),) for width in range(1, 3 * MAX_AHEAD + 1)]
    assert MAX_AHEAD <= most <= MAX_AHEAD + 2
    assert list(pool.map([])) == []


# The end of the process that has the pool ------------------------------------------------------------------------------------

KILLED = """
import os, signal, sys, threading, time
from pathlib import Path
from ssinghal.device.modes import choose_device
from ssinghal.runner.pool import Pool
from tests.support.hanging_task import Hanging
where, begun = sys.argv[1], Path(sys.argv[2])
pool = Pool(choose_device("virtual"))
started = []
thread = threading.Thread(target=lambda: started.append(pool._start()))  # the thread that starts it ends before it
thread.start()
thread.join()
pool._idle.get().stop()
pool._idle.put(started[0])
if where == "idle":
    begun.write_text(str(started[0]._process.pid))
else:
    pool.run(Hanging(where, begun))
time.sleep(100_000)
"""


@pytest.mark.parametrize("where", ["native, holding the interpreter", "native", "python", "idle"])
def test_a_worker_ends_with_the_process_that_started_it_whatever_it_does(tmp_path, where):
    begun = tmp_path / "begun"
    process = subprocess.Popen([sys.executable, "-c", KILLED, where, str(begun)], cwd=Path(__file__).parents[2])
    try:
        wait_for(begun.exists, "the call")
        pid = int(begun.read_text())
        assert not all_ended([pid])
    finally:
        process.kill()
        process.wait()
    wait_for(lambda: all_ended([pid]), "the end of the worker")
