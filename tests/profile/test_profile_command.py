"""``ssinghal profile``: what it records of programs is what their authors wrote down, however they end."""

from __future__ import annotations

import json
import os
import signal

import pytest

from ssinghal.profile.reading import read_profiles
from tests.profile.measure import ROOT, run_ssinghal
from tests.profile.test_sequences import EXPECTED, PROGRAMS

pytestmark = pytest.mark.virtual_device
TILE_ROW = 2_048  # a row of tiles over 64 columns of tiles has one bfloat16 tile of 2,048 B in each of 64 banks

PROLOGUE = """
import ttnn
device = ttnn.open_device(device_id=0)
def tensor(rows=1):
    return ttnn.empty([32 * rows, 2048], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device,
                      memory_config=ttnn.L1_MEMORY_CONFIG)
"""


def profile(tmp_path, *command, options=(), env=None):
    return run_ssinghal(tmp_path, "profile", "-o", "out", *options, "--", *command, **(env or {}))


def profiled(tmp_path, source, **how):
    (tmp_path / "program.py").write_text(PROLOGUE + source)
    done = profile(tmp_path, "python", "program.py", **how)
    (one,) = read_profiles(tmp_path / "out")
    return done, one


def recorded_events(folder):
    """The events of the records as they are, without the replay: (sign, memory, bytes per bank); frees by their address."""
    live, events = {}, []
    (file,) = folder.glob("records-*.jsonl")
    for record in map(json.loads, file.read_text().splitlines()):
        for kind, *values in record.get("gap", []) + record.get("ev", []):
            if kind == "+":
                memory, address, size, _ = values
                live[memory, address] = size
                events.append(("+", memory.upper(), size))
            elif kind == "-":
                events.append(("-", values[0].upper(), live.pop((values[0], values[1]))))
    return events


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_the_recorded_sequence_is_as_written(tmp_path, name):
    done = profile(tmp_path, "python", PROGRAMS / f"{name}.py")
    assert done.returncode == 0, done.stderr
    assert recorded_events(tmp_path / "out") == EXPECTED[name]
    (one,) = read_profiles(tmp_path / "out")
    assert one.checks >= 4 * len(one.calls) > 0
    assert (one.differences, one.unknown_frees, one.ended) == ([], 0, True)


def test_a_peak_names_the_lines_that_hold_it(tmp_path):
    done, one = profiled(tmp_path, "a = tensor(3)\nb = ttnn.relu(a)\ndel a\nc = tensor(1)\nttnn.close_device(device)\n")
    peak = one.peaks["l1"]
    lines = {one.calls[buffer.call].site.line: buffer.bank_bytes for buffer in peak.resident}
    first = len(PROLOGUE.splitlines()) + 1
    assert lines == {first - 2: 3 * TILE_ROW, first + 1: 3 * TILE_ROW}, "the function of the first, and the line of relu"
    assert peak.bank_bytes == 6 * TILE_ROW
    a, b, c = one.buffers
    assert (a.last_use, a.freed, b.freed, c.freed) == (1, 2, None, None), "freed before the call that made c"
    assert [site.line for site in one.calls[0].stack] == [first - 2, first]
    assert [site.text for site in one.calls[1].stack] == ["b = ttnn.relu(a)"]
    assert f"12 KiB ({6 * TILE_ROW:,} B)" in done.stderr


def test_output_and_exit_code_are_those_of_the_program(tmp_path):
    done, one = profiled(tmp_path, "tensor()\nprint('mine')\nttnn.close_device(device)\nraise SystemExit(7)\n")
    assert (done.stdout, done.returncode, len(one.calls)) == ("mine\n", 7, 1)
    assert (tmp_path / "out" / "summary.txt").read_text() in done.stderr


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("os._exit(5)", 5),
        ("os.kill(os.getpid(), signal.SIGKILL)", 128 + signal.SIGKILL),
        ("os.kill(os.getpid(), signal.SIGSEGV)", 128 + signal.SIGSEGV),
    ],
)
def test_the_records_up_to_the_end_are_complete_however_it_comes(tmp_path, end, code):
    done, one = profiled(tmp_path, f"import os, signal\nkept = [tensor(), tensor(2)]\n{end}\n")
    assert done.returncode == code
    assert [buffer.bank_bytes for buffer in one.resident()] == [TILE_ROW, 2 * TILE_ROW]
    assert not one.ended
    assert "the process did not end by itself" in done.stderr


