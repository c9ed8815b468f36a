"""The function of TTNN that was running, by what the text names: Python, a log, a backtrace, a compiler's runtime."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from ssinghal.core.tensors import DType, Layout, TensorSpec
from ssinghal.diagnose.log_reader import read_log
from ssinghal.diagnose.model import Failure, PythonCall

LOGS = Path(__file__).parents[1] / "data" / "logs"
OOM = (
    "Out of Memory: Not enough space to allocate 25165824 B L1 buffer across 64 banks, where each bank needs to store 393216 B,"
    " but bank size is 1393312 B (allocated: 1048576 B, free: 344736 B, largest free block: 344736 B)"
)
RAISED = f"RuntimeError: TT_FATAL @ /project/tt_metal/impl/allocator/bank_manager.cpp:514: false\ninfo:\n{OOM}\n"
OWN = '  File "/venv/site-packages/ttnn/decorators.py", line 1245, in __call__\n    result = self.function(*args)\n'


def only(text: str) -> Failure:
    (failure,) = read_log(io.BytesIO(text.encode()), "log").failures
    return failure


def raised_from(source: str, pointed: str = "") -> str:
    """Returns a traceback through ``source``, of which Python marks the part ``pointed`` as running."""
    marks = f"    {' ' * source.index(pointed)}{'^' * len(pointed)}\n" if pointed else ""
    return f'Traceback (most recent call last):\n  File "/home/me/model.py", line 12, in f\n    {source}\n{marks}{OWN}{RAISED}'


NESTED = "x = ttnn.to_memory_config(ttnn.softmax(x), ttnn.create_sharded_memory_config(s))"


@pytest.mark.parametrize(
    ("source", "pointed", "expected"),
    [
        ("s = [ttnn.clone(y) for _ in range(20)]", "", ("clone",)),
        ("s = [ttnn.clone(y) for _ in range(20)]", "ttnn.clone(y)", ("clone",)),
        (NESTED, "", ("to_memory_config", "softmax")),
        (NESTED, "ttnn.softmax(x)", ("softmax",)),
        (NESTED, NESTED[4:], ("to_memory_config",)),
        ("return self.act(ttnn.linear(x, w))", "self.act(ttnn.linear(x, w))", ("linear",)),
        ("a = ttnn.transformer.attention_softmax(q, k)", "", ("transformer.attention_softmax",)),
        ("m = ttnn.create_sharded_memory_config(shape)", "", ()),
        ("y = ttnn.add(a, ttnn.add(b, c))", "", ("add",)),
        ("y = model(x)", "", ()),
    ],
)
@pytest.mark.parametrize("before", ["", "[0] ", "rank 3: "])
def test_line_of_python(source: str, pointed: str, expected: tuple[str, ...], before: str) -> None:
    text = "".join(f"{before}{line}\n" for line in raised_from(source, pointed).splitlines())
    assert only(text).functions == expected


@pytest.mark.parametrize("form", ["C++ ttnn operation: ttnn::", "ttnn."])
def test_log_names_what_has_not_finished(form: str) -> None:
    def line(what: str, name: str, level: str = "debug   ") -> str:
        return f"2026-11-20 10:00:00.100 | {level} |              Op | {what} {form}{name} (decorators.hpp:100)\n"

    error = f"2026-11-20 10:00:00.102 | critical |          Always | {OOM} (assert.hpp:104)\n"
    done = line("Started", "add") + line("Finished", "add")
    assert only(done + line("Started", "softmax") + error).functions == ("softmax",)
    assert only(done + error).functions == ()
    assert only(line("Started", "conv2d") + line("Started", "halo") + error).functions == ("halo", "conv2d")
    again = error.replace("25165824", "33554432")
    caught = line("Started", "softmax") + error + done + again
    first, second = read_log(io.BytesIO(caught.encode()), "log").failures
    assert (first.functions, second.functions) == (("softmax",), ())


def test_log_of_another_process_is_not_taken() -> None:
    text = (
        f"[0] Started C++ ttnn operation: ttnn::softmax\n[1] Started C++ ttnn operation: ttnn::add\n[0] RuntimeError: {OOM}\n"
    )
    assert only(text).functions == ("softmax",)


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        (["ttnn::operations::conv::conv2d::Conv2dDeviceOperation::create(...)"], ("conv2d", "conv1d", "conv_transpose2d")),
        (["ttnn::prim::softmax(ttnn::Tensor const&)"], ("softmax",)),
        (["ttnn::operations::pool::Pool2D::create_output_tensors(...)"], ("max_pool2d", "avg_pool2d")),
        (["ttnn::halo(...)", "ttnn::operations::pool::max_pool2d(...)", "ttnn::max_pool2d(ttnn::Tensor)"], ("max_pool2d",)),
        (["tt::tt_metal::Buffer::create(...)", "/venv/ttnn/_ttnncpp.so(+0x123abc) [0x7f1122334455]"], ()),
        (["ttnn::device_operation::detail::launch<ttnn::operations::normalization::SoftmaxDeviceOperation>(x)"], ("softmax",)),
    ],
)
@pytest.mark.parametrize("before", ["", "E       ", "[0] "])
def test_backtrace(frames: list[str], expected: tuple[str, ...], before: str) -> None:
    lines = [*RAISED.splitlines(), "backtrace:", *(f" --- {frame}" for frame in frames)]
    assert only("".join(f"{before}{line}\n" for line in lines)).functions == expected


def test_less_trusted_parts_narrow_and_do_not_replace() -> None:
    frame = "backtrace:\n --- ttnn::operations::normalization::softmax::SoftmaxDeviceOperation::create(...)\n"
    assert only(raised_from(NESTED) + frame).functions == ("softmax",)
    assert only(raised_from("y = ttnn.conv2d(x)") + frame).functions == ("conv2d",)
    executing = 'Executing operation: %1 = "ttnn.relu"(%0) : (tensor<4xbf16>) -> tensor<4xbf16>\n'
    assert only(executing + raised_from("y = ttnn.conv2d(x)") + frame).functions == ("relu",)


def test_pytest_shows_the_users_line_and_not_ttnns_own() -> None:
    with (LOGS / "pytest_default.log").open("rb") as file:
        reshape, concat = read_log(file, "log").failures
    assert reshape.call == PythonCall("test_x.py:18", "b = ttnn.reshape(a, (160,100,512,1,1))")
    assert concat.call is not None
    assert concat.call.where == "test_x.py:28"
    assert (reshape.functions, concat.functions) == (("reshape",), ("concat",))
    assert reshape.tensors == (TensorSpec((160, 100, 512), DType.BFLOAT16, Layout.TILE),)
    assert concat.tensors == ()
    assert (reshape.test, concat.test) == ("test_x.py::test_reshape", "test_x.py::test_plus")


def shown(*shapes: str) -> str:
    values = "ttnn.Tensor([[ 0.0000,  0.0000,  ...,  0.0000],\n              ...,\n       [ 0.0000,  0.0000]]"
    tensors = [f"{values}, shape=Shape([{shape}]), dtype=DataType::FLOAT32, layout=Layout::ROW_MAJOR)" for shape in shapes]
    return ", ".join(tensors)


CUT_TENSOR = "ttnn.Tensor([[ 0.0000, 0.0000,  ...,  0.0000],\n ...000,  0.0000]], shape=Shape([64, 96]),"
CUT_TENSOR += " dtype=DataType::FLOAT32, layout=Layout::ROW_MAJOR)"


@pytest.mark.parametrize(
    ("source", "arguments", "keywords", "expected"),
    [
        ("y = ttnn.relu(x)", f"{shown('64, 96')},", "", [(64, 96)]),
        ("y = f(ttnn.add(x, z))", shown("64, 96", "32, 32"), "", [(64, 96), (32, 32)]),
        ("y = ttnn.concat([x, z], dim=1)", f"[{shown('64, 96', '32, 32')}],", "'dim': 1", [(64, 96), (32, 32)]),
        ("y = ttnn.relu(x)", f"{CUT_TENSOR},", "", [(64, 96)]),
        ("y = ttnn.reshape(x, (96, 64))", f"{CUT_TENSOR}, (96, 64)", "", [(64, 96)]),
        ("y = ttnn.softmax(x, dim=1)", f"{CUT_TENSOR},", "'dim': 1", [(64, 96)]),
        ("y = ttnn.add(x, z)", CUT_TENSOR, "", []),  # which of the two?
        ("y = ttnn.add(*both)", CUT_TENSOR, "", []),
        ("y = ttnn.add(", CUT_TENSOR, "", []),  # on several lines
        ("y = ttnn.concat([x, z])", f"[{CUT_TENSOR}],", "", []),
        ("y = ttnn.linear(x, w)", shown("64, 96", "96, 32"), f"'bias': {shown('1, 32')}", []),
        ("y = ttnn.relu(x)", "x,", "", []),
        ("y = ttnn.relu(x)", f"{shown('0, 96')},", "", []),
        ("y = ttnn.relu(x)", f"{shown('64, 96').replace('FLOAT32', 'INVALID')},", "", []),
    ],
)
@pytest.mark.parametrize("plain", [0, 100_000], ids=["at the start", "after a mebibyte"])
def test_tensors_that_pytest_shows(source: str, arguments: str, keywords: str, expected: list[Any], plain: int) -> None:
    report = (
        f"____ test_a ____\n\n    def test_a():\n>       {source}\n\ntest_a.py:9: \n_ _ _ _\n\nself = FastOperation(x)\n"
        f"function_args = ({arguments})\nfunction_kwargs = {{{keywords}}}\n\n    def __call__(self):\n"
        f">       result = self.function(*args)\n{''.join(f'E       {line}{chr(10)}' for line in RAISED.splitlines())}\n"
    )
    tensors = only("plain text\n" * plain + report).tensors
    assert tensors == tuple(TensorSpec(shape, DType.FLOAT32, Layout.ROW_MAJOR) for shape in expected)


def test_ttnns_own_python_names_the_function_where_the_users_line_does_not() -> None:
    report = (
        "____ test_a ____\n\n    def test_a():\n        y = ttnn.relu(x)\n>       model(x)\n\ntest_a.py:9: \n_ _ _ _\n\n"
        "self = FastOperation(python_fully_qualified_name='ttnn.reshape', function=<x>)\nfunction_args = ()\n\n"
        "    def __call__(self):\n            ttnn.graph.track_function_start(self.name)\n"
        f">       result = self.function(*args)\n{''.join(f'E       {line}{chr(10)}' for line in RAISED.splitlines())}\n"
        "/venv/site-packages/ttnn/decorators.py:1245: RuntimeError\n"
    )
    failure = only(report)
    assert (failure.functions, failure.call) == (("reshape",), None)


def test_a_backtrace_does_not_end_the_report_of_a_test() -> None:
    """pytest shows the place of the line that was running after TTNN's backtrace."""
    trace = "backtrace:\n --- /src/lib/libtt_metal.so(+0x21eaab) [0x7f17e5aecaab]\n --- tt::tt_metal::f(x)\n"
    report = "".join(f"E       {line}\n" for line in (RAISED + trace).splitlines())
    failure = only(
        f"____ test_a ____\n>       y = ttnn.add(a, b)\n{report}\ntests/test_a.py:51: RuntimeError\n--- Captured ---\n"
    )
    assert (failure.call, failure.test) == (PythonCall("tests/test_a.py:51", "y = ttnn.add(a, b)"), "test_a")


