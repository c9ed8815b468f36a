"""The files of a report: counts recomputed from ``records.jsonl``, several boards kept apart, hostile texts as text."""

import csv
import html
import io
import json
import math
import re
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner
from markdown_it import MarkdownIt

from ssinghal.cli import cli
from ssinghal.core.case import ModuleCalls, Source
from ssinghal.errors import HarnessError
from ssinghal.render.markdown import Markup, code, table, text
from ssinghal.report.json_export import FAILURE_COLUMNS
from ssinghal.report.writer import DOCUMENTS, PAGE, file_names, write_report
from ssinghal.runs.reader import read_run
from tests.support.run_builder import a_record, write_run

HOSTILE = "=cmd|'/c calc'!A1`*_[x](javascript:alert(1))<img src=x onerror=alert(1)>\n| new | row |"
TABLES = (
    "comprehensive_oom_report.json", "detailed_analysis_data.json", "operator_mapping.json", "mapping_analysis.json",
    "basic_operators.json",
)  # fmt: skip


NUMBERS = {
    "total_bytes": 34078720, "bytes_per_bank": 532480, "banks": 64, "bank_bytes": 1393312, "free_bytes": 328352,
    "largest_free_bytes": 328352, "message": "Out of Memory: Not enough space",
}  # fmt: skip
USAGE = {
    "l1_bytes": 4096, "circular_bytes": 0, "dataflow_bytes": 8192, "scratch_bytes": 0, "l1_total_bytes": 12288,
    "l1_small_bytes": 0, "dram_bytes": 0,
}  # fmt: skip


def an_oom(op, shape, **fields):
    return a_record(op, shape, status="oom", verdict={**NUMBERS, **fields.pop("verdict", {})}, **fields)


def some_records() -> list[dict]:
    yolo = Source("ultralytics-yolo12x-4320x7680", "ultralytics/yolo12x", "4320x7680", 8, (ModuleCalls("model.8", 8),))
    return [
        an_oom("relu", (1, 96, 2160, 3840), channels_last=True, sources=[yolo]),
        an_oom("relu", (1, 3, 2176, 3840), channels_last=True, sources=[Source("crossed", "", "", 0)]),
        an_oom("silu", (1, 96, 2160, 3840), channels_last=True),
        an_oom(
            "softmax", (8, 2040, 96), attrs={"dim": -1}, verdict={"resource": "clash", "stage": "program", "program_bytes": 9}
        ),
        a_record("silu", (1, 1, 32, 32), measured={"usage": USAGE}),
        a_record("silu", (1, 1, 64, 64), status="unsupported", verdict={"message": "no such layout"}),
        a_record("gelu", (1, 1, 64, 64), status="error", verdict={"message": "TT_FATAL: what", "error_type": "RuntimeError"}),
        a_record("gelu", (1, 1, 96, 64), status="not_run", mode="none", verdict={"message": "the run ended before it"}),
    ]


@pytest.fixture
def written(tmp_path) -> tuple[list[dict], Path]:
    """The records on disk, and the folder of their report."""
    folder = write_run(tmp_path, some_records())
    write_report(read_run(folder), tmp_path / "report")
    return [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()], tmp_path / "report"


def load(folder: Path, name: str):
    return json.loads((folder / name).read_text())


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split(" | ")]


def rows_under(document: str, heading: str) -> list[list[str]]:
    """Returns the cells of the first table below a heading."""
    lines = document[document.index(f"{heading}\n") :].splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("|"))
    last = next((i for i, line in enumerate(lines[first:], first) if not line.startswith("|")), len(lines))
    return [cells(line) for line in lines[first:last]]


def test_every_file_is_written(written):
    _, folder = written
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    operators = {f"per_operator/{op}.md" for op in ("relu", "silu", "softmax", "gelu")}
    assert names == {PAGE, *DOCUMENTS, "oom_failures_detailed.csv", *TABLES, *operators, ".report-files"}


