"""The index of runs and the histories read from it, with runs that are killed, removed, damaged or written concurrently."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from contextlib import ExitStack

import pytest
from click.testing import CliRunner

from ssinghal.cli import cli
from ssinghal.core.device_facts import DeviceFacts, DeviceMode
from ssinghal.errors import HarnessError
from ssinghal.operators import operators
from ssinghal.runs import index
from ssinghal.runs.change_kinds import ChangeKind
from ssinghal.runs.history import History
from ssinghal.runs.index import STORE, NotAStore, Store
from ssinghal.runs.known import EarlierRuns
from ssinghal.runs.writer import RunFolder, new_run
from tests.support.processes import catalog_text
from tests.support.run_builder import a_record, write_run

SHAPE = (1, 64, 640, 400)
FULL = {"bytes_per_bank": 532_480, "bank_bytes": 1_393_312, "free_bytes": 328_352, "largest_free_bytes": 328_352}


DEVICE = DeviceFacts(DeviceMode.VIRTUAL, "n150")


def relu(**fields):
    return a_record("relu", SHAPE, **fields)


def oom(**fields):
    return relu(status="oom", verdict=FULL, **fields)


@pytest.fixture
def results(tmp_path):
    return tmp_path / "results"


@pytest.fixture
def store(results):
    results.mkdir()
    return Store(results / STORE)


def day(number):
    """The id of a run, and its start."""
    return f"202601{number:02}T000000.000000Z", f"2026-01-{number:02}T00:00:00+00:00"


def run_of(results, number, *records, **info):
    run, started = day(number)
    return write_run(results, records, run, started=started, **info)


def entries_of(store, operator="relu", shape=SHAPE, **only):
    """The days of the runs of each case, with status and change."""
    history = History.of(store, operator, shape, **only)
    return [
        [(int(e.run.id[6:8]), str(e.ending.status), e.change and e.change.kind) for e in case.entries] for case in history.cases
    ]


def contents(store):
    """Everything in the index, without the numbers of its rows."""
    indexed = [
        (one.run.folder, one.setting, json.dumps(one.record.to_json()))
        for name in {info.name for info in operators().values()}
        for one in store.find(name, store.shapes(name), None, None)
    ]
    return store.runs(), sorted(indexed, key=str)


def counted(store, table):
    with sqlite3.connect(store.path) as db:
        return db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]


def test_a_case_over_runs_with_its_changes(results, store):
    for number, record in enumerate([relu(), relu(), oom(), oom(), relu(status="error"), relu()], 1):
        run_of(results, number, record)
    store.sync(results)
    assert entries_of(store) == [
        [
            (1, "fits", None),
            (2, "fits", None),
            (3, "oom", ChangeKind.NEW_OOM),
            (4, "oom", None),
            (5, "error", ChangeKind.NEW_FAULT),
            (6, "fits", ChangeKind.NOW_FITS),
        ]
    ]


def test_a_base_that_moved_is_no_change_of_a_case(results, store):
    moved = {**FULL, "bank_bytes": 1_393_472, "free_bytes": 328_512, "largest_free_bytes": 328_512}
    run_of(results, 1, relu(status="oom", verdict=moved, ttnn="0.80.0"))
    run_of(results, 2, oom())
    run_of(results, 3, relu(status="oom", verdict={**FULL, "bytes_per_bank": 532_512}))
    store.sync(results)
    assert entries_of(store) == [[(1, "oom", None), (2, "oom", None), (3, "oom", ChangeKind.GROWN)]]
    assert [e.ttnn for e in History.of(store, "relu", SHAPE).cases[0].entries] == ["0.80.0", "0.81.1", "0.81.1"]


def test_a_base_that_moved_under_program_buffers_is_known_from_the_device(results, store):
    """No message names a bank; the end address moves up with the base."""
    for number, base in ((1, 105_664), (2, 105_824)):
        device = {
            "mode": "virtual",
            "board": "n150",
            "ttnn": "0.81.1",
            "l1": {"num_banks": 64, "bank_bytes": 1_499_136 - base, "alignment_bytes": 16},
        }
        numbers = {
            "resource": "circular_buffer",
            "stage": "program",
            "program_bytes": base + 9_000_000,
            "limit_bytes": 1_499_136,
        }
        run_of(results, number, relu(status="oom") | numbers, device=device)
    store.sync(results)
    assert entries_of(store) == [[(1, "oom", None), (2, "oom", None)]]


def test_a_base_that_moved_on_one_board_does_not_explain_changes_on_another(results, store):
    """The run opened an n150; its records of a p150 came from elsewhere."""
    for number, moved in ((1, 0), (2, 160)):
        l1 = {"num_banks": 64, "bank_bytes": 1_393_472 - moved, "alignment_bytes": 16}
        device = {"mode": "virtual", "board": "n150", "ttnn": "0.81.1", "l1": l1}
        numbers = {"resource": "circular_buffer", "stage": "program", "program_bytes": 9_000_000 + moved}
        run_of(results, number, *(relu(status="oom", board=board) | numbers for board in ("n150", "p150")), device=device)
    store.sync(results)
    n150, p150 = [(1, "oom", None), (2, "oom", None)], [(1, "oom", None), (2, "oom", ChangeKind.GROWN)]
    assert entries_of(store) == [n150, p150]


def test_boards_and_modes_have_separate_tables_and_releases_share_one(results, store):
    run_of(results, 1, relu(), oom(board="p150"), relu(mode="silicon"))
    run_of(results, 2, relu(ttnn="0.82.0"))
    store.sync(results)
    silicon, n150, p150 = [(1, "fits", None)], [(1, "fits", None), (2, "fits", None)], [(1, "oom", None)]
    assert entries_of(store) == [silicon, n150, p150]
    assert entries_of(store, board="p150") == [p150]
    assert entries_of(store, mode="silicon", board="n150") == [silicon]


def test_a_case_is_found_by_its_listed_shape_and_by_any_operand(results, store):
    bmm = a_record("bmm", inputs=[[1, 64, 128], [1, 128, 256]], listed=(1, 64, 64))
    run_of(results, 1, bmm, relu())
    store.sync(results)
    for shape in ((1, 64, 128), (1, 128, 256), (1, 64, 64), (1, None, 256)):
        assert entries_of(store, "bmm", shape) == [[(1, "fits", None)]], shape
    for shape in ((64, 128), (1, 64, 129), (1, None, 257)):
        assert entries_of(store, "bmm", shape) == [], shape


def test_a_case_without_an_operand_is_found_by_its_result(results, store):
    run_of(results, 1, a_record("ones", inputs=[], attrs={"size": [1, 64, 80]}))
    store.sync(results)
    assert entries_of(store, "ones", (1, 64, 80)) == [[(1, "fits", None)]]


def test_a_case_that_no_device_answered_belongs_to_its_board(results, store):
    run_of(results, 1, relu(status="not_run", mode="none"), a_record("gelu"))
    run_of(results, 2, relu(), a_record("gelu"))
    store.sync(results)
    assert entries_of(store) == [[(1, "not_run", None), (2, "fits", None)]]


NOT_RUN = {"status": "not_run", "mode": "none"}


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        (NOT_RUN, {}, None),
        (NOT_RUN, {"status": "unsupported"}, None),
        (NOT_RUN, {"status": "oom"}, None),
        ({"status": "oom"}, NOT_RUN, None),
        (NOT_RUN, {"status": "error"}, ChangeKind.NEW_FAULT),
        ({}, NOT_RUN, ChangeKind.LOST_FIT),
        ({}, {"status": "unsupported"}, ChangeKind.LOST_FIT),
        ({"status": "oom"}, {"status": "unsupported"}, ChangeKind.OTHER_VERDICT),
        ({"status": "error"}, {"status": "unsupported"}, ChangeKind.OTHER_VERDICT),
    ],
)
def test_a_case_that_was_not_run_has_no_other_verdict(results, store, before, after, change):
    run_of(results, 1, relu(**before), a_record("gelu"))
    run_of(results, 2, relu(**after), a_record("gelu"))
    store.sync(results)
    status = after.get("status", "fits")
    assert entries_of(store) == [[(1, before.get("status", "fits"), None), (2, status, change)]]


def test_an_outcome_of_many_runs_is_kept_once(results, store):
    for number in range(1, 6):
        run_of(results, number, relu(measured={"duration_s": number}), oom(memory="dram"))
    run_of(results, 6, relu(ttnn="0.82.0"))
    store.sync(results)
    assert (counted(store, "results"), counted(store, "outcomes"), counted(store, "cases")) == (11, 2, 2)


def test_the_end_of_a_run_indexes_it(results, tmp_path):
    folder = RunFolder(results, new_run(tmp_path, {}, 1, DeviceFacts(DeviceMode.VIRTUAL, "n150")))
    folder.append(relu())
    folder.finish(1)
    assert [run.id for run in Store(results / STORE).runs()] == [folder.info.run]
    assert counted(Store(results / STORE), "results") == 1


def test_an_index_that_cannot_be_written_is_one_line_and_the_run_is_complete(results, tmp_path):
    folder = RunFolder(results, new_run(tmp_path, {}, 1, DeviceFacts(DeviceMode.VIRTUAL, "n150")))
    (results / STORE).mkdir()
    folder.append(relu())
    *_, last = folder.finish(1)
    assert last.startswith(f"not indexed: cannot use {results / STORE}: ")
    assert json.loads((folder.path / "run.json").read_text())["totals"] == {"fits": 1}


def test_an_index_that_is_up_to_date_is_not_written(results, store):
    """Nor by a process that comes second. The header of the file counts the writes of SQLite."""
    folder = run_of(results, 1, relu())
    store.sync(results)
    before = store.path.read_bytes()
    store.sync(results)
    assert store.path.read_bytes() == before
    store.index(folder)
    assert store.path.read_bytes() == before


def test_a_run_whose_description_alone_changed_is_read_again(results, store):
    """The end of a run does that."""
    folder = run_of(results, 1, relu(), selected=2)
    store.sync(results)
    assert store.runs()[0].losses
    info = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**info, "selected": 1}))
    store.sync(results)
    assert store.runs()[0].losses == ()


def test_runs_are_shown_in_the_order_of_their_start(results, store):
    """The name of a folder may suggest another order."""
    for number, began, record in ((1, 2, oom()), (2, 1, relu())):
        write_run(results, [record], day(number)[0], started=day(began)[1])
    store.sync(results)
    assert entries_of(store) == [[(2, "fits", None), (1, "oom", ChangeKind.NEW_OOM)]]


def test_a_rebuilt_index_equals_one_that_grew(results, store):
    """Also after runs changed and disappeared."""
    run_of(results, 1, relu(), a_record("gelu"), ttnn := relu(ttnn="0.80.0"))
    store.sync(results)
    run_of(results, 2, oom(), a_record("silu"))
    changed = run_of(results, 3, relu())
    store.sync(results)
    shutil.rmtree(results / day(1)[0])
    (changed / "records.jsonl").write_text("".join(json.dumps(r) + "\n" for r in (oom(board="p150"), ttnn)))
    store.sync(results)
    grown = contents(store)
    tables = {table: counted(store, table) for table in ("runs", "settings", "cases", "shapes", "outcomes", "results")}
    assert tables == {"runs": 2, "settings": 3, "cases": 2, "shapes": 2, "outcomes": 4, "results": 4}

    store.rebuild(results)
    assert contents(store) == grown
    assert {table: counted(store, table) for table in tables} == tables
    assert [path.name for path in results.iterdir() if STORE in path.name] == [STORE]


def test_a_run_whose_folder_is_gone_leaves_the_index(results, store):
    for number in (1, 2):
        run_of(results, number, relu())
    store.sync(results)
    shutil.rmtree(results / day(1)[0])
    store.sync(results)
    assert entries_of(store) == [[(2, "fits", None)]]


def test_a_run_in_progress_is_read_again(results, store):
    folder = run_of(results, 1, relu(), selected=2)
    store.sync(results)
    assert "1 of 2 selected cases have no record" in History.of(store, "relu", SHAPE).notes[0]
    with (folder / "records.jsonl").open("a") as lines:
        lines.write(json.dumps(a_record("gelu")) + "\n")
    store.sync(results)
    assert (entries_of(store, "gelu"), History.of(store, "relu", SHAPE).notes) == ([[(1, "fits", None)]], ())


def test_the_complete_lines_of_a_killed_run_are_indexed_and_the_rest_noted(results, store):
    folder = run_of(results, 1, relu(), a_record("gelu"))
    path = folder / "records.jsonl"
    path.write_bytes(path.read_bytes()[:-100])
    store.sync(results)
    assert (entries_of(store), entries_of(store, "gelu")) == ([[(1, "fits", None)]], [])
    (note,) = History.of(store, "gelu", SHAPE).notes
    assert note.startswith(f"run {folder.name}: {path}:2: not a complete record, skipped: truncated after ")
    assert note.endswith("(and 1 more)")


@pytest.mark.parametrize("text", ['{"schema": 99, "op": "relu"}\n', "", "no JSON\n"])
def test_a_run_that_cannot_be_read_is_noted_and_the_others_indexed(results, store, text):
    bad = run_of(results, 1, relu())
    run_of(results, 2, relu())
    (bad / "records.jsonl").write_text(text)
    store.sync(results)
    assert entries_of(store) == [[(2, "fits", None)]]
    (note,) = History.of(store, "relu", SHAPE).notes
    assert note.startswith(f"run {bad.name} is not indexed: {bad}/records.jsonl:")


def make_garbage(path):
    path.write_bytes(b"no database " * 400)


def make_damaged(path):
    """The header and the first page are intact, the pages with the tables are not."""
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    path.write_bytes(data)


def make_foreign(path):
    path.unlink()
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE runs (precious TEXT)")


@pytest.mark.parametrize("spoil", [make_garbage, make_damaged, make_foreign])
def test_a_file_that_is_not_an_index_is_an_error_and_can_be_rebuilt(results, store, spoil):
    run_of(results, 1, relu())
    store.sync(results)
    spoil(store.path)
    spoilt = store.path.read_bytes()
    with pytest.raises(NotAStore, match=r"store\.sqlite is not an index of runs .*: ssinghal history --rebuild"):
        store.sync(results)
    with pytest.raises(NotAStore):
        store.index(results / day(1)[0])
    assert store.path.read_bytes() == spoilt
    store.rebuild(results)
    assert entries_of(store) == [[(1, "fits", None)]]


def test_an_outcome_that_is_not_a_record_is_an_error(results, store):
    run_of(results, 1, relu())
    store.sync(results)
    with sqlite3.connect(store.path) as db:
        db.execute("UPDATE outcomes SET body = json_remove(body, '$.status')")
    with pytest.raises(NotAStore, match=r"outcome 1 is not a record\): move it away, or rebuild it"):
        entries_of(store)


@pytest.mark.parametrize("version", [1, 999_999])
def test_an_index_of_another_version_is_rebuilt(results, store, version):
    run_of(results, 1, relu())
    store.sync(results)
    with sqlite3.connect(store.path) as db:
        db.execute("DROP TABLE results")
        db.execute("CREATE TABLE other (x)")
        db.execute(f"PRAGMA user_version = {version}")
    store.sync(results)
    assert entries_of(store) == [[(1, "fits", None)]]


# Begins to replace a run, far enough that pages are in the file, and dies.
DIES = """
import os, sys
from pathlib import Path
from ssinghal.runs.index import Store
store = Store(Path(sys.argv[1]))
with store._writing() as db:
    db.execute("PRAGMA cache_size = 1")
    db.execute("DELETE FROM results")
    db.execute("DELETE FROM outcomes")
    db.execute("INSERT INTO outcomes VALUES (1, 'x', 1, '', '', 0, ?)", ["y" * 1_000_000])
    os._exit(9)
