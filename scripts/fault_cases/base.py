"""What the faults share: a folder to work in, the program in it, its records, and the judgement of how it ended."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROGRAM = (sys.executable, "-m", "ssinghal")
LIMIT_S = 300.0  # of one program
CASES = 300  # of a run
SOON = 20  # records after which a run is disturbed
LINE_LIMIT = 600  # characters of a line of an error
BAD_INPUT, INTERRUPTED, TERMINATED, PIPE_CLOSED, KILLED = 2, 130, 143, 141, -9
_PROGRESS = re.compile(r"^(ssinghal: )?probing: |\d of [\d,]+ \(")


class NotHere(Exception):
    """The fault cannot be made on this machine; the text states what is missing."""


@dataclass(frozen=True)
class Ended:
    """How a program ended: its exit code (negative: the signal), its output and its errors."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Outcome:
    """How the program took a fault. ``short``: what fell short; empty where it held."""

    done: str
    code: str
    message: str = ""
    expected: int | None = None
    found: int | None = None
    short: tuple[str, ...] = ()


@dataclass(frozen=True)
class Fault:
    """A fault by name, and the function that makes it happen."""

    name: str
    make: Callable[[Place], Outcome]


@dataclass
class Place:
    """A temporary folder, and programs in it. ``environ``: changes to the environment of all of them."""

    folder: Path
    environ: dict[str, str] = field(default_factory=dict)

    def file(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def start(
        self, *arguments: str, before: Sequence[str] = (), program: Sequence[str] = PROGRAM, **streams: Any
    ) -> subprocess.Popen[str]:
        """Starts the program in a process group of its own. ``before``: a command that runs it."""
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, **streams}
        command = [*before, *program, *arguments]
        own = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **self.environ}
        return subprocess.Popen(
            command, cwd=self.folder, env=own, text=True, start_new_session=True, preexec_fn=_interruptible, **streams
        )

    def run(self, *arguments: str, before: Sequence[str] = (), **more: Any) -> Ended:
        return ended(self.start(*arguments, before=before, **more))

    def catalog(self, cases: int = CASES, name: str = "sweep.yaml") -> str:
        """Writes a catalog of relu at as many shapes, and returns its file's name."""
        shapes = [[1, 1, 32, 32 * n] for n in range(1, cases + 1)]
        placement = {
            "dtype": "bfloat16", "layout": "tile", "memory": "dram", "output_memory": "same", "channels_last": True,
        }  # fmt: skip
        content = {
            "schema": 1,
            "kind": "crossed",
            "title": "made for a fault",
            "runs": {},
            "placement": placement,
            "origins": [{"shape": shape, "none": "made for a fault"} for shape in shapes],
            "operators": {"relu": [{"shape": shape} for shape in shapes]},
        }
        self.file(name, json.dumps(content))
        return name

    def lines(self, cases: int, name: str = "cases.jsonl") -> str:
        self.file(name, "".join(json.dumps({"op": "relu", "inputs": [[32, 32 * n]]}) + "\n" for n in range(1, cases + 1)))
        return name

    def runs(self) -> list[Path]:
        return sorted(path for path in (self.folder / "results").glob("2*") if path.is_dir())

    def started_run(self, *more: str, cases: int = CASES, before: Sequence[str] = ()) -> subprocess.Popen[str]:
        """Starts a run, and returns once it has some records."""
        process = self.start("run", self.catalog(cases), *more, before=before)
        wait_for(lambda: process.poll() is not None or self._has_records(), "the first records")
        return process

    def _has_records(self) -> bool:
        return any(len(complete_lines(path / "records.jsonl")) >= SOON for path in self.runs())


def _interruptible() -> None:
    """Ctrl-C is ignored in what a shell starts in the background."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def ended(process: subprocess.Popen[str], number: signal.Signals | None = None, *, group: bool = False) -> Ended:
    """Waits for a program, which first gets a signal if one is given: alone, or its whole group, as a terminal does."""
    if number is not None and process.poll() is None:
        os.killpg(process.pid, number) if group else process.send_signal(number)
    try:
        out, err = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        err = f"{err}\nno end within {LIMIT_S:g} s"
    return Ended(process.returncode, out or "", err or "")


def wait_for(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > end:
            raise NotHere(f"{what}: not within {LIMIT_S:g} s")
        time.sleep(0.02)


def workers_of(pid: int) -> list[int]:
    """Returns the device processes below a process."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            try:
                command = Path(f"/proc/{child}/cmdline").read_bytes()
            except (FileNotFoundError, ProcessLookupError):
                continue
            found += [child] if b"ssinghal/runner/worker" in command else workers_of(child)
    return found


