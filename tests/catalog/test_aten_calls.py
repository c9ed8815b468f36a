"""Captured lines to cases: torch's own arguments, as TTNN takes them, or the reason why there is no case."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ssinghal.catalog.aten_calls import Unmapped, captured_case, operators_by_overload
from ssinghal.catalog.captured import CapturedLine
from ssinghal.catalog.coverage import coverage
from ssinghal.catalog.loader import load_catalogs
from ssinghal.cli import cli
from ssinghal.core.case import Case, Placement, Source
from ssinghal.core.tensors import DType, Layout
from ssinghal.errors import InvalidCase
from ssinghal.operators.binding import specs_of
from ssinghal.operators.unsupported import NOT_DECLARED, UNMAPPED, unmapped_reason

BFLOAT16 = Placement()


def found(overload: str, line: dict[str, Any]) -> Case | Unmapped:
    """What becomes of a call in a bfloat16 model; ``out`` is left out where it does not matter."""
    read = CapturedLine.model_validate({"n": 3, "at": "head", "out": [1], **line})
    return captured_case(overload, read, BFLOAT16, Source("model"))


def case_of(overload: str, **line: Any) -> Case:
    case = found(overload, line)
    assert isinstance(case, Case), case
    return case


def reason_of(overload: str, **line: Any) -> str:
    unmapped = found(overload, line)
    assert isinstance(unmapped, Unmapped), unmapped
    assert (unmapped.catalog, unmapped.overload, unmapped.count) == ("model", overload, 3)
    return unmapped.reason


# Overloads that TTNN has under another name ---------------------------------------------------------------------------------

TABLE = {"self": [169, 3], "indices": [[2401]]}
MAP = {"self": [1, 8, 6, 5]}


@pytest.mark.parametrize(
    ("overload", "line", "operator", "inputs", "attrs"),
    [
        ("expand_as.default", {"in": {"self": [1, 5], "other": [2, 4, 5]}}, "expand", [(1, 5)], {"size": [2, 4, 5]}),
        ("view_as.default", {"in": {"self": [2, 6], "other": [3, 4]}}, "view", [(2, 6)], {"size": [3, 4]}),
        ("reshape_as.default", {"in": {"self": [2, 6], "other": [3, 4]}}, "view", [(2, 6)], {"shape": [3, 4]}),
        *(
            (f"{name}_as.default", {"in": {"self": [2, 6]}, "out": [3, 4]}, operator, [(2, 6)], {attribute: [3, 4]})
            for name, operator, attribute in (("view", "view", "size"), ("reshape", "view", "shape"))
        ),  # as in a trace, which leaves out the tensor whose shape alone counts
        ("expand_as.default", {"in": {"self": [1, 5]}, "out": [2, 4, 5]}, "expand", [(1, 5)], {"size": [2, 4, 5]}),
        *(
            (f"{name}.default", {"in": MAP, "out": [1, 8, 5, 6]}, "transpose", [(1, 8, 6, 5)], {"dim0": -2, "dim1": -1})
            for name in ("mT", "mH", "adjoint")
        ),
        ("index.Tensor", {"in": TABLE, "dtypes": {"indices": "int64"}}, "embedding", [(169, 3), (2401,)], {}),
        ("index_select.default", {"in": {"self": [9, 3], "index": [4]}, "args": {"dim": 0}}, "embedding", [(9, 3), (4,)], {}),
        ("index_select.default", {"in": {"self": [9, 3], "index": [4]}, "args": {"dim": -2}}, "embedding", [(9, 3), (4,)], {}),
        ("pad.default", {"in": MAP, "args": {"pad": [0, 1]}}, "constant_pad_nd", [(1, 8, 6, 5)], {"pad": [0, 1]}),
        (
            "pad.default",
            {"in": MAP, "args": {"pad": [1, 1, 0, 2], "mode": "replicate"}},
            "replication_pad2d",
            [(1, 8, 6, 5)],
            {"padding": [1, 1, 0, 2]},
        ),
        (
            "conv2d.padding",  # 2 * (3 - 1) = 4 more pixels, 2 on each side; none for a kernel of 1
            {"in": {"input": [1, 4, 9, 9], "weight": [8, 4, 3, 1]}, "args": {"padding": "same", "dilation": [2, 1]}},
            "convolution",
            [(1, 4, 9, 9), (8, 4, 3, 1)],
            {"padding": [2, 0], "dilation": [2, 1]},
        ),
        (
            "conv1d.padding",
            {"in": {"input": [1, 4, 9], "weight": [8, 4, 3]}, "args": {"padding": "valid"}},
            "convolution",
            [(1, 4, 9), (8, 4, 3)],
            {"padding": [0]},
        ),
        ("div.Tensor_mode", {"in": {"self": [4]}, "args": {"other": 80}}, "div", [(4,)], {"other": 80}),
        (
            "div.Tensor_mode",
            {"in": {"self": [4]}, "args": {"other": 80, "rounding_mode": "floor"}},
            "floor_divide",
            [(4,)],
            {"other": 80, "rounding_mode": "floor"},
        ),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_other_words(
    overload: str, line: dict[str, Any], operator: str, inputs: list[tuple[int, ...]], attrs: dict[str, Any]
) -> None:
    case = found(f"aten.{overload}", line)
    assert isinstance(case, Case), case
    assert (case.name, list(case.inputs), dict(case.attrs)) == (operator, inputs, attrs)


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "__and__", "__or__"])
def test_bits_of_a_bool_are_its_truth(name: str) -> None:
    both = {"self": [1, 84, 4], "other": [1, 84, 4]}
    case = case_of(f"aten.{name}.Tensor", **{"in": both}, dtypes={"self": "bool", "other": "bool", "out": "bool"})
    assert case.name == f"logical_{name.strip('_').removeprefix('bitwise_')}"
    assert reason_of(f"aten.{name}.Tensor", **{"in": both}, dtypes={"self": "int64", "other": "int64", "out": "int64"})


# Dtypes -------------------------------------------------------------------------------------------------------------------

FLOATS = {"input": "float32", "weight": "float32", "bias": "float32", "out": "float32"}


@pytest.mark.parametrize(
    ("overload", "line", "dtype"),
    [
        ("relu.default", {"in": {"self": [3]}}, DType.BFLOAT16),
        ("relu.default", {"in": {"self": [3]}, "dtypes": {"self": "float32", "out": "float32"}}, DType.FLOAT32),
        (
            "linear.default",  # all its operands are placed by the operator itself
            {"in": {"input": [2, 4], "weight": [5, 4], "bias": [5]}, "dtypes": FLOATS, "out": [2, 5]},
            DType.FLOAT32,
        ),
        ("unsqueeze.default", {"in": {"self": [3]}, "args": {"dim": 0}, "dtypes": {"self": "int64"}}, DType.INT32),
        (
            "gather.default",
            {"in": {"self": [3], "index": [2]}, "args": {"dim": 0}, "dtypes": {"index": "int64"}},
            DType.BFLOAT16,
        ),
        (
            "gather.default",
            {
                "in": {"self": [3], "index": [2]},
                "args": {"dim": 0},
                "dtypes": {"self": "float32", "index": "int64", "out": "float32"},
            },
            DType.FLOAT32,
        ),
        ("mul.Tensor", {"in": {"self": [3], "other": [3]}, "dtypes": {"self": "bool"}}, DType.BFLOAT16),
        ("logical_not.default", {"in": {"self": [3]}, "dtypes": {"self": "bool", "out": "bool"}}, DType.BFLOAT16),
        (
            "where.self",
            {
                "in": {"condition": [3], "self": [3], "other": [3]},
                "dtypes": {"condition": "bool", "self": "int64", "other": "int64", "out": "int64"},
            },
            DType.INT32,
        ),
        ("mul.Tensor", {"in": {"self": [3], "other": []}, "dtypes": {"other": "float32"}}, DType.BFLOAT16),
        ("arange.default", {"in": {}, "args": {"end": 7}, "dtypes": {"out": "int64"}, "out": [7]}, DType.INT32),
        ("to.dtype", {"in": {"self": [3]}, "args": {"dtype": "int64"}, "dtypes": {"out": "int64"}}, DType.BFLOAT16),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_the_dtype_of_a_case(overload: str, line: dict[str, Any], dtype: DType) -> None:
    case = found(f"aten.{overload}", line)
    assert isinstance(case, Case), case
    assert case.placement.dtype is dtype


def test_indices_are_uint32_and_casts_to_int64_give_int32() -> None:
    embedding = case_of("aten.index.Tensor", **{"in": TABLE}, dtypes={"indices": "int64"})
    operands, results = specs_of(embedding)
    assert [(s.dtype, s.layout) for s in operands] == [(DType.BFLOAT16, Layout.ROW_MAJOR), (DType.UINT32, Layout.ROW_MAJOR)]
    assert [s.shape for s in results] == [(2401, 3)]
    cast = case_of("aten.type_as.default", **{"in": {"self": [4], "other": [9]}}, dtypes={"other": "int64", "out": "int64"})
    assert (cast.name, cast.inputs, specs_of(cast)[1][0].dtype) == ("_to_copy", ((4,),), DType.INT32)


def test_a_scalar_is_a_tensor_of_one() -> None:
    assert case_of("aten.mul.Tensor", **{"in": {"self": [2, 3], "other": []}}).inputs == ((2, 3), (1,))
    assert case_of("aten.select.int", **{"in": {"self": [3]}}, args={"dim": 0, "index": 1}, out=[]).inputs == ((3,),)


# No cases -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("overload", "line", "why"),
    [
        ("item.default", {"in": {"self": []}}, "reads a value back"),
        ("nonzero.default", {"in": {"self": [3]}}, "depends on values"),
        ("frobnicate.default", {"in": {"self": [3]}}, NOT_DECLARED),
        ("cat.default", {"in": {"tensors": [[0, 3], [2, 3]]}}, "without elements"),
        ("relu.default", {"in": {"self": [3]}, "dtypes": {"self": "float64"}}, "TTNN has no float64"),
        ("mul.Tensor", {"in": {"self": [3], "other": [3]}, "dtypes": {"other": "float32"}}, "bfloat16 and float32"),
        (
            "conv2d.padding",
            {"in": {"input": [1, 4, 9, 9], "weight": [8, 4, 2, 2]}, "args": {"padding": "same"}},
            "differs from side to side",
        ),
        ("mean.default", {"in": {"self": [3]}, "out": []}, "rank 0"),
        ("sum.dim_IntList", {"in": {"self": [3]}, "args": {"dim": [0]}, "out": []}, "rank 0"),
        ("softmax.int", {"in": {"self": [3]}, "args": {"dim": 0}, "dtypes": {"out": "float32"}}, "torch gives float32"),
        ("max_pool2d.default", {"in": {"self": [8, 6, 5]}, "args": {"kernel_size": [2, 2]}}, "does not take this form"),
        ("index.Tensor", {"in": {"self": [1, 9, 3], "indices": [None, [4]]}}, "rows of a table"),
        ("index.Tensor", {"in": {"self": [9, 3], "indices": [None, [4]]}}, "rows of a table"),
        ("index.Tensor", {"in": {"self": [9, 3], "indices": [[4], [4]]}}, "rows of a table"),
        ("index.Tensor", {"in": TABLE, "dtypes": {"indices": "bool"}}, "depends on values"),
        ("index.Tensor", {"in": TABLE, "dtypes": {"indices": "uint8"}}, "depends on values"),
        ("index_select.default", {"in": {"self": [9, 3], "index": [4]}, "args": {"dim": 1}}, "rows of a table"),
        ("pad.default", {"in": MAP, "args": {"pad": [1, 1], "mode": "reflect"}}, "not by reflect"),
        (
            "layer_norm.default",
            {"in": {"input": [2, 4], "bias": [4]}, "args": {"normalized_shape": [4]}},
            "without weight, but with bias",
        ),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_no_case(overload: str, line: dict[str, Any], why: str) -> None:
    assert why in reason_of(f"aten.{overload}", **line)


def test_an_argument_that_the_operator_lacks_is_a_fault() -> None:
    with pytest.raises(InvalidCase, match="unknown attribute 'inplace'"):
        case_of("aten.relu.default", **{"in": {"self": [3]}}, args={"inplace": True})


def test_a_rejected_call_is_a_case_whatever_its_result() -> None:
    """torch's quotient of integers is float; TTNN rejects it when it is run."""
    integers = {"self": "int64", "other": "int64", "out": "float32"}
    assert case_of("aten.div.Tensor", **{"in": {"self": [3], "other": [3]}}, dtypes=integers).placement.dtype is DType.INT32


