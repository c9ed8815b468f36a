"""Runs of the parts of a selection become one run, or are refused by what is wrong with them."""

from __future__ import annotations

import errno
import gzip
import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ssinghal.core.case_sets import Shard, digest_of
from ssinghal.core.locks import LOCK
from ssinghal.core.run_info import RunInfo
from ssinghal.runs import writer
from ssinghal.runs.folder_lock import FolderLock
from ssinghal.runs.latest import NewFolder, link_latest
from ssinghal.runs.reader import read_run
from ssinghal.runs.writer import RunFolder
from tests.support.run_builder import a_record, write_run

RECORDS = [a_record(op, (1, 32, 32 * n)) for n in range(1, 16) for op in ("relu", "gelu")]
DIGEST = digest_of((r["op"], r["key"]) for r in RECORDS)
FINISHED = "2026-01-02T03:05:05+00:00"
OPTIONS = {"catalogs": ["nosuch"], "remedies": False}


RESUME = "complete it first: ssinghal run --resume {path}"
AGAIN = "run its tests again, and leave this run out"


def part(parent: Path, run: str, records: Sequence[dict[str, Any]], shard: str = "", **info: Any) -> Path:
    head = {
        "options": {**OPTIONS, "shard": shard or None},
        "selection_sha256": DIGEST,
        "selected_of_all": len(RECORDS),
        "answerer": "ab",
        "shard": shard,
        "finished": FINISHED,
        "totals": {"fits": len(records)},
        "device": {"mode": "virtual", "board": "n150", "ttnn": "0.81.1"},
    }
    return write_run(parent, records, run, **{**head, **info})


def of_shard(number: int, of: int) -> list[dict[str, Any]]:
    return [r for r in RECORDS if Shard(number, of).has(r["key"])]


def shards(parent: Path, of: int, **info: Any) -> list[str]:
    """The runs of all parts, ``…Z1`` to ``…Z<of>``."""
    return [str(part(parent, f"2026Z{n}", of_shard(n, of), f"{n}/{of}", **info)) for n in range(1, of + 1)]


