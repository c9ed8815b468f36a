"""The folder of a run: what its summary states about the device, and records that disappear while it is written."""

from __future__ import annotations

import json

import pytest

from ssinghal.core.device_facts import NOT_OPENED, DeviceFacts, DeviceMode
from ssinghal.errors import HarnessError
from ssinghal.runs.writer import RunFolder, new_run


def folder(parent, device):
    return RunFolder(parent, new_run(parent, {}, 1, device))


@pytest.mark.parametrize(
    ("device", "states_it"),
    [
        (DeviceFacts(DeviceMode.SILICON, "n150"), False),
        (DeviceFacts(DeviceMode.SIMULATOR, "n150"), False),
        (DeviceFacts(DeviceMode.VIRTUAL, "n150"), True),
        (NOT_OPENED, True),
    ],
)
def test_the_summary_states_where_numerics_did_not_run(tmp_path, device, states_it):
    line = folder(tmp_path, device).finish(0)[1]
    assert line.endswith("; numerics not run: memory verdicts only") == states_it
    assert line.startswith(f"{device.mode} n150, ttnn " if device.board else "no device, ttnn ")


@pytest.mark.parametrize("replaced", [False, True])
def test_removed_records_are_an_error_at_the_end(tmp_path, replaced):
    run = folder(tmp_path, NOT_OPENED)
    run.append({"op": "add", "id": "a", "status": "fits", "duration_s": 0.0})
    path = run.path / "records.jsonl"
    path.rename(tmp_path / "aside.jsonl")
    if replaced:
        path.write_text("")
    with pytest.raises(HarnessError, match=r"records\.jsonl was removed or replaced while it was written: its lines are lost"):
        run.finish(1)
    assert json.loads((run.path / "run.json").read_text())["totals"] == {"fits": 1}
