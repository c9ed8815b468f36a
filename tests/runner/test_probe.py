"""Ways in which a probe of TTNN could be wrong, each ruled out by ``probe``, tested on the real allocator."""

import json

import pytest

from ssinghal.core.case import OperandPlacement, OutputMemory, Placement
from ssinghal.core.estimate import Prediction
from ssinghal.core.memory_config import Sharding
from ssinghal.core.tensors import BufferType, DType, Layout, ShardKind
from ssinghal.core.verdict import Resource, Status
from ssinghal.device.modes import choose_device
from ssinghal.estimation.estimator import estimate
from ssinghal.operators import make_case
from ssinghal.runner.pool import Pool
from tests.device.test_session import in_process

pytestmark = pytest.mark.virtual_device

L1 = Placement(memory=BufferType.L1)
L1_BANK = 1_393_312  # an n150's L1 bank on ttnn 0.81.1 with l1_small_size 0
DRAM_BANK = 1_072_693_184


@pytest.fixture(scope="module")
def pool():
    with Pool(choose_device("virtual", "n150")) as opened:
        yield opened


def probe(pool, name, *shapes, placement=L1, **attrs):
    return pool.submit(make_case(name, shapes, attrs, placement)).result()


def test_the_hardware_log_of_add(pool):
    """A Wormhole card, August 2025: 34,078,720 B over 64 banks for the sum of two [1,64,640,400], placed channels-last."""
    placement = Placement(memory=BufferType.L1, channels_last=True)
    record = probe(pool, "add", (1, 64, 640, 400), (1, 64, 640, 400), placement=placement)
    verdict = record.verdict
    assert (verdict.status, verdict.resource, verdict.stage) == (Status.OOM, Resource.L1_BUFFER, "output")
    assert (verdict.total_bytes, verdict.bytes_per_bank, verdict.banks) == (34078720, 532480, 64)
    assert (verdict.allocated_bytes, verdict.free_bytes) == (2 * 532480, L1_BANK - 2 * 532480)
    assert verdict.shortfall_bytes == 532480 - (L1_BANK - 2 * 532480)
    assert [t.booked_bytes for t in record.tensors] == [532480, 532480]
    # what the whole call would have held, from the capture: three tensors, and 2 pages of 2048 B for each of them
    assert (record.usage.l1_bytes, record.usage.circular_bytes) == (3 * 532480, 6 * 2048)


def test_operands_are_distinct_tensors(pool):
    record = probe(pool, "add", (1, 1, 2048, 32), (1, 1, 2048, 32))
    assert record.resident == {"l1": 3 * 2048}  # 64 tiles each: one per bank


@pytest.mark.parametrize(
    ("requested", "buffer"),
    [(OutputMemory.SAME, "l1"), (OutputMemory.L1, "l1"), (OutputMemory.DRAM, "dram"), (OutputMemory.TTNN, "dram")],
)
@pytest.mark.parametrize(("name", "second"), [("mm", (64, 64)), ("cat", (64, 64))])
def test_where_the_result_goes_is_requested_and_recorded(pool, name, second, requested, buffer):
    """Without a request TTNN puts results of matmul and concat into DRAM, wherever their operands are."""
    shapes = ((64, 64), second)
    record = probe(pool, name, *shapes, placement=Placement(memory=BufferType.L1, output_memory=requested))
    assert record.status is Status.FITS
    assert record.tensors[-1].memory == buffer
    assert record.output_memory == requested.value


def test_a_result_in_another_memory_than_requested_names_it(pool):
    record = probe(pool, "stack", (64, 64), (64, 64), dim=0)
    assert (record.status, record.tensors[-1].memory) == (Status.FITS, "dram")
    assert record.verdict.message == "ttnn.stack takes no memory_config: the result went to dram, not l1"
    assert probe(pool, "relu", (64, 64)).verdict.message == ""