def without_run(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(({k: v for k, v in r.items() if k != "run"} for r in records), key=lambda r: (r["op"], r["key"]))


def records_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (path / "records.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("of", range(1, 8))
def test_the_union_of_all_parts_is_the_complete_run(tmp_path, run, of):
    paths = shards(tmp_path / "parts", of)
    done = run("merge", *paths)
    assert (done.code, done.err) == (0, "")
    merged = (tmp_path / "results" / "latest").resolve()
    ids = [Path(path).name for path in paths]
    runs = "1 run" if of == 1 else f"{of} runs"
    assert (
        done.out.splitlines()[0] == f"run {merged.name}: 30 of 30 selected cases recorded; merged from {runs}: {', '.join(ids)}"
    )
    assert done.out.splitlines()[-1] == f"records: results/{merged.name}/records.jsonl"
    assert done.out.splitlines()[:-1] == (merged / "summary.txt").read_text().splitlines()
    assert without_run(records_of(merged)) == without_run(RECORDS)
    assert {r["run"] for r in records_of(merged)} == {merged.name}

    read = read_run(merged)
    assert (read.losses, read.remarks) == ((), (f"merged from {runs}: {', '.join(ids)}",))
    head = read.head
    assert (head.selected, head.selected_of_all, head.shard, head.merged) == (30, 30, "", tuple(ids))
    assert (head.totals, head.unreached, head.selection_sha256, head.answerer) == ({"fits": 30}, 0, DIGEST, "ab")
    assert head.options == {**OPTIONS, "shard": None}


def test_parts_of_unequal_size_and_an_empty_one(tmp_path, run):
    """Of the keys whose remainder by 2 is 0, the remainder by 4 is 0 or 2: 2/2 is 2/4 and 4/4."""
    parts = [("a", (1, 2)), ("b", (2, 4)), ("c", (4, 4))]
    paths = [str(part(tmp_path / "parts", name, of_shard(*which), f"{which[0]}/{which[1]}")) for name, which in parts]
    paths.append(str(part(tmp_path / "parts", "d", [], "5/77")))
    assert run("merge", *paths).code == 0
    assert without_run(records_of(tmp_path / "results" / "latest")) == without_run(RECORDS)


def test_the_merged_run_is_reported_compared_and_found(tmp_path, run):
    paths = shards(tmp_path / "results", 3)
    assert run("merge", *[Path(path).name for path in paths]).code == 0
    remark = f"merged from 3 runs: {', '.join(Path(path).name for path in paths)}"
    done = run("report")
    assert remark in done.out.splitlines()
    assert remark in (tmp_path / "results" / "latest" / "report" / "report.html").read_text()
    complete = part(tmp_path / "other", "2026Y", RECORDS)
    assert run("compare", str(complete), "latest").code == 0
    assert "relu" in run("history", "relu", "1,32,32").out


def test_a_fault_of_a_part_is_a_finding(tmp_path, run):
    records = [*RECORDS[:-1], {**RECORDS[-1], "status": "crash"}]
    half = [str(part(tmp_path, "a", records[:11], "1/2")), str(part(tmp_path, "b", records[11:], "2/2"))]
    done = run("merge", *half)
    assert done.code == 1
    assert [line for line in done.out.splitlines() if line.startswith("crash: ")]


# What is refused ----------------------------------------------------------------------------------------------------------


def refused(run: Any, tmp_path: Path, *paths: str, lines: int = 1) -> str:
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    done = run("merge", *paths)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", lines), done
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before, "something was written"
    return "\n".join(line.removeprefix("ssinghal: ") for line in done.err.splitlines())


@pytest.mark.parametrize("maker", [{}, {"catalogs": ["nosuch"]}, {"catalog": ["nosuch"]}], ids=["a program", "run", "pytest"])
@pytest.mark.parametrize(
    ("option", "expected"),
    [
        *[(name, "a list of texts") for name in ("placements", "dtypes", "operators", "op", "tests")],
        *[(name, "a text") for name in ("memory", "weights", "keyword")],
        *[(name, "an integer") for name in ("max_bytes", "max-bytes", "per_operator", "sample", "host_tiles", "host-tiles")],
    ],
)
def test_an_option_of_another_type_is_refused_by_its_name(run, tmp_path, maker, option, expected):
    """Whoever made the run: a part may be all that was selected."""
    for number, value in enumerate([{"a": 1}, [1, None], True, 0.5]):
        path = part(tmp_path, f"a{number}", RECORDS, options={**maker, option: value})
        text = f"{path / 'run.json'}: options.{option}: expected {expected}, not {json.dumps(value)}"
        assert refused(run, tmp_path, str(path)) == text


def test_a_number_that_json_does_not_have_is_not_written(run, tmp_path):
    """In a field that no reader has: 1e400 is an infinity of Python, and that would be written as one."""
    path = part(tmp_path, "a", RECORDS)
    text = (path / "records.jsonl").read_text()
    (path / "records.jsonl").write_text(text.replace('"attrs": {}', '"attrs": {}, "later": 1e400', 1))
    assert refused(run, tmp_path, str(path)).startswith(f"{path}: a record that cannot be written again: 1e400 is beyond")


def test_no_run_is_refused(run, tmp_path):
    assert "Missing argument 'RUN...'" in refused(run, tmp_path)
    assert refused(run, tmp_path, "nosuch").startswith("no run 'nosuch'")


@pytest.mark.parametrize(
    ("of", "without", "text"), [(3, [2], "2/3"), (5, [1, 5], "1/5, 5/5"), (9, [*range(2, 9)], "2/9, 3/9, 4/9, 5/9, 6/9, …")]
)
def test_missing_parts_are_named(run, tmp_path, of, without, text):
    paths = shards(tmp_path / "parts", of)
    given = [path for number, path in enumerate(paths, 1) if number not in without]
    missing = sum(len(of_shard(number, of)) for number in without)
    line = f"{missing:,} of 30 selected cases are in none of the runs (shard{'s' * (', ' in text)} {text})"
    assert refused(run, tmp_path, *given) == line


def test_a_missing_case_is_counted(run, tmp_path):
    paths = [str(part(tmp_path, "a", RECORDS[:11])), str(part(tmp_path, "b", RECORDS[11:-1]))]
    assert refused(run, tmp_path, *paths) == "1 of 30 selected cases is in none of the runs"


def test_a_case_in_two_runs_is_named(run, tmp_path):
    paths = [str(part(tmp_path, "a", RECORDS[:11])), str(part(tmp_path, "b", RECORDS[10:]))]
    assert refused(run, tmp_path, *paths) == f"relu {RECORDS[10]['id']} is in two runs: a and b"


@pytest.mark.parametrize("other", ["2/4", "1/6", "4/6"])
def test_parts_that_overlap_are_named(run, tmp_path, other):
    """Of the keys whose remainder by 3 is 0, some have the remainder 1 by 4, and some 0 or 3 by 6."""
    of_other = of_shard(*map(int, other.split("/")))
    in_both = next(r for r in of_other if int(r["key"], 16) % 3 == 0)
    paths = [str(part(tmp_path, "a", of_shard(1, 3), "1/3")), str(part(tmp_path, "b", of_other, other))]
    line = f"{in_both['op']} {in_both['id']} is in two runs: a (shard 1/3) and b (shard {other})"
    assert refused(run, tmp_path, *paths) == line


@pytest.mark.parametrize("of", [1, 2, 3])
def test_a_merged_run_names_its_first_cases_out_of_memory(run, tmp_path, of):
    """The same cases for whatever parts, with the folder that the run has in the end."""
    numbers = {"bytes_per_bank": 532_480, "banks": 64, "largest_free_bytes": 328_352, "free_bytes": 328_352}
    cases = [a_record("relu", (1, 32, 32 * n), status="oom", verdict=numbers) for n in range(1, 10)]
    digest = digest_of((case["op"], case["key"]) for case in cases)
    paths = [
        str(part(tmp_path / "parts", f"2026Z{n}", cases[n - 1 :: of], selection_sha256=digest, selected_of_all=len(cases)))
        for n in range(1, of + 1)
    ]
    lines = run("merge", *paths).out.splitlines()
    merged = f"results/{(tmp_path / 'results' / 'latest').resolve().name}"
    words = "L1 bank needs 532,480 B, 328,352 B free (output); short by 199.3 KiB (204,128 B) per bank"
    first = sorted(case["id"] for case in cases)[:5]
    assert [line for line in lines if line.startswith("oom: ")] == [
        *(f"oom: relu {case_id}: {words}" for case_id in first),
        "oom: 4 more cases",
    ]
    assert f"all cases out of memory: ssinghal report {merged}; what makes them fit: ssinghal remedy --run {merged}" in lines
    assert run("report", merged).code == 0


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_merged_run_beside_a_part_of_it_is_named(run, tmp_path, number):
    paths = shards(tmp_path / "results", 3)
    assert run("merge", *paths).code == 0
    merged = (tmp_path / "results" / "latest").resolve()
    line = refused(run, tmp_path, str(merged), paths[number - 1])
    assert line.endswith(
        f" is in two runs: {merged.name} (merged from 3 runs: 2026Z1, 2026Z2, 2026Z3) and 2026Z{number} (shard {number}/3)"
    )


@pytest.mark.parametrize(("options", "remedy"), [(OPTIONS, RESUME), ({"catalog": []}, AGAIN)])
@pytest.mark.parametrize(
    ("records", "count"), [([*RECORDS[:11], RECORDS[0]], 12), (RECORDS[:7], 7), ([], 0)], ids=["twice", "lost", "all lost"]
)
def test_a_run_with_another_number_of_records_is_to_be_completed_first(run, tmp_path, records, count, options, remedy):
    """As one whose disk was full, which ended with fewer records than it selected cases."""
    paths = [
        str(part(tmp_path, "a", records, selected=11, options=options)),
        str(part(tmp_path, "b", RECORDS[11:], options=options)),
    ]
    line = f"run a: {count} records for 11 selected cases; {remedy.format(path=paths[0])}"
    assert refused(run, tmp_path, *paths) == line


def test_other_cases_of_the_same_number_are_refused(run, tmp_path):
    other = a_record("relu", (1, 5, 7))
    paths = [str(part(tmp_path, "a", RECORDS[:11])), str(part(tmp_path, "b", [*RECORDS[11:-1], other]))]
    assert refused(run, tmp_path, *paths) == "30 cases are in the runs, which are not the 30 that were selected"


def test_the_same_run_twice_is_refused(run, tmp_path):
    paths = shards(tmp_path / "parts", 2)
    assert refused(run, tmp_path, *paths, paths[0]) == "run 2026Z1 is given twice"


DEVICE = {"mode": "virtual", "board": "n150", "ttnn": "0.81.1"}
OTHER_SELECTION = {"selection_sha256": "c" * 64}
DIGESTS = f"digests of their selections: {DIGEST[:12]} and cccccccccccc"


def options(**other: Any) -> dict[str, Any]:
    return {"options": {**OPTIONS, **other}}


@pytest.mark.parametrize(
    ("info", "what"),
    [
        ({"device": {**DEVICE, "mode": "silicon"}}, "device mode: virtual and silicon"),
        ({"device": {**DEVICE, "board": "p150"}, "answerer": "ac"}, "board: n150 and p150"),
        ({"device": {**DEVICE, "ttnn": "0.75.0"}, "answerer": "ac"}, "ttnn: 0.81.1 and 0.75.0"),
        ({"device": {**DEVICE, "board": "p150", "ttnn": ""}}, "board: n150 and p150; ttnn: 0.81.1 and none"),
        (
            {**OTHER_SELECTION, "selected_of_all": 31, **options(catalogs=["a.yaml", "b.yaml"])},
            "catalogs: nosuch and a.yaml, b.yaml; selected cases, of all parts: 30 and 31",
        ),
        (OTHER_SELECTION | options(catalogs=[]), "catalogs: nosuch and none"),
        (OTHER_SELECTION | options(operators=["relu"]), "--op: none and relu"),
        (OTHER_SELECTION | options(memory="l1"), "--memory: none and l1"),
        (OTHER_SELECTION | options(placements=["dram", "l1"]), "--placements: none and dram, l1"),
        (OTHER_SELECTION | options(dtypes=["bfloat8_b"]), "--dtypes: none and bfloat8_b"),
        (OTHER_SELECTION | options(weights="bfloat8_b"), "--weights: none and bfloat8_b"),
        (OTHER_SELECTION | options(max_bytes=4096), "--max-bytes: none and 4096"),
        (OTHER_SELECTION | options(per_operator=2), "--sample: none and 2"),
        (
            OTHER_SELECTION | options(memory="dram", per_operator=2, timeout=5.0, workers=3),
            "--memory: none and dram; --sample: none and 2",
        ),
        (OTHER_SELECTION, f"the contents of the catalogs (nosuch), as the options are the same: {DIGESTS}"),
        (
            {**OTHER_SELECTION, "selected_of_all": 31, "device": {**DEVICE, "board": "p150"}, "answerer": "ac"},
            f"board: n150 and p150; the contents of the catalogs (nosuch), as the options are the same: {DIGESTS}; "
            "selected cases, of all parts: 30 and 31",
        ),
        (OTHER_SELECTION | {"options": {"catalog": ["nosuch"], "remedies": False}}, "made by: ssinghal run and pytest"),
        ({"answerer": "ac", **options(host_tiles=5)}, "--host-tiles: none and 5"),
        ({"answerer": "ac", "versions": {"ssinghal": "9.9"}}, "ssinghal: none and 9.9"),
        (
            {"answerer": "ac", "commit": "def"},
            "answerer: another device, or other code or limits: ab and ac (commit: abc and def)",
        ),
        ({"answerer": "ac"}, "answerer: another device, or other code or limits: ab and ac"),
        ({"searcher": "ac"}, "searcher: other code that searches for remedies: none and ac"),
        ({"searcher": "ac", **options(remedies=True)}, "--remedies: False and True"),
    ],
)
def test_parts_that_differ_are_refused_by_what_differs_and_in_which_folders(run, tmp_path, info, what):
    paths = [str(part(tmp_path, "a", RECORDS[:11])), str(part(tmp_path, "b", RECORDS[11:], **info))]
    assert refused(run, tmp_path, *paths) == f"{paths[0]} and {paths[1]} cannot be merged: {what}"


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"catalog": ["a.yaml"]}, "catalogs: nosuch and a.yaml"),
        ({"op": ["relu"]}, "--oom-op: none and relu"),
        ({"memory": "l1", "sample": 3}, "--oom-memory: none and l1; --oom-sample: none and 3"),
        ({"max-bytes": 4096}, "--oom-max-bytes: none and 4096"),
        (
            {"dtypes": ["bfloat8_b"], "weights": "bfloat4_b"},
            "--oom-dtypes: none and bfloat8_b; --oom-weights: none and bfloat4_b",
        ),
        (
            {"keyword": "relu", "markers": "slow", "tests": ["a.py"]},
            "-k: none and relu; -m: none and slow; tests: none and a.py",
        ),
        ({}, f"the contents of the catalogs (nosuch) or of the tests, as the options are the same: {DIGESTS}"),
    ],
)
def test_what_differs_between_parts_of_pytest(run, tmp_path, given, what):
    of_pytest = {"catalog": ["nosuch"], "remedies": False}
    first = str(part(tmp_path, "a", RECORDS[:11], options=of_pytest))
    other = str(part(tmp_path, "b", RECORDS[11:], **OTHER_SELECTION, options={**of_pytest, **given}))
    assert refused(run, tmp_path, first, other) == f"{first} and {other} cannot be merged: {what}"


