"""Joins the runs of parts of a selection into one run, after checking that each case is in exactly one of them.

Records are read and written line by line, so that the memory that this takes does not grow with them.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ssinghal.core.case_sets import CaseDigest, Identity, Shard
from ssinghal.core.json_text import read_json
from ssinghal.core.json_values import SIZE_BITS
from ssinghal.core.record import Record
from ssinghal.core.run_info import RunInfo
from ssinghal.core.versions import new_run_id
from ssinghal.errors import HarnessError, SeveralFaults
from ssinghal.runs.folder_lock import is_in_progress
from ssinghal.runs.folders import read_head
from ssinghal.runs.latest import hidden_until_complete
from ssinghal.runs.line_files import RECORDS, blocks, lines_file
from ssinghal.runs.one_device import check_device
from ssinghal.runs.parsing import record_or_loss
from ssinghal.runs.run_differences import differences
from ssinghal.runs.writer import RunFolder

NAMED = 5  # of the cases that are wrong


class NotTheSelection(HarnessError):
    """Cases of the selection are in none of the runs. ``present``: those that are in one."""

    def __init__(self, text: str, present: frozenset[Identity]) -> None:
        super().__init__(text)
        self.present = present


@dataclass(frozen=True)
class MergedPart:
    """A run that is to be merged: its folder, and what its ``run.json`` holds."""

    path: Path
    info: RunInfo

    @classmethod
    def of(cls, path: Path) -> MergedPart:
        """Reads the head of a run.

        Raises:
            HarnessError: It is no folder of a run, or one of an earlier version.
        """
        info = read_head(path)
        if info.finished and info.selected == 0:  # where nothing is collected, nothing is known of the selection either
            return cls(path, info)
        if not info.selection_sha256 or info.selected is None:
            raise HarnessError(
                f"run {info.run} ({path}): made by a version that did not state which cases it selected: run it again"
            )
        return cls(path, info)

    @property
    def lack(self) -> str:
        """A line on what the run lacks, and how to get it; empty where it ended after its last case."""
        if self.info.finished and not self.info.unreached:
            return ""
        run = f"run {self.info.run} ({self.path})"
        if is_in_progress(self.path):
            return f"{run}: it is still in progress; wait for its end"
        return f"{run}: {self.info.interruption or 'it did not end'}; {self.remedy}"

    @property
    def label(self) -> str:
        """The run, and how it came to have its cases where that is known."""
        if self.info.shard:
            return f"{self.info.run} (shard {self.info.shard})"
        return f"{self.info.run} ({self.info.origin})" if self.info.origin else self.info.run

    @property
    def remedy(self) -> str:
        """What gives the run the records that it lacks."""
        if "catalogs" in self.info.options:
            return f"complete it first: ssinghal run --resume {shlex.quote(str(self.path))}"
        return "run its tests again, and leave this run out"

    def records(self) -> Iterator[tuple[Record, bytes]]:
        """Yields each record with its line.

        Raises:
            HarnessError: The file cannot be read; a line is not a complete record, or one of a newer version or another device.
        """
        path = lines_file(self.path) or self.path / RECORDS
        for block in blocks(path):
            for number, _, line in block.lines():
                if not line:  # after the end of the last one
                    continue
                record = record_or_loss(line, path, number, last=False)
                if not isinstance(record, Record):
                    raise HarnessError(f"{path}:{number}: not a complete record; {self.remedy}")
                check_device(record, self.info.device, f"{path}:{number}")
                yield record, line


def parts_of(paths: Sequence[Path]) -> list[MergedPart]:
    """Returns the parts of one selection that can be merged, judged by what their ``run.json`` holds.

    Raises:
        HarnessError: One cannot be, or they differ in what selected or answered their cases; one line.
        SeveralFaults: Some did not end; a line for each.
    """
    parts = [MergedPart.of(path) for path in paths]
    if lacks := [part.lack for part in parts if part.lack]:
        more = [f"{len(lacks) - NAMED:,} more did not end either"] if len(lacks) > NAMED else []
        raise SeveralFaults([*lacks[:NAMED], *more])
    twice = [run for run, times in Counter(part.info.run for part in parts).items() if times > 1]
    if twice:
        raise HarnessError(f"run {twice[0]} is given twice")
    some = [part for part in parts if part.info.selection_sha256]
    if not some:
        raise HarnessError(f"run {parts[0].info.run}: no case was selected: nothing to merge")
    for part in some[1:]:
        if found := differences(some[0].info, part.info):
            raise HarnessError(f"{some[0].path} and {part.path} cannot be merged: {'; '.join(found)}")
    return some


def check_union(parts: Sequence[MergedPart]) -> None:
    """Raises HarnessError unless the records of the parts are the selection, each case once; ``NotTheSelection`` where some are
    missing."""
    digest = CaseDigest()
    for part in parts:
        before = digest.cases
        for record, _ in part.records():
            digest.add((record.op, record.key))
        if (cases := digest.cases - before) != part.info.selected:
            raise HarnessError(
                f"run {part.info.run}: {cases:,} records for {part.info.selected or 0:,} selected cases; {part.remedy}"
            )
    first = parts[0].info
    if digest.hexdigest() != first.selection_sha256:
        _explain(parts, first.selected_of_all or 0)


def _explain(parts: Sequence[MergedPart], of_all: int) -> None:
    """Raises the error of parts that are not the selection, which takes memory for the name of each case."""
    part_of: dict[Identity, MergedPart] = {}
    for part in parts:
        for record, _ in part.records():
            other = part_of.setdefault((record.op, record.key), part)
            if other is not part:
                raise HarnessError(f"{record.op} {record.id} is in two runs: {other.label} and {part.label}")
    missing = of_all - len(part_of)
    if missing <= 0:
        raise HarnessError(f"{len(part_of):,} cases are in the runs, which are not the {of_all:,} that were selected")
    lacking = _lacking([part.info.shard for part in parts])
    shards = f" (shard{'s' * (', ' in lacking)} {lacking})" if lacking else ""
    is_or_are = "is" if missing == 1 else "are"
    raise NotTheSelection(
        f"{missing:,} of {of_all:,} selected cases {is_or_are} in none of the runs{shards}", frozenset(part_of)
    )


def _lacking(shards: Sequence[str]) -> str:
    """Returns the parts that are not among ``shards``, where these are of the same number of parts."""
    given = [Shard.parse(text) for text in shards if text]
    if len(given) < len(shards) or len({shard.of for shard in given}) != 1:
        return ""
    lacking = sorted(set(range(1, given[0].of + 1)) - {shard.number for shard in given})
    return ", ".join(str(Shard(number, given[0].of)) for number in lacking[:NAMED]) + (", …" if len(lacking) > NAMED else "")


def merged(parts: Sequence[MergedPart], results: Path, command: str) -> tuple[RunFolder, list[str]]:
    """Writes the records of the parts, which ``check_union`` has checked, into a new run in ``results``, and returns its folder
    and the lines of its summary. Nothing is left of a run that could not be completed. ``command``: the command line.

    Raises:
        HarnessError: It cannot be written.
    """
    first = parts[0].info
    info = replace(
        first,
        run=new_run_id(),
        started=min(part.info.started for part in parts),
        command=command,
        options={name: None if name == "shard" else value for name, value in first.options.items()},
        selected=first.selected_of_all,
        finished=None,
        totals={},
        shard="",
        merged=tuple(part.info.run for part in parts),
        resumed=(),
    )
    try:
        with hidden_until_complete(results, info.run) as hidden:
            folder = RunFolder(hidden, info)
            folder.place = results / info.run
            for part in parts:
                for _, line in part.records():
                    folder.append(_fields(line, part))
            lines = folder.close(info.selected or 0)
    except OSError as error:
        raise HarnessError(f"cannot write results to {results / info.run}: {error.strerror}") from error
    folder.path = folder.place
    return folder, [*lines, *folder.index()]


def _fields(line: bytes, part: MergedPart) -> dict[str, Any]:
    """Returns the fields of a record's line, those of later versions too, which no reader has checked.

    Raises:
        HarnessError: A number in it is none of JSON.
    """
    try:
        return read_json(line.decode(), bits=SIZE_BITS)  # type: ignore[no-any-return]  # a record is an object
    except ValueError as error:
        raise HarnessError(f"{part.path}: a record that cannot be written again: {error}; {part.remedy}") from error
