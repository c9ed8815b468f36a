"""Compares ``ssinghal probe`` with plain TTNN programs, on random calls with shards, mixed dtypes and settings.

    python benchmarks/sharded_calls.py [--calls 2000] [--seed 1] [--board n150] [--ttnn VERSION] [--only add,matmul]

Each call is made twice: by ``ssinghal probe --from``, and by ``plain_calls.py`` under ``ssinghal exec``. Verdict, resource and
all numbers must be the same: of a call that fits the bytes per bank of each memory and where the results are, of one that does
not the numbers in TTNN's text, of one that TTNN refuses its sentence. Prints the outcomes by operator and every difference;
exit code 1 if there is one.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from configured_calls import CONFIGURED
from random_calls import DRAWS, Call, calls

PLAIN = Path(__file__).with_name("plain_calls.py")
BOARDS = {"n150": ((8, 8), 12), "p100": ((11, 10), 7), "p150": ((11, 10), 8)}
MEMORIES = ("dram", "l1", "l1_small")
BUFFER = re.compile(
    r"Not enough space (?:after considering dependencies )?to allocate (\d+) B (DRAM|L1|L1_SMALL) .*?across (\d+) banks"
    r".*?(?:store (\d+) B|\((\d+) B per bank\)).*?bank size is (?:only )?(\d+) B"
    r" \(allocated: (\d+) B, free: (\d+) B, largest free block: (\d+) B\)"
)
BEYOND = re.compile(r"grow to (\d+) B which is beyond max L1 size of (\d+) B")
CLASH = re.compile(r"L1 buffer allocated at (\d+) and static \w+ buffer region ends at (\d+)")
NUMBERS = ("total_bytes", "bytes_per_bank", "bank_bytes", "program_bytes", "limit_bytes", "tensor_address")
RAN_OUT = ("Out of Memory", "beyond max L1 size", "clash with L1 buffers")


def probed(cases: Path, options: list[str]) -> list[dict[str, Any]]:
    """Returns the records of ``ssinghal probe``."""
    command = [sys.executable, "-m", "ssinghal", "probe", "--from", str(cases), "--workers", "1", *options]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 2:
        raise SystemExit(done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


def made_plainly(listed: list[Call], folder: Path, options: list[str]) -> list[dict[str, Any]]:
    """Returns what became of each call in a plain program; one that ends the program is a crash, and the next starts anew."""
    source, target = folder / "calls.json", folder / "outcomes.jsonl"
    source.write_text(json.dumps([call.plain_json() for call in listed]))
    target.touch()
    while (count := len(target.read_text().splitlines())) < len(listed):
        words = ["exec", *options, "--", sys.executable, str(PLAIN), str(source), str(target), str(count)]
        done = subprocess.run([sys.executable, "-m", "ssinghal", *words], capture_output=True, text=True)
        if len(target.read_text().splitlines()) == count and done.returncode == 1:
            raise SystemExit(done.stderr[-2000:])
        if len(target.read_text().splitlines()) < len(listed):
            with target.open("a") as file:
                file.write(json.dumps({"crash": done.returncode}) + "\n")
    return [json.loads(line) for line in target.read_text().splitlines()]


def numbers_of(text: str) -> dict[str, int]:
    """Returns the numbers of TTNN's text, by the fields of a record."""
    if match := BUFFER.search(text):
        total, _, banks, *needs, bank, allocated, free, largest = match.groups()
        need = next(n for n in needs if n)
        names = ("total_bytes", "banks", "bytes_per_bank", "bank_bytes", "allocated_bytes", "free_bytes", "largest_free_bytes")
        return dict(zip(names, map(int, (total, banks, need, bank, allocated, free, largest)), strict=True))
    if match := BEYOND.search(text):
        return {"program_bytes": int(match[1]), "limit_bytes": int(match[2])}
    if match := CLASH.search(text):
        return {"tensor_address": int(match[1]), "program_bytes": int(match[2])}
    return {}