def test_the_first_of_the_parts_that_differs_is_named(run, tmp_path):
    paths = shards(tmp_path / "parts", 3)
    head = json.loads((Path(paths[2]) / "run.json").read_text())
    (Path(paths[2]) / "run.json").write_text(json.dumps({**head, "device": {**head["device"], "board": "p150"}}))
    assert refused(run, tmp_path, *paths) == f"{paths[0]} and {paths[2]} cannot be merged: board: n150 and p150"


OF_PYTEST = {"options": {"catalog": []}}


@pytest.mark.parametrize(
    ("info", "why", "remedy"),
    [
        ({"finished": None}, "it did not end", RESUME),
        ({"unreached": 3}, "interrupted: 3 of 19 cases were not run", RESUME),
        ({"unreached": 3, **OF_PYTEST}, "interrupted: 3 of 19 cases were not run", AGAIN),
        ({"finished": None, **OF_PYTEST}, "it did not end", AGAIN),
    ],
)
def test_an_unfinished_part_is_to_be_completed_first(run, tmp_path, info, why, remedy):
    paths = [str(part(tmp_path, "a", RECORDS[:11])), str(part(tmp_path, "b", RECORDS[11:], **info))]
    line = f"run b ({paths[1]}): {why}; {remedy.format(path=paths[1])}"
    assert refused(run, tmp_path, *paths) == line


