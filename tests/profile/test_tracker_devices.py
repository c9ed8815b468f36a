"""Traces, queues, submeshes and several devices: what is followed, and what is counted alone."""

from __future__ import annotations

import sys

import pytest

from ssinghal.profile.reading import read_profiles
from tests.profile.measure import run_ssinghal

pytestmark = pytest.mark.virtual_device
TILE_ROW = 2_048  # a row of tiles over 64 columns of tiles has one bfloat16 tile of 2,048 B in each of 64 banks
PROLOGUE = """
import ttnn
def tensor(device, rows=1):
    return ttnn.empty([32 * rows, 2048], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device,
                      memory_config=ttnn.L1_MEMORY_CONFIG)
"""


def profiled(tmp_path, source, board="n150"):
    (tmp_path / "program.py").write_text(PROLOGUE + source + "\nprint('end')\n")
    done = run_ssinghal(tmp_path, "profile", "-o", "out", "--board", board, "--", sys.executable, "program.py")
    assert (done.stdout, done.returncode) == ("end\n", 0), done.stderr[-2000:]
    (one,) = read_profiles(tmp_path / "out")
    assert (one.differences, one.unknown_frees, one.lost) == ([], 0, "")
    return one, done.stderr


TRACE = """
device = ttnn.open_device(device_id=0, trace_region_size=1 << 20, num_command_queues=2)
x = tensor(device, 2)
y = ttnn.relu(x)
trace = ttnn.begin_trace_capture(device, cq_id=0)
z = ttnn.relu(y)
ttnn.end_trace_capture(device, trace, cq_id=0)
for _ in range(3):
    event = ttnn.record_event(device, 1)
    ttnn.wait_for_event(0, event)
    ttnn.execute_trace(device, trace, cq_id=0, blocking=False)
ttnn.synchronize_device(device)
assert isinstance(trace, ttnn.MeshTraceId) and trace != ttnn.begin_trace_capture(device)
ttnn.release_trace(device, trace)
ttnn.close_device(device)
"""


def test_a_runner_of_traces_with_two_queues(tmp_path):
    """Begin twice, end, release and three times wait and execute are not passed on; what is within is executed once."""
    one, summary = profiled(tmp_path, TRACE)
    assert one.skipped == 2 + 1 + 1 + 3 * 2
    assert [call.name for call in one.calls][2:5] == ["ttnn.begin_trace_capture", "ttnn.relu", "ttnn.end_trace_capture"]
    assert one.peaks["l1"].bank_bytes == 3 * 2 * TILE_ROW
    assert "10 calls of traces and events were not passed on to TTNN" in summary
    assert "what traces need of the trace region is not known" in summary


def test_without_a_mock_or_a_profile_nothing_stands_in(monkeypatch):
    from ssinghal.tracker import FOLDER_VARIABLE
    from ssinghal.tracker.traces import MOCK_VARIABLE, stand_ins

    class Ttnn:
        begin_trace_capture = wait_for_event = None

    for variables, names in (
        ({MOCK_VARIABLE: "board.yaml", FOLDER_VARIABLE: "out"}, ["begin_trace_capture", "wait_for_event"]),
        ({MOCK_VARIABLE: "", FOLDER_VARIABLE: "out"}, []),
        ({MOCK_VARIABLE: "board.yaml", FOLDER_VARIABLE: ""}, []),
    ):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        assert list(stand_ins(Ttnn)) == names


