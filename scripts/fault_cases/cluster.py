"""Runs on Dask clusters whose schedulers, workers and networks fail."""

from __future__ import annotations

import os
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path
from subprocess import Popen

from .base import (
    BAD_INPUT,
    CASES,
    INTERRUPTED,
    Ended,
    Fault,
    Outcome,
    Place,
    answered,
    ended,
    faults_of,
    judged,
    records_of,
    workers_of,
)
from .dask_place import MANY, MARK, cluster, left_over, listening, other_host, settled

ROOT = Path(__file__).parents[2]


def scheduler_killed(place: Place) -> Outcome:
    with cluster(place, 2) as dask:
        process = dask.run()
        dask.scheduler.kill()
        end = ended(process)
        return settled(place, "kill -9 of a Dask scheduler during a run, then --resume", end, BAD_INPUT, words=["went away"])


def workers_replaced(place: Place) -> Outcome:
    with cluster(place, 0) as dask:
        first = dask.workers(2)
        process = dask.run()
        for worker in first:
            worker.kill()
        dask.worker()
        end = ended(process)
        done = "kill -9 of all workers of a Dask cluster during a run; another one joins"
        return settled(place, done, end, 0, words=["lost workers: 2"])


def workers_gone(place: Place) -> Outcome:
    with cluster(place, 0) as dask:
        first = dask.workers(2)
        process = dask.run()
        for worker in first:
            worker.kill()
        end = ended(process)
        done = "kill -9 of all workers of a Dask cluster during a run, then --resume"
        return settled(place, done, end, BAD_INPUT, words=["all workers were lost, and no other joined within 30 s"])


def worker_stopped(place: Place) -> Outcome:
    """The scheduler forgets a worker that is silent for so long; it goes on when others have its cases."""
    place.environ["DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL"] = "4s"
    with cluster(place) as dask:
        hung = dask.worker()
        process = dask.run(cases=10 * CASES)
        hung.send_signal(signal.SIGSTOP)
        time.sleep(10)
        hung.send_signal(signal.SIGCONT)
        end = ended(process)
        done = "a worker of a Dask cluster that hangs for 10 s (SIGSTOP), then goes on"
        return settled(place, done, end, 0, cases=10 * CASES, words=["lost workers: 1"])


def worker_hung(place: Place) -> Outcome:
    with cluster(place) as dask:
        hung = dask.worker()
        process = dask.run()
        hung.send_signal(signal.SIGSTOP)
        end = ended(process, signal.SIGINT, group=True)
        hung.kill()
        done = "Ctrl-C of a run on a Dask cluster, of which a worker hangs (SIGSTOP), then --resume"
        return settled(place, done, end, INTERRUPTED)


def scheduler_hung(place: Place) -> Outcome:
    with cluster(place) as dask:
        process = dask.run()
        dask.scheduler.send_signal(signal.SIGSTOP)
        end = ended(process)
        dask.scheduler.kill()
        return settled(place, "a Dask scheduler that hangs (SIGSTOP) during a run, then --resume", end, BAD_INPUT,
                       words=["went away"])  # fmt: skip


def other_code(place: Place) -> Outcome:
    shutil.copytree(ROOT / "ssinghal", place.folder / "code" / "ssinghal", ignore=shutil.ignore_patterns("__pycache__"))
    with open(place.folder / "code" / "ssinghal" / "runner" / "probe.py", "a") as source:
        source.write("# another version\n")
    place.file("metadata/ttnn-9.9.9.dist-info/METADATA", "Metadata-Version: 2.1\nName: ttnn\nVersion: 9.9.9\n")
    paths = [str(place.folder / "code"), str(place.folder / "metadata")]
    changed = replace(place, environ={**place.environ, "PYTHONPATH": os.pathsep.join(paths)})
    with cluster(place) as dask:
        process = dask.run(cases=10 * CASES)
        dask.worker(place=replace(changed, environ=place.environ | changed.environ))
        end = ended(process)
        done = "a worker with other code and another ttnn joins a Dask cluster during a run"
        words = ["not used: worker", "the digest of ssinghal's code is", "ttnn is 9.9.9, expected"]
        return settled(place, done, end, 0, cases=10 * CASES, words=words)


def joined_later(place: Place) -> Outcome:
    with cluster(place) as dask:
        process = dask.run(cases=10 * CASES)
        dask.worker()
        end = ended(process)
        return settled(place, "a worker joins a Dask cluster during a run", end, 0, cases=10 * CASES)


def interrupted(place: Place) -> Outcome:
    with cluster(place) as dask:
        end = ended(dask.run(), signal.SIGINT, group=True)
        return settled(place, "Ctrl-C of a run on a Dask scheduler, then --resume", end, INTERRUPTED)


def _ended_by_two(process: Popen[str]) -> Ended:
    """Waits for a run that gets Ctrl-C, and again a moment later."""
    os.killpg(process.pid, signal.SIGINT)
    time.sleep(0.1)
    return ended(process, signal.SIGINT, group=True)


def interrupted_twice(place: Place) -> Outcome:
    with cluster(place) as dask:
        process = dask.run()
        end = _ended_by_two(process)
        return settled(place, "Ctrl-C of a run on a Dask scheduler, and again, then --resume", end, INTERRUPTED)


def local_interrupted_twice(place: Place) -> Outcome:
    place.environ |= {MARK: str(place.folder)}
    process = place.started_run("--cluster", "local:2", cases=MANY)
    end = _ended_by_two(process)
    return settled(place, "Ctrl-C of a run on a local Dask cluster, and again, then --resume", end, INTERRUPTED)


