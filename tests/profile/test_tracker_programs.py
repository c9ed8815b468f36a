"""Program buffers: of equal programs alone, and by calls without dispatch the same as TTNN reports of those it builds."""

from __future__ import annotations

import json
import sys

import pytest

from ssinghal.profile.reading import read_profiles
from ssinghal.tracker.events import EventReader
from ssinghal.tracker.programs import ProgramPlan
from tests.profile.measure import ROOT, run_ssinghal

BASE = 1_000


def program(name, arguments, *buffers, is_cached=False, kind="circular_buffer_allocate"):
    """The nodes of a device operation. ``buffers``: bytes, from the base upwards in NORMAL mode."""
    address, nodes = BASE, []
    for size in buffers:
        params = {"address": str(address), "size": str(size), "globally_allocated": "0", "core_range_set": "{[0-0 - 1-0]}"}
        nodes.append({"node_type": kind, "params": {**params, "device_id": 0}})
        address += size
    start = {"name": name, "program_cache_hit": is_cached}
    return [
        {"node_type": "function_start", "params": start, "arguments": arguments},
        {"node_type": "circular_buffer_deallocate_all", "params": {}},
        *nodes,
        {"node_type": "function_end", "params": {"name": name}},
    ]


def reader(**options):
    return EventReader({"l1": 64}, 32, BASE, **options)


def sizes(events):
    return [event[2:] for event in events]


def test_a_program_that_runs_again_is_as_large_as_when_it_was_built():
    read = reader()
    assert sizes(read.events(program("A", ["a"], 320, 64))) == [[384, "measured"]]
    assert sizes(read.events(program("A", ["a"], is_cached=True))) == [[384, "memo"]]
    assert sizes(read.events(program("A", ["b"], is_cached=True))) == [[None, "unknown"]]


@pytest.mark.parametrize(("second", "known"), [(640, [None, "unknown"]), (320, [320, "memo"])])
def test_programs_whose_arguments_are_left_out_are_not_taken_for_each_other(second, known):
    """``<variant>`` is any program config. One of them runs again, and the call's own arguments are not known."""
    read = reader()
    read.events(program("Matmul", ["<variant>"], 320), lambda: "first")
    read.events(program("Matmul", ["<variant>"], second), lambda: "second")
    assert sizes(read.events(program("Matmul", ["<variant>"], is_cached=True))) == [known]
    assert sizes(read.events(program("Matmul", ["<variant>"], is_cached=True), lambda: "first")) == [[320, "memo"]]
    assert sizes(read.events(program("Matmul", ["<variant>"], is_cached=True), lambda: "second")) == [[second, "memo"]]


def test_a_program_from_before_the_recording_may_be_another_one():
    read = reader(knows_all_programs=False)
    read.events(program("Matmul", ["<variant>"], 320), lambda: "first")
    assert sizes(read.events(program("Matmul", ["<variant>"], is_cached=True), lambda: "earlier")) == [[None, "unknown"]]


def test_an_unknown_program_makes_those_that_look_like_it_unknown():
    read = reader()
    read.events(program("Matmul", ["<variant>"], 320), lambda: "first")
    read.events(program("Matmul", ["<variant>"]), lambda: "second")
    assert sizes(read.events(program("Matmul", ["<variant>"], is_cached=True), lambda: "third")) == [[None, "unknown"]]


def test_what_a_convolution_found_allocated_is_no_part_of_its_program():
    read = reader()
    read.events(program("Conv2dDeviceOperation", ["f(1, 114080, std::nullopt)", "t"], 320))
    again = program("Conv2dDeviceOperation", ["f(1, 116096, std::nullopt)", "t"], is_cached=True)
    assert sizes(read.events(again)) == [[320, "memo"]]
    other = program("Conv2dDeviceOperation", ["f(2, 116096, std::nullopt)", "t"], is_cached=True)
    assert sizes(read.events(other)) == [[None, "unknown"]]


def test_a_call_without_dispatch_tells_unknown_programs_and_later_ones():
    read = reader()
    events = read.events(program("Relu", ["<Op>"]), lambda: "relu")
    read.learn(program("Relu", ["<Op>"], 32, 64, kind="dataflow_buffer_allocate"), lambda: "relu")
    assert sizes(events) == [[96, "shadow"]]
    assert sizes(read.events(program("Relu", ["<Op>"], is_cached=True), lambda: "relu")) == [[96, "shadow"]]


@pytest.mark.parametrize(
    ("buffers", "size"),
    [
        ([("{[0-0 - 7-7]}", 100), ("{[0-0 - 7-7]}", 32)], 112 + 32),  # aligned to 16 B
        ([("{[0-0 - 0-0]}", 96), ("{[1-0 - 1-0]}", 64)], 96),  # side by side
        ([("{[0-0 - 0-0]}", 96), ("{[0-0 - 1-0]}", 64), ("{[1-0 - 1-0]}", 32)], 96 + 64 + 32),  # above the highest of its cores
        ([("{[0-0 - 0-0], [3-3 - 3-3]}", 96), ("{[3-3 - 4-3]}", 16)], 112),
    ],
)
def test_buffers_are_placed_as_ttnn_does(buffers, size):
    plan = ProgramPlan()
    for cores, one in buffers:
        plan.place({"device_id": 1, "core_range_set": cores, "size": str(one), "borrows_memory": "0"})
    plan.place({"device_id": 1, "core_range_set": "{[0-0 - 7-7]}", "size": "5000", "borrows_memory": "1"})
    plan.place({"device_id": 1, "core_range_set": "{[0-0 - 7-7]}", "size": "5000", "globally_allocated": "1"})
    assert plan.size == size


