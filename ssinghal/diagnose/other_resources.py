"""Explains what runs out besides a tensor's buffer and program buffers: a trace region, kernel config, memory of the host."""

from __future__ import annotations

from collections.abc import Iterator

from ssinghal.core.tensors import ceil_div, format_bytes
from ssinghal.core.verdict import Resource, Verdict
from ssinghal.diagnose.kernel_config import kernel_config_lines
from ssinghal.diagnose.odd_figures import odd_lines
from ssinghal.diagnose.small_region import region_lines

# The numbers of a message that has only some of a kind, in words.
_NAMES = {
    "total_bytes": "bytes requested",
    "banks": "banks",
    "bytes_per_bank": "bytes requested per bank",
    "bank_bytes": "bytes of a bank",
    "allocated_bytes": "bytes allocated per bank",
    "free_bytes": "bytes free per bank",
    "largest_free_bytes": "bytes in the largest free block",
    "program_bytes": "bytes of program buffers",
    "limit_bytes": "limit in bytes",
    "tensor_address": "address",
}


def other_lines(verdict: Verdict) -> Iterator[str]:
    """Yields the explanation of a resource that is neither a tensor's buffer nor a program's."""
    address, limit = verdict.tensor_address, verdict.limit_bytes
    if verdict.resource is Resource.TRACE_BUFFER:
        yield from _trace_lines(verdict)
    elif verdict.resource is Resource.KERNEL_CONFIG:
        yield from kernel_config_lines(verdict)
    elif verdict.resource is Resource.HOST:
        requested = f": {format_bytes(verdict.total_bytes)} were requested" if verdict.total_bytes is not None else ""
        yield f"the memory of the host ran out, not that of a device{requested}"
    elif verdict.resource is Resource.L1_BUFFER and address is not None and limit is not None:
        yield f"the buffer would begin at address {address:,}, {limit - address:,} B below {limit:,}, the lowest allowed"
    elif figures := [f"{_NAMES[name]} {value:,}" for name in _NAMES if (value := getattr(verdict, name)) is not None]:
        where = f" on cores {verdict.cores}" if verdict.cores else ""
        yield f"of the text: {', '.join(figures)}{where}"
        if verdict.total_bytes is not None and verdict.banks and verdict.bytes_per_bank is None:
            yield f"the fullest bank needs at least {ceil_div(verdict.total_bytes, verdict.banks):,} B"
    else:
        yield "the text has no sizes"
    if verdict.resource is Resource.L1_SMALL_BUFFER:
        yield from region_lines(verdict)


def _trace_lines(verdict: Verdict) -> Iterator[str]:
    need, limit = verdict.total_bytes, verdict.limit_bytes
    if need is None:
        yield "the text has no sizes"
        return
    of = f" of a region of {format_bytes(limit)}" if limit is not None else ""
    yield f"the trace needs {format_bytes(need)}{of}"
    if limit is not None and need > limit:
        yield f"missing: {format_bytes(need - limit)}"
    if verdict.banks is not None and verdict.bytes_per_bank is not None:
        bank = f" of {verdict.bank_bytes:,} B" if verdict.bank_bytes is not None else ""
        yield f"over {verdict.banks} banks: {verdict.bytes_per_bank:,} B{bank} in the fullest"
    figures = {"allocated": verdict.allocated_bytes, "free": verdict.free_bytes, "in a block": verdict.largest_free_bytes}
    if parts := [f"{value:,} B {name}" for name, value in figures.items() if value is not None]:
        yield f"in each bank of the region: {', '.join(parts)}"
    each, free = verdict.bytes_per_bank, verdict.largest_free_bytes
    free = verdict.free_bytes if free is None else free
    if limit is not None and need <= limit and (each is None or free is None or each <= free):
        yield "the region is large enough for it: these figures do not show a failure"
    else:
        yield f"a device opened with trace_region_size {need:,} has room for this trace alone"
    yield from odd_lines(verdict)
