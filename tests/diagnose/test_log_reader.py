"""Failures in logs: every wording in every wrapping, the operation and the test they belong to, and text without any."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ssinghal.core.tensors import Layout
from ssinghal.core.verdict import Resource, Status, Verdict
from ssinghal.device.error_patterns import OPENING, translate_error
from ssinghal.diagnose.log_reader import read_log
from ssinghal.diagnose.model import FailureKind, LogReading, PythonCall
from ssinghal.diagnose.parse.mlir import read_module
from tests.support.wrapped_messages import SAMPLES, WRAPPINGS, message, traceback

LOGS = Path(__file__).parents[1] / "data" / "logs"
L1 = next(sample for sample in SAMPLES if sample["id"] == "L1 add" and sample["release"] == "0.81.1")


def read(text: str) -> LogReading:
    return read_log(io.BytesIO(text.encode()), "log")


def read_file(name: str) -> LogReading:
    with (LOGS / name).open("rb") as file:
        return read_log(file, name)


def known(verdict: Verdict) -> Verdict:
    """What every wrapping keeps: not TTNN's file where only the message is logged, nor words that follow a broken line."""
    return replace(verdict, message="", thrown_at="")


# ---- every wording in every wrapping ----


@pytest.mark.parametrize("wrapping", WRAPPINGS)
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: f"{sample['id']}-{sample['release']}".replace(" ", "_"))
def test_sample(sample: dict[str, Any], wrapping: str) -> None:
    """Each is one failure, with the numbers of the text alone."""
    reading = read(WRAPPINGS[wrapping](sample))
    expected = translate_error(sample.get("type", "RuntimeError"), sample["text"])
    assert [known(failure.verdict) for failure in reading.failures] == [known(expected)]
    assert reading.memory_failures == (reading.failures if expected.resource else ())


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: f"{sample['id']}-{sample['release']}".replace(" ", "_"))
def test_message_alone(sample: dict[str, Any]) -> None:
    """People often paste only the message; without numbers and with more words after it, it may be prose."""
    if "type" in sample:
        return
    text = message(sample)
    assert OPENING.match(text)
    verdicts = [known(failure.verdict) for failure in read(f"{text}\n").failures]
    expected = known(translate_error("RuntimeError", text))
    assert verdicts == [expected] or (verdicts == [] and expected.status is Status.UNSUPPORTED)


def test_message_is_complete_where_lines_were_broken() -> None:
    for wrapping in ("80 columns, words", "80 columns, anywhere", "quoted"):
        (failure,) = read(WRAPPINGS[wrapping](L1)).failures
        assert failure.verdict.message.startswith(message(L1).rstrip("."))
        assert failure.verdict.thrown_at == "tt_metal/impl/allocator/bank_manager.cpp:514"


def test_a_number_at_the_edge_of_a_terminal_is_complete() -> None:
    """A break within a number never gives a shorter one."""
    text = "Statically allocated circular buffers in program 3 clash with L1 buffers on core range [0-0 - 7-7]. "
    text += "L1 buffer allocated at 285312 and static circular buffer region ends at 296160"
    for columns in range(80, len(text)):
        broken = f"{text[:columns]}\n{text[columns:]}\n"
        (failure,) = read(broken).failures if columns in (80, 100, 120, 132, 160) else read(f"RuntimeError: {text}\n").failures
        assert (failure.verdict.tensor_address, failure.verdict.program_bytes) == (285312, 296160)


# ---- a compiler's runtime ----


def mochi(separate_file: bool) -> LogReading:
    """The log with its module in a separate file, or before it in the same file."""
    log, module = (LOGS / "mochi_runtime.log").read_bytes(), (LOGS / "mochi_module.mlir").read_bytes()
    if separate_file:
        return read_log(io.BytesIO(log), "log", read_module(io.BytesIO(module), "module"))
    return read_log(io.BytesIO(module + log), "log")


