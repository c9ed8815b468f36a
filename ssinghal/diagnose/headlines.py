"""States a failure in one line, and TTNN's refusal of shards in a few."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields

from ssinghal.core.tensors import BufferType
from ssinghal.core.verdict import Resource, Verdict, sentence
from ssinghal.diagnose.buffer_need import is_fragmented
from ssinghal.diagnose.chips import CHIPS
from ssinghal.diagnose.fingerprint import memory_of
from ssinghal.diagnose.model import Failure, FailureKind
from ssinghal.diagnose.parse.crashes import KILL_SIGNAL
from ssinghal.diagnose.parse.refused_shards import refused_counts
from ssinghal.diagnose.parse.suspects import is_of_another_device

_KINDS = {
    FailureKind.MEMORY: "",
    FailureKind.REFUSED: "refused, no memory ran out: ",
    FailureKind.SUSPECT: "looks like a memory failure, but its wording is not known: ",
    FailureKind.CUT: "unknown: the text is cut before its message",
    FailureKind.ECHO: "unknown: it repeats an error that the text does not have: ",
    FailureKind.CRASH: "not a memory failure, but a crash of native code: ",
    FailureKind.OTHER: "not a memory failure: ",
}
# Wordings of which the text masks all figures.
_UNSIZED = {
    Resource.CIRCULAR_BUFFER: "program buffers do not fit in L1",
    Resource.CLASH: "program buffers reach into an L1 tensor",
    Resource.KERNEL_CONFIG: "arguments and code of kernels exceed their room",
    Resource.TRACE_BUFFER: "a trace does not fit in its region",
}
_REGION = re.compile(r"\bregion \W?(?P<name>\w+)\W? overflowed by (?P<bytes>\d{1,15}) bytes", re.IGNORECASE)  # by the linker
_MASKED = ("<", "[n", "[r", "[h", "XX", "xx", "**", "##")


def headline(failure: Failure) -> str:
    """Returns one line: what failed and by how much, in words and figures."""
    kind, verdict = failure.kind, failure.verdict
    if kind is FailureKind.CUT:
        return _KINDS[kind]
    if kind is FailureKind.MEMORY:
        return _of_memory(verdict)
    message = sentence(verdict)
    if kind is FailureKind.CRASH and verdict.error_type == KILL_SIGNAL:
        return f"no device's memory: {message}"
    if kind is FailureKind.OTHER and is_of_another_device(message):
        return f"no memory of a Tenstorrent device: {message}"
    counts = refused_counts(verdict.message) if kind is FailureKind.REFUSED else None
    return f"{_KINDS[kind]}{counts.words if counts else message}"


def refusal_lines(failure: Failure) -> Iterator[str]:
    """Yields what else a refusal of shards implies: TTNN's words, chips with as many DRAM banks, what to change."""
    counts = refused_counts(failure.verdict.message) if failure.kind is FailureKind.REFUSED else None
    if counts is None:
        return
    yield f"message: {sentence(failure.verdict)}"
    if counts.room is None:
        return
    if counts.may_be_banks:
        names = sorted({name for chip in CHIPS if chip.dram_banks == counts.room for name in chip.names})
        if names:
            yield f"if the tensor is in DRAM: {counts.room} DRAM banks are those of {', '.join(names)}"
    yield f"to change: at most {counts.room} shards, each correspondingly larger, or no shards (interleaved)"


def _of_memory(verdict: Verdict) -> str:
    message = sentence(verdict)
    memory = memory_of(verdict)
    need, limit = verdict.program_bytes, verdict.limit_bytes
    if verdict.resource is Resource.KERNEL_CONFIG and need is not None and limit is not None:
        what = "a kernel's runtime arguments" if "runtime arg" in verdict.message.lower() else "arguments and code of kernels"
        return f"{what} need {need:,} B of {limit:,} B"
    if (region := _REGION.search(verdict.message)) is not None:
        return f"a kernel's code exceeds its region {region['name']} by {int(region['bytes']):,} B"
    has_figures = any(isinstance(getattr(verdict, field.name), int) for field in fields(verdict))
    if not has_figures and any(mask in verdict.message for mask in _MASKED):
        what = f"{memory.value.upper()} buffer does not fit" if memory else _UNSIZED.get(verdict.resource or Resource.HOST, "")
        return f"{what or message}: figures masked in the text"
    if memory in (BufferType.L1, BufferType.DRAM) and is_fragmented(verdict):  # not as if there were enough room
        message = f"{memory.value.upper()} bank{message[message.index(' needs') :]}"
        return message if verdict.largest_free_bytes is not None else f"{message}, in no block of that size"
    return message
