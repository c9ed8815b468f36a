"""Finds the operation of a log in the module that it comes from: more about its values, and what would have followed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ssinghal.core.tensors import DType
from ssinghal.diagnose.model import MlirValue, Operation

_NUMBERED = re.compile(r"%(\d{1,9})(?:#\d+)?")
_BLOCK_FLOATS = (DType.BFLOAT8_B, DType.BFLOAT4_B)  # only layouts have them: the tensor's type is bf16


@dataclass(frozen=True)
class Place:
    """The place of an operation of a log in a module: ``at``, None where the module has none of its name and results.

    ``differs``: it has one, but with other operands or types, so the module belongs to another run.
    """

    at: int | None = None
    differs: bool = False


class Places:
    """Finds operations in ``module`` by their names and results."""

    def __init__(self, module: Sequence[Operation]) -> None:
        self._module = module
        self._by_names: dict[tuple[str, ...], list[int]] = {}
        for at, operation in enumerate(module):
            self._by_names.setdefault(_names(operation), []).append(at)

    def of(self, operation: Operation | None) -> Place:
        """Returns the last place that agrees: a function that ran once, at compile time, comes before the one that runs."""
        same_names = self._by_names.get(_names(operation), []) if operation else []
        for at in reversed(same_names):
            if operation and _agree(operation, self._module[at]):
                return Place(at)
        return Place(differs=bool(same_names))


def completed(operation: Operation, printed: Operation) -> Operation:
    """Returns ``operation`` completed by ``printed``, the same one in the module, where the log has less about it."""
    return replace(
        operation,
        results=_fuller(operation.results, printed.results),
        operands=_fuller(operation.operands, printed.operands),
        attributes={**printed.attributes, **operation.attributes},
        location=operation.location or printed.location,
    )


def following(at: int, module: Sequence[Operation]) -> tuple[Operation, ...]:
    """Returns the operations of the same function after the one ``at``."""
    function, at = function_of(at, module)
    return tuple(function[at + 1 :])


def function_of(at: int, module: Sequence[Operation]) -> tuple[Sequence[Operation], int]:
    """Returns the operations of the function that has the one ``at``, and its place among them.

    A function reaches as far as the numbers of its results grow, for they start again with each function. Its first operations
    may still belong to the function before, where its own numbers start higher.
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
    match = _NUMBERED.fullmatch(operation.results[0].name) if operation.results else None
    return int(match[1]) if match else None


def known_facts(values: Sequence[MlirValue]) -> int:
    """Counts the facts that the text gives about the values on the device: types and layouts."""
    return sum((value.spec is not None) + value.known_layout for value in values)


def _names(operation: Operation) -> tuple[str, ...]:
    return (operation.name, *(value.name for value in operation.results))


def _agree(logged: Operation, printed: Operation) -> bool:
    """Returns whether the module agrees with the log; operands are compared only where the log names them."""
    pairs = [(logged.results, printed.results), *([(logged.operands, printed.operands)] if logged.operands else [])]
    return all(len(ours) == len(theirs) and all(map(_may_be_same, ours, theirs)) for ours, theirs in pairs)


def _may_be_same(logged: MlirValue, printed: MlirValue) -> bool:
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
    return tuple(max(pair, key=lambda value: known_facts((value,))) for pair in zip(logged, printed, strict=True))
