"""Device mode golden: values and nothing else, in records that nobody can take for a device's."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="golden functions compute in torch")

from ssinghal.core.case import Placement
from ssinghal.core.tensors import DType
from ssinghal.core.verdict import DecidedBy, Status
from ssinghal.device.modes import choose_device
from ssinghal.errors import DeviceUnavailable, HarnessError
from ssinghal.operators import make_case
from ssinghal.runner.pool import Pool
from ssinghal.runner.tasks import PoolOptions
from ssinghal.runs.diff import Changes
from ssinghal.runs.folders import find_run
from ssinghal.runs.reader import read_run
from tests.support.broken_reference import BrokenProbe
from tests.support.processes import Suite, oom_module, operator_module
from tests.support.run_builder import a_record, write_run

MAP = (1, 2, 64, 64)
REPOSITORY = str(Path(__file__).parents[2])


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    choice = choose_device("golden", golden=True)
    with Pool(choice, PoolOptions.of(choice)) as opened:
        yield opened


# What a record says -------------------------------------------------------------------------------------------------------


@pytest.mark.virtual_device
@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.BFLOAT16, DType.BFLOAT8_B])
def test_values_agree_and_nothing_is_said_of_memory(pool: Pool, dtype: DType) -> None:
    record = pool.submit(make_case("softmax", (MAP,), {"dim": -1}, Placement(dtype=dtype))).result()
    assert (record.status, record.decided_by, record.device_mode) == (Status.AGREES, DecidedBy.TORCH, "golden")
    assert record.comparison is not None
    assert record.comparison.pcc is not None
    assert record.comparison.pcc > 0.999
    assert "no memory was measured" in record.message
    assert (record.tensors, record.usage, dict(record.resident), record.resource) == ((), None, {}, None)


@pytest.mark.virtual_device
def test_rounding_is_that_of_the_dtype(pool: Pool) -> None:
    """A float32 result is exact here; bfloat16 rounds to 8 bits, a block float to 7 of its block's largest value."""
    errors = [
        pool.submit(make_case("sigmoid", (MAP,), {}, Placement(dtype=dtype))).result().comparison.max_abs_error
        for dtype in (DType.FLOAT32, DType.BFLOAT16, DType.BFLOAT8_B)
    ]
    assert errors[0] < 1e-6
    assert errors[1] <= 2**-9
    assert 2**-9 < errors[2] <= 2**-7


@pytest.mark.virtual_device
@pytest.mark.parametrize("dtype", [DType.BFLOAT16, DType.BFLOAT8_B])
@pytest.mark.parametrize("name", ["floor", "round", "sign", "cumsum", "eq"])
def test_an_operand_that_is_rounded_when_stored_is_no_fault_of_the_call(pool: Pool, name: str, dtype: DType) -> None:
    """Both sides start from the stored values: else a floor of rounded values would differ."""
    attrs = {"dim": -1} if name == "cumsum" else {}
    case = make_case(name, (MAP, MAP) if name == "eq" else (MAP,), attrs, Placement(dtype=dtype))
    assert pool.submit(case).result().status is Status.AGREES


@pytest.mark.virtual_device
def test_a_result_that_hardly_varies_is_compared_by_its_size(pool: Pool) -> None:
    """Norms of 4,000 normal values are 63 with a deviation of 0.7, three steps of bfloat16: rounding alone lowers the PCC."""
    case = make_case("linalg_vector_norm", ((1, 80, 50, 64),), {"dim": [1, 2], "keepdim": True})
    record = pool.submit(case).result()
    assert record.status is Status.AGREES
    broken = pool.run(BrokenProbe(case, "sum")).result()
    assert broken.status is Status.MISMATCH


@pytest.mark.virtual_device
@pytest.mark.parametrize(("name", "other"), [("silu", "sigmoid"), ("relu6", "relu"), ("mish", "tanh"), ("exp", "expm1")])
@pytest.mark.parametrize("dtype", [DType.BFLOAT16, DType.BFLOAT8_B])
def test_a_wrong_reference_is_a_mismatch(pool: Pool, name: str, other: str, dtype: DType) -> None:
    """expm1 is less by 1 everywhere, at the same correlation: its offset gives it away."""
    record = pool.run(BrokenProbe(make_case(name, (MAP,), {}, Placement(dtype=dtype)), other)).result()
    assert (record.status, record.decided_by) == (Status.MISMATCH, DecidedBy.TORCH)
    assert ("off on average" if name == "exp" else "PCC") in record.message


@pytest.mark.virtual_device
def test_a_call_without_a_golden_function_is_unsupported(pool: Pool) -> None:
    """Its own reference would agree with itself."""
    case = make_case("conv_transpose2d", ((1, 32, 8, 8), (32, 32, 2, 2)), {"stride": [2, 2]})
    record = pool.submit(case).result()
    assert (record.status, record.comparison) == (Status.UNSUPPORTED, None)
    assert record.message == "TTNN registers no golden function for ttnn.conv_transpose2d"