def test_runtime_log_alone() -> None:
    reading = read_file("mochi_runtime.log")
    (failure,) = reading.memory_failures
    assert (failure.verdict.resource, failure.verdict.cores) == (Resource.CIRCULAR_BUFFER, "7-6..7-6")
    assert (failure.verdict.program_bytes, failure.verdict.limit_bytes) == (9990400, 1499136)
    assert (failure.line, failure.started) == (16, 5)
    operation = failure.operation
    assert operation is not None
    assert (operation.name, operation.location, operation.line) == ("ttnn.to_layout", "5|.../aten__index_workaround", 11)
    (operand,), (returned,) = operation.operands, operation.results
    assert (operand.name, returned.name) == ("%8", "%9")
    assert operand.spec is not None
    assert returned.spec is not None
    assert (operand.spec.shape, operand.spec.layout, returned.spec.layout) == ((4, 4884480), Layout.TILE, Layout.ROW_MAJOR)
    assert not operand.known_layout
    assert (reading.module, reading.never_ran) == ((), ())


@pytest.mark.parametrize("separate_file", [True, False], ids=["separate", "in the log"])
def test_what_never_ran_and_what_the_module_adds(separate_file: bool) -> None:
    reading = mochi(separate_file)
    (failure,) = reading.memory_failures
    assert failure.operation is not None
    (operand,) = failure.operation.operands
    assert (operand.known_layout, operand.grid) == (True, (1, 1))
    assert [(op.name, op.results[0].name) for op in reading.never_ran] == [
        ("ttnn.embedding", "%10"),
        ("ttnn.reshape", "%11"),
        ("ttnn.permute", "%12"),
        ("ttnn.permute", "%13"),
        ("ttnn.conv3d", "%24"),
        ("ttnn.to_layout", "%25"),
    ]
    assert len(reading.module) == 14


def test_operations_of_another_process_are_not_taken() -> None:
    """Rank 1 continued while rank 0 printed its error, line by line between those of rank 1."""
    (failure,) = read_file("ranks.log").failures
    assert (failure.process, failure.started, failure.line) == ("1,0", 2, 6)
    assert failure.operation is not None
    assert (failure.operation.name, failure.operation.location) == ("ttnn.relu", "block.0/relu")
    assert failure.verdict.program_bytes == 2518208


STATEMENT = (
    '%9 = "ttnn.to_layout"(%8) <{layout = #ttnn.layout<row_major>}> : (tensor<4x4884480xbf16, #ttnn.ttnn_layout<(d0, d1) -> '
    "(d0, d1), <1x1>, memref<1x152640x!ttcore.tile<32x32, bf16>, #ttnn.buffer_type<dram>>, <interleaved>>>) -> "
    "tensor<4x4884480xbf16, #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<4x4884480xbf16, #ttnn.buffer_type<dram>>, "
    '<interleaved>>> loc("index")'
)


@pytest.mark.parametrize("columns", [10_000, 100, 80])
@pytest.mark.parametrize("tag", ["", "[0] ", "rank 3: ", "(Worker pid=12) ", "[default1]:"])
@pytest.mark.parametrize("before", ["RuntimeTTNN | DEBUG | ", "2026-01-01 10:00:00.000 RuntimeTTNN | DEBUG | ", ""])
def test_operation_in_every_form_of_line(before: str, tag: str, columns: int) -> None:
    lines = [f"{tag}{before}Executing operation: {STATEMENT}", f"{tag}RuntimeError: {message(L1)}"]
    if not tag:  # what a terminal broke has no tag
        lines = [line[i : i + columns] for line in lines for i in range(0, len(line), columns)]
    (failure,) = read("\n".join(lines)).failures
    assert failure.operation is not None
    assert failure.operation.location == "index"
    assert [value.known_layout for value in (*failure.operation.operands, *failure.operation.results)] == [True, True]


