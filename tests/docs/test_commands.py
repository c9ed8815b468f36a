"""Every command of README and docs is run, page by page, and prints what the page shows; what is not run is listed here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support.documents import LANGUAGES, PAGES, ROOT, Block, Step, blocks, name_of

SEPARATOR = "\x1e"
LIMIT_S = 300  # of one block, on a busy machine
DURATION = re.compile(r"\b\d+(?:\.\d+)? ?(?:ms|s|min)\b")
ANSI = re.compile(r"\x1b\[[0-9;]*m")

# Blocks that are not run, by page and reason: a new one is a decision.
NOT_RUN: dict[str, dict[str, int]] = {
    "CONTRIBUTING.md": {"sets up an environment": 1},
    "README.md": {"downloads packages": 2, "takes minutes": 1},
    "docs/catalogs.md": {"needs the packages of the models": 1},
    "docs/diagnose.md": {"needs a log and a module of your own": 1},
    "docs/edges.md": {"takes half a minute": 1},
    "docs/install.md": {"downloads packages": 3, "writes into the home folder": 1},
    "docs/nightly.md": {"needs downloaded artifacts": 1, "takes minutes": 1},
    "docs/plan.md": {"takes half a minute": 1, "takes minutes": 1},
    "docs/plan_l1.md": {"needs a recording": 1, "takes half a minute": 1},
    "docs/plan_program.md": {"takes half a minute": 1},
    "docs/port_operators.md": {"in the clone, where it writes results": 1, "needs a recording": 1},
    "docs/ports.md": {"takes minutes": 1},
    "docs/precision.md": {"takes half a minute": 1},
    "docs/reference/faults.md": {"takes minutes": 1},
    "docs/reference/safety.md": {"takes minutes": 1},
    "docs/releases.md": {"downloads releases": 1},
    "docs/remedies.md": {"needs a catalog or a run of your own": 1},
    "docs/reports.md": {"needs several runs": 1},
    "docs/scaling.md": {
        "completes an interrupted run": 1,
        "downloads packages": 1,
        "needs several machines": 1,
        "takes minutes": 3,
    },
    "docs/settings.md": {"downloads releases": 1},
    "docs/suites.md": {
        "takes minutes": 2,
        "unet.yaml is made in another guide": 1,
        "tests/pytest_plugin/test_installed.py runs such a test in an environment of its own": 1,
    },
    "docs/verification.md": {"takes half a minute": 1},
}

RUNNABLE = [page for page in PAGES if any(b.language in ("bash", "console", "python") and not b.skipped for b in blocks(page))]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_blocks_name_a_known_language(page: Path) -> None:
    assert [str(block) for block in blocks(page) if block.language not in LANGUAGES] == []


def test_blocks_that_are_not_run_are_those_listed() -> None:
    marked = {name_of(page): dict(Counter(block.skipped for block in blocks(page) if block.skipped)) for page in PAGES}
    assert {page: reasons for page, reasons in marked.items() if reasons} == NOT_RUN


@pytest.mark.virtual_device
@pytest.mark.parametrize("page", RUNNABLE, ids=name_of)
def test_commands_print_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    for block in blocks(page):
        if block.title:
            path = tmp_path / block.title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
        elif block.skipped:
            continue
        elif block.language in ("bash", "console"):
            _check_commands(block, ROOT if block.in_clone else tmp_path)
        elif block.language == "python":
            _check_program(block, tmp_path)


def _check_commands(block: Block, folder: Path) -> None:
    steps = block.steps
    assert steps, f"{block}: no command"
    lines = ["code=0"]
    for step in steps:
        lines += ["(exit $code)", step.command, "code=$?", f"printf '{SEPARATOR}%s{SEPARATOR}' $code"]
    done = run_program(["bash", "-c", "\n".join(lines)], folder).stdout
    outputs = done.split(SEPARATOR)
    for step, output, code in zip(steps, outputs[::2], outputs[1::2], strict=False):
        assert code in ("0", "1"), f"{block}: {step.command}\nends with {code}:\n{output}"
        assert "Traceback" not in output, f"{block}: {step.command}\n{output}"
        fault = _difference(step, output)
        assert not fault, f"{block}: {step.command}\nshows, but does not print: {fault}\nprints:\n{output}"
    assert len(outputs) == 2 * len(steps) + 1, f"{block}: ended early:\n{done}"


def _difference(step: Step, output: str) -> str:
    """The first line shown that is not printed in its place; empty where all are."""
    if step.output is None:
        return ""
    shown, printed = _lines(step.output), _lines(output)
    place, free = 0, False
    for line in shown:
        if line == "…":
            free = True
            continue
        matches = [number for number in range(place, len(printed)) if _fits(line, printed[number])]
        if not matches or (not free and matches[0] != place):
            return line
        place, free = matches[0] + 1, False
    return "" if free or place == len(printed) else f"(the end, or …) before {printed[place]!r}"


def _lines(text: str) -> list[str]:
    """Lines without colours, durations and what pads them."""
    plain = DURATION.sub("<time>", ANSI.sub("", text))
    return [" ".join(line.split()) for line in plain.splitlines() if line.strip()]


def _fits(shown: str, printed: str) -> bool:
    """Whether ``printed`` is ``shown``, in which … stands for any text."""
    return re.fullmatch(".*".join(map(re.escape, shown.split("…"))), printed) is not None


def _check_program(block: Block, folder: Path) -> None:
    path = folder / f"test_line_{block.line}.py"
    path.write_text(block.text)
    is_test = "def test_" in block.text
    done = run_program([sys.executable, *(["-m", "pytest", "-q"] if is_test else []), path.name], folder)
    assert done.returncode == 0, f"{block}\n{done.stdout}"


def run_program(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a command in a folder, with the programs of this environment and the modules of this tree."""
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "PYTEST_ADDOPTS": "-p no:cacheprovider",
        "COLUMNS": "120",
        "NO_COLOR": "1",
    }
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.run(command, cwd=folder, env=environment, text=True, timeout=LIMIT_S, **streams)


@pytest.mark.parametrize(
    ("shown", "printed", "fault"),
    [
        ("a\nb\n", "a\nb\n", ""),
        ("a  1.5 s\n", "a 30 s\n", ""),
        ("a …\n", "a 7 B\n", ""),
        ("…\nb\n", "x\ny\nb\n", ""),
        ("a\n…\n", "a\nx\n", ""),
        ("a\nc\n", "a\nb\nc\n", "c"),
        ("a 1 B\n", "a 2 B\n", "a 1 B"),
        ("a\n", "a\nb\n", "(the end, or …) before 'b'"),
        ("…\nb\n…\na\n", "a\nb\n", "a"),
    ],
)
def test_output_is_compared_line_by_line(shown: str, printed: str, fault: str) -> None:
    assert _difference(Step("command", shown), printed) == fault