def test_counts_match_the_lines(written):
    """Counted here from plain JSON, without the code under test."""
    records, folder = written
    oom = [r for r in records if r["status"] == "oom"]
    (group,) = load(folder, "comprehensive_oom_report.json")["groups"]
    assert group["totals"] == dict(Counter(r["status"] for r in records))
    assert group["cases"] == sum(group["totals"].values()) == len(records)
    assert group["failing_cases"] == len(oom) == len(group["failures"]) == sum(group["resources"].values())
    assert (
        group["failing_pairs"] == len({(r["op"], str(r["inputs"][0])) for r in oom}) == sum(b["pairs"] for b in group["bands"])
    )
    assert group["resources"] == dict(Counter(r["resource"] for r in oom))
    assert {o["op"]: o["failing_cases"] for o in group["operators"]} == dict(Counter(r["op"] for r in oom))
    logical = {str(r["inputs"][0]): 2 * math.prod(r["inputs"][0]) for r in oom}
    assert {str(s["shape"]): s["logical_bytes"] for s in group["shapes"]} == logical
    assert sum(b["pairs"] for b in group["bands"] if b["band"] == "critical") == 2  # 1,518.75 MiB of two operators
    assert [m["failing_calls"] for m in group["models"]] == [8]

    (analysis,) = load(folder, "detailed_analysis_data.json")["groups"]
    assert len(analysis["records"]) == len(records) == sum(o["cases"] for o in analysis["operators"])
    (basic,) = load(folder, "basic_operators.json")["groups"]
    assert {op: sum(s["cases"] for s in basic[op]) for op in ("relu", "silu", "softmax", "gelu")} == dict(
        Counter(r["op"] for r in records)
    )


def test_a_run_without_measured_memory_has_no_count_of_failures(tmp_path):
    """Two of three cases agree, in 4 of 7 calls of a model: neither is a word on memory."""
    net = [Source("net-640", "net", "640x400", calls, (ModuleCalls("head", calls),)) for calls in (4, 3)]
    golden = [
        a_record("relu", (1, 1, 32, 32), status="agrees", mode="golden", sources=net[:1]),
        a_record("silu", (1, 1, 32, 32), status="mismatch", mode="golden", sources=net[1:]),
        a_record("silu", (1, 1, 64, 32), status="agrees", mode="golden"),
    ]
    write_report(read_run(write_run(tmp_path, golden)), tmp_path / "report")
    for name in (*DOCUMENTS, "per_operator/relu.md"):
        document = (tmp_path / "report" / name).read_text()
        assert document.index("**Memory was not measured**") < document.index("\n## "), name
        for line in document.splitlines():
            if "OOM" in line or "failing" in line:
                assert not re.search(r"\| *\d", line), line
    final = (tmp_path / "report" / DOCUMENTS[2]).read_text()
    assert "| failing cases (OOM) | not measured |" in final
    by_name = {
        heading: dict(zip(rows[0], rows[-1], strict=True))
        for heading in ("### Results by operator", "#### By catalog", "### Models", "### Support matrix")
        for rows in [rows_under(final, heading)]
    }
    columns = {
        "### Results by operator": ("failing calls of models",),
        "#### By catalog": ("fits", "oom"),
        "### Models": ("fit", "fail (OOM)", "fail", "failing cases"),
        "### Support matrix": ("fits", "oom"),
    }
    for heading, unknown in columns.items():
        assert {by_name[heading][column] for column in unknown} == {"not measured"}
    assert by_name["### Results by operator"]["cases"] == "3"
    assert by_name["### Models"]["calls"] == "7"

    (oom,) = load(tmp_path / "report", "comprehensive_oom_report.json")["groups"]
    assert (oom["memory"], oom["totals"]) == ("not measured", {"agrees": 2, "mismatch": 1})
    known = {"device_mode", "board", "ttnn", "numerics", "cases", "totals", "memory", "tiers", "models"}
    assert {name for name, value in oom.items() if value is not None} == known
    assert [(m["calls"], m["failing_calls"], m["fitting_calls"]) for m in oom["models"]] == [(7, None, None)]
    (analysis,) = load(tmp_path / "report", "detailed_analysis_data.json")["groups"]
    assert {(o["op"], o["cases"], o["failing_cases"]) for o in analysis["operators"]} == {("relu", 1, None), ("silu", 2, None)}
    (mapping,) = load(tmp_path / "report", "mapping_analysis.json")["groups"]
    assert {(row["fits"], row["oom"]) for row in mapping["operators"]} == {(None, None)}


def test_a_run_with_measured_memory_keeps_its_counts(written):
    _, folder = written
    (group,) = load(folder, "comprehensive_oom_report.json")["groups"]
    assert "memory" not in group
    assert None not in group.values()
    assert not any("not measured" in (folder / name).read_text() for name in DOCUMENTS)


