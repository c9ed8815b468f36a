"""The cases of a catalog in several placements: where each operand goes, and in which dtype the weights are."""

from __future__ import annotations

import pytest

from ssinghal.catalog.placements import in_placements, parse_placements, with_weights
from ssinghal.core.boards import load_board
from ssinghal.core.case import KnownOom, Source
from ssinghal.core.tensors import DType
from ssinghal.errors import InvalidCase
from ssinghal.operators import make_case
from ssinghal.operators.binding import bind
from ssinghal.operators.case_json import case_from_json

LINEAR = make_case("linear", ((1, 224, 768), (3072, 768), (3072,)), {})
CONVOLUTION = make_case("convolution", ((1, 64, 56, 56), (256, 64, 1, 1), (256,)), {})


@pytest.mark.parametrize(
    ("text", "memories"),
    [
        ("dram,l1,height,width,block", ("dram", "l1", "l1:height", "l1:width", "l1:block")),
        ("l1:height", ("l1:height",)),
        (" block@8x8 , dram:width@12", ("l1:block@8x8", "dram:width@12")),
        ("l1:height@0,0-7,2+0,3-2,3:64x32,dram", ("l1:height@0,0-7,2+0,3-2,3:64x32", "dram")),
        ("height,l1:height,height", ("l1:height",)),
        ("l1:nd@8x8:1x32x32", ("l1:nd@8x8:1x32x32",)),
    ],
)
def test_a_list_of_placements(text, memories):
    assert parse_placements(text) == memories


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("heigth", "unknown placement 'heigth'"),
        ("dram,l2", "unknown placement 'l2'"),
        ("", "unknown placement ''"),
        ("dram,", "unknown placement ''"),
        ("dram,,l1", "unknown placement ''"),
        ("l1:hight", "unknown shard kind 'hight'"),
        ("l1_small", "unknown placement 'l1_small'"),
    ],
)
def test_what_is_no_placement(text, message):
    with pytest.raises(InvalidCase, match=message):
        parse_placements(text)


def memories_of(case):
    operands, results = bind(case, load_board("n150")).specs()
    return [str(spec.memory).partition("@")[0] for spec in (*operands, *results)]


