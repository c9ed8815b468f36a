"""Who used the buffers of a program, and which of them are its parameters.

A tensor counts for the buffer at its address: views and results in place are uses of what they share.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ssinghal.profile.findings.history import Change
from ssinghal.profile.model import Buffer, Call, Profile, Spec, Tensor
from ssinghal.profile.replay import FREEING

# Calls that place or rewrite one tensor: what they make of a parameter is one.
_PLACING = frozenset(
    f"ttnn.{name}"
    for name in (
        *("to_device", "to_layout", "to_memory_config", "to_dtype", "typecast", "clone", "move", "reallocate"),
        *(
            "reshape",
            "permute",
            "transpose",
            "pad",
            "tilize",
            "tilize_with_zero_padding",
            "tilize_with_val_padding",
            "unsqueeze",
        ),
        *("unsqueeze_to_4D", "squeeze", "interleaved_to_sharded", "sharded_to_interleaved", "prepare_conv_weights"),
        *("prepare_conv_bias", "prepare_conv_transpose2d_weights", "prepare_conv_transpose2d_bias"),
    )
) | {"Tensor.to", "Tensor.reshape", "Tensor.pad", "Tensor.pad_to_tile"}
# Calls whose operands after the first are parameters, if nothing computed them. Of other calls those beside a computed operand.
_WEIGHTED = ("linear", "matmul", "conv", "embedding", "norm", "prelu")


@dataclass(slots=True)
class Use:
    """``last``: the last call that had a buffer as operand or result, other than to free it. ``is_given``: no call computed it
    from others. ``is_prepared``: a call made it of a tensor on the host besides its first result, such as weights."""

    spec: Spec
    last: int
    is_given: bool = False
    is_prepared: bool = False
    is_reused: bool = False  # the same line had it as operand again after calls of other lines
    source: Use | None = None  # of what a call placed or rewrote to make it
    _was_first: bool = False
    _was_beside: bool = False
    _last: dict[int, int] = field(default_factory=dict)  # of each stack that had it as operand, its last time

    @property
    def is_operand(self) -> bool:
        """Whether any call had it as operand, other than to free it."""
        return bool(self._last)

    @property
    def is_beside(self) -> bool:
        """Whether it was only ever an operand beside the one that is computed upon, as weights are."""
        return self._was_beside and not self._was_first

    def note(self, call: Call, time: int) -> None:
        """A call had it as operand. ``time``: how many calls there were before, other than to free."""
        self.is_reused |= time > self._last.get(id(call.stack), time) + 1
        self._last[id(call.stack)] = time

    def note_role(self, *, is_first: bool, is_beside: bool) -> None:
        """What it was to a call that computes; the same holds for what it was placed from."""
        use: Use | None = self
        while use is not None:
            use._was_first |= is_first
            use._was_beside |= is_beside
            use = use.source


class Uses:
    """The uses of the buffers that were seen as tensors."""

    def __init__(self, profile: Profile, ordered: Iterable[Change]) -> None:
        self._uses: dict[int, Use] = {}
        self._live: dict[tuple[str, int], Buffer] = {}
        self._device = -1
        self._time = 0
        self._captured: dict[int, Buffer] | None = None  # the buffers of traces
        self._is_capturing = False
        remaining = iter(ordered)
        change = next(remaining, None)
        for call in profile.calls:
            while change is not None and (change.call, not change.is_between) <= (call.number, False):
                self._apply(change)
                change = next(remaining, None)
            operands = list(self._buffers(call.operands))
            while change is not None and change.call == call.number:
                self._apply(change)
                change = next(remaining, None)
            self._note(call, operands, list(self._buffers(call.results)))

    def of(self, buffer: Buffer) -> Use | None:
        return self._uses.get(id(buffer))

    def _apply(self, change: Change) -> None:
        if change.buffer.device != self._device:
            self._device = change.buffer.device
            self._live.clear()
        key = change.buffer.memory, change.buffer.address
        if change.is_made:
            self._live[key] = change.buffer
        else:
            self._live.pop(key, None)

    def _buffers(self, tensors: Iterable[Tensor]) -> Iterator[tuple[int, Spec, Buffer]]:
        for index, (spec, address) in enumerate(tensors):
            buffer = self._live.get((spec.memory, address)) if spec.memory is not None and address is not None else None
            if buffer is not None:
                yield index, spec, buffer

    def _note(self, call: Call, operands: list[tuple[int, Spec, Buffer]], results: list[tuple[int, Spec, Buffer]]) -> None:
        if call.name in FREEING:
            return
        self._time += 1
        is_placing = call.name in _PLACING
        given = [one.is_given for _, _, buffer in operands if (one := self._uses.get(id(buffer)))]
        uses = [self._used(buffer, spec, call) for _, spec, buffer in operands]
        has_computed = not all(use.is_given for use in uses)
        is_weighted = any(word in call.name for word in _WEIGHTED)
        from_host = any(spec.memory is None for spec, _ in call.operands)
        source = None
        for use, (index, _, _) in zip(uses, operands, strict=True):
            use.note(call, self._time)
            if is_placing:
                source = source or use
            else:
                is_beside = (use.is_given and has_computed) or (index > 0 and is_weighted)
                use.note_role(is_first=index == 0 and not is_beside, is_beside=is_beside)
        for index, spec, buffer in results:
            is_new = id(buffer) not in self._uses
            use = self._used(buffer, spec, call)
            if is_new:
                use.source = source
                use.is_given = not operands or (is_placing and all(given))
                use.is_prepared = (from_host and bool(operands) and index > 0) or "prepare_conv" in call.name
        self._trace(call, [buffer for _, _, buffer in (*operands, *results)])

    def _used(self, buffer: Buffer, spec: Spec, call: Call) -> Use:
        use = self._uses.get(id(buffer))
        if use is None:
            use = self._uses[id(buffer)] = Use(spec, call.number, is_given=buffer.made_between)
        use.last = call.number
        return use

    def _trace(self, call: Call, buffers: Iterable[Buffer]) -> None:
        """A trace uses the buffers of its calls each time that it is executed."""
        if call.name.endswith("begin_trace_capture"):
            self._is_capturing, self._captured = True, self._captured or {}
        elif call.name.endswith("end_trace_capture"):
            self._is_capturing = False
        elif call.name.endswith("execute_trace"):
            for key in self._captured or ():
                self._uses[key].last = call.number
        elif self._is_capturing and self._captured is not None:
            self._captured |= {id(buffer): buffer for buffer in buffers}
