"""What counts as a change of a call, and what is only known in one of two profiles."""

from __future__ import annotations

from ssinghal.profile.comparison import Comparison
from ssinghal.profile.comparison_text import lines
from ssinghal.profile.growth import GrowthLimit
from ssinghal.profile.model import Buffer, Call, Peak, Profile, Program, Spec, Tensor
from ssinghal.profile.side_by_side import side_by_side


def profile(*programs: Program, config: str = "", size: int = 1_000, memory_layout: str = "interleaved") -> Profile:
    """A call that makes a tensor and a temporary buffer, and runs programs."""
    spec = Spec((32, 32), "bfloat16", "tile", "l1", memory_layout, config=config)
    call = Call(0, "ttnn.f", None, (), {}, programs=programs, results=(Tensor(spec, 8_000),))
    buffers = [Buffer("l1", 8_000, size, 64 * size, 0, 0), Buffer("l1", 7_000, 500, 32_000, 0, 0, freed=0)]
    unknown = sum(program.program_bytes is None for program in programs)
    return Profile(calls=[call], buffers=buffers, unknown_programs=unknown, ended=True)


def program(name: str, size: int | None) -> Program:
    return Program(name, size, 1_000, None)


def test_program_buffers_that_one_profile_does_not_report_are_no_change() -> None:
    known = profile(program("Halo", 100), program("Conv", 9_000))
    partly = profile(program("Halo", 100), program("Conv", None))
    for comparison in (Comparison.of(known, partly), Comparison.of(partly, known)):
        assert comparison.calls == []
    # Of a profile that knows all of its programs the peak is exact; of the other it is a lower bound.
    assert GrowthLimit.parse("0").findings(Comparison.of(known, partly)) == []
    assert GrowthLimit.parse("0").unproven(Comparison.of(known, partly)) == []
    assert GrowthLimit.parse("0").findings(Comparison.of(partly, known)) == []
    (remark,) = GrowthLimit.parse("0").unproven(Comparison.of(partly, known))
    assert "grew by 8.691 KiB (8,900 B), which is no finding: TTNN did not report the program buffers of 1 runs" in remark
    text = "\n".join(lines(Comparison.of(partly, known)))
    assert "it did not report 1 → 0 runs of programs" in text


def test_program_buffers_that_both_report_are_compared_program_by_program() -> None:
    comparison = Comparison.of(
        profile(program("Halo", 100), program("Move", None), program("Conv", 9_000)),
        profile(program("Halo", 200), program("Move", None), program("Conv", 9_000)),
    )
    (change,) = comparison.calls
    assert change.programs == [("Halo", (100, 200))]
    assert change.weight == 100


def test_other_programs_are_a_change() -> None:
    (change,) = Comparison.of(profile(program("Halo", 100)), profile(program("Conv", None))).calls
    assert change.programs == []
    text = list(lines(Comparison.of(profile(program("Halo", 100)), profile(program("Conv", None)))))
    assert "    programs: Halo 100 B → Conv not reported" in text


def test_how_a_release_writes_a_memory_config_is_no_change() -> None:
    assert Comparison.of(profile(config='{"a": 1}'), profile(config='{"a": 1, "b": 2}')).calls == []
    (change,) = Comparison.of(profile(), profile(memory_layout="height_sharded")).calls
    assert [(a.memory_layout, b.memory_layout) for a, b in change.results] == [("interleaved", "height_sharded")]


def test_what_a_call_keeps_and_what_it_frees_again() -> None:
    (change,) = Comparison.of(profile(), profile(size=1_500)).calls
    assert (change.kept("l1"), change.temporary("l1")) == ((1_000, 1_500), (500, 500))


def with_peak(tensors: int, *programs: Program) -> Profile:
    one = profile(*programs)
    one.peaks["l1"] = Peak(tensors, one.calls[0], ())
    return one


def test_with_program_buffers_a_peak_is_no_less_than_that_of_tensors() -> None:
    """Programs run beside 1,000 B of tensors: with 100 B that is less than the 3,000 B of another moment, with 9,000 B more."""
    low, high = with_peak(3_000, program("Halo", 100)), with_peak(3_000, program("Halo", 100), program("Conv", 9_000))
    comparison = Comparison.of(low, high)
    assert comparison.l1_and_programs == (3_000, 10_000)
    assert GrowthLimit.parse("0").findings(comparison) == ["L1 with program buffers: peak grew by 6.836 KiB (7,000 B)"]
    assert Comparison.of(with_peak(3_000), with_peak(3_000, program("Conv", 1_900))).l1_and_programs == (3_000, 3_000)
    assert GrowthLimit.parse("0").findings(Comparison.of(with_peak(3_000), with_peak(3_000, program("Conv", 1_900)))) == []


def test_growth_from_exact_to_a_lower_bound_is_proven() -> None:
    comparison = Comparison.of(with_peak(3_000, program("Conv", 9_000)), with_peak(12_000, program("Conv", None)))
    assert comparison.l1_and_programs == (10_000, 12_000)
    assert "L1 with program buffers: peak grew by 1.953 KiB (2,000 B)" in GrowthLimit.parse("0").findings(comparison)


def test_a_table_says_that_a_peak_is_a_lower_bound() -> None:
    known, partly = with_peak(3_000, program("Conv", 9_000)), with_peak(3_000, program("Conv", None))
    (row,) = (
        line for line in side_by_side({"a": [known], "b": [partly]}, 0) if line.startswith("L1 with program buffers: peak  ")
    )
    assert row.split("  ")[-1].strip() == "at least 2.93 KiB (3,000 B)"
    assert row.count("at least") == 1
    assert "(10,000 B)" in row
