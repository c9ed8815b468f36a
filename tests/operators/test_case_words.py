"""A case as words of ``probe``: what is printed can be typed, and is the same case."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from ssinghal.cli.diagnose import _case_of
from ssinghal.operators.case_json import case_from_json
from ssinghal.operators.case_words import probe_command, probe_words

CASES: list[dict[str, Any]] = [
    {"op": "softmax", "inputs": [[2, 64]], "attrs": {"dim": -1}},
    {"op": "add", "inputs": [[1, 64, 8, 8]] * 2, "channels_last": True, "memory": "l1", "l1_small_size": 4096},
    {"op": "max_pool2d", "inputs": [[1, 8, 8, 64]], "attrs": {"kernel_size": [2, 2]}, "channels_last": False},
    {"op": "permute", "inputs": [[1, 64, 8, 8]], "attrs": {"dims": [0, 2, 3, 1]}, "layout": "row_major", "dtype": "float32"},
    {"op": "mean", "inputs": [[2, 64]], "attrs": {"dim": [1], "keepdim": True}},
    {"op": "clamp", "inputs": [[2, 64]], "attrs": {"min": None, "max": 6.0}},
    {"op": "ones", "attrs": {"size": [2, 64]}},
    {
        "op": "matmul", "inputs": [[32, 4096], [4096, 14336]], "memory": "l1:width@64:32x64",
        "output_memory": "l1:width@64:32x224", "output_dtype": "bfloat8_b",
        "operands": [None, {"dtype": "bfloat8_b", "memory": "dram"}],
        "attrs": {"core_grid": [8, 8], "compute_kernel_config": {"math_fidelity": "HiFi2", "fp32_dest_acc_en": True}},
    },
    {
        "op": "convolution", "inputs": [[1, 64, 480, 640], [32, 64, 3, 3]], "operands": [None, {"layout": "row_major"}],
        "attrs": {
            "padding": [1, 1],
            "conv_config": {"weights_dtype": "bfloat8_b", "activation": {"type": "UnaryWithParam", "op_type": "RELU"}},
            "slice_config": {"slice_type": "DRAMSliceWidth", "num_slices": 4},
        },
    },
    {"op": "_to_copy", "inputs": [[1, 4, 32, 64]], "attrs": {"dtype": "uint32", "sub_core_grids": "1,0-3,6+5,0-6,6"}},
]  # fmt: skip


@pytest.mark.parametrize("fields", CASES, ids=[str(fields["op"]) for fields in CASES])
def test_the_words_make_the_same_case(fields: dict[str, Any]) -> None:
    case = case_from_json(fields)
    assert _case_of(shlex.join(probe_words(case))).identity() == case.identity()


def test_words_that_are_as_usual_are_left_out() -> None:
    assert probe_command(case_from_json(CASES[0])) == "ssinghal probe softmax 2,64 --attr dim=-1"
