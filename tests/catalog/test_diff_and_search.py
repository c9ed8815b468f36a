"""What differs between two catalogs, and where a shape comes from."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ssinghal.catalog.crossed import CrossedCatalog, ShapeOrigin
from ssinghal.catalog.diff import compare
from ssinghal.catalog.loader import load_catalog, load_catalogs
from ssinghal.catalog.schema import Catalog
from ssinghal.catalog.search import ShapeMatches, find
from ssinghal.cli import cli
from ssinghal.core.parsing import parse_shape
from ssinghal.core.shape_pattern import parse_pattern
from ssinghal.core.tensors import Shape
from ssinghal.errors import InvalidCase

DATA = Path(__file__).parents[1] / "data"
SEEDS = Path(__file__).parents[2].parent / "shared/seeds"


def run(*args: str) -> Result:
    return CliRunner().invoke(cli, ["catalog", *args])


# Two captures -------------------------------------------------------------------------------------------------------------

OLD = """\
schema: 1
kind: captured
model: {name: net, package: local==1, config: net, params: 7, fused: false}
input: {shapes: [[1, 3, 8, 8]], dtype: bfloat16}
capture: {torch: 2.7.1, level: aten, device: meta, guessed: 0}
counts: {calls: 17, cases: 6, left_out: {constants: 2}}
placement: {dtype: bfloat16, layout: tile, memory: dram, output_memory: same}
ops:
  aten.convolution.default:
  - {n: 1, in: {input: [1, 3, 8, 8], weight: [4, 3, 1, 1]}, w: [weight], args: {stride: 1, groups: 1}, out: [1, 4, 8, 8], at: a}
  aten.relu.default:
  - {n: 2, in: {self: [1, 4, 8, 8]}, out: [1, 4, 8, 8], at: a}
  - {n: 3, in: {self: [1, 5, 8, 8]}, out: [1, 5, 8, 8], at: b}
  - {n: 4, in: {self: [1, 6, 8, 8]}, dtypes: {self: float32}, out: [1, 6, 8, 8], at: c}
  - {n: 5, in: {self: [1, 7, 8, 8]}, out: [1, 7, 8, 8], at: d}
  aten.silu_.default:
  - {n: 2, in: {self: [1, 4, 8, 8]}, out: [1, 4, 8, 8], at: a}