def test_tables_of_the_documents_add_up(written):
    records, folder = written
    summary = (folder / "memory_analysis_summary.md").read_text()
    header, _, *rows = rows_under(summary, "### Status of every operator")
    numbers = [[int(cell.replace(",", "")) for cell in row[1:]] for row in rows]
    *operators, total = numbers
    assert total[0] == len(records)
    assert [sum(column) for column in zip(*operators, strict=True)] == total
    for row in numbers:
        assert row[0] == sum(row[1:-1]), header  # the last column is calls
    _, _, *totals = rows_under((folder / "final_comprehensive_report.md").read_text(), "### Coverage")
    assert ["cases recorded", "8 of 8 selected"] in totals
    _, _, *bands = rows_under((folder / "oom_comprehensive_analysis.md").read_text(), "### Distribution by size")
    assert [row[2] for row in bands] == ["2", "0", "0", "2", "4"]


@pytest.mark.parametrize(
    ("record", "explained"),
    [
        (a_record("silu", (1, 1, 32, 32), measured={"usage": USAGE}), True),
        ({**a_record("silu", (1, 1, 32, 32)), "usage": None}, False),
        (an_oom("silu", (1, 96, 2160, 3840)), False),
    ],
    ids=["captured", "not captured", "does not fit"],
)
def test_captured_peaks_are_explained_where_there_are_some(tmp_path, record, explained):
    write_report(read_run(write_run(tmp_path, [record])), tmp_path / "report")
    for name in ("per_operator/silu.md", "final_comprehensive_report.md"):
        assert ("*As captured*:" in (tmp_path / "report" / name).read_text()) is explained, name


def test_sizes_are_shown_three_ways_in_binary_units(written):
    _, folder = written
    document = (folder / "oom_comprehensive_analysis.md").read_text()
    assert "| 47.81 MiB (50,135,040 B) | 510 MiB (534,773,760 B), 10.667x | 7.969 MiB (8,355,840 B) |" in document
    assert "| 1.483 GiB (1,592,524,800 B) | 1.483 GiB (1,592,524,800 B) | 23.73 MiB (24,883,200 B) |" in document
    for name in (*DOCUMENTS, "per_operator/relu.md"):
        assert not {" MB", " GB", "MB ", "GB "} & {token for token in (" MB", " GB", "MB ", "GB ") if token in document}, name


def test_the_device_mode_and_numerics_are_on_every_document(written):
    _, folder = written
    for path in (*(folder / name for name in DOCUMENTS), *(folder / "per_operator").iterdir()):
        document = path.read_text()
        assert "virtual n150, ttnn 0.81.1" in document, path
        assert "numerics not run: memory verdicts only" in document, path
    for name in (
        "comprehensive_oom_report.json",
        "detailed_analysis_data.json",
        "mapping_analysis.json",
        "basic_operators.json",
    ):
        (group,) = load(folder, name)["groups"]
        assert (group["device_mode"], group["board"], group["numerics"][:16]) == ("virtual", "n150", "numerics not run")


def test_failures_as_csv(written):
    records, folder = written
    rows = list(csv.DictReader(io.StringIO((folder / "oom_failures_detailed.csv").read_text())))
    assert [row["key"] for row in rows] == [r["key"] for r in records if r["status"] == "oom"]
    first = rows[0]
    assert tuple(first) == FAILURE_COLUMNS
    assert (first["shape"], first["logical_bytes"], first["band"]) == ("[1,96,2160,3840]", "1592524800", "critical")
    assert (first["needed_bytes_per_bank"], first["free_bytes"], first["shortfall_bytes"]) == ("532480", "328352", "204128")
    assert (first["tiers"], first["models"], first["calls"]) == ("8K", "ultralytics/yolo12x", "8")


def test_boards_and_modes_have_separate_chapters_and_are_not_added_up(tmp_path):
    records = [an_oom("relu", (1, 96, 2160, 3840)), an_oom("relu", (1, 96, 2160, 3840), board="p150"), a_record(mode="silicon")]
    write_report(read_run(write_run(tmp_path, records)), tmp_path / "report")
    report = load(tmp_path / "report", "comprehensive_oom_report.json")
    assert {(g["device_mode"], g["board"]): g["failing_cases"] for g in report["groups"]} == {
        ("virtual", "n150"): 1,
        ("virtual", "p150"): 1,
        ("silicon", "n150"): 0,
    }
    for name in DOCUMENTS:
        document = (tmp_path / "report" / name).read_text()
        assert "nothing is added up across them" in document
        for setting in ("virtual n150", "virtual p150", "silicon n150"):
            assert f"\n## {setting}, ttnn 0.81.1\n" in document
    relu = (tmp_path / "report" / "per_operator" / "relu.md").read_text()
    assert relu.count("\n## ") == 3