def test_l1_small_is_for_operators_that_need_it_and_part_of_the_identity(pool):
    too_big = (1, 1, 32, 64 * 32 * 700)  # 700 tiles per bank
    plain = probe(pool, "relu", too_big)
    cut = probe(pool, "relu", too_big, placement=Placement(memory=BufferType.L1, l1_small_bytes=32768))
    assert (plain.verdict.bank_bytes, cut.verdict.bank_bytes) == (L1_BANK, L1_BANK - 32768)
    assert plain.key != cut.key
    pooled = make_case("max_pool2d", ((1, 64, 56, 56),), {"kernel_size": [3, 3], "stride": [2, 2], "padding": [1, 1]})
    assert pooled.placement.l1_small_bytes == 32768
    assert make_case("relu", ((1, 1, 32, 32),)).placement.l1_small_bytes == 0
    assert pool.submit(pooled).result().status is Status.FITS


def test_a_pool_without_l1_small_is_not_an_oom_of_l1(pool):
    placement = Placement(layout=Layout.ROW_MAJOR, l1_small_bytes=0)
    attrs = {"kernel_size": [3, 3], "stride": [2, 2], "padding": [1, 1]}
    record = probe(pool, "max_pool2d", (1, 64, 56, 56), placement=placement, **attrs)
    assert (record.status, record.verdict.resource) == (Status.OOM, Resource.L1_SMALL_BUFFER)


def test_the_program_cache_does_not_fill_l1_small(pool):
    """Each pool shape leaves a config tensor in L1_SMALL; without clearing, the 144th shape would run out of it."""
    attrs = {"kernel_size": [2, 2], "stride": [2, 2]}
    for channels in range(32, 32 + 160):
        case = make_case("max_pool2d", ((1, channels, 8, 8),), attrs, Placement(layout=Layout.ROW_MAJOR))
        record = pool.submit(case).result()
        assert (record.status, record.left_allocated) == (Status.FITS, {}), channels


@pytest.mark.parametrize("name", ["relu", "silu_", "softmax", "view", "topk", "cat", "mean", "native_batch_norm"])
def test_the_device_is_empty_after_success_and_failure(pool, name):
    attrs = {"softmax": {"dim": -1}, "view": {"size": [32, 64, 64]}, "topk": {"k": 4}, "mean": {"dim": [-1]}}.get(name, {})
    small, huge = (1, 32, 64, 64), (1, 32, 6400, 6400)
    if name == "view":
        records = [probe(pool, name, small, **attrs), probe(pool, name, huge, size=[32, 6400, 6400])]
    elif name == "native_batch_norm":
        stats = ((32,),) * 4
        attrs = {"training": False, "momentum": 0.1, "eps": 1e-5}
        records = [probe(pool, name, small, *stats, **attrs), probe(pool, name, huge, *stats, **attrs)]
    else:
        count = 2 if name == "cat" else 1
        records = [probe(pool, name, *((small,) * count), **attrs), probe(pool, name, *((huge,) * count), **attrs)]
    assert [r.status for r in records] == [Status.FITS, Status.OOM]
    assert [r.left_allocated for r in records] == [{}, {}]
    full = probe(pool, "place", (1, 1, 32, 64 * 32 * 680))  # 680 tiles of 2048 B in each bank of 1,393,312 B: all but one page
    assert (full.status, full.resident) == (Status.FITS, {"l1": 680 * 2048})


