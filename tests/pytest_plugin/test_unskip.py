"""``--unskip-oom``: which reasons speak of memory, and what becomes of the tests that are skipped for them."""

from __future__ import annotations

import pytest

from ssinghal.pytest_plugin.virtual.skip_reasons import speaks_of_memory
from tests.support.ttnn_suites import run_suite

# As engineers write them; many are of public repositories.
REASONS = """
OOM
OOM on N150
Skipping due to OOM, see #12345
This test OOMs on Blackhole
Out of Memory
Test case runs out of memory on single card
ran out of L1
runs out of L1 memory for batch 20
out of DRAM
out-of-memory
Out of Memory: Not enough space to allocate 34078720 B L1 buffer across 64 banks
Not enough space to allocate the output
Not enough L1 space
not enough memory to run this shape
insufficient L1
Insufficient memory on Wormhole
There isn't enough L1
Tensor does not fit in L1
doesn't fit
Doesn't fit in L1 with bfloat16
Activations don't fit
cannot fit on one chip
can't fit this model on N150
won't fit L1
Batch 20 skipped due to fitting issue
Statically allocated circular buffers in program 12 clash with L1 buffers on core range
Circular buffers clash
CB clash with L1 tensors
clashes with L1
circular buffer too large
L1 too small
Too large for L1 on BH
exceeds L1
Tensor size exceeds available L1 memory
L1 memory overflow
memory constraints on N150
L1 limitation
DRAM fragmentation
Statically allocated dataflow buffers grow to 4299968 B which is beyond max L1 size
Allocation failure in L1
cannot allocate 2 GB
CBs exceed L1 size
Needs more than L1
width sharded input doesn't fit on 8x8 grid
does not fit in L1 for this op
L1_SMALL too small
std::bad_alloc
""".strip().splitlines()
OTHERS = """
no room for a second device
room
zoom level unsupported
bloom filter not implemented
memory_config unsupported
sharded memory config not supported
not supported with this memory layout
no memory_config given
memory leak, see #99
L1 loss not implemented
L1 sharding is not supported for this op
Does not work with L1 input
DRAM sharded matmul not supported on Blackhole
no DRAM prefetcher
Interleaved L1 only
benefit unclear
does not benefit
Not a good fit for unit tests
shape doesn't fit the kernel's constraint
the dtype does not fit this op
fitness function missing
outfit
out of range
out of date
Unsupported dtype
circular import
circular padding mode not supported
needs 8 devices
Requested more devices than available. Test not applicable for machine
not enough devices
not enough cores
hangs on N300
PCC below 0.99
low PCC in L1
watcher doesn't work with this
host runs out of memory
CI runner out of memory
not enough disk space
large memory footprint test, nightly only
clash of names
requires fast runtime mode off
""".strip().splitlines()


def test_reasons_that_speak_of_memory():
    assert [reason for reason in REASONS if not speaks_of_memory(reason)] == []
    assert [reason for reason in OTHERS if speaks_of_memory(reason)] == []


