"""Offers for convolutions and what else maps go through: hand-written ports' choices are among them, TTNN accepts them, and
they compute the model.

A shard of bfloat16 in tiles takes 2 B for each element. An n150 has 64 cores in 8 columns and 8 rows.
"""

import random

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from ssinghal.core.boards import load_board  # noqa: E402
from ssinghal.core.memory_config import BufferType, Cores, MemoryConfig, ShardKind, ShardSpec  # noqa: E402
from ssinghal.core.tensors import DType, Layout  # noqa: E402
from ssinghal.core.verdict import Resource, Status  # noqa: E402
from ssinghal.device.modes import choose_device  # noqa: E402
from ssinghal.plan.axis_layout import AxisLayout  # noqa: E402
from ssinghal.plan.executor import PlanTask  # noqa: E402
from ssinghal.plan.lowering import planned_steps  # noqa: E402
from ssinghal.plan.passes.registry import rewritten  # noqa: E402
from ssinghal.plan.placement import DRAM, L1, Form, Held, StepChoice, thawed  # noqa: E402
from ssinghal.plan.placing.candidates import offered  # noqa: E402
from ssinghal.plan.placing.probing import StepProbe, StepRequest, single_step  # noqa: E402
from ssinghal.plan.policy import POLICIES  # noqa: E402
from ssinghal.runner.pool import Pool  # noqa: E402
from ssinghal.runner.tasks import PoolOptions  # noqa: E402
from tests.support.lowered_models import run_in_torch  # noqa: E402
from tests.support.placed_walks import L1_SMALL_BYTES, walked  # noqa: E402
from tests.support.real_traces import Net, close, recorded  # noqa: E402

pytestmark = pytest.mark.virtual_device
POLICY, BOARD = POLICIES["l1"], load_board("n150").with_l1_small(L1_SMALL_BYTES)
HEIGHT, BLOCK, WIDTH = ShardKind.HEIGHT, ShardKind.BLOCK, ShardKind.WIDTH


@pytest.fixture(scope="module")
def pool():
    with Pool(choose_device("virtual", "n150"), PoolOptions()) as pool:
        yield pool


def shards(kind, shape, cores):
    """``cores``: columns and rows, or how many of the first."""
    placed = Cores.grid(*cores) if isinstance(cores, tuple) else Cores.first(cores, (8, 8))
    return MemoryConfig(BufferType.L1, ShardSpec(kind, shape, placed))


def maps(shape, memory, layout=Layout.TILE):
    """The form of maps [N, C, H, W] as rows of channels."""
    n, c, h, w = shape
    return Form(memory, (1, 1, n * h * w, c), DType.BFLOAT16, layout, AxisLayout.plain(shape, (0, 2, 3, 1)))


def recording(module, *shapes):
    return rewritten(recorded(module, *shapes).trace, POLICY)


def tried(pool, trace, *forms, dies=(0,)):
    """Returns the choices that are offered for the first step, with their outcomes."""
    planned = planned_steps(trace)[0]
    choices = offered(planned, {position: Held(form) for position, form in enumerate(forms)}, BOARD)
    requests = tuple(StepRequest(tuple(enumerate(forms)), choice) for choice in choices)
    probe = StepProbe(single_step(trace, trace.steps[0]), POLICY, frozenset(dies), requests, L1_SMALL_BYTES)
    return list(zip(choices, pool.run(probe).result(), strict=True))


def reached(pool, trace, *forms):
    """Returns where results are that nothing was moved for, through DRAM or within L1, but for weights."""
    still = [x for _, x in tried(pool, trace, *forms) if x.failure is None and not x.traffic.changes]
    return {x.results[0].form.memory for x in still}


# What hand-written ports use ------------------------------------------------------------------------------------------------


