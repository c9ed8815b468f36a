"""Makes calls on a mesh as a plain TTNN program does. ``mesh_calls.py`` runs it under ``ssinghal exec``.

    python benchmarks/plain_mesh_calls.py ROWSxCOLUMNS CALLS.json OUTCOMES.jsonl FIRST

Reads a list of calls, and appends a line per call from number FIRST on, as ``plain_calls.py`` does. Small operands are values
on the host that TTNN's mappers cut and send to the chips. Large ones are allocated in the shape that each chip holds, and get
the topology of a small tensor from the same mapper.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import torch
import ttnn
from plain_calls import MEMORIES, NAMES, allocated, config_text, free

MAPPED_BYTES = 2**20
CONFIGS = {"dram": ttnn.DRAM_MEMORY_CONFIG, "l1": ttnn.L1_MEMORY_CONFIG}


def part(shape: list[int], cut: Any, mesh: tuple[int, int]) -> list[int]:
    """Returns what each chip holds."""
    sizes = list(shape)
    for dim, chips in [(cut, mesh[0] * mesh[1])] if isinstance(cut, int) else zip(cut or (None, None), mesh, strict=True):
        if dim is not None:
            sizes[dim] //= chips
    return sizes


def placed(device: Any, tensor: dict[str, Any]) -> Any:
    mesh = tuple(device.shape)
    layout = ttnn.TILE_LAYOUT if tensor["layout"] == "tile" else ttnn.ROW_MAJOR_LAYOUT
    where = {"dtype": getattr(ttnn, tensor["dtype"]), "layout": layout, "memory_config": CONFIGS[tensor["memory"]]}
    shape, cut = tensor["shape"], tensor["cut"]
    if cut is None:
        return ttnn.empty(shape, device=device, **where)
    if isinstance(cut, int):
        mapper = ttnn.ShardTensorToMesh(device, dim=cut)
    else:
        mapper = ttnn.ShardTensor2dMesh(device, dims=tuple(cut), mesh_shape=mesh)
    if 2 * math.prod(shape) <= MAPPED_BYTES:
        sent = ttnn.from_torch(torch.zeros(shape), device=device, mesh_mapper=mapper, **where)
        device.clear_program_cache()
        return sent
    large = ttnn.empty(part(shape, cut, mesh), device=device, **where)
    small = ttnn.from_torch(torch.zeros([math.prod(mesh)] * len(shape)), device=device, mesh_mapper=mapper)
    large.update_tensor_topology(small.tensor_topology())
    return large


def outcome(device: Any, call: dict[str, Any]) -> dict[str, Any]:
    tensors: list[Any] = []
    results: list[Any] = []
    at: int | None = None
    try:
        for number, tensor in enumerate(call["tensors"]):
            at = number
            tensors.append(placed(device, tensor))
        at = None
        out = {"memory_config": CONFIGS[call["memory"]]} if call["memory"] else {}
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


def main(mesh: list[int], calls: Path, outcomes: Path, first: int) -> None:
    device: Any = None
    connected: Any = None
    with outcomes.open("a") as file:
        for call in json.loads(calls.read_text())[first:]:
            if device is None or call["fabric"] != connected:
                if device is not None:
                    ttnn.close_mesh_device(device)
                connected = call["fabric"]
                ttnn.set_fabric_config(getattr(ttnn.FabricConfig, connected or "DISABLED"))
                device = ttnn.open_mesh_device(ttnn.MeshShape(*mesh))
            file.write(json.dumps(outcome(device, call)) + "\n")
            file.flush()
            device.clear_program_cache()
    ttnn.close_mesh_device(device)


if __name__ == "__main__":
    assert set(CONFIGS) < set(MEMORIES)
    main([*map(int, sys.argv[1].split("x"))], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
