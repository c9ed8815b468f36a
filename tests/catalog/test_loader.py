"""Catalogs: every kind of fault word for word, what the package's own catalogs hold, and how they become cases."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ssinghal.catalog import loader as reading
from ssinghal.catalog import located_yaml as marked_yaml
from ssinghal.catalog.aten_calls import operators_by_overload
from ssinghal.catalog.captured import CapturedCatalog
from ssinghal.catalog.crossed import CrossedCatalog
from ssinghal.catalog.expansion import Expansion, expand
from ssinghal.catalog.fast_lines import shortened
from ssinghal.catalog.loader import catalog_files, load_catalog, load_catalogs, summary
from ssinghal.catalog.located_yaml import MarkedYaml
from ssinghal.catalog.schema import Catalog
from ssinghal.core.boards import load_board
from ssinghal.core.case import Case, ModuleCalls, Source
from ssinghal.core.sharding import FORM
from ssinghal.core.tensors import BufferType, MemoryConfig, Shape, TensorSpec
from ssinghal.errors import CatalogError, InvalidCase
from ssinghal.operators import families, find_operator, operators, suite_name
from ssinghal.operators.binding import specs_of

DATA = Path(__file__).parents[1] / "data"
L1 = MemoryConfig(BufferType.L1)


def rows_of(name: str) -> list[dict[str, str]]:
    with (DATA / name).open(newline="") as file:
        return list(csv.DictReader(file))


def shape_of(text: str) -> Shape:
    return tuple(json.loads(text))


HARDWARE = rows_of("hardware/hardware_runs.csv")
SEEDS_NAMES = sorted({row["operator"] for row in rows_of("hardware/hardware_counts.csv")})

HEAD = """\
schema: 1
kind: crossed
title: a test
placement: {dtype: bfloat16, layout: tile, memory: l1, output_memory: same, channels_last: true}
"""
ORIGIN = "origins:\n- {shape: [1, 64, 640, 400], none: a test}\n"
RIGHT = HEAD + ORIGIN + "operators:\n  add:\n  - {shape: [1, 64, 640, 400]}\n"

CAPTURED = """\
schema: 1
kind: captured
model: {name: net, package: local==1, config: net, params: 0, fused: false}
input: {shapes: [[1, 3, 8, 8]], dtype: bfloat16}
capture: {torch: 2.14.1, level: aten, device: meta, guessed: 0}
counts: {calls: %d, cases: %d}
placement: {dtype: bfloat16, layout: tile, memory: dram, output_memory: same}
ops:
"""


IMPORTED = """\
schema: 1
kind: imported
title: Rows of a list
placement: {dtype: bfloat16, layout: tile, memory: dram, output_memory: same}
operators:
  add:
  - {in: [[1, 64], [64]], n: 2, model: a, input: 1280x800}
"""


def written(folder: Path, text: str | bytes, name: str = "bad.yaml") -> Path:
    file = folder / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def names_cut(fault: str) -> str:
    """The fault with the nearest name alone, and without the number of names known: both grow with the registry."""
    return re.sub("[0-9]+ names", "N names", re.sub(r"(did you mean [^,?]+)[^?]*\?", r"\1?", fault))


def all_faults(selection=None):
    """Every fault of the selected catalogs, all calls checked; empty when all are right."""
    try:
        load_catalogs(selection, thorough=True)
    except CatalogError as error:
        return error.faults
    return ()


def faults_of(folder: Path, text: str | bytes) -> list[str]:
    """The faults of a catalog of this text, without the folder's name."""
    file = written(folder, text)
    return [fault.removeprefix(f"{folder}/") for fault in all_faults([str(file)])]


# Faults, word for word ----------------------------------------------------------------------------------------------------

LINE = HEAD + ORIGIN + "operators:\n  add:\n  - {shape: [1, 64, 640, 400]}\n  - "  # what follows is line 10

LINES = {
    "{shape: []}": ".shape: shape [] has rank 0; expected 1 to 8",
    "{shape: [1, 2, 3, 4, 5, 6, 7, 8, 9]}": ".shape: rank 9 is outside 1..8",
    "{shape: [1, 0]}": ".shape: shape [1, 0]: size 0 is outside 1..4294967295",
    "{shape: [1, -2]}": ".shape: shape [1, -2]: size -2 is outside 1..4294967295",
    "{shape: [4294967296]}": ".shape: shape [4294967296]: size 4294967296 is outside 1..4294967295",
    "{shape: [1, true]}": ".shape: shape [1, True]: size True is not a whole number",
    "{shape: [1, 2.0]}": ".shape: shape [1, 2.0]: size 2.0 is not a whole number",
    "{shape: [1, two]}": ".shape: shape [1, 'two']: size 'two' is not a whole number",
    "{shape: 5}": ".shape: expected a list of sizes, got 5",
    "{in: [[64], 5]}": ".in: expected a list of sizes, got 5",
    "{in: 5}": ".in: expected a list of shapes, got 5",
    "{}": ": needs either shape or in (at least one shape)",
    "{shape: [1], in: [[1]]}": ": needs either shape or in (at least one shape)",
    "5": ": expected a mapping, got 5",
    "{shape: [1, 64, 640, 400]}": ": repeats line 9",
    "{shape: [9, 9]}": ": [9, 9] has no entry in origins",
    "{in: [[1, 64, 640, 400], [7]]}": ": shapes [1, 640, 400, 64] and [7] do not broadcast",
    "{in: [[1, 64, 640, 400], [1], [1]]}": ": add takes 1 or 2 tensor operands (self, other?); got 3",
    "{shape: [1, 64, 640, 400], args: {alhpa: 2}}": ": add: unknown attribute 'alhpa'; did you mean alpha? Known: alpha, other",
    "{shape: [1, 64, 640, 400], args: {alpha: two}}": ": add: attribute alpha='two' is not float",
    "{shape: [1, 64, 640, 400], args: {alpha: {a: 1}}}": ": add: attribute alpha={'a': 1} is not float",
    "{shape: [1, 64, 640, 400], placement: {layout: tiled}}": ".placement.layout: unknown layout 'tiled'; did you mean tile?"
    " Known: row_major, tile",
    "{shape: [1, 64, 640, 400], placement: {memory: l1_small}}": ".placement.memory: tensors go to 'dram' or 'l1'; l1_small is"
    " TTNN's own",
    "{shape: [1, 64, 640, 400], oom: {run: R1, banks: 64}}": ".oom: needs total_bytes, bytes_per_bank and banks together, or"
    " none of them",
    "{shape: [1, 64, 640, 400], oom: {run: R1, total_bytes: 0, bytes_per_bank: 1, banks: 1}}": ".oom.total_bytes: expected at"
    " least 1, got 0",
    "{shape: [1, 64, 640, 400], oom: {run: ''}}": ".oom.run: expected text, got ''",
    "{shape: [1, 64, 640, 400], placement: {channels_last: yes}}": ".placement.channels_last: 'yes' would be read as bool;"
    " quote text, write numbers in plain decimal",
    "{shape: [1, 0x40]}": ".shape[1]: '0x40' would be read as int; quote text, write numbers in plain decimal",
    "{shape: [1, 2026-01-01]}": ".shape[1]: '2026-01-01' would be read as timestamp; quote text, write numbers in plain"
    " decimal",
    "{shape: !!set {a}}": ".shape: the tag tag:yaml.org,2002:set is not allowed",
    "{shape: !!python/tuple [1]}": ".shape: the tag tag:yaml.org,2002:python/tuple is not allowed",
}


