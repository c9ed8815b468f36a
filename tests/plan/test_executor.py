"""Plans on the virtual device: their numbers are TTNN's allocator's, and every number here is computed by hand.

An n150 has 12 banks of DRAM, of 1,072,693,184 B each. A tile of bfloat16 is 2,048 B, and the tiles of a tensor go round robin
over the banks, so 768 tiles take 64 x 2,048 B of each.
"""

import json
from dataclasses import replace

import pytest

from ssinghal.capture.trace import Step, ValueKind
from ssinghal.capture.trace_library import find_trace
from ssinghal.core.verdict import Resource, Status, Verdict
from ssinghal.device.modes import choose_device
from ssinghal.plan.executor import PlanTask
from ssinghal.plan.passes.registry import rewritten
from ssinghal.plan.planner import Plan
from ssinghal.plan.policy import POLICIES, Rewrite
from ssinghal.plan.result import Split
from ssinghal.plan.text import lines
from ssinghal.runner.pool import Pool
from ssinghal.runner.tasks import PoolOptions
from tests.support.hand_traces import Model
from tests.support.ttnn_calls import WeightsOfConvolution

PORT, EAGER = POLICIES["port"], POLICIES["eager"]
BANK_BYTES, BANKS, TILE_BYTES = 1_072_693_184, 12, 2048


@pytest.fixture(scope="module")
def pool():
    with Pool(choose_device("virtual", "n150"), PoolOptions()) as pool:
        yield pool


def ran(pool, trace, policy=PORT, **options):
    return pool.run(PlanTask(rewritten(trace, policy), policy, 32768, **options)).result()


# Peaks ----------------------------------------------------------------------------------------------------------------------


def perceptron():
    """[1024, 768] -> 3072 -> gelu -> 768."""
    model = Model()
    x, wide, bias, narrow = model.input(1024, 768), model.weight(3072, 768), model.weight(3072), model.weight(768, 3072)
    y = model.call("linear.default", (1024, 3072), input=x, weight=wide, bias=bias)
    z = model.call("gelu.default", (1024, 3072), self=y, dead=(y,))
    return model.trace(model.call("linear.default", (1024, 768), input=z, weight=narrow, bias=None, dead=(z,)))


def test_the_peak_of_a_perceptron_by_hand(pool):
    """Weights: two of 24 x 96 tiles, 192 to a bank, and a bias of 96, 8 to a bank. The input and the last result have 32 x 24
    tiles, 64 to a bank; the others 32 x 96, 256 to a bank. The most there is: both sides of the gelu, the input gone."""
    result = ran(pool, perceptron())
    weights, narrow, wide = (192 + 8 + 192) * TILE_BYTES, 64 * TILE_BYTES, 256 * TILE_BYTES
    assert (weights, narrow, wide) == (802_816, 131_072, 524_288)
    assert (result.status, result.checked, len(result.steps)) == (Status.FITS, 4, 3)
    assert [use.dram_bytes for use in result.steps] == [weights + narrow + wide, weights + 2 * wide, weights + wide + narrow]
    assert (result.peak_bytes, result.where.operator) == (weights + 2 * wide, "gelu")
    assert result.peak_bytes == 1_851_392
    bias = 8 * TILE_BYTES - 3072 * 2 // BANKS  # a row of 6,144 B lies in 96 tiles: 8 to a bank, where 512 B would do
    assert result.peak == Split(weights, 2 * wide, program_cache_bytes=0, temporaries_bytes=0, padding_bytes=bias)
    assert [(a.shape, a.placed, a.layout, a.bytes_per_bank, a.logical_bytes) for a in result.alive] == [
        ((1024, 3072), (1024, 3072), "tile", wide, 1024 * 3072 * 2),
        ((1024, 3072), (1024, 3072), "tile", wide, 1024 * 3072 * 2),
    ]
    assert [a.made_by for a in result.alive] == ["linear", "gelu"]
    assert (result.dram_bank_bytes, result.dram_banks) == (BANK_BYTES, BANKS)
    assert result.peak_share == 1_851_392 / BANK_BYTES


