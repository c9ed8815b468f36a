"""``ssinghal.profiling``: a block of a program on a device that is open already."""

from __future__ import annotations

import json
import sys

import pytest

import ssinghal
from ssinghal.profile.replay import replay
from ssinghal.profile.text import summary
from tests.profile.measure import run_ssinghal
from tests.profile.test_replay import HEADER, call

TILE_ROW = 2_048  # a row of tiles over 64 columns of tiles has one bfloat16 tile of 2,048 B in each of 64 banks
PROLOGUE = """
import json
import ssinghal, ttnn
device = ttnn.open_device(device_id=0)
def tensor(rows=1, memory=ttnn.L1_MEMORY_CONFIG):
    return ttnn.empty([32 * rows, 2048], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device, memory_config=memory)
def narrow():  # 1,000 rows of 10 B, ceil(1,000 / 12) in the fullest of 12 banks, each padded to 32 B
    return ttnn.empty([1000, 5], dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT, device=device,
                      memory_config=ttnn.DRAM_MEMORY_CONFIG)
"""


def printed(tmp_path, source, command="exec"):
    """What a program prints, line by line as JSON; it ends as it should."""
    (tmp_path / "program.py").write_text(PROLOGUE + source)
    done = run_ssinghal(tmp_path, command, "--", sys.executable, "program.py")
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.virtual_device
def test_buffers_from_before_the_block_count_and_may_be_freed_in_it(tmp_path):
    source = """
old = tensor(5)
with ssinghal.profiling(device) as p:
    new = tensor(2)
    del old
    last = tensor(1)
    del last
print(json.dumps([p.peak, [call.after["l1"] for call in p.operations], len(p.profile.differences), p.profile.unknown_frees]))
print(json.dumps([[buffer.bank_bytes, buffer.made_between, buffer.freed] for buffer in p.profile.buffers]))
"""
    first, buffers = printed(tmp_path, source)
    assert first == [{"l1": 7 * TILE_ROW}, [7 * TILE_ROW, 3 * TILE_ROW], 0, 0]
    assert buffers == [[5 * TILE_ROW, True, 1], [2 * TILE_ROW, False, None], [TILE_ROW, False, 2]]


@pytest.mark.virtual_device
def test_a_failure_among_buffers_from_before_the_block(tmp_path):
    """An L1 bank has 680 tiles: 300 are from before, 50 of them an operand, and 330 more do not fit beside the 60 of the block.
    What was made before has no line and no age."""
    source = """
old, used = tensor(250), tensor(50)
try:
    with ssinghal.profiling(device) as p:
        new = tensor(60)
        again = ttnn.relu(used, memory_config=ttnn.DRAM_MEMORY_CONFIG)
        tensor(330)
except RuntimeError:
    pass
from ssinghal.profile.failure import explain
failure = explain(p.profile)
print(json.dumps([[r.buffer.bank_bytes, r.origin.split(",")[0], r.age, r.unused] for r in failure.residents]))
print(json.dumps(p.report()))
"""
    residents, report = printed(tmp_path, source)
    assert residents == [
        [60 * TILE_ROW, "ttnn.empty", 2, None],
        [50 * TILE_ROW, "before the recording", None, 1],
        [250 * TILE_ROW, "before the recording", None, None],
    ]
    lines = [line.strip() for line in report.splitlines()]
    assert "500 KiB (512,000 B)     1 x  before the recording (not used by the failing call, not used since)" in lines
    assert "600 KiB (614,400 B)     2 x  before the recording" in lines  # of the peak
    assert "no change was tried: ssinghal profile tries changes, not ssinghal.profiling" in lines


