"""One failure is reported once, whatever repeats it; failures that differ stay apart."""

from __future__ import annotations

import io

import pytest

from ssinghal.core.verdict import Resource
from ssinghal.diagnose.echoes import is_echo
from ssinghal.diagnose.log_reader import read_log
from ssinghal.diagnose.model import Failure, FailureKind

HEADER = "TT_FATAL @ /project/tt_metal/impl/allocator/bank_manager.cpp:462: address.has_value()"
SHORT = "Out of Memory: Not enough space to allocate {0} B L1 buffer across 64 banks, where each bank needs to store {1} B"
OOM = SHORT.format(41943040, 655360) + ", but bank size is 1393312 B"
STATS = " (allocated: 917504 B, free: 475808 B, largest free block: 475808 B)"
CLASH = (
    "Statically allocated circular buffers in program {program} clash with L1 buffers on core range [0-0 - 7-7]."
    " L1 buffer allocated at 709760 and static circular buffer region ends at {end}"
)
LOGGED = "2026-03-04 10:00:00.000 | critical |          Always | TT_FATAL: {} (assert.hpp:104)\n"
CALL = 'Traceback (most recent call last):\n  File "/home/me/model.py", line 12, in f\n    y = ttnn.matmul(a, b)\n'
STATUS = "Bad StatusOr access: INTERNAL: Error code: 13"


def failures(text: str) -> tuple[Failure, ...]:
    return read_log(io.BytesIO(text.encode()), "log").failures


def only(text: str) -> Failure:
    (failure,) = failures(text)
    return failure


# ---- echoes ----

ECHOES = [
    f"RuntimeError: {STATUS}\n",
    f"E       RuntimeError: {STATUS}\n",
    "jaxlib.xla_extension.XlaRuntimeError: INTERNAL: Error code: 13\n",
    "jax.errors.JaxRuntimeError: INTERNAL: Error code: 13\n",
    "(APIServer pid=11) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n",
    "(EngineCore_DP0 pid=340) ERROR 04-20 18:51:38 [core.py:700] RuntimeError: EngineCore failed to start.\n",
    "Traceback (most recent call last):\nvllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack"
    " trace (above) for the root cause.\n",
    "Traceback (most recent call last):\nsubprocess.CalledProcessError: Command '['python', 'x.py']' returned non-zero exit"
    " status 1.\n",
    "Traceback (most recent call last):\nWorkerException: WorkerProc initialization failed due to an exception in a background"
    " process. See stack trace for root cause.\n",
]


@pytest.mark.parametrize("echo", ECHOES)
@pytest.mark.parametrize("before", [False, True])
def test_an_echo_is_no_failure_beside_its_cause(echo: str, before: bool) -> None:
    failure = only(echo + LOGGED.format(OOM) if before else LOGGED.format(OOM) + echo)
    assert (failure.kind, failure.verdict.bytes_per_bank, failure.times) == (FailureKind.MEMORY, 655360, 1)


def test_the_texts_of_a_failure_are_counted_without_its_echoes() -> None:
    once = f"{CALL}RuntimeError: {HEADER}\ninfo:\n{OOM}\nbacktrace:\n --- f()\n\n"
    raised = "The above exception was the direct cause of the following exception:\n\n"
    end = 'Traceback (most recent call last):\n  File "/home/me/run.py", line 3, in g\n    run()\n'
    assert only(once).times == 1
    assert only(f"{once}{raised}{end}RuntimeError: cannot run layer 3\n").times == 1
    assert only(once + "".join(ECHOES)).times == 1
    assert only(once + once + "".join(ECHOES)).times == 2
    of_test = (
        f"E   RuntimeError: {HEADER}\nE   info:\nE   {OOM}\nE   backtrace:\n\na.py:9: RuntimeError\n"
        f"FAILED tests/test_a.py::test_b - RuntimeError: {HEADER}\n"
    )
    assert only(f"____ test_b ____\n{of_test}").times == 1


@pytest.mark.parametrize("echo", ECHOES)
def test_an_echo_alone_leaves_the_cause_open(echo: str) -> None:
    failure = only(echo)
    assert failure.kind is FailureKind.ECHO
    assert only(echo * 3).times == 3
    assert only("".join(ECHOES)).kind is FailureKind.ECHO


def test_a_build_that_failed_is_no_failure_beside_the_linkers() -> None:
    ld = "/opt/riscv-tt-elf/bin/ld: region `TRISC1_CODE' overflowed by 1284 bytes\ncollect2: error: ld returned 1 exit status\n"
    build = "TT_THROW @ /src/tt_metal/jit_build/build.cpp:71: tt::exception\ninfo:\ntrisc1 build failed. Log: /home/u/x.log\n"
    log = LOGGED.format("trisc1 build failed")
    assert only(f"{ld}{log}RuntimeError: {build}").verdict.resource is Resource.KERNEL_CONFIG
    assert only(f"{log}RuntimeError: {build}").kind is FailureKind.ECHO


