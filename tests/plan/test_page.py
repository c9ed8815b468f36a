"""The page of plans in a browser: its numbers are those of the plans, every step is there, texts of models are escaped."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ssinghal.capture.trace_library import find_trace
from ssinghal.core.verdict import Resource, Status, Verdict
from ssinghal.device.modes import choose_device
from ssinghal.errors import HarnessError
from ssinghal.plan.executor import PlanTask
from ssinghal.plan.page import EdgeTable, page, read_plan
from ssinghal.plan.policy import find_policy
from ssinghal.plan.result import CallFailure, LiveValue, PlanResult, Split, StandIn, StepUse
from ssinghal.render.tables import percent
from ssinghal.runner.pool import Pool

BANK, BANKS = 1_072_693_184, 12  # of an n150
WEIGHTS = 100_000_000
HOSTILE = "</script><img src=x onerror=alert(1)>\"'`${x}&lt;!--\u2028\u202eabc " + "long" * 500


def use(number: int, dram: int, within: int = 0, status: Status = Status.FITS, operator: str = "", at: str = "") -> StepUse:
    return StepUse(
        number, operator or ("relu", "convolution")[number % 2], at or f"layer{number // 100}.{number}", status,
        dram, within or dram, 0, 1_000 + number, 64 * (number % 5), 2_048 * (number // 10),
    )  # fmt: skip


def a_plan(steps: tuple[StepUse, ...], board: str = "n150", **more) -> PlanResult:
    peak = max(steps, key=lambda step: step.dram_peak_bytes)
    policy = find_policy(more.pop("policy", "port"))
    cache = peak.cache_bytes
    split = Split(WEIGHTS, peak.dram_bytes - WEIGHTS - cache, cache, peak.dram_peak_bytes - peak.dram_bytes, 4_321)
    given = {
        "peak_bytes": peak.dram_peak_bytes, "peak_step": peak.number, "peak": split, "alive": (LARGE, SMALL),
        "l1_peak_bytes": 866_880, "l1_bank_bytes": 1_360_544, "l1_small_peak_bytes": 6_784, "steps": steps,
        "steps_sha256": "894f09d9" * 8, "checked": len(steps) + 1, "total_steps": len(steps),
    }  # fmt: skip
    return PlanResult(
        "net/wide", ((1, 3, 640, 400),), board, "0.81.1", "virtual", policy.to_json(), str(policy), "d6457262" * 8, 32_768,
        **{"status": Status.FITS, "dram_bank_bytes": BANK, "dram_banks": BANKS} | given | more,
    )  # fmt: skip


LARGE = LiveValue(3, "layer2.attn", (4, 12, 8160, 8160), (4, 12, 8160, 8160), "tile", 532_684_800, 6_392_217_600)
SMALL = LiveValue(5, "layer1.act", (1, 768, 272, 480), (1, 1, 130560, 768), "row_major", 16_711_680, 200_540_160)
FITTING = a_plan(tuple(use(n, WEIGHTS + 2_048 * n, WEIGHTS + 4_096 * n if n % 7 == 0 else 0) for n in range(1_200)))

# yolo12x 2176x3840: softmax asks for 532,684,800 B per bank where 470,869,952 B are the largest free block
SOFTMAX = Verdict(
    Status.OOM, Resource.DRAM_BUFFER, "ttnn.softmax", 6_392_217_600, 532_684_800, BANKS, BANK, 595_556_352, 477_136_832,
    470_869_952, message="Out of Memory: not enough space", thrown_at="bank_manager.cpp:514",
)  # fmt: skip
FAILURE = CallFailure(
    2, "softmax", "layer2.attn", "ttnn.softmax", ((4, 12, 8160, 8160),), ((4, 12, 8160, 8160),), SOFTMAX, (LARGE,),
    Split(WEIGHTS, 495_556_352, 0, 0, 777),
)  # fmt: skip
LATER = replace(FAILURE, step=3, at="layer3.attn", after=True)
FAILING = a_plan(
    (
        use(0, 200_000_000, 300_000_000),
        use(1, 599_734_272),
        use(2, 595_556_352, 0, Status.OOM),
        use(3, WEIGHTS, 0, Status.NOT_RUN),
    ),
    policy="eager",
    status=Status.OOM,
    message=SOFTMAX.message,
    failure=FAILURE,
    later=(LATER,),
    stand_ins=(StandIn(1, "aten.meshgrid", "head", "no operator makes it", 4_096),),
    stand_in_share=0.0004,
)
UNLOADED = replace(
    FAILING, board="p150", steps=(), peak_bytes=0, peak_step=-1, peak=Split(), alive=(),
    failure=replace(FAILURE, step=-1, operator="", at="", doing="placing the weights", operands=(), results=()),
)  # fmt: skip
CRASHED = replace(UNLOADED, status=Status.CRASH, failure=None, message="the worker died; 7 of 800 steps were done")


@pytest.fixture
def visit(open_tab, tmp_path: Path) -> Callable:
    def open_page(*plans: PlanResult, tables=(), **options):
        path = tmp_path / "plans.html"
        path.write_text(page([plan.to_json() for plan in plans], tables), encoding="utf-8")
        return open_tab(path, **options)

    return open_page


def exact(text: str) -> list[int]:
    """Returns the exact numbers of bytes in a text: "568 MiB (595,556,352 B)", "0 B"."""
    return [int(number.replace(",", "")) for number in re.findall(r"([\d,]+) B\b", text)]


def grid(tab, label: str) -> list[list[str]]:
    """Returns the cells in the bodies of all tables of that name, including folded ones."""
    return tab.locator(f"table[aria-label='{label}']").evaluate_all(
        "tables => tables.flatMap(t => [...t.tBodies].flatMap(b => [...b.rows])).map("
        "  row => [...row.cells].map(cell => cell.textContent.split(/\\s+/).join(' ').trim()))"
    )


def unfold(tab) -> None:
    """Unfolds all plans; the first is at the start."""
    folded = tab.locator("details.plan:not([open])")
    while folded.count():
        folded.first.locator("summary").first.click()


def readout(tab) -> str:
    return " ".join(tab.locator(".readout").first.inner_text().split())


# What it says ------------------------------------------------------------------------------------------------------------


def test_each_plan_has_a_verdict_with_its_own_figures(visit):
    tab = visit(FITTING, FAILING)
    fits, fails, (why,) = grid(tab, "Verdicts")
    for row, plan in ((fits, FITTING), (fails, FAILING)):
        split = plan.peak
        assert exact(" ".join(row)) == [
            plan.peak_bytes, split.weights_bytes, split.activations_bytes, split.program_cache_bytes,
            split.temporaries_bytes, split.padding_bytes, plan.l1_peak_bytes, plan.l1_small_peak_bytes,
        ]  # fmt: skip
    assert fits[:2] + fits[-1:] == ["n150port v2", "fits", "0 %"]
    assert fails[:2] + fails[-1:] == ["n150eager v2", "oom dram_buffer", "< 0.1 %"]
    assert "compared 1,201 of 1,201 times with the allocator's own number" in tab.locator(".plan").first.inner_text()
    assert fails[3] == "55.9 %until the failure"  # 599,734,272 of 1,072,693,184
    assert (
        why == "first failure: step 2 softmax in layer2.attn: DRAM bank needs 532,684,800 B, 477,136,832 B free (ttnn.softmax)"
    )
    unfold(tab)
    head = tab.locator("#head").inner_text()
    for text in ("net/wide", "[1,3,640,400]", "virtual", "0.81.1", "32 KiB (32,768 B)", "d6457262" * 8, "numerics not run"):
        assert text in head
    assert "fold batch norm: no" in tab.locator(".plan").last.inner_text()  # policies differ, so each plan shows its own


def test_a_failure_shows_where_and_by_how_much(visit):
    tab = visit(FAILING)
    box = tab.get_by_label("First failure").inner_text()
    for text in ("layer2.attn", "2 of 4", "ttnn.softmax", "[4,12,8160,8160]"):
        assert text in box
    short = 532_684_800 - 470_869_952
    per_bank = [532_684_800, 595_556_352, 477_136_832, 470_869_952, short]
    rows = [exact(" ".join(row)) for row in grid(tab, "Bytes of the failure")]
    assert rows == [[size, size * BANKS] for size in per_bank]
    split = [exact(" ".join(row)) for row in grid(tab, "At the failure")]
    assert split == [[WEIGHTS], [495_556_352], [0], [0], [595_556_352], [777]]
    assert [row[:5] for row in grid(tab, "Later failures")] == [
        ["3", "softmax", "layer3.attn", "ttnn.softmax", "[4,12,8160,8160]"]
    ]
    assert grid(tab, "Stand-ins") == [["1", "aten.meshgrid", "head", "no operator makes it", "4 KiB (4,096 B)"]]


def test_the_largest_values_have_torchs_shape_and_the_devices(visit):
    """The large one has no padding: 532,684,800 B in each of 12 banks."""
    tab = visit(FITTING)
    assert grid(tab, "Largest live values at the peak") == [
        ["layer2.attn", *["[4,12,8160,8160]"] * 2, "tile", "508 MiB (532,684,800 B)", "5.953 GiB (6,392,217,600 B)", "1.00×"],
        ["layer1.act", "[1,768,272,480]", "[1,1,130560,768]", "row_major", "15.94 MiB (16,711,680 B)",
         "191.3 MiB (200,540,160 B)", "1.00×"],
    ]  # fmt: skip


def test_the_timeline_is_drawn_to_scale(visit):
    """If the end of a bank is drawn, every height is proportional to its bytes."""
    tab = visit(FAILING)

    def height(selector: str) -> float:
        """Returns the height above the plot's lower edge as a share of its height. Paths are in a box of 1,000."""
        return tab.locator(f".field {selector}").evaluate(
            "e => 1 - (e.tagName === 'path' ? e.getBBox().y / 1000 :"
            " (e.y1 ?? e.cy).baseVal.value / e.ownerSVGElement.getBoundingClientRect().height)"
        )

    bank = height("line.bank")
    for selector, size in (
        ("path.weights", WEIGHTS), ("path.within", 300_000_000), ("path.activations", 599_734_272),
        ("circle.peak", 599_734_272), ("line.requested", 595_556_352 + 532_684_800),
    ):  # fmt: skip
        assert height(selector) / bank == pytest.approx(size / BANK, abs=0.002), selector
    field, after = (tab.locator(selector).bounding_box() for selector in (".field", ".field rect.after"))
    assert (after["x"] - field["x"]) / field["width"] == pytest.approx(2 / 4, abs=0.002)
    assert (after["x"] + after["width"]) == pytest.approx(field["x"] + field["width"], abs=1)
    assert "from the first failure on, with stand-ins: not evidence" in tab.locator("figcaption").inner_text()


