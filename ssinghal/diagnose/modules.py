"""The operation of a log in the module that it comes from: what the module says more of it, and what would have followed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ssinghal.diagnose.reading import Operation, Value
from ssinghal.specs import DType

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
    """The operations of the same function after the one ``at``: names of results begin anew with each function."""
    seen = {value.name for value in module[at].results}
    for end in range(at + 1, len(module)):
        names = {value.name for value in module[end].results}
        if names & seen:
            return tuple(module[at + 1 : end])
        seen |= names
    return tuple(module[at + 1 :])


def told(values: Sequence[Value]) -> int:
    """How much the text says of what the values are on the device."""
    return sum((value.spec is not None) + value.known_layout for value in values)


def _names(operation: Operation) -> tuple[str, ...]:
    return (operation.name, *(value.name for value in operation.results))


def _agree(logged: Operation, printed: Operation) -> bool:
    """Whether the module says nothing else than the log: of operands only where the log has their names."""
    pairs = [(logged.results, printed.results), *([(logged.operands, printed.operands)] if logged.operands else [])]
    return all(len(ours) == len(theirs) and all(map(_may_be_one, ours, theirs)) for ours, theirs in pairs)


def _may_be_one(logged: Value, printed: Value) -> bool:
    if logged.name != printed.name:
        return False
    ours, theirs = logged.spec, printed.spec
    if ours is None or theirs is None:
        return True
    if logged.known_layout and printed.known_layout:
        return ours == theirs
    return ours.shape == theirs.shape and (ours.dtype is theirs.dtype or theirs.dtype in _BLOCK_FLOATS)


def _fuller(logged: tuple[Value, ...], printed: tuple[Value, ...]) -> tuple[Value, ...]:
    if not logged:
        return printed
    return tuple(max(pair, key=lambda value: told((value,))) for pair in zip(logged, printed, strict=True))