"""
NEW = (
    OLD.replace("local==1", "local==2")
    .replace("2.7.1", "2.14.1")
    .replace("guessed: 0", "guessed: 1, guesses: {head: 1}")
    .replace(", left_out: {constants: 2}", "")
    .replace("n: 3", "n: 5")
    .replace("at: d", "at: e")
    .replace("{self: float32}", "{self: int32}")
    .replace("calls: 17", "calls: 19")
    .replace("silu_", "silu")
)


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("old.yaml").write_text(OLD)
    Path("new.yaml").write_text(NEW)


@pytest.mark.usefixtures("two")
def test_diff() -> None:
    result = run("diff", "old.yaml", "new.yaml")
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "model.package: local==1 -> local==2",
        "capture.torch: 2.7.1 -> 2.14.1",
        "capture.guessed: 0 -> 1",
        "counts.calls: 17 -> 19",
        "counts.left_out.constants: 2 -> -",
        "capture.guesses.head: - -> 1",
        "aten.relu.default",
        "  ~ 3x -> 5x [1,5,8,8] -> [1,5,8,8]",
        "  - 4x [1,6,8,8] self:float32 -> [1,6,8,8]",
        "  + 4x [1,6,8,8] self:int32 -> [1,6,8,8]",
        "aten.silu.default",
        "  + 2x [1,4,8,8] -> [1,4,8,8]",
        "aten.silu_.default",
        "  - 2x [1,4,8,8] -> [1,4,8,8]",
        "2 lines appeared, 2 vanished, 1 changed count, 1 made by other modules",
    ]


@pytest.mark.usefixtures("two")
def test_diff_the_other_way_round_is_its_mirror() -> None:
    forth, back = (
        json.loads(run("diff", *pair, "--json").stdout) for pair in (["old.yaml", "new.yaml"], ["new.yaml", "old.yaml"])
    )
    mirror = {"appeared": "vanished", "vanished": "appeared", "count": "count"}
    assert [(c["operator"], mirror[c["change"]], c["new"], c["old"], c["call"]) for c in forth["calls"]] == [
        (c["operator"], c["change"], c["old"], c["new"], c["call"]) for c in back["calls"]
    ]
    assert {(h["key"], str(h["new"]), str(h["old"])) for h in forth["head"]} == {
        (h["key"], str(h["old"]), str(h["new"])) for h in back["head"]
    }
    assert (forth["equal"], forth["moved"], back["moved"]) == (False, 1, 1)
    assert forth["calls"][0] == {
        "operator": "aten.relu.default",
        "change": "count",
        "old": 3,
        "new": 5,
        "call": {"in": {"self": [1, 5, 8, 8]}, "out": [[1, 5, 8, 8]]},
    }


@pytest.mark.usefixtures("two")
def test_equal_catalogs() -> None:
    """Order of lines and of keys is no difference."""
    head, lines = OLD.split("  aten.relu.default:\n")
    relu = [line for line in lines.splitlines(keepends=True) if "silu" not in line]
    swapped = [
        line.replace("in: {self: [1, 5, 8, 8]}, out: [1, 5, 8, 8]", "out: [1, 5, 8, 8], in: {self: [1, 5, 8, 8]}")
        for line in relu
    ]
    text = head.replace("stride: 1, groups: 1", "groups: 1, stride: 1")
    silu = "  aten.silu_.default:\n" + relu[-1]
    Path("new.yaml").write_text(
        text.replace("  aten.convolution", silu + "  aten.convolution")
        + "  aten.relu.default:\n"
        + "".join(reversed(swapped[:-1]))
    )
    result = run("diff", "old.yaml", "new.yaml")
    assert (result.exit_code, result.stdout) == (0, "0 lines appeared, 0 vanished, 0 changed count\n")
    assert json.loads(run("diff", "old.yaml", "new.yaml", "--json").stdout) == {
        "equal": True,
        "head": [],
        "calls": [],
        "moved": 0,
    }


def test_long_differences_are_cut_unless_all_are_requested() -> None:
    small, large = "ultralytics-yolo12x-2176x3840", "ultralytics-yolo12x-4320x7680"
    short, full = run("diff", small, large).stdout.splitlines(), run("diff", small, large, "--all").stdout.splitlines()
    assert short[-1] == full[-1]
    groups = re.split(r"\n(?=aten)", "\n".join(short[:-1]))[1:]
    assert max(group.count("\n") for group in groups) == 6  # five calls and how many more
    cut = sum(int(more) for more in re.findall(r"^  and ([0-9]+) more$", "\n".join(short), re.MULTILINE))
    shown = [line for line in short if line.startswith("  ") and "more" not in line]
    assert len(shown) + cut == sum(line.startswith("  ") for line in full)


def test_shape_sweeps_compare_with_their_origins() -> None:
    difference = compare(load_catalog("crossed/yolo12x-2176x3840"), load_catalog("crossed/yolo12x-4320x7680"))
    changes = {(c.operator, c.kind, c.call.partition(" {")[0]) for c in difference.calls}
    assert changes >= {
        ("add", "appeared", "[1,96,2160,3840]"),
        ("add", "vanished", "[1,96,1088,1920]"),
        ("origins", "vanished", "[12,8160,8160]"),
    }
    assert [head.key for head in difference.heads] == ["title", "traced_with", "runs.R2"]


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (
            ["mochi", "torchvision-resnet50-1280x800"],
            "mochi is crossed, torchvision-resnet50-1280x800 is captured: only catalogs of",
        ),
        (["crossed/", "mochi"], "'crossed/' is part of 4 names of catalogs, expected one: 1280-class, "),
        (["mochii", "mochi"], "unknown catalog 'mochii'; did you mean mochi"),
        (["mochi", "no.yaml"], "no.yaml: no such file"),
    ],
)
def test_what_cannot_be_compared(names: list[str], why: str) -> None:
    result = run("diff", *names)
    assert str(result.exception).startswith(why)


# Shapes -------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def catalogs() -> list[Catalog]:
    return load_catalogs()


def found(catalogs: Sequence[Catalog], text: str) -> ShapeMatches:
    return find(catalogs, parse_pattern(text))


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("1,768,4,60,106", (1, 768, 4, 60, 106)),
        ("1x768x4", (1, 768, 4)),
        ("[1, *, 4]", (1, None, 4)),
        ("*x*", (None, None)),
        ("*", (None,)),
        ("0,3", (0, 3)),
    ],
)
def test_patterns(text: str, pattern: Any) -> None:
    assert parse_pattern(text) == pattern


@pytest.mark.parametrize("text", ["", "1,**", "1*2", "1,-2", "1,_2", "+1", "1_0", "a", "1,?", "[1"])
def test_patterns_that_are_none(text: str) -> None:
    with pytest.raises(InvalidCase, match="expected sizes like 1,64,80,80, or \\* for any"):
        parse_pattern(text)


def test_find_in_a_capture(catalogs: list[Catalog]) -> None:
    """The map that Mochi's decoder pads 18 times, as the model was traced first."""
    answer = found(catalogs, "1,768,4,60,106")
    uses = {(u.call, u.role): u for u in answer.uses if u.catalog == "diffusers-mochi-decoder-4x60x106"}
    padded = uses["aten.replication_pad3d.default", "in"]
    assert (padded.model, padded.input_size, padded.calls) == ("diffusers/mochi-decoder", "4x60x106", 18)
    assert padded.modules[0].path.startswith("decoder.block_in.resnets.0.conv1")
    assert uses["aten.convolution.default", "out"].modules[0].path == "decoder.conv_in"
    (listing,) = answer.listings
    assert listing.catalog == "mochi"
    assert "replication_pad3d" in listing.operators


