"""Operators that move a tensor between memories, shards and layouts, and compute nothing: ports call them between layers.

Where the result goes is the case's output memory, as for every operator. TTNN's functions take it under other names, and each
takes only some: the others are refused here in one line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ssinghal.core.case import Case
from ssinghal.core.memory_config import MemoryRequest
from ssinghal.core.tensors import Shape, TensorSpec
from ssinghal.errors import InvalidCase
from ssinghal.operators.aliasing import is_unchanged
from ssinghal.operators.dim_rule import DimRule
from ssinghal.operators.operator_info import Attrs, Call, OperatorInfo, Traits, first_request, output_request, plain_specs
from ssinghal.operators.packing import PACKINGS
from ssinghal.operators.reshape import RESHAPE_WHERE_IT_IS

Check = Callable[[str, MemoryRequest, MemoryRequest | None], None]


def _checked(name: str, check: Check) -> Callable[[Case, Sequence[Shape], Attrs], list[TensorSpec]]:
    """Returns ``place`` of an operator that takes some memories only: as the placement says, once ``check`` has passed."""

    def place(case: Case, shapes: Sequence[Shape], attrs: Attrs) -> list[TensorSpec]:
        check(name, first_request(case), output_request(case))
        return plain_specs(case)

    return place


def _to_shards(name: str, operand: MemoryRequest, result: MemoryRequest | None) -> None:
    if operand.sharding is not None:
        raise InvalidCase(f"{name}: the operand is in {operand}; expected an interleaved one (reshard takes shards)")
    if result is None or result.sharding is None:
        raise InvalidCase(f"{name}: output memory {result or 'ttnn'} has no shards; expected for example l1:height")


def _from_shards(name: str, operand: MemoryRequest, result: MemoryRequest | None) -> None:
    """TTNN returns an interleaved operand as it is."""
    if operand.sharding is None and result not in (None, operand):
        raise InvalidCase(f"{name}: an interleaved operand stays in {operand}; expected output memory same")
    if result is not None and result.sharding is not None:
        raise InvalidCase(f"{name}: output memory {result} is sharded; expected dram or l1")


def _between_shards(name: str, operand: MemoryRequest, result: MemoryRequest | None) -> None:
    if operand.sharding is None:
        raise InvalidCase(f"{name}: the operand is in {operand}; expected a sharded one, for example l1:height")
    if result is None or result.sharding is None:
        raise InvalidCase(f"{name}: output memory {result or 'ttnn'} has no shards; expected for example l1:block")


def _same_dtype(c: Call, name: str) -> dict[str, Any]:
    """Returns the dtype of the result, if one is requested, under the name that the function has for it."""
    return {name: c.out["dtype"]} if "dtype" in c.out else {}


def _to_memory_config(c: Call) -> Any:
    """Without a requested memory the operand's own is the target."""
    target = c.out.get("memory_config") or c.inputs[0].memory_config()
    return c.ttnn.to_memory_config(c.inputs[0], target, **_same_dtype(c, "dtype"))


def _sharded_to_interleaved(c: Call) -> Any:
    target = [c.out["memory_config"]] if "memory_config" in c.out else []
    return c.ttnn.sharded_to_interleaved(c.inputs[0], *target, **_same_dtype(c, "output_dtype"))


def _reshard(c: Call) -> Any:
    """TTNN's function has no dtype: a request for another one is `unsupported`."""
    return c.ttnn.reshard(c.inputs[0], c.out["memory_config"])


def _moved(c: Call) -> Any:
    """Both functions free the operand first, so that the result may take its place."""
    function = c.ttnn.reallocate if c.case.name == "reallocate" else c.ttnn.move
    target = {"memory_config": c.out["memory_config"]} if "memory_config" in c.out else {}
    return function(c.inputs[0], **target)


def _same_values(torch: Any, tensors: Sequence[Any], attrs: Attrs) -> Any:
    return tensors[0].clone()


def _to_rank_4(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
    (shape,) = shapes
    if len(shape) > 4:
        raise InvalidCase(f"unsqueeze_to_4D of {list(shape)}: expected rank 4 at most")
    return [(*(1,) * (4 - len(shape)), *shape)]


def _moving(
    names: tuple[str, ...],
    ttnn: str,
    call: Callable[[Call], Any],
    check: Check | None = None,
    traits: Traits = Traits(),
) -> OperatorInfo:
    """Declares an operator of one operand whose result has its shape and values. ``check``: of both memories."""
    return OperatorInfo(
        names=names,
        aten=(),
        operands=("self",),
        ttnn=ttnn,
        call=call,
        torch=_same_values,
        place=None if check is None else _checked(names[0], check),
        dims=DimRule(),
        traits=traits,
    )


MOVES = (
    _moving(("to_memory_config",), "ttnn.to_memory_config", _to_memory_config, traits=Traits(alias=is_unchanged)),
    _moving(
        ("interleaved_to_sharded",),
        "ttnn.interleaved_to_sharded",
        lambda c: c.ttnn.interleaved_to_sharded(c.inputs[0], c.out["memory_config"], **_same_dtype(c, "output_dtype")),
        _to_shards,
    ),
    _moving(
        ("sharded_to_interleaved",),
        "ttnn.sharded_to_interleaved",
        _sharded_to_interleaved,
        _from_shards,
        traits=Traits(alias=is_unchanged),
    ),
    _moving(("reshard",), "ttnn.reshard", _reshard, _between_shards),
    _moving(("move", "reallocate"), "ttnn.move, ttnn.reallocate", _moved, traits=Traits(alias=is_unchanged)),
)

UNSQUEEZE_TO_4D = OperatorInfo(
    names=("unsqueeze_to_4D",),
    aten=(),
    operands=("self",),
    ttnn="ttnn.unsqueeze_to_4D",
    call=lambda c: c.ttnn.unsqueeze_to_4D(c.inputs[0]),
    torch=lambda torch, tensors, attrs: tensors[0][(None,) * (4 - tensors[0].ndim)],
    infer=_to_rank_4,
    dims=DimRule(),
    traits=RESHAPE_WHERE_IT_IS,
)

OPERATORS: tuple[OperatorInfo, ...] = (*MOVES, UNSQUEEZE_TO_4D, *PACKINGS)
