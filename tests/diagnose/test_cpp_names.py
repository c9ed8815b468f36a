"""The functions of TTNN that its own names stand for: frames, sentences, kernels, source files, tests, near mentions."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import pytest

from ssinghal.core.tensors import DType
from ssinghal.diagnose.cpp_names import (
    FUNCTIONS_OF_PART,
    functions_in_sentence,
    functions_of_frame,
    functions_of_source,
    functions_of_test,
    is_frame,
)
from ssinghal.diagnose.log_reader import read_log
from ssinghal.diagnose.model import Failure
from ssinghal.diagnose.nearby import mentions_in
from ssinghal.diagnose.ttnn_functions import python_name

CLASH = (
    "Statically allocated circular buffers in program 155 clash with L1 buffers on core range [0-0 - 7-7]."
    " L1 buffer allocated at 1378048 and static circular buffer region ends at 1430656"
)
RAISED = f"RuntimeError: TT_THROW @ /src/tt_metal/impl/program/program.cpp:1913: tt::exception\ninfo:\n{CLASH}\n"
CALL = 'Traceback (most recent call last):\n  File "/home/me/model.py", line 12, in f\n    y = ttnn.matmul(a, b)\n'


def only(text: str) -> Failure:
    (failure,) = read_log(io.BytesIO(text.encode()), "log").failures
    return failure


# ---- frames ----

RESHARD = [
    "ttnn::prim::ReshardDeviceOperation::create_output_tensors(...)",
    "ttnn::reshard(...)",
    "ttnn::to_memory_config(...)",
]


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        ("ttnn::prim::SdpaDecodeDeviceOperation", "transformer.scaled_dot_product_attention_decode"),
        ("ttnn::prim::PagedUpdateCacheDeviceOperation::validate(...)", "experimental.paged_update_cache"),
        ("ttnn::prim::NlpCreateHeadsFalcon7BDeviceOperation", "experimental.nlp_create_qkv_heads_falcon7b"),
        ("ttnn::operations::data_movement::untilize::UntilizeMultiCoreProgramFactory::create(...)", "to_layout"),
        ("ttnn::prim::TopKDeviceOperation", "topk"),
        ("ttnn::operations::normalization::LayerNormMultiCoreProgramFactory::create", "layer_norm"),
        ("tt::runtime::ttnn::operations::layout::run(tt::target::ttnn::ToMemoryConfigOp const*, x)", "to_memory_config"),
        ("tt::runtime::ttnn::operations::pool::run(tt::target::ttnn::Pool2dOp const*, x)", "max_pool2d"),
        ("tt::runtime::ttnn::ProgramExecutor::execute()", ""),
        ("tt::tt_metal::Buffer::create(...)", ""),
        ("ttnn::device_operation::detail::launch<ttnn::prim::ConcatDeviceOperation>(x)", "concat"),
    ],
)
def test_frame(frame: str, expected: str) -> None:
    assert functions_of_frame(frame)[:1] == ((expected,) if expected else ())
    assert is_frame(frame)


@pytest.mark.parametrize(
    "form", [" --- {}", "  {}", "#3 0x00007f17e5aecaab in {}", "#12  {}", "12: {}", "at {}", "--- {} [0x7f17]", "| {}", "{}"]
)
def test_the_outermost_frame_is_the_users_function(form: str) -> None:
    frames = "".join(f"{form.format(frame)}\n" for frame in ["tt::tt_metal::Buffer::allocate_impl()", *RESHARD])
    assert only(f"{RAISED}{frames}").functions == ("to_memory_config",)
    assert only(f"{RAISED}{frames}" * 20).functions == ("to_memory_config",)  # however often, whole or cut
    assert only(f"{frames}{RAISED}").functions == ("to_memory_config",)  # before the message


def test_a_backtrace_inside_one_line() -> None:
    trace = "\\n --- ".join(["backtrace:", *RESHARD])
    text = json.dumps({"error": f"TT_THROW @ /w/program.cpp:897: tt::exception\ninfo:\n{CLASH}\n"})[:-2]
    assert only(f'{text}{trace}"}}\n').functions == ("to_memory_config",)


def test_frames_belong_to_the_error_before_them() -> None:
    first, second = RAISED.replace("1378048", "1378304"), RAISED
    text = f"{first} --- ttnn::softmax(...)\n{second} --- ttnn::concat(...)\n"
    assert [f.functions for f in read_log(io.BytesIO(text.encode()), "log").failures] == [("softmax",), ("concat",)]


@pytest.mark.parametrize(
    "text", ["ttnn::concat fails with this", "see ttnn::concat: it is slow", "tt-metal is here", "use tt::tt_metal or ttnn"]
)
def test_prose_is_no_frame(text: str) -> None:
    assert not is_frame(text)


# ---- sentences, kernels, sources ----


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("ttnn.concat: required DFB entry size (4000000 B) exceeds per-core L1 capacity (1393312 B)", "concat"),
        ("ttnn::slice: required CB size 99 B exceeds per-core L1 budget 9 B", "slice"),
        ("conv3d: 99 B of L1 above the allocator base cannot hold the 999 B headroom", "experimental.conv3d"),
        ("LayerNorm streaming circular buffers require 9 bytes, but only 8 bytes", "layer_norm"),
        ("Cannot fit Pool2D operation in L1 memory with DRAM slicing.", "max_pool2d"),
        ("Exp ring joint SDPA CBs need 9 B", "transformer.exp_ring_joint_scaled_dot_product_attention"),
        ("1760 unique+common runtime args targeting kernel reshard_reader on (x=0,y=0) are too large", "reshard"),
        ("400 runtime args targeting kernel reader_bmm_tile_layout_in0_sender on 0-0 are too large", "matmul"),
        ("400 args of kernel ttnn/cpp/ttnn/operations/data_movement/fold/device/kernels/dataflow/reader.cpp", "fold"),
        ("400 args targeting kernel writer_unary_interleaved_start_id on 0-0 are too large", ""),
        ("Out of Memory: Not enough space to allocate 64 B L1_SMALL buffer across 64 banks", ""),
        (CLASH, ""),
    ],
)
def test_sentence(message: str, expected: str) -> None:
    assert functions_in_sentence(message)[:1] == ((expected,) if expected else ())


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("ttnn/cpp/ttnn/operations/conv/conv2d/conv2d_utils.cpp:312", "conv2d"),
        ("ttnn/cpp/ttnn/operations/data_movement/reshape_view/reshape.cpp:1", "reshape"),
        ("ttnn/cpp/ttnn/operations/transformer/sdpa_decode/device/x.cpp:1", "transformer.scaled_dot_product_attention_decode"),
        ("ttnn/cpp/ttnn/operations/core/core.cpp:9", ""),
        ("tt_metal/impl/allocator/bank_manager.cpp:462", ""),
        ("", ""),
    ],
)
def test_source(place: str, expected: str) -> None:
    assert functions_of_source(place)[:1] == ((expected,) if expected else ())


def test_the_message_and_its_place_name_the_function_of_a_failure() -> None:
    message = "ttnn.concat: required CB page size (4000000 B) exceeds per-core L1 capacity (1393312 B)"
    assert only(f"RuntimeError: {message}\n").functions == ("concat",)
    placed = RAISED.replace("tt_metal/impl/program/program.cpp", "ttnn/cpp/ttnn/operations/pool/upsample/device/x.cpp")
    assert only(placed).functions == ("upsample",)
    assert only(CALL + placed).functions == ("matmul",)  # the user's line


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ('loc("matmul.44"): error: OpModel constraint: ttnn.matmul: ', ("matmul",)),
        ("error: 'ttnn.conv2d' op failed: ", ("conv2d",)),
        ("ttnn.concat of two inputs -> TT_FATAL: ", ("concat",)),
        ("2026-01-01 10:00:00.000 | ERROR | ttnn.decorators:call:12 - RuntimeError: ", ()),
        ("Unet Failure: ", ()),
    ],
)
def test_words_before_the_message_name_the_function(before: str, expected: tuple[str, ...]) -> None:
    assert only(f"{before}{CLASH}\n").functions == expected


# ---- weak evidence ----


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ("tests/test_my_conv.py::test_conv[input0]", "conv2d"),
        ("tests/a.py::test_max_pool2d_wide", "max_pool2d"),
        ("tests/a.py::TestX::test_llama_paged_update_cache[8]", "experimental.paged_update_cache"),
        ("tests/a.py::test_add[l1-2080]", "add"),
        ("a.py::test_full_model", ""),
        ("a.py::test_where_it_fails", ""),
        ("a.py::test_transformer", ""),
        ("", ""),
    ],
)
def test_name_of_a_test(node: str, expected: str) -> None:
    assert functions_of_test(node)[:1] == ((expected,) if expected else ())


def test_a_test_and_a_line_nearby_are_weak_evidence() -> None:
    failure = only(f"____ test_conv[1] ____\n{RAISED}")
    assert (failure.functions, failure.mentioned) == ((), ("conv2d", "conv1d", "conv_transpose2d"))
    near = f"My ttnn.concat of two tensors fails:\n{RAISED}"
    assert (only(near).functions, only(near).mentioned) == ((), ("concat",))
    assert only(f"{RAISED}\nThis is in ttnn.concat.\n").mentioned == ("concat",)
    assert only(f"ttnn.concat is fine\n{'step' + chr(10)!s}" + "step\n" * 30 + RAISED).mentioned == ()
    many = "".join(f"ttnn.{name} is slow\n" for name in ("relu", "gelu", "silu", "tanh"))
    assert only(many + RAISED).mentioned == ()
    assert only(CALL + RAISED + "not ttnn.concat\n").mentioned == ()  # the text shows the function


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("tensor_shape Shape([1, 1, 32000, 2048]),", [((1, 1, 32000, 2048), None)]),
        ("input shape=Shape([64, 96]), dtype=DataType::BFLOAT8_B", [((64, 96), DType.BFLOAT8_B)]),
        ("x.shape: (1, 64, 80, 80) float32", [((1, 64, 80, 80), DType.FLOAT32)]),
        ("torch.Size([8, 128])", [((8, 128), None)]),
        ("tensor<1x32x4096xbf16> to tensor<4096x128xf32>", [((1, 32, 4096), DType.BFLOAT16), ((4096, 128), DType.FLOAT32)]),
        ("ttnn.add of [1, 64, 8, 8] and [64,64] in bf16", [((1, 64, 8, 8), DType.BFLOAT16), ((64, 64), DType.BFLOAT16)]),
        ("ttnn.add of 1x64x80x80", [((1, 64, 80, 80), None)]),
        ("shard_shape=(64, 96) on mesh shape MeshShape([2, 4])", []),
        ("cores [0-0 - 7-7], kernel_size=(3, 3)", []),
        ("shape (0, 4)", []),
        ("ttnn.max_pool2d(x, 1, 64, 64, 32, [3, 3], [2, 2]) of 3x3x3", []),
        ("3 of [1, 2, 3]", []),
    ],
)  # fmt: skip
def test_shapes(line: str, expected: list[tuple[tuple[int, ...], DType | None]]) -> None:
    assert [(one.shape, one.dtype) for one in mentions_in(line).shapes] == expected


def test_shapes_near_the_message_are_of_the_failure() -> None:
    text = f"all_reduce_async called on:\ntensor_shape Shape([1, 1, 32000, 2048]),\n{RAISED}"
    failure = only(text)
    assert [(one.shape, one.line) for one in failure.shapes] == [((1, 1, 32000, 2048), 2)]
    assert failure.mentioned == ("experimental.all_reduce_async",)
    assert only(f"{RAISED}\nx has shape [64, 96]\n").shapes[0].shape == (64, 96)


# ---- against the installed wheel ----


def test_names_are_ttnns() -> None:
    """What a part of TTNN works for is callable, and a function that the wheel registers is known."""
    pytest.importorskip("ttnn")
    code = (
        "import json, ttnn, operator, sys\n"
        "def callable_at(name):\n"
        "    try:\n        return callable(operator.attrgetter(name)(ttnn))\n    except AttributeError:\n        return False\n"
        "wrong = [name for name in json.loads(sys.argv[1]) if not callable_at(name)]\n"
        "registered = [getattr(o, 'python_fully_qualified_name', str(o)) for o in ttnn.query_registered_operations()]\n"
        "print(json.dumps([wrong, registered]))"
    )
    names = sorted({name for functions in FUNCTIONS_OF_PART.values() for name in functions})
    done = subprocess.run([sys.executable, "-c", code, json.dumps(names)], capture_output=True, text=True, timeout=120)
    wrong, registered = json.loads(done.stdout.splitlines()[-1])
    assert wrong == []
    unknown = [name for name in registered if python_name(name.rpartition(".")[2]) is None]
    runs_nothing = ("composite_", "load_", "dump_", "is_", "set_", "hang_", "test_")
    assert [name for name in unknown if not name.removeprefix("ttnn.").startswith(runs_nothing)] == []
