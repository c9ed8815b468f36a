"""``--tt-virtual``: the board that tests open, the fixtures of suites that lack them, and the process around both."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.ttnn_suites import run_suite

pytestmark = pytest.mark.virtual_device

TENSORS = """
import os
import tempfile

import pytest
import torch
import ttnn


def rows(device, count, memory=ttnn.L1_MEMORY_CONFIG):
    return ttnn.empty((1, 1, count, 1024), ttnn.bfloat16, ttnn.TILE_LAYOUT, device, memory)


def allocated(device):
    kinds = (ttnn.BufferType.L1, ttnn.BufferType.DRAM, ttnn.BufferType.L1_SMALL)
    return [ttnn.get_memory_view(device, kind).total_bytes_allocated_per_bank for kind in kinds]
"""

# No fixture of its own. Each test begins with an empty device, whatever the one before has done to it. A tensor of 4,096 rows
# has 4,096 tiles of 2,048 B, 64 of them in each of 64 banks: 131,072 B.
WITHOUT = (
    TENSORS
    + """
KEPT = []


@pytest.mark.parametrize("device_params", [{"l1_small_size": 24576}, {"l1_small_size": 16384}], indirect=True)
def test_parameters(device, device_params):
    assert ttnn.get_memory_view(device, ttnn.BufferType.L1_SMALL).total_bytes_per_bank == device_params["l1_small_size"]


def test_without_parameters(device):
    assert ttnn.get_memory_view(device, ttnn.BufferType.L1_SMALL).total_bytes_per_bank == 0
    assert ttnn.GetDefaultDevice() is not None


def test_that_keeps_a_tensor(device):
    KEPT.append(rows(device, 4096))
    assert allocated(device)[0] == 131072


def test_that_fails_with_a_tensor(device):
    assert allocated(device) == [0, 0, 0]
    tensor = rows(device, 4096)
    raise ValueError(tensor.shape)


def test_that_closes_the_device(device):
    assert allocated(device) == [0, 0, 0]
    ttnn.close_device(device)


def test_that_opens_a_second_one(device):
    second = ttnn.open_device(device_id=0)
    ttnn.close_device(second)


def test_that_leaves_a_second_one_open(device):
    KEPT.append(ttnn.open_device(device_id=0))
    rows(KEPT[-1], 4096)


def test_after_all_of_them(device):
    assert allocated(device) == [0, 0, 0]
    ttnn.relu(rows(device, 4096))


@pytest.mark.parametrize("device_params", [{"trace_region_size": 65536}], indirect=True)
def test_that_captures_a_trace(device):
    tensor = rows(device, 4096)
    trace = ttnn.begin_trace_capture(device, cq_id=0)
    result = ttnn.relu(tensor)
    ttnn.end_trace_capture(device, trace, cq_id=0)
    ttnn.execute_trace(device, trace, cq_id=0, blocking=True)
    ttnn.release_trace(device, trace)
    assert result.is_allocated() and allocated(device)[0] == 2 * 131072


@pytest.mark.parametrize("mesh_device", [1, (1, 1), 2, pytest.param((2, 4), id="2x4")], indirect=True)
def test_mesh(mesh_device):
    assert mesh_device.get_num_devices() == 1


def test_t3k(t3k_mesh_device):
    raise AssertionError("there is one device")


def test_more_fixtures(reset_seeds, function_level_defaults, use_program_cache, silicon_arch_name, silicon_arch_wormhole_b0):
    assert silicon_arch_name == "wormhole_b0"
    seeded = torch.Generator().manual_seed(213919)
    assert torch.equal(torch.rand(9), torch.rand(9, generator=seeded))


def test_on_blackhole(silicon_arch_blackhole):
    raise AssertionError("the board is a Wormhole")


def test_files_of_the_user_stay_where_they_are(tmp_path):
    assert os.environ["TMPDIR"] != tempfile.gettempdir() == os.environ["USERS_TMPDIR"]
    assert "/virtual/" in os.environ["TT_METAL_CACHE"]
"""
)


def test_a_suite_without_fixtures(tmp_path):
    (tmp_path / "test_it.py").write_text(WITHOUT)
    users = tmp_path / "tmp"
    users.mkdir()

    run = run_suite(tmp_path, "--tt-virtual", "test_it.py", TMPDIR=str(users), USERS_TMPDIR=str(users))

    assert run.code == 1, run.output
    assert "ssinghal: virtual n150: values are not checked" in run.output
    unusual = {name.partition("::")[2]: test for name, test in run.tests.items() if test.status != "passed"}
    assert {name: (test.status, test.outcome) for name, test in unusual.items()} == {
        "test_that_fails_with_a_tensor": ("failure", "failed"),
        "test_mesh[2]": ("skipped", "needs more devices"),
        "test_mesh[2x4]": ("skipped", "needs more devices"),
        "test_t3k": ("skipped", "needs more devices"),
        "test_on_blackhole": ("skipped", "skipped"),
    }, run.output
    assert unusual["test_mesh[2x4]"].message == "needs 8 devices, the board has 1"
    assert {path.name for path in users.iterdir()} <= {f"pytest-of-{Path.home().owner()}"}


# A suite with fixtures of its own, which opens the device once, at another size, and has ttnn imported by its conftest.
OWN_CONFTEST = """
import pytest
import ttnn


@pytest.fixture(scope="module")
def device():
    opened = ttnn.open_device(device_id=0, l1_small_size=8192)
    yield opened
    ttnn.close_device(opened)


@pytest.fixture
def silicon_arch_name():
    return "mine"
