"""Processes that a signal ended, and frameworks that ran out of their own memory: never reported as a device's memory."""

from __future__ import annotations

import io

import pytest

from ssinghal.core.verdict import Status
from ssinghal.diagnose.log_reader import read_log
from ssinghal.diagnose.model import LogReading, PythonCall

MESSAGE = (
    "Statically allocated circular buffers on core range [0-0 - 7-7] grow to 2520320 B which is beyond max L1 size of 1499136 B"
)


def read(text: str) -> LogReading:
    return read_log(io.BytesIO(text.encode()), "log")


SEGMENTATION = [
    "Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f1 (most recent call first):\n",
    "Segmentation fault (core dumped)\n",
    "Segmentation fault\n",
    "run.sh: line 12:  4711 Segmentation fault      (core dumped) python model.py --batch 8\n",
    "zsh: segmentation fault (core dumped)  python model.py\n",
    "[1]    4711 segmentation fault (core dumped)  python model.py\n",
    "[host:4711] *** Process received signal ***\n[host:4711] Signal: Segmentation fault (11)\n[host:4711] Signal code:  (1)\n",
    "mpirun noticed that process rank 0 with PID 0 on node host exited on signal 11 (Segmentation fault).\n",
    'Fatal Python error: Segmentation fault\n\nThread 0x1:\n  File "a.py", line 3 in f\nSegmentation fault (core dumped)\n',
]
OTHERS = [
    ("Aborted (core dumped)\n", "SIGABRT"),
    ("Fatal Python error: Aborted\n", "SIGABRT"),
    ("Fatal Python error: none_dealloc: deallocating None\n", "SIGABRT"),
    ("Killed\n", "SIGKILL"),
    ("run.sh: line 12:  4711 Killed                  python model.py\n", "SIGKILL"),
    ("[12345.678901] Out of memory: Killed process 4711 (python) total-vm:1kB\n", "SIGKILL"),
    ("Nov 28 10:00:00 host kernel: Memory cgroup out of memory: Killed process 4711 (python)\n", "SIGKILL"),
    ("      Reason:       OOMKilled\n      Exit Code:    137\n", "SIGKILL"),
    ("python3 invoked oom-killer: gfp_mask=0x1\nOut of memory: Killed process 4711 (python)\nKilled\n", "SIGKILL"),
    ("Warning  OOMKilling  2m  kernel-monitor  Memory cgroup out of memory: Killed process 4711 (python)\n", "SIGKILL"),
    ("command terminated with exit code 137\n", "SIGKILL"),
    ("make: *** [Makefile:3: test] Error 137\n", "SIGKILL"),
    ("Worker 3 was killed by signal 9\n", "SIGKILL"),
    ("Bus error (core dumped)\n", "SIGBUS"),
    ("*** Process received signal ***\n[host:1] nothing more\n", ""),
]


@pytest.mark.parametrize(("text", "signal"), [*((text, "SIGSEGV") for text in SEGMENTATION), *OTHERS])
@pytest.mark.parametrize("plain", [0, 50_000], ids=["at the start", "after a mebibyte"])
def test_crash(text: str, signal: str, plain: int) -> None:
    (failure,) = read("nothing of interest here\n" * plain + text).failures
    assert (failure.verdict.status, failure.verdict.resource, failure.verdict.error_type) == (Status.CRASH, None, signal)
    assert failure.line == plain + 1


@pytest.mark.parametrize("text", [SEGMENTATION[1], SEGMENTATION[6], "Killed\n"])
def test_crash_after_an_error_is_another_failure(text: str) -> None:
    oom, crash = read(f"2026-01-01 10:00:00.000 | critical | Always | TT_THROW: {MESSAGE}\n{text}").failures
    assert (oom.verdict.program_bytes, crash.verdict.status) == (2520320, Status.CRASH)


def test_an_exception_that_ends_a_program_aborts_it() -> None:
    text = f"terminate called after throwing an instance of 'x'\n  what():  TT_THROW @ a.cpp:1: x\ninfo:\n{MESSAGE}\n"
    (failure,) = read(f"{text}Aborted (core dumped)\n").failures
    assert failure.verdict.program_bytes == 2520320


@pytest.mark.parametrize(
    "text",
    [
        "We saw a Segmentation fault (core dumped) yesterday.",
        "Segmentation fault happens when the batch is large",
        "Killed by a timeout, as the manual says",
        "The job was Killed",
        "- Aborted",
        "Aborted!",
        "INFO tests: Segmentation fault (core dumped)",
        "2026-01-01 10:00:00.000 | info     | Docs | Killed",
        "see: Fatal Python error: Segmentation fault",
        "Signal: strong",
        "4711 killed",
        '"OOMKilled": false,',
        "exit status 1370",
        "tests/test_137.py finished with exit code 0",
        "std::abort, Killed and Bus error are signals",
    ],
)
def test_prose_about_crashes_is_not_a_crash(text: str) -> None:
    assert read(f"{text}\n").failures == ()


@pytest.mark.parametrize("name", ["torch.OutOfMemoryError", "torch.cuda.OutOfMemoryError"])
@pytest.mark.parametrize(
    "before", ["", "[0] ", "E   ", 'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    g()\n']
)
def test_a_frameworks_own_memory(name: str, before: str) -> None:
    (failure,) = read(f"{before}{name}: CUDA out of memory. Tried to allocate 2.00 GiB.\n").failures
    verdict = failure.verdict
    assert (verdict.status, verdict.resource, verdict.error_type) == (Status.ERROR, None, name)
    assert verdict.message.startswith("CUDA out of memory. Tried to allocate 2.00 GiB")


DUMPED = (
    'Thread 0x00007f1b2d (most recent call first):\n  File "/usr/lib/python3.10/threading.py", line 324 in wait\n'
    '  File "/home/me/loader.py", line 7 in run\n\n'
    "{heading} (most recent call first):\n"
    '  File "/home/me/tt-metal/ttnn/ttnn/decorators.py", line 329 in __call__\n'
    '  File "/venv/lib/python3.10/site-packages/torch/nn/modules/module.py", line 1553 in _wrapped_call_impl\n'
    '  File "/home/me/model.py", line 88 in forward\n  File "/home/me/main.py", line 5 in <module>\n'
    "Extension modules: numpy.core._multiarray_umath, torch._C (total: 20)\n"
)


@pytest.mark.parametrize("heading", ["Current thread 0x00007f1b2c", "Current thread 0x00007f1b2c [python3]", "Stack"])
@pytest.mark.parametrize("error", ["Segmentation fault", "Aborted"])
def test_the_innermost_frame_of_the_program_is_the_call(heading: str, error: str) -> None:
    text = f"Fatal Python error: {error}\n\n{DUMPED.format(heading=heading)}{error} (core dumped)\n"
    (failure,) = read(text).failures
    assert failure.call == PythonCall("/home/me/model.py:88", "in forward")


def test_frames_of_other_threads_are_no_call() -> None:
    (failure,) = read(f"Fatal Python error: Segmentation fault\n\n{DUMPED.partition('{heading}')[0]}").failures
    assert failure.call is None


def test_the_abort_after_an_exception_of_cpp_has_the_call_of_that() -> None:
    text = f"terminate called after throwing\n  what():  {MESSAGE}\nFatal Python error: Aborted\n"
    (failure,) = read(f"{text}\n{DUMPED.format(heading='Current thread 0x00007f1')}").failures
    assert (failure.verdict.program_bytes, failure.call) == (2520320, PythonCall("/home/me/model.py:88", "in forward"))