@pytest.mark.parametrize(
    ("shape", "model", "call", "role", "module"),
    [
        ("12,8160,8160", "ultralytics/yolo12x at 2176x3840", "aten.bmm.default", "out", "model.8.m.0.0.attn"),
        ("1,96,2160,3840", "ultralytics/yolo12x at 4320x7680", "aten.convolution.default", "out", "model.0.conv"),
        ("64,3,7,7", "torchvision/resnet50 at 1280x800", "aten.convolution.default", "weight", "conv1"),
    ],
)
def test_find_names_model_call_role_and_module(
    catalogs: list[Catalog], shape: str, model: str, call: str, role: str, module: str
) -> None:
    assert (model, call, role, module) in [
        (f"{u.model} at {u.input_size}", u.call, u.role, u.modules[0].path) for u in found(catalogs, shape).uses
    ]


@pytest.mark.usefixtures("two")
def test_counts_are_those_of_the_lines() -> None:
    """[1,4,8,8]: once out of a convolution, twice in and out of relu, twice in and out of silu_."""
    answer = found([load_catalog("old.yaml")], "1,4,8,8")
    assert [(u.calls, u.lines, u.call, u.role, u.modules[0].path) for u in answer.uses] == [
        (2, 1, "aten.relu.default", "in", "a"),
        (2, 1, "aten.relu.default", "out", "a"),
        (2, 1, "aten.silu_.default", "in", "a"),
        (2, 1, "aten.silu_.default", "out", "a"),
        (1, 1, "aten.convolution.default", "out", "a"),
    ]
    every = found([load_catalog("old.yaml")], "1,*,8,8")
    assert {u.shape: u.calls for u in every.uses if (u.call, u.role) == ("aten.relu.default", "in")} == {
        (1, 4, 8, 8): 2, (1, 5, 8, 8): 3, (1, 6, 8, 8): 4, (1, 7, 8, 8): 5,
    }  # fmt: skip
    assert not found([load_catalog("old.yaml")], "1,4,8")


