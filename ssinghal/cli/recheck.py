"""``ssinghal recheck``: whether recorded cases end the same way again."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ssinghal.cli import options
from ssinghal.cli.progress import counting
from ssinghal.core.json_values import plain
from ssinghal.core.nouns import counted
from ssinghal.core.signals import collected_signals
from ssinghal.device.modes import choose_device
from ssinghal.errors import HarnessError, cut
from ssinghal.runner.answerer import answerer_of
from ssinghal.runner.pool import Pool
from ssinghal.runner.tasks import PoolOptions

if TYPE_CHECKING:
    from ssinghal.runner.recheck import Repetition

VALUE_LIMIT = 120


@click.command()
@click.argument("run", required=False)
@options.count("--cases", "How many cases to repeat.", 50)
@options.timeout()
@options.workers
@options.results
@options.json("The repetitions that differ, as one JSON object.")
def recheck(run: str | None, cases: int, timeout: float, workers: int | None, results: Path, as_json: bool) -> None:
    """Repeat cases of a run in fresh processes and compare.

    \b
      ssinghal recheck
      ssinghal recheck 20261128T0624 --cases 200

    RUN is a run's folder, its id or the start of it, or a records.jsonl [default: the latest in results].

    The same case on the same device must end the same way, whatever the process answered before. The choice of cases is random
    and the same for the same run. The board, ttnn, code and limits must be those of the run.

    Interrupted, it shows what it has found so far.

    Exit code 0 all the same, 1 a difference, 2 bad input, 130 interrupted.
    """
    from ssinghal.runner.recheck import choose_repeated, repeated
    from ssinghal.runs.folders import find_run
    from ssinghal.runs.parsing import complete_records
    from ssinghal.runs.reader import described, id_of

    path = find_run(run, results)
    lines, head, _ = described(path)
    name, device, limits = id_of(path, head), head.device, head.options
    if not device.board:
        raise HarnessError(f"{path}: its run.json names no device; expected a run of ssinghal run or pytest")
    choice = choose_device(device.mode, device.board, golden=True)
    host_tiles = limits.get("host_tiles", limits.get("host-tiles"))
    pool_options = PoolOptions.of(choice, workers=workers, timeout_s=timeout, host_tiles=host_tiles)
    with Pool(choice, pool_options) as pool:
        here = answerer_of(pool.facts, pool_options)
    if head.answerer != here:
        raise HarnessError(f"{path}: answered by another device, TTNN, code or limits; expected a run of this version")
    losses: list[str] = []
    chosen = choose_repeated((record for _, record in complete_records(lines, losses)), cases, name)
    if not chosen:
        why = f"; {losses[0]}" if losses else ""
        raise HarnessError(f"{path}: no case in it was answered, nothing to repeat{why}")
    done, differing = 0, []
    with collected_signals() as caught:
        for repetition in counting(repeated(chosen, choice, pool_options, lambda: bool(caught)), "repeating", len(chosen)):
            done += 1
            differing += [repetition] if repetition.differences else []
    if as_json:
        found = [{"op": r.record.op, "key": r.record.key, "id": r.record.id, **_as_json(r)} for r in differing]
        click.echo(json.dumps({"run": name, "repeated": done, "interrupted": bool(caught), "different": found}))
    else:
        count = f"interrupted: {done:,} of {counted(len(chosen), 'case')}" if caught else counted(done, "case")
        for line in [*map(_line, differing), f"{count} repeated in fresh processes, {len(differing):,} differ"]:
            click.echo(line)
    sys.exit(128 + caught[0] if caught else 1 if differing else 0)


def _as_json(repetition: Repetition) -> dict[str, Any]:
    return {"differences": {name: {"recorded": a, "again": b} for name, (a, b) in repetition.differences.items()}}


def _line(repetition: Repetition) -> str:
    differences = "; ".join(
        f"{name} {cut(json.dumps(plain(before)), VALUE_LIMIT)}, again {cut(json.dumps(plain(after)), VALUE_LIMIT)}"
        for name, (before, after) in repetition.differences.items()
    )
    return f"{repetition.record.op} {cut(repetition.record.id, VALUE_LIMIT)}: {differences}"
