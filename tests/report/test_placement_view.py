"""The placement view: where each call of a model fits, what room is left in a core, and what stops it elsewhere."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ssinghal.core.case import Source
from ssinghal.report import placement_text
from ssinghal.report.page import page_data
from ssinghal.report.placement_view import PlacementView, Stopper, placement_views
from ssinghal.report.writer import write_report
from ssinghal.runs.reader import read_run
from tests.support.run_builder import a_record, write_run

L1_BANK = 1_393_312  # bytes of an n150's L1 bank without an L1_SMALL region
MEMORIES = ("dram", "l1", "l1:height", "l1:block@8x8")
SOURCE = Source("net-8x8", "p/net", "8x8", 3)
RULE = "Height sharded inputs are not supported."


def usage(total: int) -> dict[str, Any]:
    peaks = {"circular_bytes": 0, "dataflow_bytes": 4096, "scratch_bytes": 0, "l1_small_bytes": 0, "dram_bytes": 0}
    return {"l1_bytes": total - 4096, **peaks, "l1_total_bytes": total}


def fits(
    op: str, memory: str, total: int | None, source: Source = SOURCE, altered: Sequence[str] | None = None, **fields: Any
) -> dict[str, Any]:
    record = {**a_record(op, (32, 64), memory=memory, sources=[source], **fields), "altered": altered}
    if total is None:
        return {**record, "usage": None}
    return {**record, "usage": usage(total), "resident": {"l1": total - 4096}}


def fails(op: str, memory: str, status: str, source: Source = SOURCE, **verdict: Any) -> dict[str, Any]:
    return a_record(op, (32, 64), memory=memory, status=status, verdict=verdict, sources=[source])


RECORDS = [
    fits("relu", "dram", 4096),
    fits("relu", "l1", 100_000),
    fits("relu", "l1:height", 393_312),
    fails("relu", "l1:block@8x8", "invalid", message="no shards"),
    fits("tanh", "dram", None, Source("net-8x8", "p/net", "8x8", 7)),
    fails("tanh", "l1", "oom", Source("net-8x8", "p/net", "8x8", 7), bytes_per_bank=2_000_000, bank_bytes=L1_BANK),
    fails("tanh", "l1:height", "unsupported", Source("net-8x8", "p/net", "8x8", 7), message=RULE),
    fails("tanh", "l1:block@8x8", "unsupported", Source("net-8x8", "p/net", "8x8", 7), message=RULE),
    fails("silu", "dram", "error", message="std::bad_alloc of another kind"),
    fails("silu", "l1", "oom", resource="clash", stage="program", program_bytes=9, tensor_address=8),
    fails("silu", "l1:height", "oom", resource="l1_small_buffer", bytes_per_bank=9, free_bytes=8),
    fails("silu", "l1:block@8x8", "oom", resource="circular_buffer", program_bytes=9, limit_bytes=8),
    a_record("abs", (32, 64), memory="dram"),  # of no catalog: in no row
]


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    return write_run(tmp_path, RECORDS, options={"catalogs": ["net"], "placements": list(MEMORIES)})


@pytest.fixture
def view(run_folder: Path) -> PlacementView:
    (only,) = placement_views(read_run(run_folder))
    return only


def test_calls_are_counted_as_often_as_the_model_makes_them(view):
    (model,) = view.models
    assert (model.name, model.calls) == ("p/net at 8x8 (net-8x8)", 3 + 7 + 3)
    assert [model.fitting(memory) for memory in MEMORIES] == [10, 3, 3, 0]
    assert model.sharded == 3
    assert [(row.record.op, calls) for row, calls in model.dram_alone] == [("tanh", 7)]
    assert placement_text.in_words(view.memories, model) == "3 of 13 calls fit in L1 sharded; 7 fit nowhere but DRAM:"


def test_what_stops_a_call(view):
    (model,) = view.models
    assert model.stopped("l1") == {Stopper.TENSORS: 7, Stopper.PROGRAM: 3}
    assert model.stopped("l1:height") == {Stopper.RULE: 7, Stopper.L1_SMALL: 3}
    assert model.stopped("l1:block@8x8") == {Stopper.RULE: 10, Stopper.PROGRAM: 3}
    assert model.stopped("dram") == {Stopper.NO_VERDICT: 3}
    ((tanh, _),) = model.dram_alone
    assert tanh.reasons == (
        f"l1: tensors: L1 bank needs 2,000,000 B of a bank of {L1_BANK:,} B (output); l1:height, l1:block@8x8: rule: {RULE}"
    )


def test_the_headroom_is_the_rest_of_the_bank_at_the_peak(view):
    (model,) = view.models
    relu = next(row for row, _ in model.rows if row.record.op == "relu")
    assert relu.placed["l1:height"].headroom_bytes == 1_000_000  # 1,393,312 - 393,312
    tanh = next(row for row, _ in model.rows if row.record.op == "tanh")
    assert (tanh.placed["dram"].headroom_bytes, tanh.placed["dram"].room) == (None, "unknown")
    assert model.least_room("l1").room == f"{L1_BANK - 100_000:,} B"
    assert model.least_room("l1:block@8x8") is None


@pytest.mark.parametrize(
    ("fields", "room"),
    [
        ({}, "1,000,000 B"),
        ({"ttnn": "0.75.0"}, "unknown"),  # it reports no dataflow buffers
        ({"l1_small_size": 32768}, "967,232 B"),  # of a bank of 1,360,544 B
    ],
)
def test_what_is_known_of_the_headroom(tmp_path, fields, room):
    records = [fits("relu", "dram", 4096, **fields), fits("relu", "l1:height", 393_312, **fields)]
    (view,) = placement_views(read_run(write_run(tmp_path, records, options={"catalogs": [], "placements": MEMORIES[:3]})))
    assert view.models[0].rows[0][0].placed["l1:height"].room == room


@pytest.mark.parametrize(
    ("op", "inputs", "resident"),
    [
        ("softmax", [[32, 64]], 100_000),  # an intermediate tensor was in L1 too
        ("linear", [[32, 64], [64, 64]], 389_216),  # TTNN chooses its blocks
        ("convolution", [[1, 32, 8, 8], [32, 32, 1, 1]], 389_216),
    ],
)
def test_where_the_headroom_is_not_known(tmp_path, op, inputs, resident):
    calls = [a_record(op, inputs=inputs, memory=memory, sources=[SOURCE]) for memory in MEMORIES]
    records = [{**record, "usage": usage(393_312), "resident": {"l1": resident}} for record in calls]
    (view,) = placement_views(read_run(write_run(tmp_path, records, options={"catalogs": [], "placements": list(MEMORIES)})))
    assert {placed.room for row, _ in view.models[0].rows for placed in row.placed.values()} == {"unknown"}


def test_calls_of_a_sweep_count_once_each(tmp_path):
    sweep = Source("mine", count=0)
    records = [fits("relu", "dram", 4096, sweep), fits("relu", "l1:height", 4096, sweep)]
    (view,) = placement_views(
        read_run(write_run(tmp_path, records, options={"catalogs": [], "placements": ["dram", "l1:height"]}))
    )
    assert [(model.name, model.calls, model.sharded) for model in view.models] == [("mine", 1, 1)]


def test_a_convolution_whose_map_comes_in_tiles_where_it_is_sharded_is_one_call(tmp_path):
    call: dict[str, Any] = {"inputs": [[1, 32, 8, 8], [32, 32, 1, 1]], "sources": [SOURCE]}
    tiles = {"layout": "tile"}
    records = [
        a_record("convolution", memory="dram", **call),
        a_record("convolution", memory="l1:height", operands=[tiles], **call),
    ]
    (view,) = placement_views(
        read_run(write_run(tmp_path, records, options={"catalogs": [], "placements": ["dram", "l1:height"]}))
    )
    assert [(model.calls, len(model.rows), model.sharded) for model in view.models] == [(3, 1, 3)]


BOTH = ["bfloat16", "bfloat8_b"]
# The model makes 3 + 2 calls: 3 in bfloat16, which bfloat8_b replaces where it can, and 2 that a block float cannot have.
INDICES = Source("net-8x8", "p/net", "8x8", 2)
IN_TWO_DTYPES = [
    fits("relu", "dram", 4096),
    fails("relu", "l1", "oom", bytes_per_bank=2_000_000, bank_bytes=L1_BANK),
    fits("relu", "dram", 4096, dtype="bfloat8_b", altered=["dtype"]),
    fits("relu", "l1", 393_312, dtype="bfloat8_b", altered=["dtype"]),
]
INTEGERS = [fits("abs", memory, 4096, INDICES, dtype="int32", altered=[]) for memory in ("dram", "l1")]
ROWS = [fits("abs", memory, 4096, INDICES, layout="row_major", altered=[]) for memory in ("dram", "l1")]
ROWS_OF_FLOATS = [
    fits("abs", memory, 4096, INDICES, layout="row_major", dtype="float32", altered=[]) for memory in ("dram", "l1")
]
MADE_ROWS = [fits("abs", memory, 4096, INDICES, layout="row_major", altered=["dtype"]) for memory in ("dram", "l1")]


@pytest.mark.parametrize(
    ("unchanged", "own"),
    [
        (INTEGERS, ["int32", "int32"]),
        (ROWS, ["bfloat16", "bfloat16"]),
        ([*ROWS_OF_FLOATS, *MADE_ROWS], ["bfloat16", "float32"]),  # in bfloat8_b the rows stay those of the catalog
    ],
    ids=["integers", "rows", "rows of floats"],
)
def test_a_run_in_several_dtypes_has_a_view_of_each_with_all_calls_of_the_model(tmp_path, unchanged, own):
    options = {"catalogs": [], "placements": ["dram", "l1"], "dtypes": BOTH}
    folder = write_run(tmp_path, [*IN_TWO_DTYPES, *unchanged], options=options)
    views = placement_views(read_run(folder))
    assert [view.dtype for view in views] == BOTH
    assert [[(model.calls, len(model.rows)) for model in view.models] for view in views] == [[(3 + 2, 2)]] * 2
    assert [view.models[0].fitting("l1") for view in views] == [2, 5]
    assert [[(row.text, calls) for row, calls in view.models[0].rows] for view in views] == [
        [("relu [32,64] bfloat16", 3), (f"abs [32,64] {own[0]}", 2)],
        [("relu [32,64] bfloat8_b", 3), (f"abs [32,64] {own[1]}", 2)],
    ]


def test_all_outputs_of_the_view_tell_the_dtypes_apart(tmp_path):
    run = read_run(write_run(tmp_path, IN_TWO_DTYPES, options={"catalogs": [], "placements": ["dram", "l1"], "dtypes": BOTH}))
    write_report(run, tmp_path / "report")
    views = json.loads((tmp_path / "report" / "placements.json").read_text())["views"]
    assert [(view["dtype"], view["models"][0]["calls"], view["models"][0]["fit_in_dram_alone"]) for view in views] == [
        ("bfloat16", 3, 3),
        ("bfloat8_b", 3, 0),
    ]
    assert [[row["dtype"] for row in view["models"][0]["rows"]] for view in views] == [["bfloat16"], ["bfloat8_b"]]
    text = (tmp_path / "report" / "placements.md").read_text()
    rows = [line.split(" | ")[1] for line in text.splitlines() if line.startswith("| 3 |")]
    assert rows == ["`relu [32,64] bfloat16`", "`relu [32,64] bfloat8_b`"]
    titles = [line for line in text.splitlines() if line.startswith("## ")]
    assert [title.rpartition(" ")[2] for title in titles] == ["bfloat16", r"bfloat8\_b"]
    models = page_data(run)["groups"][0]["placements"]["models"]
    assert [(model["dtype"], model["calls"], model["rows"][0][2]) for model in models] == [
        ("bfloat16", 3, "relu [32,64] bfloat16"),
        ("bfloat8_b", 3, "relu [32,64] bfloat8_b"),
    ]
    lines = placement_text.summary(placement_views(run))
    assert [line.partition(": ")[0] for line in lines if line.startswith("p/net")] == [
        "p/net at 8x8 (net-8x8), operands in bfloat16",
        "p/net at 8x8 (net-8x8), operands in bfloat8_b",
    ]
    assert [line.strip() for line in lines if "relu" in line] == [
        f"3 x relu [32,64] bfloat16: l1: tensors: L1 bank needs 2,000,000 B of a bank of {L1_BANK:,} B (output)"
    ]


@pytest.mark.parametrize("dtypes", [{}, {"dtypes": []}, {"dtypes": ["bfloat16"]}])
def test_a_run_in_one_dtype_does_not_name_it(tmp_path, dtypes):
    run = read_run(write_run(tmp_path, RECORDS, options={"catalogs": [], "placements": list(MEMORIES), **dtypes}))
    (view,) = placement_views(run)
    assert not any("bfloat16" in text for text in [json.dumps(view.to_json()), placement_text.document(run, [view])])


@pytest.mark.parametrize(
    ("placements", "words"),
    [
        (["dram", "l1"], "3 of 3 calls fit nowhere but DRAM"),
        (["dram", "l1", "l1:height"], "0 of 3 calls fit in L1 sharded; 3 fit nowhere but DRAM"),
        (["l1", "l1:height"], "0 of 3 calls fit in L1 sharded"),
        (["dram", "dram:height@2"], ""),
        (["dram"], ""),
    ],
)
def test_only_placements_that_were_tried_are_counted(tmp_path, placements, words):
    tried = [
        fits("relu", memory, 4096) if memory.startswith("dram") else fails("relu", memory, "oom", bytes_per_bank=2_000_000)
        for memory in placements
    ]
    run = read_run(write_run(tmp_path, tried, options={"catalogs": [], "placements": placements}))
    (view,) = placement_views(run)
    lines = [line.strip().rstrip(":") for line in placement_text.summary([view])]
    assert [line for line in lines if "fit in L1" in line or "fit nowhere" in line] == ([words] if words else [])
    document = placement_text.document(run, [view])
    assert [line for line in document.splitlines() if "fit in L1" in line or "fit nowhere" in line] == (
        [f"{words}."] if words else []
    )
    assert page_data(run)["groups"][0]["placements"]["models"][0]["text"] == words


@pytest.mark.parametrize("options", [{}, {"catalogs": [], "memory": "l1"}, {"catalogs": [], "placements": []}])
def test_only_a_run_in_several_placements_has_the_view(tmp_path, options):
    folder = write_run(tmp_path, RECORDS, options=options)
    run = read_run(folder)
    assert placement_views(run) == ()
    assert {group["placements"] for group in page_data(run)["groups"]} == {None}
    write_report(run, tmp_path / "report")
    assert not list((tmp_path / "report").glob("placements.*"))


def test_the_next_report_without_the_view_removes_its_files(run_folder, tmp_path):
    write_report(read_run(run_folder), tmp_path / "report")
    assert len(list((tmp_path / "report").glob("placements.*"))) == 2
    other = read_run(write_run(tmp_path / "other", RECORDS, options={"catalogs": []}))
    write_report(other, tmp_path / "report")
    assert not list((tmp_path / "report").glob("placements.*"))


def test_the_files_of_the_report(run_folder, tmp_path):
    run = read_run(run_folder)
    write_report(run, tmp_path / "report")
    data = json.loads((tmp_path / "report" / "placements.json").read_text())
    (model,) = data["views"][0]["models"]
    assert (data["run"], data["views"][0]["placements"]) == (run.id, list(MEMORIES))
    assert (model["calls"], model["fit_in_l1_sharded"], model["fit_in_dram_alone"]) == (13, 3, 7)
    relu = next(row for row in model["rows"] if row["op"] == "relu")
    height = relu["placements"]["l1:height"]
    assert (height["fits"], height["headroom_bytes"]) == (True, 1_000_000)
    assert relu["placements"]["l1:block@8x8"]["stopped_by"] == "rule"
    text = (tmp_path / "report" / "placements.md").read_text()
    assert "| 7 | `tanh [32,64]` |" in text
    assert "| `l1:height` | 3 |" in text


def test_the_summary_of_a_run_names_the_calls_that_fit_in_dram_alone(view):
    lines = placement_text.summary([view])
    assert lines[0] == "p/net at 8x8 (net-8x8): 13 calls in 3 cases; how many fit where, and what stops the others:"
    assert any(line.split()[:2] == ["l1:height", "3"] for line in lines)
    assert lines[-1].startswith("    7 x tanh [32,64]: l1: tensors: ")


def test_the_page_has_the_view(view, run_folder):
    (group,) = page_data(read_run(run_folder))["groups"]
    assert group["placements"]["memories"] == list(MEMORIES)
    (model,) = group["placements"]["models"]
    assert model["fit"] == [10, 3, 3, 0]
    names = {name for _, _, _, placed in model["rows"] for name, *_ in filter(None, placed)}
    assert names == {f"{r['op']}:{r['key']}" for r in RECORDS if r["op"] != "abs"}
