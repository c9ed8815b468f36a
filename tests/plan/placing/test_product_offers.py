"""What is offered for products, normalizations, attention and element-wise calls.

The shards that hand-written ports use are written out from their records, with the batch and images that they ran; the program
configs from arithmetic. What TTNN accepts is decided by TTNN on the virtual device.
"""

from itertools import product

import pytest

from ssinghal.capture.trace import Step, Trace, Value, ValueKind
from ssinghal.core.boards import load_board
from ssinghal.core.memory_config import BufferType, Cores, MemoryConfig, Sharding, ShardKind, ShardSpec
from ssinghal.core.sharding import complete, memory_request
from ssinghal.core.tensors import DType, Layout, TensorSpec
from ssinghal.core.verdict import Status
from ssinghal.device.modes import choose_device
from ssinghal.plan.axis_layout import AxisLayout
from ssinghal.plan.lowering import planned_steps
from ssinghal.plan.placement import DRAM, L1, Form, Held, StepChoice
from ssinghal.plan.placing.candidates import offered
from ssinghal.plan.placing.matmul_programs import Blocking, Product, over_columns, over_grid, over_rows, subblock
from ssinghal.plan.placing.probing import StepProbe, StepRequest
from ssinghal.plan.policy import POLICIES
from ssinghal.runner.pool import Pool
from ssinghal.runner.tasks import PoolOptions

N150 = load_board("n150")


def traced(overload, shapes, result, args=(), **kinds):
    """Returns a trace of one call. ``shapes``: by operand. ``kinds``: of those that are no activations."""
    kinds_in_order = [kinds.get(name, ValueKind.INPUT) for name in shapes]
    values = [
        Value(tuple(shape), "bfloat16", kind, number)
        for number, (shape, kind) in enumerate(zip(shapes.values(), kinds_in_order, strict=True))
    ]
    values.append(Value(tuple(result), "bfloat16", ValueKind.ACTIVATION, len(values)))
    operands = dict(zip(shapes, range(len(shapes)), strict=True))
    if overload == "aten.cat.default":
        operands = {"tensors": tuple(operands.values())}
    step = Step(overload, operands, dict(args), (len(shapes),), "")
    head = {"model": {"factory": ""}, "input": {"shapes": [], "dtype": "bfloat16"}, "capture": {}}
    return Trace(head, tuple(values), (step,), step.results)


WEIGHTS = {"weight": ValueKind.WEIGHT, "bias": ValueKind.WEIGHT}


def linear(shape, columns):
    shapes = {"input": shape, "weight": (columns, shape[-1]), "bias": (columns,)}
    return traced("aten.linear.default", shapes, (*shape[:-1], columns), **WEIGHTS)


def layer_norm(shape):
    size = shape[-1:]
    args = {"normalized_shape": list(size), "eps": 1e-6}
    return traced("aten.layer_norm.default", {"input": shape, "weight": size, "bias": size}, shape, args, **WEIGHTS)


def unary(name, shape, **args):
    return traced(f"aten.{name}", {"self": shape}, shape, args)


def add(shape):
    return traced("aten.add.Tensor", {"self": shape, "other": shape}, shape)


def placed(text):
    """Returns the memory that a text names, with complete shards where it has any."""
    request = memory_request(text)
    if request.sharding is None:
        return request.interleaved
    return MemoryConfig(request.buffer, ShardSpec(request.sharding.kind, request.sharding.shape, request.sharding.cores))


def held(memory, shape):
    return Held(Form(memory, tuple(shape), DType.BFLOAT16, Layout.TILE, AxisLayout.plain(shape)))


def offers(trace, *memories, board=N150):
    """Returns the choices for operands of the first shapes in these memories."""
    (planned,) = planned_steps(trace)
    return offered(planned, {i: held(m, trace.values[i].shape) for i, m in enumerate(memories)}, board)


# What ports do ----------------------------------------------------------------------------------------------------------------

