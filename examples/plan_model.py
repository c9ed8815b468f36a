"""Runs all calls of a model on a virtual board: whether it fits, where memory peaks, and what would make it fit.

python examples/plan_model.py [MODEL [BOARD]]
"""

import sys

from ssinghal import plan_model


def main(model: str = "torchvision/resnet50", board: str = "n150") -> None:
    plan = plan_model(model, board=board)
    result = plan.result
    print(f"{result.model} on {result.board}: {result.status}")
    print(f"peak: {result.peak_bytes:,} of {result.dram_bank_bytes:,} B per DRAM bank, at step {result.peak_step}")
    if result.failure is not None:
        print(f"first call that does not fit: {result.failure.operator} in {result.failure.at}")
    if plan.remedy is not None:
        print(f"it fits with: {', '.join(plan.remedy.policy['rewrites'])}")


if __name__ == "__main__":
    main(*sys.argv[1:3])
