"""Every verdict and every byte that real Wormhole cards logged (August 2025), replayed on a virtual N150.

``data/hardware/README.md`` says how the cards were called. Where a call lacked its arguments or named a function that did not
exist, only the placing of its operands was tested, so only that is replayed.
"""

import csv
import json
from pathlib import Path

import pytest

from ssinghal.core.case import Case
from ssinghal.core.verdict import Status
from ssinghal.device.modes import choose_device
from ssinghal.operators.case_json import case_from_json
from ssinghal.runner.pool import Pool
from ssinghal.runner.tasks import PoolOptions

DATA = Path(__file__).parents[1] / "data" / "hardware" / "hardware_runs.csv"
REPLAYED = ("oom", "fits", "not_oom")
PLACED_ONLY = {
    "clamp", "clampmin", "dropout", "expand", "leakyrelu", "linalgvectornorm", "maxpool2d", "native_batch_norm", "silu_inplace",
    "splitwithsizes",
}  # fmt: skip
KNOWN_DIFFERENCES = {
    ("R2", "hardtanh", "[1,1152,136,120]"): "was a composite clamp with one more L1 tensor; one kernel today",
    ("R2", "split", "[1,4,171360]"): "was a clash of program buffers with tensors; its program is smaller today",
}


def rows() -> list[dict[str, str]]:
    with DATA.open(newline="") as file:
        return [row for row in csv.DictReader(file) if row["hardware_outcome"] in REPLAYED]


def case_of(row: dict[str, str]) -> Case:
    """Returns the call of a card: shapes as they were placed, in L1, the result where TTNN places it."""
    name = row["operator"]
    inputs = [json.loads(shape) for shape in row["device_inputs"].split("+")] if row["device_inputs"] else []
    listed = json.loads(row["listed_shape"])
    argument = json.loads(row["argument"]) if row["argument"] else None
    attrs = {
        "view": {"size": listed},
        "unsafeview": {"size": listed},
        "ones": {"size": [listed[0], *listed[2:], listed[1]] if len(listed) == 4 else listed},
        "permute": {"dims": [0, 3, 1, 2]},
        "transpose": {"dim0": -2, "dim1": -1},
        "unsqueeze": {"dim": 0},
        "softmax": {"dim": -1},
        "mean": {"dim": [-1]},
        "topk": {"k": 5},
        "split": {"split_size": argument, "dim": 1},
        "split_with_sizes": {"split_sizes": argument, "dim": 1},
    }.get(name, {})
    if name == "upsample_nearest2d":
        attrs = {"scale_factors": [float(argument or 2)] * 2}
    if name in PLACED_ONLY or (name == "permute" and len(listed) != 4):
        name, attrs = "place", {}
    fields = {"op": name, "inputs": inputs, "attrs": attrs, "memory": "l1", "output_memory": "ttnn", "channels_last": False}
    return case_from_json(fields)


@pytest.mark.virtual_device
def test_every_row_agrees_but_the_known_ones():
    selected = rows()
    with Pool(choose_device("virtual", "n150"), PoolOptions(workers=2)) as pool:
        records = list(pool.map([case_of(row) for row in selected]))
    differ = {}
    for row, record in zip(selected, records, strict=True):
        where = (row["run"], row["operator"], row["listed_shape"])
        assert record.status not in (Status.ERROR, Status.CRASH, Status.TIMEOUT, Status.NOT_RUN), (where, record.verdict)
        ran_out = row["hardware_outcome"] == "oom"
        seen = (record.verdict.total_bytes, record.verdict.bytes_per_bank, record.verdict.banks)
        logged = tuple(int(row[c]) for c in ("total_bytes", "bytes_per_bank", "banks") if row[c])
        if ran_out != (record.status is Status.OOM):
            differ[where] = f"card: {row['hardware_outcome']}, virtual: {record.status}"
        elif ran_out and len(logged) == 3 and seen != logged:
            differ[where] = f"card: {logged}, virtual: {seen}"
    assert set(differ) == set(KNOWN_DIFFERENCES), differ
    assert len(selected) == 985


def test_the_replay_covers_every_outcome():
    outcomes = [row["hardware_outcome"] for row in rows()]
    assert {o: outcomes.count(o) for o in REPLAYED} == {"oom": 304, "fits": 431, "not_oom": 250}
