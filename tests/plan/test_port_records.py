"""Records of hand-written ports beside plans: what a call moves, where a forward starts, and which layers are the same."""

from __future__ import annotations

import gzip
import json
import math
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ssinghal.capture.trace_library import find_trace
from ssinghal.core.boards import load_board
from ssinghal.errors import InvalidCase
from ssinghal.plan.lowering import planned_steps
from ssinghal.plan.passes.registry import rewritten
from ssinghal.plan.placement import Traffic
from ssinghal.plan.policy import find_policy
from tests.support.documents import ROOT

BENCHMARK = ROOT / "benchmarks" / "l1_ports.py"
RECORDS = ROOT.parent / "shared" / "models2"
N150 = load_board("n150")
FREE = [[0, 1_072_693_184], [0, 1_368_736], [0, 24_576]]

# Tensors of calls. A tile has 1,024 elements: 2,048 B of bfloat16, 1,088 of bfloat8_b with its exponents.
MAP = [[1, 1, 64, 64], "BFLOAT8_B", "TILE", "L1", "HEIGHT_SHARDED", [[32, 64], 2], 100]
MAP_IN_DRAM = [[1, 1, 64, 64], "BFLOAT8_B", "TILE", "DRAM", "INTERLEAVED", None, 7000]
WIDER = [[1, 1, 64, 96], "BFLOAT8_B", "TILE", "L1", "HEIGHT_SHARDED", [[32, 96], 2], 200]
WEIGHT_ON_HOST = [[96, 64, 3, 3], "FLOAT32", "ROW_MAJOR", "HOST"]
WEIGHT = [[1, 1, 576, 96], "BFLOAT8_B", "TILE", "DRAM", "INTERLEAVED", None, 5000]
BIAS = [[1, 1, 1, 96], "BFLOAT8_B", "TILE", "DRAM", "INTERLEAVED", None, 6000]
ODD = [[1], "ODD", "TILE", "L1", "INTERLEAVED", None, 1]
READ = 18 * 3 * 1088 + 3 * 1088  # the weight's 18 x 3 tiles and the bias's 3


@pytest.fixture(scope="module")
def records() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        return import_module("port_records")


@pytest.fixture(scope="module")
def layers(records: ModuleType) -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        return import_module("port_layers")


def program(name: str, tensors: int = 0, buffers: int | None = 0) -> dict[str, Any]:
    return {"name": f"{name}DeviceOperation", "l1": tensors, "prog_bytes": buffers}


def line(op: str, inputs: list[Any], outputs: list[Any], *programs: dict[str, Any], **other: Any) -> dict[str, Any]:
    given = {"i": 0, "op": op, "at": ["port.py", 1, "forward"], "before": FREE, "after": FREE, "peak": {}}
    return {**given, "in": inputs, "out": outputs, "programs": list(programs), **other}


def written(folder: Path, *lines: dict[str, Any]) -> Path:
    path = folder / "port.jsonl.gz"
    with gzip.open(path, "wt") as file:
        file.writelines(json.dumps({**entry, "i": number}) + "\n" for number, entry in enumerate(lines))
    return path


def traffic(records: ModuleType, folder: Path, *lines: dict[str, Any]) -> Traffic:
    return sum((call.traffic(N150) for call in records.read_calls(written(folder, *lines))), Traffic())


# Traffic of one call -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [[WEIGHT, BIAS], [WEIGHT_ON_HOST, WEIGHT_ON_HOST]], ids=["prepared", "on_host"])
def test_a_convolution_reads_its_weights_wherever_they_were_prepared(records, tmp_path, weights):
    """They are returned beside the map, which does not make them results that were written."""
    call = line("ttnn.conv2d", [MAP, *weights], [WIDER, WEIGHT, BIAS], program("Halo"), program("Conv2d"))
    assert traffic(records, tmp_path, call) == Traffic(READ)


