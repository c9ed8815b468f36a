"""Chooses the cases of a run from catalogs: by operator, size, placement, sample and shard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ssinghal.catalog.aten_calls import Unmapped
from ssinghal.catalog.expansion import expand
from ssinghal.catalog.loader import load_catalogs
from ssinghal.catalog.placements import check_placements, in_placements
from ssinghal.catalog.sampling import sample
from ssinghal.core.case import Case
from ssinghal.core.case_sets import Shard, digest_of
from ssinghal.core.tensors import Board, BufferType, DType
from ssinghal.errors import InvalidCase


@dataclass(frozen=True)
class Chosen:
    """The cases of a run, in the order of the catalogs."""

    # Those of the shard, all of them without one.
    cases: Sequence[Case]
    # Captured calls that are no cases.
    unmapped: tuple[Unmapped, ...]
    # How many cases all shards have together, and their digest.
    of_all: int
    digest: str


@dataclass(frozen=True)
class Choice:
    """What chooses the cases of a run; empty or None where all are chosen."""

    catalogs: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    memory: BufferType | None = None
    max_bytes: int | None = None
    per_operator: int | None = None
    placements: tuple[str, ...] = ()
    weights: DType | None = None
    shard: Shard | None = None
    dtypes: tuple[DType, ...] = ()

    def chosen(self, board: Board) -> Chosen:
        """Returns the cases.

        Raises:
            CatalogError: A catalog is faulty.
            InvalidCase: There is no such catalog or operator, a placement is not on ``board``, or nothing is selected.
        """
        if self.memory is not None and self.placements:
            raise InvalidCase("--memory and --placements both place the operands: give one of them")
        cases, unmapped = self.of_all_shards(board)
        if not cases:
            limits = [*(f"--op {name}" for name in self.operators)]
            limits += [] if self.max_bytes is None else [f"--max-bytes {self.max_bytes}"]
            by = f" by {' '.join(limits)}" if limits else ""
            raise InvalidCase(f"no case is selected from {', '.join(self.catalogs) or 'the catalogs'}{by}")
        digest = digest_of((case.name, case.key) for case in cases)
        shard = self.shard
        own = cases if shard is None else [case for case in cases if shard.has(case.key)]
        return Chosen(own, unmapped, len(cases), digest)

    def of_all_shards(self, board: Board) -> tuple[Sequence[Case], tuple[Unmapped, ...]]:
        """Returns the cases of all shards, maybe none, and captured calls that are no cases. Raises as ``chosen``."""
        check_placements(self.placements, board)
        expanded = expand(
            load_catalogs(self.catalogs or None),
            operators=self.operators or None,
            memory=self.memory,
            max_bytes=self.max_bytes,
        )
        cases: Sequence[Case] = expanded.cases
        if self.per_operator is not None:
            cases = sample(cases, self.per_operator)
        if self.placements or self.weights is not None or self.dtypes:
            cases = in_placements(cases, self.placements, self.weights, self.dtypes)
        return cases, expanded.unmapped
