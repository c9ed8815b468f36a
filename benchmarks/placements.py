"""Counts where the calls of models fit: in DRAM, in interleaved L1, and in L1 in shards, with weights in bfloat8_b.

    python benchmarks/placements.py [--board n150] [--weights bfloat8_b] [--model resnet50] [--results FOLDER] [--headroom 60]

Runs ``ssinghal run --placements`` once for each model. A model without a built-in catalog at its input is captured first, which
needs its package. Prints Markdown: a row for each model, then its first three calls that fit nowhere but in DRAM, and those
that fit in L1 but not in shards, with what stops them elsewhere. With --results, the runs stay there, for ``ssinghal report``.

--headroom N checks the headroom of N of the calls, chosen by a seed, on the allocator: beside a buffer that takes as much of
each bank, the call must fit, and beside a larger one it must not.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ssinghal.catalog.placements import parse_placements
from ssinghal.core.boards import load_board
from ssinghal.core.memory_config import BufferType, MemoryConfig
from ssinghal.core.tensors import DType, Layout, TensorSpec
from ssinghal.device.modes import choose_device
from ssinghal.device.session import Session
from ssinghal.device.virtual import apply_environment, environment_for
from ssinghal.operators.binding import BoundCall, bind
from ssinghal.render.markdown import code, table, text
from ssinghal.report.placement_text import SHOWN
from ssinghal.report.placement_view import ModelPlacements, Placed, PlacedCall, placement_views
from ssinghal.runs.parsing import case_of
from ssinghal.runs.reader import read_run

# A built-in catalog, or the model and the input to capture.
MODELS = {
    "yolo12x, 640x640": ("ultralytics-yolo12x-640x640",),
    "resnet50, 224x224": ("torchvision-resnet50-224x224",),
    "resnet50, 224x224, batch 16": ("torchvision/resnet50", "16,3,224,224"),
    "vit_b_16, 224x224": ("torchvision-vit_b_16-224x224",),
    "segformer-b0, 512x512": ("transformers/segformer-b0", "1,3,512,512"),
    "swin_b, 224x224": ("torchvision/swin_b", "1,3,224,224"),
    "Mochi decoder, 4x60x106": ("diffusers-mochi-decoder-4x60x106",),
}
SEED = 20261129
PLACEMENTS = "dram,l1,height,width,block"


def ssinghal(*arguments: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([sys.executable, "-m", "ssinghal", *arguments], text=True, stdout=subprocess.PIPE)
    if done.returncode > 1:  # 1: a case ended with an error or without a verdict, which the record states
        raise SystemExit(f"ssinghal {' '.join(arguments)}: exit code {done.returncode}")
    return done


def catalog_of(source: tuple[str, ...], folder: Path) -> str:
    """Returns the name of a built-in catalog, or the file of a captured one."""
    if len(source) == 1:
        return source[0]
    model, size = source
    file = folder / f"{model.replace('/', '-')}-{size.replace(',', 'x')}.yaml"
    if not file.exists():
        ssinghal("catalog", "capture", model, "--input", size, "-o", str(file))
    return str(file)


def placed(catalog: str, results: Path, arguments: argparse.Namespace) -> tuple[ModelPlacements, float]:
    """Runs the calls of a catalog in all placements; returns the view of its model, and the seconds of the run."""
    options = ["--placements", PLACEMENTS, "--board", arguments.board, "--results", str(results)]
    options += ["--weights", arguments.weights] if arguments.weights else []
    started = time.perf_counter()
    summary: dict[str, Any] = json.loads(ssinghal("run", catalog, *options, "--json").stdout)
    (view,) = placement_views(read_run(Path(summary["folder"])))
    (model,) = view.models
    return model, time.perf_counter() - started


def row_of(name: str, model: ModelPlacements, seconds: float) -> list[object]:
    memories = parse_placements(PLACEMENTS)
    alone = sum(calls for _, calls in model.dram_alone)
    counts = (model.fitting(memory) for memory in memories)
    return [name, model.calls, *counts, model.sharded, alone, round(seconds)]


def examples(title: str, found: Mapping[str, Sequence[tuple[PlacedCall, int]]]) -> str:
    """Returns a table of the first calls of each model, with what stops them elsewhere."""
    rows = [[name, calls, code(row.text), text(row.reasons)] for name, of in found.items() for row, calls in of[:SHOWN]]
    return table(["model", "calls", title, "elsewhere"], rows)


def known_headrooms(models: list[ModelPlacements], count: int) -> list[Placed]:
    """Returns some of the placements in L1 whose headroom is known."""
    known = [placed for model in models for row, _ in model.rows for memory, placed in row.placed.items()
             if placed.headroom_bytes is not None and memory != BufferType.DRAM]  # fmt: skip
    return random.Random(SEED).sample(known, min(count, len(known)))


def wrong_headrooms(found: list[Placed], board: str) -> list[str]:
    """Returns the calls that fit beside more than their headroom, or do not fit beside as much."""
    choice = choose_device("virtual", board)
    wrong = []
    with tempfile.TemporaryDirectory() as scratch:
        apply_environment(environment_for(choice, Path(scratch)))
        with Session(choice) as session:
            granule = load_board(board).l1.alignment_bytes * 2
            for placed in found:
                session.use_regions(placed.record.l1_small_size or 0)
                call = bind(case_of(placed.record), session.board)
                free = (placed.headroom_bytes or 0) // granule * granule
                fits = fits_beside(call, free, session), fits_beside(call, free + granule, session)
                if fits != (True, False):
                    wrong.append(f"{placed.record.op} {placed.record.id}: {placed.room}, fits beside as much, more: {fits}")
    return wrong


def fits_beside(call: BoundCall, size_bytes: int, session: Session) -> bool:
    """Whether the call fits while a buffer takes so many bytes of each L1 bank."""
    banks = session.board.l1.num_banks
    rows = TensorSpec((banks, max(size_bytes, 1)), DType.UINT8, Layout.ROW_MAJOR, MemoryConfig(BufferType.L1))
    tensors = []
    try:
        tensors += [session.empty(rows)] if size_bytes else []
        tensors += [session.empty(spec) for spec in call.inputs]
        operands = tensors[-len(call.inputs) :] if call.inputs else []
        tensors += call.run(session.ttnn, session.device, operands, session.output_arguments(call.requested_output))
    except RuntimeError:
        return False
    finally:
        for tensor in tensors:
            if tensor.is_allocated():
                tensor.deallocate()
        session.clear()
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--board", default="n150")
    parser.add_argument("--weights", default="bfloat8_b")
    parser.add_argument("--model", default="", help="only models with this text in their name")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--headroom", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        results = arguments.results or Path(scratch)
        results.mkdir(parents=True, exist_ok=True)
        chosen = {name: source for name, source in MODELS.items() if arguments.model in name}
        models = {name: placed(catalog_of(source, results), results, arguments) for name, source in chosen.items()}
    header = ["model", "calls", *parse_placements(PLACEMENTS), "L1 sharded", "DRAM alone", "s"]
    print(table(header, [row_of(name, *measured) for name, measured in models.items()]))
    print(examples("fits in DRAM alone", {name: model.dram_alone for name, (model, _) in models.items()}))
    print(examples("fits in L1, but not sharded", {name: model.unsharded for name, (model, _) in models.items()}))
    if arguments.headroom:
        found = known_headrooms([model for model, _ in models.values()], arguments.headroom)
        wrong = wrong_headrooms(found, arguments.board)
        print(f"headroom: {len(found) - len(wrong)} of {len(found)} as the allocator has it", *wrong, sep="\n  ")


if __name__ == "__main__":
    main()
