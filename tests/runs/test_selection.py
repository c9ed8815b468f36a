"""Comparing runs of different selections: what one left out is a note, and equal calls are compared by their placement."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ssinghal.cli import cli
from ssinghal.core.case import Source
from ssinghal.runs.change_kinds import ChangeKind
from ssinghal.runs.diff import Changes
from ssinghal.runs.diff_text import lines, markdown
from ssinghal.runs.reader import read_run
from tests.support.processes import catalog_text
from tests.support.run_builder import a_record, write_run

ONE, OTHER = "20260101T000000.000000Z", "20260202T000000.000000Z"
ALL = {"catalogs": [], "operators": [], "memory": None, "max_bytes": None, "per_operator": None}


def compared(folder: Path, before: Sequence[Any], after: Sequence[Any], one: dict[str, Any], other: dict[str, Any]) -> Changes:
    """Two runs of these records with these options of ``run``."""
    runs = [
        read_run(write_run(folder, records, run, options={**ALL, **options}))
        for records, run, options in ((before, ONE, one), (after, OTHER, other))
    ]
    return Changes.of(*runs)


def of(catalog: str, op: str = "relu", count: int = 0, altered: Sequence[str] | None = None, **fields: Any) -> dict[str, Any]:
    """A record of a call of this catalog. ``altered``: what the options of its run changed, None where it does not state that,
    as in an earlier version."""
    made = a_record(op, sources=[Source(catalog, "m/a" if count else "", "8x8" if count else "", count)], **fields)
    return made if altered is None else {**made, "altered": list(altered)}


def linear(altered: Sequence[str] | None = None, weights: str | None = "bfloat8_b") -> dict[str, Any]:
    operands = {"operands": [None, {"dtype": weights}]} if weights else {}
    return of("c8", "linear", altered=altered, inputs=[[32, 64], [64, 32]], **operands)


def convolution(altered: Sequence[str] | None = None) -> dict[str, Any]:
    attrs = {"stride": [1, 1], "padding": [1, 1], "weights_dtype": "bfloat8_b"}
    return of("c8", "conv2d", altered=altered, inputs=[[1, 32, 16, 16], [32, 32, 3, 3]], attrs=attrs)


IN_PLACE, IN_DTYPE = "placed operands in the memory of the call", "had operands in the dtype of the call"
BOTH = of("c8", "tanh")  # a record that both runs have


@pytest.mark.parametrize(
    ("record", "one", "other", "note"),
    [
        (of("c6"), {}, {"catalogs": ["c8"]}, "did not select these catalogs: c6"),
        (of("c6"), {"catalogs": ["c6", "c8"]}, {"catalogs": ["crossed/c8"]}, "did not select these catalogs: c6"),
        (of("m6", count=2), {}, {"catalogs": ["crossed/"]}, "did not select these catalogs: m6"),
        (of("mine"), {"catalogs": ["mine.yaml", "c8"]}, {}, "did not select these catalogs: mine"),
        (of("mine"), {"catalogs": ["lists/", "c8"]}, {}, "did not select these catalogs: mine"),
        (of("c8"), {}, {"operators": ["tanh", "exp"]}, "did not select these operators: relu"),
        (of("c8"), {"memory": "l1"}, {"memory": "dram"}, "placed operands in dram"),
        (of("c8"), {}, {"placements": ["dram", "l1:height"]}, "placed operands in dram, l1:height"),
        (of("c8"), {"memory": "l1"}, {"placements": ["dram"]}, "placed operands in dram"),
        (linear(weights=None), {}, {"weights": "bfloat8_b"}, "had weights in bfloat8_b"),
        (linear(weights="float32"), {}, {"weights": "bfloat8_b"}, "had weights in bfloat8_b"),
        (convolution(), {}, {"weights": "bfloat4_b"}, "had weights in bfloat4_b"),
        *(
            (record, {"weights": "bfloat8_b"}, {}, "had weights in the dtype of the call")
            for record in (linear(), linear(["weights"]), convolution(["weights"]), convolution())
        ),
        (linear(["memory", "weights"]), {"weights": "bfloat8_b", "placements": ["l1"]}, {}, IN_PLACE),
        (linear(["weights"]), {"weights": "bfloat8_b", "placements": ["l1"]}, {}, "had weights in the dtype of the call"),
        (of("c8", altered=["memory"]), {"placements": ["dram", "l1"]}, {}, IN_PLACE),
        (of("c8", altered=["dtype", "memory"]), {"placements": ["l1"], "dtypes": ["bfloat16"]}, {}, IN_PLACE),
        (of("c8", memory="l1:height", altered=["memory"]), {"placements": ["dram", "l1:height"]}, {}, IN_PLACE),
        (of("c8"), {"placements": ["dram", "l1"]}, {}, IN_PLACE),  # of an earlier version
        (of("c8", altered=[]), {"placements": ["dram", "l1"]}, {"placements": ["dram"]}, "placed operands in dram"),
        (of("c8", dtype="bfloat8_b", altered=["dtype"]), {"dtypes": ["bfloat8_b"]}, {}, IN_DTYPE),
        (of("c8", dtype="bfloat8_b", altered=["dtype"]), {"dtypes": ["bfloat8_b"], "placements": ["l1"]}, {}, IN_DTYPE),
        (
            of("c8", dtype="bfloat8_b", altered=[]),
            {"dtypes": ["bfloat8_b"]},
            {"dtypes": ["bfloat16"]},
            "had operands in bfloat16",
        ),
        (of("c8", dtype="bfloat8_b"), {}, {"dtypes": ["bfloat16"]}, "had operands in bfloat16"),
        (of("c8", dtype="bfloat8_b"), {"dtypes": ["bfloat16", "bfloat8_b"]}, {}, "had operands in the dtype of the call"),
        (
            of("c8", dtype="float32"),
            {"dtypes": ["float32"]},
            {"dtypes": ["bfloat16", "bfloat8_b"]},
            "had operands in bfloat16, bfloat8_b",
        ),
        # [1, 64, 640, 400] in bfloat16 is 32,768,000 B
        (of("c8"), {}, {"max_bytes": 32_767_999}, "left out operands of more than 32,767,999 B"),
        (of("c8"), {}, {"per_operator": 4}, "took a sample of 4 of each operator"),
        (of("c8"), {"per_operator": 8}, {"per_operator": 4}, "took a sample of 4 of each operator"),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_what_the_other_run_did_not_select_is_a_note(tmp_path, record, one, other, note, turned):
    runs = [([record, BOTH], one), ([BOTH], other)]
    (before, one), (after, other) = reversed(runs) if turned else runs
    changes = compared(tmp_path, before, after, one, other)
    assert (changes.found, changes.cases, changes.placements) == ((), 1, ())
    assert changes.notes == (f"{ONE if turned else OTHER} {note}; 1 case not compared",)


@pytest.mark.parametrize(
    ("record", "one", "other"),
    [
        (of("c6"), {}, {}),
        (of("c6"), {}, {"catalogs": ["c6", "c8"]}),
        (of("c6"), {}, {"catalogs": ["crossed/"]}),
        (of("m6", count=2), {}, {"catalogs": ["captured/", "c8"]}),
        (of("c6"), {"catalogs": ["c6", "c8"]}, {}),  # all built-in ones
        (of("c8"), {"catalogs": ["c8"]}, {"catalogs": ["./c8.yaml"]}),  # its records are from there
        (of("mine"), {"catalogs": ["mine.yaml"]}, {"catalogs": ["mine.yaml"]}),
        (of("c8"), {"operators": ["relu"]}, {"operators": ["relu", "tanh"]}),
        (of("c8"), {"memory": "dram"}, {"memory": "l1"}),
        (of("c8"), {}, {"max_bytes": 32_768_000}),
        (of("c8"), {}, {"dtypes": ["bfloat16", "bfloat8_b"]}),
        (of("c8", dtype="uint32"), {}, {"dtypes": ["bfloat16"]}),  # integers keep their dtype
        (of("c8", dtype="uint32"), {"dtypes": ["bfloat8_b"]}, {}),
        (of("c8", layout="row_major"), {}, {"dtypes": ["bfloat8_b"]}),  # rows have no blocks
        (of("c8"), {"dtypes": ["bfloat8_b"]}, {"dtypes": ["bfloat16"]}),
        (of("c8"), {"per_operator": 4}, {"per_operator": 4, "operators": ["relu", "tanh"]}),
        # what the catalog has in this dtype, memory and weights, the other run had as well
        (of("c8", dtype="bfloat8_b", altered=[]), {"dtypes": ["bfloat16", "bfloat8_b"]}, {}),
        (of("c8", dtype="bfloat8_b", altered=["memory"]), {"dtypes": ["bfloat8_b"]}, {}),
        (of("c8", altered=[]), {"placements": ["dram", "l1"]}, {}),
        (of("c8", altered=["dtype"]), {"placements": ["dram", "l1"]}, {}),
        (of("c8", memory="l1:height", altered=[]), {"placements": ["dram", "l1:height"]}, {}),
        (of("c8", dtype="bfloat8_b", altered=[]), {"dtypes": ["bfloat8_b"], "placements": ["l1"]}, {}),
        (of("c8", altered=["memory"]), {"placements": ["dram", "l1"]}, {"placements": ["l1", "l1:height"]}),
        (linear([]), {"weights": "bfloat8_b"}, {}),
        (convolution([]), {"weights": "bfloat8_b"}, {}),
        (linear(), {}, {"weights": "bfloat8_b"}),
        # calls without weights of their own
        (of("c8"), {}, {"weights": "bfloat8_b"}),
        (of("c8"), {"weights": "bfloat8_b"}, {}),
        (of("c8", altered=[]), {"weights": "bfloat8_b"}, {"weights": "bfloat4_b"}),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_what_it_selected_and_did_not_try_is_a_lost_fit_or_a_new_case(tmp_path, record, one, other, turned):
    runs = [([record, BOTH], one), ([BOTH], other)]
    (before, one), (after, other) = reversed(runs) if turned else runs
    changes = compared(tmp_path, before, after, one, other)
    (change,) = changes.found
    found = (change.kind, change.op, change.before if turned else change.after)
    assert found == ((ChangeKind.NEW_CASE, record["op"], "") if turned else (ChangeKind.LOST_FIT, record["op"], "no record"))
    assert changes.notes == ()


def test_without_known_options_nothing_is_excused(tmp_path):
    runs = [read_run(write_run(tmp_path, records, run)) for records, run in (([of("c6"), BOTH], ONE), ([BOTH], OTHER))]
    assert [c.kind for c in Changes.of(*runs).found] == [ChangeKind.LOST_FIT]


def test_other_tests_of_pytest_are_a_note(tmp_path):
    options = {"catalog": [], "op": [], "memory": None, "max-bytes": None, "sample": None}
    runs = [
        read_run(write_run(tmp_path, records, run, options={**options, **given}))
        for records, run, given in (([of("c8"), BOTH], ONE, {}), ([BOTH], OTHER, {"keyword": "tanh", "tests": ["a.py"]}))
    ]
    assert Changes.of(*runs).notes == (f"{OTHER} ran other tests (tanh a.py); 1 case not compared",)


def test_many_names_are_cut_and_cases_counted(tmp_path):
    changes = compared(tmp_path, [*(of(f"a{i}", shape=(1, i)) for i in range(1, 8)), BOTH], [BOTH], {}, {"catalogs": ["c8"]})
    assert changes.notes == (f"{OTHER} did not select these catalogs: a1, a2, a3, a4, a5 and 2 more; 7 cases not compared",)


def test_only_a_memory_that_was_requested_makes_placements(tmp_path):
    """A catalog that places a call elsewhere since the earlier run lost its fit."""
    before, after = [BOTH, of("c8")], [BOTH, of("c8", memory="dram")]
    changes = compared(tmp_path, before, after, {}, {})
    assert [c.kind for c in changes.found] == [ChangeKind.LOST_FIT, ChangeKind.NEW_CASE]
    assert changes.placements == ()
    told = compared(tmp_path / "told", before, after, {}, {"memory": "dram"})
    assert (told.found, [(c.before.key, c.after.key) for c in told.placements]) == ((), [(before[1]["key"], after[1]["key"])])


DRAM = {"memory": "dram"}


@pytest.mark.parametrize(
    ("before", "after", "one", "other", "heading"),
    [
        ([BOTH], [BOTH], {}, {}, "no change"),
        ([of("c8")], [of("c8", memory="dram")], {}, DRAM, "compared by placement: 1 call"),
        ([BOTH, of("c8")], [BOTH, of("c8", memory="dram")], {}, DRAM, "no change; compared by placement: 1 call"),
        ([of("c8")], [of("c8", memory="dram")], {}, {}, "1 lost-fit, 1 new-case"),
        ([of("c6")], [BOTH], {"catalogs": ["c6"]}, {"catalogs": ["c8"]}, "nothing in common: no case was compared"),
    ],
)
def test_the_heading_says_what_was_compared(tmp_path, before, after, one, other, heading):
    changes = compared(tmp_path, before, after, one, other)
    assert next(lines(changes)) == f"{ONE} → {OTHER}: {heading}"
    assert f"- {heading}" in markdown(changes).splitlines()


# Real runs -----------------------------------------------------------------------------------------------------------------

# Tiles of 2,048 B in 64 banks of L1 (1,393,312 B) and 12 of DRAM (1,072,693,184 B), operand and result of relu:
FITS = [1, 64, 640, 400]  # 64 * 20 * 13 tiles: 260 a bank of L1, twice 532,480 B
LARGE = [1, 32, 1280, 800]  # 32 * 40 * 25: 500 a bank of L1, twice 1,024,000 B; 2,667 a bank of DRAM
LARGER = [1, 64, 1280, 800]  # 1,000 a bank of L1
NOWHERE = [8, 8192, 8192, 64]  # 8 * 8192 * 256 * 2: 2,796,203 a bank of DRAM, 5,726,623,744 B
RELU = {"relu": [{"shape": shape} for shape in (FITS, LARGE, LARGER, NOWHERE)]}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Runs on the virtual device: relu in dram and in l1, another catalog besides, one shape more, another board."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "relu.yaml").write_text(catalog_text(RELU, memory="l1"))
    (folder / "tanh.yaml").write_text(catalog_text({"tanh": [{"shape": FITS}, {"shape": LARGE}]}, memory="l1"))
    made = {}
    for name, arguments in {
        "dram": ["relu.yaml", "--memory", "dram"],
        "l1": ["relu.yaml"],
        "both": ["relu.yaml", "tanh.yaml"],
        "tanh": ["tanh.yaml"],
        "p150": ["relu.yaml", "--board", "p150"],
        "small": ["relu.yaml", "--max-bytes", "40000000"],
    }.items():
        paths = [str(folder / text) if text.endswith(".yaml") else text for text in arguments]
        done = CliRunner().invoke(cli, ["run", *paths, "--device", "virtual", "--results", str(folder / name)])
        assert done.exit_code == 0, done.output
        made[name] = (folder / name / "latest").resolve()
    return made


def compare(runs: dict[str, Path], one: str, other: str, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["compare", str(runs[one]), str(runs[other]), *arguments])


@pytest.mark.virtual_device
def test_placements_of_the_same_calls(runs):
    done = compare(runs, "dram", "l1")
    assert done.exit_code == 0
    first, head, placements, title, *fits = done.stdout.splitlines()
    assert first == f"{runs['dram'].name} → {runs['l1'].name}: compared by placement: 4 calls"
    assert ": 0 cases in both" in head
    counts = "1 fit in both, 2 in dram only, 0 in l1 only, 1 in neither"
    assert placements == f"placements: 4 calls in dram before, in l1 after: {counts}"
    assert title == "fits in dram only (2):"
    assert [line.split(": ", 1)[1] for line in fits] == [
        "L1 bank needs 1,024,000 B, 369,312 B free (output)",  # 1,393,312 - 1,024,000
        "L1 bank needs 2,048,000 B, 1,393,312 B free (input 1)",
    ]
    back = compare(runs, "l1", "dram").stdout
    assert "4 calls in l1 before, in dram after: 1 fit in both, 0 in l1 only, 2 in dram only, 1 in neither" in back
    (listed,) = json.loads(compare(runs, "dram", "l1", "--json").stdout)["placements"]
    assert (listed["before"], listed["after"]) == ("dram", "l1")
    assert listed["fits"] == {"both": 1, "before": 2, "after": 0, "neither": 1}
    assert {(c["op"], c["fits"], c["before"]["status"], c["after"]["status"]) for c in listed["calls"]} == {
        ("relu", "both", "fits", "fits"),
        ("relu", "before", "fits", "oom"),
        ("relu", "neither", "oom", "oom"),
    }
    document = compare(runs, "dram", "l1", "--markdown").stdout
    assert "### Placements" in document
    assert document.count("| relu") + document.count("| `relu`") == 2


@pytest.mark.virtual_device
def test_the_whole_call_is_short_by_operands_and_results(runs):
    missing = {r.shape: (r.shortfall_bytes, r.call_shortfall_bytes) for r in read_run(runs["l1"]).records}
    assert missing[tuple(LARGE)] == (1_024_000 - 369_312, 2 * 1_024_000 - 1_393_312)
    assert missing[tuple(LARGER)] == (2_048_000 - 1_393_312, 2 * 2_048_000 - 1_393_312)
    assert missing[tuple(FITS)] == (None, None)


@pytest.mark.virtual_device
def test_another_selection_is_no_finding(runs):
    done = compare(runs, "both", "l1")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0].endswith(": no change")
    assert f"{runs['l1'].name} did not select these catalogs: tanh; 2 cases not compared" in done.stdout
    assert json.loads(compare(runs, "both", "l1", "--json").stdout)["changes"] == []
    nothing = compare(runs, "tanh", "l1")
    assert nothing.exit_code == 0
    assert nothing.stdout.splitlines()[0].endswith("Z: nothing in common: no case was compared")
    apart = json.loads(compare(runs, "tanh", "l1", "--json").stdout)
    assert (apart["cases"], apart["changes"], len(apart["notes"])) == (0, [], 2)
    small = compare(runs, "l1", "small")  # 32,768,000 B are selected, 65,536,000 B and more are not
    assert small.exit_code == 0
    assert "left out operands of more than 40,000,000 B; 3 cases not compared" in small.stdout


@pytest.mark.virtual_device
def test_the_same_failure_with_other_figures_is_changed(runs):
    """Over 110 banks of a p150: 291 tiles, 582 (two of which fit into 1,461,120 B), and operand 1,000 of 64,000 tiles."""
    done = json.loads(compare(runs, "l1", "p150", "--across", "--json").stdout)
    kinds = {kind: n for kind, n in done["counts"].items() if n}
    (change,) = [c for c in done["changes"] if c["kind"] == "changed"]
    per_bank = -(-32 * 40 * 25 * 2 // 110) * 2048
    assert kinds == {"now-fits": 1, "changed": 1}
    figures = {f["name"]: (f["before_bytes"], f["after_bytes"]) for f in change["figures"]}
    assert figures["bytes_per_bank"] == (2_048_000, per_bank)
    assert (change["before"], change["after"].partition(" (")[2]) == (
        "oom: L1 bank needs 2,048,000 B, 1,393,312 B free (input 1)",
        "output)",
    )
    assert compare(runs, "l1", "p150", "--across").exit_code == 0


@pytest.mark.virtual_device
def test_a_selected_case_without_a_record_is_a_finding(runs, tmp_path):
    """The run in L1 loses the record of its only fit; the header states four selected cases."""
    lost = tmp_path / runs["l1"].name.replace("Z", "1Z")
    lost.mkdir()
    (lost / "run.json").write_bytes((runs["l1"] / "run.json").read_bytes())
    records = (runs["l1"] / "records.jsonl").read_text().splitlines(keepends=True)
    (lost / "records.jsonl").write_text("".join(line for line in records if json.loads(line)["status"] != "fits"))
    done = CliRunner().invoke(cli, ["compare", str(runs["l1"]), str(lost)])
    assert done.exit_code == 1
    assert "1 lost-fit" in done.stderr