def test_operands_in_dram_are_read_once_and_results_there_written(records, tmp_path):
    out = [*MAP_IN_DRAM[:6], 8000]
    add = line("ttnn.add", [MAP_IN_DRAM, MAP_IN_DRAM], [out], program("BinaryNg"))
    assert traffic(records, tmp_path, add) == Traffic(4 * 1088 + 4 * 1088)
    into_l1 = line("ttnn.add", [MAP_IN_DRAM, MAP], [MAP], program("BinaryNg"))
    assert traffic(records, tmp_path, into_l1) == Traffic(4 * 1088)


def test_a_call_without_a_program_is_a_view_and_one_in_place_is_none(records, tmp_path):
    scores = [[1, 1, 64, 64], "BFLOAT16", "TILE", "DRAM", "INTERLEAVED", None, 7000]
    assert traffic(records, tmp_path, line("ttnn.reshape", [scores], [scores])) == Traffic()
    in_place = line("ttnn.softmax_in_place", [scores], [scores], program("Softmax"))
    assert traffic(records, tmp_path, in_place) == Traffic(2 * 4 * 2048)  # read and written


def test_rows_in_dram_are_padded_to_its_alignment(records, tmp_path):
    """Rows of 3 bfloat16 are 6 B, and 32 apart."""
    image = [[1, 1, 100, 3], "BFLOAT16", "ROW_MAJOR", "DRAM", "INTERLEAVED", None, 7000]
    assert traffic(records, tmp_path, line("ttnn.tilize", [image], [MAP], program("Tilize"))) == Traffic(100 * 32, 0, 1)


@pytest.mark.parametrize(
    ("operand", "result", "programs", "expected"),
    [
        # 64 rows in shards of 96: two rows of tiles are stored as three
        pytest.param(MAP, [*MAP[:5], [[96, 64], 1], 300], ["Reshard"], Traffic(0, 6 * 1088, 1), id="padded_shard"),
        # through an interleaved tensor: both are written
        pytest.param(
            *(MAP, [*MAP[:4], "BLOCK_SHARDED", [[32, 32], 4], 300], ["ShardedToInterleaved", "InterleavedToSharded"]),
            *(Traffic(0, 4 * 1088 + 4 * 1088, 2),),
            id="in_two_steps",
        ),
        pytest.param(MAP, [*MAP[:4], "INTERLEAVED", None, 300], ["ShardedToInterleaved"], Traffic(0, 4 * 1088, 1), id="out"),
        # what goes to or comes from DRAM is counted there
        pytest.param(MAP, MAP_IN_DRAM, ["ShardedToInterleaved"], Traffic(4 * 1088, 0, 1), id="spilled"),
        pytest.param(MAP_IN_DRAM, MAP, ["InterleavedToSharded"], Traffic(4 * 1088, 0, 1), id="fetched"),
        pytest.param(MAP, MAP, [], Traffic(), id="there_already"),
    ],
)
def test_calls_that_only_move_a_tensor(records, tmp_path, operand, result, programs, expected):
    call = line("ttnn.to_memory_config", [operand], [result], *map(program, programs))
    assert traffic(records, tmp_path, call) == expected


def test_what_a_call_reshards_within_counts_by_the_pages_of_its_operand(records, tmp_path):
    operand = [[1, 1, 50, 64], "BFLOAT16", "TILE", "L1", "INTERLEAVED", None, 300]
    programs = map(program, ("InterleavedToSharded", "Halo", "Conv2d"))
    call = line("ttnn.conv2d", [operand, WEIGHT, BIAS], [WIDER, WEIGHT, BIAS], *programs)
    assert traffic(records, tmp_path, call) == Traffic(READ, 2 * 2 * 2048, 1)


def test_peaks_are_of_tensors_alone_and_with_the_programs_that_ran_beside_them(records, tmp_path):
    """Program buffers that TTNN did not report count as none, so the calls that have such are counted."""
    used = [[0, 0], [500, 0], [0, 0]]
    first = line("ttnn.relu", [MAP], [MAP], program("Unary", 600, 50), program("Move", 900, None), peak={"L1": 700}, after=used)
    second = line("ttnn.relu", [MAP], [MAP], program("Unary", 500, 300), before=used)
    calls = records.read_calls(written(tmp_path, first, second))
    assert records.l1_peaks(calls) == (700, 900)
    assert records.l1_peaks(calls[1:]) == (500, 800)
    assert [call.unknown_programs for call in calls] == [1, 0]


