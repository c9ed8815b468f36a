"""What ``ssinghal exec`` prints of a program's own run: the call that failed, or that crashed the virtual device."""

from __future__ import annotations

import os
import re
import shlex
import signal
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import replace
from linecache import getline
from pathlib import Path

from ssinghal.core.boards import DEFAULT_BOARD
from ssinghal.core.case import Case
from ssinghal.core.tensors import format_bytes
from ssinghal.core.verdict import Resource
from ssinghal.diagnose.failed_call.own_run import Capture, OwnFailure, OwnRun
from ssinghal.diagnose.parse.own_reports import HANDLED, MESSAGE, METHOD, TRACES, call_line, crash_line, head
from ssinghal.errors import LINE_LIMIT, cut, printable
from ssinghal.operators.case_words import probe_command, probe_words
from ssinghal.profile.failure import Failure, Role
from ssinghal.profile.model import Profile, Site
from ssinghal.profile.names import MEMORY_NAMES

_CALLERS = 3
_REMEDY = "ssinghal remedy"
_HANDLED = 3  # of the failures that a program handled
_BEGIN, _END = "ttnn.begin_trace_capture", "ttnn.end_trace_capture"
_FUNCTION = re.compile(r"\bttnn(?:\.[A-Za-z_]\w*)+(?=\()")
_LIBRARIES = tuple({sysconfig.get_paths()[name] + os.sep for name in ("stdlib", "purelib", "platlib")})
_OWN = str(Path(__file__).parents[2]) + os.sep


def failure_lines(failure: OwnFailure, board: str, release: str) -> list[str]:
    """Returns what ran out, the line of the program, what was resident, and the call in the words of ``probe``.

    ``board``, ``release``: where the program ran; the release is empty for the installed one.
    """
    name = failure.name or METHOD
    lines = [head(name, failure.verdict, printable(failure.test)), *_place("at", failure.stack)]
    if failure.times > 1:
        lines.append(f"  {failure.times:,} times")
    if failure.explained is not None:
        lines += [f"  {line}" for line in _resident(failure.explained, failure.profile)]
    if isinstance(failure.case, Case):
        lines.append(call_line(name, probe_command(failure.case), "" if board == DEFAULT_BOARD else board, release))
        if _others(failure):
            live = f"; {_REMEDY} has as many bytes as --live" if _live(failure) else ""
            lines.append(f"    without the other buffers that were resident then{live}")
    elif failure.case:
        lines.append(f"  no call of ssinghal probe is this one: {cut(failure.case, LINE_LIMIT)}")
    return lines


def handled_lines(failures: Sequence[OwnFailure], exit_code: int, board: str, release: str) -> list[str]:
    """Returns a note on failures that the program handled, with TTNN's message, which it need not have printed."""
    if not failures:
        return []
    count = sum(failure.times for failure in failures)
    ended = f", and ended with exit code {exit_code}" if exit_code else ""
    more = f"; the last {_HANDLED}" if len(failures) > _HANDLED else ""
    lines = [f"{HANDLED}{count:,} call{'' if count == 1 else 's'} that ran out of memory{ended}{more}:"]
    for failure in failures[-_HANDLED:]:
        first, *rest = failure_lines(replace(failure, explained=None), board, release)
        lines += [first, MESSAGE + cut(printable(failure.verdict.message), LINE_LIMIT), *rest]
    return lines


def remedy_line(failure: OwnFailure, board: str, release: str) -> list[str]:
    """Returns the command that tries other releases and boards as well, among as many bytes as were resident."""
    if not isinstance(failure.case, Case):
        return []
    words = ["ssinghal", "remedy", *probe_words(failure.case), "--board", board, *(["--ttnn", release] if release else [])]
    return [f"  other releases and boards: {shlex.join([*words, *_live(failure)])}"]


def _live(failure: OwnFailure) -> list[str]:
    """Returns the option with as many bytes as other buffers took; none for holes, which it does not make."""
    explained, others = failure.explained, _others(failure)
    if not others or explained is None or explained.resource is Resource.FRAGMENTATION:
        return []
    return ["--live", f"{others}B@{explained.memory}"]


def _others(failure: OwnFailure) -> int:
    """Returns the bytes that other buffers than the call's took of the memory that ran out, in all banks together: as many of
    each, as the fullest holds, for the allocator books the same addresses in all."""
    explained = failure.explained
    if explained is None or failure.profile is None or explained.memory not in ("l1", "dram"):
        return 0
    device = failure.profile.devices[-1]
    of_call = (Role.OPERAND, Role.OWN)
    bank_bytes = sum(one.buffer.bank_bytes for one in explained.residents if one.role not in of_call)
    return bank_bytes * device.memories[explained.memory].banks


