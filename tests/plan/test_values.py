"""The calls that a plan makes compute the model.

Two things are tested for each model. The calls, run in torch (for values only, without memory), give the results of the model.
The plan on the virtual device makes the same calls, with the same arguments and results of the same shapes, layouts and
dtypes: so the values also hold for the calls whose memory is counted.
"""

from itertools import product

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from ssinghal.core.verdict import Status  # noqa: E402
from ssinghal.device.modes import choose_device  # noqa: E402
from ssinghal.plan.executor import PlanTask  # noqa: E402
from ssinghal.plan.lowering import PlannedCall, planned_steps  # noqa: E402
from ssinghal.plan.passes.registry import rewritten  # noqa: E402
from ssinghal.plan.policy import POLICIES, Rewrite  # noqa: E402
from ssinghal.plan.rules import dispatch as calls  # noqa: E402
from ssinghal.plan.rules import matmul as products  # noqa: E402
from ssinghal.plan.rules.elementwise import unary  # noqa: E402
from ssinghal.runner.pool import Pool  # noqa: E402
from ssinghal.runner.tasks import PoolOptions  # noqa: E402
from tests.support.lowered_models import run_in_torch  # noqa: E402
from tests.support.random_models import random_model  # noqa: E402
from tests.support.real_traces import Net, close, recorded  # noqa: E402
from tests.support.small_calls import CALLS  # noqa: E402
from tests.support.small_models import MODELS  # noqa: E402
from tests.support.ttnn_calls import NotedPlan  # noqa: E402

PORT, EAGER, L1 = POLICIES["port"], POLICIES["eager"], POLICIES["l1"]
IN_PLACE = PORT.with_rewrite(Rewrite.SOFTMAX_IN_PLACE)
NO_CALL = {("volume normed", "eager")}  # TTNN normalizes batches of maps alone


def policies(name, trace):
    """Returns all policies, port and eager with every rewrite that changes something, and port and l1 with all of them."""
    every = {PORT: PORT, L1: L1}
    for base, rewrite in product(every, Rewrite):
        every[base] = every[base].with_rewrite(rewrite)
    keys = {}
    for policy in (PORT, EAGER, L1, *every.values(), *(p.with_rewrite(r) for p in (PORT, EAGER) for r in Rewrite)):
        key = (policy.name, Rewrite.SOFTMAX_IN_PLACE in policy.rewrites, rewritten(trace, policy).steps)
        if (name, policy.name) not in NO_CALL and not any(key == known for known in keys.values()):
            keys[policy] = key
    return list(keys)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Uses one thread: several cost more for such small tensors."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def pool():
    with Pool(choose_device("virtual", "n150"), PoolOptions()) as pool:
        yield pool


def same_calls(pool, recording, policy):
    """Returns whether the run on the virtual device makes the calls that were run in torch.

    It does not watch what they need: that repeats some of them.
    """
    _, noted = run_in_torch(recording, policy)
    task = PlanTask(rewritten(recording.trace, policy), policy, 32768, inside=False)
    result, real = pool.run(NotedPlan(task)).result()
    assert (result.status, result.checked) == (Status.FITS, result.total_steps + 1), result.message
    assert len(real) > 0 or not noted
    return noted == real


# Models, and single calls ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*MODELS, *CALLS])
def test_the_calls_compute_the_model(name, pool):
    model, inputs = {**MODELS, **CALLS}[name]
    recording = recorded(model, *inputs)
    for policy in policies(name, recording.trace):
        results, _ = run_in_torch(recording, policy)
        assert close(results, recording.results()), str(policy)
    for policy in (PORT, EAGER, L1):
        if (name, policy.name) not in NO_CALL:
            assert same_calls(pool, recording, policy), str(policy)


REWRITTEN = {
    Rewrite.SOFTMAX_IN_PLACE: ["windows", "area", "softmax of any rank", "softmax beside a view"],
    Rewrite.SDPA: ["area"],
    Rewrite.QKV_SPLIT: ["windows", "own attention"],
    Rewrite.DEPTH_TO_SPACE: ["depth to space"],
    Rewrite.WHOLE_CONVOLUTION: ["in chunks"],
    Rewrite.PAD_INTO_CONV: ["padded before", "causal", "edges of frames"],
}


@pytest.mark.parametrize(("rewrite", "name"), [(rewrite, name) for rewrite, names in REWRITTEN.items() for name in names])
def test_the_calls_of_a_rewritten_model_are_made_too(rewrite, name, pool):
    model, inputs = {**MODELS, **CALLS}[name]
    recording, policy = recorded(model, *inputs), PORT.with_rewrite(rewrite)
    plain, changed = run_in_torch(recording, PORT)[1], run_in_torch(recording, policy)[1]
    assert (plain != changed) == (name != "softmax beside a view"), "each of these changes with its rewrite"
    assert same_calls(pool, recording, policy)