def test_a_bank_far_above_the_peak_does_not_flatten_it(visit):
    tab = visit(FITTING)
    assert tab.locator(".field line.bank").count() == 0
    assert f"the end of a bank is above this plot, at 1,023 MiB ({BANK:,} B)" in tab.locator("figcaption").inner_text()


CIRCULAR = Verdict(
    Status.OOM, Resource.CIRCULAR_BUFFER, "reshape", program_bytes=2_205_328, limit_bytes=1_499_136, buffer_kind="dataflow",
    message="Statically allocated dataflow buffers …",
)  # fmt: skip
PROGRAM = replace(FAILING, failure=replace(FAILURE, verdict=CIRCULAR), later=(), message=CIRCULAR.message)


def test_the_verdict_and_its_sentence_use_the_releases_term(visit):
    """TTNN 0.81.1 names dataflow buffers where earlier releases name circular ones; only the first verdict has both words."""
    other = replace(PROGRAM, board="p150", failure=replace(PROGRAM.failure, at="elsewhere"))
    tab = visit(PROGRAM, other)
    rows = [row for row in grid(tab, "Verdicts") if len(row) > 1]
    assert [row[1] for row in rows] == ["oom dataflow buffers (circular_buffer)", "oom dataflow buffers"]
    sentences = [row[0] for row in grid(tab, "Verdicts") if len(row) == 1]
    assert all("dataflow buffers end at 2,205,328 B" in sentence for sentence in sentences)
    assert grid(tab, "Bytes of the failure")[0][0] == "dataflow buffers end at"
    assert tab.content().count("circular_buffer") == 1


