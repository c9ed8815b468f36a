"""Measures runs of many records: read as objects and by columns, compressed and not, compared with each other.

    python benchmarks/columns.py [RUN] [--records 100000 1000000] [--folder DIR] [--json]

A run of each size is copied from RUN (default: results/latest), with keys made distinct, and once more with another answer for
one case in a hundred, in a temporary folder that is removed afterwards: about 4 GiB for each run of a million. Each figure is
that of a process of its own: its seconds,
seconds of processor, and the most memory that it and the largest process that it started took.
"""

from __future__ import annotations

import argparse
import gzip
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

ROWS = "SELECT op, status, resource, count(*) FROM {} GROUP BY ALL"
FIELDS = "{op: 'VARCHAR', status: 'VARCHAR', resource: 'VARCHAR', key: 'VARCHAR', duration_s: 'DOUBLE'}"
OBJECTS_UP_TO = 100_000  # a million records as objects take some 15 GiB


def make_run(source: Path, folder: Path, records: int, changed_every: int = 0) -> None:
    """Writes ``records`` records, one in ``changed_every`` of which takes more bytes."""
    lines = [json.loads(line) for line in (source / "records.jsonl").read_text().splitlines()]
    info = json.loads((source / "run.json").read_text())
    folder.mkdir(parents=True)
    with (folder / "records.jsonl").open("w") as file:
        for number in range(records):
            record = {**lines[number % len(lines)], "run": folder.name}
            record["key"] = f"{record['key']}{number // len(lines) or ''}"
            if changed_every and not number % changed_every and record.get("usage"):
                record["usage"] = {**record["usage"], "l1_total_bytes": record["usage"]["l1_total_bytes"] + 32}
            file.write(json.dumps(record) + "\n")
    (folder / "run.json").write_text(json.dumps({**info, "run": folder.name, "selected": records}))


def duckdb_rows(source: str) -> None:
    import duckdb

    duckdb.execute(ROWS.format(source)).fetchall()


def read_objects(folder: Path) -> None:
    from ssinghal.runs.reader import read_run
    from ssinghal.runs.summary import Summary

    Summary.of(record.to_json() for record in read_run(folder).records)


def arrow_json(folder: Path) -> None:
    arrow = import_module("pyarrow.json")  # no dependency: measured where it is installed
    arrow.read_json(folder / "records.jsonl", read_options=arrow.ReadOptions(block_size=64 << 20)).group_by(
        ["op", "status"]
    ).aggregate([("key", "count")])


def columns_of(folder: Path) -> None:
    from ssinghal.runs.columns import Columns
    from ssinghal.runs.duck import Duck

    with Duck() as duck, Columns(folder, duck):
        pass


def compare_by_columns(one: Path, other: Path) -> None:
    from ssinghal.runs.column_diff import compare_columns

    compare_columns(one, other)


def compare_objects(one: Path, other: Path) -> None:
    from ssinghal.runs.diff import Changes
    from ssinghal.runs.reader import read_run

    Changes.of(read_run(one), read_run(other))


def steps(folder: Path, other: Path, records: int) -> dict[str, Callable[[], None]]:
    """The steps in their order: some leave a file for the next."""
    lines, parquet = folder / "records.jsonl", folder / "all.parquet"
    packed = folder.with_name(f"{folder.name}-gz")
    small = records <= OBJECTS_UP_TO
    return {
        **({"objects: read and summarize": lambda: read_objects(folder)} if small else {}),
        **({"objects: compare": lambda: compare_objects(folder, other)} if small else {}),
        "DuckDB on the lines: count": lambda: duckdb_rows(as_lines(lines)),
        "DuckDB on the lines, compressed: count": lambda: duckdb_rows(as_lines(packed / "records.jsonl.gz")),
        "pyarrow on the lines: count": lambda: arrow_json(folder),
        "DuckDB: five columns to Parquet": lambda: duckdb_copy(as_lines(lines), parquet),
        "DuckDB on Parquet: count": lambda: duckdb_rows(f"'{parquet}'"),
        "Columns: first use": lambda: columns_of(folder),
        "Columns: first use of the other run": lambda: columns_of(other),
        "Columns: first use, compressed": lambda: columns_of(packed),
        "Columns: compare": lambda: compare_by_columns(folder, other),
    }


def as_lines(path: Path) -> str:
    return f"read_json('{path}', format = 'newline_delimited', columns = {FIELDS})"


def duckdb_copy(source: str, to: Path) -> None:
    import duckdb

    duckdb.execute(f"COPY (SELECT * FROM {source}) TO '{to}' (FORMAT parquet, COMPRESSION zstd)")


def measured(arguments: list[str]) -> dict[str, Any]:
    """Returns the seconds and peak memory of a step in a process of its own; what is missing here has none."""
    done = subprocess.run([sys.executable, __file__, "--step", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or [""])[-1]}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def run_step(folder: Path, other: Path, records: int, name: str) -> None:
    step = steps(folder, other, records)[name]
    started = time.perf_counter()
    step()
    seconds = time.perf_counter() - started
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    processor = sum(one.ru_utime + one.ru_stime for one in used)
    peaks = {name: one.ru_maxrss // 1024 for name, one in zip(("peak_mib", "largest_child_mib"), used, strict=True)}
    print(json.dumps({"seconds": round(seconds, 2), "processor_s": round(processor, 2), **peaks}))


def compress(folder: Path) -> None:
    """Leaves a copy of the run with compressed lines beside it."""
    packed = folder.with_name(f"{folder.name}-gz")
    packed.mkdir()
    shutil.copy(folder / "run.json", packed)
    with (folder / "records.jsonl").open("rb") as lines, gzip.open(packed / "records.jsonl.gz", "wb", 6) as file:
        shutil.copyfileobj(lines, file, 1 << 20)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="?", type=Path, default=Path("results/latest"))
    parser.add_argument("--records", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--folder", type=Path, help="parent of the temporary folder")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--step", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step:
        folder, other, records, name = given.step
        run_step(Path(folder), Path(other), int(records), name)
        return
    found: dict[str, Any] = {}
    for records in given.records:
        with tempfile.TemporaryDirectory(dir=given.folder) as parent:
            one, other = Path(parent) / "20260101T000000.000000Z", Path(parent) / "20260102T000000.000000Z"
            make_run(given.run, one, records)
            make_run(given.run, other, records, 100)
            compress(one)
            for name in steps(one, other, records):
                result = measured([str(one), str(other), str(records), name])
                found.setdefault(name, {})[records] = result
                if not given.json:
                    print(f"{records:>9,}  {name}: {result}", flush=True)
            sizes = {path.name: path.stat().st_size for path in sorted(Path(parent).rglob("*")) if path.is_file()}
            found.setdefault("bytes", {})[records] = sizes
    print(json.dumps(found, indent=2) if given.json else json.dumps(found["bytes"]))


if __name__ == "__main__":
    main()
