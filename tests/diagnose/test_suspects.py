"""Memory failures in words that no table has: understood, shown as suspects, or ordinary lines."""

from __future__ import annotations

import io
import time
from typing import Any

import pytest

from ssinghal.core.verdict import Resource, Status, Verdict
from ssinghal.diagnose.explanation import explain
from ssinghal.diagnose.log_reader import read_log
from ssinghal.diagnose.model import Failure, FailureKind
from ssinghal.diagnose.parse.suspects import understood

CB, L1 = Resource.CIRCULAR_BUFFER, Resource.L1_BUFFER
MESSAGE = (
    "Statically allocated circular buffers on core range [0-0 - 7-7] grow to 2520320 B which is beyond max L1 size of 1499136 B"
)


def failures(text: str) -> tuple[Failure, ...]:
    return read_log(io.BytesIO(text.encode()), "log").failures


def only(text: str) -> Failure:
    (failure,) = failures(text)
    return failure


def numbers(verdict: Verdict) -> dict[str, int]:
    return {name: value for name, value in vars(verdict).items() if isinstance(value, int)}


# ---- both figures and the memory are unmistakable ----

STATED: list[tuple[str, Resource, dict[str, int]]] = [
    ("Circular buffers exceed L1 size (2097152 B > 1499136 B)", CB, {"program_bytes": 2097152, "limit_bytes": 1499136}),
    ("L1 OOM: needs 2,097,152 of 1,572,864", CB, {"program_bytes": 2097152, "limit_bytes": 1572864}),
    ("CB 2097152 > 1572864", CB, {"program_bytes": 2097152, "limit_bytes": 1572864}),
    ("| conv1d | 1x6441x192 | CB 2,097,152 > 1,572,864 |", CB, {"program_bytes": 2097152, "limit_bytes": 1572864}),
    (
        "FAILED | 1 | 2048 | 4096 | CBs exceed L1 (2097152 B > 1572864 B)",
        CB,
        {"program_bytes": 2097152, "limit_bytes": 1572864},
    ),
    ("2,097,152 B of circular buffers do not fit in L1 (1,499,136 B)", CB, {"program_bytes": 2097152, "limit_bytes": 1499136}),
    ("max L1 size is 1499136 B, CBs grow to 2097152 B: too large", CB, {"program_bytes": 2097152, "limit_bytes": 1499136}),
    (
        "Circular buffers need 1400000 B but only 1393312 B are available",
        CB,
        {"program_bytes": 1400000, "limit_bytes": 1393312},
    ),
    ("required L1 memory usage exceeds capacity: 1600000 > 1368096", L1, {"bytes_per_bank": 1600000, "limit_bytes": 1368096}),
    ("L1 OOM: each bank needs 700000 B, only 500000 B are free", L1, {"bytes_per_bank": 700000, "free_bytes": 500000}),
    (
        "DRAM out of memory: each bank needs 35651584 B, bank size 10250880 B",
        Resource.DRAM_BUFFER,
        {"bytes_per_bank": 35651584, "bank_bytes": 10250880},
    ),
    ("trace region too small: 60825600 > 50000000", Resource.TRACE_BUFFER, {"total_bytes": 60825600, "limit_bytes": 50000000}),
    (
        "L1_SMALL too small: 19,808 B needed > 16,384 B",
        Resource.L1_SMALL_BUFFER,
        {"bytes_per_bank": 19808, "bank_bytes": 16384},
    ),
    ("kernel config 79,760 B exceeds 70,656 B", Resource.KERNEL_CONFIG, {"program_bytes": 79760, "limit_bytes": 70656}),
    ("runtime args: 1760 bytes > 1024 bytes", Resource.KERNEL_CONFIG, {"program_bytes": 1760, "limit_bytes": 1024}),
    # The halves swapped, among other figures.
    (
        'seeing "beyond max L1 size of 1499136 B" for a conv2d with 2048 channels, sth like grow to 2087936 B. Any idea?',
        CB,
        {"program_bytes": 2087936, "limit_bytes": 1499136},
    ),
    ("L1 OOM: bank size is 1393312 B, each needs 2097152 B", L1, {"bytes_per_bank": 2097152, "bank_bytes": 1393312}),
    ("L1 OOM: each bank has only 500000 B, it needs to store 700000 B", L1, {"bytes_per_bank": 700000, "bank_bytes": 500000}),
    # What this package prints.
    (
        "ttnn.add ran out of memory: L1 bank needs 532,480 B, 328,352 B free",
        L1,
        {"bytes_per_bank": 532480, "free_bytes": 328352},
    ),
    (
        "OOM: L1 bank needs 552,960 B, 912,096 B free, largest block 522,240 B (output)",
        Resource.FRAGMENTATION,
        {"bytes_per_bank": 552960, "free_bytes": 912096, "largest_free_bytes": 522240},
    ),
    (
        "DRAM bank needs 35,651,584 B of a bank of 1,046,181,792 B",
        Resource.DRAM_BUFFER,
        {"bytes_per_bank": 35651584, "bank_bytes": 1046181792},
    ),
    ("L1_SMALL bank needs 16 B, 0 B free", Resource.L1_SMALL_BUFFER, {"bytes_per_bank": 16, "free_bytes": 0}),
    ("circular buffers end at 2,097,152 B, L1 at 1,572,864 B", CB, {"program_bytes": 2097152, "limit_bytes": 1572864}),
    ("dataflow buffers need 2,097,152 B of 1,393,312 B per core", CB, {"program_bytes": 2097152, "limit_bytes": 1393312}),
    (
        "circular buffers end at 937,856 B, an L1 tensor begins at 916,480 B",
        Resource.CLASH,
        {"program_bytes": 937856, "tensor_address": 916480},
    ),
    ("CB end 937856 clashes with the L1 tensor at 916480", Resource.CLASH, {"program_bytes": 937856, "tensor_address": 916480}),
]