def test_missing_lines_of_a_killed_run_are_reported_everywhere(tmp_path):
    folder = write_run(tmp_path, some_records(), selected=20)
    path = folder / "records.jsonl"
    path.write_bytes(path.read_bytes()[:-50])
    write_report(read_run(folder), tmp_path / "report")
    for name in (*DOCUMENTS, "per_operator/relu.md"):
        document = (tmp_path / "report" / name).read_text()
        assert "truncated after" in document, name
        assert "13 of 20 selected cases have no record" in document, name
    for name in TABLES:
        assert len(load(tmp_path / "report", name)["losses"]) == 2, name


def test_hostile_texts_stay_texts(tmp_path):
    name = " ".join(HOSTILE.splitlines())  # one of several lines is no record
    source = Source(name, name, name, 3, (ModuleCalls(name, 3),))
    record = an_oom("relu", (1, 96, 2160, 3840), sources=[source], verdict={"message": HOSTILE, "resource": "host"})
    odd = {**record, "op": name, "operator": "../../etc/passwd", "id": name, "key": "k"}
    folder = write_run(tmp_path, [record, odd])
    write_report(read_run(folder), tmp_path / "report")
    for path in (tmp_path / "report").rglob("*.md"):
        shown = MarkdownIt("commonmark").enable("table").render(path.read_text())
        assert not re.findall(r"<img|<a ", shown), path
        plain = html.unescape(re.sub(r"</?(code|em|strong)>", "", shown))
        assert name in plain or HOSTILE.replace("\n", r"\n") in plain, path
        assert "<td>new</td>" not in shown, path
    rows = list(csv.DictReader(io.StringIO((tmp_path / "report" / "oom_failures_detailed.csv").read_text())))
    assert not [value for row in rows for value in row.values() if value.startswith("=")]
    assert {path.parent for path in (tmp_path / "report").rglob("*.md")} == {
        tmp_path / "report",
        tmp_path / "report/per_operator",
    }


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("plain", "plain"),
        ("a|b\nc", r"a\|b c"),
        ("<b>&amp;", r"\<b\>\&amp;"),
        ("`x` *y* _z_ [l](u)", r"\`x\` \*y\* \_z\_ \[l\](u)"),
    ],
)
def test_text_in_markdown(value, shown):
    assert text(value) == shown


def test_code_in_markdown():
    assert code("a`b") == "`` a`b ``"
    assert code("") == ""
    assert table(["a"], [[Markup("`x`")], [3]]).splitlines() == ["| a |", "| --- |", "| `x` |", "| 3 |"]
    assert table(["a"], [[1000], [None]]).splitlines()[1:] == ["| ---: |", "| 1,000 |", "|  |"]
    assert table(["a"], []) == "None.\n"
    with pytest.raises(TypeError):
        table(["a"], [[1.5]])


def test_an_operator_of_any_name_has_a_separate_file():
    operators = ["add", "..", "", "a/b", "a_b", "A_B", "x" * 300, ".hidden", "Ω|<", "conv2d.default"]
    names = file_names(operators)
    assert list(names) == operators
    assert names["add"] == "add"
    assert len({name.lower() for name in names.values()}) == len(operators)
    for name in names.values():
        assert 0 < len(name) <= 110
        assert not {"/", "\\", "|", "<"} & set(name)
        assert not name.startswith(".")


