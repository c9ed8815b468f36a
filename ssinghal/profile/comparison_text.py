"""A comparison of two profiles for a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ssinghal.core.tensors import format_bytes
from ssinghal.profile.call_changes import MEMORIES, CallChange, CallFigures, Change
from ssinghal.profile.comparison import Comparison
from ssinghal.profile.model import Device, Profile, Site, Spec, is_at_most
from ssinghal.profile.names import MEMORY_NAMES, where

SHOWN = 20  # lines and operations, by default


def lines(comparison: Comparison, shown: int | None = SHOWN) -> Iterator[str]:
    """Yields what changed; ``shown``: lines and operations of each kind, None: all."""
    yield f"{_program(comparison.before)} → {_program(comparison.after)}"
    yield from (f"  {fact}" for fact in _facts(comparison.before, comparison.after))
    if comparison.is_equal:
        yield "no difference"
        return
    for memory, change in comparison.peaks.items():
        yield f"{MEMORY_NAMES[memory]}: peak {sizes(change)}"
        held = [line for line in comparison.lines if line.memory == memory]
        for line in held[:shown]:
            yield f"  {_signed(line.bank_bytes.difference):>28}  {line.name}{f', {line.site}' if line.site else ''}"
        yield from _more(held, shown, "lines")
    yield f"L1 per core between operations: peak {sizes(comparison.l1_between)}"
    yield f"L1 with program buffers: peak {sizes(comparison.l1_and_programs)}"
    unknown = comparison.unknown_programs
    if any(unknown):
        runs = f"{unknown.before:,} → {unknown.after:,} runs of programs"
        yield f"  at least: of programs that TTNN reported; it did not report {runs}"
    bound = any(is_at_most(one) for one in (comparison.before, comparison.after))
    yield f"least headroom in L1{', at most' if bound else ''}: {sizes(comparison.headroom)}"
    before, after = comparison.failures
    if before != after:
        yield f"the program {before or 'ended by itself'} → {after or 'ended by itself'}"
    yield from operations(comparison, shown)


def sizes(change: Change) -> str:
    """
    >>> sizes(Change(2048, 3072))
    '2 KiB (2,048 B) → 3 KiB (3,072 B): +1 KiB (1,024 B), +50.0%'
    """
    before, after = ("not reported" if size is None else format_bytes(size) for size in change)
    if not change.is_one:
        return f"{before}, no difference"
    share = f", {100 * change.difference / change.before:+.1f}%" if change.before and change.after is not None else ""
    return f"{before} → {after}" + (f": {_signed(change.difference)}{share}" if None not in change else "")


def _signed(size: int) -> str:
    return f"{'+' if size > 0 else ''}{format_bytes(size)}"


def _more(listed: Any, shown: int | None, what: str) -> Iterator[str]:
    if shown is not None and len(listed) > shown:
        yield f"  … and {len(listed) - shown:,} more {what}"


def _program(profile: Profile) -> str:
    return f"{' '.join(profile.argv)} (ttnn {profile.ttnn})"


def _facts(before: Profile, after: Profile) -> Iterator[str]:
    """Yields what differs between the last devices that the programs opened."""
    for one, other in zip(before.devices[-1:], after.devices[-1:], strict=False):
        for name, value in _device(one).items():
            if value != _device(other)[name]:
                yield f"{name}: {value} → {_device(other)[name]}"


def _device(device: Device) -> dict[str, str]:
    banks = {f"banks of {name}": f"{memory.banks} of {memory.bank_bytes:,} B" for name, memory in device.memories.items()}
    return {
        "architecture": device.arch,
        "mesh": "x".join(map(str, device.mesh)),
        "cores": "x".join(map(str, device.grid)),
        "address of program buffers": f"{device.l1_base:,}",
        **banks,
    }


def operations(comparison: Comparison, shown: int | None) -> Iterator[str]:
    """Yields the calls that changed, in order; ``shown``: at most so many, those with the largest changes."""
    changed, removed, added = comparison.counts
    yield f"operations: {changed:,} changed, {removed:,} in the first only, {added:,} in the second only"
    numbered = sorted(enumerate(comparison.calls), key=lambda item: -item[1].weight)[:shown]
    for _, change in sorted(numbered, key=lambda item: item[0]):
        yield f"  {where(change.call)}"
        yield from (f"    {part}" for part in _parts(change))
    yield from _more(comparison.calls, shown, "operations")


def _parts(change: CallChange) -> Iterator[str]:
    one, other = change.did
    if one is None or other is None:
        kept = (one or other or CallFigures({}, {}, (), (), "")).kept
        yield f"only in the {'first' if other is None else 'second'}"
        yield from (f"{MEMORY_NAMES[memory]}: keeps {format_bytes(size)}" for memory, size in kept.items())
        return
    for verb, figure in (("keeps", change.kept), ("frees again", change.temporary)):
        yield from (f"{MEMORY_NAMES[memory]}: {verb} {sizes(figure(memory))}" for memory in MEMORIES if figure(memory).is_one)
    yield from (f"program buffers of {name}: {sizes(size)}" for name, size in change.programs)
    if one.names != other.names:
        yield f"programs: {_names(one)} → {_names(other)}"
    yield from (f"result: {placed(a)} → {placed(b)}" for a, b in change.results)
    if len(one.results) != len(other.results):
        yield f"results: {len(one.results)} → {len(other.results)}"
    if one.error != other.error:
        yield f"{one.error or 'returned'} → {other.error or 'returned'}"


def _names(did: CallFigures) -> str:
    sizes = [(name, "not reported" if size is None else format_bytes(size)) for name, size in did.programs]
    return ", ".join(f"{name} {size}" for name, size in sizes) or "none"


def placed(spec: Spec) -> str:
    """Returns a spec with its memory and shards."""
    shard = "" if spec.shard is None else f" in shards of {'x'.join(map(str, spec.shard[0]))} on {spec.shard[1]}"
    return f"{spec} in {spec.memory or 'host memory'}{shard}"


def to_json(comparison: Comparison) -> dict[str, Any]:
    """Returns all changes; sizes in bytes per bank, null where they are not known."""
    changed, removed, added = comparison.counts
    return {
        "before": _program_json(comparison.before),
        "after": _program_json(comparison.after),
        "equal": comparison.is_equal,
        "ended": comparison.failures,
        "peaks": {memory: list(change) for memory, change in comparison.peaks.items()},
        "l1_with_program_buffers": list(comparison.l1_and_programs),
        "programs_not_reported": list(comparison.unknown_programs),
        "l1_between_operations": list(comparison.l1_between),
        "l1_headroom": list(comparison.headroom),
        "lines": [
            {"memory": line.memory, "name": line.name, "site": _site_json(line.site), "bank_bytes": list(line.bank_bytes)}
            for line in comparison.lines
        ],
        "operations": {"changed": changed, "removed": removed, "added": added},
        "calls": [_call_json(change) for change in comparison.calls],
    }


def _program_json(profile: Profile) -> dict[str, Any]:
    devices = [
        {**one._asdict(), "memories": {name: memory._asdict() for name, memory in one.memories.items()}}
        for one in profile.devices
    ]
    return {"argv": list(profile.argv), "devices": devices}


def _site_json(site: Site | None) -> list[Any] | None:
    return None if site is None else [site.file, site.line, site.function]


def _call_json(change: CallChange) -> dict[str, Any]:
    return {
        "calls": [None if call is None else call.number for call in (change.before, change.after)],
        "name": change.call.name,
        "site": _site_json(change.call.site),
        "did": [
            None
            if did is None
            else {
                "kept_bank_bytes": dict(did.kept),
                "temporary_bank_bytes": dict(did.temporary),
                "program_bytes": [list(program) for program in did.programs],
                "results": [placed(spec) for spec in did.results],
                "error": did.error or None,
            }
            for did in change.did
        ],
    }
