"""Layouts of tensors as MLIR of the TTNN dialect prints them: dtype, tiles or rows, memory, and how shards lie on cores."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ssinghal.core.memory_config import CoreRange, Sharding
from ssinghal.core.tensors import (
    TILE_EDGE,
    BufferType,
    Cores,
    DType,
    Layout,
    MemoryConfig,
    Shape,
    ShardKind,
    ShardSpec,
)
from ssinghal.diagnose.model import MlirValue
from ssinghal.diagnose.parse.brackets import split
from ssinghal.errors import InvalidCase

ALIAS_DEPTH = 20

DTYPES = {
    "bf16": DType.BFLOAT16, "f32": DType.FLOAT32, "bfp_bf8": DType.BFLOAT8_B, "bfp8": DType.BFLOAT8_B,
    "bfp_bf4": DType.BFLOAT4_B, "bfp4": DType.BFLOAT4_B, "u8": DType.UINT8, "ui8": DType.UINT8, "u16": DType.UINT16,
    "ui16": DType.UINT16, "u32": DType.UINT32, "ui32": DType.UINT32, "i32": DType.INT32, "si32": DType.INT32,
}  # fmt: skip
_GRID = re.compile(r"(?:\w+\s*=\s*)?(?:#\w+\.grid)?<\s*(\d{1,6})x(\d{1,6})\s*(?:,(.*))?>", re.DOTALL)
_SHARDED = re.compile(r"\b(height|width|block)_sharded\b")
_COLUMNS = re.compile(r"(?:floordiv|mod)\s+(\d{1,6})\b")
_RANGE = re.compile(r"core_range<" + r"[^\d>]{1,40}(\d{1,6})" * 4)
_DIMS = re.compile(r"((?:\d+x)*)(.*)", re.DOTALL)


@dataclass(frozen=True)
class MlirLayout:
    """A layout as printed. ``grid``: (columns, rows). ``columns``: of cores that shards fill row by row, if the text has the
    mapping. ``ranges``: of cores, which newer releases print."""

    layout: Layout | None = None
    dtype: DType | None = None
    buffer: BufferType | None = None
    grid: tuple[int, int] | None = None
    kind: ShardKind | None = None
    interleaved: bool = False
    shard: tuple[int, int] | None = None
    columns: int | None = None
    ranges: tuple[CoreRange, ...] = ()

    @classmethod
    def of(cls, text: str, aliases: Mapping[str, str]) -> MlirLayout:
        if "layout<" not in text:
            return cls()
        parts = split(text[text.find("<") + 1 : -1])
        memref = next((part for part in parts if part.startswith("memref<")), "")
        grid = next((match for part in parts if (match := _GRID.fullmatch(part))), None)
        rest = [part for part in parts if part not in (memref, grid[0] if grid else "")]
        sharded = next((match[1] for part in rest if (match := _SHARDED.search(part))), None)
        element, *spaces = split(memref[len("memref<") : -1]) or [""]
        shape, dtype = shape_and_dtype(element)
        tiled = "tile<" in element
        edge = TILE_EDGE if tiled else 1
        columns = _COLUMNS.search(grid[3] or "") if grid else None
        return cls(
            layout=(Layout.TILE if tiled else Layout.ROW_MAJOR) if shape else None,
            dtype=dtype,
            buffer=buffer_named(resolved(spaces[-1], aliases) if spaces else ""),
            grid=(int(grid[2]), int(grid[1])) if grid else None,
            kind=ShardKind(sharded) if sharded else None,
            interleaved=any("interleaved" in part for part in rest),
            shard=(shape[0] * edge, shape[1] * edge) if shape and len(shape) == 2 else None,
            columns=int(columns[1]) if columns else None,
            ranges=core_ranges(" ".join(rest)),
        )

    @property
    def is_known(self) -> bool:
        return None not in (self.layout, self.buffer) and self.interleaved and self.kind is None

    def placed(self, value: MlirValue) -> MlirValue:
        """Returns ``value`` with its shards, as far as the text has them and TTNN accepts them."""
        if self.kind is None or value.spec is None or self.buffer is None:
            return value
        unknown = replace(value, sharding=Sharding(self.kind))
        try:
            cores = self._cores()
            if self.shard is None or cores is None:
                return unknown
            listed = Cores.grid(cores, 1) if isinstance(cores, int) else cores
            exact = replace(value.spec, memory=MemoryConfig(self.buffer, ShardSpec(self.kind, self.shard, listed)))
        except InvalidCase:
            return unknown
        if isinstance(cores, int):
            return replace(value, sharding=Sharding(self.kind, cores, self.shard))
        return replace(value, spec=exact, known_layout=True, grid=cores.bounds)

    def _cores(self) -> Cores | int | None:
        """Returns the cores that hold shards, or how many, where the text does not say which.

        A printed grid of one row or column only counts shards; their cores are in its mapping, row by row.
        """
        if self.ranges:
            return Cores(self.ranges)
        if self.grid is None:
            return None
        if self.kind is ShardKind.BLOCK or min(self.grid) > 1 or self.grid == (1, 1):
            return Cores.grid(*self.grid)
        shards = max(self.grid)
        return Cores.first(shards, (self.columns, shards)) if self.columns else shards


def core_ranges(text: str) -> tuple[CoreRange, ...]:
    """Returns all ranges of cores in a text.

    >>> core_ranges("<[#ttnn.core_range<(0,0), (7,2)>, #ttnn.core_range<(0,3), (2,3)>]>")
    (((0, 0), (7, 2)), ((0, 3), (2, 3)))
    """
    numbers = (tuple(map(int, match.groups())) for match in _RANGE.finditer(text))
    return tuple(((left, top), (right, bottom)) for left, top, right, bottom in numbers)


def buffer_named(text: str) -> BufferType | None:
    """Returns the memory of a buffer type. An alias without a definition is enough, for it is named after the memory."""
    name = re.fullmatch(r"#(?:\w+\.buffer_type<)?(dram|l1_small|l1)(?:_?\d*|>)", text)
    return BufferType(name[1]) if name else None


def shape_and_dtype(text: str) -> tuple[Shape | None, DType | None]:
    """Parses ``4x4884480xbf16`` or ``1x152640x!ttcore.tile<32x32, bf16>``; no shape without dimensions or with dynamic ones."""
    match = _DIMS.fullmatch(text.strip())
    if match is None or not match[1] or len(match[1]) > 200:
        return None, None
    element = match[2]
    if "tile<" in element:
        element = (split(element[element.find("<") + 1 : -1]) or [""])[-1]
    return tuple(int(size) for size in match[1].split("x")[:-1]), DTYPES.get(element.strip())


def resolved(text: str, aliases: Mapping[str, str]) -> str:
    """Returns ``text``, or what it is an alias of."""
    text = text.strip()
    for _ in range(ALIAS_DEPTH):
        if text not in aliases:
            break
        text = aliases[text]
    return text
