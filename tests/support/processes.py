"""Runs of pytest and of the command line as a user makes them: in a process and a folder of their own, on a small catalog."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

# The 46 operator names of the suites this project replaces.
LISTED_NAMES = (
    "add addmm bmm cat clamp clampmin clone concat copy div dropout expand gelu geluactivation hardtanh identity leakyrelu "
    "linalgvectornorm linear log maxpool2d mean mish mm mul native_batch_norm ones permute relu sigmoid silu silu_inplace "
    "softmax softplus split split_with_sizes splitwithsizes stack sub tanh topk transpose unsafeview unsqueeze "
    "upsample_nearest2d view"
).split()

CONFTEST = 'pytest_plugins = ["ssinghal.plugin"]\n'

# Loaded before anything else (-p blocked, or as sitecustomize): neither torch nor ttnn can be found or imported.
BLOCKED = """
import importlib.metadata, sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "ttnn"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

def from_name(name, found=importlib.metadata.Distribution.from_name):
    if name in ("torch", "ttnn"):
        raise importlib.metadata.PackageNotFoundError(name)
    return found(name)

sys.meta_path.insert(0, Refuse())
importlib.metadata.Distribution.from_name = from_name
"""

# A captured catalog with one call that is a case, and five in two lines that no operator makes.
UNMAPPED = """\
schema: 1
kind: captured
model: {name: net, package: local==1, config: "my.models:net", factory: "my.models:net", params: 0, fused: false}
input: {shapes: [[1, 3]], dtype: bfloat16}
capture: {torch: 2.14.1, level: aten, device: meta, packages: [], guessed: 0}
counts: {calls: 6, cases: 3, left_out: {}}
placement: {dtype: bfloat16, layout: tile, memory: dram, output_memory: same}
ops:
  aten.add.Tensor:
  - {n: 1, in: {self: [1, 3], other: [1, 3]}, out: [1, 3], at: top}
  aten.nonsense.default:
  - {n: 2, in: {self: [1, 3]}, out: [1, 3], at: top}
  - {n: 3, in: {self: [1, 4]}, out: [1, 4], at: top}
"""


def module(operator: str, body: str) -> str:
    """A test module as those of the suites: the operator's mark, and tests without logic."""
    return f'import os, pathlib, signal\nimport pytest\n\npytestmark = pytest.mark.operator("{operator}")\n\n\n{body}\n'


def operator_module(operator: str) -> str:
    return module(operator, f"def test_{operator}(case, compare):\n    compare(case)")


def oom_module(operator: str) -> str:
    return module(
        operator,
        f"def test_oom_{operator}(case, expect_oom):\n    expect_oom(case)\n\n\n"
        f"def test_memory_estimation_{operator}(case, estimate):\n    estimate(case)",
    )


def catalog_text(operators: dict[str, list[dict[str, Any]]], memory: str = "l1") -> str:
    """A crossed catalog of these lines (JSON is YAML), with the origins and runs that its checks ask for."""
    lines = [line for section in operators.values() for line in section]
    shapes = {json.dumps(shape) for line in lines for shape in line.get("in", [line.get("shape")])}
    return json.dumps(
        {
            "schema": 1,
            "kind": "crossed",
            "title": "made for a test",
            "runs": {line["oom"]["run"]: "made for a test" for line in lines if "oom" in line},
            "placement": {
                "dtype": "bfloat16",
                "layout": "tile",
                "memory": memory,
                "output_memory": "same",
                "channels_last": True,
            },
            "origins": [{"shape": json.loads(shape), "none": "made for a test"} for shape in sorted(shapes)],
            "operators": operators,
        }
    )


class Suite:
    """A folder with a catalog and test modules, and the pytest runs made in it."""

    def __init__(
        self, folder: Path, operators: dict[str, list[dict[str, Any]]], modules: dict[str, str], **catalog: Any
    ) -> None:
        self.folder = folder
        self.catalog = folder / "catalog.yaml"
        self.catalog.write_text(catalog_text(operators, **catalog))
        (folder / "conftest.py").write_text(CONFTEST)
        for name, text in modules.items():
            (folder / name).write_text(text)

    def start(self, *arguments: str, results: bool = True, **environ: str) -> subprocess.Popen[str]:
        options = ["--oom-catalog", str(self.catalog), *(["--oom-results", "results"] if results else [])]
        return subprocess.Popen(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rA", *options, *arguments],
            cwd=self.folder,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **environ},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def run(self, *arguments: str, results: bool = True, **environ: str) -> tuple[int, str]:
        """Exit code and output."""
        process = self.start(*arguments, results=results, **environ)
        output, _ = process.communicate(timeout=180)
        return process.returncode, output

    @property
    def latest(self) -> Path:
        return self.folder / "results" / "latest"

    @property
    def info(self) -> dict[str, Any]:
        return dict(json.loads((self.latest / "run.json").read_text()))

    @property
    def records(self) -> list[dict[str, Any]]:
        return read_lines(self.latest / "records.jsonl")

    def statuses(self) -> dict[str, str]:
        """``op id`` -> status. A case with two records fails here."""
        records = self.records
        found = {f"{r['op']} {r['id']}": r["status"] for r in records}
        assert len(found) == len(records), "a case has two records"
        return found


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSONL file, whose last line must be a whole one."""
    text = path.read_text()
    assert text == "" or text.endswith("\n"), "the last line is not whole"
    return [json.loads(line) for line in text.splitlines()]


def as_in_the_foreground() -> None:
    """For ``preexec_fn``: where pytest is in the background, or in nohup, these signals are ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def wait_for(condition: Callable[[], bool], what: str, timeout_s: float = 60.0) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, f"{what}: not within {timeout_s:g} s"
        time.sleep(0.02)


def workers_of(pid: int) -> list[int]:
    """The device processes that this process has started."""
    children = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended since
            children += [int(child) for child in task.read_text().split()]
    return [child for child in children if _is_worker(child)]


def _is_worker(pid: int) -> bool:
    try:
        return b"ssinghal/runner/worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False


def all_ended(pids: Iterable[int]) -> bool:
    """True when none of these processes runs any more (a zombie has ended)."""
    return all(_state(pid) in ("", "Z") for pid in pids)


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""
