"""What the marks of a test and the baseline make of how it ended."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ssinghal.core.tensors import format_bytes
from ssinghal.core.verdict import Status, Verdict, sentence
from ssinghal.device.error_patterns import translate_error
from ssinghal.pytest_plugin.memory.figures import MEMORY_NAMES, Figures, shown
from ssinghal.pytest_plugin.memory.marks import Budget, ExpectedOom, Marks

MEMORY_OF = {"l1_per_core": "l1", "dram_per_bank": "dram", "program_buffers": "program", "l1_small": "l1_small"}


def fail(item: pytest.Item, report: pytest.TestReport, lines: list[str]) -> None:
    """Makes a test fail that passed."""
    report.outcome = "failed"
    try:
        pytest.fail("\n".join(lines), pytrace=False)
    except pytest.fail.Exception:
        report.longrepr = item.repr_failure(pytest.ExceptionInfo.from_current())


def excesses(marks: Marks, figures: Figures) -> list[str]:
    """Returns what the test took beyond its marks, one line each with the lines of the program below; none if nothing."""
    lines: list[str] = []
    if marks.budget is None and marks.leak_bytes is None:
        return lines
    if figures.unknown:
        return [f"the limits of device memory cannot be checked: {figures.unknown}"]
    if marks.budget is not None:
        lines += _beyond_budget(marks.budget, figures)
    if marks.leak_bytes is not None:
        lines += _beyond_leaks(marks.leak_bytes, figures)
    if figures.unrecorded:
        lines.append(f"the limits of device memory cannot be checked: {figures.unrecorded}")
    return lines


def _beyond_budget(budget: Budget, figures: Figures) -> Iterator[str]:
    for name, memory in MEMORY_OF.items():
        limit, size = getattr(budget, name), figures.peaks.get(memory, 0)
        if limit is None or size <= limit:
            continue
        over = f"{size - limit:,} B over the limit of {format_bytes(limit)}"
        yield f"limit_device_memory({name}): {MEMORY_NAMES[memory]} took {format_bytes(size)}, {over}; held by"
        yield from shown(figures.lines.get(memory, ()))
    limit = budget.program_buffers
    if limit is not None and figures.unknown_programs and figures.peaks.get("program", 0) <= limit:
        runs = f"program buffers of {figures.unknown_programs:,} runs of programs are not known"
        yield f"limit_device_memory(program_buffers) cannot be checked: {runs}"


def _beyond_leaks(limit: int, figures: Figures) -> Iterator[str]:
    leaks = {memory: size for memory, size in figures.leaks.items() if size > limit}
    for memory, size in leaks.items():
        left = f"{format_bytes(size)} still allocated when the test had ended, limit {format_bytes(limit)}"
        yield f"limit_device_leaks: {MEMORY_NAMES[memory]}: {left}"
    if leaks:
        yield "made by"
        yield from shown(figures.leak_lines)


def verdict_of(error: BaseException) -> Verdict:
    return translate_error(type(error).__name__, str(error))


def judge_expected(item: pytest.Item, report: pytest.TestReport, expected: ExpectedOom, error: BaseException | None) -> None:
    """A test that must run out of memory: it counts as an expected failure where it does, and fails where it does not."""
    if hasattr(report, "wasxfail") or report.skipped:
        return
    if error is None:
        if report.when == "call":
            reason = f" ({expected.reason})" if expected.reason else ""
            fail(item, report, [f"{expected}: no out-of-memory error ended the test{reason}: if it fits now, remove the mark"])
        return
    verdict = verdict_of(error)
    if verdict.status is Status.OOM and verdict.resource in expected.resources:
        report.outcome = "skipped"
        report.wasxfail = expected.reason or sentence(verdict)
        return
    what = f"{verdict.resource} instead: {sentence(verdict)}" if verdict.status is Status.OOM else "no out-of-memory error"
    report.sections.append(("device memory", f"{expected}: the test raised {what}"))