def test_a_second_module_replaces_the_first() -> None:
    first = '#a = #ttnn.buffer_type<dram>\n%0 = "ttnn.relu"(%arg0) : (tensor<4xbf16>) -> tensor<4xbf16>\n'
    second = first.replace("relu", "exp").replace("4x", "8x")
    assert [op.name for op in read(first + second).module] == ["ttnn.exp"]


def test_a_failure_before_any_operation_has_none() -> None:
    (failure,) = read(f"{message(L1)}\nExecuting operation: {STATEMENT}\n").failures
    assert (failure.operation, failure.started) == (None, 0)


# ---- Python ----


def test_pytest_log() -> None:
    """The log's critical line is the exception again; the summary has the full name of the test and half the message."""
    reading = read_file("pytest_long.log")
    first, second = reading.failures
    assert (first.verdict.resource, first.verdict.largest_free_bytes, first.times) == (Resource.L1_BUFFER, 328352, 2)
    assert (first.test, second.test) == ("tests/test_add.py::test_add[l1-2080]", "tests/test_add.py::test_matmul")
    assert first.call == PythonCall("models/block.py:57", "return ttnn.add(x, y, memory_config=ttnn.L1_MEMORY_CONFIG)")
    assert second.call == PythonCall("tests/test_add.py:33", "ttnn.matmul(a, a)")
    assert (second.verdict.status, second.verdict.message) == (Status.UNSUPPORTED, "Inputs to matmul must be tilized")
    assert reading.memory_failures == (first,)
    assert reading.remarks == ()


def test_python_log() -> None:
    """TTNN's own frames are skipped; a later error is reported as what it is."""
    first, second = read_file("model.log").failures
    assert first.call == PythonCall("/home/user/model/block.py:41", "h = ttnn.conv2d(")
    assert (first.verdict.tensor_address, first.verdict.program_bytes) == (285312, 296160)
    assert (second.verdict.status, second.verdict.error_type, second.call) == (Status.ERROR, "TypeError", None)


def test_summary_alone_is_reported_as_cut() -> None:
    text = f"FAILED tests/test_a.py::test_b - RuntimeError: {L1['text']}"[:90] + "..."
    reading = read(f"=== short test summary info ===\n{text}\n")
    (failure,) = reading.failures
    assert (failure.verdict.status, failure.test, failure.is_cut) == (Status.ERROR, "tests/test_a.py::test_b", True)
    assert len(reading.remarks) == 1


@pytest.mark.parametrize("columns", range(45, 130))
def test_a_summary_of_any_width_is_reported_as_cut(columns: int) -> None:
    """pytest shows the first line of a message alone, and as much of it as there is room for."""
    first = f"RuntimeError: {L1['text']}".partition("\n")[0]
    line = f"FAILED a.py::b - {first}"
    reading = read(line if len(line) <= columns else f"{line[: columns - 3]}...")
    (failure,) = reading.failures
    assert (failure.verdict.status, failure.is_cut, len(reading.remarks)) == (Status.ERROR, True, 1)


def test_a_summary_in_full_is_not_cut() -> None:
    assert not read("FAILED a.py::b - AttributeError: no such thing\n").failures[0].is_cut
    (failure,) = read(f"FAILED a.py::b - RuntimeError: {message(L1)}\n").failures
    assert (failure.verdict.resource, failure.is_cut) == (Resource.L1_BUFFER, False)


def test_report_of_one_line_for_each_error() -> None:
    """The error in full, then the first line of it after its place, then the summary."""
    reading = read_file("pytest_line.log")
    assert [(f.times, f.test, f.verdict.total_bytes, f.is_cut) for f in reading.failures] == [
        (3, "test_x.py::test_reshape", 16777216000, False),
        (3, "test_x.py::test_plus", 10737418240, False),
    ]
    assert reading.remarks == ()


PLACED = "/venv/ttnn/decorators.py:1245: RuntimeError: TT_FATAL @ /project/tt_metal/impl/allocator/bank_manager.cpp:514: "