PORTS = [  # as recorded from TTNN's ResNet-50 for batches of 16, YOLOv8s and EfficientNet-b0
    (nn.Conv2d(64, 64, 1), (16, 64, 56, 56), shards(HEIGHT, (896, 64), (8, 7)), shards(HEIGHT, (896, 64), (8, 7))),
    (nn.Conv2d(64, 64, 3, padding=1), (16, 64, 56, 56), *[shards(HEIGHT, (896, 64), (8, 7))] * 2),
    (nn.Conv2d(64, 256, 1), (16, 64, 56, 56), shards(HEIGHT, (896, 64), (8, 7)), shards(HEIGHT, (896, 256), (8, 7))),
    (nn.Conv2d(128, 128, 3, 2, 1), (16, 128, 56, 56), shards(HEIGHT, (896, 128), (8, 7)), shards(HEIGHT, (224, 128), (8, 7))),
    (nn.Conv2d(512, 256, 1), (16, 512, 28, 28), shards(BLOCK, (1568, 64), (8, 8)), shards(BLOCK, (1568, 32), (8, 8))),
    (nn.Conv2d(256, 256, 3, 2, 1), (16, 256, 28, 28), shards(BLOCK, (1568, 32), (8, 8)), shards(BLOCK, (416, 32), (8, 8))),
    (nn.Conv2d(512, 512, 3, padding=1), (16, 512, 7, 7), *[shards(BLOCK, (128, 64), (8, 7))] * 2),
    (nn.Conv2d(64, 64, 3, padding=1), (1, 64, 80, 80), *[shards(HEIGHT, (128, 64), 50)] * 2),
    (nn.Conv2d(32, 32, 3, padding=1, groups=32), (1, 32, 112, 112), *[shards(HEIGHT, (224, 32), (8, 7))] * 2),
    (nn.MaxPool2d(3, 2, 1), (16, 64, 112, 112), shards(HEIGHT, (3136, 64), (8, 8)), shards(HEIGHT, (784, 64), (8, 8))),
    (nn.ConvTranspose2d(256, 128, 2, 2), (1, 256, 32, 32), shards(BLOCK, (128, 32), (8, 8)), shards(BLOCK, (512, 32), (4, 8))),
]


@pytest.mark.parametrize(("module", "shape", "operand", "result"), PORTS)
def test_shards_that_ports_use_are_reached_without_moving_anything(module, shape, operand, result, pool):
    assert result in reached(pool, recording(module, shape), maps(shape, operand))


def test_an_image_in_dram_becomes_the_shards_of_the_port(pool):
    """ResNet-50's first convolution: 16 x 112 x 112 rows of 64 channels, 3,136 for each core. With blocks as high as that, the
    program would reach into the map; the port folds the image first, the plan lowers the blocks."""
    trace = recording(nn.Conv2d(3, 64, 7, 2, 3), (16, 3, 224, 224))
    seen = tried(pool, trace, maps((16, 3, 224, 224), DRAM, Layout.ROW_MAJOR))
    heights = {
        thawed(dict(choice.settings)["conv_config"]).get("act_block_h_override")
        for choice, x in seen
        if x.failure is None and x.results[0].form.memory == shards(HEIGHT, (3136, 64), (8, 8))
    }
    assert heights - {None}
    assert all(3136 % height == 0 and height % 32 == 0 for height in heights - {None})


def test_rows_in_dram_become_tiles_in_l1(pool):
    """32 channels are complete tiles, for which the weights are prepared. DRAM is read once: rows and weights."""
    shape, trace = (1, 32, 32, 32), recording(nn.Conv2d(32, 32, 3, padding=1, bias=False), (1, 32, 32, 32))
    outcomes = [x for _, x in tried(pool, trace, maps(shape, DRAM, Layout.ROW_MAJOR)) if x.failure is None]
    rows, weights = 1024 * 32 * 2, 9 * 32 * 32 * 2
    assert min(x.traffic.dram_bytes for x in outcomes) == rows + weights


def test_channels_are_joined_in_shards(pool):
    """YOLOv8s joins three maps of 32 channels in shards of 416 rows on 62 cores, without program buffers."""
    trace = recording(Net(lambda m, *x: torch.cat(x, 1)), *[(1, 32, 160, 160)] * 3)
    part = maps((1, 32, 160, 160), shards(HEIGHT, (416, 32), 62))
    joined = shards(HEIGHT, (416, 96), 62)
    (outcome,) = (x for _, x in tried(pool, trace, part, part, part) if x.results and x.results[0].form.memory == joined)
    assert (outcome.traffic.dram_bytes, outcome.traffic.reshard_bytes, outcome.program_bytes) == (0, 0, 0)
    assert outcome.l1_peak_bytes == 416 * 96 * 2 * 2  # operands and result


def test_halves_of_channels_stay_in_shards(pool):
    trace = recording(Net(lambda m, x: x.chunk(2, 1)[0] * 2 + x.chunk(2, 1)[1]), (1, 64, 160, 160))
    half = shards(HEIGHT, (416, 32), 62)
    assert half in reached(pool, trace, maps((1, 64, 160, 160), shards(HEIGHT, (416, 64), 62)))


def test_a_map_is_enlarged_in_shards_of_complete_rows(pool):
    """20 rows of 20 pixels on 20 cores, each of which writes two rows of 40."""
    trace = recording(nn.Upsample(scale_factor=2), (1, 512, 20, 20))
    rows = maps((1, 512, 20, 20), shards(HEIGHT, (20, 512), 20), Layout.ROW_MAJOR)
    assert shards(HEIGHT, (80, 512), 20) in reached(pool, trace, rows)


def test_few_choices_are_offered():
    """The search tries each one for each way in which the operands may be."""
    for module, shape, operand, _ in PORTS:
        planned = planned_steps(recording(module, shape))[0]
        for memory in (operand, L1, DRAM):
            assert len(offered(planned, {0: Held(maps(shape, memory))}, BOARD)) <= 10


