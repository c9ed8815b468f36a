"""Decides what in a text, beyond the bytes of the message, supports a call of the catalogs.

Many calls of many models request the same bytes. One is worth its line only where something else in the text points to it: the
function, a shape, the model, or other tensors of the call that are exactly what is allocated.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ssinghal.core.json_values import Dims
from ssinghal.diagnose.candidate import PROGRAM, Candidate
from ssinghal.diagnose.chips import core_ranges
from ssinghal.diagnose.model import Failure
from ssinghal.diagnose.ttnn_functions import operators_calling
from ssinghal.operators.binding import specs_of

_WORD = re.compile(r"[a-z0-9]+")
_LEAST_LETTERS = 4  # of a model's name; shorter ones are words of other things too


@dataclass(frozen=True)
class Evidence:
    """What a text shows beyond the bytes: functions that were called, shapes of tensors, and words of names and places."""

    functions: tuple[str, ...] = ()
    shapes: frozenset[Dims] = frozenset()
    words: frozenset[str] = frozenset()
    cores: str = ""

    @classmethod
    def of(cls, failure: Failure, functions: Sequence[str]) -> Evidence:
        where = failure.call.where if failure.call else ""
        shapes = (*(tensor.shape for tensor in failure.tensors), *(printed.shape for printed in failure.shapes))
        return cls(tuple(functions), frozenset(map(_plain, shapes)), _words(f"{failure.test} {where}"), failure.verdict.cores)

    def supports(self, candidate: Candidate) -> bool:
        """Returns whether the text points to ``candidate``; shapes in the text must be those of its tensors."""
        if candidate.case is None:
            return False
        if self.shapes:
            return any(_plain(spec.shape) in self.shapes for specs in specs_of(candidate.case) for spec in specs)
        return self._calls(candidate) or candidate.as_allocated or self._names_model(candidate) or self._is_share(candidate)

    def _calls(self, candidate: Candidate) -> bool:
        """Whether it calls a function of the text, and a result has the bytes: operands exist before the call."""
        operator = candidate.case.operator if candidate.case and not candidate.label.startswith("input") else ""
        return any(operator in operators_calling(function) for function in self.functions)

    def _names_model(self, candidate: Candidate) -> bool:
        names = (source.model.partition("/")[2] for source in candidate.sources)
        firsts = {words[0] for name in names if (words := _WORD.findall(name.lower()))}
        return any(len(first) >= _LEAST_LETTERS and first in self.words for first in firsts)

    def _is_share(self, candidate: Candidate) -> bool:
        """Whether program buffers are exactly what one of several cores gets of a row: a single core could have any row."""
        return candidate.label == PROGRAM and any(first != (0, 0) for first, _ in core_ranges(self.cores))


def _plain(shape: Iterable[int]) -> Dims:
    """Returns a shape without leading dims of 1, which texts and calls add and drop."""
    dims = tuple(shape)
    first = next((i for i, size in enumerate(dims) if size != 1), len(dims))
    return dims[first:]


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower()))
