"""What users demand of placements: how it is read, which tensors keep to it, and what is tried and stated for it."""

from dataclasses import dataclass, field, replace

import pytest

from ssinghal.core.boards import load_board
from ssinghal.core.memory_config import BufferType, Cores, MemoryConfig, Orientation, ShardKind, ShardSpec
from ssinghal.core.tensors import DType, Layout
from ssinghal.core.verdict import DecidedBy, Status, Verdict
from ssinghal.errors import InvalidCase
from ssinghal.plan.axis_layout import AxisLayout
from ssinghal.plan.placement import DRAM, L1, Form, Held, Outcome, StepChoice, Traffic, frozen
from ssinghal.plan.placing.found import Found, NoPlacement, PlacedStep
from ssinghal.plan.placing.graph import StepNode
from ssinghal.plan.placing.pins import PinnedCalls, check_views, with_pin
from ssinghal.plan.policy import find_policy
from ssinghal.plan.steering import Headroom, Pin, check_pin_cores, check_pins, pin_of

N150 = load_board("n150")
SHAPE = (1, 1, 1024, 64)


def sharded(kind, cores=(8, 8), shape=(32, 64), orientation=Orientation.ROW_MAJOR):
    return MemoryConfig(BufferType.L1, ShardSpec(kind, shape, Cores.grid(*cores), orientation))


HEIGHT, BLOCK = sharded(ShardKind.HEIGHT, (8, 4)), sharded(ShardKind.BLOCK, (2, 8), (128, 32))


# Headroom -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("10%", 136_055),  # 136,054.4 of 1,360,544 B, rounded up
        ("0.5%", 6_803),
        ("65536", 65_536),
        (65_536, 65_536),
        ("64 KiB", 65_536),
        ("0", 0),
    ],
)
def test_a_headroom_is_a_share_or_bytes(text, size):
    headroom = Headroom.of(text)
    assert headroom.bytes_of(1_360_544) == size
    assert Headroom.of(str(headroom)) == headroom
    assert bool(headroom) == (size > 0)


@pytest.mark.parametrize("text", ["100%", "110%", "-1", "ten", "%", "1.5", "10 %%", None, True, ""])
def test_other_headrooms_are_refused(text):
    with pytest.raises(InvalidCase, match="expected a share below 100% such as 10%, or bytes"):
        Headroom.of(text, "--headroom")


# Pins -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("layer1", "expected MODULES=WHERE"),
        ("=height", "expected MODULES=WHERE"),
        ("layer1=", "expected MODULES=WHERE"),
        ("layer1=heigth", "unknown place 'heigth'; did you mean height"),
        ("layer1=l1:blok", "unknown shard kind 'blok'; did you mean block"),
        ("layer1=l1:block@0x8", "expected 8x8"),
        ("layer1=l1_small", "unknown place"),
    ],
)
def test_a_pin_that_cannot_be_read_is_refused(text, message):
    with pytest.raises(InvalidCase, match=message) as refused:
        Pin.of(text, "--pin")
    assert str(refused.value).startswith(f"--pin {text}: ")


@pytest.mark.parametrize(
    ("where", "allowed"),
    [
        ("height", {"height"}),
        ("block", {"block", "turned"}),
        ("width", set()),
        ("l1", {"l1", "height", "block", "turned"}),
        ("dram", {"dram"}),
        ("l1:height", {"height"}),
        ("l1:height@8x4", {"height"}),
        ("l1:height@32", {"height"}),
        ("l1:height@8x8", set()),
        ("l1:height@8x4:32x64", {"height"}),
        ("l1:height@8x4:64x64", set()),
        ("l1:block@2x8:128x32:col_major", {"turned"}),
        ("dram:height", set()),
    ],
)
def test_what_a_pin_leaves_out_is_open(where, allowed):
    turned = sharded(ShardKind.BLOCK, (2, 8), (128, 32), Orientation.COL_MAJOR)
    places = {"dram": DRAM, "l1": L1, "height": HEIGHT, "block": BLOCK, "turned": turned}
    assert {name for name, memory in places.items() if Pin.of(f"*={where}").allows(memory)} == allowed


