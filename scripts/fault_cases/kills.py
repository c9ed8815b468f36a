"""Commands that write into the folder of a run, each ended thirty times at a random moment: by kill -9, SIGTERM and Ctrl-C."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import cycle, islice
from pathlib import Path

from ssinghal.core.locks import OLD_S

from .base import INTERRUPTED, KILLED, PROGRAM, TERMINATED, Fault, Outcome, Place, complete_lines, ended

KILLS = 30
EARLIEST = 0.4  # of the time that the command takes: before that, Python starts
SIGNALS = {signal.SIGKILL: KILLED, signal.SIGTERM: TERMINATED, signal.SIGINT: INTERRUPTED}
LARGE_BYTES = 20 * 1024 * 1024  # of the lines of a run whose columns are kept
COLUMNS = """
import sys
from pathlib import Path
from ssinghal.runs.columns import Columns
from ssinghal.runs.duck import Duck
with Duck() as duck, Columns(Path(sys.argv[1]), duck) as columns:
    print(columns.cases)
"""


def _killed(
    place: Place,
    done: str,
    words: Iterable[str],
    check: Callable[[], list[str]],
    prepare: Callable[[], object] = lambda: None,
    program: Sequence[str] = PROGRAM,
) -> Outcome:
    """Ends a command again and again; ``prepare`` comes before each, ``check`` returns what is wrong with what it left."""
    command, chosen = list(words), random.Random(1)
    prepare()
    start = time.monotonic()
    code = place.run(*command, program=program).code
    took = time.monotonic() - start
    short = [f"undisturbed: exit code {code}"] if code else []
    codes: Counter[int] = Counter()
    for number in islice(cycle(SIGNALS), KILLS):
        prepare()
        process = place.start(*command, program=program)
        time.sleep(chosen.uniform(EARLIEST, 1.0) * took)
        end = ended(process, number)
        codes[end.code] += 1
        wrong = []
        if end.code != -number and not _is_of_start(end.err):
            wrong += [] if end.code in (0, SIGNALS[number]) else [f"exit code {end.code} after {number.name}"]
            wrong += ["a traceback"] if "Traceback" in end.err else []
        short += [f"{what} ({number.name})" for what in (*wrong, *check())]
    ends = ", ".join(f"{count} times {code}" for code, count in sorted(codes.items()))
    return Outcome(f"{done}, ended {KILLS} times at random", ends, short=tuple(dict.fromkeys(short)))


def _is_of_start(errors: str) -> bool:
    """Whether Python was ended while it imported the program, which answers no signal then."""
    return "Traceback" in errors and ", in main\n" not in errors


def _hidden(folder: Path, but: str = "") -> list[str]:
    left = [path.name for path in folder.rglob(".*") if path.name != ".report-files" and not (but and path.name.endswith(but))]
    return [f"left: {', '.join(left)}"] if left else []


def _keys(folder: Path) -> list[str]:
    return sorted(json.loads(line)["key"] for line in complete_lines(folder / "records.jsonl"))


def summary_killed(place: Place) -> Outcome:
    """All records are there: ``--resume`` reads them, then writes the summary, the head and the index."""
    place.run("run", place.catalog(2000))
    (folder,) = place.runs()
    keys, head = _keys(folder), json.loads((folder / "run.json").read_text())

    def prepare() -> None:
        (folder / "run.json").write_text(json.dumps({**head, "finished": None, "totals": {}}))
        (folder / "summary.txt").unlink(missing_ok=True)

    def check() -> list[str]:
        wrong = [] if _keys(folder) == keys else ["records are lost"]
        again = place.run("run", "--resume", "latest")
        wrong += [f"the next one: exit code {again.code}"] if again.code else []
        finished = json.loads((folder / "run.json").read_text())["finished"]
        wrong += [] if finished and (folder / "summary.txt").exists() else ["the run has no end"]
        return [*wrong, *_hidden(place.folder / "results")]

    return _killed(place, "a run at its end, as --resume writes it", ["run", "--resume", "latest"], check, prepare)


def merge_killed(place: Place) -> Outcome:
    catalog = place.catalog(2000)
    for number in (1, 2):
        place.run("run", catalog, "--shard", f"{number}/2", "--results", f"part-{number}")
    words = ["merge", "part-1/latest", "part-2/latest"]
    keys = sorted(_keys(place.folder / "part-1" / "latest") + _keys(place.folder / "part-2" / "latest"))

    def check() -> list[str]:
        wrong = [f"{run.name} has not all records" for run in place.runs() if _keys(run) != keys]
        before = len(place.runs())
        again = place.run(*words)
        wrong += [f"the next one: exit code {again.code}"] if again.code else []
        wrong += [] if len(place.runs()) == before + 1 else ["the next one is not there"]
        return [*wrong, *_hidden(place.folder / "results")]

    def prepare() -> None:
        shutil.rmtree(place.folder / "results", ignore_errors=True)

    return _killed(place, "merge of two parts of 2,000 cases", words, check, prepare)


def _large_run(place: Place, size: int) -> Path:
    """Returns a run of at least ``size`` bytes: its records repeated under other keys."""
    place.run("run", place.catalog())
    (folder,) = place.runs()
    records = [json.loads(line) for line in complete_lines(folder / "records.jsonl")]
    written = 0
    with open(folder / "records.jsonl", "w") as file:
        while file.tell() < size:
            record = records[written % len(records)]
            file.write(json.dumps({**record, "key": f"{written:012x}"}) + "\n")
            written += 1
    head = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**head, "selected": written, "totals": {"fits": written}}))
    return folder


def compress_killed(place: Place) -> Outcome:
    folder = _large_run(place, LARGE_BYTES)
    content = (folder / "records.jsonl").read_bytes()

    def check() -> list[str]:
        again = [place.run("compress", "latest").code, place.run("compress", "latest", "--undo").code]
        wrong = [f"the next ones: exit codes {again}"] if any(again) else []
        wrong += [] if (folder / "records.jsonl").read_bytes() == content else ["lines are lost"]
        return [*wrong, *_hidden(folder)]

    return _killed(place, "compress of 20 MB of records", ["compress", "latest"], check)


def report_killed(place: Place) -> Outcome:
    place.run("run", place.catalog(2000))
    place.run("report", "latest", "-o", "wanted")
    wanted = sorted(path.name for path in (place.folder / "wanted").rglob("*"))

    def check() -> list[str]:
        again = place.run("report", "latest", "-o", "report")
        wrong = [f"the next one: exit code {again.code}"] if again.code else []
        found = sorted(path.name for path in (place.folder / "report").rglob("*"))
        return wrong + ([] if found == wanted else [f"files of the next one: {set(found) ^ set(wanted)}"])

    return _killed(place, "report of 2,000 cases", ["report", "latest", "-o", "report"], check)


def columns_killed(place: Place) -> Outcome:
    folder = _large_run(place, LARGE_BYTES)
    temporary = place.folder / "temporary"
    temporary.mkdir()
    place.environ["TMPDIR"] = str(temporary)
    content = (folder / "records.jsonl").stat()

    def prepare() -> None:
        for file in folder.glob(".*.parquet"):
            file.unlink()

    def check() -> list[str]:
        now = (folder / "records.jsonl").stat()
        return [] if (now.st_size, now.st_mtime_ns) == (content.st_size, content.st_mtime_ns) else ["records have changed"]

    done, program = (
        "the columns of 20 MB of records, made by a program that handles no signals",
        (sys.executable, "-c", COLUMNS),
    )
    outcome = _killed(place, done, [str(folder)], check, prepare, program)
    for left in temporary.iterdir():
        os.utime(left, (time.time() - 2 * OLD_S,) * 2)
    prepare()
    again = place.run(str(folder), program=program)
    short = [f"the next one: exit code {again.code}"] if again.code else []
    short += [f"{left.name} is left" for left in temporary.iterdir()]
    short += _hidden(folder, but=".parquet")
    return Outcome(outcome.done, outcome.code, outcome.message, short=(*outcome.short, *short))


FAULTS = (
    Fault("summary-killed", summary_killed),
    Fault("merge-killed", merge_killed),
    Fault("compress-killed", compress_killed),
    Fault("report-killed", report_killed),
    Fault("columns-killed", columns_killed),
)