"""


def test_a_writer_that_dies_leaves_the_index_as_it_was(results, store):
    run_of(results, 1, *(a_record("relu", (1, 32 * n)) for n in range(1, 101)))
    store.sync(results)
    before = contents(store)
    died = subprocess.run([sys.executable, "-c", DIES, str(store.path)], check=False)
    assert died.returncode == 9
    assert store.path.with_name(f"{STORE}-journal").exists()  # else nothing was half-written
    assert contents(store) == before


def test_an_index_that_is_being_written_is_not_replaced(results, store):
    run_of(results, 1, relu())
    store.sync(results)
    with store._writing() as db:
        with pytest.raises(HarnessError, match="database is locked"):
            Store(store.path, wait_s=0.0).rebuild(results)
        db.execute("UPDATE runs SET started = 'later'")
    assert [run.started for run in store.runs()] == ["later"]


HOLDS = """
import sqlite3, sys, time
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute(sys.argv[2])
db.execute("SELECT count(*) FROM runs").fetchall()
print("held", flush=True)
sys.stdin.read()
"""
WAITS = {
    "the end of a run": (lambda results, folder: folder.index(), ("BEGIN IMMEDIATE", "BEGIN EXCLUSIVE", "BEGIN")),
    "history": (lambda results, _: ask(results, "relu", "1,64,640,400"), ("BEGIN EXCLUSIVE",)),
    "rebuild": (lambda results, _: ask(results, "--rebuild"), ("BEGIN EXCLUSIVE",)),
    "durations": (lambda results, _: EarlierRuns(results).durations(["a"], DEVICE), ("BEGIN EXCLUSIVE",)),
}


@pytest.fixture
def held(results, store):
    """Holds the index in another process by a statement, until the test lets go."""
    run_of(results, 1, relu())
    store.sync(results)
    with ExitStack() as stack:

        def hold(statement):
            command = [sys.executable, "-c", HOLDS, str(store.path), statement]
            process = stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
            stack.callback(process.kill)
            assert process.stdout.readline() == b"held\n"
            return process

        yield hold


@pytest.mark.parametrize(("who", "statement"), [(who, one) for who, (_, some) in WAITS.items() for one in some])
def test_who_waits_for_the_index_states_so_and_goes_on(results, store, held, monkeypatch, tmp_path, who, statement):
    """``BEGIN``: of a reader, which only the end of a writing waits for."""
    folder = RunFolder(results, new_run(tmp_path, {}, 1, DEVICE))
    folder.append(relu())
    folder.close(1)
    process = held(statement)
    notes = []

    def noted(text):
        notes.append(text)
        process.stdin.close()

    monkeypatch.setattr("ssinghal.runs.index.NOTED_S", 0.1)
    monkeypatch.setattr("ssinghal.runs.index.note_waiting", noted)
    WAITS[who][0](results, folder)
    (note,) = notes
    assert note.startswith("ssinghal: waiting up to ")
    assert note.endswith(f" s for {store.path}, which another process uses")
    if who == "the end of a run":
        assert folder.info.run in [run.id for run in store.runs()]
    assert "up to 30 s" in note or who in ("history", "rebuild")


def test_a_run_that_waits_in_vain_is_indexed_by_the_next_command(results, store, held, monkeypatch, tmp_path, capsys):
    folder = RunFolder(results, new_run(tmp_path, {}, 1, DEVICE))
    folder.append(relu())
    process = held("BEGIN EXCLUSIVE")
    monkeypatch.setattr("ssinghal.runs.index.SHORT_BUSY_S", 1.0)
    monkeypatch.setattr("ssinghal.runs.index.NOTED_S", 0.1)
    *_, last = folder.finish(1)
    assert last == f"not indexed: cannot use {store.path}: database is locked"
    assert capsys.readouterr().err == f"ssinghal: waiting up to 1 s for {store.path}, which another process uses\n"
    assert json.loads((folder.path / "run.json").read_text())["totals"] == {"fits": 1}
    process.stdin.close()
    process.wait()
    assert ask(results, "relu", "1,64,640,400").exit_code == 0
    assert folder.info.run in [run.id for run in store.runs()]


CASES, RUNS = 40, 6


def index_all(path, folders, start):
    start.wait()
    for folder in folders:
        Store(path).index(folder)


def test_two_writers_at_once_lose_nothing_and_no_reader_sees_half_a_run(results, store):
    """One indexes the runs forwards, the other backwards: they meet at some of them."""
    records = [a_record("relu", (1, 32 * n)) for n in range(1, CASES + 1)]
    folders = [run_of(results, number, *records) for number in range(1, RUNS + 1)]
    store.index(folders[0])
    spawn = multiprocessing.get_context("spawn")
    start = spawn.Barrier(2)
    writers = [spawn.Process(target=index_all, args=(store.path, order, start)) for order in (folders, folders[::-1])]
    seen, done = [], threading.Event()

    def read():
        while not done.is_set():
            with sqlite3.connect(store.path, timeout=60) as db:
                seen.extend(db.execute("SELECT run, count(*) FROM results GROUP BY run").fetchall())

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join(120)
    finally:
        done.set()
        reader.join()
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert {count for _, count in seen} == {CASES}
    assert counted(store, "results") == CASES * RUNS
    grown = contents(store)
    store.rebuild(results)
    assert contents(store) == grown


def ask(results, *arguments):
    return CliRunner().invoke(cli, ["history", *arguments, "--results", str(results)])


def test_the_command(results, store):
    run_of(results, 1, relu())
    run_of(results, 2, oom(), a_record("cat", inputs=[SHAPE, SHAPE]))
    result = ask(results, "relu", "1,64,640,400")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "relu 1x64x640x400-l1  on virtual n150, numerics not run",
        "  started              run                      ttnn    status  resource   stage   needs B     of B  short B  change",
        "  2026-01-01 00:00:00  20260101T000000.000000Z  0.81.1  fits",
        "  2026-01-02 00:00:00  20260102T000000.000000Z  0.81.1  oom     l1_buffer  output  532,480  328,352  204,128  new-oom",
    ]
    document = json.loads(ask(results, "relu", "1x64x*x400", "--json", "--board", "n150", "--device", "virtual").stdout)
    runs = document["cases"][0]["runs"]
    assert [(r["status"], r["shortfall_bytes"], r["change"] and r["change"]["kind"]) for r in runs] == [
        ("fits", None, None),
        ("oom", 204_128, "new-oom"),
    ]
    assert ask(results, "concat", "1,64,640,400").stdout.startswith("cat 1x64x640x400+1x64x640x400")


@pytest.mark.parametrize("made", [relu, oom])
def test_an_answer_that_was_taken_names_the_run_that_probed_it(results, store, made):
    """The second and the fourth run took the answer of the first, the third asked again."""
    first = day(1)[0]
    for number, origin in enumerate(["", first, "", first], 1):
        run_of(results, number, {**made(), "taken_from": origin})
    store.sync(results)
    (case,) = History.of(store, "relu", SHAPE).cases
    assert [entry.taken_from for entry in case.entries] == ["", first, "", first]
    _, header, *rows = ask(results, "relu", "1,64,640,400").stdout.splitlines()
    assert [row[header.index("taken from") :].strip() for row in rows] == ["", first, "", first]
    (shown,) = json.loads(ask(results, "relu", "1,64,640,400", "--json").stdout)["cases"]
    assert [run["taken_from"] for run in shown["runs"]] == ["", first, "", first]


@pytest.mark.virtual_device
def test_of_runs_with_incremental_one_row_is_a_probe(results, tmp_path):
    (tmp_path / "one.yaml").write_text(catalog_text({"relu": [{"shape": [1, 1, 32, 64]}]}))
    command = ["run", str(tmp_path / "one.yaml"), "--incremental", "--workers", "1", "--results", str(results)]
    for _ in range(3):
        done = CliRunner().invoke(cli, command)
        assert done.exit_code == 0, done.output
    (case,) = json.loads(ask(results, "relu", "1,1,32,64", "--json").stdout)["cases"]
    first, *others = case["runs"]
    assert [run["status"] for run in case["runs"]] == ["fits"] * 3
    assert first["taken_from"] == ""
    assert [run["taken_from"] for run in others] == [first["run"]] * 2


def test_a_shape_without_a_record_lists_similar_shapes(results, store):
    run_of(results, 1, relu())
    result = ask(results, "relu", "1,640,64,400")
    assert (result.exit_code, result.stdout) == (0, "no record of relu [1,640,64,400]; near: [1,64,640,400]\n")
    assert ask(results, "relu", "1,64,640,400", "--board", "p150").stdout.startswith("no record of relu [1,64,640,400]")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rel", "1,64"], "unknown operator 'rel'"),
        (["relu", "1,6a"], "shape '1,6a'"),
        (["relu", ""], "shape ''"),
        (["relu", "1,64", "--board", "n151"], "unknown board 'n151'; did you mean n150"),
        (["relu", "1,64", "--device", "real"], "unknown device mode 'real'"),
    ],
)
def test_bad_input_is_one_line(results, store, arguments, message):
    run_of(results, 1, relu())
    result = ask(results, *arguments)
    assert isinstance(result.exception, HarnessError)
    assert message in str(result.exception)


@pytest.mark.parametrize("arguments", [[], ["relu"], ["relu", "--rebuild"]])
def test_missing_arguments_are_usage_errors(results, store, arguments):
    assert ask(results, *arguments).exit_code == 2


def test_a_folder_without_a_run_is_an_error_and_stays_empty(tmp_path):
    result = ask(tmp_path, "relu", "1,64")
    assert str(result.exception) == f"no run in {tmp_path}; start with: ssinghal run"
    assert os.listdir(tmp_path) == []


def test_rebuild_alone(results, store):
    run_of(results, 1, relu())
    store.path.write_text("no database")
    result = ask(results, "--rebuild")
    assert (result.exit_code, result.stdout) == (0, f"{store.path}: 1 runs\n")


def test_records_are_read_case_by_case(results, store, monkeypatch):
    """A pattern that fits very many cases holds the records of one at a time, in the order of their ids."""
    shapes = [[1, 1, 32, 32 * width] for width in range(1, 31)]
    for number in (1, 2):
        run_of(results, number, *(a_record("relu", shape) for shape in reversed(shapes)))
    store.sync(results)
    read = []
    parse = index.parse_record
    monkeypatch.setattr(index, "parse_record", lambda body: read.append(parse(body)) or read[-1])
    found = store.find("relu", store.shapes("relu"), None, None)
    for taken in range(1, 31):
        before, after = next(found), next(found)
        assert before.record is after.record is read[-1]
        assert (before.run.folder, after.run.folder) == (day(1)[0], day(2)[0])
        assert len(read) == taken
    assert next(found, None) is None
    assert [record.id for record in read] == sorted(record.id for record in read)
    lines = list(History.of(store, "relu", (None,) * 4).lines())
    assert len(lines) == 30 * 4  # a case, the header, two runs


def test_a_history_of_some_memories_and_dtypes(results, store):
    """Four cases of one shape: in L1 and DRAM, bfloat16 and bfloat8_b."""
    placed = [(memory, dtype) for memory in ("l1", "dram") for dtype in ("bfloat16", "bfloat8_b")]
    records = [a_record("relu", SHAPE, memory=memory, dtype=dtype) for memory, dtype in placed]
    run_of(results, 1, *records)
    store.sync(results)

    def found(**only):
        keys = {case.key for case in History.of(store, "relu", SHAPE, **only).cases}
        return {pair for pair, record in zip(placed, records, strict=True) if record["key"] in keys}

    assert found() == set(placed)
    assert found(memories=["dram"]) == {("dram", "bfloat16"), ("dram", "bfloat8_b")}
    assert found(dtypes=["bfloat8_b"]) == {("l1", "bfloat8_b"), ("dram", "bfloat8_b")}
    assert found(memories=["l1", "dram"], dtypes=["bfloat16"]) == {("l1", "bfloat16"), ("dram", "bfloat16")}
    assert found(memories=["l1:height"]) == set()
    done = ask(results, "relu", "*,*,*,*", "--placements", "dram", "--dtypes", "bfloat8_b", "--json")
    assert done.exit_code == 0, done.output
    assert [case["id"] for case in json.loads(done.stdout)["cases"]] == ["1x64x640x400-bfloat8_b-dram"]
