"""The page of a plan under ``l1`` in a browser: the timeline of L1, the placements, and what is not known to fit."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ssinghal.core.boards import load_board
from ssinghal.core.verdict import Status
from ssinghal.plan.lowering import planned_steps
from ssinghal.plan.page import page, read_plan
from ssinghal.plan.placing.reporting import placement_of
from ssinghal.plan.result import PlanResult
from tests.plan.placements import IMAGE, L1_BANK, MAP, NOWHERE, POOLED, WEIGHTS, found, run, small_trace

HOSTILE = "</script><img src=x onerror=alert(1)>\"'`${x}&lt;!--\u2028\u202eabc " + "long" * 500
MOVED = IMAGE + WEIGHTS + 2 * MAP + 2 * POOLED


def placed(result=None, measured: PlanResult | None = None, **more) -> PlanResult:
    measured = measured or run()
    trace, board = small_trace(), load_board("n150").with_l1_small(32_768)
    given = {"failed_runs": [(2, "no room", 2_048)], "port": run(policy="port"), "probes": 40, "headroom_bytes": 1_000, **more}
    decided = None if result is NOWHERE else measured
    report = placement_of(result or found(), decided, trace=trace, steps=planned_steps(trace), board=board, **given)
    return replace(measured, placement=report)


PLACED = placed()
UNPLACED = placed(
    NOWHERE, run(status=Status.OOM, message=str(NOWHERE), steps=(), peak_bytes=0, peak_step=-1, checked=0), failed_runs=()
)


@pytest.fixture
def visit(open_tab, tmp_path: Path) -> Callable:
    def open_page(*plans: PlanResult, **options):
        path = tmp_path / "plans.html"
        path.write_text(page([plan.to_json() for plan in plans]), encoding="utf-8")
        return open_tab(path, **options)

    return open_page


def rows(tab, label: str) -> list[list[str]]:
    return tab.locator(f"table[aria-label='{label}']").evaluate_all(
        "tables => tables.flatMap(t => [...t.tBodies].flatMap(b => [...b.rows])).map("
        "  row => [...row.cells].map(cell => cell.textContent.split(/\\s+/).join(' ').trim()))"
    )


def unfold(tab) -> None:
    tab.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")


def readout(tab, kind: str) -> str:
    return " ".join(tab.locator(f"[data-plot={kind}] .readout").inner_text().split())


def test_the_timeline_of_l1_is_drawn_to_scale(visit):
    """Heights are shares of a plot that ends above the bank; paths are in a box of 1,000."""
    tab = visit(PLACED)

    def height(selector: str) -> float:
        return tab.locator(f"[data-plot=l1] .field {selector}").evaluate(
            "e => 1 - (e.tagName === 'path' ? e.getBBox().y / 1000 :"
            " (e.y1 ?? e.cy).baseVal.value / e.ownerSVGElement.getBoundingClientRect().height)"
        )

    bank = height("line.bank")
    assert 0.8 < bank < 1
    for selector, size in (
        ("path.activations", 57_344), ("path.cache", 131_488), ("circle.peak", 131_488), ("path.limit", L1_BANK),
    ):  # fmt: skip
        assert height(selector) / bank == pytest.approx(size / L1_BANK, abs=0.003), selector
    box = tab.locator("[data-plot=l1] .field path.limit").evaluate("e => e.getBBox().height / 1000")
    assert box / bank == pytest.approx(5_000 / L1_BANK, abs=0.0005)  # the last step may take 5,000 B less
    keys = tab.locator("[data-plot=l1] figcaption").inner_text()
    assert f"({L1_BANK:,} B)" in keys
    assert "peak: step 0" in keys


def test_both_timelines_follow_one_pointer(visit):
    tab = visit(PLACED)
    field = tab.locator("[data-plot=l1] .field")
    field.focus()
    tab.keyboard.press("End")
    assert readout(tab, "dram").startswith("step 2 max_pool2d in maxpool fits")
    text = readout(tab, "l1")
    assert text.startswith("step 2 max_pool2d in maxpool fits L1, per core: 0 B of tensors after the step")
    for size in (102_016, L1_BANK - 102_016, 85_376, 16_640):
        assert f"({size:,} B)" in text
    assert text.endswith("results in dram; operand 1 to dram before the call")
    tab.locator("[data-plot=dram] .field").focus()
    tab.keyboard.press("Home")
    assert "results in l1:height@8x7:224x64; shards height, act_block_h 64, not sliced" in readout(tab, "l1")
    places = [field.get_attribute("aria-valuenow") for field in tab.locator(".field").all()]
    assert places == ["0", "0"]


def test_each_step_has_its_placement_and_what_stops_a_better_one(visit):
    tab = visit(PLACED)
    conv, relu, pooled = rows(tab, "Placements")
    settings = "shards height, act_block_h 64, not sliced"
    assert conv == [
        "0", "convolution", "conv1", "l1:height@8x7:224x64", settings, f"{IMAGE + WEIGHTS:,}", "0", "0", "131,488",
        "1,229,056", "",
    ]  # fmt: skip
    assert relu[3:10] == ["l1:height@8x7:224x64", "", "0", "0", "0", "57,344", f"{L1_BANK - 57_344:,}"]
    assert pooled[3:8] == [
        "dram",
        "operand 1 to dram before the call",
        f"{2 * MAP + 2 * POOLED:,}",
        f"{2 * MAP + POOLED:,}",
        "0",
    ]
    assert pooled[10].startswith(f"result in l1 would move {2 * MAP + POOLED:,} B less, but needs 45,056 B of a core's L1 more")


def test_what_is_moved_is_beside_port(visit):
    tab = visit(PLACED)
    assert [(name, ours.split("(")[-1], theirs.split("(")[-1]) for name, ours, theirs in rows(tab, "Bytes moved")] == [
        (name, *[size] * 2)
        for name, size in (
            ("weights, read from DRAM", f"{WEIGHTS:,} B)"), ("inputs, read from DRAM", f"{IMAGE:,} B)"),
            ("results, written to DRAM", f"{POOLED:,} B)"),
            ("activations, written to DRAM and read from there", f"{2 * MAP + POOLED:,} B)"),
            ("through DRAM", f"{MOVED:,} B)"), ("resharded within L1", "0 B"), ("changes of layout or shards", "2"),
        )
    ]  # fmt: skip
    text = tab.locator(".placements").inner_text()
    assert "results stay in L1: 44.4 % of their bytes" in text
    assert "1,000 B were to stay free" in text
    assert [row[:4] for row in rows(tab, "Failed runs")] == [["2", "max_pool2d", "maxpool", "it may hold 2,048 B less"]]


def test_without_a_placement_no_badge_says_that_it_fits(visit):
    tab = visit(UNPLACED)
    assert tab.locator(".badge").all_inner_texts() == ["no placement"] * 2
    text = tab.locator(".plan").inner_text()
    assert "nothing was run, so nothing is known to fit" in text
    assert "the smallest choice needs 45,056 B of a core's L1 more than the 1,224,490 B it may take" in text
    assert [row[1:] for row in rows(tab, "Live values without a placement")] == [
        ["l1:height@8x7:224x64", "28 KiB (28,672 B)"], ["dram", "0 B"],
    ]  # fmt: skip
    assert tab.locator("table[aria-label='Placements']").count() == 0
    assert "with a difference of 0 B" not in text
    verdict, _ = rows(tab, "Verdicts")
    assert verdict[1:] == ["no placement", *["–"] * 10]


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (600, "light"), (390, "dark")])
def test_it_fits_the_screen(visit, width, scheme):
    tab = visit(PLACED, UNPLACED, width=width, color_scheme=scheme)
    unfold(tab)
    assert tab.evaluate("document.documentElement.scrollWidth") == width


def test_texts_of_models_are_escaped(visit):
    report = PLACED.placement
    assert report is not None
    assert UNPLACED.placement is not None
    assert UNPLACED.placement.nowhere is not None
    bad = dict.fromkeys(("operator", "at"), HOSTILE)
    steps = tuple(replace(step, **bad, settings=HOSTILE, moves=(HOSTILE,)) for step in report.steps)
    nowhere = replace(UNPLACED.placement.nowhere, **bad, message=HOSTILE, best=HOSTILE, rejections=(HOSTILE,))
    failed = tuple(replace(one, **bad, message=HOSTILE) for one in report.failed_runs)
    tab = visit(
        replace(PLACED, placement=replace(report, steps=steps, failed_runs=failed)),
        replace(UNPLACED, message=HOSTILE, placement=replace(UNPLACED.placement, nowhere=nowhere)),
    )
    unfold(tab)
    assert tab.locator("img").count() == 0
    assert HOSTILE.split("\u2028")[0] in tab.locator("table[aria-label='Placements']").text_content()
    assert tab.evaluate("document.documentElement.scrollWidth") == 1440


@pytest.mark.parametrize("plan", [PLACED, UNPLACED], ids=["placed", "unplaced"])
def test_placements_are_read_back_as_they_were(plan):
    assert read_plan(plan.to_json(), "plan") == plan


def test_documents_have_the_figures_that_follow_from_others():
    document = PLACED.to_json()["placement"]
    assert document["moved"]["activations_bytes"] == 2 * MAP + POOLED
    assert (document["ratio"], document["least_headroom_bytes"]) == (1.0, L1_BANK - 131_488)
    assert UNPLACED.to_json()["placement"]["least_headroom_bytes"] is None
    assert [step["results"][0]["memory"] for step in document["steps"]] == [*["l1:height@8x7:224x64"] * 2, "dram"]
    without = PLACED.without_steps().to_json()
    assert (without["steps"], without["placement"]["steps"]) == ([], [])


def test_documents_of_before_have_no_placements():
    """Plans that were written before steps had them: they lack the fields, and the page shows no timeline of L1."""
    document = PLACED.to_json()
    del document["placement"]
    new = (
        "l1_total_peak_bytes", "program_bytes", "dram_moved_bytes", "resharded_bytes", "layout_changes", "weights_read_bytes",
        "inputs_read_bytes", "results_written_bytes",
    )  # fmt: skip
    for step in document["steps"]:
        for name in new:
            del step[name]
    plan = read_plan(document, "plan")
    assert plan.placement is None
    assert [step.l1_bytes for step in plan.steps] == [28_672, 57_344, 0]
    html = page([document])
    assert 'data-plot="dram"' in html
    assert 'data-plot="l1"' not in html
