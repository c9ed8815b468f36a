"""Functions for programs: what the commands do, with objects for results. ``import ssinghal`` offers them all.

They are thin, and import what they need when they are called.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ssinghal.core.boards import DEFAULT_BOARD
from ssinghal.core.case import Case
from ssinghal.core.files import open_file
from ssinghal.core.record import Record
from ssinghal.core.tensors import Shape
from ssinghal.core.unpacked import unpacked
from ssinghal.device.modes import choose_device
from ssinghal.device.releases import Release, find_release
from ssinghal.errors import InvalidCase
from ssinghal.estimation.estimator import estimate
from ssinghal.runner.custom_boards import board_name
from ssinghal.runner.pool import Pool
from ssinghal.runner.tasks import DEFAULT_TIMEOUT_S, PoolOptions

if TYPE_CHECKING:
    from ssinghal.diagnose.pipeline import Diagnosis
    from ssinghal.plan.planner import Plan
    from ssinghal.profile.recording import Recording
    from ssinghal.remedy.solver import Unsolved
    from ssinghal.remedy.text import RemedyReport
    from ssinghal.runs.diff import Changes
    from ssinghal.runs.reader import Run

PLAN_TIMEOUT_S = 600.0


def open_pool(
    board: str = DEFAULT_BOARD,
    device: str = "auto",
    *,
    workers: int | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    ttnn: str | None = None,
    ttnn_log: bool = False,
) -> Pool:
    """Opens a device in worker processes, so that a crash or a hang of native code costs one case.

    Args:
        board: A name of ``board_names()``, or the path of a machine's own cluster descriptor.
        device: ``auto``, ``silicon``, ``simulator`` or ``virtual``; a virtual device needs no card and computes nothing.
        workers: Processes, each with an open device; by default 2 on a virtual device and 1 on a real one.
        timeout_s: Seconds of processor time that one case may take; up to 20 times as long by the clock.
        ttnn: Release to run, installed or added by ``ssinghal releases add``; by default the installed one.
        ttnn_log: Whether TTNN may write its log to standard error.

    Returns:
        The pool, a context manager that closes the device. ``facts`` holds what was opened: board, TTNN release, bytes and
        number of banks.

    Raises:
        InvalidCase: The board is unknown.
        DeviceError: The device cannot be opened here, or fails the self-check of its mode.
        HarnessError: The release is not available here.

    Examples:
        >>> with open_pool("n150", "virtual") as pool:  # doctest: +SKIP
        ...     records = list(pool.map(cases))
    """
    choice = choose_device(device, board_name(board), ttnn_log=ttnn_log)
    return Pool(choice, PoolOptions.of(choice, workers=workers, timeout_s=timeout_s, release=_release(ttnn)))


def probe(case: Case, pool: Pool) -> Record:
    """Runs a case on an open device.

    Args:
        case: The call, whose shapes are in elements.
        pool: The device, from ``open_pool``.

    Returns:
        Its record, with the estimate for the board as it is open. ``record.status`` is how the case ended, ``record.verdict``
        holds all numbers of TTNN's message, in bytes. A crash or a timeout is a status too, not an exception.

    Raises:
        InvalidCase: An operand that no device can hold, such as bfloat8_b in row-major layout.

    Examples:
        >>> with open_pool() as pool:  # doctest: +SKIP
        ...     record = probe(make_case("add", ((1, 64, 640, 400), (1, 64, 640, 400))), pool)
        ...     print(record.status, record.verdict.shortfall_bytes)
    """
    arithmetic = estimate(case, pool.facts.opened_board)
    return replace(pool.submit(case).result(), estimate=arithmetic.stored())


def read_run(folder: str | Path = "latest", results: str | Path = "results") -> Run:
    """Reads the records of a run.

    Args:
        folder: Folder of the run, its ``records.jsonl``, the id of a run in ``results`` or how that starts, or ``latest``.
        results: Folder that holds the runs.

    Returns:
        The run: ``records``, each case once; ``groups`` of one device mode, board and TTNN release, which are not to be added
        up; ``losses``, what an interrupted run lacks.

    Raises:
        HarnessError: There is no such run, no complete record in it, or a newer version wrote it.

    Examples:
        >>> run = read_run("results/latest")  # doctest: +SKIP
        >>> [record.id for record in run.records if record.status == "oom"]  # doctest: +SKIP
    """
    from ssinghal.runs import reader
    from ssinghal.runs.folders import find_run

    return reader.read_run(find_run(str(folder), Path(results)))


def compare_runs(before: Run, after: Run, *, across: bool = False) -> Changes:
    """Compares two runs, case by case.

    Args:
        before: The earlier run, from ``read_run``.
        after: The later run.
        across: Whether to compare groups of different boards and device modes too, such as virtual with silicon.

    Returns:
        The changes: ``found`` holds cases with another verdict, bytes that grew or shrank, new and vanished cases; ``counts``
        their number by kind; ``notes`` what is true of more than one case.

    Raises:
        HarnessError: The runs have no device mode and board in common.

    Examples:
        >>> changes = compare_runs(read_run("20261127"), read_run())  # doctest: +SKIP
        >>> changes.counts["new-oom"]  # doctest: +SKIP
    """
    from ssinghal.runs.diff import Changes

    return Changes.of(before, after, across=across)


def find_remedies(
    case: Case,
    board: str = DEFAULT_BOARD,
    device: str = "auto",
    *,
    live: Sequence[str] = (),
    probes: int = 50,
    seconds: float = 5.0,
    compare_values: bool = True,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    ttnn: str | None = None,
) -> RemedyReport | Unsolved:
    """Searches for changes that make a call fit. Each is tried on the device, the least change first.

    Args:
        case: The call, whose shapes are in elements.
        board: Board to open, as for ``open_pool``.
        device: Device mode, as for ``open_pool``.
        live: Other buffers that stay allocated during the call: ``400MiB@dram`` or ``64KiB@l1``, over all banks, or a file.
        probes: Most trials.
        seconds: No trial starts after this time.
        compare_values: Whether torch, where it is installed, checks that a rewrite keeps the values.
        timeout_s: Seconds of processor time that one trial may take; up to 20 times as long by the clock.
        ttnn: TTNN release, as for ``open_pool``.

    Returns:
        A report, whose ``remedies.found`` holds up to three remedies with their code and ``remedies.refused`` the reasons
        against the others; or ``Unsolved`` with the verdict, if the call fits or fails for another reason than memory.

    Raises:
        InvalidCase: The board is unknown.
        DeviceError: The device cannot be opened here.
        HarnessError: The release is not available, or ``live`` cannot be read or is more than a bank holds.

    Examples:
        >>> report = find_remedies(case, "n150", live=["40MiB@l1"])  # doctest: +SKIP
        >>> report.remedies.found[0].result.code  # doctest: +SKIP
    """
    from ssinghal.remedy.device_pools import DevicePools, why_no_values
    from ssinghal.remedy.equivalence import MAX_ELEMENTS_ALONE
    from ssinghal.remedy.resident_buffers import live_set
    from ssinghal.remedy.search import Budget
    from ssinghal.remedy.solver import solve

    choice = choose_device(device, board_name(board))
    options = PoolOptions.of(choice, workers=1, timeout_s=timeout_s, release=_release(ttnn))
    no_values = why_no_values(compare_values)
    with DevicePools(choice, options, no_values=no_values, most_elements=MAX_ELEMENTS_ALONE) as pools:
        return solve(case, pools, Budget(probes, seconds), live_set(live, pools.board), measured=True)


def diagnose_log(
    log: str | Path,
    *,
    module: str | Path | None = None,
    call: Case | None = None,
    replay: bool = True,
    remedies: bool = True,
    board: str | None = None,
    device: str = "auto",
    releases: Sequence[str] = (),
    live: Sequence[str] = (),
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> list[Diagnosis]:
    """Explains the failures in a log: an exception's text, a pytest, TT-Metalium or TT-MLIR log.

    Args:
        log: The text, or the path of a file with it.
        module: Text or path of the MLIR module that the log belongs to.
        call: The call that failed, where the log does not name it with its shapes.
        replay: Whether to run failures of memory again on a device; without it no device is needed.
        remedies: Whether to search for what makes them fit.
        board: Board to replay on; by default the one that the numbers point to.
        device: Device mode, as for ``open_pool``.
        releases: TTNN releases to replay on; by default those that the numbers point to.
        live: Other buffers that stay allocated, as for ``find_remedies``; by default what the message implies.
        timeout_s: Seconds of processor time that one call may take; up to 20 times as long by the clock.

    Returns:
        A diagnosis for each failure, in the order of the log: ``case`` (None where the call is not known), ``explanation``,
        ``replays`` and ``remedies``. ``failure.verdict`` holds the numbers of the message, in bytes.

    Raises:
        InvalidCase: A file that cannot be read, or an unknown board.
        DeviceError: The device cannot be opened here.
        HarnessError: A release is not available, or none is.

    Examples:
        >>> diagnose_log("all is well", replay=False)
        []
    """
    from ssinghal.diagnose.log_reader import read_log
    from ssinghal.diagnose.parse.mlir import read_module
    from ssinghal.diagnose.pipeline import diagnose_failures
    from ssinghal.diagnose.replay_pools import ReplayPools
    from ssinghal.remedy.search import Budget

    releases = [find_release(version).version for version in releases]
    with ExitStack() as stack:
        operations = None if module is None else read_module(*_opened(module, stack))
        reading = read_log(*_opened(log, stack), operations)
    diagnoses: Iterable[Diagnosis] = diagnose_failures(reading, call)
    if not replay:
        return list(diagnoses)
    budget = Budget() if remedies else None
    with ReplayPools(releases, live, None if board is None else board_name(board), device, timeout_s=timeout_s) as pools:
        return [pools.replayed(one, budget) if one.is_memory else one for one in diagnoses]


def plan_model(
    model: str,
    input_shape: Shape | None = None,
    board: str = DEFAULT_BOARD,
    *,
    policy: str = "port",
    rewrites: Sequence[str] = (),
    search: bool = True,
    partial: bool = False,
    allow_stand_ins: bool = False,
    l1_small_bytes: int | None = None,
    timeout_s: float = PLAN_TIMEOUT_S,
    ttnn: str | None = None,
) -> Plan:
    """Runs all calls of a model in their order on a virtual board, with real allocation and freeing.

    Args:
        model: ``package/name``, a recorded trace (``FILE.trace.json.gz``), or ``module:function`` that builds a model.
        input_shape: Shape of the model's first input, in elements; not needed where one trace of the model is at hand.
        board: Board to plan for, as for ``open_pool``.
        policy: How a port treats the calls: ``port``, ``eager``, or the path of a YAML file.
        rewrites: Rewrites to apply, such as ``sdpa``.
        search: Whether to try other rewrites where the model does not fit.
        partial: Whether to plan a recording that does not cover the complete model.
        allow_stand_ins: Whether to decide although calls that TTNN lacks account for more than 1 % of the bytes.
        l1_small_bytes: Bytes of each core's L1_SMALL region; by default as much as the model needs.
        timeout_s: Seconds that recording the model, and each run of it, may take.
        ttnn: TTNN release, as for ``open_pool``.

    Returns:
        The plan. ``result`` holds the status, the peak in bytes per DRAM bank, the bytes around every step and the first call
        that does not fit; ``remedy`` is the run that fits with further rewrites, None where there is none.

    Raises:
        InvalidCase: An unknown model, board, policy or rewrite, or an incomplete recording without ``partial``.
        CaptureError: The model cannot be recorded.
        DeviceError: The virtual board cannot be opened here.
        HarnessError: The release is not available here.

    Examples:
        >>> plan = plan_model("yolo12x", (1, 3, 640, 640), "n150")  # doctest: +SKIP
        >>> plan.result.status, plan.result.peak_bytes, plan.result.dram_bank_bytes  # doctest: +SKIP
    """
    from ssinghal.capture.client import Captures
    from ssinghal.capture.trace_library import trace_for
    from ssinghal.plan.planner import Boards, PlanSettings, check_trace, plan, with_notes
    from ssinghal.plan.policy import find_policy

    chosen, name = find_policy(policy, tuple(rewrites)), board_name(board)
    with Captures(timeout_s) as captures:
        trace = trace_for(model, None if input_shape is None else (tuple(input_shape),), captures)
    notes = check_trace(trace, partial=partial)
    with Boards(PlanSettings(l1_small_bytes, allow_stand_ins, timeout_s=timeout_s), _release(ttnn)) as boards:
        return with_notes(plan(trace, chosen, name, boards, search=search), notes)


def profiling(device: Any, *, program_buffers: bool = False) -> Recording:
    """Records the memory of what follows on an open device of ttnn, in this process, such as a cell of a notebook.

    Args:
        device: What ``ttnn.open_device`` or ``ttnn.open_mesh_device`` returned. Buffers that it holds already count.
        program_buffers: Whether calls whose program buffers TTNN does not report are repeated without dispatching them, where
            that is safe: it reports more then.

    Returns:
        A context manager. ``peak`` is the most bytes per bank of each memory, ``operations`` the calls with their lines,
        ``report()`` the summary that ``ssinghal profile`` prints, ``profile`` all of it; also within the block, up to the last
        call. ttnn is as before when the block ends; an exception passes through.

    Raises:
        InvalidCase: It is no open device, its calls are recorded already, or a graph capture is active; when the block begins.

    Examples:
        >>> with profiling(device) as p:  # doctest: +SKIP
        ...     y = ttnn.matmul(a, b)
        >>> p.peak["l1"], p.operations[-1].site.line  # doctest: +SKIP
    """
    from ssinghal.profile.recording import Recording

    return Recording(device, program_buffers=program_buffers)


def _release(version: str | None) -> Release | None:
    return None if version is None else find_release(version)


def _opened(source: str | Path, stack: ExitStack) -> tuple[BinaryIO, str]:
    """Opens a file, or a text that names none. Also returns its name for messages."""
    if isinstance(source, str) and not os.path.isfile(source):
        return io.BytesIO(source.encode()), "the text"
    try:
        return unpacked(stack.enter_context(open_file(Path(source), pipe=True)), str(source)), str(source)
    except OSError as error:
        raise InvalidCase(f"{source}: {error.strerror}") from error