# Reasons and shares -------------------------------------------------------------------------------------------------------


def test_what_has_a_reason_has_no_operator() -> None:
    assert not {overload.split(".")[1] for overload in operators_by_overload()} & set(UNMAPPED)


def test_reasons_are_for_operators_of_torch() -> None:
    torch = pytest.importorskip("torch")
    of_torchvision = {"nms", "roi_align", "deform_conv2d"}
    assert [name for name in UNMAPPED if name not in of_torchvision and not hasattr(torch.ops.aten, name.split(".")[0])] == []
    assert unmapped_reason("torchvision.nms.default") == UNMAPPED["nms"]


def test_captured_calls_are_cases_or_say_why() -> None:
    covered = coverage(load_catalogs(["captured/"]))
    assert min(s.mapped_calls / s.calls for s in (covered.total, *covered.levels.values())) > 0.95
    assert [m for m in covered.missing if m.reason == NOT_DECLARED] == []


CATALOG = """\
schema: 1
kind: captured
model: {name: net, package: local==1, config: net, params: 0, fused: false}
input: {shapes: [[1, 3, 8, 8]], dtype: bfloat16}
capture: {torch: 2.14.1, level: torch, device: meta, guessed: 0}
counts: {calls: 10, cases: 4}
placement: {dtype: bfloat16, layout: tile, memory: dram, output_memory: same}
ops:
  aten.item.default:
  - {n: 2, in: {self: []}, out: [], at: head}
  - {n: 1, in: {self: [1]}, out: [], at: head}
  aten.frobnicate.default:
  - {n: 4, in: {self: [3]}, out: [3], at: head}
  aten.relu.default:
  - {n: 3, in: {self: [1, 3]}, out: [1, 3], at: head}
"""


