"""Calls at which TTNN ends its process, each made as plain TTNN, and the same call as a case: refused before it is made."""

from __future__ import annotations

from typing import Any

import pytest

from ssinghal.core.verdict import DecidedBy, Status
from ssinghal.device.modes import choose_device
from ssinghal.operators import make_case
from ssinghal.runner.pool import Pool
from tests.support.plain_call import PlainCall

pytestmark = pytest.mark.virtual_device
MAP = (1, 32, 8, 8)  # as torch has it; on the device [1, 1, 64, 32]
ROWS = (1, 1, 64, 32)


def pool_call(name: str, *, kernel: int, stride: int = 1, padding: int = 0, dilation: int = 1) -> tuple[str, dict[str, Any]]:
    """Returns a pool over ``MAP`` as plain TTNN, and its attributes as a case."""
    window = {"kernel_size": [kernel] * 2, "stride": [stride] * 2, "padding": [padding] * 2}
    if name == "max_pool2d":
        window["dilation"] = [dilation] * 2
    arguments = ", ".join(f"{key}={value}" for key, value in window.items())
    return f"ttnn.{name}(input_tensor=a, batch_size=1, input_h=8, input_w=8, channels=32, {arguments})", window


@pytest.mark.parametrize(
    ("name", "window", "ending"),
    [
        ("max_pool2d", {"kernel": 3, "stride": 0}, "SIGFPE"),
        ("avg_pool2d", {"kernel": 3, "stride": 0}, "SIGFPE"),
        ("max_pool2d", {"kernel": 3, "dilation": 5}, "SIGSEGV"),  # a window of 11 in a map of 8
        ("max_pool2d", {"kernel": 12, "stride": 2}, "SIGSEGV"),
    ],
)
def test_a_pool_that_crashes_ttnn_is_refused(name, window, ending):
    source, attrs = pool_call(name, **window)
    refused(PlainCall(source, (ROWS,)), ending, name, MAP, attrs)


def test_a_slice_that_crashes_ttnn_is_refused():
    plain = PlainCall("ttnn.slice(a, [0, 0, 0, 0], [1, 1, 8, 32], [1, 1, 0, 1])", ((1, 1, 8, 32),))
    refused(plain, "SIGFPE", "slice", (1, 1, 8, 32), {"dim": 2, "start": 0, "end": 8, "step": 0})


def refused(plain: PlainCall, ending: str, name: str, shape: tuple[int, ...], attrs: dict[str, Any]) -> None:
    with Pool(choose_device("virtual", "n150")) as pool:
        assert pool.run(plain).result().startswith(f"crash: the process that ran the call ended with {ending}")
        record = pool.submit(make_case(name, (shape,), attrs)).result()
    assert (record.status, record.decided_by, record.retried) == (Status.INVALID, DecidedBy.ARITHMETIC, "")
    assert record.message
