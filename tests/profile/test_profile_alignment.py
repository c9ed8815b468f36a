"""Which calls and lines of two profiles correspond."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ssinghal.profile import alignment
from ssinghal.profile.alignment import align, aligned_calls, corresponding_sites
from ssinghal.profile.model import Call, Profile, Site

letters = st.text("abc", max_size=8)


def longest_common(one: str, other: str) -> int:
    """The length of a longest common subsequence, by the table of the textbook."""
    table = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for a, left in enumerate(one):
        for b, right in enumerate(other):
            table[a + 1][b + 1] = table[a][b] + 1 if left == right else max(table[a][b + 1], table[a + 1][b])
    return table[-1][-1]


def check(one: str, other: str) -> int:
    """Returns how many items have a counterpart."""
    pairs = align(one, other)
    assert [a for a, _ in pairs if a is not None] == [*range(len(one))]
    assert [b for _, b in pairs if b is not None] == [*range(len(other))]
    matched = [(a, b) for a, b in pairs if a is not None and b is not None]
    assert all(one[a] == other[b] for a, b in matched)
    return len(matched)


@given(letters, letters)
def test_as_many_as_possible_have_a_counterpart(one: str, other: str) -> None:
    assert check(one, other) == longest_common(one, other)


def test_sequences_that_differ_much_are_matched_in_order(monkeypatch) -> None:
    monkeypatch.setattr(alignment, "EDITS_LIMIT", 2)
    assert check("abcabc", "xaybzc") == 3
    assert check("abc", "def") == 0


def program(folder: str, *lines: tuple[str, int, str]) -> Profile:
    profile = Profile(folder=folder)
    for number, (name, line, text) in enumerate(lines):
        site = Site(f"{folder}/model.py", line, "forward", text)
        profile.calls.append(Call(number, name, site, (site,), {}))
    return profile


def test_a_line_that_moved_is_the_same_line() -> None:
    before = program("/a", ("relu", 10, "x = relu(x)"), ("relu", 12, "y = relu(x)"), ("add", 14, "add(x, y)"))
    after = program("/b", ("relu", 12, "x = relu(x)"), ("relu", 14, "y = relu(x)"), ("add", 16, "add(x, y)"))
    pairs = aligned_calls(before, after)
    assert [(a.site.line, b.site.line) for a, b in pairs] == [(10, 12), (12, 14), (14, 16)]
    assert {a.line: b.line for a, b in corresponding_sites(pairs).items()} == {10: 12, 12: 14, 14: 16}


def test_a_call_that_the_other_does_not_make_has_no_counterpart() -> None:
    before = program("/a", ("relu", 1, "relu(x)"), ("move", 2, "move(x)"), ("add", 3, "add(x)"))
    after = program("/a", ("relu", 1, "relu(x)"), ("add", 3, "add(x)"), ("gelu", 4, "gelu(x)"))
    pairs = [(a and a.name, b and b.name) for a, b in aligned_calls(before, after)]
    assert pairs == [("relu", "relu"), ("move", None), ("add", "add"), (None, "gelu")]


def test_without_its_text_a_line_is_known_by_its_number() -> None:
    before = program("/a", ("relu", 1, ""), ("relu", 2, ""))
    after = program("/a", ("relu", 2, ""))
    assert [(a and a.number, b and b.number) for a, b in aligned_calls(before, after)] == [(0, None), (1, 0)]