def test_equal_failures_are_told_once_and_other_plans_are_folded(visit):
    again = replace(FAILING, policy_name="eager+qkv_split v2")
    tab = visit(FAILING, again, FITTING)
    why = [row[0] for row in grid(tab, "Verdicts") if len(row) == 1]
    assert [text.startswith("first failure: step 2 softmax") for text in why] == [True, False]
    assert why[1] == "the same first failure as n150, eager v2"
    plans = tab.locator("details.plan")
    assert [plan.get_attribute("open") is not None for plan in plans.all()] == [True, False, False]
    assert "the same first failure as n150, eager v2" in plans.nth(1).inner_text()
    tab.locator("table[aria-label=Verdicts] th a").nth(2).click()
    tab.wait_for_selector("#plan-3[open]")
    assert tab.locator("#plan-3 .readout").inner_text().startswith("step ")
    assert visit(FAILING, again, FITTING, hash="#plan-2").locator("#plan-2[open]").count() == 1


def test_the_axes_are_named_and_end_above_the_peak(visit):
    tab = visit(FITTING, FAILING)
    unfold(tab)
    for figure in tab.locator(".plot").all():
        assert figure.locator(".axis").all_inner_texts() == ["bytes per DRAM bank", "step"]
        top = figure.locator("svg.y text").last.bounding_box()
        peak = figure.locator(".field circle.peak").bounding_box()
        field = figure.locator(".field").bounding_box()
        assert top["y"] + top["height"] / 2 == pytest.approx(field["y"], abs=3)  # the last tick is at the upper edge
        assert peak["y"] > field["y"]


