"""Findings of the seeded programs, with the bytes that their arithmetic gives, and of programs where nothing is wrong."""

from __future__ import annotations

import pytest

from ssinghal.profile.text import summary
from tests.profile.measure import ROOT
from tests.profile.several import profiled

pytestmark = pytest.mark.virtual_device
PROGRAMS = ROOT / "tests" / "profile" / "programs"
TILE = 2_048  # bytes of a bfloat16 tile
LARGE, STEP = 64 * TILE, 16 * TILE  # 4,096 and 1,024 tiles over 64 banks
MIB = 1024 * 1024

# kind, memory, what is saved, before, after
EXPECTED = {
    "late_free/function": [("late_free", "l1", LARGE, 3 * LARGE, 2 * LARGE)],
    "late_free/attribute": [("late_free", "l1", LARGE, 3 * LARGE, 2 * LARGE)],
    "late_free/branch": [
        ("late_free", "l1", 4 * STEP, 12 * STEP, 8 * STEP),
        ("late_free", "l1", STEP, 12 * STEP, 11 * STEP),
    ],
    "leak/list": [("resident", "l1", 8 * 4 * TILE, 9 * 4 * TILE, 2 * 4 * TILE)],  # x, and one that is freed at once
    "leak/cache": [("resident", "dram", 6 * 64 * TILE, 7 * 64 * TILE, 2 * 64 * TILE)],
    # 1,393,312 - 10 / 2 * 67 * 2,048 B below all; the lowest tooth of 7 and the hole of 60 tiles above it are joined to that
    "fragmentation/comb": [("fragmentation", "l1", 67 * TILE, 707_232, 707_232 + 67 * TILE)],
    # a tooth is moved into the hole above it, which leaves that two tiles less, and joins its own place to the hole below
    "fragmentation/nearly": [("fragmentation", "l1", 100 * TILE, 100 * TILE, 200 * TILE)],
    "l1_small/unused": [("region_size", "l1_small", 32_768, 32_768, 0)],
    "l1_small/pool": [("region_size", "l1_small", 65_536 - 5 * 32, 65_536, 5 * 32)],  # five tables
    "trace_region/no_trace": [("region_size", "trace", 1_400_832, 1_400_832, 0)],  # 16 MiB over 12 banks
    "few_pages/one_row": [("few_pages", "l1", 400_000 - 6_272, 400_000, 6_272)],  # 400,000 / 64 = 6,250 B
    "few_pages/four_rows": [("few_pages", "l1", 262_144 - 16_384, 262_144, 16_384)],
    "clean/chain": [],
    "clean/residual": [],
}
SEQUENCES = {path.stem: path for path in (PROGRAMS / "sequences").glob("*.py")}


def figures(findings):
    return [(one.kind, one.memory, one.bank_bytes, one.before_bytes, one.after_bytes) for one in findings]


def lines(finding):
    """The lines of the program under test, without those that called its functions."""
    return {label: site.line for label, site in finding.sites if label != "called from"}


@pytest.fixture(scope="module")
def seeded(tmp_path_factory):
    programs = {**{name: PROGRAMS / "faults" / f"{name}.py" for name in EXPECTED}, **SEQUENCES}
    return profiled(tmp_path_factory.mktemp("seeded"), programs)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_seeded_fault_is_found_and_nothing_else(seeded, name):
    assert figures(seeded.of(name)) == EXPECTED[name]


def test_a_late_free_names_the_lines_that_made_last_used_and_freed_it(seeded):
    (one,) = seeded.of("late_free/attribute")
    assert lines(one) == {"made": 7, "last used": 13, "freed": 24}
    assert one.site.line == 13


def test_every_seeded_program_has_its_findings():
    names = {str(path.relative_to(PROGRAMS / "faults").with_suffix("")) for path in (PROGRAMS / "faults").glob("*/*.py")}
    assert names == EXPECTED.keys()


@pytest.mark.parametrize("name", sorted(SEQUENCES.keys() - {"convolved"}))
def test_the_sequences_have_none(seeded, name):
    assert seeded.of(name) == []


def test_a_convolution_needs_little_of_its_l1_small(seeded):
    assert figures(seeded.of("convolved")) == [("region_size", "l1_small", 16_384 - 5 * 32, 16_384, 5 * 32)]


def test_the_summary_has_them(seeded):
    shown = summary(seeded.profile)
    first = shown.index("findings: what would save memory") + 1
    assert [one.title in shown[first + 2 * index] for index, one in enumerate(seeded.findings[:8])] == [True] * 8
    assert shown[first + 16] == f"  {len(seeded.findings) - 8} more"
