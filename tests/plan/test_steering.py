"""What cannot be under policy ``l1`` is named: the layer, and the bytes or the rule. Other layers keep to what was demanded.

An n150 has 1,393,312 B of L1 in a core's bank; 32,768 of them are L1_SMALL, so that 1,360,544 B remain. A tile of bfloat16 has
2,048 B.
"""

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from ssinghal.core.verdict import Status  # noqa: E402
from ssinghal.errors import InvalidCase  # noqa: E402
from ssinghal.plan.planner import Boards, PlanSettings  # noqa: E402
from ssinghal.plan.policy import find_policy  # noqa: E402
from tests.support.real_traces import Net, recorded  # noqa: E402

pytestmark = pytest.mark.virtual_device
CORE = 1_393_312 - 32_768


@pytest.fixture(scope="module")
def boards():
    with Boards(PlanSettings()) as boards:
        yield boards


def chain(rows, columns, *modules):
    """Returns a trace of element-wise modules, recorded at a small size."""
    layers = nn.Sequential(*modules)
    trace = recorded(Net(lambda m, x: m.layers(x), layers=layers), (32, 32)).trace
    values = tuple(replace(value, shape=(rows, columns)) for value in trace.values)
    return replace(trace, head={**trace.head, "input": {**trace.head["input"], "shapes": [[rows, columns]]}}, values=values)


@pytest.fixture(scope="module")
def relu():
    """128 x 16 tiles, 4 MiB."""
    return chain(4096, 512, nn.ReLU())


def plan_of(boards, trace, **how):
    return boards.run(trace, find_policy("l1", **how), "n150")


def test_a_headroom_that_no_call_leaves_is_named(boards, relu):
    """544 B remain. With both tensors in DRAM a core has two tiles of operand and two of result in its program buffers."""
    result = plan_of(boards, relu, headroom=str(CORE - 544))
    assert result.status is Status.OOM
    missing = 4 * 2048 - 544
    assert result.message.startswith(
        f"step 0 relu in layers.0: the smallest choice needs {missing:,} B of a core's L1 more than the 544 B"
    )
    nowhere = result.placement.nowhere
    assert (nowhere.step, nowhere.at, nowhere.over_bytes, nowhere.limit_bytes) == (0, "layers.0", missing, 544)


def test_a_pin_that_does_not_fit_beside_the_headroom_is_named_with_the_bytes(boards, relu):
    """1,024 rows of 512 on each of 4 cores: 1,048,576 B. 30 % of a core are 408,163.2 B, rounded up."""
    result = plan_of(boards, relu, pins=("layers.0=l1:height@4",), headroom="30%")
    limit = CORE - 408_164
    missing = 1024 * 512 * 2 - limit
    assert result.status is Status.OOM
    assert result.message.startswith(
        f"step 0 relu in layers.0, pinned by layers.0=l1:height@4: the smallest choice needs {missing:,} B"
    )
    assert f"more than the {limit:,} B" in result.message
    assert plan_of(boards, relu, pins=("layers.0=l1:height@4",)).status is Status.FITS


def test_a_pin_larger_than_a_core_is_rejected_by_ttnn(boards, relu):
    """4,096 rows over 3 cores are 1,366 each, in complete tiles 1,376: 1,409,024 B."""
    result = plan_of(boards, relu, pins=("layers.0=l1:height@3",))
    size = 1376 * 512 * 2
    assert size > CORE
    assert result.status is Status.OOM
    assert result.message.startswith("step 0 relu in layers.0, pinned by layers.0=l1:height@3: TTNN rejects every call: ")
    assert f"each bank needs to store {size} B" in result.message


