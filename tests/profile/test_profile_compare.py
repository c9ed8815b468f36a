"""``ssinghal profile compare``: what grew, on which line, and the exit code that a limit gives."""

from __future__ import annotations

import json

import pytest

from ssinghal.profile.call_changes import Change
from ssinghal.profile.growth import GrowthLimit
from tests.profile.measure import run_ssinghal
from tests.profile.test_profile_command import PROLOGUE, TILE_ROW

pytestmark = pytest.mark.virtual_device

BEFORE = """
a = tensor(3)
b = ttnn.relu(a)
del a
c = tensor(1)
ttnn.deallocate(c)
ttnn.close_device(device)
"""
# The same, two lines further down: a larger input, a call more, and none of the last two.
AFTER = """
# two lines
# of comment
a = tensor(5)
b = ttnn.relu(a)
g = ttnn.gelu(b)
del a
ttnn.close_device(device)
"""
FAILING = "\na = tensor(3)\nb = ttnn.relu(a)\ndel a\nc = tensor(900)\n"


@pytest.fixture(scope="module")
def profiles(tmp_path_factory):
    """The folder of the profiles ``before``, ``again``, ``after`` and ``failing``, each of a program of that name."""
    folder = tmp_path_factory.mktemp("profiles")
    for name, source in (("before", BEFORE), ("again", BEFORE), ("after", AFTER), ("failing", FAILING)):
        (folder / "program.py").write_text(PROLOGUE + source)
        done = run_ssinghal(folder, "profile", "-o", name, "--", "python", "program.py")
        assert done.returncode == (name == "failing"), done.stderr
    return folder


@pytest.fixture
def compare(profiles):
    return lambda *words: run_ssinghal(profiles, "profile", "compare", *words)


def test_equal_profiles(compare):
    done = compare("before", "again", "--fail-on-increase", "0")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "no difference"
    (only,) = json.loads(compare("before", "again", "--json").stdout)["processes"]
    assert (only["equal"], only["calls"], only["lines"]) == (True, [], [])


def test_what_grew_is_named_by_its_line(compare):
    """Before, the peak is a and b of 3 rows of tiles; afterwards a, b and g of 5."""
    done = compare("before", "after", "--json")
    assert done.returncode == 0
    (only,) = json.loads(done.stdout)["processes"]
    assert only["peaks"] == {"l1": [6 * TILE_ROW, 15 * TILE_ROW]}
    assert only["l1_between_operations"] == [6 * TILE_ROW, 15 * TILE_ROW]
    lines = {(line["name"], line["site"][2]): line["bank_bytes"] for line in only["lines"]}
    assert lines == {
        ("ttnn.empty", "tensor"): [3 * TILE_ROW, 5 * TILE_ROW],
        ("ttnn.relu", "<module>"): [3 * TILE_ROW, 5 * TILE_ROW],
        ("ttnn.gelu", "<module>"): [0, 5 * TILE_ROW],
    }
    assert only["operations"] == {"changed": 2, "removed": 2, "added": 1}
    first = len(PROLOGUE.splitlines())
    (relu,) = (line["site"][1] for line in only["lines"] if line["name"] == "ttnn.relu")
    assert relu == first + 5, "where the second program has it"
    changed = {(change["name"], *change["calls"]) for change in only["calls"]}
    assert changed == {
        ("ttnn.empty", 0, 0),
        ("ttnn.relu", 1, 1),
        ("ttnn.gelu", None, 2),
        ("ttnn.empty", 2, None),
        ("ttnn.deallocate", 3, None),
    }


def test_the_same_as_text(compare):
    text = compare("before", "after").stdout
    grown = "12 KiB (12,288 B) → 30 KiB (30,720 B): +18 KiB (18,432 B), +150.0%"
    assert f"L1 per core: peak {grown}\n" in text
    assert "    result: 96x2048 bfloat16 tile in l1 → 160x2048 bfloat16 tile in l1\n" in text
    assert "only in the second" in text
    assert "operations: 2 changed, 2 in the first only, 1 in the second only\n" in text


@pytest.mark.parametrize(("limit", "code"), [("149.9%", 1), ("150%", 0), ("18431", 1), ("18 KiB", 0), ("0", 1), ("1 GiB", 0)])
def test_a_limit_decides_the_exit_code(compare, limit, code):
    """The peak grows by 9 of 6 rows of tiles: by 150%, or 18,432 B."""
    done = compare("before", "after", "--fail-on-increase", limit)
    assert done.returncode == code
    assert ("finding: L1 per core: peak grew by 18 KiB (18,432 B)" in done.stderr) == bool(code)


