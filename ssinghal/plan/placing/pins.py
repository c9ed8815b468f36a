"""Holds the results of some modules where users have pinned them, and finds out what prevents that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ssinghal.core.memory_config import MemoryConfig
from ssinghal.core.sharding import complete
from ssinghal.core.tensors import Board
from ssinghal.core.verdict import DecidedBy, Status, Verdict
from ssinghal.errors import InvalidCase
from ssinghal.plan.placement import Form, Held, Outcome, StepChoice
from ssinghal.plan.placing.found import Found, NoPlacement, PlacedStep
from ssinghal.plan.placing.graph import Calls, StepNode
from ssinghal.plan.steering import Pin, pin_of


@dataclass(frozen=True)
class PinnedCalls:
    """The calls of a model, of which those count as rejected that leave a result where its module's pin does not allow it.

    A view makes no tensor, so no pin concerns it. A pin is about the result when its step is done: a later step may move it.
    """

    calls: Calls
    pins: tuple[Pin, ...]
    board: Board

    def candidates(self, node: StepNode, operands: Mapping[int, Held]) -> Sequence[StepChoice]:
        """Returns also the choices that ask the same calls for results as pinned, and those that move results there after."""
        choices = self.calls.candidates(node, operands)
        pin = pin_of(self.pins, node.at)
        if pin is None:
            return choices
        outcomes = self.calls.outcomes(node, [(operands, choice) for choice in choices])
        towards = [x for pair in zip(choices, outcomes, strict=True) for x in self._towards(pin, *pair)]
        return list(dict.fromkeys((*choices, *towards)))

    def outcomes(self, node: StepNode, requests: Sequence[tuple[Mapping[int, Held], StepChoice]]) -> Sequence[Outcome]:
        outcomes = self.calls.outcomes(node, requests)
        pin = pin_of(self.pins, node.at)
        if pin is None:
            return outcomes
        return [self._judged(pin, choice, outcome) for (_, choice), outcome in zip(requests, outcomes, strict=True)]

    def _towards(self, pin: Pin, choice: StepChoice, outcome: Outcome) -> Iterator[StepChoice]:
        strays = _strays(pin, outcome)
        if not strays:
            return
        try:
            target = _target(pin, strays[0], self.board)
        except InvalidCase:
            return  # ``_judged`` states it
        if choice.memory is not None:
            yield replace(choice, memory=target, after=None)
        yield replace(choice, after=target)

    def _judged(self, pin: Pin, choice: StepChoice, outcome: Outcome) -> Outcome:
        if outcome.failure is not None:
            return outcome if _aims(pin, choice) else _prevented(pin, "a call for another place, which TTNN rejects as well")
        strays = _strays(pin, outcome)
        if not strays:
            return outcome
        try:
            _target(pin, strays[0], self.board)
        except InvalidCase as error:
            return _prevented(pin, str(error))
        return _prevented(pin, f"the call leaves its result in {strays[0].memory}")


def _prevented(pin: Pin, reason: str) -> Outcome:
    return Outcome(failure=Verdict(Status.INVALID, decided_by=DecidedBy.HARNESS, message=f"pin {pin}: {reason}"))


def _aims(pin: Pin, choice: StepChoice) -> bool:
    """Returns whether a choice requests results where the pin has them, or leaves that to TTNN."""
    requested = choice.after or choice.memory
    if requested is not None:
        return pin.allows(requested)
    layout = choice.settings_of_case.get("conv_config", {}).get("shard_layout")
    sharding = pin.request.sharding
    return layout is None or sharding is None or layout == f"{sharding.kind.name}_SHARDED"


def _strays(pin: Pin, outcome: Outcome) -> list[Form]:
    """Returns the forms of results that are not where the pin has them; of a call that TTNN rejected there are none."""
    is_view = not outcome.calls
    made = [held for held in outcome.results if not (is_view and held.shares is not None)]
    return [held.form for held in made if not pin.allows(held.form.memory)]


def _target(pin: Pin, form: Form, board: Board) -> MemoryConfig:
    """Returns the memory that the pin wants for a result; InvalidCase where it cannot be sharded so."""
    request = pin.request
    if request.sharding is None:
        return request.interleaved
    return complete(form.spec, request.buffer, request.sharding, board).memory


def check_views(pins: Sequence[Pin], nodes: Sequence[StepNode], found: Found) -> None:
    """Raises InvalidCase for a pin that no call could keep to, as its modules only view tensors of others, which are elsewhere.

    ``nodes``: all steps, in the order of the trace.
    """
    placed = {step.number: step for step in found.steps}
    for pin in pins:
        matching = [node for node in nodes if pin_of(pins, node.at) is pin]
        if any(placed[node.number].outcome.calls for node in matching):
            continue
        for node in matching:
            for position, held in enumerate(placed[node.number].outcome.results):
                if not pin.allows(held.form.memory):
                    raise InvalidCase(
                        f"pin {pin}: the modules that it matches make no call, only views of what others made;"
                        f" {_instead(node.results[position], nodes, placed)}"
                    )


def _instead(value: int, nodes: Sequence[StepNode], placed: Mapping[int, PlacedStep]) -> str:
    """Returns what to pin instead of a value: the module whose call made the tensor that it is a view of."""
    makers = {result: node for node in nodes for result in node.results}
    while value in makers:
        node = makers[value]
        outcome, operands = placed[node.number].outcome, [x for x in node.operands if x is not None]
        if outcome.calls or not operands:
            return f"pin the module that makes it: {node.at}" if node.at else f"step {node.number}, outside modules, makes it"
        shared = outcome.results[node.results.index(value)].shares
        viewed = None if shared is None else node.operands[shared]
        value = operands[0] if viewed is None else viewed
    return "they view an input of the model, which no module makes"


def with_pin(found: NoPlacement, pins: Sequence[Pin]) -> NoPlacement:
    """Returns the answer with the pin of the step, and of the reasons those that are about calls which keep to it."""
    pin = pin_of(pins, found.at)
    if pin is None:
        return found
    keeping = tuple(x for x in found.failures if x.decided_by is not DecidedBy.HARNESS)
    stated = (replace(x, message=x.message.removeprefix(f"pin {pin}: ")) for x in found.failures)
    return replace(found, pin=str(pin), failures=keeping or tuple(stated))