@pytest.mark.parametrize(
    ("frames", "where"),
    [
        ("Cell In[5], line 3\n      1 a = x\n      2 b = y\n----> 3 c = ttnn.matmul(a, b)\n", "Cell In[5]:3"),
        ("<ipython-input-5-0f1e2d> in <module>\n      1 a = x\n----> 2 c = ttnn.matmul(a, b)\n", "<ipython-input-5-0f1e2d>:2"),
        ("File ~/model.py:12, in f(x)\n     11 y = x\n---> 12 return ttnn.matmul(x, self.w)\n     13 \n", "~/model.py:12"),
    ],
)
def test_ipython_marks_the_line_that_was_running(frames: str, where: str) -> None:
    own = "File /venv/site-packages/ttnn/decorators.py:1245, in f(*args)\n-> 1245 return ttnn.graph.f(self.function(*args))\n"
    failure = only(f"{'-' * 75}\nRuntimeError      Traceback (most recent call last)\n{frames}\n{own}\n{RAISED}")
    assert failure.call is not None
    assert (failure.call.where, failure.functions) == (where, ("matmul",))


def test_tests_of_other_frameworks() -> None:
    gtest = f'[ RUN      ] MatmulTest.Wide/3\nunknown file: Failure\nC++ exception with description "{RAISED[14:]}" thrown.\n'
    assert only(gtest + "[  FAILED  ] MatmulTest.Wide/3 (12 ms)\n").test == "MatmulTest.Wide/3"
    after = "[       OK ] MatmulTest.Wide/3 (12 ms)\n"
    assert only(gtest.splitlines()[0] + "\n" + after + RAISED).test == ""
    for head in ("ERROR: test_wide (tests.test_a.TestA)", "FAIL: test_wide (tests.test_a.TestA.test_wide)"):
        failure = only(f"{'=' * 70}\n{head}\n{'-' * 70}\n{raised_from('y = ttnn.add(a, b)')}")
        assert (failure.test, failure.functions) == ("tests.test_a.TestA.test_wide", ("add",))


ADD = '%12 = "ttnn.add"(%3, %7) : (tensor<1x640x400x64xbf16>, tensor<1x640x400x64xbf16>) -> tensor<1x640x400x64xbf16>'


@pytest.mark.parametrize("between", ["\n", "\n\n", ' loc("add.3")\n', "\nRuntimeError: "])
def test_an_operation_alone_before_the_message_was_running(between: str) -> None:
    operation = only(f"{ADD}{between}{OOM}\n").operation
    assert operation is not None
    assert (operation.name, [value.spec.shape for value in operation.operands if value.spec]) == (
        "ttnn.add",
        [(1, 640, 400, 64)] * 2,
    )


@pytest.mark.parametrize(
    "before",
    [
        f"{ADD}\n{ADD.replace('%12', '%13').replace('add', 'multiply')}\n",  # a list: any of them may have failed
        f"{ADD}\nreturn %12 : tensor<1x640x400x64xbf16>\n}}\n\n",
        '"ttnn.deallocate"(%3) : (tensor<1x640x400x64xbf16>) -> ()\n',
    ],
)
def test_an_operation_of_a_module_before_the_message_was_not_running(before: str) -> None:
    assert only(f"{before}{OOM}\n").operation is None