VIT = (8, 197, 768)  # batch 8 of ViT-base: 8 images of 197 tokens, each padded to 224
WIDE = (8, 197, 3072)
# operator, the memory of its operands, and that of its result, in the record of the port
PORTS = {
    "vit: query, key and value": (linear(VIT, 2304), ["l1:block@8x8:224x96"], "l1:block@8x8:224x288"),
    "vit: projection": (linear(VIT, 768), ["l1:block@8x8:224x96"], "l1:block@8x8:224x96"),
    "vit: mlp, wider": (linear(VIT, 3072), ["l1:block@8x8:224x96"], "l1:block@8x8:224x384"),
    "vit: mlp, narrower": (linear(WIDE, 768), ["l1:block@8x8:224x384"], "l1:block@8x8:224x96"),
    "vit: norm": (layer_norm(VIT), ["l1:block@8x8:224x96"], "l1:block@8x8:224x96"),
    "vit: into blocks": (layer_norm(VIT), ["l1"], "l1:block@8x8:224x96"),
    "vit: gelu": (unary("gelu.default", WIDE), ["l1:block@8x8:224x384"], "l1:block@8x8:224x384"),
    "vit: residual": (add(VIT), ["l1:block@8x8:224x96"] * 2, "l1:block@8x8:224x96"),
    "vit: head": (linear((8, 224, 768), 1152), ["l1:block@6x8:224x128"], "l1:block@6x8:224x192"),
    "resnet50: classes": (linear((16, 2048), 1000), ["l1:width@8x4:32x64"], "l1:width@8x4:32x32"),
    "resnet50: residual": (add((1, 1, 50176, 256)), ["l1:height@8x7:896x256"] * 2, "l1:height@8x7:896x256"),
    "resnet50: relu": (unary("relu.default", (1, 1, 3136, 1024)), ["l1:block@8x8:416x128"], "l1:block@8x8:416x128"),
}


@pytest.mark.parametrize("name", PORTS)
def test_what_a_port_does_is_offered(name):
    trace, operands, result = PORTS[name]
    choices = offers(trace, *map(placed, operands))
    assert any(not choice.moves and choice.memory == placed(result) for choice in choices)


def test_the_policy_port_is_always_offered():
    for trace, operands, _ in PORTS.values():
        memories = [placed(text) for text in operands]
        assert StepChoice(tuple((i, DRAM) for i in range(len(memories)))) in offers(trace, *memories)
        assert StepChoice() in offers(trace, *[DRAM] * len(memories))


def test_few_ways_are_offered():
    for trace, operands, _ in PORTS.values():
        assert 3 <= len(offers(trace, *map(placed, operands))) <= 7
        assert 3 <= len(offers(trace, *[L1] * len(operands))) <= 7


def test_products_of_interleaved_operands_state_their_program():
    """TTNN's own choice then reads the weight once for each tile of the result."""
    for choice in offers(linear(VIT, 2304), L1):
        assert bool(choice.settings) == (choice.memory != DRAM)


@pytest.mark.parametrize(
    ("shape", "shards"),
    [
        # 98 x 2 tiles: by rows 2 tiles on each of 49 cores; by both 13 x 1 on 2x8
        ((1, 1, 3136, 64), {"l1:height@0,0-7,5+0,6:64x64"}),
        # 8 x 32 tiles: by rows on 8 cores, by both 1 x 4 on 8x8
        ((1, 256, 1024), {"l1:block@8x8:32x128"}),
        # 56 x 24 tiles: by rows on 56 cores, by both 7 x 3 on 8x8
        (VIT, {"l1:height@8x7:32x768", "l1:block@8x8:224x96"}),
        ((1, 1, 32, 32), set()),
    ],
)
def test_shards_are_spread_over_at_least_half_the_cores_that_others_take(shape, shards):
    for trace in (unary("gelu.default", shape), layer_norm(shape), linear(shape, shape[-1])):
        offered_shards = {str(choice.memory) for choice in offers(trace, L1) if choice.memory.shard is not None}
        assert offered_shards == shards


# Program configs --------------------------------------------------------------------------------------------------------------