def test_the_space_beside_the_bank_is_used(visit):
    tab = visit(FITTING)
    bank, values = (tab.locator(f"table[aria-label='{name}']").bounding_box() for name in
                    ("At the peak", "Largest live values at the peak"))  # fmt: skip
    assert values["x"] > bank["x"] + bank["width"]
    assert values["x"] + values["width"] > 1_300


@pytest.mark.parametrize("width", [1400, 600, 390])
def test_no_table_is_cut_without_a_way_to_scroll(visit, width):
    tables = [EdgeTable("Largest batch", ("tier", *"abcdefgh"), [["1280x720", *["1,234 of many, many more"] * 8]])]
    tab = visit(FITTING, FAILING, PROGRAM, tables=tables, width=width)
    unfold(tab)
    for summary in tab.locator("details:not(.plan) > summary").all():
        summary.click()
    cut = tab.locator("table").evaluate_all(
        """(tables) => tables.filter((table) => {
          const scroller = table.closest('.scroll');
          const edge = (scroller ?? table.closest('section, .panel')).getBoundingClientRect();
          const box = table.getBoundingClientRect();
          if (box.right <= edge.right + 1) return false;
          return !scroller || scroller.tabIndex !== 0 || getComputedStyle(scroller).overflowX !== 'auto';
        }).map((table) => table.ariaLabel)"""
    )
    assert cut == []
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    if width == 1400:  # on a usual screen, the verdicts need not scroll
        assert tab.get_by_label("Verdicts: scrolls").evaluate("one => one.scrollWidth <= one.clientWidth")


# Interaction -------------------------------------------------------------------------------------------------------------


def test_every_step_is_described_at_the_pointer_and_by_keys(visit):
    tab = visit(FITTING)
    field = tab.locator(".field")
    assert readout(tab).startswith(f"step {FITTING.peak_step} ")
    box = field.bounding_box()
    field.hover(position={"x": box["width"] * 350.5 / 1200, "y": 100})
    step = FITTING.steps[350]
    numbers = [step.dram_bytes, WEIGHTS, step.cache_bytes, step.dram_bytes - WEIGHTS - step.cache_bytes, step.dram_peak_bytes,
               step.l1_peak_bytes, step.l1_small_bytes]  # fmt: skip
    assert f"step 350 {step.operator} in layer3.350 fits" in readout(tab)
    assert exact(readout(tab)) == numbers
    tab.mouse.move(0, 0)
    assert readout(tab).startswith(f"step {FITTING.peak_step} ")
    field.focus()
    for key, number in (("Home", 0), ("ArrowRight", 1), ("PageUp", 61), ("ArrowLeft", 60), ("End", 1199), ("ArrowRight", 1199)):
        tab.keyboard.press(key)
        assert readout(tab).startswith(f"step {number} "), key
        assert field.get_attribute("aria-valuetext").startswith(f"step {number} ")


