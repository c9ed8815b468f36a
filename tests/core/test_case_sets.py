"""Shards of a selection and its digest."""

from __future__ import annotations

import random
from hashlib import sha256

import pytest

from ssinghal.core.case_sets import CaseDigest, Shard, digest_of
from ssinghal.errors import InvalidCase

KEYS = [sha256(str(n).encode()).hexdigest()[:12] for n in range(500)]
CASES = [(f"op{n % 7}", key) for n, key in enumerate(KEYS)]


@pytest.mark.parametrize("of", range(1, 8))
def test_each_case_is_in_exactly_one_shard(of):
    parts = [{key for key in KEYS if Shard(number, of).has(key)} for number in range(1, of + 1)]
    assert sum(map(len, parts)) == len(KEYS)
    assert set().union(*parts) == set(KEYS)
    assert all(parts), "500 keys leave no part of at most 7 empty"


def test_a_shard_is_what_the_key_decides():
    """0xc % 5 is 2: part 3 of 5."""
    assert [number for number in range(1, 6) if Shard(number, 5).has("c")] == [3]
    assert [number for number in range(1, 6) if Shard(number, 5).has("00000000000c")] == [3]


def test_halves_consist_of_quarters():
    """Even keys, the first half, are those whose remainder by 4 is 0 or 2: the quarters 1 and 3."""
    quarters = [Shard(1, 4), Shard(3, 4)]
    assert {key for key in KEYS if Shard(1, 2).has(key)} == {key for key in KEYS if any(part.has(key) for part in quarters)}


@pytest.mark.parametrize("text", ["1/1", "2/8", "8/8", "999999/999999"])
def test_a_shard_as_typed(text):
    assert str(Shard.parse(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2",
        "/",
        "2/",
        "/8",
        "0/8",
        "9/8",
        "0/0",
        "1/0",
        "-1/8",
        "+1/8",
        "1/8/2",
        " 1/8",
        "1/8\n",
        "١/8",
        "1.0/8",
        "1/1000000",
    ],
)
def test_what_is_no_shard_is_one_line(text):
    with pytest.raises(InvalidCase) as raised:
        Shard.parse(text)
    assert str(raised.value).startswith("shard '")
    assert ": expected K/N, the part K of N, " in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("text", "of"), [("5/4", 4), ("0/3", 3), ("9/2", 2)])
def test_the_parts_that_there_are(text, of):
    with pytest.raises(InvalidCase, match=f"the part K of N, from 1/{of} to {of}/{of}$"):
        Shard.parse(text)


@pytest.mark.parametrize("text", ["1:3", "two", "1/0", "3", "1/3/5", "-1/3"])
def test_no_number_of_parts_is_expected_where_none_was_given(text):
    with pytest.raises(InvalidCase, match=r"the part K of N, such as 2/8$"):
        Shard.parse(text)


def test_the_digest_is_that_of_the_set():
    shuffled = random.Random(7).sample(CASES, len(CASES))
    assert digest_of(shuffled) == digest_of(CASES)
    assert len(digest_of([])) == 64
    others = [
        CASES[1:],
        [*CASES, CASES[0]],
        [CASES[1], CASES[1], *CASES[2:]],
        [("op0 1", CASES[0][1]), *CASES[1:]],
        [(CASES[1][0], CASES[0][1]), (CASES[0][0], CASES[1][1]), *CASES[2:]],
        [],
    ]
    assert len({digest_of(other) for other in (CASES, *others)}) == len(others) + 1


def test_a_digest_grows_by_one_case_after_the_other():
    digest = CaseDigest()
    for number, case in enumerate(CASES):
        assert digest.cases == number
        digest.add(case)
    assert digest.hexdigest() == digest_of(CASES)
    assert digest.hexdigest() == digest.hexdigest()
