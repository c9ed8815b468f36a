"""Turns blocks of lines into Parquet files, in this process or in others beside it.

``python -m ssinghal.runs.column_parts`` is such a process: it reads requests and answers them until its input ends. A pool of
``multiprocessing`` would import the caller's main module once more, which scripts do not expect.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import IO

from ssinghal.core.record import Record
from ssinghal.errors import HarnessError
from ssinghal.runs.column_layout import SELECTED, TYPES, row_of
from ssinghal.runs.duck import Duck, text
from ssinghal.runs.line_files import Block
from ssinghal.runs.parsing import MAX_LOSSES, record_or_loss

_COLUMNS = ", ".join(f'"{name}": {text(kind)}' for name, kind in TYPES.items())


@dataclass(frozen=True)
class BlockContents:
    """What a block holds. ``losses``: number of a line, and why it is no record; ``more`` of them are not listed."""

    records: int
    losses: tuple[tuple[int, str], ...]
    more: int


def write_part(block: Block, path: Path, to: Path, duck: Duck) -> BlockContents:
    """Writes the columns of the records of a block to the Parquet file ``to``; no file if there is none.

    Raises:
        HarnessError: A record is of a newer version.
    """
    losses: list[tuple[int, str]] = []
    records = more = longest = 0
    rows = duck.folder / "rows.jsonl"
    end = block.number + block.data.count(b"\n")
    with rows.open("wb") as file:
        for number, start, line in block.lines():
            if not line.strip():
                continue
            read = record_or_loss(line, path, number, last=number == end)
            if isinstance(read, Record):
                row = row_of(read, number, start, len(line))
                file.write(row + b"\n")
                longest = max(longest, len(row))
                records += 1
            elif len(losses) < MAX_LOSSES:
                losses.append((number, read))
            else:
                more += 1
    if records:
        source = f"read_json({text(str(rows))}, format = 'newline_delimited', columns = {{{_COLUMNS}}}"
        written = duck.folder / "part.parquet"
        duck.run(
            f"COPY (SELECT {SELECTED} FROM {source}, maximum_object_size = {longest + 1024})) "
            f"TO {text(str(written))} (FORMAT parquet, COMPRESSION zstd)"
        )
        os.replace(written, to)
    rows.unlink()
    return BlockContents(records, tuple(losses), more)


def write_parts(blocks: Iterable[Block], path: Path, folder: Path, processes: int) -> Iterator[BlockContents]:
    """Writes a Parquet file to ``folder`` for each block, and yields what they hold in the order of the blocks.

    Raises:
        HarnessError: A record is of a newer version, or a process ended early.
    """
    if processes < 2:
        with Duck(threads=1) as duck:
            for block in blocks:
                yield write_part(block, path, _part_file(folder, block), duck)
        return
    with ThreadPoolExecutor(processes) as threads:
        idle: SimpleQueue[_Process] = SimpleQueue()
        started = [_Process(folder / f"process-{number}") for number in range(processes)]
        try:
            for process in started:
                idle.put(process)

            def write(block: Block) -> BlockContents:
                process = idle.get()
                try:
                    return process.write(block, path, _part_file(folder, block))
                finally:
                    idle.put(process)

            waiting: deque[Future[BlockContents]] = deque()
            for block in blocks:
                waiting.append(threads.submit(write, block))
                if len(waiting) > processes:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
            for process in started:
                process.close()


def _part_file(folder: Path, block: Block) -> Path:
    return folder / f"part-{block.number:015d}.parquet"


class _Process:
    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        command = [sys.executable, "-m", "ssinghal.runs.column_parts", str(folder)]
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)

    def write(self, block: Block, path: Path, to: Path) -> BlockContents:
        head = {"number": block.number, "start": block.start, "bytes": len(block.data), "path": str(path), "to": str(to)}
        try:
            requests, answers = _pipes(self._child)
            requests.write(json.dumps(head).encode() + b"\n")
            requests.write(block.data)
            requests.flush()
            answer = json.loads(answers.readline() or b"{}")
        except (OSError, ValueError) as error:
            raise HarnessError(f"{path}: a process that counts its records ended early") from error
        if "error" in answer:
            raise HarnessError(answer["error"])
        if not answer:
            raise HarnessError(f"{path}: a process that counts its records ended early")
        return BlockContents(answer["records"], tuple((number, why) for number, why in answer["losses"]), answer["more"])

    def close(self) -> None:
        self._child.kill()
        self._child.wait()
        for pipe in _pipes(self._child):
            pipe.close()


def _pipes(child: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    if child.stdin is None or child.stdout is None:
        raise HarnessError("a process without pipes")
    return child.stdin, child.stdout


def _serve(folder: Path, requests: IO[bytes], answers: IO[bytes]) -> None:
    with Duck(folder, threads=1) as duck:
        while line := requests.readline():
            head = json.loads(line)
            block = Block(head["number"], head["start"], requests.read(head["bytes"]))
            try:
                part = write_part(block, Path(head["path"]), Path(head["to"]), duck)
                answer = {"records": part.records, "losses": part.losses, "more": part.more}
            except HarnessError as error:
                answer = {"error": str(error)}
            answers.write(json.dumps(answer).encode() + b"\n")
            answers.flush()


if __name__ == "__main__":
    gc.disable()  # records have no circles
    _serve(Path(sys.argv[1]), sys.stdin.buffer, sys.stdout.buffer)
