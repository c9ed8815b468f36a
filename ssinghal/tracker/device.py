"""Describes an open device: its memories, and the buffers that were allocated before the recording began."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from ssinghal.tracker.events import KINDS, booked_bytes


def memory_kinds(ttnn: Any) -> dict[str, Any]:
    """Returns TTNN's name of each memory that this release has."""
    kinds = {name: getattr(ttnn.BufferType, name.upper(), None) for name in KINDS.values()}
    return {name: kind for name, kind in kinds.items() if kind is not None}


def device_record(ttnn: Any, reports: Any, device: Any) -> dict[str, Any]:
    """Returns the values of a ``device`` record; ``reports``: TTNN's private module of that name."""
    info = reports.get_device_info(device)
    grid = device.compute_with_storage_grid_size()
    granule = 64 if "BLACKHOLE" in str(device.arch()) else 32
    views = {name: ttnn.get_memory_view(device, kind) for name, kind in memory_kinds(ttnn).items()}
    held, unsized = _held(reports, device, granule, {name: view.total_bytes_allocated_per_bank for name, view in views.items()})
    return {
        "ttnn": version("ttnn"),
        "arch": device.arch().name.lower(),
        "mesh": list(device.shape),
        "grid": [grid.x, grid.y],
        "granule": granule,
        "l1_base": info.address_at_first_l1_cb_buffer,
        "l1_top": info.worker_l1_size,
        "memories": {
            name: [view.num_banks, view.total_bytes_per_bank, view.total_bytes_allocated_per_bank]
            for name, view in views.items()
        },
        **({"held": held, "unsized": unsized} if held or unsized else {}),
    }


def _held(reports: Any, device: Any, granule: int, allocated: dict[str, int]) -> tuple[list[Any], list[str]]:
    """Returns [memory, address, bytes per bank] of the buffers that are allocated, and the memories whose sizes are not known.

    TTNN lists narrow row-major pages without their padding: the sizes of a memory that do not add up to what its allocator
    reports are left out.
    """
    sizes: dict[str, dict[int, int]] = {memory: {} for memory in allocated}
    for buffer in reports.get_buffers(device) if any(allocated.values()) else ():
        memory = buffer.buffer_type.name.lower()
        sizes[memory][buffer.address] = booked_bytes(buffer.max_size_per_bank, granule)
    known = {memory: sum(sizes[memory].values()) == total for memory, total in allocated.items()}
    held = [[memory, *one] for memory, buffers in sizes.items() if known[memory] for one in buffers.items()]
    return held, [memory for memory, is_known in known.items() if not is_known and sizes[memory]]