@pytest.mark.parametrize("info", [{}, OF_PYTEST])
def test_a_part_in_progress_is_to_be_waited_for(run, tmp_path, info):
    path = part(tmp_path, "a", RECORDS[:11], finished=None, **info)
    with FolderLock(path):
        assert refused(run, tmp_path, str(path)) == f"run a ({path}): it is still in progress; wait for its end"
    assert "it did not end" in refused(run, tmp_path, str(path))


def test_all_parts_that_did_not_end_are_named(run, tmp_path):
    folders = [tmp_path / "with space", *(tmp_path / name for name in "abcde")]
    paths = [part(folder, f"{n}", RECORDS[n : n + 1], finished=None) for n, folder in enumerate(folders)]
    paths.insert(1, part(tmp_path, "ended", RECORDS[20:21]))
    del paths[4:]
    lines = [f"run {path.name} ({path}): it did not end; complete it first: ssinghal run --resume " for path in paths]
    named = [lines[0] + f"'{paths[0]}'", lines[2] + str(paths[2]), lines[3] + str(paths[3])]
    assert refused(run, tmp_path, *map(str, paths), lines=3) == "\n".join(named)


@pytest.mark.parametrize("parts", [5, 6, 9])
def test_of_many_parts_that_did_not_end_the_first_are_named(run, tmp_path, parts):
    paths = [str(part(tmp_path, f"{n}", RECORDS[n : n + 1], finished=None)) for n in range(parts)]
    lines = refused(run, tmp_path, *paths, lines=min(parts, 6)).splitlines()
    assert [line.split()[1] for line in lines[:5]] == list("01234")
    assert lines[5:] == ([f"{parts - 5} more did not end either"] if parts > 5 else [])


