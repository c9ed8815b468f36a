"""Holds the torch references of operators against TTNN's golden functions, on values, for every way that catalogs call them.

Both take float32, which no tensor rounds, so that they must agree as two computations of the same sum do.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

from ssinghal.core.case import Case
from ssinghal.core.device_facts import DeviceFacts
from ssinghal.core.tensors import DType
from ssinghal.core.verdict import Verdict
from ssinghal.device.session import Session
from ssinghal.errors import InvalidCase, NoGolden
from ssinghal.operators.binding import bind
from ssinghal.operators.resizing import resized, subject_of
from ssinghal.runner.golden_exceptions import GoldenException, exception_of
from ssinghal.runner.numerics import float32_difference, run_both
from ssinghal.runner.pool import Pool
from ssinghal.runner.tasks import PoolOptions, Task

# Of operands and results together; a call that cannot be made smaller than this is left out, and counted.
MAX_ELEMENTS = 2**20
SMALLEST = 2  # a dim of 1 would hide what happens along it


@dataclass(frozen=True)
class Agreement:
    """How one call ended. ``fault``: how the values differ. ``missing``: why no golden function makes the call."""

    case: Case
    fault: str = ""
    missing: str = ""

    @property
    def agrees(self) -> bool:
        return not self.fault and not self.missing

    @property
    def exception(self) -> GoldenException | None:
        """The declared exception that covers the call, if any."""
        return exception_of(self.case)


@dataclass(frozen=True)
class GoldenTask(Task[Agreement]):
    """Makes one call in torch and by TTNN's golden functions. Needs a golden session."""

    case: Case

    def run(self, session: Session, options: PoolOptions) -> Agreement:
        try:
            expected, actual = run_both(bind(self.case), session)
        except NoGolden as error:
            return Agreement(self.case, missing=str(error))
        except RuntimeError as error:
            return Agreement(self.case, fault=str(error))
        if not expected:
            return Agreement(self.case, missing="the call has no result")
        return Agreement(self.case, float32_difference(expected, actual))

    def lost(self, verdict: Verdict, facts: DeviceFacts) -> Agreement:
        return Agreement(self.case, fault=verdict.message)


def variants(cases: Iterable[Case]) -> Iterator[Case]:
    """Yields each way that cases call an operator once, in float32 and as small as its attributes allow. Calls that are invalid
    or that TTNN cannot make are none.

    Two ways differ in an attribute, the number or ranks of operands, or in the order of dims on the device.
    """
    smallest: dict[tuple[Any, ...], Case] = {}
    for case in cases:
        call = bind(case)
        try:
            call.check()
        except InvalidCase:
            continue
        if _limits(case):
            continue
        key = (case.operator, _text(call.attrs), tuple(map(len, case.inputs)), case.placement.channels_last)
        if key not in smallest or _elements(case) < _elements(smallest[key]):
            smallest[key] = case
    found: dict[tuple[Any, ...], Case] = {}
    for case in smallest.values():
        in_float32 = replace(case, name=case.operator, placement=replace(case.placement, dtype=DType.FLOAT32))
        small = shrunk(in_float32)
        found.setdefault((small.operator, small.key), small)
    yield from found.values()


def shrunk(case: Case) -> Case:
    """Returns the call with sizes as small as its attributes allow: dims with all that follows them, then equal sizes of all
    operands at once (channels and those of a weight), then the factors that a view's operand and result share. A kernel keeps
    its size, which is as good as an attribute."""
    for step in (_smaller_dims, _smaller_sizes, _smaller_view):
        case = step(case)
    return case


def _smaller_dims(case: Case) -> Case:
    rule = bind(case).info.dims
    if rule is None or (rule.subject is not None and len(case.inputs) <= rule.subject):
        return case
    for dim in range(len(subject_of(case))):
        for size in _sizes_below(subject_of(case)[dim]):
            smaller = _alike(case, partial(resized, case, {dim: size}))
            if smaller is not None:
                case = smaller
                break
    return case


def _smaller_sizes(case: Case) -> Case:
    is_kernel = [name == "weight" and len(shape) > 2 for name, shape in zip(_operand_names(case), case.inputs, strict=True)]
    sized = [2 if kernel else len(shape) for kernel, shape in zip(is_kernel, case.inputs, strict=True)]
    for size in sorted({n for shape, dims in zip(case.inputs, sized, strict=True) for n in shape[:dims]}, reverse=True):
        for to in _sizes_below(size):
            inputs = tuple(
                (*(to if n == size else n for n in shape[:dims]), *shape[dims:])
                for shape, dims in zip(case.inputs, sized, strict=True)
            )
            smaller = _alike(case, partial(replace, case, inputs=inputs))
            if smaller is not None:
                case = smaller
                break
    return case


