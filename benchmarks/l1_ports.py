"""Compares plans with hand-written ports: bytes through DRAM, bytes resharded and peaks of L1, layer by layer.

    ssinghal plan torchvision/resnet50 --input 16,3,224,224 --policy l1 --json > plan.json
    ssinghal catalog capture torchvision/resnet50 --input 16,3,224,224 --trace -o resnet50.trace.json.gz
    python benchmarks/l1_ports.py resnet50.jsonl.gz plan.json resnet50.trace.json.gz [--layers]

The record of the port has a line of JSON for each TTNN call (see ``port_records``). Both are counted alike, at each call:
operands read from DRAM and results written to it, weights among them; views and transfers from and to the host are not. Of a
record with several forwards the last one counts. Layers that do not match are counted, with what they move.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from port_layers import Layer, matched, plan_layers, port_layers, unmatched
from port_records import forward, input_bytes, l1_peaks, read_calls, resident_bytes

from ssinghal.capture.trace_library import find_trace
from ssinghal.core.boards import load_board
from ssinghal.core.parsing import dtype_named
from ssinghal.errors import InvalidCase
from ssinghal.plan.lowering import planned_steps
from ssinghal.plan.passes.registry import rewritten
from ssinghal.plan.placement import Traffic
from ssinghal.plan.policy import WEIGHTS, Lifetime, PortingPolicy, Rewrite

BOARD = "n150"  # of the records
WORST = 10  # layers that are listed without --layers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("record", type=Path, help="of the port, *.jsonl.gz")
    parser.add_argument("plan", type=Path, help="what ssinghal plan --json printed")
    parser.add_argument("trace", help="file of the trace that was planned, or the name of a built-in one")
    parser.add_argument("--layers", action="store_true", help="list all layers, not only those that move the most more")
    options = parser.parse_args()
    try:
        sys.stdout.write(comparison(options.record, options.plan, options.trace, all_layers=options.layers))
    except InvalidCase as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)


def comparison(record: Path, plan_file: Path, trace_name: str, *, all_layers: bool) -> str:
    """Returns the tables in Markdown. InvalidCase for files that are not what they should be."""
    board, plan = load_board(BOARD), read_plan(plan_file)
    calls = forward(read_calls(record))
    trace = rewritten(find_trace(trace_name), policy_of(plan))
    port, planned = port_layers(calls, board), plan_layers(trace, planned_steps(trace), plan["steps"], forms_of(plan))
    pairs = matched(port, planned)
    lost = list(unmatched(port, (i for i, _ in pairs))), list(unmatched(planned, (j for _, j in pairs)))
    unknown = sum(call.unknown_programs for call in calls)
    peaks = l1_peaks(calls), (plan["l1_peak_bytes"], max(use["l1_total_peak_bytes"] for use in plan["steps"]))
    inputs = input_bytes(calls, board), sum(use["inputs_read_bytes"] for use in plan["steps"])
    weights = sum(use["weights_read_bytes"] for use in plan["steps"])
    own = resident_bytes(calls, board), weights + inputs[1]
    lines = [
        f"{record.name} and {plan['model']} under {plan['policy_name']}: {plan['status']}",
        "",
        *_totals((port, planned), own, inputs, peaks),
        "",
        f"{len(pairs)} layers match; {_left(lost[0])} of the port and {_left(lost[1])} of the plan do not",
        f"{unknown} programs of the port have buffers that TTNN did not report: its peak with programs is at least that",
        "",
        *_layer_table([(port[i], planned[j]) for i, j in pairs], all_layers=all_layers),
        *(line for name, layers in zip(("port", "plan"), lost, strict=True) for line in _lost_table(name, layers, all_layers)),
    ]
    return "\n".join(lines) + "\n"


def read_plan(path: Path) -> dict[str, Any]:
    """Returns the plan of the records' board. InvalidCase where the file has none."""
    try:
        document = json.loads(path.read_text())
        plans = [entry["plan"] for entry in (document if isinstance(document, list) else [document])]
        return next(plan for plan in plans if plan["board"] == BOARD)
    except (OSError, ValueError, KeyError, TypeError, StopIteration) as error:
        raise InvalidCase(f"{path}: expected the JSON of `ssinghal plan --json`, with a plan on {BOARD}") from error


