"""Remedies that arithmetic cannot decide, tried on a virtual device."""

import json

import pytest

from ssinghal.device.modes import choose_device
from ssinghal.errors import HarnessError
from ssinghal.operators.case_json import case_from_json
from ssinghal.report.group_report import GroupReport
from ssinghal.report.placement_alternatives import Answer, PlacementRemedy
from ssinghal.report.retry import REMEDIES, of_setting, search_remedies, tried_remedies, try_remedies
from ssinghal.runner.pool import Pool
from ssinghal.runner.tasks import PoolOptions
from ssinghal.runs.reader import read_run
from tests.support.run_builder import a_record, write_run


def dram_answer(folder, op="softmax"):
    run = read_run(folder)
    report = GroupReport(run.groups[0], of_setting(tried_remedies(run)[0], run.groups[0].setting))
    failing = next(r for r in report.facts.oom if r.op == op)
    return {a.remedy: a.answer for a in report.alternatives_of(failing)}[PlacementRemedy.DRAM]


@pytest.mark.virtual_device
def test_an_unknown_remedy_is_tried_once_and_kept(tmp_path):
    """softmax [1, 1152, 135, 120] clashes with its own program buffers in L1, and fits in DRAM by a run of TTNN alone."""
    failing = a_record("softmax", (1, 1152, 135, 120), status="oom", attrs={"dim": -1}, channels_last=True)
    assert failing["memory"] == "l1"
    folder = write_run(tmp_path, [failing])
    assert dram_answer(folder) is Answer.UNKNOWN
    assert try_remedies(read_run(folder)) > 0
    assert dram_answer(folder) is Answer.TRIED
    kept = (folder / REMEDIES).read_text()
    assert all(json.loads(line)["device_mode"] == "virtual" for line in kept.splitlines())
    assert try_remedies(read_run(folder)) == 0
    assert (folder / REMEDIES).read_text() == kept


@pytest.mark.virtual_device
def test_a_call_without_verdict_is_not_tried_again_and_a_truncated_line_costs_itself(tmp_path):
    """A view for which TTNN would map 783,360 tiles on the host is not run in DRAM either."""
    size = [1, 96, 2160, 3840]
    failing = a_record("view", (1, 2160, 3840, 96), status="oom", attrs={"size": size}, channels_last=False)
    folder = write_run(tmp_path, [failing])
    (folder / REMEDIES).write_text('{"schema": 1, "op": "vi')
    assert try_remedies(read_run(folder)) == 1
    assert dram_answer(folder, "view") is Answer.NO_VERDICT
    assert try_remedies(read_run(folder)) == 0
    cut, tried = (folder / REMEDIES).read_text().splitlines()
    assert cut == '{"schema": 1, "op": "vi'
    assert json.loads(tried)["status"] == "not_run"


def test_another_release_is_not_tried_with_this_one(tmp_path):
    failing = a_record("softmax", (1, 1152, 135, 120), status="oom", attrs={"dim": -1}, ttnn="0.76.0")
    folder = write_run(tmp_path, [failing])
    for tries in (try_remedies, search_remedies):
        with pytest.raises(
            HarnessError, match=r"its remedies can be tried with ttnn 0\.76\.0 only, as the run was: .*add 0\.76\.0"
        ):
            tries(read_run(folder))
    assert not (folder / REMEDIES).exists() or not (folder / REMEDIES).read_bytes()


def test_remedies_of_a_file_without_a_folder_are_rejected(tmp_path):
    folder = write_run(tmp_path, [a_record("softmax", (1, 1152, 135, 120), status="oom", attrs={"dim": -1})])
    for tries in (try_remedies, search_remedies):
        with pytest.raises(HarnessError, match="this is a file"):
            tries(read_run(folder / "records.jsonl"))


def test_remedies_tried_elsewhere_do_not_count(tmp_path):
    """A remedy's record of another board or release is no evidence for this one."""
    failing = a_record("softmax", (1, 1152, 135, 120), status="oom", attrs={"dim": -1}, channels_last=True)
    tried = a_record("softmax", (1, 1152, 135, 120), attrs={"dim": -1}, channels_last=True, memory="dram")
    folder = write_run(tmp_path, [failing])
    (folder / REMEDIES).write_text(
        json.dumps({**tried, "board": "p150"}) + "\n" + json.dumps({**tried, "ttnn": "0.76.0"}) + "\n"
    )
    assert dram_answer(folder) is Answer.UNKNOWN
    (folder / REMEDIES).write_text(json.dumps(tried) + "\n")
    assert dram_answer(folder) is Answer.TRIED


@pytest.mark.virtual_device
def test_arithmetic_and_the_device_agree_on_remedies(tmp_path):
    """Calls that fit in DRAM by arithmetic fit on the device."""
    shapes = [(1, 64, 640, 400), (1, 3, 1280, 1280), (1, 96, 1080, 1920)]
    records = [a_record(op, shape, status="oom", channels_last=True) for op in ("relu", "clone") for shape in shapes]
    run = read_run(write_run(tmp_path, records))
    report = GroupReport(run.groups[0])
    wanted = (PlacementRemedy.DRAM, Answer.FITS)
    sure = [r for r in report.facts.oom for a in report.alternatives_of(r) if (a.remedy, a.answer) == wanted]
    assert sure
    placed = {"memory": "dram", "channels_last": True}
    cases = [case_from_json({"op": r.op, "inputs": [list(s) for s in r.inputs], **placed}) for r in sure]
    with Pool(choose_device("virtual", "n150"), PoolOptions(workers=1)) as pool:
        assert [record.status.value for record in pool.map(cases)] == ["fits"] * len(cases)
