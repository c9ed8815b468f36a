"""The process that answers a capture. Nothing of torch is imported here, and a capture that dies takes nothing with it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from ssinghal.capture.request import CaptureError, CaptureRequest, Level
from ssinghal.catalog.reading import load_catalogs
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


def write_checked(text: str, target: Path) -> CapturedCatalog:
    """Puts the text at ``target``, whole or not at all, after it has been read back like any catalog.

    In a folder it gets the name of its model and size. CatalogError with the faults of a text that is no right catalog.
    """
    parent = target if target.is_dir() else target.parent
    with tempfile.TemporaryDirectory(dir=parent, prefix=".capture-") as folder:
        aside = Path(folder, "capture.yaml")
        aside.write_text(text, encoding="utf-8")
        try:
            (catalog,) = load_catalogs([aside])
        except CatalogError as error:
            raise CatalogError(fault.replace(str(aside), str(target)) for fault in error.faults) from None
        assert isinstance(catalog, CapturedCatalog)
        file = target / file_name(catalog) if target.is_dir() else target
        aside.replace(file)
    return replace(catalog, name=file.stem, path=file)


def request_of(catalog: CapturedCatalog) -> CaptureRequest:
    """What was asked for when this catalog was captured."""
    head = catalog.head
    level = Level(head.capture.level)
    if head.model.factory is not None:
        return CaptureRequest(factory=head.model.factory, level=level)
    return CaptureRequest(head.model.full_name, inputs=head.input.shapes[:1], level=level)


def file_name(catalog: CapturedCatalog) -> str:
    """``ultralytics-yolo12x-2176x3840.yaml``; the level is named where it is not ATen's."""
    level = catalog.head.capture.level
    parts = [
        catalog.head.model.full_name.replace("/", "-"),
        catalog.input_size,
        *([level] if level != Level.ATEN.value else []),
    ]
    return "-".join(parts) + ".yaml"


def _ended(code: int) -> str:
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f": {lines[-1]}" if lines else ""
