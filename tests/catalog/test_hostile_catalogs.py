"""Catalogs that were made to mislead: names that break lines, numbers that equal others, and faults without an end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ssinghal.catalog.loader import load_catalogs
from ssinghal.errors import CatalogError

PLACEMENT = {"dtype": "bfloat16", "layout": "tile", "memory": "dram", "output_memory": "same"}
SHAPE = [1, 32, 64]
HEADS: dict[str, dict[str, Any]] = {
    "crossed": {"origins": [{"shape": SHAPE, "none": "made"}], "operators": {"relu": [{"shape": SHAPE}]}},
    "imported": {"operators": {"relu": [{"n": 1, "in": [SHAPE]}]}},
    "captured": {
        "model": {"name": "net", "package": "local==1", "config": "net", "params": 0, "fused": False},
        "input": {"shapes": [SHAPE], "dtype": "bfloat16"},
        "capture": {"torch": "2.14.1", "level": "aten", "device": "meta", "guessed": 0},
        "counts": {"calls": 0, "cases": 0},
        "ops": {},
    },
}
LINE_ENDS = ["\n", "\r", "\r\n", "\x85", "\u2028", "\x0b", "\x0c"]


def faults(folder: Path, kind: str, **changes: Any) -> list[str]:
    """The faults of a catalog in one line of JSON, which is YAML."""
    file = folder / "bad.yaml"
    file.write_text(json.dumps({"schema": 1, "kind": kind, "title": "made", "placement": PLACEMENT, **HEADS[kind], **changes}))
    with pytest.raises(CatalogError) as caught:
        load_catalogs([file])
    return [fault.removeprefix(f"{file}:") for fault in caught.value.faults]


@pytest.mark.parametrize("end", LINE_ENDS, ids=ascii)
@pytest.mark.parametrize("kind", HEADS)
def test_a_name_with_a_line_end_is_one_line(tmp_path, kind, end):
    """Otherwise its second part could pass for a separate message."""
    name = f"relu{end}ssinghal: all is well"
    lists = "ops" if kind == "captured" else "operators"
    for found in (faults(tmp_path, kind, **{lists: {name: [{}]}}), faults(tmp_path, kind, **{name: 1})):
        assert found
        for fault in found:
            assert fault.startswith("1: ")
            assert "\n" not in fault
            assert "\r" not in fault


@pytest.mark.parametrize("kind", HEADS)
@pytest.mark.parametrize(("schema", "shown"), [(1.0, "1.0"), (True, "True")])
def test_what_equals_1_is_no_schema(tmp_path, kind, schema, shown):
    assert f"1: schema: expected a whole number, got {shown}" in faults(tmp_path, kind, schema=schema)


def test_a_file_states_100_faults_and_that_there_are_more(tmp_path):
    """Each costs a search for its line and for similar names: 10^6 of them would take hours."""
    for count, stated in ((99, 99), (100, 100), (101, 101), (5000, 101)):
        found = faults(tmp_path, "imported", operators={f"no_such_{n}": [{"n": 1, "in": [SHAPE]}] for n in range(count)})
        assert len(found) == stated
        assert (found[-1] == "1: (file): has more faults than these 100") is (count > 100)


@pytest.mark.parametrize("item", ["0x1", "!!python/name:os.system ''", "? [1]\n", "2020-01-01"])
def test_faults_of_form_are_as_few(tmp_path, item):
    file = tmp_path / "bad.yaml"
    file.write_text("items:\n" + "".join(f"- {item.strip()}\n" for _ in range(2000)))
    with pytest.raises(CatalogError) as caught:
        load_catalogs([file])
    assert len(caught.value.faults) == 101
    assert caught.value.faults[-1] == f"{file}:101: (file): has more faults than these 100"
