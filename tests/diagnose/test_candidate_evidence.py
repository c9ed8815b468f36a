"""Calls of the catalogs are named where the text supports them by more than the bytes of the message."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest

from ssinghal.core.tensors import DType, TensorSpec
from ssinghal.device.error_patterns import translate_error
from ssinghal.diagnose.log_reader import read_log
from ssinghal.diagnose.model import Failure, LogReading, PrintedShape, PythonCall
from ssinghal.diagnose.pipeline import Diagnosis, diagnose_failures
from ssinghal.diagnose.text import explanation_lines
from ssinghal.diagnose.unknown_call import ways_to_know
from ssinghal.operators.binding import specs_of

# 16,640 tiles of 2,048 B, which 38 calls of several models request.
BYTES = (
    "Out of Memory: Not enough space to allocate 34078720 B L1 buffer across 64 banks, where each bank needs to store 532480 B"
)
# Two tensors of it take 1,064,960 B of each bank; any other number is of other tensors.
TWO_TAKEN = ", but bank size is 1393312 B (allocated: 1064960 B, free: 328352 B, largest free block: 328352 B)"
OTHERS_TAKEN = ", but bank size is 1393312 B (allocated: 1064928 B, free: 328384 B, largest free block: 328384 B)"


def diagnosed(text: str, **known: Any) -> Diagnosis:
    (one,) = diagnose_failures(LogReading("log", 9, (Failure(translate_error("RuntimeError", text), line=7, **known),)))
    return one


def names(diagnosis: Diagnosis) -> set[str]:
    return {one.case.name for one in diagnosis.candidates if one.case}


@pytest.mark.parametrize("taken", ["", OTHERS_TAKEN])
def test_bytes_alone_support_no_call(taken: str) -> None:
    one = diagnosed(BYTES + taken)
    assert (names(one), one.candidate_count) == (set(), 0)
    (line,) = [line for line in explanation_lines(one) if line.startswith("by arithmetic alone")]
    assert "a tensor of 16,640 tiles of 2,048 B (bfloat16)" in line
    assert not any("unet" in line or "[1," in line for line in explanation_lines(one))


def test_operands_that_are_what_is_allocated_support_a_call() -> None:
    one = diagnosed(BYTES + TWO_TAKEN)
    assert "add" in names(one)
    assert all(candidate.as_allocated for candidate in one.candidates if candidate.case)


def test_a_function_supports_its_calls_alone() -> None:
    assert names(diagnosed(BYTES, functions=("silu",))) == {"silu"}


@pytest.mark.parametrize(
    ("test", "named"), [("tests/test_hrnet.py::test_block[0]", True), ("tests/test_llama.py::test", False)]
)
def test_the_model_in_the_name_of_a_test_supports_its_calls(test: str, *, named: bool) -> None:
    one = diagnosed(BYTES, test=test)
    assert bool(names(one)) is named
    assert all(any("hrnet" in source.model for source in c.sources) for c in one.candidates if c.case)


def test_a_shape_in_the_text_supports_the_calls_that_have_it_and_no_others() -> None:
    """Leading dims of 1 do not count: [64, 640, 400] is [1, 64, 640, 400]."""
    known = TensorSpec((64, 640, 400), DType.BFLOAT16)
    supported = [c.case for c in diagnosed(BYTES, tensors=(known,)).candidates if c.case and not c.sizes_from]
    assert supported
    assert all(any(spec.shape == (1, 64, 640, 400) for specs in specs_of(case) for spec in specs) for case in supported)
    other = replace(known, shape=(1, 1, 32_000, 2_048))
    assert not [c for c in diagnosed(BYTES, tensors=(other,), functions=("add",)).candidates if c.case and not c.sizes_from]


def test_a_buffer_in_shards_is_no_tensor_of_a_catalog() -> None:
    """No known chip has 48 banks of L1: shards are on 48 of its cores."""
    text = BYTES.replace("34078720 B L1 buffer across 64", "25559040 B L1 buffer across 48")
    assert names(diagnosed(text, functions=("add", "relu", "silu"))) == set()


def test_what_shows_the_calls_next_time_is_stated_once() -> None:
    unknown, named = diagnosed(BYTES), diagnosed(BYTES, functions=("add",))
    assert [line.partition(":")[0] for line in ways_to_know([unknown, named], names_compiler=True)] == [
        "to know the call next time",
        "  or log each function of TTNN before it runs",
        "  or, of tt-xla and tt-forge, each operation with its tensors",
    ]
    assert not any("before it runs" in line for line in ways_to_know([named]))
    assert not any("tt-xla" in line for line in ways_to_know([unknown]))
    assert not any("to know" in line for line in explanation_lines(unknown))


@pytest.mark.parametrize(
    ("before", "names"),
    [
        ('File "/src/tt-xla/tests/runner.py", line 3', True),
        ("2026-01-05 | PJRT_Client_Compile failed", True),
        ("INFO tt_forge_models: loading", True),
        ("Always | DEBUG | Executing operation: %1 = stablehlo.add", True),
        ('File "/home/me/tt-metal/model.py", line 3', False),
        ("import forgery, xlarge", False),
    ],
)
def test_a_reading_shows_whether_its_text_names_the_compiler(before: str, names: bool) -> None:
    text = f"{before}\nRuntimeError: {BYTES}\n"
    assert read_log(io.BytesIO(text.encode()), "log").names_compiler is names


ON_ETHERNET = "Program size (25680) too large for kernel config buffer (25600) on ACTIVE_ETH"


@pytest.mark.parametrize("text", ["std::bad_alloc", "TT_FATAL @ a.cpp:1: false", ON_ETHERNET])
def test_what_no_call_makes_different_needs_none(text: str) -> None:
    assert ways_to_know([diagnosed(text)]) == []


def test_cores_that_the_source_states_may_be_left_out() -> None:
    """core_grid is a name that the text has no value of; transpose_a is no choice of TTNN's."""
    grown = "grow to 1721472 B which is beyond max L1 size of 1499136 B"
    text = f"Statically allocated circular buffers on core range [0-0 - 7-7] {grown}"
    source = "c = ttnn.matmul(a, b, transpose_a=True, core_grid=grid)"
    lines = explanation_lines(diagnosed(text, functions=("matmul",), call=PythonCall("mm.py:12", source)))
    assert "not tested, as the call is unknown: without core_grid TTNN chooses cores and program itself" in lines
    free = source.replace(", core_grid=grid", "")
    lines = explanation_lines(diagnosed(text, functions=("matmul",), call=PythonCall("mm.py:12", free)))
    assert not any("not tested" in line for line in lines)


