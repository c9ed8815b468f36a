"""Signals in the middle of a command: one line, 128 and their number, and neither processes nor parts of files stay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ssinghal.device.virtual_cache import scratch_folders
from tests.support.processes import all_ended, as_in_the_foreground, wait_for

CASES = "".join(f'{{"op": "relu", "inputs": [[32, {32 * n}]]}}\n' for n in range(1, 5000))
OOM = "".join(
    f'{{"op": "add", "inputs": [[1, 64, 640, {400 + n}], [1, 64, 640, {400 + n}]], "memory": "l1"}}\n' for n in range(500)
)
ENDINGS = [
    (signal.SIGTERM, 143, "ssinghal: ended by SIGTERM"),
    (signal.SIGINT, 130, "ssinghal: interrupted"),
    (signal.SIGHUP, 129, "ssinghal: ended by SIGHUP"),
]


def children_of(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    own = [int(child) for task in tasks for child in task.read_text().split()]
    return [*own, *(below for child in own for below in children_of(child))]


def started(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "ssinghal", *arguments],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=as_in_the_foreground,
    )


def ended(process: subprocess.Popen[str], number: signal.Signals) -> tuple[int, str, list[int]]:
    """Returns the exit code, the last line of standard error and the processes that there were."""
    children = children_of(process.pid)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors.strip().splitlines()[-1], children


@pytest.mark.virtual_device
@pytest.mark.parametrize(("number", "code", "line"), ENDINGS)
@pytest.mark.parametrize("command", ["probe --from cases.jsonl", "remedy --from oom.jsonl -o found.jsonl"])
def test_a_command_with_a_device_leaves_nothing(tmp_path, command, number, code, line):
    (tmp_path / "cases.jsonl").write_text(CASES)
    (tmp_path / "oom.jsonl").write_text(OOM)
    files = sorted(tmp_path.iterdir())
    process = started(tmp_path, *command.split())
    wait_for(lambda: any(folder.name.startswith(f"{process.pid}-") for folder in scratch_folders(in_use=True)), "a device")
    if "-o" in command:
        wait_for(lambda: sorted(tmp_path.iterdir()) != files, "the unfinished file")
    wait_for(lambda: bool(children_of(process.pid)), "its worker")
    *ending, children = ended(process, number)
    assert ending == [code, line]
    assert children
    wait_for(lambda: all_ended(children), "the end of the workers")
    assert sorted(tmp_path.iterdir()) == files
    assert not [folder for folder in scratch_folders(in_use=False) if folder.name.startswith(f"{process.pid}-")]


@pytest.mark.parametrize(("number", "code", "line"), ENDINGS)
def test_a_capture_leaves_nothing(tmp_path, number, code, line):
    pytest.importorskip("torch")
    (tmp_path / "slow.py").write_text("import pathlib, time\npathlib.Path('begun').touch()\ntime.sleep(60)\n")
    process = started(tmp_path, "catalog", "capture", "--factory", "slow:net", "-o", "net.yaml")
    wait_for((tmp_path / "begun").exists, "the capture")
    *ending, children = ended(process, number)
    assert ending == [code, line]
    wait_for(lambda: all_ended(children), "the end of the capture")
    assert not [path for path in os.listdir(tmp_path) if "net.yaml" in path]


@pytest.mark.parametrize("module", ["click", "ssinghal.errors", "ssinghal.cli.standard_error"])
def test_ctrl_c_while_the_program_is_loaded(tmp_path, module):
    """The import of one of its modules hangs, as on a cold disk, before there is a command."""
    (tmp_path / "sitecustomize.py").write_text(
        "import pathlib, sys, time\n"
        "class Slow:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == {module!r}:\n"
        "            pathlib.Path('begun').touch(); time.sleep(60)\n"
        "sys.meta_path.insert(0, Slow())\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "ssinghal", "doctor"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])},
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=as_in_the_foreground,
    )
    wait_for((tmp_path / "begun").exists, "the import")
    process.send_signal(signal.SIGINT)
    assert (process.communicate(timeout=60)[1], process.returncode) == ("ssinghal: interrupted\n", 130)


def test_a_second_sigterm_ends_the_program_at_once(tmp_path):
    """While it cleans up after the first, which here never ends."""
    code = (
        "import signal, sys, time, pathlib\n"
        "from ssinghal import cli\n"
        "def slow(*_, **__):\n"
        "    try:\n        pathlib.Path('begun').touch(); time.sleep(60)\n"
        "    finally:\n        pathlib.Path('cleaning').touch(); time.sleep(60)\n"
        "cli.cli.make_context = slow\n"
        "cli.main()\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path)
    for name in ("begun", "cleaning"):
        wait_for((tmp_path / name).exists, name)
        process.send_signal(signal.SIGTERM)
    assert process.wait(60) == -signal.SIGTERM