@pytest.mark.parametrize("condition", ["false", "tt::exception", "a.shape() == b.shape()"])
def test_a_place_with_a_condition_alone_is_cut(condition: str) -> None:
    reading = read(PLACED + condition)
    (failure,) = reading.failures
    assert (failure.verdict.status, failure.is_cut, len(reading.remarks)) == (Status.ERROR, True, 1)


def test_a_place_alone_is_of_the_failure_thrown_there() -> None:
    text = f"RuntimeError: {L1['text'].replace('/project', '/elsewhere')}"
    thrown_at = read(text).failures[0].verdict.thrown_at
    placed = f"/venv/ttnn/decorators.py:1245: RuntimeError: TT_FATAL @ /project/{thrown_at}: false"
    (failure,) = read(f"{text}\n{placed}\n{placed}\n").failures
    assert (failure.times, failure.is_cut) == (3, False)
    logged = f"2026-01-01 10:00:00.000 | critical | Always | {message(L1)}"  # without a place
    assert [f.times for f in read(f"{logged}\n{placed}\n").failures] == [2]
    assert [f.times for f in read(f"{text}\n{PLACED.replace('514', '1')}false\n").failures] == [1, 1]


def test_a_condition_that_has_no_message_is_not_cut() -> None:
    (failure,) = read(
        "2026-01-01 10:00:00.000 | critical | Always | TT_FATAL: a.shape() == b.shape() (assert.hpp:104)"
    ).failures
    assert not failure.is_cut


def test_empty_input_is_remarked() -> None:
    (remark,) = read("").remarks
    assert "2>&1" in remark
    assert read("\n").remarks == ()


# ---- a module that does not match the log ----

LOGGED = f"Executing operation: {{}}\nRuntimeError: {message(L1)}\n"
PLAIN = '%1 = "ttnn.relu"(%0) : (tensor<{0}>) -> tensor<{0}> loc("x")'
DEFINED = (
    "#a = #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<1x1x!ttcore.tile<32x32, {1}>, #dram>, <interleaved>>\n"
    'module {{\n  func.func @main() {{\n    %1 = "ttnn.relu"({2}) : (tensor<{0}, #a>) -> tensor<{0}, #a> loc("y")\n'
    '    %2 = "ttnn.exp"(%1) : (tensor<{0}, #a>) -> tensor<{0}, #a>\n  }}\n}}\n'
)


def with_module(log: str, module: str) -> LogReading:
    return read_log(io.BytesIO(log.encode()), "log", read_module(io.BytesIO(module.encode()), "m.mlir"))


@pytest.mark.parametrize(
    ("logged", "shape", "dtype", "operand", "agrees"),
    [
        ("32x32xbf16", "32x32xbf16", "bf16", "%0", True),
        ("32x32xbf16", "32x32xbf16", "bfp_bf8", "%0", True),  # in the layout only
        ("32x32xbf16", "32x64xbf16", "bf16", "%0", False),
        ("32x32xf32", "32x32xbf16", "bf16", "%0", False),
        ("32x32xbf16", "32x32xbf16", "bf16", "%arg0", False),
    ],
)
def test_the_log_wins_over_a_module_that_differs(logged: str, shape: str, dtype: str, operand: str, agrees: bool) -> None:
    reading = with_module(LOGGED.format(PLAIN.format(logged)), DEFINED.format(shape, dtype, operand))
    (failure,) = reading.failures
    assert failure.operation is not None
    assert failure.operation.operands[0].known_layout == agrees
    assert failure.operation.operands[0].spec is not None
    assert failure.operation.operands[0].spec.shape == (32, 32)
    assert [op.name for op in reading.never_ran] == (["ttnn.exp"] if agrees else [])
    assert len(reading.remarks) == (0 if agrees else 1)


