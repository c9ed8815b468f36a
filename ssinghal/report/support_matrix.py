"""The support matrix: the declaration of every operator in the registry, and a run's counts of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ssinghal.core.record import Record
from ssinghal.core.verdict import Status
from ssinghal.operators import families
from ssinghal.operators import operators as registry
from ssinghal.operators.operator_info import OperatorInfo
from ssinghal.operators.unsupported import NOT_OPERATORS
from ssinghal.report.statistics import Facts

SUPPORTED = "supported"
LIMITED = "limited"
UNSUPPORTED = "not in TTNN"


@dataclass(frozen=True)
class Support:
    """One operator. ``cases``: of all its names in the run, including ``fits`` and ``oom``."""

    operator: str
    family: str
    support: str
    ttnn: str
    names: tuple[str, ...]
    aten: tuple[str, ...]
    layouts: tuple[str, ...]
    limitations: tuple[str, ...]
    cases: int
    fits: int
    oom: int
    unsupported: int

    @classmethod
    def of(cls, family: str, info: OperatorInfo, records: Sequence[Record]) -> Support:
        statuses = [r.status for r in records]
        return cls(
            operator=info.name,
            family=family,
            support=UNSUPPORTED if info.call is None else LIMITED if info.limitations else SUPPORTED,
            ttnn=info.ttnn,
            names=info.names,
            aten=info.aten,
            layouts=tuple(layout.value for layout in info.layouts),
            limitations=tuple(limitation.reason for limitation in info.limitations),
            cases=len(records),
            fits=statuses.count(Status.FITS),
            oom=statuses.count(Status.OOM),
            unsupported=statuses.count(Status.UNSUPPORTED),
        )


def support_matrix(facts: Facts) -> tuple[Support, ...]:
    """Returns every operator of the registry, in the order of its declaration."""
    records: dict[str, list[Record]] = defaultdict(list)
    for record in facts.records:
        records[record.operator].append(record)
    return tuple(Support.of(f, info, records[info.name]) for f, members in families().items() for info in members)


def operator_mapping() -> dict[str, Any]:
    """Returns the TTNN function and signature of every operator name. ``not_operators``: names without an operator, and why."""
    mapped = {
        name: {
            "operator": info.name,
            "family": family,
            "ttnn": info.ttnn or None,
            "aten": list(info.aten),
            "operands": list(info.operands),
            "attributes": {attr: kind.kind for attr, kind in info.attrs.items()},
        }
        for family, members in families().items()
        for info in members
        for name in info.names
    }
    overloads = {overload: info.name for info in registry().values() for overload in info.aten}
    return {"operators": mapped, "aten": dict(sorted(overloads.items())), "not_operators": dict(NOT_OPERATORS)}