@pytest.mark.parametrize(("text", "resource", "figures"), STATED, ids=[text for text, _, _ in STATED])
@pytest.mark.parametrize("prefix", ["", "RuntimeError: ", "E   AssertionError: ", "2026-01-01 10:00:00 ERROR ", "- "])
def test_a_failure_in_peoples_own_words(text: str, resource: Resource, figures: dict[str, int], prefix: str) -> None:
    failure = only(f"some line\n{prefix}{text}\n")
    assert (failure.kind, failure.line, failure.verdict.resource) == (FailureKind.MEMORY, 2, resource)
    assert numbers(failure.verdict) == figures


@pytest.mark.parametrize(
    "text",
    [
        "OSError: [Errno 12] Cannot allocate memory",
        "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 12.0 GiB for an array with shape (32000, 50000)",
        "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
        "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi.",
    ],
)
def test_the_hosts_memory(text: str) -> None:
    failure = only(f"{text}\n")
    assert (failure.kind, failure.verdict.resource, numbers(failure.verdict)) == (FailureKind.MEMORY, Resource.HOST, {})


# ---- it looks like a memory failure ----

SUSPECTS = [
    "DRAM OOM on n300 with llama 70b",
    "Llama-3.1-70B runs out of DRAM on T3K",
    "Not enough L1 memory for conv2d",
    "error: 'ttnn.conv2d' op L1 usage exceeds the available L1 memory",
    "Failed to allocate 1073741824 bytes on device",
    "The model does not fit in DRAM",
    "RESOURCE_EXHAUSTED: Out of memory allocating 34359738368 bytes.",
    "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.",
    "The model's max seq len (131072) is larger than the maximum number of tokens that can be stored in KV cache (39648).",
    "Insufficient L1 memory on core (0,0)",
    "allocation failed: no space in L1_SMALL",
    "Total L1 usage 2.1 MB exceeds 1.4 MB",
    "runtime args: 402 exceed the maximum of 341",
    "L1 tensor of 2097152 B exceeds 1499136 B",  # of all cores, or of each?
    "DRAM OOM: needs 12582912 of 10250880",  # of a bank, or of all?
    "CB 1.8 MB > 1.5 MB",
    # Cut off.
    "Statically allocated circ",
    "where each bank needs to store 53",
]


