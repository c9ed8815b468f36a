"""A program is recorded on the virtual device in both ways, and every call that is a case is made again by itself."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import pytest

from ssinghal.catalog.expansion import expand
from ssinghal.catalog.loader import load_catalog
from ssinghal.core.case import call_text
from tests.profile.measure import run_ssinghal

pytestmark = pytest.mark.virtual_device

PROGRAM = Path(__file__).parents[1] / "data" / "recorded" / "program.py"
SLOW = {"TTNN_CONFIG_OVERRIDES": '{"enable_fast_runtime_mode": false}', "TTNN_OPERATION_TRACE_DIR": "trace"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a profile and a trace of the program, and the catalogs of both."""
    made = tmp_path_factory.mktemp("recorded")
    command = ("--board", "n150", "--", sys.executable, PROGRAM)
    for words, variables in (
        (("profile", "-o", "profile", *command), {}),
        (("exec", *command, "--trace-params"), SLOW),
        (("catalog", "import", "profile"), {}),
        (("catalog", "import", "trace"), {}),
    ):
        done = run_ssinghal(made, *words, **variables)
        assert done.returncode == 0, done.stderr[-2000:]
    return made


def test_profile_and_trace_are_the_same_calls(folder):
    of_profile, of_trace = (expand([load_catalog(str(folder / f"{name}.yaml"))]).cases for name in ("profile", "trace"))
    assert Counter(call_text(case) for case in of_profile) == Counter(call_text(case) for case in of_trace)
    assert {case.placement.l1_small_bytes for case in of_profile} == {24576}
    modules = [case.sources[0].first_module for case in of_profile]
    assert all(module.partition(":")[0].endswith("program.py") for module in modules)


def test_each_call_fits_by_itself_with_the_memory_that_the_program_took(folder):
    done = run_ssinghal(folder, "run", "profile.yaml", "--board", "n150")
    assert done.returncode == 0, done.stderr[-2000:]
    file = next((folder / "results").glob("*/records.jsonl"))
    records = {record["op"]: record for record in map(json.loads, file.read_text().splitlines())}
    assert {record["status"] for record in records.values()} == {"fits"}
    (recorded,) = (folder / "profile").glob("records-*.jsonl")
    lines = [json.loads(line) for line in recorded.read_text().splitlines()]
    specs = {line["n"]: line for line in lines if line["k"] == "spec"}
    results = {line["name"]: specs[line["out"][0][0]] for line in lines if line["k"] == "call" and line.get("out")}
    for function, operator in (("ttnn.add", "add"), ("ttnn.concat", "cat"), ("ttnn.permute", "permute")):
        (output,) = (tensor for tensor in records[operator]["tensors"] if tensor["label"] == "output")
        assert (output["dtype"], output["memory"]) == (results[function]["dtype"], results[function]["memory"])
