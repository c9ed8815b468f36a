"""Recognises lines in which Python, a shell, MPI or the kernel reports that a signal ended a process.

Such a crash says nothing about a device's memory.
"""

from __future__ import annotations

import re

from ssinghal.core.verdict import Status, Verdict

KILL_SIGNAL = "SIGKILL"
_WORDS = ("Fatal Python", "egmentation fault", "bort", "illed", "us error", "loating point", "llegal instruction",
         "Process received signal", "137", "oom-kill", "SIGKILL", "ignal 9", "-9")  # fmt: skip

_SIGNALS = {
    "segmentation fault": ("SIGSEGV", "segmentation fault"),
    "aborted": ("SIGABRT", "aborted"),
    "abort": ("SIGABRT", "aborted"),
    "bus error": ("SIGBUS", "bus error"),
    "floating point exception": ("SIGFPE", "floating point exception"),
    "illegal instruction": ("SIGILL", "illegal instruction"),
    "killed": (KILL_SIGNAL, "killed, as the kernel does when the memory of the host runs out"),
}
_OUT_OF_HOST_MEMORY = Verdict(
    Status.CRASH,
    error_type=KILL_SIGNAL,
    message="killed by the kernel: the memory of the host, or the limit of its container, ran out",
)
_SHELL = "(Segmentation fault|Aborted|Bus error|Floating point exception|Illegal instruction|Killed)"
_ANY = f"((?i:{'|'.join(_SIGNALS)}))"
_DUMPED = r"(?: +\(core dumped\))"
_CRASH = re.compile(
    rf"Fatal Python error: (\S.{{0,200}})"
    rf"|\S{{1,300}}: line \d{{1,7}}: +\d{{1,10}} {_SHELL}{_DUMPED}?(?: .*)?$"  # run.sh: line 3: 4711 Killed    python model.py
    rf"|\d{{1,10}} {_ANY}(?:{_DUMPED}(?:  .*)?|  .*)$"  # [1]    4711 killed     python model.py
    rf"|zsh: {_ANY}{_DUMPED}?(?:  .*)?$"
    rf"|{_SHELL}{_DUMPED}$"
    rf"|(?:\[\S{{1,100}}:\d{{1,10}}\] )?Signal: {_ANY} \(\d{{1,2}}\)"
    rf"|\w{{1,20}} noticed that process .{{1,200}}? exited on signal \d{{1,2}} \({_ANY}\)"
)
# By the kernel, a container's runtime and launchers; the last ones only show that a process was killed.
_OOM_KILL = re.compile(
    r"(?:\S{1,100} kernel: |\[ *\d{1,8}\.\d{1,6}\] )*"
    r"(?:(?:Memory cgroup o|O)ut of memory: Killed process \d|oom-kill:constraint=|\S{1,60} invoked oom-killer: )"
    r"|.{0,200}?\bOOM[- _]?Kill(?:ed|ing)\b(?![\"']?: *false)(?=[\"'\s.,;:)]|$)"
)
_KILLED = re.compile(
    r".{0,200}?(?:\b(?:exit(?:ed|s)?|terminated|returned|failed|failure|completed)\b.{0,40}?\b(?:code|status)\b"
    r"[ :=()]{0,12}137\b|\bexit(?: ?code|[ -]status)\b[ :=()]{0,12}(?:137|-9)\b|\bdied with <Signals\.SIGKILL"
    r"|\*\*\* .{0,80}\bError 137\b"
    r"|\b(?:killed|terminated|died|exited).{0,30}?\b(?:by|with|on|from)\b.{0,12}?\b(?:signal 9\b|SIGKILL\b))",
    re.IGNORECASE,
)
_ALONE = re.compile(rf"{_SHELL}\s*$")
_UNNAMED = re.compile(r"(?:\[\S{1,100}:\d{1,10}\] )?\*\*\* Process received signal \*\*\*")


def crash_verdict(body: str, *, unprefixed: bool) -> Verdict | None:
    """Returns the crash that ``body``, a line without its prefix, reports; None where it reports none.

    ``unprefixed``: the line had no prefix, so a signal's name by itself is what a shell prints.
    """
    if not any(map(body.__contains__, _WORDS)):
        return None
    if _OOM_KILL.match(body):
        return _OUT_OF_HOST_MEMORY
    if _KILLED.match(body):
        return Verdict(Status.CRASH, error_type=KILL_SIGNAL, message=_SIGNALS["killed"][1])
    report = _CRASH.match(body) or (_ALONE.match(body) if unprefixed else None)
    if report is None:
        return None
    name = report[report.lastindex or 0].rstrip(". ")
    signal, text = _SIGNALS.get(name.lower(), ("SIGABRT", f"fatal Python error: {name}"))
    return Verdict(Status.CRASH, error_type=signal, message=text)


def is_unnamed_crash(body: str) -> bool:
    """Returns whether the line reports a signal whose name follows on a separate line."""
    return "*** Process" in body and _UNNAMED.match(body) is not None


UNNAMED = Verdict(Status.CRASH, message="a signal ended the process")