def complete_lines(path: Path) -> list[str]:
    """Returns the lines of a file, if there is one, without a last one that is truncated."""
    text = path.read_text() if path.exists() else ""
    return text[: text.rfind("\n") + 1].splitlines()


def records_of(folder: Path) -> list[dict[str, Any]]:
    """Returns the complete records of a run. ValueError where a line is damaged."""
    return [json.loads(line) for line in complete_lines(folder / "records.jsonl")]


def answered(records: Iterable[dict[str, Any]]) -> int:
    return sum(record["device_mode"] != "none" for record in records)


def counted(cases: int) -> str:
    return f"{cases} case{'s' * (cases != 1)}"


def faults_of(records: Sequence[dict[str, Any]]) -> list[str]:
    repeated = [key for key, count in Counter((r["op"], r["key"]) for r in records).items() if count > 1]
    return [f"several records of {counted(len(repeated))}"] if repeated else []


def judged(
    done: str,
    end: Ended,
    codes: Collection[int],
    *,
    words: Sequence[str] = (),
    expected: int | None = None,
    found: int | None = None,
    short: Iterable[str] = (),
    lines: int | None = 3,
) -> Outcome:
    """Judges an end. ``words``: what the output or errors must have. ``lines``: the most lines of errors beside progress."""
    faults = list(short)
    errors = [line for line in end.err.replace("\r", "\n").splitlines() if line.strip() and not _PROGRESS.search(line)]
    if end.code not in codes:
        faults.append(f"exit code {end.code}, not {' or '.join(map(str, sorted(codes)))}")
    if "Traceback (most recent call last)" in end.err:
        faults.append("a traceback")
    if lines is not None and len(errors) > lines:
        faults.append(f"{len(errors)} lines of errors")
    if any(len(line) > LINE_LIMIT for line in errors):
        faults.append("a line of errors that is too long")
    faults += [f"no word of {word!r}" for word in words if word not in end.out + end.err]
    if expected != found:
        faults.append(f"{found} records, not {expected}")
    own = [line for line in errors if line.startswith("ssinghal: ")]
    shown = own or (errors if end.code else []) or end.out.strip().splitlines() or [""]
    message = shown[-1].removeprefix("ssinghal: ")
    return Outcome(done, str(end.code), message, expected, found, tuple(faults))


def resumed(
    place: Place, done: str, first: Ended, codes: Collection[int], *, words: Sequence[str] = (), lines: int | None = 3
) -> Outcome:
    """Judges a run that was ended, then completes it by --resume: each case then has one record, and each line with an answer
    is still what it was."""
    (folder,) = place.runs()
    path = folder / "records.jsonl"
    kept = [line for line in complete_lines(path) if answered([json.loads(line)])]
    short = faults_of(records_of(folder))
    short += [f"{SOON - len(kept)} records lost"] if len(kept) < SOON else []
    again = place.run("run", "--resume", str(folder.relative_to(place.folder)))
    if again.code != 0:
        short.append(f"--resume: exit code {again.code}: {again.err.strip()[-200:]}")
    records = records_of(folder)
    short += faults_of(records) + ([f"{len(records)} lines, not {CASES}"] if len(records) != CASES else [])
    changed = len(set(kept) - set(complete_lines(path)))
    short += [f"{changed} answers are no longer there"] if changed else []
    return judged(done, first, codes, words=words, short=short, expected=CASES, found=answered(records), lines=lines)


def in_namespace(kind: str, script: str) -> list[str]:
    """Returns a command that runs another one in a namespace of its own, after ``script``. NotHere where that cannot be."""
    command = ["unshare", *([] if os.getuid() == 0 else ["-r"]), kind, "sh", "-c", f'{script}\nexec "$@"', "sh"]
    try:
        tried = subprocess.run([*command, "true"], capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise NotHere("no program unshare") from error
    if tried.returncode:
        raise NotHere(f"no namespaces: {tried.stderr.strip()[-100:]}")
    return command
