"""Losses of a narrower dtype by TTNN's packing on the host, compared with earlier measurements of three kinds of data."""

import pytest

from ssinghal.core.tensors import BufferType, DType
from ssinghal.core.verdict import Status, Verdict
from ssinghal.device.modes import choose_device
from ssinghal.operators import make_case
from ssinghal.remedy.device_pools import DevicePools
from ssinghal.remedy.problem import Problem
from ssinghal.remedy.search import Budget
from ssinghal.remedy.solver import solve
from ssinghal.remedy.text import lines, storage_text, to_json
from ssinghal.runner.tasks import PoolOptions

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.virtual_device


@pytest.fixture(scope="module")
def pools():
    with DevicePools(choose_device("virtual", "n150"), PoolOptions(workers=1)) as opened:
        yield opened


def test_block_floats(pools):
    """bfloat8_b: PCC 0.99997 and 0.9 % flushed for normal values. Of columns of very different scale 50 % are flushed, and
    their PCC is as good: 7 bits of mantissa, and one exponent for 16 values of a row."""
    by = {stored.data: stored for stored in pools.storage(DType.BFLOAT8_B)}
    normal, softmax, columns = by["normal values"], by["softmax rows"], by["columns of other scales"]
    assert normal.pcc == pytest.approx(0.99997, abs=2e-5)
    assert normal.flushed == pytest.approx(0.009, abs=0.003)
    assert softmax.pcc > 0.9999
    assert columns.pcc > 0.999
    assert columns.flushed == pytest.approx(0.5, abs=0.01)
    four = {stored.data: stored for stored in pools.storage(DType.BFLOAT4_B)}["normal values"]
    assert four.pcc == pytest.approx(0.9932, abs=2e-3)
    assert four.flushed == pytest.approx(0.15, abs=0.02)
    assert storage_text(four).startswith("normal values in bfloat4_b: PCC 0.99")
    assert storage_text(four).endswith("% become zero")


def test_bfloat16_keeps_eight_bits(pools):
    normal = pools.storage(DType.BFLOAT16)[0]
    assert normal.flushed == 0
    assert 0 < normal.median_relative < 2**-8


def test_a_narrower_dtype_is_shown_with_its_losses(pools):
    """An attention matrix of 12 x 32,400 x 32,400 values: 25 GB in bfloat16, 7 GB in bfloat4_b, and the board has 12.9 GB."""
    big = make_case("bmm", ((12, 32, 32400), (12, 32400, 32400)))
    report = solve(big, pools, Budget(seconds=60))
    text = "\n".join(lines(report))
    assert "stored, normal values in bfloat4_b: PCC 0.99" in text
    (narrow,) = [r for r in to_json(report)["remedies"] if r["contract"] == "other dtype"]
    assert len(narrow["storage"]) == 3


def test_values_of_a_rewritten_call_are_compared_in_a_separate_worker(pools):
    case = make_case("relu", ((96, 512, 1024),))
    problem = Problem.of(case, Verdict(Status.OOM), pools.board)
    from ssinghal.remedy.strategies.chunking import cuts_of

    cut = cuts_of(problem)[0]
    check = pools.values(cut.trial(problem, 5))
    assert check.equal
    assert not check.rounding
    assert problem.memory is BufferType.DRAM
