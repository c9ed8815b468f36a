"""Chooses silicon, simulator or virtual: once per process, before ttnn is imported, and never silently changed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from ssinghal.core.boards import DEFAULT_BOARD, board_note, is_own, load_board
from ssinghal.core.device_facts import OPENED_MODES, DeviceMode
from ssinghal.errors import WORKING_FOLDER_GONE, DeviceUnavailable, is_working_folder_gone, unknown

AUTO = "auto"  # silicon where there is a card, else a simulator where one is configured, else virtual
SIMULATOR_VARIABLE = "TT_METAL_SIMULATOR"
MOCK_VARIABLE = "TT_METAL_MOCK_CLUSTER_DESC_PATH"


@dataclass(frozen=True)
class DeviceChoice:
    """The device to open, and one sentence why. ``board``: the virtual board, or the name given to a real one.

    ``descriptor``: a cluster descriptor of an unknown board, which is opened to measure it.
    """

    mode: DeviceMode
    board: str
    reason: str
    ttnn_log: bool = False
    descriptor: Path | None = None


def silicon_nodes(root: Path = Path("/dev/tenstorrent")) -> list[str]:
    """Returns the kernel driver's device nodes, one per card."""
    return sorted(str(p) for p in root.iterdir()) if root.is_dir() else []


def choose_device(
    mode: str = AUTO,
    board: str | None = None,
    *,
    golden: bool = False,
    environ: Mapping[str, str] = os.environ,
    nodes: list[str] | None = None,
    ttnn_log: bool = False,
) -> DeviceChoice:
    """Returns the mode and board to open. ``golden``: whether the caller has a use for values without memory verdicts.
    ``nodes``: of cards, those of this machine where None.

    Raises:
        DeviceUnavailable: the requested mode is not available here, the environment contradicts it, or the working folder is
            gone, without which no device opens.
        InvalidCase: unknown board.
    """
    if is_working_folder_gone():
        raise DeviceUnavailable(WORKING_FOLDER_GONE)
    if mode == DeviceMode.GOLDEN and not golden:
        raise DeviceUnavailable("device mode golden measures no memory: only run, probe and the suites take it")
    if mode not in (AUTO, *OPENED_MODES, DeviceMode.GOLDEN):
        raise DeviceUnavailable(unknown("device mode", mode, [AUTO, *map(str, OPENED_MODES)]))
    name = load_board(board or DEFAULT_BOARD).name
    nodes = silicon_nodes() if nodes is None else nodes
    chosen, reason = _automatic_mode(name, nodes, environ) if mode == AUTO else (DeviceMode(mode), "requested")
    obstacle = _obstacle(chosen, name, nodes, environ)
    if obstacle:
        raise DeviceUnavailable(obstacle)
    return DeviceChoice(chosen, name, "; ".join(filter(None, [reason, board_note(name)])), ttnn_log)


def _automatic_mode(board: str, nodes: list[str], environ: Mapping[str, str]) -> tuple[DeviceMode, str]:
    """Returns the mode that ``auto`` stands for here, and why."""
    if is_own(board):
        return DeviceMode.VIRTUAL, "auto: a cluster descriptor is opened as a virtual board"
    if nodes:
        return DeviceMode.SILICON, f"auto: {nodes[0]} exists"
    if environ.get(SIMULATOR_VARIABLE):
        return DeviceMode.SIMULATOR, f"auto: {SIMULATOR_VARIABLE} is set"
    return DeviceMode.VIRTUAL, f"auto: no /dev/tenstorrent node and no {SIMULATOR_VARIABLE}"


def _obstacle(mode: DeviceMode, board: str, nodes: list[str], environ: Mapping[str, str]) -> str:
    """Returns why ``mode`` cannot be opened here, "" where it can."""
    if mode is DeviceMode.VIRTUAL:
        return ""
    if mode is DeviceMode.GOLDEN:
        return "" if find_spec("torch") else "device mode golden needs torch: pip install 'ssinghal[device]'"
    if is_own(board):
        return f"board {board} was taken from a descriptor, which opens with --device virtual only"
    if mode is DeviceMode.SIMULATOR:
        hint = f"no simulator here: set {SIMULATOR_VARIABLE} to its path, or use --device virtual"
        return "" if environ.get(SIMULATOR_VARIABLE) else hint
    if not nodes:
        return "no silicon here: /dev/tenstorrent/* is missing; use --device virtual, or install the driver (tt-kmd)"
    if environ.get(MOCK_VARIABLE):
        return f"{MOCK_VARIABLE} is set, which would silently replace the card by a mock: unset it, or use --device virtual"
    if environ.get(SIMULATOR_VARIABLE):
        return f"{SIMULATOR_VARIABLE} is set, which would silently replace the card: unset it, or use --device simulator"
    return ""
