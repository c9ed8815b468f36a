"""Measures edge searches for catalog calls on a virtual board.

    python benchmarks/edges.py [--catalog NAME] [--calls 60] [--memory l1] [--board n150] [--seconds 60]

Takes the same number of calls of each operator, evenly spread over its list, and searches the largest batch and the largest
resolution of each. Reports host time per search, with the runs ``ssinghal edge`` makes; worker start-up is reported separately.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import Counter
from collections.abc import Sequence

from ssinghal.capacity.finder import EdgeResult, EdgeSearch, lean
from ssinghal.capacity.parameters import Goal
from ssinghal.capacity.search import SearchLimits
from ssinghal.capacity.text import remarks
from ssinghal.catalog.expansion import expand
from ssinghal.catalog.loader import load_catalogs
from ssinghal.core.case import Case, call_text
from ssinghal.core.tensors import BufferType
from ssinghal.device.modes import choose_device
from ssinghal.errors import InvalidCase
from ssinghal.runner.pool import Pool
from ssinghal.runner.tasks import PoolOptions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--catalog", action="append", default=[], help="catalogs whose name contains this (default: all)")
    parser.add_argument("--calls", type=int, default=60)
    parser.add_argument("--memory", choices=["dram", "l1"], help="overrides the memory that the catalog names")
    parser.add_argument("--board", default="n150")
    parser.add_argument("--seconds", type=float, default=60, help="per search; no run starts after this")
    parser.add_argument("--slowest", type=int, default=5, help="number of slowest searches to list")
    options = parser.parse_args()
    memory = BufferType(options.memory) if options.memory else None
    cases = spread(expand(load_catalogs(tuple(options.catalog)), memory=memory).cases, options.calls)
    choice = choose_device("virtual", options.board)
    limits = SearchLimits(seconds=options.seconds, check_seconds=2)
    found: list[EdgeResult] = []
    refused: Counter[str] = Counter()
    started = time.perf_counter()
    with Pool(choice, lean(PoolOptions.of(choice, workers=1))) as pool:
        start = time.perf_counter() - started
        for case in cases:
            for goal in (Goal.BATCH, Goal.RESOLUTION):
                try:
                    found.append(EdgeSearch(goal, case, limits=limits).on(pool))
                except InvalidCase as error:
                    refused[f"{case.operator}, {goal}: {error}"] += 1
    report(found, start, len(cases), options.slowest)
    print(f"{refused.total()} have no such edge:")
    for why, count in refused.most_common():
        print(f"  {count:3} {why}")


def spread(cases: Sequence[Case], count: int) -> list[Case]:
    """Returns ``count`` cases: the same number of each operator, evenly spread over its list."""
    by_operator: dict[str, list[Case]] = {}
    for case in cases:
        by_operator.setdefault(case.operator, []).append(case)
    rounds = max(1, -(-count // len(by_operator)))
    taken = [
        own[len(own) * (2 * turn + 1) // (2 * rounds)]
        for turn in range(rounds)
        for own in by_operator.values()
        if turn < len(own)
    ]
    every = max(len(taken) / count, 1)
    return [taken[int(i * every)] for i in range(min(count, len(taken)))]


def report(found: Sequence[EdgeResult], start: float, calls: int, slowest: int) -> None:
    seconds = sorted(f.seconds for f in found)
    print(f"{calls} calls, {len(found)} searches on {found[0].setting}, start of the worker {start:.2f} s")
    print(
        f"search: median {statistics.median(seconds):.3f} s, with a start {statistics.median(seconds) + start:.2f} s; "
        f"95 % within {seconds[int(len(seconds) * 0.95)]:.2f} s, longest {seconds[-1]:.1f} s; "
        f"{statistics.mean(f.new_runs for f in found):.1f} runs on average"
    )
    ends = Counter(_end(f) for f in found)
    print("; ".join(f"{n} {what}" for what, n in ends.most_common()))
    odd = [f for f in found if f.edge.holes or f.edge.contradicted]
    confirmed = sum(f.edge.is_confirmed for f in found)
    print(f"{confirmed} confirmed on both sides; {len(odd)} fail before the edge as well, or contradict arithmetic")
    for f in odd:
        print(f"  {f.parameter.goal} of {call_text(f.case)}: {'; '.join(remarks(f, odd_alone=True))}")
    for f in sorted(found, key=lambda f: -f.seconds)[:slowest]:
        print(f"  {f.seconds:6.1f} s, {f.new_runs} runs: {f.parameter.goal} of {call_text(f.case)}: {_end(f)}")


def _end(f: EdgeResult) -> str:
    if f.edge.is_open:
        return "no edge"
    if f.fit is None:
        return "nothing fits"
    if f.fail is None or not f.edge.is_confirmed:
        return "not narrowed"
    return f"end with {f.fail.verdict.resource or f.fail.verdict.status}"


if __name__ == "__main__":
    main()
