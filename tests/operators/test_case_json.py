"""Cases as JSON lines: what is read, and every way a line can be wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssinghal.core.boards import load_board
from ssinghal.core.case import OutputMemory
from ssinghal.core.device_facts import DeviceMode
from ssinghal.core.record import Record
from ssinghal.core.tensors import BufferType, DType, Layout
from ssinghal.core.verdict import Status, Verdict
from ssinghal.errors import CatalogError, InvalidCase
from ssinghal.estimation.estimator import read_cases
from ssinghal.operators import operators
from ssinghal.operators.case_json import case_from_json, parse_json
from tests.support.processes import LISTED_NAMES

BOARD = load_board("n150")


def line(**fields: object) -> dict[str, object]:
    return {"op": "relu", "inputs": [[1, 32]], **fields}


def test_a_whole_line():
    case = case_from_json(
        {
            "op": "view",
            "inputs": [[1, 640, 400, 64]],
            "attrs": {"size": [1, 64, 640, 400]},
            "dtype": "bfloat8_b",
            "layout": "tile",
            "memory": "l1",
            "output_memory": "ttnn",
            "channels_last": False,
            "l1_small_size": 1024,
        }
    )
    assert (case.operator, case.name, case.inputs, case.attrs) == (
        "view",
        "view",
        ((1, 640, 400, 64),),
        {"size": [1, 64, 640, 400]},
    )
    placement = case.placement
    assert (placement.dtype, placement.layout, placement.memory) == (DType.BFLOAT8_B, Layout.TILE, BufferType.L1)
    assert (placement.output_memory, placement.channels_last, placement.l1_small_bytes) == (OutputMemory.TTNN, False, 1024)


def test_a_line_of_records_is_its_case():
    """Whatever else a record has: here what a probe of a sharded call in mixed dtypes left."""
    fields = {
        **line(op="linear", inputs=[[1, 1, 64, 64], [64, 64]], memory="l1:height@2x1", output_dtype="bfloat8_b"),
        "operands": [None, {"dtype": "bfloat8_b", "memory": "dram"}],
    }
    case = case_from_json(fields)
    record = Record.of(
        case, Verdict(Status.FITS), device_mode=DeviceMode.VIRTUAL, board="n150", ttnn="0.81.1", usage_note="none"
    )
    again = case_from_json(json.loads(json.dumps(record.to_json())))
    assert (again.key, again.id, again.identity()) == (case.key, case.id, case.identity())


@pytest.mark.parametrize("left_out", ["schema", "key", "status"])
def test_other_objects_have_the_keys_of_a_case_alone(left_out):
    record = Record.of(case_from_json(line()), Verdict(Status.FITS), device_mode=DeviceMode.VIRTUAL, board="n150", ttnn="")
    fields = record.to_json()
    del fields[left_out]
    with pytest.raises(InvalidCase, match="unknown key"):
        case_from_json(fields)


def test_what_is_left_out_has_a_default():
    placement = case_from_json({"op": "relu", "inputs": [[1, 32]], "attrs": None, "channels_last": None}).placement
    assert (placement.dtype, placement.layout, placement.memory) == (DType.BFLOAT16, Layout.TILE, BufferType.DRAM)
    assert (placement.output_memory, placement.channels_last, placement.l1_small_bytes) == (OutputMemory.SAME, False, 0)
    pool = case_from_json({"op": "max_pool2d", "inputs": [[1, 64, 80, 80]]}).placement  # TTNN's call takes NHWC and L1_SMALL
    assert pool.channels_last
    assert pool.l1_small_bytes == 32768


def test_a_case_repeats_as_the_line_it_came_from():
    case = case_from_json({"op": "SiLU", "inputs": [[1, 8, 8, 8]], "memory": "l1", "channels_last": True})
    assert case_from_json(json.loads(json.dumps(case.identity()))) == case
    assert case.identity()["op"] == "SiLU"


@pytest.mark.parametrize("name", LISTED_NAMES)
def test_every_listed_name_is_an_op(name):
    shapes = {"ones": []}.get(name, [[1, 32]])
    assert case_from_json({"op": name, "inputs": shapes}).name == name


def test_there_are_46_listed_names():
    assert len(set(LISTED_NAMES)) == 46
    assert set(LISTED_NAMES) <= set(operators())


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ([1], "expected a JSON object, got list"),
        ({"inputs": [[1, 32]]}, "op: expected an operator's name, got None"),
        (line(op=["add"]), "op: expected an operator's name, got ['add']"),
        (line(op="rleu"), "unknown operator 'rleu'; did you mean relu"),
        (line(op="Tensor"), "'Tensor' is not an operator: "),
        (line(atrs={}), "unknown key 'atrs'; did you mean attrs?"),
        (line(inputs="x"), "inputs: expected a list of shapes like [[1, 64, 80, 80]], got 'x'"),
        (line(inputs=[1, 32]), "inputs: expected a list of shapes like [[1, 64, 80, 80]], got [1, 32]"),
        (line(inputs=[[]]), "input shape [] has rank 0; expected 1 to 8"),
        (line(inputs=[[1] * 9]), "input shape [1, 1, 1, 1, 1, 1, 1, 1, 1] has rank 9; expected 1 to 8"),
        (line(inputs=[[1, 0]]), "size 0 is outside 1..4294967295"),
        (line(inputs=[[1, -3]]), "size -3 is outside 1..4294967295"),
        (line(inputs=[[2**32]]), "size 4294967296 is outside 1..4294967295"),
        (line(inputs=[[1, 2.0]]), "size 2.0 is not a whole number"),
        (line(inputs=[[1, True]]), "size True is not a whole number"),
        (line(inputs=[[1, "32"]]), "size '32' is not a whole number"),
        (line(inputs=[[1, None]]), "size None is not a whole number"),
        (line(attrs=[]), "attrs: expected an object, got []"),
        (line(dtype="float16"), "unknown dtype 'float16'; did you mean bfloat16, float32"),
        (line(dtype=None), "unknown dtype 'None'"),
        (line(layout="rowmajor"), "unknown layout 'rowmajor'; did you mean row_major?"),
        (line(memory="sram"), "unknown memory 'sram'"),
        (line(memory="l1_small"), "memory l1_small: l1_small is for TTNN's own tables"),
        (line(memory=["l1"]), "unknown memory \"['l1']\""),
        (line(output_memory="ttn"), "unknown output_memory 'ttn'; did you mean ttnn?"),
        (line(channels_last="yes"), "channels_last: expected true or false, got 'yes'"),
        (line(channels_last=1), "channels_last: expected true or false, got 1"),
        (line(l1_small_size=1e3), "l1_small_size: expected a whole number of bytes, got 1000.0"),
        (line(l1_small_size=-1), "l1_small_size: expected a whole number of bytes, got -1"),
    ],
)
def test_a_wrong_object_says_what_was_expected(fields, what):
    with pytest.raises(InvalidCase) as caught:
        case_from_json(fields)
    assert what in str(caught.value)
    assert "\n" not in str(caught.value)


def test_all_faulty_lines_are_told_at_once():
    lines = [
        json.dumps(line()),
        "",
        "not json",
        '{"op": "relu", "op": "tanh", "inputs": [[1, 32]]}',
        '{"op": "clamp", "inputs": [[1, 32]], "attrs": {"min": NaN}}',
        '{"op": "clamp", "inputs": [[1, 32]], "attrs": {"min": -1e999}}',
        '{"op": "relu", "inputs": [[99999999999999999999999]]}',
        json.dumps(line(dtype="bfloat8_b", layout="row_major")),
        json.dumps(line(l1_small_size=2**31)),
        "[" * 100_000,
        '{"op": "relu", "inputs": [[1, 32]]',
        json.dumps(line()),
    ]
    with pytest.raises(CatalogError) as caught:
        read_cases(Path("f.jsonl"), lines, BOARD)
    assert caught.value.faults == (
        "f.jsonl:3: not JSON: Expecting value (column 1)",
        "f.jsonl:4: op is given twice",
        "f.jsonl:5: NaN is not a finite number",
        "f.jsonl:6: -1e999 is not a finite number",
        "f.jsonl:7: 99999999999999999999… is beyond 64 bits",
        "f.jsonl:8: bfloat8_b exists in tile layout only, not row_major",
        "f.jsonl:9: l1_small_size 2147483648 is outside 0..1393311, the L1 of one core of n150",
        "f.jsonl:10: nested too deep",
        "f.jsonl:11: not JSON: Expecting ',' delimiter (column 35)",
    )


def test_a_file_without_a_line_of_json_is_one_error():
    catalog = ["schema: 1", "", "kind: captured", "ops:"]
    with pytest.raises(CatalogError) as caught:
        read_cases(Path("c.yaml"), catalog, BOARD)
    assert caught.value.faults == ("c.yaml: none of its 3 lines is JSON; expected JSONL, one object a line",)


def test_good_lines_are_read_in_order_with_their_estimates():
    shapes = [[1, 32 * n] for n in range(1, 6)]
    lines = [text for shape in shapes for text in ("  \t\r", json.dumps(line(inputs=[shape])) + "\r")]
    read = read_cases(Path("f.jsonl"), lines, BOARD)
    assert [list(case.inputs[0]) for case, _ in read] == shapes
    # one row of n tiles of 2,048 B over 12 DRAM banks, operand and result: one tile of each in the fullest bank
    assert {made.peak_bytes_per_bank[BufferType.DRAM] for _, made in read} == {4096}
    assert read_cases(Path("f.jsonl"), [], BOARD) == []


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63) + 1])
def test_whole_numbers_of_64_bits_are_kept(number):
    assert parse_json(f'{{"n": {number}}}') == {"n": number}
    with pytest.raises(InvalidCase, match="beyond 64 bits"):
        parse_json(str(number + (1 if number > 0 else -1)))


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(values)
def test_json_reads_as_python_reads_it(value):
    text = json.dumps(value)
    assert parse_json(text) == json.loads(text)


def errors_of(text: str) -> tuple[str, ...]:
    """Returns the errors of one line, each of which names it."""
    try:
        read_cases(Path("f"), [text], BOARD)
    except CatalogError as error:
        return tuple(fault for fault in error.faults if fault.startswith("f:1: ") or pytest.fail(fault))
    return ()


@given(st.text() | values.map(json.dumps))
def test_every_line_is_a_case_or_an_error(text):
    """Every line is a case, or one error of one line."""
    assert len(errors_of(text)) <= 1


keys = st.sampled_from(
    ["op", "inputs", "attrs", "dtype", "layout", "memory", "output_memory", "channels_last", "l1_small_size"]
)


@given(st.dictionaries(keys, values | st.sampled_from([[[1, 32]], "add", "l1", {"dim": 1}])), st.sampled_from(LISTED_NAMES))
def test_no_object_ends_in_anything_but_a_fault(fields, name):
    assert len(errors_of(json.dumps({**fields, "op": name, "inputs": fields.get("inputs", [[2, 32]])}))) <= 1
