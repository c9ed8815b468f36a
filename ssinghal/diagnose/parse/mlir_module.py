"""The operation of a log in the module that it comes from: what the module says more of it, and what would have followed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ssinghal.core.tensors import DType
from ssinghal.diagnose.model import MlirValue, Operation

_NUMBERED = re.compile(r"%(\d{1,9})(?:#\d+)?")
_BLOCK_FLOATS = (DType.BFLOAT8_B, DType.BFLOAT4_B)  # of a layout alone: the tensor's type says bf16


@dataclass(frozen=True)
class Place:
    """Where an operation of a log is in a module: ``at``, None where the module has none of its name and results.
    ``differs``: it has, but with other operands or types, so that the module is of another run."""

    at: int | None = None
    differs: bool = False


class Places:
    """Of the operations of ``module``, by name and results."""

    def __init__(self, module: Sequence[Operation]) -> None:
        self._module = module
        self._found: dict[tuple[str, ...], list[int]] = {}
        for at, operation in enumerate(module):
            self._found.setdefault(_names(operation), []).append(at)

    def of(self, operation: Operation | None) -> Place:
        """The last one that agrees: a function that ran once, at compile time, comes before the one that runs."""
        found = self._found.get(_names(operation), []) if operation else []
        for at in reversed(found):
            if operation and _agree(operation, self._module[at]):
                return Place(at)
        return Place(differs=bool(found))


def completed(operation: Operation, printed: Operation) -> Operation:
    """``operation`` with what the module has ``printed`` of it where the log says less."""
    return replace(
        operation,
        results=_fuller(operation.results, printed.results),
        operands=_fuller(operation.operands, printed.operands),
        attributes={**printed.attributes, **operation.attributes},
        location=operation.location or printed.location,
    )


def following(at: int, module: Sequence[Operation]) -> tuple[Operation, ...]:
    """The operations of the same function after the one ``at``."""
    function, at = function_of(at, module)
    return tuple(function[at + 1 :])


def function_of(at: int, module: Sequence[Operation]) -> tuple[Sequence[Operation], int]:
    """The operations of the function of the one ``at``, and where it is among them: as far as the numbers of results grow.

    They begin anew with each function. What comes before may still be another's, where this one's begin higher.
    """
    numbers = [_number(operation) for operation in module]
    first, low = at, numbers[at]
    while first > 0 and _grows(numbers[first - 1], low):
        first, low = first - 1, numbers[first - 1] if numbers[first - 1] is not None else low
    last, high = at, numbers[at]
    while last + 1 < len(module) and _grows(high, numbers[last + 1]):
        last, high = last + 1, numbers[last + 1] if numbers[last + 1] is not None else high
    return module[first : last + 1], at - first


def _grows(before: int | None, after: int | None) -> bool:
    return before is None or after is None or before < after


def _number(operation: Operation) -> int | None:
    found = _NUMBERED.fullmatch(operation.results[0].name) if operation.results else None
    return int(found[1]) if found else None


def told(values: Sequence[MlirValue]) -> int:
    """How much the text says of what the values are on the device."""
    return sum((value.spec is not None) + value.known_layout for value in values)


def _names(operation: Operation) -> tuple[str, ...]:
    return (operation.name, *(value.name for value in operation.results))


def _agree(logged: Operation, printed: Operation) -> bool:
    """Whether the module says nothing else than the log: of operands only where the log has their names."""
    pairs = [(logged.results, printed.results), *([(logged.operands, printed.operands)] if logged.operands else [])]
    return all(len(ours) == len(theirs) and all(map(_may_be_one, ours, theirs)) for ours, theirs in pairs)


def _may_be_one(logged: MlirValue, printed: MlirValue) -> bool:
    if logged.name != printed.name:
        return False
    ours, theirs = logged.spec, printed.spec
    if ours is None or theirs is None:
        return True
    if logged.known_layout and printed.known_layout:
        return ours == theirs
    return ours.shape == theirs.shape and (ours.dtype is theirs.dtype or theirs.dtype in _BLOCK_FLOATS)


def _fuller(logged: tuple[MlirValue, ...], printed: tuple[MlirValue, ...]) -> tuple[MlirValue, ...]:
    if not logged:
        return printed
    return tuple(max(pair, key=lambda value: told((value,))) for pair in zip(logged, printed, strict=True))
