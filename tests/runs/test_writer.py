"""What a run's folder says of the device, and of records that vanished under it."""

from __future__ import annotations

import json

import pytest

from ssinghal.core.device_facts import NOT_OPENED, DeviceFacts, DeviceMode
from ssinghal.errors import HarnessError
from ssinghal.runs.writer import RunFolder, new_run


def folder(parent, device):
    return RunFolder(parent, new_run(parent, {}, 1, device))


@pytest.mark.parametrize(
    ("device", "says"),
    [
        (DeviceFacts(DeviceMode.SILICON, "n150"), False),
        (DeviceFacts(DeviceMode.SIMULATOR, "n150"), False),
        (DeviceFacts(DeviceMode.VIRTUAL, "n150"), True),
        (NOT_OPENED, True),
    ],
)
def test_numerics_are_said_not_to_run_where_they_are_not(tmp_path, device, says):
    line = folder(tmp_path, device).finish(0)[1]
    assert line.endswith("; numerics not run: memory verdicts only") == says
    assert line.startswith(f"{device.mode} n150, ttnn " if device.board else "no device, ttnn ")


@pytest.mark.parametrize("replaced", [False, True])
def test_records_that_were_removed_meanwhile_are_missed(tmp_path, replaced):
    run = folder(tmp_path, NOT_OPENED)
    run.append({"op": "add", "id": "a", "status": "fits", "duration_s": 0.0})
    path = run.path / "records.jsonl"
    path.rename(tmp_path / "aside.jsonl")
    if replaced:
        path.write_text("")
    with pytest.raises(HarnessError, match=r"records\.jsonl was removed or replaced while it was written: its lines are lost"):
        run.finish(1)
    assert json.loads((run.path / "run.json").read_text())["totals"] == {"fits": 1}