def test_what_a_forward_did_not_write_itself_are_weights_and_inputs(records, tmp_path):
    """The map that was spilled is an activation when it is read again; the weight that a later call has there is none."""
    spill = line("ttnn.to_memory_config", [MAP], [MAP_IN_DRAM], program("ShardedToInterleaved"))
    fetch = line("ttnn.to_memory_config", [MAP_IN_DRAM], [MAP], program("InterleavedToSharded"))
    weight = [*WEIGHT[:6], MAP_IN_DRAM[6]]
    conv = line("ttnn.conv2d", [MAP, WEIGHT_ON_HOST], [WIDER, weight], program("Conv2d"))
    assert records.resident_bytes(records.read_calls(written(tmp_path, fetch, spill, fetch)), N150) == 4 * 1088
    calls = records.read_calls(written(tmp_path, spill, fetch, conv, conv))
    assert records.resident_bytes(calls, N150) == 2 * 18 * 3 * 1088


def test_the_input_is_what_a_forward_reads_first(records, tmp_path):
    """It is read twice here; what a view of it reads is nothing."""
    view = line("ttnn.reshape", [WIDER], [WIDER])
    read, other = (line("ttnn.add", [x, WEIGHT], [MAP], program("BinaryNg")) for x in (MAP_IN_DRAM, MAP))
    assert records.input_bytes(records.read_calls(written(tmp_path, view, read, other, read)), N150) == 2 * 4 * 1088
    assert records.input_bytes(records.read_calls(written(tmp_path, other, read)), N150) == 0


# The forward ---------------------------------------------------------------------------------------------------------------


def test_the_last_forward_starts_after_the_last_tensor_that_is_placed(records, tmp_path):
    place = line("Tensor.to", [WEIGHT_ON_HOST], [MAP])
    run, leave = line("ttnn.relu", [MAP], [MAP], program("Unary")), line("ttnn.to_torch", [MAP], [])
    prepare = line("ttnn.from_torch", [], [WEIGHT_ON_HOST])
    calls = records.read_calls(written(tmp_path, prepare, place, run, run, leave, place, run, leave, run))
    assert [call.number for call in records.forward(calls)] == [6]
    with pytest.raises(InvalidCase, match="no call on the device"):
        records.forward(calls[:2])


@pytest.mark.parametrize(
    ("content", "what"),
    [
        pytest.param(b"not gzipped", "gzipped lines of JSON", id="not_gzipped"),
        pytest.param(gzip.compress(b"{}\n"), "port.jsonl.gz:1: KeyError", id="no_call"),
        pytest.param(gzip.compress(b"{\n"), "port.jsonl.gz:1: .*expected a line of JSON", id="no_json"),
        pytest.param(gzip.compress(json.dumps(line("x", [ODD], [])).encode()), "'odd' is not a valid DType", id="dtype"),
    ],
)
def test_another_file_is_rejected_in_one_line(records, tmp_path, content, what):
    path = tmp_path / "port.jsonl.gz"
    path.write_bytes(content)
    with pytest.raises(InvalidCase, match=what) as error:
        records.read_calls(path)
    assert "\n" not in str(error.value)


# Layers --------------------------------------------------------------------------------------------------------------------


