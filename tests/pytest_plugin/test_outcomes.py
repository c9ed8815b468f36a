"""The class of every outcome: what counts as checked, what as a failure, and that none is lost when a process dies."""

from __future__ import annotations

import pytest

from tests.support.ttnn_suites import run_suite

pytestmark = pytest.mark.virtual_device

# What a suite has beside its tests. On a virtual device all values are zeros, so that each comparison with one would fail.
HELPERS = """
import numpy as np
import torch


def comp_pcc(golden, calculated, pcc=0.99):
    a, b = (t.to(torch.float32).flatten().numpy() for t in (golden, calculated))
    found = float(np.corrcoef(a, b)[0, 1])
    return found >= pcc, found


def assert_with_pcc(golden, calculated, pcc=0.99):
    assert list(golden.shape) == list(calculated.shape), "shapes differ"
    passed, found = comp_pcc(golden, calculated, pcc)
    assert passed, found
    return passed, found


def judge_by_hand(golden, calculated):
    return float((golden - calculated).abs().max())


def must_be_near(golden, calculated):
    assert (golden - calculated).abs().max() < 0.5
"""
VALUES = """
import math
from threading import Thread

import numpy as np
import pytest
import torch
import ttnn

import helpers
from helpers import assert_with_pcc, comp_pcc, judge_by_hand
from torch.testing import assert_close

GOLDEN = torch.arange(1, 1025, dtype=torch.float32).reshape(32, 32)


def placed(device, values=GOLDEN):
    return ttnn.from_torch(values, layout=ttnn.TILE_LAYOUT, device=device)


def too_large(device):
    return ttnn.empty((1, 1, 8192, 8192), ttnn.bfloat16, ttnn.TILE_LAYOUT, device, ttnn.L1_MEMORY_CONFIG)


class OfItsOwn(Thread):
    def run(self):
        super().run()


@pytest.fixture(scope="module")
def of_module():
    device = ttnn.open_device(device_id=0)
    values = ttnn.to_torch(placed(device))
    ttnn.close_device(device)
    return values


# passed: nothing was read back ------------------------------------------------------------------------------------------------


def test_passed_memory_alone(device):
    assert ttnn.relu(placed(device)).shape == (32, 32)


def test_passed_on_the_host():
    assert torch.allclose(ttnn.to_torch(ttnn.from_torch(GOLDEN)), GOLDEN)


# values not checked -----------------------------------------------------------------------------------------------------------


def test_values_never_compared(device):
    assert ttnn.to_torch(placed(device)).shape == (32, 32)


def test_values_all_comparisons_in_a_row_go_on_to_the_end(device, record_property):
    result = ttnn.to_torch(ttnn.add(placed(device), 1.0))
    assert_with_pcc(GOLDEN, result)
    assert helpers.assert_with_pcc(golden=GOLDEN, calculated=result.reshape(32, 32)) == (True, pytest.approx(1.0))
    assert comp_pcc(GOLDEN, result)[0]
    assert torch.allclose(result.float(), GOLDEN)
    assert torch.equal(result, GOLDEN) and not torch.equal(result, GOLDEN[:1])
    assert_close(result, GOLDEN)
    torch.testing.assert_close(torch.relu(result) * 2, GOLDEN)
    np.testing.assert_allclose(result.float().numpy(), GOLDEN.numpy())
    np.testing.assert_array_equal(result.float().numpy().reshape(-1), GOLDEN.numpy().reshape(-1))
    other = ttnn.to_torch(placed(device))
    assert_with_pcc(other, result)
    record_property("reached", "the end")


@pytest.mark.parametrize("how", ["bool", "item", "numpy", "list", "by hand", "loop", "to_list", "cpu", "in place", "fail"])
def test_ended_at_a_comparison_of_pythons(device, how):
    tensor = placed(device)
    result = ttnn.to_torch(tensor)
    if how == "bool":
        assert (result == GOLDEN).all()
    elif how == "item":
        assert result.sum().item() > 1
    elif how == "numpy":
        assert (result.numpy() * 2).max() > 1
    elif how == "list":
        assert result.tolist()[0][0] == 1
    elif how == "by hand":
        assert judge_by_hand(GOLDEN, result) < 1
    elif how == "loop":
        assert all(value == 1 for row in result for value in row)
    elif how == "to_list":
        assert tensor.to_list()[0][0] == 1
    elif how == "cpu":
        assert tensor.cpu().to_torch()[0, 0] == 1
    elif how == "in place":
        mine = torch.zeros(32, 32)
        mine[:] = result
        assert mine.max() == 1024
    elif judge_by_hand(GOLDEN, result) > 1:
        pytest.fail("values differ")


def test_ended_at_a_value_of_a_fixture_of_the_module(of_module):
    assert of_module.max() == 1024
    too_large(None)


def test_ended_in_a_helper(device):
    helpers.must_be_near(GOLDEN, ttnn.to_torch(placed(device)))


def test_ended_in_a_library(device):
    result = ttnn.to_torch(placed(device)).tolist()
    with pytest.raises(RuntimeError):
        raise RuntimeError
    pytest.approx(1, abs=0.5) == result[0][0] or pytest.fail("values differ")


def test_values_of_the_same_fixture_again(of_module):
    assert_with_pcc(GOLDEN, of_module)


@pytest.mark.parametrize("how", ["allclose", "equal", "numpy", "comp", "raises", "raises any"])
def test_ended_where_values_are_to_be_other_ones(device, how):
    result = ttnn.to_torch(placed(device))
    if how == "allclose":
        assert not torch.allclose(result, GOLDEN * -1)
    elif how == "equal":
        assert not torch.equal(result, GOLDEN * -1)
    elif how == "numpy":
        assert not np.allclose(result.numpy(), GOLDEN.numpy() * -1)
    elif how == "comp":
        assert not comp_pcc(GOLDEN * -1, result)[0]
    else:
        with pytest.raises(AssertionError if how == "raises" else Exception):
            assert_with_pcc(GOLDEN * -1, result)


@pytest.mark.parametrize("how", ["division", "key", "index", "domain", "repr", "format", "of torch"])
def test_ended_where_python_uses_values(device, how):
    tensor = placed(device)
    result = ttnn.to_torch(ttnn.mul(tensor, 0.0)) * 0
    if how == "division":
        1 / float(result.max())
    elif how == "key":
        {1024: "a"}[int(result.sum())]
    elif how == "index":
        [1, 2][int(result.max()) - 5]
    elif how == "domain":
        math.log(result.max().item())
    elif how == "repr":
        assert "none of its digits" in str(tensor)
    elif how == "format":
        assert "none of its digits" in f"{result.max()}"
    else:
        assert "none of its digits" in str(result)


@pytest.mark.parametrize("kind", [Thread, OfItsOwn])
def test_values_in_a_thread(device, kind):
    result, found = ttnn.to_torch(placed(device)), []
    thread = kind(target=lambda: found.append(torch.allclose(result * 2 + 3, GOLDEN)))
    thread.start()
    thread.join()
    assert found == [True]


@pytest.mark.xfail(reason="values are off", strict=True)
def test_values_expected_to_differ(device):
    assert_with_pcc(GOLDEN * -1, ttnn.to_torch(placed(device)))


# failures that are none of the values' ----------------------------------------------------------------------------------------


def test_failed_without_a_read_back(device):
    assert ttnn.relu(placed(device)).shape == (64, 64)


def test_failed_shape_of_a_read_back(device):
    assert ttnn.to_torch(placed(device)).shape == (64, 64)


def test_failed_shape_in_the_comparison(device):
    assert_with_pcc(GOLDEN.reshape(1, 32, 32), ttnn.to_torch(placed(device)))


def test_failed_values_of_the_host(device):
    ttnn.relu(placed(device))
    assert torch.allclose(GOLDEN, GOLDEN + 1)


def test_failed_after_an_assertion_of_values(device):
    assert_with_pcc(GOLDEN, ttnn.to_torch(placed(device)))
    assert placed(device).shape == (64, 64)


def test_failed_to_raise_after_a_comparison(device):
    assert_with_pcc(GOLDEN, ttnn.to_torch(placed(device)))
    with pytest.raises(RuntimeError):
        ttnn.relu(placed(device))


def test_failed_for_a_key_without_a_value(device):
    ttnn.to_torch(placed(device))
    {}[0]


def test_failed_to_raise(device):
    assert not judge_by_hand(GOLDEN, ttnn.to_torch(placed(device))) < 0
    with pytest.raises(RuntimeError):
        ttnn.relu(placed(device))


def test_failed_another_exception(device):
    if ttnn.to_torch(placed(device)).sum() == 0:
        raise RuntimeError("a fault of the test")


# other classes ----------------------------------------------------------------------------------------------------------------


def test_memory_after_a_comparison(device):
    assert_with_pcc(GOLDEN, ttnn.to_torch(placed(device)))
    too_large(device)


def test_memory_in_other_words(device):
    try:
        too_large(device)
    except RuntimeError as error:
        pytest.fail(f"the layer failed: {type(error).__name__}")


@pytest.mark.xfail(reason="known", strict=True)
def test_memory_expected(device):
    too_large(device)


@pytest.fixture
def large(device):
    return too_large(device)


def test_memory_in_setup(large):
    pass


def test_refused(device):
    ttnn.matmul(placed(device), placed(device, GOLDEN[:, :1].repeat(3, 3)))


def test_xfailed_call(device):
    pytest.xfail("known")


@pytest.mark.xfail(reason="known")
def test_xfailed_mark(device):
    assert ttnn.relu(placed(device)).shape == (64, 64)


@pytest.mark.xfail(reason="known", strict=True)
def test_failed_strict_xfail_that_passes(device):
    ttnn.relu(placed(device))


@pytest.mark.xfail(reason="known", raises=KeyError)
def test_failed_for_another_reason_than_expected(device):
    assert ttnn.relu(placed(device)).shape == (64, 64)


def test_memory_then_xfail(device):
    try:
        too_large(device)
    except RuntimeError:
        pytest.xfail("known")


def test_api_drift_name(device):
    ttnn.no_such_operation(placed(device))


def test_api_drift_keyword(device):
    ttnn.relu(placed(device), no_such_argument=1)


def test_api_drift_keyword_of_a_function(device):
    ttnn.open_mesh_device(no_such_argument=1)


def test_api_drift_import():
    from ttnn.operations import no_such_module


def test_failed_attribute_of_something_else():
    pytest.no_such_name


def test_host_memory():
    raise MemoryError


def test_needs_more_devices(device):
    ttnn.open_mesh_device(ttnn.MeshShape(2, 4))


def test_needs_more_devices_by_its_own_check(device):
    pytest.skip("Requested more devices than available. Test not applicable for machine")


@pytest.mark.skip(reason="zoom is not supported")
def test_skipped():
    pass


def test_timeout():
    while True:
        pass
"""
CLASSES = {
    "passed": "passed",
    "values": "values not checked",
    "ended": "ended at a value",
    "xfailed": "xfailed",
    "failed": "failed",
    "memory": "memory",
    "refused": "refused",
    "api_drift": "API drift",
    "host_memory": "host memory",
    "needs_more_devices": "needs more devices",
    "skipped": "skipped",
    "timeout": "timeout",
}


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("suite")
    (folder / "helpers.py").write_text(HELPERS)
    (folder / "test_it.py").write_text(VALUES)
    return run_suite(folder, "--tt-virtual", "--tt-timeout", "10", "--tb=short", "-rA")