@pytest.mark.virtual_device
def test_what_is_too_large_for_the_host_is_not_run(pool: Pool) -> None:
    """By hand: 2,049 tiles of 1,024 elements in, as many out."""
    record = pool.submit(make_case("relu", ((32, 2049 * 32),))).result()
    assert (record.status, record.comparison) == (Status.NOT_RUN, None)
    assert record.message.startswith("4,196,352 elements")


@pytest.mark.parametrize(
    ("status", "mode"), [("fits", "golden"), ("oom", "golden"), ("agrees", "virtual"), ("agrees", "silicon")]
)
def test_no_record_claims_what_its_mode_cannot_show(status: str, mode: str) -> None:
    with pytest.raises(ValueError, match="golden functions measure no memory"):
        a_record(status=status, mode=mode)


# Who may choose it --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("environ", [{}, {"TT_METAL_SIMULATOR": "/sim"}])
@pytest.mark.parametrize("nodes", [[], ["/dev/tenstorrent/0"]])
def test_auto_never_chooses_it(environ: dict[str, str], nodes: list[str]) -> None:
    if not (environ and nodes):
        assert choose_device("auto", golden=True, environ=environ, nodes=nodes).mode != "golden"


def test_commands_that_need_memory_refuse_it() -> None:
    with pytest.raises(DeviceUnavailable, match="golden measures no memory"):
        choose_device("golden")
    command = [sys.executable, "-m", "ssinghal", "remedy", "relu", "1,64", "--device", "golden"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith("ssinghal: device mode golden measures no memory")


# Runs ---------------------------------------------------------------------------------------------------------------------


def test_runs_of_golden_functions_are_compared_with_each_other_only(tmp_path: Path) -> None:
    golden = write_run(tmp_path, [a_record(status="agrees", mode="golden")], "20260101T000000.000000Z")
    later = write_run(tmp_path, [a_record(status="mismatch", mode="golden")], "20260102T000000.000000Z")
    virtual = write_run(tmp_path, [a_record()], "20260103T000000.000000Z")
    assert len(Changes.of(read_run(golden), read_run(later)).found) == 1
    for across in (False, True):
        with pytest.raises(HarnessError, match="golden functions measure no memory"):
            Changes.of(read_run(golden), read_run(virtual), across=across)


def test_a_run_that_mixes_them_with_others_is_refused(tmp_path: Path) -> None:
    mixed = write_run(tmp_path, [a_record(status="agrees", mode="golden"), a_record("silu")])
    with pytest.raises(HarnessError, match=r"records of golden functions.* beside others \(golden, virtual\)"):
        read_run(mixed)


@pytest.mark.virtual_device
def test_suites_pass_fail_and_skip_on_values_alone(tmp_path: Path) -> None:
    """silu is compared with relu's reference, which the conftest puts in its place; a card's OOM is not looked for."""
    small, large = [1, 2, 64, 64], [1, 64, 2048, 2048]
    operators = {
        "relu": [{"shape": small}, {"shape": large}],
        "silu": [{"shape": small}],
        "gelu": [{"shape": small, "oom": {"run": "R1"}}],
        "conv_transpose2d": [{"in": [[1, 32, 8, 8], [32, 32, 2, 2]], "args": {"stride": [2, 2]}}],
    }
    modules = {f"test_{name}.py": operator_module(name) for name in operators}
    suite = Suite(tmp_path, operators, {**modules, "test_oom_gelu.py": oom_module("gelu")})
    conftest = tmp_path / "conftest.py"
    conftest.write_text(
        f"import sys\nsys.path.insert(0, {REPOSITORY!r})\n{conftest.read_text()}\n"
        "from ssinghal.runner import pool\nfrom tests.support.broken_reference import BrokenProbe\n"
        "right = pool.ProbeTask\n"
        "pool.ProbeTask = lambda case: BrokenProbe(case, 'relu') if case.name == 'silu' else right(case)\n"
    )
    code, output = suite.run("--oom-device", "golden")
    assert code == 1, output
    records = [json.loads(line) for line in (suite.latest / "records.jsonl").read_text().splitlines()]
    by_operator = Counter((record["operator"], record["status"]) for record in records)
    assert by_operator == {
        ("relu", "agrees"): 1,
        ("relu", "not_run"): 1,
        ("silu", "mismatch"): 1,
        ("gelu", "agrees"): 1,
        ("conv_transpose2d", "unsupported"): 1,
    }
    assert {record["device_mode"] for record in records} == {"golden"}
    assert not any(record.get("resident") or record["tensors"] for record in records)
    assert "golden functions give values, and no verdict on memory" in output
    assert "golden functions measure no memory, so that the OOM is not looked for" in output
    assert "mismatch: PCC" in output
    (group,) = read_run(find_run(None, tmp_path / "results")).groups
    assert group.numerics.startswith("no device: TTNN's golden functions compared with torch for 3 of 5 cases")
    report = [sys.executable, "-m", "ssinghal", "report", "--results", "results", "-o", "report"]
    subprocess.run(report, cwd=tmp_path, check=True, capture_output=True, timeout=120)
    for page in (tmp_path / "report").rglob("*.html"):
        assert "no memory was measured, and no kernel ran" in page.read_text()