# The activation and the result are sharded, parameters stay in DRAM as ports have them.
@pytest.mark.parametrize(
    ("case", "activations"),
    [
        (LINEAR, 1),
        (CONVOLUTION, 1),
        (make_case("mm", ((224, 768), (768, 768))), 1),
        (make_case("native_layer_norm", ((1, 224, 768), (768,), (768,)), {"normalized_shape": [768]}), 1),
        (make_case("rms_norm", ((1, 224, 768), (768,)), {"normalized_shape": [768]}), 1),
        (make_case("native_group_norm", ((1, 64, 32, 32), (64,), (64,)), {"num_groups": 2}), 1),
        (make_case("native_batch_norm", ((1, 64, 32, 32), (64,), (64,), (64,), (64,))), 1),
        (make_case("add", ((224, 768), (224, 768))), 2),
        (make_case("bmm", ((12, 224, 64), (12, 64, 224))), 2),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
@pytest.mark.parametrize("placement", ["l1:height", "l1:width", "dram:width@8"])
def test_weights_stay_in_dram(case, activations, placement):
    (placed,) = in_placements([case], [placement])
    *operands, result = memories_of(placed)
    weights = len(case.inputs) - activations
    assert operands == [placement.partition("@")[0]] * activations + ["dram"] * weights
    assert result == placement.partition("@")[0]


def test_the_rows_of_a_table_stay_in_dram():
    (placed,) = in_placements([make_case("embedding", ((1024, 768), (1, 224)))], ["l1:height"])
    assert memories_of(placed)[0] == "dram"


def test_the_placement_in_dram_is_the_case_itself():
    assert in_placements([LINEAR], ["dram"]) == [LINEAR]


def test_each_case_is_placed_in_turn_and_alike_ones_are_merged():
    one, other = Source("a", "m/a", "8x8"), Source("b", "m/b", "8x8")
    relu = make_case("relu", ((32, 64),), sources=(one,))
    in_l1 = case_from_json({**relu.identity(), "memory": "l1"})
    merged = in_placements([relu, LINEAR, make_case("relu", ((32, 64),), {}, in_l1.placement, (other,))], ["l1", "l1:width"])
    assert [(case.name, str(case.placement.request)) for case in merged] == [
        ("relu", "l1"), ("relu", "l1:width"), ("linear", "l1"), ("linear", "l1:width"),
    ]  # fmt: skip
    assert [source.catalog for source in merged[0].sources] == ["a", "b"]


def test_a_placement_replaces_the_memories_of_the_catalog_and_keeps_the_rest():
    own = {"dtype": "bfloat8_b", "memory": "dram"}
    fields = {
        **LINEAR.identity(),
        "memory": "l1",
        "output_memory": "dram",
        "output_dtype": "bfloat8_b",
        "operands": [None, own],
    }
    (placed,) = in_placements([case_from_json(fields)], ["l1:block@8x7"])
    identity = placed.identity()
    assert (identity["memory"], identity["output_memory"], identity["output_dtype"]) == ("l1:block@8x7", "same", "bfloat8_b")
    assert identity["operands"] == [None, {"dtype": "bfloat8_b"}]


def test_what_a_card_reported_of_another_placement_is_dropped():
    case = make_case("relu", ((32, 64),), known_oom=KnownOom("R1"))
    assert [placed.known_oom for placed in in_placements([case], ["dram", "l1:height"])] == [KnownOom("R1"), None]


def test_weights_of_matrix_products_and_convolutions_have_their_dtype():
    linear, convolution = (with_weights(case, DType.BFLOAT8_B) for case in (LINEAR, CONVOLUTION))
    operands, results = bind(linear).specs()
    assert [spec.dtype for spec in operands] == [DType.BFLOAT16, DType.BFLOAT8_B, DType.BFLOAT8_B]
    assert [spec.dtype for spec in results] == [DType.BFLOAT16]  # the activation decides it
    assert convolution.attrs["weights_dtype"] == "bfloat8_b"
    assert convolution.placement == CONVOLUTION.placement


def test_the_result_of_addmm_follows_the_matrix_and_not_the_bias():
    addmm = with_weights(make_case("addmm", ((1000,), (32, 2048), (2048, 1000))), DType.BFLOAT8_B)
    operands, results = bind(addmm).specs()
    assert [spec.dtype for spec in operands] == [DType.BFLOAT8_B, DType.BFLOAT16, DType.BFLOAT8_B]
    assert [spec.dtype for spec in results] == [DType.BFLOAT16]


@pytest.mark.parametrize(
    "case",
    [
        make_case("relu", ((32, 64),)),
        make_case("bmm", ((12, 224, 64), (12, 64, 224))),
        make_case("native_layer_norm", ((224, 768), (768,), (768,)), {"normalized_shape": [768]}),
        make_case("embedding", ((1024, 768), (1, 224))),
        make_case("conv3d", ((1, 32, 4, 8, 8), (32, 32, 3, 3, 3)), {"padding": [1, 1, 1]}),
    ],
    ids=lambda case: case.name,
)
def test_calls_without_such_weights_are_as_they_were(case):
    assert with_weights(case, DType.BFLOAT8_B) is case


# A map of 56 x 56 in 64 channels is flat in shards: 3,136 rows, 49 to each of 64 cores, 64 in whole tiles, so that 49 cores
# have some.
def test_a_map_in_shards_comes_flat_as_the_convolution_before_returns_it():
    (placed,) = in_placements([CONVOLUTION], ["l1:height"])
    image, *_ = bind(placed, load_board("n150")).inputs
    assert (image.shape, str(image.layout), str(image.memory)) == ((1, 1, 3136, 64), "tile", "l1:height@0,0-7,5+0,6:64x64")


def altered(cases, *options, **named):
    """By dtype, memory and weights (of the second operand) of each case."""
    made = in_placements(cases, *options, **named)
    return {
        (str(case.placement.dtype), case.placement.memory_text, str(case.placement.operand(1).dtype or "")): case.altered
        for case in made
    }


def test_each_case_states_in_what_it_was_altered():
    relu = case_from_json({"op": "relu", "inputs": [[32, 64]], "memory": "l1"})
    b16, b8 = DType.BFLOAT16, DType.BFLOAT8_B
    assert altered([relu], []) == {("bfloat16", "l1", ""): None}
    assert altered([relu], ["l1", "dram"], None, [b16, b8]) == {
        ("bfloat16", "l1", ""): (),
        ("bfloat16", "dram", ""): ("memory",),
        ("bfloat8_b", "l1", ""): ("dtype",),
        ("bfloat8_b", "dram", ""): ("dtype", "memory"),
    }
    assert altered([relu], [], b8) == {("bfloat16", "l1", ""): ()}, "it has no weights"
    linear = case_from_json({"op": "linear", "inputs": [[32, 64], [64, 32]]})
    assert altered([linear], ["dram"], b8) == {("bfloat16", "dram", "bfloat8_b"): ("weights",)}
    integers = case_from_json({"op": "relu", "inputs": [[32, 64]], "dtype": "int32"})
    assert altered([integers], [], None, [b16, b8]) == {("int32", "dram", ""): ()}


def test_a_call_that_a_catalog_has_as_it_is_is_not_altered_whatever_becomes_of_others():
    """In whatever order they are: a call in bfloat8_b that is listed, and the same one in bfloat16 that is made so."""
    cases = [case_from_json({"op": "relu", "inputs": [[32, 64]], "dtype": dtype}) for dtype in ("bfloat16", "bfloat8_b")]
    for listed in (cases, cases[::-1]):
        assert altered(listed, [], None, [DType.BFLOAT8_B]) == {("bfloat8_b", "dram", ""): ()}
        assert altered(listed, ["l1"], None, [DType.BFLOAT8_B]) == {("bfloat8_b", "l1", ""): ("memory",)}