@pytest.mark.parametrize(
    ("log", "module", "remarked"),
    [
        (LOGGED.format(PLAIN.format("32x32xbf16")), "no module\n", "has no TTNN operation"),
        (LOGGED.format(PLAIN.format("32x32xbf16")), '%0 = "ttir.relu"(%1) : (f) -> f\n', "has no TTNN operation"),
        (message(L1), DEFINED.format("32x32xbf16", "bf16", "%0"), "no line of the log shows"),
        (
            LOGGED.format(PLAIN.replace("%1", "%7").format("32x32xbf16")),
            DEFINED.format("32x32xbf16", "bf16", "%0"),
            "has no %7",
        ),
    ],
)
def test_a_module_that_is_of_no_use_is_remarked(log: str, module: str, remarked: str) -> None:
    (remark,) = with_module(log, module).remarks
    assert remarked in remark


@pytest.mark.parametrize("left", [0.3, 0.6, 0.75, 0.9])
def test_a_module_that_was_cut_off_is_remarked(left: float) -> None:
    module = (LOGS / "mochi_module.mlir").read_text()
    module_text, end = module[: module.rindex("}") + 1], int(module.rindex("}") * left)
    assert read_module(io.BytesIO(module_text.encode()), "m").remarks == ()
    assert any(
        "m ends" in remark or "it ends" in remark for remark in read_module(io.BytesIO(module_text[:end].encode()), "m").remarks
    )


def test_two_tests_with_equal_numbers_are_two_failures() -> None:
    parts = [f"_____ test_{name} _____\n{traceback(L1)}\n" for name in ("a", "b")]
    assert [(f.test, f.times) for f in read("".join(parts * 2)).failures] == [("test_a", 2), ("test_b", 2)]


def test_other_errors_are_named() -> None:
    header = "TT_FATAL @ /project/ttnn/cpp/ttnn/operations/eltwise/a.cpp:7: a == b\ninfo:\n"
    reading = read(f"RuntimeError: {header}shapes differ: 3 and 4\nbacktrace:\n --- f()\n")
    (failure,) = reading.failures
    assert (failure.verdict.status, failure.verdict.message) == (Status.ERROR, "shapes differ: 3 and 4")
    assert failure.verdict.thrown_at == "ttnn/cpp/ttnn/operations/eltwise/a.cpp:7"
    assert reading.memory_failures == ()


def test_a_cpp_program_that_ended() -> None:
    text = f"terminate called after throwing an instance of 'std::runtime_error'\n  what():  {L1['text']}\n"
    (failure,) = read(text).failures
    assert failure.verdict.bank_bytes == 1360544
    (failure,) = read("terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n").failures
    assert failure.verdict.resource is Resource.HOST


def test_repeated_text_is_counted() -> None:
    (failure,) = read(traceback(L1) * 500).failures
    assert (failure.times, failure.line) == (500, 4)


def test_consecutive_messages_are_separate_failures() -> None:
    texts = [message(sample) for sample in SAMPLES if sample["verdict"].get("resource") == "clash"]
    program_bytes = [failure.verdict.program_bytes for failure in read("\n".join(texts)).failures]
    assert program_bytes == list(
        dict.fromkeys(sample["verdict"]["program_bytes"] for sample in SAMPLES if sample["verdict"].get("resource") == "clash")
    )


# ---- no failure ----


def test_prose_about_memory_is_not_a_failure() -> None:
    """Only the sentence "We hit Out of Memory yesterday" reports one, in words that are not understood."""
    assert [(failure.kind, failure.line) for failure in read_file("talk.log").failures] == [(FailureKind.SUSPECT, 2)]


STATED = (
    "Statically allocated circular buffers on core range [0-0 - 7-7] grow to 2520320 B which is beyond max L1 size of 1499136 B"
)