def test_a_layer_has_what_moves_its_operands_and_the_elementwise_calls_after_it(records, layers, tmp_path):
    spilled = line("ttnn.to_memory_config", [MAP], [MAP_IN_DRAM], program("ShardedToInterleaved"))
    conv = line("ttnn.conv2d", [MAP, WEIGHT_ON_HOST], [WIDER, WEIGHT], program("Conv2d", 10, 20))
    silu = line("ttnn.silu", [WIDER], [WIDER], program("Unary", 100, 5))
    add, bias = (line("ttnn.add", [WIDER, x], [WIDER], program("BinaryNg")) for x in (WIDER, BIAS))
    view = line("ttnn.reshape", [WIDER], [WIDER])
    calls = records.read_calls(written(tmp_path, spilled, conv, view, silu, add, bias, spilled))
    first, second, rest = layers.port_layers(calls, N150)
    assert (first.name, first.key) == ("1 conv2d", ("product", 64 * 96, 96, False))
    assert (first.traffic, first.l1_bytes) == (Traffic(4 * 1088 + 18 * 3 * 1088, 0, 1), 105)
    assert first.form == "l1:height@2:32x96 bfloat8_b tile"
    assert (second.name, second.key, second.traffic) == ("4 add", ("add", 64 * 96, 0, False), Traffic(3 * 1088))
    assert (rest.key, rest.traffic) == (None, Traffic(4 * 1088, 0, 1))


def layer(layers: ModuleType, name: str, kind: str | None, elements: int = 1) -> Any:
    key = None if kind is None else layers.Key(kind, elements, 0, False)
    return layers.Layer(name, key, Traffic(), 0)


def test_layers_match_in_order_as_many_as_can(layers):
    port = [layer(layers, *x) for x in (("a", "pool", 1), ("b", "add", 2), ("c", "add", 3), ("d", None), ("e", "pool", 1))]
    plan = [layer(layers, *x) for x in (("A", "add", 3), ("B", "pool", 1), ("C", "add", 2), ("D", None), ("E", "pool", 1))]
    pairs = layers.matched(port, plan)
    assert [(port[i].name, plan[j].name) for i, j in pairs] == [("a", "B"), ("b", "C"), ("e", "E")]
    assert [x.name for x in layers.unmatched(port, [i for i, _ in pairs])] == ["c"]
    assert [x.name for x in layers.unmatched(plan, [j for _, j in pairs])] == ["A"]


# Plans ---------------------------------------------------------------------------------------------------------------------

RESNET = ("torchvision/resnet50", ((1, 3, 224, 224),))
FACTS = {"board": "n150", "model": RESNET[0], "policy_name": "port v2", "status": "fits", "l1_peak_bytes": 77}


def made_use(step: Any) -> dict[str, Any]:
    """What step n moved: n + 1 bytes, one of them of a weight; the first five steps read one of an input as well."""
    own = {"weights_read_bytes": 1, "inputs_read_bytes": int(step.number < 5)}
    moved = {"dram_moved_bytes": step.number + 1, "resharded_bytes": 0, "layout_changes": 0}
    return {"operator": step.operator, "l1_total_peak_bytes": 2 * step.number, **moved, **own}


def made_plan(**changes: Any) -> dict[str, Any]:
    """A plan of the built-in ResNet-50 whose step number n moves n + 1 bytes through DRAM and has a peak of 2 n."""
    policy = find_policy("port")
    steps = planned_steps(rewritten(find_trace(*RESNET), policy))
    uses = [made_use(step) for step in steps]
    placed = {"number": 0, "results": [{"memory": "l1", "dtype": "bfloat16", "layout": "tile"}]}
    return {**FACTS, "policy": policy.to_json(), "steps": uses, "placement": {"steps": [placed]}, **changes}


def test_a_plan_has_a_layer_for_each_main_step_and_loses_no_byte(layers):
    """53 convolutions, 16 additions, two pools and a linear layer; the ReLU after a convolution belongs to it."""
    trace = rewritten(find_trace(*RESNET), find_policy("port"))
    found = layers.plan_layers(trace, planned_steps(trace), made_plan()["steps"], {2: "dram"})
    assert len(found) == 53 + 16 + 2 + 1
    assert sum(x.traffic.dram_bytes for x in found) == 122 * 123 // 2
    assert (found[0].name, found[0].key) == ("0 conv1", ("product", 64 * 112 * 112, 64, False))
    assert (found[0].traffic.dram_bytes, found[0].l1_bytes) == (1 + 2, 2)
    assert (found[1].name, found[1].key, found[1].form) == ("2 maxpool", ("pool", 64 * 56 * 56, 0, False), "dram")
    assert (found[-1].name, found[-1].key) == ("121 fc", ("product", 1000, 1000, True))


