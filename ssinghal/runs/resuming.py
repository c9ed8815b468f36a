"""Continues the run of a folder that has no answer for some of its cases: killed, interrupted, or out of disk.

Its records are read and written line by line, so that the memory that this takes does not grow with them. Whenever this is
interrupted, the folder holds all answers that it had.
"""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ssinghal.core.case import Case
from ssinghal.core.closing import Closing
from ssinghal.core.device_facts import DeviceFacts, DeviceMode
from ssinghal.core.files import bounded_lines, refuse_other_names, refuse_special, replacing
from ssinghal.core.record import Record
from ssinghal.core.run_info import RunInfo
from ssinghal.core.verdict import DecidedBy, Status
from ssinghal.core.versions import now
from ssinghal.errors import HarnessError
from ssinghal.runs.compressing import repack_held
from ssinghal.runs.folder_lock import FolderLock
from ssinghal.runs.folders import read_head
from ssinghal.runs.line_files import COMPRESSED, RECORDS, blocks, is_compressed, lines_file
from ssinghal.runs.one_device import check_device
from ssinghal.runs.parsing import record_or_loss
from ssinghal.runs.summary import Summary, SummaryCounts
from ssinghal.runs.writer import Continued, RunFolder

_NO_CASE = -1


class UnfinishedRun(Closing):
    """The run of the folder ``path``, which no other process can write until this is closed.

    Attributes:
        info: What ``run.json`` holds.

    Raises:
        HarnessError: It cannot be read, is still in progress, or was not made by this version of ``ssinghal run``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._records = path / RECORDS
        try:
            self._lock = FolderLock(path)
        except OSError as error:
            raise HarnessError(f"cannot resume {path}: {error.strerror}; expected the folder of a run") from error
        self._kept = bytearray()  # for each line of the records, whether it stays
        try:
            refuse_special(*path.iterdir())  # they would be written through
            refuse_other_names(self._records)
            self.info: RunInfo = read_head(path)
            self._check_origin()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._lock.close()

    def check_selection(self, selected: int, digest: str) -> None:
        """Raises HarnessError unless the options of the run still select the same cases."""
        if digest == self.info.selection_sha256 and selected == self.info.selected:
            return
        others = f"{selected:,} cases" if selected != self.info.selected else "others"
        raise HarnessError(
            f"run {self.info.run} cannot be resumed: its catalogs have changed; it selected {self.info.selected or 0:,} cases, "
            f"and its options now select {others}"
        )

    def check_answerer(self, facts: DeviceFacts, answerer: str, searcher: str = "") -> None:
        """Raises HarnessError unless the device and the code are those that answered, and searched for remedies, so far; the
        text names what differs."""
        if (answerer, searcher) == (self.info.answerer, self.info.searcher):
            return
        if not self.info.answerer:  # it ended before there was a device
            return
        then, here = self.info.device.deciding(), facts.deciding()
        differing = [name for name in then if then[name] != here[name]]
        if differing:
            what = "; ".join(f"{name} {_words(then[name])}, and here {_words(here[name])}" for name in differing[:3])
        else:
            version = self.info.versions.get("ssinghal", "")
            what = f"the same device, but other code or limits (ssinghal {version}, commit {self.info.commit or 'unknown'})"
        raise HarnessError(f"run {self.info.run} cannot be resumed here: it was answered by {what}")

    def unanswered(self, cases: Sequence[Case]) -> list[Case]:
        """Returns those of ``cases``, all that the run selected, that no device answered.

        Raises:
            HarnessError: The records cannot be read; or one is of another case, a newer version, or answered by another device.
        """
        numbers = {(case.name, case.key): number for number, case in enumerate(cases)}
        line_of = array("q", [_NO_CASE]) * len(cases)
        self._kept = bytearray()
        path = lines_file(self.path) or self._records
        for line in self._lines():
            self._kept.append(False)
            record = self._complete_record(line, len(self._kept))
            if record is None:
                continue
            number = numbers.get((record.op, record.key))
            where = f"{path}:{len(self._kept)}"
            if number is None:
                raise HarnessError(f"{where}: {record.op} {record.id} is not a case that this run selected")
            if was_answered(record):  # the last answer counts, as for a reader
                check_device(record, self.info.device, where)
                if line_of[number] != _NO_CASE:
                    self._kept[line_of[number]] = False
                line_of[number] = len(self._kept) - 1
                self._kept[-1] = True
        return [case for case, line in zip(cases, line_of, strict=True) if line == _NO_CASE]

    @property
    def is_complete(self) -> bool:
        """Whether the run ended, and each line is the answer for a case. To be used after ``unanswered``."""
        return self.info.finished is not None and not self.info.unreached and all(self._kept)

    def summary(self) -> Summary:
        """Returns the summary of the answers that it has. To be used after ``unanswered``."""
        counts = SummaryCounts()
        for _ in self._staying(counts):
            pass
        return counts.summary()

    def continued(self) -> RunFolder:
        """Returns the folder with the answers that it has, for the records of the other cases. To be called once, after
        ``unanswered``. Compressed records are unpacked.

        Raises:
            HarnessError: It cannot be written; it has all its answers.
        """
        if (self.path / COMPRESSED).is_file():
            repack_held(self.path, undo=True)
        counts = SummaryCounts()
        try:
            if not any(self._kept[sum(self._kept) :]):  # what stays is in front, as always but after a damage
                end = sum(map(len, self._staying(counts)))
                if self._records.exists():  # not where the run was killed before it had one
                    os.truncate(self._records, end)
            else:
                with replacing(self._records) as temporary, temporary.open("wb") as file:
                    file.writelines(self._staying(counts))
        except OSError as error:
            raise HarnessError(f"cannot write {self._records}: {error.strerror}") from error
        info = replace(self.info, finished=None, totals={}, unreached=0, resumed=(*self.info.resumed, now()))
        return RunFolder(self.path.parent, info, Continued(self.path, counts, self._lock))

    def _staying(self, counts: SummaryCounts) -> Iterator[bytes]:
        for line, stays in zip(self._lines(), self._kept, strict=True):
            if stays:
                counts.add(json.loads(line))
                yield line

    def _lines(self) -> Iterator[bytes]:
        path = lines_file(self.path)
        if path is None:  # killed before it had one
            return
        try:
            if is_compressed(path):
                for block in blocks(path):
                    yield from block.complete_lines()
            else:
                yield from bounded_lines(path)
        except OSError as error:
            raise HarnessError(f"cannot read {path}: {error.strerror}") from error
        except ValueError as error:
            raise HarnessError(f"{path}: {error}") from error

    def _complete_record(self, line: bytes, number: int) -> Record | None:
        """Returns the record of a line; None for one that was truncated, or damaged."""
        if not line.endswith(b"\n"):
            return None
        read = record_or_loss(line, self._records, number, last=False)
        return read if isinstance(read, Record) else None

    def _check_origin(self) -> None:
        if "catalogs" not in self.info.options:
            raise HarnessError(
                f"{self.path}: a run of pytest cannot be resumed: expected one of ssinghal run; run its tests again, "
                "in parts with --oom-shard if there are many"
            )
        if not self.info.selection_sha256:
            raise HarnessError(f"{self.path}: made by a version that did not state which cases it selected: run it again")


def was_answered(record: Record) -> bool:
    """Whether a device answered: the run reached the case, and a process had a device open for it."""
    failed_to_open = record.status is Status.ERROR and record.stage == "device" and record.decided_by is DecidedBy.HARNESS
    return record.device_mode is not DeviceMode.NONE and not failed_to_open


def _words(value: object) -> str:
    return str(value) or "none"
