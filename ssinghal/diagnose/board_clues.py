"""What the numbers of a message show of its board: architectures and chips that have them, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ssinghal.core.tensors import BufferType
from ssinghal.core.verdict import L1_END_BYTES, Resource, Verdict
from ssinghal.diagnose.builds import BUILDS, DRAM_BANKS, least_base
from ssinghal.diagnose.chips import (
    CHIPS,
    L1_ENDS,
    LEAST_BASE,
    Chip,
    Core,
    are_galaxy_workers,
    chips_in_words,
    core_ranges,
)

GRAYSKULL_CORES = (12, 10)
CORES = {"wormhole_b0": 8 * 10, "blackhole": 14 * 10}  # of the chip, before any is harvested or kept for dispatch


def arches_of(verdict: Verdict, memory: BufferType | None) -> list[str]:
    """Returns the architectures whose L1 and DRAM are large enough for the numbers, Wormhole first.

    Grayskull only where the end of its L1 is in the message: its memories are smaller than the others', so all fits those too.
    """
    if verdict.limit_bytes in L1_END_BYTES:
        return [arch for arch, end in L1_ENDS.items() if end == verdict.limit_bytes]
    current = ["wormhole_b0", "blackhole"]
    if memory is BufferType.DRAM and verdict.bank_bytes is not None:
        largest = {arch: max(b.bank_bytes for b in DRAM_BANKS if b.arch == arch) for arch in current}
        is_small = verdict.bank_bytes <= largest["wormhole_b0"]
        return ["wormhole_b0"] if is_small else ["blackhole"] if verdict.bank_bytes <= largest["blackhole"] else []
    if memory is BufferType.L1 and verdict.banks is not None:
        current = [arch for arch in current if verdict.banks <= CORES[arch]]
    if verdict.resource is Resource.CLASH and verdict.tensor_address is not None:
        return [arch for arch in current if verdict.tensor_address < L1_ENDS[arch]]
    if memory is BufferType.L1 and verdict.bank_bytes is not None:
        return [arch for arch in current if verdict.bank_bytes <= L1_ENDS[arch] - LEAST_BASE]
    return current


def may_be_grayskull(verdict: Verdict, memory: BufferType | None, fitting: Sequence[Chip]) -> bool:
    """Returns whether the message may be of 2024, of a Grayskull. ``fitting``: the newer chips that have its numbers.

    Messages without a bank's size, or with x and y of cores, are that old or newer. Its cores are 12x9 and 12x10.
    """
    if memory in (BufferType.L1, BufferType.L1_SMALL):
        return verdict.bank_bytes is None and not fitting
    last = _last_core(core_ranges(verdict.cores))
    is_old = verdict.resource is Resource.CLASH and "[(x=" in verdict.message and last is not None
    return (
        is_old
        and (verdict.tensor_address or 0) < L1_ENDS["grayskull"]
        and not any(chip.arch == "wormhole_b0" for chip in fitting)
        and last is not None
        and last[0] < GRAYSKULL_CORES[0]
        and last[1] < GRAYSKULL_CORES[1]
    )


def has_numbers(chip: Chip, verdict: Verdict, memory: BufferType | None) -> bool:
    """Returns whether ``verdict`` has a number of banks or cores, and ``chip`` has that many."""
    if memory is BufferType.DRAM and verdict.banks is not None:
        return chip.dram_banks == verdict.banks
    if memory in (BufferType.L1, BufferType.L1_SMALL) and verdict.banks is not None:
        return chip.l1_banks == verdict.banks
    if memory is not None or not (verdict.cores or verdict.limit_bytes in L1_END_BYTES):
        return False
    return chip.has_cores(core_ranges(verdict.cores))


def board_evidence(verdict: Verdict, memory: BufferType | None, chips: Sequence[Chip], *, is_named: bool) -> Iterator[str]:
    """Yields the numbers of the message that point to ``chips``, or to the architecture alone."""
    if memory is not None and chips:
        yield f"its {verdict.banks} {memory.value.upper()} banks"
    elif memory in (BufferType.L1, BufferType.DRAM) and verdict.bank_bytes is not None:
        yield f"the size of {'an' if memory is BufferType.L1 else 'a'} {memory.value.upper()} bank"
    if verdict.limit_bytes in L1_END_BYTES:
        yield f"the end of L1 at {verdict.limit_bytes:,} B"
    elif memory is None and verdict.tensor_address is not None:
        address, arches = verdict.tensor_address, {chip.arch for chip in chips}
        if address >= L1_ENDS["wormhole_b0"]:
            yield f"a tensor at {address:,} B, beyond the L1 of a Wormhole"
        elif arches == {"wormhole_b0"} and address < least_base(len(BUILDS) - 1, "blackhole"):
            yield f"a tensor at {address:,} B, below what a Blackhole reserves"
    last = _last_core(core_ranges(verdict.cores))
    if last is not None and chips and len(chips) < len(CHIPS) and not all(chip.has_cores([(last, last)]) for chip in CHIPS):
        yield f"cores up to {_core(last)}"
    if is_named:
        yield "the boards that the text names"


def board_notes(verdict: Verdict, chips: Sequence[Chip], arch: str) -> Iterator[str]:
    ranges = core_ranges(verdict.cores)
    last = _last_core(ranges)
    if last is None:
        return
    if arch in {chip.arch for chip in CHIPS} and not chips:
        yield f"no known grid of such a chip has core {_core(last)}"
    if are_galaxy_workers(ranges) and any(chip.grid == (7, 10) for chip in chips):
        yield "Llama and Qwen on a Wormhole Galaxy have such columns of cores as workers: a sub-device, not the complete grid"
    elif all(x or y for (x, y), _ in ranges) and ranges[0][0] != ranges[0][1]:
        yield "the cores do not begin at (0,0): a sub-device or a sub core grid, not the complete grid"
    elif chips and chips[0].is_filled_by(ranges) and len(filled := [c for c in chips if c.is_filled_by(ranges)]) < len(chips):
        yield f"these are all cores of {chips_in_words(filled)}"


def _last_core(ranges: Sequence[tuple[Core, Core]]) -> Core | None:
    """Returns the largest column and row."""
    return (max(x for _, (x, _) in ranges), max(y for _, (_, y) in ranges)) if ranges else None


def _core(core: Core) -> str:
    return f"({core[0]},{core[1]})"
