"""``ssinghal doctor``: what works on this machine, and how to fix what does not."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from ssinghal.cli import options
from ssinghal.cli.requests import DeviceRequest, device_options
from ssinghal.cli.streams import echo
from ssinghal.core.tensors import ONE_CHIP
from ssinghal.errors import WORKING_FOLDER_GONE, HarnessError, is_working_folder_gone
from ssinghal.runner.doctor import clean, examine


@click.command()
@device_options()
@options.json("Checks and device facts as JSON.")
@click.option("--clean", "remove", is_flag=True, help="Remove the virtual device's runtime root and kernel cache, and stop.")
def doctor(device: DeviceRequest, as_json: bool, remove: bool) -> None:
    """Check the environment and suggest fixes.

    Shows which device opens here and why, its memory, and what is missing, with the command that fixes it. Exit code 0, 1 where
    a check fails, 2 for bad input.
    """
    if remove:
        echo(f"removed {clean()}")
        return
    if is_working_folder_gone():
        raise HarnessError(WORKING_FOLDER_GONE)
    checks, facts = examine(device.mode, device.board, ttnn_log=device.ttnn_log)
    if as_json:
        click.echo(json.dumps({"checks": [vars(c) for c in checks], **facts}, indent=2))
    else:
        for check in checks:
            echo(f"{'ok  ' if check.ok else 'FAIL'} {check.name}: {check.found}")
            if not check.ok and check.fix:
                echo(f"     fix: {check.fix}")
        for line in _device_lines(facts["device"]):
            echo(line)
    sys.exit(0 if all(c.ok for c in checks) else 1)


def _device_lines(device: dict[str, Any]) -> list[str]:
    if not device:
        return []
    columns, rows = device["grid"]
    chips = "" if device["mesh"] == ONE_CHIP else f" on each chip of a {'x'.join(map(str, device['mesh']))} mesh"
    lines = [f"     grid: {columns}x{rows} cores{chips}, {device['arch']}, cluster {device['cluster']}"]
    for kind in ("l1", "dram"):
        region = device[kind]
        start = f" from address {device['l1_base_bytes']:,}" if kind == "l1" else ""
        banks = f"{region['num_banks']} banks of {region['bank_bytes']:,} B{start}"
        lines.append(f"     {kind}: {banks}, pages at multiples of {region['alignment_bytes']} B")
    return lines