def test_every_rewrite_is_tested():
    assert set(REWRITTEN) == set(Rewrite)


@pytest.mark.parametrize(
    ("channels", "calls"), [(32, ["to_layout", "conv2d", "conv2d"]), (16, ["conv2d", "to_layout", "conv2d"])]
)
def test_a_map_comes_in_the_layout_for_which_its_weights_were_prepared(channels, calls):
    """An input is in rows, a convolution's result in tiles."""
    recording = recorded(nn.Sequential(nn.Conv2d(channels, channels, 3), nn.Conv2d(channels, 4, 3)), (1, channels, 8, 8))
    assert [call.name for call in run_in_torch(recording, PORT)[1]] == calls


# Random programs --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(60))
def test_the_calls_compute_a_random_program(seed):
    """Thousands of them found: a copy that shares its original, ranks that softmax in place rejects, and padded rows
    that are reshaped."""
    model, shape = random_model(seed)
    recording = recorded(model, shape)
    for policy in (PORT, EAGER, L1, IN_PLACE):
        assert close(run_in_torch(recording, policy)[0], recording.results()), str(policy)


@pytest.mark.parametrize("seed", [20032, 20082, 20122, 30, 37, 41])
def test_the_calls_of_a_random_program_are_made(seed, pool):
    """The first three convolve volumes of few channels, and pad them; softmax of any rank, in place, in the others."""
    model, shape = random_model(seed)
    assert same_calls(pool, recorded(model, shape), IN_PLACE)


# Calls that TTNN lacks ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("forward", "inputs", "reason"),
    [
        (lambda m, x, y: torch.add(x, y, alpha=2), [(2, 3), (2, 3)], "alpha of a tensor is another TTNN function"),
        (lambda m, x: torch.rsub(x, 1, alpha=2), [(2, 3)], "ttnn.rsub does not scale its operand"),
        (lambda m, x: F.layer_norm(x, (3, 4)), [(2, 3, 4)], "TTNN normalizes the last dim only"),
        (lambda m, x: F.elu(m.c(x), 2.0), [(2, 3, 4)], "TTNN has no transposed convolution over 1 or 3 dims"),
        (lambda m, x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True), [(1, 32, 4, 4)], "does not align"),
        (lambda m, x: x.as_strided((2, 2), (1, 2)), [(2, 3)], "TTNN tensors have no strides"),
        (lambda m, x: x.half(), [(2, 3)], "TTNN has none of"),
        (lambda m, x: x.max(1), [(2, 3)], "ttnn.max returns 1 of its 2 results, but another one is read"),
        (lambda m, x: x.max(1).values, [(2, 3)], ""),
        (lambda m, x: F.dropout(x, 0.5, training=True), [(2, 3)], ""),  # it drops, but other elements than torch
    ],
)
def test_a_call_that_would_compute_something_else_is_not_made(forward, inputs, reason):
    """Such a call may run without an error, or fail: either way it is not a call of the model."""
    recording = recorded(Net(forward, c=nn.ConvTranspose1d(3, 4, 2)), *inputs)
    first = planned_steps(recording.trace)[0]
    assert reason in first.reason
    assert isinstance(first, PlannedCall) == (not reason)


def test_a_map_that_is_resized_to_its_own_size_is_a_call():
    """Whatever its channels: TTNN is not called."""
    recording = recorded(Net(lambda m, x: F.interpolate(x, (4, 5), mode="bilinear")), (1, 3, 4, 5))
    assert isinstance(planned_steps(recording.trace)[0], PlannedCall)


# The test itself ------------------------------------------------------------------------------------------------------------


def test_a_wrong_order_is_detected(monkeypatch):
    """Rows before columns, in a map that has as many of both: shapes alone would not show it."""
    recording = recorded(nn.Conv2d(3, 4, (1, 3), padding=(0, 1)), (1, 3, 6, 6))
    assert close(run_in_torch(recording, PORT)[0], recording.results())
    monkeypatch.setattr(products, "channels_last", lambda rank: (0, 3, 2, 1))
    assert not close(run_in_torch(recording, PORT)[0], recording.results())


def test_an_extra_call_is_detected(pool, monkeypatch):
    recording = recorded(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()), (1, 3, 6, 6))
    assert same_calls(pool, recording, PORT)
    monkeypatch.setitem(calls.RULES, "relu", lambda work: unary(work) and unary(work))
    assert not same_calls(pool, recording, PORT), "the worker has the rule as it is"
