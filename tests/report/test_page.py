"""report.html in a browser: its views, links that reproduce them, and hostile texts of catalogs and logs."""

import json
import re
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest

from ssinghal.core.boards import load_board
from ssinghal.core.case import ModuleCalls, Placement, Source
from ssinghal.core.tensors import BufferType
from ssinghal.core.verdict import Resource, Status
from ssinghal.device.modes import choose_device
from ssinghal.estimation.estimator import estimate, read_cases
from ssinghal.operators import make_case
from ssinghal.report.page import DETAIL_CASES, page, page_data
from ssinghal.report.page_parts import unpacked
from ssinghal.report.writer import write_report
from ssinghal.runner.pool import Pool
from ssinghal.runs.diff import Changes
from ssinghal.runs.reader import read_run
from tests.support.run_builder import a_record, write_run

VIEWS = ("overview", "matrix", "cases", "models", "padding")
SHAPE, WIDE = (1, 64, 640, 400), (1, 3, 4320, 7680)
HOSTILE = "</script><img src=x onerror=alert(1)>\"'`${x}&lt;!--\u2028\u202eabc " + "long" * 500
NAME = "".join(HOSTILE.splitlines())  # one of several lines is no record
IDLE = "main[aria-busy=false]"
NOT_RUN = "numerics not run: memory verdicts only"


def source(model: str = "", count: int = 1, catalog: str = "crossed") -> Source:
    modules = (ModuleCalls(f"{model}.head", count),) if model else ()
    return Source(catalog, model, "640x400" if model else "", count, modules)


def oom(need: int, stage: str = "output") -> dict:
    """Numbers of a message: an empty L1 bank of 1,393,312 B."""
    room = {"bank_bytes": 1_393_312, "allocated_bytes": 0, "free_bytes": 1_393_312, "largest_free_bytes": 1_393_312}
    return {"bytes_per_bank": need, "stage": stage, **room}


RECORDS = [
    a_record("relu", SHAPE, sources=[source("net", 3, "net-640")]),
    a_record("relu", WIDE, status="oom", verdict=oom(2_000_000), sources=[source("net", 0)]),
    a_record("silu", WIDE, status="oom", verdict=oom(1_400_000), sources=[source("net", 2, "net-640")]),
    a_record("silu", SHAPE, memory="dram", status="oom", verdict={**oom(3_000_000), "resource": "dram_buffer"}),
    a_record("abs", WIDE, status="unsupported", verdict={"message": "no such call", "decided_by": "registry"}),
    a_record("abs", SHAPE, status="crash", verdict={"message": "the worker died"}),
]
OTHER = [a_record("relu", SHAPE, board="n300"), a_record("tanh", SHAPE, board="n300", status="oom", verdict=oom(9_000_000))]


@pytest.fixture
def visit(open_tab, tmp_path: Path) -> Callable:
    """``visit(records)`` opens their page in a tab that records errors."""

    def open_page(records, hash: str = "", width: int = 1440, before=None, file: str = "report.html", **info):
        path = tmp_path / file
        if not path.exists():
            run = read_run(write_run(tmp_path / f"of-{file}", records, **info))
            earlier = read_run(write_run(tmp_path / f"before-{file}", before, "20260101T000000.000000Z")) if before else None
            path.write_text(page(run, Changes.of(earlier, run) if earlier else None), encoding="utf-8")
        tab = open_tab(path, hash, width)
        tab.wait_for_selector(IDLE)
        return tab

    return open_page


def cases(tab) -> list[str]:
    """Returns "relu fits", … in the order of the table of cases."""
    rows = tab.locator("table[aria-label=Cases] tbody tr")
    operators, badges = rows.locator("td:first-child a").all_inner_texts(), rows.locator(".badge").all_inner_texts()
    return [f"{op} {' '.join(badge.split()[1:])}" for op, badge in zip(operators, badges, strict=True)]


@contextmanager
def hash_changes(tab):
    """Waits until the page has drawn its new hash: this listener comes after the page's own, which makes the page busy."""
    tab.evaluate(
        "() => { window.drewHash = false; addEventListener('hashchange', () => { window.drewHash = true; }, { once: true }); }"
    )
    yield
    tab.wait_for_function("() => window.drewHash")
    tab.wait_for_selector(IDLE)


def shown(tab) -> str:
    return tab.locator("main").inner_text()