def test_python_keeps_tensors_that_have_a_name(pool):
    """[320, 320] is 100 tiles, 9 to the fullest bank. The caller holds the input to the end; the first result dies with the
    call that reads it, the second is returned."""
    model = Model()
    x = model.input(320, 320)
    y = model.call("relu.default", (320, 320), self=x)
    trace = model.trace(model.call("exp.default", (320, 320), self=y, dead=(y,)))
    each = 9 * TILE_BYTES
    last_use, python = ran(pool, trace), ran(pool, trace, EAGER)
    assert [use.dram_bytes for use in last_use.steps] == [2 * each, 2 * each]
    assert [use.dram_bytes for use in python.steps] == [2 * each, 3 * each]
    assert (last_use.peak_bytes, python.peak_bytes) == (36_864, 55_296)


def test_a_map_is_channels_last_and_views_of_it_cost_nothing(pool):
    """[1, 64, 32, 32]: 1,024 rows of 64 channels, 128 B each, 86 to the fullest bank; in tiles 32 x 2, 6 to a bank."""
    model = Model()
    x = model.input(1, 64, 32, 32)
    y = model.call("flatten.using_ints", (1, 64, 1024), {"start_dim": 2}, self=x)
    z = model.call("transpose.int", (1, 1024, 64), {"dim0": 1, "dim1": 2}, self=y, dead=(y,))
    trace = model.trace(model.call("exp.default", (1, 1024, 64), self=z, dead=(z,)))
    rows, tiles = 86 * 128, 6 * TILE_BYTES
    result = ran(pool, trace)
    assert [use.dram_bytes for use in result.steps] == [rows, rows, 2 * tiles], "only the last call needs tiles"
    assert result.alive[0].placed == (1, 1, 1024, 64)
    separate = ran(pool, trace, replace(PORT, replace_on_conversion=False))
    assert [use.dram_bytes for use in separate.steps] == [rows, rows, rows + tiles], "the rows stay, the converted tensor goes"
    assert separate.steps[-1].dram_peak_bytes == rows + 2 * tiles


# Weights --------------------------------------------------------------------------------------------------------------------


def test_one_weight_with_two_layouts_takes_two_tensors(pool):
    """A layer takes it transposed, a product does not; twice the same is placed once. 64 x 64 are four tiles, one to a bank."""
    model = Model()
    x, w = model.input(64, 64), model.weight(64, 64)
    y = model.call("linear.default", (64, 64), input=x, weight=w, bias=None)
    y = model.call("linear.default", (64, 64), input=y, weight=w, bias=None)
    assert ran(pool, model.trace(y)).peak.weights_bytes == TILE_BYTES
    y = model.call("matmul.default", (64, 64), self=y, other=w)
    assert ran(pool, model.trace(y)).peak.weights_bytes == 2 * TILE_BYTES


def test_one_convolution_before_two_norms_takes_two_weights(pool):
    """Each norm is folded into a separate weight and bias. [64, 64, 1, 1] are four tiles, one to a bank; a bias is two."""
    model = Model()
    x, w = model.input(1, 64, 8, 8), model.weight(64, 64, 1, 1)
    norms = []
    for _ in range(2):
        y = model.call("conv2d.default", (1, 64, 8, 8), input=x, weight=w)
        vectors = dict(
            zip(("weight", "bias", "running_mean", "running_var"), (model.weight(64) for _ in range(4)), strict=True)
        )
        args = {"training": False, "momentum": 0.1, "eps": 1e-5, "cudnn_enabled": True}
        norms.append(model.call("batch_norm.default", (1, 64, 8, 8), args, input=y, **vectors))
    result = ran(pool, model.trace(*norms))
    assert result.status is Status.FITS
    assert result.peak.weights_bytes == 2 * (TILE_BYTES + TILE_BYTES)


