"""Compares ``ssinghal probe`` with plain TTNN programs, on random calls on meshes: operands cut over chips, and collectives.

    python benchmarks/mesh_calls.py [--calls 300] [--seed 1] [--board t3k_2x4] [--ttnn VERSION]

Each call is made by ``ssinghal probe --from``, and by ``plain_mesh_calls.py`` under ``ssinghal exec``, and compared as
``sharded_calls.py`` does, with the shapes of results too. Prints the outcomes by operator and every difference; exit code 1 if
there is one.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from sharded_calls import difference, probed

PLAIN = Path(__file__).with_name("plain_mesh_calls.py")
BOARDS = {"n300_1x2": (1, 2), "t3k_1x8": (1, 8), "t3k_2x4": (2, 4)}
NAMES = "abcdefgh"
Cut = int | list[int | None] | None


@dataclass
class MeshCall:
    """``call``: as a plain program writes it."""

    operator: str
    shapes: list[list[int]]
    cuts: list[Cut]
    attrs: dict[str, Any]
    call: str
    fabric: str | None = None
    dtype: str = "bfloat16"
    layout: str = "tile"
    memory: str = "dram"
    output: str = "same"

    def case(self) -> dict[str, Any]:
        operands = [None if cut is None else {"shard_dim": cut} for cut in self.cuts]
        fields = {"dtype": self.dtype, "layout": self.layout, "memory": self.memory, "output_memory": self.output}
        return {"op": self.operator, "inputs": self.shapes, "attrs": self.attrs, **fields, "operands": operands}

    def plain(self) -> dict[str, Any]:
        where = {"dtype": self.dtype, "layout": self.layout, "memory": self.memory}
        tensors = [{"shape": shape, "cut": cut, **where} for shape, cut in zip(self.shapes, self.cuts, strict=True)]
        memory = {"same": self.memory, "ttnn": None}.get(self.output, self.output)
        return {"tensors": tensors, "call": self.call, "memory": memory, "fabric": self.fabric}


class Draw:
    """Random parts of a call on a mesh."""

    def __init__(self, random: Random, mesh: tuple[int, int]) -> None:
        self.random, self.mesh, self.chips = random, mesh, mesh[0] * mesh[1]

    def size(self) -> int:
        """Returns a size that all chips divide, some of it not in whole tiles."""
        return self.chips * self.random.choice((1, 5, 8, 16, 32, 64, 100, 128))

    def shape(self, rank: int) -> list[int]:
        sizes = [self.random.choice((1, 1, self.chips)) for _ in range(rank - 2)] + [self.size(), self.size()]
        if self.random.random() < 0.3:
            sizes[-2] *= self.random.choice((64, 1024, 4096))
        return sizes

    def cut(self, shape: list[int], *dims: int) -> Cut:
        """Returns how one of ``dims`` (any by default) is cut: over all chips, over a mesh axis, or two dims over both."""
        rank = len(shape)
        able = [d for d in dims or range(rank) if shape[d] % self.chips == 0]
        if not able or self.random.random() < 0.15:
            return None
        dim = self.random.choice(able)
        others = [d for d in able if d % rank != dim % rank]
        forms: list[Cut] = [dim, dim - rank if dim >= 0 else dim, [dim, None], [None, dim]]
        forms += [[dim, self.random.choice(others)]] if others else []
        return self.random.choice(forms)

    def axis(self) -> int | None:
        """Returns mostly the columns: on a 2-D mesh without a 2-D fabric few calls take all chips."""
        return self.random.choice((None, 1, 1) if self.mesh[0] == 1 else (None, 0, 1, 1))


def elementwise(draw: Draw, name: str, operands: int) -> MeshCall:
    shape = draw.shape(draw.random.choice((2, 3, 4)))
    cut = draw.cut(shape)
    call = f"ttnn.{name}({', '.join(NAMES[:operands])}, **out)"
    return MeshCall(name, [shape] * operands, [cut] * operands, {}, call)


def matmul(draw: Draw, way: str) -> MeshCall:
    """Weights cut by columns, both operands by the inner dim, or rows and columns over the two axes."""
    rows, inner, columns = draw.size(), draw.size(), draw.size()
    ways: dict[str, list[Cut]] = {"columns": [None, 1], "inner": [3, 0], "both": [[2, None], [None, 1]]}
    cuts = ways[way]
    return MeshCall("matmul", [[1, 1, rows, inner], [inner, columns]], cuts, {}, "ttnn.matmul(a, b, **out)")


def softmax(draw: Draw) -> MeshCall:
    shape = draw.shape(3)
    return MeshCall("softmax", [shape], [draw.cut(shape)], {"dim": -1}, "ttnn.softmax(a, dim=-1, **out)")


def joined(draw: Draw) -> MeshCall:
    shape = draw.shape(3)
    cut = draw.cut(shape)
    return MeshCall("cat", [shape, shape], [cut, cut], {"dim": 1}, "ttnn.concat([a, b], dim=1, **out)")


def collective(draw: Draw, name: str) -> MeshCall:
    shape = draw.shape(draw.random.choice((2, 3, 4)))
    attrs: dict[str, Any] = {}
    if name in ("all_gather", "reduce_scatter", "mesh_partition"):
        attrs["dim"] = draw.random.choice((-1, -2, len(shape) - 1, 0))
    if (axis := draw.axis()) is not None:
        attrs["cluster_axis"] = axis
    words = [f"{key}={value}" for key, value in attrs.items()]
    if name == "broadcast":
        attrs["sender_coord"] = [0, 0]
        words.append("sender_coord=ttnn.MeshCoordinate(0, 0)")
    fabric = None
    if name != "mesh_partition":
        fabric = draw.random.choice(("FABRIC_1D", "FABRIC_1D", "FABRIC_1D_RING", "FABRIC_2D"))
        attrs |= {"fabric_config": fabric} if fabric != "FABRIC_1D" else {}
    call = f"ttnn.{name}({', '.join(['a', *words, '**out'])})"
    return MeshCall(name, [shape], [draw.cut(shape)], attrs, call, fabric)


COLLECTIVES = ("all_gather", "reduce_scatter", "all_reduce", "all_broadcast", "mesh_partition", "broadcast")
DRAWS: tuple[Callable[[Draw], MeshCall], ...] = (
    lambda draw: elementwise(draw, "relu", 1),
    lambda draw: elementwise(draw, "add", 2),
    lambda draw: matmul(draw, draw.random.choice(("columns", "inner", "both"))),
    softmax,
    joined,
    *((lambda draw, name=name: collective(draw, name)) for name in COLLECTIVES),
)


def calls(count: int, seed: int, mesh: tuple[int, int]) -> list[MeshCall]:
    random = Random(seed)
    listed = []
    for number in range(count):
        call = DRAWS[number % len(DRAWS)](Draw(random, mesh))
        call.dtype = random.choice(("bfloat16", "bfloat16", "float32", "bfloat8_b"))
        rows = random.random() < 0.25 and call.dtype != "bfloat8_b" and call.operator not in ("matmul", "softmax")
        call.layout = "row_major" if rows else "tile"
        call.memory = random.choice(("dram", "l1", "l1"))
        call.output = random.choice(("same", "same", "dram", "l1"))
        listed.append(call)
    return sorted(listed, key=lambda call: call.fabric or "")


def made_plainly(listed: list[MeshCall], folder: Path, board: str, options: list[str]) -> list[dict[str, Any]]:
    """Returns what became of each call in a plain program; one that ends the program is a crash, and the next starts anew."""
    source, target = folder / "calls.json", folder / "outcomes.jsonl"
    source.write_text(json.dumps([call.plain() for call in listed]))
    target.touch()
    mesh = "x".join(map(str, BOARDS[board]))
    while (count := len(target.read_text().splitlines())) < len(listed):
        words = ["exec", *options, "--", sys.executable, str(PLAIN), mesh, str(source), str(target), str(count)]
        done = subprocess.run([sys.executable, "-m", "ssinghal", *words], capture_output=True, text=True)
        if len(target.read_text().splitlines()) == count and done.returncode == 1:
            raise SystemExit(done.stderr[-2000:])
        if len(target.read_text().splitlines()) < len(listed):
            with target.open("a") as file:
                file.write(json.dumps({"crash": done.returncode}) + "\n")
    return [json.loads(line) for line in target.read_text().splitlines()]


def fault_of(call: MeshCall, record: dict[str, Any], plain: dict[str, Any], mesh: tuple[int, int]) -> str:
    if tuple(record["mesh"]) != mesh or record["operands"] != call.case()["operands"][: len(record["operands"])]:
        return f"mesh {record['mesh']}, operands {record['operands']}"
    if record["status"] == "invalid" and "error" in plain:
        return ""  # known before TTNN, which may run out of memory before it checks
    if fault := difference(record, plain):
        return fault
    shapes = [tensor["shape"] for tensor in record["tensors"] if tensor["label"].startswith("output")]
    return f"results {shapes}, in the plain program {plain['shapes']}" if "fits" in plain and shapes != plain["shapes"] else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--board", choices=BOARDS, default="t3k_2x4")
    parser.add_argument("--ttnn")
    words = parser.parse_args()
    mesh = BOARDS[words.board]
    options = ["--board", words.board, *(["--ttnn", words.ttnn] if words.ttnn else [])]
    listed = calls(words.calls, words.seed, mesh)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cases = folder / "cases.jsonl"
        cases.write_text("".join(json.dumps(call.case()) + "\n" for call in listed))
        records, plain = probed(cases, options), made_plainly(listed, folder, words.board, options)
    outcomes: dict[str, Counter[str]] = {}
    faults = []
    for call, record, other in zip(listed, records, plain, strict=True):
        outcomes.setdefault(call.operator, Counter())[record["status"]] += 1
        if fault := fault_of(call, record, other, mesh):
            faults.append(f"{call.operator} {json.dumps(call.case())}\n    {call.call}\n    {fault}")
    for operator, counted in sorted(outcomes.items()):
        print(f"{operator:20} {', '.join(f'{count} {status}' for status, count in sorted(counted.items()))}")
    print(*faults, sep="\n")
    statuses = sum(outcomes.values(), Counter())
    print(f"{len(listed):,} calls of {len(outcomes)} operators ({', '.join(f'{n:,} {s}' for s, n in statuses.most_common())})")
    print(f"{len(faults):,} differences")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
