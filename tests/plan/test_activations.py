"""Activations in another dtype than the model's: the casts are made, and every tensor has its bytes."""

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from ssinghal.core.tensors import DType  # noqa: E402
from ssinghal.core.verdict import Status  # noqa: E402
from ssinghal.device.modes import choose_device  # noqa: E402
from ssinghal.plan.executor import PlanTask  # noqa: E402
from ssinghal.plan.passes.registry import rewritten  # noqa: E402
from ssinghal.plan.policy import POLICIES, find_policy  # noqa: E402
from ssinghal.runner.pool import Pool  # noqa: E402
from ssinghal.runner.tasks import PoolOptions  # noqa: E402
from tests.support.lowered_models import run_in_torch  # noqa: E402
from tests.support.real_traces import Net, close, recorded  # noqa: E402
from tests.support.small_calls import CALLS  # noqa: E402
from tests.support.small_models import MODELS  # noqa: E402
from tests.support.ttnn_calls import NotedPlan  # noqa: E402

PORT, EAGER = (replace(POLICIES[name], activations=DType.BFLOAT8_B) for name in ("port", "eager"))
TILE_BYTES = {"bfloat16": 2048, "bfloat8_b": 1088}  # 1,024 elements; block floats: 1 B each and 64 shared exponents


@pytest.fixture(scope="module")
def pool():
    with Pool(choose_device("virtual", "n150"), PoolOptions()) as pool:
        yield pool


def run_of(pool, recording, policy):
    return pool.run(PlanTask(rewritten(recording.trace, policy), policy, 32768)).result()


@pytest.mark.parametrize("name", [*MODELS, *CALLS])
def test_the_casts_change_no_element_of_the_model(name):
    """In torch, where a dtype is a name."""
    model, inputs = {**MODELS, **CALLS}[name]
    recording = recorded(model, *inputs)
    for policy in (PORT, EAGER):
        if (name, policy.name) != ("volume normed", "eager"):  # TTNN normalizes batches of maps alone
            assert close(run_in_torch(recording, policy)[0], recording.results()), str(policy)


@pytest.mark.virtual_device
@pytest.mark.parametrize(
    "name",
    [
        "bottleneck",
        "group norm",
        "transposed",
        "one dim",
        "windows",
        "area",
        "broadcasts",
        "products",
        "pyramid",
    ],
)
def test_ttnn_leaves_the_dtypes_that_the_casts_expect(name, pool):
    """Shape, layout and dtype of every result are those of the calls whose values were looked at."""
    model, inputs = {**MODELS, **CALLS}[name]
    recording = recorded(model, *inputs)
    _, noted = run_in_torch(recording, PORT)
    result, real = pool.run(NotedPlan(PlanTask(rewritten(recording.trace, PORT), PORT, 32768))).result()
    assert (result.status, result.checked) == (Status.FITS, result.total_steps + 1), result.message
    assert real == noted
    assert any(kind == "BFLOAT8_B" for call in real for _, _, kind in call.results)
    assert not any(kind == "BFLOAT8_B" and layout == "ROW_MAJOR" for call in real for _, layout, kind in call.results)


@pytest.mark.virtual_device
@pytest.mark.parametrize("activations", ["bfloat16", "bfloat8_b"])
def test_each_activation_in_tiles_has_the_bytes_of_its_dtype(activations, pool):
    """64 channels of 32x32: 32 x 2 = 64 tiles over 12 banks, so 6 in the fullest; after the sum both operands are live too."""
    part = nn.Conv2d(64, 64, 3, padding=1)
    recording = recorded(Net(lambda m, x: m.a(x) + m.b(x), a=part, b=nn.Conv2d(64, 64, 1)), (1, 64, 32, 32))
    result = run_of(pool, recording, find_policy("port", activations=activations))
    assert (result.status, result.checked) == (Status.FITS, 4), result.message
    made = {value.value: value for value in result.alive if value.made_by in ("convolution", "add")}
    assert {value.bytes_per_bank for value in made.values()} == {6 * TILE_BYTES[activations]}
    assert result.notes == ()


@pytest.mark.virtual_device
def test_what_ttnn_does_not_take_is_cast_and_stated(pool):
    """ttnn.group_norm takes bfloat16 and float32: its operand is cast back, and so is its result for the next call."""
    model, inputs = MODELS["group norm"]
    result = run_of(pool, recorded(model, *inputs), PORT)
    assert result.status is Status.FITS, result.message
    (refused,) = [note for note in result.notes if "take no" in note]
    assert refused.endswith("take no bfloat8_b: ttnn.group_norm takes bfloat16 and float32 only")
    plain = run_of(pool, recorded(model, *inputs), POLICIES["port"])
    assert plain.notes == ()
    assert any("leave bfloat16 in tiles" in note for note in result.notes)