def test_a_buffer_that_does_not_fit(tmp_path):
    done, one = profiled(tmp_path, "kept = tensor(200)\nmore = tensor(600)\n")
    assert done.returncode == 1
    assert one.failure is one.calls[-1]
    assert "Out of Memory" in one.failure.error[1]
    assert [buffer.bank_bytes for buffer in one.failure.resident] == [200 * TILE_ROW]
    assert f"{600 * TILE_ROW * 64} B L1 buffer" in one.failure.error[1], "64 banks with 600 tiles each"
    assert "ttnn.empty" in done.stderr


def test_program_buffers_that_do_not_fit(tmp_path):
    """TTNN's message: program buffers end at 1,156,256, a buffer begins at 1,144,064: 12,192 B short, as on other machines."""
    done = profile(tmp_path, "python", ROOT / "examples" / "ports" / "resnet50.py", "--batch", "20")
    assert done.returncode == 1
    (one,) = read_profiles(tmp_path / "out")
    call, program = one.fullest
    assert (call, program.headroom_bytes) == (one.failure, 1_144_064 - 1_156_256)
    assert "-12,192 B" in done.stderr
    assert one.differences == []


@pytest.mark.parametrize("board", ["n150", "p150"])
@pytest.mark.parametrize(
    ("port", "peaks"),
    [
        ("resnet50", {"l1": 797_152, "l1_small": 7_264, "dram": 2_564_992}),
        ("vit", {"l1": 401_408, "dram": 8_254_272}),
        ("yolov8s", {"l1": 819_200, "l1_small": 7_552, "dram": 1_229_632}),
    ],
)
def test_ports_are_recorded_to_the_byte(tmp_path, port, peaks, board):
    """The peaks on an n150 are those that another profiler recorded of the originals (``models2/NOTES.md``)."""
    done = profile(tmp_path, "python", ROOT / "examples" / "ports" / f"{port}.py", options=("--board", board))
    assert done.returncode == 0, done.stderr
    (one,) = read_profiles(tmp_path / "out")
    assert len(one.calls) >= 100
    assert (one.differences, one.unknown_frees) == ([], 0)
    if board == "n150":
        assert {memory: peak.bank_bytes for memory, peak in one.peaks.items()} == peaks


