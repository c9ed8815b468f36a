"""Runs a list of calls on a virtual N150, which needs no card, and prints how each ended.

python examples/probe_list.py
"""

from ssinghal import BufferType, Placement, Status, make_case, open_pool

L1 = Placement(memory=BufferType.L1)
CASES = [
    make_case("add", ((1, 1, 1024, 1024), (1, 1, 1024, 1024)), placement=L1),
    make_case("add", ((1, 64, 640, 400), (1, 64, 640, 400)), placement=L1),
    make_case("softmax", ((1, 8, 1024, 1024),), {"dim": -1}, L1),
]


def main() -> None:
    with open_pool("n150", "virtual") as pool:
        for case, record in zip(CASES, pool.map(CASES), strict=True):
            print(f"{case.name} {case.id}: {record.status}")
            verdict = record.verdict
            if record.status is Status.OOM:
                print(f"  {verdict.resource} at {verdict.stage}: {verdict.shortfall_bytes:,} B per bank are missing")


if __name__ == "__main__":
    main()
