"""The page of a large run: it opens on a summary, and loads the cases in parts. Counts are made here, from the records."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from ssinghal.core.case import ModuleCalls, Source
from ssinghal.report import large_page
from ssinghal.report.large_page import PARTS
from ssinghal.report.writer import WRITTEN, write_report
from ssinghal.runs.reader import read_run
from tests.support.run_builder import a_record, write_run

IDLE = "main[aria-busy=false]"
HOSTILE = "</script><img src=x onerror=alert(1)>\"'`${x}&lt;!--\u2028\u202eabc"
BANK = 1_393_312  # L1 of an n150
STATUSES = ("fits", "oom", "oom", "crash", "unsupported")


def oom(lacking: int) -> dict:
    room = {"bank_bytes": BANK, "allocated_bytes": 0, "free_bytes": BANK, "largest_free_bytes": BANK}
    return {"bytes_per_bank": BANK + lacking, "stage": "output", **room}


def verdict(status: str, number: int) -> dict:
    return oom(32 * (number + 1)) if status == "oom" else {"message": f"because of {HOSTILE}"} if status == "crash" else {}


def source(model: str, count: int) -> Source:
    return Source(f"{model}-640", model, "640x640", count, (ModuleCalls(f"{model}.head", count),) if count else ())


def some_records() -> list[dict]:
    """Twelve cases of each of three operators: some of a model, some of its shape alone."""
    return [
        a_record(
            op, (1, 32, 32, 32 * (number + 1)), memory="dram" if number % 4 == 3 else "l1",
            status=STATUSES[(number + place) % 5], verdict=verdict(STATUSES[(number + place) % 5], number),
            sources=[source("net", number % 3)] if number % 2 else [],
        )
        for place, op in enumerate(("relu", "silu", "abs"))
        for number in range(12)
    ]  # fmt: skip


@pytest.fixture
def report(tmp_path: Path, monkeypatch) -> Callable:
    """``report(records)`` writes the report in parts of five cases, of which ten are loaded at once."""
    monkeypatch.setattr(large_page, "LOADED_CASES", 10)

    def write(records: list[dict] | None = None, part_cases: int = 5) -> Path:
        monkeypatch.setattr(large_page.LargePage.__init__, "__defaults__", (part_cases,))
        run = read_run(write_run(tmp_path / "run", records or some_records()))
        write_report(run, tmp_path / "report", in_parts=True)
        return tmp_path / "report"

    return write


@pytest.fixture
def visit(open_tab) -> Callable:
    def open_page(folder: Path, hash: str = "", lacks: bool = False):
        tab = open_tab(folder / "report.html", hash, loads=PARTS, lacks=lacks)
        tab.wait_for_selector(IDLE)
        return tab

    return open_page


def loaded(tab) -> list[str]:
    """Returns the names of the files that the page has loaded."""
    names = tab.evaluate("() => performance.getEntriesByType('resource').map(one => one.name)")
    marks = tab.evaluate("() => performance.getEntriesByType('mark').map(one => one.name)")
    assert all(PARTS in name for name in names)
    return sorted({mark.removeprefix("unpacked ") for mark in marks if PARTS in mark})


def show(tab, hash: str) -> None:
    tab.evaluate("hash => { location.hash = hash }", hash)
    tab.wait_for_function(f"() => document.querySelector('{IDLE}')")
    tab.wait_for_timeout(50)
    tab.wait_for_selector(IDLE)


def table(tab, label: str) -> list[list[str]]:
    rows = tab.locator(f"table[aria-label='{label}'] tbody tr").all()
    return [row.locator("td").all_inner_texts() for row in rows]


def found(tab) -> str:
    return tab.locator("#filters .found span").first.inner_text()


def parts_of(folder: Path, op: str) -> list[str]:
    """Returns the files with cases of an operator: operators are numbered by name."""
    place = sorted({"relu", "silu", "abs"}).index(op)
    return sorted(f"{PARTS}/{path.name}" for path in (folder / PARTS).glob(f"0-{place}-*.js") if "details" not in path.name)


def test_it_opens_on_the_summary_and_loads_no_part(report, visit):
    records = some_records()
    tab = visit(report(records))
    assert loaded(tab) == []
    statuses = Counter(r["status"] for r in records)
    text = tab.locator("#view").inner_text().replace("\n", " ")
    assert f"{statuses['oom']} of {len(records)} cases run out of memory" in text
    rows = {row[0]: row[1:] for row in table(tab, "Operators by verdict")}
    assert set(rows) == {"relu", "silu", "abs"}
    for op, cells in rows.items():
        mine = Counter(r["status"] for r in records if r["op"] == op)
        assert next(int(cell) for cell in cells if cell != "–") == sum(mine.values())
        assert sorted(int(cell) for cell in cells[1:5] if cell != "–") == sorted(mine.values())
    models = table(tab, "Models by calls")
    calls = sum(s["count"] for r in records for s in r["sources"])
    assert [row[3] for row in models] == [str(calls)]
    most = tab.locator("section.panel", has_text="What lacks most").locator("li").first.inner_text()
    worst = max(r["shortfall_bytes"] for r in records if r["status"] == "oom")
    assert f"{worst} B" in most


def test_an_operator_loads_its_parts_alone(report, visit):
    folder = report()
    tab = visit(folder)
    tab.locator("table[aria-label='Operators by verdict'] a", has_text="silu").first.click()
    tab.wait_for_selector("table[aria-label=Cases]")
    assert len(parts_of(folder, "silu")) == 3  # of 5, 5 and 2 cases
    assert set(loaded(tab)) < set(parts_of(folder, "silu"))
    assert "Loaded: 10 of 12 cases that may pass the filters" in tab.locator(".loaded").inner_text()
    tab.get_by_role("button", name="load 2 more").click()
    tab.wait_for_function("() => document.querySelectorAll('table[aria-label=Cases] tbody tr').length === 12")
    assert loaded(tab) == parts_of(folder, "silu")
    assert {row[0].split()[0] for row in table(tab, "Cases")} == {"silu"}
    assert "Loaded: all 12 cases" in tab.locator(".loaded").inner_text()


@pytest.mark.parametrize(
    "filters",
    [
        {"op": "relu", "status": "oom"}, {"status": "crash"}, {"status": "oom", "memory": "dram"},
        {"model": "net", "status": "fits"}, {"model": "~net", "op": "abs"}, {"made": "models", "op": "silu", "status": "oom"},
        {"resource": "l1_buffer", "op": "abs"}, {"catalog": "net-640", "status": "unsupported"}, {"status": "timeout"},
    ],
)  # fmt: skip
def test_filters_count_as_python_does(report, visit, filters):
    def passes(r: dict) -> bool:
        models = {s["model"] if s["count"] else f"~{s['model']}" for s in r["sources"]}
        mine = {
            "op": [r["op"]], "status": [r["status"]], "memory": [r["memory"]], "model": models, "resource": [r.get("resource")],
            "catalog": [s["catalog"] for s in r["sources"]],
            "made": ["models" if sum(s["count"] for s in r["sources"]) else "nobody"],
        }  # fmt: skip
        return all(value in mine[name] for name, value in filters.items())

    records = some_records()
    tab = visit(report(records), "#view=cases&" + "&".join(f"{name}={value}" for name, value in filters.items()))
    while (more := tab.get_by_role("button", name="load ")).count():
        before = tab.locator(".loaded").inner_text()
        more.click()
        tab.wait_for_function("before => document.querySelector('.loaded').innerText !== before", arg=before)
    expected = [r for r in records if passes(r)]
    assert found(tab) == f"{len(expected)} of {len(records)} cases"
    assert sorted(row[0].split()[0] for row in table(tab, "Cases")) == sorted(r["op"] for r in expected)


def test_the_filters_list_the_counts_of_all_cases(report, visit):
    records = some_records()
    tab = visit(report(records))
    for name, column in {"op": "op", "status": "status", "memory": "memory"}.items():
        options = tab.locator(f"select[name={name}] option").evaluate_all("all => all.map(one => [one.value, one.text])")
        numbers = {value: int(text.rpartition("(")[2].rstrip(")")) for value, text in options if value}
        assert numbers == Counter(r[column] for r in records), name


def test_a_link_to_a_case_loads_its_part_and_details_alone(report, visit):
    records = some_records()
    folder = report(records)
    chosen = next(r for r in records if r["op"] == "silu" and r["status"] == "oom")
    tab = visit(folder, f"#case=silu:{chosen['key']}")
    aside = tab.locator("aside").inner_text()
    assert chosen["key"] in aside
    assert f"{chosen['shortfall_bytes']} B per bank" in aside
    files = loaded(tab)
    assert len(files) == 2
    assert files[0] == files[1].replace(".js", "-details.js") or files[1] == files[0].replace(".js", "-details.js")
    assert next(name for name in files if "details" not in name) in parts_of(folder, "silu")


def test_without_a_filter_a_view_of_many_cases_offers_operators(report, visit):
    tab = visit(report(), "#view=padding")
    assert loaded(tab) == []
    assert "None of 36 cases is loaded" in tab.locator(".loaded").inner_text()
    tab.locator("table[aria-label='Operators by verdict'] a", has_text="abs").first.click()
    tab.wait_for_function("() => location.hash.includes('op=abs')")
    tab.wait_for_selector(IDLE)
    assert "view=padding" in tab.url
    assert any("details" in name for name in loaded(tab))


@pytest.mark.parametrize("view", ["matrix", "cases", "models", "padding", "overview"])
def test_every_view_shows_the_cases_of_an_operator(report, visit, view):
    tab = visit(report(part_cases=12), f"#view={view}&op=abs")
    assert "Loaded: all 12 cases" in tab.locator(".loaded").inner_text()
    assert tab.locator("#view > *").count() > 1


def test_a_missing_part_is_named(report, visit):
    folder = report(part_cases=12)
    (lost,) = parts_of(folder, "relu")
    (folder / lost).unlink()
    tab = visit(folder, "#view=cases&op=relu", lacks=True)
    note = tab.locator(".problem").inner_text()
    assert lost in note
    assert "is not there" in note
    assert PARTS in note
    show(tab, "#view=cases&op=abs")
    assert len(table(tab, "Cases")) == 12


def test_a_link_to_a_case_of_a_missing_part_names_the_file(report, visit):
    records = some_records()
    folder = report(records, part_cases=12)
    (lost,) = parts_of(folder, "relu")
    key = next(r["key"] for r in records if r["op"] == "relu")
    details = lost.replace(".js", "-details.js")
    (folder / details).unlink()
    tab = visit(folder, f"#case=relu:{key}", lacks=True)
    assert details in tab.locator("aside .problem").inner_text()
    (folder / lost).unlink()
    tab = visit(folder, f"#case=relu:{key}", lacks=True)
    assert lost in tab.locator("aside .problem").inner_text()


def test_a_part_of_another_report_is_refused(report, visit):
    folder = report(part_cases=12)
    ((mine,), (other,)) = parts_of(folder, "relu"), parts_of(folder, "abs")
    text = (folder / other).read_text()
    (folder / mine).write_text(text.replace(other, mine))
    tab = visit(folder, "#view=cases&op=relu")
    assert "belongs to another report" in tab.locator(".problem").inner_text()


def test_no_text_of_the_data_becomes_markup(report, visit):
    """In ids, messages, names of models and of operators; parts are called by numbers."""
    records = some_records()
    name = "".join(HOSTILE.splitlines())  # one of several lines is no record
    for number, record in enumerate(records):
        record["id"] += name
        record["op"] = f"{record['op']}{name}"
        for one in record["sources"]:
            one["model"] = name
        record["message"] = f"{HOSTILE}{number}"
    folder = report(records, part_cases=12)
    for path in (folder / PARTS).iterdir():
        text = path.read_text()
        assert text.startswith("ssinghalPart([")
        assert text.endswith("]);\n")
        assert "<" not in text
        assert text.isascii()
        json.loads(text.removeprefix("ssinghalPart(").removesuffix(");\n"))
    page = (folder / "report.html").read_text()
    assert "onerror" not in page.replace("\\u003c", "<") or "<img" not in page
    tab = visit(folder)
    assert tab.locator("#view").inner_text().count("<img src=x") > 0
    for view in ("cases", "matrix", "models", "padding"):
        tab.evaluate("([view, op]) => { location.hash = new URLSearchParams({view, op}) }", [view, records[0]["op"]])
        tab.wait_for_function("view => document.querySelector(`#tab-${view}[aria-selected=true]`)", arg=view)
        tab.wait_for_selector(IDLE)
        assert tab.locator("img").count() == 0, view


def test_the_policy_lets_the_script_load_parts_and_markup_nothing(report, browser):
    folder = report()
    page = (folder / "report.html").read_text()
    policy = page.partition('http-equiv="Content-Security-Policy" content="')[2].partition('"')[0].replace("&#39;", "'")
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    hash, *others = rules["script-src"].split()
    assert hash.startswith("'sha256-")
    assert others == ["'strict-dynamic'"]
    (folder / "evil.js").write_text("window.evil = true")
    tab = browser.new_page()
    tab.goto((folder / "report.html").as_uri())
    tab.wait_for_selector(IDLE)
    for markup in (
        "<script src='evil.js'></script>",
        "<script>window.evil = true</script>",
        "<img src=x onerror='window.evil = 1'>",
    ):
        tab.evaluate("markup => document.write(markup)", markup)
    tab.wait_for_timeout(200)
    assert tab.evaluate("() => window.evil") is None
    tab.close()


def test_a_later_small_report_removes_the_parts(report, tmp_path):
    folder = report()
    assert any((folder / PARTS).iterdir())
    write_report(read_run(tmp_path / "run" / "20260102T030405.000000Z"), folder, in_parts=False)
    assert not (folder / PARTS).exists()
    assert PARTS not in (folder / WRITTEN).read_text()


@pytest.mark.parametrize("in_parts", [True, False])
def test_reports_of_one_run_are_equal_in_every_process(in_parts: bool, tmp_path: Path) -> None:
    """Sets of texts have another order in each process, unless PYTHONHASHSEED fixes it."""
    run = write_run(tmp_path / "run", some_records())
    code = (
        "import sys; from pathlib import Path; from ssinghal.report.writer import write_report; "
        "from ssinghal.runs.reader import read_run; "
        f"write_report(read_run(Path(sys.argv[1])), Path(sys.argv[2]), in_parts={in_parts})"
    )
    contents = []
    for seed in ("0", "1", "2"):
        folder = tmp_path / seed
        environ = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, "-c", code, str(run), str(folder)], check=True, env=environ, timeout=120)
        contents.append({path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()})
    assert len(contents[0]) > 5
    assert contents[0] == contents[1] == contents[2]
