"""Fuzzes every parser of text that others write (tests/support/untrusted.py): coverage-guided, by atheris, in a process each.

    python scripts/fuzz.py --list
    python scripts/fuzz.py                              # --runs inputs for each parser
    python scripts/fuzz.py --runs 100000 trace mlir     # these alone
    python scripts/fuzz.py trace=100000 log=5000        # inputs of their own: parsers differ a hundredfold in speed
    python scripts/fuzz.py --all log=5000               # these inputs for this one, --runs for each other one
    python scripts/fuzz.py --seconds 20 --corpus DIR    # at most; inputs that reached new code are kept there, and used again

Prints a row per parser: inputs, inputs per second, how many of them were read (the others were refused), the memory of the
process after the first 5,000 inputs and at the end. Findings: an exception that a parser does not declare, an input of more
than ``--timeout`` seconds, memory that goes on growing. The input is kept as a file. Exit code: 0 none, 1 findings, 2 bad use.
"""

from __future__ import annotations

import argparse
import mmap
import os
import struct
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LAYOUT = struct.Struct("<qqd")  # inputs, those that were read, seconds
COUNTS, MEMORY = "counts", "memory"  # files of a report
SAMPLE = 5_000  # inputs between two samples of the memory
GROWTH, SLACK_MIB = 1.1, 24  # beyond the plateau of the first half; corpus and coverage of the fuzzer itself grow a little
MAX_LENGTH = 4_096
WORDS = (
    *('"op": ', '"inputs": [[', '"schema": ', "NaN", "1e999", "-0", "9" * 40, "\\ud800", "null", "true", "[[[[", "{{{{", '"'),
    *("l1:block@8x8", "0-0 - 7-7", "bfloat16", "!!python/object:os.system ", "&a ", "*a", "<<: ", "0x", "\x1b]8;;", "\x1f\x8b"),
    *("TT_FATAL", "Out of Memory: Not enough space to allocate ", "tensor<", "#ttnn.", "loc(", "../../", "=SUM(", "</script>"),
)