def local_worker_killed(place: Place) -> Outcome:
    place.environ |= {MARK: str(place.folder)}
    process = place.started_run("--cluster", "local:2", cases=MANY)
    for pid in workers_of(process.pid)[:1]:
        os.kill(_parent(pid), signal.SIGKILL)
    end = ended(process)
    done = "kill -9 of a worker of a local Dask cluster during a run"
    return settled(place, done, end, 0, words=["lost workers: 1"])


def local_killed(place: Place) -> Outcome:
    place.environ |= {MARK: str(place.folder)}
    process = place.started_run("--cluster", "local:2", cases=MANY)
    end = ended(process, signal.SIGKILL)
    short = left_over(place)
    again = place.run("run", "--resume", "latest")
    records = records_of(place.runs()[0])
    short += faults_of(records) + ([f"--resume: exit code {again.code}"] if again.code else [])
    done = "kill -9 of a run on a local Dask cluster, then --resume"
    return judged(done, end, {-signal.SIGKILL}, expected=MANY, found=answered(records), short=short, lines=0)


def two_on_one(place: Place) -> Outcome:
    with cluster(place, 2) as dask:
        place.catalog()
        both = [place.start("run", "sweep.yaml", "--scheduler", dask.address) for _ in range(2)]
        ends = [ended(process) for process in both]
        records = [records_of(folder) for folder in place.runs()]
        short = [fault for some in records for fault in faults_of(some)] + left_over(place)
        short += [f"exit codes {[end.code for end in ends]}"] if any(end.code for end in ends) else []
        done = "two runs at once on one Dask scheduler"
        return judged(done, ends[0], {0}, expected=2 * CASES, found=sum(map(answered, records)), short=short, lines=0)


def worker_unplugged(place: Place) -> Outcome:
    """Dask notices it after 30 s, by TCP."""
    with other_host() as host, cluster(place, host="0.0.0.0") as dask:
        port = dask.address.rpartition(":")[2]
        dask.worker(before=host.inside, address=f"tcp://{host.here}:{port}")
        process = dask.run(cases=10 * CASES)
        host.cut()
        end = ended(process)
        done = "a Dask worker on another host (a network namespace), whose link goes down during a run"
        return settled(place, done, end, 0, cases=10 * CASES, words=["lost workers: 1"])


def command_unplugged(place: Place) -> Outcome:
    with other_host() as host, cluster(place, host="0.0.0.0") as dask:
        port = dask.address.rpartition(":")[2]
        process = place.started_run("--scheduler", f"tcp://{host.here}:{port}", cases=10 * CASES, before=host.inside)
        host.cut()
        end = ended(process)
        done = "a run on another host than its Dask cluster (a network namespace), whose link goes down, then --resume"
        return settled(place, done, end, BAD_INPUT, cases=10 * CASES, words=["went away"], cut_off=True)


def no_scheduler(place: Place) -> Outcome:
    end = place.run("run", place.catalog(), "--scheduler", "tcp://127.0.0.1:9")
    short = ["a folder of a run that did not begin"] if place.runs() else []
    return judged("a Dask scheduler that is not there", end, {BAD_INPUT}, short=short, words=["127.0.0.1:9"], lines=1)


def no_dask(place: Place) -> Outcome:
    """What takes a connection, and then is silent, ends it, speaks HTTP, or announces a message of 2^62 B."""
    http, much = b"HTTP/1.1 400 Bad Request\r\n\r\n", (2**62).to_bytes(8, "little")
    replies = {"silence": None, "an end": b"", "HTTP": http, "much": much}
    ends = []
    for name, reply in replies.items():
        with listening(reply) as port:
            ends.append((name, port, place.run("run", place.catalog(), "--scheduler", f"tcp://127.0.0.1:{port}")))
    short = ["a folder of a run that did not begin"] if place.runs() else []
    short += [f"{name}: exit code {end.code}" for name, _, end in ends if end.code != BAD_INPUT]
    short += [f"{name}: {end.err.strip()[-300:]}" for name, port, end in ends
              if len(end.err.splitlines()) != 1 or f"no Dask scheduler at tcp://127.0.0.1:{port}" not in end.err]  # fmt: skip
    return judged("what takes connections, but is no Dask scheduler", ends[0][2], {BAD_INPUT}, short=short, lines=1)


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


FAULTS = (
    Fault("cluster-worker-killed", local_worker_killed),
    Fault("cluster-killed", local_killed),
    Fault("cluster-interrupted-twice", local_interrupted_twice),
    Fault("scheduler-killed", scheduler_killed),
    Fault("scheduler-interrupted", interrupted),
    Fault("scheduler-interrupted-twice", interrupted_twice),
    Fault("scheduler-two-runs", two_on_one),
    Fault("no-scheduler", no_scheduler),
    Fault("no-dask-scheduler", no_dask),
    Fault("workers-replaced", workers_replaced),
    Fault("workers-gone", workers_gone),
    Fault("worker-stopped", worker_stopped),
    Fault("worker-hung", worker_hung),
    Fault("scheduler-hung", scheduler_hung),
    Fault("worker-joined", joined_later),
    Fault("worker-unplugged", worker_unplugged),
    Fault("command-unplugged", command_unplugged),
    Fault("worker-of-other-code", other_code),
)
