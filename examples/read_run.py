"""Prints what ran out of memory in a run, and what changed since an earlier one.

python examples/read_run.py [RUN [EARLIER]]
"""

import sys
from collections import Counter

from ssinghal import Status, compare_runs, read_run


def main(name: str = "latest", earlier: str = "") -> None:
    run = read_run(name)
    print(f"{run.id}: {len(run.records)} cases")
    for status, count in Counter(record.status for record in run.records).most_common():
        print(f"  {status}: {count}")
    for record in run.records:
        if record.status is Status.OOM:
            print(f"{record.op} {record.id} on {record.board}: {record.resource} at {record.stage}")
    if earlier:
        changes = compare_runs(read_run(earlier), run)
        for change in changes.found:
            print(f"{change.kind}: {change.op} {change.id}, {change.before} -> {change.after}")


if __name__ == "__main__":
    main(*sys.argv[1:3])
