"""Stands in for traces and for waiting on events: TTNN crashes where they are used on a virtual device."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from itertools import count
from types import FrameType
from typing import Any

from ssinghal.tracker import FOLDER_VARIABLE, NO_TRACE_VARIABLE

MOCK_VARIABLE = "TT_METAL_MOCK_CLUSTER_DESC_PATH"  # where it is set, TTNN opens a mock of a cluster, and no card
TRACES = ("begin_trace_capture", "end_trace_capture", "execute_trace", "release_trace")
EVENTS = ("wait_for_event",)


def stand_ins(ttnn: Any) -> dict[str, Callable[..., Any]]:
    """Returns functions of ttnn that do nothing, by name; none where a card may be opened, and only under ``ssinghal profile``
    and ``ssinghal exec --no-trace``.

    What is called between begin and end of a trace is executed once, as without a trace.
    """
    if not os.environ.get(MOCK_VARIABLE) or not any(map(os.environ.get, (FOLDER_VARIABLE, NO_TRACE_VARIABLE))):
        return {}
    numbers = count()

    def begin_trace_capture(*args: Any, **kwargs: Any) -> Any:
        return ttnn.MeshTraceId(next(numbers))

    def nothing(*args: Any, **kwargs: Any) -> None:
        return None

    names = (name for name in (*TRACES, *EVENTS) if hasattr(ttnn, name))
    return {name: begin_trace_capture if name == "begin_trace_capture" else nothing for name in names}


def note_captures(ttnn: Any, note: Callable[[str, FrameType], None]) -> None:
    """Makes the functions that a virtual device may crash in, or after, record the line that calls them first."""

    def noted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            note(f"ttnn.{name}", sys._getframe(1))
            return function(*args, **kwargs)

        return call

    for name in (*TRACES, *EVENTS):
        if hasattr(ttnn, name):
            setattr(ttnn, name, noted(name, getattr(ttnn, name)))