def test_missing_on_the_command_line(tmp_path: Path) -> None:
    """10 calls in 4 lines, of which one line with 3 calls is a case."""
    file = tmp_path / "net.yaml"
    file.write_text(CATALOG)
    arguments = ["--missing", "--catalog", str(file)]
    answer = json.loads(CliRunner().invoke(cli, ["operators", *arguments, "--json"], catch_exceptions=False).output)
    share = {"calls": 10, "mapped_calls": 3, "lines": 4, "mapped_lines": 1}
    assert (answer["total"], answer["levels"]) == (share, {"torch": share})
    assert [(m["overload"], m["calls"], m["lines"], m["models"]) for m in answer["missing"]] == [
        ("aten.frobnicate.default", 4, 1, ["local/net"]),
        ("aten.item.default", 3, 2, ["local/net"]),
    ]
    lines = CliRunner().invoke(cli, ["operators", *arguments], catch_exceptions=False).output.splitlines()
    assert lines[1].split() == ["aten.frobnicate.default", "4", "1", "1", *NOT_DECLARED.split()]
    assert lines[-2:] == [
        "mapped: 3 of 10 calls (30.00%), 1 of 4 lines",
        "  torch level: 3 of 10 calls (30.00%), 1 of 4 lines",
    ]


RECORDED = (
    {"op": "ttnn.relu", "in": [[[32, 64], "BFLOAT16", "TILE", "DRAM", "INTERLEAVED", None, 0]]},
    {"op": "ttnn.frobnicate", "in": [[[32, 64], "BFLOAT16", "TILE", "DRAM", "INTERLEAVED", None, 0]]},
    {"op": "ttnn.deallocate", "in": [[[32, 64], "BFLOAT16", "TILE", "DRAM", "INTERLEAVED", None, 0]]},
)


