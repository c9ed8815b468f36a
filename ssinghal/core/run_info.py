"""What all records of one run share: ``run.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ssinghal.core.device_facts import NOT_OPENED, DeviceFacts
from ssinghal.core.json_values import Bytes, LineText, plain
from ssinghal.core.record import SCHEMA_VERSION
from ssinghal.core.verdict import MESSAGE_LIMIT
from ssinghal.errors import cut, one_line


@dataclass(frozen=True)
class RunInfo:
    """What all records of one run share; written to ``run.json`` before the first record."""

    # The run's id, which sorts by the time that it started.
    run: LineText = ""
    # When it started.
    started: LineText = ""
    # The command line.
    command: LineText = ""
    # The working folder, where relative paths of the options begin; empty in runs of versions that did not state it.
    folder: LineText = ""
    # The checked-out commit, with "-dirty" where files differ.
    commit: LineText = ""
    # What it opened.
    device: DeviceFacts = NOT_OPENED
    # Versions of the packages that decide a verdict.
    versions: Mapping[LineText, LineText] = field(default_factory=dict)
    # The options that were given.
    options: Mapping[str, Any] = field(default_factory=dict)
    # Changes when old fields change their meaning.
    schema: int = SCHEMA_VERSION
    # How many cases were selected; None while that is not known.
    selected: Bytes | None = None
    # When it ended; None while it goes on.
    finished: LineText | None = None
    # Cases by status.
    totals: Mapping[LineText, Bytes] = field(default_factory=dict)
    # How many cases it ended before; each has a ``not_run`` record. 0 in runs of versions that did not count them.
    unreached: Bytes = 0
    # What answered: ``answerer_of``. Empty in runs of versions that did not state it.
    answerer: LineText = ""
    # What searched for remedies, with the answerer: ``searcher_of``. Empty where nothing did.
    searcher: LineText = ""
    # The part of the selection that was run, as ``2/8``; empty for all of it.
    shard: LineText = ""
    # Of all cases that were selected, in whatever shard: how many, and their digest.
    selected_of_all: Bytes | None = None
    selection_sha256: LineText = ""
    # The ids of the runs that it was merged from.
    merged: tuple[LineText, ...] = ()
    # When it was resumed.
    resumed: tuple[LineText, ...] = ()

    @property
    def interruption(self) -> str:
        """A line on the cases that the run did not reach; empty if there are none."""
        return f"interrupted: {self.unreached:,} of {self.selected or 0:,} cases were not run" if self.unreached else ""

    @property
    def origin(self) -> str:
        """A line on the runs that it was merged from; empty if it was not."""
        count = len(self.merged)
        names = cut(", ".join(self.merged), MESSAGE_LIMIT)
        return f"merged from {count:,} run{'s' * (count > 1)}: {names}" if count else ""

    def text(self) -> str:
        """Returns what ``run.json`` holds. Texts that would be several lines, as the name of a folder may be, are written as
        one, for no reader takes others."""
        return json.dumps(_of_lines(plain(self)), indent=2)


def _of_lines(value: Any) -> Any:
    if isinstance(value, dict):
        return {one_line(key): _of_lines(item) for key, item in value.items()}
    if isinstance(value, list):
        return list(map(_of_lines, value))
    return one_line(value) if isinstance(value, str) else value