# Using the page ----------------------------------------------------------------------------------------------------------


def test_the_overview_adds_up(visit):
    tab = visit(RECORDS)
    models, sweeps = (" ".join(text.split()) for text in tab.locator(".lead").all_inner_texts())
    assert models.startswith("2 of 5 calls that models make run out of memory In one model: 1 distinct call of 1 operator.")
    assert "OOM: L1 buffers 2 40 % fits 3 60 % total 5 calls" in models
    assert sweeps.startswith("2 of 4 cases run out of memory 2 pairs of operator and shape.")
    parts = "OOM: L1 buffers 1 25 % OOM: DRAM buffers 1 25 % crash 1 25 % unsupported 1 25 % total 4 cases"
    assert parts in sweeps
    assert "the worker died" in tab.locator(".panel", has_text="Errors").inner_text()


def test_filters_narrow_every_view_and_clear(visit):
    tab = visit(RECORDS, "#view=cases")
    assert len(cases(tab)) == 6
    with hash_changes(tab):
        tab.get_by_label("Status").select_option("oom")
    assert cases(tab) == ["relu OOM L1", "silu OOM L1", "silu OOM DRAM"]
    with hash_changes(tab):
        tab.get_by_label("Operator").select_option("silu")
    with hash_changes(tab):
        tab.get_by_label("Ran out").select_option("dram_buffer")
    assert cases(tab) == ["silu OOM DRAM"]
    assert "1 of 6 cases" in tab.locator("#filters").inner_text()
    with hash_changes(tab):
        tab.get_by_role("tab", name="Overview").click()
    assert "1 of 1 case run out of memory" in shown(tab).replace("\n", " ")
    assert "calls that models make" not in shown(tab)
    with hash_changes(tab):
        tab.get_by_role("link", name="clear filters").click()
    assert "2 of 4 cases run out of memory" in shown(tab).replace("\n", " ")


def test_search_takes_words_in_any_order(visit):
    tab = visit(RECORDS, "#view=cases")
    for text, found in {"7680] RELU": ["relu OOM L1"], "net.head silu": ["silu OOM L1"], "nothing of the kind": []}.items():
        with hash_changes(tab):
            tab.get_by_role("searchbox").fill(text)
        assert cases(tab) == found, text


@pytest.mark.parametrize(
    ("query", "found"),
    [("[1,*,640,400]", 3), ("1,*,4320,*", 3), ("*", 6), ("[*,9,*", 0), ("1,64(,*", 0), ("net.h*d", 3)],
)
def test_a_star_stands_for_any_size_or_name(visit, query, found):
    tab = visit(RECORDS, "#view=cases")
    with hash_changes(tab):
        tab.get_by_label("Search").fill(query)
    assert len(cases(tab)) == found


def test_a_header_sorts_and_sorts_the_other_way(visit):
    tab = visit(RECORDS, "#view=cases&status=oom")
    header = tab.get_by_role("columnheader", name="Requested per bank")
    with hash_changes(tab):
        header.get_by_role("link").click()
    assert cases(tab) == ["silu OOM DRAM", "relu OOM L1", "silu OOM L1"]  # 3,000,000, 2,000,000, 1,400,000 B
    assert header.get_attribute("aria-sort") == "descending"
    with hash_changes(tab):
        header.get_by_role("link").click()
    assert cases(tab) == ["silu OOM L1", "relu OOM L1", "silu OOM DRAM"]


def test_a_selected_case_shows_its_details(visit):
    tab = visit(RECORDS, "#view=cases&op=relu&status=oom")
    with hash_changes(tab):
        tab.locator("table[aria-label=Cases] tbody tr td").nth(2).click()
    detail = tab.locator("aside").inner_text()
    assert "L1 bank needs 2,000,000 B, 1,393,312 B free (output)" in detail
    missing = 2_000_000 - 1_393_312
    assert f"({missing:,} B) do not fit" in detail
    assert "These models have the shape, but are not known to make exactly this call" in detail
    assert "virtual n150, ttnn 0.81.1; numerics not run" in detail
    with hash_changes(tab):
        tab.keyboard.press("Escape")
    assert not tab.locator("aside").is_visible()