def compared(folder: Path, record: Path, plan: Any, trace: str = RESNET[0]) -> subprocess.CompletedProcess[str]:
    file = folder / "plan.json"
    file.write_text(json.dumps(plan))
    words = [sys.executable, BENCHMARK, record, file, trace]
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)


def test_the_comparison_states_totals_matches_and_what_is_left(tmp_path):
    """The port's convolution is the plan's first one; its addition has no match, nor have 71 layers of the plan.

    It reads 8 x 2 tiles of weights, 1,088 B each; the plan moves 1 + 2 B there of 122 x 123 / 2 in all.
    """
    weight = [[1, 1, 256, 64], "BFLOAT8_B", "TILE", "DRAM", "INTERLEAVED", None, 5000]
    large = [[1, 1, 12544, 64], "BFLOAT8_B", "TILE", "L1", "HEIGHT_SHARDED", [[224, 64], 56], 200]
    used = {"peak": {"L1": 15_232}}
    conv = line("ttnn.conv2d", [large, WEIGHT_ON_HOST], [large, weight], program("Conv2d", 10_000, 10_000), **used)
    add = line("ttnn.add", [MAP, MAP_IN_DRAM], [MAP], program("BinaryNg"), program("Move", 0, None))
    done = compared(tmp_path, written(tmp_path, conv, add), [{"plan": made_plan()}])
    assert (done.returncode, done.stderr) == (0, "")
    read = 8 * 2 * 1088
    for row in (
        f"| through DRAM | {read + 4 * 1088:,} | {122 * 123 // 2:,} | 0.34 |",
        f"| ... weights and inputs | {read + 4 * 1088:,} | {122 + 5} | 0.01 |",
        f"| ... activations and results | 0 | {122 * 123 // 2 - 122 - 5:,} |  |",
        f"| ... without the inputs | {read + 4 * 1088:,} | {122 * 123 // 2 - 5:,} | 0.34 |",
        "| L1 of tensors, most per core | 15,232 | 77 | 0.01 |",
        "| L1 with programs, most per core | 20,000 | 242 | 0.01 |",
        f"1 layers match; 1 ({4 * 1088:,} B moved) of the port and 71 ({122 * 123 // 2 - 3:,} B moved) of the plan do not",
        "1 programs of the port have buffers that TTNN did not report: its peak with programs is at least that",
        f"| 0 conv1 | 0 conv2d | l1:height@56:224x64 bfloat8_b tile | l1 bfloat16 tile | 20,000 | 2 | {read:,} | 3 | 0 | 0 |",
        f"| 1 add: add | 4,096 | 0 | {4 * 1088:,} | 0 |",
    ):
        assert row in done.stdout.splitlines()


@pytest.mark.parametrize(
    ("plan", "what"),
    [
        pytest.param({}, "plan.json: expected the JSON of", id="no_plan"),
        pytest.param([{"plan": {**FACTS, "board": "p150"}}], "plan.json: expected the JSON of", id="another_board"),
        pytest.param("other_steps", "the plan has 1 steps, not the 122", id="another_trace"),
        pytest.param("no_bytes", "does not have the bytes that its steps move", id="without_traffic"),
    ],
)
def test_a_plan_that_is_none_of_this_trace_is_rejected(tmp_path, plan, what):
    if plan == "other_steps":
        plan = [{"plan": made_plan(steps=made_plan()["steps"][:1])}]
    elif plan == "no_bytes":
        plan = [{"plan": made_plan(steps=[{"operator": use["operator"]} for use in made_plan()["steps"]])}]
    done = compared(tmp_path, written(tmp_path, line("ttnn.relu", [MAP], [MAP], program("Unary"))), plan)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert what in done.stderr


