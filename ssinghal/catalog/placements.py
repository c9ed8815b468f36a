"""Where a run places the calls of a catalog, whatever that states: ``dram,l1,height,width,block``, one case per placement."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ssinghal.core.case import ALTERED, AS_CASE, Case, OutputMemory
from ssinghal.core.elements import takes_dtype
from ssinghal.core.memory_config import MemoryRequest, ShardKind
from ssinghal.core.sharding import check_cores, memory_request
from ssinghal.core.tensors import Board, DType, Layout
from ssinghal.errors import InvalidCase, unknown
from ssinghal.operators import find_operator
from ssinghal.operators.operator_info import VOLUME_RANK, WEIGHTS_DTYPE

PLACEMENTS = ("dram", "l1", *(kind.value for kind in ShardKind if kind is not ShardKind.ND))
_SEPARATOR = re.compile(r",(?=\s*(?:[a-z,]|$))")  # of placements; those of core ranges are before numbers


def parse_placements(text: str) -> tuple[str, ...]:
    """Returns the memories of a comma-separated list, each once and as records have it.

    Raises:
        InvalidCase: One is neither a name of ``PLACEMENTS`` nor a memory.

    >>> parse_placements("dram,height,block@8x8,l1:width@0,0-3,0:32x64")
    ('dram', 'l1:height', 'l1:block@8x8', 'l1:width@0,0-3,0:32x64')
    """
    return tuple(dict.fromkeys(_placement(word.strip()) for word in _SEPARATOR.split(text)))


def _placement(word: str) -> str:
    name = re.split("[@:]", word, maxsplit=1)[0]
    if name not in (*PLACEMENTS, ShardKind.ND):
        raise InvalidCase(f"{unknown('placement', word, PLACEMENTS)}; or a memory such as l1:block@8x8")
    return str(memory_request(f"l1:{word}" if name in list(ShardKind) else word, "placement"))


def placed(case: Case, memory: MemoryRequest) -> Case:
    """Returns ``case`` with its operands in ``memory``, and its result with them.

    Operands keep their own dtype and layout; but the map of a convolution comes in tiles if it is sharded, as the convolution
    before it returns it. With shards, operands that are weights stay interleaved in DRAM (``Traits.weights``). What a card
    reported of another placement is dropped.
    """
    before = case.placement
    operands = tuple(replace(operand, memory=None) for operand in before.operands)
    if memory.sharding is not None and _convolves_maps(case) and before.operand(0).layout is None:
        operands = (replace(before.operand(0), memory=None, layout=Layout.TILE), *operands[1:])
    placement = replace(
        before,
        memory=memory.buffer,
        sharding=memory.sharding,
        output_memory=OutputMemory.SAME,
        output_sharding=None,
        operands=operands if any(operand != AS_CASE for operand in operands) else (),
    )
    return case if placement == before else replace(case, placement=placement, known_oom=None)


def _convolves_maps(case: Case) -> bool:
    info = find_operator(case.operator)
    return info.traits.nhwc is not None and WEIGHTS_DTYPE in info.attrs and len(case.inputs[0]) < VOLUME_RANK


def with_weights(case: Case, dtype: DType) -> Case:
    """Returns ``case`` with the weights and biases of a convolution or a matrix product in ``dtype``; other cases as they are.

    Parameters of norms, and tables of embeddings, keep their dtype, as in ports: TTNN takes few others for them.
    """
    info = find_operator(case.operator)
    weights = [position for position in info.traits.weights if position < len(case.inputs)]
    if not weights or WEIGHTS_DTYPE not in info.attrs:
        return case
    if info.traits.nhwc is not None:  # a convolution: TTNN prepares its weights, in the dtype that the call names
        named = {**case.attrs, WEIGHTS_DTYPE: dtype.value}
        return replace(case, attrs=named, known_oom=None) if _convolves_maps(case) else case
    placement = case.placement
    operands = [placement.operand(position) for position in range(max(len(placement.operands), max(weights) + 1))]
    for position in weights:
        operands[position] = replace(operands[position], dtype=dtype)
    return replace(case, placement=replace(placement, operands=tuple(operands)), known_oom=None)


def with_dtype(case: Case, dtype: DType) -> Case:
    """Returns ``case`` with its operands in ``dtype``, but for those that have a dtype of their own. Integers stay as they are,
    and so do rows, which block floats do not have."""
    before = case.placement
    if dtype is before.dtype or not takes_dtype(before.dtype, before.layout, dtype):
        return case
    return replace(case, placement=replace(before, dtype=dtype), known_oom=None)


def check_placements(placements: Sequence[str], board: Board) -> None:
    """Raises InvalidCase for a placement on cores that ``board`` does not have."""
    for text in placements:
        request = memory_request(text, "placement")
        if request.sharding is not None:
            check_cores(request.buffer, request.sharding, board)


def in_placements(
    cases: Sequence[Case], placements: Sequence[str], weights: DType | None = None, dtypes: Sequence[DType] = ()
) -> list[Case]:
    """Returns each case once per dtype of its operands and placement, one after the other, or as it is where none is given;
    each with its weights in ``weights``, if given. Calls that differed in their placement alone become one case, with the
    sources of both. Each states in what it was altered.

    Raises:
        InvalidCase: A placement is no memory.
    """
    memories = [memory_request(text, "placement") for text in placements]
    merged: dict[tuple[str, str], Case] = {}
    for case in cases:
        for one in _variants(case, memories, weights, dtypes):
            identity = (one.name, one.key)
            merged[identity] = merged[identity].merged(one) if identity in merged else one
    return list(merged.values())


def _variants(case: Case, memories: Sequence[MemoryRequest], weights: DType | None, dtypes: Sequence[DType]) -> Iterator[Case]:
    if not (memories or weights or dtypes):
        yield case
        return
    typed = {one.key: one for one in (with_dtype(case, dtype) for dtype in dtypes)}.values() if dtypes else [case]
    for one in typed:
        weighted = one if weights is None else with_weights(one, weights)
        for made in [placed(weighted, memory) for memory in memories] if memories else [weighted]:
            differing = (one is not case, made is not weighted, weights is not None and weighted.key != one.key)
            yield replace(made, altered=tuple(name for name, differs in zip(ALTERED, differing, strict=True) if differs))