def test_missing_functions_of_a_recording(tmp_path: Path) -> None:
    """Twice the same three calls, of which one is a case: as a file, and in a folder."""
    folder = tmp_path / "recordings"
    folder.mkdir()
    lines = [json.dumps({"i": i, **call, "out": call["in"], "ev": [], "programs": []}) for i, call in enumerate(RECORDED * 2)]
    file = folder / "port.jsonl"
    file.write_text("\n".join(lines) + "\n")
    answers = [
        json.loads(CliRunner().invoke(cli, ["operators", "--missing", str(path), "--json"], catch_exceptions=False).output)
        for path in (file, folder)
    ]
    share = {"calls": 6, "mapped_calls": 2, "lines": 5, "mapped_lines": 1}
    assert answers[0] == answers[1]
    assert (answers[0]["total"], answers[0]["levels"]) == (share, {"recorded": share})
    assert [(m["overload"], m["calls"], m["models"], m["reason"]) for m in answers[0]["missing"]] == [
        ("ttnn.deallocate", 2, ["port"], "frees a tensor: nothing is allocated"),
        ("ttnn.frobnicate", 2, ["port"], "no operator here makes this call"),
    ]


def test_a_recording_goes_with_missing_alone(tmp_path: Path) -> None:
    file = tmp_path / "port.jsonl"
    file.write_text("{}\n")
    for arguments in ([str(file)], ["--missing", "--catalog", "x", str(file)]):
        done = CliRunner().invoke(cli, ["operators", *arguments])
        assert (done.exit_code, "a recording goes with --missing, and without --catalog" in done.output) == (2, True)
