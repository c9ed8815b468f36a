"""Runs a TTNN program under TTNN's own graph capture, from `open_device` to `close_device`: what a profile is held against.

ssinghal exec -- python tests/profile/allocations.py EVENTS.json PROGRAM.py [ARGUMENT]...

Writes a list of events in order, [kind, memory, bytes per bank or core, address], and knows nothing of the product.
Bytes are rounded up to what the allocator books: 32 B on Wormhole, 64 B on Blackhole.
"""

import json
import runpy
import sys
from pathlib import Path

import ttnn

MEMORIES = {"0": "DRAM", "1": "L1", "3": "L1_SMALL", "4": "TRACE"}
GRAPH = ttnn._ttnn.graph


def events(nodes: list[dict], granule: int) -> list[list]:
    result, live = [], {}
    for node in nodes:
        if node["node_type"] not in ("buffer_allocate", "buffer_deallocate"):
            continue
        parameters = node["params"]
        where = MEMORIES[str(parameters["buffer_type"])], int(parameters["address"])
        if node["node_type"] == "buffer_allocate":
            live[where] = -(-int(parameters["max_size_per_bank"]) // granule) * granule
            result.append(["allocate", where[0], live[where], where[1]])
        else:
            result.append(["free", where[0], live.pop(where), where[1]])
    return result


def main(output: str, program: str, *arguments: str) -> None:
    opened, closed = ttnn.open_device, ttnn.close_device

    def open_device(*given, **options):
        device = opened(*given, **options)
        GRAPH.begin_graph_capture(GRAPH.RunMode.NORMAL)
        return device

    def close_device(device):
        nodes = GRAPH.end_graph_capture()
        granule = 64 if "BLACKHOLE" in str(device.arch()) else 32
        Path(output).write_text(json.dumps(events(nodes, granule)))
        closed(device)

    ttnn.open_device, ttnn.close_device = open_device, close_device
    sys.argv = [program, *arguments]
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
