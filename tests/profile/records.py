"""Records of a small program, written out: what the reports of profiles are held against."""

from __future__ import annotations

from typing import Any

from ssinghal.profile.model import Profile
from ssinghal.profile.replay import replay

Record = dict[str, Any]

L1_BASE, L1_TOP, L1_BANK, DRAM_BANK = 1_000, 9_000, 8_000, 100_000
PROGRAM = {"k": "program", "version": 2, "argv": ["net.py", "--batch", "1"], "pid": 1, "folder": "/home/me"}
DEVICE = {
    "k": "device",
    "ttnn": "0.81.1",
    "arch": "wormhole_b0",
    "mesh": [1, 1],
    "grid": [8, 8],
    "granule": 32,
    "l1_base": L1_BASE,
    "l1_top": L1_TOP,
    "memories": {"dram": [12, DRAM_BANK, 0], "l1": [64, L1_BANK, 0], "l1_small": [0, 0, 0]},
}
OUT_OF_MEMORY = (
    "TT_FATAL @ f.cpp:1: x\ninfo:\nOut of Memory: Not enough space to allocate 320000 B L1 buffer across 64 banks,"
    " where each bank needs to store 5000 B, but bank size is 8000 B"
    " (allocated: 5000 B, free: 3000 B, largest free block: 3000 B)"
)


def sites(*functions: str, file: str = "/home/me/net.py") -> list[Record]:
    """Site ``n`` is line ``10 * (n + 1)``; stack 100 + n has sites n, n - 1, … 0: innermost first."""
    lines = [
        {"k": "site", "n": n, "file": file, "line": 10 * (n + 1), "function": function} for n, function in enumerate(functions)
    ]
    return [*lines, *({"k": "stack", "n": 100 + n, "sites": list(range(n, -1, -1))} for n in range(len(functions)))]


def spec(number: int, rows: int, memory: str | None = "l1") -> Record:
    return {
        "k": "spec", "n": number, "shape": [rows, 32], "dtype": "bfloat16", "layout": "tile", "memory": memory,
        "memory_layout": "interleaved", "shard": None,
    }  # fmt: skip


def call(name: str, stack: int, events: list[Any], l1: int, dram: int = 0, **more: Any) -> Record:
    """``l1``, ``dram``: bytes per bank allocated after it."""
    return {
        "k": "call", "name": name, "stack": stack, "in": [], "out": [], "gap": [], "ev": events, "us": 7, "others": 0,
        "view": {"dram": [dram, DRAM_BANK - dram], "l1": [l1, L1_BANK - l1]},
    } | more  # fmt: skip


# Weights in DRAM, two tensors in L1 with a hole above the second, and a third that does not fit.
NET = [
    PROGRAM,
    DEVICE,
    *sites("main", "load", "block"),
    *(spec(200 + n, 32 * n) for n in range(1, 4)),
    spec(210, 320, "dram"),
    call("ttnn.as_tensor", 101, [["+", "dram", 50_000, 40_000, 480_000]], 0, 40_000, out=[[210, 50_000]]),
    call("ttnn.empty", 100, [["+", "l1", 8_000, 1_000, 64_000]], 1_000, 40_000, out=[[201, 8_000]]),
    call(
        "ttnn.matmul",
        102,
        [["+", "l1", 5_000, 3_000, 192_000], ["p", "Matmul", 1_500, "measured"]],
        4_000,
        40_000,
        **{"in": [[201, 8_000], [210, 50_000]]},
        out=[[202, 5_000]],
    ),
    call(
        "ttnn.relu", 102, [["+", "l1", 3_000, 2_000, 128_000], ["p", "Unary", None, "unknown"]], 5_000, 40_000,
        gap=[["-", "l1", 8_000]], **{"in": [[202, 5_000]]}, out=[[203, 3_000]],
    ),
    call("ttnn.conv2d", 102, [], 5_000, 40_000, error=["RuntimeError", OUT_OF_MEMORY]),
    {"k": "end", "gap": [], "others": 0},
]  # fmt: skip


def profile(records: list[Record] | None = None) -> Profile:
    return replay(NET if records is None else records)
