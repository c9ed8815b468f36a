"""What counts as a change of a call, and what is only known in one of two profiles."""

from __future__ import annotations

from ssinghal.profile.comparison import Comparison
from ssinghal.profile.comparison_text import lines
from ssinghal.profile.growth import GrowthLimit
from ssinghal.profile.model import Buffer, Call, Profile, Program, Spec, Tensor


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
        assert GrowthLimit.parse("0").findings(comparison) == []
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