def test_page_counts_that_wrap_never_reach_ttnn(pool):
    """2^32 rows of 32 B: TTNN's own allocator "needs" 32 B per bank for them."""
    placement = Placement(memory=BufferType.DRAM, layout=Layout.ROW_MAJOR)
    record = probe(pool, "relu", (65536, 65536, 16), placement=placement)
    verdict = record.verdict
    assert (verdict.status, verdict.resource, verdict.stage) == (Status.OOM, Resource.DRAM_BUFFER, "input 1")
    assert (verdict.total_bytes, verdict.bytes_per_bank) == (2**32 * 32, -(-(2**32) // 12) * 32)
    assert verdict.decided_by == "arithmetic"


def test_usage_includes_buffers_that_a_program_keeps(pool, tmp_path):
    """A pool's tables in L1_SMALL, a reshape's page map in DRAM: as the allocator shows after the calls, with live operands."""
    code = """
        with Session(choice, l1_small_bytes=32768) as session:
            ttnn, device = session.ttnn, session.device
            allocated = lambda kind: ttnn.get_memory_view(device, kind).total_bytes_allocated_per_bank
            form = {"dtype": ttnn.bfloat16, "device": device, "memory_config": ttnn.DRAM_MEMORY_CONFIG}
            x = ttnn.empty([1, 1, 56 * 56, 64], layout=ttnn.TILE_LAYOUT, **form)
            sizes = {"batch_size": 1, "input_h": 56, "input_w": 56, "channels": 64}
            windows = {"kernel_size": [3, 3], "stride": [2, 2], "padding": [1, 1], "dilation": [1, 1]}
            y = ttnn.max_pool2d(x, **sizes, **windows, memory_config=ttnn.DRAM_MEMORY_CONFIG)
            print(allocated(ttnn.BufferType.L1_SMALL))
        with Session(choice) as session:
            form["device"] = session.device
            device = session.device
            x = ttnn.empty([1, 64, 56, 56], layout=ttnn.TILE_LAYOUT, **form)
            y = ttnn.reshape(x, [64, 3136])
            print(allocated(ttnn.BufferType.DRAM))
    """
    done = in_process(code, tmp_path)
    kept, taken = map(int, done.stdout.split())
    attrs = {"kernel_size": [3, 3], "stride": [2, 2], "padding": [1, 1], "dilation": [1, 1]}
    pooled = probe(pool, "max_pool2d", (1, 64, 56, 56), placement=Placement(), **attrs)
    assert pooled.usage.l1_small_bytes == kept > 0, done.stderr
    viewed = probe(pool, "view", (1, 64, 56, 56), placement=Placement(), size=[64, 3136])
    # 64 * 2 * 2 tiles and 2 * 98 tiles over 12 banks, and the map
    assert viewed.usage.dram_bytes == taken > (22 + 17) * 2048


def test_windows_of_millions_of_rows_are_listed_once(pool):
    placement = Placement(layout=Layout.ROW_MAJOR)
    large, small = (probe(pool, "convolution", (1, 3, size, size), (32, 3, 1, 1), placement=placement) for size in (1024, 992))
    assert [large.status, small.status] == [Status.FITS, Status.FITS]
    assert (large.usage, small.usage_note) == (None, "")
    assert large.usage_note == "not captured: TTNN lists windows for 1,048,576 rows on the host for this call"
    assert small.usage.dram_bytes > 0


def test_page_counts_of_a_result_that_wrap_never_reach_ttnn(pool):
    placement = Placement(layout=Layout.ROW_MAJOR, output_memory=OutputMemory.DRAM)
    record = probe(pool, "repeat", (1, 1, 65536, 16), placement=placement, repeats=[1, 65536, 1, 1])
    assert (record.status, record.verdict.stage, record.verdict.decided_by) == (Status.OOM, "output", "arithmetic")


def test_an_operand_that_does_not_fit_is_an_oom_whatever_the_call(pool):
    """On a card the operands are placed before the call; an invalid call is found only after that."""
    assert probe(pool, "topk", (1, 64, 64)).status is Status.INVALID
    record = probe(pool, "topk", (1, 96, 2160, 3840))
    assert (record.status, record.verdict.stage) == (Status.OOM, "input 1")


def test_a_call_that_ttnn_rejects_is_not_an_oom(pool):
    record = probe(pool, "as_strided", (64, 64), size=[32, 32], stride=[1, 1])
    assert (record.status, record.verdict.decided_by) == (Status.UNSUPPORTED, "registry")
    assert record.verdict.message


def test_stages_name_operand_result_and_program(pool):
    assert probe(pool, "add", (1, 1, 32, 64 * 32 * 400), (1, 1, 32, 64 * 32 * 400)).verdict.stage == "input 2"
    assert probe(pool, "relu", (1, 1, 32, 64 * 32 * 400)).verdict.stage == "output"
    clash = probe(pool, "add", (1, 1, 32, 64 * 32 * 226), (1, 1, 32, 64 * 32 * 226))
    # 3 x 226 tiles of 2048 B leave 1,393,312 - 1,388,544 = 4,768 B of L1 below the tensors; the program needs 12,288 B
    assert (clash.verdict.stage, clash.verdict.resource) == ("program", Resource.CLASH)
    assert clash.verdict.shortfall_bytes is not None
    assert clash.verdict.shortfall_bytes > 0


def test_a_virtual_record_never_claims_numerics(pool):
    record = probe(pool, "relu", (1, 1, 64, 64)).to_json()
    assert (record["device_mode"], record["numerics"], record["comparison"]) == ("virtual", "not run", None)


def test_dram_is_counted_too(pool):
    record = probe(pool, "relu", (1, 96, 2160, 3840), placement=Placement())
    pages = 96 * 68 * 120  # 2160 and 3840 in tiles of 32
    booked = -(-pages // 12) * 2048
    assert (record.status, record.resident) == (Status.FITS, {"dram": 2 * booked})
    assert record.usage.dram_bytes == 2 * booked < DRAM_BANK
    assert record.tensors[0].logical_bytes == 96 * 2160 * 3840 * 2
    assert record.allocated_to_logical == round(68 * 32 / 2160, 4)


def test_a_slow_call_whose_result_cannot_fit_is_an_oom(pool):
    """A user's report: [160,100,512] viewed as [160,100,512,1,1] takes a tile for every value, 160*100*512*2048 B of DRAM."""
    record = probe(pool, "view", (160, 100, 512), placement=Placement(), size=[160, 100, 512, 1, 1])
    assert (record.status, record.verdict.resource, record.verdict.stage) == (Status.OOM, Resource.DRAM_BUFFER, "output")
    assert record.verdict.total_bytes == 160 * 100 * 512 * 2048


def test_a_created_tensor_may_take_all_of_l1(pool):
    """680 tiles of 2048 B of 1,393,312 B in each bank: ttnn.ones copies them from the host and runs no program."""
    record = probe(pool, "ones", size=[1, 1, 32, 64 * 32 * 680])
    assert (record.status, record.resident) == (Status.FITS, {"l1": 680 * 2048})


@pytest.mark.parametrize(
    ("shape", "dim", "status"), [((2, 3, 64, 64), -1, Status.FITS), ((2, 3, 64, 64), 1, Status.UNSUPPORTED)]
)
def test_softmax_of_row_major_returns_tiles_where_ttnn_takes_it(pool, shape, dim, status):
    record = probe(pool, "softmax", shape, placement=Placement(layout=Layout.ROW_MAJOR), dim=dim)
    assert record.status is status
    assert status is Status.UNSUPPORTED or record.tensors[-1].layout == "tile"


def test_topk_along_another_dim_goes_to_the_requested_memory(pool):
    placement = Placement(memory=BufferType.L1, output_memory=OutputMemory.DRAM)
    record = probe(pool, "topk", (5, 2208), placement=placement, k=1, dim=0)
    assert (record.status, [t.memory for t in record.tensors]) == (Status.FITS, ["l1", "dram", "dram"])


def test_a_temporary_is_not_mistaken_for_a_result(pool):
    """400 tiles of 2048 B in each bank, and as many for the squares, where 1,393,312 B are; the norms are a tile."""
    record = probe(pool, "linalg_vector_norm", (1, 1, 32, 64 * 32 * 400), ord=2, dim=[-1], keepdim=True)
    assert (record.status, record.verdict.stage, record.verdict.bytes_per_bank) == (Status.OOM, "intermediate", 400 * 2048)


def test_results_are_compared_with_what_was_requested(tmp_path):
    """Declarations of relu with one error each; and one whose call keeps a tensor."""
    code = """
        from dataclasses import replace
        import ssinghal.operators.binding
        import ssinghal.runner.probe
        from ssinghal.core.case import Placement
        from ssinghal.operators import find_operator, make_case
        from ssinghal.core.tensors import BufferType, DType, Layout

        relu, kept = find_operator("relu"), []
        trait = lambda **changes: replace(relu, traits=replace(relu.traits, **changes))
        keep = lambda c: kept.append(c.ttnn.clone(c.inputs[0])) or c.ttnn.relu(c.inputs[0], **c.out)
        wrong = {
            "dtype": trait(output_dtypes=(DType.FLOAT32,)),
            "layout": trait(output_layout=Layout.ROW_MAJOR),
            "memory": replace(relu, call=lambda c: c.ttnn.relu(c.inputs[0], memory_config=c.ttnn.DRAM_MEMORY_CONFIG)),
            "shape": replace(relu, infer=lambda shapes, attrs: [(64, 32)]),
            "count": replace(relu, infer=lambda shapes, attrs: [shapes[0], shapes[0]]),
            "kept": replace(relu, call=keep),
            "after": relu,
        }
        case = make_case("relu", ((64, 64),), {}, Placement(memory=BufferType.L1))
        with Session(choice) as session:
            for name, info in wrong.items():
                ssinghal.operators.binding.find_operator = lambda _: info
                record = ssinghal.runner.probe.probe(case, session)
                print(json.dumps([name, record.status, record.verdict.message, dict(record.left_allocated)]))
    """
    done = in_process(code, tmp_path)
    found = {name: rest for name, *rest in map(json.loads, done.stdout.splitlines())}
    assert found == {
        "dtype": ["mismatch", "TTNN returned dtype bfloat16; expected float32", {}],
        "layout": ["mismatch", "TTNN returned layout tile; expected row_major", {}],
        "memory": ["mismatch", "TTNN returned memory dram; expected l1", {}],
        "shape": ["mismatch", "TTNN returned shape (64, 64); expected (64, 32)", {}],
        "count": ["mismatch", "TTNN returned 1 tensors; expected 2", {}],
        "kept": ["fits", "", {"l1": 2048}],  # four tiles over 64 banks
        "after": ["fits", "", {}],
    }, done.stderr


def test_usage_of_more_than_32_bits_per_bank(pool):
    """A side of the result is 1,013 tiles; TTNN's graph keeps 32 bits of its bytes per bank."""
    record = probe(pool, "bmm", (48, 32400, 32), (48, 32, 32400), placement=Placement())
    operand, result = (-(-48 * tiles // 12) * 2048 for tiles in (1013, 1013 * 1013))
    assert (record.status, record.verdict.bytes_per_bank) == (Status.OOM, result)
    assert record.usage.dram_bytes == 2 * operand + result > 2**32


def test_rows_that_an_operator_pads_are_counted_as_stored(pool):
    """conv3d to 3 channels stores rows of 32, 64 B for each of the 2 * 6 * 6 points, over twelve banks."""
    attrs = {"stride": [1, 1, 1], "padding": [0, 1, 1]}
    record = probe(pool, "convolution", (1, 32, 4, 6, 6), (3, 32, 3, 3, 3), (3,), placement=Placement(), **attrs)
    output = record.tensors[-1]
    assert (record.status, output.label, output.shape) == (Status.FITS, "output", (1, 2, 6, 6, 3))
    assert output.allocated_bytes == 2 * 6 * 6 * 64
    booked = sum(tensor.booked_bytes or 0 for tensor in record.tensors)
    assert record.resident["dram"] - booked == -(-2 * 6 * 6 // 12) * 64


@pytest.mark.parametrize(
    ("name", "attrs", "sentence"),
    [
        ("relu", {}, "ttnn.relu takes no dtype for its result; float32 is requested"),
        ("permute", {"dims": [1, 0]}, "ttnn.permute takes no dtype for its result; float32 is requested"),
        ("zero_", {}, "float32: the result is bfloat16"),
    ],
)
def test_a_dtype_that_the_function_does_not_take_is_unsupported(pool, name, attrs, sentence):
    record = probe(pool, name, (64, 96), placement=Placement(output_dtype=DType.FLOAT32), **attrs)
    assert record.status is Status.UNSUPPORTED
    assert record.verdict.message.endswith(sentence)


def test_a_dtype_that_the_function_takes_is_that_of_the_result(pool):
    record = probe(pool, "add", (64, 96), (64, 96), placement=Placement(output_dtype=DType.FLOAT32))
    assert record.status is Status.FITS
    assert record.tensors[-1].dtype == "float32"


@pytest.mark.parametrize(
    ("name", "count", "attrs", "operands", "dtype"),
    [
        ("where", 3, {}, ("float32",), "bfloat16"),  # a condition
        ("where", 3, {}, (None, "float32", "float32"), "float32"),
        ("full_like", 1, {"fill_value": 1.0}, ("bfloat8_b",), "bfloat16"),  # the call states its dtype
        ("relu", 1, {}, ("bfloat8_b",), "bfloat8_b"),
    ],
)
def test_which_operand_gives_the_result_its_dtype(pool, name, count, attrs, operands, dtype):
    own = tuple(OperandPlacement(dtype=DType(text) if text else None) for text in operands)
    record = probe(pool, name, *((64, 96),) * count, placement=Placement(operands=own), **attrs)
    assert (record.status, record.tensors[-1].dtype) == (Status.FITS, dtype)


def test_placed_tensors_of_mixed_layouts_have_no_result(pool):
    record = probe(pool, "place", (64, 96), placement=Placement(operands=(OperandPlacement(layout=Layout.ROW_MAJOR),)))
    assert (record.status, [tensor.layout for tensor in record.tensors]) == (Status.FITS, ["row_major"])


@pytest.mark.parametrize("name", ["add", "maximum", "logical_and"])
def test_the_layout_of_a_result_of_mixed_layouts_is_recorded(pool, name):
    placement = Placement(operands=(OperandPlacement(layout=Layout.ROW_MAJOR),))
    record = probe(pool, name, (64, 96), (64, 96), placement=placement)
    assert (record.status, record.tensors[-1].layout) == (Status.FITS, "tile")
    assert record.verdict.message == "the result is in tile layout, not row_major"


@pytest.mark.parametrize(
    ("name", "attrs"),
    [("cat", {"dim": 1}), ("expand", {"size": [1, 512, 20, 20]}), ("view", {"size": [512, 20, 20]}), ("slice", {"dim": 1})],
)
def test_the_estimate_claims_no_copy_where_ttnn_returns_a_sharded_operand(pool, name, attrs):
    """16,384 rows of 32 in one core take 1 MiB, more than half of its L1, and the call allocates nothing."""
    placement = Placement(memory=BufferType.L1, sharding=Sharding(ShardKind.WIDTH))
    case = make_case(name, ((1, 512, 20, 20),), attrs, placement)
    assert pool.submit(case).result().status is Status.FITS
    assert estimate(case, pool.facts.opened_board).verdict is Prediction.UNKNOWN


@pytest.mark.parametrize(
    ("name", "shapes", "attrs", "sentence"),
    [
        (
            "rotary_embedding_llama",
            ((1, 16, 128, 64), (1, 1, 128, 64), (1, 1, 128, 64), (1, 1, 64, 64)),
            {},
            "Transformation matrix must have 4th dim equal to TILE_WIDTH",
        ),
        ("nlp_concat_heads_decode", ((1, 8, 8, 64),), {"num_heads": 8}, "Input tensor must be sharded"),
    ],
)
def test_a_rule_of_a_function_that_ttnn_alone_has_is_unsupported(pool, name, shapes, attrs, sentence):
    record = probe(pool, name, *shapes, placement=Placement(), **attrs)
    assert (record.status, record.verdict.message) == (Status.UNSUPPORTED, sentence)
