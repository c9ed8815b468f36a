"""Standard streams that are closed or full, and systems that lack something."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from .base import (
    BAD_INPUT,
    CASES,
    KILLED,
    PIPE_CLOSED,
    Ended,
    Fault,
    NotHere,
    Outcome,
    Place,
    answered,
    counted,
    ended,
    faults_of,
    in_namespace,
    judged,
    records_of,
    wait_for,
)

PROBE = ("probe", "relu", "1,1,32,32")
MEMORY_GROUPS = Path("/sys/fs/cgroup/memory")
GROUP_BYTES = 115 * 2**20  # less than a device process takes


def pipe_closed(place: Place) -> Outcome:
    process = place.start("operators", "--json")
    assert process.stdout is not None
    process.stdout.read(1)
    process.stdout.close()
    errors = process.stderr.read() if process.stderr else ""
    return judged("a reader that is gone: operators --json into head -c 1", Ended(process.wait(), "", errors), {0, PIPE_CLOSED})


def output_closed(place: Place) -> Outcome:
    return _closed(place, 1, "standard output closed: probe", {0})


def errors_closed(place: Place) -> Outcome:
    return _closed(place, 2, "standard error closed: probe", {0})


def input_closed(place: Place) -> Outcome:
    end = place.run("probe", "--from", "-", before=_closing(0))
    return judged("standard input closed: probe --from -", end, {BAD_INPUT}, words=["standard input is closed"])


def _closed(place: Place, descriptor: int, done: str, codes: set[int]) -> Outcome:
    return judged(done, place.run(*PROBE, before=_closing(descriptor)), codes)


def _closing(descriptor: int) -> list[str]:
    return ["sh", "-c", f'exec "$@" {descriptor}{"<" if descriptor == 0 else ">"}&-', "sh"]


def output_full(place: Place) -> Outcome:
    with open("/dev/full", "w") as full:
        end = place.run(*PROBE, stdout=full)
    words = ["standard output", "No space left on device"]
    return judged("standard output to a full device: probe", end, {BAD_INPUT}, words=words)


def cache_not_writable(place: Place) -> Outcome:
    place.environ["XDG_CACHE_HOME"] = "/proc/nowhere"
    end = place.run(*PROBE)
    return judged("XDG_CACHE_HOME that cannot be written: probe", end, {BAD_INPUT}, words=["/proc/nowhere", "XDG_CACHE_HOME"])


def no_network(place: Place) -> Outcome:
    before = in_namespace("-n", "true")
    end = place.run("run", place.catalog(), before=before)
    added = place.run("releases", "add", "0.75.9", before=before)
    short = [] if added.code == BAD_INPUT and "0.75.9" in added.err else [f"releases add: {added.code}: {added.err[-200:]}"]
    return judged("no network: run, and releases add", end, {0}, short=short, expected=CASES, found=_answered(place))


def ttnn_broken(place: Place) -> Outcome:
    place.file("broken/ttnn/__init__.py", "raise ImportError('libtt_metal.so: cannot open shared object file')\n")
    place.environ["PYTHONPATH"] = os.pathsep.join([str(place.folder / "broken"), os.environ.get("PYTHONPATH", "")])
    end = place.run("run", place.catalog())
    short = ["a folder of a run that did not begin"] if place.runs() else []
    return judged("a ttnn that cannot be imported: run", end, {BAD_INPUT}, short=short, words=["libtt_metal.so"])


def no_shared_memory(place: Place) -> Outcome:
    before = in_namespace("-m", "mount -t tmpfs -o ro none /dev/shm")
    return _run_within(place, "a /dev/shm that cannot be written: run", before)


def few_descriptors(place: Place) -> Outcome:
    return _run_within(place, "15 open files at most (RLIMIT_NOFILE): run", ["prlimit", "--nofile=15"])


def address_space(place: Place) -> Outcome:
    return _run_within(place, "0.5 GB of address space at most for each process: run", ["prlimit", "--as=500000000"])


def _run_within(place: Place, done: str, before: Sequence[str]) -> Outcome:
    """A run answers all cases, or states in a line why it cannot: before it begins, or in a record of each case."""
    end = place.run("run", place.catalog(), before=before)
    if end.code == BAD_INPUT and not place.runs():
        return judged(done, end, {BAD_INPUT})
    records = records_of(place.runs()[0]) if place.runs() else []
    found = answered(records) if end.code == 0 else len(records)
    return judged(done, end, {0, BAD_INPUT}, expected=CASES, found=found)


def memory_ends(place: Place) -> Outcome:
    """The kernel kills the largest processes of a group whose memory is at its end."""
    if not os.access(MEMORY_GROUPS, os.W_OK) or not (MEMORY_GROUPS / "memory.limit_in_bytes").exists():
        raise NotHere("no memory group that this user may create")
    group = MEMORY_GROUPS / f"ssinghal-faults-{os.getpid()}"
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(GROUP_BYTES))
        entering = ["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh"]
        end = ended(place.start("run", place.catalog(), "--workers", "2", before=entering))
        kills = (group / "memory.oom_control").read_text().split()[-1]
        wait_for(lambda: not (group / "cgroup.procs").read_text(), "the end of its processes")
    finally:
        group.rmdir()
    records = records_of(place.runs()[0]) if place.runs() else []
    repeated = sum(bool(record.get("retried")) for record in records)
    memory = f"{GROUP_BYTES // 2**20} MiB of memory for a run with two workers (cgroup)"
    done = f"{memory}: the kernel killed {kills} processes, {counted(repeated)} repeated"
    found = len(records) if end.code in (0, 1, BAD_INPUT) else CASES
    return judged(done, end, {0, 1, BAD_INPUT, KILLED}, expected=CASES, found=found, short=faults_of(records))


def _answered(place: Place) -> int | None:
    return answered(records_of(place.runs()[0])) if place.runs() else None


def _uses(program: str, make: Callable[[Place], Outcome]) -> Callable[[Place], Outcome]:
    def checked(place: Place) -> Outcome:
        if subprocess.run(["sh", "-c", f"command -v {program}"], capture_output=True, check=False).returncode:
            raise NotHere(f"no program {program}")
        return make(place)

    return checked


FAULTS = (
    Fault("pipe-closed", pipe_closed),
    Fault("stdout-closed", output_closed),
    Fault("stderr-closed", errors_closed),
    Fault("stdin-closed", input_closed),
    Fault("stdout-full", output_full),
    Fault("cache-not-writable", cache_not_writable),
    Fault("no-network", no_network),
    Fault("ttnn-broken", ttnn_broken),
    Fault("no-dev-shm", no_shared_memory),
    Fault("few-descriptors", _uses("prlimit", few_descriptors)),
    Fault("little-address-space", _uses("prlimit", address_space)),
    Fault("memory-ends", memory_ends),
)