@pytest.mark.parametrize("line", LINES)
def test_fault_in_a_line(tmp_path: Path, line: str) -> None:
    assert faults_of(tmp_path, LINE + line + "\n") == [f"bad.yaml:10: operators.add[1]{LINES[line]}"]


FILES: dict[str, tuple[str | bytes, list[str]]] = {
    "empty": ("", ["1: (file): is empty"]),
    "comment only": ("# nothing\n", ["1: (file): is empty"]),
    "a list": ("- 1\n", ["1: (file): expected a mapping with schema and kind"]),
    "null": ("null\n", ["1: (file): expected a mapping with schema and kind"]),
    "tab": ("schema: 1\n\tkind: crossed\n", ["2: (file): is not YAML: found a tab character that violates indentation"]),
    "open bracket": ("schema: [1\n", ["2: (file): is not YAML: did not find expected ',' or ']'"]),
    "two documents": ("schema: 1\n---\nkind: x\n", ["2: (file): is not YAML: but found another document"]),
    "control character": ("schema: 1\nkind: \x07\n", ["2: (file): is not text: control characters are not allowed"]),
    "latin-1": ("schema: 1\nkind: é\n".encode("latin-1"), ["2: (file): is not UTF-8 text"]),
    "utf-16": ("schema: 1\n".encode("utf-16"), ["1: (file): is not UTF-8 text"]),
    "binary": (bytes(range(256)), ["2: (file): is not UTF-8 text"]),
    "deep flow": ("[" * 100_000, ["1: (file): is not YAML: exceeded maximum nesting depth"]),
    "deep": (
        RIGHT.replace("a test}", "[" * 20 + "]" * 20 + "}"),
        [f"6: origins[0].none{'[0]' * 13}: is nested more than 16 deep"],
    ),
    "no kind": ("schema: 1\n", ["1: kind: missing"]),
    "kind, and more below it": (
        RIGHT.replace("crossed", "crosed").replace("l1,", "l2,").replace("add:", "sillu:"),
        [
            "2: kind: unknown kind 'crosed'; did you mean crossed? Known: captured, crossed, imported",
            f"4: placement.memory: unknown memory 'l2'; did you mean l1? Known: dram, l1; expected {FORM}",
            "8: operators.sillu: unknown operator 'sillu'; did you mean silu? N names are known",
        ],
    ),
    "placement, which decides what goes together": (
        RIGHT.replace("memory: l1,", "memory: l2,") + "  - {in: [[1, 64, 640, 400], [64]]}\n",
        [f"4: placement.memory: unknown memory 'l2'; did you mean l1? Known: dram, l1; expected {FORM}"],
    ),
    "head in YAML, and more below it": (
        RIGHT.replace("title: a test", "title: yes").replace("operators:", "- {shape: [7, 7], none: unused}\noperators:"),
        [
            "3: title: 'yes' would be read as bool; quote text, write numbers in plain decimal",
            "7: origins[1]: no line uses [7, 7]",
        ],
    ),
    "imported": (
        IMPORTED
        + "  - {in: [[1, 64], [64]], n: 2, model: b, at: x}\n"
        + "  - {in: [[1, 64], [64]], n: 5, model: a, input: 1280x800, at: y}\n"
        + "  - {in: [[1, 64], [7]], n: 0}\n"
        + "  - {shape: [1, 64], model: a, n: 1, oom: {run: R1}}\n"
        + "  - {shape: [1, 64], model: '', n: 1}\n",
        [
            "9: operators.add[2]: repeats line 7",
            "10: operators.add[3].n: expected at least 1, got 0",
            "11: operators.add[4]: oom belongs to catalogs of kind crossed, which describe the run",
            "12: operators.add[5].model: expected text, got ''",
        ],
    ),
    "captured head, and more below it": (
        (CAPTURED % (5, 1)).replace("level: aten", "level: atem").replace("kind: captured", "kind: taken")
        + "  aten.relu.default:\n  - {n: 3, in: {self: [1, 3]}, out: [3, 1], at: top}\n",
        [
            "2: kind: unknown kind 'taken'; known: captured, crossed, imported",
            "5: capture.level: unknown level 'atem'; did you mean aten? Known: aten, torch",
            "6: counts.calls: is 5, but the n of all lines add up to 3",
            "10: ops.aten.relu.default[0]: out is [3, 1], but relu gives [1, 3]",
        ],
    ),
    "kind": (
        "schema: 1\nkind: crosed\n",
        ["2: kind: unknown kind 'crosed'; did you mean crossed? Known: captured, crossed, imported"],
    ),
    "schema": (RIGHT.replace("schema: 1", "schema: 2"), ["1: schema: unknown schema '2'; known: 1"]),
    "unknown key": (
        RIGHT.replace("title", "titel"),
        [
            "3: titel: unknown key 'titel'; did you mean title? Known: kind, operators, origins, placement, runs, schema,"
            " title, traced_with",
            "1: title: missing",
        ],
    ),
    "placement": (
        RIGHT.replace("bfloat16", "float16").replace("true", "1"),
        [
            "4: placement.dtype: unknown dtype 'float16'; did you mean bfloat16? Known: bfloat16, bfloat4_b, bfloat8_b,"
            " float32, int32, uint16, uint32, uint8",
            "4: placement.channels_last: expected true or false, got 1",
        ],
    ),
    "no operators": (HEAD + ORIGIN, ["1: operators: missing"]),
    "operators a list": (HEAD + "origins: []\noperators: []\n", ["6: operators: expected a mapping, got []"]),
    "lines a mapping": (HEAD + "origins: []\noperators:\n  add: {}\n", ["7: operators.add: expected a list, got {}"]),
    "no line": (HEAD + "origins: []\noperators:\n  add: []\n", ["7: operators.add: has no line"]),
    "unknown operator": (
        RIGHT.replace("add", "sillu"),
        ["8: operators.sillu: unknown operator 'sillu'; did you mean silu? N names are known"],
    ),
    "not an operator": (
        RIGHT.replace("add", "Scalar"),
        ["8: operators.Scalar: 'Scalar' is not an operator: an ATen overload name (add.Scalar)"],
    ),
    "key given twice": (
        RIGHT + "  add:\n  - {shape: [1, 64, 640, 400]}\n",
        ["10: operators.add: the key is given twice, first in line 8"],
    ),
    "key that is no text": (RIGHT + "1: 2\n", ["10: (file): key '1' is not text; quote it if it is meant"]),
    "merge key": (RIGHT + "<<: {}\n", ["10: (file): key '<<' is not text; quote it if it is meant"]),
    "alias": (
        RIGHT.replace("[1, 64, 640, 400], none", "&s [1, 64, 640, 400], none").replace(
            "{shape: [1, 64, 640, 400]}", "{shape: *s}"
        ),
        ["9: operators.add[0].shape: aliases (*name) are not allowed; write the value out"],
    ),
    "origin without model": (
        RIGHT.replace("none: a test", "model: local/net"),
        ["6: origins[0]: needs model, input, call, role and at together, or none, or artefact"],
    ),
    "origin twice": (
        RIGHT.replace("operators:", "- {shape: [1, 64, 640, 400], none: again}\noperators:"),
        ["7: origins[1]: repeats line 6"],
    ),
    "origin not used": (
        RIGHT.replace("operators:", "- {shape: [7, 7], none: unused}\noperators:"),
        ["7: origins[1]: no line uses [7, 7]"],
    ),
    "artefact used": (
        RIGHT.replace("none: a test", "artefact: a bracket"),
        ["9: operators.add[0]: [1, 64, 640, 400] is an artefact: a bracket"],
    ),
    "run not told": (RIGHT.replace("400]}", "400], oom: {run: R7}}"), ["1: runs.R7: missing: an oom names R7"]),
    "run not named": (RIGHT.replace("origins:", "runs: {R7: a run}\norigins:"), ["5: runs.R7: no oom names R7"]),
    "counts": (
        CAPTURED % (5, 2) + "  aten.relu.default:\n  - {n: 3, in: {self: [1, 3]}, out: [1, 3], at: top}\n",
        ["6: counts.cases: is 2, but ops has 1 lines", "6: counts.calls: is 5, but the n of all lines add up to 3"],
    ),
    "captured out": (
        CAPTURED % (3, 1) + "  aten.relu.default:\n  - {n: 3, in: {self: [1, 3]}, out: [3, 1], at: top}\n",
        ["10: ops.aten.relu.default[0]: out is [3, 1], but relu gives [1, 3]"],
    ),
    "captured attribute": (
        CAPTURED % (3, 1)
        + "  aten.relu.default:\n  - {n: 3, in: {self: [1, 3]}, args: {inplace: true}, out: [1, 3], at: top}\n",
        ["10: ops.aten.relu.default[0]: relu: unknown attribute 'inplace'; there is none"],
    ),
    "captured twice": (
        CAPTURED % (2, 2) + "  aten.relu.default:\n" + "  - {n: 1, in: {self: [1, 3]}, out: [1, 3], at: top}\n" * 2,
        ["11: ops.aten.relu.default[1]: repeats line 10"],
    ),
    "captured weight": (
        CAPTURED % (1, 1) + "  aten.relu.default:\n  - {n: 1, in: {self: [1, 3]}, w: [weight], out: [1, 3], at: top}\n",
        ["10: ops.aten.relu.default[0]: weight is no tensor argument of this line"],
    ),
    "captured operand": (
        CAPTURED % (1, 1)
        + "  aten.cat.default:\n"
        + "  - {n: 1, in: {tensors: [[1, -3]]}, out: [1, 3], at: top}\n"
        + "  - {n: 1, in: {tensors: [[1, 3], 3]}, out: [1, 3], at: top}\n"
        + "  - {n: 1, in: {tensors: [1, 1, 1, 1, 1, 1, 1, 1, 1]}, out: [1, null], at: top}\n"
        + "  - {n: 1, in: {tensors: null}, dtypes: {tensors: int46}, out: [[1], null], at: top}\n",
        [
            "10: ops.aten.cat.default[0].in.tensors: shape [1, -3]: size -3 is not a whole number in 0..4294967295",
            "11: ops.aten.cat.default[1].in.tensors: expected a list of sizes, got 3",
            "12: ops.aten.cat.default[2].in.tensors: rank 9 is outside 0..8",
            "12: ops.aten.cat.default[2].out: shape [1, None]: size None is not a whole number in 0..4294967295",
            "13: ops.aten.cat.default[3].in.tensors: expected a list of sizes, got None",
            "13: ops.aten.cat.default[3].dtypes.tensors: unknown dtype 'int46'; did you mean int64? N names are known",
            "13: ops.aten.cat.default[3].out: expected a list of sizes, got None",
        ],
    ),
    "captured head": (
        (CAPTURED % (1, 1))
        .replace("config: net,", "config: net, factory: 'my.models:net',")
        .replace("dtype: bfloat16}\ncap", "dtype: bfloat16, dtypes: [int64, int64]}\ncap")
        .replace("guessed: 0", "guessed: 3, guesses: {head: 2}")
        + "  aten.relu.default:\n  - {n: 1, in: {self: [1, 3]}, out: [1, 3], at: top}\n",
        [
            "3: model: config is 'net', but a model with a factory is built by that: 'my.models:net'",
            "4: input: 2 dtypes for 1 shapes",
            "5: capture: guessed is 3, but guesses add up to 2",
        ],
    ),
    "captured versions": (
        (CAPTURED % (1, 1)).replace("guessed: 0", "guessed: 0, packages: [timm]").replace("fused", "factory: net, fused")
        + "  aten.relu.default:\n  - {n: 1, in: {self: [1, 3]}, out: [1, 3], at: top}\n",
        [
            "3: model.factory: expected package.module:function, got 'net'",
            "5: capture.packages[0]: expected name==version, got 'timm'",
        ],
    ),
}


