"""Strategies that change how tensors are cut into shards: other shards, more cores, none, or shards where there were none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ssinghal.core.case import OutputMemory, Placement
from ssinghal.core.memory_config import MemoryRequest, Sharding
from ssinghal.core.tensors import BufferType, ShardKind
from ssinghal.core.verdict import Resource
from ssinghal.errors import InvalidCase
from ssinghal.remedy.placements import interleaved, with_operands
from ssinghal.remedy.problem import Problem
from ssinghal.remedy.strategies.strategy import Strategy, StrategyResult, StrategySearch, once
from ssinghal.remedy.trial import Impact

KINDS = (ShardKind.HEIGHT, ShardKind.BLOCK, ShardKind.WIDTH)
PROGRAMS = (Resource.CIRCULAR_BUFFER, Resource.CLASH)


def _resharded(placement: Placement, sharding: Sharding | None) -> Placement:
    """Returns the placement with ``sharding`` in place of every one in L1; None: interleaved in L1."""

    def changed(request: MemoryRequest | None) -> MemoryRequest | None:
        if request is None or request.sharding is None or request.buffer is not BufferType.L1:
            return request
        return MemoryRequest(BufferType.L1, sharding)

    operands = with_operands(placement, lambda operand: replace(operand, memory=changed(operand.memory)))
    own = changed(placement.request)
    in_l1 = placement.output_memory is OutputMemory.L1 and placement.output_sharding is not None
    return replace(
        operands, sharding=own.sharding if own else None, output_sharding=sharding if in_l1 else placement.output_sharding
    )


def _requests(placement: Placement) -> set[Sharding]:
    """Returns the shardings in L1 that the call requests."""
    requests = [placement.request, *(operand.memory for operand in placement.operands if operand.memory is not None)]
    found = {request.sharding for request in requests if request.buffer is BufferType.L1 and request.sharding is not None}
    in_l1 = placement.output_memory is OutputMemory.L1 and placement.output_sharding is not None
    return found | ({placement.output_sharding} if in_l1 and placement.output_sharding is not None else set())


def _other_placements(placement: Placement) -> Iterator[tuple[Placement, str]]:
    """Yields the placement in other shards, the least change first."""
    present = _requests(placement)
    kinds = {sharding.kind for sharding in present}
    for kind in (*(kind for kind in KINDS if kind in kinds), *(kind for kind in KINDS if kind not in kinds)):
        sharding = Sharding(kind)
        if present != {sharding}:
            cores = "over all cores of the board" if kind in kinds else "instead"
            yield _resharded(placement, sharding), f"{kind} shards {cores}"
    if placement.output_sharding is None or placement.output_memory is not OutputMemory.L1:
        own = _output_in_l1(placement)
        yield own, "the result interleaved in L1, the operands in their shards"
    yield _resharded(placement, None), "interleaved in L1, without shards"


def _output_in_l1(placement: Placement) -> Placement:
    return replace(placement, output_memory=OutputMemory.L1, output_sharding=None)


def _has_shards(problem: Problem) -> bool:
    return bool(_requests(problem.case.placement))


def _other_shards(problem: Problem) -> StrategySearch:
    return (yield from _placed(problem, _other_placements(problem.case.placement)))


def _placed(problem: Problem, placements: Iterator[tuple[Placement, str]]) -> StrategySearch:
    """Tries the placements. Those that no tensor of the call can have are left out, with the reason."""
    reasons = []
    for placement, note in placements:
        try:
            trial = problem.trial(replace(problem.case, placement=placement))
        except InvalidCase as error:
            reasons.append(f"{note}: {error}")
            continue
        outcome = yield from once(problem, trial, note)
        if outcome.result:
            return outcome
        reasons.append(f"{note}: {outcome.reason}")
    return StrategyResult(None, "; ".join(reasons) or "no other shards")


def _could_be_sharded(problem: Problem) -> bool:
    """Whether programs are what does not fit, and nothing is sharded: shards take no less of L1 than interleaved tensors, but a
    program that reads its core's own shard needs smaller buffers. Maps that windows slide over are sharded by TTNN itself."""
    may_gain = problem.verdict.resource in PROGRAMS and not problem.info.traits.nhwc
    return may_gain and not problem.is_sharded and bool(problem.call.inputs)


def _new_placements(problem: Problem) -> Iterator[tuple[Placement, str]]:
    """Yields the call with its operands in shards, and its result where it was, or in shards too."""
    plain, result = interleaved(problem.case.placement, BufferType.L1), problem.result_memory
    where = OutputMemory.TTNN if result is None else OutputMemory(result.value)
    for kind in (ShardKind.WIDTH, ShardKind.BLOCK, ShardKind.HEIGHT):
        sharded = replace(plain, sharding=Sharding(kind))
        yield replace(sharded, output_memory=where), f"the operands in {kind} shards in L1, the result as it was"
        yield sharded, f"operands and result in {kind} shards in L1"


def _in_shards(problem: Problem) -> StrategySearch:
    return (yield from _placed(problem, _new_placements(problem)))


OTHER_SHARDS = Strategy("other shards", Impact.MEMORY, _has_shards, _other_shards)
IN_SHARDS = Strategy("in shards", Impact.MEMORY, _could_be_sharded, _in_shards)
