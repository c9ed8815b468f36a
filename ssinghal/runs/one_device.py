"""Checks that the records of a run are of the device that its ``run.json`` states."""

from __future__ import annotations

from ssinghal.core.device_facts import DeviceFacts, DeviceMode
from ssinghal.core.record import Record
from ssinghal.errors import HarnessError
from ssinghal.runs.folders import INFO
from ssinghal.runs.setting import Setting


def check_device(record: Record, device: DeviceFacts, where: str) -> None:
    """Raises HarnessError, with ``where`` the record is, unless it is of the board, device mode and TTNN release of ``device``.
    A record that no device answered has a board alone, which counts where the run opened one."""
    own, stated = Setting.of(record), Setting(device.mode, device.board, device.ttnn)
    if own == stated:
        return
    if own.device_mode is DeviceMode.NONE and (stated.device_mode is DeviceMode.NONE or own.board == stated.board):
        return
    raise HarnessError(
        f"{where}: {record.op} {record.id} is of {own}, but {INFO} of {stated}: expected records of one device in a run"
    )