# A tensor of n x n elements in L1: 8,192 x 8,192 need 2,097,152 B of each bank of 1,393,312 B, 32 x 32 fit.
MARKED = """
import pytest
import ttnn

pytestmark = pytest.mark.skip(reason="OOM on N150")


def placed(device, n):
    return ttnn.empty((1, 1, n, n), ttnn.bfloat16, ttnn.TILE_LAYOUT, device, ttnn.L1_MEMORY_CONFIG)


@pytest.mark.parametrize("n", [32, 8192])
def test_module(device, n):
    placed(device, n)


class TestOfClass:
    pytestmark = pytest.mark.skipif("1 == 1", reason="out of L1")

    def test_method(self, device):
        placed(device, 32)


@pytest.mark.skip("not implemented")
def test_two_reasons(device):
    raise AssertionError("it is to be skipped")


def test_that_fails(device):
    raise ValueError("a fault")
"""
CALLED = """
import pytest
import ttnn
from pytest import skip


def placed(device, n):
    return ttnn.empty((1, 1, n, n), ttnn.bfloat16, ttnn.TILE_LAYOUT, device, ttnn.L1_MEMORY_CONFIG)


@pytest.mark.parametrize("n", [pytest.param(32, marks=pytest.mark.skip(reason="doesn't fit")), 64])
def test_parameter(device, n):
    placed(device, n)


@pytest.mark.skipif(False, reason="OOM")
def test_condition_that_is_false(device):
    placed(device, 32)


def test_call(device):
    pytest.skip("out of memory")
    assert ttnn.to_torch(placed(device, 32)).shape == (1, 1, 32, 32)


def test_that_ends_at_a_value(device):
    pytest.skip("out of memory")
    assert ttnn.to_torch(placed(device, 32)).sum() == 1
    placed(device, 8192)


def test_call_by_its_own_name(device):
    skip(reason="L1 too small")
    placed(device, 8192)


def test_caught(device):
    try:
        placed(device, 8192)
    except RuntimeError:
        pytest.skip("OOM")


@pytest.fixture
def of_fixture(device):
    pytest.skip("circular buffers clash with L1")


def test_fixture(of_fixture):
    pass


def test_other_reason(device):
    pytest.skip("zoom")
"""
FITS = {
    "test_marked::test_module[32]": "OOM on N150",
    "test_marked.TestOfClass::test_method": "out of L1",
    "test_called::test_parameter[32]": "doesn't fit",
    "test_called::test_call": "out of memory",
    "test_called::test_fixture": "circular buffers clash with L1",
}
STILL = {"test_marked::test_module[8192]", "test_called::test_call_by_its_own_name", "test_called::test_caught"}


@pytest.mark.virtual_device
@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["one process", "xdist"])
def test_tests_skipped_for_memory_are_run(tmp_path, workers):
    (tmp_path / "test_marked.py").write_text(MARKED)
    (tmp_path / "test_called.py").write_text(CALLED)
    for name, reason in (("large", "OOM on N150"), ("other", "zoom")):
        skip = f"pytest.skip({reason!r}, allow_module_level=True)"
        (tmp_path / f"test_{name}.py").write_text(f"import pytest\n\n{skip}\n\n\ndef test_it():\n    pass\n")

    run = run_suite(tmp_path, "--tt-virtual", "--unskip-oom", "--tb=no", *workers)

    unskipped = {name: test for name, test in run.tests.items() if "tt_unskipped" in test.properties}
    assert unskipped.keys() == {*FITS, *STILL, "test_marked::test_that_fails", "test_called::test_that_ends_at_a_value"}, (
        run.output
    )
    assert {name: unskipped[name].properties["tt_unskipped"] for name in FITS} == FITS
    assert {unskipped[name].outcome for name in FITS} == {"passed", "values not checked"}
    assert {unskipped[name].outcome for name in STILL} == {"memory"}
    assert "a module stays skipped for lack of memory: OOM on N150  test_large.py" in run.output
    assert "1 module skipped by pytest.skip" in run.output
    assert "test_other.py" not in run.output
    others = {name: test.outcome for name, test in run.tests.items() if name not in unskipped and test.outcome}
    assert others == {
        "test_marked::test_two_reasons": "skipped",
        "test_called::test_parameter[64]": "passed",
        "test_called::test_condition_that_is_false": "passed",
        "test_called::test_other_reason": "skipped",
    }
    lines = run.output.splitlines()
    assert "fits now  test_marked.py::test_module[32] (skipped: OOM on N150)" in lines
    still = "still out of memory: L1 bank needs 2,097,152 B, 1,393,312 B free"
    assert f"{still}  test_called.py::test_caught (skipped: OOM)" in lines
    line = CALLED.splitlines().index("    assert ttnn.to_torch(placed(device, 32)).sum() == 1") + 1
    ended = f"unknown, ended at a value: ended at test_called.py:{line}, what follows was not run"
    assert f"{ended}  test_called.py::test_that_ends_at_a_value (skipped: out of memory)" in lines
    assert "unknown, failed: a fault  test_marked.py::test_that_fails (skipped: OOM on N150)" in lines


@pytest.mark.virtual_device
def test_without_the_option_they_stay_skipped(tmp_path):
    (tmp_path / "test_marked.py").write_text(MARKED)
    run = run_suite(tmp_path, "--tt-virtual")
    assert {test.outcome for test in run.tests.values()} == {"skipped"}
    assert run.code == 0