def config(settings):
    choice = StepChoice(settings=settings)
    assert list(choice.settings_of_case) == ["program_config"]
    return choice.settings_of_case["program_config"]


def test_a_program_over_a_grid():
    """8 x 224 rows and 768 x 2304 are 56 rows, 24 and 72 columns of tiles: 7 x 9 a core of 8x8, which has 3 columns of the
    operand. 9 columns do not fit into the 8 registers, so 3 at a time; 2 x 3 x (7 + 9) tiles are the 96 of blocks."""
    assert config(over_grid(Product(56, 24, 72), (8, 8), Blocking(inner_parts=8, sharded_result=True))) == {
        "type": "MatmulMultiCoreReuseMultiCastProgramConfig",
        "compute_with_storage_grid_size": [8, 8],
        "in0_block_w": 3,
        "out_subblock_h": 1,
        "out_subblock_w": 3,
        "per_core_M": 7,
        "per_core_N": 9,
        "transpose_mcast": False,
    }


def test_a_program_over_rows():
    """16384 rows of 32 channels to 128: 512 rows of tiles, 8 for each of 64 cores, with all 4 columns: 2 x 4 registers."""
    made = config(over_rows(Product(512, 1, 4), 64, (8, 8), Blocking(sharded_result=True)))
    assert made == {
        "type": "MatmulMultiCoreReuseMultiCast1DProgramConfig",
        "compute_with_storage_grid_size": [8, 8],
        "in0_block_w": 1,
        "out_subblock_h": 2,
        "out_subblock_w": 4,
        "per_core_M": 8,
        "per_core_N": 4,
        "fuse_batch": True,
        "mcast_in0": False,
    }


def test_a_program_over_columns():
    """2048 features on 32 cores, 2 columns of tiles each, to 1000 classes: 32 columns, one a core."""
    made = config(over_columns(Product(1, 64, 32), 32, (8, 8), Blocking(inner_parts=32, sharded_result=True)))
    assert (made["per_core_M"], made["per_core_N"], made["in0_block_w"], made["mcast_in0"]) == (1, 1, 2, True)


def test_a_large_interleaved_result_is_computed_in_blocks():
    """100 x 8 tiles are more than the 96 that a block may take: 10 rows of 8 are not."""
    made = config(over_rows(Product(6400, 1, 8), 64, (8, 8), Blocking()))
    assert (made["per_core_M"], made["per_core_N"]) == (100, 8)
    assert (made["out_block_h"], made["out_block_w"]) == (10, 8)
    held_at_once = config(over_rows(Product(6400, 1, 8), 64, (8, 8), Blocking(sharded_result=True)))
    assert "out_block_h" not in held_at_once


@pytest.mark.parametrize("whole_rows", [True, False])
def test_subblocks_divide_the_block_and_fit_the_registers(whole_rows):
    for rows, columns in product(range(1, 20), repeat=2):
        high, wide = subblock(rows, columns, whole_rows=whole_rows)
        assert rows % high == 0 == columns % wide
        assert high * wide <= 8
        assert not whole_rows or high == 1 or wide == columns


# What TTNN takes --------------------------------------------------------------------------------------------------------------

SHAPES = {
    "vit": linear(VIT, 2304),
    "vit, one image": linear((1, 197, 768), 3072),
    "segformer, long": linear((1, 16384, 32), 128),
    "segformer, to as few channels as tiles": linear((1, 16384, 128), 32),
    "segformer, five tiles": linear((1, 1024, 160), 640),
    "swin, merged": linear((1, 784, 512), 256),
    "classes": linear((8, 2048), 1000),
    "padded": linear((33, 1000), 70),
    "norm": layer_norm(VIT),
    "norm, few channels": layer_norm((1, 16384, 32)),
    "norm, one row": layer_norm((1, 1024)),
    "gelu": unary("gelu.default", (1, 784, 1024)),
    "add": add((1, 256, 256)),
    "softmax": unary("softmax.int", (4, 12, 49, 49), dim=-1),
    "softmax, wide": unary("softmax.int", (1, 8, 1000), dim=-1),
}


