"""What stays of an unfinished run: each case's answer, once, wherever the file was cut or damaged."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ssinghal.core.case import Case
from ssinghal.core.device_facts import DeviceFacts, DeviceMode
from ssinghal.core.locks import LOCK
from ssinghal.errors import HarnessError
from ssinghal.operators.case_json import case_from_json
from ssinghal.runs.compressing import repack
from ssinghal.runs.reader import read_run
from ssinghal.runs.resuming import UnfinishedRun
from ssinghal.runs.writer import RunFolder
from tests.support.killed import aged, hidden, killed_at_each_change
from tests.support.run_builder import a_record, write_run

SHAPES = [(1, 32, 32 * n) for n in range(1, 5)]
CASES = [case_from_json({"op": "relu", "inputs": [list(shape)], "memory": "l1"}) for shape in SHAPES]
RECORDS = [a_record("relu", shape) for shape in SHAPES]
OF_RUN = {"catalogs": ["some"]}
NOT_OPENED = {"stage": "device", "decided_by": "harness", "message": "no device"}


def unfinished(parent: Path, records: Sequence[dict[str, Any]] = RECORDS, **info: Any) -> Path:
    head = {"options": OF_RUN, "selection_sha256": "ab", "answerer": "cd", "finished": None, "selected": len(CASES)}
    return write_run(parent, records, **{**head, **info})


def left(path: Path, cases: Sequence[Case] = CASES) -> list[int]:
    with UnfinishedRun(path) as run:
        return [CASES.index(case) for case in run.unanswered(cases)]


def continued(path: Path) -> RunFolder:
    run = UnfinishedRun(path)
    run.unanswered(CASES)
    return run.continued()


def kept(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (path / "records.jsonl").read_text().splitlines()]


# Where the file ends -------------------------------------------------------------------------------------------------------


def test_a_file_that_was_cut_at_any_byte(tmp_path):
    """The answers are the lines that are there up to their end."""
    path = unfinished(tmp_path)
    records = path / "records.jsonl"
    content = records.read_bytes()
    with UnfinishedRun(path) as run:
        for size in range(len(content), -1, -1):
            os.truncate(records, size)
            assert len(run.unanswered(CASES)) == len(CASES) - content[:size].count(b"\n"), size


@pytest.mark.parametrize("short", [0, 1, 2, 7, 100, 1000])
@pytest.mark.parametrize("line", range(4))
def test_what_stays_of_a_cut_file(tmp_path, line, short):
    path = unfinished(tmp_path)
    records = path / "records.jsonl"
    lines = records.read_bytes().splitlines(keepends=True)
    content = b"".join(lines[:line])
    records.write_bytes(content + lines[line][: len(lines[line]) - short])
    complete = lines[: line + (short == 0)]

    folder = continued(path)
    assert records.read_bytes() == b"".join(complete)
    for record in RECORDS[len(complete) :]:
        folder.append(record)
    folder.finish(len(CASES))
    assert [(r["op"], r["key"]) for r in kept(path)] == [(case.name, case.key) for case in CASES]
    again = read_run(path)
    assert (again.losses, again.remarks, again.head.totals) == ((), (), {"fits": 4})
    assert (again.head.unreached, len(again.head.resumed), again.head.finished is not None) == (0, 1, True)


def test_without_a_file_of_records_it_starts_from_none(tmp_path):
    """As after a kill between run.json and records.jsonl."""
    path = unfinished(tmp_path, device={}, answerer="")
    (path / "records.jsonl").unlink()
    assert left(path) == [0, 1, 2, 3]
    folder = continued(path)
    for record in RECORDS:
        folder.append(record)
    folder.finish(len(CASES))
    assert [r["inputs"][0] for r in kept(path)] == [list(shape) for shape in SHAPES]
    assert {p.name for p in path.iterdir()} == {"run.json", "records.jsonl", "summary.txt"}
    assert (tmp_path / "latest").resolve() == path


@pytest.mark.parametrize("damage", [b"", b"\n", b"\0" * 50 + b"\n", b"[]\n", b"{}\n", b'{"schema": 1, "op"\n', b"\xff\xfe\n"])
@pytest.mark.parametrize("at", range(5))
def test_a_damaged_line_is_dropped_wherever_it_is(tmp_path, at, damage):
    path = unfinished(tmp_path)
    records = path / "records.jsonl"
    lines = records.read_bytes().splitlines(keepends=True)
    records.write_bytes(b"".join([*lines[:at], damage, *lines[at:]]))
    assert left(path) == []
    folder = continued(path)
    assert records.read_bytes() == b"".join(lines)
    assert folder.summary().cases == 4
    assert {p.name for p in path.iterdir()} == {"run.json", "records.jsonl", LOCK}


# Which records are answers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("record", "is_answer"),
    [
        ({}, True),
        ({"status": "oom"}, True),
        ({"status": "crash", "verdict": {"stage": "call", "decided_by": "harness"}}, True),
        ({"status": "timeout", "verdict": {"stage": "call", "decided_by": "harness"}}, True),
        ({"status": "not_run", "verdict": {"decided_by": "harness"}}, True),  # too much work for the host
        ({"status": "error", "verdict": {"stage": "device"}}, True),  # TTNN's own
        ({"status": "error", "verdict": NOT_OPENED}, False),
        ({"status": "not_run", "mode": "none", "verdict": {"decided_by": "harness"}}, False),
        ({"status": "error", "mode": "none", "verdict": {"decided_by": "harness"}}, False),
    ],
)
def test_which_records_are_answers(tmp_path, record, is_answer):
    path = unfinished(tmp_path, [RECORDS[0], a_record("relu", SHAPES[1], **record), *RECORDS[2:]])
    assert left(path) == ([] if is_answer else [1])
    continued(path)
    assert [r["inputs"] for r in kept(path)] == [[list(s)] for n, s in enumerate(SHAPES) if is_answer or n != 1]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_two_answers_the_last_counts_and_not_that_without_a_device(tmp_path, order):
    answers = [a_record("relu", SHAPES[0], status=status) for status in ("fits", "oom")]
    none = a_record("relu", SHAPES[0], status="not_run", mode="none")
    path = unfinished(tmp_path, [answers[order[0]], RECORDS[1], answers[order[1]], none])
    assert left(path) == [2, 3]
    continued(path)
    assert [r["status"] for r in kept(path)] == ["fits", ("fits", "oom")[order[1]]]
    assert [r["inputs"][0] for r in kept(path)] == [list(SHAPES[1]), list(SHAPES[0])]


def test_a_record_of_another_case_is_a_line(tmp_path):
    path = unfinished(tmp_path, [RECORDS[0], a_record("relu", (1, 1, 7))])
    with pytest.raises(HarnessError, match=r"records\.jsonl:2: relu 1x1x7-l1 is not a case that this run selected"):
        left(path)


@pytest.mark.parametrize(
    ("record", "what"),
    [
        ({"schema": 9}, "records of schema 9; this ssinghal reads up to 1: use a newer version"),
        ({"board": "p150"}, "relu 1x32x96-l1 is of virtual p150, ttnn 0.81.1, but {}"),
        ({"device_mode": "silicon"}, "relu 1x32x96-l1 is of silicon n150, ttnn 0.81.1, but {}"),
        ({"device_mode": "golden", "status": "agrees"}, "relu 1x32x96-l1 is of golden n150, ttnn 0.81.1, but {}"),
        ({"ttnn": "0.75.0"}, "relu 1x32x96-l1 is of virtual n150, ttnn 0.75.0, but {}"),
    ],
)
def test_an_answer_of_another_device_or_version_is_a_line_and_nothing_is_changed(tmp_path, record, what):
    """The third record is relu of 1,32,96."""
    path = unfinished(tmp_path, [*RECORDS[:2], {**RECORDS[2], **record}])
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    n150 = "run.json of virtual n150, ttnn 0.81.1: expected records of one device in a run"
    with pytest.raises(HarnessError) as refused:
        left(path)
    assert str(refused.value) == f"{path / 'records.jsonl'}:3: {what.format(n150)}"
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before


@pytest.mark.parametrize("other", [{"board": "p150"}, {"ttnn": ""}, {"ttnn": "0.75.0"}])
def test_what_no_device_answered_is_run_again_whatever_it_is_of(tmp_path, other):
    path = unfinished(tmp_path, [*RECORDS[:3], {**RECORDS[3], "device_mode": "none", "status": "not_run", **other}])
    assert left(path) == [3]


def test_an_answer_in_a_run_that_opened_no_device_is_a_line(tmp_path):
    path = unfinished(tmp_path, RECORDS[:1], device={}, answerer="")
    with pytest.raises(HarnessError, match=r"records\.jsonl:1: relu 1x32x32-l1 is of virtual n150, .*run\.json of no device"):
        left(path)


def test_whether_a_run_is_complete(tmp_path):
    def complete(name: str, records: Sequence[dict[str, Any]] = RECORDS, **info: Any) -> bool:
        with UnfinishedRun(unfinished(tmp_path / name, records, **{"finished": "2026", **info})) as run:
            return not run.unanswered(CASES) and run.is_complete

    assert complete("all")
    assert not complete("killed", finished=None)
    assert not complete("interrupted", unreached=1)
    assert not complete("twice", [*RECORDS, RECORDS[0]])
    assert not complete("lacking", RECORDS[:3])


def test_memory_does_not_grow_with_the_records(tmp_path):
    """Each case has 500 answers and then 2,000: 8,000 lines of 2 KB, of which a list of lines would take 16 MB."""

    def peak(times: int) -> int:
        path = unfinished(tmp_path / str(times), RECORDS * times)
        with UnfinishedRun(path) as run:
            tracemalloc.start()
            try:
                assert run.unanswered(CASES) == []
                folder = run.continued()
                return tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
                assert folder.summary().cases == 4

    peak(1)  # what is imported and cached once
    few, many = peak(500), peak(2000)
    assert many - few < 1_000_000


# What is refused ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("info", "text"),
    [
        (
            {"options": {"catalog": [], "policy": "skip"}},
            "a run of pytest cannot be resumed: expected one of ssinghal run; run its tests again",
        ),
        ({"selection_sha256": ""}, "made by a version that did not state which cases it selected: run it again"),
        ({"schema": 99}, "records of schema 99"),
    ],
)
def test_a_run_that_cannot_be_resumed_is_a_line(tmp_path, info, text):
    path = unfinished(tmp_path, **info)
    with pytest.raises(HarnessError, match=text):
        UnfinishedRun(path)
    with pytest.raises(HarnessError, match=text):  # the folder is free again
        UnfinishedRun(path)


def test_a_folder_that_is_no_run_is_a_line(tmp_path):
    with pytest.raises(HarnessError, match=r"nowhere: No such file or directory; expected the folder of a run"):
        UnfinishedRun(tmp_path / "nowhere")
    with pytest.raises(HarnessError, match=r"expected a run's folder, with run\.json in it"):
        UnfinishedRun(tmp_path)
    path = unfinished(tmp_path)
    (path / "run.json").write_text("{")
    with pytest.raises(HarnessError, match="not a run's header"):
        UnfinishedRun(path)


# Compressed records --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [0, 7])
def test_compressed_records_are_unpacked_when_the_run_goes_on(tmp_path, cut):
    """Also those of a run that was killed while it wrote a line."""
    path = unfinished(tmp_path, RECORDS[:3])
    records = path / "records.jsonl"
    records.write_bytes(records.read_bytes()[: -cut or None])
    repack(path)
    packed = (path / "records.jsonl.gz").read_bytes()
    answered = 3 if not cut else 2
    assert left(path) == [0, 1, 2, 3][answered:]
    assert (path / "records.jsonl.gz").read_bytes() == packed, "nothing is changed before the run goes on"
    assert not records.exists()

    folder = continued(path)
    for record in RECORDS[answered:]:
        folder.append(record)
    folder.finish(4)
    assert [r["key"] for r in kept(path)] == [r["key"] for r in RECORDS]
    assert {file.name for file in path.iterdir()} == {"records.jsonl", "run.json", "summary.txt"}
    assert read_run(path).losses == ()
    repack(path)
    assert left(path) == []


def test_a_complete_compressed_run_stays_compressed(tmp_path):
    path = unfinished(tmp_path, finished="2026-01-02T03:05:05+00:00")
    repack(path)
    with UnfinishedRun(path) as run:
        assert run.unanswered(CASES) == []
        assert run.is_complete
    assert not (path / "records.jsonl").exists()


@pytest.mark.parametrize("damage", [lambda data: data[:-20], lambda data: b"no archive", lambda data: data[:10] + data[14:]])
def test_damaged_compressed_records_are_a_line_and_stay(tmp_path, damage):
    path = unfinished(tmp_path)
    repack(path)
    packed = path / "records.jsonl.gz"
    packed.write_bytes(damage(packed.read_bytes()))
    before = packed.read_bytes()
    with pytest.raises(HarnessError, match=rf"^{packed}: (the compressed file is truncated|not a valid compressed file)"):
        left(path)
    assert (packed.read_bytes(), (path / "records.jsonl").exists()) == (before, False)


def test_a_compressed_record_of_another_case_is_named_by_its_line(tmp_path):
    path = unfinished(tmp_path, [RECORDS[0], a_record("gelu", SHAPES[0])])
    repack(path)
    with pytest.raises(HarnessError, match=rf"^{path}/records\.jsonl\.gz:2: gelu .* is not a case that this run selected$"):
        left(path)


def test_of_two_files_that_differ_none_is_resumed(tmp_path):
    path = unfinished(tmp_path)
    repack(path)
    (path / "records.jsonl").write_text(json.dumps(RECORDS[0]) + "\n")
    before = {file: file.read_bytes() for file in path.iterdir()}
    with pytest.raises(HarnessError, match=r"other records than in records\.jsonl beside it"):
        continued(path)
    assert {file: file.read_bytes() for file in path.iterdir() if file.name != LOCK} == before


RESUMING = """
from pathlib import Path
from tests.runs.test_resuming import CASES, RECORDS, UnfinishedRun, continued
with UnfinishedRun(Path("run")) as run:
    run.unanswered(CASES)
    folder = run.continued()
    for record in RECORDS[2:]:
        folder.append(record)
    folder.finish(4)