# Real records --------------------------------------------------------------------------------------------------------------

# As those who recorded the ports stated them: the most L1 of tensors per core, and with program buffers.
STATED = {
    "resnet50": (797_152, 1_159_712),
    "functional_unet": (1_145_856, 1_361_856),
    "vit_sharded": (401_408, 469_056),
    "vgg_unet": (1_081_344, 1_192_256),
    "ufld_v2": (428_448, 780_384),
    "yolov8s": (819_200, 942_080),
    "efficientnetb0": (401_408, 444_416),
    "yolov12x": (941_760, 1_325_696),
}
PER_TILE = {"BFLOAT16": 2048, "BFLOAT8_B": 1088, "FLOAT32": 4096, "UINT32": 4096}
needs_records = pytest.mark.skipif(not RECORDS.is_dir(), reason="the records of hand-written ports are not here")


def pages(shape: list[int], dtype: str, layout: str) -> int:
    """Bytes of an interleaved tensor in DRAM."""
    *leading, height, width = [1, *shape] if len(shape) == 1 else shape
    if layout == "TILE":
        return math.prod(leading) * -(-height // 32) * -(-width // 32) * PER_TILE[dtype]
    return math.prod(leading) * height * -(-width * PER_TILE[dtype] // 1024 // 32) * 32


@needs_records
@pytest.mark.parametrize("name", STATED)
def test_the_totals_of_real_ports(records, name):
    """Bytes through DRAM once more, from the lines themselves; peaks as they were stated with the records."""
    path = RECORDS / f"{name}.jsonl.gz"
    calls = records.forward(records.read_calls(path))
    assert records.l1_peaks(calls) == STATED[name]
    assert records.input_bytes(calls, N150) == 0, "each of them gets its input in L1"
    with gzip.open(path, "rt") as file:
        lines = [json.loads(text) for text in file]
    moved = 0
    for number in (call.number for call in calls):
        call = lines[number]
        if not call["programs"]:
            continue
        weights = call["out"][1:] if "conv" in call["op"] and "convert" not in call["op"] else []
        read = {x[6]: x for x in (*call["in"], *weights) if x[3] == "DRAM"}
        made = [x for x in call["out"] if x[3] == "DRAM" and x not in weights]
        moved += sum(pages(*x[:3]) for x in (*read.values(), *made))
    assert sum(call.traffic(N150).dram_bytes for call in calls) == moved > 0


@needs_records
def test_the_reshards_of_a_real_port(records):
    """ResNet-50 reshards five times, each time as a call: into 56 shards of 896 x 64 bfloat16 in rows, then of bfloat8_b in
    tiles, 64 blocks of 1568 x 64, 56 of 448 x 128, 64 columns of 800 x 32 and 32 of 32 x 64."""
    tiles = 49 * 2 * 64 + 14 * 4 * 56 + 25 * 1 * 64 + 1 * 2 * 32
    calls = records.forward(records.read_calls(RECORDS / "resnet50.jsonl.gz"))
    total = sum((call.traffic(N150) for call in calls), Traffic())
    assert (total.reshard_bytes, total.changes) == (56 * 896 * 64 * 2 + tiles * 1088, 5 + 2)


@needs_records
@pytest.mark.parametrize("name", ["resnet50", "functional_unet"])
def test_buffers_of_real_ports_take_what_the_allocator_recorded(records, name):
    path = RECORDS / f"{name}.jsonl.gz"
    with gzip.open(path, "rt") as file:
        lines = [json.loads(text) for text in file]
    compared = 0
    for call, entry in zip(records.read_calls(path), lines, strict=True):
        made = {(event[1], event[2]): event[3] for event in entry["ev"] if event[0] == "+"}
        for x in call.results:
            size = made.get((x.place[0].value.upper(), x.address)) if x.is_there else None
            if size is not None:
                compared += 1
                assert size in (x.spec.bytes_per_bank(N150), x.spec.booked_bytes_per_bank(N150))
    assert compared > 100