def test_the_last_pin_that_matches_holds():
    pins = [Pin.of("layer1.*=l1"), Pin.of("*.conv1=dram")]
    assert str(pin_of(pins, "layer1.0.conv1")) == "*.conv1=dram"
    assert str(pin_of(pins, "layer1.0.conv2")) == "layer1.*=l1"
    assert pin_of(pins, "layer2.0.conv2") is None
    assert pin_of(pins, "layer1") is None, "the pattern has a dot"


@pytest.mark.parametrize(
    ("pattern", "nearest"),
    [
        ("layer1", "layer1.0.conv1, layer1.0.conv2"),
        ("layer1.0.conv3", "layer1.0.conv"),
        ("lyer1.0.conv1", "layer1.0.conv1"),
        ("head.*", "stem"),
    ],
)
def test_a_pin_without_a_module_names_the_nearest(pattern, nearest):
    modules = ["stem", "layer1.0.conv1", "layer1.0.conv2"]
    check_pins([Pin.of("layer1.*=l1"), Pin.of("s*m=l1")], modules)
    with pytest.raises(InvalidCase, match=f"no call is made in such a module; nearest: .*{nearest}"):
        check_pins([Pin.of(f"{pattern}=l1")], modules)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("l1:block@8x8", None),
        ("l1:block@9x8", "they reach over 9x8 cores; n150 has 8x8 for l1"),
        ("l1:block@8x9:32x32", "they reach over 8x9 cores; n150 has 8x8 for l1"),
        ("l1:height@64", None),
        ("l1:height@65", "65 cores for shards; n150 has 64 for l1"),
        ("l1:width@100", "100 cores for shards; n150 has 64 for l1"),
        ("dram:width@12", None),
        ("dram:width@13", "13 cores for shards; n150 has 12 for dram"),
        ("height", None),
        ("dram", None),
    ],
)
def test_a_pin_to_cores_that_the_board_lacks_is_refused(where, message):
    pins = [Pin.of("b=l1"), Pin.of(f"a={where}")]
    if message is None:
        check_pin_cores(pins, N150)
        return
    with pytest.raises(InvalidCase, match=message) as refused:
        check_pin_cores(pins, N150)
    assert str(refused.value).startswith(f"pin a={where}: ")


