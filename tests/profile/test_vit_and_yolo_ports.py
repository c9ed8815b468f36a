"""The ports run to their end, and take what was recorded from tuned ports that run on cards.

The recorded figures, on an N150 in bytes per bank or core (ttnn 0.81.1): ViT-base, batch 8, L1 401,408 and DRAM 8,254,272;
YOLOv8s at 640, L1 819,200, L1_SMALL 7,552 and DRAM 1,229,632. `tests/data/ports` has what was allocated, and the largest free
block, after each operation that changed a memory.
"""

from __future__ import annotations

import pytest

from tests.profile.measure import ROOT, capture, peaks, run_ssinghal

pytestmark = pytest.mark.virtual_device
PORTS = ROOT / "examples" / "ports"
LAST_LINES = {"vit": "vit: scores (8, 197, 1152)", "yolov8s": "yolov8s: predictions (1, 84, 8400)"}


@pytest.mark.parametrize(("port", "last_line"), LAST_LINES.items())
def test_port_runs_to_the_end_on_a_blackhole(tmp_path, port, last_line):
    _, printed = capture(PORTS / f"{port}.py", tmp_path, "p150")
    assert printed.splitlines()[-1] == last_line


def test_vit_takes_what_was_recorded(tmp_path):
    """Its peak is the fold of the images: 1,568 rows of 64 and 98 of 1,024 bfloat16 values a core, 200,704 B each."""
    events, printed = capture(PORTS / "vit.py", tmp_path)
    assert printed.splitlines()[-1] == LAST_LINES["vit"]
    assert peaks(events) == {"DRAM": 8_254_272, "L1": 2 * 1_568 * 64 * 2}
    scores = [event for event in events if event[:3] == ("allocate", "L1", 14 * 7 * 1_088)]
    assert len(scores) == 12  # of each layer once, 14 x 7 tiles a core


def test_yolo_takes_what_was_recorded(tmp_path):
    """Its peak is inside the image's permute: four maps of 16 x 640 x 640 bfloat16 values over 64 cores, 204,800 B each."""
    events, printed = capture(PORTS / "yolov8s.py", tmp_path)
    assert printed.splitlines()[-1] == LAST_LINES["yolov8s"]
    assert peaks(events) == {"DRAM": 1_229_632, "L1": 4 * 16 * 640 * 640 * 2 // 64, "L1_SMALL": 7_552}


def test_yolo_takes_less_where_its_image_is_freed_at_once(tmp_path):
    """What a profile finds, applied: three of the four maps remain."""
    free, permute = "        ttnn.deallocate(image)\n", "        last = ttnn.permute(padded"
    source = (PORTS / "yolov8s.py").read_text()
    assert (source.count(free), source.count(permute)) == (1, 1)
    (tmp_path / "yolo.py").write_text(source.replace(free, "").replace(permute, free + permute))
    events, printed = capture(tmp_path / "yolo.py", tmp_path)
    assert printed.splitlines()[-1] == LAST_LINES["yolov8s"]
    assert peaks(events)["L1"] == 3 * 16 * 640 * 640 * 2 // 64


@pytest.mark.parametrize("port", LAST_LINES)
def test_port_and_recording_allocate_the_same_after_each_operation(tmp_path, monkeypatch, port):
    monkeypatch.syspath_prepend(ROOT / "scripts")
    import compare_port

    done = run_ssinghal(tmp_path, "profile", "--board", "n150", "-o", "out", "--", "python", PORTS / f"{port}.py")
    assert done.returncode == 0, done.stderr[-2000:]
    recorded: dict[str, list[tuple[int, int]]] = {"DRAM": [], "L1": [], "L1_SMALL": []}
    for line in (ROOT / "tests" / "data" / "ports" / f"{port}_n150.txt").read_text().splitlines():
        memory, allocated, largest = line.split()
        recorded[memory].append((int(allocated), int(largest)))
    assert len(recorded["L1"]) > 200
    assert {memory: compare_port.profiled_states(tmp_path / "out", memory) for memory in recorded} == recorded


PATCHES = """
import runpy, sys, torch, ttnn
vit = runpy.run_path(sys.argv[1])
graph, linear = ttnn._ttnn.graph, ttnn.linear
def reported(*operands, **options):
    graph.begin_graph_capture(graph.RunMode.NO_DISPATCH)
    linear(*operands, **options)
    nodes = graph.end_graph_capture()
    print(sum(int(node["params"]["size"]) for node in nodes if node["node_type"] == "dataflow_buffer_allocate"))
    return linear(*operands, **options)
ttnn.linear = reported
device = ttnn.open_device(device_id=0)
weights = {name: ttnn.to_device(tensor, device) for name, tensor in vit["dense"]("patches", 1024, 768).items()}
pixels = ttnn.from_torch(torch.randn(8, 224, 14, 64), dtype=ttnn.bfloat16, device=device, memory_config=vit["image_shards"]())
vit["patches"](pixels, weights)
ttnn.close_device(device)
"""


def test_the_patches_of_vit_are_projected_on_48_cores_as_recorded(tmp_path):
    """232,320 B of program buffers: of 112 rows of tiles a core takes three, against all 24 columns. It holds one tile of each
    of its rows and columns twice, 24 tiles of the bias, all in bfloat8_b, and 3 x 24 bfloat16 tiles of the result."""
    (tmp_path / "patches.py").write_text(PATCHES)
    done = run_ssinghal(tmp_path, "exec", "--board", "n150", "--", "python", "patches.py", PORTS / "vit.py")
    assert done.returncode == 0, done.stderr[-2000:]
    rows = -(-112 // 48)
    assert (2 * (rows + 24) + 24) * 1_088 + rows * 24 * 2_048 == 232_320
    assert done.stdout == "232320\n"
