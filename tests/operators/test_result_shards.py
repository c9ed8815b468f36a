"""Shards of a result for which a case states only their kind: on the cores of the operand that the result follows."""

from __future__ import annotations

from typing import Any

import pytest

from ssinghal.core.boards import load_board
from ssinghal.estimation.estimator import estimate
from ssinghal.operators.binding import bind
from ssinghal.operators.case_json import case_from_json

N150 = load_board("n150")


def result(op: str, inputs: list[list[int]], **fields: Any) -> str:
    return str(bind(case_from_json({"op": op, "inputs": inputs, **fields}), N150).outputs[0].memory)


@pytest.mark.parametrize(
    ("memory", "output_memory", "expected"),
    [
        # 98 tile rows on 7 rows of cores, 8 tile columns on 2 columns
        ("l1:block@2x7", "same", "l1:block@2x7:448x128"),
        ("l1:block@2x7", "l1:block", "l1:block@2x7:448x128"),
        ("l1:block@7x2:col_major", "l1:block", "l1:block@7x2:448x128:col_major"),
        ("l1:block@2x7", "l1:block@4x7", "l1:block@4x7:448x64"),
        ("l1:block@2x7", "l1:block:448x32", "l1:block@8x7:448x32"),
        ("l1:height@0,0-7,3+0,5-7,5", "l1:height", "l1:height@0,0-7,3+0,5-7,5:96x256"),
        ("l1:block@2x7", "l1", "l1"),
        # other kinds have cores of their own: 98 tile rows over 64 cores
        ("l1:block@2x7", "l1:height", "l1:height@0,0-7,5+0,6:64x256"),
        ("l1", "l1:height", "l1:height@0,0-7,5+0,6:64x256"),
    ],
)
def test_a_result_is_on_the_cores_of_its_operand(memory: str, output_memory: str, expected: str) -> None:
    operands = [{"memory": memory}, {"memory": "dram"}]
    assert result("matmul", [[1, 1, 3136, 64], [64, 256]], operands=operands, output_memory=output_memory) == expected


def test_equal_operand_and_result_are_in_the_same_shards() -> None:
    assert result("relu", [[1, 1, 3136, 64]], memory="l1:height@4x4:224x64") == "l1:height@4x4:224x64"


def test_tensors_that_are_only_placed_fit_where_they_fit() -> None:
    """Nothing runs, so that no program buffers are open."""
    case = case_from_json({"op": "place", "inputs": [[1, 1, 3136, 64]], "memory": "l1:height"})
    assert estimate(case, N150).verdict == "fits"