def test_every_test_has_the_class_that_its_name_states(classes):
    named = {
        name: next(kind for word, kind in CLASSES.items() if name.startswith(f"test_it::test_{word}")) for name in classes.tests
    }
    wrong = {name: (test.outcome, test.message) for name, test in classes.tests.items() if test.outcome != named[name]}
    assert wrong == {}, classes.output
    assert set(named.values()) == set(CLASSES.values())


def test_values_not_checked_are_neither_passed_nor_failed(classes):
    statuses = {test.status for test in classes.tests.values() if test.outcome in ("values not checked", "ended at a value")}
    assert statuses == {"skipped"}
    end = classes.tests["test_it::test_values_all_comparisons_in_a_row_go_on_to_the_end"]
    assert end.properties["reached"] == "the end"
    assert classes.code == 1
    failed = sum(test.status in ("failure", "error") for test in classes.tests.values())
    summary = classes.output.strip().splitlines()[-1]
    assert f"{failed - 1} failed, 2 passed, 2 skipped, 4 xfailed" in summary  # one of them is an error of the set-up
    assert "1 error, 6 values not checked, 26 ended at a value" in summary


def test_a_test_that_ended_at_a_value_names_the_line_after_which_nothing_ran(classes):
    for test, file, text in (
        ("test_ended_at_a_comparison_of_pythons[item]", "test_it.py", "    assert result.sum().item() > 1"),
        ("test_ended_at_a_comparison_of_pythons[fail]", "test_it.py", '    pytest.fail("values differ")'),
        ("test_ended_at_a_value_of_a_fixture_of_the_module", "test_it.py", "    assert of_module.max() == 1024"),
        ("test_ended_in_a_helper", "helpers.py", "    assert (golden - calculated).abs().max() < 0.5"),
    ):
        lines = {"test_it.py": VALUES, "helpers.py": HELPERS}[file].splitlines()
        line = next(number for number, line in enumerate(lines, 1) if line.endswith(text))
        reason = f"ended at {file}:{line}, what follows was not run"
        ended = classes.tests[f"test_it::{test}"]
        assert ended.properties["tt_reason"] == reason
        assert reason in ended.message
        assert f"ended at a value  test_it.py::{test}: {reason}" in classes.output
    line = next(number for number, line in enumerate(VALUES.splitlines(), 1) if line == "        1 / float(result.max())")
    divided = classes.tests["test_it::test_ended_where_python_uses_values[division]"]
    assert divided.properties["tt_reason"] == f"ended at test_it.py:{line} by ZeroDivisionError, what follows was not run"


