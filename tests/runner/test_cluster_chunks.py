"""How cases are cut into chunks for the workers of a cluster: none is lost, none is twice."""

from __future__ import annotations

from itertools import count

import pytest

from ssinghal.core.case import Case
from ssinghal.operators.case_json import case_from_json
from ssinghal.runner.cluster.chunks import CHUNK_S, LARGEST, MAX_AHEAD, Chunk, Chunks
from ssinghal.runner.probers import Numbered

CASE: Case = case_from_json({"op": "relu", "inputs": [[1, 32]]})


def numbered(cases: int) -> list[Numbered]:
    return [(number, CASE) for number in range(cases)]


def numbers(chunk: Chunk | None) -> list[int]:
    assert chunk is not None
    return [number for number, _ in chunk.cases]


def sizes(chunks: Chunks, seconds_per_case: float, *, workers: int = 1) -> list[int]:
    found = []
    while chunk := chunks.take(workers, idle=True):
        found.append(len(chunk.cases))
        chunks.ended(len(chunk.cases), len(chunk.cases) * seconds_per_case)
    return found


def test_chunks_double_until_they_take_their_time_and_shrink_at_the_end():
    found = sizes(Chunks(numbered(200)), CHUNK_S / 20)
    # from 1 in doublings up to the 20 cases of a chunk's time; when 2 * 20 more are wanted and only 200 - 31 - 7 * 20 = 29
    # remain, half of these, rounded up, and so on
    assert found == [1, 2, 4, 8, 16, 20, 20, 20, 20, 20, 20, 20, 15, 7, 4, 2, 1]
    assert sum(found) == 200


def test_slow_cases_go_one_by_one_and_quick_ones_in_the_largest_chunks():
    assert sizes(Chunks(numbered(7)), 2 * CHUNK_S) == [1] * 7
    assert max(sizes(Chunks(numbered(20_000)), 0.0)) == LARGEST


def test_few_cases_are_taken_ahead_of_their_need():
    taken = count()
    endless = ((next(taken), CASE) for _ in iter(int, 1))
    chunks = Chunks(endless)
    for _ in range(12):
        chunk = chunks.take(1000, idle=True)
        assert chunk is not None
        chunks.ended(len(chunk.cases), 0.0)
    given = sum(2**step for step in range(8)) + 4 * LARGEST  # 1, 2, 4 … 128, then four of 256
    assert next(taken) - given <= MAX_AHEAD


def test_a_lost_chunk_is_repeated_alone_then_split_then_its_guilty_case_is_named():
    chunks = Chunks(numbered(3))
    chunks.ended(1, 0.0)
    chunks.ended(2, 0.0)
    first = chunks.take(1, idle=True)
    assert numbers(first) == [0, 1]  # half of three, rounded up
    assert first is not None
    assert chunks.lost(first) is None

    assert chunks.take(1, idle=False) is None, "another chunk beside a suspect one"
    again = chunks.take(1, idle=True)
    assert numbers(again) == [0, 1]
    assert again is not None
    assert again.suspect
    assert chunks.lost(again) is None

    alone = [chunks.take(1, idle=True), chunks.take(1, idle=True)]
    assert [numbers(chunk) for chunk in alone] == [[0], [1]]
    guilty = alone[1]
    assert guilty is not None
    assert chunks.lost(guilty) is None, "one lost worker alone may be chance"
    repeated = chunks.take(1, idle=True)
    assert numbers(repeated) == [1]
    assert repeated is not None
    assert chunks.lost(repeated) == (1, CASE)

    assert numbers(chunks.take(1, idle=True)) == [2]
    assert not chunks.remaining


def test_a_chunk_that_is_given_back_is_no_suspect():
    chunks = Chunks(numbered(2))
    first = chunks.take(1, idle=True)
    assert first is not None
    chunks.give_back(first)
    assert chunks.take(1, idle=False) == first
    assert numbers(chunks.take(1, idle=False)) == [1]


@pytest.mark.parametrize("workers", [1, 3, 50])
@pytest.mark.parametrize("cases", [0, 1, 2, 99, 1000])
def test_every_case_is_in_one_chunk_whatever_is_lost(cases, workers):
    """Every third chunk is lost at its first try."""
    chunks, done, tries = Chunks(iter(numbered(cases))), [], count()
    while chunks.remaining:
        chunk = chunks.take(workers, idle=True)
        assert chunk is not None
        if next(tries) % 3 == 0 and not chunk.losses and not chunk.suspect:
            assert chunks.lost(chunk) is None
            continue
        done += numbers(chunk)
        chunks.ended(len(chunk.cases), 0.001)
    assert sorted(done) == list(range(cases))