SIGNATURES = [  # map, weight, stride, padding, groups, bias
    ((1, 3, 1280, 800), (32, 3, 7, 7), 4, 3, 1, True),  # the first layer of Segformer
    ((1, 640, 80, 50), (640, 1, 3, 3), 1, 1, 640, True),  # its third mixer: 409,600 x 9 where the parameters are 5,760
    ((1, 3, 224, 224), (64, 3, 7, 7), 2, 3, 1, False),
    ((1, 64, 56, 56), (64, 64, 3, 3), 1, 1, 1, True),
    ((1, 256, 56, 56), (512, 256, 1, 1), 2, 0, 1, False),
    ((1, 512, 7, 7), (512, 512, 3, 3), 1, 1, 1, True),
    ((1, 3, 640, 640), (96, 3, 3, 3), 2, 1, 1, True),
    ((1, 96, 320, 320), (192, 48, 3, 3), 2, 1, 2, True),
    ((1, 384, 40, 40), (384, 1, 7, 7), 1, 3, 384, True),
    ((4, 16, 32, 30), (24, 4, 3, 1), 2, (1, 0), 4, True),
    ((1, 768, 1, 1), (1000, 768, 1, 1), 1, 0, 1, True),
    ((2, 32, 160, 100), (64, 32, 2, 2), 2, 0, 1, True),
]


