"""The fewest bytes to free, against all sets of blocks of small banks."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest

from ssinghal.profile.address_map import Block, Span, holes, largest_hole_bytes, least_to_free

BANK = Span(100, 140)


def random_blocks(random):
    """Neighbours and holes of 0 to 4 bytes between them, some of them fixed."""
    blocks, low = [], BANK.low
    while len(blocks) < 7:
        start = low + random.choice((0, 0, 1, 2, 4))
        end = start + random.randint(1, 6)
        if end > BANK.high:
            break
        blocks.append(Block(Span(start, end), random.random() < 0.8, random.randint(0, 9)))
        low = end
    return blocks


def fewest_bytes(blocks, need):
    """By trying all sets of freeable blocks on a bank whose bytes are marked one by one."""
    best = None
    freeable = [block for block in blocks if block.is_freeable]
    for count in range(len(freeable) + 1):
        for freed in combinations(freeable, count):
            taken = [any(b.span.low <= x < b.span.high for b in blocks if b not in freed) for x in range(*BANK)]
            free = "".join("x" if byte else "." for byte in taken)
            size = sum(block.span.size_bytes for block in freed)
            if "." * need in free and (best is None or size < best):
                best = size
    return best


@pytest.mark.parametrize("seed", range(60))
def test_no_set_of_blocks_is_smaller(seed):
    random = Random(seed)
    blocks = random_blocks(random)
    random.shuffle(blocks)
    spans = [block.span for block in blocks]
    for need in range(largest_hole_bytes(BANK, spans) + 1, BANK.size_bytes + 2):
        found = least_to_free(BANK, blocks, need)
        assert (None if found is None else sum(block.span.size_bytes for block in found)) == fewest_bytes(blocks, need)
        if found is not None:
            kept = [block.span for block in blocks if block not in found]
            assert all(block.is_freeable for block in found)
            assert largest_hole_bytes(BANK, kept) >= need


def test_of_equal_bytes_fewer_blocks_and_then_those_unused_for_longest():
    blocks = [
        Block(Span(100, 110), last_use=1),
        Block(Span(110, 111), is_freeable=False),
        Block(Span(111, 116), last_use=2),
        Block(Span(116, 121), last_use=2),
        Block(Span(121, 122), is_freeable=False),
        Block(Span(122, 132), last_use=0),
        Block(Span(132, 140), is_freeable=False),
    ]
    assert [block.span for block in least_to_free(BANK, blocks, 10)] == [Span(122, 132)]


def test_holes():
    assert list(holes(BANK, [Span(120, 130), Span(100, 105)])) == [Span(105, 120), Span(130, 140)]
    assert list(holes(BANK, [])) == [BANK]
    assert largest_hole_bytes(BANK, [BANK]) == 0
