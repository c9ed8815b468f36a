"""Makes calls as a plain TTNN program does. Run by ``sharded_calls.py`` under ``ssinghal exec``; it knows nothing of ssinghal.

    python benchmarks/plain_calls.py CALLS.json OUTCOMES.jsonl FIRST

Reads a list of calls, and appends a line per call from number FIRST on: ``{"fits": {…}}`` with the bytes per bank that are
allocated while operands and results live, less what the program cache keeps; or ``{"error": text, "at": operand or null}``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import ttnn

NAMES = "abcdefgh"
MEMORIES = {"dram": ttnn.BufferType.DRAM, "l1": ttnn.BufferType.L1, "l1_small": ttnn.BufferType.L1_SMALL}


def memory_config(memory: dict[str, Any]) -> Any:
    if not memory["kind"]:
        return ttnn.MemoryConfig(ttnn.TensorMemoryLayout.INTERLEAVED, MEMORIES[memory["buffer"]])
    columns, rows = memory["grid"]
    cores = ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(columns - 1, rows - 1))})
    orientation = getattr(ttnn.ShardOrientation, memory["orientation"].upper())
    layout = getattr(ttnn.TensorMemoryLayout, f"{memory['kind'].upper()}_SHARDED")
    return ttnn.MemoryConfig(layout, MEMORIES[memory["buffer"]], ttnn.ShardSpec(cores, memory["shard"], orientation))


def allocated(device: Any) -> dict[str, int]:
    return {name: ttnn.get_memory_view(device, kind).total_bytes_allocated_per_bank for name, kind in MEMORIES.items()}


def free(tensors: list[Any]) -> None:
    for tensor in tensors:
        if tensor.is_allocated():
            tensor.deallocate()


def config_text(tensor: Any) -> str:
    """Returns where a result is, in words of its own."""
    config = tensor.memory_config()
    buffer: str = config.buffer_type.name.lower()
    if not config.is_sharded():
        return buffer
    spec = config.shard_spec
    ranges = [((r.start.x, r.start.y), (r.end.x, r.end.y)) for r in spec.grid.ranges()]
    kind, orientation = config.memory_layout.name.split("_")[0].lower(), spec.orientation.name.lower()
    return json.dumps([buffer, kind, list(spec.shape), ranges, orientation])


def outcome(device: Any, call: dict[str, Any]) -> dict[str, Any]:
    tensors: list[Any] = []
    results: list[Any] = []
    at: int | None = None
    try:
        for number, t in enumerate(call["tensors"]):
            at = number
            layout = ttnn.TILE_LAYOUT if t["layout"] == "tile" else ttnn.ROW_MAJOR_LAYOUT
            dtype, memory = getattr(ttnn, t["dtype"]), memory_config(t["memory"])
            tensors.append(ttnn.empty(t["shape"], dtype=dtype, layout=layout, device=device, memory_config=memory))
        at = None
        out = {"memory_config": memory_config(call["memory"])} if call["memory"] else {}
        if call["dtype"]:
            out["dtype"] = getattr(ttnn, call["dtype"])
        names = {"ttnn": ttnn, "device": device, "out": out, **dict(zip(NAMES, tensors, strict=False))}
        returned = eval(call["call"], names)
        results = list(returned) if isinstance(returned, (list, tuple)) else [returned]
        held = allocated(device)
        configs = [config_text(result) for result in results]
        shapes = [list(result.shape) for result in results]
        names.clear()
        free([*results, *tensors])
        kept = allocated(device)
        return {"fits": {name: size - kept[name] for name, size in held.items()}, "results": configs, "shapes": shapes}
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        return {"error": str(error), "at": at}
    finally:
        free([*results, *tensors])


def main(calls: Path, outcomes: Path, first: int) -> None:
    device: Any = None
    region = -1
    with outcomes.open("a") as file:
        for call in json.loads(calls.read_text())[first:]:
            if call["l1_small"] != region:
                if device is not None:
                    ttnn.close_device(device)
                region = call["l1_small"]
                device = ttnn.open_device(device_id=0, l1_small_size=region)
            file.write(json.dumps(outcome(device, call)) + "\n")
            file.flush()
            device.clear_program_cache()
    ttnn.close_device(device)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
