"""Strategies that change the settings of a call: smaller blocks of its programs, other blocks of a convolution, or none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ssinghal.core.case import Case
from ssinghal.core.verdict import Resource
from ssinghal.operators import families
from ssinghal.remedy.config_changes import (
    CONV_CONFIG,
    PROGRAM_CONFIG,
    SLICE_CONFIG,
    convolution_changes,
    smaller_programs,
    with_fields,
    without_blocks,
    without_program,
)
from ssinghal.remedy.problem import Problem
from ssinghal.remedy.strategies.strategy import Strategy, StrategySearch, first_that_works
from ssinghal.remedy.trial import Impact

PROGRAMS = (Resource.CIRCULAR_BUFFER, Resource.CLASH)
# Settings that decide on which cores and in which parts a call runs, and no value.
CORES = ("core_grid", "sub_core_grids", "sub_core_grid")
SLICES = ("dram_slice_config", SLICE_CONFIG)


def _with(problem: Problem, name: str, value: Any) -> Case:
    """Returns the case with another value of a setting; None: without it."""
    others = {key: item for key, item in problem.case.attrs.items() if key != name}
    return replace(problem.case, attrs=others if value is None else {**others, name: value})


def _tried(problem: Problem, cases: Iterator[tuple[Case, str]], reason: str) -> StrategySearch:
    trials = ((problem.trial(case), note) for case, note in cases)
    return (yield from first_that_works(problem, trials, reason))


# Smaller blocks -----------------------------------------------------------------------------------------------------------


def _has_program(problem: Problem) -> bool:
    return problem.verdict.resource in PROGRAMS and isinstance(problem.settings.get(PROGRAM_CONFIG), Mapping)


def _smaller_blocks(problem: Problem) -> StrategySearch:
    config, grid = problem.settings[PROGRAM_CONFIG], problem.board.grid
    changes = smaller_programs(config, problem.call.outputs[0], grid)
    cases = ((_with(problem, PROGRAM_CONFIG, with_fields(config, c)), _note(c, str(config["type"]))) for c in changes)
    return (yield from _tried(problem, cases, f"{config['type']} has no smaller blocks"))


def _note(changed: Mapping[str, Any], kind: str) -> str:
    fields = ", ".join(f"{name}={value}" for name, value in changed.items() if value is not None)
    return f"{fields} in the {kind}"


# Convolutions -------------------------------------------------------------------------------------------------------------


def _is_convolution(problem: Problem) -> bool:
    """Whether it is one that states its blocks, or in shards: of others, TTNN chooses the blocks, and slices the map."""
    is_map = problem.info in families()["convolution"] and len(problem.case.inputs[0]) in (3, 4)
    states = CONV_CONFIG in problem.settings or problem.is_sharded
    return is_map and states and problem.verdict.resource in PROGRAMS


def _other_blocks(problem: Problem) -> StrategySearch:
    config = problem.settings.get(CONV_CONFIG) or {"type": "Conv2dConfig"}
    cases = (
        (_with(problem, CONV_CONFIG, with_fields(config, changed)), _note(changed, "Conv2dConfig"))
        for changed in convolution_changes(config)
    )
    return (yield from _tried(problem, cases, "no other blocks"))


# Without ------------------------------------------------------------------------------------------------------------------


def _states_cores(problem: Problem) -> bool:
    return any(name in problem.settings for name in (*CORES, *SLICES, PROGRAM_CONFIG)) or _states_blocks(problem)


def _states_blocks(problem: Problem) -> bool:
    return CONV_CONFIG in problem.settings and without_blocks(problem.case) != problem.case


def _without(problem: Problem) -> StrategySearch:
    """Leaves to TTNN what the call states of cores, slices and programs; then it states fewer cores."""
    present = problem.settings
    cases = [(_with(problem, name, None), f"no {name}: TTNN chooses") for name in (*CORES, *SLICES) if name in present]
    reason = "nothing that TTNN could choose instead"
    if PROGRAM_CONFIG in present:
        free = without_program(problem.case)
        reason = "the activation that the program config fuses would be lost"
        cases += [(free, f"no {PROGRAM_CONFIG}: TTNN chooses")] if free is not None else []
    if _states_blocks(problem):
        cases.append((without_blocks(problem.case), "no blocks, shards or cores in the Conv2dConfig: TTNN chooses"))
    cases += [(_with(problem, name, grid), f"{name}={grid}") for name, grid in _smaller_grids(present)]
    return (yield from _tried(problem, iter(cases), reason))


def _smaller_grids(present: Mapping[str, Any]) -> Iterator[tuple[str, list[int]]]:
    for name in CORES:
        grid = present.get(name)
        if isinstance(grid, list) and len(grid) == 2:
            columns, rows = grid
            yield from ((name, size) for size in ([columns, rows // 2], [columns // 2, rows]) if min(size))


CONFIGURED = (
    Strategy("smaller blocks", Impact.SAME, _has_program, _smaller_blocks),
    Strategy("other blocks of the convolution", Impact.SAME, _is_convolution, _other_blocks),
    Strategy("without stated cores or program", Impact.SAME, _states_cores, _without),
)
