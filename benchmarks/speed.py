"""Measures speed and memory of probing in one run, so that the numbers can be compared with each other.

    python benchmarks/speed.py [--cases 400] [--json]

Seconds depend on the machine and its load; ratios carry over better. The last block runs the same cases the way hand-written
suites do: ``torch.rand``, ``ttnn.from_torch``, a device opened per case (needs torch).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

from ssinghal.catalog.expansion import expand
from ssinghal.catalog.loader import load_catalogs
from ssinghal.core.boards import load_board
from ssinghal.core.case import Case
from ssinghal.device.modes import choose_device
from ssinghal.estimation.estimator import estimate
from ssinghal.operators.binding import bind
from ssinghal.runner.pool import Pool
from ssinghal.runner.tasks import PoolOptions

SEED = 20250818
SMALL_MAP_TILES = 200
OLD_WAY_BYTES = 64 * 2**20  # larger operands take the old way minutes of host work


def crossed_cases() -> list[Case]:
    """Returns the cases of the shape sweeps (shapes x operators)."""
    return [c for c in expand(load_catalogs(None)).cases if any(not s.model for s in c.sources)]


def host_tiles(case: Case) -> int:
    """Returns the tiles whose source pages TTNN lists on the host for this call, at up to 70 us each."""
    return bind(case).host_tiles


def mixed(count: int) -> list[Case]:
    """Returns a fixed random choice of the shape sweeps' cases without large host maps."""
    cases = [case for case in crossed_cases() if host_tiles(case) <= SMALL_MAP_TILES]
    return random.Random(SEED).sample(cases, min(count, len(cases)))


def comparable(cases: list[Case]) -> list[Case]:
    """Returns the cases that the old way can run: plain elementwise calls whose operands the host creates in seconds."""
    plain = ("relu", "silu", "sigmoid", "tanh", "add", "sub", "mul", "div")
    return [c for c in cases if c.operator in plain and max(math.prod(s) for s in c.inputs) * 2 <= OLD_WAY_BYTES]


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def probes_per_second(cases: list[Case], workers: int) -> float:
    """Returns probes per second with a warm cache: every case has run once before."""
    with Pool(choose_device("virtual"), PoolOptions(workers=workers)) as pool:
        list(pool.map(cases))
        return len(cases) / timed(lambda: list(pool.map(cases)))


def in_process(code: str, **environ: str) -> dict[str, float]:
    """Runs ``code`` in a fresh interpreter and returns the JSON object it prints."""
    env = {**os.environ, **environ}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, env=env, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


START = """
    import json, resource, sys, time
    from pathlib import Path
    from tempfile import TemporaryDirectory
    from ssinghal.core.case import Placement
    from ssinghal.device.modes import choose_device
    from ssinghal.device.session import Session, import_ttnn
    from ssinghal.device.virtual import apply_environment, environment_for
    from ssinghal.operators import make_case
    from ssinghal.runner.probe import probe
    WITH_TORCH = {with_torch}
    rss = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    with TemporaryDirectory() as scratch:
        choice = choose_device("virtual")
        apply_environment(environment_for(choice, Path(scratch)))
        t = time.perf_counter(); import_ttnn(WITH_TORCH); imported = time.perf_counter() - t
        imported_mib = rss()
        t = time.perf_counter(); session = Session(choice, with_torch=WITH_TORCH); opened = time.perf_counter() - t
        probe(make_case("relu", ((1, 1, 32, 32),)), session)
        before = rss()
        case = make_case("relu", ((1, 96, 2160, 3840),))  # 1.48 GiB of bf16
        t = time.perf_counter(); probe(case, session); took = time.perf_counter() - t
        print(json.dumps({{
            "import, s": imported, "import, MiB": imported_mib, "open and prove, s": opened,
            "probe of 1.48 GiB, s": took, "probe of 1.48 GiB, MiB": rss() - before,
        }}))
"""

COLD = """
    import json, time
    from benchmarks.speed import mixed
    from ssinghal.device.modes import choose_device
    from ssinghal.runner.pool import Pool, PoolOptions
    if __name__ == "__main__":
        cases = mixed({count})
        with Pool(choose_device("virtual"), PoolOptions(workers=1)) as pool:
            t = time.perf_counter(); list(pool.map(cases)); print(json.dumps(dict(rate=len(cases) / (time.perf_counter() - t))))
"""