def memory_text(config: str) -> str:
    """Returns a result's memory as records have it."""
    if not config.startswith("["):
        return config
    buffer, kind, shape, ranges, orientation = json.loads(config)
    if len(ranges) == 1 and ranges[0][0] == [0, 0]:
        cores = f"{ranges[0][1][0] + 1}x{ranges[0][1][1] + 1}"
    else:
        cores = "+".join(f"{a[0]},{a[1]}" + (f"-{b[0]},{b[1]}" if a != b else "") for a, b in ranges)
    return f"{buffer}:{kind}@{cores}:{'x'.join(map(str, shape))}{':col_major' if orientation == 'col_major' else ''}"


def difference(record: dict[str, Any], plain: dict[str, Any]) -> str:
    """Returns how a record differs from what the plain program met; empty where both agree."""
    status = record["status"]
    if "crash" in plain:
        return "" if status == "crash" else f"{status}, but the plain program ended with {plain['crash']}"
    if "fits" in plain:
        if status != "fits":
            return f"{status} ({record['message']}), but the plain call fits"
        resident = {name: record["resident"].get(name, 0) for name in MEMORIES}
        if resident != plain["fits"]:
            return f"resident {resident}, in the plain program {plain['fits']}"
        results = [t["memory"] for t in record["tensors"] if t["label"].startswith("output")]
        if results != list(map(memory_text, plain["results"])):
            return f"results in {results}, in the plain program {plain['results']}"
        return ""
    text = " ".join(plain["error"].split())
    if status == "unsupported" and record["decided_by"] == "registry":
        return ""  # the registry refuses before TTNN allocates the result
    if status == "oom" and not any(words in text for words in RAN_OUT):
        missing = [name for name in NUMBERS if record.get(name) is not None and str(record[name]) not in text]
        return f"{', '.join(missing)} not in: {text[:300]}" if missing else ""
    if any(words in text for words in RAN_OUT):
        if status != "oom":
            return f"{status} ({record['message']}), but the plain call met: {text[:200]}"
        wanted = numbers_of(text)
        if not wanted:
            return f"not understood: {text[:300]}"
        got = {name: record.get(name) for name in wanted}
        operand = record["stage"].startswith("input")
        if operand != (plain["at"] is not None):
            return f"ran out at {record['stage']}, in the plain program at {plain['at']}"
        return "" if got == wanted else f"{got}, in the plain program {wanted}"
    if status not in ("error", "unsupported", "invalid"):
        return f"{status}, but the plain call met: {text[:200]}"
    if record["decided_by"] == "ttnn" and " ".join(record["message"].split()).rstrip("…. ")[:60] not in text:
        return f"message {record['message']!r} is not in {text[:300]!r}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--board", choices=BOARDS, default="n150")
    parser.add_argument("--ttnn")
    parser.add_argument("--configured", action="store_true", help="calls with settings: those of configured_calls.py")
    parser.add_argument("--only", default="", help="kinds of calls, separated by commas")
    words = parser.parse_args()
    kinds = CONFIGURED if words.configured else DRAWS
    draws = [kinds[name] for name in words.only.split(",") if name] or list(kinds.values())
    grid, banks = BOARDS[words.board]
    options = ["--board", words.board, *(["--ttnn", words.ttnn] if words.ttnn else [])]
    listed = sorted(calls(words.calls, words.seed, grid, banks, draws), key=lambda call: call.l1_small)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cases = folder / "cases.jsonl"
        cases.write_text("".join(json.dumps(call.case()) + "\n" for call in listed))
        records, plain = probed(cases, options), made_plainly(listed, folder, options)
    outcomes: dict[str, Counter[str]] = {}
    faults = []
    for call, record, other in zip(listed, records, plain, strict=True):
        outcomes.setdefault(call.operator, Counter())[record["status"]] += 1
        if fault := difference(record, other):
            faults.append(f"{call.operator} {json.dumps(call.case())}\n    {call.plain}\n    {fault}")
    for operator, counted in sorted(outcomes.items()):
        print(f"{operator:20} {', '.join(f'{count} {status}' for status, count in sorted(counted.items()))}")
    print(*faults, sep="\n")
    statuses = sum(outcomes.values(), Counter())
    print(f"{len(listed):,} calls of {len(outcomes)} operators ({', '.join(f'{n:,} {s}' for s, n in statuses.most_common())})")
    print(f"{len(faults):,} differences")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
