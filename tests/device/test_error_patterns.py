"""Translates TTNN's error texts: captured samples of every wording, and texts written to mislead."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ssinghal.core.verdict import Resource, Status, Verdict
from ssinghal.device.error_patterns import HEAD_CHARS, MESSAGE_CHARS, OPENING, PATTERNS, known_wording, translate_error

SAMPLES: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parents[1] / "data" / "error_samples.yaml").read_text())

OOM = (
    "Out of Memory: Not enough space to allocate 34078720 B L1 buffer across 64 banks, where each bank needs to store 532480 B,"
    " but bank size is 1393312 B (allocated: 1064960 B, free: 328352 B, largest free block: 328352 B)."
)
OOM_HEADER = "TT_FATAL @ /project/tt_metal/impl/allocator/bank_manager.cpp:514: false\ninfo:\n"


def sample_id(sample: dict[str, Any]) -> str:
    return f"{sample['id']}-{sample['release']}-{sample['origin']}".replace(" ", "_")


def sample_message(sample: dict[str, Any]) -> str:
    """Returns the text after TTNN's header lines, if the sample has them."""
    return str(sample["text"]).rpartition("\ninfo:\n")[2]


# ---- samples ----


@pytest.mark.parametrize("sample", SAMPLES, ids=sample_id)
def test_sample(sample: dict[str, Any]) -> None:
    """Status, resource and every number of the text; what the text lacks stays unset."""
    error_type = sample.get("type", "RuntimeError")
    expected = {
        **sample["verdict"],
        "error_type": error_type,
        "message": re.sub(r"in program \d+", "in a program", sample_message(sample).partition("\n")[0]),
        "thrown_at": sample.get("thrown_at", ""),
    }
    verdict = translate_error(error_type, sample["text"])
    unset = {field.name: field.default for field in fields(Verdict) if field.name != "status"}
    assert {name: getattr(verdict, name) for name in (*unset, "status")} == {**unset, **expected}


@pytest.mark.parametrize("sample", SAMPLES, ids=sample_id)
def test_backtrace_is_ignored(sample: dict[str, Any]) -> None:
    """A backtrace names other functions and may have other messages; the verdict is that of the text before it."""
    error_type = sample.get("type", "RuntimeError")
    tail = f"\nbacktrace:\n --- tt::tt_metal::BankManager::allocate_buffer(unsigned long)\n --- {OOM}\n"
    assert translate_error(error_type, sample["text"] + tail) == translate_error(error_type, sample["text"])


@pytest.mark.parametrize("sample", SAMPLES, ids=sample_id)
def test_one_row_matches_a_sample(sample: dict[str, Any]) -> None:
    """The order of the table does not matter."""
    error_type = sample.get("type", "RuntimeError")
    message = " ".join(sample_message(sample).split())
    rows = [pattern.name for pattern in PATTERNS if pattern.error_type == error_type and pattern.regex.match(message)]
    assert len(rows) == 1


def test_each_row_has_a_sample() -> None:
    messages = [(sample.get("type", "RuntimeError"), " ".join(sample_message(sample).split())) for sample in SAMPLES]
    rows = [pattern for pattern in PATTERNS if not pattern.shards]  # those are in SHARDS
    unused = [p.name for p in rows if not any(p.error_type == kind and p.regex.match(text) for kind, text in messages)]
    assert unused == ["L1_SMALL buffer with dependencies", "TRACE buffer with dependencies"]  # one wording for all memories


def test_each_row_has_its_own_name() -> None:
    assert len({pattern.name for pattern in PATTERNS}) == len(PATTERNS)


# ---- the same wordings as people and tools print them ----


@pytest.mark.parametrize("sample", SAMPLES, ids=sample_id)
@pytest.mark.parametrize("change", [str.lower, str.upper], ids=["lower", "upper"])
def test_the_case_of_a_text_does_not_matter(sample: dict[str, Any], change: Callable[[str], str]) -> None:
    error_type, text = sample.get("type", "RuntimeError"), sample_message(sample)
    expected = translate_error(error_type, text)
    verdict = translate_error(error_type, change(text))
    assert replace(verdict, message="") == replace(expected, message="")
    assert bool(OPENING.match(change(text))) == bool(OPENING.match(text))


