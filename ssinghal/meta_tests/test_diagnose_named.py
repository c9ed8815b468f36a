"""Which function of TTNN was running, by what the text names: Python, a log, a backtrace, a compiler's runtime."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from ssinghal.diagnose.logs import read_log
from ssinghal.diagnose.reading import Failure, PythonCall

LOGS = Path(__file__).parent / "data" / "logs"
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
    """A traceback through ``source``, whose part ``pointed`` Python marks as what was running."""
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


def test_what_is_trusted_less_narrows_and_does_not_replace() -> None:
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
    assert (reshape.test, concat.test) == ("test_x.py::test_reshape", "test_x.py::test_plus")


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