def test_a_run_of_an_earlier_version_is_refused(run, tmp_path):
    paths = [str(part(tmp_path, "a", RECORDS[:11])), str(part(tmp_path, "b", RECORDS[11:], selection_sha256=""))]
    assert "made by a version that did not state which cases it selected" in refused(run, tmp_path, *paths)


@pytest.mark.parametrize("damage", [b"{", b"\0\n", b"{}\n"])
def test_a_damaged_line_is_named(run, tmp_path, damage):
    paths = [str(part(tmp_path, "a", RECORDS[:11])), str(part(tmp_path, "b", RECORDS[11:]))]
    records = Path(paths[1]) / "records.jsonl"
    records.write_bytes(records.read_bytes() + damage)
    first = f"complete it first: ssinghal run --resume {paths[1]}"
    assert refused(run, tmp_path, *paths) == f"{records}:20: not a complete record; {first}"


N150 = "run.json of virtual n150, ttnn 0.81.1: expected records of one device in a run"


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize(
    ("record", "what"),
    [
        ({"schema": 9}, "records of schema 9; this ssinghal reads up to 1: use a newer version"),
        ({"board": "p150"}, "relu 1x32x416-l1 is of virtual p150, ttnn 0.81.1, but " + N150),
        ({"device_mode": "silicon"}, "relu 1x32x416-l1 is of silicon n150, ttnn 0.81.1, but " + N150),
        ({"device_mode": "golden", "status": "agrees"}, "relu 1x32x416-l1 is of golden n150, ttnn 0.81.1, but " + N150),
        ({"ttnn": "0.75.0"}, "relu 1x32x416-l1 is of virtual n150, ttnn 0.75.0, but " + N150),
        ({"ttnn": ""}, "relu 1x32x416-l1 is of virtual n150, ttnn not installed, but " + N150),
        (
            {"device_mode": "none", "status": "not_run", "board": "p150"},
            "relu 1x32x416-l1 is of no device, p150, ttnn 0.81.1, but " + N150,
        ),
    ],
)
def test_a_record_that_is_not_of_the_runs_device_or_version_is_named(run, tmp_path, record, what, compressed):
    """Record 24 of all is relu of 1,32,32 * 13, line 14 of the second run."""
    changed = [*RECORDS[11:24], {**RECORDS[24], **record}, *RECORDS[25:]]
    paths = [str(part(tmp_path, "a", RECORDS[:11])), str(part(tmp_path, "b", changed))]
    lines = Path(paths[1]) / "records.jsonl"
    if compressed:
        lines.with_suffix(".jsonl.gz").write_bytes(gzip.compress(lines.read_bytes()))
        lines.unlink()
    assert refused(run, tmp_path, *paths) == f"{lines}{'.gz' if compressed else ''}:14: {what}"