def test_a_refusal_and_its_condition_are_one_failure() -> None:
    header = "TT_FATAL @ /src/ttnn/cpp/ttnn/tensor/tensor_spec.cpp:54: num_shards <= num_cores"
    message = "Number of shards along width 8 must not exceed number of cores 7"
    summary = f"FAILED t.py::test_x - RuntimeError: {header}\n"
    for text in (f"RuntimeError: {header}\n{message}\n", f"{summary}E   RuntimeError: {header}\nE   info:\nE   {message}\n"):
        assert only(text).verdict.message == message


def test_the_traceback_of_an_echo_is_that_of_the_failure() -> None:
    failure = only(LOGGED.format(OOM) + CALL + f"RuntimeError: {STATUS}\n")
    assert failure.call is not None
    assert (failure.call.where, failure.functions) == ("/home/me/model.py:12", ("matmul",))


def test_an_echo_of_another_test_stays() -> None:
    parts = [
        f"_____ test_a _____\n{CALL}RuntimeError: {STATUS}\n",
        f"_____ test_b _____\n{CALL}RuntimeError: {HEADER}\ninfo:\n{OOM}\n",
    ]
    for order in (parts, parts[::-1]):
        kinds = {failure.test: failure.kind for failure in failures("".join(order))}
        assert kinds == {"test_a": FailureKind.ECHO, "test_b": FailureKind.MEMORY}


@pytest.mark.parametrize(
    "message",
    [
        "Task was killed due to the node running low on memory.",
        "INTERNAL: conv2d has no program for this grid",
        "Failed to execute: shape mismatch",
        "Engine V1 does not support this model",
        "Process group is not initialized",
        "bad input",
    ],
)
def test_a_message_with_a_cause_is_no_echo(message: str) -> None:
    failure = only(f"RuntimeError: {message}\n")
    assert not is_echo(failure.verdict)
    assert len(failures(f"{LOGGED.format(OOM)}RuntimeError: {message}\n")) == 2


def test_an_error_raised_from_the_failure_is_a_consequence() -> None:
    raised = f"{CALL}RuntimeError: {HEADER}\ninfo:\n{OOM}\nbacktrace:\n --- f()\n\n"
    direct = "The above exception was the direct cause of the following exception:\n\n"
    during = "During handling of the above exception, another exception occurred:\n\n"
    end = 'Traceback (most recent call last):\n  File "/home/me/run.py", line 3, in g\n    run()\n'
    assert only(f"{raised}{direct}{end}RuntimeError: cannot run layer 3\n").kind is FailureKind.MEMORY
    assert only(f"{raised}{during}{end}ModelError: cannot run layer 3\n").kind is FailureKind.MEMORY
    handler = failures(f"{raised}{during}{end}TypeError: report() missing 1 required positional argument: 'out'\n")
    assert [failure.kind for failure in handler] == [FailureKind.MEMORY, FailureKind.OTHER]
    unrelated = failures(f"{raised}{end}RuntimeError: cannot run layer 3\n")
    assert [failure.kind for failure in unrelated] == [FailureKind.MEMORY, FailureKind.OTHER]


def test_an_abort_after_the_failure_is_its_end() -> None:
    abort = "Fatal Python error: Aborted\n"
    assert only(LOGGED.format(OOM) + abort).kind is FailureKind.MEMORY
    apart = LOGGED.format(OOM) + "step done\n" * 100 + abort
    assert [failure.kind for failure in failures(apart)] == [FailureKind.MEMORY, FailureKind.CRASH]
    fault = LOGGED.format(OOM) + "Segmentation fault (core dumped)\n"
    assert [failure.kind for failure in failures(fault)] == [FailureKind.MEMORY, FailureKind.CRASH]


# ---- a message in parts ----