def test_a_reshard_within_a_convolution_is_counted(pool):
    """Height shards on 56 cores become block shards before the call gathers: 3,136 x 256 elements of 2 B are written."""
    shape = (4, 256, 28, 28)
    trace = recording(nn.Conv2d(256, 256, 3, padding=1), shape)
    seen = tried(pool, trace, maps(shape, shards(HEIGHT, (64, 256), 49)))
    moved = [
        x for _, x in seen if x.results and x.results[0].form.memory.shard and x.results[0].form.memory.shard.kind is BLOCK
    ]
    assert moved
    assert {x.traffic.reshard_bytes for x in moved if x.traffic.changes == 1} == {4 * 28 * 28 * 256 * 2}


# What TTNN says, and what is computed -----------------------------------------------------------------------------------------


class Maps(nn.Module):
    """A U-Net of two levels, with a pool, halves of channels, a residual, a depthwise and a strided convolution."""

    def __init__(self):
        super().__init__()
        self.first, self.down = nn.Conv2d(3, 32, 3, padding=1), nn.Conv2d(32, 64, 3, 2, 1)
        self.point, self.depth = nn.Conv2d(64, 64, 1), nn.Conv2d(32, 32, 3, padding=1, groups=32)
        self.up, self.last = nn.ConvTranspose2d(64, 32, 2, 2), nn.Conv2d(96, 32, 3, padding=2, dilation=2)

    def forward(self, x):
        x = F.relu(self.first(x))
        y = F.max_pool2d(self.down(x), 3, 1, 1)
        y = y + self.point(y)
        a, b = y.chunk(2, 1)
        z = torch.cat((self.depth(a), b), 1)
        return self.last(torch.cat((x, self.up(z), F.interpolate(a, scale_factor=2)), 1)).mean((2, 3))


MODELS = {
    "maps": (Maps(), (2, 3, 32, 32)),
    "rows": (nn.Sequential(nn.Conv1d(64, 64, 3, padding=1), nn.ReLU(), nn.Conv1d(64, 32, 5, 2)), (1, 64, 320)),
    "points": (nn.Sequential(nn.Conv2d(32, 64, 3, 2, 1), nn.AdaptiveAvgPool2d(1), nn.Conv2d(64, 32, 1)), (1, 32, 56, 56)),
}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", MODELS)
def test_any_choices_compute_the_model(name, seed, pool):
    """Choices at random among those that TTNN accepts: the run of the complete model accepts them as well, and what the steps
    move then is what each moves alone."""
    model, shape = MODELS[name]
    made = recorded(model, shape)
    trace, rng = rewritten(made.trace, POLICY), random.Random(seed)
    walk = walked(pool, trace, POLICY, rng.choice)
    assert close(run_in_torch(made, POLICY, choices=walk.choices)[0], made.results())
    result = pool.run(PlanTask(trace, POLICY, L1_SMALL_BYTES, inside=True, choices=walk.choices)).result()
    assert result.status is Status.FITS, result.message
    alone = {number: x.traffic.dram_bytes for number, x in walk.outcomes.items()}
    assert {use.number: use.dram_moved_bytes for use in result.steps} == alone


def least_moved(calls):
    return min(calls, key=lambda tried: tried[1].traffic.cost)


def test_what_ttnn_rejects_of_the_offers_lacks_memory(pool):
    """Or is a rule of TTNN's for shards that only the call itself knows, which then is another choice's."""
    rejected = []
    for model, shape in MODELS.values():
        walk = walked(pool, recording(model, shape), POLICY, least_moved)
        rejected += [x for x in walk.rejected if x[0] in ("convolution", "conv_transpose2d", "max_pool2d")]
    memory = {Resource.L1_BUFFER, Resource.CIRCULAR_BUFFER, Resource.CLASH, Resource.FRAGMENTATION}
    assert {verdict.resource for _, _, verdict in rejected} <= memory, rejected


def test_a_choice_that_is_not_ttnns_is_told_from_one_that_is(pool):
    """The probe states TTNN's own error: a pool takes no kind of shards for shards."""
    trace = recording(nn.MaxPool2d(2), (1, 32, 16, 16))
    form = maps((1, 32, 16, 16), shards(HEIGHT, (32, 32), 8))
    choice = StepChoice(memory=None, settings=(("applied_shard_scheme", "HEIGHT_SHARDED"),))
    probe = StepProbe(
        single_step(trace, trace.steps[0]), POLICY, frozenset(), (StepRequest(((0, form),), choice),), L1_SMALL_BYTES
    )
    (outcome,) = pool.run(probe).result()
    assert "sharding scheme should not be specified for a sharded input" in outcome.failure.message