def test_a_memory_failure_has_its_bytes(classes):
    """8,192 x 8,192 elements: 65,536 tiles of 2,048 B, 1,024 of them in each of 64 banks of 1,393,312 B."""
    test = classes.tests["test_it::test_memory_after_a_comparison"]
    assert test.properties["tt_resource"] == "l1_buffer"
    assert test.properties["tt_missing_bytes"] == str(1024 * 2048 - 1_393_312)
    assert test.properties["tt_reason"] == "L1 bank needs 2,097,152 B, 1,393,312 B free"
    assert classes.tests["test_it::test_memory_expected"].status == "skipped"


def test_the_summary_counts_every_test_once(classes):
    (line,) = [line for line in classes.output.splitlines() if line.startswith("2 passed, ")]
    counts = dict(reversed(part.split(" ", 1)) for part in line.split(", "))
    assert sum(map(int, counts.values())) == len(classes.tests)
    assert (counts["memory"], counts["ended at a value"], counts["xfailed"]) == ("5", "26", "2")
    assert "memory  test_it.py::test_memory_in_setup: L1 bank needs 2,097,152 B, 1,393,312 B free" in classes.output
    assert "timeout  test_it.py::test_timeout: it took longer than 10 s" in classes.output


def test_modules_that_cannot_be_imported_have_a_class(tmp_path):
    (tmp_path / "test_drift.py").write_text("import ttnn\nfrom ttnn import no_such_operation\n")
    (tmp_path / "test_name.py").write_text("import ttnn\n\nCONFIG = ttnn.NO_SUCH_CONFIG\n")
    (tmp_path / "test_other.py").write_text("import no_such_package_of_the_suite\n")
    run = run_suite(tmp_path, "--tt-virtual", "--tb=no", "-n", "1")
    lines = run.output.splitlines()
    assert [line for line in lines if line.startswith("not collected")] == [
        "not collected, API drift  test_drift.py",
        "not collected, API drift  test_name.py",
        "not collected, failed  test_other.py",
    ], run.output


