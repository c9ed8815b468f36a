"""Measures plans in L1 of complete models on virtual boards: what stays in L1, what moves through DRAM, and how long it takes.

    python benchmarks/l1_plans.py [--board n150,p150] [--options "--weights bfloat8_b"] [MODEL ...]

Each plan is a process of its own, `ssinghal plan MODEL --policy l1 --json`. Run it twice: the first run fills the kernel cache.
Times are wall time: of all searches with the calls that they try, of all runs of the complete model, and of the process.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import time
from pathlib import Path

MODELS = Path(__file__).parent.parent / "examples" / "models"
UNET = "vgg_unet:vgg_unet"
MOCHI = "--rewrite depth_to_space --rewrite pad_into_conv --rewrite whole_convolution"
# model, input, further options
PLANS = (
    ("torchvision/resnet50", "1,3,224,224", ""),
    ("torchvision/resnet50", "16,3,224,224", ""),
    ("torchvision/vit_b_16", "1,3,224,224", ""),
    ("torchvision/vit_b_16", "8,3,224,224", ""),
    ("torchvision/efficientnet_b0", "1,3,224,224", ""),
    ("transformers/segformer-b0", "1,3,512,512", ""),
    ("torchvision/swin_b", "1,3,224,224", ""),
    ("ultralytics/yolov8s", "1,3,640,640", ""),
    ("ultralytics/yolo12x", "1,3,640,640", ""),
    (UNET, "1,3,256,256", ""),
    ("diffusers/mochi-decoder", "1,12,4,60,106", MOCHI),
)
HEADER = (
    "| model, input | board | steps in L1 | bytes in L1 | DRAM B | of port's | activations B | resharded B | L1 peak B |"
    " free B | runs | steps | tried | search s | runs s | process s |"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--board", default="n150,p150")
    parser.add_argument("--options", default="", help="further options of ssinghal plan")
    parser.add_argument("models", nargs="*", help="parts of names and inputs: yolo12x, resnet50:16")
    given = parser.parse_args()
    print(f"{HEADER}\n{'|---' * HEADER.count(' | ')}|---|", flush=True)
    for model, shape, options in PLANS:
        if not given.models or any(part in f"{model}:{shape}" for part in given.models):
            for board in given.board.split(","):
                print(row(model, shape, board, shlex.split(f"{options} {given.options}")), flush=True)


def row(model: str, shape: str, board: str, options: list[str]) -> str:
    """Plans a model, and returns the row of a table."""
    started = time.perf_counter()
    command = [sys.executable, "-m", "ssinghal", "plan", model, "--input", shape, "--board", board, "--policy", "l1", "--json"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, cwd=MODELS if model == UNET else None)
    process_s = time.perf_counter() - started
    name = f"{model} {shape.replace(',', 'x')}"
    try:
        (plan,) = json.loads(done.stdout)
    except ValueError:
        return f"| {name} | {board} | {(done.stderr or done.stdout).strip().splitlines()[-1:]} |"
    result = plan["plan"]
    placed, moved, port = result["placement"], result["placement"]["moved"], result["placement"]["port"]
    if not placed["confirmed"] or moved is None:
        return f"| {name} | {board} | {result['status']}: {result['message']} | {process_s:.1f} |"
    (stay, calling), (in_l1, total) = placed["steps_in_l1"], placed["bytes_in_l1"]
    activations = moved["dram_bytes"] - moved["weights_bytes"] - moved["inputs_bytes"] - moved["results_bytes"]
    free = min(step["headroom_bytes"] for step in placed["steps"] if step["headroom_bytes"] is not None)
    ratio = f"{moved['dram_bytes'] / port['dram_bytes']:.3f}" if port else "port does not fit"
    cells = (
        f"{name} | {board} | {stay} of {calling} | {100 * in_l1 / max(total, 1):.1f} % | {moved['dram_bytes']:,} | {ratio}",
        f"{activations:,} | {moved['resharded_bytes']:,} | {placed['peak_bytes']:,} | {free:,}",
        f"{1 + len(placed['failed_runs'])} | {len(placed['steps'])} | {placed['probes']:,}",
        f"{placed['search_s']:.1f} | {placed['run_s']:.1f} | {process_s:.1f}",
    )
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