@pytest.mark.parametrize("signature", SIGNATURES, ids=lambda s: f"{'x'.join(map(str, s[0]))} by {'x'.join(map(str, s[1]))}")
def test_a_convolution_has_the_weights_that_ttnn_prepares(signature, pool):
    """Compared with the weights that ttnn.conv2d prepares itself, for a map in the layout that plans use."""
    image, weight, stride, padding, groups, bias = signature
    padding = (padding, padding) if isinstance(padding, int) else padding
    sizes = [(size + 2 * p - k) // stride + 1 for size, p, k in zip(image[2:], padding, weight[2:], strict=True)]
    model = Model()
    args = {"stride": [stride, stride], "padding": list(padding), "groups": groups}
    operands = {"input": model.input(*image), "weight": model.weight(*weight)}
    if bias:
        operands["bias"] = model.weight(weight[0])
    trace = model.trace(model.call("conv2d.default", (image[0], weight[0], *sizes), args, **operands))
    placed, returned = pool.run(WeightsOfConvolution(trace)).result()
    assert placed == returned


ROWS_AND_TRANSPOSED = [  # name, input, weight, bias, arguments, result
    ("conv1d", (1, 256, 1024), (256, 256, 3), 256, {"padding": [1]}, (1, 256, 1024)),
    ("conv1d", (2, 64, 500), (64, 1, 31), 64, {"padding": [15], "groups": 64}, (2, 64, 500)),
    ("conv1d", (1, 80, 3000), (512, 80, 3), None, {"padding": [1], "stride": [2]}, (1, 512, 1500)),
    ("conv1d", (1, 1, 16000), (128, 1, 7), 128, {"padding": [6], "dilation": [2]}, (1, 128, 16000)),
    ("conv_transpose2d", (1, 256, 16, 16), (256, 256, 2, 2), 256, {"stride": [2, 2]}, (1, 256, 32, 32)),
    ("conv_transpose2d", (1, 64, 28, 30), (64, 16, 3, 3), 64, {"stride": [2, 2], "padding": [1, 1], "output_padding": [1, 1],
      "groups": 4}, (1, 64, 56, 60)),
    ("conv_transpose2d", (1, 21, 8, 8), (21, 1, 16, 16), None, {"stride": [8, 8], "padding": [4, 4], "groups": 21},
     (1, 21, 64, 64)),
    ("conv_transpose2d", (2, 24, 9, 9), (24, 40, 3, 3), 40, {}, (2, 40, 11, 11)),
]  # fmt: skip


@pytest.mark.parametrize("signature", ROWS_AND_TRANSPOSED, ids=lambda s: f"{s[0]} {'x'.join(map(str, s[2]))}")
def test_convolutions_over_rows_and_transposed_ones_have_the_weights_that_ttnn_prepares(signature, pool):
    name, image, weight, bias, args, shape = signature
    model = Model()
    overload = {"conv1d": "conv1d.default", "conv_transpose2d": "conv_transpose2d.input"}[name]
    operands = {"input": model.input(*image), "weight": model.weight(*weight)}
    operands["bias"] = None if bias is None else model.weight(bias)
    trace = model.trace(model.call(overload, shape, args, **operands))
    placed, returned = pool.run(WeightsOfConvolution(trace)).result()
    assert placed == returned
    result = ran(pool, trace)
    assert (result.status, result.stand_ins) == (Status.FITS, ())


# Failures -------------------------------------------------------------------------------------------------------------------


def giant():
    """Three tensors of [32768, 65536], 1,024 x 2,048 tiles: 174,763 to the fullest bank, 357,914,624 B. Two fit, not three."""
    model = Model()
    shape = (32768, 65536)
    x = model.input(*shape)
    y = model.call("relu.default", shape, self=x)
    z = model.call("exp.default", shape, self=y)
    u = model.call("neg.default", shape, self=x)
    return model.trace(model.call("abs.default", shape, self=z), u, y)


def test_a_failure_has_the_need_and_the_free_bytes(pool):
    result = ran(pool, giant())
    each = 174_763 * TILE_BYTES
    free = BANK_BYTES - 2 * each
    assert (each, free) == (357_914_624, 356_863_936)
    failure, verdict = result.failure, result.failure.verdict
    assert (result.status, verdict.resource) == (Status.OOM, Resource.DRAM_BUFFER)
    assert (failure.step, failure.operator, failure.at, failure.doing, failure.after) == (1, "exp", "part 1", "ttnn.exp", False)
    assert (failure.operands, failure.results) == (((32768, 65536),), ((32768, 65536),))
    assert (verdict.bytes_per_bank, verdict.free_bytes, verdict.largest_free_bytes) == (each, free, free)
    assert verdict.shortfall_bytes == 1_050_688
    assert [(alive.bytes_per_bank, alive.made_by) for alive in failure.alive] == [(each, "input"), (each, "relu")]
    assert failure.split.activations_bytes == 2 * each
    assert result.checked == 5, "after the failures too"


def test_what_comes_after_a_failure_is_marked(pool):
    """``neg`` does not fit either, since no value died; ``abs`` has no operand. Neither is evidence."""
    result = ran(pool, giant())
    assert [(f.step, f.operator, f.after) for f in result.later] == [(2, "neg", True)]
    assert [use.status for use in result.steps] == [Status.FITS, Status.OOM, Status.OOM, Status.NOT_RUN]
    assert result.peak_bytes == 2 * 357_914_624, "the peak is of what ran before"
    short = ran(pool, giant(), to_the_end=False)
    assert (short.failure, short.later) == (result.failure, ())


def test_a_rejected_call_leaves_a_stand_in_for_later_calls(pool):
    """A row of 2 MiB is padded in the L1 of one core, which has 1.5 MiB: TTNN rejects it, and the next call gets a tensor of
    that size. The call has an operator, so it does not count as a stand-in."""
    model = Model()
    x = model.input(2, 2**20)
    y = model.call("pad.default", (2, 2**20 + 2), {"pad": [1, 1]}, self=x)
    result = ran(pool, model.trace(model.call("exp.default", (2, 2**20 + 2), self=y)))
    failure, verdict = result.failure, result.failure.verdict
    assert (result.status, failure.operator, failure.after) == (Status.OOM, "constant_pad_nd", False)
    assert (verdict.resource, verdict.program_bytes) == (Resource.CIRCULAR_BUFFER, (2**20 + 2) * 2 + 12)  # aligned to 16
    assert [use.status for use in result.steps] == [Status.OOM, Status.FITS]
    assert (result.stand_ins, result.later) == ((), ())


def test_weights_that_do_not_fit_fail_before_the_first_step(pool):
    """Four of 262,144 x 8,192: 174,763 tiles in the fullest bank each."""
    model = Model()
    x = model.input(32, 8192)
    for _ in range(3):
        model.call("linear.default", (32, 262144), input=x, weight=model.weight(262144, 8192), bias=None)
    result = ran(pool, model.trace(len(model.values) - 1))
    failure = result.failure
    assert (result.status, failure.step, failure.doing) == (Status.OOM, -1, "placing the weights")
    assert failure.verdict.bytes_per_bank == 357_914_624
    assert result.steps == ()
    assert (failure.at, failure.operands) == (
        "value 5",
        ((262144, 8192),),
    )  # the third weight: an input, then weight and result
    assert failure.split == Split(2 * 357_914_624, 0, 0, 0, padding_bytes=2 * (357_914_624 - -(-262144 * 8192 * 2 // 12)))
    assert [(v.name, v.shape, v.bytes_per_bank) for v in failure.alive] == [
        ("value 1", (262144, 8192), 357_914_624),
        ("value 3", (262144, 8192), 357_914_624),
    ]
    said = "\n".join(lines(Plan(result)))
    assert (
        "OOM while placing the weights, before the first step: DRAM bank needs 357,914,624 B, 356,863,936 B free (value 5)"
        in said
    )
    assert "live then: weights 715,829,248, activations 0" in said


def test_an_input_that_does_not_fit_fails_before_the_first_step_too(pool):
    """Weights of 1,024 tiles take 86 of the fullest bank; each of three inputs takes 174,763 of it, and two of them fit."""
    model = Model()
    inputs = [model.input(262144, 8192) for _ in range(3)]
    for x in inputs:
        model.call("linear.default", (262144, 128), input=x, weight=model.weight(128, 8192), bias=None)
    result = ran(pool, model.trace(*range(len(model.values))[-1:]))
    failure = result.failure
    assert (failure.step, failure.doing, failure.at) == (-1, "placing the inputs", "value 2")
    assert (failure.split.weights_bytes, failure.split.activations_bytes) == (3 * 86 * TILE_BYTES, 2 * 357_914_624)
    assert {v.name for v in failure.alive[:2]} == {"value 0", "value 1"}


# Stand-ins ------------------------------------------------------------------------------------------------------------------


def with_an_unknown_call(size):
    model = Model()
    x = model.input(256, 256)
    y = model.call("exp.default", (256, 256), self=x)
    model.call("nobody.knows", size, self=y)
    return model.trace(y, len(model.values) - 1)


def test_a_stand_in_at_the_place_of_an_input_is_none(pool):
    """[768, 1024] in 768 tiles, 1,572,864 B. The input is freed, and the stand-in takes its place: who reads that reads no
    input."""
    model = Model()
    x = model.input(768, 1024)
    y = model.call("relu.default", (768, 1024), self=x)
    unknown = model.call("nothing_like_it.default", (768, 1024), self=y)
    result = ran(pool, model.trace(model.call("relu.default", (768, 1024), self=unknown)), allow_stand_ins=True)
    assert [use.inputs_read_bytes for use in result.steps] == [1_572_864, 0, 0]


def test_stand_ins_are_counted_by_their_bytes(pool):
    """256 x 256 values are known, 256 x 32 are not: 1/9 of the bytes that calls make."""
    result = ran(pool, with_an_unknown_call((256, 32)))
    assert (result.status, result.stand_in_share) == (Status.UNSUPPORTED, 1 / 9)
    assert "stand-ins produce 11.1 % of the bytes; with more than 1 % nothing is decided" in result.message
    (stand_in,) = result.stand_ins
    assert (stand_in.step, stand_in.overload, stand_in.at, stand_in.result_bytes) == (1, "aten.nobody.knows", "part 1", 16_384)
    assert "no operator declares this overload" in stand_in.reason
    assert result.steps[1].dram_bytes - result.steps[0].dram_bytes == TILE_BYTES - 6 * TILE_BYTES, "8 tiles, the input gone"


def test_few_stand_ins_are_allowed_and_more_by_an_option(pool):
    assert ran(pool, with_an_unknown_call((1, 512))).status is Status.FITS
    assert ran(pool, with_an_unknown_call((256, 32)), allow_stand_ins=True).status is Status.FITS


def test_a_write_through_a_view_is_a_stand_in(pool):
    """Other values of that storage change too, which TTNN's calls do not do."""
    model = Model()
    x = model.input(64, 64)
    model.steps.append(
        Step("aten.relu_.default", {"self": x}, {}, (model.value((64, 64), ValueKind.ACTIVATION),), "", writes=True)
    )
    result = ran(pool, model.trace(1))
    assert [s.reason for s in result.stand_ins] == ["writes in place through a view"]


# Runs -----------------------------------------------------------------------------------------------------------------------

RESNET = ("torchvision/resnet50", [(1, 3, 224, 224)])


@pytest.mark.parametrize("policy", [PORT, EAGER], ids=str)
def test_two_runs_of_a_model_are_equal_and_audited_at_every_step(policy, pool):
    first, second = (ran(pool, find_trace(*RESNET), policy) for _ in range(2))
    assert (first.status, first.checked) == (Status.FITS, first.total_steps + 1)
    assert (first.steps_sha256, first.peak_bytes, first.steps) == (second.steps_sha256, second.peak_bytes, second.steps)


def test_every_step_is_in_the_journal_when_it_is_done(pool, tmp_path):
    journal = tmp_path / "journal.jsonl"
    result = ran(pool, perceptron(), journal=journal)
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    assert [(line["number"], line["operator"], line["status"]) for line in lines] == [
        (0, "linear", "fits"), (1, "gelu", "fits"), (2, "linear", "fits"),
    ]  # fmt: skip
    assert [line["dram_bytes"] for line in lines] == [use.dram_bytes for use in result.steps]


def test_a_lost_worker_leaves_the_journal_so_far(pool, tmp_path):
    journal = tmp_path / "journal.jsonl"
    task = PlanTask(perceptron(), PORT, 32768, journal)
    pool.run(task).result()
    journal.write_text("".join(journal.read_text().splitlines(keepends=True)[:2]))
    lost = task.lost(Verdict(Status.CRASH, message="the process that ran the call was ended by SIGSEGV"), pool.facts)
    assert lost.status is Status.CRASH
    assert lost.message == "the process that ran the call was ended by SIGSEGV; 2 of 3 steps were done"
    assert (lost.model, lost.board, lost.policy_name) == ("mine/net", "n150", "port v2")


def test_softmax_in_place_takes_no_second_map_of_scores(pool):
    """Scores [1, 4, 256, 256]: 4 x 64 tiles, 22 to the fullest bank."""
    model = Model()
    q, k = model.input(4, 256, 32), model.input(4, 32, 256)
    scores = model.call("bmm.default", (4, 256, 256), self=q, mat2=k)
    trace = model.trace(model.call("softmax.int", (4, 256, 256), {"dim": -1}, self=scores))
    in_place = PORT.with_rewrite(Rewrite.SOFTMAX_IN_PLACE)
    assert [ran(pool, trace, policy).steps[-1].dram_bytes for policy in (PORT, in_place)] == [44 * TILE_BYTES, 22 * TILE_BYTES]


def test_calls_that_take_a_shape_alone_are_planned_without_its_tensor(pool):
    """[64, 32] is 2 tiles, each of the 12 banks has at most one: 2,048 B. expand_as copies it to 4 x 2 tiles."""
    model = Model()
    x = model.input(1, 64, 32)
    y = model.call("expand_as.default", (4, 64, 32), self=x)
    z = model.call("mT.default", (4, 32, 64), self=y, dead=(y,))
    result = ran(pool, model.trace(model.call("exp.default", (4, 32, 64), self=z, dead=(z,))))
    assert (result.status, result.stand_ins) == (Status.FITS, ())
    assert [use.operator for use in result.steps] == ["expand", "transpose", "exp"]