def test_less_is_no_finding(compare):
    done = compare("after", "before", "--fail-on-increase", "0")
    assert (done.returncode, done.stderr) == (0, "")
    assert "-18 KiB (-18,432 B), -60.0%" in done.stdout


def test_a_program_that_newly_fails_is_a_finding(compare):
    """Its peak is no higher, because it never gets there."""
    done = compare("before", "failing", "--fail-on-increase", "50%")
    assert (done.returncode, done.stderr) == (1, "ssinghal: finding: the program raised in ttnn.empty\n")
    assert "the program ended by itself → raised in ttnn.empty\n" in done.stdout
    assert compare("failing", "before", "--fail-on-increase", "50%").returncode == 0


def test_a_profile_may_be_a_file(compare, profiles):
    (file,) = (profiles / "before").glob("records-*.jsonl")
    assert compare(file, "again").stdout.endswith("no difference\n")


def test_a_folder_of_several_profiles_names_them(compare):
    done = compare(".", "before")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == ("ssinghal: .: no records-*.jsonl: name one of its profiles: after, again, before, failing\n")


def test_a_report_can_be_made_again(profiles):
    summary = profiles / "again" / "summary.txt"
    first = summary.read_text()
    summary.unlink()
    done = run_ssinghal(profiles, "profile", "report", "again")
    assert (done.returncode, done.stdout, summary.read_text()) == (0, "", first)


@pytest.mark.parametrize(
    ("text", "before", "after", "exceeded"),
    [
        ("1%", 100, 101, False),
        ("1%", 100, 102, True),
        ("0.5 %", 1_000, 1_005, False),
        ("1%", 0, 1, True),
        ("1 KiB", 0, 1_024, False),
        ("1 KiB", 0, 1_025, True),
        ("0%", 5, 4, False),
    ],
)
def test_limits(text, before, after, exceeded):
    assert GrowthLimit.parse(text).is_exceeded(Change(before, after)) is exceeded


def test_different_programs_are_compared_by_line(compare, profiles):
    """Only the function that makes tensors is the same, in another file: its first calls correspond."""
    (profiles / "other.py").write_text(PROLOGUE + "w = ttnn.neg(tensor(2))\nttnn.close_device(device)\n")
    assert run_ssinghal(profiles, "profile", "-o", "other", "--", "python", "other.py").returncode == 0
    (only,) = json.loads(compare("before", "other", "--json").stdout)["processes"]
    assert only["peaks"] == {"l1": [6 * TILE_ROW, 4 * TILE_ROW]}
    lines = {(line["name"], *line["bank_bytes"]) for line in only["lines"]}
    assert lines == {
        ("ttnn.empty", 3 * TILE_ROW, 2 * TILE_ROW),
        ("ttnn.relu", 3 * TILE_ROW, 0),
        ("ttnn.neg", 0, 2 * TILE_ROW),
    }
    assert only["operations"] == {"changed": 1, "removed": 3, "added": 1}


def test_an_edit_of_a_line_or_the_name_of_its_file_is_a_change(compare, profiles):
    """The result of relu, 3 rows of tiles, is in DRAM: of 192 tiles of 2,048 B each of 12 banks has 16."""
    edited = BEFORE.replace("ttnn.relu(a)", "ttnn.relu(a, memory_config=ttnn.DRAM_MEMORY_CONFIG)")
    (profiles / "renamed.py").write_text(PROLOGUE + edited)
    assert run_ssinghal(profiles, "profile", "-o", "edited", "--", "python", "renamed.py").returncode == 0
    (only,) = json.loads(compare("before", "edited", "--json").stdout)["processes"]
    assert only["operations"] == {"changed": 1, "removed": 0, "added": 0}
    (relu,) = only["calls"]
    assert [did["kept_bank_bytes"] for did in relu["did"]] == [{"l1": 3 * TILE_ROW}, {"dram": 16 * 2048}]
    peaks = only["peaks"]["l1"]
    assert all(total >= tensors for total, tensors in zip(only["l1_with_program_buffers"], peaks, strict=True))
