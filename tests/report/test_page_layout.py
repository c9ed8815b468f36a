"""How report.html is laid out: nothing is cut off, ids break between numbers only, bars keep their order, trees fold."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ssinghal.core.case import ModuleCalls, Source
from ssinghal.core.remedy_outcome import RemedyOutcome, StrategyRejection, ValueComparison, WorkingRemedy
from ssinghal.report.page import page
from ssinghal.runs.reader import read_run
from tests.support.run_builder import a_record, write_run

VIEWS = ("overview", "matrix", "cases", "models", "padding")
WIDTHS = (1400, 600, 390)
BANK = 1_393_312  # L1 of an n150
BIG, SMALL = (1, 64, 1024, 1024), (1, 64, 160, 160)


def oom(need: int) -> dict:
    room = {"bank_bytes": BANK, "allocated_bytes": 0, "free_bytes": BANK, "largest_free_bytes": BANK}
    return {"bytes_per_bank": need, "stage": "input 1", **room}


def made(*modules: tuple[str, int], others: int = 0, other_calls: int = 0) -> Source:
    calls = sum(calls for _, calls in modules) + other_calls
    named = tuple(ModuleCalls(path, calls) for path, calls in modules)
    return Source("unet-1024x1024", "my/unet", "1024x1024", calls, named, others, other_calls)


def remedies(*found: tuple[str, str]) -> RemedyOutcome:
    works = [WorkingRemedy(contract, lever, "", {"dram": 5}, 5, 1, 1, ValueComparison.SAME_CALL) for contract, lever in found]
    return RemedyOutcome(tuple(works), (StrategyRejection("chunked", "pieces", "no dim can be cut", 0),), 1)


def failing(op: str, need: int, source: Source, found: RemedyOutcome | None = None, **fields) -> dict:
    return a_record(
        op, BIG, status="oom", verdict=oom(need), sources=[source], measured={"remedies": found} if found else None, **fields
    )


CONVOLVED = {
    "stride": [1, 1], "padding": [1, 1], "dilation": [1, 1], "groups": 1, "transposed": False, "output_padding": [0, 0],
}  # fmt: skip
NORMED = {"num_groups": 8, "eps": 1e-05}
WEIGHT = [BIG, (64, 64, 3, 3), (64,)]
RECORDS = [
    failing("silu", 2 * BANK, made(("down.0", 2), ("dec.3", 1), ("(top)", 1)), remedies(("same tensor", "in place"))),
    failing("relu", 4 * BANK, made(("dec.3.act", 1)), remedies(("other memory", "all in DRAM"), ("chunked", "pieces"))),
    failing("abs", BANK + 1, made(("down.1", 1), others=3, other_calls=9), remedies()),
    failing("native_group_norm", 3 * BANK, made(("down.0.norm", 3)), inputs=[BIG, (64,), (64,)], attrs=NORMED),
    failing("convolution", 9 * BANK, made(("down.0.conv", 1)), inputs=WEIGHT, attrs=CONVOLVED),
    a_record("silu", SMALL, sources=[made(("mid2", 2))], measured={}),
    a_record("exp", (160, 100, 512, 1, 1), status="oom", verdict=oom(2 * BANK)),
    a_record("abs", SMALL, status="crash", verdict={"message": "the worker died"}),
]  # fmt: skip


@pytest.fixture
def visit(open_tab, tmp_path: Path) -> Callable:
    def open_page(hash: str = "", width: int = 1400, records=RECORDS):
        path = tmp_path / "report.html"
        if not path.exists():
            path.write_text(page(read_run(write_run(tmp_path / "run", records))), encoding="utf-8")
        tab = open_tab(path, hash, width)
        tab.wait_for_selector("main[aria-busy=false]")
        return tab

    return open_page


CUT = """() => {
  const out = [];
  const scrolls = (node) => ['auto', 'scroll'].includes(getComputedStyle(node).overflowX);
  for (const node of document.querySelectorAll('#view td, #view th, #view .panel *, aside *')) {
    const box = node.getBoundingClientRect();
    if (!box.width || node.closest('svg, .track')) continue;
    for (let parent = node.parentElement; parent; parent = parent.parentElement) {
      const style = getComputedStyle(parent);
      if (scrolls(parent)) break;
      if (style.textOverflow === 'ellipsis' || style.webkitLineClamp !== 'none') break; // cut with a visible mark
      const edge = parent.getBoundingClientRect();
      const isEdge = style.overflowX !== 'visible' || parent === document.body || parent.matches('aside, .panel');
      if (isEdge && (box.right > edge.right + 1 || box.left < edge.left - 1)) out.push(node.outerHTML.slice(0, 120));
    }
  }
  return out;
}"""


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("view", VIEWS)
def test_nothing_is_cut_off_unless_its_container_scrolls(visit, view, width):
    tab = visit(f"#view={view}&case={RECORDS[4]['key']}", width)
    assert tab.evaluate(CUT) == []
    assert tab.evaluate("document.documentElement.scrollWidth") == width


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("view", VIEWS)
def test_what_scrolls_can_be_reached_by_keys_and_shows_that_there_is_more(visit, view, width):
    tab = visit(f"#view={view}", width)
    wide = tab.locator(".scroll").evaluate_all(
        """all => all.filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => [
          one.tabIndex === 0 || one.matches('.matrix'),
          getComputedStyle(one).backgroundImage.split('gradient(').length - 1,
        ])"""
    )
    assert all(by_keys and shadows == 4 for by_keys, shadows in wide)
    if width == 1400:
        assert not wide  # all of a table is in view on a usual screen


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("view", ["cases", "overview", "models"])
def test_no_line_breaks_within_a_number_or_an_operators_name(visit, view, width):
    tab = visit(f"#view={view}&case={RECORDS[3]['key']}", width)
    words = tab.evaluate(
        """() => {
          const out = [];
          for (const root of document.querySelectorAll('.id, .op, td.operator a, .shape')) {
            const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
            while (walker.nextNode()) {
              for (const found of walker.currentNode.data.matchAll(/-?\\d+(\\.\\d+)?(e-?\\d+)?|[a-z_]{3,}/gi)) {
                const range = document.createRange();
                range.setStart(walker.currentNode, found.index);
                range.setEnd(walker.currentNode, found.index + found[0].length);
                const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
                out.push([found[0], lines.size]);
              }
            }
          }
          return out;
        }"""
    )
    assert len(words) > 5
    assert [word for word, lines in words if lines > 1] == []


def test_an_id_may_break_between_its_parts_only(visit):
    tab = visit("#view=cases")
    row = tab.locator("tr", has_text="native_group_norm").locator("td.case .id")
    pieces = row.locator(".chunk").all_inner_texts()
    assert "".join(pieces) == RECORDS[3]["id"]
    assert "1x64x1024x1024+" in pieces
    assert any("1e-05" in piece for piece in pieces)


def test_longer_bars_are_fuller_banks_with_the_end_of_a_bank_across(visit):
    """2, 3 and more than 4 banks, and a call that fits: the scale ends at 4 banks, so a bank is a quarter of it."""
    tab = visit("#view=cases", 1600)
    bars = {}
    for row in tab.locator("table[aria-label=Cases] tbody tr").all():
        gauge = row.locator(".gauge")
        if gauge.count():
            width = gauge.bounding_box()["width"]
            fill = row.locator(".gauge .fill").bounding_box()["width"]
            load = float(row.locator(".meter .figure").inner_text().removesuffix(" %").replace(",", "")) / 100
            bars[load] = fill / width
            limit = row.locator(".gauge .limit").bounding_box()
            assert (limit["x"] + limit["width"] / 2 - gauge.bounding_box()["x"]) / width == pytest.approx(1 / 4, abs=0.02)
    assert len(bars) >= 4
    assert any(load > 4 for load in bars)
    for load, share in bars.items():
        assert share == pytest.approx(max(min(load / 4, 1), 2 / 64), abs=0.03), load


def test_each_case_says_what_makes_it_fit(visit):
    tab = visit("#view=cases")
    rows = tab.locator("table[aria-label=Cases] tbody tr").all_inner_texts()
    told = {cells[0].split("\n")[0]: cells[-2] for cells in (row.split("\t") for row in rows) if "OOM" in "".join(cells)}
    assert told["silu"] == "same tensor: in place"
    assert told["relu"] == "other memory: all in DRAM or 1 other"
    assert told["abs"] == "searched, none found"


def test_remedies_are_counted_on_the_overview(visit):
    """silu, relu with a remedy, abs without one; the group norm and the convolution fit in DRAM by arithmetic, or are open."""
    told = " ".join(visit().locator(".lead .remedies").first.inner_text().split())
    assert "of the 5 failing cases fit with a change" in told
    assert "same tensor: in place 1" in told
    assert "other memory: all in DRAM 1" in told
    assert "; 1 searched without finding one" in told


@pytest.mark.parametrize(
    ("with_remedy", "without", "words"),
    [
        (1, 0, "The failing case fits with a change"),
        (1, 1, "1 of the 2 failing cases fits with a change"),
        (2, 1, "2 of the 3 failing cases fit with a change"),
        (2, 0, "All of the 2 failing cases fit with a change"),
        (0, 1, "No change is known that makes the failing case fit"),
    ],
)
def test_the_verb_agrees_with_the_number_of_cases(visit, with_remedy, without, words):
    found = [remedies(("same tensor", "in place"))] * with_remedy + [remedies()] * without
    ops = ("silu", "relu", "exp")
    tab = visit(records=[failing(op, 2 * BANK, made(("down.0", 1)), one) for op, one in zip(ops, found, strict=False)])
    assert tab.locator(".lead .remedies b").first.inner_text() == words


def tree(tab) -> dict[str, tuple[str, ...]]:
    """Returns (calls, failing calls, worst shortfall, remedy) by the name of each row in view."""
    rows = (row.split("\t") for row in tab.locator("table[aria-label='Calls by module'] tbody tr").all_inner_texts())
    return {" ".join(cells[0].replace("▾", "").replace("▸", "").split()): tuple(cells[2:]) for cells in rows}


def mib(size: int) -> str:
    return f"{size / 2**20:.4g} MiB" if size >= 2**20 else f"{size} B"


def test_modules_have_the_calls_that_they_make(visit):
    """down: 2 silu, 3 group norms, 1 convolution in down.0 and 1 abs in down.1; 9 calls of abs in 3 modules without a name."""
    tab = visit("#view=models")
    tab.get_by_role("button", name="unfold all").click()
    rows = tree(tab)
    assert rows["my/unet 1024x1024"][:3] == ("21", "19", mib(8 * BANK))  # 4 + 1 + 10 + 3 + 1 that fail, 2 that fit
    assert rows["down"][:3] == ("7", "7", mib(8 * BANK))
    assert rows["0"][:3] == ("6", "6", mib(8 * BANK))
    both = 2 * 1024 * 2048 - BANK  # operand and result of abs: 65,536 tiles each over 64 banks
    assert rows["1"][:3] == ("1", "1", mib(both))
    assert rows["(further modules)"][:3] == ("9", "9", mib(both))
    assert rows["(top)"] == ("1", "1", mib(both), "same tensor: in place")
    assert rows["dec"][:3] == ("2", "2", mib(3 * BANK))
    assert "mid2" not in rows
    tab.get_by_role("link", name="all modules").click()
    tab.wait_for_selector("a[aria-current]:text('all modules')")
    tab.get_by_role("button", name="unfold all").click()
    assert tree(tab)["mid2"][:3] == ("2", "0", "–")


def test_the_tree_folds_and_selects_by_keys(visit):
    tab = visit("#view=models")
    body = tab.locator("[role=treegrid] tbody")
    tab.get_by_role("button", name="fold all", exact=True).click()
    assert body.locator("tr").count() == 1
    root = body.locator("tr").first
    assert root.get_attribute("aria-expanded") == "false"
    root.focus()
    tab.keyboard.press("ArrowRight")
    names = [" ".join(text.strip("▾▸").split()) for text in body.locator("tr .name").all_inner_texts()]
    assert names == ["my/unet 1024x1024", "(further modules)", "(top)", "dec", "down"]
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowDown"):
        tab.keyboard.press(key)
    assert "silu" in tab.evaluate("document.activeElement.textContent")
    assert tab.evaluate("document.activeElement.getAttribute('aria-level')") == "3"
    tab.keyboard.press("Enter")
    tab.wait_for_selector("aside:not([hidden])")
    assert "silu" in tab.locator("aside h2").inner_text()
    tab.keyboard.press("Escape")
    tab.wait_for_selector("aside", state="hidden")
    assert "silu" in tab.evaluate("document.activeElement.textContent")  # the focus is back where it was
    tab.keyboard.press("ArrowLeft")
    assert "(top)" in tab.evaluate("document.activeElement.textContent")
    tab.keyboard.press("ArrowLeft")
    assert body.locator("tr", has_text="(top)").get_attribute("aria-expanded") == "false"
    tab.keyboard.press("End")
    assert "down" in tab.evaluate("document.activeElement.textContent")
    assert body.locator("tr[tabindex='0']").count() == 1


def test_models_without_failures_are_listed_by_name(visit):
    sources = [Source(name, name, "64x64", 1) for name in ("zeta", "net-10", "alpha", "net-9")]
    tab = visit("#view=models", records=[a_record("relu", SMALL, sources=sources)])
    names = [text.split()[0] for text in tab.locator("table[aria-label=Models] tbody tr").all_inner_texts()]
    assert names == ["alpha", "net-9", "net-10", "zeta"]
    assert "Neither" not in tab.locator("main").inner_text()


@pytest.mark.parametrize("width", [1400, 600])
def test_filters_are_rows_without_holes(visit, width):
    tab = visit("", width)
    if width < 800:
        tab.get_by_text("Filters", exact=True).click()
    boxes = [field.bounding_box() for field in tab.locator(".field").all()]
    rows = {}
    for box in boxes:
        rows.setdefault(round(box["y"]), []).append(box["width"])
    assert len({len(row) for row in rows.values()}) == 1  # as many in each row
    assert len({round(width) for row in rows.values() for width in row}) == 1


@pytest.mark.parametrize("view", ["overview", "models"])
def test_cards_in_a_row_end_together(visit, view):
    tab = visit(f"#view={view}")
    boxes = [panel.bounding_box() for panel in tab.locator(".grid > .panel").all()]
    for box in boxes:
        assert {round(other["height"]) for other in boxes if other["y"] == box["y"]} == {round(box["height"])}


def test_a_matrix_of_few_operators_takes_its_whole_card(visit):
    tab = visit("#view=matrix")
    table, scroller = (tab.locator(selector).bounding_box() for selector in (".matrix table", ".matrix"))
    assert table["width"] == pytest.approx(scroller["width"], abs=3)


def test_what_makes_a_case_fit_is_in_view_beside_a_selected_case(visit):
    tab = visit(f"#view=cases&case={RECORDS[0]['key']}")
    scroller = tab.get_by_label("Cases: scrolls")
    assert scroller.evaluate("one => one.scrollWidth <= one.clientWidth + 1")
    assert tab.get_by_role("columnheader", name="What makes it fit").is_visible()