OLD_WAY = """
    import json, os, sys, time
    from pathlib import Path
    from tempfile import TemporaryDirectory
    from ssinghal.device.modes import choose_device
    from ssinghal.device.virtual import apply_environment, environment_for
    from benchmarks.speed import comparable, mixed
    cases = comparable(mixed({count}))
    with TemporaryDirectory() as scratch:
        apply_environment(environment_for(choose_device("virtual"), Path(scratch)))
        import torch, ttnn
        names = dict(sub="subtract", mul="multiply", div="divide")
        started = time.perf_counter()
        for case in cases:
            shapes = [(s[0], s[2], s[3], s[1]) if len(s) == 4 else s for s in case.inputs]
            device = ttnn.open_device(device_id=0)
            try:
                values = [torch.rand(s, dtype=torch.bfloat16) for s in shapes]
                put = lambda v: ttnn.from_torch(v, layout=ttnn.TILE_LAYOUT, device=device, memory_config=ttnn.L1_MEMORY_CONFIG)
                ttnn.to_torch(getattr(ttnn, names.get(case.operator, case.operator))(*map(put, values)))
            except RuntimeError:
                pass
            finally:
                ttnn.close_device(device)
        print(json.dumps(dict(rate=len(cases) / (time.perf_counter() - started))))
"""


def suite_seconds(*selection: str) -> float:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *selection]
    return timed(lambda: subprocess.run(command, capture_output=True, check=True, cwd=Path(__file__).parents[1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=400, help="shape sweep cases to probe")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    cases = mixed(options.cases)
    board = load_board("n150")
    every = expand(load_catalogs(None)).cases
    figures: dict[str, float] = {"load average": os.getloadavg()[0], "cases": len(cases)}
    figures |= {f"worker without torch: {k}": v for k, v in in_process(START.format(with_torch=False)).items()}
    figures["probes per second, 1 worker, warm, usage captured"] = probes_per_second(cases, 1)
    figures["probes per second, 2 workers, warm, usage captured"] = probes_per_second(cases, 2)
    with tempfile.TemporaryDirectory() as cache:
        cold = in_process(COLD.format(count=options.cases), XDG_CACHE_HOME=cache, PYTHONPATH=str(Path(__file__).parents[1]))
    figures["probes per second, 1 worker, cold kernel cache"] = cold["rate"]
    mapped = [case for case in crossed_cases() if host_tiles(case) > SMALL_MAP_TILES]
    figures["cases with large host maps, excluded above"] = len(mapped)
    figures["probes per second of those, 1 worker"] = probes_per_second(mapped[:20], 1)
    figures[f"seconds to estimate all {len(every)} cases"] = timed(lambda: [estimate(c, board) for c in every])
    crossed = ("--oom-catalog", "yolo12x-2176x3840", "--oom-catalog", "yolo12x-4320x7680", "--oom-catalog", "1280-class")
    figures["seconds, both suites over the shape sweeps"] = suite_seconds("ssinghal/tests", "ssinghal/oom_tests", *crossed)
    figures["seconds, memory_estimation of all cases"] = suite_seconds("ssinghal/oom_tests", "-k", "memory_estimation")
    try:
        old = in_process(OLD_WAY.format(count=options.cases), PYTHONPATH=str(Path(__file__).parents[1]))
        ours = probes_per_second(comparable(cases), 1)
        figures["elementwise cases"] = len(comparable(cases))
        figures["elementwise cases per second, old way"] = old["rate"]
        figures["elementwise cases per second, probes"] = ours
        figures["ratio, probes to the old way"] = ours / old["rate"]
        figures |= {f"worker with torch: {k}": v for k, v in in_process(START.format(with_torch=True)).items()}
    except subprocess.CalledProcessError as error:
        print(f"old way not measured (torch missing?): {error.stderr.splitlines()[-1]}", file=sys.stderr)
    if options.json:
        print(json.dumps(figures, indent=2))
    else:
        for name, value in figures.items():
            print(f"{value:12,.2f}  {name}")


if __name__ == "__main__":
    main()
