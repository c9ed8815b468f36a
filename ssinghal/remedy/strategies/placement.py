"""Strategies that change the memory of a call's operands and results."""

from __future__ import annotations

from dataclasses import replace

from ssinghal.core.case import OutputMemory
from ssinghal.core.memory_config import Sharding
from ssinghal.core.tensors import (
    BufferType,
)
from ssinghal.operators import families, named
from ssinghal.remedy.problem import Problem
from ssinghal.remedy.strategies.strategy import Strategy, StrategyResult, StrategySearch, once, why_not
from ssinghal.remedy.trial import Impact, RewriteName


def is_elementwise(problem: Problem) -> bool:
    return problem.info in families()["elementwise"]


ALSO_IN_PLACE = named("softmax")  # alongside the elementwise family
NOT_IN_PLACE = named("clone")  # the one elementwise function that takes no ``output_tensor``


def _can_be_in_place(problem: Problem) -> bool:
    inputs, outputs = problem.call.specs()
    same_spec = len(outputs) == 1 and bool(inputs) and inputs[0] == outputs[0]
    is_already = problem.info.traits.in_place or problem.info.name in NOT_IN_PLACE
    return same_spec and not is_already and (is_elementwise(problem) or problem.info.name in ALSO_IN_PLACE)


def _in_place(problem: Problem) -> StrategySearch:
    if problem.info.name in ALSO_IN_PLACE and problem.settings:
        return StrategyResult(None, f"not tried: the call in place would not take its {', '.join(problem.settings)}")
    need, bank = problem.held(problem.call.inputs, problem.memory), problem.bank_bytes(problem.memory)
    if need > bank:
        return StrategyResult(
            None, f"its operands alone take {need:,} B of each {str(problem.memory).upper()} bank of {bank:,} B"
        )
    result = yield problem.trial(rewrite=RewriteName.IN_PLACE)
    note = "the first operand is overwritten: only where nothing needs it afterwards"
    return StrategyResult(result, note=note) if result.works else StrategyResult(None, why_not(result))


def _wants_l1(problem: Problem) -> bool:
    return bool(problem.call.outputs) and problem.memory is BufferType.L1 and problem.result_memory in (None, BufferType.L1)


def _operands_from_dram(problem: Problem) -> StrategySearch:
    """Leaves only the result in L1. Convolutions and pools then slice their work themselves."""
    if proof := problem.results_beyond(BufferType.L1):
        return StrategyResult(None, proof)
    shard = problem.call.outputs[0].memory.shard
    case = problem.placed(
        problem.in_dram(), output_memory=OutputMemory.L1, output_sharding=Sharding.of(shard) if shard else None
    )
    trial = problem.trial(case)
    if any(spec.memory.buffer is not BufferType.L1 for spec in trial.wanted):
        return StrategyResult(None, f"{problem.info.ttnn} puts its result where its operand is, and takes no other memory")
    note = "the operands are created in DRAM; the result stays in L1"
    return (yield from once(problem, replace(trial, any_memory=False), note))


def is_in_l1(problem: Problem) -> bool:
    return problem.memory is BufferType.L1


def _all_in_dram(problem: Problem) -> StrategySearch:
    return (yield from once(problem, problem.trial(problem.in_dram())))


def _result_in_dram(problem: Problem) -> StrategySearch:
    case = problem.placed(output_memory=OutputMemory.DRAM, output_sharding=None)
    return (yield from once(problem, problem.trial(case), "the operands stay in L1"))


IN_PLACE = Strategy("in place", Impact.SAME, _can_be_in_place, _in_place)
OPERANDS_FROM_DRAM = Strategy("operands from DRAM", Impact.SAME, _wants_l1, _operands_from_dram)
ALL_IN_DRAM = Strategy("all in DRAM", Impact.MEMORY, is_in_l1, _all_in_dram)
RESULT_IN_DRAM = Strategy("result in DRAM", Impact.MEMORY, is_in_l1, _result_in_dram)