def memories(shape, board):
    spec = TensorSpec(shape, DType.BFLOAT16, Layout.TILE)
    kinds = [ShardKind.HEIGHT, ShardKind.BLOCK]
    kinds += [ShardKind.WIDTH] if spec.padded_2d[0] <= 256 else []
    return [DRAM, L1, *(complete(spec, BufferType.L1, Sharding(kind), board).memory for kind in kinds)]


@pytest.fixture(scope="module", params=["n150", "p150"])
def device(request):
    with Pool(choose_device("virtual", request.param), PoolOptions()) as pool:
        yield load_board(request.param), pool


def tried(pool, trace, operands, choices):
    requests = tuple(StepRequest(tuple((i, x.form) for i, x in operands.items()), choice) for choice in choices)
    return pool.run(StepProbe(trace, POLICIES["l1"], frozenset(), requests, 32768)).result()


@pytest.mark.virtual_device
@pytest.mark.parametrize("name", SHAPES)
def test_ttnn_takes_what_is_offered_unless_memory_lacks(name, device):
    (board, pool), trace = device, SHAPES[name]
    (planned,) = planned_steps(trace)
    count = sum(value.kind is ValueKind.INPUT for value in trace.values)
    accepted = 0
    for combination in product(memories(trace.values[0].shape, board), repeat=count):
        operands = {i: held(memory, trace.values[i].shape) for i, memory in enumerate(combination)}
        choices = offered(planned, operands, board)
        for choice, outcome in zip(choices, tried(pool, trace, operands, choices), strict=True):
            where = f"{[str(m) for m in combination]} -> {choice}"
            if outcome.failure is not None:
                assert outcome.failure.status is Status.OOM, f"{where}: {outcome.failure.message}"
                continue
            accepted += 1
            assert outcome.results[0].form.memory == choice.memory, where
    assert accepted >= 8


@pytest.mark.virtual_device
def test_a_product_in_blocks_needs_its_program_and_three_shards(device):
    """Blocks of 7 x 3 tiles and of 7 x 9: 84 tiles of 2,048 B. Of the program, the weights alone take 2 x 3 x 9 tiles."""
    board, pool = device
    if board.name != "n150":
        pytest.skip("the shards are those of 8x8 cores")
    trace, operands, result = PORTS["vit: query, key and value"]
    where = {0: held(placed(operands[0]), VIT)}
    choice = next(c for c in offers(trace, placed(operands[0])) if c.memory == placed(result))
    (outcome,) = tried(pool, trace, where, [choice])
    assert outcome.l1_peak_bytes == 84 * 2048 + outcome.program_bytes
    assert outcome.program_bytes >= 2 * 3 * 9 * 2048
    assert outcome.traffic.reshard_bytes == 0
    # 768 x 2304 weights and a bias of one row of tiles
    assert outcome.traffic.dram_bytes == (24 * 72 + 72) * 2048


@pytest.mark.virtual_device
def test_a_constant_is_converted_beside_the_results(device):
    """The class token [2, 1, 64] is read from DRAM in two images of two tiles, and turned into rows in L1."""
    _, pool = device
    shapes = {"token": (2, 1, 64), "x": (2, 32, 64)}
    trace = traced("aten.cat.default", shapes, (2, 33, 64), {"dim": 1}, token=ValueKind.WEIGHT)
    (outcome,) = tried(pool, trace, {1: held(L1, (2, 32, 64))}, [StepChoice(memory=L1)])
    assert outcome.failure is None
    assert outcome.traffic.dram_bytes == 2 * 2 * 2048


def test_memories_are_written_as_in_the_records():
    """HEIGHT, WIDTH and BLOCK with the shard of a core in elements: what the other tests rest on."""
    blocks = placed("l1:block@8x8:224x96")
    assert isinstance(blocks, MemoryConfig)
    assert (blocks.shard.kind, blocks.shard.shape, blocks.shard.cores) == (ShardKind.BLOCK, (224, 96), Cores.grid(8, 8))
