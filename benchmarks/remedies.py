"""Measures remedy searches and their results: every failing case of the shape sweeps, on a virtual n150.

    python benchmarks/remedies.py [--catalog crossed] [--live 40MiB@l1] [--workers 2] [--every 1]

Reports host time per search, including its probes but not the comparison of values in torch. The failing cases are probed
beforehand, outside the measurement.
"""

from __future__ import annotations

import argparse
import statistics
from collections import Counter

from ssinghal.catalog.expansion import expand
from ssinghal.catalog.loader import load_catalogs
from ssinghal.core.verdict import Status
from ssinghal.device.modes import choose_device
from ssinghal.remedy.device_pools import DevicePools
from ssinghal.remedy.resident_buffers import live_set
from ssinghal.remedy.solver import solve_all
from ssinghal.remedy.text import RemedyReport
from ssinghal.remedy.trial import Impact
from ssinghal.runner.pool import Pool
from ssinghal.runner.tasks import PoolOptions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--catalog", default="crossed", help="catalogs whose name contains this (default: crossed)")
    parser.add_argument("--live", action="append", default=[], help="other resident buffers, as for ssinghal remedy")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--every", type=int, default=1, help="search only every N-th failing case")
    options = parser.parse_args()
    choice = choose_device("virtual", "n150")
    cases = expand(load_catalogs((options.catalog,))).cases
    with Pool(choice, PoolOptions.of(choice, workers=options.workers)) as pool:
        records = list(pool.map(cases))
    failing = [(c, r.verdict) for c, r in zip(cases, records, strict=True) if r.status is Status.OOM][:: options.every]
    with DevicePools(choice, PoolOptions.of(choice, workers=options.workers), no_values="not asked") as pools:
        live = live_set(options.live, pools.board)
        solved = list(solve_all(failing if not live else [(case, None) for case, _ in failing], pools, live=live))
    found = [report for report in solved if isinstance(report, RemedyReport)]
    print(f"{len(cases):,} cases, {len(failing):,} run out of memory, {len(found):,} searched")
    seconds = sorted(report.remedies.seconds for report in found)
    probes = [report.remedies.probes for report in found]
    print(
        f"search: median {statistics.median(seconds):.3f} s, 95 % within {seconds[int(len(seconds) * 0.95)]:.2f} s, "
        f"longest {seconds[-1]:.1f} s; {statistics.mean(probes):.1f} probes on average"
    )
    beyond = [report for report in found if {r.impact for r in report.remedies.found} - {Impact.MEMORY}]
    none = [report for report in found if not report.remedies.found]
    dram_alone = len(found) - len(beyond) - len(none)
    print(f"{len(beyond):,} have a remedy other than DRAM, {dram_alone:,} DRAM alone, {len(none):,} none")
    for impact, count in Counter(str(r.impact) for report in found for r in report.remedies.found).most_common():
        print(f"  {count:6,} {impact}")
    proved = [t for t in found if t not in beyond and all(r.reason for r in t.remedies.refused) and not t.remedies.spent]
    print(f"{len(proved):,} of the others have a reason for every kind")


if __name__ == "__main__":
    main()
