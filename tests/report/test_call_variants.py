"""Counts of calls of a run that has each call in several placements and dtypes: they state that they are of these variants."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ssinghal.core.case import Source
from ssinghal.report.call_variants import CallVariants
from ssinghal.report.group_report import GroupReport
from ssinghal.report.page import page
from ssinghal.report.page_summary import summary
from ssinghal.report.writer import write_report
from ssinghal.runs.reader import read_run
from tests.support.run_builder import a_record, write_run

PLACEMENTS, DTYPES = ["dram", "l1"], ["bfloat16", "bfloat8_b"]
MODEL = "p/net"


def call(op: str, times: int, memory: str, dtype: str, status: str = "fits") -> dict[str, Any]:
    verdict = {"bytes_per_bank": 2_000_000, "bank_bytes": 1_393_312} if status == "oom" else {}
    source = Source("net-8x8", MODEL, "8x8", times)
    return a_record(op, (32, 64), memory=memory, dtype=dtype, status=status, verdict=verdict, sources=[source])


def records(placements: list[str], dtypes: list[str]) -> list[dict[str, Any]]:
    """A model makes 3 + 2 calls: relu, which does not fit in L1, and abs on integers, which stay as they are."""
    relu = [call("relu", 3, m, d, "oom" if m == "l1" else "fits") for m in placements for d in dtypes]
    return [*relu, *(call("abs", 2, memory, "int32") for memory in placements)]


# Options, records, (variants, those out of memory, failing cases, failing calls without their variants), and what is stated.
RUNS = [
    ({"placements": PLACEMENTS, "dtypes": DTYPES}, PLACEMENTS, DTYPES, (3 * 4 + 2 * 2, 3 * 2, 2), "2 placements x 2 dtypes"),
    ({"placements": PLACEMENTS}, PLACEMENTS, DTYPES[:1], (5 * 2, 3, 1), "2 placements"),
    ({"placements": ["l1"], "dtypes": DTYPES}, ["l1"], DTYPES, (3 * 2 + 2, 3 * 2, 2), "2 dtypes"),
]
CASES = pytest.mark.parametrize(("options", "placements", "dtypes", "counts", "factors"), RUNS, ids=[run[-1] for run in RUNS])


@pytest.fixture
def made(tmp_path: Path):
    return lambda options, rows: read_run(write_run(tmp_path, rows, options={"catalogs": [], **options}))


@CASES
def test_documents_state_what_they_count(made, tmp_path, options, placements, dtypes, counts, factors):
    variants, failing, cases = counts
    write_report(made(options, records(placements, dtypes)), tmp_path / "report")
    for name in ("final_comprehensive_report.md", "oom_comprehensive_analysis.md"):
        lines = (tmp_path / "report" / name).read_text().splitlines()
        assert f"| of these, called by models | {cases}, in {failing} variants of calls |" in lines
        assert f"| calls that models make | 5, in {variants} variants of calls |" in lines
    for path in (tmp_path / "report").glob("**/*.md"):
        named = f"in several variants ({factors}): counts of calls are of these."
        assert (named in path.read_text()) is not path.name.startswith("placements"), path
    numbers = {"placements": len(placements), "dtypes": len(dtypes)}
    for name in ("comprehensive_oom_report.json", "detailed_analysis_data.json"):
        assert json.loads((tmp_path / "report" / name).read_text())["variants"] == numbers


@CASES
def test_the_page_states_what_it_counts(made, open_tab, tmp_path, options, placements, dtypes, counts, factors):
    variants, failing, _ = counts
    run = made(options, records(placements, dtypes))
    (tmp_path / "report.html").write_text(page(run))
    tab = open_tab(tmp_path / "report.html", "")
    tab.wait_for_selector("main[aria-busy=false]")
    headline = " ".join(tab.locator(".lead .headline").first.inner_text().split())
    assert headline == (
        f"{failing} of {variants} variants of calls that models make run out of memory "
        f"In one model: 1 distinct call of 1 operator. These are variants of 5 calls: {factors}."
    )
    assert f"total {variants} variants" in " ".join(tab.locator(".lead ul.keys").first.inner_text().split())
    assert f"{failing} of {variants} variants of calls out of memory" in tab.locator("tr.group").first.inner_text()
    tab.goto(f"{tab.url.partition('#')[0]}#view=models")
    tab.wait_for_selector("h2:text-is('Models')")
    assert f"These are variants of 5 calls: {factors}." in tab.locator("main section.panel p.hint").first.inner_text()


@CASES
def test_the_summary_of_a_large_run_has_the_calls_beside_their_variants(made, options, placements, dtypes, counts, factors):
    run = made(options, records(placements, dtypes))
    report = GroupReport(run.groups[0], variants=CallVariants.of(run))
    assert summary(report)["calls"] == [*counts[:2], 5]


@pytest.mark.parametrize("options", [{}, {"placements": []}, {"placements": ["l1"], "dtypes": ["bfloat16"]}])
@pytest.mark.parametrize(("times", "words"), [(1, "1, in 1 call"), (2, "1, in 2 calls")])
def test_a_run_with_one_of_each_counts_calls(made, open_tab, tmp_path, options, times, words):
    run = made(options, [call("relu", times, "l1", "bfloat16", "oom")])
    write_report(run, tmp_path / "report")
    texts = [path.read_text() for path in (tmp_path / "report").glob("*.md")]
    assert sum(f"| of these, called by models | {words} |" in text for text in texts) == 2
    assert not any("variant" in text for text in texts)
    assert "variants" not in json.loads((tmp_path / "report" / "comprehensive_oom_report.json").read_text())
    tab = open_tab(tmp_path / "report" / "report.html", "")
    tab.wait_for_selector("main[aria-busy=false]")
    assert "variant" not in tab.locator("main").inner_text()


def test_equal_calls_of_the_catalogs_stay_two_where_the_run_does_not_alter_what_differs(made, tmp_path):
    """relu in two dtypes of a catalog, each in two placements: 3 + 4 calls, in 14 variants."""
    rows = [call("relu", times, memory, dtype) for times, dtype in ((3, "bfloat16"), (4, "float32")) for memory in PLACEMENTS]
    write_report(made({"placements": PLACEMENTS}, rows), tmp_path / "report")
    assert "| 7, in 14 variants of calls |" in (tmp_path / "report" / "final_comprehensive_report.md").read_text()
