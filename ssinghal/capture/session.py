"""The process that answers a capture. Nothing of torch is imported here, and a capture that dies takes nothing with it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from ssinghal.capture.request import CaptureError, CaptureRequest, Level
from ssinghal.catalog.reading import check_catalogs, load_catalogs
from ssinghal.catalog.schema import CapturedCatalog
from ssinghal.errors import CatalogError

DEFAULT_TIMEOUT_S = 600.0


def capture(request: CaptureRequest, timeout_s: float = DEFAULT_TIMEOUT_S) -> str:
    """The text of the captured catalog. CaptureError with one line for what the model, its package or its size refuses."""
    environ = {**os.environ, "PYTHONHASHSEED": "0"}  # sets that some package iterates over shall not change a capture
    command = [sys.executable, "-m", "ssinghal.capture.child"]
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ, errors="replace"
    )
    try:
        answered, said = child.communicate(json.dumps(request.to_json()), timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise CaptureError(f"capture {request.what}: not done after {timeout_s:g} s; --timeout gives it more") from None
    finally:
        child.kill()
        child.wait()
    if child.returncode or not answered:
        raise CaptureError(f"capture {request.what}: its process {_ended(child.returncode)}{_last_line(said)}")
    answer = json.loads(answered)
    if "refused" in answer:
        raise CaptureError(answer["refused"])
    return str(answer["text"])


def write_checked(text: str, file: Path) -> CapturedCatalog:
    """Puts the text at ``file``, whole or not at all, after it has been read back like any catalog."""
    with tempfile.TemporaryDirectory(dir=file.parent, prefix=".capture-") as folder:
        aside = Path(folder, file.name)
        aside.write_text(text, encoding="utf-8")
        if faults := check_catalogs([aside]):
            raise CatalogError(fault.replace(str(aside), str(file)) for fault in faults)
        (catalog,) = load_catalogs([aside])
        aside.replace(file)
    assert isinstance(catalog, CapturedCatalog)
    return catalog


def request_of(catalog: CapturedCatalog) -> CaptureRequest:
    """What was asked for when this catalog was captured."""
    head = catalog.head
    level = Level(head.capture.level)
    if head.model.factory is not None:
        return CaptureRequest(factory=head.model.factory, level=level)
    return CaptureRequest(head.model.full_name, inputs=head.input.shapes[:1], level=level)


def file_name(request: CaptureRequest, shape: tuple[int, ...]) -> str:
    """``ultralytics-yolo12x-2176x3840.yaml``; the level is named where it is not ATen's."""
    size = "x".join(map(str, shape[2:] if len(shape) > 3 else shape))
    what = (request.model or request.factory).replace("/", "-").replace(":", "-").replace(".", "-")
    level = "" if request.level is Level.ATEN else f"-{request.level.value}"
    return f"{what}-{size}{level}.yaml"


def _ended(code: int) -> str:
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f": {lines[-1]}" if lines else ""
