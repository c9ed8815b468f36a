"""Runs that are ended, disturbed, or have no room; and other commands that are ended."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

from .base import (
    BAD_INPUT,
    CASES,
    INTERRUPTED,
    KILLED,
    SOON,
    TERMINATED,
    Ended,
    Fault,
    Outcome,
    Place,
    answered,
    complete_lines,
    counted,
    ended,
    faults_of,
    in_namespace,
    judged,
    records_of,
    resumed,
    wait_for,
    workers_of,
)

SUITE = """
import pytest
pytestmark = pytest.mark.operator("relu")

def test_relu(case, compare):
    compare(case)
"""


def run_killed(place: Place) -> Outcome:
    process = place.started_run()
    workers = workers_of(process.pid)
    end = ended(process, signal.SIGKILL)
    time.sleep(5)
    left = [pid for pid in workers if Path(f"/proc/{pid}").exists()]
    outcome = resumed(place, "kill -9 of a run, then --resume", end, {KILLED})
    short = ["no device process was there"] if not workers else [f"{len(left)} device processes are left"] if left else []
    return replace(outcome, short=(*outcome.short, *short))


def run_interrupted(place: Place) -> Outcome:
    end = ended(place.started_run(), signal.SIGINT, group=True)
    return resumed(place, "Ctrl-C of a run, then --resume", end, {INTERRUPTED})


def run_terminated(place: Place) -> Outcome:
    end = ended(place.started_run(), signal.SIGTERM, group=True)
    return resumed(place, "SIGTERM to a run and its workers, then --resume", end, {TERMINATED})


def probe_ended(place: Place) -> Outcome:
    ends = []
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        with open(place.folder / f"{number.name}.jsonl", "w") as output:
            process = place.start("probe", "--from", place.lines(2000), "--json", stdout=output)
            wait_for(lambda n=number: (place.folder / f"{n.name}.jsonl").stat().st_size > 10_000, "records")  # type: ignore[misc]
            ends.append(ended(process, number))
    short = [f"exit code {end.code}, not {code}" for end, code in zip(ends, (INTERRUPTED, TERMINATED, KILLED), strict=True)
             if end.code != code]  # fmt: skip
    for path in place.folder.glob("SIG*.jsonl"):
        text = path.read_text()
        whole = text[: text.rfind("\n") + 1].splitlines()
        short += [f"{path.name}: damaged lines"] if any(not json.loads(line) for line in whole) else []
    codes = ", ".join(str(end.code) for end in ends)
    return Outcome("Ctrl-C, SIGTERM and kill -9 of probe --from", codes, ends[1].err.strip()[-80:], short=tuple(short))


def report_terminated(place: Place) -> Outcome:
    place.run("run", place.catalog(2000))
    folder = place.runs()[0]
    process = place.start("report")
    wait_for(lambda: process.poll() is not None or (folder / "report").exists(), "the report")
    end = ended(process, signal.SIGTERM)
    hidden = [path.name for path in (folder / "report").glob(".*") if path.name != ".report-files"]
    short = [f"left: {', '.join(hidden)}"] if hidden else []
    again = place.run("report")
    short += [f"the next one: exit code {again.code}"] if again.code else []
    return judged("SIGTERM while a report of 2,000 cases is written, then a report", end, {TERMINATED, 0}, short=short)


def pytest_ended(place: Place) -> Outcome:
    catalog = place.catalog()
    place.file("conftest.py", 'pytest_plugins = ["ssinghal.plugin"]\n')
    place.file("test_relu.py", SUITE)
    ends, counts, short = [], [], []
    for number, code in ((signal.SIGINT, 2), (signal.SIGTERM, -signal.SIGTERM), (signal.SIGKILL, KILLED)):
        before = len(place.runs())
        options = ["--oom-catalog", catalog, "--oom-results", "results", "-p", "no:cacheprovider", "-q"]
        process = place.start(*options, program=(sys.executable, "-m", "pytest"))

        def some(before: int = before) -> bool:
            runs = place.runs()
            return len(runs) > before and len(complete_lines(runs[-1] / "records.jsonl")) >= SOON

        wait_for(lambda p=process, s=some: p.poll() is not None or s(), "records")  # type: ignore[misc]
        end = ended(process, number)
        records = records_of(place.runs()[-1])
        short += faults_of(records) + ([f"{number.name}: exit code {end.code}, not {code}"] if end.code != code else [])
        ends.append(end)
        counts.append(len(records))
    short += [f"Ctrl-C: {counts[0]} records, not {CASES}"] if counts[0] != CASES else []
    codes = ", ".join(str(end.code) for end in ends)
    done = "Ctrl-C, SIGTERM and kill -9 of pytest"
    return Outcome(done, codes, f"records: {', '.join(map(str, counts))}", CASES, counts[0], tuple(short))


def two_runs(place: Place) -> Outcome:
    catalog = place.catalog()
    both = [place.start("run", catalog, "--workers", "1") for _ in range(2)]
    ends = [ended(process) for process in both]
    counts = [answered(records_of(folder)) for folder in place.runs()]
    short = [f"{len(counts)} folders"] if len(counts) != 2 else []
    short += [f"exit codes {[end.code for end in ends]}"] if any(end.code for end in ends) else []
    return judged("two runs at once in one results folder", ends[0], {0}, short=short, expected=2 * CASES, found=sum(counts))


def same_id(place: Place) -> Outcome:
    """A clock that is set back may give the id of an earlier run again."""
    fixed = "import ssinghal.runs.writer as writer\nwriter.new_run_id = lambda: '20260101T000000.000000Z'\n"
    code = f"{fixed}import ssinghal.cli\nssinghal.cli.main()\n"
    place.file("again.py", code)
    program = (sys.executable, str(place.folder / "again.py"))
    first = place.run("run", place.catalog(), program=program)
    kept = (place.runs()[0] / "records.jsonl").read_bytes()
    second = place.run("run", place.catalog(), program=program)
    short = [] if (place.runs()[0] / "records.jsonl").read_bytes() == kept else ["the records of the first have changed"]
    short += [f"the first: exit code {first.code}"] if first.code else []
    found = answered(records_of(place.runs()[0]))
    done = "a second run with the id of the first, as after a clock that was set back"
    return judged(done, second, {0, BAD_INPUT}, short=short, expected=CASES, found=found)


def workers_killed(place: Place) -> Outcome:
    process = place.started_run(cases=3 * CASES)
    killed = 0
    for quarter in (1, 2, 3):
        wait_for(lambda q=quarter: process.poll() is not None or records_in(place) > q * CASES // 2, "more records")  # type: ignore[misc]
        for pid in workers_of(process.pid)[:1]:
            os.kill(pid, signal.SIGKILL)
            killed += 1
    end = ended(process)
    records = records_of(place.runs()[0])
    fits = sum(record["status"] == "fits" for record in records)
    repeated = sum(bool(record.get("retried")) for record in records)
    done = f"kill -9 of {killed} workers of a run, one after the other: {counted(repeated)} repeated"
    short = faults_of(records) + ([] if killed else ["no worker was killed"])
    return judged(done, end, {0}, short=short, expected=3 * CASES, found=fits)


def records_in(place: Place) -> int:
    return len(records_of(place.runs()[0]))


def poison(place: Place) -> Outcome:
    """A virtual device cannot run a program on two of eight chips: TTNN aborts the process each time."""
    cases = [{"op": "relu", "inputs": [[32, 32 * n]]} for n in range(1, 11)]
    deadly = {"op": "point_to_point", "inputs": [[64, 64]], "attrs": {"sender_coord": [0, 0], "receiver_coord": [0, 1]}}
    lines = [*cases[:5], deadly, *cases[5:]]
    place.file("cases.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    end = place.run("probe", "--from", "cases.jsonl", "--board", "t3k_2x4", "--json")
    records = [json.loads(line) for line in end.out.splitlines()]
    crashed = [record for record in records if record["status"] == "crash"]
    short = [] if len(crashed) == 1 and crashed[0]["retried"].startswith("crash: ") else ["the crash was not repeated"]
    short += [] if sum(record["status"] == "fits" for record in records) == 10 else ["other cases were harmed"]
    done = "a call that always ends its process, among ten others"
    return judged(done, Ended(end.code, "", end.err), {1}, short=short, expected=11, found=len(records))


def results_deleted(place: Place) -> Outcome:
    process = place.started_run()
    shutil.rmtree(place.folder / "results")
    end = ended(process)
    return judged("the results folder deleted during a run", end, {BAD_INPUT}, words=["cannot write results"])


def disk_full(place: Place) -> Outcome:
    (place.folder / "results").mkdir()
    (place.folder / "kept").mkdir()
    script = "mount -t tmpfs -o size=192k none results"
    copying = ["sh", "-c", '"$@"; code=$?; cp -r results/. kept; exit $code', "sh"]
    end = place.run("run", place.catalog(), before=[*in_namespace("-m", script), *copying])
    shutil.rmtree(place.folder / "results")
    (place.folder / "kept").rename(place.folder / "results")  # on a disk with room
    done = "a disk that fills up during a run, then --resume on one with room"
    return resumed(place, done, end, {BAD_INPUT}, words=["No space left on device"])


def file_too_large(place: Place) -> Outcome:
    end = place.run("run", place.catalog(), before=["prlimit", "--fsize=150000"])
    return resumed(place, "a limit of 150,000 B for each file during a run, then --resume", end, {BAD_INPUT})


def results_read_only(place: Place) -> Outcome:
    (place.folder / "results").mkdir()
    before = in_namespace("-m", "mount -t tmpfs -o ro none results")
    end = place.run("run", place.catalog(), before=before)
    return judged("a results folder that cannot be written", end, {BAD_INPUT}, words=["results", "Read-only file system"])


def remedy_terminated(place: Place) -> Outcome:
    sizes = range(400, 700)
    call = {"op": "add", "memory": "l1"}
    place.file("oom.jsonl", "".join(json.dumps({**call, "inputs": [[1, 64, 640, n]] * 2}) + "\n" for n in sizes))
    place.file("found.jsonl", "kept\n")
    process = place.start("remedy", "--from", "oom.jsonl", "-o", "found.jsonl")
    wait_for(lambda: process.poll() is not None or any(place.folder.glob(".found*")), "the unfinished file")
    end = ended(process, signal.SIGTERM)
    short = [] if (place.folder / "found.jsonl").read_text() == "kept\n" else ["the file of before is gone"]
    short += ["an unfinished file is left"] if any(place.folder.glob(".found*")) else []
    return judged("SIGTERM during remedy -o FILE", end, {TERMINATED}, short=short)


def capture_interrupted(place: Place) -> Outcome:
    place.file("slow.py", "import pathlib, time\npathlib.Path('begun').touch()\ntime.sleep(60)\n")
    process = place.start("catalog", "capture", "--factory", "slow:net", "-o", "net.yaml")
    wait_for(lambda: process.poll() is not None or (place.folder / "begun").exists(), "the capture")
    return judged("Ctrl-C during catalog capture", ended(process, signal.SIGINT), {INTERRUPTED}, words=["interrupted"])


FAULTS = (
    Fault("run-killed", run_killed),
    Fault("run-interrupted", run_interrupted),
    Fault("run-terminated", run_terminated),
    Fault("probe-ended", probe_ended),
    Fault("report-terminated", report_terminated),
    Fault("pytest-ended", pytest_ended),
    Fault("two-runs", two_runs),
    Fault("same-id", same_id),
    Fault("workers-killed", workers_killed),
    Fault("poison", poison),
    Fault("results-deleted", results_deleted),
    Fault("disk-full", disk_full),
    Fault("file-too-large", file_too_large),
    Fault("results-read-only", results_read_only),
    Fault("remedy-terminated", remedy_terminated),
    Fault("capture-interrupted", capture_interrupted),
)
