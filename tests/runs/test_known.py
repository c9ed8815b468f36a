"""Answers that earlier runs have: which may stand in for a probe, and for which cases."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest

from ssinghal.core.case import Source
from ssinghal.core.device_facts import DeviceFacts, DeviceMode
from ssinghal.errors import HarnessError
from ssinghal.operators.case_json import case_from_json
from ssinghal.runs.index import STORE
from ssinghal.runs.known import EarlierRuns
from tests.support.run_builder import a_record, write_run

MINE, OTHER = "a" * 64, "b" * 64
SEARCHER = "c" * 64
N150 = DeviceFacts(DeviceMode.VIRTUAL, "n150", ttnn="0.81.1")
REMEDIES = {"found": [], "refused": [], "probes": 3, "spent": False, "reason": ""}
FULL = {"bytes_per_bank": 532_480, "bank_bytes": 1_393_312, "free_bytes": 328_352, "largest_free_bytes": 328_352}


def relu(name="relu", shape=(1, 64, 640, 400), **fields):
    return case_from_json({"op": name, "inputs": [list(shape)], "memory": "l1", **fields})


def put(results, *records, number=1, answerer=MINE, **info):
    return write_run(
        results,
        records,
        f"202601{number:02}T000000.000000Z",
        started=f"2026-01-{number:02}T00:00:00",
        answerer=answerer,
        **info,
    )


def answer(results, case, answerer=MINE, searcher="", device=N150):
    earlier = EarlierRuns(results)
    earlier.sync()
    found = earlier.answers([case.key, "0" * 12], device, answerer, searcher)
    assert found.keys() <= {case.key}
    return found[case.key].record(case, remedies=bool(searcher)) if found else None


def test_an_answer_is_that_of_the_run_for_this_case(tmp_path):
    put(tmp_path, a_record(measured={"duration_s": 2.5}, sources=[Source("old")]))
    case = relu()
    record = answer(tmp_path, case)
    probed = a_record()
    assert record.to_json() == {
        **probed,
        "run": "",
        "estimate": None,
        "sources": [],
        "taken_from": "20260101T000000.000000Z",
        "duration_s": 2.5,
    }


def test_an_answer_of_another_device_code_or_limit_is_not_known(tmp_path):
    put(tmp_path, a_record())
    assert answer(tmp_path, relu(), OTHER) is None
    assert answer(tmp_path, relu(), "") is None
    assert answer(tmp_path, relu(memory="dram")) is None


def test_a_run_of_a_version_that_stated_no_answerer_answers_nothing(tmp_path):
    put(tmp_path, a_record(), answerer="")
    assert answer(tmp_path, relu(), "") is None


@pytest.mark.parametrize("status", ["fits", "mismatch", "unsupported", "invalid", "oom"])
def test_what_a_device_must_repeat_is_known(tmp_path, status):
    put(tmp_path, a_record(status=status))
    assert answer(tmp_path, relu()).status == status


@pytest.mark.parametrize("status", ["error", "crash", "timeout", "not_run"])
def test_what_a_device_need_not_repeat_is_not_known(tmp_path, status):
    put(tmp_path, a_record(status=status))
    assert answer(tmp_path, relu()) is None


def test_a_case_that_was_not_run_by_a_limit_of_host_work_is_known(tmp_path):
    put(tmp_path, a_record(status="not_run", verdict={"decided_by": "arithmetic", "stage": "call"}))
    assert answer(tmp_path, relu()).status == "not_run"


@pytest.mark.parametrize(
    "record",
    [
        a_record(status="oom", verdict={"resource": "host"}),
        a_record(measured={"retried": "crash"}),
        a_record(measured={"left_allocated": {"l1": 64}}),
        a_record(status="not_run", mode="none", verdict={"decided_by": "arithmetic"}),
    ],
    ids=["host memory", "second answer", "leak", "no device"],
)
def test_other_answers_that_are_not_known(tmp_path, record):
    put(tmp_path, record)
    assert answer(tmp_path, relu()) is None


def test_the_second_answer_of_a_case_counts_neither_beside_a_first_one_with_the_same_outcome(tmp_path):
    """The outcome is one, the results are two."""
    put(tmp_path, a_record())
    put(tmp_path, a_record(measured={"retried": "crash"}), number=2)
    assert answer(tmp_path, relu()).taken_from == "20260101T000000.000000Z"


def test_golden_answers_are_known(tmp_path):
    put(tmp_path, a_record(status="agrees", mode="golden"))
    assert answer(tmp_path, relu(), device=replace(N150, mode=DeviceMode.GOLDEN)).status == "agrees"


@pytest.mark.parametrize(
    "change", [{"mode": DeviceMode.SILICON}, {"board": "p150"}, {"ttnn": "0.80.0"}, {"mesh": (1, 2)}], ids=str
)
def test_records_of_another_device_in_the_folder_of_a_run_are_not_its_answers(tmp_path, change):
    """As where the records of one run were copied over those of another: the header alone states what answered."""
    put(tmp_path, a_record())
    assert answer(tmp_path, relu()) is not None
    assert answer(tmp_path, relu(), device=replace(N150, **change)) is None


@pytest.mark.parametrize(
    "change",
    [
        {"inputs": [[32, 32]]}, {"attrs": {"dim": 1}}, {"dtype": "float32"}, {"layout": "row_major"}, {"memory": "dram"},
        {"output_memory": "dram"}, {"channels_last": True}, {"l1_small_size": 32_768}, {"output_dtype": "float32"},
        {"operands": [{"dtype": "float32"}]}, {"operator": "silu"},
    ],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_a_record_of_another_call_under_the_key_of_a_case_is_not_its_answer(tmp_path, change):
    folder = put(tmp_path, a_record())
    lines = folder / "records.jsonl"
    lines.write_text(json.dumps({**json.loads(lines.read_text()), **change}) + "\n")
    assert answer(tmp_path, relu()) is None


def test_the_last_run_counts(tmp_path):
    put(tmp_path, a_record(), number=1)
    put(tmp_path, a_record(status="oom", verdict=FULL), number=2)
    put(tmp_path, a_record(status="timeout"), number=3)
    assert answer(tmp_path, relu()).status == "oom"


def test_the_first_run_of_a_chain_is_named(tmp_path):
    first = put(tmp_path, a_record())
    second = put(tmp_path, a_record(measured={"taken_from": first.name}), number=2)
    put(tmp_path, a_record(measured={"taken_from": first.name}), number=3)
    assert answer(tmp_path, relu()).taken_from == first.name
    shutil.rmtree(first)
    shutil.rmtree(second)
    assert answer(tmp_path, relu()).taken_from == first.name


def test_remedies_are_known_to_runs_that_want_them_alone(tmp_path):
    full = a_record(status="oom", verdict=FULL)
    put(tmp_path, {**full, "remedies": REMEDIES}, number=1, searcher=SEARCHER)
    assert answer(tmp_path, relu()).remedies is None
    assert answer(tmp_path, relu(), searcher=SEARCHER).remedies.probes == 3
    assert answer(tmp_path, relu(), searcher=OTHER) is None


def test_a_case_without_remedies_is_not_known_to_a_run_that_wants_them(tmp_path):
    put(tmp_path, a_record(status="oom", verdict=FULL), a_record("gelu"))
    assert answer(tmp_path, relu(), searcher=SEARCHER) is None
    assert answer(tmp_path, relu("gelu"), searcher=SEARCHER).status == "fits"


def test_an_equal_call_of_another_name_is_known(tmp_path):
    put(tmp_path, a_record("gelu"))
    record = answer(tmp_path, relu("geluactivation"))
    assert (record.op, record.operator, record.status) == ("geluactivation", "gelu", "fits")


def test_another_call_with_the_same_short_key_is_not_known(tmp_path):
    put(tmp_path, {**a_record(shape=(32, 32)), "key": relu().key})
    assert answer(tmp_path, relu()) is None


def test_a_run_that_was_killed_and_one_whose_folder_is_gone(tmp_path):
    killed = put(tmp_path, a_record("gelu"), a_record(), selected=9)
    lines = killed / "records.jsonl"
    lines.write_bytes(lines.read_bytes()[:-200])
    assert answer(tmp_path, relu("gelu")).status == "fits"
    assert answer(tmp_path, relu()) is None
    (tmp_path / STORE).unlink()
    assert answer(tmp_path, relu("gelu")).status == "fits"
    shutil.rmtree(killed)
    assert answer(tmp_path, relu("gelu")) is None


def test_no_results_and_a_damaged_index(tmp_path):
    earlier = EarlierRuns(tmp_path / "none")
    earlier.sync()
    assert (earlier.answers(["0" * 12], N150, MINE), earlier.durations(["0" * 12], N150)) == ({}, {})
    (tmp_path / STORE).write_bytes(b"no database " * 400)
    with pytest.raises(HarnessError, match="ssinghal history --rebuild"):
        EarlierRuns(tmp_path).sync()
    assert EarlierRuns(tmp_path).durations(["0" * 12], N150) == {}


def test_the_longest_duration_on_the_board_is_known_whatever_the_code_and_the_release(tmp_path):
    put(tmp_path, a_record(measured={"duration_s": 3.0}, ttnn="0.80.0"), number=1, answerer=OTHER)
    put(tmp_path, a_record(measured={"duration_s": 2.0}, status="timeout"), number=2)
    put(tmp_path, a_record(measured={"duration_s": 9.0}, board="p150"), number=3)
    earlier = EarlierRuns(tmp_path)
    earlier.sync()
    assert earlier.durations([relu().key], N150) == {relu().key: 3.0}


def test_answers_of_many_runs_and_cases(tmp_path):
    records = [a_record(shape=(1, 32 * n)) for n in range(1, 101)]
    for number in range(1, 6):
        put(tmp_path, *records, number=number)
    cases = [relu(shape=(1, 32 * n)) for n in range(1, 101)]
    earlier = EarlierRuns(tmp_path)
    earlier.sync()
    known = earlier.answers([case.key for case in cases], N150, MINE)
    assert [known[case.key].record(case, remedies=False).inputs for case in cases] == [((1, 32 * n),) for n in range(1, 101)]
    assert json.loads(known[cases[0].key].text)["ttnn"] == "0.81.1"
