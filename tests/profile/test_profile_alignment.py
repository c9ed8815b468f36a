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


def in_files(*calls: tuple[str, str, str, str]) -> Profile:
    """Calls of a name, in a file and a function, of a text; each on the next line."""
    profile = Profile(folder="/a")
    for number, (name, file, function, text) in enumerate(calls):
        site = Site(f"/a/{file}", 1 + number, function, text)
        profile.calls.append(Call(number, name, site, (site,), {}))
    return profile


def numbers(before: Profile, after: Profile) -> list[tuple[int | None, int | None]]:
    return [(a and a.number, b and b.number) for a, b in aligned_calls(before, after)]


RELU, GELU, ADD = (("relu", "m.py", "f", "relu(x)"), ("gelu", "m.py", "f", "gelu(x)"), ("add", "m.py", "f", "add(x)"))
EDITED = ("relu", "m.py", "f", "relu(x, memory_config=L1)")


def test_a_call_whose_line_was_edited_is_the_same_call() -> None:
    assert numbers(in_files(RELU, GELU, RELU, ADD), in_files(EDITED, GELU, EDITED, ADD)) == [(n, n) for n in range(4)]


def test_a_call_of_another_name_is_another_call() -> None:
    swapped = ("gelu", "m.py", "f", "gelu(x, fast=True)")
    assert numbers(in_files(RELU, ADD), in_files(swapped, ADD)) == [(0, None), (None, 0), (1, 1)]


def test_an_edited_line_beside_an_inserted_and_a_removed_one() -> None:
    assert numbers(in_files(RELU, ADD), in_files(GELU, EDITED, ADD)) == [(None, 0), (0, 1), (1, 2)]
    assert numbers(in_files(GELU, RELU, ADD), in_files(EDITED, ADD)) == [(0, None), (1, 0), (2, 1)]


def test_in_another_file_calls_correspond_by_their_text_first() -> None:
    """Were it by their function alone, the inserted call would be taken for the first one."""
    other = [(name, "renamed.py", function, text) for name, _, function, text in (RELU, ADD)]
    inserted = ("relu", "renamed.py", "f", "relu(weights)")
    assert numbers(in_files(RELU, ADD), in_files(*other)) == [(0, 0), (1, 1)]
    assert numbers(in_files(RELU, ADD), in_files(inserted, *other)) == [(None, 0), (0, 1), (1, 2)]


def test_in_a_renamed_or_another_function() -> None:
    """A call of the same function is preferred to one of the same name elsewhere."""
    renamed = [(name, file, "forward", text) for name, file, _, text in (RELU, ADD)]
    assert numbers(in_files(RELU, ADD), in_files(*renamed)) == [(0, 0), (1, 1)]
    elsewhere = ("relu", "m.py", "g", "relu(y)")
    assert numbers(in_files(RELU, ADD), in_files(elsewhere, ADD)) == [(0, 0), (1, 1)]
    assert numbers(in_files(RELU, ADD), in_files(elsewhere, EDITED, ADD)) == [(None, 0), (0, 1), (1, 2)]


def test_calls_in_another_order_correspond_as_far_as_the_order_is_the_same() -> None:
    """Of two that were swapped, one has a counterpart."""
    pairs = numbers(in_files(RELU, GELU, ADD), in_files(GELU, RELU, ADD))
    assert pairs == [(0, None), (1, 0), (None, 1), (2, 2)]


def test_without_its_text_a_line_is_known_by_its_number() -> None:
    before = program("/a", ("relu", 1, ""), ("relu", 2, ""))
    after = program("/a", ("relu", 2, ""))
    assert [(a and a.number, b and b.number) for a, b in aligned_calls(before, after)] == [(0, None), (1, 0)]