def test_what_follows_a_failure_is_marked_everywhere(visit):
    tab = visit(FAILING)
    assert "DRAM bank needs 532,684,800 B" in readout(tab)
    assert "The call failed and has no result." in readout(tab)
    assert "the bytes after this step include it" in readout(tab)
    tab.locator(".field").focus()
    tab.keyboard.press("End")
    assert "step 3 convolution in layer0.3 not run" in readout(tab)
    assert readout(tab).endswith("after the first failure: not evidence")
    tab.get_by_text("All 4 steps").click()
    verdicts = [row[3] for row in grid(tab, "Steps")]
    assert verdicts == ["fits", "fits", "oomfirst failure", "not runafter the first failure: not evidence"]


def test_a_thousand_steps_are_filtered_and_sorted_at_once(visit):
    tab = visit(FITTING)
    tab.get_by_text("All 1,200 steps").click()
    assert len(grid(tab, "Steps")) == 100
    first, last = FITTING.steps[0], FITTING.steps[-1]
    numbers = [first.dram_bytes, first.dram_peak_bytes, first.dram_bytes - WEIGHTS, 0, first.l1_peak_bytes, 0]
    assert exact(" ".join(grid(tab, "Steps")[0][4:])) == numbers
    tab.get_by_role("button", name="DRAM after").click()
    assert grid(tab, "Steps")[0][0] == f"{last.number:,}"
    filtered = tab.get_by_label("Filter steps")
    filtered.fill("layer11. RELU")
    assert "50 of 1,200 steps" in tab.locator(".tools").inner_text()
    assert {row[1] for row in grid(tab, "Steps")} == {"relu"}
    filtered.fill("")
    for more, shown in ((500, 600), (500, 1_100), (100, 1_200)):
        tab.locator(".steps > button", has_text=f"Show {more} more").click()
        assert tab.locator("table[aria-label=Steps] tbody tr").count() == shown
    took_ms = tab.evaluate(
        "() => { const input = document.querySelector('.tools input'); input.value = 'relu'; const from = performance.now();"
        " input.dispatchEvent(new Event('input')); document.body.offsetHeight; return performance.now() - from; }"
    )
    assert took_ms < 500
    tab.locator("button.go", has_text="1,198").click()
    assert readout(tab).startswith("step 1198 ")
    assert tab.evaluate("document.activeElement.className") == "field"


# What must hold on every page --------------------------------------------------------------------------------------------