def test_a_program_on_the_first_core_alone_is_no_change_of_layout() -> None:
    """2,463,520 - 104,224 B are 576 pairs of tiles of 2,048 B: as any program's bytes may be by chance."""
    text = "Statically allocated circular buffers on core [0-0] grow to 2463520 B which is beyond max L1 size of 1499136 B"
    assert not any("by arithmetic" in line for line in explanation_lines(diagnosed(text)))
    assert any("by arithmetic" in line for line in explanation_lines(diagnosed(text, functions=("untilize",))))
    assert not any("by arithmetic" in line for line in explanation_lines(diagnosed(text, functions=("matmul",))))


# Shapes that the text prints near the message --------------------------------------------------------------------------------

REDUCED = (
    "Out of Memory: Not enough space to allocate 131072000 B DRAM buffer across 12 banks, where each bank needs to store"
    " 10924032 B, but bank size is only 1073741792 B"
)


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        (
            PrintedShape((1, 1, 32_000, 2_048), line=4),
            "line 4 prints [1,1,32000,2048], which has exactly these bytes as bfloat16 tile",
        ),
        (
            PrintedShape((1, 1, 32_000, 2_048), DType.BFLOAT16),
            "the text prints [1,1,32000,2048] bfloat16, which has exactly these bytes as tile",
        ),
        (PrintedShape((1, 1, 32_000, 2_048), DType.FLOAT32), ""),
        (
            PrintedShape((1, 1, 32_000, 1_024)),
            "the text prints [1,1,32000,1024], which has exactly these bytes as float32 tile",
        ),
        (PrintedShape((1, 1, 32_000, 4_096)), ""),
    ],
)
def test_a_printed_shape_with_the_bytes_of_the_message(printed: PrintedShape, expected: str) -> None:
    """1,000 x 64 tiles of 2,048 B are 131,072,000 B; 5,334 of them in the fullest of 12 banks are 10,924,032 B."""
    lines = explanation_lines(diagnosed(REDUCED, shapes=(printed, printed)))
    assert [line for line in lines if "exactly these bytes" in line] == ([expected] if expected else [])
    assert any(line.startswith("by arithmetic alone") for line in lines) is not bool(expected)