def test_the_line_to_run_it_again_is_the_case(visit):
    """Even with an attribute that JavaScript would round or format differently."""
    attrs = {"min": -1.0, "max": 1e-07}
    record = a_record("clamp", (1, 1, 32, 32), attrs=attrs)
    tab = visit([record], f"#case={record['key']}")
    command = tab.locator("pre.command").inner_text()
    line = command.removeprefix("echo '").partition("' | ssinghal probe --from - --board n150")[0]
    ((case, _),) = read_cases(Path("page"), [line], load_board("n150"))
    assert (case.key, json.loads(line)["attrs"]) == (record["key"], attrs)


def test_a_link_reproduces_the_view_and_the_browser_goes_back(visit):
    tab = visit(RECORDS)
    first = shown(tab)
    with hash_changes(tab):
        tab.get_by_role("tab", name="Cases").click()
    with hash_changes(tab):
        tab.get_by_label("Status").select_option("oom")
    with hash_changes(tab):
        tab.get_by_role("columnheader", name="Short per bank").get_by_role("link").click()
    with hash_changes(tab):
        tab.locator("table[aria-label=Cases] tbody a").first.click()
    last = shown(tab)
    state = tab.url.partition("#")[2]
    for part in ("view=cases", "status=oom", "sort=-short", "case=relu%3A"):
        assert part in state
    assert shown(visit(RECORDS, f"#{state}")) == last
    for _ in range(4):
        with hash_changes(tab):
            tab.go_back()
    assert shown(tab) == first
    with hash_changes(tab):
        tab.go_forward()
    assert len(cases(tab)) == 6


def test_typing_leaves_one_step_to_go_back(visit):
    tab = visit(RECORDS, "#view=cases")
    with hash_changes(tab):
        tab.get_by_role("tab", name="Matrix").click()
    tab.get_by_role("searchbox").press_sequentially("silu")
    tab.wait_for_function("location.hash.endsWith('q=silu')")
    with hash_changes(tab):
        tab.go_back()
    assert len(cases(tab)) == 6


def test_tabs_cells_and_cases_by_keyboard(visit):
    tab = visit(RECORDS)
    tab.get_by_role("tab", name="Overview").focus()
    with hash_changes(tab):
        tab.keyboard.press("ArrowRight")
    assert tab.get_by_role("tab", name="Matrix").get_attribute("aria-selected") == "true"
    assert tab.evaluate("document.activeElement.textContent") == "Matrix"
    tab.locator(".matrix a.cell[tabindex='0']").focus()
    first = tab.evaluate("document.activeElement.title")
    tab.keyboard.press("ArrowRight")
    second = tab.evaluate("document.activeElement.title")
    assert first != second
    with hash_changes(tab):
        tab.keyboard.press("Enter")
    assert tab.locator("aside").is_visible()
    with hash_changes(tab):
        tab.keyboard.press("Escape")
    assert tab.evaluate("document.activeElement.title") == second


def test_the_matrix_has_a_letter_for_each_verdict_and_lists_several(visit):
    several = [*RECORDS, a_record("relu", WIDE, memory="dram")]
    tab = visit(several, "#view=matrix")
    grid = tab.locator("table[aria-label='Operators by shapes']")
    assert [" ".join(row.split()) for row in grid.locator("tbody tr").all_inner_texts()] == [
        # silu, relu, abs; 97,200 tiles are 1,519 to a bank: operand and result take 2 x 3,110,912 B, less 1,393,312 B
        "[1,3,4320,7680]2 L4.605 MiB L4.605 MiB –",
        "[1,64,640,400]1 D4.089 MiB · !",  # 16,640 tiles are 1,387 to a DRAM bank: 2 x 2,840,576 B
    ]
    mixed = grid.locator("a.mixed")
    assert mixed.get_attribute("aria-label") == "relu at [1,3,4320,7680]: 1 × OOM: L1 buffers, 1 × fits"
    with hash_changes(tab):
        mixed.click()
    assert cases(tab) == ["relu OOM L1", "relu fits"]


def test_models_that_only_have_the_shape_are_listed_separately(visit):
    tab = visit(RECORDS, "#view=models")
    models = tab.locator("table[aria-label=Models] tbody tr")
    (net,) = models.all_inner_texts()
    assert net.split()[:6] == ["net", "640x400", "2", "5", "1", "2"]  # cases, calls, and those out of memory
    shapes = tab.locator("table[aria-label='Models by shape alone'] tbody tr").all_inner_texts()
    assert [text.split() for text in shapes] == [["net", "640x400", "1", "1"]]
    assert "silu" in tab.locator("table[aria-label='Calls by module']").inner_text()


