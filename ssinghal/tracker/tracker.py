"""Notes every TTNN call of a device: its line, its tensors, what it allocated and freed, and the allocator's own view after it.

TTNN's graph capture is on all the time: what is allocated or freed between two calls, such as by Python's last reference to a
tensor, is booked between them.
"""

from __future__ import annotations

import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import Any

from ssinghal.tracker.events import EventReader
from ssinghal.tracker.records import RecordFile

_LIBRARIES = tuple({sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib")})
_OWN = __file__.rpartition("/")[0]
ERROR_LIMIT = 4000


class Tracker:
    """Records the calls on one open device until it is closed."""

    def __init__(self, ttnn: Any, device: Any, file: RecordFile) -> None:
        self._module, self._device, self._file = ttnn, device, file
        self._graph = ttnn._ttnn.graph
        self._memories = {
            name: getattr(ttnn.BufferType, name.upper())
            for name in ("dram", "l1", "l1_small", "trace")
            if hasattr(ttnn.BufferType, name.upper())
        }
        self._calls = 0
        self._before: list[Any] = []
        self.is_within = False  # a call that TTNN makes inside of another one is part of that
        info = ttnn._ttnn.reports.get_device_info(device)
        grid = device.compute_with_storage_grid_size()
        granule = 64 if "BLACKHOLE" in str(device.arch()) else 32
        views = {name: ttnn.get_memory_view(device, kind) for name, kind in self._memories.items()}
        self._reader = EventReader(
            {name: view.num_banks for name, view in views.items()}, granule, info.address_at_first_l1_cb_buffer
        )
        file.write(
            "device",
            ttnn=version("ttnn"),
            arch=device.arch().name.lower(),
            mesh=list(device.shape),
            grid=[grid.x, grid.y],
            granule=granule,
            l1_base=info.address_at_first_l1_cb_buffer,
            l1_top=info.worker_l1_size,
            memories={
                name: [view.num_banks, view.total_bytes_per_bank, view.total_bytes_allocated_per_bank]
                for name, view in views.items()
            },
        )
        self._graph.begin_graph_capture(self._graph.RunMode.NORMAL)

    def stop(self) -> None:
        """Ends the recording; the device may be closed then."""
        self._file.write("end", gap=self._reader.events(self._graph.end_graph_capture()))

    def call(self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Makes a call and records it."""
        if self.is_within:
            return function(*args, **kwargs)
        self.is_within = True
        graph, normal = self._graph, self._graph.RunMode.NORMAL
        record = {"n": self._calls, "name": name, "stack": self._stack(sys._getframe(2))}
        self._calls += 1
        record["in"] = [self._tensor(tensor) for tensor in self._tensors((args, kwargs))]
        record["gap"] = self._reader.events(graph.end_graph_capture())
        graph.begin_graph_capture(normal)
        started = time.perf_counter_ns()
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            record["error"] = [type(error).__name__, str(error)[:ERROR_LIMIT]]
            raise
        else:
            record["out"] = [self._tensor(tensor) for tensor in self._tensors(result)]
            return result
        finally:
            record["us"] = (time.perf_counter_ns() - started) // 1000
            record["ev"] = self._reader.events(graph.end_graph_capture())
            graph.begin_graph_capture(normal)
            record["view"] = {name: self._view(kind) for name, kind in self._memories.items()}
            self._file.write("call", **record)
            self.is_within = False

    def pause(self) -> None:
        """Leaves the graph capture to the program, which is about to begin one of its own: they do not nest."""
        self._before = self._reader.events(self._graph.end_graph_capture())
        self.is_within = True

    def resume(self, nodes: list[dict[str, Any]]) -> None:
        """Takes what the program's own capture holds for the events of one call."""
        self._graph.begin_graph_capture(self._graph.RunMode.NORMAL)
        self.is_within = False
        self._file.write(
            "call",
            n=self._calls,
            name="ttnn.graph.end_graph_capture",
            stack=self._stack(sys._getframe(2)),
            **{"in": []},
            gap=self._before,
            ev=self._reader.events(nodes),
            view={name: self._view(kind) for name, kind in self._memories.items()},
        )
        self._calls += 1

    def _view(self, kind: Any) -> list[int]:
        view = self._module.get_memory_view(self._device, kind)
        return [view.total_bytes_allocated_per_bank, view.largest_contiguous_bytes_free_per_bank]

    def _tensors(self, value: Any) -> Iterator[Any]:
        if isinstance(value, self._module.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            for item in value:
                yield from self._tensors(item)
        elif isinstance(value, dict):
            yield from self._tensors(list(value.values()))

    def _tensor(self, tensor: Any) -> list[Any]:
        """Returns the number of a tensor's spec and its address; no address on the host or once it is freed."""
        shape, dtype, layout = tuple(tensor.shape), tensor.dtype.name.lower(), tensor.layout.name.lower()
        if tensor.storage_type() != self._module.StorageType.DEVICE:
            return [
                self._file.number("spec", (shape, dtype, layout), shape=shape, dtype=dtype, layout=layout, memory=None),
                None,
            ]
        config = tensor.memory_config()
        memory, placed = config.buffer_type.name.lower(), config.memory_layout.name.lower()
        shard = config.shard_spec and [list(config.shard_spec.shape), str(config.shard_spec.grid)]
        number = self._file.number(
            "spec",
            (shape, dtype, layout, memory, placed, str(shard)),
            shape=shape,
            dtype=dtype,
            layout=layout,
            memory=memory,
            memory_layout=placed,
            shard=shard,
        )
        return [number, tensor.buffer_address() if tensor.is_allocated() else None]

    def _stack(self, frame: Any) -> int:
        """Returns the number of the user's frames around a call: those that no library has."""
        sites = []
        while frame is not None:
            code = frame.f_code
            if not code.co_filename.startswith((_OWN, "<", *_LIBRARIES)):
                key = (code.co_filename, frame.f_lineno, code.co_name)
                sites.append(self._file.number("site", key, file=key[0], line=key[1], function=key[2]))
            frame = frame.f_back
        return self._file.number("stack", tuple(sites), sites=sites)
