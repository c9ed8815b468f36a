"""A written program computes the model: run with torch in the place of TTNN, with every freed tensor overwritten."""

import pytest

torch = pytest.importorskip("torch")

from ssinghal.core.verdict import Status  # noqa: E402
from ssinghal.device.modes import choose_device  # noqa: E402
from ssinghal.plan.planner import Boards, PlanSettings, plan  # noqa: E402
from ssinghal.plan.policy import POLICIES, Rewrite, find_policy  # noqa: E402
from ssinghal.plan.program.saving import program_text  # noqa: E402
from ssinghal.runner.pool import Pool  # noqa: E402
from ssinghal.runner.tasks import PoolOptions  # noqa: E402
from tests.support.random_models import random_model  # noqa: E402
from tests.support.real_traces import close, recorded  # noqa: E402
from tests.support.small_calls import CALLS  # noqa: E402
from tests.support.small_models import MODELS  # noqa: E402
from tests.support.written_programs import NO_SOURCE, computed, loaded, written  # noqa: E402

pytestmark = pytest.mark.virtual_device
PORT, EAGER = POLICIES["port"], POLICIES["eager"]


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def pool():
    with Pool(choose_device("virtual", "n150"), PoolOptions()) as pool:
        yield pool


def computes(pool, model, inputs, policy):
    """Returns whether the program of a model under a policy computes what the model does."""
    recording = recorded(model, *inputs)
    program = loaded(written(pool, recording.trace, policy))
    return close(computed(program, model, recording), recording.results())


@pytest.mark.parametrize("name", [*MODELS, *CALLS])
def test_a_program_computes_the_model(name, pool):
    assert computes(pool, *{**MODELS, **CALLS}[name], PORT)


EVERY = PORT
for rewrite in Rewrite:
    EVERY = EVERY.with_rewrite(rewrite)
REWRITTEN = ["windows", "area", "softmax of any rank", "depth to space", "in chunks", "padded before", "causal"]


@pytest.mark.parametrize("name", [*REWRITTEN, "edges of frames"])
def test_a_program_with_rewrites_computes_the_model(name, pool):
    assert computes(pool, *{**MODELS, **CALLS}[name], EVERY)


@pytest.mark.parametrize("name", ["bottleneck", "windows", "patches", "depth to space", "written behind a copy", "one dim"])
def test_a_program_under_eager_computes_the_model(name, pool):
    assert computes(pool, *{**MODELS, **CALLS}[name], EAGER)


@pytest.mark.parametrize("seed", [0, *range(2, 12)])
def test_a_program_computes_a_random_model(seed, pool):
    """TTNN rejects a pool of the model 1."""
    model, shape = random_model(seed)
    assert computes(pool, model, (shape,), PORT)


@pytest.mark.parametrize("name", ["bottleneck", "windows", "squeeze and excite"])
def test_a_program_of_placements_in_l1_computes_the_model(name):
    model, inputs = MODELS[name]
    recording = recorded(model, *inputs)
    with Boards(PlanSettings()) as boards:
        result = plan(recording.trace, find_policy("l1"), "n150", boards).result
        assert result.status is Status.FITS, result.message
        text = program_text(recording.trace, result, boards, NO_SOURCE)
    assert "memory_config=L1" in text or "_SHARDED" in text
    assert close(computed(loaded(text), model, recording), recording.results())


# The test itself ------------------------------------------------------------------------------------------------------------


def test_a_tensor_that_is_freed_too_early_is_detected(pool):
    model, inputs = MODELS["bottleneck"]
    recording = recorded(model, *inputs)
    text = written(pool, recording.trace, PORT)
    assert text.count("    ttnn.deallocate(c1)\n") == 1, "right after the relu that reads it"
    early = text.replace("    relu = ttnn.relu(c1", "    ttnn.deallocate(c1)\n    relu = ttnn.relu(c1")
    assert not close(computed(loaded(early), model, recording), recording.results())


def test_a_wrong_weight_is_detected(pool):
    model, inputs = MODELS["bottleneck"]
    recording = recorded(model, *inputs)
    text = written(pool, recording.trace, PORT)
    wrong = text.replace('"n3", 1e-05)', '"n4", 1e-05)')
    assert wrong != text
    assert not close(computed(loaded(wrong), model, recording), recording.results())
