"""Describes tensors, and the user's lines around a call, by numbers of records that are written once."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Collection, Iterator, Mapping
from linecache import getline
from types import MappingProxyType
from typing import Any

from ssinghal.tracker.records import RecordFile

_LIBRARIES = tuple({sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib", "scripts")})
_OWN = os.path.dirname(os.path.dirname(__file__)) + os.sep  # this package: its pytest plugin wraps calls of TTNN too
TEXT_LIMIT = 200


class Description:
    """``elsewhere``: ids of devices whose tensors have no address here."""

    def __init__(self, ttnn: Any, file: RecordFile, elsewhere: Collection[int]) -> None:
        self._module, self._file, self._elsewhere = ttnn, file, elsewhere
        self._foreign = (_OWN, os.path.dirname(ttnn.__file__), "<frozen ", *_LIBRARIES)  # files that are not the user's

    def tensors(self, value: Any) -> list[list[Any]]:
        """Returns [spec, address] of each tensor in a value."""
        return [self._tensor(tensor) for tensor in self._within(value)]

    def _within(self, value: Any, depth: int = 6) -> Iterator[Any]:
        """Yields the tensors in nested lists, which may contain themselves."""
        if isinstance(value, self._module.Tensor):
            yield value
        elif isinstance(value, (list, tuple)) and depth:
            for item in value:
                yield from self._within(item, depth - 1)
        elif isinstance(value, dict):
            yield from self._within(list(value.values()), depth)

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
        written = config.to_json() if config.is_sharded() else ""
        number = self._file.number(
            "spec",
            (shape, dtype, layout, memory, placed, written),
            shape=shape,
            dtype=dtype,
            layout=layout,
            memory=memory,
            memory_layout=placed,
            shard=shard,
            **({"config": written} if written else {}),
        )
        is_here = not self._elsewhere or tensor.device().id() not in self._elsewhere
        return [number, tensor.buffer_address() if is_here and tensor.is_allocated() else None]

    def _site(self, key: tuple[str, int, str]) -> int:
        file, line, function = key
        text = getline(file, line).strip()[:TEXT_LIMIT]
        return self._file.number("site", key, file=file, line=line, function=function, text=text)

    def stack(self, frame: Any, lines: Mapping[Any, int] = MappingProxyType({})) -> int:
        """Returns the number of the user's frames around a call: those that no library has. ``lines``: of frames that have gone
        on since."""
        sites = []
        while frame is not None:
            code = frame.f_code
            if not code.co_filename.startswith(self._foreign):
                key = (code.co_filename, lines.get(frame, frame.f_lineno), code.co_name)
                sites.append(self._site(key))
            frame = frame.f_back
        return self._file.number("stack", tuple(sites), sites=sites)