@pytest.mark.parametrize(
    "text",
    [
        f"FAILED tests/test_a.py::test_b[1] - RuntimeError: {HEADER}\ninfo:\n{OOM}\nbacktrace:\n --- f()\n1 failed in 3.21s\n",
        f"FAILED tests/test_a.py::test_b[1] - RuntimeError: {HEADER}\ninfo:\n{OOM[:87]}\n{OOM[88:]}\n",
        f"FAILED tests/test_a.py::test_b[1]\n    - RuntimeError: {HEADER}\n\n{LOGGED.format(OOM)}",
        f"FAILED tests/test_a.py::test_b[1] - RuntimeError: {HEADER[:40]}...\n\n{LOGGED.format(OOM)}",
        f"{LOGGED.format(OOM)}FAILED tests/test_a.py::test_b[1] - RuntimeError: {HEADER}\n",
        f"E   RuntimeError: {HEADER}\nE   info:\nE   {OOM}\nE   backtrace:\n\na.py:9: RuntimeError\n"
        f"FAILED tests/test_a.py::test_b[1] - RuntimeError: {HEADER}\n",
        f"FAILED tests/test_a.py::test_b[1] - RuntimeError: {OOM}\n{LOGGED.format(OOM)}",
        f"FAILED tests/test_a.py::test_b[1] - RuntimeError: {HEADER}\nE   RuntimeError: {HEADER}\nE   info:\nE   {OOM}\n",
    ],
)
def test_summary_and_message_are_one_failure(text: str) -> None:
    failure = only(text)
    assert failure.test == "tests/test_a.py::test_b[1]"
    assert (failure.verdict.resource, failure.verdict.total_bytes) == (Resource.L1_BUFFER, 41943040)
    assert not failure.is_cut


def test_summary_of_another_place_is_another_failure() -> None:
    other = HEADER.replace("bank_manager.cpp:462", "program.cpp:917")
    text = f"RuntimeError: {HEADER}\ninfo:\n{OOM}\nFAILED a.py::b - RuntimeError: {other}\n"
    assert [failure.is_cut for failure in failures(text)] == [False, True]


def test_summary_lines_of_two_tests_are_not_joined() -> None:
    text = f"FAILED a.py::b - RuntimeError: {HEADER}\nFAILED a.py::c - RuntimeError: {HEADER}\ninfo:\n{OOM}\n"
    assert [(failure.test, failure.is_cut) for failure in failures(text)] == [("a.py::b", True), ("a.py::c", False)]


def test_a_message_that_reads_like_a_condition_is_a_message() -> None:
    header = "TT_FATAL @ /project/ttnn/cpp/ttnn/operations/pad.cpp:30: sizes.contains(input.dtype())"
    message = "Unsupported datatype DataType::UINT8"
    assert only(f"{LOGGED.format(message)}{CALL}RuntimeError: {header}\ninfo:\n{message}\n").times == 2


@pytest.mark.parametrize("reason", ["Failed: Timeout >300.0s", "assert 0.91 > 0.99", "Runt..."])
def test_a_test_that_failed_for_any_reason_is_a_failure(reason: str) -> None:
    failure = only(f"FAILED a.py::b - {reason}\n1 failed in 3.2s\n")
    assert failure.kind is (FailureKind.CUT if reason.endswith("...") else FailureKind.OTHER)
    assert only(f"____ b ____\nE   RuntimeError: {OOM}\nFAILED a.py::b - {reason}\n").test == "a.py::b"
    if reason.endswith("..."):
        assert only(f"FAILED a.py::b - {reason}\n{LOGGED.format(OOM)}").verdict.bytes_per_bank == 655360


def test_headers_of_two_places_are_two_failures() -> None:
    text = "".join(f"RuntimeError: {HEADER.replace('462', str(line))}\nstep\n" for line in (462, 462, 514))
    assert [(f.times, f.verdict.thrown_at[-3:]) for f in failures(text)] == [(2, "462"), (1, "514")]


def test_a_summary_line_is_of_the_failure_whose_words_it_begins() -> None:
    raised = f"{CALL}TypeError: f() takes no argument x\n{CALL}TypeError: g() takes no argument y\n"
    named = failures(f"{raised}FAILED a.py::b - TypeError: g() takes no...\nFAILED a.py::c - TypeError: h() is missing\n")
    assert [failure.test for failure in named] == ["", "a.py::b", "a.py::c"]


def test_a_header_far_from_a_message_is_not_its_header() -> None:
    text = f"RuntimeError: {HEADER}\n" + "step\n" * 200 + LOGGED.format(OOM)
    assert len(failures(text)) == 2
    near = f"RuntimeError: {HEADER}\n| pod-7 |\n{LOGGED.format(OOM)}"
    assert only(near).verdict.thrown_at == "tt_metal/impl/allocator/bank_manager.cpp:462"


# ---- equal figures ----


@pytest.mark.parametrize("first", [0, 1])
def test_a_text_with_fewer_figures_is_the_same_failure(first: int) -> None:
    texts = [f"RuntimeError: {SHORT.format(41943040, 655360)}\n", LOGGED.format(OOM + STATS)]
    failure = only(texts[first] + "step\n" + texts[1 - first])
    assert (failure.verdict.free_bytes, failure.verdict.largest_free_bytes, failure.times) == (475808, 475808, 2)