BOTH_KNOWN = """
import ttnn
from ssinghal.tracker.events import EventReader
from ssinghal.tracker.shadow import nodes_without_dispatch
device = ttnn.open_device(device_id=0)
graph = ttnn._ttnn.graph
base = ttnn._ttnn.reports.get_device_info(device).address_at_first_l1_cb_buffer
def tensor(*shape, layout=ttnn.TILE_LAYOUT, dtype=ttnn.bfloat16):
    return ttnn.empty(list(shape), dtype=dtype, layout=layout, device=device, memory_config=ttnn.L1_MEMORY_CONFIG)
x, narrow, rows = tensor(512, 512), tensor(64, 96), tensor(1, 8, 33, 40, layout=ttnn.ROW_MAJOR_LAYOUT)
calls = [lambda: ttnn.add(x, x), lambda: ttnn.add(narrow, 1.5), lambda: ttnn.untilize(x), lambda: ttnn.transpose(rows, 1, 2),
         lambda: ttnn.to_layout(narrow, ttnn.ROW_MAJOR_LAYOUT), lambda: ttnn.where(x, x, x), lambda: ttnn.div(narrow, narrow)]
pairs = []
for call in calls:
    graph.begin_graph_capture(graph.RunMode.NORMAL)
    result = call()
    measured = [e[2:] for e in EventReader({"l1": 64, "dram": 12}, 32, base).events(graph.end_graph_capture()) if e[0] == "p"]
    nodes = nodes_without_dispatch(graph, call)
    for node in nodes:  # so that each program is one that was built without its buffers
        node["params"] = {**(node["params"] or {}), "program_cache_hit": False}
    planned = EventReader({"l1": 64, "dram": 12}, 32, base)
    events = planned.events([n for n in nodes if n["node_type"].startswith(("function", "circular_buffer_deallocate"))],
                            lambda: "call")
    planned.learn(nodes, lambda: "call")
    pairs += zip(measured, [e[2] for e in events], strict=True)
import json
print(json.dumps(pairs))
"""


@pytest.mark.virtual_device
def test_without_dispatch_they_are_as_ttnn_places_them(tmp_path):
    """Of programs whose addresses TTNN reports when it builds them."""
    (tmp_path / "program.py").write_text(BOTH_KNOWN)
    done = run_ssinghal(tmp_path, "exec", "--", sys.executable, "program.py")
    assert done.returncode == 0, done.stderr[-2000:]
    known = [(size, planned) for (size, source), planned in json.loads(done.stdout) if source == "measured"]
    assert len(known) >= 4
    assert [pair for pair in known if pair[0] != pair[1] or not pair[0]] == []


def changes(folder):
    """What was allocated and freed, call by call, and the allocator's view after each."""
    (file,) = folder.glob("records-*.jsonl")
    calls = [record for record in map(json.loads, file.read_text().splitlines()) if record["k"] == "call"]
    return [[[e for e in one["gap"] + one["ev"] if e[0] != "p"], one["view"]] for one in calls]


@pytest.mark.virtual_device
@pytest.mark.parametrize(
    ("port", "most_unknown"),
    [("resnet50", 66), ("vit", 0), ("yolov8s", 93), ("unet", 12)],
)
def test_repeated_calls_change_nothing(tmp_path, port, most_unknown):
    """The same allocations at the same addresses with and without, and 0 B difference."""
    unknown = {}
    for name, options in (("plain", ()), ("repeated", ("--program-buffers",))):
        program = ROOT / "examples" / "ports" / f"{port}.py"
        done = run_ssinghal(tmp_path, "profile", *options, "-o", name, "--", sys.executable, program)
        assert done.returncode == 0, done.stderr[-2000:]
        (one,) = read_profiles(tmp_path / name)
        assert (one.differences, one.unknown_frees, one.lost) == ([], 0, "")
        unknown[name] = one.unknown_programs
    assert changes(tmp_path / "plain") == changes(tmp_path / "repeated")
    assert unknown["repeated"] <= most_unknown < unknown["plain"]


CAREFUL = """
import gc, ttnn
device = ttnn.open_device(device_id=0)
def tensor(rows=1):
    return ttnn.empty([32 * rows, 2048], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device,
                      memory_config=ttnn.L1_MEMORY_CONFIG)
ran = []
@ttnn.register_python_operation(name="ttnn.mine")
def mine(x):
    ran.append(x)
    return ttnn.relu(x)
x = tensor(4)
y = ttnn.mine(x)
ran.clear()
cycle = [tensor(7)]
cycle.append(cycle)
del cycle  # what the collector would free during a call without dispatch would stay allocated
gc.set_threshold(1)
z = ttnn.gelu(y)
w = ttnn.exp(x, output_tensor=x)
gc.collect()
print(gc.isenabled(), ttnn.get_memory_view(device, ttnn.BufferType.L1).total_bytes_allocated_per_bank)
ttnn.move(z)
ttnn.close_device(device)
"""


@pytest.mark.virtual_device
def test_frees_of_the_collector_and_the_programs_own_code(tmp_path):
    (tmp_path / "program.py").write_text(CAREFUL)
    done = run_ssinghal(tmp_path, "profile", "--program-buffers", "-o", "out", "--", sys.executable, "program.py")
    assert done.stdout == f"True {3 * 4 * 2_048}\n", done.stderr
    (one,) = read_profiles(tmp_path / "out")
    assert (one.differences, one.lost) == ([], "")
    known = {call.name: [program.program_bytes for program in call.programs] for call in one.calls}
    assert known["ttnn.gelu"] == [2 * 2 * 2_048], "operand and result, two tiles of each"
    assert known["ttnn.mine"] == [None], "it is the program's own code"
