"""``ssinghal run``: complete catalogs on a device."""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ssinghal.cli import options
from ssinghal.cli.long_help import LongHelp
from ssinghal.cli.progress import VerdictProgress, doing, track
from ssinghal.cli.requests import DeviceRequest, device_options
from ssinghal.cli.stored_options import check_typed, choice_of, plain_options, values_of
from ssinghal.cli.streams import echo, show
from ssinghal.core.case import Case
from ssinghal.core.case_sets import Shard
from ssinghal.core.tensors import BufferType, DType, format_bytes
from ssinghal.errors import DEVICE_ERRORS
from ssinghal.runner.cluster.opening import Cluster
from ssinghal.runner.sweep import Opened, sweep
from ssinghal.runs.summary import left_out
from ssinghal.runs.writer import RunFolder
from ssinghal.sweeps.answering import Answering
from ssinghal.sweeps.beginning import OpenDevice, new_folder

if TYPE_CHECKING:
    from ssinghal.catalog.choosing import Chosen
    from ssinghal.core.run_info import RunInfo
    from ssinghal.report.placement_view import PlacementView
    from ssinghal.runs.resuming import UnfinishedRun
    from ssinghal.runs.summary import Summary


@click.command(cls=LongHelp, first=("--op", "--memory", "--board", "--incremental", "--results"))
@options.catalogs_argument
@options.operators
@options.memory(None, "Put operands into dram or l1, whatever the catalog has.")
@options.placements
@options.dtypes
@options.weights
@options.count("--max-bytes", "Skip cases whose largest operand has more logical bytes.", unit="BYTES")
@options.sample()
@options.shard
@click.option("--remedies", is_flag=True, help="Search for what makes the cases fit that are out of memory.")
@options.scheduler
@options.cluster
@options.incremental
@click.option("--resume", metavar="RUN", help="Complete this run, with its own options, instead of starting one.")
@device_options(options.timeout(), options.host_tiles(), options.workers)
@options.results
@options.json("The summary as one JSON object.")
def run(
    catalogs: tuple[str, ...],
    operators: tuple[str, ...],
    memory: BufferType | None,
    placements: tuple[str, ...],
    dtypes: tuple[DType, ...],
    weights: DType | None,
    max_bytes: int | None,
    per_operator: int | None,
    shard: Shard | None,
    remedies: bool,
    scheduler: str | None,
    cluster: str | None,
    incremental: bool,
    resume: str | None,
    device: DeviceRequest,
    results: Path,
    as_json: bool,
) -> None:
    """Run complete catalogs on a device and record every case.

    \b
      ssinghal run
      ssinghal run yolo12x --op conv2d --memory l1 --board p150
      ssinghal run my.yaml --sample 20 --remedies
      ssinghal run resnet50-224 --placements dram,l1,height,width,block --weights bfloat8_b

    Catalogs are named by name, part of a name, or file [default: all]. The folder of the run, in --results, gets run.json,
    records.jsonl and summary.txt; the link latest points to it. Records are written in the order in which cases end. Where no
    device opens, nothing is written; else every selected case has one, also when the run is interrupted. With --remedies, the
    record of a case that runs out of memory shows what was tried on the device to make it fit.

    With --shard K/N, the run has the part K of N of the selected cases, the same part each time, and ssinghal merge joins the
    runs of all parts.

    With --scheduler or --cluster, the cases run on the workers of a Dask cluster (see docs/scaling.md): each is checked first,
    the cases of a lost one are run again, and --workers is the number of local ones.

    With --incremental, answers are taken from earlier runs in --results by the same device, TTNN, code and limits: only
    new cases are probed, and those that ended in an error, a crash or a timeout.

    With --resume, a run that was killed or interrupted, or whose disk was full, gets the records that it lacks, in its own
    folder. RUN is a folder, the start of the id of a run in --results, or latest. The catalogs, the device and the code must be
    those of the run; of its options, only --workers, --timeout, --scheduler and --cluster may be given anew.

    With --placements, each call runs once per placement: its operands and its result are there, and weights of sharded calls
    stay interleaved in DRAM; with --dtypes, once per dtype of its operands, but for integers. The summary then ends with the
    placements in which the calls of each model fit.

    Exit code 0 no finding, 1 an error, mismatch, crash, timeout or leak, 2 bad input, 130 interrupted.
    """
    from ssinghal.runs.folders import find_run
    from ssinghal.runs.known import EarlierRuns
    from ssinghal.runs.resuming import UnfinishedRun

    context = click.get_current_context()
    with ExitStack() as stack:
        values, unfinished = context.params, None
        if resume is not None:
            check_typed(context)
            unfinished = stack.enter_context(UnfinishedRun(find_run(resume, results, begun=True)))
            info = unfinished.info
            values = values_of(context, info.options, str(unfinished.path / "run.json"), info.folder)
            device = DeviceRequest(**{name: values[name] for name in vars(device) if name in values})
        choice = device.choose(golden=True)
        pool_options = device.pool_options(choice)
        where = Cluster.of(scheduler, cluster, device.workers, pool_options.workers, partial(echo, err=True))
        answering = Answering(choice, pool_options, values["remedies"], where)
        with doing("selecting the cases"):
            chosen = choice_of(values).chosen(answering.board)
        unmapped = [] if values["operators"] else [call.count for call in chosen.unmapped]
        notes = left_out(unmapped)
        earlier = EarlierRuns(results if unfinished is None else unfinished.path.parent)
        if values["incremental"]:
            earlier.sync(lambda folders: track(folders, "indexing earlier runs", len(folders)))
        opened: Opened = partial(answering.opened, notes.append)
        if unfinished is None:
            with doing(f"opening {answering.place}"):
                opened = stack.enter_context(OpenDevice(opened)).opened
            begun = Begun(new_folder(results, plain_options(values), chosen), chosen.cases, opened)
        else:
            left = _left(unfinished, chosen)
            if left is None:
                sys.exit(1 if _show_complete(unfinished, unmapped, placed=bool(values["placements"]), as_json=as_json) else 0)
            with doing(f"opening {answering.place}"):
                begun = _continued(unfinished, left, answering, opened, stack)
        probes = unfinished is None or bool(begun.cases)
        ended, host_bytes = None, 0
        fault: Exception | None = None
        with VerdictProgress(len(begun.cases), answering.place) as progress:
            try:
                if probes:
                    ended = sweep(
                        begun.cases,
                        answering.board,
                        begun.folder,
                        progress.count,
                        opened=begun.opened,
                        answerer=answering.answerer,
                        remedies=answering.remedies,
                        earlier=earlier,
                        incremental=values["incremental"],
                        probes=progress.probes,
                    )
            except BrokenPipeError:  # nobody reads what the command prints
                raise
            except DEVICE_ERRORS as error:  # as a cluster that is gone: what it has is shown first
                fault = error
            finally:
                host_bytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
                if not scheduler and host_bytes and probes:
                    notes.append(f"host memory of the largest device process: {format_bytes(host_bytes)}")
                lines = begun.folder.finish(len(chosen.cases), notes)
    older = _older_report(begun.folder.path) if unfinished is not None else []
    _show(begun.folder, lines, notes, older, unmapped, host_bytes, placed=bool(values["placements"]), as_json=as_json)
    if fault is not None:
        raise fault
    sys.exit(128 + ended if ended else 1 if begun.folder.summary().faults else 0)