"""


def test_a_kill_at_any_change_of_a_file_costs_no_answer(tmp_path):
    """Whatever it leaves is resumed, and then compressed again: no second file of records is in the way, nothing is hidden."""
    unfinished(tmp_path / "before", [*RECORDS[:2], {**RECORDS[2], "device_mode": "none", "status": "not_run"}]).rename(
        tmp_path / "before" / "run"
    )
    repack(tmp_path / "before" / "run")
    copies = killed_at_each_change(tmp_path / "before", RESUMING, tmp_path / "copies", "import tests.runs.test_resuming")
    assert len(copies) >= 9, "of the unpacked file, the packed one, run.json twice, the summary, the link and the index"
    states = set()
    for copy in copies:
        path = copy / "run"
        aged(copy)
        missing = left(path)
        states.add((len(missing), (path / "records.jsonl").exists(), (path / "records.jsonl.gz").exists()))
        assert set(missing) <= {2, 3}, "an answer is lost"
        folder = continued(path)
        for number in missing:
            folder.append(RECORDS[number])
        folder.finish(4)
        assert sorted(r["key"] for r in kept(path)) == sorted(r["key"] for r in RECORDS), copy.name
        assert list(hidden(copy)) == []
        repack(path)
    assert states >= {(2, False, True), (2, True, True), (2, True, False), (0, True, False)}


def test_changed_catalogs_are_a_line(tmp_path):
    with UnfinishedRun(unfinished(tmp_path)) as run:
        run.check_selection(4, "ab")
        with pytest.raises(
            HarnessError, match="its catalogs have changed; it selected 4 cases, and its options now select 5 cases"
        ):
            run.check_selection(5, "ac")
        with pytest.raises(HarnessError, match="it selected 4 cases, and its options now select others"):
            run.check_selection(4, "ac")


def test_another_device_is_a_line_that_names_what_differs(tmp_path):
    facts = DeviceFacts(DeviceMode.VIRTUAL, "n150", arch="wormhole_b0", ttnn="0.81.1")
    head = {"device": facts.to_json(), "versions": {"ssinghal": "1.2"}, "commit": "abc"}
    with UnfinishedRun(unfinished(tmp_path, **head)) as run:
        run.check_answerer(facts, "cd")
        other = DeviceFacts(DeviceMode.VIRTUAL, "n150", arch="wormhole_b0", ttnn="0.75.0", reason="another")
        with pytest.raises(HarnessError, match=r"it was answered by ttnn 0\.81\.1, and here 0\.75\.0$"):
            run.check_answerer(other, "ce")
        with pytest.raises(HarnessError, match=r"the same device, but other code or limits \(ssinghal 1\.2, commit abc\)"):
            run.check_answerer(facts, "ce")


def test_a_run_that_ended_before_its_device_was_open_is_answered_by_any(tmp_path):
    with UnfinishedRun(unfinished(tmp_path, [], answerer="", device={})) as run:
        run.check_answerer(DeviceFacts(DeviceMode.VIRTUAL, "n150"), "ce")


# Who holds the folder -----------------------------------------------------------------------------------------------------

HOLD = """
import sys
from pathlib import Path
from ssinghal.runs.writer import RunFolder, new_run
folder = RunFolder(Path(sys.argv[1]), new_run(Path(), {"catalogs": []}, 4))
print(folder.path, flush=True)
sys.stdin.read()
"""


def test_a_run_in_progress_is_refused_until_its_process_has_ended(tmp_path):
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        path = Path(other.stdout.readline().decode().strip())
        with pytest.raises(HarnessError, match=f"{path.name}: the run is still in progress in another process"):
            UnfinishedRun(path)
        other.send_signal(signal.SIGKILL)
        other.wait()
    with pytest.raises(HarnessError, match="did not state which cases"):
        UnfinishedRun(path)


def test_a_finished_run_is_free(tmp_path):
    path = unfinished(tmp_path)
    folder = continued(path)
    with pytest.raises(HarnessError, match="still in progress"):
        UnfinishedRun(path)
    folder.finish(4)
    UnfinishedRun(path).close()


REWRITE = """
import sys
from pathlib import Path
from ssinghal.errors import HarnessError
from tests.runs.test_resuming import continued
try:
    continued(Path(sys.argv[1]))
except HarnessError as error:
    print(error)
"""


def test_a_disk_that_is_full_while_the_records_are_rewritten_costs_none(tmp_path):
    """The limit is in the middle of the records, whose first line is to go."""
    lost = a_record("relu", SHAPES[0], status="not_run", mode="none")
    path = unfinished(tmp_path, [lost, *RECORDS], device={"mode": "virtual", "board": "n150", "ttnn": "0.81.1"})
    before = (path / "records.jsonl").read_bytes()
    limit = len(before) // 2
    done = subprocess.run(
        [sys.executable, "-c", REWRITE, str(path)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert done.stdout == f"cannot write {path / 'records.jsonl'}: File too large\n", done.stderr
    assert (path / "records.jsonl").read_bytes() == before
    assert {p.name for p in path.iterdir()} == {"run.json", "records.jsonl", LOCK}
    assert left(path) == []