@pytest.mark.parametrize("text", SUSPECTS)
@pytest.mark.parametrize("prefix", ["", "RuntimeError: ", "ERROR: ", "E   ValueError: "])
def test_a_line_that_looks_like_a_memory_failure(text: str, prefix: str) -> None:
    failure = only(f"some line\n{prefix}{text}\n")
    assert (failure.kind, failure.line, failure.verdict.status) == (FailureKind.SUSPECT, 2, Status.ERROR)
    assert numbers(failure.verdict) == {}
    assert explain(failure).headline.startswith("looks like a memory failure, but its wording is not known: ")


def test_a_suspect_in_a_tests_summary_has_its_test() -> None:
    failure = only("FAILED tests/test_a.py::test_b - ttnn: L1 out of memory\n")
    assert (failure.kind, failure.test) == (FailureKind.SUSPECT, "tests/test_a.py::test_b")


@pytest.mark.parametrize("text", ["Out of memory in ttnn.conv2d\n{}", "{}\nL1 OOM\n", "L1 OOM\n{}\nERROR: out of memory\n"])
def test_the_words_around_a_message_are_one_failure_with_it(text: str) -> None:
    failure = only(text.format(f"RuntimeError: {MESSAGE}\n"))
    assert (failure.kind, failure.verdict.program_bytes) == (FailureKind.MEMORY, 2520320)


@pytest.mark.parametrize("text", ["L1 OOM on core 3-2", STATED[0][0], MESSAGE.lower()])
def test_far_into_a_log(text: str) -> None:
    """Beyond its start, only lines with certain words are read."""
    text = f"RuntimeError: {text}" if "oom" not in text.lower() else text
    assert only("nothing of interest here\n" * 60_000 + f"{text}\n").line == 60_001


def test_equal_lines_are_one_suspect() -> None:
    failure = only("ERROR: out of memory\nplain\nERROR: out of memory\n")
    assert (failure.kind, failure.times) == (FailureKind.SUSPECT, 2)


# ---- ordinary lines ----

ORDINARY = [
    "Memory usage: 3 GB",
    "echo -17 > /proc/self/oom_score_adj",
    "pytest --oom-tests -q",
    "fits in L1",
    "3 oom, 5 fits, 2 unsupported",
    "oom: 12",
    "OOM: 0",
    "OOM events: 0",
    "OOM Shapes:",
    "For OOM Issues:",
    "Operator | OOM Count | Worst Shape | Max Memory |",
    "Total OOM Failures | 1,322 | Critical |",
    "The following operators have explicit Out-of-Memory (OOM) errors with tensor shapes:",
    "ssinghal/comprehensive_oom_report.json - Detailed OOM analysis",
    "Identified and catalogued 41 out-of-memory failures",
    "0 out-of-memory events",
    "OOM | 14",
    'with pytest.raises(RuntimeError, match="Out of Memory"):',
    "SKIPPED [1] tests/test_a.py:3: Out of memory on n150",
    "XFAIL tests/test_a.py::test_b - OOM in L1",
    "tests/test_out_of_memory.py::test_oom PASSED",
    "tests/test_out_of_memory.py::test_oom[1] 12 ms",
    'grep -n "Out of Memory" log.txt',
    "# avoid OOM by chunking",
    "## Out of memory",
    "if the tensor does not fit in L1, use DRAM",
    "When L1 is full, TTNN raises an out of memory error.",
    "This avoids out of memory errors.",
    "To fix OOM, reduce the batch size.",
    "No OOM was seen.",
    "ran without running out of memory",
    'assert "Out of Memory" in str(e)',
    'raise RuntimeError("out of memory")',
    "ttnn.split: L1 budget exceeded (need ~4000000 B, have 1393312 B for 4 chunks); DRAM downgrade.",
    "Input tensor memory config must match",
    "L1 buffers must be aligned to 16 B",
    "the program uses 1.2 MB of L1 and 3 GB of DRAM",
    "DRAM bandwidth exceeded 200 GB/s",
    "peak L1 usage 1,200,000 of 1,499,136 B",
    "DRAM: allocated: 1024 B, free: 4096 B, largest free block: 4096 B",
    "L1 used: 1024000 / 1499136 B",
    "device memory: total 12 GB, allocated 3 GB, free 9 GB",
    "Program config grid (8x9) exceeds device grid (8x8).",
    "OOM killer disabled",
    "docker run --oom-kill-disable image",
    "memory_config=ttnn.L1_MEMORY_CONFIG",
    "Loss exceeded 1e5 at step 3; memory 20 GB",
    "MemoryConfig(memory_layout=TensorMemoryLayout::INTERLEAVED,buffer_type=BufferType::L1)",
    "download of 4096 bytes exceeds 2048",
    "- Fixed an out of memory in conv2d on Blackhole",
    "| test | status | L1 peak 1,300,000 | limit 1,499,136 |",
    "Sequence length 8192 exceeds the model maximum 4096; truncating",
    "INFO: out of memory is handled",
    "2026-01-01 10:00:00.000 | warning  |          Metal | L1 usage exceeds 90 %",
    "tests/test_a.py::test_b[num_shards (8) > num_banks (7)] PASSED",
    "refused, no memory ran out: CB 2097152 > 1572864",
    "Sharded over 8 banks, 64 cores",
    "shard spec with 64 shards on 64 cores",
]