def test_the_programs_own_sitecustomize_runs_too(tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text("print('own')\n")
    (tmp_path / "program.py").write_text("print('program')\n")
    paths = os.pathsep.join([str(tmp_path / "own"), str(ROOT)])
    done = profile(tmp_path, "python", "program.py", env={"PYTHONPATH": paths})
    assert done.stdout.endswith("own\nprogram\n")
    assert "did the program open a device?" in done.stderr
    assert done.returncode == 0


def test_a_folder_with_files_is_refused(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("kept")
    done = profile(tmp_path, "python", "-c", "print('ran')")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "ssinghal: profile: out is not empty; expected a new folder\n"
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine"]


@pytest.mark.parametrize(
    ("mode", "end", "rows"),
    [
        ("NORMAL", "end_graph_capture()", [1, 1, 1]),
        ("NORMAL", "end_graph_capture_to_file('graph.json')", [1, 1, 1]),
        ("NO_DISPATCH", "end_graph_capture()", [1, 1]),  # its result is nowhere
    ],
)
def test_a_program_may_capture_graphs_by_itself(tmp_path, mode, end, rows):
    """Captures do not nest: the program has its graph, as without a profile, and the profile what that holds."""
    source = f"""
x = tensor()
ttnn.graph.begin_graph_capture(ttnn.graph.RunMode.{mode})
y = ttnn.relu(x)
graph = ttnn.graph.{end}
print(sum(node["node_type"] == "buffer_allocate" for node in graph))
z = ttnn.relu(x)
ttnn.close_device(device)
"""
    done, one = profiled(tmp_path, source)
    assert (done.stdout, done.returncode) == ("1\n", 0)
    assert (one.differences, one.unknown_frees) == ([], 0)
    assert [buffer.bank_bytes // TILE_ROW for buffer in one.buffers] == rows


def test_calls_of_other_threads_are_counted(tmp_path):
    source = """
import threading
x = tensor()
thread = threading.Thread(target=lambda: globals().update(y=ttnn.relu(x)))
thread.start(); thread.join()
z = ttnn.relu(x)
print("end")
ttnn.close_device(device)
"""
    done, one = profiled(tmp_path, source)
    assert (done.stdout, done.returncode, one.others, one.differences) == ("end\n", 0, 1, [])


def test_a_device_that_another_thread_opened(tmp_path):
    source = "import threading\nttnn.close_device(device)\n"
    source += "thread = threading.Thread(target=lambda: globals().update(device=ttnn.open_device(device_id=0)))\n"
    source += "thread.start(); thread.join()\ntensor()\nprint('end')\n"
    done, one = profiled(tmp_path, source)
    assert (done.stdout, done.returncode, one.differences) == ("end\n", 0, [])


FULL_DISK = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
kept = [tensor() for _ in range(99)]
"""
UNNOTICED_CLOSE = """
ttnn._ttnn.device.close_device(device)
ttnn.Tensor([1.0], [1], ttnn.float32, ttnn.ROW_MAJOR_LAYOUT).reshape([1, 1])
"""


@pytest.mark.parametrize(("source", "lost"), [(FULL_DISK, "File too large"), (UNNOTICED_CLOSE, "RuntimeError")])
def test_a_fault_of_the_recording_does_not_reach_the_program(tmp_path, source, lost):
    done, _ = profiled(tmp_path, source + "print('end')\n")
    assert (done.stdout, done.returncode) == ("end\n", 0)
    assert "the recording stopped" in done.stderr
    assert lost in done.stderr


def test_lists_that_contain_themselves(tmp_path):
    done, one = profiled(
        tmp_path, "x = []\nx.append(x)\ntry: ttnn.concat(x, 0)\nexcept TypeError: print('TypeError')\ntensor()\n"
    )
    assert (done.stdout, len(one.calls)) == ("TypeError\n", 2)


def test_looking_for_ttnn_before_it_is_imported(tmp_path):
    (tmp_path / "program.py").write_text(
        "from importlib.util import find_spec\nassert find_spec('ttnn')\n" + PROLOGUE + "tensor()\n"
    )
    profile(tmp_path, "python", "program.py")
    assert len(read_profiles(tmp_path / "out")[0].calls) == 1


def test_a_managed_device(tmp_path):
    source = "ttnn.close_device(device)\nwith ttnn.manage_device(device_id=0) as device:\n    tensor()\n"
    _, one = profiled(tmp_path, source)
    assert (len(one.calls), one.ended, one.differences) == (1, True, [])


def test_an_out_of_memory_before_the_cleaning_up(tmp_path):
    done, one = profiled(tmp_path, "a = tensor()\ntry: tensor(900)\nfinally: ttnn.deallocate(a)\n")
    assert done.returncode == 1
    assert one.failure is one.calls[1]
    assert f"L1 bank needs {900 * TILE_ROW:,} B" in done.stderr


def test_a_crash_within_a_call_has_its_name(tmp_path):
    done, one = profiled(tmp_path, "a = tensor()\nttnn.deallocate(a)\nttnn.relu(a)\n")
    assert done.returncode == 128 + signal.SIGSEGV
    assert one.unfinished.name == "ttnn.relu"
    assert "it ended within ttnn.relu" in done.stderr


def test_pytest_that_makes_errors_of_warnings(tmp_path):
    (tmp_path / "test_it.py").write_text(PROLOGUE + "def test_it(): tensor()\n")
    done = profile(tmp_path, "python", "-m", "pytest", "-q", "-W", "error", "test_it.py")
    assert done.returncode == 0, done.stdout
    assert "warning" not in done.stdout


def test_a_program_that_is_not_there_leaves_no_folder(tmp_path):
    done = profile(tmp_path, "nosuch")
    assert (done.returncode, done.stderr) == (2, "ssinghal: profile: no program 'nosuch' on PATH\n")
    assert list(tmp_path.iterdir()) == []


def test_the_arguments_of_a_call_that_raised(tmp_path):
    source = """
grid = ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(7, 0))})
shard = ttnn.ShardSpec(grid, [32, 32], ttnn.ShardOrientation.ROW_MAJOR)
placed = ttnn.MemoryConfig(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.BufferType.L1, shard)
a = ttnn.empty([256, 32], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device, memory_config=placed)
b = tensor(600)
ttnn.concat([b, b], 0, memory_config=ttnn.L1_MEMORY_CONFIG, mine={"a": object(), "b": (a, device)})
"""
    _, one = profiled(tmp_path, source)
    failed = one.calls[-1]
    args, kwargs = failed.arguments["args"], failed.arguments["kwargs"]
    assert [operand["tensor"] for operand in args[0]] == [0, 1]
    assert (args[1], kwargs["memory_config"]["object"][1]) == (0, "MemoryConfig")
    mine = kwargs["mine"]["dict"]
    assert mine["a"]["unknown"].startswith("<object")
    sharded, device = mine["b"]["tuple"]
    assert (sharded["tensor"], device) == (2, {"device": True})
    assert json.loads(failed.operands[2].spec.config)["shard_spec"]["shape"] == [32, 32]
    assert [operand.spec.shape for operand in failed.operands] == [(32 * 600, 2048)] * 2 + [(256, 32)]
    assert [buffer.address for buffer in failed.before] == [one.buffers[0].address, one.buffers[1].address]
