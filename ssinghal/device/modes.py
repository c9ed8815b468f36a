"""Silicon, simulator or virtual: chosen once per process, before ttnn is imported, and never silently changed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ssinghal.core.boards import DEFAULT_BOARD, board_note, is_own, load_board
from ssinghal.core.device_facts import OPENED_MODES, DeviceMode
from ssinghal.errors import DeviceUnavailable, unknown

AUTO = "auto"  # silicon where there is a card, else a simulator where one is configured, else virtual
SIMULATOR_VARIABLE = "TT_METAL_SIMULATOR"
MOCK_VARIABLE = "TT_METAL_MOCK_CLUSTER_DESC_PATH"


@dataclass(frozen=True)
class DeviceChoice:
    """What will be opened, and one sentence that says why. ``board`` is the virtual board, or the name given for a real one.

    ``descriptor``: a cluster descriptor of a board of which nothing is known yet, opened to learn it.
    """

    mode: DeviceMode
    board: str
    reason: str
    ttnn_log: bool = False
    descriptor: Path | None = None


def silicon_nodes(root: Path = Path("/dev/tenstorrent")) -> list[str]:
    """The kernel driver's device nodes, one per card."""
    return sorted(str(p) for p in root.iterdir()) if root.is_dir() else []


def choose_device(
    mode: str = AUTO,
    board: str | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    nodes: list[str] | None = None,
    ttnn_log: bool = False,
) -> DeviceChoice:
    """The mode and board to open.

    Raises:
        DeviceUnavailable: the mode asked for cannot be had here, or the environment contradicts it.
        InvalidCase: unknown board.
    """
    if mode not in (AUTO, *OPENED_MODES):
        raise DeviceUnavailable(unknown("device mode", mode, [AUTO, *map(str, OPENED_MODES)]))
    name = load_board(board or DEFAULT_BOARD).name
    found = silicon_nodes() if nodes is None else nodes
    simulator = environ.get(SIMULATOR_VARIABLE)
    if mode == AUTO:
        if is_own(name):
            chosen, reason = DeviceMode.VIRTUAL, "auto: a cluster descriptor is opened as a virtual board"
        elif found:
            chosen, reason = DeviceMode.SILICON, f"auto: {found[0]} exists"
        elif simulator:
            chosen, reason = DeviceMode.SIMULATOR, f"auto: {SIMULATOR_VARIABLE} is set"
        else:
            chosen, reason = DeviceMode.VIRTUAL, f"auto: no /dev/tenstorrent node and no {SIMULATOR_VARIABLE}"
    else:
        chosen, reason = DeviceMode(mode), "asked for"
    if is_own(name) and chosen is not DeviceMode.VIRTUAL:
        raise DeviceUnavailable(f"board {name} was taken from a descriptor, which opens with --device virtual only")
    if chosen is DeviceMode.SILICON and not found:
        raise DeviceUnavailable(
            "no silicon here: /dev/tenstorrent/* is missing; use --device virtual, or install the driver (tt-kmd)"
        )
    if chosen is DeviceMode.SIMULATOR and not simulator:
        raise DeviceUnavailable(f"no simulator here: set {SIMULATOR_VARIABLE} to its path, or use --device virtual")
    if chosen is DeviceMode.SILICON and environ.get(MOCK_VARIABLE):
        raise DeviceUnavailable(
            f"{MOCK_VARIABLE} is set, which would silently replace the card by a mock: unset it, or use --device virtual"
        )
    if chosen is DeviceMode.SILICON and environ.get(SIMULATOR_VARIABLE):
        raise DeviceUnavailable(
            f"{SIMULATOR_VARIABLE} is set, which would silently replace the card: unset it, or use --device simulator"
        )
    return DeviceChoice(chosen, name, "; ".join(filter(None, [reason, board_note(name)])), ttnn_log)
