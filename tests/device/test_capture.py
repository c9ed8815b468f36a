"""The peaks of a call by TTNN's graph of it: what may be left out of the graph, and why a second run of the call is needed."""

from __future__ import annotations

import pytest

from ssinghal.core.case import Placement
from ssinghal.core.memory_config import BufferType
from ssinghal.device.modes import choose_device
from ssinghal.operators import make_case
from ssinghal.runner.pool import Pool
from tests.support.graphs import GraphsTask

pytestmark = pytest.mark.virtual_device

L1 = Placement(memory=BufferType.L1)
WINDOW = {"kernel_size": [3, 3], "stride": [2, 2], "padding": [1, 1]}
CASES = {
    "fits": make_case("relu", ((1, 1, 320, 320),)),
    "two operands in L1": make_case("add", ((1, 1, 320, 320), (1, 1, 320, 320)), placement=L1),
    "temporaries": make_case("softmax", ((1, 1, 64, 4096),), {"dim": -1}),
    "matmul": make_case("matmul", ((1, 1, 512, 256), (1, 1, 256, 128))),
    "convolution": make_case("convolution", ((1, 32, 28, 28), (32, 32, 3, 3)), {"padding": [1, 1]}),
    "pool": make_case("max_pool2d", ((1, 32, 28, 28),), WINDOW),
    "page map": make_case("view", ((1, 64, 56, 56),), {"size": [64, 3136]}),
    "no program": make_case("view", ((1, 64, 32, 32),), {"size": [64, 32, 32]}),
    "several results": make_case("split", ((1, 1, 128, 128),), {"split_size": 64, "dim": 3}),
    "result does not fit": make_case("add", ((1, 1, 16384, 2048), (1, 1, 1, 1)), placement=L1),
    "program does not fit": make_case("clone", ((1, 1, 1, 2**20),), placement=Placement()),
}


@pytest.fixture(scope="module")
def graphs():
    with Pool(choose_device("virtual", "n150")) as pool:
        running = {name: pool.run(GraphsTask(case)) for name, case in CASES.items()}
        return {name: done.result() for name, done in running.items()}


@pytest.mark.parametrize("name", CASES)
def test_peaks_are_those_of_the_complete_graph(graphs, name):
    assert graphs[name].peaks == graphs[name].of_complete_graph
    assert sum(graphs[name].peaks) > 0 or name == "no program"


def test_only_a_call_that_is_not_dispatched_shows_its_program(graphs):
    """Where this fails, TTNN has learned to: the graph of the first run might then do, without a second one. Circular buffers,
    which other programs still have, are in both graphs."""
    buffers = {"dataflow_buffer_allocate", "scratchpad_allocate"}
    shown = [name for name, graph in graphs.items() if buffers & {*graph.blocked}]
    assert {"fits", "temporaries", "page map"} <= {*shown}
    assert [name for name, graph in graphs.items() if buffers & {*graph.dispatched}] == []
