"""Calls that TTNN's golden functions do not decide, as data: the operator, which of its calls, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ssinghal.core.case import Case
from ssinghal.core.tensors import Shape
from ssinghal.operators import named
from ssinghal.operators.binding import bind
from ssinghal.operators.operator_info import Attrs

_VOLUME = 5  # rank


@dataclass(frozen=True)
class GoldenException:
    """Calls of ``operator`` whose golden function is missing, or is known to give other values. ``when``: which; None: all."""

    operator: str
    reason: str
    when: Callable[[Sequence[Shape], Attrs], bool] | None = None

    def applies(self, case: Case) -> bool:
        call = bind(case)
        return case.operator == self.operator and (self.when is None or self.when(call.shapes, call.attrs))


_POOLS = named(
    "max_pool2d avg_pool2d adaptive_avg_pool2d adaptive_avg_pool1d adaptive_max_pool2d adaptive_max_pool1d grid_sampler"
)

EXCEPTIONS: tuple[GoldenException, ...] = (
    *(GoldenException(name, "its golden function imports TTNN's own tests, which the wheel lacks") for name in _POOLS),
    GoldenException("conv_transpose2d", "TTNN registers no golden function for ttnn.conv_transpose2d"),
    GoldenException(
        "convolution",
        "TTNN registers no golden function for ttnn.conv_transpose2d and ttnn.experimental.conv3d",
        when=lambda shapes, attrs: bool(attrs["transposed"]) or len(shapes[0]) == _VOLUME,
    ),
    GoldenException("dropout", "TTNN registers no golden function for ttnn.experimental.dropout, whose results are random"),
    GoldenException("place", "it puts tensors on the device and computes nothing"),
)


def exception_of(case: Case) -> GoldenException | None:
    """Returns the exception that covers ``case``, None for a call that must agree."""
    return next((exception for exception in EXCEPTIONS if exception.applies(case)), None)