@pytest.mark.parametrize("separator", [",", "_", "'", " ", "\N{NARROW NO-BREAK SPACE}"])
def test_separators_between_thousands(separator: str) -> None:
    """A blank may also end a figure: it separates thousands only before a unit."""
    grouped = re.sub(r"\d{4,}", lambda number: f"{int(number[0]):,}".replace(",", separator), OOM)
    assert f"34{separator}078{separator}720 B" in grouped
    verdict, expected = translate_error("RuntimeError", grouped), translate_error("RuntimeError", OOM)
    assert replace(verdict, message="") == replace(expected, message="")


@pytest.mark.parametrize("mask", ["<num>", "<N>", "<redacted>", "XXXX", "****"])
def test_masked_figures_are_unset(mask: str) -> None:
    """The memory is known, also where its name is masked like a figure; of the figures, only those that are there."""
    masked = re.sub(r"\d+", mask, OOM)
    verdict = translate_error("RuntimeError", masked)
    assert verdict == Verdict(Status.OOM, Resource.L1_BUFFER, error_type="RuntimeError", message=masked)
    beyond = "Statically allocated circular buffers on core range [(x={m},y={m}) - (x={m},y={m})] grow to {m} B which is beyond"
    text = beyond.replace("{m}", mask) + " max L1 size of 1499136 B"
    verdict = translate_error("RuntimeError", text)
    assert (verdict.resource, verdict.cores, verdict.program_bytes) == (Resource.CIRCULAR_BUFFER, "", None)
    assert verdict.limit_bytes == 1499136


@pytest.mark.parametrize("text", ["{} B {} buffer across {} banks", "%d B %s buffer across %d banks", "N B L1 buffer across N"])
def test_a_template_is_no_message(text: str) -> None:
    """As in the source of TTNN, or in a manual."""
    text = f"Out of Memory: Not enough space to allocate {text}, where each bank needs to store {{}} B"
    assert translate_error("RuntimeError", text).status is Status.ERROR


SHARDS = [
    "Number of shards along width 8 must not exceed number of cores 7",
    "Number of shards along height 12 must not exceed number of rows 8 for row major orientation!",
    "Number of shards along width must not exceed core grid width!",
    "The sharded tensor does not fit on the Mesh. Num shards in buffer 8, Num Devices 4",
    "slice: BLOCK shard-grid (8x9 along x/y) exceeds compute grid (8x8); shard=(32,64) orientation=ROW_MAJOR",
    "Shard grid bounding box must fit within compute grid size",
    "Assertion `gridShape[0] <= workerGridVolume` failed, was `256 <= 64`",
]


@pytest.mark.parametrize("text", SHARDS)
def test_more_shards_than_cores(text: str) -> None:
    """A row of the table, but an error: whether the call requested the shards, the text does not say."""
    pattern, _ = known_wording("RuntimeError", text)
    assert pattern is not None
    assert pattern.shards
    assert OPENING.match(text)
    assert translate_error("RuntimeError", text) == Verdict(Status.ERROR, error_type="RuntimeError", message=text)


def test_each_row_about_shards_is_tested() -> None:
    matched = {pattern.name for text in SHARDS for pattern in [known_wording("RuntimeError", text)[0]] if pattern}
    assert matched == {pattern.name for pattern in PATTERNS if pattern.shards}


# ---- arithmetic on the numbers ----


@pytest.mark.parametrize(
    ("memory", "free", "largest", "resource"),
    [
        ("L1", 999, 999, Resource.L1_BUFFER),  # 1000 needed, 999 free
        ("L1", 1000, 999, Resource.FRAGMENTATION),
        ("DRAM", 5000, 999, Resource.FRAGMENTATION),
        ("L1", 1000, 1000, Resource.L1_BUFFER),  # fits by these numbers; the allocator rounds up
        ("L1_SMALL", 5000, 999, Resource.L1_SMALL_BUFFER),  # fixed by its size, not by moving tensors
        ("TRACE", 5000, 999, Resource.TRACE_BUFFER),
    ],
)
def test_fragmentation_is_enough_bytes_but_not_in_one_block(memory: str, free: int, largest: int, resource: Resource) -> None:
    text = (
        f"Out of Memory: Not enough space to allocate 64000 B {memory} buffer across 64 banks, where each bank needs to store"
        f" 1000 B, but bank size is 9000 B (allocated: {9000 - free} B, free: {free} B, largest free block: {largest} B)"
    )
    verdict = translate_error("RuntimeError", OOM_HEADER + text)
    assert (verdict.status, verdict.resource) == (Status.OOM, resource)


