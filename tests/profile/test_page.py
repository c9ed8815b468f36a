"""The page of a profile in a browser: its figures are those of the records, and nothing that a program says is markup."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ssinghal.profile.finding import Finding, FindingKind
from ssinghal.profile.model import Profile, Site
from ssinghal.profile.page import LEAST_CALLS, page
from tests.profile.measure import ROOT, run_ssinghal
from tests.profile.records import DEVICE, L1_TOP, PROGRAM, call, profile, sites, spec

HOSTILE = "</script><img src=x onerror=alert(1)>\"'`${x}&lt;!--\u2028\u202eabc"
SUITE = [
    PROGRAM | {"argv": ["pytest"]},
    DEVICE,
    *sites("test"),
    {"k": "span", "name": "test_it.py::test_small", "gap": [], "others": 0},
    call("ttnn.empty", 100, [["+", "l1", 8_000, 1_000, 64_000]], 1_000),
    call("ttnn.relu", 100, [["p", "Unary", 500, "measured"]], 1_000),
    {"k": "end", "gap": [], "others": 0},
    DEVICE,
    {"k": "span", "name": "test_it.py::test_large", "gap": [], "others": 0},
    call("ttnn.empty", 100, [["+", "l1", 2_000, 7_000, 448_000]], 7_000),
    {"k": "span", "name": "test_it.py::test_killed", "gap": [], "others": 0},
    call("ttnn.exp", 100, [], 7_000),
]


@pytest.fixture
def visit(open_tab, tmp_path: Path) -> Callable:
    def open_page(*profiles: Profile, findings=(), calls=100_000, **options):
        path = tmp_path / "profile.html"
        path.write_text(page(profiles or [profile()], findings, calls), encoding="utf-8")
        tab = open_tab(path, **options)
        tab.wait_for_selector("main[aria-busy=false]")
        return tab

    return open_page


def words(tab, selector: str) -> str:
    return " ".join(tab.locator(selector).inner_text().split())


def panel(tab, heading: str):
    return tab.locator("section.panel", has=tab.get_by_role("heading", name=heading, exact=True))


def grid(tab, label: str) -> list[list[str]]:
    return tab.locator(f"table[aria-label='{label}']").evaluate(
        "table => [...table.tBodies[0].rows].map("
        "  row => [...row.cells].map(cell => cell.textContent.split(/\\s+/).join(' ').trim()))"
    )


def select(tab, number: int) -> None:
    tab.get_by_label("Number of a call").fill(str(number))
    tab.get_by_role("button", name="Go").click()
    wait_for(tab, "#call .headline", f"call {number:,} ")


def wait_for(tab, selector: str, start: str) -> None:
    """Waits until a text begins so: what is selected is drawn in the next frame."""
    begins = "([selector, start]) => document.querySelector(selector).textContent.startsWith(start)"
    tab.wait_for_function(begins, arg=[selector, start])


IN_VIEW = "#timeline .tools [role=status]"


def in_view(tab) -> str:
    return tab.locator(IN_VIEW).inner_text()


# What it says ------------------------------------------------------------------------------------------------------------


def test_figures_are_those_of_the_records(visit):
    tab = visit()
    cards = panel(tab, "Figures").inner_text()
    for text in (
        "40,000 B, 40 % of 97.66 KiB",
        "5,000 B, 62.5 % of 7.813 KiB",
        "net.py --batch 1, ttnn 0.81.1",
        "5 calls of TTNN, 1",
    ):
        assert text in cards
    assert "0 B between the buffers recorded and the allocator's own view, in 10 checks" in cards
    assert "those of 1 runs of programs" in cards
    assert "at most 1.953 KiB" in cards, "least headroom: 3,000 - 1,000, and 2,500 of the program that is known"


def test_a_selected_call_shows_what_was_resident_with_line_age_and_use(visit):
    tab = visit()
    select(tab, 3)
    tab.locator("#call").get_by_role("button", name=re.compile(r"^L1 \(")).click()
    assert "ttnn.relu at net.py:30 (block)" in words(tab, "#call .headline")
    assert grid(tab, "Resident buffers") == [
        ["2.93 KiB3,000 B", "64x32 bfloat16 tile", "call 2ttnn.matmul, net.py:30 (block)", "1 call", "this call",
         "never: with its device", "5,000"],
        ["1.953 KiB2,000 B", "96x32 bfloat16 tile", "call 3ttnn.relu, net.py:30 (block)", "0 calls", "this call",
         "never: with its device", "3,000"],
    ]  # fmt: skip
    memories = {row[0]: row[1:] for row in grid(tab, "Bytes of the call")}
    assert memories["L1, per core"] == [
        "3.906 KiB4,000 B",
        "4.883 KiB5,000 B",
        "4.883 KiB5,000 B",
        "2.93 KiB3,000 B",
        "7.813 KiB8,000 B",
    ]
    select(tab, 2)
    assert grid(tab, "Resident buffers")[1][4:6] == ["this call", "before call 3its last reference went"]
    assert "1 program ran. Program buffers of the largest: 1.465 KiB (1,500 B)" in words(tab, "#call")
    assert [text.split(",")[0] for text in tab.locator("#call .tensors dd").all_inner_texts()] == [
        "32x32 bfloat16 tile", "320x32 bfloat16 tile", "64x32 bfloat16 tile",
    ]  # fmt: skip


def test_the_failure_is_selected_first_and_explained(visit):
    tab = visit()
    failure = panel(tab, "Out of memory").inner_text()
    assert "call 4" in words(tab, "#call .headline")
    for text in ("4.883 KiB (5,000 B)", "2.93 KiB (3,000 B)", "ttnn.conv2d, net.py:30 (block)"):
        assert text in failure
    assert [row[4] for row in grid(tab, "Resident at the failure")] == ["5,000", "3,000"], "the largest first"
    panel(tab, "Out of memory").locator("summary", has_text="TTNN's message").click()
    assert "where each bank needs to store 5000 B" in panel(tab, "Out of memory").inner_text()


def test_holes_between_addresses(visit):
    """In call 3: buffers at 3,000 to 5,000 and 5,000 to 8,000 of 1,000 to 9,000."""
    tab = visit()
    select(tab, 3)
    assert (
        "2 buffers; 2.93 KiB (3,000 B) free in 2 blocks, the largest 1.953 KiB (2,000 B) at 1,000."
        in panel(tab, "Addresses").inner_text()
    )


def test_the_icicle_has_widths_by_bytes(visit):
    tab = visit()
    panel(tab, "Peak by line").get_by_role("button", name="Peak of L1", exact=True).click()
    whole = tab.locator(".icicle").bounding_box()["width"]
    cells = tab.locator(".icicle button").evaluate_all(
        "all => all.map(one => [one.textContent, one.getBoundingClientRect().width])"
    )
    widths = {text: width / whole for text, width in cells}
    assert list(widths)[:4] == ["L1 per core", "net.py:10 (main)", "net.py:20 (load)", "net.py:30 (block)"]
    assert widths["ttnn.matmul"] == pytest.approx(3_000 / 5_000, abs=0.01)
    assert widths["ttnn.relu"] == pytest.approx(2_000 / 5_000, abs=0.01)
    tab.locator(".icicle button", has_text="ttnn.relu").click()
    assert tab.locator(".icicle button", has_text="ttnn.relu").bounding_box()["width"] == pytest.approx(whole, abs=1)
    assert "1.953 KiB (2,000 B), 1 buffer, 40 % of this moment" in panel(tab, "Peak by line").inner_text()


def test_the_table_sorts_and_filters(visit):
    tab = visit()
    operations = panel(tab, "Operations")
    assert [row[0] for row in grid(tab, "Operations")][:3] == ["3", "4", "2"], "by the peak of L1"
    operations.get_by_role("button", name="Headroom").click()
    assert [row[1] for row in grid(tab, "Operations")][:2] == ["ttnn.relu", "ttnn.matmul"]
    assert any(cell.startswith("≤ 1.953 KiB") for cell in grid(tab, "Operations")[0]), "not reported: 3,000 - 1,000 at most"
    operations.get_by_label("Filter operations").fill("net.py:10 main")
    assert operations.locator("[role=status]").inner_text() == "5 of 5 calls", "the outermost line of all"
    operations.get_by_label("Filter operations").fill("as_tensor")
    assert [row[1] for row in grid(tab, "Operations")] == ["ttnn.as_tensor"]
    operations.get_by_label("Filter operations").fill("")
    operations.get_by_label("that raised").check()
    assert [row[0] for row in grid(tab, "Operations")] == ["4"]
    select(tab, 0)
    operations.get_by_role("button", name="4", exact=True).click()
    wait_for(tab, "#call .headline", "call 4 ")


def test_findings(visit):
    finding = Finding(
        FindingKind.LATE_FREE, "l1", 1_000, Site("/home/me/net.py", 20, "load"), "freed 1 call late", "1,000 B x 1 call", (1,),
        sites=(("last used", Site("/home/me/net.py", 30, "block")),), before_bytes=5_000, after_bytes=4_000,
    )  # fmt: skip
    tab = visit(findings=[[finding]])
    text = panel(tab, "Findings").inner_text()
    for part in ("freed 1 call late", "freed later than last used", "1,000 B per core of L1", "1,000 B x 1 call",
                 "net.py:20 (load)", "last used", "net.py:30 (block)", "4.883 KiB now, 3.906 KiB then"):  # fmt: skip
        assert part in text
    panel(tab, "Findings").get_by_role("button", name="call 1").click()
    wait_for(tab, "#call .headline", "call 1 ttnn.empty")


def test_tests_of_a_suite_with_devices_of_their_own(visit):
    tab = visit(profile(SUITE))
    rows = grid(tab, "Tests")
    assert [row[0] for row in rows] == [
        "test_it.py::test_small", "test_it.py::test_large", "test_it.py::test_killedthe process ended within it",
    ]  # fmt: skip
    assert [row[1:3] for row in rows] == [["2", "1,000 B"], ["1", "6.836 KiB7,000 B"], ["1", "6.836 KiB7,000 B"]]
    assert rows[0][4] == "L1 +1,000 B"
    select(tab, 2)
    assert [row[6] for row in grid(tab, "Resident buffers")] == ["2,000"], "the first device took its buffers along"
    panel(tab, "Tests").get_by_role("button", name="test_it.py::test_small").click()
    wait_for(tab, IN_VIEW, "calls 0 to 1 of 4")


def test_several_processes(visit):
    tab = visit(profile(), profile(SUITE))
    assert tab.locator("#process option").all_inner_texts() == ["1 of 2: net.py --batch 1", "2 of 2: pytest"]
    tab.locator("#process").select_option("1")
    tab.get_by_role("heading", name="Tests", exact=True).wait_for()
    wait_for(tab, IN_VIEW, "all 4 calls")


@pytest.mark.parametrize("records", [[PROGRAM], [PROGRAM, DEVICE], [PROGRAM, DEVICE, *sites("f"), call("ttnn.f", 100, [], 0)]])
def test_next_to_nothing(visit, records):
    tab = visit(profile(records))
    assert "No buffer was allocated on the device." in panel(tab, "Figures").inner_text()


def test_no_process_at_all(open_tab, tmp_path):
    (tmp_path / "profile.html").write_text(page([]))
    assert "no process" in open_tab(tmp_path / "profile.html").locator("body").inner_text()


def test_a_selection_of_very_many_calls_is_stated_and_exact(visit):
    """One call in ten allocates 1,000 B for two calls; call 7,777 allocates the most."""
    calls = []
    for number in range(3 * LEAST_CALLS):
        size = 5_000 if number == 4_777 else 1_000
        if number % 10 in (0, 7):
            event, l1 = ["+", "l1", L1_TOP - size, size, size * 64], size
        else:
            event, l1 = (["-", "l1", L1_TOP - (5_000 if number == 4_778 else 1_000)], 0) if number % 10 in (1, 8) else (None, 0)
        calls.append(call("ttnn.f", 100, [event] if event else [], l1))
    tab = visit(profile([PROGRAM, DEVICE, *sites("f"), *calls]), calls=LEAST_CALLS)
    text = panel(tab, "Figures").inner_text()
    shown, total = re.search(r"This page has ([\d,]+) of ([\d,]+) calls", text).groups()
    assert total == "6,000"
    assert 500 < int(shown.replace(",", "")) <= LEAST_CALLS + 10
    assert "5,000 B, 62.5 %" in text
    select(tab, 4_777)
    assert [row[0] for row in grid(tab, "Resident buffers")] == ["4.883 KiB5,000 B"]


# What it does ------------------------------------------------------------------------------------------------------------


def test_drag_buttons_keys_and_wheel_zoom_and_move(visit):
    many = [call("ttnn.f", 100, [["+", "l1", 8_000, 1_000, 64_000]] if n == 0 else [], 1_000) for n in range(100)]
    tab = visit(profile([PROGRAM, DEVICE, *sites("f"), *many]))
    field = tab.get_by_role("slider", name="L1 over the calls")
    field.scroll_into_view_if_needed()
    box = field.bounding_box()
    left, width, y = box["x"] + 78, box["width"] - 79, box["y"] + 60
    tab.mouse.move(left + 0.25 * width, y)
    tab.mouse.down()
    tab.mouse.move(left + 0.5 * width, y, steps=3)
    tab.mouse.up()
    wait_for(tab, IN_VIEW, "calls")
    assert in_view(tab) in ("calls 25 to 49 of 100", "calls 25 to 50 of 100", "calls 24 to 49 of 100")
    tab.get_by_role("button", name="Show all calls").click()
    wait_for(tab, IN_VIEW, "all 100 calls")
    tab.mouse.click(left + 0.605 * width, y)
    wait_for(tab, "#call .headline", "call 60 ")
    tab.keyboard.press("ArrowRight")
    wait_for(tab, "#call .headline", "call 61 ")
    assert field.get_attribute("aria-valuetext") == "call 61 ttnn.f, net.py:10 (f)"
    tab.keyboard.press("+")
    wait_for(tab, IN_VIEW, "calls")
    before = in_view(tab)
    tab.mouse.wheel(0, -300)  # the field has the focus
    tab.wait_for_function("before => document.querySelector('#timeline [role=status]').textContent !== before", arg=before)


def test_the_wheel_scrolls_the_page_unless_a_picture_has_the_focus(visit):
    tab = visit()
    field = tab.get_by_role("slider", name="L1 over the calls")
    field.scroll_into_view_if_needed()
    field.hover()
    before = tab.evaluate("scrollY")
    tab.mouse.wheel(0, 40)
    tab.wait_for_function("before => scrollY > before", arg=before)
    assert in_view(tab) == "all 5 calls"
    field.click()
    tab.keyboard.press("Escape")
    assert not field.evaluate("field => field === document.activeElement")


def test_areas_are_as_high_as_their_bytes(visit):
    """After calls 2 and 3: 4,000 and 5,000 B. With a peak above 0.4 of the bank, the scale ends 2 % above the end of L1."""
    tab = visit()
    heights = tab.get_by_role("slider", name="L1 over the calls").evaluate(
        """host => {
          const canvas = host.querySelector('canvas');
          const pen = canvas.getContext('2d');
          const tone = getComputedStyle(document.querySelector('.l1.solid')).backgroundColor.match(/\\d+/g).map(Number);
          const pixels = pen.getImageData(0, 0, canvas.width, canvas.height).data;
          return [2.25, 3.25].map(row => {
            const x = Math.round(78 + (canvas.width - 79) * row / 5);
            let high = 0;
            for (let y = 0; y < canvas.height; y++)
              high += tone.every((part, i) => pixels[4 * (y * canvas.width + x) + i] === part);
            return high;
          });
        }"""
    )
    field = 190 - 20 - 6
    assert heights == [pytest.approx(size / (1.02 * L1_TOP) * field, abs=2) for size in (4_000, 5_000)]


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_the_screen_in_light_and_dark(visit, width, scheme):
    tab = visit(profile(), profile(SUITE), width=width, color_scheme=scheme)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    ground = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", ground)[:3])) < 300) == (scheme == "dark")
    small = tab.locator("button:visible").evaluate_all(
        "all => all.filter(one => one.getBoundingClientRect().right > innerWidth + 1 && !one.closest('.scroll')).length"
    )
    assert small == 0


def test_every_control_has_a_name_and_can_be_reached(visit):
    tab = visit(profile(SUITE))
    nameless = (
        "all => all.filter(one => !(one.getAttribute('aria-label') || one.textContent.trim() || one.labels?.length)).length"
    )
    assert tab.locator("button, input, select, [role=slider]").evaluate_all(nameless) == 0
    assert tab.locator("[role=slider]:not([tabindex='0'])").count() == 0
    assert tab.locator("canvas:not([aria-hidden])").count() == 0


# What it never does ------------------------------------------------------------------------------------------------------


def test_texts_of_the_program_are_never_markup(visit):
    records = [
        PROGRAM | {"argv": [HOSTILE, HOSTILE], "folder": HOSTILE},
        DEVICE,
        *sites(HOSTILE, file=f"/tmp/{HOSTILE}"),
        spec(200, 1) | {"dtype": HOSTILE, "layout": HOSTILE, "memory_layout": HOSTILE},
        {"k": "span", "name": HOSTILE, "gap": [], "others": 0},
        call(HOSTILE, 100, [["+", "l1", 8_000, 1_000, 64_000], ["p", HOSTILE, 5, "measured"]], 1_000, out=[[200, 8_000]]),
        call("ttnn.f", 100, [], 1_000, error=[HOSTILE, HOSTILE]),
        {"k": "lost", "why": HOSTILE},
    ]
    finding = Finding(FindingKind.RESIDENT, "l1", 1_000, Site(HOSTILE, 1, HOSTILE), HOSTILE, HOSTILE, (0,))
    tab = visit(profile(records), findings=[[finding]])
    select(tab, 0)
    for summary in tab.locator("summary").all():
        summary.click()
    assert tab.locator("img").count() == 0
    assert tab.locator("script").count() == 2, "the data and the page's own"
    assert "<img src=x onerror=alert(1)>" in words(tab, "#call .headline")


def test_without_scripts_there_is_the_summary(open_tab, tmp_path):
    (tmp_path / "profile.html").write_text(page([profile()]))
    tab = open_tab(tmp_path / "profile.html", java_script_enabled=False)
    tab.locator("summary", has_text="Summary as text").click()
    assert "L1 per core: peak 4.883 KiB (5,000 B) in ttnn.relu" in tab.locator(".text").inner_text()


@pytest.mark.virtual_device
def test_the_command_writes_it(tmp_path, open_tab):
    program = ROOT / "tests" / "profile" / "programs" / "faults" / "fragmentation" / "comb.py"
    done = run_ssinghal(tmp_path, "profile", "-o", "out", "--", "python", program)
    assert done.returncode == 1, done.stderr
    tab = open_tab(tmp_path / "out" / "profile.html")
    tab.wait_for_selector("main[aria-busy=false]")
    text = panel(tab, "Addresses").inner_text()
    assert "1.26 MiB (1,321,632 B) free in 6 blocks, the largest 690.7 KiB (707,232 B)" in text, "as test_seeded computes"