class TestCommand:
    def run(self, *arguments: object):
        return CliRunner().invoke(cli, ["report", *map(str, arguments)])

    def test_it_writes_the_report_of_the_latest_run_to_its_folder(self, tmp_path):
        folder = write_run(tmp_path, some_records())
        (tmp_path / "latest").symlink_to(folder.name)
        done = self.run("--results", tmp_path)
        assert done.exit_code == 0, done.output
        assert (
            "virtual n150, ttnn 0.81.1: 8 cases: fits 1, oom 4, unsupported 1, error 1, not_run 1; numerics not run"
            in done.output
        )
        assert (folder / "report" / PAGE).is_file()

    def test_a_second_report_removes_the_files_of_the_first(self, tmp_path):
        first = write_run(tmp_path, some_records(), run="20260101T000000.000000Z")
        second = write_run(tmp_path, [a_record("exp")], run="20260102T000000.000000Z")
        for folder in (first, second):
            assert self.run(folder, "-o", tmp_path / "out").exit_code == 0
        assert [path.name for path in (tmp_path / "out" / "per_operator").iterdir()] == ["exp.md"]

    def test_other_files_are_left_alone(self, tmp_path):
        """Even if the list of files to remove points out of the folder."""
        folder = write_run(tmp_path, [a_record("exp")])
        notes, outside = tmp_path / "out" / "per_operator" / "notes.md", tmp_path / "outside.md"
        notes.parent.mkdir(parents=True)
        for path in (notes, outside):
            path.write_text("mine")
        (tmp_path / "out" / ".report-files").write_text("../outside.md\n")
        assert self.run(folder, "-o", tmp_path / "out").exit_code == 0
        assert notes.read_text() == outside.read_text() == "mine"

    def test_it_reports_changes_since_the_run_before(self, tmp_path):
        before = some_records()
        after = [{**before[4], "status": "oom", "resource": "l1_buffer"}, *before[:4], *before[5:]]
        write_run(tmp_path, before, run="20260101T000000.000000Z", options={"catalogs": []})
        write_run(tmp_path, after, run="20260102T000000.000000Z", options={"catalogs": []})
        done = self.run("20260102", "--results", tmp_path)
        assert done.exit_code == 0, done.output
        assert "since run 20260101T000000.000000Z: 1 new-oom" in done.output
        folder = tmp_path / "20260102T000000.000000Z" / "report"
        assert "### new-oom (1)" in (folder / "final_comprehensive_report.md").read_text()
        since = load(folder, "comprehensive_oom_report.json")["since"]
        assert [(change["kind"], change["op"]) for change in since["changes"]] == [("new-oom", "silu")]

    @pytest.mark.parametrize("why", ["empty", "newer", "no device"])
    def test_an_earlier_run_that_cannot_be_compared_does_not_affect_the_report(self, tmp_path, why):
        """It is named, and the run before it is used."""
        earlier = {
            "empty": [],
            "newer": [{**record, "schema": 99} for record in some_records()],
            "no device": [a_record(status="not_run", mode="none")],
        }[why]
        device = {"mode": "virtual", "board": "n150", "ttnn": "0.81.1"}
        for day, records in enumerate((some_records(), earlier, some_records()), 1):
            run = f"2026010{day}T000000.000000Z"
            write_run(tmp_path, records, run=run, options={"catalogs": []}, device=device)
        done = self.run("20260103", "--results", tmp_path)
        assert done.exit_code == 0, done.output
        assert "not compared with 20260102T000000.000000Z: " in done.output
        assert "since run 20260101T000000.000000Z: no change" in done.output

    def test_remedies_are_read_however_the_run_is_named(self, tmp_path):
        folder = write_run(tmp_path, [a_record("softmax", (1, 1152, 135, 120), status="oom", attrs={"dim": -1})])
        tried = a_record("softmax", (1, 1152, 135, 120), attrs={"dim": -1}, memory="dram")
        (folder / "remedies.jsonl").write_text(json.dumps(tried) + "\n{cut short")
        for named in (folder, folder / "records.jsonl"):
            assert self.run(named, "-o", tmp_path / "out").exit_code == 0
            document = (tmp_path / "out" / "oom_comprehensive_analysis.md").read_text()
            assert "operands and result in DRAM (tried, fits: 1)" in document
            assert "remedies.jsonl:2: not a complete record" in document

    def test_a_file_of_records_is_enough(self, tmp_path):
        folder = write_run(tmp_path, some_records())
        (folder / "run.json").unlink()
        done = self.run(folder / "records.jsonl", "-o", tmp_path / "out")
        assert done.exit_code == 0, done.output
        assert (tmp_path / "out" / DOCUMENTS[0]).is_file()

    def test_nothing_is_written_for_a_run_that_cannot_be_read(self, tmp_path):
        folder = write_run(tmp_path, [{**a_record(), "schema": 99}])
        done = self.run(folder, "-o", tmp_path / "out")
        assert isinstance(done.exception, HarnessError)
        assert not (tmp_path / "out").exists()

    def test_a_page_that_cannot_be_written_is_an_error(self, tmp_path):
        folder = write_run(tmp_path, some_records())
        (tmp_path / "out" / PAGE).mkdir(parents=True)
        with pytest.raises(HarnessError, match=r"cannot write .*report\.html: Is a directory"):
            write_report(read_run(folder), tmp_path / "out")
        assert [path.name for path in tmp_path.rglob(".report.html*")] == []

    def test_a_folder_that_cannot_be_written_is_named(self, tmp_path):
        folder = write_run(tmp_path, some_records())
        (tmp_path / "out").write_text("a file")
        with pytest.raises(HarnessError, match=r"cannot write the report to .*out: "):
            write_report(read_run(folder), tmp_path / "out")
