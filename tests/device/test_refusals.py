"""Which of TTNN's failed checks is a rule of the operator: texts of sharded calls as releases printed them."""

from __future__ import annotations

import pytest

from ssinghal.core.verdict import DecidedBy, Resource, Status
from ssinghal.device.error_patterns import translate_error

LAST_DIM = (
    "Changing the last dimension of a sharded tensor is not supported unless the shard width matches the input last dimension."
)
OPERATIONS = "ttnn/cpp/ttnn/operations"


def fatal(file: str, condition: str, info: str = "", kind: str = "FATAL") -> str:
    text = f"TT_{kind} @ /project/{file}:46: {condition}"
    return (
        f"{text}\ninfo:\n{info}\nbacktrace:\n --- tt::assert::tt_throw_impl(char const*, int)"
        if info
        else f"{text}\nbacktrace:\n x"
    )


def refused(text: str, *, plain: bool = False):
    return translate_error("RuntimeError", text, plain=plain)


RULES = [
    (
        f"{OPERATIONS}/normalization/layernorm/device/layernorm_device_operation.cpp",
        "Height sharded inputs are not supported.\n",
        "Height sharded inputs are not supported.",
    ),
    (
        f"{OPERATIONS}/conv/conv2d/conv2d_utils.cpp",
        "Conv2d supports Height, Block or Width Sharded Layouts but got TensorMemoryLayout::INTERLEAVED",
        "Conv2d supports Height, Block or Width Sharded Layouts but got TensorMemoryLayout::INTERLEAVED",
    ),
    (
        "ttnn/core/tensor/tensor_ops.cpp",
        f"{LAST_DIM} Input shape: Shape([64]), New shape: Shape([1, 1, 1, 62]), Shard width: 8\n",
        LAST_DIM,
    ),
    (
        "tt_metal/impl/tensor/spec/tensor_spec.cpp",
        "Number of shards along height 2240 must not exceed number of cores 1\n",
        "Number of shards along height 2240 must not exceed number of cores 1",
    ),
    (
        "ttnn/core/tensor/tensor_spec.cpp",  # 0.66.0
        "Shard height 1376 must match physical height 1370 for width sharded",
        "Shard height 1376 must match physical height 1370 for width sharded",
    ),
    (
        "tt_metal/impl/buffers/circular_buffer_config.cpp",
        "Only L1 buffers can have an associated circular buffer!",
        "Only L1 buffers can have an associated circular buffer!",
    ),
    (
        f"{OPERATIONS}/data_movement/sharded/sharded_to_interleaved/device/sharded_to_interleaved_device_operation.cpp",
        "Input tensor must be in L1",
        "Input tensor must be in L1",
    ),
    (f"{OPERATIONS}/transformer/split_heads.cpp",
     "Invalid operation: KV tensor should not be provided when the input tensor is sharded. Please ensure that it is not.\n",
     "Invalid operation: KV tensor should not be provided when the input tensor is sharded."),
    (f"{OPERATIONS}/normalization/groupnorm/device/groupnorm_device_operation.cpp",
     "shard_spec.grid size 7x8 does not fit within program_config grid 8x4\n",
     "shard_spec.grid size 7x8 does not fit within program_config grid 8x4"),
    (f"{OPERATIONS}/experimental/padded_slice/padded_slice.cpp", " padded_slice does not support sharded inputs.\n",
     "padded_slice does not support sharded inputs."),
]  # fmt: skip


@pytest.mark.parametrize(("file", "info", "sentence"), RULES)
def test_a_failed_check_of_a_call_that_is_not_plain_is_unsupported(file, info, sentence):
    verdict = refused(fatal(file, "a == b", info))
    assert (verdict.status, verdict.message, verdict.decided_by) == (Status.UNSUPPORTED, sentence, DecidedBy.TTNN)
    assert verdict.thrown_at == f"{file}:46"


@pytest.mark.parametrize(("file", "info", "sentence"), RULES)
def test_in_a_plain_call_it_stays_an_error(file, info, sentence):
    verdict = refused(fatal(file, "a == b", info), plain=True)
    assert verdict.status is Status.ERROR
    assert verdict.message == info.strip()


def test_without_a_sentence_the_condition_stands_for_it():
    verdict = refused(fatal(f"{OPERATIONS}/eltwise/binary/binary.cpp", "a.shard_spec() == b.shard_spec()"))
    assert (verdict.status, verdict.message) == (Status.UNSUPPORTED, "a.shard_spec() == b.shard_spec()")


@pytest.mark.parametrize(
    "text",
    [
        "bad optional access",
        "std::bad_optional_access",
        "unordered_map::at",
        "ttnn.roll(): incompatible function arguments.",
        fatal("tt_metal/impl/allocator/bank_manager.cpp", "address % 32 == 0", "Address 33 is not aligned"),
        fatal("tt_metal/impl/dispatch/kernel_config.cpp", "size > 0", "Input tensor must be interleaved"),
        fatal("tt_metal/jit_build/build.cpp", "tt::exception", "ncrisc build failed", kind="THROW"),
        fatal(f"{OPERATIONS}/matmul/device/matmul.cpp", "false", "Unreachable: no program factory was chosen"),
        fatal(f"{OPERATIONS}/matmul/device/matmul.cpp", "buffer != nullptr", "Unexpected null buffer"),
        # Of memory, in words that no row knows: never a rule, and never out of memory by guess.
        fatal(f"{OPERATIONS}/any/any.cpp", "a <= b", "The program needs 2000000 B, which exceeds the L1 of a core"),
        fatal(f"{OPERATIONS}/any/any.cpp", "a <= b", "The result does not fit in L1"),
        fatal(f"{OPERATIONS}/any/any.cpp", "a <= b", "Not enough space in the ring for the result"),
        fatal(
            "tt_metal/impl/buffers/circular_buffer_config.cpp",
            "total_size <= this->max_size_",
            "Cannot set circular buffer size to 1310720. This is larger than the associated dynamically allocated L1 buffer"
            " bank size of 163840 B",
        ),
    ],
)
def test_failures_of_ttnn_itself_stay_errors(text):
    assert refused(text).status is Status.ERROR


def test_memory_failures_stay_memory_failures():
    info = (
        "Out of Memory: Not enough space to allocate 131072000 B L1 buffer across 8 banks, where each bank needs to store"
        " 16384000 B, but bank size is 1393312 B (allocated: 0 B, free: 1393312 B, largest free block: 1393312 B)."
    )
    verdict = refused(fatal("tt_metal/impl/allocator/bank_manager.cpp", "false", info))
    assert (verdict.status, verdict.resource, verdict.bytes_per_bank) == (Status.OOM, Resource.L1_BUFFER, 16_384_000)
