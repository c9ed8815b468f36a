"""Compares the answers of two checkouts: a refactoring must not change any.

    python scripts/compare_checkouts.py record CHECKOUT FOLDER    # runs COMMANDS; keeps stdout, stderr and exit codes
    python scripts/compare_checkouts.py compare FOLDER FOLDER     # names every command whose answer differs
    python scripts/compare_checkouts.py records RUN RUN           # compares the records of two run folders

JSON is compared by value and everything else by line; times, dates and temporary paths are ignored. With ``--numbers`` only
the numbers of a text are compared, so that rewording a message is no difference.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

OOM_ADD = "add 1,64,640,400 1,64,640,400 --memory l1 --channels-last"
CONV = "convolution 1,64,80,80 64,64,3,3 64 --attr padding=1,1"
LOGS = "{repo}/../shared/virtual_device"
COMMANDS = f"""
doctor
operators
operators --json
operators --missing
catalog list
catalog check
catalog find 1,768,4,60,106
catalog find 1,*,160,160
catalog find 9,9,9,9
catalog diff ultralytics-yolo12x-640x640 ultralytics-yolo12x-2176x3840
estimate {OOM_ADD}
estimate {OOM_ADD} --json
estimate softmax 1,12,1024,1024 --attr dim=-1 --memory l1
estimate add 1,1,1024,1024 1,1,1024,1024 --shard height --memory l1
probe {OOM_ADD}
probe {OOM_ADD} --json
probe softmax 1,12,1024,1024 --attr dim=-1 --json
probe {CONV} --json
probe {CONV} --board p150 --json
probe max_pool2d 1,64,112,112 --attr kernel_size=3,3 --attr stride=2,2 --attr padding=1,1 --json
probe view 1,64,80,80 --attr size=1,64,6400 --json
probe nosuch 1,2
probe add 1,2 3,4
probe add 1,64,x
probe softmax 1,12,1024,1024 --attr dims=-1
probe add 1,2 1,2 --board n15
probe embedding 1000,64 8,16 --json
probe topk 1,128 --attr k=5 --json
probe scaled_dot_product_attention 1,8,128,64 1,8,128,64 1,8,128,64 --json
probe matmul 1,8,128,64 1,8,64,128 --ttnn 0.75.0 --json
remedy {OOM_ADD}
remedy {OOM_ADD} --json
remedy softmax 1,12,1024,1024 --attr dim=-1 --memory l1 --live 40MiB@l1 --json
remedy concat 1,64,320,320 1,64,320,320 --attr dim=1 --memory l1 --json
edge softmax 1,12,1024,1024 --attr dim=-1 --memory l1 --max batch
edge softmax 1,12,1024,1024 --attr dim=-1 --memory l1 --max batch --json
edge {OOM_ADD} --max resolution --json
precision {OOM_ADD} --bytes-only
precision {OOM_ADD} --bytes-only --json
precision ultralytics-yolo12x-640x640 --bytes-only --json
plan torchvision/resnet50 --input 1,3,224,224 --json
plan torchvision/resnet50 --input 1,3,224,224 --board n150,p150 --policy eager --json
plan nosuch/model
releases list
run torchvision-resnet50-224x224 mochi --results results
report latest --results results
report latest --results results -o other
compare latest latest --results results
compare latest latest --results results --json
history add 1,64,640,400 --results results
history relu 1,64,112,112 --results results --json
diagnose {{repo}}/tests/data/logs/mochi_runtime.log
diagnose {{repo}}/tests/data/logs/mochi_runtime.log --json
--version
--help
""".strip().splitlines()

TIMES = re.compile(r"\d+(\.\d+)? ?(ms|s|min)\b|\d{4}-?\d\d-?\d\dT[\d:.]+(Z|\+00:00)?|/tmp/\S+")
TIMED_LINES = re.compile(r"^ *TIME  |of the cases took|host memory of|^probing: ")  # lines that depend on the machine's load
VOLATILE = {
    "duration_s", "seconds", "started", "finished", "run", "command", "commit", "recorded_s", "worker_s", "host_rss_bytes",
    "peak_host_bytes", "max_rss_bytes", "path", "file", "results", "folder", "thrown_at",
}  # fmt: skip


def record(checkout: Path, folder: Path) -> None:
    """Runs every command of ``COMMANDS`` in ``checkout``, each in the same scratch folder."""
    folder.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "PYTHONPATH": str(checkout), "NO_COLOR": "1", "COLUMNS": "120"}
    with tempfile.TemporaryDirectory() as scratch:
        for number, command in enumerate(COMMANDS):
            logs = checkout / "tests/data" if (checkout / "tests/data").exists() else checkout / "ssinghal/meta_tests/data"
            arguments = command.replace("{repo}/tests/data", str(logs)).split()
            done = subprocess.run(
                [sys.executable, "-m", "ssinghal", *arguments], cwd=scratch, env=environment, capture_output=True, text=True
            )
            answer = {
                "command": command,
                "code": done.returncode,
                "out": done.stdout.replace(str(logs), "DATA").replace(str(checkout), "REPO"),
                "err": done.stderr.replace(str(logs), "DATA").replace(str(checkout), "REPO"),
            }
            (folder / f"{number:02}.json").write_text(json.dumps(answer, indent=1))
            print(number, done.returncode, command, flush=True)  # noqa: T201


def without_times(value: Any) -> Any:
    """``value`` of a JSON text without what differs from one run to the next."""
    if isinstance(value, dict):
        return {k: without_times(v) for k, v in value.items() if k not in VOLATILE}
    if isinstance(value, list):
        return [without_times(v) for v in value]
    return TIMES.sub("TIME", value) if isinstance(value, str) else value


def normal(text: str, numbers: bool) -> Any:
    """A text as it is compared: JSON by value, else its lines, or only their numbers."""
    try:
        return only_numbers(without_times(json.loads(text))) if numbers else without_times(json.loads(text))
    except ValueError:
        lines = [TIMES.sub("TIME", line).rstrip() for line in text.splitlines()]
        lines = [line for line in lines if not TIMED_LINES.search(line)]
        return re.findall(r"\d[\d,]*(?:\.\d+)?", "\n".join(lines)) if numbers else lines


def only_numbers(value: Any) -> Any:
    """Texts of a JSON value reduced to their numbers where they are sentences."""
    if isinstance(value, dict):
        return {k: only_numbers(v) for k, v in value.items()}
    if isinstance(value, list):
        return [only_numbers(v) for v in value]
    return re.findall(r"\d[\d,]*(?:\.\d+)?", value) if isinstance(value, str) and " " in value else value


def differences(one: Any, other: Any, at: str = "") -> Iterator[str]:
    """Where two JSON values differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other}, key=str):
            yield from differences(one.get(key), other.get(key), f"{at}.{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for i, (a, b) in enumerate(zip(one, other, strict=True)):
            yield from differences(a, b, f"{at}[{i}]")
    elif one != other:
        yield f"{at}: {str(one)[:160]!r} != {str(other)[:160]!r}"


def compare(before: Path, after: Path, numbers: bool) -> int:
    """Prints every command whose answer differs; the number of them."""
    count = 0
    for path in sorted(before.glob("*.json")):
        one, other = (json.loads((folder / path.name).read_text()) for folder in (before, after))
        found = [] if one["code"] == other["code"] else [f"exit code {one['code']} != {other['code']}"]
        for stream in ("out", "err"):
            found += [f"{stream}{d}" for d in differences(normal(one[stream], numbers), normal(other[stream], numbers))]
        if found:
            count += 1
            print(f"{path.stem} {one['command']}", *found[:6], sep="\n    ")  # noqa: T201
    print(f"{len(list(before.glob('*.json')))} commands, {count} differ")  # noqa: T201
    return count


def compare_records(before: Path, after: Path, numbers: bool) -> int:
    """Prints by which fields the records of two runs differ; the number of records that do."""
    sides = []
    for folder in (before, after):
        lines = (json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines())
        sides.append({(line["op"], line["id"]): without_times(line) for line in lines})
    fields: Counter[str] = Counter()
    count = 0
    for key in sorted({*sides[0], *sides[1]}):
        one, other = (only_numbers(side.get(key)) if numbers else side.get(key) for side in sides)
        found = list(differences(one, other))
        count += bool(found)
        fields.update(re.sub(r"\[\d+\]", "[]", line.partition(":")[0]) for line in found)
        if found and count <= 5:
            print(*key, *found[:3], sep="\n    ")  # noqa: T201
    print(f"{len(sides[0])} and {len(sides[1])} records, {count} differ", dict(fields))  # noqa: T201
    return count


def main() -> None:
    arguments = [a for a in sys.argv[1:] if a != "--numbers"]
    numbers = "--numbers" in sys.argv
    match arguments:
        case ["record", checkout, folder]:
            record(Path(checkout).resolve(), Path(folder))
        case ["compare", before, after]:
            sys.exit(bool(compare(Path(before), Path(after), numbers)))
        case ["records", before, after]:
            sys.exit(bool(compare_records(Path(before), Path(after), numbers)))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
