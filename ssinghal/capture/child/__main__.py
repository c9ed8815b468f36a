"""Reads a request as JSON on standard input, captures, and writes ``{"text": …}`` or ``{"refused": …}`` to standard output.

Whatever else is printed, by the model or its package, goes to standard error.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from ssinghal.capture.child.guards import Guards
from ssinghal.capture.request import CaptureError, CaptureRequest


def main() -> None:
    answer_to = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    request = CaptureRequest.from_json(json.load(sys.stdin))
    warnings.filterwarnings("ignore")
    guards = Guards()
    with tempfile.TemporaryDirectory() as settings:
        guards.start(Path(settings))
        answer = _answer(request, guards)
    json.dump(answer, answer_to)
    answer_to.close()


def _answer(request: CaptureRequest, guards: Guards) -> dict[str, Any]:
    """What the code of a model or a factory raises is its user's to read: one line of it, whatever its type."""
    from ssinghal.capture.child.capturing import Capturing

    capturing = Capturing(request, guards)
    try:
        return {"text": capturing.text()}
    except CaptureError as error:
        return {"refused": str(error)}
    except Exception as error:  # noqa: BLE001
        return {"refused": f"capture {request.what}: {capturing.told(error)}"}


if __name__ == "__main__":
    main()