def test_the_headline_counts_calls_of_models_and_no_case_of_a_sweep(visit):
    """Ten failing cases of sweeps beside one failing case that a model calls twice."""
    sweep = [a_record("exp", (1, 1, 4320, 7680 + 32 * n), status="oom", verdict=oom(2_000_000)) for n in range(10)]
    tab = visit([*RECORDS[:3], *sweep])
    lead = tab.locator(".lead").first
    assert lead.locator("strong").inner_text() == "2"
    top, below = (element.bounding_box()["y"] for element in (lead, tab.locator(".sweeps")))
    assert top < below
    assert "11 of 11 cases run out of memory" in " ".join(tab.locator(".sweeps").inner_text().split())
    layers = tab.locator("table[aria-label='Layers that run out of memory'] tbody tr").all_inner_texts()
    short = 2 * 1519 * 2048 - 1_393_312  # operand and result: 97,200 tiles each over 64 banks
    assert [" ".join(text.split()) for text in layers] == [
        "net 640x400 2 of 5 calls out of memory",
        f"net.head silu [1,3,4320,7680] L OOM L1 2 {short / 2**20:.4g} MiB operands and result in DRAM",
    ]
    with hash_changes(tab):
        lead.get_by_role("link", name="OOM: L1 buffers").click()
    assert cases(tab) == ["silu OOM L1"]
    with hash_changes(tab):
        tab.get_by_label("Called by").select_option("")
    with hash_changes(tab):
        tab.locator("select[name=model]").select_option("~net")
    assert cases(tab) == ["relu OOM L1"]


def test_a_page_without_measured_memory_counts_what_agrees(visit):
    """A model's 5 calls of one case that agrees, its 2 of one that does not; one of two cases of a sweep agrees."""
    records = [
        a_record("relu", SHAPE, status="agrees", mode="golden", sources=[source("net", 5, "net-640")]),
        a_record("silu", SHAPE, status="mismatch", mode="golden", sources=[source("net", 2, "net-640")]),
        a_record("exp", SHAPE, status="agrees", mode="golden"),
        a_record("abs", SHAPE, status="unsupported", mode="golden"),
    ]
    tab = visit(records)
    lead, sweeps = (" ".join(text.split()) for text in tab.locator(".headline").all_inner_texts())
    assert lead == "Memory was not measured: 5 of 7 calls that models make agree with TTNN's golden functions."
    assert sweeps == "Memory was not measured: 1 of 2 cases agrees with TTNN's golden functions."
    assert "run out of memory" not in shown(tab)
    models = visit(records, "#view=models").locator("table[aria-label=Models]").inner_text().lower()
    assert "7" in models.split()
    assert not any(word in models for word in ("oom", "fit", "not run"))


def test_a_models_share_counts_all_its_calls_regardless_of_the_filters(visit):
    """3 of 10 calls fit: 30 %, even if only OOMs are shown."""
    records = [*RECORDS[:3], a_record("exp", SHAPE, status="unsupported", sources=[source("net", 5, "net-640")])]
    tab = visit(records, "#view=models&status=oom")
    row = tab.locator("table[aria-label=Models] tbody tr").first.inner_text().split()
    assert row[-1:] == ["%"]
    assert row[row.index("640x400") + 1 : row.index("640x400") + 3] == ["3", "10"]
    assert "30 %" in " ".join(row)


def test_a_run_of_shape_sweeps_states_that_no_model_makes_its_calls(visit):
    tab = visit(RECORDS[3:], "#view=models")
    assert "No case here is known to be a call of a model." in shown(tab)


@pytest.mark.parametrize("filters", ["q=nothing-has-this-name", "op=silu&catalog=crossed", "input=1x1"])
def test_an_empty_search_of_models_says_that_the_filters_leave_none(visit, filters):
    tab = visit(RECORDS, f"#view=models&{filters}")
    assert "No call of a model passes the filters." in shown(tab)
    assert "is known to be a call" not in shown(tab)


