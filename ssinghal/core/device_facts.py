"""What a run opened: the kind of device, and the memory that TTNN reports of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ssinghal.core.json_values import Bytes, LineText, fields_of, plain
from ssinghal.core.tensors import ONE_CHIP, Board, MemoryRegion, TextEnum

NO_MEMORY = MemoryRegion(1, 0, 1)


class DeviceMode(TextEnum):
    """What kind of device answered."""

    SILICON = "silicon"
    SIMULATOR = "simulator"
    VIRTUAL = "virtual"
    GOLDEN = "golden"  # none: TTNN's golden functions on the host, for development; it measures no memory
    NONE = "none"  # no device was opened


OPENED_MODES = (DeviceMode.SILICON, DeviceMode.SIMULATOR, DeviceMode.VIRTUAL)


@dataclass(frozen=True)
class DeviceFacts:
    """What was opened and how that was proved; every run has it in its header. Headers of older versions lack some of it."""

    mode: DeviceMode = DeviceMode.NONE
    board: LineText = ""
    arch: LineText = ""
    cluster: LineText = ""
    # Columns and rows of cores.
    grid: tuple[int, int] = (0, 0)
    ttnn: LineText = ""
    l1: MemoryRegion = NO_MEMORY
    dram: MemoryRegion = NO_MEMORY
    # Where L1 banks start: TTNN keeps what is below.
    l1_base_bytes: Bytes = 0
    # The allocator books multiples of this.
    granule_bytes: Bytes = 0
    # Rows and columns of chips.
    mesh: tuple[int, int] = ONE_CHIP
    # Of the cluster descriptor that a virtual board was opened from.
    descriptor_sha256: LineText = ""
    # Why this mode was chosen.
    reason: LineText = ""
    # What shows that the device is of its mode.
    proof: LineText = ""

    @property
    def knows_memory(self) -> bool:
        return bool(self.l1.bank_bytes and self.dram.bank_bytes and self.l1_base_bytes)

    @property
    def opened_board(self) -> Board:
        """The board with the banks of this TTNN release, which keeps more or less of them to itself; no L1_SMALL region."""
        return Board(
            self.board,
            arch=self.arch,
            grid=self.grid,
            l1=self.l1,
            dram=self.dram,
            l1_end_bytes=self.l1_base_bytes + self.l1.bank_bytes,
            granule_bytes=self.granule_bytes,
            provenance=f"ttnn {self.ttnn}",
            mesh=self.mesh,
        )

    def deciding(self) -> dict[str, Any]:
        """Returns what decides answers, by name: all but how the device was chosen and proved."""
        return {name: value for name, value in fields_of(self).items() if name not in ("reason", "proof")}

    def to_json(self) -> dict[str, Any]:
        """Returns an empty object where nothing was opened."""
        return plain(fields_of(self)) if self != NOT_OPENED else {}


NOT_OPENED = DeviceFacts()
