"""Limits of memory and of open files, and a working folder that was removed: each is one line with exit code 2."""

from __future__ import annotations

import errno
import os
import resource
import shlex
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from ssinghal.runs.folders import INFO, MAX_HEAD_BYTES, head_bytes
from tests.support.run_builder import a_record, write_run

PROGRAM = shlex.join([sys.executable, "-m", "ssinghal"])
INJECTED = Path(__file__).parents[2] / "ssinghal" / "tracker" / "inject"
GONE = "ssinghal: the working folder is gone (it was removed): change to another one\n"


def shell(script: str, folder: Path) -> tuple[int, str]:
    done = subprocess.run(["bash", "-c", script], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    return done.returncode, done.stderr


# Memory --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "text", "kib", "command"),
    [
        ("big.jsonl", '{"op": "relu", "inputs": [[1, 64, 80, 80]]}\n' * 900_000, 90_000, "remedy --from big.jsonl"),
        ("deep.yaml", "[" * 60_000_000, 130_000, "catalog check deep.yaml"),
    ],
)
def test_a_file_that_is_larger_than_the_memory_is_one_line(file, text, kib, command, tmp_path):
    (tmp_path / file).write_text(text)
    code, error = shell(f"ulimit -v {kib}; {PROGRAM} {command}", tmp_path)
    line = f"ssinghal: the command ran out of host memory, of which it may have {1024 * kib:,} B (ulimit -v)\n"
    assert (code, error) == (2, line)


@pytest.mark.parametrize("raised", [MemoryError(), MemoryError("of NumPy"), OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))])
@pytest.mark.parametrize(
    ("target", "arguments"),
    [
        ("ssinghal.catalog.loader.load_catalogs", ["catalog", "check"]),
        ("ssinghal.cli.doctor.examine", ["doctor"]),
    ],
)
def test_no_memory_is_one_line_wherever_it_is_noticed(raised, target, arguments, run, monkeypatch):
    def fails(*_: object, **__: object) -> None:
        raise raised

    monkeypatch.setattr(target, fails)
    done = run(*arguments)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert done.err.startswith("ssinghal: the command ran out of host memory")


def test_a_small_header_takes_little_memory(tmp_path):
    path = write_run(tmp_path, [a_record()]) / INFO
    tracemalloc.start()
    try:
        data = head_bytes(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert data == path.read_bytes()
    assert peak < MAX_HEAD_BYTES // 16


# Open files ----------------------------------------------------------------------------------------------------------------


def test_the_limit_of_open_files_is_named(tmp_path):
    (tmp_path / "one.yaml").write_text("""
schema: 1
kind: crossed
title: One
placement: {dtype: bfloat16, layout: tile, memory: l1, output_memory: same}
origins:
- {shape: [1, 32], none: "x"}
operators:
  relu:
  - {shape: [1, 32]}
""")
    code, error = shell(f"ulimit -n 10; {PROGRAM} run one.yaml --device virtual --results x", tmp_path)
    assert (code, error.count("\n")) == (2, 1)
    assert "Too many open files: a process may open 10 (ulimit -n): raise that limit" in error


@pytest.mark.parametrize(
    ("number", "named", "line"),
    [
        (errno.EACCES, "some/file", "some/file: Permission denied"),
        (errno.EACCES, None, "Permission denied"),
        (
            errno.EMFILE,
            "some/file",
            "some/file: Too many open files: a process may open {limit:,} (ulimit -n): raise that limit",
        ),
        (errno.EMFILE, None, "Too many open files: a process may open {limit:,} (ulimit -n): raise that limit"),
        (errno.ENOENT, "some/file", "some/file: No such file or directory"),
    ],
)
def test_errors_of_the_system_name_what_they_are_about(number, named, line, run, monkeypatch):
    def fails(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number), named)

    monkeypatch.setattr("ssinghal.cli.doctor.examine", fails)
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert run("doctor") == (2, "", f"ssinghal: {line.format(limit=limit)}\n")


# A working folder that was removed -----------------------------------------------------------------------------------------

REMOVED = "mkdir gone; cd gone; rmdir ../gone;"


@pytest.mark.parametrize(
    "command",
    [
        "probe relu 1,64,80,80 --device virtual",
        "run mochi --device virtual",
        "doctor",
        "run --resume latest --results {results}",
        "recheck {results}/latest",
        "remedy relu 1,32",
        "edge relu 1,32 --max batch",
        "exec -- python -c 1",
        "profile -- python -c 1",
    ],
)
def test_a_removed_working_folder_is_named(command, tmp_path):
    head = {"options": {"catalogs": ["mochi"], "device": "virtual"}, "selection_sha256": "ab", "answerer": "cd", "selected": 2}
    run = write_run(tmp_path / "results", [a_record()], finished=None, **head)
    (run.parent / "latest").symlink_to(run.name)
    assert shell(f"{REMOVED} {PROGRAM} {command.format(results=run.parent)}", tmp_path) == (2, GONE)


@pytest.mark.parametrize(
    "command", ["--help", "estimate relu 1,64,80,80", "operators", "report {results}/latest -o {results}/r"]
)
def test_what_needs_no_working_folder_works_without(command, tmp_path):
    run = write_run(tmp_path / "results", [a_record()])
    (run.parent / "latest").symlink_to(run.name)
    assert shell(f"{REMOVED} {PROGRAM} {command.format(results=run.parent)}", tmp_path) == (0, "")


def test_a_followed_program_starts_without_a_working_folder(tmp_path):
    script = f"{REMOVED} PYTHONPATH={INJECTED} {sys.executable} -c pass"
    assert shell(script, tmp_path) == (0, "")
