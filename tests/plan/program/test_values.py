"""A written program computes the model: run with torch in the place of TTNN, with every freed tensor overwritten."""

import pytest

torch = pytest.importorskip("torch")

from ssinghal.device.modes import choose_device  # noqa: E402
from ssinghal.plan.policy import POLICIES, Rewrite  # noqa: E402
from ssinghal.runner.pool import Pool  # noqa: E402
from ssinghal.runner.tasks import PoolOptions  # noqa: E402
from tests.support.random_models import random_model  # noqa: E402
from tests.support.real_traces import close, recorded  # noqa: E402
from tests.support.small_calls import CALLS  # noqa: E402
from tests.support.small_models import MODELS  # noqa: E402
from tests.support.written_programs import computed, loaded, written  # noqa: E402

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


@pytest.mark.parametrize("name", [*MODELS, *CALLS])
def test_a_program_computes_the_model(name, pool):
    model, inputs = {**MODELS, **CALLS}[name]
    recording = recorded(model, *inputs)
    program = loaded(written(pool, recording.trace, PORT))
    assert close(computed(program, model, recording), recording.results())
