"""Repeats calls without dispatching them: TTNN's graph then has the program buffers that it leaves out of the call itself."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from typing import Any

from ssinghal.tracker.events import Event

# Calls that move or free what the program has. Most frees are seen in the events of the call; these are not tried at all.
_NEVER = frozenset(
    f"ttnn.{name}"
    for name in (
        "as_tensor", "deallocate", "dump_tensor", "from_buffer", "from_device", "from_torch", "load_tensor", "move",
        "reallocate", "to_device", "to_torch",
    )
)  # fmt: skip


def is_repeatable(operation: Any, events: Iterable[Event], results: Iterable[tuple[int, int | None]]) -> bool:
    """Whether a call can be repeated right after itself, with the allocator in the state in which its program was built.

    That is so if it freed nothing and keeps nothing but its results. The program's own Python code never runs twice.
    """
    addresses = {address for _, address in results}
    return (
        getattr(operation, "is_cpp_operation", False)
        and operation.python_fully_qualified_name not in _NEVER
        and all(kind == "p" or (kind == "+" and values[1] in addresses) for kind, *values in events)
    )


def nodes_without_dispatch(graph: Any, call: Callable[[], object]) -> list[dict[str, Any]]:
    """Returns the graph of a call that is not dispatched; empty if it fails that way. No capture may be active.

    Nothing is allocated or freed meanwhile, not even what Python's collector of cycles would free: that would never be freed
    again.
    """
    is_collecting = gc.isenabled()
    gc.disable()
    graph.begin_graph_capture(graph.RunMode.NO_DISPATCH)
    try:
        call()
        failed = False
    except Exception:  # noqa: BLE001 (the call itself succeeded; its program buffers stay unknown, and are counted)
        failed = True
    finally:
        nodes: list[dict[str, Any]] = graph.end_graph_capture()
        if is_collecting:
            gc.enable()
    return [] if failed else nodes
