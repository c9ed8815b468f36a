"""``ssinghal operators``: which operators are supported, and how."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ssinghal.cli import options
from ssinghal.cli.streams import echo
from ssinghal.core.case import Case
from ssinghal.operators import families
from ssinghal.operators.operator_info import OperatorInfo
from ssinghal.operators.settings.table import Field, settings_of, table
from ssinghal.operators.unsupported import NOT_OPERATORS
from ssinghal.render.tables import aligned

if TYPE_CHECKING:
    from ssinghal.catalog.coverage import Coverage
    from ssinghal.runner.golden_check import GoldenTable


@click.command()
@click.argument("recordings", type=options.PATH, nargs=-1, metavar="[RECORDING]...")
@options.json("As JSON, with attributes, ATen overloads and what each operator lacks.")
@click.option(
    "--missing", is_flag=True, help="List instead what captured models call and no operator here covers, with reasons."
)
@click.option("--golden", is_flag=True, help="Compare the torch references with TTNN's golden functions instead. Needs torch.")
@options.catalogs("Only this catalog [default: all]")
def operators(recordings: tuple[Path, ...], as_json: bool, missing: bool, golden: bool, catalogs: tuple[str, ...]) -> None:
    """List the operators, their layouts and limitations.

    The support matrix: operator, TTNN function, layouts, limitations, number of catalog cases.

    With --missing, RECORDING is what 'catalog import' reads: a profile, traces of operations, or lines of tensors. Counted are
    its calls of TTNN instead of those of captured models; a folder stands for the recordings in it.

    --golden makes every way that the catalogs call an operator once more, as small as its attributes allow: in torch, and by
    the golden functions that TTNN registers for its own tests. Exit code 1 where they differ without a declared reason.
    """
    from ssinghal.catalog.coverage import coverage, recorded_coverage
    from ssinghal.catalog.expansion import expand
    from ssinghal.catalog.loader import load_catalogs

    if missing and golden:
        raise click.UsageError("--missing and --golden are two lists: give one of them")
    if recordings:
        if not missing or catalogs:
            raise click.UsageError("a recording goes with --missing, and without --catalog")
        _show_missing(recorded_coverage(recordings), as_json)
        return
    loaded = load_catalogs(catalogs or None)
    if missing:
        _show_missing(coverage(loaded), as_json)
        return
    if golden:
        sys.exit(_compare_with_golden(expand(loaded).cases, as_json))
    cases = Counter(c.operator for c in expand(loaded).cases)
    rows = [_row(family, info, cases[info.name]) for family, members in families().items() for info in members]
    if as_json:
        click.echo(json.dumps({"operators": rows, "not_operators": NOT_OPERATORS}, indent=2))
        return
    table = [["operator", "also", "ttnn", "layouts", "cases"]]
    table += [[r["operator"], ", ".join(r["aliases"]), r["ttnn"], "/".join(r["layouts"]), str(r["cases"])] for r in rows]
    for line, limitations in zip(aligned(table, left=range(4)), [[], *(r["limitations"] for r in rows)], strict=True):
        echo(line)
        for limitation in limitations:
            echo(f"    limitation: {limitation}")
    echo("\nnot operators (entries in operator lists that name none):")
    echo("\n".join(f"  {name}: {why}" for name, why in NOT_OPERATORS.items()))


def _show_missing(calls: Coverage, as_json: bool) -> None:
    """Prints the calls without an operator, most frequent first, and the share of those with one."""
    if as_json:
        click.echo(json.dumps(calls.to_json(), indent=2))
        return
    rows = [["overload", "calls", "lines", "models", "reason"]]
    rows += [[m.overload, f"{m.calls:,}", f"{m.lines:,}", str(len(m.models)), m.reason] for m in calls.missing]
    echo("\n".join(aligned(rows, left=(0, 4))))
    echo(f"\nmapped: {calls.total}")
    for level, share in calls.levels.items():
        echo(f"  {level} level: {share}")
    for fault in calls.faults:
        echo(f"fault: {fault}")


def _compare_with_golden(cases: Sequence[Case], as_json: bool) -> int:
    """Prints how the references agree with TTNN's golden functions, and returns the exit code."""
    from ssinghal.core.device_facts import DeviceMode
    from ssinghal.device.modes import choose_device
    from ssinghal.runner.golden_check import GoldenTable
    from ssinghal.runner.pool import Pool
    from ssinghal.runner.tasks import PoolOptions

    choice = choose_device(DeviceMode.GOLDEN, golden=True)
    with Pool(choice, PoolOptions.of(choice)) as pool:
        table = GoldenTable.of(cases, pool)
    rows = [row for members in families().values() for info in members if (row := _golden_row(info, table))]
    if as_json:
        too_large = [{"op": case.operator, "id": case.id} for case in table.too_large]
        click.echo(json.dumps({"operators": rows, "faults": table.faults, "too_large": too_large}, indent=2))
        return bool(table.faults)
    shown = [["operator", "calls", "agree", "differ", "no golden", "reason"]]
    shown += [[str(row[name]) for name in ("operator", "calls", "agree", "differ", "missing", "reason")] for row in rows]
    echo("\n".join(aligned(shown, left=(0, 5))))
    compared = [row for row in rows if row["agree"] or row["differ"]]
    agree, differ = (sum(row[name] for row in compared) for name in ("agree", "differ"))
    echo(
        f"\n{len(compared)} of {len(rows)} operators compared, in {agree + differ:,} ways to call them: {agree:,} agree, "
        f"{differ:,} differ; {len(table.too_large):,} are too large to be made on the host"
    )
    for fault in table.faults:
        echo(f"fault: {fault}")
    return bool(table.faults)


