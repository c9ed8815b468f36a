"""A wrong key of a catalog: named first, with the keys of its place alone, as docs/reference/catalogs.md lists them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ssinghal.catalog.loader import load_catalogs
from ssinghal.errors import CatalogError

SHAPE = [1, 32, 64]
PLACEMENT = {"dtype": "bfloat16", "layout": "tile", "memory": "dram", "output_memory": "same"}
COUNTED = {"n": 2, "at": {"top": 1}, "more": {"modules": 1, "calls": 1}}
FILES: dict[str, dict[str, Any]] = {
    "crossed": {
        "schema": 1,
        "kind": "crossed",
        "title": "made",
        "runs": {"R1": "a run"},
        "placement": PLACEMENT,
        "origins": [{"shape": SHAPE, "none": "made"}],
        "operators": {"relu": [{"shape": SHAPE, "placement": {"memory": "l1"}, "oom": {"run": "R1"}}]},
    },
    "imported": {
        "schema": 1,
        "kind": "imported",
        "title": "made",
        "placement": PLACEMENT,
        "operators": {"relu": [{"in": [SHAPE], "placement": {"memory": "l1"}, **COUNTED}]},
    },
    "captured": {
        "schema": 1,
        "kind": "captured",
        "model": {"name": "net", "package": "local==1", "config": "net", "params": 0, "fused": False},
        "input": {"shapes": [SHAPE], "dtype": "bfloat16"},
        "capture": {"torch": "2.14.1", "level": "aten", "device": "meta", "guessed": 0},
        "counts": {"calls": 2, "cases": 1},
        "placement": PLACEMENT,
        "ops": {"aten.relu.default": [{"in": {"self": SHAPE}, "out": SHAPE, **COUNTED}]},
    },
}
PLACED = "channels_last, dtype, l1_small_size, layout, memory, output_dtype, output_memory"
LINE = ("operators", "relu", 0)
CALL = ("ops", "aten.relu.default", 0)

# Kind, place, a key that is written there, how it is misspelt, and the keys of that place.
KEYS: list[tuple[str, tuple[str | int, ...], str, str, str]] = [
    ("crossed", (), "operators", "operatos", "kind, operators, origins, placement, runs, schema, title, traced_with"),
    ("crossed", (), "operators", "operator", "kind, operators, origins, placement, runs, schema, title, traced_with"),
    ("crossed", (), "origins", "orgins", "kind, operators, origins, placement, runs, schema, title, traced_with"),
    ("crossed", (), "runs", "run", "kind, operators, origins, placement, runs, schema, title, traced_with"),
    ("crossed", (), "placement", "placment", "kind, operators, origins, placement, runs, schema, title, traced_with"),
    ("crossed", ("placement",), "memory", "memry", PLACED),
    ("crossed", ("origins", 0), "shape", "shap", "artefact, at, call, input, model, none, note, role, shape, traced_with"),
    ("crossed", LINE, "shape", "shapes", "args, in, oom, placement, shape"),
    ("crossed", (*LINE, "placement"), "memory", "memories", PLACED.replace("output_dtype", "operands, output_dtype")),
    ("crossed", (*LINE, "oom"), "run", "runs", "banks, bytes_per_bank, run, stage, total_bytes"),
    ("imported", (), "operators", "operatos", "kind, operators, placement, schema, title"),
    ("imported", (), "title", "titel", "kind, operators, placement, schema, title"),
    ("imported", LINE, "in", "ins", "args, at, in, input, model, more, n, placement, shape"),
    ("imported", (*LINE, "more"), "calls", "call", "calls, modules"),
    ("captured", (), "ops", "op", "capture, counts, input, kind, model, ops, placement, schema"),
    ("captured", (), "input", "inputs", "capture, counts, input, kind, model, ops, placement, schema"),
    ("captured", ("model",), "name", "nam", "config, factory, fused, name, package, params"),
    ("captured", ("input",), "shapes", "shape", "dtype, dtypes, shapes"),
    ("captured", ("capture",), "level", "levl", "device, guessed, guesses, level, packages, stopped, torch"),
    ("captured", ("counts",), "calls", "call", "calls, cases, left_out"),
    ("captured", CALL, "in", "ins", "args, at, dtypes, in, more, n, out, w"),
    ("captured", (*CALL, "more"), "modules", "module", "calls, modules"),
]


def written(content: dict[str, Any], file: Path) -> Path:
    file.write_text(json.dumps(content))  # JSON is YAML: all of it is line 1
    return file


def faults(content: dict[str, Any], folder: Path) -> list[str]:
    file = written(content, folder / "made.yaml")
    with pytest.raises(CatalogError) as caught:
        load_catalogs([file])
    return [fault.removeprefix(f"{file}:") for fault in caught.value.faults]


def misspelt(content: Any, place: tuple[str | int, ...], key: str, wrong: str) -> Any:
    """The content with ``key`` at ``place`` written as ``wrong``."""
    if isinstance(content, list):
        return [misspelt(item, place[1:], key, wrong) if i == place[0] else item for i, item in enumerate(content)]
    if not place:
        return {wrong if name == key else name: value for name, value in content.items()}
    return {name: misspelt(value, place[1:], key, wrong) if name == place[0] else value for name, value in content.items()}


@pytest.mark.parametrize("kind", FILES)
def test_the_files_are_right_before_a_key_is_misspelt(tmp_path: Path, kind: str) -> None:
    assert load_catalogs([written(FILES[kind], tmp_path / "made.yaml")])


@pytest.mark.parametrize(("kind", "place", "key", "wrong", "known"), KEYS, ids=[f"{k[0]}-{k[3]}" for k in KEYS])
def test_a_wrong_key_comes_first_with_the_keys_of_its_place(
    tmp_path: Path, kind: str, place: tuple[str | int, ...], key: str, wrong: str, known: str
) -> None:
    first, *others = faults(misspelt(FILES[kind], place, key, wrong), tmp_path)
    before, _, listed = first.partition(" Known: ")
    assert f"unknown key '{wrong}'; did you mean " in before
    hints = before.partition("did you mean ")[2].removesuffix("?").split(", ")
    assert key in hints
    assert listed == known
    assert set(hints) <= set(known.split(", "))
    assert not any("no line uses" in fault or "has 0 lines" in fault for fault in others)


@pytest.mark.parametrize("kind", FILES)
def test_a_key_unlike_any_other_has_the_list_alone(tmp_path: Path, kind: str) -> None:
    (fault,) = faults({**FILES[kind], "zzz": 1}, tmp_path)
    assert fault.startswith("1: zzz: unknown key 'zzz'; known: ")
    assert set(fault.partition("known: ")[2].split(", ")) >= set(FILES[kind])


def test_a_fault_that_no_wrong_key_explains_stays(tmp_path: Path) -> None:
    content = {**FILES["crossed"], "origins": [*FILES["crossed"]["origins"], {"shape": [7], "none": "unused"}], "titel": 1}
    assert [fault.partition(": ")[2].partition(";")[0] for fault in faults(content, tmp_path)] == [
        "titel: unknown key 'titel'",
        "origins[1]: no line uses [7]",
    ]


def test_a_wrong_key_of_the_header_is_not_lost_among_wrong_lines(tmp_path: Path) -> None:
    """100 faults are stated: those of 5,000 lines must not leave out the key that they may follow from."""
    lines = [{"shape": SHAPE, "args": 5}] * 5000
    found = faults({**FILES["crossed"], "operators": {"relu": lines}, "placment": PLACEMENT}, tmp_path)
    assert found[0].startswith("1: placment: unknown key 'placment'; did you mean placement")
    assert len(found) == 101
    assert found[-1] == "1: (file): has more faults than these 100"


@pytest.mark.parametrize("name", ["x" * 1000, "operators\nschema: ok", "operators\u2028"], ids=["long", "line", "separator"])
def test_many_and_strange_wrong_keys_are_few_short_lines(tmp_path: Path, name: str) -> None:
    """By hand: a fault has at most 300 characters of its place, 300 of its cause, and a few of the line's number."""
    found = faults({**FILES["crossed"], **{f"{name}{i}": 1 for i in range(150)}}, tmp_path)
    assert len(found) == 101
    assert all(len(fault) < 620 and "\n" not in fault for fault in found)
    assert found[-1] == "1: (file): has more faults than these 100"
