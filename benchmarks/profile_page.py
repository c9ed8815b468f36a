"""Measures the page of a large profile: how long it takes to write and to open in Chromium, and its size.

    python benchmarks/profile_page.py [--calls 50000,1000000] [--repeat 3]

The profile is replayed from records as the tracker writes them: a network of blocks, called again and again, with weights in
DRAM, tensors and program buffers in L1. Opening is measured in headless Chromium (the one on PATH) from navigation until
everything is drawn, selecting from the key that is pressed until the second frame after it. Times are reported as minimum and
maximum.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ssinghal.profile.json_report import write_json
from ssinghal.profile.page import page
from ssinghal.profile.replay import replay
from ssinghal.tracker.records import VERSION

Record = dict[str, Any]
BASE, TOP, BANK = 105_824, 1_499_136, 1_393_312  # of an n150's L1
DRAM = 1_072_693_184
BLOCKS, CALLS = 24, 20  # blocks of the network, calls of a block
TWO_FRAMES = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


def records(calls: int) -> Iterator[Record]:
    """Yields the records of a program of that many calls."""
    yield {"k": "program", "version": VERSION, "argv": ["network.py"], "pid": 1, "folder": "/home/user"}
    yield {
        "k": "device", "ttnn": "0.81.1", "arch": "wormhole_b0", "mesh": [1, 1], "grid": [8, 8], "granule": 32, "l1_base": BASE,
        "l1_top": TOP, "memories": {"dram": [12, DRAM, 0], "l1": [64, BANK, 0]},
    }  # fmt: skip
    for line in range(CALLS + BLOCKS + 1):
        function = "forward" if line >= CALLS + BLOCKS else "network" if line >= CALLS else "block"
        yield {"k": "site", "n": line, "file": "/home/user/network.py", "line": 10 + line, "function": function}
    for block in range(BLOCKS):
        for line in range(CALLS):
            stack = [line, CALLS + block, CALLS + BLOCKS]
            yield {"k": "stack", "n": 1_000 + block * CALLS + line, "sites": stack}
    for size in range(1, 9):
        yield {
            "k": "spec", "n": 9_000 + size, "shape": [1, 1, 512 * size, 2048], "dtype": "bfloat16", "layout": "tile",
            "memory": "l1", "memory_layout": "interleaved", "shard": None,
        }  # fmt: skip
    held: list[tuple[int, int, int]] = []  # address, bytes, spec
    used = 0
    for number in range(calls):
        line, block = number % CALLS, number // CALLS % BLOCKS
        size = 1 + (number * 7 + block) % 8
        gap = []
        while len(held) > 3 or (held and sum(each for _, each, _ in held) + size * 32_768 > 900_000):
            gap.append(["-", "l1", held.pop(number % len(held))[0]])
        address = free_address(held, size * 32_768)
        operands = [[spec, place] for place, _, spec in held[-2:]]
        held.append((address, size * 32_768, 9_000 + size))
        events = [["+", "l1", address, size * 32_768, size * 32_768 * 64], ["p", "Matmul", 10_000 + 5_000 * line, "measured"]]
        if number < BLOCKS * CALLS and line == 0:
            used += 1_000_000
            events.insert(0, ["+", "dram", 1_000_000 * block, 1_000_000, 12_000_000])
        allocated = sum(each for _, each, _ in held)
        yield {
            "k": "call", "n": number, "name": f"ttnn.operation_{line}", "stack": 1_000 + block * CALLS + line, "in": operands,
            "out": [[9_000 + size, address]], "gap": gap, "ev": events, "us": 100 + line, "others": 0,
            "view": {"dram": [used, DRAM - used], "l1": [allocated, BANK - allocated]},
        }  # fmt: skip
    yield {"k": "end", "gap": [], "others": 0}


def free_address(held: list[tuple[int, int, int]], size: int) -> int:
    """Returns the highest address at which a buffer finds room."""
    top = TOP
    for address, own, _ in sorted(held, reverse=True):
        if top - (address + own) >= size:
            break
        top = address
    return top - size


def opening(path: Path, repeat: int) -> tuple[list[float], list[float]]:
    """Returns seconds until the page is drawn, and seconds until another call is shown."""
    from playwright.sync_api import sync_playwright

    found = shutil.which("chromium")
    if found is None:
        sys.exit("no chromium on the PATH: apt-get install chromium")
    opened, selected = [], []
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=found, args=["--no-sandbox"])
        for _ in range(repeat):
            tab = browser.new_page(viewport={"width": 1440, "height": 900})
            begun = time.perf_counter()
            tab.goto(path.as_uri(), wait_until="commit")
            tab.wait_for_selector("main[aria-busy=false]", timeout=120_000)
            opened.append(time.perf_counter() - begun)
            tab.locator(".plot").nth(1).focus()
            begun = time.perf_counter()
            tab.keyboard.press("PageUp")
            tab.evaluate(TWO_FRAMES)
            selected.append(time.perf_counter() - begun)
            tab.close()
        browser.close()
    return opened, selected


def measure(calls: int, repeat: int, folder: Path) -> str:
    begun = time.perf_counter()
    profile = replay(records(calls))
    replayed = time.perf_counter() - begun
    if profile.differences:
        sys.exit("the records do not add up")
    path = folder / "profile.html"
    begun = time.perf_counter()
    path.write_text(page([profile]), encoding="utf-8")
    written = time.perf_counter() - begun
    begun = time.perf_counter()
    write_json(folder / "profile.json", [profile])
    document = time.perf_counter() - begun
    opened, selected = opening(path, repeat)
    sizes = [(folder / name).stat().st_size / 1024**2 for name in ("profile.html", "profile.json")]
    return (
        f"{calls:,} calls: replayed in {replayed:.2f} s; profile.html {sizes[0]:.2f} MiB in {written:.2f} s, "
        f"profile.json {sizes[1]:.1f} MiB in {document:.2f} s; opens in {min(opened):.2f} to {max(opened):.2f} s, "
        f"selects a call in {min(selected):.2f} to {max(selected):.2f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="How large the page of a profile is, and how quickly it opens")
    parser.add_argument("--calls", default="1000,10000,50000", help="numbers of calls")
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for calls in map(int, arguments.calls.split(",")):
            print(measure(calls, arguments.repeat, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