def test_remedies_are_shown_and_filtered_by(visit):
    """add of two [1, 64, 640, 400] in L1: in DRAM its 3 tensors of 16,640 tiles take 3 * 1,387 * 2,048 B of 12 banks."""
    failing = a_record("add", SHAPE, inputs=[SHAPE, SHAPE], status="oom", verdict=oom(2_000_000), channels_last=True)
    tab = visit([failing, RECORDS[0]], "#view=cases&case=add")
    with hash_changes(tab):
        tab.get_by_label("Fits with").select_option("operands and result in DRAM")
    assert cases(tab) == ["add OOM L1"]
    with hash_changes(tab):
        tab.get_by_role("link", name="add", exact=True).click()
    remedies = tab.locator("aside section", has_text="What would make it fit").inner_text()
    assert "operands and result in DRAM: fits by arithmetic (8,521,728 of 1,072,693,184 B per DRAM bank)" in remedies


def test_the_footer_names_the_command_and_the_other_files(browser, visit, tmp_path):
    tab = visit(RECORDS)
    assert "Created by ssinghal run at commit abc" in tab.locator("footer").inner_text()
    run = read_run(write_run(tmp_path / "again", RECORDS))
    write_report(run, tmp_path / "again")
    links = re.findall(r'"files":(\[.*?\])', (tmp_path / "again" / "report.html").read_text())
    assert all((tmp_path / "again" / name).exists() for name in json.loads(links[0]))


def test_two_captures_of_a_model_are_not_added_up(visit):
    """Both levels have the same two calls; a third call is in one of them only."""
    levels = [source("net", 2, "net-640"), source("net", 2, "net-640-torch"), source("other", 5, "other-640")]
    tab = visit([a_record("relu", SHAPE, sources=levels), a_record("silu", SHAPE, sources=levels[:1])], "#view=models")
    rows = [text.split()[:5] for text in tab.locator("table[aria-label=Models] tbody tr").all_inner_texts()]
    assert rows == [
        ["net", "net-640", "640x400", "2", "4"],
        ["net", "net-640-torch", "640x400", "1", "2"],
        ["other", "640x400", "1", "5", "0"],
    ]
    with hash_changes(tab):
        tab.get_by_role("tab", name="Cases").click()
    assert tab.locator("table[aria-label=Cases] td:last-child").all_inner_texts() == ["7", "2"]


def test_the_padding_view_marks_the_padded_dimension(visit):
    record = a_record("relu", (160, 100, 512, 1, 1))
    tab = visit([record, *RECORDS], "#view=padding")
    worst = tab.locator("table[aria-label='Padded tensors'] tbody tr").first
    assert worst.locator("mark").all_inner_texts() == ["32", "32"]
    assert "1,024×" in worst.inner_text()
    assert "last dim 1 padded to 32 (32x), second last dim 1 padded to 32 (32x)" in worst.inner_text()


def test_vanished_and_new_cases_are_listed_in_their_setting(visit):
    """Two boards under another release: two cases have vanished, one of which fitted, and one board is new."""
    before = [{**record, "ttnn": "0.80.0"} for record in (*RECORDS, *OTHER)]
    after = [*RECORDS[2:], *OTHER, a_record("relu", SHAPE, board="p150")]
    tab = visit(after, before=before)
    panel = tab.locator("main")
    assert "1 lost-fit" in panel.inner_text()
    assert "1 vanished" in panel.inner_text()
    assert "relu" in panel.text_content()
    assert "has changed" not in panel.inner_text()
    for setting, text in (("n300", "No verdict and no size has changed."), ("p150", "that run has no records of")):
        with hash_changes(tab):
            tab.get_by_role("link", name=f"virtual {setting}").click()
        assert text in panel.inner_text()


def test_changes_are_listed_by_name(visit):
    before = [a_record("relu", WIDE), *(r for r in RECORDS if r["operator"] != "relu")]
    tab = visit(RECORDS, before=before)
    changed = tab.locator(".panel", has_text="What changed")
    assert "20260101T000000.000000Z" in changed.inner_text()
    assert "1 new-oom: runs out of memory now" in changed.inner_text()
    with hash_changes(tab):
        changed.get_by_role("link", name="relu").first.click()
    assert "OOM L1" in tab.locator("aside").inner_text()
    alone = visit(RECORDS, file="alone.html")
    assert "no earlier run to compare with" in shown(alone)
    assert alone.locator(".panel", has_text="no earlier run").count() == 0  # one line, not a card


