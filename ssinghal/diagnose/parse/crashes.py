"""Lines by which Python, a shell, MPI or the kernel says that a signal ended a process: nothing of a device's memory."""

from __future__ import annotations

import re

from ssinghal.core.record import Status, Verdict

_WORDS = ("Fatal Python", "egmentation fault", "bort", "illed", "us error", "loating point", "llegal instruction",
         "Process received signal")  # fmt: skip

_SIGNALS = {
    "segmentation fault": ("SIGSEGV", "segmentation fault"),
    "aborted": ("SIGABRT", "aborted"),
    "abort": ("SIGABRT", "aborted"),
    "bus error": ("SIGBUS", "bus error"),
    "floating point exception": ("SIGFPE", "floating point exception"),
    "illegal instruction": ("SIGILL", "illegal instruction"),
    "killed": ("SIGKILL", "killed, as the kernel does when the memory of the host runs out"),
}
_SHELL = "(Segmentation fault|Aborted|Bus error|Floating point exception|Illegal instruction|Killed)"
_ANY = f"((?i:{'|'.join(_SIGNALS)}))"
_DUMPED = r"(?: +\(core dumped\))"
_CRASH = re.compile(
    rf"Fatal Python error: (\S.{{0,200}})"
    rf"|\S{{1,300}}: line \d{{1,7}}: +\d{{1,10}} {_SHELL}{_DUMPED}?(?: .*)?$"  # run.sh: line 3: 4711 Killed    python model.py
    rf"|\d{{1,10}} {_ANY}(?:{_DUMPED}(?:  .*)?|  .*)$"  # [1]    4711 killed     python model.py
    rf"|zsh: {_ANY}{_DUMPED}?(?:  .*)?$"
    rf"|{_SHELL}{_DUMPED}$"
    rf"|(?:\S{{1,100}} kernel: )?(?:Memory cgroup o|O)ut of memory: (Killed) process \d"
    rf"|(?:\[\S{{1,100}}:\d{{1,10}}\] )?Signal: {_ANY} \(\d{{1,2}}\)"
    rf"|\w{{1,20}} noticed that process .{{1,200}}? exited on signal \d{{1,2}} \({_ANY}\)"
)
_ALONE = re.compile(rf"{_SHELL}\s*$")
_UNNAMED = re.compile(r"(?:\[\S{1,100}:\d{1,10}\] )?\*\*\* Process received signal \*\*\*")


def crash(body: str, *, alone: bool) -> Verdict | None:
    """Of a line without what is before its words. ``alone``: nothing is, so that a name by itself is what a shell prints."""
    if not any(word in body for word in _WORDS):
        return None
    found = _CRASH.match(body) or (_ALONE.match(body) if alone else None)
    if found is None:
        return None
    name = found[found.lastindex or 0].rstrip(". ")
    signal, text = _SIGNALS.get(name.lower(), ("SIGABRT", f"fatal Python error: {name}"))
    return Verdict(Status.CRASH, error_type=signal, message=text)


def is_unnamed_crash(body: str) -> bool:
    """Whether a process received a signal whose name comes on a line of its own."""
    return "*** Process" in body and _UNNAMED.match(body) is not None


UNNAMED = Verdict(Status.CRASH, message="a signal ended the process")