def test_shards_for_more_cores_than_there_are_cannot_be(boards, relu):
    """4,096 / 32 rows and 512 / 32 columns of shards."""
    result = plan_of(boards, relu, pins=("layers.0=l1:block@8x8:32x32",))
    assert result.status is Status.INVALID
    assert result.message.startswith(
        "step 0 relu in layers.0, pinned by layers.0=l1:block@8x8:32x32: no call is possible: shards"
    )
    assert "128 shards down and 16 across need 16x128 cores; the grid has 8x8" in result.message


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("l1:block@9x9", "they reach over 9x9 cores; n150 has 8x8 for l1"),
        ("l1:height@100", "100 cores for shards; n150 has 64"),
    ],
)
def test_cores_that_the_board_lacks_are_refused(boards, relu, where, message):
    with pytest.raises(InvalidCase, match=message):
        plan_of(boards, relu, pins=(f"layers.0={where}",))


def test_a_pin_of_a_view_alone_is_refused_with_the_module_to_pin(boards):
    """Flatten keeps complete tiles of rows together, so that it is a view of what the ReLU leaves in L1."""
    trace = recorded(Net(lambda m, x: m.f(m.r(x)), r=nn.ReLU(), f=nn.Flatten(0, 1)), (4, 32, 64)).trace
    assert plan_of(boards, trace, pins=("f=l1",)).status is Status.FITS
    with pytest.raises(InvalidCase) as refused:
        plan_of(boards, trace, pins=("r=l1", "f=dram"))
    assert str(refused.value) == (
        "pin f=dram: the modules that it matches make no call, only views of what others made; pin the module that makes it: r"
    )
    both = plan_of(boards, trace, pins=("r=dram", "f=dram"))
    assert (both.status, both.placement.steps[0].results[0].memory) == (Status.FITS, "dram")


@pytest.mark.parametrize(
    ("where", "place"),
    [
        ("height", "l1:height@8x8:64x512"),  # 4,096 rows over 64 cores
        ("width", "l1:width@8x2:4096x32"),  # a tile is 32 columns wide: 16 shards
        ("l1:block@4x8", "l1:block@4x8:512x128"),
        ("l1:height@16:256x512", "l1:height@8x2:256x512"),
        ("dram", "dram"),
    ],
)
def test_pins_are_kept_in_the_run(boards, relu, where, place):
    result = plan_of(boards, relu, pins=(f"layers.0={where}",))
    assert (result.status, result.checked) == (Status.FITS, result.total_steps + 1), result.message
    assert [x.memory for step in result.placement.steps for x in step.results] == [place]


def test_a_layer_that_fits_nowhere_in_l1_is_no_failure(boards):
    """Each tensor takes 90,112 x 512 x 2 / 64 = 1,441,792 B of each core, more than there is."""
    size = 90_112 * 512 * 2 // 64
    assert size > CORE
    result = plan_of(boards, chain(90_112, 512, nn.ReLU()))
    assert result.status is Status.FITS, result.message
    (step,) = result.placement.steps
    assert [place.memory for place in step.results] == ["dram"]
    assert f"L1 bank needs {size:,} B" in " ".join(other.reason for other in step.not_chosen)


def test_a_model_that_fits_nowhere_is_named_with_the_bytes(boards):
    """8,192 x 512 tiles over 12 banks are 349,526 in the fullest, 715,829,248 B, of operand and result alike; a bank has
    1,072,693,184 B."""
    size = -(-8192 * 512 // 12) * 2048
    assert size < 1_072_693_184 < 2 * size
    result = plan_of(boards, chain(8192 * 32, 512 * 32, nn.ReLU()))
    assert result.status is Status.OOM
    assert result.message.startswith("step 0 relu in layers.0: TTNN rejects every call: ")
    assert str(size) in result.message


def test_headroom_is_left_free_in_the_run(boards):
    """Both tensors of 16,384 x 512 in L1 take 2 x 262,144 B of a core, which leave 61 %: with 70 % one of them goes to DRAM."""
    trace = chain(16_384, 512, nn.ReLU(), nn.GELU())
    free = plan_of(boards, trace)
    assert max(use.l1_total_peak_bytes for use in free.steps) >= 2 * 262_144
    kept = plan_of(boards, trace, headroom="70%")
    assert (free.status, kept.status) == (Status.FITS, Status.FITS)
    assert max(use.l1_total_peak_bytes for use in kept.steps) <= CORE - 952_381