@pytest.mark.parametrize("ttnn", ["", "0.75.0", "0.81.1"])
def test_records_that_no_device_answered_are_of_any_ttnn(run, tmp_path, ttnn):
    none = {**RECORDS[29], "device_mode": "none", "status": "not_run", "ttnn": ttnn}
    paths = [str(part(tmp_path, "a", RECORDS[:11])), str(part(tmp_path, "b", [*RECORDS[11:29], none]))]
    assert run("merge", *paths).code == 0
    (group,) = read_run(tmp_path / "results" / "latest").groups
    assert len(group.records) == 30


def test_parts_without_a_device_are_merged(run, tmp_path):
    """As of tests on a machine without TTNN."""
    none = [{**r, "device_mode": "none", "status": "not_run", "ttnn": ""} for r in RECORDS]
    paths = [str(part(tmp_path, name, some, device={})) for name, some in (("a", none[:11]), ("b", none[11:]))]
    assert run("merge", *paths).code == 0
    assert len(read_run(tmp_path / "results" / "latest").records) == 30


# What fails in the middle -------------------------------------------------------------------------------------------------


def state_of(folder: Path) -> dict[str, Any]:
    """Each file's content, and where each link points to."""
    paths = {str(path.relative_to(folder)): path for path in folder.rglob("*")}
    return {
        name: path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else None
        for name, path in paths.items()
    }


