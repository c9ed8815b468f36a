"""The operation of a log in the module that it comes from: what the module says more of it, and what would have followed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ssinghal.diagnose.reading import Operation, Value


def completed(operation: Operation, module: Sequence[Operation]) -> Operation:
    """``operation`` with what the module says of it where the log says less."""
    at = _position(operation, module)
    if at is None:
        return operation
    printed = module[at]
    return replace(
        operation,
        results=_fuller(operation.results, printed.results),
        operands=_fuller(operation.operands, printed.operands),
        attributes={**printed.attributes, **operation.attributes},
        location=operation.location or printed.location,
    )


def following(operation: Operation, module: Sequence[Operation]) -> tuple[Operation, ...]:
    """The operations of the same function after this one: names of results begin anew with each function."""
    at = _position(operation, module)
    if at is None:
        return ()
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


def _fuller(logged: tuple[Value, ...], printed: tuple[Value, ...]) -> tuple[Value, ...]:
    if [value.name for value in logged] != [value.name for value in printed]:
        return logged or printed
    return tuple(max(pair, key=lambda value: told((value,))) for pair in zip(logged, printed, strict=True))


def _position(operation: Operation, module: Sequence[Operation]) -> int | None:
    """The last one of its name and results: a function that ran once, at compile time, comes before the one that runs."""
    wanted = (operation.name, [value.name for value in operation.results])
    for at in range(len(module) - 1, -1, -1):
        if (module[at].name, [value.name for value in module[at].results]) == wanted:
            return at
    return None