@pytest.mark.parametrize(
    "line",
    [
        f"Unet Failure: {STATED}",
        f"Error: Error: {STATED}",
        f'The message says "{STATED}".',
        f"2026-01-01 10:00:00.000 | info     |            Test | attempt 1: {STATED}, trying DRAM",
        f"| test_a | n150 | {STATED} |",
        f'{{"level": "info", "msg": "worker 3: {STATED}", "ts": 1}}',
        f"I 2026-01-05 10:00:00 pod/vllm-0 app: {STATED}",
        f"assert 'TT_THROW: {STATED}' == ''",
    ],
)
def test_a_complete_message_counts_wherever_it_is(line: str) -> None:
    (failure,) = read(f"a line\n{line}\nanother 5 lines\n").failures
    assert (failure.line, failure.verdict.program_bytes, failure.verdict.limit_bytes) == (2, 2520320, 1499136)


@pytest.mark.parametrize(
    "line",
    [
        f'with pytest.raises(RuntimeError, match="{STATED}"):',
        f'@pytest.mark.xfail(reason="{STATED}")',
        f"grep -n '{STATED}' run.log",
        f"tests/test_a.py::test_a XFAIL ({STATED})",
        f"SKIPPED [1] test_a.py:3: {STATED}",
        f"E   Skipped: {STATED}",
        'TT_FATAL(address.has_value(), "Out of Memory: Not enough space to allocate {} B buffer across {} banks", size, 8);',
    ],
)
def test_a_message_that_a_program_or_a_skipped_test_quotes_is_none(line: str) -> None:
    assert read(f"{line}\n").failures == ()


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"all fine\n", bytes(range(256)) * 50, b"\0" * 9999, b"\x7fELF\x02\x01" + b"\0" * 500]
)
def test_nothing_failed(data: bytes) -> None:
    assert read_log(io.BytesIO(data), "log").failures == ()


def test_operations_that_the_log_shows_later_did_run() -> None:
    """The failure was caught, and the program continued with the next operation."""
    log = (LOGS / "mochi_runtime.log").read_bytes()
    more = b'\nRuntimeTTNN | DEBUG | Executing operation: %10 = "ttnn.embedding"(%arg0, %9)\n'
    module = read_module(io.BytesIO((LOGS / "mochi_module.mlir").read_bytes()), "module")
    names = [op.results[0].name for op in read_log(io.BytesIO(log + more), "log", module).never_ran]
    assert names == ["%11", "%12", "%13", "%24", "%25"]


def test_what_never_ran_ends_with_the_function() -> None:
    """The next function's names start lower than that of the operation that failed."""
    one = '  %{0} = "ttnn.relu"(%{1}) : (tensor<4x4xbf16>) -> tensor<4x4xbf16>\n'
    first = "".join(one.format(n, n - 1) for n in (5, 6, 7))
    second = "".join(one.format(n, n - 1) for n in (1, 2, 3))
    module = read_module(
        io.BytesIO(f"module {{\nfunc.func @a() {{\n{first}}}\nfunc.func @b() {{\n{second}}}\n}}\n".encode()), "m"
    )
    log = (
        'RuntimeTTNN | DEBUG | Executing operation: %6 = "ttnn.relu"(%5)\n'
        "RuntimeError: TT_FATAL @ /project/a.cpp:1: x\ninfo:\nOut of Memory: Not enough space to allocate 64 B DRAM buffer"
        " across 12 banks, where each bank needs to store 64 B, but bank size is 32 B"
        " (allocated: 0 B, free: 32 B, largest free block: 32 B)\n"
    )
    assert [op.results[0].name for op in read_log(io.BytesIO(log.encode()), "log", module).never_ran] == ["%7"]


UNSHOWN_ERROR = (
    r"TT_FATAL @ /project/tt_metal/distributed/mesh_device.cpp:885: id < mesh_command_queues_.size()\ninfo:\ncq_id 0 is out\n"
)


