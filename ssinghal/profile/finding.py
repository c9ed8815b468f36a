"""What a finding is: a change to the program that saves memory, with what proves it."""

from __future__ import annotations

from dataclasses import dataclass

from ssinghal.core.tensors import TextEnum
from ssinghal.profile.model import Site


class FindingKind(TextEnum):
    LATE_FREE = "late_free"  # freed later than last used
    RESIDENT = "resident"  # not used again, and never freed
    FRAGMENTATION = "fragmentation"  # free bytes that no single block holds
    PROGRAM_BUFFERS = "program_buffers"  # program buffers, not tensors, decide the peak
    FEW_PAGES = "few_pages"  # interleaved on few banks: every bank books what the fullest holds
    REGION_SIZE = "region_size"  # the L1_SMALL or the trace region is larger or smaller than needed


@dataclass(frozen=True)
class Finding:
    """``bank_bytes``: what the change saves, per bank of ``memory``. ``proof``: the arithmetic, or the run, that shows it.

    ``site``: the line to change. ``calls``: the calls that it is about, in order. ``device``: its index in the profile's
    devices. ``sites``: further lines, each with what happened there, such as ``last used``. ``before_bytes``, ``after_bytes``:
    the peak of the memory, or the size of the region, per bank, as it is and with the change; None where neither is meant.
    """

    kind: FindingKind
    memory: str
    bank_bytes: int
    site: Site | None
    title: str
    proof: str
    calls: tuple[int, ...] = ()
    device: int = 0
    sites: tuple[tuple[str, Site], ...] = ()
    before_bytes: int | None = None
    after_bytes: int | None = None
