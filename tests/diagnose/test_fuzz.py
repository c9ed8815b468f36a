"""Any bytes, damaged messages and prose: never an exception, never an OOM that the text does not have."""

from __future__ import annotations

import io
import re
from dataclasses import fields
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ssinghal.core.verdict import Verdict
from ssinghal.diagnose.log_reader import read_log
from ssinghal.diagnose.model import LogReading
from ssinghal.diagnose.parse.mlir import parse_operation, read_module
from tests.support.wrapped_messages import SAMPLES, WRAPPINGS

LOGS = [path.read_text() for path in sorted((Path(__file__).parents[1] / "data" / "logs").iterdir())]
MEMORY = [sample for sample in SAMPLES if sample["verdict"]["status"] == "oom" and "type" not in sample]
PARTS_OF_A_SUM = {"program_bytes"}  # printed as several numbers by some wordings
quickly = settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


def read(text: str | bytes) -> LogReading:
    return read_log(io.BytesIO(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")), "log")


def numbers(verdict: Verdict) -> dict[str, int]:
    values = {field.name: getattr(verdict, field.name) for field in fields(verdict)}
    return {name: value for name, value in values.items() if isinstance(value, int)}


def check_numbers(text: str) -> None:
    """Each number of a verdict is in the text, where line ends may have broken it."""
    unbroken = re.sub(r"\s*\n[>\s]*", "", text)
    for failure in read(text).memory_failures:
        for name, value in numbers(failure.verdict).items():
            assert name in PARTS_OF_A_SUM or str(value) in text or str(value) in unbroken, (name, value)


@quickly
@given(st.binary(max_size=3000))
def test_any_bytes(data: bytes) -> None:
    assert read(data).memory_failures == ()
    read_module(io.BytesIO(data), "module")


TOKENS = st.sampled_from(
    ["TT_FATAL @ a.cpp:1: x", "TT_THROW: ", "\ninfo:\n", "info:", "RuntimeError: ", "MemoryError", "what():  ", "E   ", "> ",
     "[0] ", "Executing operation: ", '%9 = "ttnn.to_layout"(%8) ', "<{layout = #ttnn.layout<tile>}> ",
     ": (tensor<4x32xbf16, #a>) -> ", "#a = #ttnn.ttnn_layout<(d0) -> (d0), <1x1>, memref<4x32xbf16, #dram>, <interleaved>>",
     'loc("x")', "____ test_a ____\n", "FAILED a.py::b - RuntimeError: ", "a.py:3: in f\n", '  File "a.py", line 3\n', "\r",
     "    ttnn.add(a)\n", "Traceback (most recent call last):\n", "\x1b[31m", "| critical | ", "module {\n", "}\n", "\n",
     "\0", "{", "<", "(", '"', "%0:9999999999", "memref<4x32x!ttcore.tile<32x32, bf16>, #l1>", "<8x8>", "<block_sharded>"]
)  # fmt: skip


@quickly
@given(st.lists(TOKENS | st.text(max_size=10), max_size=40).map("".join))
def test_pieces_of_logs_in_any_order(text: str) -> None:
    for failure in read(text).memory_failures:  # Python's MemoryError has no numbers
        assert numbers(failure.verdict) == {}
        assert failure.verdict.error_type == "MemoryError"
    parse_operation(text, {"#a": text})
    read_module(io.BytesIO(text.encode()), "module")


@quickly
@given(st.sampled_from(MEMORY), st.sampled_from(sorted(WRAPPINGS)), st.data())
def test_damaged_messages(sample: dict[str, str], wrapping: str, data: st.DataObject) -> None:
    """Characters dropped, doubled and put in, words lost or swapped, digits changed."""
    text = WRAPPINGS[wrapping](sample)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, max(0, len(text) - 1)))
        length = data.draw(st.integers(1, 12))
        put = data.draw(st.sampled_from(["", text[at : at + length] * 2, "9", " ", "\n", "B", "é", "\x00", "Out of Memory: "]))
        text = text[:at] + put + text[at + length :]
    check_numbers(text)


@quickly
@given(st.sampled_from(LOGS), st.data())
def test_damaged_logs(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    check_numbers(text[:start] + data.draw(st.text(max_size=20)) + text[end:])


WORDS = st.sampled_from(
    "Out of Memory: out memory Not enough space to allocate B L1 DRAM buffer across banks, where each bank needs store the is"
    " Statically allocated circular buffers on core range grow beyond max size clash with program too large for kernel config"
    " Workload exceeds capacity MemoryError std::bad_alloc ttnn.concat: required CB page size exceeds per-core we hit yesterday"
    " 1024 64 12 34078720 (0-0) [0-0 - 7-7] Tensor does not fit. RuntimeError OOM, Cannot DRAM Auto slice could find".split()
)
PROSE = st.lists(WORDS, min_size=1, max_size=30).map(" ".join)


@quickly
@given(PROSE, st.sampled_from(["", "> ", "- ", "E   ", "RuntimeError: ", "2026-01-01 10:00:00.000 | critical | Metal | "]))
def test_prose_about_memory_is_never_an_oom(prose: str, before: str) -> None:
    complete = ["std::bad_alloc", "Workload exceeds L1 capacity", *(["MemoryError"] if before == "E   " else [])]
    failures = read(f"{before}{prose}\nand more of it.\n").memory_failures
    assert failures == () or prose in complete or before in ("RuntimeError: ", "2026-01-01 10:00:00.000 | critical | Metal | ")
    for failure in failures:
        assert failure.verdict.message.startswith(tuple(complete))
