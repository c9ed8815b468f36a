"""A suite as users write it, ``examples/suite``: the plugin gives it the verdicts on memory that it has without the plugin."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.support.ttnn_suites import ROOT, Run, run_suite

pytestmark = pytest.mark.virtual_device

SUITE = ROOT / "examples" / "suite"
OUT_OF_MEMORY = re.compile(r"Out of Memory|beyond max L1 size|clash with L1 buffers")  # TTNN's words, in this suite


@pytest.fixture(scope="module")
def suite(tmp_path_factory) -> Path:
    return Path(shutil.copytree(SUITE, tmp_path_factory.mktemp("copy") / "suite", ignore=shutil.ignore_patterns("__pycache__")))


@pytest.fixture(scope="module")
def plain(suite) -> Run:
    """Without the plugin; expected failures count as such, so that their texts are seen."""
    within = (sys.executable, "-m", "ssinghal", "exec", "--board", "n150", "--")
    return run_suite(suite, "-n", "2", "--runxfail", "--tb=line", "-p", "no:ssinghal.plugin", within=within)


@pytest.fixture(scope="module")
def virtual(suite) -> Run:
    return run_suite(suite, "-n", "2", "--runxfail", "--tb=line", "--tt-virtual", "--tt-memory")


def test_it_is_a_suite_of_users():
    text = "".join(path.read_text() for path in SUITE.glob("*.py"))
    assert "ssinghal" not in text
    for what in ("def device(", "pytest.mark.skip(reason", "parametrize", "xfail", "assert_with_pcc", "SHARDED"):
        assert what in text


def test_verdicts_on_memory_are_those_of_the_plain_run(plain, virtual):
    assert len(plain.tests) >= 200, plain.output
    assert virtual.tests.keys() == plain.tests.keys()
    failed = {name: test for name, test in plain.tests.items() if test.status == "failure"}
    expected = {name for name, test in failed.items() if OUT_OF_MEMORY.search(test.message)}
    assert len(expected) == 4, plain.output
    assert {name for name, outcome in virtual.outcomes.items() if outcome == "memory"} == expected
    skipped = {name for name, test in plain.tests.items() if test.status == "skipped"}
    assert {name for name, outcome in virtual.outcomes.items() if outcome == "skipped"} == skipped


def test_what_fails_plainly_for_its_values_is_not_checked(plain, virtual):
    """Nothing else fails: the values of a virtual device are all that is wrong with this suite."""
    outcomes = set(virtual.outcomes.values())
    assert outcomes == {"memory", "skipped", "passed", "values not checked", "ended at a value"}, virtual.output
    failed = {name for name, test in plain.tests.items() if test.status == "failure"}
    passed = {name for name, outcome in virtual.outcomes.items() if outcome == "passed"}
    assert len(failed) > 150
    assert not failed & passed


def test_reasons_of_memory_are_tried(suite):
    """On an N150: [1, 1, 4096, 1024] in bfloat16 are 131,072 B per bank, three of them fit; of [1, 1, 16384, 1024], 524,288 B
    each, two fit in 1,368,736 B and the third does not. Twelve maps of 4,096 x 2,048 take 262,144 B each: five fit. The program
    of the product takes what the resident tensor of 1,228,800 B leaves."""
    run = run_suite(suite, "--tt-virtual", "--unskip-oom", "-k", "large_maps or several_sharded or resident", "--tb=no")
    unskipped = {name.partition("::")[2]: test.outcome for name, test in run.tests.items() if "tt_unskipped" in test.properties}
    assert unskipped == {
        "test_add_of_large_maps_in_l1[4096]": "passed",
        "test_add_of_large_maps_in_l1[16384]": "memory",
        "test_several_sharded_tensors[12]": "memory",
        "test_matmul_beside_a_resident_tensor": "passed",
    }, run.output