# Processes that die -----------------------------------------------------------------------------------------------------------

DYING = """
import os
import signal
import time

import pytest
import ttnn


@pytest.mark.parametrize("number", range(6))
def test_before(device, number):
    ttnn.relu(ttnn.empty((32, 32), ttnn.bfloat16, ttnn.TILE_LAYOUT, device, ttnn.L1_MEMORY_CONFIG))


def test_killed(device):
    os.kill(os.getpid(), signal.SIGKILL)


def test_hangs_in_native_code(device):
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    time.sleep(60)


@pytest.mark.parametrize("number", range(6))
def test_after(device, number):
    ttnn.relu(ttnn.empty((32, 32), ttnn.bfloat16, ttnn.TILE_LAYOUT, device, ttnn.L1_MEMORY_CONFIG))
"""


def test_a_process_of_xdist_that_dies_costs_one_test(tmp_path):
    (tmp_path / "conftest.py").write_text("from ssinghal.pytest_plugin.virtual import time_limit\n\ntime_limit.GRACE_S = 1.0\n")
    (tmp_path / "test_it.py").write_text(DYING)
    run = run_suite(tmp_path, "--tt-virtual", "-n", "2", "--tt-timeout", "5", "--tb=no")
    assert run.code == 1
    assert len(run.tests) == 14, run.output
    assert {name: outcome for name, outcome in run.outcomes.items() if outcome != "passed"} == {
        "test_it::test_killed": "crash",
        "test_it::test_hangs_in_native_code": "timeout",
    }
    assert "12 passed, 1 timeout, 1 crash" in run.output


def test_without_xdist_the_next_run_states_where_it_died(tmp_path):
    (tmp_path / "test_it.py").write_text(DYING.replace("(device)", "()").replace("import ttnn\n", ""))
    killed = run_suite(tmp_path, "--tt-outcomes", "-k", "killed")
    assert (killed.code, "without a report" in killed.output) == (-9, False)
    after = run_suite(tmp_path, "--tt-outcomes", "-k", "nothing")
    assert "the process of the run before ended within test_it.py::test_killed, without a report" in after.output
    assert "without a report" not in run_suite(tmp_path, "--tt-outcomes", "-k", "nothing").output
