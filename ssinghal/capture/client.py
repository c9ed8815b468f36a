"""Runs captures in a child process, so that torch is not imported here and a capture that crashes affects nothing else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import IO, cast

from ssinghal.capture.request import DEFAULT_TIMEOUT_S, PACKAGES, CaptureRequest, Level
from ssinghal.capture.zoo import check_name
from ssinghal.catalog.captured import CapturedCatalog
from ssinghal.catalog.loader import write_checked
from ssinghal.catalog.schema import Catalog
from ssinghal.core.closing import Closing
from ssinghal.core.signals import signal_name
from ssinghal.errors import CaptureError, CaptureUnavailable

_FIX = "pip install 'ssinghal[capture]'"


class Captures(Closing):
    """The process that captures, for one request or many. It starts at the first request. Use as a context manager."""

    def __init__(self, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._child: subprocess.Popen[str] | None = None

    def capture(self, request: CaptureRequest) -> str:
        """Returns the text of the catalog or trace.

        Raises:
            CaptureError: The model cannot be captured; CaptureUnavailable at any input, because something is missing here.
        """
        _check_names(request)
        child = self._child = self._child or self._start()
        stdin, stdout = cast("tuple[IO[str], IO[str]]", (child.stdin, child.stdout))  # both are pipes
        expired = threading.Event()
        late = threading.Timer(self._timeout_s, self._expire, [expired])
        late.start()
        try:
            stdin.write(json.dumps({**request.to_json(), "folder": os.getcwd()}) + "\n")
            stdin.flush()
            line = stdout.readline()
        except (BrokenPipeError, ValueError):
            line = ""
        finally:
            late.cancel()
        if expired.is_set():
            raise CaptureError(f"capture {request.what}: not done after {self._timeout_s:g} s; --timeout gives it more")
        if not line:
            code = child.wait()
            self.close()
            raise CaptureError(f"capture {request.what}: its process {_ended(code)}")
        answer = json.loads(line)
        if "text" in answer:
            return str(answer["text"])
        if "refused" in answer:
            raise (CaptureUnavailable if answer.get("unavailable") else CaptureError)(answer["refused"])
        raise CaptureError(f"capture {request.what}: its process {_ended(answer['ended'])}{_last_line(answer['output'])}")

    def _expire(self, expired: threading.Event) -> None:
        expired.set()
        self.close()

    def close(self) -> None:
        """Ends the process, and with it a capture that is under way."""
        child, self._child = self._child, None
        if child is not None:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()

    def _start(self) -> subprocess.Popen[str]:
        if find_spec("torch") is None:
            raise CaptureUnavailable(f"capture: torch is not installed; {_FIX}")
        environ = {**os.environ, "PYTHONHASHSEED": "0"}  # sets that a package iterates over must not change a capture
        return subprocess.Popen(
            [sys.executable, "-c", "from ssinghal.capture.child.server import main; main()"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ, start_new_session=True,
        )  # fmt: skip


def _check_names(request: CaptureRequest) -> None:
    """Raises CaptureUnavailable, before a process starts, if the factory's module, the model or its package is missing."""
    if request.factory:
        module = request.factory.partition(":")[0].partition(".")[0]
        if module not in sys.modules and find_spec(module) is PathFinder.find_spec(module, [os.getcwd()]) is None:
            raise CaptureUnavailable(f"factory {request.factory}: no module {module} in this folder or the environment")
        return
    package = request.model.partition("/")[0]
    if find_spec(package) is None:
        raise CaptureUnavailable(
            f"capture {request.model}: {package} is not installed; pip install 'ssinghal[{PACKAGES[package][0]}]'"
        )
    if package != "transformers":  # its names are known once torch is imported
        check_name(request.model)


def capture(request: CaptureRequest, timeout_s: float = DEFAULT_TIMEOUT_S) -> str:
    """Runs one capture in its own process; see ``Captures``."""
    with Captures(timeout_s) as captures:
        return captures.capture(request)


def write_capture(text: str, target: Path) -> CapturedCatalog:
    """Writes a captured text to ``target``, completely or not at all; in a folder, the file is named after model and size."""
    return _captured(write_checked(text, target, file_name))


def _captured(catalog: Catalog) -> CapturedCatalog:
    if not isinstance(catalog, CapturedCatalog):
        raise CaptureError(f"{catalog.name}: a capture gave a catalog of another kind")
    return catalog


def request_of(catalog: CapturedCatalog) -> CaptureRequest:
    """Returns the request that a catalog was captured by."""
    head = catalog.head
    level = Level(head.capture.level)
    if head.model.factory is not None:
        return CaptureRequest(factory=head.model.factory, inputs=head.input.shapes[:1], level=level)
    return CaptureRequest(head.model.full_name, inputs=head.input.shapes[:1], level=level)


def file_name(catalog: Catalog) -> str:
    """Returns ``ultralytics-yolo12x-2176x3840.yaml``; for a batch, all sizes; with the level where it is not ATen's."""
    captured = _captured(catalog)
    level = captured.head.capture.level
    first = captured.head.input.shapes[0]
    size = "x".join(map(str, first)) if len(first) > 3 and first[0] > 1 else captured.input_size
    parts = [captured.head.model.full_name.replace("/", "-"), size, *([level] if level != Level.ATEN.value else [])]
    return "-".join(parts) + ".yaml"


def _ended(code: int) -> str:
    return f"was ended by {signal_name(-code)}" if code < 0 else f"ended with code {code}"


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f": {lines[-1]}" if lines else ""
