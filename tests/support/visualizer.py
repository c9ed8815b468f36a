"""ttnn-visualizer, served for a test."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import all_ended, wait_for

ROOT = Path(__file__).resolve().parents[2]


def visualizer() -> str:
    """Returns the program of the environment built by run_checks.sh, else that of PATH; in CI it must exist."""
    program = shutil.which("ttnn-visualizer", path=str(ROOT / ".venv-visualizer" / "bin")) or shutil.which("ttnn-visualizer")
    if program is None and os.environ.get("CI"):
        pytest.fail("no ttnn-visualizer in .venv-visualizer or on PATH: run_checks.sh builds that environment")
    if program is None:
        pytest.skip("no ttnn-visualizer in .venv-visualizer or on PATH")
    return program


class Served:
    """ttnn-visualizer on a local port, with the requests of its own page."""

    def __init__(self, port: int) -> None:
        self.port = port

    def get(self, path: str, **query: str) -> Any:
        with urllib.request.urlopen(self._url(path, query), timeout=20) as answer:
            return json.loads(answer.read() or "null")

    def select(self, report: str) -> None:
        """Selects the report to show."""
        chosen = {"active_report": {"profiler_name": report, "profiler_location": "local"}}
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self._url("instance", {}), json.dumps(chosen).encode(), headers, method="PUT")
        with urllib.request.urlopen(request, timeout=20) as answer:
            assert answer.status == 200

    def is_up(self) -> bool:
        try:
            self.get("up")
        except OSError:
            return False
        return True

    def _url(self, path: str, query: dict[str, str]) -> str:
        return f"http://127.0.0.1:{self.port}/api/{path}?{urllib.parse.urlencode({'instanceId': 'test', **query})}"


@contextmanager
def serving(folder: Path, home: Path) -> Iterator[Served]:
    """Serves ``folder``, and ends with all its processes."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    quiet = {"LAUNCH_BROWSER_ON_START": "false", "USAGE_RECORDING_DISABLED": "true"}
    process = subprocess.Popen(
        [visualizer(), "--host", "127.0.0.1", "--port", str(port), "--tt-metal-home", str(folder)],
        cwd=home,
        env={"PATH": os.environ["PATH"], "HOME": str(home), **quiet},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        served = Served(port)
        wait_for(lambda: process.poll() is not None or served.is_up(), "ttnn-visualizer answers")
        assert process.poll() is None, "ttnn-visualizer ended"
        yield served
    finally:
        members = group_of(process.pid)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(20)
        wait_for(lambda: all_ended(members), "ttnn-visualizer ends")


def group_of(leader: int) -> list[int]:
    """Returns the processes of a session."""
    listed = subprocess.run(["ps", "-o", "pid=", "-s", str(leader)], capture_output=True, text=True).stdout
    return [int(pid) for pid in listed.split()]
