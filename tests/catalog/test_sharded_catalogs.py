"""Catalogs whose placements have shards: of the file, of a line, and of single operands."""

from __future__ import annotations

from pathlib import Path

import pytest

from ssinghal.catalog.expansion import expand
from ssinghal.catalog.loader import catalog_files, load_catalogs
from ssinghal.catalog.sampling import sample
from ssinghal.errors import CatalogError
from tests.support.processes import catalog_text

SMALL = [1, 32, 64]


def crossed(folder: Path, lines: list[dict], memory: str = "dram") -> Path:
    file = folder / "mine.yaml"
    file.write_text(catalog_text({"relu": lines}, memory=memory))
    return file


def test_a_catalog_and_a_line_have_shards(tmp_path):
    block = {"memory": "l1:block@4x4", "output_memory": "dram:width@12", "output_dtype": "bfloat8_b"}
    own = {"memory": "dram", "operands": [{"memory": "l1:width", "dtype": "bfloat8_b"}]}
    lines = [{"in": [SMALL]}, {"in": [SMALL], "placement": block}, {"in": [SMALL], "placement": own}]
    file = crossed(tmp_path, lines, "l1:height@8x8")
    cases = expand(load_catalogs([file])).cases
    assert [case.identity()["memory"] for case in cases] == ["l1:height@8x8", "l1:block@4x4", "dram"]
    assert cases[1].identity()["output_memory"] == "dram:width@12"
    assert cases[1].identity()["output_dtype"] == "bfloat8_b"
    assert cases[2].identity()["operands"] == [{"memory": "l1:width", "dtype": "bfloat8_b"}]
    assert len(sample(cases, 2)) == 2  # the size of a call needs no board


# The calls of a model, some of which have a result of another dtype, are read under any placement.
@pytest.mark.parametrize("name", ["torchvision-vit_b_16-224x224", "transformers-segformer-b0-1280x800"])
def test_a_captured_catalog_may_be_in_shards(tmp_path, name):
    file = catalog_files()[f"captured/{name}"]
    text = file.read_text()
    assert "memory: dram" in text
    (tmp_path / "sharded.yaml").write_text(text.replace("memory: dram", "memory: l1:height", 1))
    plain, sharded = (expand(load_catalogs([one])) for one in (file, tmp_path / "sharded.yaml"))
    assert [(c.name, c.inputs) for c in sharded.cases] == [(c.name, c.inputs) for c in plain.cases]
    assert {str(case.placement.request) for case in sharded.cases} == {"l1:height"}


@pytest.mark.parametrize(
    ("memory", "message"),
    [("l1:hight", "unknown shard kind 'hight'"), ("l1_small", "l1_small is TTNN's own"), ("l2", "unknown memory 'l2'")],
)
def test_what_is_no_memory_is_a_fault_of_its_line(tmp_path, memory, message):
    file = crossed(tmp_path, [{"in": [SMALL]}], memory)
    with pytest.raises(CatalogError, match=message) as error:
        load_catalogs([file])
    assert f"{file}:" in str(error.value)
