"""Files that are damaged, hostile or large, and calls that TTNN does not survive."""

from __future__ import annotations

import gzip
import json
import resource
import sys
from importlib.resources import files
from pathlib import Path

from .base import BAD_INPUT, Ended, Fault, Outcome, Place, ended, judged, records_of

OOM = (
    "RuntimeError: TT_FATAL @ bank_manager.cpp:462: Out of Memory: Not enough space to allocate {total} B L1 buffer across 64 "
    "banks, where each bank needs to store {bank} B, but bank size is 1393312 B"
)
TRACE = "torchvision-resnet50-224x224.trace.json.gz"
PROGRAM = """
import torch, ttnn
device = ttnn.open_device(device_id=0, trace_region_size=1 << 20)
x = ttnn.from_torch(torch.zeros(32, 32), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
ttnn.relu(x)
trace = ttnn.begin_trace_capture(device, cq_id=0)
y = ttnn.relu(x)
ttnn.end_trace_capture(device, trace, cq_id=0)
"""
MEMORY_LIMIT = 400 * 2**20  # resident, of a program that reads text


def store_corrupt(place: Place) -> Outcome:
    place.run("run", place.catalog())
    place.run("history", "relu", "1,1,32,32")
    stores = list((place.folder / "results").glob("store.sqlite*"))
    for path in stores:
        path.write_bytes(b"SQLite format 3\0" + bytes(range(256)) * 40)
    end = place.run("history", "relu", "1,1,32,32")
    short = [] if stores else ["there was no store"]
    words = ["store.sqlite"] if end.code else []
    return judged("a damaged store.sqlite: history", end, {0, BAD_INPUT}, words=words, short=short)


def records_damaged(place: Place) -> Outcome:
    place.run("run", place.catalog())
    path = place.runs()[0] / "records.jsonl"
    lines = path.read_text().splitlines()
    lines[3:5] = ['{"schema": 1, "op":', "\0\0\0\0"]
    path.write_text("\n".join(lines)[:-40])
    end = place.run("report")
    return judged("two damaged lines and a truncated one in records.jsonl: report", end, {0}, words=["incomplete", "3 of"])


def header_damaged(place: Place) -> Outcome:
    place.run("run", place.catalog())
    (place.runs()[0] / "run.json").write_text("{" * 100_000)
    end = place.run("report")
    return judged("a damaged run.json: report", end, {0, BAD_INPUT}, words=["run.json"])


def catalog_damaged(place: Place) -> Outcome:
    place.file("bad.yaml", "schema: 1\nkind: crossed\na: &a [1,1]\n" + "".join(f"b{n}: &b{n} [*a,*a,*a]\n" for n in range(9)))
    end = place.run("run", "bad.yaml")
    return judged("a catalog of aliases: run", end, {BAD_INPUT}, words=["bad.yaml"], lines=20)


def trace_damaged(place: Place) -> Outcome:
    packed = (files("ssinghal") / "shapes" / "traces" / TRACE).read_bytes()
    trace = json.loads(gzip.decompress(packed))
    number = next(n for n, step in enumerate(trace["steps"]) if "conv" in step[0])
    del trace["steps"][number][1]["weight"]
    place.file("net.trace.json", json.dumps(trace))
    end = place.run("plan", "net.trace.json")
    return judged("a trace whose step lacks an operand: plan", end, {BAD_INPUT}, words=["net.trace.json", f"step {number}"])


def mlir_nested(place: Place) -> Outcome:
    deep = "(" * 200_000
    text = f'#l = #ttnn.ttnn_layout<{deep}\nmodule {{\n %0 = "ttnn.add"({deep}) : tensor<{"tuple<" * 100_000}\n}}\n'
    return _bounded(place, text, "MLIR nested 200,000 deep: diagnose")


