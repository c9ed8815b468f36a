"""The same cases on several releases: changes and differences that a moved base explains, the page, and real releases."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import asdict, fields
from html.parser import HTMLParser
from pathlib import Path

import pytest

import ssinghal
from ssinghal.core.measured import Usage
from ssinghal.core.tensors import MemoryRegion
from ssinghal.core.verdict import Resource, Status
from ssinghal.device.modes import choose_device
from ssinghal.device.releases import Release, find_release, installed_release
from ssinghal.errors import CatalogError, HarnessError, InvalidCase
from ssinghal.release_matrix import selection
from ssinghal.release_matrix.matrix import Timeline, VerdictChange
from ssinghal.release_matrix.page import page
from ssinghal.release_matrix.runner import RemainingCases, run_parts
from ssinghal.release_matrix.selection import cases_file, parse_versions, selected_cases, selected_releases, shipped_files
from ssinghal.release_matrix.text import lines
from ssinghal.render.html import css_class
from ssinghal.runner.tasks import PoolOptions
from ssinghal.runs.reader import read_run
from tests.support.processes import wait_for
from tests.support.run_builder import a_record, write_run

L1_END = 1_499_136  # of a Wormhole core
DRAM_BANK = 1_072_693_184
OLD, NEW, NEWEST = "0.75.0", "0.80.0", "0.81.1"
BASES = {OLD: 105_536, NEW: 105_696, NEWEST: 105_824}  # as measured
MOVED = BASES[NEW] - BASES[OLD]  # 160 B


# By hand -------------------------------------------------------------------------------------------------------------------


def peaks(**sizes):
    return {**dict.fromkeys((f.name for f in fields(Usage)), 0), **sizes}


def l1_oom(version, needed=2_000_000, held=700_000, op="add"):
    """An operand that does not fit next to ``held`` bytes. Free bytes are counted from the release's base."""
    bank = L1_END - BASES[version]
    room = {"bank_bytes": bank, "allocated_bytes": held, "free_bytes": bank - held, "largest_free_bytes": bank - held}
    verdict = {"total_bytes": 64 * needed, "bytes_per_bank": needed, "banks": 64, **room}
    return a_record(op, inputs=[[1, 64, 640, 400]] * 2, status="oom", verdict=verdict, ttnn=version)


def program_oom(version, size=9_887_744):
    """Program buffers start at the base: 103,552 + 9,887,744 is the Mochi decoder's 9,991,296 on 0.66.0."""
    verdict = {"resource": Resource.CIRCULAR_BUFFER, "stage": "program", "program_bytes": BASES[version] + size}
    return a_record("tanh", status="oom", verdict={**verdict, "limit_bytes": L1_END}, ttnn=version)


def fitting(version, op="relu", **usage):
    measured = {"usage": peaks(**(usage or {"l1_bytes": 4096})), "resident": {"l1": 4096}}
    return a_record(op, ttnn=version, measured=measured)


def ended(version, status, op="gelu", **verdict):
    return a_record(op, status=status, ttnn=version, verdict={"message": f"{status} it is", **verdict})


def device(version):
    l1, dram = MemoryRegion(64, L1_END - BASES[version], 16), MemoryRegion(12, DRAM_BANK, 32)
    opened = {"mode": "virtual", "board": "n150", "ttnn": version, "l1_base_bytes": BASES[version]}
    return {**opened, "l1": asdict(l1), "dram": asdict(dram)}


@pytest.fixture
def timeline(tmp_path):
    """``timeline({version: records})``, written to disk and read back."""

    def build(by_version):
        folders = [write_run(tmp_path, rs, run=v, device=device(v)) for v, rs in by_version.items()]
        return Timeline.of([read_run(folder) for folder in folders])

    return build


def changes_of(result):
    return {row.first.op: [(c.kind, c.after) for c in row.changes] for row in result.rows if row.changes}