@dataclass
class Result:
    """What one process did. ``rss_mib``: its memory every ``SAMPLE`` inputs."""

    parser: str
    inputs: int = 0
    read: int = 0
    seconds: float = 0.0
    rss_mib: list[int] = field(default_factory=list)
    finding: str = ""

    def row(self) -> str:
        memory = [f"{self.rss_mib[at]:,}" if self.rss_mib else "" for at in (0, -1)]
        rate = self.inputs / max(self.seconds, 1e-9)
        cells = [self.parser, f"{self.inputs:,}", f"{rate:,.0f}", f"{self.read:,}", *memory, self.finding or "none"]
        return f"| {' | '.join(cells)} |"

    @property
    def grows(self) -> bool:
        """Whether memory still grows after the first half of a run that is long enough to see it."""
        if len(self.rss_mib) < 4:
            return False
        plateau = max(self.rss_mib[: len(self.rss_mib) // 2])
        return self.rss_mib[-1] > plateau * GROWTH + SLACK_MIB


def rss_mib() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 2**20


def load(*, instrument: bool) -> Mapping[str, Any]:
    """Returns the parsers by name, their modules instrumented for coverage: once, for all processes that fork from this one."""
    sys.path.insert(0, str(ROOT))
    if not instrument:
        parsers: Mapping[str, Any] = import_module("tests.support.untrusted").PARSERS
        return parsers
    try:
        atheris = import_module("atheris")
    except ImportError:
        sys.exit("scripts/fuzz.py needs atheris (extra fuzz), which has wheels for Python 3.12")
    errors = os.dup(2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # a line for each module
    try:
        with atheris.instrument_imports(include=["ssinghal"], enable_loader_override=False):
            return load(instrument=False)
    finally:
        os.dup2(errors, 2)


def fuzz(parser: Any, corpus: Path, report: Path, flags: Sequence[str]) -> None:
    """Fuzzes one parser. libFuzzer ends this process, without a word to Python: ``report`` is written as it goes."""
    atheris, mutated = import_module("atheris"), import_module("tests.support.mutations").mutated
    for number, seed in enumerate(parser.corpus()):
        (corpus / f"seed-{number}").write_bytes(seed)
    with (report / COUNTS).open("r+b") as file:
        counts = mmap.mmap(file.fileno(), LAYOUT.size)
    inputs = read = 0
    started = 0.0

    def one_input(data: bytes) -> None:
        nonlocal inputs, read, started
        started = started or time.monotonic()
        inputs += 1
        LAYOUT.pack_into(counts, 0, inputs, read, time.monotonic() - started)  # before: it may end the process
        read += parser.accepts(data)
        LAYOUT.pack_into(counts, 0, inputs, read, time.monotonic() - started)
        if inputs % SAMPLE == 0:
            with (report / MEMORY).open("a") as samples:
                samples.write(f"{rss_mib()}\n")

    def mutate(data: bytes, max_size: int, seed: int) -> bytes:
        """Changes bytes, or one time in eight what the text's structure has, which takes longer."""
        if seed % 8:
            return bytes(atheris.Mutate(data, max_size))
        changed: bytes = mutated(bytes(data), Random(seed))
        return changed[:max_size]

    atheris.Setup([sys.argv[0], *flags, str(corpus)], one_input, custom_mutator=mutate)
    atheris.Fuzz()


def run(name: str, parser: Any, runs: int, options: Any, folder: Path) -> Result:
    """Fuzzes one parser in a fork of this process."""
    corpus = (options.corpus or folder) / name
    dictionary, report, log = folder / "words", folder / f"{name}.report", folder / f"{name}.log"
    for made in (corpus, report, options.findings):
        made.mkdir(parents=True, exist_ok=True)
    dictionary.write_text("".join(f'"{_escaped(word)}"\n' for word in WORDS))
    (report / COUNTS).write_bytes(bytes(LAYOUT.size))
    flags = [f"-runs={runs}", f"-max_len={MAX_LENGTH}", f"-timeout={options.timeout}", "-rss_limit_mb=4096", "-verbosity=0"]
    flags += [f"-dict={dictionary}", f"-artifact_prefix={options.findings / name}-", f"-seed={options.seed}"]
    flags += [f"-max_total_time={options.seconds}"] if options.seconds else []
    sys.stdout.flush()
    if (process := os.fork()) == 0:
        code = 70
        try:
            output = os.open(log, os.O_WRONLY | os.O_CREAT, 0o600)
            os.dup2(output, 1)
            os.dup2(output, 2)
            fuzz(parser, corpus, report, flags)
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(process, 0)
    inputs, read, seconds = LAYOUT.unpack((report / COUNTS).read_bytes())
    samples = (report / MEMORY).read_text().split() if (report / MEMORY).exists() else []
    result = Result(name, inputs, read, seconds, [int(sample) for sample in samples])
    if status:
        text = log.read_text(errors="replace")
        (options.findings / f"{name}.log").write_text(text)
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        why = [line for line in lines if line.startswith("Exception: ") or "ERROR: libFuzzer" in line] or lines[-1:]
        result.finding = f"{why[0] if why else status} ({name}.log)"
    elif result.grows:
        result.finding = f"memory grows: {result.rss_mib} MiB"
    return result


def _escaped(word: str) -> str:
    plain = [chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\x{byte:02x}" for byte in word.encode("latin-1")]
    return "".join(plain)


def fuzz_all(wanted: Sequence[tuple[str, int]], options: Any) -> int:
    """Prints the table; returns the exit code. ``wanted``: inputs by parser; none: all of them."""
    parsers = load(instrument=True)
    if unknown := [name for name, _ in wanted if name not in parsers]:
        sys.stderr.write(f"scripts/fuzz.py: no parser {unknown[0]}; there are: {', '.join(parsers)}\n")
        return 2
    if options.all:
        wanted = [(name, dict(wanted).get(name, options.runs)) for name in parsers]
    print("| parser | inputs | inputs/s | read | MiB first | MiB last | finding |\n|---|---|---|---|---|---|---|", flush=True)
    results = []
    with tempfile.TemporaryDirectory(prefix="ssinghal-fuzz-") as folder:
        for name, runs in wanted or [(name, options.runs) for name in parsers]:
            results.append(run(name, parsers[name], runs, options, Path(folder)))
            print(results[-1].row(), flush=True)
    found = sum(bool(one.finding) for one in results)
    print(f"\n{sum(one.inputs for one in results):,} inputs, {found} findings")
    return 1 if found else 0


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("parsers", nargs="*", metavar="PARSER[=N]")
    arguments.add_argument("--list", action="store_true", help="print the parsers")
    arguments.add_argument("--all", action="store_true", help="all parsers, also those without inputs of their own")
    arguments.add_argument("--runs", type=int, default=2_000, metavar="N", help="inputs for each parser [2000]")
    arguments.add_argument("--seconds", type=int, metavar="S", help="at most for each parser")
    arguments.add_argument("--timeout", type=int, default=20, metavar="S", help="for one input [20]")
    arguments.add_argument("--seed", type=int, default=1, metavar="N", help="of the mutations [1]")
    arguments.add_argument("--corpus", type=Path, metavar="DIR", help="keep inputs that reached new code there")
    arguments.add_argument("--findings", type=Path, metavar="DIR", default=ROOT / "build" / "fuzz", help="[build/fuzz]")
    options = arguments.parse_args()
    if options.list:
        print("\n".join(load(instrument=False)))
        return 0
    wanted = []
    for text in options.parsers:
        name, mark, runs = text.partition("=")
        if mark and not runs.isdecimal():
            arguments.error(f"{text}: expected PARSER=N")
        wanted.append((name, int(runs) if mark else options.runs))
    return fuzz_all(wanted, options)


if __name__ == "__main__":
    sys.exit(main())
