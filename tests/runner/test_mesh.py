"""Calls on meshes: operands cut over the chips, collectives, and what records have of them.

The bytes are worked out here, from the shapes that each chip holds.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from ssinghal.core.case import OperandPlacement, Placement
from ssinghal.core.device_facts import DeviceFacts
from ssinghal.core.mesh import ShardDim, part_of
from ssinghal.core.tensors import BufferType, DType, TensorSpec
from ssinghal.core.verdict import Status, Verdict
from ssinghal.device.modes import choose_device
from ssinghal.device.releases import find_release
from ssinghal.device.session import Session
from ssinghal.errors import HarnessError
from ssinghal.operators import make_case
from ssinghal.runner.pool import Pool
from ssinghal.runner.tasks import PoolOptions, Task

pytestmark = pytest.mark.virtual_device

DRAM_BANKS, L1_BANKS, TILE = 12, 64, 2048


def case_of(
    name: str, *operands: tuple[tuple[int, ...], ShardDim | None], memory=BufferType.DRAM, dtype=DType.BFLOAT16, **attrs
):
    placement = Placement(dtype, memory=memory, operands=tuple(OperandPlacement(shard_dim=dim) for _, dim in operands))
    return make_case(name, tuple(shape for shape, _ in operands), attrs, placement)


@pytest.fixture(scope="module")
def row():
    with Pool(choose_device("virtual", "n300_1x2")) as opened:
        yield opened


@pytest.fixture(scope="module")
def grid():
    with Pool(choose_device("virtual", "t3k_2x4")) as opened:
        yield opened


def booked_per_bank(shape: tuple[int, ...], banks: int, tile_bytes: int = TILE) -> int:
    """Of a shape in whole tiles."""
    *leading, width = shape
    height = 1
    for size in leading:
        height *= size
    return -(-(height // 32) * (width // 32) // banks) * tile_bytes


# Parts ----------------------------------------------------------------------------------------------------------------------


def test_weights_cut_by_columns_give_columns_of_the_result(grid):
    """Eight chips with 14,336 / 8 = 1,792 columns each."""
    record = grid.submit(case_of("matmul", ((1, 1, 32, 4096), None), ((4096, 14336), 1))).result()
    assert record.status is Status.FITS
    assert [t.shape for t in record.tensors] == [(1, 1, 32, 4096), (4096, 1792), (1, 1, 32, 1792)]
    assert record.tensors[1].booked_bytes == booked_per_bank((4096, 1792), DRAM_BANKS) == 1_224_704
    assert record.resident == {"dram": sum(booked_per_bank(t.shape[-2:], DRAM_BANKS) for t in record.tensors)}


def test_operands_cut_along_the_inner_dim_give_partial_sums(row):
    record = row.submit(case_of("matmul", ((1, 1, 64, 8192), 3), ((8192, 4096), 0))).result()
    assert [t.shape for t in record.tensors] == [(1, 1, 64, 4096), (4096, 4096), (1, 1, 64, 4096)]
    summed = row.submit(case_of("all_reduce", ((1, 1, 64, 4096), None))).result()
    scattered = row.submit(case_of("reduce_scatter", ((1, 1, 64, 4096), None), dim=3)).result()
    assert [r.tensors[-1].shape for r in (summed, scattered)] == [(1, 1, 64, 4096), (1, 1, 64, 2048)]


def test_a_2d_mesh_cuts_two_dims(grid):
    record = grid.submit(case_of("add", ((64, 1024), (0, 1)), ((64, 1024), (0, -1)), memory=BufferType.L1)).result()
    assert [t.shape for t in record.tensors] == [(32, 256)] * 3
    assert record.resident == {"l1": 3 * TILE}


def test_a_record_states_the_mesh_and_the_cut(grid):
    cut, copied = (case_of("relu", ((64, 1024), dim)) for dim in ((None, 1), None))
    records = [grid.submit(case).result() for case in (cut, copied)]
    assert records[0].key != records[1].key
    assert records[0].id == "64x1024-dram-in1=shard=1@1"
    written = [json.loads(json.dumps(record.to_json())) for record in records]
    assert [line["mesh"] for line in written] == [[2, 4], [2, 4]]
    assert [line["inputs"] for line in written] == [[[64, 1024]], [[64, 1024]]]
    assert written[0]["operands"] == [{"shard_dim": [None, 1]}]
    assert [line["tensors"][0]["shape"] for line in written] == [[64, 256], [64, 1024]]


def test_eleven_gigabytes_of_weights_a_chip(row):
    """tt-xla#5169: 50 blocks of a transformer in float32 fit on two chips that hold half of each weight, and on none that holds
    all of it."""
    hidden, inner = 3072, 12288
    shapes = [(hidden, 3 * hidden), (hidden, hidden), (hidden, inner), (inner, hidden)] * 50
    each = sum(4 * rows * columns // 2 for rows, columns in shapes)
    assert each == 11_324_620_800
    cut = row.submit(case_of("place", *((shape, 1) for shape in shapes), dtype=DType.FLOAT32)).result()
    assert cut.status is Status.FITS
    assert sum(t.logical_bytes for t in cut.tensors) == each
    copied = row.submit(case_of("place", *((shape, None) for shape in shapes), dtype=DType.FLOAT32)).result()
    assert (copied.status, copied.verdict.resource.value) == (Status.OOM, "dram_buffer")


@dataclass(frozen=True)
class Mapped(Task[list[Any]]):
    """For each cut, whether the session allocates what TTNN's mapper does, and notes the same of it."""

    shape: tuple[int, ...]
    cuts: tuple[ShardDim, ...]

    def run(self, session: Session, options: PoolOptions) -> list[Any]:
        import torch

        ttnn, device, answers = session.ttnn, session.device, []
        for cut in self.cuts:
            if isinstance(cut, int):
                mapper = ttnn.ShardTensorToMesh(device, dim=cut)
            else:
                mapper = ttnn.ShardTensor2dMesh(device, dims=cut, mesh_shape=tuple(device.shape))
            sent = ttnn.from_torch(
                torch.zeros(self.shape), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device, mesh_mapper=mapper
            )
            device.clear_program_cache()
            mapped, topology = session.memory(BufferType.DRAM).allocated_bytes, sent.tensor_topology()
            sent.deallocate()
            made = session.empty(TensorSpec(part_of(self.shape, cut, tuple(device.shape))), shard_dim=cut)
            same = (tuple(made.shape) == tuple(sent.shape), made.tensor_topology() == topology)
            answers.append((cut, *same, session.memory(BufferType.DRAM).allocated_bytes == mapped > 0))
            made.deallocate()
        return answers

    def lost(self, verdict: Verdict, facts: DeviceFacts) -> list[Any]:
        return [verdict.message]