def _operand_names(case: Case) -> list[str]:
    names = [name.rstrip("?*") for name in bind(case).info.operands]
    return (names + names[-1:] * len(case.inputs))[: len(case.inputs)]


def _smaller_view(case: Case) -> Case:
    """Divides dims of operand and result by the primes that they share, where they hold the same elements."""
    name = next((name for name in ("size", "shape") if case.attrs.get(name) is not None), None)
    if case.operator != "view" or name is None:
        return case
    (shape,), (result,) = map(list, case.inputs), map(list, bind(case).results)
    for dims, places in _groups(shape, result):
        if len(dims) == len(places) == 1 and shape[dims[0]] > SMALLEST:
            shape[dims[0]] = result[places[0]] = SMALLEST
        for dim, place in product(dims, places):
            while divisor := next(_shared_primes(shape[dim], result[place]), None):
                shape[dim], result[place] = shape[dim] // divisor, result[place] // divisor
    size = [-1 if asked == -1 else n for asked, n in zip(case.attrs[name], result, strict=True)]
    return replace(case, inputs=(tuple(shape),), attrs={**case.attrs, name: size})


def _groups(shape: Sequence[int], result: Sequence[int]) -> Iterator[tuple[range, range]]:
    """Yields the smallest ranges of dims of both shapes that hold the same elements."""
    i = j = 0
    for first, second in product(range(1, len(shape) + 1), range(1, len(result) + 1)):
        if first > i and second > j and math.prod(shape[i:first]) == math.prod(result[j:second]):
            yield range(i, first), range(j, second)
            i, j = first, second


def _shared_primes(a: int, b: int) -> Iterator[int]:
    """Yields the primes by which two dims can be divided so that neither becomes 1."""
    return (n for n in range(2, min(a, b) // 2 + 1) if a % n == b % n == 0 and all(n % m for m in range(2, n)))


def _alike(case: Case, smaller: Callable[[], Case]) -> Case | None:
    """Returns the smaller call if it is valid and meets the same limits of TTNN: others would make it another kind of call."""
    try:
        made = smaller()
        results = bind(made).results
        bind(made).check()
    except InvalidCase:
        return None
    if any(n < 1 for shape in results for n in shape) or _limits(made) != _limits(case):
        return None
    return made


def _sizes_below(size: int) -> Iterator[int]:
    yield from range(SMALLEST, min(size, 65))
    yield from (n for n in range(65, size) if size % n == 0)


def _limits(case: Case) -> list[str]:
    """What TTNN cannot do of the call: a smaller one must not meet other limits, which are those of another call."""
    return [x.reason for x in bind(case).limitations(None)]


def _elements(case: Case) -> int:
    call = bind(case)
    return sum(map(math.prod, [*call.shapes, *call.results]))


def _text(attrs: Any) -> str:
    return json.dumps(attrs, sort_keys=True, default=str)


@dataclass(frozen=True)
class GoldenTable:
    """The agreements of all calls. ``too_large``: calls that no smaller one stands for, which were not made."""

    agreements: tuple[Agreement, ...]
    too_large: tuple[Case, ...] = ()

    @classmethod
    def of(cls, cases: Iterable[Case], pool: Pool) -> GoldenTable:
        """Compares every variant of ``cases``, in the golden sessions of ``pool``."""
        chosen = list(variants(cases))
        futures: list[Future[Agreement]] = [pool.run(GoldenTask(c)) for c in chosen if _elements(c) <= MAX_ELEMENTS]
        return cls(tuple(f.result() for f in futures), tuple(c for c in chosen if _elements(c) > MAX_ELEMENTS))

    @property
    def faults(self) -> list[str]:
        """What must be fixed: calls that do not agree without a declared reason, and reasons that no longer hold."""
        unexplained = [a for a in self.agreements if not a.agrees and a.exception is None]
        outdated = [a for a in self.agreements if a.agrees and a.exception is not None]
        return [
            *(f"{_call_text(a.case)}: {a.fault or a.missing}" for a in unexplained),
            *(f"{_call_text(a.case)} agrees, although declared: {a.exception and a.exception.reason}" for a in outdated),
        ]

    def of_operator(self, name: str) -> list[Agreement]:
        return [agreement for agreement in self.agreements if agreement.case.operator == name]


def _call_text(case: Case) -> str:
    return f"{case.operator} {case.id}"
