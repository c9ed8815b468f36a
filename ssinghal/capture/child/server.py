"""Answers requests, one JSON object a line.

``{"text": …}``, ``{"refused": …, "unavailable": …}`` or ``{"ended": exit status, "output": …}``.

Torch is imported once. Each request is answered by a fork of this process, so that no capture sees another one's imports, hooks
or settings, and one that crashes affects no other.
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
from ssinghal.errors import CaptureError, CaptureUnavailable

TAIL_BYTES = 4000


def die_with_parent() -> None:
    """Has the kernel end this process when its parent ends, however that happens: Linux's PR_SET_PDEATHSIG."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def main() -> None:
    die_with_parent()
    gc.disable()  # the objects of torch's modules stay; collecting among them again and again takes a second or two
    import_module("ssinghal.capture.child.job")
    import_module("torch._dynamo")  # torch's meta kernels import it at the first call: once here, not in every fork
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what models print is no answer
    for line in sys.stdin:
        answers.write(_in_a_fork(json.loads(line)) + "\n")
        answers.flush()


def _in_a_fork(data: dict[str, Any]) -> str:
    reading, writing = os.pipe()
    with tempfile.TemporaryFile() as output, tempfile.TemporaryDirectory() as settings:
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
            die_with_parent()
            capturing_pid = os.getpid()
            answer = json.dumps(_answer(data, Path(settings)))
            if os.getpid() == capturing_pid:  # else this is a process that the model's code started and left running
                with os.fdopen(writing, "w", encoding="utf-8") as pipe:
                    pipe.write(answer + "\n")
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, encoding="utf-8") as pipe:
            answer_text = pipe.readline().strip()  # not to its end: a process that the model's code started may hold it
        _, status = os.waitpid(pid, 0)
        if status == 0 and answer_text:
            return answer_text
        output.seek(max(0, output.seek(0, os.SEEK_END) - TAIL_BYTES))
        return json.dumps({"ended": os.waitstatus_to_exitcode(status), "output": output.read().decode(errors="replace")})


def _answer(data: dict[str, Any], settings: Path) -> dict[str, Any]:
    """Returns the text, or one line of what the code of a model or a factory raises, whatever its type."""
    from ssinghal.capture.child.job import CaptureJob

    request = CaptureRequest.from_json(data)
    sys.dont_write_bytecode = True  # Python would use the old bytecode of a factory that is changed within a second
    os.chdir(data["folder"])  # a user's factory is there: this process imports from its current folder
    warnings.filterwarnings("ignore")
    guards = Guards()
    guards.start(settings)
    job = CaptureJob(request, guards)
    try:
        return {"text": job.text()}
    except CaptureError as error:
        return {"refused": str(error), "unavailable": isinstance(error, CaptureUnavailable)}
    except Exception as error:  # noqa: BLE001 (other people's code may raise anything; it becomes the user's answer)
        return {"refused": f"capture {request.what}: {job.described(error)}"}