"""
OWN = (
    TENSORS
    + """
def test_first(device):
    global kept
    kept = rows(device, 4096)


def test_second(device, silicon_arch_name):
    assert ttnn.get_memory_view(device, ttnn.BufferType.L1_SMALL).total_bytes_per_bank == 8192
    assert allocated(device)[0] == 131072
    assert silicon_arch_name == "mine"


@pytest.mark.parametrize("device", ["a lamp"])
def test_parameter(device):
    assert device == "a lamp"
"""
)


@pytest.mark.parametrize("workers", [(), ("-n", "2", "--dist", "loadfile")], ids=["one process", "xdist"])
def test_fixtures_of_a_suite_are_left_alone(tmp_path, workers):
    (tmp_path / "conftest.py").write_text(OWN_CONFTEST)
    (tmp_path / "test_it.py").write_text(OWN)
    run = run_suite(tmp_path, "--tt-virtual=N150", *workers)
    assert run.code == 0, run.output
    assert [test.status for test in run.tests.values()] == ["passed"] * 3


def test_an_operators_case_still_goes_to_the_processes_that_probe(tmp_path):
    """And a test of the same module without a case has TTNN's device."""
    text = "import pytest\n\npytestmark = pytest.mark.operator('roll')\n\n\ndef test_roll(case, compare):\n    compare(case)\n"
    (tmp_path / "test_roll.py").write_text(text)
    (tmp_path / "test_own.py").write_text("def test_own(device):\n    assert device.get_num_devices() == 1\n")
    run = run_suite(tmp_path, "--tt-virtual", "--oom-sample", "1")
    assert run.code == 0, run.output
    assert {name.partition("[")[0]: test.status for name, test in run.tests.items()} == {
        "test_roll::test_roll": "passed",
        "test_own::test_own": "passed",
    }


# The process ------------------------------------------------------------------------------------------------------------------

BOARD = """
import os


def test_board():
    raise ValueError(os.environ["TT_METAL_MOCK_CLUSTER_DESC_PATH"].rpartition("/")[2], os.environ["TT_METAL_LOGS_PATH"])
"""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--tt-virtual", "test_it.py"), "n150"),
        (("--tt-virtual", "P150", "test_it.py"), "p150"),
        (("-c", "own.ini"), "n300"),
    ],
)
def test_the_board_and_what_follows_it(tmp_path, words, expected):
    """A path after the plain option is a path of tests."""
    (tmp_path / "own.ini").write_text("[pytest]\ntt_virtual = n300\n")
    (tmp_path / "test_it.py").write_text(BOARD)
    run = run_suite(tmp_path, *words)
    assert run.tests["test_it::test_board"].message.startswith(f"ValueError: ('{expected}.cluster.yaml'"), run.output
    assert f"ssinghal: virtual {expected}: values are not checked" in run.output


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--tt-virtual=n15",), "ERROR: --tt-virtual: unknown board 'n15'; did you mean n150"),
        (("--tt-virtual", "--tt-timeout", "soon"), "ERROR: --tt-timeout: expected a number of seconds above 0"),
    ],
)
def test_bad_values_are_one_line(tmp_path, words, line):
    (tmp_path / "test_it.py").write_text(BOARD)
    run = run_suite(tmp_path, *words)
    assert run.code == 4
    assert run.output.startswith(line)
    assert len(run.output.strip().splitlines()) == 1


def test_too_late_is_one_line(tmp_path):
    """The plugin is named by a conftest that imports ttnn before."""
    (tmp_path / "conftest.py").write_text('import ttnn\n\npytest_plugins = ["ssinghal.plugin"]\n')
    (tmp_path / "test_it.py").write_text(BOARD)
    run = run_suite(tmp_path, "--tt-virtual", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", LOGURU_LEVEL="WARNING")
    assert run.code == 4
    assert run.output.strip().splitlines()[-1].startswith("ERROR: --tt-virtual: ttnn is already imported; install ssinghal")


def test_within_exec_its_board_stays(tmp_path):
    (tmp_path / "test_it.py").write_text(BOARD)
    within = (sys.executable, "-m", "ssinghal", "exec", "--board", "p150", "--")
    run = run_suite(tmp_path, "--tt-virtual", within=within)
    assert "ValueError: ('p150.cluster.yaml'" in run.tests["test_it::test_board"].message
    contrary = run_suite(tmp_path, "--tt-virtual=n150", within=within)
    assert contrary.code == 4
    assert "ERROR: --tt-virtual: n150 was requested, but pytest runs on p150" in contrary.output


def test_each_process_of_xdist_has_a_folder_of_its_own_which_goes_with_it(tmp_path):
    text = "import pytest\n" + BOARD.replace("def", "@pytest.mark.parametrize('n', [1, 2])\ndef").replace("board()", "board(n)")
    (tmp_path / "test_it.py").write_text(text)
    run = run_suite(tmp_path, "--tt-virtual=p100", "-n", "2", "--dist", "load", "--maxschedchunk", "1")
    folders = {test.message.rpartition(", ")[2].strip("')") for test in run.tests.values()}
    assert len(folders) == 2, run.output
    assert not any(Path(folder).exists() for folder in folders)


def test_without_the_option_nothing_is_prepared(tmp_path):
    (tmp_path / "test_it.py").write_text(
        "import os\n\n\ndef test_it():\n    assert not [n for n in os.environ if 'MOCK' in n]\n"
    )
    assert run_suite(tmp_path, "--tt-outcomes").outcomes == {"test_it::test_it": "passed"}