class Begun(NamedTuple):
    """A run whose folder can be written. ``cases``: those that have no answer."""

    folder: RunFolder
    cases: Sequence[Case]
    opened: Opened


def _left(unfinished: UnfinishedRun, chosen: Chosen) -> Sequence[Case] | None:
    """Returns the cases that the run has no answer for; None if it is complete."""
    unfinished.check_selection(len(chosen.cases), chosen.digest)
    left = unfinished.unanswered(chosen.cases)
    return None if not left and unfinished.is_complete else left


def _continued(
    unfinished: UnfinishedRun, left: Sequence[Case], answering: Answering, opened: Opened, stack: ExitStack
) -> Begun:
    """Opens the device, which must be the one of the run before anything is changed, unless no case is left."""
    if left:
        device = stack.enter_context(OpenDevice(opened))
        unfinished.check_answerer(device.prober.facts, answering.answerer(device.prober), answering.searcher(device.prober))
        opened = device.opened
    return Begun(unfinished.continued(), left, opened)


def _show_complete(unfinished: UnfinishedRun, unmapped: Sequence[int], *, placed: bool, as_json: bool) -> bool:
    """Shows a run that lacks nothing. Returns whether it has a finding."""
    info, summary = unfinished.info, unfinished.summary()
    if as_json:
        views = _views(unfinished.path, placed)
        click.echo(json.dumps(_as_json(unfinished.path, info, summary, views, unmapped)))
    else:
        click.echo(f"run {info.run}, started {info.started}, is complete: {summary.cases:,} cases have a record")
    return bool(summary.faults)


def _older_report(path: Path) -> list[str]:
    """Returns a note on the report in the folder of a run that got more records, if there is one."""
    report = path / "report"
    return (
        [f"older than these records: {report}; make it again with: ssinghal report {quote(str(path))}"]
        if report.is_dir()
        else []
    )


def _show(
    folder: RunFolder,
    lines: Sequence[str],
    notes: Sequence[str],
    older: Sequence[str],
    unmapped: Sequence[int],
    host_bytes: int,
    *,
    placed: bool,
    as_json: bool,
) -> None:
    from ssinghal.report import placement_text

    views = _views(folder.path, placed)
    if as_json:
        echo("".join(f"ssinghal: {line}\n" for line in older), nl=False, err=True)
        click.echo(json.dumps(_as_json(folder.path, folder.info, folder.summary(), views, unmapped, host_bytes)))
    else:
        show([*lines, *placement_text.summary(views or ()), *notes, *older, f"records: {folder.path / 'records.jsonl'}"])


def _views(path: Path, placed: bool) -> Sequence[PlacementView] | None:
    """Returns how the calls of each model fit by placement; None for a run without placements."""
    from ssinghal.report.placement_view import placement_views
    from ssinghal.runs.stored import read_run_of_any_size

    return placement_views(read_run_of_any_size(path)) if placed else None


def _as_json(
    path: Path,
    info: RunInfo,
    summary: Summary,
    views: Sequence[PlacementView] | None,
    unmapped: Sequence[int],
    host_bytes: int = 0,
) -> dict[str, Any]:
    return {
        "run": info.run,
        "folder": str(path),
        "selected": info.selected,
        "unreached": info.unreached,
        **summary.to_json(),
        **({} if views is None else {"placements": [view.to_json() for view in views]}),
        "left_out": {"lines": len(unmapped), "calls": sum(unmapped)},
        "host_bytes": host_bytes,
    }