def test_a_moved_base_is_one_line_and_no_change_of_a_case(timeline):
    result = timeline({v: [l1_oom(v), program_oom(v), fitting(v)] for v in (OLD, NEW, NEWEST)})
    assert changes_of(result) == {}
    assert [(s.l1_base_moved_bytes, s.dram_bank_moved_bytes, s.alone) for s in result.steps] == [(160, 0, 2), (128, 0, 2)]
    text = list(lines(result))
    (line,) = (line for line in text if line.startswith(f"{OLD} → {NEW}"))
    assert line == "0.75.0 → 0.80.0: no change; L1 base moved by +160 B (105,536 → 105,696): 2 cases differ by that alone"
    assert text[-1] == "3 cases unchanged"


def test_a_difference_that_the_base_does_not_explain_is_a_change(timeline):
    """More bytes needed, another peak, and program buffers whose end moved against the base."""
    moved = [l1_oom(NEW, needed=2_000_064), program_oom(NEW, size=9_887_744 - 2 * MOVED), fitting(NEW, l1_bytes=8192)]
    result = timeline({OLD: [l1_oom(OLD), program_oom(OLD), fitting(OLD)], NEW: moved})
    assert changes_of(result) == {op: [(VerdictChange.BYTES_CHANGED, NEW)] for op in ("add", "tanh", "relu")}
    assert result.steps[0].alone == 0
    (figure,) = next(row for row in result.rows if row.first.op == "relu").changes[0].change.figures
    assert str(figure) == "peak l1_bytes 4,096 → 8,192 B"
    (program,) = next(row for row in result.rows if row.first.op == "tanh").changes[0].change.figures
    assert program.after_bytes - program.before_bytes == MOVED - 2 * MOVED


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        (fitting(OLD, "gelu"), l1_oom(NEW, op="gelu") | {"inputs": [[1, 64, 640, 400]]}, VerdictChange.NEWLY_FAILS),
        (ended(OLD, "oom"), ended(NEW, "fits"), VerdictChange.NEWLY_FITS),
        (ended(OLD, "error"), ended(NEW, "fits"), VerdictChange.OTHER),
        (ended(OLD, "error"), ended(NEW, "oom"), VerdictChange.OTHER),
        (ended(OLD, "oom"), ended(NEW, "unsupported"), VerdictChange.OTHER),
        (ended(OLD, "fits"), ended(NEW, "crash"), VerdictChange.OTHER),
        (ended(OLD, "fits"), ended(NEW, "timeout"), VerdictChange.OTHER),
        (ended(OLD, "not_run"), ended(NEW, "fits"), VerdictChange.OTHER),
        (ended(OLD, "not_run"), ended(NEW, "oom"), VerdictChange.OTHER),
        (ended(OLD, "fits"), ended(NEW, "oom", resource=Resource.HOST), VerdictChange.OTHER),
        (ended(OLD, "oom", resource=Resource.HOST), ended(NEW, "fits"), VerdictChange.OTHER),
        (ended(OLD, "oom"), ended(NEW, "oom", resource=Resource.CLASH), VerdictChange.OTHER),
        (ended(OLD, "fits"), ended(NEW, "fits") | {"left_allocated": {"l1": 32}}, VerdictChange.OTHER),
    ],
)
def test_only_a_verdict_of_the_device_newly_fails_or_fits(timeline, before, after, kind):
    result = timeline({OLD: [before], NEW: [{**after, "key": before["key"]}]})
    assert changes_of(result) == {"gelu": [(kind, NEW)]}
    assert result.steps[0].counts == {k: int(k is kind) for k in VerdictChange}
    outcomes = [next(iter(counts)) for counts in result.outcomes]
    assert [status for status, _ in outcomes] == [before["status"], after["status"]]