# Properties of every view -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("width", [1440, 390])
def test_every_view_states_its_numerics_and_stays_within_the_screen(visit, view, width):
    hostile = {**a_record("relu", WIDE, status="oom", verdict=oom(2_000_000)), "id": "x" * 400, "key": "k"}
    tab = visit([*RECORDS, hostile], f"#view={view}", width, selected=99)
    head = tab.locator("#head, #bar").all_inner_texts()
    for text in (NOT_RUN, "virtual n150, ttnn 0.81.1", "20260102T030405.000000Z", "92 of 99 selected cases have no record"):
        assert text in " ".join(head)
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    assert tab.get_by_role("tab", name=view.title()).get_attribute("aria-selected") == "true"
    with hash_changes(tab):
        tab.evaluate("location.hash += '&case=k'")
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    assert tab.evaluate("document.querySelector('aside').scrollWidth <= document.querySelector('aside').clientWidth")


@pytest.mark.parametrize("view", VIEWS)
def test_settings_are_separate(visit, view):
    tab = visit([*RECORDS, *OTHER], f"#view={view}")
    assert "6 cases" in tab.locator("#filters").inner_text()
    assert "tanh" not in shown(tab)
    with hash_changes(tab):
        tab.get_by_role("link", name="virtual n300, ttnn 0.81.1").click()
    assert "2 cases" in tab.locator("#filters").inner_text()
    assert "silu" not in shown(tab)
    assert "virtual n300, ttnn 0.81.1" in tab.locator("#bar").inner_text()


@pytest.mark.parametrize("view", VIEWS)
def test_texts_of_catalogs_and_logs_are_not_markup(visit, view):
    record = a_record("relu", WIDE, status="oom", verdict={**oom(2_000_000, NAME), "message": HOSTILE, "thrown_at": NAME})
    record |= {"id": NAME, "key": NAME, "op": NAME, "operator": NAME, "attrs": {NAME: NAME}}
    record["sources"] = [
        dict.fromkeys(("catalog", "model", "input_size", "module_path"), NAME) | {"count": count} for count in (0, 1)
    ]
    before = [{**record, "status": "fits"}]
    tab = visit([record], f"#view={view}", before=before, command=NAME, started=NAME)
    assert tab.locator("img").count() == 0
    assert tab.locator("#data").count() == 1
    with hash_changes(tab):
        tab.evaluate("name => location.hash += '&case=' + encodeURIComponent(name)", f"{NAME}:{NAME}")
    assert NAME[:40] in tab.locator("aside h2").text_content()
    assert HOSTILE in tab.locator("aside pre.message").text_content()
    assert tab.locator("img").count() == 0
    assert tab.evaluate("document.documentElement.scrollWidth") == 1440


@pytest.mark.parametrize(
    "hash", ["#view=nonsense", "#case=none", "#set=else&page=-3&sort=-x", "#op=%00&q=%", "#&&==", "#view=__proto__"]
)
def test_a_meaningless_hash_still_shows_the_page(visit, hash):
    tab = visit(RECORDS, hash)
    assert NOT_RUN in tab.locator("#bar").inner_text()
    assert tab.locator("#view > *").count() > 0


def test_odd_values_of_a_record_do_not_stop_the_page(visit):
    """A lone surrogate in run.json, bytes above 2^53, a board without a file and with a quote in its name."""
    odd = a_record("relu", WIDE, status="oom", verdict=oom(2**60 + 1)) | {"board": "q'9 9"}
    tab = visit([odd], f"#case={odd['key']}", selected=2, started="\udfff")
    detail = tab.locator("aside").inner_text()
    assert "needs 1,152,921,504,606,846,977 B" in detail
    assert "about 1,152,921,504,606,84" in detail
    assert "The record has no data on a bank." in detail
    assert "virtual q'9 9" in tab.locator("#bar").inner_text()
    assert "ssinghal probe --from - --board 'q'\\''9 9'" in detail


def test_the_page_has_a_name_for_every_status_and_resource():
    """A missing one would not be shown."""
    names = (files("ssinghal.report") / "assets" / "names.js").read_text()
    for table, values in (("STATUSES", Status), ("RESOURCES", Resource)):
        body = names.partition(f"const {table} = {{")[2].partition("\n};")[0]
        keys = set(re.findall(r'^  "?([\w-]+)"?:', body, re.MULTILINE))
        assert keys == {value.value for value in values}, table


def test_nothing_but_its_own_scripts_may_run(visit):
    """The policy has the hashes of the page's one style and one script."""
    tab = visit(RECORDS)
    policy = tab.locator("meta[http-equiv=Content-Security-Policy]").get_attribute("content")
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert not re.search(r"https?://|@import|url\(", tab.content())


