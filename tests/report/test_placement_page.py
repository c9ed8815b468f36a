"""The placement view of report.html in a browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from ssinghal.core.case import Source
from ssinghal.report.page import page
from ssinghal.runs.reader import read_run
from tests.support.run_builder import a_record, write_run

IDLE = "main[aria-busy=false]"
MEMORIES = ["dram", "l1:height"]
SOURCE = [Source("net-8x8", "p/net", "8x8", 3)]
PEAKS = {"l1_bytes": 393_312, "circular_bytes": 0, "dataflow_bytes": 0, "scratch_bytes": 0, "l1_total_bytes": 393_312}
USAGE = {**PEAKS, "l1_small_bytes": 0, "dram_bytes": 0}
FITS = {**a_record("relu", (32, 64), memory="dram", sources=SOURCE), "usage": USAGE, "resident": {"l1": 393_312}}
RULE = {"message": "Height sharded inputs are not supported."}
REFUSED = a_record("relu", (32, 64), memory="l1:height", status="unsupported", verdict=RULE, sources=SOURCE)


@pytest.fixture
def tab(open_tab, tmp_path: Path):
    def opened(placements: list[str], records=(FITS, REFUSED), dtypes=()):
        folder = write_run(tmp_path, records, options={"catalogs": [], "placements": placements, "dtypes": list(dtypes)})
        file = tmp_path / "report.html"
        file.write_text(page(read_run(folder)))
        tab = open_tab(file, "#view=placements")
        tab.wait_for_selector(IDLE)
        return tab

    return opened


def test_the_view_has_a_row_per_call_and_a_column_per_placement(tab):
    shown = tab(MEMORIES)
    assert shown.locator("#tabs a").all_inner_texts()[-1] == "Placements"
    text = shown.locator("main").inner_text()
    assert "0 of 3 calls fit in L1 sharded; 3 fit nowhere but DRAM" in text
    cells = shown.locator("table[aria-label^=Calls] tbody tr").first.locator("td").all_inner_texts()
    assert cells == ["3", "relu [32,64]", "fits, 976.6 KiB", "rule"]  # 1,393,312 - 393,312 B
    reason = shown.locator("table[aria-label^=Calls] a", has_text="rule").get_attribute("title")
    assert reason == "rule: Height sharded inputs are not supported."


def test_each_dtype_has_its_own_tables(tab):
    in_block_floats = [a_record("relu", (32, 64), memory=memory, dtype="bfloat8_b", sources=SOURCE) for memory in MEMORIES]
    shown = tab(MEMORIES, [FITS, REFUSED, *in_block_floats], ["bfloat16", "bfloat8_b"])
    assert shown.locator("main h2").all_inner_texts() == [
        "p/net at 8x8, operands in bfloat16",
        "p/net at 8x8, operands in bfloat8_b",
    ]
    hints = shown.locator("main section.panel > p.hint").all_inner_texts()
    assert [hint.partition(".")[0] for hint in hints] == [
        "0 of 3 calls fit in L1 sharded; 3 fit nowhere but DRAM",
        "3 of 3 calls fit in L1 sharded; 0 fit nowhere but DRAM",
    ]
    rows = shown.locator("table[aria-label^=Calls] tbody tr").all()
    assert [row.locator("td").all_inner_texts()[:2] for row in rows] == [
        ["3", "relu [32,64] bfloat16"],
        ["3", "relu [32,64] bfloat8_b"],
    ]


def test_without_shards_nothing_is_stated_of_them(tab):
    assert tab(["dram"], [FITS]).locator("main section.panel > p.hint").inner_text().startswith("A cell has the bytes")


def test_other_runs_have_no_such_view(tab):
    assert tab([]).locator("#tabs a").all_inner_texts()[-1] == "Padding"