@pytest.mark.parametrize(
    ("free", "resource"),
    [
        (999, Resource.L1_BUFFER),
        (1000, Resource.L1_BUFFER),  # the allocator may have rounded 1000 up to 1024
        (1064, Resource.FRAGMENTATION),  # it cannot have rounded 1000 up to that
    ],
)
def test_enough_free_bytes_imply_fragmentation_where_no_block_is_named(free: int, resource: Resource) -> None:
    text = (
        "Out of Memory: Not enough space to allocate 64000 B L1 buffer across 64 banks, where each bank needs to store 1000 B,"
        f" but bank size is 9000 B (allocated: {9000 - free} B, free: {free} B)"
    )
    verdict = translate_error("RuntimeError", text)
    assert (verdict.resource, verdict.free_bytes, verdict.largest_free_bytes) == (resource, free, None)


def test_shortfall_follows_from_the_numbers() -> None:
    """Buffer: 532480 - 328352 per bank. Program beyond L1: 9991296 - 1499136. Program over tensors: 114016 - 106496."""
    beyond = "Statically allocated circular buffers on core range [(x=7,y=6) - (x=7,y=6)] grow to 9991296 B"
    over = "Statically allocated dataflow buffers in program 0 clash with L1 buffers on core range [0-0 - 7-7]."
    texts = [
        OOM,
        f"{beyond} which is beyond max L1 size of 1499136 B",
        f"{over} L1 buffer allocated at 106496 and static dataflow buffer region ends at 114016",
    ]
    assert [translate_error("RuntimeError", text).shortfall_bytes for text in texts] == [204128, 8492160, 7520]


@pytest.mark.parametrize(
    ("printed", "plain"),
    [
        ("[(x=0,y=0) - (x=7,y=6)]", "0-0..7-6"),
        ("[0-0 - 7-6]", "0-0..7-6"),
        ("[10-9 - 10-9]", "10-9..10-9"),
        ("{[(x=0,y=0) - (x=7,y=3)], [(x=0,y=4) - (x=3,y=4)]}", "0-0..7-3 0-4..3-4"),
        ("{[0-0 - 7-3], [0-4 - 3-4]}", "0-0..7-3 0-4..3-4"),
        ("[3-0]", "3-0..3-0"),
        ("[(0,0) - (7,6)]", "0-0..7-6"),
        ("(0, 0) to (7, 6)", "0-0..7-6"),
        ("0-0..7-6", "0-0..7-6"),
    ],
)
def test_core_ranges_of_both_wordings_read_alike(printed: str, plain: str) -> None:
    text = f"Statically allocated circular buffers on core range {printed} grow to 2 B which is beyond max L1 size of 1 B"
    assert translate_error("RuntimeError", text).cores == plain


@pytest.mark.parametrize(
    ("path", "thrown_at"),
    [
        ("/project/tt_metal/impl/program/program.cpp", "tt_metal/impl/program/program.cpp:908"),
        ("/project/ttnn/cpp/ttnn/operations/pool/pool.cpp", "ttnn/cpp/ttnn/operations/pool/pool.cpp:908"),
        ("ttnn/cpp/ttnn/operations/pool/pool.cpp", "ttnn/cpp/ttnn/operations/pool/pool.cpp:908"),
        ("../tt_metal/impl/program/program.cpp", "tt_metal/impl/program/program.cpp:908"),
        ("/home/user/tt-metal/tt_metal/impl/program/program.cpp", "tt_metal/impl/program/program.cpp:908"),
        ("/project/.cpmcache/fmt/format.h", ".cpmcache/fmt/format.h:908"),
    ],
)
def test_thrown_at_is_free_of_the_build_folder(path: str, thrown_at: str) -> None:
    assert translate_error("RuntimeError", f"TT_THROW @ {path}:908: tt::exception\ninfo:\n{OOM}").thrown_at == thrown_at


