"""Exports of a profile: read by the viewer's own reader, or checked by its format, with the figures of the replay."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from itertools import pairwise

import pytest

from ssinghal.profile.exports.timeline import steps
from ssinghal.profile.model import Buffer, Call, Device, Memory, Profile
from ssinghal.profile.reading import read_profiles
from tests.profile.measure import run_ssinghal
from tests.profile.test_profile_command import PROLOGUE, TILE_ROW

pytestmark = pytest.mark.virtual_device

SOURCE = """
def block(x):
    return ttnn.relu(x)
a = tensor(3)
b = block(a)
del a
w = ttnn.empty([32, 2048], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device, memory_config=ttnn.DRAM_MEMORY_CONFIG)
try:
    tensor(900)
except RuntimeError:
    pass
c = tensor()
ttnn.close_device(device)
"""
FIRST = len(PROLOGUE.splitlines()) + 1
L1_PEAK = 6 * TILE_ROW  # a and b
DRAM_PEAK = 6 * 2_048  # 64 tiles over 12 banks


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exports")
    (folder / "program.py").write_text(PROLOGUE + SOURCE)
    done = run_ssinghal(folder, "profile", "-o", "out", "--", "python", "program.py")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def profile(folder):
    (one,) = read_profiles(folder / "out")
    assert {memory: peak.bank_bytes for memory, peak in one.peaks.items()} == {"l1": L1_PEAK, "dram": DRAM_PEAK}
    return one


def exported(folder, form, *options):
    """The file that an export wrote."""
    done = run_ssinghal(folder, "profile", "export", "out", "--format", form, *options)
    assert (done.returncode, done.stderr) == (0, "")
    return folder / done.stdout.strip()


def test_collapsed_stacks(folder):
    text = exported(folder, "collapsed").read_text()
    assert text == (
        f"<module> (program.py:{FIRST + 3});tensor (program.py:{FIRST - 2});ttnn.empty {3 * TILE_ROW}\n"
        f"<module> (program.py:{FIRST + 4});block (program.py:{FIRST + 2});ttnn.relu {3 * TILE_ROW}\n"
    )


def test_collapsed_stacks_of_another_memory(folder):
    path = exported(folder, "collapsed", "--of", "dram", "-o", "dram.txt")
    assert (path.name, path.read_text()) == ("dram.txt", f"<module> (program.py:{FIRST + 6});ttnn.empty {DRAM_PEAK}\n")


def test_speedscope(folder):
    """Its schema: frames have names, each sample is a stack of their numbers with the outermost first, and a weight."""
    document = json.loads(exported(folder, "speedscope").read_text())
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = [frame["name"] for frame in document["shared"]["frames"]]
    assert all({*frame} <= {"name", "file", "line", "col"} for frame in document["shared"]["frames"])
    l1, dram = sorted(document["profiles"], key=lambda one: -len(one["samples"]))
    assert [[frames[number] for number in sample] for sample in l1["samples"]] == [
        ["<module>", "tensor", "ttnn.empty"],
        ["<module>", "block", "ttnn.relu"],
    ]
    for one, peak in ((l1, L1_PEAK), (dram, DRAM_PEAK)):
        assert {*one} == {"type", "name", "unit", "startValue", "endValue", "samples", "weights"}
        assert (one["type"], one["unit"], one["startValue"], one["endValue"]) == ("sampled", "bytes", 0, peak)
        assert (sum(one["weights"]), len(one["weights"])) == (peak, len(one["samples"]))


def test_perfetto(folder, profile):
    """Trace events: X has ts and dur, C has numbers alone in args, M names the tracks."""
    events = json.loads(exported(folder, "perfetto").read_text())["traceEvents"]
    assert {event["ph"] for event in events} == {"M", "X", "C"}
    assert all(isinstance(event["args"]["bytes"], int) for event in events if event["ph"] == "C")
    slices = [event for event in events if event["ph"] == "X"]
    assert [event["name"] for event in slices] == [call.name for call in profile.calls]
    assert all(event["ts"] + event["dur"] == following["ts"] for event, following in pairwise(slices))
    l1 = [event["args"]["bytes"] // TILE_ROW for event in events if event["ph"] == "C" and event["name"] == "L1 per core"]
    assert l1 == [3, 3, 6, 6, 3, 3, 3, 3, 4, 4], "where each call begins, and where it ends"
    ends = [(event["ts"] + event["dur"], call.after["l1"]) for event, call in zip(slices, profile.calls, strict=True)]
    counters = {(e["ts"], e["args"]["bytes"]) for e in events if e["ph"] == "C" and e["name"] == "L1 per core"}
    assert {*ends} <= counters, "what the allocator reported"


def memory_viz(folder, *arguments):
    """What PyTorch's own program prints."""
    command = [sys.executable, "-W", "ignore", "-m", "torch.cuda._memory_viz", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_memory_viz(folder, profile):
    path = exported(folder, "memory_viz")
    snapshot = pickle.loads(path.read_bytes())
    dram, l1 = snapshot["device_traces"]
    assert [(entry["action"], entry["size"] // TILE_ROW) for entry in l1] == [
        ("alloc", 3), ("alloc", 3), ("free_requested", 3), ("free_completed", 3), ("oom", 900), ("alloc", 1),
    ]  # fmt: skip
    assert [(entry["action"], entry["size"]) for entry in dram] == [("alloc", DRAM_PEAK)]
    relu = l1[1]["frames"]
    assert [(frame["name"], frame["line"]) for frame in relu] == [
        ("ttnn.relu", 0),
        ("block", FIRST + 2),
        ("<module>", FIRST + 4),
    ]
    segment = snapshot["segments"][1]
    board = profile.devices[0]
    assert (segment["address"], segment["total_size"]) == (board.l1_base, board.memories["l1"].bank_bytes)
    assert sum(block["size"] for block in segment["blocks"]) == segment["total_size"]


def test_pytorch_reads_the_snapshot(folder):
    path = exported(folder, "memory_viz")
    trace = memory_viz(folder, "trace", path)
    assert "Device 0 ----------------\n1 entries\n" in trace
    assert "Device 1 ----------------\n6 entries\n" in trace
    assert "raise OutOfMemoryError # 1.8MiB requested" in trace, "900 tiles"
    stats = memory_viz(folder, "stats", path)
    assert "segments: 2\n" in stats
    assert f"total_allocated: {(4 * TILE_ROW + DRAM_PEAK) / 1024:.1f}KiB\n" in stats, "b, c and w"
    for plot in ("segment_plot", "trace_plot"):
        memory_viz(folder, plot, path, "-o", "plot.html")
        assert "snapshot.pickle" in (folder / "plot.html").read_text()


def test_pytorchs_functions_read_the_snapshot(folder):
    viz = pytest.importorskip("torch.cuda._memory_viz")
    snapshot = pickle.loads(exported(folder, "memory_viz").read_bytes())
    lines = viz.memory(snapshot, format_flamegraph=lambda text: text).splitlines()
    held = [line for line in lines if ";active_allocated;" in line]
    assert sorted(int(line.rpartition(" ")[2]) for line in held) == [TILE_ROW, 3 * TILE_ROW, DRAM_PEAK]
    left = viz.filter_alloc_free_pairs(snapshot)["device_traces"][1]
    assert [(entry["action"], entry["size"] // TILE_ROW) for entry in left] == [("alloc", 3), ("oom", 900), ("alloc", 1)]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["out"], "Missing option '--format'."),
        (["out", "--format", "perfeto"], "unknown format 'perfeto'; did you mean perfetto?"),
        (["out", "--format", "perfetto", "--of", "l1"], "--of requires --format collapsed"),
        (["out", "--format", "collapsed", "--of", "trace"], "unknown memory in this profile 'trace'"),
        (["program.py", "--format", "perfetto"], "program.py:1: expected a record of a profile"),
        (["nowhere", "--format", "perfetto"], "nowhere: no such file or folder: expected a profile"),
    ],
)
def test_bad_use_is_one_line(folder, arguments, line):
    before = sorted(folder.rglob("*"))
    done = run_ssinghal(folder, "profile", "export", *arguments)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert line in done.stderr
    assert sorted(folder.rglob("*")) == before


def test_a_folder_of_two_processes_is_exported_file_by_file(folder, tmp_path):
    (records,) = (folder / "out").glob("records-*.jsonl")
    (tmp_path / "two").mkdir()
    for name in ("records-1.jsonl", "records-2.jsonl"):
        (tmp_path / "two" / name).write_bytes(records.read_bytes())
    done = run_ssinghal(tmp_path, "profile", "export", "two", "--format", "collapsed")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "ssinghal: two: has the profiles of 2 processes; name the file of one of them\n"
    done = run_ssinghal(tmp_path, "profile", "export", "two/records-2.jsonl", "--format", "collapsed")
    assert (done.returncode, done.stdout) == (0, "two/collapsed.txt\n")


def test_the_end_of_a_device_frees_what_is_left_on_it():
    memories = {"l1": Memory(64, 8_000, 0)}
    devices = [Device("0.81.1", "wormhole_b0", (1, 1), (8, 8), 32, 1_000, 9_000, memories, first) for first in (0, 1)]
    calls = [Call(number, "ttnn.f", None, (), {}) for number in (0, 1)]
    left = Buffer("l1", 8_000, 1_000, 64_000, 0, 0)
    other = Buffer("l1", 8_000, 500, 32_000, 1, 1, device=1, made_at=0)
    found = list(steps(Profile(devices=devices, calls=calls, buffers=[left, other])))
    assert [[(event.buffer.bank_bytes, event.is_allocation) for event in (*step.between, *step.within)] for step in found] == [
        [(1_000, True)],
        [(1_000, False), (500, True)],
        [],
    ]