@pytest.mark.parametrize(
    "unshown",
    [
        f"function_args = (<[RuntimeError('{UNSHOWN_ERROR}') raised in repr()] Tensor object at 0x7fbfed4d7a50>, -2, -1)",
        f"x = <[RuntimeError('{UNSHOWN_ERROR}') raised in repr()] Tensor object at 0x7f>, y = <[RuntimeError(\"Out of Memory: "
        "Not enough space to allocate 2048 B L1 buffer across 64 banks, where each bank needs to store 32 B, "
        "but bank size is 16 B "
        '(allocated: 0 B, free: 16 B, largest free block: 16 B)") raised in repr()] Tensor object at 0x7f>',
        f"│ x = <repr-error '{UNSHOWN_ERROR}'> │",
    ],
)
def test_the_error_of_an_object_that_could_not_be_shown_is_none(unshown: str) -> None:
    # Tensors cannot be read any more once the fixture has closed the device: pytest and rich say so in their reports.
    out_of_memory = (
        "Out of Memory: Not enough space to allocate 33554432 B L1 buffer across 64 banks, where each bank needs "
        "to store 524288 B, but bank size is 1393312 B (allocated: 1048576 B, free: 344736 B, largest free block: 344736 B)."
    )
    text = (
        f"____ test_big[8192] ____\n>       y = ttnn.concat([a, b], dim=-1)\n\ntest_x.py:8: \n{unshown}\n"
        f"E               RuntimeError: TT_FATAL @ /project/tt_metal/impl/allocator/bank_manager.cpp:514: false\n"
        f"E               info:\nE               {out_of_memory}\n"
        "FAILED test_x.py::test_big[8192] - RuntimeError: TT_FATAL @ /project/tt_metal...\n"
    )
    (failure,) = read(text).failures
    assert failure.verdict.bytes_per_bank == 524_288
    assert failure.test == "test_x.py::test_big[8192]"
    assert failure.call == PythonCall("test_x.py:8", "y = ttnn.concat([a, b], dim=-1)")


def run_of(version: str, board: str, needed_bytes: int, *, states: str = "before") -> str:
    stated = f"ttnn=={version} on {board}\n"
    message = f"{needed_bytes} B which is beyond max L1 size of 1499136 B"
    failed = f"RuntimeError: Statically allocated circular buffers on core range [0-0 - 7-7] grow to {message}\n"
    return stated + failed if states == "before" else failed + stated


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (run_of("0.66.0", "n150", 2_000_000) + run_of("0.81.1", "p150", 1_800_000), [("0.66.0", "n150"), ("0.81.1", "p150")]),
        (run_of("0.66.0", "n150", 2_000_000) + run_of("0.66.0", "p150", 1_800_000), [("0.66.0", "n150"), ("0.66.0", "p150")]),
        (run_of("0.66.0", "n150", 2_000_000, states="after"), [("0.66.0", "n150")]),
    ],
)
def test_each_of_several_runs_has_what_it_states_itself(text: str, expected: list[tuple[str, str]]) -> None:
    reading = read(text)
    assert [(failure.versions, failure.boards) for failure in reading.failures] == [
        (frozenset({version}), frozenset({board})) for version, board in expected
    ]


def test_what_one_run_states_holds_for_all_of_its_failures() -> None:
    second = run_of("", "", 1_800_000).splitlines()[1]
    reading = read(f"{run_of('0.66.0', 'n150', 2_000_000)}{second}\n{run_of('0.81.1', 'p150', 1_700_000)}")
    assert [sorted(failure.versions) for failure in reading.failures] == [["0.66.0"], ["0.66.0"], ["0.81.1"]]


def test_versions_stated_between_two_failures_are_not_told_apart() -> None:
    reading = read(f"ttnn==0.66.0 works, this does not:\n{run_of('0.81.1', 'n150', 2_000_000)}")
    assert [sorted(failure.versions) for failure in reading.failures] == [["0.66.0", "0.81.1"]]