@pytest.mark.usefixtures("two")
def test_find_says_where_and_what_is_near() -> None:
    Path("list.yaml").write_text(
        "schema: 1\nkind: imported\ntitle: a list\n"
        "placement: {dtype: bfloat16, layout: tile, memory: l1, output_memory: same}\n"
        "operators:\n  cat:\n  - {in: [[1, 4, 8, 8], [1, 2, 8, 8]], args: {dim: 1}, n: 6, model: m, input: 640x640}\n"
        "  relu:\n  - {shape: [1, 4, 8, 8], n: 2}\n"
    )
    result = run("find", "1,4,8,8", "old.yaml", "list.yaml")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == "local/net at 8x8  (old)"
    assert result.stdout.splitlines()[-4:] == [
        "(no model named)  (list)",
        "      2x relu in",
        "m at 640x640  (list)",
        "      6x cat in",
    ]
    absent = run("find", "4,1,8,8", "old.yaml")
    assert (absent.exit_code, absent.stdout) == (1, "no catalog has this shape; near: [1,4,8,8]\n")
    assert run("find", "9,5,8,8", "old.yaml").stdout == "no catalog has this shape; near: [1,5,8,8]\n"
    assert run("find", "1,5,8,9", "old.yaml").stdout.startswith("no catalog has this shape; near: [1,5,8,8]")
    assert run("find", "4,64", "old.yaml").stdout == "no catalog has this shape; near: [1,4,8,8]\n"
    assert run("find", "4,*,9", "old.yaml").stdout == "no catalog has this shape\n"
    report = json.loads(run("find", "4,1,8,8", "old.yaml", "--json").stdout)
    assert report == {"uses": [], "listings": [], "near": [[1, 4, 8, 8]]}


def test_find_as_json() -> None:
    report = json.loads(run("find", "[1,192,2176,1920]", "--json").stdout)
    assert report["uses"] == []
    (listing,) = report["listings"]
    assert listing["operators"] == ["split_with_sizes"]
    assert listing["origin"]["none"].startswith("no forward gives it")


# Where the reports' shapes come from --------------------------------------------------------------------------------------


def traced() -> list[dict[str, str]]:
    with (DATA / "seed_shape_origins.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def origin_of(catalogs: Sequence[Catalog], shape: Shape) -> ShapeOrigin:
    (listing,) = find([c for c in catalogs if isinstance(c, CrossedCatalog)], shape).listings
    assert listing.origin is not None
    return listing.origin


@pytest.mark.parametrize("row", traced(), ids=lambda row: f"{row['shape'].replace(' ', '')} {row['seed']}")
def test_every_shape_of_the_reports_tables_has_its_origin(catalogs: list[Catalog], row: dict[str, str]) -> None:
    """Model, size and call that yields it, also where that is a coincidence, as the note states; or why none does."""
    origin = origin_of(catalogs, tuple(parse_shape(row["shape"])))
    if row["verdict"] == "artefact":
        assert origin.artefact
    elif row["model"]:
        columns = ("model", "input_size", "aten_op", "role", "first_module_path")
        assert (origin.model, origin.input, origin.call, origin.role, origin.at) == tuple(row[column] for column in columns)
        assert bool(origin.note) == (row["verdict"] == "coincidence/synthetic")
    else:
        assert origin.none == row["note"]


def test_origins_are_listed_once(catalogs: list[Catalog]) -> None:
    shapes = [origin.shape for catalog in catalogs if isinstance(catalog, CrossedCatalog) for origin in catalog.origins]
    assert len(shapes) == len(set(shapes)) > 500


@pytest.mark.skipif(not SEEDS.is_dir(), reason="the reports themselves are not here")
def test_no_shape_of_the_reports_is_left_out(catalogs: list[Catalog]) -> None:
    """Every list of numbers in brackets in the reports' text, but for an index of five zeros in a code example."""
    texts = [file.read_text(encoding="utf-8", errors="replace") for file in sorted(SEEDS.glob("*.md"))]
    shapes = {tuple(parse_shape(listed)) for text in texts for listed in re.findall(r"\[[0-9]+(?: *, *[0-9]+)*\]", text)}
    assert len(shapes) > 40
    for shape in shapes - {(0, 0, 0, 0, 0)}:
        origin_of(catalogs, shape)