@pytest.mark.parametrize("kind", FILES)
def test_fault_of_a_file(tmp_path: Path, kind: str) -> None:
    text, expected = FILES[kind]
    assert [names_cut(fault) for fault in faults_of(tmp_path, text)] == [f"bad.yaml:{e}" for e in expected]


PIECES = st.one_of(
    st.sampled_from(["{a: 1}", "{a: [1, [2, -3]], b: {c: x.y, d: []}}", "{a: 1, a: 2}", "{a: 1.5}", "{a: 1e5, b: -.5}"]),
    st.sampled_from(["{a: yes}", "{a: null}", "{a: [1 2]}", "{a: x }", "{a:1}", "{1: 2}", "{true: 1}", "{a: =}", "{a: .inf}"]),
    st.sampled_from(["{a: &b 1}", "*b", "{a: 'x'}", "{a: x} # y", "{a: -}", "{a: - 1}", "{a: 2026-01-01}", "!line 0"]),
    st.sampled_from(
        ["{a: +1}", "{a: 1_0}", "{a: -0}", "{a: 99999999999999999999}", "{a: 01}", "{a: [1, ]}", "{a: (top), b: ~}"]
    ),
    st.text("{}[]:, a1.-_\"'#|>&*!\t\x85", max_size=20),
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(PIECES, max_size=6),
    st.sampled_from(["x:\n", "x: |\n", "x: [\n", "x: 'a\n", "x: a\n", "", "x:\n-\n", "x: !line\n"]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_lines_read_in_short_are_what_yaml_reads(tmp_path: Path, lines: list[str], head: str, end: str) -> None:
    """Data, faults and the lines they name are the same with every line left to the YAML parser."""
    file = written(tmp_path, (head + "".join(f"  - {line}\n" for line in lines)).replace("\n", end))
    quick = MarkedYaml(file)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(marked_yaml, "shortened", lambda text, _: (text, {}))
        plain = MarkedYaml(file)
    assert repr(quick.data) == repr(plain.data)
    assert quick.faults == plain.faults
    for i in range(len(lines)):
        assert quick.line(("x", i, "a")) == plain.line(("x", i, "a"))


def test_most_lines_are_read_in_short() -> None:
    """Else loading takes five times as long: of the lines of built-in catalogs at most 5 in 100 are left to the YAML parser."""
    texts = [file.read_text() for file in catalog_files().values()]
    lines = sum(len(re.findall("^ *- {", text, re.MULTILINE)) for text in texts)
    assert sum(len(shortened(text, str)[1]) for text in texts) >= 0.95 * lines


def test_a_right_file_has_no_fault(tmp_path: Path) -> None:
    assert faults_of(tmp_path, RIGHT) == []


TOKENS = """\
schema: 1
kind: captured
model: {name: net, package: local==1, config: "my.models:net", factory: "my.models:net", params: 0, fused: false}
input: {shapes: [[1, 77], [], [1, 4, 8, 8]], dtype: bfloat16, dtypes: [int64, float32, bfloat16]}
capture:
  torch: 2.14.1
  level: torch
  device: meta
  packages: [timm==1.0.31+cu130, tokenizers==0.22.1]
  guessed: 3
  guesses: {head: 2, (top): 1}
  stopped: detection post-processing is not recorded
counts: {calls: 7, cases: 5, left_out: {constants: 4}}
placement: {dtype: bfloat16, layout: tile, memory: dram, output_memory: same}
ops:
  aten.add.Tensor:
  - {n: 1, in: {self: [1, 3], other: []}, out: [1, 3], at: top}
  - {n: 2, in: {self: [], other: []}, w: [other], out: [], at: top}
  - {n: 1, in: {self: [0, 3], other: [0, 3]}, out: [0, 3], at: top}
  aten.index.Tensor:
  - {n: 2, in: {self: [7, 9], indices: [null, [4, 4]]}, dtypes: {indices: int64}, out: [7, 4, 4], at: top}
  aten.nonsense.default:
  - {n: 1, in: {values: [[], [2]], mask: [2]}, dtypes: {mask: bool}, out: [[], [2, 0]], at: top}
"""


def test_captures_of_other_kinds_of_models(tmp_path: Path) -> None:
    """Token ids, scalars, empty tensors, absent indices, a factory of the user's own, a recording that was stopped."""
    (catalog,) = load_catalogs([written(tmp_path, TOKENS)])
    assert isinstance(catalog, CapturedCatalog)
    assert (catalog.title, catalog.line_count) == ("local/net at 1x77", 5)
    assert catalog.head.capture.guesses == {"head": 2, "(top)": 1}
    lines = [line for section in catalog.sections.values() for line in section]
    assert [line.shapes() for line in lines] == [
        ((1, 3), (1,)),
        ((1,), (1,)),
        ((0, 3), (0, 3)),
        ((7, 9), (4, 4)),
        ((1,), (2,), (2,)),
    ]
    assert list(lines[3].operands()) == [("self", (7, 9)), ("indices", (4, 4))]
    assert [line.has_scalar for line in lines] == [True, True, False, False, True]
    assert [line.has_empty for line in lines] == [False, False, True, False, True]
    assert [line.out for line in lines][1::3] == [((),), ((), (2, 0))]


@pytest.mark.parametrize(
    ("shape", "size"),
    [("[1, 3, 640, 400]", "640x400"), ("[1, 12, 4, 60, 106]", "4x60x106"), ("[1, 77, 768]", "1x77x768"), ("[]", "scalar")],
)
def test_input_size(tmp_path: Path, shape: str, size: str) -> None:
    (catalog,) = load_catalogs([written(tmp_path, TOKENS.replace("[[1, 77],", f"[{shape},"))])
    assert catalog.title == f"local/net at {size}"


def test_all_faults_of_all_files_at_once(tmp_path: Path) -> None:
    """A fault in the head hides none in the lines, one file hides none in another."""
    first = written(tmp_path, RIGHT.replace("title: a test", "titel: a test").replace("add:", "ad:"), "first.yaml")
    second = written(tmp_path, RIGHT + "  - {shape: [0]}\n", "second.yaml")
    absent = tmp_path / "absent.yaml"
    with pytest.raises(CatalogError) as error:
        load_catalogs([str(first), str(second), str(absent), "yolo21"])
    places = [fault.split(": ")[0] for fault in error.value.faults if fault.startswith(str(tmp_path))]
    assert places == [str(absent), f"{first}:3", f"{first}:1", f"{first}:8", f"{second}:10"]
    assert f"{absent}: no such file" in error.value.faults
    assert any(fault.startswith("unknown catalog 'yolo21'; did you mean yolo12x-") for fault in error.value.faults)
    assert str(error.value).splitlines() == list(error.value.faults)


def test_aliases_cannot_blow_up(tmp_path: Path) -> None:
    """Nine levels of nine aliases would be 9^9 nodes if they were written out."""
    levels = [f"k{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9) if i else 'x'}]" for i in range(9)]
    faults = faults_of(tmp_path, "kind: crossed\n" + "\n".join(levels) + "\n")
    assert "bad.yaml:3: k1: aliases (*name) are not allowed; write the value out" in faults
    assert len(faults) < 40


def test_a_long_fault_is_cut(tmp_path: Path) -> None:
    (fault,) = faults_of(tmp_path, RIGHT.replace("title: a test", f"title: [{'x, ' * 1000}]"))
    assert fault.startswith("bad.yaml:3: title: expected text, got ['x', 'x'")
    assert len(fault) == len("bad.yaml:3: title: ") + 300


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_garbage_is_a_fault_never_a_crash(tmp_path: Path, data: st.DataObject) -> None:
    """A right catalog with a piece replaced is right or has faults that name the file and a line in it."""
    text = data.draw(
        st.sampled_from([RIGHT, CAPTURED % (1, 1) + "  aten.t.default:\n  - {n: 1, in: {self: [1, 3]}, out: [3, 1], at: x}\n"])
    )
    start = data.draw(st.integers(0, len(text)))
    piece = data.draw(
        st.one_of(st.binary(max_size=8), st.sampled_from([b"[", b"}", b": ", b"- ", b"null", b"&a", b"*a", b"1e999", b"\n"]))
    )
    raw = text.encode()[:start] + piece + text.encode()[start + data.draw(st.integers(0, 12)) :]
    for fault in faults_of(tmp_path, raw):
        name, line, _ = fault.split(":", 2)
        assert name == "bad.yaml"
        assert 1 <= int(line) <= raw.count(b"\n") + 2


# Selection ----------------------------------------------------------------------------------------------------------------


def names(selection: Sequence[str | Path] | None) -> list[str]:
    return [catalog.name for catalog in load_catalogs(selection)]


def test_selection(catalogs: list[Catalog]) -> None:
    everything = [catalog.name for catalog in catalogs]
    assert everything == [name.split("/")[1] for name in catalog_files()]
    assert len(set(everything)) == len(everything)
    assert names(["mochi"]) == ["mochi"]
    assert names(["yolo12x"]) == [name for name in everything if "yolo12x" in name]
    assert {"ultralytics-yolo12x-2176x3840", "yolo12x-2176x3840", "yolo12x-4320x7680"} <= set(names(["yolo12x"]))
    assert names(["crossed/"]) == ["1280-class", "mochi", "yolo12x-2176x3840", "yolo12x-4320x7680"]
    assert names(["yolo12x-2176", "mochi", "yolo12x-2176x3840"])[1:] == ["yolo12x-2176x3840", "mochi"]


def test_selection_of_files_and_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, RIGHT, "b.yml")
    file = written(tmp_path, RIGHT, "a.yaml")
    written(tmp_path, "no catalog", "notes.txt")
    assert names([str(file)]) == names([file]) == ["a"]
    assert names([str(tmp_path)]) == ["a", "b"]
    monkeypatch.chdir(tmp_path)
    assert names(["a.yaml", "./b.yml"]) == ["a", "b"]


def test_summaries(catalogs: list[Catalog], tmp_path: Path) -> None:
    rows = {row["catalog"]: row for row in map(summary, catalogs)}
    assert list(rows) == list(catalog_files())
    assert rows["captured/torchvision-resnet50-1280x800"] == {
        "catalog": "captured/torchvision-resnet50-1280x800",
        "kind": "captured",
        "lines": 55,
        "calls": 175,
        "title": "torchvision/resnet50 at 1280x800",
        "model": "torchvision/resnet50",
        "input": "1280x800",
        "level": "aten",
    }
    crossed = rows["crossed/mochi"]
    assert (crossed["calls"], crossed["model"], crossed["level"]) == (None, None, None)
    imported = summary(load_catalog(str(written(tmp_path, IMPORTED + "  - {shape: [7], n: 40}\n", "list.yaml"))))
    assert (imported["catalog"], imported["lines"], imported["calls"]) == ("imported/list", 2, 42)


def test_one_catalog() -> None:
    assert load_catalog("mochi").name == "mochi"
    with pytest.raises(
        InvalidCase, match="'crossed/' is part of 4 names of catalogs, expected one: 1280-class, mochi, yolo12x-2176x3840"
    ):
        load_catalog("crossed/")


def test_built_in_catalogs_have_no_fault() -> None:
    assert all_faults() == ()


def test_arithmetic_of_built_in_catalogs_is_left_to_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Named, they are loaded for their form alone; given by path, or checked, for every call."""
    wrong = CAPTURED % (3, 1) + "  aten.relu.default:\n  - {n: 3, in: {self: [1, 3]}, out: [3, 1], at: top}\n"
    file = written(tmp_path, wrong, "own.yaml")
    monkeypatch.setattr(reading, "SHAPES_FOLDER", tmp_path)
    fault = f"{file}:10: ops.aten.relu.default[0]: out is [3, 1], but relu gives [1, 3]"
    assert names(["own"]) == names(None) == ["own"]
    assert all_faults(["own"]) == all_faults() == all_faults([file]) == (fault,)
    with pytest.raises(CatalogError):
        load_catalogs([file])


@pytest.mark.parametrize("wanted", ["", "yolo12y", "no/such", "a\0b.yaml"])
def test_selection_of_what_is_not_there(wanted: str) -> None:
    with pytest.raises(CatalogError):
        load_catalogs([wanted])


# What the catalogs hold ---------------------------------------------------------------------------------------------------


PORT_OPERATORS = Path(__file__).parents[2] / "examples" / "ports" / "port_operators.yaml"


@pytest.fixture(scope="module")
def catalogs() -> list[Catalog]:
    return load_catalogs()


@pytest.fixture(scope="module")
def everything(catalogs: list[Catalog]) -> Expansion:
    return expand(catalogs)


@pytest.fixture(scope="module")
def crossed(catalogs: list[Catalog]) -> list[CrossedCatalog]:
    return [catalog for catalog in catalogs if isinstance(catalog, CrossedCatalog)]


def test_every_name_has_a_case(everything: Expansion) -> None:
    """Of the 46 names of the runs, and of every operator of the registry: none is tested by zero cases."""
    assert len(SEEDS_NAMES) == 46
    tried = {case.name for case in everything.cases}
    assert set(SEEDS_NAMES) <= tried
    of_several_chips = {info.name for info in families()["collectives"]}  # no board of one chip can make their calls
    of_ports = {case.name for case in expand(load_catalogs([str(PORT_OPERATORS)])).cases}
    untried = {suite_name(name) for name in operators()} - tried - of_several_chips - of_ports
    assert not untried, "give each a line in a shape sweep, such as ssinghal/shapes/crossed/1280-class.yaml"
    assert len(everything.cases) >= 1600


def test_every_listed_row_has_a_case(crossed: list[CrossedCatalog]) -> None:
    """Each operator and shape that the three runs list is tried, also where their own call could not work."""
    tried = {(name, line.first_shape) for c in crossed for name, lines in c.sections.items() for line in lines}
    listed = {(row["operator"], shape_of(row["listed_shape"])) for row in HARDWARE + rows_of("hardware/crossed_lists_r3.csv")}
    assert listed - tried == set()


# addmm's third operand now matches the second; hardtanh ran out on a tensor that today's call does not make (it was a composite
# clamp then), split on a clash of circular buffers.
NOT_COMPARABLE = {
    ("R1", "addmm", "[16000,1024]"),
    ("R2", "addmm", "[16000,1024]"),
    ("R2", "hardtanh", "[1,1152,136,120]"),
    ("R2", "split", "[1,4,171360]"),
}


# The report of R1 has one shape more than the rows kept of it, with its size: view [80, 50, 512, 1, 1], 4,000 MiB. That is
# 80 * 50 * 512 tiles of 2,048 B, the 64 banks evenly filled.
FROM_THE_REPORT = {
    "kind": "l1_buffer",
    "stage": "input1",
    "device_inputs": "[80,50,512,1,1]",
    "total_bytes": str(4000 * 2**20),
    "bytes_per_bank": str(4000 * 2**20 // 64),
}


def test_known_ooms_are_the_logs(crossed: list[CrossedCatalog]) -> None:
    """Every oom repeats the bytes of its row, and its call places, up to the operand that ran out, what the row has."""
    rows = {
        (row["run"], row["operator"], shape_of(row["listed_shape"])): row
        for row in HARDWARE
        if row["hardware_outcome"] == "oom"
    }
    kept = Counter[bool]()
    for case in expand(crossed).cases:
        if case.known_oom is None:
            continue
        known = case.known_oom
        row = rows.get((known.run, case.name, case.listed_shape or ()), FROM_THE_REPORT)
        said = [int(row[column]) if row[column] else None for column in ("total_bytes", "bytes_per_bank")]
        assert [known.total_bytes, known.bytes_per_bank] == said
        assert row["kind"] == "l1_buffer"
        placed = [TensorSpec(shape_of(text), memory=L1) for text in row["device_inputs"].split("+") if text]
        count = len(placed) if known.stage == "output" else int(known.stage.removeprefix("input "))
        operands, results = specs_of(case)
        assert operands[:count] == placed[:count]
        if row["stage"]:
            assert row["stage"] == ("op" if known.stage == "output" else known.stage.replace(" ", ""))
        board = load_board("n150")
        exhausted = results if known.stage == "output" else placed[count - 1 :]
        if known.total_bytes:
            assert (known.total_bytes, known.bytes_per_bank) in [
                (s.allocated_bytes(board), s.bytes_per_bank(board)) for s in exhausted
            ]
        kept[row is FROM_THE_REPORT] += 1
    assert kept == {False: 271, True: 1}


def test_left_out_ooms(crossed: list[CrossedCatalog]) -> None:
    kept = {(case.name, case.listed_shape) for case in expand(crossed).cases if case.known_oom}
    left_out = {
        (row["run"], row["operator"], row["listed_shape"])
        for row in HARDWARE
        if row["hardware_outcome"] == "oom" and (row["operator"], shape_of(row["listed_shape"])) not in kept
    }
    # TTNN's pool and upsample take row-major maps, its batch_norm takes NCHW; the runs placed tiles of NHWC
    otherwise_placed = {row for row in left_out if row[1] in ("maxpool2d", "native_batch_norm", "upsample_nearest2d")}
    assert left_out - otherwise_placed == NOT_COMPARABLE
    assert Counter(operator for _, operator, _ in otherwise_placed) == {
        "maxpool2d": 8,
        "native_batch_norm": 6,
        "upsample_nearest2d": 8,
    }


def test_inferred_shapes_are_those_torch_gave(catalogs: list[Catalog]) -> None:
    """Every captured call records what torch returned for it; a scalar stays [1], as on a device."""
    compared = 0
    for catalog in catalogs:
        for overload, lines in catalog.sections.items() if isinstance(catalog, CapturedCatalog) else ():
            info = operators_by_overload().get(overload)
            for line in lines if info else ():
                if info is None or line.has_empty or line.has_scalar:
                    continue
                inferred = info.infer(line.shapes(), info.complete_attrs(line.args))
                assert inferred[: len(line.out)] == list(line.out), f"{catalog.name} {overload} {line}"
                compared += 1
    assert compared > 300


def test_captured_counts(catalogs: list[Catalog]) -> None:
    """Two models counted by hand when they were first traced: 499 and 175 calls in 87 and 55 lines."""
    heads = {c.title: c.head for c in catalogs if isinstance(c, CapturedCatalog) and c.head.capture.level == "aten"}
    counts = {title: (head.counts.calls, head.counts.cases) for title, head in heads.items()}
    assert counts["diffusers/mochi-decoder at 4x60x106"] == (499, 87)
    assert counts["torchvision/resnet50 at 1280x800"] == (175, 55)


# Cases --------------------------------------------------------------------------------------------------------------------


def test_ids_are_unique_for_each_name(everything: Expansion) -> None:
    counted = Counter((case.name, case.id) for case in everything.cases)
    assert [identity for identity, count in counted.items() if count > 1] == []
    assert len({(case.name, case.key) for case in everything.cases}) == len(everything.cases)


def test_every_case_is_a_complete_call(everything: Expansion) -> None:
    for case in everything.cases:
        operands, results = specs_of(case, load_board("n150"))
        assert len(operands) == len(case.inputs)
        assert results or case.operator == "place"


def test_the_order_is_stable(everything: Expansion) -> None:
    assert expand(load_catalogs()).cases == everything.cases


def test_a_crossed_case(catalogs: list[Catalog]) -> None:
    (case,) = [c for c in expand(catalogs, operators=["add"]).cases if c.listed_shape == (1, 64, 640, 400)]
    assert case.identity() == {
        "op": "add",
        "inputs": [[1, 64, 640, 400]] * 2,
        "attrs": {},
        "dtype": "bfloat16",
        "layout": "tile",
        "memory": "l1",
        "output_memory": "same",
        "channels_last": True,
        "l1_small_size": 0,
    }
    assert case.known_oom is not None
    assert (case.known_oom.run, case.known_oom.stage, case.known_oom.total_bytes) == ("R1", "output", 34_078_720)
    (source,) = case.sources
    assert (source.catalog, source.model, source.input_size, source.count) == ("1280-class", "local/unet32", "1280x800", 0)


def test_a_captured_case() -> None:
    """resnet50's classifier: ATen order puts the bias first; the model's convolutions keep their own channels-last."""
    cases = expand(load_catalogs(["torchvision-resnet50-1280x800"])).cases
    (addmm,) = [c for c in cases if c.name == "addmm"]
    assert addmm.inputs == ((1000,), (1, 2048), (2048, 1000))
    assert addmm.placement.memory is BufferType.DRAM
    assert addmm.placement.channels_last is False
    (source,) = addmm.sources
    assert (source.model, source.input_size, source.count, source.modules) == (
        "torchvision/resnet50",
        "1280x800",
        1,
        (ModuleCalls("fc"),),
    )
    assert {c.placement.channels_last for c in cases if c.name == "convolution"} == {True}


def test_equal_cases_are_merged_with_their_sources(tmp_path: Path) -> None:
    first = written(tmp_path, RIGHT + "  sum:\n  - {shape: [1, 64, 640, 400]}\n", "first.yaml")
    second = written(
        tmp_path,
        RIGHT.replace("400]}", "400], oom: {run: R7}}").replace("origins:", "runs: {R7: a run}\norigins:"),
        "second.yaml",
    )
    cases = expand(load_catalogs([str(first), str(second)])).cases
    assert [(case.name, [source.catalog for source in case.sources]) for case in cases] == [
        ("add", ["first", "second"]),
        ("sum", ["first"]),
    ]
    assert cases[0].known_oom is not None
    assert cases[0].known_oom.run == "R7"


def test_names_of_one_operator_stay_apart(tmp_path: Path) -> None:
    """cat and concat are one operator; each name keeps its case, so that each can be selected."""
    file = written(tmp_path, RIGHT.replace("add:", "cat:") + "  concat:\n  - {shape: [1, 64, 640, 400]}\n")
    cases = expand(load_catalogs([str(file)])).cases
    assert [case.name for case in cases] == ["cat", "concat"]
    assert len({case.key for case in cases}) == 1
    assert [c.name for c in expand(load_catalogs([str(file)]), operators=["concat"]).cases] == ["concat"]


def test_another_memory_replaces_that_of_the_catalog_and_drops_what_a_card_reported(crossed: list[CrossedCatalog]) -> None:
    catalogs = [catalog for catalog in crossed if catalog.name == "1280-class"]
    moved = expand(catalogs, operators=["add"], memory=BufferType.DRAM).cases
    assert {case.placement.memory for case in moved} == {BufferType.DRAM}
    assert {case.known_oom for case in moved} == {None}
    kept = expand(catalogs, operators=["add"], memory=BufferType.L1).cases
    assert kept == expand(catalogs, operators=["add"]).cases


def test_max_bytes_counts_the_largest_operand(catalogs: list[Catalog]) -> None:
    """[1, 64, 640, 400] in bfloat16 is 32,768,000 bytes."""

    def shapes(limit: int) -> set[Shape | None]:
        return {c.listed_shape for c in expand(catalogs, operators=["add"], max_bytes=limit).cases}

    assert (1, 64, 640, 400) in shapes(32_768_000)
    assert (1, 64, 640, 400) not in shapes(32_767_999)


@pytest.mark.parametrize(
    ("n", "at", "modules", "other_modules", "other_calls"),
    [
        (1, "block.0", {"block.0": 1}, 0, 0),
        (5, "block.0", {"block.0": 1}, 0, 4),  # the first one alone was recorded
        (3, "{(top): 1, block.0: 2}", {"(top)": 1, "block.0": 2}, 0, 0),
        (3, '{"0": 1, "a: b": 2}', {"0": 1, "a: b": 2}, 0, 0),
        (9, "{block.0: 2}, more: {modules: 3, calls: 7}", {"block.0": 2}, 3, 7),
        (9, "{block.0: 2}, more: {modules: 0, calls: 7}", {"block.0": 2}, 0, 7),
    ],
)
@pytest.mark.parametrize("kind", ["captured", "imported"])
def test_a_source_has_the_modules_of_its_line(
    tmp_path: Path, kind: str, n: int, at: str, modules: dict[str, int], other_modules: int, other_calls: int
) -> None:
    line = f"n: {n}, in: {{self: [1, 64]}}, out: [1, 64]" if kind == "captured" else f"n: {n}, in: [[1, 64]]"
    ops = f"  aten.relu.default:\n  - {{{line}, at: {at}}}\n"
    text = CAPTURED % (n, 1) + ops if kind == "captured" else IMPORTED + ops.replace("aten.relu.default", "relu")
    (*_, case) = expand(load_catalogs([written(tmp_path, text)])).cases
    (source,) = case.sources
    assert {m.path: m.calls for m in source.modules} == modules
    assert (source.count, source.other_modules, source.other_calls) == (n, other_modules, other_calls)
    assert source.count == sum(m.calls for m in source.modules) + source.other_calls
    assert source.first_module == next(iter(modules))


@pytest.mark.parametrize(
    ("at", "fault"),
    [
        ("{a: 2, b: 2}", "n is 5, but the calls of the modules in at add up to 4"),
        ("{a: 2}, more: {modules: 1, calls: 2}", "n is 5, but the calls of the modules in at and more add up to 4"),
        ("a, more: {modules: 1, calls: 4}", "more needs the modules in at with their calls"),
        ("{}", "at: expected a module, or modules with their calls like {block.0: 2, (top): 1}, got {}"),
        ("[a]", "at: expected a module, or modules with their calls like {block.0: 2, (top): 1}, got ['a']"),
        ('""', "at: expected a module, or modules with their calls like {block.0: 2, (top): 1}, got ''"),
        ("{a: 5.0}", "at: expected a module, or modules with their calls like {block.0: 2, (top): 1}, got {'a': 5.0}"),
        ("{a: true, b: 4}", "at: expected a module, or modules with their calls"),
        ("{a: 0, b: 5}", "at: expected a module, or modules with their calls"),
        ("{a: 1}, more: {modules: -1, calls: 4}", "more.modules: expected at least 0, got -1"),
        ("{a: 5}, more: {modules: 1, calls: 0}", "more.calls: expected at least 1, got 0"),
        (f"{{{', '.join(f'm{i}: 1' for i in range(65))}}}", "at: names 65 modules; expected at most 64"),
    ],
)
def test_modules_that_do_not_add_up_are_rejected(tmp_path: Path, at: str, fault: str) -> None:
    ops = f"  aten.relu.default:\n  - {{n: 5, in: {{self: [1, 64]}}, out: [1, 64], at: {at}}}\n"
    (found,) = all_faults([written(tmp_path, CAPTURED % (5, 1) + ops)])
    assert fault in found


def test_an_unknown_operator_is_rejected() -> None:
    with pytest.raises(InvalidCase, match="unknown operator 'ad'; did you mean"):
        expand([], operators=["ad"])


def test_imported_cases(tmp_path: Path) -> None:
    """The models of one call are sources of one case, with their counts."""
    text = IMPORTED + "  - {in: [[1, 64], [64]], n: 5, model: b, at: head}\n  - {shape: [3, 32], n: 1}\n"
    (catalog,) = load_catalogs([written(tmp_path, text, "list.yaml")])
    assert (catalog.title, catalog.line_count) == ("Rows of a list", 3)
    cases = expand([catalog]).cases
    assert [case.inputs for case in cases] == [((1, 64), (64,)), ((3, 32), (3, 32))]
    assert [case.sources for case in cases] == [
        (Source("list", "a", "1280x800", 2), Source.of_first("list", "b", "", 5, "head")),
        (Source("list"),),
    ]


def test_unmapped_calls_are_counted(tmp_path: Path) -> None:
    text = CAPTURED % (7, 2)
    text += "  aten.nonsense.default:\n  - {n: 4, in: {self: [1, 3]}, out: [1, 3], at: top}\n"
    text += "  aten.relu.default:\n  - {n: 3, in: {self: [1, 3]}, dtypes: {self: complex64}, out: [1, 3], at: top}\n"
    expansion = expand(load_catalogs([str(written(tmp_path, text))]))
    assert expansion.cases == ()
    assert [(u.overload, u.count, u.reason) for u in expansion.unmapped] == [
        ("aten.nonsense.default", 4, "no operator declares this overload"),
        ("aten.relu.default", 3, "TTNN has no complex64"),
    ]


def test_dtypes_of_captured_operands(tmp_path: Path) -> None:
    text = (
        CAPTURED % (3, 1)
        + "  aten.relu.default:\n  - {n: 3, in: {self: [1, 3]}, dtypes: {self: float32}, out: [1, 3], at: top}\n"
    )
    (case,) = expand(load_catalogs([str(written(tmp_path, text))])).cases
    assert case.placement.dtype.value == "float32"


def test_a_line_may_change_its_placement() -> None:
    cases: list[Case] = [c for c in expand(load_catalogs(["mochi"])).cases if c.name == "to_layout"]
    assert {(c.inputs[0], c.attrs["layout"], c.placement.layout.value) for c in cases} >= {
        ((4, 4884480), "row_major", "tile"),
        ((1, 768, 4, 60, 106), "tile", "row_major"),
    }


def test_every_overload_is_declared_once() -> None:
    assert operators_by_overload()["aten.add.Tensor"] is find_operator("add")


def test_a_part_of_many_names_is_answered_with_a_few_of_them() -> None:
    with pytest.raises(InvalidCase) as error:
        load_catalog("o")
    assert re.fullmatch(r"'o' is part of \d+ names of catalogs, expected one: (?:[\w.-]+, ){5}…", str(error.value))