@pytest.mark.parametrize("first", [0, 1])
def test_a_text_cut_at_its_end_is_the_same_failure(first: int) -> None:
    texts = [f"RuntimeError: {HEADER}\ninfo:\n{text}\n" for text in (OOM[:-30], OOM)]
    failure = only(texts[first] + "\n\n" + texts[1 - first])
    assert (failure.verdict.bank_bytes, failure.is_cut, failure.times) == (1393312, False, 2)
    other = texts[0].replace("41943040", "20971520").replace("655360", "327680")
    assert [f.verdict.total_bytes for f in failures(texts[1] + "\n\n" + other)] == [41943040, 20971520]


def test_texts_about_the_host_that_stand_together_are_one_failure() -> None:
    torch = (
        "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to"
    )
    text = f"{torch} allocate 4000000000000000 bytes.\nError code 12 (Cannot allocate memory)\n"
    assert only(text).verdict.total_bytes == 4000000000000000
    bad_alloc = "RuntimeError: std::bad_alloc\n"
    assert len(failures(text + "step\n" * 100 + bad_alloc)) == 2


def test_failures_of_other_figures_stay_apart() -> None:
    texts = [
        OOM + STATS,
        (OOM + STATS).replace("475808", "475776"),
        OOM.replace("64 banks", "56 banks"),
        OOM.replace("L1", "DRAM"),
    ]
    assert len(failures("".join(map(LOGGED.format, texts)))) == len(texts)
    clashes = [CLASH.format(program=7, end=end) for end in (1364672, 1364704)]
    assert len(failures("".join(map(LOGGED.format, clashes)))) == 2


def test_two_calls_that_fail_alike_are_two_failures() -> None:
    raised = [f"{CALL.replace('matmul', name)}RuntimeError: {HEADER}\ninfo:\n{OOM}\n" for name in ("add", "multiply")]
    texts = [LOGGED.format(OOM) + text for text in raised]
    assert [(f.functions, f.times) for f in failures("".join(texts))] == [(("add",), 3), (("multiply",), 1)]
    assert only("".join(texts[:1] * 2)).times == 4


def test_a_retry_in_another_program_is_counted() -> None:
    text = "".join(LOGGED.format(CLASH.format(program=program, end=1364672)) for program in (10594, 10652, 10710))
    assert only(text).times == 3


def test_ranks_that_fail_alike_are_one_failure() -> None:
    lines = [
        f"[1,{rank}]<stderr>: RuntimeError: {HEADER}\n[1,{rank}]<stderr>: info:\n[1,{rank}]<stderr>: {OOM}\n"
        for rank in range(4)
    ]
    failure = only("".join(lines))
    assert (failure.times, failure.process, failure.processes) == (4, "1,0", ("1,0", "1,1", "1,2", "1,3"))
    other = lines[3].replace("41943040", "20971520").replace("655360", "327680")
    assert [f.processes for f in failures("".join(lines[:3]) + other)] == [("1,0", "1,1", "1,2"), ("1,3",)]


def test_lines_with_levels_of_an_engine_keep_the_message() -> None:
    """The header alone is read of such lines, and the log's own line had the message."""
    pid = "(EngineCore_0 pid=412) "
    level = f"{pid}ERROR 11-02 08:14:51 [core.py:700] "
    lines = f"{CALL}RuntimeError: {HEADER}\ninfo:\n{OOM}\nbacktrace:\n --- f()".split("\n")
    text = pid + LOGGED.format(OOM) + "".join(f"{level}{line}\n" for line in lines)
    text += "".join(f"{pid}{line}\n" for line in lines) + f"(APIServer pid=1) {ECHOES[4]}"
    failure = only(text)
    assert (failure.verdict.bytes_per_bank, failure.functions, failure.line) == (655360, ("matmul",), 1)
    assert failure.verdict.thrown_at == "tt_metal/impl/allocator/bank_manager.cpp:462"


def test_the_first_line_dates_a_failure_of_several_processes() -> None:
    """A process whose lines end first is not the first that failed."""
    ranks = [f"({name} pid=8) RuntimeError: {HEADER}\n({name} pid=8) info:\n({name} pid=8) {OOM}\n" for name in ("A", "B")]
    failure = only(f"{''.join(ranks)}RuntimeError: {HEADER}\ninfo:\n{OOM}\ndone\n")
    assert (failure.line, failure.times) == (1, 3)


def test_a_log_without_prefixes_and_the_engines_traceback_are_one_failure() -> None:
    engine = "".join(
        f"(EngineCore_DP0 pid=340) ERROR 04-20 18:51:38 [core.py:940] {line}\n"
        for line in f"{CALL}RuntimeError: {OOM}".split("\n")
    )
    failure = only(LOGGED.format(OOM) + engine)
    assert failure.call is not None
    assert (failure.times, failure.functions, failure.processes) == (2, ("matmul",), ("EngineCore_DP0 pid=340",))
