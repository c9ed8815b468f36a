"""Operator lists in CSV: every spelling of a cell, every reason why a row is none, and the catalogs that come of them."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ssinghal.catalog import csv_fields as cells
from ssinghal.catalog.csv_import import ImportResult, read_list
from ssinghal.catalog.expansion import expand
from ssinghal.catalog.loader import load_catalog
from ssinghal.catalog.placement_fields import PlacementModel
from ssinghal.cli import cli
from ssinghal.core.case import ModuleCalls, OutputMemory, Source
from ssinghal.core.tensors import BufferType, DType, Layout
from ssinghal.errors import CatalogError, InvalidCase

DATA = Path(__file__).parents[1] / "data"
PLACEMENT = PlacementModel(
    dtype=DType.BFLOAT16, layout=Layout.TILE, memory=BufferType.DRAM, output_memory=OutputMemory.SAME, channels_last=None
)


def imported(folder: Path, text: str | bytes) -> ImportResult:
    file = folder / "list.csv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_list(file, PLACEMENT)


def reasons(found: ImportResult) -> list[str]:
    return [fault.split("list.csv:", 1)[1] for fault in found.faults]


def lines_of(found: ImportResult) -> list[str]:
    """The catalog from its operators on."""
    return found.text.partition("operators:\n")[2].splitlines()


# Cells --------------------------------------------------------------------------------------------------------------------

SHAPES: dict[str, list[tuple[int, ...]]] = {
    "[1, 3, 640, 640]": [(1, 3, 640, 640)],
    "(1,3,640,640)": [(1, 3, 640, 640)],
    "1x3x640x640": [(1, 3, 640, 640)],
    " 1 x 3 × 640 ": [(1, 3, 640)],
    "1,3,640,640": [(1, 3, 640, 640)],
    "7": [(7,)],
    "(7,)": [(7,)],
    "torch.Size([1, 3])": [(1, 3)],
    "[[1, 3], [64, 3]]": [(1, 3), (64, 3)],
    "((1, 3), (64,))": [(1, 3), (64,)],
    "[(1, 3)]": [(1, 3)],
    "[1,3],[64,3]": [(1, 3), (64, 3)],
    "[1,3]+[64,3]": [(1, 3), (64, 3)],
    "[1,3] ; [64,3]": [(1, 3), (64, 3)],
    "1x3;64x3": [(1, 3), (64, 3)],
    "1x3 + 64x3": [(1, 3), (64, 3)],
    "1x3, 64x3": [(1, 3), (64, 3)],
    "1,3|64,3": [(1, 3), (64, 3)],
    "[torch.Size([1, 3]), torch.Size([])]": [(1, 3), (1,)],
    "": [],
    "[]": [],
}


@pytest.mark.parametrize("text", SHAPES)
def test_shapes(text: str) -> None:
    assert cells.shapes(text) == SHAPES[text]


@pytest.mark.parametrize(
    "text",
    [
        "1 3",
        "[1, 3",
        "1, 3]",
        "[1, 3)]",
        "[a, b]",
        "[1, 3.0]",
        "[1, [2]]",
        "[1_0]",
        "[+1]",
        "[0]",
        "[1]*9",
        "1;;3",
        "x",
        "[[[1]",
    ],
)
def test_shapes_that_are_none(text: str) -> None:
    with pytest.raises(InvalidCase, match="shape"):
        cells.shapes(text)


NAMES = {
    "add": "add aten.add.Tensor aten::add.Tensor torch.ops.aten.add.Tensor add.Tensor ttnn.add",
    "view": "aten.view aten._unsafe_view.default ttnn.reshape",
    "relu": "ReLU RELU aten.relu_.default F.relu nn.ReLU",
    "gelu": "GELUActivation torch.nn.functional.gelu",
    "convolution": "nn.Conv2d conv2d aten.convolution.default",
    "silu_": "aten.silu_.default",
    "silu_inplace": "silu_inplace",
    "addmm": "aten.addmm.default",
    "concat": "concat",
}


@pytest.mark.parametrize(("text", "name"), [(text, name) for name, texts in NAMES.items() for text in texts.split()])
def test_operator_names(text: str, name: str) -> None:
    assert cells.operator_name(text) == name


ARGUMENTS: dict[tuple[str, str], dict[str, Any]] = {
    ("view", "size=[1, 2]"): {"size": [1, 2]},
    ("view", '{"size": [1, 2]}'): {"size": [1, 2]},
    ("view", "{'size': (1, 2)}"): {"size": [1, 2]},
    ("view", "[1, 2]"): {"size": [1, 2]},
    ("view", "(1, 2)"): {"size": [1, 2]},
    ("softmax", "-1"): {"dim": -1},
    ("mean", "dim=[2, 3], keepdim=True"): {"dim": [2, 3], "keepdim": True},
    ("mean", "dim=[2,3], keepdim=true"): {"dim": [2, 3], "keepdim": True},
    ("clamp", '{"min": 0.5, "max": null}'): {"min": 0.5, "max": None},
    ("relu", ""): {},
    ("relu", "{}"): {},
    ("relu", "None"): {},
}


@pytest.mark.parametrize(("name", "text"), ARGUMENTS)
def test_arguments(name: str, text: str) -> None:
    assert cells.arguments(text, name) == ARGUMENTS[name, text]


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("relu", "2", "relu takes none"),
        ("view", "size=open('x')", "neither JSON nor Python nor name=value"),
        ("view", "__import__('os')", "neither JSON nor Python nor name=value"),
        ("view", "1, size=2", "neither JSON nor Python nor name=value"),
        ("view", "**{}", "neither JSON nor Python nor name=value"),
        ("view", "[" * 5000, "nested too deep"),
        ("view", "(" * 5000, "neither JSON nor Python nor name=value"),
        ("view", "9" * 30, "beyond 64 bits"),
        ("view", "(" + "9" * 30 + ",)", "is not a number"),
        ("view", "{'size': {'a': 1}}", "is not a number, a text, true, false, null or a list of them"),
        ("view", "{1: 2}", "the name '1' is not text"),
        ("view", "(1, 1e999)", "is not a number"),
        ("view", "x" * 20_000, "longer than 10000 characters"),
    ],
)
def test_arguments_that_are_none(name: str, text: str, why: str) -> None:
    with pytest.raises(InvalidCase) as error:
        cells.arguments(text, name)
    assert why in str(error.value)
    assert len(str(error.value)) < 250


@pytest.mark.parametrize(("text", "number"), [("", 1), (" 3 ", 3), ("5.0", 5), ("1,180", 1180), ("12345678", 12345678)])
def test_counts(text: str, number: int) -> None:
    assert cells.count(text) == number


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "x", "1_0", "+1", "1,18", "٣", "9" * 30])
def test_counts_that_are_none(text: str) -> None:
    with pytest.raises(InvalidCase, match="expected a whole number from 1"):
        cells.count(text)


# Lists --------------------------------------------------------------------------------------------------------------------

LIST = """\
Operator,Input Shapes,Arguments,Model,Count,notes
aten.view.default,"[1, 64, 640, 400]","size=[1, 64, 256000]",swin,2,x
view,1x64x640x400,"[1, 64, 256000]",swin,3,
reshape,"(1,64,640,400)","{'size': (1, 64, 256000)}",yolo,1,
conv2d,1x3x640x640;64x3x7x7,"{""stride"": [2, 2], ""padding"": [3, 3]}",yolo,1,
add,"[1,64,640,400]",,yolo,5,
silu,"[1,64,640,400]",,,,
ones,,"size=[3, 32]",,7,
"""
ROWS = list(csv.reader(LIST.splitlines()))


def test_a_list(tmp_path: Path) -> None:
    """Equal rows of one model are one line, counts added (2 + 3); of another model, another."""
    found = imported(tmp_path, LIST)
    assert (found.rows, found.lines, found.completed, found.faults, found.unused) == (7, 6, 1, (), ("notes",))
    assert lines_of(found) == [
        "  add:",
        "  - {shape: [1, 64, 640, 400], n: 5, model: yolo}",
        "  convolution:",
        "  - {in: [[1, 3, 640, 640], [64, 3, 7, 7]], args: {stride: [2, 2], padding: [3, 3]}, n: 1, model: yolo}",
        "  ones:",
        "  - {shape: [3, 32], n: 7}",
        "  silu:",
        "  - {in: [[1, 64, 640, 400]], n: 1}",
        "  view:",
        "  - {in: [[1, 64, 640, 400]], args: {size: [1, 64, 256000]}, n: 5, model: swin}",
        "  - {in: [[1, 64, 640, 400]], args: {size: [1, 64, 256000]}, n: 1, model: yolo}",
    ]


def test_what_the_columns_tell_reaches_the_records(tmp_path: Path) -> None:
    found = imported(
        tmp_path, 'op,shapes,n,network,resolution,layer\nrelu,"[1, 3]",4,"a: b #é",1280x800,model.0\nrelu,"[1,3]",2,c,,\n'
    )
    file = tmp_path / "list.yaml"
    file.write_text(found.text, encoding="utf-8")
    (case,) = expand([load_catalog(str(file))]).cases
    assert (case.name, case.inputs) == ("relu", ((1, 3),))
    assert case.sources == (Source("list", "a: b #é", "1280x800", 4, (ModuleCalls("model.0", 4),)), Source("list", "c", "", 2))


def test_the_order_of_rows_does_not_matter(tmp_path: Path) -> None:
    title, *rows = LIST.splitlines()
    assert imported(tmp_path, "\n".join([title, *reversed(rows)])).text == imported(tmp_path, LIST).text


@pytest.mark.parametrize(
    "text",
    [
        LIST.replace("\n", "\r\n"),
        LIST.replace("\n", "\r"),
        "\ufeff" + LIST,
        LIST.encode("utf-16"),
        "\n\n" + LIST.replace("\n", "\n\n") + ",,,,,\n",
        LIST.removesuffix("\n"),
        "\n".join("\t".join(row) for row in ROWS),
        "\n".join(";".join(f'"{cell}"' if ";" in cell else cell.replace('"', "'") for cell in row) for row in ROWS),
        LIST.replace("Operator,Input Shapes,Arguments,Model,Count", "op , INPUT-SHAPES,args,Model Name,(calls)"),
    ],
    ids=["CRLF", "CR", "BOM", "UTF-16", "blank rows", "no end of line", "tabs", "semicolons", "titles"],
)  # fmt: skip
def test_files_as_programs_write_them(tmp_path: Path, text: str | bytes) -> None:
    found = imported(tmp_path, text)
    assert found.faults == ()
    assert found.text == imported(tmp_path, LIST).text


def test_every_unreadable_row_is_reported(tmp_path: Path) -> None:
    rows = [
        'sillu,"[1]",,,',  # 2
        'Scalar,"[1]",,,',
        "add,[1,64,640],,,",
        'relu,"[1, 0]",,,',
        'mm,"[3,4];[5,6]",,,',
        'relu,"[1]",dim=1,,',
        'relu,"[1]",,,none',
        'relu,"[1]",,"a\x07b",1',
        ',"[1]",,,',
        "relu,,,,",
        "conv2d,1x3x8x8;8x3x1x1,{'stride': 1, 'padding': 1, 'groups': 1},a,1",
        'relu,"[1]',
    ]
    found = imported(tmp_path, "operator,shapes,arguments,model,count\n" + "\n".join(rows))
    assert [reason.partition("; did you mean")[0] for reason in reasons(found)] == [
        "2: unknown operator 'sillu'",
        "3: 'Scalar' is not an operator: an ATen overload name (add.Scalar)",
        "4: shapes '[1': brackets do not match; a cell that holds the separator must be quoted",
        "5: shape [1, 0]: size 0 is outside 1..4294967295",
        "6: cannot multiply [3, 4] by [5, 6]: 4 columns against 5 rows",
        "7: relu: unknown attribute 'dim'; there is none",
        "8: count 'none': expected a whole number from 1",
        "9: model 'a\\x07b': expected printable text",
        "10: names no operator",
        "11: names no shapes",
        "12: has 7 cells under 5 titles; a cell that holds the separator must be quoted",
        "13: is not CSV: unexpected end of data",
    ]
    assert (found.rows, found.lines, found.text) == (12, 0, "")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "1: is empty"),
        ("\n\n", "1: is empty"),
        (
            "operator,model\nadd,x\n",
            "1: no column holds the shapes: none of input_shapes, input_shape, shapes, shape, inputs, ",
        ),
        ("name;size\n", "1: no column holds the operator: none of operator, op, operator_name, op_name, aten_op, overload, "),
        ("op,shapes,operator\n", "1: 2 columns hold the operator: op, operator"),
        ('"op\n', "1: is not CSV: unexpected end of data"),
        ("op,shapes\nrelu,é\n".encode("latin-1"), "2: is not UTF-8 text"),
        ("op,shapes\n".encode("utf-16") + b"x", "2: is not UTF-16 text"),
    ],
)
def test_files_that_are_no_list(tmp_path: Path, text: str | bytes, fault: str) -> None:
    with pytest.raises(CatalogError) as error:
        imported(tmp_path, text)
    assert error.value.faults[0].startswith(f"{tmp_path}/list.csv:{fault}")
    assert max(map(len, error.value.faults)) < 400


@pytest.mark.parametrize("name", ["no.csv", ".", "a\0b"])
def test_files_that_cannot_be_opened(tmp_path: Path, name: str) -> None:
    with pytest.raises(CatalogError):
        read_list(tmp_path / name, PLACEMENT)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_garbage_is_a_fault_never_a_crash(tmp_path: Path, data: st.DataObject) -> None:
    """A list with a piece replaced is no list, or its rows are in the catalog or among the faults, which name their line."""
    raw = LIST.encode()
    start = data.draw(st.integers(0, len(raw)))
    piece = data.draw(
        st.one_of(st.binary(max_size=8), st.sampled_from([b'"', b"\n", b",", b"[", b"(", b"{", b"\0", b"\xef\xbb\xbf"]))
    )
    raw = raw[:start] + piece + raw[start + data.draw(st.integers(0, 12)) :]
    try:
        found = imported(tmp_path, raw)
    except CatalogError:
        return
    assert len(found.faults) < found.rows or not found.text
    assert all(1 <= int(reason.split(":")[0]) <= raw.count(b"\n") + raw.count(b"\r") + 1 for reason in reasons(found))
    if found.text:
        (tmp_path / "list.yaml").write_text(found.text, encoding="utf-8")
        assert load_catalog(str(tmp_path / "list.yaml")).line_count == found.lines


def test_the_lists_of_a_hardware_run(tmp_path: Path) -> None:
    """Rows of operator and shape are read as the shape sweeps have them."""
    with (DATA / "hardware/crossed_lists_r3.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    found = read_list(DATA / "hardware/crossed_lists_r3.csv", PLACEMENT)
    assert found.rows == len(rows)
    assert found.rows - len(found.faults) > 0.9 * len(rows), found.faults[:5]
    (tmp_path / "r3.yaml").write_text(found.text)
    listed = {case.listed_shape for case in expand([load_catalog(str(tmp_path / "r3.yaml"))]).cases}
    assert tuple(json.loads(rows[0]["listed_shape"])) in listed


# The command --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)

    def invoke(*args: str) -> Result:
        return CliRunner().invoke(cli, ["catalog", "import", *args])

    return invoke


def refusal(result: Result) -> str:
    """The message of ``ssinghal``, which exits with 2."""
    assert isinstance(result.exception, (InvalidCase, CatalogError))
    return str(result.exception)


def files(folder: Path) -> Sequence[str]:
    return sorted(file.name for file in folder.iterdir())


def test_import(run: Any, tmp_path: Path) -> None:
    (tmp_path / "ops.csv").write_text(LIST)
    result = run("ops.csv", "--memory", "l1", "--channels-last")
    assert result.exit_code == 0
    assert result.stdout == (
        "ops.yaml: 6 lines of 7 rows\n1 row with one shape of a call that takes more: the operator adds the others\n"
    )
    assert result.stderr == "ops.csv: ignored columns: notes\n"
    catalog = load_catalog("ops.yaml")
    assert (catalog.title, catalog.line_count) == ("Calls listed in ops.csv", 6)
    assert catalog.head.placement.memory.buffer is BufferType.L1
    assert catalog.head.placement.channels_last is True
    assert refusal(run("ops.csv")) == "ops.yaml exists already: name a file with -o"
    assert run("ops.csv", "-o", "ops.yaml", "--dtype", "float32").exit_code == 0
    assert load_catalog("ops.yaml").head.placement.dtype is DType.FLOAT32
    assert files(tmp_path) == ["ops.csv", "ops.yaml"]


def test_a_partly_readable_list_is_written_only_on_request(run: Any, tmp_path: Path) -> None:
    (tmp_path / "ops.csv").write_text(LIST + 'sillu,"[1]",,,,\n')
    result = run("ops.csv")
    assert refusal(result) == "ops.csv: 1 of 8 rows cannot be read; nothing is written; --skip-unreadable writes the others"
    assert result.stderr.startswith("ops.csv:9: unknown operator 'sillu'; did you mean silu")
    assert files(tmp_path) == ["ops.csv"]
    result = run("ops.csv", "--skip-unreadable")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[:2] == ["ops.yaml: 6 lines of 7 rows", "1 row left out"]
    assert load_catalog("ops.yaml").line_count == 6


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["empty.csv"], "empty.csv: has no rows; nothing is written"),
        (["bad.csv", "--skip-unreadable"], "bad.csv: 1 of 1 row cannot be read; nothing is written"),
        (["good.csv", "-o", "no/x.yaml"], "no/x.yaml: there is no folder no"),
        (["good.csv", "-o", "good.csv"], "good.csv: a catalog's name ends in .yaml or .yml"),
        (["good.csv", "--dtype", "float16"], "unknown dtype 'float16'; did you mean bfloat16, float32"),
        (["good.csv", "--memory", "l1_small"], "unknown memory 'l1_small'; known: dram, l1"),
        (["no.csv"], "no.csv:1: No such file or directory"),
    ],
)
def test_a_rejected_list_leaves_no_file(run: Any, tmp_path: Path, args: list[str], why: str) -> None:
    (tmp_path / "empty.csv").write_text("op,shapes\n")
    (tmp_path / "bad.csv").write_text("op,shapes\nrelu,x\n")
    (tmp_path / "good.csv").write_text("op,shapes\nrelu,1x2\n")
    before = files(tmp_path)
    assert refusal(run(*args)).startswith(why)
    assert files(tmp_path) == before


def test_refused_names_keep_nothing_of_the_list(tmp_path: Path) -> None:
    """What is remembered of a name that is no operator's must not hold the frames of the list, nor its rows, by a traceback."""
    cells._named.cache_clear()
    file = tmp_path / "list.csv"
    file.write_text("operator,shapes\n" + "".join(f"nosuch{number},1x64\n" for number in range(20)))
    assert len(read_list(file, PLACEMENT).faults) == 20
    for number in range(20):
        known = cells._named(f"nosuch{number}")
        assert isinstance(known, InvalidCase)
        assert known.__traceback__ is None
    assert cells._named.cache_info().hits == 20


@pytest.mark.parametrize("operator", ["zeros", "ones", "add", "relu", "softmax", "conv2d", "cat"])
@pytest.mark.parametrize("shapes", ["", "[]", "[[]]", "[", "1x1x1x1x1x1x1x1x1", "0", "-1", "[1,-2]", "[[1],[-3]]"])
@pytest.mark.parametrize("arguments", ["", "size=[]", "size=[1,1,1,1,1,1,1,1,1]", "size=[-1]", "size=[0]", "size=x", "dim=[]"])
def test_shapes_that_no_tensor_has_are_a_fault_of_the_row(operator: str, shapes: str, arguments: str, tmp_path: Path) -> None:
    with (tmp_path / "rows.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["operator", "shapes", "arguments"], [operator, shapes, arguments]])
    found = read_list(tmp_path / "rows.csv", PLACEMENT)
    assert len(found.faults) == 1, found.text
    assert "\n" not in found.faults[0]
