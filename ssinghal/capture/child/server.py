"""Answers requests, one JSON object a line: ``{"text": …}``, ``{"refused": …}`` or ``{"ended": exit status, "said": …}``.

Torch is imported once; each request is answered by a fork of this process, so no capture sees another one's imports, hooks or
settings, and one that crashes takes nothing with it.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import sys
import tempfile
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

from ssinghal.capture.child.sandbox import Guards
from ssinghal.capture.request import CaptureRequest
from ssinghal.errors import CaptureError

TAIL_BYTES = 4000


def die_with_parent() -> None:
    """However the process above ends, this one ends too: Linux's PR_SET_PDEATHSIG."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def main() -> None:
    die_with_parent()
    gc.disable()  # what torch's modules are made of stays; looking it over again and again takes a second or two
    import_module("ssinghal.capture.child.job")
    import_module("torch._dynamo")  # torch's meta kernels import it at the first call: here once, not in every fork
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever models print is no answer
    for line in sys.stdin:
        answers.write(_in_a_fork(json.loads(line)) + "\n")
        answers.flush()


def _in_a_fork(data: dict[str, Any]) -> str:
    reading, writing = os.pipe()
    with tempfile.TemporaryFile() as said, tempfile.TemporaryDirectory() as settings:
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            os.dup2(said.fileno(), 1)
            os.dup2(said.fileno(), 2)
            die_with_parent()
            capturing_pid = os.getpid()
            answer = json.dumps(_answer(data, Path(settings)))
            if os.getpid() == capturing_pid:  # else this is a process that the model's code made and left to run on
                with os.fdopen(writing, "w", encoding="utf-8") as pipe:
                    pipe.write(answer + "\n")
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, encoding="utf-8") as pipe:
            answer_text = pipe.readline().strip()  # not to its end: a process that the model's code made may hold it
        _, status = os.waitpid(pid, 0)
        if status == 0 and answer_text:
            return answer_text
        said.seek(max(0, said.seek(0, os.SEEK_END) - TAIL_BYTES))
        return json.dumps({"ended": os.waitstatus_to_exitcode(status), "said": said.read().decode(errors="replace")})


def _answer(data: dict[str, Any], settings: Path) -> dict[str, Any]:
    """What the code of a model or a factory raises is its user's to read: one line of it, whatever its type."""
    from ssinghal.capture.child.job import CaptureJob

    request = CaptureRequest.from_json(data)
    sys.dont_write_bytecode = True  # of a factory that is changed within a second, Python would take the old one again
    os.chdir(data["folder"])  # where a user's factory lies: this process imports from its current folder
    warnings.filterwarnings("ignore")
    guards = Guards()
    guards.start(settings)
    capturing = CaptureJob(request, guards)
    try:
        return {"text": capturing.text()}
    except CaptureError as error:
        return {"refused": str(error)}
    except Exception as error:  # noqa: BLE001 (other people's code may raise anything; it becomes the user's answer)
        return {"refused": f"capture {request.what}: {capturing.told(error)}"}