# Large runs --------------------------------------------------------------------------------------------------------------


def test_cases_are_shown_in_pages(visit):
    """The table has a hundred cases per page, with links to the others."""
    many = [a_record("relu", (1, 1, 32, 32 * n)) for n in range(1, 252)]
    tab = visit(many, "#view=cases")
    assert len(cases(tab)) == 100
    with hash_changes(tab):
        tab.get_by_role("link", name="last »").click()
    assert len(cases(tab)) == 51
    assert "201–251 of 251" in shown(tab)


def test_a_text_or_tensor_is_stored_once(tmp_path):
    record = a_record("relu", SHAPE, status="oom", verdict={**oom(1), "message": "the same text"})
    many = [{**record, "key": f"{n:012x}"} for n in range(500)]
    (group,) = page_data(read_run(write_run(tmp_path, many)))["groups"]
    (details,) = (unpacked(part) for part in group["details"])
    assert details["texts"].count("the same text") == 1
    assert len(unpacked(group["tensors"])["tensors"]) == 1  # input and output are alike
    assert len(unpacked(group["cases"])["columns"]["key"]) == 500


@pytest.mark.parametrize("number", [0, DETAIL_CASES - 1, DETAIL_CASES, 2 * DETAIL_CASES])
def test_a_case_has_its_own_details_whichever_part_they_are_in(visit, number):
    """The parts of details have 500 cases each; those of one case are unpacked when it is selected."""
    many = [{**a_record("relu", SHAPE, status="crash", verdict={"message": f"message {n}"}), "key": f"{n:012x}"}
            for n in range(2 * DETAIL_CASES + 1)]  # fmt: skip
    tab = visit(many, f"#case={number:012x}")
    assert tab.locator("aside pre.message").inner_text() == f"message {number}"
    other = 2 * DETAIL_CASES - number
    with hash_changes(tab):
        tab.evaluate("key => { location.hash = 'rows=all&case=' + key; }", f"{other:012x}")
    assert tab.locator("aside pre.message").inner_text() == f"message {other}"


def test_a_page_unpacks_only_what_it_shows(visit):
    """The overview needs one part; a selected case two more: the tensors, and its details."""
    many = [a_record("relu", (1, 1, 32, 32 * n), status="oom", verdict=oom(2_000_000)) for n in range(1, 3 * DETAIL_CASES)]
    tab = visit(many)
    unpack = "() => performance.getEntriesByType('mark').map((mark) => mark.name)"
    assert tab.evaluate(unpack) == ["unpacked cases"]
    with hash_changes(tab):
        tab.evaluate("key => { location.hash = 'case=' + key; }", many[700]["key"])
    assert tab.evaluate(unpack) == ["unpacked cases", "unpacked tensors", "unpacked details 1"]


@pytest.mark.virtual_device
def test_a_real_case_in_its_bank(visit):
    """add of two [1,64,640,400] in L1, channels-last: each takes 532,480 B of a bank of 1,393,312 B; the sum does not fit."""
    case = make_case("add", (SHAPE, SHAPE), {}, Placement(memory=BufferType.L1, channels_last=True))
    with Pool(choose_device("virtual", "n150")) as pool:
        record = replace(pool.submit(case).result(), estimate=estimate(case, load_board("n150")).to_json())
    tab = visit([record.to_json()], f"#case={case.key}")
    legend = tab.locator("aside .bank").first.locator(".legend tr").all_inner_texts()
    assert [tuple(text.split("\t")[:2]) for text in legend] == [
        ("reserved by TTNN", "105,824 B"),
        ("input 1", "532,480 B"),
        ("input 2", "532,480 B"),
        ("output: as much as fits", f"{1_393_312 - 2 * 532_480:,} B"),
        ("output: does not fit", f"{3 * 532_480 - 1_393_312:,} B"),
    ]
    inside = tab.locator("aside .bank").first.locator(".piece:not(.outside)")
    widths = [piece.bounding_box()["width"] for piece in inside.all()]
    end = tab.locator("aside .bank .end").bounding_box()
    start = inside.first.bounding_box()["x"]
    assert start + sum(widths) == pytest.approx(end["x"] + end["width"] / 2, abs=1)
    assert widths[1] / widths[0] == pytest.approx(532_480 / 105_824, rel=0.05)