# ---- texts that are not one of the wordings ----

NOT_A_KNOWN_WORDING = {
    "unknown wording of out of memory": "Out of Memory: the allocator gave up on a 34078720 B L1 buffer",
    "out of memory, lower case": "out of memory",
    "missing numbers": "Out of Memory: Not enough space to allocate B L1 buffer across banks",
    "unknown memory": OOM.replace(" L1 ", " L3 "),
    "memory of another kind": OOM.replace(" L1 ", " L1_LARGE "),
    "number of 21 digits": OOM.replace("34078720", "9" * 21),
    "GPU": "CUDA out of memory. Tried to allocate 20.00 GiB.",
    "not memory, names L1": "L1 buffers must be aligned to 16 B",
    "not memory, names an operator": "ttnn.concat: all inputs must have the same rank",
    "not memory, counts slots": "Not enough circular buffer for 40 inputs.",
    "not memory, counts cores": "Not enough cores 56 for 64 links",
    "not memory, exceeds": "Program config grid (8x9) exceeds device grid (8x8).",
    "not memory, too large": "Rank is too large to convert to int8_t",
    "not memory, does not fit": "rectangle 2x4 at row 7 does not fit the 8x8 compute grid",
    "only a warning": "ttnn.split: L1 budget exceeded (need ~4000000 B, have 1393312 B for 4 chunks); DRAM downgrade.",
    "shapes that do not match": "The width of the first tensor must be equal to the height of the second tensor.",
    "shapes that do not broadcast": "Invalid subtile broadcast type",
    "missing argument": "running_mean and running_var must be defined in evaluation mode",
    "installation": "sfpi not found at runtime/sfpi or /opt/tenstorrent/sfpi",
    "quoted in a build log": f"Failed to generate binaries for reader TT_THROW @ /project/build.cpp:149\n{OOM}",
    "quoted by a wrapper": f"call 3 failed: {OOM}",
    "quoted by a wrapper on a later line": f"call 3 failed\n{OOM}",
    "quoted with its header": f"call 3 failed\n{OOM_HEADER}{OOM}",
    "quoted host memory": "the worker died of std::bad_alloc",
    "host memory and more": "std::bad_alloc was not raised",
    "nothing": "",
    "blank": " \n\t\n",
}


@pytest.mark.parametrize("text", NOT_A_KNOWN_WORDING.values(), ids=NOT_A_KNOWN_WORDING.keys())
@pytest.mark.parametrize("header", ["", OOM_HEADER], ids=["bare", "thrown"])
def test_unknown_text_is_an_error_with_its_first_line(header: str, text: str) -> None:
    verdict = translate_error("RuntimeError", header + text)
    assert (verdict.status, verdict.resource) == (Status.ERROR, None)
    assert verdict.error_type == "RuntimeError"
    if text.strip():
        assert verdict.message == re.sub(r"in program \d+", "in a program", text.strip().split("\n")[0])


@pytest.mark.parametrize("error_type", ["TypeError", "ValueError", "IndexError", "KeyError", "OutOfMemoryError"])
@pytest.mark.parametrize("text", [OOM, OOM_HEADER + OOM, "std::bad_alloc"])
def test_ttnn_reports_memory_as_runtime_error_only(error_type: str, text: str) -> None:
    assert translate_error(error_type, text).status is Status.ERROR


def test_argument_mismatch_is_an_error_whatever_it_prints() -> None:
    text = (
        "\nttnn.relu(): incompatible function arguments.\n\nCalled with:\n  relu(str)\n\nInvoked with: "
        f"'{OOM_HEADER}{OOM}'\n\nAvailable signatures:\n  relu(input_tensor: ttnn.Tensor)"
    )
    verdict = translate_error("TypeError", text)
    assert verdict == Verdict(Status.ERROR, error_type="TypeError", message="ttnn.relu(): incompatible function arguments.")


def test_message_without_info_is_the_condition() -> None:
    verdict = translate_error("RuntimeError", "TT_FATAL @ /project/tt_metal/impl/a.cpp:7: x > 0\nbacktrace:\n --- f()")
    assert verdict == Verdict(Status.ERROR, error_type="RuntimeError", message="x > 0", thrown_at="tt_metal/impl/a.cpp:7")