def test_program_buffers_of_another_kind_are_no_change_but_more_bytes_are(timeline):
    """TTNN turns circular into dataflow buffers; their sum per core is what may run out."""
    old = [fitting(OLD, op, circular_bytes=4096, l1_total_bytes=8192) for op in ("relu", "silu")]
    new = [
        fitting(NEW, "relu", dataflow_bytes=4096, l1_total_bytes=8192),
        fitting(NEW, "silu", dataflow_bytes=4096, scratch_bytes=16, l1_total_bytes=8208),
    ]
    result = timeline({OLD: old, NEW: new})
    assert changes_of(result) == {"silu": [(VerdictChange.BYTES_CHANGED, NEW)]}
    assert result.steps[0].other_kind == 1
    (row,) = result.changed
    assert [str(figure) for figure in row.changes[0].change.figures] == ["peak l1_total_bytes 8,192 → 8,208 B"]


def test_peaks_that_a_release_does_not_report_are_not_zero(timeline):
    without = a_record("relu", ttnn=OLD, measured={"usage_note": "no graph"})
    result = timeline({OLD: [without], NEW: [fitting(NEW)]})
    assert changes_of(result) == {}
    assert result.notes == ["ttnn 0.75.0 reports no peaks (no graph): tensors are compared"]
    assert result.to_json()["rows"][0]["releases"][0]["peaks"] is None


def test_the_table_has_changed_cases_worst_first_and_counts_the_rest(timeline):
    old = [fitting(OLD), fitting(OLD, "silu"), ended(OLD, "fits"), program_oom(OLD)]
    failed = ended(NEW, "oom", bytes_per_bank=700, free_bytes=500)
    result = timeline({OLD: old, NEW: [fitting(NEW), fitting(NEW, "silu", l1_bytes=64), failed, program_oom(NEW)]})
    text = list(lines(result))
    assert text[0] == "4 cases on virtual n150, ttnn 0.75.0, 0.80.0; numerics not run: memory verdicts only"
    table = text[text.index("") + 1 :]
    assert [line.split()[0] for line in table] == ["case", "gelu", "silu", "2"]
    assert "oom l1_buffer 700 of 500 B  newly-fails 0.80.0" in table[1]
    assert table[2].endswith("bytes-changed 0.80.0 (peak l1_bytes 4,096 → 64 B)")
    assert len(list(lines(result, everything=True))) == len(text) + 1  # two more rows, without the line that counts them


def test_json_has_every_case_with_all_bytes(timeline):
    result = timeline({v: [l1_oom(v), fitting(v)] for v in (OLD, NEW)}).to_json()
    assert json.loads(json.dumps(result)) == result
    assert (result["cases"], result["changed"], len(result["rows"])) == (2, 0, 2)
    assert [r["outcomes"] for r in result["releases"]] == [{"oom l1_buffer": 1, "fits": 1}] * 2
    assert [r["l1_base_bytes"] for r in result["releases"]] == [BASES[OLD], BASES[NEW]]
    cells = result["rows"][0]["releases"]
    assert [c["room_bytes"] for c in cells] == [L1_END - BASES[v] - 700_000 for v in (OLD, NEW)]
    assert {c["needs_bytes"] for c in cells} == {2_000_000}
    assert result["steps"][0]["differ_by_that_alone"] == 1


# The page ------------------------------------------------------------------------------------------------------------------