def earlier(tmp_path: Path, before: str) -> None:
    """What is in the folder of the results: nothing, not even the folder; a run and its link; a link to a run that is gone."""
    if before == "a run":
        part(tmp_path / "results", "2025Z", RECORDS)
    if before != "nothing":
        (tmp_path / "results").mkdir(exist_ok=True)
        (tmp_path / "results" / "latest").symlink_to("2025Z")


BEFORE = pytest.mark.parametrize("before", ["nothing", "a run", "a run that is gone"])


@BEFORE
def test_a_file_that_may_not_grow_leaves_nothing(tmp_path, before):
    """The limit of a file is half of what all records take."""
    earlier(tmp_path, before)
    paths = shards(tmp_path / "parts", 3)
    limit = sum((Path(path) / "records.jsonl").stat().st_size for path in paths) // 2
    state = state_of(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "ssinghal", "merge", *paths],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    line = r"ssinghal: cannot write results/\.making-[^/]+/\d{8}T.*Z/records\.jsonl: File too large\n"
    assert re.fullmatch(line, done.stderr), done.stderr
    assert state_of(tmp_path) == state


@BEFORE
@pytest.mark.parametrize("file", ["run.json", "summary.txt"])
def test_a_failure_at_the_first_or_the_last_file_leaves_nothing(run, tmp_path, monkeypatch, before, file):
    earlier(tmp_path, before)
    paths = shards(tmp_path / "parts", 3)
    state = state_of(tmp_path)
    written = writer.write_whole

    def failing(path: Path, content: str | bytes) -> None:
        if path.name == file:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        written(path, content)

    monkeypatch.setattr(writer, "write_whole", failing)
    done = run("merge", *paths)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert done.err.startswith("ssinghal: cannot write results to results/")
    assert done.err.endswith("Z: Input/output error\n")
    assert state_of(tmp_path) == state


def test_ctrl_c_in_the_middle_leaves_nothing(run, tmp_path, monkeypatch):
    earlier(tmp_path, "a run")
    paths = shards(tmp_path / "parts", 3)
    state = state_of(tmp_path)
    append, count = RunFolder.append, iter(range(30))

    def interrupted(folder: RunFolder, record: dict[str, Any]) -> None:
        if next(count) == 17:
            raise KeyboardInterrupt
        append(folder, record)

    monkeypatch.setattr(RunFolder, "append", interrupted)
    assert run("merge", *paths).code == 130
    assert state_of(tmp_path) == state


def test_a_run_that_another_process_starts_meanwhile_stays_the_latest(tmp_path):
    """The link is to that run, and the folder of the results has it."""
    results = tmp_path / "results"
    with suppress(ZeroDivisionError), NewFolder(results, "2026Z").removed_after_failure():
        link_latest(results, "2026Z")
        RunFolder(results, RunInfo("2027Z"))
        raise ZeroDivisionError
    assert state_of(results).keys() == {"latest", "2027Z", "2027Z/run.json", "2027Z/records.jsonl", f"2027Z/{LOCK}"}
    assert (results / "latest").readlink() == Path("2027Z")


def test_a_records_file_alone_is_refused(run, tmp_path):
    path = part(tmp_path, "a", RECORDS)
    (path / "run.json").unlink()
    assert "expected a run's folder, with run.json in it" in refused(run, tmp_path, str(path))


def test_compressed_parts_are_merged(run, tmp_path):
    paths = shards(tmp_path / "parts", 2)
    for path in paths:
        lines = Path(path) / "records.jsonl"
        (Path(path) / "records.jsonl.gz").write_bytes(gzip.compress(lines.read_bytes()))
        lines.unlink()
    assert run("merge", *paths).code == 0
    assert without_run(records_of(tmp_path / "results" / "latest")) == without_run(RECORDS)


def test_a_part_in_which_nothing_was_collected_is_not_missed(run, tmp_path):
    """pytest -n opens the folder of a run before anything is known of its tests."""
    none = str(part(tmp_path / "parts", "c", [], selection_sha256="", selected_of_all=None, device={}))
    assert run("merge", *shards(tmp_path / "parts", 2), none).code == 0
    assert refused(run, tmp_path, none) == "run c: no case was selected: nothing to merge"