@pytest.mark.parametrize("text", ORDINARY)
def test_an_ordinary_line_is_no_failure(text: str) -> None:
    assert failures(f"some line\n{text}\n") == ()


@pytest.mark.parametrize(
    "text",
    [
        "Timeout waiting for a DRAM barrier",
        "Number of worker cores (12) cannot exceed number of DRAM banks (8)",
        "Input tensor memory config must match",
        "PCC 0.93 is too small",
        "fabric router sync timed out",
        "index 40 exceeds number of circular buffers 32",
        "CB index 40 does not fit the pack-precision mask",
    ],
)
def test_another_error_is_no_suspect(text: str) -> None:
    assert only(f"RuntimeError: {text}\n").kind is FailureKind.OTHER


def test_a_gpus_memory_is_no_suspect() -> None:
    failure = only("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n")
    assert failure.kind is FailureKind.OTHER
    assert explain(failure).headline == ("no memory of a Tenstorrent device: CUDA out of memory. Tried to allocate 2.00 GiB.")


# ---- refused shards ----


def test_a_refusal_without_its_message() -> None:
    failure = only("RuntimeError: TT_FATAL @ /src/ttnn/cpp/ttnn/tensor/tensor_spec.cpp:54: num_shards <= num_cores\n")
    assert (failure.kind, failure.verdict.message) == (FailureKind.REFUSED, "num_shards <= num_cores")


REFUSED = [
    (
        "Number of shards along width 8 must not exceed number of cores 7",
        "8 shards along the width, 7 cores to hold them (DRAM banks, if the tensor is in DRAM)",
    ),
    (
        "num_shards <= num_coresE  info:E  Number of shards along height 128 must not exceed number of cores 64",
        "128 shards along the height, 64 cores to hold them",
    ),
    (
        "lib/a.cpp:1: Attr derive(...): Assertion `gridShape[0] <= workerGridVolume` failed, was `96 <= 56`, HeightSharded"
        " shard count 96 exceeds worker grid volume 56",
        "96 shards, a grid of 56 cores to hold them",
    ),
    ("num_shards (8) > num_banks (7)", "8 shards, 7 banks to hold them"),
    ("not enough room: 64 shards but only 56 cores", "64 shards, 56 cores to hold them"),
    (
        "slice: BLOCK shard-grid (10x12 along x/y) exceeds compute grid (8x8); shard=(1,1)",
        "shards on 10x12 cores, a grid of 8x8",
    ),
    (
        "Cannot set circular buffer size to 4096. This is larger than the associated dynamically allocated L1 buffer bank size"
        " of 1024 B",
        "a program's buffer of 4,096 B in a shard of 1,024 B",
    ),
    (
        "Cannot grow circular buffer to 4096 B. This is larger than associated dynamically allocated L1 buffer of size 2048 B",
        "a program's buffer of 4,096 B in a shard of 2,048 B",
    ),
    (
        "DFB 'in0' (entry_size 2048 * num_entries 4 = 8192 bytes) is larger than its borrowed TensorParameter 'a'"
        " (4096 bytes).",
        "a program's buffer of 8,192 B in a shard of 4,096 B",
    ),
    (
        "Borrowed-memory DFB id 3 (from TensorParameter 'a') has total size 8192 B, which exceeds the borrowed Buffer's"
        " per-bank size of 4096 B.",
        "a program's buffer of 8,192 B in a shard of 4,096 B",
    ),
    ("The sharded tensor does not fit on the Mesh. Num shards in buffer 8, Num Devices 4", "8 shards, 4 devices to hold them"),
]