def test_texts_of_models_and_messages_are_escaped(visit):
    bad = dict.fromkeys(("operator", "at"), HOSTILE)
    name = "".join(HOSTILE.splitlines())  # one of several lines is no record
    verdict = replace(SOFTMAX, stage=name, message=HOSTILE, thrown_at=name)
    failure = replace(FAILURE, **bad, doing=HOSTILE, verdict=verdict, alive=(replace(LARGE, name=HOSTILE, layout=HOSTILE),))
    plan = replace(
        FAILING, model=HOSTILE, board=HOSTILE, ttnn=HOSTILE, device_mode=HOSTILE, policy_name=HOSTILE, trace_sha256=HOSTILE,
        policy={HOSTILE: HOSTILE}, message=HOSTILE, failure=failure, later=(failure,), notes=(HOSTILE, "half \udfff"),
        stand_ins=(StandIn(0, HOSTILE, HOSTILE, HOSTILE, 1),), steps_sha256=HOSTILE, alive=failure.alive,
        steps=tuple(replace(step, **bad) for step in FAILING.steps),
    )  # fmt: skip
    table = EdgeTable(HOSTILE, (HOSTILE, HOSTILE), ((HOSTILE, HOSTILE),), HOSTILE)
    tab = visit(plan, replace(FITTING, model=HOSTILE, failure=None, message=HOSTILE), tables=[table])
    unfold(tab)
    for summary in tab.locator("details:not(.plan) > summary").all():
        summary.click()
    assert tab.locator("img").count() == 0
    assert HOSTILE.split("\u2028")[0] in tab.locator("h1").text_content()
    assert HOSTILE.split("\u2028")[0] in tab.locator("table[aria-label=Steps]").first.text_content()
    assert HOSTILE.split("\u2028")[0] in readout(tab)
    assert tab.evaluate("document.documentElement.scrollWidth") == 1440


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
def test_it_fits_the_screen_and_uses_its_colours(visit, width, scheme):
    tables = [EdgeTable("Largest batch", ("tier", "n150", "p150"), [["1280x720", 1_234, None], ["7680x4320", "none", 2]])]
    tab = visit(FITTING, FAILING, UNLOADED, CRASHED, tables=tables, width=width, color_scheme=scheme)
    unfold(tab)
    tab.locator("summary", has_text="steps").first.click()
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    assert grid(tab, "Largest batch") == [["1280x720", "1,234", "–"], ["7680x4320", "none", "2"]]
    ground = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == {"light": "rgb(244, 245, 247)", "dark": "rgb(15, 18, 22)"}[scheme]
    without = tab.locator(".plan", has_text="so there is no timeline")
    assert without.count() == 2
    assert "before the first" in without.first.inner_text()
    assert "the worker died; 7 of 800 steps were done" in without.last.inner_text()


def test_nothing_but_its_own_script_may_run(visit):
    """The policy has the hashes of the one style and the one script; a browser's console shows what it blocks."""
    tab = visit(FITTING)
    policy = tab.locator("meta[http-equiv=Content-Security-Policy]").get_attribute("content")
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert not re.search(r"https?://|@import|url\((?!#)", tab.content())


def test_a_document_that_is_not_a_plan_is_rejected_in_one_line():
    good = FITTING.to_json()
    wrong = {**good, "steps": [{**good["steps"][0], "status": "fine"}]}
    for document, message in (
        ({}, "plan 1: expected a plan of schema 1"),
        ({**good, "schema": 2}, "plan 1: expected a plan of schema 1"),
        ({**good, "peak_bytes": "many"}, "plan 1: peak_bytes: "),
        (wrong, "plan 1: steps.0.status: "),
        ({k: v for k, v in good.items() if k != "board"}, "plan 1: board: "),
    ):
        with pytest.raises(HarnessError) as error:
            page([document])
        assert str(error.value).startswith(message)
        assert "\n" not in str(error.value)
    with pytest.raises(HarnessError, match="at least one plan or table"):
        page([])
    with pytest.raises(ValueError, match="Edges: a row has 1 cells for 2 columns"):
        EdgeTable("Edges", ("tier", "n150"), (("720p",),))


@pytest.mark.parametrize(
    ("share", "text"), [(0, "0 %"), (0.0004, "< 0.1 %"), (0.1532, "15.3 %"), (0.9996, "> 99.9 %"), (1, "100.0 %")]
)
def test_a_share_is_not_rounded_to_nothing_or_all(share, text):
    assert percent(share) == text


@pytest.mark.virtual_device
def test_a_real_plan_is_read_back_as_it_was_and_shown(visit):
    """The first ten calls of resnet50, by TTNN's allocator."""
    trace = find_trace("torchvision/resnet50")
    with Pool(choose_device("virtual", "n150")) as pool:
        plan = pool.run(PlanTask(replace(trace, steps=trace.steps[:10]), find_policy("port"), 32_768)).result()
    assert (plan.status, len(plan.steps)) == (Status.FITS, 10)
    assert read_plan(plan.to_json(), "plan") == plan
    tab = visit(plan)
    tab.get_by_text("All 10 steps").click()
    steps = grid(tab, "Steps")
    assert [exact(row[5])[-1] for row in steps] == [step.dram_peak_bytes for step in plan.steps]
    assert max(exact(row[5])[-1] for row in steps) == plan.peak_bytes
    assert exact(grid(tab, "Verdicts")[0][2]) == [plan.peak_bytes]