@pytest.mark.parametrize(
    ("divide", "count"),
    [
        ("parts = mesh.create_submeshes(ttnn.MeshShape(1, 1))", 2),
        ("parts = [mesh.create_submesh(ttnn.MeshShape(1, 1))]", 1),
    ],
)
def test_submeshes_are_counted_and_their_mesh_is_exact(tmp_path, divide, count):
    source = f"""
mesh = ttnn.open_mesh_device(ttnn.MeshShape(1, 2))
a = tensor(mesh, 1)
{divide}
b = [tensor(part, 2) for part in parts]
c = ttnn.relu(b[0])
d = tensor(mesh, 3)
del b
ttnn.deallocate(c)
f = tensor(mesh, 1)
ttnn.close_mesh_device(mesh)
"""
    one, summary = profiled(tmp_path, source, "n300_1x2")
    assert one.elsewhere == count + 1
    assert [buffer.bank_bytes // TILE_ROW for buffer in one.buffers] == [1, 3, 1]
    assert one.ended
    assert [call.programs for call in one.calls if call.name == "ttnn.relu"] == [()], "that ran on a submesh"
    assert f"{count + 1} buffers on other devices or on submeshes are not recorded" in summary


def test_a_second_device_is_counted(tmp_path):
    source = """
devices = ttnn.CreateDevices([0, 1])
a = tensor(devices[0], 1)
b = tensor(devices[1], 2)
c = ttnn.relu(a)
d = ttnn.relu(b)
del d
e = tensor(devices[0], 4)
ttnn.CloseDevices(devices)
first = ttnn.open_device(device_id=0)
second = ttnn.open_device(device_id=1)
f = tensor(second, 8)
g = tensor(first, 16)
ttnn.close_device(second)
h = tensor(first, 1)
ttnn.close_device(first)
"""
    one, _ = profiled(tmp_path, source, "n300")
    assert one.elsewhere == 3
    assert [buffer.bank_bytes // TILE_ROW for buffer in one.buffers] == [1, 1, 4, 16, 1]
    assert (len(one.devices), one.ended) == (2, True)


@pytest.mark.parametrize(("board", "shape"), [("n300_1x2", (1, 2)), ("t3k_2x4", (2, 4))])
def test_a_mesh_is_followed(tmp_path, board, shape):
    """Every chip has the same buffers: the figures are those of one."""
    source = f"""
mesh = ttnn.open_mesh_device(ttnn.MeshShape{shape})
a = tensor(mesh, 3)
b = ttnn.relu(a)
host = ttnn.Tensor([0.0] * (32 * 2048 * {shape[0] * shape[1]}), [32 * {shape[0] * shape[1]}, 2048], ttnn.float32,
                   ttnn.ROW_MAJOR_LAYOUT)
parts = ttnn.distribute_tensor(ttnn.to_layout(host, ttnn.TILE_LAYOUT), ttnn.shard_tensor_to_mesh_mapper(mesh, 0), mesh)
ttnn.close_mesh_device(mesh)
"""
    one, _ = profiled(tmp_path, source, board)
    assert one.devices[0].mesh == shape
    assert one.peaks["l1"].bank_bytes == 6 * TILE_ROW
    assert one.peaks["dram"].bank_bytes == -(-64 // 12) * 4_096, "one row of 64 tiles of float32 a chip, over 12 banks"


@pytest.mark.parametrize(
    "opening",
    [
        "with ttnn.create_mesh_device(ttnn.MeshShape(1, 1)) as mesh:\n    used(mesh)",
        "from ttnn.distributed import close_mesh_device, open_mesh_device\n"
        "mesh = open_mesh_device(ttnn.MeshShape(1, 1))\nused(mesh)\nclose_mesh_device(mesh)",
    ],
)
def test_a_mesh_is_followed_however_it_is_opened_and_printing_a_tensor_uses_it(tmp_path, opening):
    source = """
def used(mesh):
    a = tensor(mesh)
    b = tensor(mesh, 2)
    c = ttnn.relu(b)
    text = repr(a), str(b), f"{c}"
"""
    one, _ = profiled(tmp_path, source + opening)
    assert [call.name for call in one.calls] == ["ttnn.empty", "ttnn.empty", "ttnn.relu", *["Tensor.__repr__"] * 3]
    assert [(buffer.bank_bytes // TILE_ROW, buffer.last_use) for buffer in one.buffers if buffer.memory == "l1"] == [
        (1, 3),
        (2, 4),
        (2, 5),
    ]
    assert one.ended
