"""Which calls and lines of two profiles correspond, also where the program was edited or took another branch."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from itertools import groupby

from ssinghal.profile.model import Call, Profile, Site

EDITS_LIMIT = 1_000  # the search for the fewest insertions and deletions takes memory in proportion to its square

_KEYS = 5  # how many keys ``_keys`` gives

Pair = tuple[int | None, int | None]


def aligned_calls(before: Profile, after: Profile) -> list[tuple[Call | None, Call | None]]:
    """Returns the calls of both in order, each with its counterpart; None for a call that the other does not make.

    Calls that correspond have the same name, and are in the same order. First those are matched that come from the same text in
    the same function of the same file, so that the fewest have no counterpart; then, between each two of them, those that have
    less in common, such as the function alone where the line was edited.
    """
    one_keys, other_keys = ([_keys(profile, call) for call in profile.calls] for profile in (before, after))
    pairs: list[Pair] = [*((n, None) for n in range(len(one_keys))), *((None, n) for n in range(len(other_keys)))]
    for nth in range(_KEYS):
        pairs = _with_gaps_aligned(pairs, [keys[nth] for keys in one_keys], [keys[nth] for keys in other_keys])
    return [(None if one is None else before.calls[one], None if other is None else after.calls[other]) for one, other in pairs]


def corresponding_sites(pairs: Sequence[tuple[Call | None, Call | None]]) -> dict[Site, Site]:
    """Returns for each line of the first profile the one of the second that most of its calls correspond to."""
    counts = Counter((one.site, other.site) for one, other in pairs if one is not None and other is not None)
    found: dict[Site, Site] = {}
    taken: set[Site] = set()
    for (one, other), _ in counts.most_common():
        if one is not None and other is not None and one not in found and other not in taken:
            found[one] = other
            taken.add(other)
    return found


def relative(profile: Profile, file: str) -> str:
    """Returns a file as the program's folder has it, so that copies of a program in two folders are the same."""
    inside = profile.folder and file.startswith(profile.folder.rstrip(os.sep) + os.sep)
    return os.path.relpath(file, profile.folder) if inside else file


def _keys(profile: Profile, call: Call) -> tuple[Hashable, ...]:
    """Returns what a call may have in common with its counterpart, from the most to the least."""
    name, site = call.name, call.site
    if site is None:
        return (name,) * _KEYS
    text = site.text or site.line
    file = relative(profile, site.file)
    return (name, file, site.function, text), (name, site.function, text), (name, text), (name, site.function), name


def _with_gaps_aligned(pairs: Sequence[Pair], before: Sequence[Hashable], after: Sequence[Hashable]) -> list[Pair]:
    """Returns the pairs, with those added that can be made of the positions between them that have no counterpart."""
    found: list[Pair] = []
    for is_complete, group in groupby(pairs, key=lambda pair: None not in pair):
        stretch = list(group)
        if is_complete:
            found += stretch
            continue
        one = [a for a, _ in stretch if a is not None]
        other = [b for _, b in stretch if b is not None]
        for a, b in align([before[n] for n in one], [after[n] for n in other]):
            found.append((None if a is None else one[a], None if b is None else other[b]))
    return found


def align(before: Sequence[Hashable], after: Sequence[Hashable]) -> list[Pair]:
    """Returns the positions of equal items in pairs, in order, and None beside one that has no counterpart."""
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    end = 0
    while end < min(len(before), len(after)) - start and before[-1 - end] == after[-1 - end]:
        end += 1
    one, other = before[start : len(before) - end], after[start : len(after) - end]
    matches = _longest(one, other)
    if matches is None:
        matches = _by_occurrence(one, other)
    pairs: list[Pair] = [(n, n) for n in range(start)]
    left = right = start
    for a, b in [*((a + start, b + start) for a, b in matches), (len(before) - end, len(after) - end)]:
        pairs += [(n, None) for n in range(left, a)] + [(None, n) for n in range(right, b)]
        if a < len(before) - end or b < len(after) - end:
            pairs.append((a, b))
        left, right = a + 1, b + 1
    return pairs + [(len(before) - n, len(after) - n) for n in range(end, 0, -1)]


def _longest(one: Sequence[Hashable], other: Sequence[Hashable]) -> list[tuple[int, int]] | None:
    """Returns the matches of a longest common subsequence; None if more than ``EDITS_LIMIT`` items have no counterpart.

    E. W. Myers, An O(ND) difference algorithm and its variations (1986): ``reach[d]`` is how far into ``one`` one gets with so
    many edits, for each diagonal.
    """
    if set(one).isdisjoint(other):
        return []
    reach = {1: 0}
    history = []
    for edits in range(min(EDITS_LIMIT, len(one) + len(other)) + 1):
        history.append(dict(reach))
        for diagonal in range(-edits, edits + 1, 2):
            down = diagonal == -edits or (diagonal != edits and reach[diagonal - 1] < reach[diagonal + 1])
            a = reach[diagonal + 1] if down else reach[diagonal - 1] + 1
            b = a - diagonal
            while a < len(one) and b < len(other) and one[a] == other[b]:
                a, b = a + 1, b + 1
            reach[diagonal] = a
            if a >= len(one) and b >= len(other):
                return _traced(history, len(one), len(other))
    return None


def _traced(history: list[dict[int, int]], a: int, b: int) -> list[tuple[int, int]]:
    """Follows the edits back from the end and returns the matches between them, in order."""
    matches = []
    for edits in range(len(history) - 1, -1, -1):
        reach, diagonal = history[edits], a - b
        down = diagonal == -edits or (diagonal != edits and reach[diagonal - 1] < reach[diagonal + 1])
        before = diagonal + 1 if down else diagonal - 1
        earlier_a = reach[before] if edits else 0
        earlier_b = earlier_a - before if edits else 0
        while a > earlier_a and b > earlier_b:
            a, b = a - 1, b - 1
            matches.append((a, b))
        a, b = earlier_a, earlier_b
    return matches[::-1]


def _by_occurrence(one: Sequence[Hashable], other: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Matches each item with the next equal one: for sequences that differ too much for the fewest edits to be found."""
    positions: dict[Hashable, list[int]] = defaultdict(list)
    for position in range(len(other) - 1, -1, -1):
        positions[other[position]].append(position)
    matches = []
    next_free = 0
    for a, item in enumerate(one):
        later = positions.get(item, [])
        while later and later[-1] < next_free:
            later.pop()
        if later:
            matches.append((a, later[-1]))
            next_free = later.pop() + 1
    return matches
