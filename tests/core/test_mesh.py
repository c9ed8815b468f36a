"""How operands are cut over the chips of a mesh: the words, their JSON, and the sizes of parts."""

from __future__ import annotations

import pytest

from ssinghal.core.case import OperandPlacement
from ssinghal.core.mesh import part_of, shard_dim_from_json, shard_dim_from_word, shard_dim_json, shard_dim_word
from ssinghal.core.operand_words import operand_words
from ssinghal.errors import InvalidCase

FORMS = [("3", 3, 3), ("-1", -1, -1), ("3@1", (None, 3), [None, 3]), ("-2@0", (-2, None), [-2, None]), ("2,3", (2, 3), [2, 3])]


@pytest.mark.parametrize(("word", "dim", "json"), FORMS)
def test_words_json_and_text_mean_the_same(word, dim, json):
    assert shard_dim_from_word(word) == shard_dim_from_json(json) == dim
    assert shard_dim_json(dim) == json
    assert shard_dim_word(dim) == f"shard={word}"
    assert operand_words(f"1,1,64,128/bf8/shard={word}/l1") == (
        [1, 1, 64, 128],
        {"dtype": "bfloat8_b", "shard_dim": json, "memory": "l1"},
    )
    assert str(OperandPlacement(shard_dim=dim)) == f"shard={word}"
    assert OperandPlacement(shard_dim=dim).to_json() == {"shard_dim": json}


@pytest.mark.parametrize("word", ["", "x", "1.5", "3@", "3@2", "@1", "1,2,3", "1,", "3@1@0"])
def test_a_wrong_word_is_one_line_with_the_forms(word):
    with pytest.raises(InvalidCase) as error:
        operand_words(f"64,64/shard={word}")
    assert str(error.value).startswith(f"operand 64,64/shard={word}: shard={word}: expected a dim over all chips as shard=3")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("value", [True, 1.0, "3", [], [None, None], [1], [1, 2, 3], [1, "2"], [True, None], {"dim": 1}])
def test_wrong_json_states_what_was_expected(value):
    with pytest.raises(
        InvalidCase, match=r"shard_dim: expected a dim like 2 or -1, or one for each mesh axis like \[null, 3\]"
    ):
        shard_dim_from_json(value)


@pytest.mark.parametrize(
    ("shape", "dim", "mesh", "part"),
    [
        ((1, 1, 4096, 14336), 3, (1, 2), (1, 1, 4096, 7168)),
        ((1, 1, 4096, 14336), -1, (2, 4), (1, 1, 4096, 1792)),  # over all eight chips
        ((64, 1024), (None, 1), (2, 4), (64, 256)),
        ((64, 1024), (1, None), (2, 4), (64, 512)),
        ((64, 1024), (0, -1), (2, 4), (32, 256)),
        ((64, 1024), (0, 1), (1, 2), (64, 512)),  # one row of chips cuts nothing
        ((8, 3), 0, (2, 4), (1, 3)),
    ],
)
def test_each_chip_holds_an_equal_part(shape, dim, mesh, part):
    assert part_of(shape, dim, mesh) == part


@pytest.mark.parametrize(
    ("shape", "dim", "why"),
    [
        ((64, 100), 1, "shard=1: 100 does not divide over 8 chips, each of which holds an equal part"),
        ((64, 1), 1, "shard=1: 1 does not divide over 8 chips"),
        ((64, 6), (None, 1), "shard=1@1: 6 does not divide over 4 chips"),
        ((64, 64), 2, "shard=2: dim 2 is outside -2..1"),
        ((64, 64), (None, -3), "shard=-3@1: dim -3 is outside -2..1"),
        ((64, 64), (1, -1), "shard=1,-1: both mesh axes cut dim 1"),
    ],
)
def test_what_ttnns_mappers_refuse(shape, dim, why):
    with pytest.raises(InvalidCase) as error:
        part_of(shape, dim, (2, 4))
    assert str(error.value).startswith(why)
