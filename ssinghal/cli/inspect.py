"""Commands that look and do not run cases: doctor, operators, estimate."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from ssinghal.cli.options import board_option_of, case_arguments, case_from_arguments, device_options
from ssinghal.core.boards import DEFAULT_BOARD, load_board
from ssinghal.core.parsing import one_of
from ssinghal.core.tensors import ONE_CHIP, ShardKind
from ssinghal.estimation.estimator import Prediction, explain
from ssinghal.estimation.estimator import estimate as estimate_case
from ssinghal.operators import families
from ssinghal.operators.operator_info import OperatorInfo
from ssinghal.operators.unsupported import NOT_OPERATORS
from ssinghal.render.tables import aligned
from ssinghal.runner.doctor import clean, examine

if TYPE_CHECKING:
    from ssinghal.catalog.schema import Catalog


@click.command()
@device_options
@click.option("--json", "as_json", is_flag=True, help="Checks and device facts as JSON.")
@click.option("--clean", "remove", is_flag=True, help="Remove the virtual device's runtime root and kernel cache, and stop.")
def doctor(board: str | None, mode: str, ttnn_log: bool, as_json: bool, remove: bool) -> None:
    """Say which device opens here and why, its memory, and what is missing with the command that mends it."""
    if remove:
        click.echo(f"removed {clean()}")
        return
    checks, facts = examine(mode, board, ttnn_log=ttnn_log)
    if as_json:
        click.echo(json.dumps({"checks": [vars(c) for c in checks], **facts}, indent=2))
    else:
        for check in checks:
            click.echo(f"{'ok  ' if check.ok else 'FAIL'} {check.name}: {check.found}")
            if not check.ok and check.mend:
                click.echo(f"     mend: {check.mend}")
        for line in _device_lines(facts["device"]):
            click.echo(line)
    sys.exit(0 if all(c.ok for c in checks) else 1)


def _device_lines(device: dict[str, Any]) -> list[str]:
    if not device:
        return []
    columns, rows = device["grid"]
    chips = "" if device["mesh"] == ONE_CHIP else f" on each chip of a {'x'.join(map(str, device['mesh']))} mesh"
    lines = [f"     grid: {columns}x{rows} cores{chips}, {device['arch']}, cluster {device['cluster']}"]
    for kind in ("l1", "dram"):
        region = device[kind]
        begins = f" from address {device['l1_base_bytes']:,}" if kind == "l1" else ""
        banks = f"{region['num_banks']} banks of {region['bank_bytes']:,} B{begins}"
        lines.append(f"     {kind}: {banks}, pages at multiples of {region['alignment_bytes']} B")
    return lines


@click.command()
@click.option("--json", "as_json", is_flag=True, help="As JSON, with attributes, ATen overloads and what each operator lacks.")
@click.option("--missing", is_flag=True, help="Instead, what captured models call and no operator here makes, and why not.")
@click.option("--catalog", "catalogs", multiple=True, metavar="NAME|FILE", help="Only these catalogs [default: all].")
def operators(as_json: bool, missing: bool, catalogs: tuple[str, ...]) -> None:
    """The support matrix: operator, TTNN function, layouts, limitation, number of catalog cases."""
    from ssinghal.catalog.expansion import expand
    from ssinghal.catalog.loader import load_catalogs

    loaded = load_catalogs(catalogs or None)
    if missing:
        _tell_missing(loaded, as_json)
        return
    cases = Counter(c.operator for c in expand(loaded).cases)
    rows = [_row(family, info, cases[info.name]) for family, members in families().items() for info in members]
    if as_json:
        click.echo(json.dumps({"operators": rows, "not_operators": NOT_OPERATORS}, indent=2))
        return
    table = [["operator", "also", "ttnn", "layouts", "cases"]]
    table += [[r["operator"], ", ".join(r["aliases"]), r["ttnn"], "/".join(r["layouts"]), str(r["cases"])] for r in rows]
    for line, limitations in zip(aligned(table, left=range(4)), [[], *(r["limitations"] for r in rows)], strict=True):
        click.echo(line)
        for limitation in limitations:
            click.echo(f"    limitation: {limitation}")
    click.echo("\nnot operators (entries of the operator lists that name none):")
    click.echo("\n".join(f"  {name}: {why}" for name, why in NOT_OPERATORS.items()))


def _tell_missing(catalogs: Sequence[Catalog], as_json: bool) -> None:
    """Calls of captured catalogs that are no cases, most frequent first, and the share of those that are."""
    from ssinghal.catalog.coverage import coverage

    found = coverage(catalogs)
    if as_json:
        click.echo(json.dumps(found.to_json(), indent=2))
        return
    rows = [["overload", "calls", "lines", "models", "reason"]]
    rows += [[m.overload, f"{m.calls:,}", f"{m.lines:,}", str(len(m.models)), m.reason] for m in found.missing]
    click.echo("\n".join(aligned(rows, left=(0, 4))))
    click.echo(f"\nmapped: {found.total}")
    for level, share in found.levels.items():
        click.echo(f"  {level} level: {share}")


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
        "aten": list(info.aten),
        "lacks": _lacks(info),
        "cases": cases,
    }


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


@click.command()
@case_arguments
@board_option_of(DEFAULT_BOARD, "Board")
@click.option("--shard", default=None, help="Cut L1 tensors evenly over the cores: height, width or block.")
@click.option("--json", "as_json", is_flag=True, help="The estimate as JSON.")
def estimate(
    operator: str | None,
    shapes: tuple[str, ...],
    attrs: tuple[str, ...],
    board: str,
    shard: str | None,
    as_json: bool,
    **placement: Any,
) -> None:
    """Say by arithmetic alone, without a device, whether a call's tensors fit: fits, exceeds or unknown.

    \b
      ssinghal estimate add 1,64,640,400 1,64,640,400 --memory l1 --channels-last --board n150

    Exit code 0 fits or unknown, 1 exceeds.
    """
    if operator is None:
        raise click.UsageError("give an operator and its shapes")
    case = case_from_arguments(operator, shapes, attrs, **placement)
    made = estimate_case(case, load_board(board), None if shard is None else one_of(ShardKind, "shard kind", shard))
    if made.verdict is Prediction.UNKNOWN:
        from ssinghal.operators.binding import specs_of

        specs_of(case)  # refuses a call that cannot be made; operands that exceed do so whatever the call
    click.echo(json.dumps({**case.identity(), "board": board, **made.to_json()}) if as_json else explain(made))
    sys.exit(1 if made.verdict is Prediction.EXCEEDS else 0)