def _place(what: str, stack: Sequence[Site]) -> Iterator[str]:
    for number, site in enumerate(stack[: _CALLERS + 1]):
        text = site.text or getline(site.file, site.line).strip()
        start = "    called from" if number else f"  {what},".replace("at,", "at")
        yield cut(f"{start} {site}" + (f": {printable(text)}" if text else ""), LINE_LIMIT)


def _resident(failure: Failure, profile: Profile | None) -> Iterator[str]:
    """Yields how much was resident, and what of it the call itself uses; where the rest comes from is not recorded."""
    memory = failure.memory or "l1"
    sizes = [resident.buffer.bank_bytes for resident in failure.residents]
    operands = [resident for resident in failure.residents if resident.role is Role.OPERAND]
    known = profile is not None and profile.devices[-1].memories[memory].base_bytes == sum(sizes)
    own = _of_call(failure, sum(sizes)) if known else ""
    if not sizes:
        if known:
            yield f"nothing was resident before it in {MEMORY_NAMES[memory]}" + (f": {own}" if own else "")
        return
    if len(sizes) == 1:
        of_call = "an operand of the call" if operands else "no operand of the call"
    else:
        of_call = f"{f'{len(operands):,}' if operands else 'none'} of them used by the call"
    of_call += f"; {own}" if own else ""
    yield f"resident then, {MEMORY_NAMES[memory]}: {format_bytes(sum(sizes))} in {_buffers(len(sizes))}, {of_call}"


def _of_call(failure: Failure, resident_bytes: int) -> str:
    """Returns what the message has as allocated and the failing call itself had made, for it was not resident before; or ""."""
    verdict, lowest = failure.call.verdict, min((one.buffer.address for one in failure.residents), default=None)
    if verdict is None:
        return ""
    if verdict.allocated_bytes is not None and verdict.allocated_bytes > resident_bytes:
        return f"the call itself had allocated {format_bytes(verdict.allocated_bytes - resident_bytes)}"
    if verdict.tensor_address is not None and (lowest is None or verdict.tensor_address < lowest):
        return f"the call itself made the tensor at {verdict.tensor_address:,}"
    return ""


def _buffers(number: int) -> str:
    return f"{number:,} buffer{'' if number == 1 else 's'}"


def crash_lines(run: OwnRun, exit_code: int, release: str) -> list[str]:
    """Returns where native code ended the program, if it did, and whether that is a trace or an event, which a virtual device
    does not have."""
    number = exit_code - 128
    name = signal.Signals(number).name if number in {int(one) for one in _FATAL} else ""
    if not (name or run.crashed):
        return []
    stack = [site for site in run.crashed if not _is_library(site.file)]
    innermost = stack[0] if stack else None
    text = getline(innermost.file, innermost.line) if innermost else ""
    functions = set(_FUNCTION.findall(text))
    what = f"in {functions.pop()}" if len(functions) == 1 else "at"
    lines = [crash_line(name, release), *_place(what, stack)]
    return lines + [f"  {line}" for line in _trace_lines(run.captures, innermost, release)]


_FATAL = (signal.SIGSEGV, signal.SIGABRT, signal.SIGFPE, signal.SIGBUS, signal.SIGILL)


def _is_library(file: str) -> bool:
    return file.startswith((*_LIBRARIES, _OWN, "<frozen")) or f"{os.sep}ttnn{os.sep}" in file


def _trace_lines(captures: Sequence[Capture], crashed: Site | None, release: str) -> list[str]:
    last = captures[-1] if captures else None
    if last is None or not last.stack:
        return []
    cure = f"{TRACES}: what is captured runs once, as it is called"
    if last.name == _BEGIN:
        asked = f"{last.name} of {last.stack[0]} began a trace, and ttnn {release} crashes at the first operation in it"
        why = "it looks up where the kernels are in DRAM, and a mock has none there"
        return [f"{asked}: {why}", "the bytes that the trace takes of trace_region_size are not known here", cure]
    at_last = crashed is None or (crashed.file, crashed.line) == (last.stack[0].file, last.stack[0].line)
    if last.name != _END and at_last:
        crashes = f"{last.name} of {last.stack[0]} crashes ttnn {release}: a mock has no queue that runs"
        return [crashes, cure if "trace" in last.name else "ssinghal exec --no-trace leaves it out"]
    return []


def capture_lines(run: OwnRun, release: str) -> list[str]:
    """Returns what is not known of traces that were captured without a crash."""
    site = next((one.stack[0] for one in run.captures if one.name == _END and one.stack), None)
    if site is None:
        return []
    text = f"a virtual device of ttnn {release} stores no commands of a trace: whether that fits trace_region_size is not known"
    return [f"{text} ({site})"]