@pytest.mark.virtual_device
def test_buffers_of_unknown_size_are_counted_and_no_fault(tmp_path):
    """TTNN lists 84 pages of 10 B, which take 32 B each."""
    source = """
old, wide = narrow(), tensor(1, ttnn.DRAM_MEMORY_CONFIG)
with ssinghal.profiling(device) as p:
    x = tensor(1, ttnn.DRAM_MEMORY_CONFIG)
    ttnn.deallocate(old)
    ttnn.deallocate(wide)
    y = tensor(1, ttnn.DRAM_MEMORY_CONFIG)
print(json.dumps([p.peak, [call.after["dram"] for call in p.operations], p.profile.unsized_frees, p.profile.differences]))
print(json.dumps(p.report()))
"""
    figures, report = printed(tmp_path, source)
    pages, tile_row = -(-1_000 // 12) * 32, -(-64 // 12) * 2_048
    assert figures == [{"dram": 2 * tile_row}, [2 * tile_row + pages, 2 * tile_row, tile_row, 2 * tile_row], 2, []]
    assert "2 buffers from before the recording, whose sizes TTNN does not report, were freed" in report


@pytest.mark.virtual_device
def test_ttnn_is_as_before_and_an_exception_passes_through(tmp_path):
    source = """
owners = [ttnn, ttnn.device, ttnn.graph, ttnn.Tensor, type(ttnn.relu)]
def names():
    return [{name: value for name, value in vars(owner).items() if callable(value)} for owner in owners]
before = names()
class Mine(Exception): pass
try:
    with ssinghal.profiling(device) as p:
        within = names()
        x = tensor(3)
        inside = p.peak
        raise Mine
except Mine:
    pass
print(json.dumps([names() == before, within == before, inside, p.peak, [call.site.function for call in p.operations]]))
with ssinghal.profiling(device) as q:
    y = ttnn.relu(x)
print(json.dumps([q.peak, len(q.operations), len(p.operations), names() == before]))
"""
    first, second = printed(tmp_path, source)
    assert first == [True, False, {"l1": 3 * TILE_ROW}, {"l1": 3 * TILE_ROW}, ["tensor"]]
    assert second == [{"l1": 6 * TILE_ROW}, 1, 1, True], "the tensor of the first block is one from before the second"


@pytest.mark.virtual_device
def test_a_device_that_is_closed_and_opened_within_the_block(tmp_path):
    source = """
with ssinghal.profiling(device) as p:
    x = tensor(2)
    ttnn.close_device(device)
    device = ttnn.open_device(device_id=0)
    y = tensor(1)
print(json.dumps([p.peak, len(p.operations), len(p.profile.devices), len(p.profile.differences)]))
"""
    assert printed(tmp_path, source) == [[{"l1": 2 * TILE_ROW}, 2, 2, 0]]


REFUSED = """
try:
    {block}
except ssinghal.InvalidCase as error:
    print(json.dumps(str(error)))
y = tensor()
print(json.dumps("end"))
"""


@pytest.mark.virtual_device
@pytest.mark.parametrize(
    ("command", "block", "message"),
    [
        ("exec", "with ssinghal.profiling(device), ssinghal.profiling(device): pass", "recorded already"),
        ("profile", "with ssinghal.profiling(device): pass", "recorded already, by ssinghal profile or profiling"),
        ("exec", "with ssinghal.profiling(0): pass", "int is not a device of ttnn"),
        (
            "exec",
            "old = device; ttnn.close_device(old); device = ttnn.open_device(device_id=0); ssinghal.profiling(old).__enter__()",
            "profiling: the device is closed; expected one that is open",
        ),
        (
            "exec",
            "ttnn.graph.begin_graph_capture(ttnn.graph.RunMode.NORMAL); ssinghal.profiling(device).__enter__()",
            "a graph capture is active",
        ),
    ],
    ids=["nested", "command", "not_a_device", "closed", "capture"],
)
def test_what_cannot_be_recorded_is_refused(tmp_path, command, block, message):
    error, end = printed(tmp_path, REFUSED.format(block=block), command)
    assert message in error
    assert end == "end"


def test_without_ttnn_there_is_no_device(monkeypatch):
    monkeypatch.delitem(sys.modules, "ttnn", raising=False)
    with pytest.raises(ssinghal.InvalidCase, match="str is not a device of ttnn; expected one that is open"):
        ssinghal.profiling("device").__enter__()


@pytest.mark.virtual_device
def test_calls_of_a_program_without_a_file_have_their_line(tmp_path):
    source = (
        f"{PROLOGUE}\nwith ssinghal.profiling(device) as p: x = tensor()\nprint([site.line for site in p.operations[0].stack])"
    )
    done = run_ssinghal(tmp_path, "exec", "--", sys.executable, "-c", source)
    lines = PROLOGUE.splitlines()
    assert done.stdout == f"{[next(n for n, line in enumerate(lines, 1) if 'ttnn.empty' in line), len(lines) + 2]}\n", (
        done.stderr
    )


def test_buffers_that_a_device_held_are_replayed():
    """Of 500 B that are allocated, a buffer of 300 B is known: 200 B are the base."""
    device = HEADER[1] | {"memories": {"l1": [64, 8_000, 500]}, "held": [["l1", 8_700, 300]], "unsized": []}
    profile = replay([HEADER[0], device, HEADER[2], call([["-", "l1", 8_700]], 200), call([["-", "l1", 8_700]], 200)])
    assert profile.peaks["l1"].bank_bytes == 300
    assert (profile.differences, profile.unknown_frees, profile.buffers[0].total_bytes) == ([], 1, 64 * 300)
    assert "1 frees of unknown buffers" in summary(profile)[-1]