def _golden_row(info: OperatorInfo, table: GoldenTable) -> dict[str, Any] | None:
    """Returns the operator's row; None where no catalog calls it, though it could be called."""
    made = table.of_operator(info.name)
    if not made and info.call is not None:
        return None
    reasons = {limitation.reason for limitation in info.limitations if info.call is None}
    reasons |= {a.exception.reason if a.exception else a.fault or a.missing for a in made if not a.agrees}
    return {
        "operator": info.name,
        "ttnn": info.ttnn,
        "calls": len(made),
        "agree": sum(a.agrees for a in made),
        "differ": sum(bool(a.fault) for a in made),
        "missing": sum(bool(a.missing) for a in made),
        "reason": "; ".join(sorted(reasons)),
    }


def _row(family: str, info: OperatorInfo, cases: int) -> dict[str, Any]:
    return {
        "operator": info.name,
        "aliases": list(info.names[1:]),
        "family": family,
        "ttnn": info.ttnn,
        "layouts": [layout.value for layout in info.layouts],
        "limitations": [x.reason for x in info.limitations],
        "operands": list(info.operands),
        "attributes": {n: a.kind for n, a in info.attrs.items()},
        "settings": {n: _setting(field) for n, field in settings_of(info).items()},
        "aten": list(info.aten),
        "lacks": _lacks(info),
        "cases": cases,
    }


def _setting(field: Field) -> dict[str, Any]:
    """Returns the kinds of a setting, and the TTNN releases that have it where not all do."""
    releases = {} if field.releases == table().releases else {"releases": list(field.releases)}
    return {"kinds": list(field.kinds), **releases}


def _lacks(info: OperatorInfo) -> list[str]:
    """Names what is not declared: a rule that lays out operands in plans, dims along which calls can be cut into pieces or
    resized, an operation of TT-MLIR that is read as a call."""
    from ssinghal.diagnose.mlir_to_case import OP_MAPPINGS
    from ssinghal.plan.rules.dispatch import RULES

    parts = {
        "lowering": info.name in RULES,
        "cutting": info.dims is not None and info.dims.cut is not None,
        "resizing": info.dims is not None,
        "mlir": any(mapping.info is info for mapping in OP_MAPPINGS.values()),
    }
    return [part for part, is_declared in parts.items() if not is_declared]