def test_steering_is_part_of_the_identity_of_a_policy(tmp_path):
    policy = find_policy("l1", headroom="10%", pins=("layer1.*=height", "*.conv1=dram"), activations="bf8")
    assert str(policy) == "l1 v1+activations=bfloat8_b+headroom=10%+layer1.*=height+*.conv1=dram"
    facts = policy.to_json()
    assert (facts["headroom"], facts["activations"]) == ("10%", "bfloat8_b")
    assert facts["pins"] == {"layer1.*": "height", "*.conv1": "dram"}
    file = tmp_path / "mine.yaml"
    file.write_text("base: l1\nheadroom: 10%\nactivations: bfloat8_b\npins: {layer1.*: height, '*.conv1': dram}\n")
    assert find_policy(str(file)).to_json() == {**facts, "name": "mine"}
    assert str(find_policy(str(file), pins=("fc=l1",))).endswith("+*.conv1=dram+fc=l1")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("base: l1\nheadroom: 110%", "headroom 110%: expected a share below 100%"),
        ("base: l1\npins: [layer1.*=height]", "pins: expected a mapping"),
        ("base: l1\npins: {layer1: 3}", "pins: expected a mapping"),
        ("base: l1\npins: {layer1: heigth}", "unknown place 'heigth'"),
        ("base: l1\nactivations: bfloat4_b", "unknown activations 'bfloat4_b'"),
        ("base: port\nheadroom: 10%", "a headroom is for policy l1"),
        ("pins: {layer1: height}", "a pin is for policy l1"),
        ("base: l1\nheadroom: 10%\nbase: port", r"mine\.yaml:3: base: the key is given twice, first in line 1"),
        ("base: l1\npins:\n  a: l1\n  a: dram", r"mine\.yaml:4: pins\.a: the key is given twice, first in line 3"),
        ("base: l1\nheadroom: 1:30", r"mine\.yaml:2: headroom: '1:30' would be read as int"),
        ("base: l1\nheadroom: '1:30'", "headroom 1:30: expected a share below 100%"),
    ],
)
def test_a_file_with_other_steering_is_refused(text, message, tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(InvalidCase, match=message):
        find_policy(str(file))


@pytest.mark.parametrize("name", ["port", "eager"])
def test_other_policies_have_no_l1_to_steer(name):
    for how in ({"headroom": "10%"}, {"pins": ("a=l1",)}):
        with pytest.raises(InvalidCase, match=f"policy {name} places nothing in L1"):
            find_policy(name, **how)
    assert str(find_policy(name, activations="bfloat8_b")) == f"{name} v2+activations=bfloat8_b"


# Calls ----------------------------------------------------------------------------------------------------------------------

NODE = StepNode(3, "relu", "layer1.relu", (0,), (1,), frozenset((0,)))
REFUSAL = Verdict(Status.ERROR, message="this kernel takes no such shards")


def held(memory, shares=None):
    return Held(Form(memory, SHAPE, DType.BFLOAT16, Layout.TILE, AxisLayout.plain(SHAPE)), shares)


@dataclass
class Table:
    """Calls with written outcomes. ``requested``: the choices that were tried."""

    known: dict
    requested: list = field(default_factory=list)

    def candidates(self, node, operands):
        return list(self.known)

    def outcomes(self, node, requests):
        self.requested += [choice for _, choice in requests]
        return [self.known.get(choice, Outcome(failure=REFUSAL)) for _, choice in requests]


def made(memory, *, calls=("ttnn.relu",), shares=None):
    return Outcome({0: held(DRAM)}, (held(memory, shares),), calls=calls)


def pinned(known, where):
    return PinnedCalls(Table(known), (Pin.of(f"layer1.*={where}"),), N150)


def test_calls_of_other_modules_are_left_alone():
    calls = PinnedCalls(Table({StepChoice(): made(DRAM)}), (Pin.of("layer2.*=l1"),), N150)
    assert calls.candidates(NODE, {}) == [StepChoice()]
    assert calls.outcomes(NODE, [({}, StepChoice())]) == [made(DRAM)]


def test_results_are_asked_for_where_the_pin_has_them():
    """1,024 rows over 64 cores are 16, less than a tile: 32 shards of a tile's height and the complete width, on 8x4 cores."""
    choices = pinned({StepChoice(): made(DRAM)}, "height").candidates(NODE, {0: held(DRAM)})
    assert choices == [StepChoice(), StepChoice(memory=HEIGHT), StepChoice(after=HEIGHT)]
    chosen = StepChoice(memory=None)  # where TTNN decides, nothing is requested of the call itself
    assert pinned({chosen: made(L1)}, "height").candidates(NODE, {}) == [chosen, StepChoice(memory=None, after=HEIGHT)]
    assert pinned({StepChoice(): made(HEIGHT)}, "height").candidates(NODE, {}) == [StepChoice()]


def test_a_result_elsewhere_is_no_outcome():
    here, there = StepChoice(memory=HEIGHT), StepChoice()
    calls = pinned({here: made(HEIGHT), there: made(DRAM)}, "height")
    good, bad = calls.outcomes(NODE, [({}, here), ({}, there)])
    assert good == made(HEIGHT)
    assert bad.failure is not None
    assert bad.failure.message == "pin layer1.*=height: the call leaves its result in dram"


@pytest.mark.parametrize(("calls", "shares", "is_view"), [((), 0, True), (("ttnn.relu",), 0, False), ((), None, False)])
def test_a_view_makes_nothing_that_a_pin_could_be_about(calls, shares, is_view):
    outcome = made(DRAM, calls=calls, shares=shares)
    (judged,) = pinned({StepChoice(): outcome}, "l1").outcomes(NODE, [({}, StepChoice())])
    assert (judged.failure is None) == is_view


def test_shards_that_cannot_be_are_named():
    calls = pinned({StepChoice(): made(DRAM)}, "l1:height@2x1:32x64")
    assert calls.candidates(NODE, {}) == [StepChoice()]
    (outcome,) = calls.outcomes(NODE, [({}, StepChoice())])
    assert "the tensor has 32 shards, but there are 2 cores for them" in outcome.failure.message


def test_reasons_are_those_of_calls_that_keep_to_the_pin():
    """A conv in other shards may be refused too; that does not prevent the pin."""
    width, height = (
        StepChoice(memory=None, settings=(("conv_config", frozen({"type": "Conv2dConfig", "shard_layout": kind})),))
        for kind in ("WIDTH_SHARDED", "HEIGHT_SHARDED")
    )
    in_width = Outcome(failure=Verdict(Status.ERROR, message="width is refused"))
    calls = pinned({width: in_width, height: Outcome(failure=REFUSAL), StepChoice(): made(DRAM)}, "height")
    outcomes = calls.outcomes(NODE, [({}, width), ({}, height), ({}, StepChoice())])
    failures = tuple(outcome.failure for outcome in outcomes)
    assert [x.decided_by for x in failures] == [DecidedBy.HARNESS, DecidedBy.TTNN, DecidedBy.HARNESS]
    none = NoPlacement(3, "relu", "layer1.relu", 1000, failures=failures)
    assert str(with_pin(none, calls.pins)) == (
        "step 3 relu in layer1.relu, pinned by layer1.*=height: TTNN rejects every call: this kernel takes no such shards"
    )
    assert with_pin(none, (Pin.of("layer2=l1"),)) == none


# Views ----------------------------------------------------------------------------------------------------------------------

NODES = [
    StepNode(0, "linear", "l", (0, None), (1,), frozenset((0,))),
    StepNode(1, "flatten", "f", (1,), (2,), frozenset((1,))),
    StepNode(2, "transpose", "t", (2,), (3,), frozenset((2,))),
]


def placed(*outcomes):
    """Returns placements of ``NODES``."""
    steps = tuple(PlacedStep(number, StepChoice(), outcome, 0, 0) for number, outcome in enumerate(outcomes))
    return Found(steps, Traffic(), True, 1, (0, 0))


@pytest.mark.parametrize("pin", ["f=dram", "t=dram", "[ft]=dram", "f=height", "[ft]=l1:block@8x8"])
def test_a_pin_of_views_alone_names_the_module_that_makes_their_tensor(pin):
    view = made(BLOCK, calls=(), shares=0)
    found = placed(made(BLOCK, calls=("ttnn.linear",)), view, view)
    with pytest.raises(InvalidCase) as refused:
        check_views([Pin.of(pin)], NODES, found)
    assert str(refused.value) == (
        f"pin {pin}: the modules that it matches make no call, only views of what others made; pin the module that makes it: l"
    )


def test_views_of_an_input_have_no_module_to_pin():
    view = made(DRAM, calls=(), shares=None)  # in DRAM a shared buffer is not stated
    found = placed(replace(view, results=(held(DRAM, 0),)), view, view)
    with pytest.raises(InvalidCase, match="they view an input of the model, which no module makes"):
        check_views([Pin.of("t=l1")], NODES, found)


@pytest.mark.parametrize("pins", [["f=block"], ["f=l1"], ["l=block", "t=block"], ["[lf]=dram"], ["f=dram", "*=block"]])
def test_pins_that_views_satisfy_or_that_are_about_calls_too_are_left(pins):
    """With ``[lf]`` the call is what the pin is about; and of several pins that match, only the last one holds."""
    view = made(BLOCK, calls=(), shares=0)
    check_views([Pin.of(pin) for pin in pins], NODES, placed(made(BLOCK), view, view))
