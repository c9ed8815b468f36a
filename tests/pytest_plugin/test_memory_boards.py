"""The mark ``fits``: each board has a pytest of its own, and what ends one costs one test."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from tests.pytest_plugin.test_memory import Run, run_pytest, suite

pytestmark = pytest.mark.virtual_device


@pytest.fixture(scope="module")
def boards(tmp_path_factory) -> Run:
    """As a user runs it: pytest itself is not on a virtual board, and no option is given."""
    return run_pytest(suite(tmp_path_factory.mktemp("boards"), "several_boards"), "--junitxml", "junit.xml")


def test_a_test_passes_if_it_does_on_each_board(boards):
    assert {test.partition("::")[2]: outcome for test, outcome in boards.outcomes.items()} == {
        "test_tiles[64]": "PASSED",
        "test_tiles[44800]": "FAILED",
        "test_values": "PASSED",
        "test_budget": "FAILED",
        "test_expected": "PASSED",
        "test_known[200000]": "XFAIL",
        "test_known[64]": "FAILED",
        "test_skipped": "SKIPPED",
        "test_crashes": "FAILED",
        "test_after_them": "PASSED",
        "test_without_the_mark": "PASSED",
    }
    assert {path.name for path in boards.folder.iterdir()} - {"__pycache__"} == {
        "conftest.py",
        "junit.xml",
        "test_several_boards.py",
    }


def test_each_board_has_its_verdict(boards):
    assert boards.failure("test_tiles[44800]").splitlines() == [
        "fits: not on each board",
        "n150: failed: L1 bank needs 1,433,600 B, 1,376,928 B free",  # 1,393,312 less the 16,384 of L1_SMALL
        "p150: passed",
    ]
    _, n150, p150 = boards.failure("test_budget").splitlines()
    assert n150.startswith("n150: failed: limit_device_memory(l1_per_core): L1 per core took 4 KiB (4,096 B), 2,048 B over")
    assert p150 == "p150: passed"
    assert [line.partition(" ")[0] for line in boards.failure("test_known[64]").splitlines()[1:]] == ["n150:", "p150:"]
    assert boards.failure("test_crashes").splitlines()[1] == "n150: crash"
    cases = ElementTree.parse(boards.folder / "junit.xml").iter("testcase")
    properties = {case.get("name"): {p.get("name"): p.get("value") for p in case.iter("property")} for case in cases}
    assert properties["test_values"] == {"tt_fits_n150": "values not checked", "tt_fits_p150": "values not checked"}
    assert properties["test_expected"] == {"tt_fits_n150": "xfailed", "tt_fits_p150": "xfailed"}


def test_one_that_takes_too_long_costs_itself(tmp_path):
    """Neither torch nor ttnn is imported, so that twenty seconds are enough to start."""
    (tmp_path / "test_slow.py").write_text(
        "import time\n\nimport pytest\n\npytestmark = pytest.mark.fits(board='n150')\n\n\n"
        "@pytest.mark.parametrize('seconds', [0, 1000, 1])\ndef test_slow(seconds):\n    time.sleep(seconds)\n"
    )
    done = run_pytest(tmp_path, "--tt-memory-timeout", "20", "-n", "2")
    assert {test.partition("::")[2]: outcome for test, outcome in done.outcomes.items()} == {
        "test_slow[0]": "PASSED",
        "test_slow[1000]": "FAILED",
        "test_slow[1]": "PASSED",
    }
    assert "n150: timeout: more than 20 s" in done.output