class ParsedPage(HTMLParser):
    """Counts elements by name and keeps the texts of titles. Fails if an element is closed that is not open."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attrs, self.open, self.titles = Counter(), [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1
        self.attrs += attrs
        if tag not in ("meta", "br", "rect", "line"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags[tag] += 1
        self.attrs += attrs

    def handle_endtag(self, tag):
        if tag != "rect":
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "title":
            self.titles.append(data)


HOSTILE = '</title></svg><script>alert("x")</script>&quot;<img src=//elsewhere onerror=alert(1)>'


def test_the_page_is_complete_and_loads_nothing(timeline):
    result = timeline({v: [l1_oom(v), fitting(v), ended(v, "error" if v == OLD else "fits")] for v in (OLD, NEW, NEWEST)})
    text = page(result, "three cases")
    read = ParsedPage(text)
    assert read.open == []
    parts = sum(len(counts) for counts in result.outcomes)
    legend = len({outcome for counts in result.outcomes for outcome in counts})
    assert read.tags["rect"] == legend + parts + 3 * 3  # colours, parts of the bars, cells of the grid
    assert read.tags["line"] == 1
    assert read.tags["script"] == read.tags["link"] == read.tags["img"] == 0
    assert not any(name in ("src", "href") or name.startswith("on") for name, _ in read.attrs)
    (policy,) = (value for name, value in read.attrs if name == "content" and "src" in value)
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert f"0.75.0: oom l1_buffer 2,000,000 of {L1_END - BASES[OLD] - 700_000:,} B" in read.titles
    assert "L1 base moved by +160 B" in text


def test_underscores_of_labels_are_visible(timeline, open_tab, tmp_path):
    """Each label, with what hangs below its baseline, is within its own row and within the drawing."""
    named = {"op": "native_group_norm", "operator": "native_group_norm", "id": "1x64x640x400-row_major-to_layout_"}
    records = {v: [{**fitting(v), **named, "key": f"{n:012x}"} for n in range(3)] for v in (OLD, NEW)}
    path = tmp_path / "timeline.html"
    path.write_text(page(timeline(records), "labels"))
    rows = open_tab(path).evaluate(
        """() => [...document.querySelectorAll('svg text.id')].map((label) => {
          const box = label.getBBox();
          const row = label.nextElementSibling.getBBox();
          const least = Math.min(row.y + row.height, label.ownerSVGElement.height.baseVal.value);
          return [label.textContent, box.y >= row.y - 1, box.y + box.height <= least];
        })"""
    )
    assert len(rows) == 3
    assert all("row_major-to_layout_" in text and below and above for text, below, above in rows)


def test_texts_of_catalogs_and_messages_are_not_markup(timeline):
    records = {v: [{**ended(v, status), "message": HOSTILE, "id": HOSTILE}] for v, status in ((OLD, "error"), (NEW, "fits"))}
    read = ParsedPage(page(timeline(records), HOSTILE))
    assert read.open == []
    assert read.tags["script"] == read.tags["img"] == 0
    assert any(HOSTILE in title for title in read.titles)


def test_every_outcome_has_a_colour():
    style = (Path(ssinghal.__file__).parent / "release_matrix" / "templates" / "timeline.css").read_text()
    outcomes = [(s.value, None) for s in Status] + [("oom", r.value) for r in Resource]
    assert {css_class(outcome) for outcome in outcomes if f".{css_class(outcome)} {{" not in style} == set()
    assert [css_class((s, None)) for s in ("fits", "error", "crash", "not_run")] == ["fits", "fault", "fault", "none"]


# Cases and releases --------------------------------------------------------------------------------------------------------


def test_releases_are_sorted_and_distinct(monkeypatch):
    monkeypatch.setattr(selection, "find_release", lambda version: Release(version, Path(version)))
    versions = parse_versions(" 0.80.0,0.66.0, 0.80.0,0.100.0 ,0.80.0rc1,0.80.0.post1,0.80.0.dev3")
    ordered = ["0.66.0", "0.80.0.dev3", "0.80.0rc1", "0.80.0", "0.80.0.post1", "0.100.0"]
    assert [release.version for release in selected_releases(versions, print)] == ordered
    with pytest.raises(InvalidCase, match="expected versions like"):
        parse_versions(" , ")


def read_lines(path):
    return path.read_text().split("\n")


def test_a_file_of_cases_or_catalogs(tmp_path):
    file = tmp_path / "cases.jsonl"
    file.write_text('{"op": "relu", "inputs": [[1, 64]]}\n\n{"op": "pad", "inputs": [[1, 64]], "attrs": {"pad": [0, 1]}}\n' * 2)
    cases, notes = selected_cases(str(file), "n150", read_lines)
    assert ([case.name for case in cases], notes) == (["relu", "pad"], [])
    pads, _ = selected_cases(str(file), "n150", read_lines, operators=("constantpadnd",))  # another name of the same
    assert [case.name for case in pads] == ["pad"]
    with pytest.raises(InvalidCase, match="no case is selected"):
        selected_cases(str(file), "n150", read_lines, operators=("tanh",))
    of_catalog, _ = selected_cases("yolo12x", "n150", read_lines, operators=("silu",), per_operator=3)
    assert Counter(case.name for case in of_catalog) == {"silu": 3}
    file.write_text('{"op": "relu", "inputs": [[1, 64]]}\n{"op": "rellu"}\n')
    with pytest.raises(CatalogError, match=r"cases\.jsonl:2: unknown operator 'rellu'"):
        selected_cases(str(file), "n150", read_lines)
    with pytest.raises(CatalogError, match="unknown catalog 'yolo99'"):
        selected_cases("yolo99", "n150", read_lines)


def test_built_in_files_are_found_by_name():
    assert cases_file("known_changes") == shipped_files()["known_changes"]
    assert cases_file("mochi") is None
    assert str(cases_file("-")) == "-"


# The command ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["lst"], "no command 'lst'; did you mean list?"),
        (["nowhere.jsonl"], "ssinghal: nowhere.jsonl: No such file or directory"),
        (["nowhere"], "unknown catalog 'nowhere'"),
        (["known_changes", "--board", "n151"], "unknown board 'n151'; did you mean n150"),
        (["known_changes", "--ttnn", ","], "expected versions like 0.66.0,0.75.0"),
        (["known_changes", "--op", "rellu"], "unknown operator 'rellu'"),
        (["timeline"], "Missing argument 'CASES.jsonl|CATALOG'"),
    ],
)
def test_bad_input_costs_one_line(run, arguments, message):
    done = run("releases", *arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert not Path("results").exists()


def test_releases_without_full_verdicts_are_rejected_each_with_its_reason(run):
    done = run("releases", "known_changes", "--ttnn", "0.65.1,0.70.0,latest,0.74.0,0.75.0")
    assert (done.code, done.out) == (2, "")
    errors = done.err.splitlines()
    assert [line.split()[2] for line in errors if "ttnn" in line.split()[1]] == ["0.65.1", "0.70.0", "0.74.0"]
    assert sum("accepts programs that overflow L1" in line for line in errors) == 2
    assert len(errors) == 4
    assert not Path("results").exists()


def test_a_folder_of_other_options_is_rejected(run, tmp_path):
    out = tmp_path / "out"
    version = installed_release().version
    write_run(out, [a_record(ttnn=version)], run=version, options={"board": "p150", "timeout": 120.0, "host_tiles": 200_000})
    done = run("releases", "known_changes", "--ttnn", version, "-o", str(out))
    assert done.code == 2
    assert "has board p150, timeout 120.0, host tiles 200000; expected board n150" in done.err
    (out / version / "run.json").write_text("{")
    done = run("releases", "known_changes", "--ttnn", version, "-o", str(out))
    assert (done.code, "has no readable run.json" in done.err) == (2, True)


# Real releases -------------------------------------------------------------------------------------------------------------

device_tests = pytest.mark.virtual_device


def here(*versions):
    try:
        for version in versions:
            find_release(version)
    except HarnessError as error:
        pytest.skip(str(error))
    return ",".join(versions)


def cells_of(done):
    assert done.code == 0, done.err
    result = json.loads(done.out)
    return result, {row["op"]: row["releases"] for row in result["rows"]}


UNTILIZE, PAD = "to_layout", "pad"


@device_tests
def test_the_decoders_untilize_fails_on_0_66_0_and_fits_since_0_75_0(run):
    """152,640 tiles of a row on one core: program buffers end at 103,552 + 9,887,744 B."""
    versions = here("0.66.0", "0.75.0", "0.81.1")
    result, cells = cells_of(run("releases", "known_changes", "--ttnn", versions, "--json"))
    untilize = cells[UNTILIZE]
    assert [c["status"] for c in untilize] == ["oom", "fits", "fits"]
    assert (untilize[0]["resource"], untilize[0]["program_bytes"]) == ("circular_buffer", 9_991_296)
    (row,) = (row for row in result["rows"] if row["op"] == UNTILIZE)
    assert (row["changes"][0]["turn"], row["changes"][0]["after"]) == ("newly-fits", "0.75.0")
    bases = {"0.66.0": 103_552, "0.75.0": 105_536, "0.81.1": 105_824}
    assert {r["ttnn"]: r["l1_base_bytes"] for r in result["releases"]} == bases
    assert all(r["l1_base_bytes"] + r["l1_bank_bytes"] == L1_END for r in result["releases"])
    # the end of the pad's program buffers moves with the base: no change until it fits
    pad = cells[PAD]
    assert [c["program_bytes"] - bases[c["ttnn"]] for c in pad[:2]] == [1_846_080] * 2
    assert result["steps"][0]["differ_by_that_alone"] == 1


@device_tests
def test_padding_the_front_of_a_row_fails_on_0_78_0_and_fits_on_0_80_0(run):
    """On Blackhole: program buffers end at 1,957,760 B on 0.78.0, where L1 starts at 111,616."""
    versions = here("0.78.0", "0.80.0")
    result, cells = cells_of(run("releases", "known_changes", "--board", "p150", "--ttnn", versions, "--json"))
    pad = cells[PAD]
    assert [c["status"] for c in pad] == ["oom", "fits"]
    assert (pad[0]["resource"], pad[0]["program_bytes"], pad[0]["limit_bytes"]) == ("circular_buffer", 1_957_760, 1_572_864)
    assert result["releases"][0]["l1_base_bytes"] == 111_616
    (row,) = (row for row in result["rows"] if row["op"] == PAD)
    assert [(c["turn"], c["before"], c["after"]) for c in row["changes"]] == [("newly-fits", "0.78.0", "0.80.0")]


@device_tests
def test_a_call_that_fails_by_the_moved_base_alone_newly_fails(run, tmp_path):
    """Program buffers take 12,288 B above the base, a tensor starts at 122,880: 117,568 is below it, 123,648 is not."""
    versions = here("0.66.0", "0.75.0")
    cases = tmp_path / "cases.jsonl"
    shapes = [[1, 768, 135, 240]] * 2
    cases.write_text(json.dumps({"op": "sub", "inputs": shapes, "memory": "l1", "channels_last": True}))
    done = run("releases", str(cases), "--board", "p150", "--ttnn", versions, "--json")
    assert done.code == 1, done.err
    result = json.loads(done.out)
    (row,) = result["rows"]
    assert [c["turn"] for c in row["changes"]] == ["newly-fails"]
    failed = row["releases"][1]
    assert [c["status"] for c in row["releases"]] == ["fits", "oom"]
    assert (failed["resource"], failed["program_bytes"], failed["tensor_address"]) == ("clash", 123_648, 122_880)
    old_base, new_base = (release["l1_base_bytes"] for release in result["releases"])
    assert (new_base - old_base, failed["program_bytes"] - (new_base - old_base)) == (6_080, 117_568)


@device_tests
def test_tilizing_a_wide_row_of_dram_shards_fails_up_to_0_80_0_and_fits_on_0_81_1(run):
    """One core holds the row twice, row-major and in tiles: 2 x 1,336 tiles of 2,048 B above the base."""
    versions = here("0.75.0", "0.80.0", "0.81.1")
    result, cells = cells_of(run("releases", "known_changes", "--op", "tilize", "--ttnn", versions, "--json"))
    tilize = cells["tilize"]
    assert [c["status"] for c in tilize] == ["oom", "oom", "fits"]
    assert [c["program_bytes"] for c in tilize[:2]] == [2 * 1336 * 2048 + base for base in (105_536, 105_696)]
    (row,) = result["rows"]
    assert [(c["turn"], c["before"], c["after"]) for c in row["changes"]] == [("newly-fits", "0.80.0", "0.81.1")]


RELU = '{"op": "relu", "inputs": [[1, 1, 64, %d]]}\n'


@device_tests
def test_an_interrupted_run_continues_where_it_stopped(run, tmp_path):
    """The last line is truncated, as a killed process leaves it; complete lines stay byte for byte."""
    cases = tmp_path / "cases.jsonl"
    cases.write_text("".join(RELU % (64 * n) for n in range(1, 5)))
    version = installed_release().version
    command = ("releases", str(cases), "--ttnn", version, "-o", str(tmp_path / "out"))
    first = run(*command)
    assert (first.code, "0 recorded, 4 to run" in first.err) == (0, True)
    file = tmp_path / "out" / version / "records.jsonl"
    complete = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(complete[:2]) + complete[2][:100])
    again = run(*command)
    assert (again.code, "2 recorded, 2 to run" in again.err) == (0, True)
    assert again.out == first.out
    lines_after = file.read_bytes().splitlines(keepends=True)
    assert lines_after[:2] == complete[:2]
    assert sorted(json.loads(line)["key"] for line in lines_after) == sorted(json.loads(line)["key"] for line in complete)
    before = file.stat().st_mtime_ns
    third = run(*command)
    assert (third.code, third.out, "4 recorded, 0 to run" in third.err) == (0, first.out, True)
    assert file.stat().st_mtime_ns == before
    (run_read,) = [read_run(file.parent)]
    assert (len(run_read.records), run_read.losses) == (4, ())


# TTNN lists the source pages of 240,000 output tiles on the host, which takes seconds.
SLOW = '{"op": "view", "inputs": [[1, 1, 240000, 1024]], "attrs": {"size": [1, 240000, 32, 32]}}\n'


@device_tests
def test_a_timeout_costs_one_case_and_is_neither_fitting_nor_out_of_memory(run, tmp_path):
    cases = tmp_path / "cases.jsonl"
    cases.write_text(SLOW + RELU % 64)
    limits = ("--timeout", "0.5", "--host-tiles", "1000000", "--workers", "1")
    done = run("releases", str(cases), "--ttnn", installed_release().version, "-o", "out", *limits, "--json")
    _, cells = cells_of(done)
    assert [cells[op][0]["status"] for op in ("view", "relu")] == ["timeout", "fits"]


@device_tests
def test_an_interrupted_run_keeps_ended_cases(tmp_path):
    cases = tmp_path / "cases.jsonl"
    cases.write_text(RELU % 64 + SLOW + RELU % 128)
    version = installed_release().version
    command = [
        sys.executable,
        "-m",
        "ssinghal",
        "releases",
        str(cases),
        "--ttnn",
        version,
        "-o",
        "out",
        "--host-tiles",
        "1000000",
    ]
    started = subprocess.Popen([*command, "--workers", "1"], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    file = tmp_path / "out" / version / "records.jsonl"
    wait_for(lambda: file.exists() and file.read_bytes().count(b"\n") == 1, "the first record")
    time.sleep(0.2)
    os.kill(started.pid, signal.SIGINT)
    _, errors = started.communicate(timeout=30)
    assert (started.returncode, errors.splitlines()[-1]) == (130, "ssinghal: interrupted")
    (kept,) = file.read_text().splitlines()
    assert (json.loads(kept)["op"], json.loads(kept)["status"]) == ("relu", "fits")
    assert not (tmp_path / "out" / "timeline.html").exists()


@device_tests
def test_a_case_that_no_worker_took_is_run_again(tmp_path):
    """A worker that could not start is no verdict of a device."""
    release = installed_release()
    record = a_record(
        "relu", shape=(1, 1, 64, 64), status="error", ttnn=release.version, memory="dram", verdict={"stage": "device"}
    )
    options = {"board": "n150"}
    write_run(tmp_path, [record], run=release.version, options=options)
    cases, _ = selected_cases("-", "n150", lambda _: [RELU % 64])
    part = RemainingCases.of(release, tmp_path, options, cases)
    assert len(part.missing) == 1
    run_parts([part], choose_device("virtual", "n150"), PoolOptions(), lambda _: None)
    assert [r.status for r in part.folder.run_of(cases).records] == [Status.FITS]
    assert RemainingCases.of(release, tmp_path, options, cases).missing == []
