"""Recordings of TTNN calls in every form, those that TTNN wrote and unseen variants, and what is wrong with damaged ones."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ssinghal.catalog.expansion import expand
from ssinghal.catalog.loader import load_catalog
from ssinghal.catalog.recorded.calls import Member, Setting, Unread
from ssinghal.catalog.recorded.importer import RecordedImport, read_recording
from ssinghal.catalog.recorded.tensors import read_memory
from ssinghal.catalog.recorded.texts import core_ranges, read_text
from ssinghal.cli import cli
from ssinghal.core.case import Case
from ssinghal.errors import CatalogError, InvalidCase

TRACE = Path(__file__).parents[1] / "data" / "recorded" / "trace"
LONG = "9" * 5000


@pytest.fixture
def imported(tmp_path: Path) -> Callable[[Any], RecordedImport]:
    def read(value: Any) -> RecordedImport:
        file = tmp_path / "recording.json"
        file.write_text(value if isinstance(value, str) else json.dumps(value))
        return read_recording(file)

    return read


def cases_of(recording: RecordedImport, folder: Path) -> list[Case]:
    file = folder / "read_back.yaml"
    file.write_text(recording.text)
    return list(expand([load_catalog(str(file))]).cases)


def only(recording: RecordedImport, folder: Path) -> Case:
    (case,) = cases_of(recording, folder)
    return case


# Texts --------------------------------------------------------------------------------------------------------------------

TEXTS: dict[str, Any] = {
    "nullopt": None,
    "std::nullopt": None,
    "None": None,
    "true": True,
    "False": False,
    "-3": -3,
    "1e-05": 1e-05,
    "0.5f": 0.5,
    "[1, 2, 3]": [1, 2, 3],
    "{1, 1}": [1, 1],
    "Shape([1, 1, 32, 64])": [1, 1, 32, 64],
    "SmallVector<int, 4>([1, 2])": Unread("SmallVector<int, 4>([1, 2])"),
    "DataType::BFLOAT8_B": Member("DataType", "BFLOAT8_B"),
    "DataType.BFLOAT8_B": Member("DataType", "BFLOAT8_B"),
    "slice(None, 32, None)": slice(None, 32, None),
    "(x=8,y=7)": {"x": 8, "y": 7},
    "UnaryWithParam(op_type=UnaryOpType::RELU)": Setting("UnaryWithParam", {"op_type": Member("UnaryOpType", "RELU")}),
    "ttnn.CoreGrid(x=8, y=4)": Setting("CoreGrid", {"x": 8, "y": 4}),
    "8-7": {"x": 8, "y": 7},
    "{[0-0 - 3-1]}": [[{"start": {"x": 0, "y": 0}, "end": {"x": 3, "y": 1}}]],
    "nan": Unread("nan"),
    "": Unread(""),
    "(((": Unread("((("),
    "<object at 0x7f>": Unread("<object at 0x7f>"),
}


@pytest.mark.parametrize("text", TEXTS)
def test_texts_that_ttnn_prints(text):
    assert read_text(text) == TEXTS[text]


@pytest.mark.parametrize(
    "text",
    [
        "{[(x=0,y=0) - (x=7,y=2)], [(x=0,y=3) - (x=1,y=3)]}",
        "{[0-0 - 7-2], [0-3 - 1-3]}",
        '[{"start":{"x":0,"y":0},"end":{"x":7,"y":2}, {"start":{"x":0,"y":3},"end":{"x":1,"y":3}]',
        '[{"start": {"x": 0, "y": 0}, "end": {"x": 7, "y": 2}}, {"start": {"x": 0, "y": 3}, "end": {"x": 1, "y": 3}}]',
        "[CoreRange(start=CoreCoord(x=0,y=0),end=CoreCoord(x=7,y=2)), (start=CoreCoord(x=0,y=3),end=CoreCoord(x=1,y=3))]",
    ],
)
def test_core_ranges_in_the_forms_of_all_releases(text):
    assert core_ranges(text) == [((0, 0), (7, 2)), ((0, 3), (1, 3))]


def test_memory_configs():
    assert str(read_memory({"memory_layout": 0, "buffer_type": 1})) == "l1"
    shards = {"grid": "{[(x=0,y=0) - (x=7,y=7)]}", "shape": "{64, 32}", "orientation": "ShardOrientation::COL_MAJOR"}
    config = {"memory_layout": "TensorMemoryLayout::BLOCK_SHARDED", "buffer_type": "BufferType.L1", "shard_spec": shards}
    assert str(read_memory(config)) == "l1:block@8x8:64x32:col_major"
    assert str(read_memory({**config, "shard_spec": "std::nullopt"})) == "l1:block"


# Traces of operations -----------------------------------------------------------------------------------------------------


def test_traces_that_ttnn_wrote(tmp_path):
    recording = read_recording(TRACE)
    assert recording.calls == 18
    assert not recording.faults
    cases = {case.operator: case for case in cases_of(recording, tmp_path)}
    add = cases["add"].placement
    assert (str(add.request), add.output_text, add.output_dtype) == ("l1:height@8x8:32x64", "l1", "bfloat8_b")
    assert str(add.operand(1)) == "bfloat8_b/dram"
    assert cases["permute"].attrs == {"dims": [0, 2, 1, 3]}
    assert cases["slice"].attrs == {"dim": 2, "start": 0, "end": 32, "step": 1}
    assert cases["max_pool2d"].inputs == ((1, 64, 56, 56),)
    assert [str(operand) for operand in cases["cat"].placement.operands] == ["", "l1"]
    reasons = {function: count for function, _, count in recording.reasons}
    assert (reasons["ttnn.from_torch"], reasons["ttnn.deallocate"], reasons["ttnn.Tensor.__getitem__"]) == (5, 1, 1)


def test_traces_in_one_file_are_those_of_the_folder(tmp_path, imported):
    files = sorted(TRACE.glob("*.json"), key=lambda file: int(file.name.partition("_")[0]))
    values = [json.loads(file.read_text()) for file in files]
    as_folder = [case.key for case in cases_of(read_recording(TRACE), tmp_path)]
    assert [case.key for case in cases_of(imported(values), tmp_path)] == as_folder
    as_lines = imported("".join(json.dumps(value) + "\n" for value in values))
    assert [case.key for case in cases_of(as_lines, tmp_path)] == as_folder


def test_settings_of_traces_are_those_of_the_case(tmp_path):
    cases = {case.operator: case for case in cases_of(read_recording(TRACE), tmp_path)}
    program = cases["linear"].attrs["program_config"]
    assert program["type"] == "MatmulMultiCoreReuseMultiCast1DProgramConfig"
    assert (program["compute_with_storage_grid_size"], program["per_core_N"], program["mcast_in0"]) == ([8, 8], 4, False)
    assert cases["linear"].attrs["compute_kernel_config"]["math_fidelity"] == "HiFi2"
    assert cases["linear"].placement.output_text == "l1:height@8x8:32x128"
    assert cases["matmul"].attrs["core_grid"] == [8, 4]
    assert cases["convolution"].inputs == ((1, 64, 56, 56), (128, 64, 3, 3))
    assert cases["convolution"].attrs["conv_config"]["weights_dtype"] == "bfloat8_b"


def test_a_fused_activation_has_a_name_or_a_number_that_all_releases_share(tmp_path, imported):
    trace = json.loads((TRACE / "5_ttnn_linear.json").read_text())
    config = trace["kwargs"]["program_config"]
    config["fused_activation"] = {"op_type": 2, "param": [1.0]}
    fused = only(imported(trace), tmp_path).attrs["program_config"]["fused_activation"]
    assert fused == {"type": "UnaryWithParam", "op_type": "GELU", "params": [1.0]}
    config["fused_activation"]["op_type"] = 4
    ((_, reason, _),) = imported(trace).reasons
    assert reason.startswith("fused_activation is operation 4 of UnaryOpType; which one differs between releases")


# Master traces ------------------------------------------------------------------------------------------------------------

CXX_TENSOR = (
    "Tensor(storage=DeviceStorage(memory_config={memory}),tensor_spec=TensorSpec(logical_shape=Shape([1, 1, 64, 128]),"
    "tensor_layout=TensorLayout(dtype=DataType::BFLOAT16,page_config=PageConfig(config=TilePageConfig(tile=Tile("
    "tile_shape={{32, 32}},face_shape={{16, 16}},num_faces=4))),memory_config={memory},alignment=Alignment([32, 32]))))"
)
CXX_SHARDS = (
    "MemoryConfig(memory_layout=TensorMemoryLayout::WIDTH_SHARDED,buffer_type=BufferType::L1,shard_spec=ShardSpec{"
    'grid=[{"start":{"x":0,"y":0},"end":{"x":3,"y":0}], shape=[64, 32], orientation=ShardOrientation::ROW_MAJOR})'
)
CXX_DRAM = "MemoryConfig(memory_layout=TensorMemoryLayout::INTERLEAVED,buffer_type=BufferType::DRAM,shard_spec=std::nullopt)"
SHARDS_OBJECT = {
    "buffer_type": "BufferType::L1",
    "memory_layout": "TensorMemoryLayout::WIDTH_SHARDED",
    "shard_spec": {
        "grid": [{"start": {"x": 0, "y": 0}, "end": {"x": 3, "y": 0}}],
        "shape": [64, 32],
        "orientation": "ROW_MAJOR",
    },
}
DRAM_OBJECT = {"buffer_type": "BufferType::DRAM", "memory_layout": "TensorMemoryLayout::INTERLEAVED", "shard_spec": "nullopt"}


def nested_tensor(memory: Any) -> dict[str, Any]:
    layout = {"dtype": "DataType::BFLOAT16", "layout": "Layout::TILE", "memory_config": memory}
    return {"Tensor": {"tensor_spec": {"logical_shape": [1, 1, 64, 128], "tensor_layout": layout}}}


def flat_tensor(memory: Any) -> dict[str, Any]:
    own = {"shape": [1, 1, 64, 128], "dtype": "DataType.BFLOAT16", "layout": "Layout.TILE", "memory_config": memory}
    return {"type": "ttnn.Tensor", "storage_type": "StorageType.DEVICE", **own}


ARGUMENTS: dict[str, Any] = {
    "printed, in a list": [
        {"arg0": CXX_TENSOR.format(memory=CXX_SHARDS)},
        {"arg1": CXX_TENSOR.format(memory=CXX_DRAM)},
        {"arg2": "nullopt"},
    ],
    "printed, in an object": {
        "arg0": CXX_TENSOR.format(memory=CXX_SHARDS),
        "arg1": CXX_TENSOR.format(memory=CXX_DRAM),
        "memory_config": "std::nullopt",
    },
    "objects in objects": [{"arg0": nested_tensor(SHARDS_OBJECT)}, {"arg1": nested_tensor(DRAM_OBJECT)}],
    "flat objects": {"arg0": flat_tensor(SHARDS_OBJECT), "arg1": flat_tensor(DRAM_OBJECT), "kwargs": {"dtype": None}},
    "without names": [flat_tensor(SHARDS_OBJECT), flat_tensor(DRAM_OBJECT)],
    "by name": {"input_tensor_a": flat_tensor(SHARDS_OBJECT), "input_tensor_b": flat_tensor(DRAM_OBJECT)},
}


@pytest.mark.parametrize("form", ARGUMENTS)
@pytest.mark.parametrize("in_list", [True, False])
def test_master_traces_in_all_forms(form, in_list, tmp_path, imported):
    configuration = {"arguments": ARGUMENTS[form], "source": "models/demos/x.py", "machine_info": [{"board_type": "n150"}]}
    configurations = [configuration] if in_list else {"1": configuration}
    recording = imported({"operations": {"ttnn::add": {"configurations": configurations}}})
    assert recording.reasons == []
    case = only(recording, tmp_path)
    assert case.inputs == ((1, 1, 64, 128),) * 2
    assert str(case.placement.request) == "l1:width@4x1:64x32"
    assert str(case.placement.operand(1)) == "dram"
    assert case.sources[0].model == "models/demos/x.py"


def test_master_traces_of_several_executions(tmp_path, imported):
    executions = [{"source": "a.py", "count": 3}, {"source": ["b.py"], "count": 4}]
    configuration = {"arguments": ARGUMENTS["flat objects"], "config_hash": "x", "executions": executions}
    recording = imported({"operations": {"ttnn::multiply": {"configurations": [configuration]}}})
    source = only(recording, tmp_path).sources[0]
    assert (source.model, source.count, recording.calls) == ("a.py", 7, 7)


def test_operations_without_an_operator_are_counted(tmp_path, imported):
    one = {"arguments": ARGUMENTS["flat objects"]}
    operations = {
        "ttnn::add": {"configurations": [one]},
        "ttnn::prim::no_such_thing": {"configurations": [one, one]},
        "ttnn::softmax": {"configurations": [{"arguments": {"arg0": "Tensor(unreadable"}}]},
    }
    recording = imported({"operations": operations})
    assert recording.lines == 1
    assert recording.reasons[0] == ("ttnn.prim.no_such_thing", "no operator here makes this call", 2)
    assert {function for function, _, _ in recording.reasons} == {"ttnn.prim.no_such_thing", "ttnn.softmax"}


# Lines of tensors ---------------------------------------------------------------------------------------------------------


def tensor(shape: list[int], *placed: Any, dtype: str = "BFLOAT16", layout: str = "TILE") -> list[Any]:
    return [shape, dtype, layout, *(placed or ("L1", "INTERLEAVED", None, 1024))]


def line(op: str, operands: list[Any], results: list[Any], **more: Any) -> dict[str, Any]:
    return {"i": 0, "op": op, "at": ["models/unet.py", 12, "forward"], "in": operands, "out": results, **more}


HEIGHT = ("L1", "HEIGHT_SHARDED", [[64, 64], 49], 1024)
LINES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "reshape": (
        line("ttnn.reshape", [tensor([1, 32, 64, 64])], [tensor([1, 1, 2048, 64])]),
        {"size": [1, 1, 2048, 64]},
        "l1",
    ),
    "permute": (line("ttnn.permute", [tensor([2, 32, 64, 96])], [tensor([2, 64, 96, 32])]), {"dims": [0, 2, 3, 1]}, "l1"),
    "split": (
        line("ttnn.split", [tensor([4, 12, 96, 64])], [tensor([4, 12, 32, 64]), tensor([4, 12, 64, 64])]),
        {"split_size": [32, 64], "dim": 2},
        "l1",
    ),
    "squeeze": (line("ttnn.squeeze", [tensor([1, 64, 1, 32])], [tensor([1, 64, 32])]), {"dim": [2]}, "l1"),
    "unpadding": (
        line("ttnn.untilize_with_unpadding", [tensor([1, 1, 32, 64])], [tensor([1, 1, 16, 60], layout="ROW_MAJOR")]),
        {"output_tensor_end": [0, 0, 15, 59]},
        "l1",
    ),
    "reshard": (
        line(
            "ttnn.reshard",
            [tensor([1, 1, 3136, 64], *HEIGHT)],
            [tensor([1, 1, 3136, 64], "L1", "BLOCK_SHARDED", [[448, 32], 14], 1024)],
        ),
        {},
        "l1:height@49:64x64",
    ),
    "heads": (
        line(
            "ttnn.transformer.split_query_key_value_and_split_heads",
            [tensor([2, 64, 768])],
            [tensor([2, 8, 64, 32]), tensor([2, 8, 32, 64]), tensor([2, 8, 64, 32])],
        ),
        {"num_heads": 8, "num_kv_heads": 8, "transpose_key": True},
        "l1",
    ),
    "concat": (line("ttnn.concat", [tensor([1, 2, 32, 32])] * 3, [tensor([1, 6, 32, 32])]), {"dim": 1}, "l1"),
    "1 x 1 convolution": (
        line(
            "ttnn.conv2d",
            [tensor([1, 1, 3136, 64], *HEIGHT), tensor([256, 64, 1, 1], "HOST", dtype="FLOAT32", layout="ROW_MAJOR")],
            [tensor([1, 1, 3136, 256], "L1", "HEIGHT_SHARDED", [[64, 256], 49], 1024)],
        ),
        {"stride": [1, 1], "padding": [0, 0], "dilation": [1, 1], "groups": 1},
        "l1:height@49:64x64",
    ),
    "3 x 3 convolution": (
        line(
            "ttnn.conv2d",
            [tensor([1, 32, 32, 64], layout="ROW_MAJOR"), tensor([128, 64, 3, 3], "HOST", layout="ROW_MAJOR")],
            [tensor([1, 1, 256, 128])],
        ),
        {"stride": [2, 2], "padding": [1, 1], "dilation": [1, 1], "groups": 1},
        "l1",
    ),
}


@pytest.mark.parametrize("name", LINES)
def test_what_shapes_determine_is_derived(name, tmp_path, imported):
    call, attrs, memory = LINES[name]
    recording = imported(json.dumps(call) + "\n")
    assert recording.reasons == []
    case = only(recording, tmp_path)
    assert dict(case.attrs) == attrs
    assert str(case.placement.request) == memory
    assert case.sources[0].first_module == "models/unet.py:12"


AMBIGUOUS = {
    "dims": line("ttnn.permute", [tensor([1, 32, 32, 64])], [tensor([1, 32, 32, 64])]),
    "dim is": line("ttnn.softmax", [tensor([1, 1, 32, 64])], [tensor([1, 1, 32, 64])]),
    "input_tensor_b": line("ttnn.multiply", [tensor([1, 32])], [tensor([1, 32])]),
    "start of the slice": line("ttnn.slice", [tensor([1, 64, 32])], [tensor([1, 32, 32])]),
    "the map is flat": line(
        "ttnn.conv2d",
        [tensor([1, 1, 1024, 64]), tensor([64, 64, 3, 3], "HOST")],
        [tensor([1, 1, 1024, 64])],
    ),
    "prepared already": line("ttnn.conv2d", [tensor([1, 1, 1024, 64]), tensor([1, 1, 576, 64])], [tensor([1, 1, 1024, 64])]),
    "transposed within": line("ttnn.matmul", [tensor([64, 32]), tensor([96, 32])], [tensor([64, 96])]),
    "moves a tensor": line("ttnn.to_device", [tensor([64, 32], "HOST")], [tensor([64, 32])]),
    "which ones": line("ttnn.relu", [tensor([1, 1, 256, 64], "L1", "BLOCK_SHARDED", [[64, 32], 64], 0)], []),
}


@pytest.mark.parametrize("reason", AMBIGUOUS)
def test_what_shapes_leave_open_is_refused(reason, imported):
    recording = imported(json.dumps(AMBIGUOUS[reason]) + "\n")
    assert recording.lines == 0
    ((_, stated, count),) = recording.reasons
    assert (reason in stated, count) == (True, 1), stated


def test_equal_calls_are_merged_with_their_callers(tmp_path, imported):
    call = LINES["reshape"][0]
    other = {**call, "at": ["models/unet.py", 99, "forward"]}
    recording = imported("".join(json.dumps(one) + "\n" for one in (call, call, other)))
    source = only(recording, tmp_path).sources[0]
    assert (recording.calls, recording.lines, source.count, source.model) == (3, 1, 3, "recording")
    assert [(module.path, module.calls) for module in source.modules] == [("models/unet.py:12", 2), ("models/unet.py:99", 1)]


# Anything --------------------------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)
PLACES: dict[str, Callable[[Any], Any]] = {
    "an argument of a trace": lambda value: {"operation_name": "ttnn.add", "args": [value, value], "kwargs": {"dtype": value}},
    "a memory of a trace": lambda value: {"operation_name": "ttnn.relu", "args": [{**flat_tensor(value)}], "kwargs": {}},
    "shards of a trace": lambda value: {
        "operation_name": "ttnn.relu",
        "args": [flat_tensor({**SHARDS_OBJECT, "shard_spec": value})],
        "kwargs": {"memory_config": {**SHARDS_OBJECT, "shard_spec": {"grid": value, "shape": value}}},
    },
    "a result of a trace": lambda value: {
        "operation_name": "ttnn.relu",
        "args": [flat_tensor(DRAM_OBJECT)],
        "return_value": value,
    },
    "arguments of a master": lambda value: {"operations": {"ttnn::add": {"configurations": [{"arguments": value}]}}},
    "an argument of a master": lambda value: {
        "operations": {"ttnn::conv2d": {"configurations": {"1": {"arguments": {"arg0": value, "arg1": value}}}}}
    },
    "tensors of a line": lambda value: line("ttnn.matmul", [value, value], [value]),
    "one of a tensor of a line": lambda value: line("ttnn.relu", [[[1, 32], "BFLOAT16", "TILE", value, value, value]], []),
}


@pytest.mark.parametrize("value", [[[1], None, None], [[1, 32], 3, "TILE"], [[1, 32], "BFLOAT16", ["TILE"], "HOST"]])
def test_a_tensor_of_a_line_without_a_dtype_or_layout_is_a_fault(imported, value):
    recording = imported(PLACES["tensors of a line"](value))
    assert (recording.calls, len(recording.faults)) == (0, 1)


@pytest.mark.parametrize("place", PLACES)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=JSON)
def test_whatever_is_recorded_is_a_case_or_has_a_reason(place, imported, value):
    try:
        recording = imported(PLACES[place](value))
    except CatalogError:  # JSON that no format begins with
        return
    refused = sum(count for _, _, count in recording.reasons)
    assert refused + recording.lines == recording.calls
    assert recording.calls + len(recording.faults) == 1


@given(text=st.text(alphabet="ab0123456789.:=,()[]{}<>-\"' \n_xy", max_size=60))
def test_no_text_is_too_strange_to_read(text):
    read_text(text)
    core_ranges(text)


# Damage -------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.chdir(tmp_path)

    def invoke(*args: str) -> Result:
        return CliRunner().invoke(cli, ["catalog", "import", *args])

    return invoke


def refusal(result: Result) -> str:
    """The message of ``ssinghal``, which exits with 2, and what it printed before."""
    assert isinstance(result.exception, (InvalidCase, CatalogError)), result.output
    return f"{result.output}{result.exception}"


GOOD = json.dumps(LINES["reshape"][0])
DAMAGED: dict[str, tuple[bytes, str]] = {
    "empty lines": (b'{"op"', "x:1: is not JSON"),
    "not closed": (GOOD.encode() + b'\n{"op": "ttnn.relu", "in": [', "x:2: is not JSON"),
    "nested": (b"[" * 100_000, "x:1: is nested too deep"),
    "not a number": (b'{"operations": {"ttnn::add": NaN}}', "x:1: NaN is no number"),
    "a huge number": (b'{"operations": [' + LONG.encode() + b"]}", "x:1: Exceeds the limit"),
    "binary": (b'{"op": "\xff\xfe\x00"}', "x:1: is not UTF-8 text"),
    "truncated archive": (gzip.compress(GOOD.encode() * 99)[:40], "x:1: is a damaged archive"),
    "other JSON": (b'{"a": 1}', "x:1: expected records of a profile"),
    "a list of others": (b"[1, 2]", "x:1: expected records of a profile"),
    "a list without items": (b"[]", "x:1: expected records of a profile"),
    "operations of the wrong type": (b'{"operations": {"ttnn::add": 1}}', "x:1: ttnn::add: expected configurations"),
    "configurations of the wrong type": (b'{"operations": {"ttnn::add": [1]}}', "expected arguments"),
    "tensors of the wrong type": (b'{"op": "ttnn.relu", "in": [3], "out": []}', "x:1: not a complete call"),
    "shapes of the wrong type": (b'{"op": "ttnn.relu", "in": [["a", "B", "C", "D"]], "out": []}', "x:1: not a complete call"),
    "another version": (b'{"k": "program", "version": 99, "argv": []}\n', "x:1: a profile of version 99"),
    "records without a program": (b'{"k": "call"}\n', "x:1: expected the program in the first line"),
    "a record that lacks its fields": (
        b'{"k": "program", "version": 2, "argv": ["p.py"]}\n{"k": "call", "name": "ttnn.relu"}\n',
        "x:2: not a complete record",
    ),
    "a trace of the wrong type": (b'{"operation_name": "ttnn.relu", "args": 3}', "x:1: expected a list of args"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_one_line_and_writes_nothing(name, tmp_path, command):
    content, stated = DAMAGED[name]
    (tmp_path / "x").write_bytes(content)
    printed = refusal(command("x", "-o", "out.yaml"))
    assert stated in printed
    assert all(len(text) < 600 for text in printed.splitlines())
    assert not (tmp_path / "out.yaml").exists()


def test_damaged_lines_are_left_out_where_that_is_requested(tmp_path, command):
    (tmp_path / "x.jsonl").write_text(f'{GOOD}\n{{"op": 3}}\n')
    assert "1 of 2 lines cannot be read; nothing is written; --skip-unreadable" in refusal(command("x.jsonl"))
    assert not (tmp_path / "x.yaml").exists()
    result = command("x.jsonl", "--skip-unreadable")
    assert (result.exit_code, (tmp_path / "x.yaml").exists()) == (0, True)
    assert "x.jsonl:2: expected a call with op, in and out" in result.output
    assert "1 line left out" in result.output


def test_refused_calls_are_counted_and_listed(tmp_path, command):
    refused = json.dumps(AMBIGUOUS["dims"])
    (tmp_path / "x.jsonl.gz").write_bytes(gzip.compress(f"{GOOD}\n{refused}\n{refused}\n".encode()))
    result = command("x.jsonl.gz", "--refused", "refused.txt")
    assert result.exit_code == 0, result.output
    assert "x.yaml: 1 line of 1 call\n2 calls of 3 are no cases:\n  2 x ttnn.permute: dims is not recorded" in result.output
    listed = (tmp_path / "refused.txt").read_text().splitlines()
    assert [text.partition(": dims")[0] for text in listed] == ["x.jsonl.gz:2: ttnn.permute", "x.jsonl.gz:3: ttnn.permute"]


def test_a_recording_of_which_no_call_is_a_case(tmp_path, command):
    (tmp_path / "x.jsonl").write_text(json.dumps(AMBIGUOUS["dims"]) + "\n")
    assert "x.jsonl: none of 1 call is a case; no catalog is written" in refusal(command("x.jsonl"))


@pytest.mark.parametrize(
    ("args", "stated"),
    [
        (("x.jsonl", "--dtype", "float32"), "--dtype is for operator lists"),
        (("list.csv", "--refused", "r"), "--refused is for recordings"),
        (("x.jsonl", "--refused", "none/r"), "there is no folder none"),
        (("empty",), "empty:1: holds neither records-*.jsonl"),
    ],
)
def test_options_that_do_not_go_together(args, stated, tmp_path, command):
    (tmp_path / "x.jsonl").write_text(GOOD)
    (tmp_path / "list.csv").write_text("op,shapes\nrelu,1x32\n")
    (tmp_path / "empty").mkdir()
    assert stated in refusal(command(*args, "-o", "out.yaml"))
    assert not (tmp_path / "out.yaml").exists()
