"""Writes profiles as one JSON document, ``profile.json``: everything that the replay knows, in a stable form.

The document is an object: ``kind`` "profile", ``schema`` (1), ``processes``, one for each process that opened a device. All
sizes are whole bytes per bank (per core, for L1); addresses are within a bank. Calls are numbered in order, from 0. The text
has a line for each call and each buffer, and is written as it is made: a large profile needs no second copy in memory.

Of a process:

``program`` [argv], ``folder``, ``ttnn``, ``ended`` (by itself), ``lost`` (why the recording stopped, else "").
``counts``: ``calls``, ``raised``, ``others`` (calls of other threads, not recorded), ``elsewhere`` (buffers on other devices
    and submeshes, not recorded), ``skipped`` (calls of traces and events not passed on), ``checks`` against the allocator,
    ``differences``, ``unknown_frees``, ``unsized_frees`` (of buffers from before the recording, of unknown size),
    ``unknown_programs`` (whose program buffers TTNN did not report).
``devices``: ``ttnn``, ``arch``, ``mesh``, ``grid`` [columns, rows], ``granule``, ``l1_base``, ``l1_top``, ``first_call``,
    ``memories``: by name ``banks``, ``bank_bytes``, ``base_bytes`` (allocated before the recording).
``peaks``: by memory ``bank_bytes``, ``call``, ``resident`` (numbers of buffers).
``fullest``: the ``call`` whose program had the least headroom, with that ``program``, and ``at_most`` (an upper bound, as TTNN
    did not report all program buffers); null if no program ran.
``failure``: null, or ``call``, ``error`` [class, text], ``out_of_memory``, ``sentence``, ``verdict`` (the numbers of TTNN's
    message), ``resident``, ``explanation`` (see ``profile.failure``; null if memory did not run out) and ``tried`` (changes
    that were run, see ``profile.tried_changes``; null if none were).
``unfinished``: null, or ``name`` and ``stack`` of the call within which the process ended.
``differences``: ``call``, ``memory``, ``replayed_bytes``, ``allocator_bytes``.
``findings``: ``kind``, ``memory``, ``bank_bytes``, ``site``, ``title``, ``proof``, ``calls``, ``device``,
    ``sites`` (further lines with what happened there), ``before_bytes`` and ``after_bytes`` (null where neither is meant).
``spans``: parts such as tests: ``name``, ``first_call``, ``end_call`` (null: the process ended within it), ``peaks``,
    ``fullest``, ``unknown_programs``, and per memory ``before`` and ``after``.
``sites`` [file, line, function, its text], ``stacks`` (numbers of sites, innermost first), ``specs`` of tensors: ``shape``,
    ``dtype``, ``layout``, ``memory`` (null: on the host), ``memory_layout``, ``shard`` (null, or shape and cores), ``config``
    (TTNN's own JSON of the memory config where it is sharded, else "").
``calls``: ``name``, ``stack``, ``us``, ``operands`` and ``results`` ([spec, address] each; no address on the host, nor once
    it is freed), ``programs``, and per memory ``peak`` (of the buffers recorded), ``after`` and ``largest_free`` (as the
    allocator sees it); ``error`` [class, text] where it raised.
``programs``: ``name``, ``program_bytes`` (of its program buffers on the fullest core; null: not reported), ``l1_bytes`` (that
    buffers held meanwhile), ``headroom_bytes`` (between both; where those are null an upper bound, as with 0 B of them).
``buffers``: ``memory``, ``address``, ``bank_bytes``, ``total_bytes``, ``call`` (that made it), ``made_between`` (it was made
    before that call instead), ``made_before`` (it was made before the recording), ``last_use``, ``freed`` (the call; null:
    resident to the end of its device), ``freed_between``, ``tensor``, ``device``, and ``made_at``, ``freed_at`` (how many
    allocations and frees there had been before).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ssinghal.core.files import replacing
from ssinghal.core.json_values import fields_of, plain, without_empty
from ssinghal.core.verdict import sentence
from ssinghal.errors import HarnessError
from ssinghal.profile.failure import explain
from ssinghal.profile.finding import Finding
from ssinghal.profile.model import Buffer, Call, Peak, Profile, Site, Span, Spec, Tensor, is_at_most
from ssinghal.render.numbering import Table

SCHEMA = 1


def write_json(path: Path, profiles: Sequence[Profile], findings: Sequence[Sequence[Finding]] = ()) -> None:
    """Replaces ``path`` by the document of ``profiles``, with the ``findings`` of each, in their order.

    Raises:
        HarnessError: it cannot be written.
    """
    try:
        with replacing(path) as temporary, temporary.open("w", encoding="ascii") as file:
            file.writelines(json_text(profiles, findings))
    except OSError as error:
        raise HarnessError(f"cannot write {path}: {error.strerror}") from error


def json_text(profiles: Sequence[Profile], findings: Sequence[Sequence[Finding]] = ()) -> Iterator[str]:
    """Yields the text of the document in pieces."""
    yield f'{{"kind":"profile","schema":{SCHEMA},"processes":[\n'
    for number, profile in enumerate(profiles):
        yield ",\n" if number else ""
        yield from _Process(profile, findings[number] if number < len(findings) else ()).text()
    yield "\n]}\n"


class _Process:
    """One process of the document. Tables of sites, stacks and specs come last: complete when the calls are written."""

    def __init__(self, profile: Profile, findings: Sequence[Finding]) -> None:
        self._profile, self._findings = profile, findings
        self._sites: Table[Site] = Table()
        self._stacks: Table[tuple[Site, ...]] = Table()
        self._specs: Table[Spec] = Table()
        self._buffers = {id(buffer): number for number, buffer in enumerate(profile.buffers)}

    def text(self) -> Iterator[str]:
        yield _compact(self._head())[:-1]
        for name, rows in (
            ("spans", map(self._span, self._profile.spans)),
            ("calls", map(self._call, self._profile.calls)),
            ("buffers", map(fields_of, self._profile.buffers)),
            ("stacks", ([self._sites.number(site) for site in stack] for stack in self._stacks.rows)),
            ("sites", self._sites.rows),
            ("specs", map(_spec, self._specs.rows)),
        ):
            yield f',\n"{name}":['
            yield from _lines(rows)
            yield "]"
        yield "}"

    def _head(self) -> dict[str, Any]:
        profile = self._profile
        counts = ("raised", "others", "elsewhere", "skipped", "checks", "unknown_frees", "unsized_frees", "unknown_programs")
        return {
            "program": list(profile.argv),
            **{name: getattr(profile, name) for name in ("folder", "ttnn", "ended", "lost")},
            "counts": {
                "calls": len(profile.calls),
                "differences": len(profile.differences),
                **{name: getattr(profile, name) for name in counts},
            },
            "devices": [
                {**device._asdict(), "memories": {name: memory._asdict() for name, memory in device.memories.items()}}
                for device in profile.devices
            ],
            "peaks": self._peaks(profile.peaks),
            "fullest": _fullest(profile),
            "failure": self._failure(profile.failure),
            "unfinished": self._unfinished(profile.unfinished),
            "differences": [difference._asdict() for difference in profile.differences],
            "findings": [plain(finding) for finding in self._findings],
        }

    def _peaks(self, peaks: dict[str, Peak]) -> dict[str, Any]:
        return {
            memory: {"bank_bytes": peak.bank_bytes, "call": peak.call.number, "resident": self._resident(peak.resident)}
            for memory, peak in peaks.items()
        }

    def _resident(self, buffers: Iterable[Buffer]) -> list[int]:
        return [self._buffers[id(buffer)] for buffer in buffers]

    def _failure(self, call: Call | None) -> dict[str, Any] | None:
        if call is None:
            return None
        explained = explain(self._profile)
        return {
            "call": call.number,
            "error": call.error,
            "out_of_memory": call.is_out_of_memory,
            "sentence": sentence(call.verdict) if call.verdict else "",
            "verdict": without_empty(fields_of(call.verdict)) if call.verdict else None,
            "resident": self._resident(call.resident),
            "explanation": explained.to_json() if explained else None,
            "tried": self._profile.tried and self._profile.tried.to_json(),
        }

    def _unfinished(self, call: Call | None) -> dict[str, Any] | None:
        return {"name": call.name, "stack": self._stacks.number(call.stack)} if call is not None else None

    def _span(self, span: Span) -> dict[str, Any]:
        return {**fields_of(span), "peaks": self._peaks(span.peaks), "fullest": _fullest(span)}

    def _call(self, call: Call) -> dict[str, Any]:
        return {
            "name": call.name,
            "stack": self._stacks.number(call.stack),
            "us": call.microseconds,
            "operands": self._tensors(call.operands),
            "results": self._tensors(call.results),
            "programs": [program._asdict() for program in call.programs],
            **{name: getattr(call, name) for name in ("peak", "after", "largest_free")},
            **({"error": call.error} if call.error else {}),
        }

    def _tensors(self, tensors: Iterable[Tensor]) -> list[tuple[int, int | None]]:
        return [(self._specs.number(tensor.spec), tensor.address) for tensor in tensors]


def _fullest(owner: Profile | Span) -> dict[str, Any] | None:
    if owner.fullest is None:
        return None
    call, program = owner.fullest
    return {"call": call.number, "program": program._asdict(), "at_most": is_at_most(owner)}


def _spec(spec: Spec) -> dict[str, Any]:
    return spec._asdict()


def _lines(rows: Iterable[Any]) -> Iterator[str]:
    for number, row in enumerate(rows):
        yield f"{',' if number else ''}\n{_compact(row)}"


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
