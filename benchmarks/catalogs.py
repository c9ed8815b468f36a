"""Measures loading the built-in catalogs, checking every call in them, and finding a shape in them.

    python benchmarks/catalogs.py [--repeat 5] [--json]

Each time is the minimum over several new processes. The last line is plain ``yaml.load`` with libyaml on the same files,
without validation or line numbers: on a busy machine, compare with that.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import textwrap

SETUP = """
    import resource, time
    started = time.perf_counter()
    from pathlib import Path
    import yaml
    from ssinghal.catalog.search import find
    from ssinghal.core.shape_pattern import parse_pattern
    from ssinghal.catalog.loader import catalog_files, load_catalogs
    from ssinghal.catalog.expansion import expand
    imported = time.perf_counter()
"""
FIGURES = {
    "load": "load_catalogs()",
    "load and check every call": "load_catalogs(thorough=True)",
    "load and make cases": "expand(load_catalogs())",
    "load and find a shape": 'find(load_catalogs(), parse_pattern("1,768,4,60,106"))',
    "plain yaml.load": "[yaml.load(file.read_text(), Loader=yaml.CSafeLoader) for file in catalog_files().values()]",
}
REPORT = """
    done = time.perf_counter()
    print(imported - started, done - imported, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def measure(statement: str, repeat: int) -> dict[str, float]:
    """Returns minimum seconds for the imports and for the statement, and peak memory, over ``repeat`` new processes."""
    code = textwrap.dedent(SETUP) + statement + "\n" + textwrap.dedent(REPORT)
    runs = [
        [
            float(x)
            for x in subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
        ]
        for _ in range(repeat)
    ]
    imports, seconds, memory = (min(column) for column in zip(*runs, strict=True))
    return {"import_s": round(imports, 3), "seconds": round(seconds, 3), "peak_mib": round(memory / 1024)}


def sizes() -> dict[str, int]:
    """Returns the number of files, lines and calls that are loaded."""
    from ssinghal.catalog.loader import load_catalogs

    catalogs = load_catalogs()
    captured = [c for c in catalogs if c.head.kind == "captured"]
    return {
        "catalogs": len(catalogs),
        "lines": sum(c.line_count for c in catalogs),
        "captured": len(captured),
        "captured lines": sum(c.line_count for c in captured),
        "bytes": sum(c.path.stat().st_size for c in catalogs),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=5, help="processes per measurement (default 5)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    read = sizes()
    figures = {name: measure(statement, options.repeat) for name, statement in FIGURES.items()}
    if options.json:
        print(json.dumps({"read": read, "figures": figures}, indent=2))
        return
    print(", ".join(f"{number:,} {what}" for what, number in read.items()))
    for name, figure in figures.items():
        print(f"{name:26} {figure['seconds']:6.2f} s  (+ {figure['import_s']:.2f} s imports, {figure['peak_mib']:.0f} MiB)")


if __name__ == "__main__":
    main()
