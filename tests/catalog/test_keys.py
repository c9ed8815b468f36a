"""Two calls that have one key are refused, or kept apart: the pairs were found among 30 million shapes of each operator."""

from __future__ import annotations

from pathlib import Path

import pytest

from ssinghal.catalog.expansion import expand
from ssinghal.catalog.loader import load_catalogs
from ssinghal.core.case import Case
from ssinghal.errors import InvalidCase
from tests.cli.test_run import Run
from tests.support.processes import catalog_text

PAIRS = {"leaky_relu": (4361444, 21285736), "silu": (12271436, 19509972)}


def cases_of(folder: Path, sections: dict[str, list[int]]) -> tuple[Case, ...]:
    """The cases of a catalog: for each name, matrices of one row and so many columns."""
    lines = {name: [{"shape": [1, columns]} for columns in listed] for name, listed in sections.items()}
    catalog = folder / "catalog.yaml"
    catalog.write_text(catalog_text(lines, memory="dram"))
    return expand(load_catalogs([str(catalog)])).cases


@pytest.mark.parametrize(("name", "columns"), PAIRS.items(), ids=PAIRS)
def test_two_calls_of_one_key_are_not_one_case(name: str, columns: tuple[int, int], tmp_path: Path) -> None:
    (first,) = cases_of(tmp_path, {name: [columns[0]]})
    (second,) = cases_of(tmp_path, {name: [columns[1]]})
    assert first.key == second.key  # else the pair must be found anew
    assert not first.is_same_call(second)
    with pytest.raises(
        InvalidCase, match=rf"two calls have the key {first.key}.* 1x{columns[0]}-.* and 1x{columns[1]}-.* of {name};"
    ):
        cases_of(tmp_path, {name: list(columns)})


def test_one_call_of_two_catalogs_is_one_case(tmp_path: Path) -> None:
    columns = PAIRS["silu"][0]
    (first,) = cases_of(tmp_path, {"silu": [columns]})
    (second,) = cases_of(tmp_path, {"silu": [columns]})
    assert first.is_same_call(second)
    assert len(first.merged(second).sources) == len(first.sources) + len(second.sources)


@pytest.mark.virtual_device
def test_calls_of_one_key_and_two_names_are_probed_each(tmp_path: Path) -> None:
    """By hand: a row of tiles of 2,048 B, ceil(4,361,444 / 32) = 136,296 and ceil(21,285,736 / 32) = 665,180 of them, over 12
    banks: 11,358 and ceil(665,180 / 12) = 55,432 in each."""
    few, many = PAIRS["leaky_relu"]
    run = Run(tmp_path, {"leaky_relu": [{"shape": [1, few]}], "leakyrelu": [{"shape": [1, many]}]}, memory="dram")
    code, out, _ = run()
    assert code == 0, out
    records = {record["op"]: record for record in run.records}
    assert {op: record["inputs"] for op, record in records.items()} == {"leaky_relu": [[1, few]], "leakyrelu": [[1, many]]}
    assert len({record["key"] for record in records.values()}) == 1
    peaks = {op: record["usage"]["dram_bytes"] for op, record in records.items()}
    assert peaks == {"leaky_relu": 2 * 11_358 * 2048, "leakyrelu": 2 * 55_432 * 2048}
