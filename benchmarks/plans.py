"""Measures plans of complete models on a virtual board: seconds and host memory with a warm kernel cache.

    python benchmarks/plans.py [--board n150] [--policy port] [MODEL:HxW ...]

Each plan runs twice in one worker on one core: the first run fills the kernel cache, the second is reported. Both must give
the same hash of the live buffers after every step.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys

from ssinghal.capture.trace_library import find_trace
from ssinghal.core.case import DEFAULT_L1_SMALL_BYTES
from ssinghal.core.device_facts import DeviceMode
from ssinghal.core.tensors import Shape, format_bytes, format_shape
from ssinghal.device.modes import choose_device
from ssinghal.plan.executor import PlanTask
from ssinghal.plan.passes.registry import rewritten
from ssinghal.plan.planner import DEFAULT_TIMEOUT_S
from ssinghal.plan.policy import Rewrite, find_policy
from ssinghal.runner.pool import Pool
from ssinghal.runner.tasks import PoolOptions

MOCHI = (Rewrite.DEPTH_TO_SPACE, Rewrite.PAD_INTO_CONV, Rewrite.WHOLE_CONVOLUTION)
# model, input, rewrites, goal in seconds
PLANS = (
    ("torchvision/resnet50", (1, 3, 224, 224), (), 5),
    ("torchvision/swin_b", (1, 3, 1280, 800), (), 5),
    ("transformers/segformer-b0", (1, 3, 1280, 800), (), 5),
    ("ultralytics/yolo12x", (1, 3, 640, 640), (), 12),
    ("ultralytics/yolo12x", (1, 3, 1280, 1280), (), 12),
    ("ultralytics/yolo12x", (1, 3, 2176, 3840), (), 30),
    ("ultralytics/yolo12x", (1, 3, 2176, 3840), (Rewrite.SOFTMAX_IN_PLACE,), 30),
    ("diffusers/mochi-decoder", (1, 12, 4, 60, 106), (), 15),
    ("diffusers/mochi-decoder", (1, 12, 4, 60, 106), MOCHI, 15),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--board", default="n150")
    parser.add_argument("--policy", default="port")
    parser.add_argument("models", nargs="*", help="parts of model names: yolo12x, resnet50")
    parser.add_argument("--number", type=int, help=argparse.SUPPRESS)  # one plan, in a separate process
    given = parser.parse_args()
    if given.number is not None:
        model, shape, rewrites, goal_s = PLANS[given.number]
        one(model, shape, rewrites, goal_s, given.board, given.policy)
        return
    for number, (model, *_) in enumerate(PLANS):
        if not given.models or any(part in model for part in given.models):
            options = ["--board", given.board, "--policy", given.policy, "--number", str(number)]
            subprocess.run([sys.executable, __file__, *options], check=True)


def one(model: str, shape: Shape, rewrites: tuple[Rewrite, ...], goal_s: int, board: str, policy_name: str) -> None:
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    policy = find_policy(policy_name, tuple(map(str, rewrites)))
    task = PlanTask(rewritten(find_trace(model, (shape,)), policy), policy, DEFAULT_L1_SMALL_BYTES)
    choice = choose_device(DeviceMode.VIRTUAL.value, board)
    with Pool(choice, PoolOptions(timeout_s=DEFAULT_TIMEOUT_S)) as pool:
        first, second = (pool.run(task).result() for _ in range(2))
    rss = format_bytes(1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
    same = "same steps twice" if first.steps_sha256 == second.steps_sha256 else "NOT THE SAME STEPS"
    share = f"{second.peak_bytes:,} B per bank ({100 * second.peak_share:.1f} %)"
    where = f" at {second.failure.operator} in {second.failure.at}" if second.failure is not None else ""
    print(
        f"{model} {format_shape(shape)} on {board}, {second.policy_name}: {second.status}{where}, {share};"
        f" checked {second.checked} of {second.total_steps + 1}, {len(second.stand_ins)} stand-ins, {same};"
        f" {second.duration_s:.1f} s (goal {goal_s} s; first {first.duration_s:.1f} s), {rss}",
        flush=True,
    )


if __name__ == "__main__":
    main()
