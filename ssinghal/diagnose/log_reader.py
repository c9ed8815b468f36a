"""Reads a log as a stream: what failed in it, and what was running then.

Each line belongs to a process (a rank that a prefix names). It continues the text that is pending for that process, or starts
one: an error, an operation of a compiler's runtime, or a statement of a module. Only what ended is kept, not the lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import BinaryIO

from ssinghal.diagnose.chips import boards_named
from ssinghal.diagnose.log_scan import LogScan
from ssinghal.diagnose.log_state import operation_of
from ssinghal.diagnose.model import Failure, LogReading, Module, Operation
from ssinghal.diagnose.parse.line_reader import Lines
from ssinghal.diagnose.parse.mlir_module import Place, Places, completed, following

# A line that has none of these changes nothing, unless a text is pending (a bare message has no mark: "Out of").
# Each takes a second for a gigabyte, so they are few: of crashes those that come in the middle of a log.
ANCHORS = (b"TT_", b"Error", b"ttnn", b".py", b"___", b"#loc", b"bad_alloc", b"ut of", b"tatically", b"OOM", b"^",
           b"Fatal Python", b"Segmentation fault", b"core dumped", b"Killed", b"received signal",
           b"Tensor(storage")  # fmt: skip

EMPTY = "the input is empty: was standard error redirected too (2>&1)?"


def read_log(stream: BinaryIO, name: str, module: Module | None = None) -> LogReading:
    """Returns every failure in ``stream`` with the operation that was running. ``module``: of a file that belongs to the log.

    Raises OSError where the bytes cannot be read, but nothing for their content.
    """
    lines = Lines(stream, ANCHORS)
    reader = LogScan()
    for line in lines:
        reader.read(line)
        lines.busy = reader.busy
    reader.finish()
    return _reading(reader, name, lines, module)


def _reading(reader: LogScan, name: str, lines: Lines, module_file: Module | None) -> LogReading:
    module = (module_file.operations if module_file else ()) or reader.module.operations()
    failed = [failure.line for failure in reader.failures.all]
    failures = [
        replace(
            failure,
            boards=reader.boards.of(failure.line, failed) | boards_named(failure.test),
            versions=reader.versions.of(failure.line, failed),
        )
        for failure in reader.failures.all
    ]
    failures += reader.own_reports.without_message(failures)
    failures = [reader.own_reports.placed(failure) for failure in failures]
    places = list(map(Places(module).of, (failure.operation for failure in failures)))
    for i, (failure, place) in enumerate(zip(failures, places, strict=True)):
        if failure.operation is not None and place.at is not None:
            failures[i] = replace(failure, operation=completed(failure.operation, module[place.at]))
    first = next((i for i, failure in enumerate(failures) if failure.verdict.resource), 0)
    at = places[first].at if failures else None
    never_ran = following(at, module) if at is not None else ()
    never_ran = never_ran[_ran_after(reader, failures[first].line, never_ran) :] if failures else ()
    counts = {
        "more different failures were not kept": reader.failures.left_out,
        "messages are cut off: the numbers that they lack are not in the text": reader.failures.cut,
        "more errors on a line with many were not read": reader.skipped,
        "more operations of the module were not kept": reader.module.left_out,
    }
    has_operations = any(failure.operation for failure in failures) or any(
        process.started for process in reader.processes.values()
    )
    remarks = [
        *lines.remarks,
        *([] if lines.count else [EMPTY]),
        *dict.fromkeys(_module_remarks(module_file, failures, places, has_operations)),
        *(f"{count:,} {what}" for what, count in counts.items() if count),
    ]
    own_calls, names_compiler = reader.own_reports.calls, reader.names_compiler
    return LogReading(
        name, lines.count, tuple(failures), module, never_ran, tuple(remarks), own_calls, names_compiler or has_operations
    )


def _module_remarks(
    module_file: Module | None, failures: Sequence[Failure], places: Sequence[Place], has_operations: bool
) -> Iterator[str]:
    """Yields what is odd about the module of the log. ``has_operations``: the log shows operations that were executed."""
    if module_file is not None:
        yield from module_file.remarks
        if not has_operations:
            yield "a module was given, but no line of the log shows which of its operations was running"
    for failure, place in zip(failures, places, strict=True):
        operation = failure.operation
        if operation is None:
            continue
        results = ", ".join(value.name for value in operation.results)
        if place.differs:
            yield f"the module has other operands or types for {results} {operation.name} than the log: the log's are used"
        elif place.at is None and module_file is not None and module_file.is_ttnn:
            yield f"the module has no {results} {operation.name}, which was running according to the log"


def _ran_after(reader: LogScan, line: int, operations: Sequence[Operation]) -> int:
    """Returns how many of ``operations`` started after ``line``: up to the last one of any process."""
    statements = [p.running for p in reader.processes.values() if p.running is not None and p.running.number > line]
    places = Places(operations)
    positions = [places.of(operation_of(statement, reader.module.aliases)).at for statement in statements]
    return max((at + 1 for at in positions if at is not None), default=0)
