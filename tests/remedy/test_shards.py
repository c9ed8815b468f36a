"""Remedies of calls with shards and with operands of several dtypes: each runs again as a script."""

import subprocess
import sys

import pytest

from ssinghal.device.modes import choose_device
from ssinghal.operators.case_json import case_from_json
from ssinghal.remedy.device_pools import DevicePools
from ssinghal.remedy.search import Budget
from ssinghal.remedy.solver import solve
from ssinghal.remedy.text import RemedyReport, script
from ssinghal.remedy.trial import Impact
from ssinghal.runner.tasks import PoolOptions

pytestmark = pytest.mark.virtual_device


@pytest.fixture(scope="module")
def pools():
    with DevicePools(choose_device("virtual", "n150"), PoolOptions(workers=1)) as opened:
        yield opened


def solved(pools, *, only=tuple(Impact), **fields):
    report = solve(case_from_json(fields), pools, Budget(seconds=60), only=only)
    assert isinstance(report, RemedyReport), report.verdict
    return report


def by_impact(report):
    return {remedy.impact: remedy for remedy in report.remedies.found}


def check_scripts(report, folder):
    """Runs the script of every remedy on the board and release that it names."""
    places = {}
    for number, remedy in enumerate(report.remedies.found):
        file = folder / f"remedy{number}.py"
        file.write_text(script(remedy.result, [remedy.strategy]))
        places.setdefault((remedy.result.board, remedy.result.ttnn), []).append(file.name)
    assert places
    for (board, release), names in places.items():
        program = f"import runpy\nfor name in {names}:\n    runpy.run_path(name)\n"
        command = ["ssinghal", "exec", "--board", board, "--ttnn", release, "python", "-c", program]
        done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, check=False, cwd=folder)
        assert done.returncode == 0, (names, done.stderr)


def test_shards_of_rows_that_exceed_l1(pools, tmp_path):
    """980 tiles of rows over 64 cores, 16 each, of 64 tiles: 2 MiB in bfloat16, and 576 B a tile in bfloat4_b, twice."""
    report = solved(pools, op="relu", inputs=[[1, 1, 31360, 2048]], memory="l1:height")
    by = by_impact(report)
    assert report.remedies.problem.verdict.bytes_per_bank == 16 * 64 * 2048
    assert by[Impact.MEMORY].strategy == "all in DRAM"
    assert [r.memory for r in by[Impact.MEMORY].result.results] == ["dram"]
    narrow = by[Impact.DTYPE].result
    assert [(r.dtype, r.memory.partition("@")[0]) for r in narrow.results] == [("bfloat4_b", "l1:height")]
    assert 2 * 16 * 64 * 576 <= 1_393_312 - 105_824 < 2 * 16 * 64 * 1088
    assert "ttnn.ShardSpec(" in narrow.code[0]
    assert all(check.equal for check in report.values.values())
    check_scripts(report, tmp_path)


def test_operands_keep_their_dtypes_in_every_remedy(pools, tmp_path):
    operands = [{"memory": "l1:block@8x8"}, {"dtype": "bfloat8_b", "memory": "l1"}]
    report = solved(pools, op="mm", inputs=[[8192, 8192], [8192, 8192]], operands=operands, output_memory="l1")
    for remedy in report.remedies.found:
        if remedy.impact is not Impact.DTYPE:
            assert any("ttnn.bfloat8_b" in line for line in remedy.result.code), remedy.strategy
    assert Impact.MEMORY in by_impact(report)
    check_scripts(report, tmp_path)


def test_a_larger_board_has_its_own_shards(pools):
    """What is left open of the shards is chosen for the board: 110 cores of 2 tiles of rows instead of 55 of 4."""
    report = solved(pools, only=[Impact.ELSEWHERE], op="relu", inputs=[[1, 1, 220 * 32, 4096]], memory="l1:height")
    elsewhere = by_impact(report)[Impact.ELSEWHERE]
    assert (elsewhere.result.board, elsewhere.result.results[0].memory) == ("p150", "l1:height@11x10:64x4096")
