"""Turns a recording of calls of TTNN into the text of a catalog of kind ``imported``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from ssinghal.catalog.recorded import master_traces, operation_traces, profile_records, tensor_lines
from ssinghal.catalog.recorded.calls import Entry, Fault, RecordedCall, Refused
from ssinghal.catalog.recorded.cases import case_of
from ssinghal.catalog.recorded.files import lines, parsed, read_text
from ssinghal.catalog.writer import flow, made_in
from ssinghal.core.boards import load_board
from ssinghal.core.case import Case, OutputMemory, Placement
from ssinghal.core.files import open_file
from ssinghal.core.tensors import Board
from ssinghal.errors import CatalogError, InvalidCase, printable

_BOARDS = ("n150", "p150")  # the cores of a call are checked on the first that has them
_BASE = Placement(output_memory=OutputMemory.TTNN)  # of the catalog; every line has what differs
_NOTE = "# Calls of TTNN as recorded, n times each. Results are where TTNN puts them, except where a line has output_memory.\n"


@dataclass(frozen=True)
class RecordedImport:
    """The result of an import. ``text``: the catalog of the calls that are cases, "" if there is none.

    ``calls``: how many the recording has. ``lines``: those of the catalog, in which equal calls are merged. ``refused``: the
    calls that are no cases; ``faults``: what is damaged, as ``file:line: what``.
    """

    text: str
    calls: int
    lines: int
    refused: tuple[Refused, ...]
    faults: tuple[str, ...]

    @property
    def reasons(self) -> list[tuple[str, str, int]]:
        """Functions with the reason of refusal and the number of calls, the most frequent first."""
        counts: Counter[tuple[str, str]] = Counter()
        for one in self.refused:
            counts[one.function, one.reason] += one.count
        return [(*key, count) for key, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]


@dataclass
class _Merged:
    """Equal calls of one model. ``l1_small_bytes``: of the device that they ran on, if that is recorded."""

    case: Case
    model: str
    l1_small_bytes: int | None
    modules: Counter[str] = field(default_factory=Counter)


def is_recording(path: Path) -> bool:
    """Whether a path is a folder or holds JSON: a recording, and not a table."""
    if path.is_dir():
        return True
    try:
        with open_file(path) as file:
            start = file.read(64)
    except (OSError, ValueError):
        return False
    return start.startswith(b"\x1f\x8b") or start.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[")


def read_recording(path: Path) -> RecordedImport:
    """Reads every call of a recording as a case, or the reason why it is none.

    Raises:
        CatalogError: The recording is damaged, or in no known form.
    """
    merged: dict[tuple[str, str], _Merged] = {}
    refused: list[Refused] = []
    faults: list[str] = []
    calls = 0
    boards = [load_board(name) for name in _BOARDS]
    for entry in _entries(path):
        if isinstance(entry, Fault):
            faults.append(str(entry))
            continue
        calls += entry.count
        if isinstance(entry, RecordedCall):
            entry = _merge(entry, merged, boards) or entry
        if isinstance(entry, Refused):
            refused.append(entry)
    text = _catalog_text(path.name, list(merged.values())) if merged else ""
    return RecordedImport(text, calls, len(merged), tuple(refused), tuple(faults))


def _merge(call: RecordedCall, merged: dict[tuple[str, str], _Merged], boards: Sequence[Board]) -> Refused | None:
    try:
        case = case_of(call, boards)
        flow(case.identity())  # what no catalog can have
    except InvalidCase as error:
        return Refused(call.where, call.function, printable(" ".join(str(error).split())), call.count)
    same = merged.setdefault((case.call_json(), call.model), _Merged(case, call.model, call.l1_small_bytes))
    same.modules[call.module] += call.count
    return None


def _entries(path: Path) -> Iterator[Entry]:
    if path.is_dir():
        files = sorted(path.glob(profile_records.PATTERN))
        if files:
            return chain.from_iterable(map(profile_records.entries, files))
        if operation_traces.trace_files(path):
            return operation_traces.folder_entries(path)
        raise CatalogError(
            [f"{path}:1: holds neither {profile_records.PATTERN} of a profile nor *.json of an operation tracer"]
        )
    return _file_entries(path)


def _file_entries(file: Path) -> Iterator[Entry]:
    text = read_text(file)
    number, first = next(lines(text), (1, ""))
    if not first:
        raise CatalogError([f"{file}:1: is empty"])
    try:
        value = parsed(first, file, number)
    except CatalogError:
        value = None  # a document of several lines
    if isinstance(value, dict) and "k" in value:
        return profile_records.entries(file)
    if tensor_lines.is_line(value):
        return tensor_lines.entries(text, file)
    if operation_traces.is_trace(value):
        return _trace_lines(text, file)
    return _document(parsed(text, file), file)


def _trace_lines(text: str, file: Path) -> Iterator[Entry]:
    before = ""
    for number, line in lines(text):
        try:
            value = parsed(line, file, number)
        except CatalogError as error:
            yield Fault(f"{file}:{number}", str(error).partition(": ")[2])
            continue
        yield operation_traces.trace_entry(value, f"{file}:{number}", file.stem, before)
        before = str(value.get(operation_traces.NAME)) if isinstance(value, dict) else ""


def _document(value: Any, file: Path) -> Iterator[Entry]:
    if master_traces.is_master(value):
        return master_traces.entries(value, f"{file}:1")
    listed = value if isinstance(value, list) else [value]
    if listed and all(map(operation_traces.is_trace, listed)):
        return _listed(listed, file)
    raise CatalogError(
        [
            f"{file}:1: expected records of a profile, traces of operations with {operation_traces.NAME}, "
            f"a master trace with {master_traces.OPERATIONS}, or lines with op, in and out"
        ]
    )


def _listed(values: Iterable[Mapping[str, Any]], file: Path) -> Iterator[Entry]:
    before = ""
    for value in values:
        yield operation_traces.trace_entry(value, f"{file}:1", file.stem, before)
        before = str(value[operation_traces.NAME])


# The catalog --------------------------------------------------------------------------------------------------------------


def _catalog_text(name: str, calls: Sequence[_Merged]) -> str:
    regions = {call.l1_small_bytes for call in calls}
    base = replace(_BASE, l1_small_bytes=regions.pop() if len(regions) == 1 else None)
    head = {
        "schema": 1,
        "kind": "imported",
        "title": f"Calls recorded in {printable(name)}",
        "placement": _placement_fields(base),
    }
    sections: dict[str, list[str]] = {}
    for call in calls:
        sections.setdefault(call.case.name, []).append(flow(_line(call, base)))
    text = [_NOTE, *(f"{key}: {flow(value)}\n" for key, value in head.items()), "operators:\n"]
    for operator, listed in sorted(sections.items()):
        text.append(f"  {flow(operator)}:\n")
        text += [f"  - {line}\n" for line in sorted(listed)]
    return "".join(text)


def _line(call: _Merged, base: Placement) -> dict[str, Any]:
    usual = _placement_fields(base)
    own = _placement_fields(replace(call.case.placement, l1_small_bytes=call.l1_small_bytes))
    changes = {name: value for name, value in own.items() if usual.get(name) != value}
    return {
        "in": [list(shape) for shape in call.case.inputs],
        **({"args": dict(call.case.attrs)} if call.case.attrs else {}),
        **({"placement": changes} if changes else {}),
        "n": call.modules.total(),
        **({"model": call.model} if call.model else {}),
        **made_in(call.modules),
    }


def _placement_fields(placement: Placement) -> dict[str, Any]:
    """Returns what a catalog states of a placement; ``channels_last`` is as the operator needs it."""
    fields: dict[str, Any] = {
        "dtype": placement.dtype.value,
        "layout": placement.layout.value,
        "memory": str(placement.request),
        "output_memory": placement.output_text,
    }
    if placement.l1_small_bytes is not None:
        fields["l1_small_size"] = placement.l1_small_bytes
    if placement.output_dtype is not None:
        fields["output_dtype"] = placement.output_dtype.value
    if placement.operands:
        fields["operands"] = [operand.to_json() for operand in placement.operands]
    return fields