def forms_of(plan: dict[str, Any]) -> dict[int, str]:
    """Returns how the first result of each step is held, which a plan has under policy ``l1``."""
    steps = (plan.get("placement") or {}).get("steps", [])
    firsts = {step["number"]: step["results"][0] for step in steps if step["results"]}
    return {number: f"{x['memory']} {x['dtype']} {x['layout']}" for number, x in firsts.items()}


def policy_of(plan: dict[str, Any]) -> PortingPolicy:
    """Returns the policy of a plan as far as it changes the steps of a trace."""
    given = plan["policy"]
    weights = None if given["weights"] is None else dtype_named(given["weights"], "weights", WEIGHTS)
    switches = {name: given[name] for name in ("lazy_views", "fold_batch_norm", "replace_on_conversion", "transposed_matmul")}
    rewrites = tuple(map(Rewrite, given["rewrites"]))
    return PortingPolicy(given["name"], lifetime=Lifetime(given["lifetime"]), rewrites=rewrites, weights=weights, **switches)


def _totals(
    layers: tuple[Sequence[Layer], Sequence[Layer]],
    own: tuple[int, int],
    inputs: tuple[int, int],
    peaks: tuple[tuple[int, int], tuple[int, int]],
) -> list[str]:
    """Returns a table of the sums over the port's layers and the plan's.

    ``own``: the bytes of weights and inputs that each reads from DRAM; ``inputs``: of inputs alone.
    """
    theirs, ours = (sum((layer.traffic for layer in side), Traffic()) for side in layers)
    rows = [
        ("through DRAM", theirs.dram_bytes, ours.dram_bytes),
        ("... weights and inputs", *own),
        ("... activations and results", theirs.dram_bytes - own[0], ours.dram_bytes - own[1]),
        ("resharded", theirs.reshard_bytes, ours.reshard_bytes),
        ("DRAM and resharded", theirs.cost[0], ours.cost[0]),
        ("... without the inputs", theirs.cost[0] - inputs[0], ours.cost[0] - inputs[1]),
        ("layout changes", theirs.changes, ours.changes),
        ("L1 of tensors, most per core", peaks[0][0], peaks[1][0]),
        ("L1 with programs, most per core", peaks[0][1], peaks[1][1]),
    ]
    body = [_row(name, f"{a:,}", f"{b:,}", f"{b / a:.2f}" if a else "") for name, a, b in rows]
    return [_row("bytes", "port", "plan", "plan / port"), _row("---", "---:", "---:", "---:"), *body]


def _left(layers: Sequence[Layer]) -> str:
    traffic = sum((layer.traffic for layer in layers), Traffic())
    return f"{len(layers)} ({traffic.cost[0]:,} B moved)"


def _layer_table(pairs: Sequence[tuple[Layer, Layer]], *, all_layers: bool) -> list[str]:
    shown = list(pairs)
    if not all_layers:
        shown = sorted(pairs, key=lambda pair: pair[0].traffic.cost[0] - pair[1].traffic.cost[0])[:WORST]
    sizes = (f"{side} {what}" for what in ("L1", "DRAM", "resharded") for side in ("port", "plan"))
    lines = [_row("layer", "call of the port", "result of the port", "of the plan", *sizes), _row(*["---"] * 4, *["---:"] * 6)]
    for theirs, ours in shown:
        numbers = [theirs.l1_bytes, ours.l1_bytes, theirs.traffic.dram_bytes, ours.traffic.dram_bytes]
        numbers += [theirs.traffic.reshard_bytes, ours.traffic.reshard_bytes]
        lines.append(_row(ours.name, theirs.name, theirs.form, ours.form, *(f"{number:,}" for number in numbers)))
    return lines


def _lost_table(name: str, layers: Sequence[Layer], all_layers: bool) -> list[str]:
    shown = list(layers) if all_layers else sorted(layers, key=lambda layer: -layer.traffic.cost[0])[:WORST]
    if not shown:
        return []
    titles = _row(f"without a match in the {name}", "elements", "channels", "DRAM", "resharded")
    lines = ["", titles, _row("---", *["---:"] * 4)]
    for layer in shown:
        assert layer.key is not None
        sizes = (layer.key.elements, layer.key.channels, layer.traffic.dram_bytes, layer.traffic.reshard_bytes)
        lines.append(_row(f"{layer.name}: {layer.key.kind}", *(f"{size:,}" for size in sizes)))
    return lines


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
