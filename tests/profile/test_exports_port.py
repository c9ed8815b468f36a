"""The exports of a port of a model have, after each of its calls, what TTNN's allocator reported."""

from __future__ import annotations

import json
import pickle
import sqlite3
from contextlib import closing

import pytest

from ssinghal.profile.exports.visualizer import BUFFER_TYPES
from ssinghal.profile.reading import read_profiles
from ssinghal.report.visualizer_export import REPORTS
from tests.profile.measure import ROOT, run_ssinghal
from tests.profile.test_exports import exported

pytestmark = pytest.mark.virtual_device
PEAKS = {"l1": 797_152, "l1_small": 7_264, "dram": 2_564_992}  # as another profiler recorded them of the original


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    folder = tmp_path_factory.mktemp("port")
    done = run_ssinghal(folder, "profile", "-o", "out", "--", "python", ROOT / "examples" / "ports" / "resnet50.py")
    assert done.returncode == 0, done.stderr
    return folder


def test_stacks_add_up_to_the_peaks(port):
    profiles = json.loads(exported(port, "speedscope").read_text())["profiles"]
    assert sorted(sum(one["weights"]) for one in profiles) == sorted(PEAKS.values())
    for memory, peak in PEAKS.items():
        lines = exported(port, "collapsed", "--of", memory).read_text().splitlines()
        assert sum(int(line.rpartition(" ")[2]) for line in lines) == peak
        assert lines == sorted(lines)


def test_counters_reach_the_peaks(port):
    events = json.loads(exported(port, "perfetto").read_text())["traceEvents"]
    highest: dict[str, int] = {}
    for event in events:
        if event["ph"] == "C":
            highest[event["name"]] = max(highest.get(event["name"], 0), event["args"]["bytes"])
    assert {*PEAKS.values()} <= {*highest.values()}


def test_a_trace_frees_what_it_allocated_and_reaches_the_peaks(port):
    snapshot = pickle.loads(exported(port, "memory_viz").read_bytes())
    highest = []
    for trace, segment in zip(snapshot["device_traces"], snapshot["segments"], strict=True):
        live: dict[int, int] = {}
        most = 0
        for entry in trace:
            if entry["action"] == "alloc":
                assert entry["addr"] not in live
                live[entry["addr"]] = entry["size"]
            elif entry["action"] == "free_completed":
                assert live.pop(entry["addr"]) == entry["size"]
            most = max(most, sum(live.values()))
        highest.append(most)
        assert live == {b["address"]: b["size"] for b in segment["blocks"] if b["state"] == "active_allocated"}
    assert sorted(highest) == sorted(PEAKS.values())


def test_the_database_has_what_the_allocator_reported_after_each_call(port):
    report = exported(port, "visualizer") / REPORTS / "resnet50"
    (profile,) = read_profiles(port / "out")
    query = "SELECT operation_id, buffer_type, SUM(max_size_per_bank) FROM buffers GROUP BY operation_id, buffer_type"
    with closing(sqlite3.connect(report / "db.sqlite")) as database:
        sums = {(operation, kind): size for operation, kind, size in database.execute(query)}
        assert database.execute("SELECT COUNT(*) FROM operations").fetchone() == (len(profile.calls),)
    base = {memory: values.base_bytes for memory, values in profile.devices[0].memories.items()}
    faults = [
        (call.number, memory)
        for call in profile.calls
        for memory, allocated in call.after.items()
        if sums.get((call.number + 1, BUFFER_TYPES[memory]), 0) != allocated - base[memory]
    ]
    assert faults == []