def mlir_looping(place: Place) -> Outcome:
    aliases = "".join(f"#l{n} = #ttnn.ttnn_layout<#l{(n + 1) % 1000}, #l{(n + 2) % 1000}>\n" for n in range(1000))
    call = '%0 = "ttnn.add"(%a, %a) : (tensor<32x32xbf16, #l0>, tensor<32x32xbf16, #l1>) -> tensor<32x32xbf16, #l2>'
    return _bounded(place, f"{aliases}module {{\n {call}\n}}\n", "MLIR whose names stand for each other: diagnose")


def _bounded(place: Place, text: str, done: str) -> Outcome:
    place.file("module.mlir", text)
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    end = place.run("diagnose", "module.mlir", "--no-replay")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    short = [f"{peak:,} B of memory"] if peak > max(MEMORY_LIMIT, before * 1024) else []
    return judged(done, end, {0, 1, BAD_INPUT}, short=short)


def many_failures(place: Place) -> Outcome:
    texts = [OOM.format(total=64 * 2048 * n, bank=2048 * n) + f"\nstep {n}\n\n" for n in range(700, 1700)]
    place.file("many.log", "".join(texts))
    end = place.run("diagnose", "many.log")
    words = ["more failures", "were only counted"]
    return judged("a log of 1,000 failures: diagnose", Ended(end.code, end.out, end.err), {1}, words=words)


def trace_captured(place: Place) -> Outcome:
    place.file("program.py", PROGRAM)
    end = place.run("exec", "--", sys.executable, "program.py")
    words = ["SIGSEGV", "--no-trace"]
    return judged("a program that captures a trace: exec", end, {139}, words=words, lines=None)


def release_removed_twice(place: Place) -> Outcome:
    place.environ["XDG_CACHE_HOME"] = str(place.folder / "cache")
    home = "cache/ssinghal/releases/ttnn-0.75.0"
    place.file(f"{home}/ttnn-0.75.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: ttnn\nVersion: 0.75.0\n")
    for name in ("ttnn-0.75.0.dist-info/RECORD", "ttnn/__init__.py", "ttnn/_ttnn.so", "ttnn/tt_metal/version"):
        place.file(f"{home}/{name}", "")
    both = [place.start("releases", "remove", "0.75.0") for _ in range(2)]
    ends = sorted((ended(process) for process in both), key=lambda end: end.code)
    short = [] if ends[0].code == 0 else [f"none removed it: {ends[0].err[-200:]}"]
    short += ["it is still there"] if Path(place.folder / home).exists() else []
    return judged("two commands that remove one release at once", ends[1], {BAD_INPUT}, words=["0.75.0"], short=short)


def call_that_would_crash(place: Place) -> Outcome:
    """TTNN divides by the stride of a pool, and the process ends by SIGFPE: the operator's own check refuses it before."""
    window = ["--attr=kernel_size=3,3", "--attr=stride=0,0", "--attr=padding=1,1"]
    end = place.run("probe", "max_pool2d", "1,32,64,64", *window)
    return judged("a pool of stride 0, at which TTNN crashes: probe", end, {BAD_INPUT}, words=["stride"])


def compared_damaged(place: Place) -> Outcome:
    place.run("run", place.catalog())
    place.run("run", place.catalog())
    path = place.runs()[0] / "records.jsonl"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    whole = len(records_of(place.runs()[0]))
    end = place.run("compare", place.runs()[0].name, place.runs()[1].name)
    return judged(f"a run cut to {whole} records: compare", end, {0, 1}, words=["have no record"])


FAULTS = (
    Fault("store-corrupt", store_corrupt),
    Fault("records-damaged", records_damaged),
    Fault("header-damaged", header_damaged),
    Fault("compared-damaged", compared_damaged),
    Fault("catalog-damaged", catalog_damaged),
    Fault("trace-damaged", trace_damaged),
    Fault("mlir-nested", mlir_nested),
    Fault("mlir-looping", mlir_looping),
    Fault("many-failures", many_failures),
    Fault("trace-captured", trace_captured),
    Fault("release-removed-twice", release_removed_twice),
    Fault("call-that-would-crash", call_that_would_crash),
)
