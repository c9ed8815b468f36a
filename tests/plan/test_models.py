"""Complete models of the built-in traces on virtual boards: verdicts, and the numbers of a prototype where it measured them.

The prototype ran the same models with separate code. Differences are explained with the numbers.
"""

import pytest

from ssinghal.capture.trace import read_trace
from ssinghal.capture.trace_library import find_trace, trace_files
from ssinghal.core.boards import load_board
from ssinghal.core.verdict import Resource, Status
from ssinghal.plan.liveness import SizeRule, arithmetic
from ssinghal.plan.planner import Boards, PlanSettings, plan
from ssinghal.plan.policy import Lifetime, Rewrite, find_policy

YOLO_4K = ("ultralytics/yolo12x", (1, 3, 2176, 3840))
MOCHI = ("diffusers/mochi-decoder", (1, 12, 4, 60, 106))


@pytest.fixture(scope="module")
def boards():
    with Boards(PlanSettings(to_the_end=False)) as boards:
        yield boards


def run(boards, model, board="n150", policy="port", *rewrites):
    return boards.run(find_trace(model[0], (model[1],)), find_policy(policy, rewrites), board)


def test_the_4k_detector_fails_at_its_first_attention_map(boards):
    """The scores [4, 12, 8160, 8160] in tiles: 4 x 12 x 255 x 255 tiles of 2,048 B over 12 banks, and a second time for the
    softmax. The prototype had 480,057,280 B free: it kept no program cache, and its weights lacked TTNN's padding."""
    result = run(boards, YOLO_4K)
    failure, verdict = result.failure, result.failure.verdict
    assert (result.status, verdict.resource, failure.operator) == (Status.OOM, Resource.DRAM_BUFFER, "softmax")
    assert failure.at == "model.6.m.0.0.attn"
    assert verdict.bytes_per_bank == 4 * 12 * 255 * 255 * 2048 // 12 == 532_684_800
    assert failure.alive[0].bytes_per_bank == 532_684_800
    assert 0 < 480_057_280 - verdict.free_bytes < 3 * 2**20
    assert verdict.shortfall_bytes == 532_684_800 - verdict.largest_free_bytes
    assert result.checked == failure.step + 2  # weights and inputs, then each step up to this one


def test_the_softmax_in_place_makes_it_fit(boards):
    """The prototype's peak was 609,417,216 B per bank (56.8 %)."""
    found = plan(find_trace(YOLO_4K[0], (YOLO_4K[1],)), find_policy("port"), "n150", boards)
    assert found.result.status is Status.OOM
    assert found.remedy.policy["rewrites"] == ["softmax_in_place"]
    assert abs(found.remedy.peak_bytes - 609_417_216) < 2**20
    assert found.remedy.checked == found.remedy.total_steps + 1
    bounds = arithmetic(find_trace(YOLO_4K[0], (YOLO_4K[1],)), load_board("n150"))
    assert bounds.needed.total_bytes > bounds.dram_bytes > found.remedy.peak_bytes * found.remedy.dram_banks
    assert bounds.outlook_in_words == "needs a rewrite"
    assert bounds.least.total_bytes < found.remedy.peak_bytes * found.remedy.dram_banks


def test_the_video_decoder_as_torch_has_it_fails_at_its_depth_to_space(boards):
    """The prototype's number: a view with dims of 2 at the end, whose tiles take 17 times its elements."""
    result = run(boards, MOCHI, "n150", "eager")
    assert (result.status, result.failure.operator) == (Status.OOM, "permute")
    assert result.failure.results == ((1, 256, 12, 2, 120, 2, 212, 2),)
    assert result.failure.verdict.bytes_per_bank == 1_761_607_680


@pytest.mark.parametrize(
    ("model", "policy", "max_difference"),
    [
        # the prototype measured between calls; here within calls too, and weights have TTNN's own padding
        (("torchvision/resnet50", (1, 3, 224, 224), 5_315_840), "port", 2**18),
        (("transformers/segformer-b0", (1, 3, 1280, 800), 42_027_136), "port", 9 * 2**20),
    ],
)
def test_small_models_fit_and_run_the_same_twice(boards, model, policy, max_difference):
    name, shape, prototype_bytes = model
    first, second = (run(boards, (name, shape), "n150", policy) for _ in range(2))
    assert (first.status, first.stand_ins) == (Status.FITS, ())
    assert first.checked == first.total_steps + 1
    assert first.steps_sha256 == second.steps_sha256
    assert first.peak_bytes == second.peak_bytes
    assert abs(first.peak_bytes - prototype_bytes) < max_difference
    assert first.peak.total_bytes == first.peak_bytes


NEAR, ABOVE = 0.10, 0.05  # how far the estimate may be from a run without its program cache, and above the run as it is


FITTING = [read_trace(file) for file in trace_files() if not any(part in file.name for part in ("mochi", "2176x3840"))]


@pytest.mark.parametrize("trace", FITTING, ids=lambda t: f"{t.model} {t.input_shapes[0][-1]}")
def test_the_arithmetic_as_a_port_lays_it_out_is_near_the_run(boards, trace):
    """Arithmetic knows no program cache, which is 18 % of segformer's peak."""
    result = boards.run(trace, find_policy("port"), "n150")
    laid_out = arithmetic(trace, load_board("n150")).peak(Lifetime.LAST_USE, SizeRule.CHANNELS_LAST).bytes_per_bank
    assert laid_out == pytest.approx(max(use.dram_peak_bytes - use.cache_bytes for use in result.steps), rel=NEAR)
    assert laid_out < (1 + ABOVE) * result.peak_bytes


def test_no_run_undercuts_the_least_whatever_its_rewrites(boards):
    every = tuple(rewrite.value for rewrite in Rewrite)
    result = run(boards, MOCHI, "n150", "port", *every)
    bounds = arithmetic(find_trace(MOCHI[0], (MOCHI[1],)), load_board("n150"))
    assert result.status is Status.FITS
    assert bounds.least.total_bytes <= result.peak_bytes * result.dram_banks


def test_batch_norms_as_operators_cost_a_tile_for_each_channel(boards):
    """26,560 channels are normalized in resnet50, by four vectors each: 4 x 26,560 tiles of 2,048 B, over 12 banks."""
    port, eager = (run(boards, ("torchvision/resnet50", (1, 3, 224, 224)), "n150", name) for name in ("port", "eager"))
    vectors = 4 * 26_560 * 2048 / 12
    biases = 26_560 / 32 * 2048 / 12  # that the port's convolutions take instead
    assert eager.peak.weights_bytes - port.peak.weights_bytes == pytest.approx(vectors - biases, rel=0.01)


def test_every_chip_of_a_mesh_holds_what_one_alone_does(boards):
    alone, mesh = (run(boards, ("torchvision/resnet50", (1, 3, 224, 224)), name) for name in ("n300", "n300_1x2"))
    assert (mesh.status, mesh.peak_bytes, mesh.steps_sha256) == (alone.status, alone.peak_bytes, alone.steps_sha256)
