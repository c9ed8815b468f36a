"""A profile in TTNN's report database, as ttnn-visualizer shows it."""

from __future__ import annotations

import pytest

from ssinghal.report.visualizer_export import REPORTS
from tests.profile.test_exports import DRAM_PEAK, FIRST, exported, folder, profile  # noqa: F401 (fixtures)
from tests.profile.test_profile_command import TILE_ROW
from tests.support.visualizer import serving

pytestmark = pytest.mark.virtual_device


@pytest.fixture(scope="module")
def served(folder, tmp_path_factory):  # noqa: F811
    target = exported(folder, "visualizer")
    assert [path.name for path in (target / REPORTS).iterdir()] == ["program"]
    assert [path.name for path in target.iterdir()] == ["generated"]
    exported(folder, "visualizer")  # replaces the first
    with serving(target, tmp_path_factory.mktemp("home")) as server:
        server.select("program")
        yield server


def test_it_lists_the_operations_with_their_tensors(served, profile):  # noqa: F811
    operations = served.get("operations")
    assert [operation["name"] for operation in operations] == [call.name for call in profile.calls]
    relu = served.get("operations/2")
    (operand,), (result,) = relu["inputs"], relu["outputs"]
    assert (operand["shape"], result["shape"]) == ("Shape([96, 2048])", "Shape([96, 2048])")
    assert (operand["address"], result["address"]) == tuple(buffer.address for buffer in profile.buffers[:2])
    assert f"line {FIRST + 2}, in block" in relu["stack_trace"]


def test_its_buffers_are_those_of_the_replay_after_each_operation(served, profile):  # noqa: F811
    """3 rows of a; a and b; b and w; b and w; b, w and c."""
    found = {entry["id"]: sorted(buffer["size"] for buffer in entry["buffers"]) for entry in served.get("operation-buffers")}
    a = b = 3 * TILE_ROW
    assert found == {
        1: [a],
        2: [a, b],
        3: sorted([b, DRAM_PEAK]),
        4: sorted([b, DRAM_PEAK]),
        5: sorted([TILE_ROW, b, DRAM_PEAK]),
    }


def test_it_shows_the_failure_and_the_device(served, profile):  # noqa: F811
    (error,) = served.get("errors")
    assert (error["operation_name"], error["error_type"]) == ("ttnn.empty", "RuntimeError")
    assert f"{900 * 64 * 2_048} B L1 buffer" in error["error_message"]
    (device,) = served.get("devices")
    board = profile.devices[0]
    assert (device["l1_num_banks"], device["l1_bank_size"]) == (64, board.memories["l1"].bank_bytes)
    assert (device["worker_l1_size"], device["address_at_first_l1_cb_buffer"]) == (board.l1_top, board.l1_base)


@pytest.mark.parametrize(
    "path",
    ["operations/1", "operations/5", "tensors", "buffers", "config", "report-metadata", "profiler"],
)
def test_it_opens_every_page(served, path):
    served.get(path)