def test_message_wrapped_by_a_log_reads_alike() -> None:
    text = (
        "Statically allocated circular buffers on core range [(x=7,y=6) - (x=7,y=6)]\n"
        "  grow to 9990400 B which is beyond max L1 size of 1499136 B"
    )
    verdict = translate_error("RuntimeError", text)
    assert (verdict.resource, verdict.cores) == (Resource.CIRCULAR_BUFFER, "7-6..7-6")
    assert (verdict.program_bytes, verdict.limit_bytes) == (9990400, 1499136)


# ---- long and random texts ----

MEBI = 2**20
LONG_TEXTS = {
    "one line": "x" * MEBI,
    "blanks": " " * MEBI,
    "lines": "\n" * MEBI,
    "digits": f"{OOM[:40]}{'9' * MEBI}",
    "path": "TT_FATAL @ " + "/tt_metal" * (MEBI // 9),
    "path with colons": "TT_FATAL @ " + ":1" * (MEBI // 2),
    "condition": "TT_FATAL @ /project/a.cpp:1: " + "a" * MEBI,
    "core ranges": "Statically allocated circular buffers on core range {" + "[0-0 - 7-7], " * (MEBI // 13),
    "kernel names": "7 unique+common runtime args targeting kernel " + " on on" * (MEBI // 6),
    "kernel config table": "Program size (1) too large for kernel config buffer (0) on TENSIX, 1 B over:"
    + " text-sizing group, cores" * (MEBI // 25),
    "slicing layouts": "DRAM slicing configuration failed for"
    + " with output layout a. Unable to find a valid slice configuration. " * (MEBI // 68),
    "same start again and again": "Out of Memory: Not enough space to allocate 1 B L1 buffer across " * (MEBI // 65),
}


@pytest.mark.parametrize("text", LONG_TEXTS.values(), ids=LONG_TEXTS.keys())
def test_a_mebibyte_is_read_at_once(text: str) -> None:
    """Milliseconds; a pattern that backtracks badly takes minutes on one of these."""
    started = time.process_time()
    verdict = translate_error("RuntimeError", text)
    assert time.process_time() - started < 0.5
    assert verdict.status is not Status.OOM or verdict.resource is Resource.KERNEL_CONFIG
    assert len(verdict.message) <= MESSAGE_CHARS


def test_a_mebibyte_after_a_message_does_not_matter() -> None:
    text = f"{OOM_HEADER}{OOM}\n" + "tensor([0., 0.])\n" * (MEBI // 17)
    assert translate_error("RuntimeError", text) == translate_error("RuntimeError", OOM_HEADER + OOM)


def test_a_wording_beyond_the_first_characters_is_ignored() -> None:
    assert translate_error("RuntimeError", "\n" * HEAD_CHARS + OOM).status is Status.ERROR


FRAGMENTS = st.sampled_from(
    ["Out of Memory: ", "Not enough space ", "to allocate ", "1024 B ", "L1 buffer ", "across 64 banks", "does not fit",
     "exceeds per-core L1 capacity", "grow to ", "clash with L1 buffers", "circular buffers ", "ttnn.concat: ", "CB", "DFB",
     "MemoryError", "bad_alloc", "TT_FATAL @ /project/a.cpp:1: x", "\ninfo:\n", "\nbacktrace:\n", " ", "\n"]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=2000) | st.lists(FRAGMENTS | st.text(max_size=20), max_size=12).map("".join))
def test_random_text_is_never_a_verdict(text: str) -> None:
    """Not even text composed of the words of memory failures: a verdict needs a complete wording."""
    verdict = translate_error("RuntimeError", text)
    assert (verdict.status, verdict.resource) == (Status.ERROR, None)
    assert len(verdict.message.splitlines()) <= 1


def test_the_number_of_a_program_is_not_part_of_a_message():
    """TTNN counts programs per process: the same call in two of them must have the same record."""
    text = "Statically allocated dataflow buffers in program {} clash with L1 buffers on core range [0-0 - 7-7]. L1 buffer …"
    messages = {translate_error("RuntimeError", text.format(number)).message for number in (0, 17, 5470)}
    assert messages == {text.replace("in program {}", "in a program")}