def test_parts_are_those_of_ttnns_mappers():
    cuts = (0, 1, -1, (0, 1), (1, 0), (None, 1), (0, None), (None, -2))
    with Pool(choose_device("virtual", "t3k_2x4"), PoolOptions(torch=True)) as pool:
        assert pool.run(Mapped((512, 1024), cuts)).result() == [(cut, True, True, True) for cut in cuts]


# Collectives ------------------------------------------------------------------------------------------------------------------


def test_all_gather_of_a_row_of_eight_chips():
    """tt-metal#42635: 128 x 25,136 of float32 from each of eight chips; 786 tiles of 4,096 B across."""
    with Pool(choose_device("virtual", "t3k_1x8")) as pool:
        record = pool.submit(case_of("all_gather", ((128, 25136), None), dtype=DType.FLOAT32, dim=1)).result()
    assert (record.status, record.mesh) == (Status.FITS, (1, 8))
    assert record.tensors[0].booked_bytes == -(-4 * 786 // DRAM_BANKS) * 4096
    assert record.tensors[1].shape == (128, 8 * 25136)


@pytest.mark.parametrize(
    ("name", "attrs", "results"),
    [
        ("all_gather", {"dim": -1, "cluster_axis": 1}, [(64, 512)]),
        ("all_gather", {"dim": 0, "cluster_axis": 0}, [(128, 128)]),
        ("all_gather", {"dim": 0, "fabric_config": "FABRIC_2D"}, [(512, 128)]),
        ("reduce_scatter", {"dim": 1, "cluster_axis": 1, "topology": "Linear", "num_links": 1}, [(64, 32)]),
        ("reduce_scatter", {"dim": 1, "cluster_axis": 1, "intermediate_memory_config": "l1"}, [(64, 32)]),
        ("all_reduce", {"cluster_axis": 0}, [(64, 128)]),
        ("all_broadcast", {"cluster_axis": 1}, [(64, 128)] * 4),
        ("mesh_partition", {"dim": 1, "cluster_axis": 1}, [(64, 32)]),
        ("broadcast", {"sender_coord": [0, 0], "cluster_axis": 1}, [(64, 128)]),
    ],
)
def test_sizes_follow_from_the_chips_that_take_part(grid, name, attrs, results):
    record = grid.submit(case_of(name, ((64, 1024), 1), **attrs)).result()
    assert (record.status, record.message) == (Status.FITS, "")
    assert [t.shape for t in record.tensors] == [(64, 128), *results]


def test_semaphores_of_a_collective_are_in_l1(row):
    """Operands and result of 2 and 4 tiles for 64 banks; the two semaphores of a core take a granule of 32 B each."""
    record = row.submit(case_of("all_gather", ((64, 64), 1), memory=BufferType.L1, dim=1)).result()
    assert record.resident == {"l1": 2 * TILE}
    assert record.usage.l1_bytes == 2 * TILE + 2 * 32


def test_a_result_that_does_not_fit(row):
    """32 MiB on each chip, 64 MiB gathered: 512 KiB and 1 MiB of a bank of 1,393,312 B."""
    record = row.submit(case_of("all_gather", ((1, 1, 16384, 2048), 3), memory=BufferType.L1, dim=3)).result()
    verdict = record.verdict
    assert (verdict.status, verdict.stage, verdict.bytes_per_bank) == (Status.OOM, "output", 2**20)
    assert (verdict.allocated_bytes, verdict.total_bytes) == (2**19, 2**26)


def test_where_a_composed_all_gather_puts_its_result(row):
    """50 rows are padded to 64, so that TTNN joins the parts of both chips, and asks for no memory in doing so."""
    record = row.submit(case_of("all_gather", ((100, 64), 0), memory=BufferType.L1, dim=0)).result()
    assert (record.status, record.tensors[1].memory) == (Status.FITS, "dram")
    assert record.message == "ttnn.all_gather does not keep to its memory_config: the result went to dram, not l1"


def test_other_calls_run_on_chips_that_are_not_connected(row):
    """The device is opened again for a collective, and again without the fabric; nothing changes for other calls."""
    relu = case_of("relu", ((64, 1024), 1), memory=BufferType.L1)
    before = row.submit(relu).result()
    row.submit(case_of("all_reduce", ((64, 64), None))).result()
    after = row.submit(relu).result()
    same = ("status", "tensors", "usage", "resident", "left_allocated")
    assert [getattr(before, name) for name in same] == [getattr(after, name) for name in same]
    assert row.submit(case_of("mesh_partition", ((64, 64), None), dim=1)).result().status is Status.FITS


def test_an_abort_costs_one_case(grid):
    """A virtual device cannot run a program on two of eight chips."""
    coordinates = {"sender_coord": [0, 0], "receiver_coord": [0, 1]}
    crashed, fits = grid.map([case_of("point_to_point", ((64, 64), None), **coordinates), case_of("relu", ((64, 64), 0))])
    assert (crashed.status, fits.status) == (Status.CRASH, Status.FITS)
    assert crashed.mesh == (2, 4)


def test_the_abort_of_0_66_0_is_named():
    try:
        release = find_release("0.66.0")
    except HarnessError as error:
        pytest.skip(str(error))
    with Pool(choose_device("virtual", "n300_1x2"), PoolOptions(release=release)) as pool:
        gather, relu = pool.map([case_of("all_gather", ((64, 64), 1), dim=1), case_of("relu", ((64, 64), 1))])
    assert (gather.status, relu.status) == (Status.CRASH, Status.FITS)
    assert "ended with SIGABRT; last output: TT_FATAL" in gather.message
    assert gather.message.endswith("Error, querying num initialized routers for an unknown device 0")