@pytest.mark.parametrize(("text", "words"), REFUSED)
@pytest.mark.parametrize(
    "start", ["", "RuntimeError: TT_FATAL @ /src/ttnn/cpp/ttnn/tensor/tensor_spec.cpp:54: a <= b\ninfo:\n"]
)
def test_more_shards_than_cores_are_refused(text: str, words: str, start: str) -> None:
    failure = only(f"{start}{text}\n")
    assert (failure.kind, failure.verdict.status) == (FailureKind.REFUSED, Status.UNSUPPORTED)
    assert explain(failure).headline.startswith(f"refused, no memory ran out: {words}")


def test_a_refusal_names_the_chips_with_as_many_banks_and_what_to_change() -> None:
    assert explain(only(f"RuntimeError: {REFUSED[0][0]}\n")).lines()[1:] == [
        "message: Number of shards along width 8 must not exceed number of cores 7",
        "if the tensor is in DRAM: 7 DRAM banks are those of p100",
        "to change: at most 7 shards, each correspondingly larger, or no shards (interleaved)",
    ]


@pytest.mark.parametrize(
    ("text", "headline"),
    [
        (
            "Out of Memory: Not enough space to allocate <num> B L<num> buffer across <num> banks, where each bank needs to"
            " store <num> B",
            "L1 buffer does not fit: figures masked in the text",
        ),
        (
            "Statically allocated circular buffers on core range [<range>] grow to XXX B which is beyond max L1 size of XXX B",
            "program buffers do not fit in L1: figures masked in the text",
        ),
        (
            "2048 Bytes unique+common runtime args targeting kernel a on (x=0,y=0) are too large. Cannot be written as they"
            " will run into memory region reserved for result. Max allowable size is 1024 Bytes",
            "a kernel's runtime arguments need 2,048 B of 1,024 B",
        ),
        (
            "Program size (71000) too large for kernel config buffer (70656)",
            "arguments and code of kernels need 71,000 B of 70,656 B",
        ),
    ],
)
def test_a_headline_in_words(text: str, headline: str) -> None:
    assert explain(only(f"RuntimeError: {text}\n")).headline == headline


def test_a_kernel_beyond_its_region_is_one_failure() -> None:
    section = "/sfpi/bin/ld: a.elf section `.text' will not fit in region `TRISC1_CODE'\n"
    region = "/sfpi/bin/ld: region `TRISC1_CODE' overflowed by 1204 bytes\n"
    assert only(section).kind is FailureKind.SUSPECT
    failure = only(f"{section}{region}collect2: error: ld returned 1 exit status\n")
    assert (failure.kind, failure.verdict.resource) == (FailureKind.MEMORY, Resource.KERNEL_CONFIG)
    assert explain(failure).headline == "a kernel's code exceeds its region TRISC1_CODE by 1,204 B"


def test_an_assertion_and_its_abort_are_one_failure() -> None:
    assert only(f"{REFUSED[2][0]}\nFatal Python error: Aborted\n").kind is FailureKind.REFUSED


# ---- any text ----


@pytest.mark.parametrize(
    "text",
    [
        "L1 exceeds " * 100_000,
        "1,880,640 > " * 100_000,
        "CB 1000 B exceeds the " * 50_000,
        "8 shards but " * 80_000,
        "not " * 250_000,
        "exited with " * 100_000,
    ],
)
def test_a_mebibyte_is_looked_at_at_once(text: str) -> None:
    """Milliseconds; an expression that backtracks badly takes minutes on one of these."""
    started = time.process_time()
    fields: dict[str, Any] = vars(understood(Verdict(Status.ERROR, message=text))[0])
    assert time.process_time() - started < 30
    assert fields["message"] == text
