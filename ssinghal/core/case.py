"""A case: one operator call with shapes, attributes and placement. Imports neither torch nor ttnn."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ssinghal.core.json_values import Bytes, LineText, fields_of, plain, value_text
from ssinghal.core.memory_config import MemoryRequest, Sharding
from ssinghal.core.mesh import ShardDim, shard_dim_json, shard_dim_word
from ssinghal.core.tensors import BufferType, DType, Layout, MemoryConfig, Shape, TextEnum, format_shape
from ssinghal.errors import InvalidCase

DEFAULT_L1_SMALL_BYTES = 32768  # enough for every pool, conv and bilinear shape measured


class OutputMemory(TextEnum):
    """Where the result goes: with its inputs, to L1, to DRAM, or where TTNN puts it by default."""

    SAME = "same"
    L1 = "l1"
    DRAM = "dram"
    TTNN = "ttnn"


@dataclass(frozen=True)
class OperandPlacement:
    """How one operand goes to the device where its ``dtype``, ``layout`` or ``memory`` differs from the call's; None: as that.

    ``shard_dim``: on a mesh, the dim that is cut over the chips, or one for each mesh axis; None: every chip holds a copy.
    """

    dtype: DType | None = None
    layout: Layout | None = None
    memory: MemoryRequest | None = None
    shard_dim: ShardDim | None = None

    def to_json(self) -> dict[str, Any] | None:
        """Returns what differs; None where nothing does."""
        memory = str(self.memory) if self.memory else None
        dtype, layout = (x.value if x else None for x in (self.dtype, self.layout))
        dim = None if self.shard_dim is None else shard_dim_json(self.shard_dim)
        fields = {"dtype": dtype, "layout": layout, "memory": memory, "shard_dim": dim}
        return {name: value for name, value in fields.items() if value is not None} or None

    def __str__(self) -> str:
        dim = None if self.shard_dim is None else shard_dim_word(self.shard_dim)
        return "/".join(str(x) for x in (self.dtype, self.layout, self.memory, dim) if x is not None)


AS_CASE = OperandPlacement()


@dataclass(frozen=True)
class RequestedOutput:
    """What a call requests of its result; None: TTNN chooses."""

    memory: MemoryConfig | None = None
    dtype: DType | None = None


@dataclass(frozen=True)
class Placement:
    """How the shapes of a case go to the device.

    Attributes always refer to the tensor as placed, except for NHWC operators, whose attributes keep their torch meaning.

    Attributes:
        dtype: Type of the elements.
        layout: Tiles or rows.
        memory: Memory of the operands.
        output_memory: Memory of the result.
        channels_last: Whether rank-4 inputs, written NCHW, are put on the device as NHWC. None leaves it to the operator: yes
            for those whose TTNN call takes NHWC (pool, conv, upsample).
        l1_small_bytes: Bytes of each core's L1_SMALL region. None leaves it to the operator: 0 unless it needs the region.
        sharding: How operands in ``memory`` are sharded, but for weights; None: they are interleaved.
        output_sharding: How the result is sharded where ``output_memory`` is L1 or DRAM; with SAME it follows the
            first operand.
        output_dtype: Type of the result, where the call is given one.
        operands: Per operand, what differs from the above; shorter than the operands where the rest is as the case has it.
    """

    dtype: DType = DType.BFLOAT16
    layout: Layout = Layout.TILE
    memory: BufferType = BufferType.DRAM
    output_memory: OutputMemory = OutputMemory.SAME
    channels_last: bool | None = None
    l1_small_bytes: int | None = None
    sharding: Sharding | None = None
    output_sharding: Sharding | None = None
    output_dtype: DType | None = None
    operands: tuple[OperandPlacement, ...] = ()

    @property
    def request(self) -> MemoryRequest:
        """Memory of the operands, with shards."""
        return MemoryRequest(self.memory, self.sharding)

    @property
    def output_text(self) -> str:
        """Memory of the result as users write it."""
        return f"{self.output_memory}:{self.output_sharding}" if self.output_sharding else self.output_memory.value

    @cached_property
    def memory_text(self) -> str:
        """Memory of the operands as users write it."""
        return str(self.request)

    @cached_property
    def is_plain(self) -> bool:
        """Whether all tensors are interleaved and of one dtype and layout, on one chip or copied to all."""
        return not (self.sharding or self.output_sharding or self.output_dtype or self.operands)

    @property
    def is_cut(self) -> bool:
        """Whether an operand is cut over the chips of a mesh."""
        return any(operand.shard_dim is not None for operand in self.operands)

    def operand(self, position: int) -> OperandPlacement:
        """What differs for the operand at ``position``."""
        return self.operands[position] if position < len(self.operands) else AS_CASE

    def is_sharded(self, position: int) -> bool:
        """Whether the operand at ``position`` is sharded."""
        own = self.operand(position).memory
        return (self.sharding if own is None else own.sharding) is not None

    @cached_property
    def memory_config(self) -> MemoryConfig:
        """The operands' memory without shards, which depend on their shapes."""
        return MemoryConfig(self.memory)

    @cached_property
    def output_config(self) -> MemoryConfig | None:
        """The memory config to request, or None to let TTNN choose."""
        if self.output_memory is OutputMemory.TTNN:
            return None
        if self.output_memory is OutputMemory.SAME:
            return self.memory_config
        return MemoryConfig(BufferType(self.output_memory.value))


@dataclass(frozen=True)
class ModuleCalls:
    """A module, by its path in the model, and how often it makes a call."""

    path: LineText
    # 0 if the module has a tensor of the shape, but need not make this very call.
    calls: Bytes = 1


@dataclass(frozen=True)
class Source:
    """A catalog line that a case comes from."""

    catalog: LineText
    # For captured lines: the model and its input size.
    model: LineText = ""
    input_size: LineText = ""
    # How often the model makes the call; 0 if it has a tensor of the shape, but need not make this very call.
    count: Bytes = 1
    # The modules that make the call, in the order of their first calls; empty where none is named.
    modules: tuple[ModuleCalls, ...] = ()
    # How many more modules make the call; 0 beside ``other_calls`` if that was not recorded.
    other_modules: Bytes = 0
    # The calls of ``count`` that ``modules`` does not hold.
    other_calls: Bytes = 0

    @classmethod
    def of_first(cls, catalog: str, model: str, input_size: str, count: int, module: str) -> Source:
        """Returns the source of which only the first module was recorded, if any: one call is its, and who makes the rest is
        not known."""
        if not module:
            return cls(catalog, model, input_size, count)
        return cls(catalog, model, input_size, count, (ModuleCalls(module, min(count, 1)),), other_calls=max(count - 1, 0))

    def to_json(self) -> dict[str, Any]:
        """Returns the fields, and ``module_path``, the first module."""
        return {**plain(fields_of(self)), "module_path": self.first_module}

    @property
    def first_module(self) -> str:
        """The first module that makes the call, "" where none is named."""
        return self.modules[0].path if self.modules else ""

    @property
    def where(self) -> str:
        """The first module, and how many there are.

        >>> Source("", count=3, modules=(ModuleCalls("down.0", 2), ModuleCalls("dec.3", 1))).where
        'down.0, first of 2 modules'
        """
        modules = len(self.modules) + self.other_modules
        if self.modules and self.other_calls and not self.other_modules:
            return f"{self.first_module}, then modules not recorded"
        return f"{self.first_module}, first of {modules:,} modules" if modules > 1 else self.first_module


@dataclass(frozen=True)
class KnownOom:
    """What a real card reported of this case: the run, and the bytes if its log has them."""

    run: str
    stage: str = ""
    total_bytes: int | None = None
    bytes_per_bank: int | None = None
    banks: int | None = None


ALTERED = ("dtype", "memory", "weights")


@dataclass(frozen=True)
class Case:
    """One operator call, from ``make_case``. ``inputs`` and ``attrs`` follow the ATen schema."""

    # The operator's canonical name.
    operator: str
    # The name it was selected by: an alias, or ``operator`` itself.
    name: str
    # Shapes of the tensor arguments in their order, in elements.
    inputs: tuple[Shape, ...]
    # The other arguments by name.
    attrs: Mapping[str, Any] = field(default_factory=dict)
    # Dtype, layout and memory on the device.
    placement: Placement = Placement()
    # The catalogs, and for captured calls the models, that it comes from.
    sources: tuple[Source, ...] = ()
    # What a card reported of it.
    known_oom: KnownOom | None = None
    # The shape of the catalog that the inputs were built from, where one was.
    listed_shape: Shape | None = None
    # Of ``ALTERED``, that in which the options of the run changed the call of the catalogs; () for one that a catalog has as it
    # is, None where no option changes any.
    altered: tuple[str, ...] | None = field(default=None, compare=False)

    def identity(self) -> dict[str, Any]:
        """Returns all that decides the verdict on a given board and release: the JSON object that ``probe --from`` reads."""
        p = self.placement
        own: dict[str, Any] = {"output_dtype": p.output_dtype.value} if p.output_dtype else {}
        if p.operands:
            own |= {"operands": [operand.to_json() for operand in p.operands]}
        return {
            "op": self.name,
            "inputs": [list(s) for s in self.inputs],
            "attrs": dict(self.attrs),
            "dtype": self.placement.dtype.value,
            "layout": self.placement.layout.value,
            "memory": p.memory_text,
            "output_memory": p.output_text,
            "channels_last": self.placement.channels_last,
            "l1_small_size": self.placement.l1_small_bytes,
            **own,
        }

    @cached_property
    def key(self) -> str:
        """A content hash of the identity, with the operator's canonical name."""
        return hashlib.sha256(self.call_json().encode()).hexdigest()[:12]

    def is_same_call(self, other: Case) -> bool:
        """Whether both are one call, maybe under two names. Two calls may have one key, though rarely: keys have 48 bits."""
        return self.key == other.key and self.call_json() == other.call_json()

    def call_json(self) -> str:
        """Returns the identity as JSON, with the operator's canonical name: equal for equal calls only."""
        return json.dumps({**self.identity(), "op": self.operator}, sort_keys=True)

    @property
    def id(self) -> str:
        """Readable text, unique for each identity, usable in ``-k``: shapes, attributes, and the placement unless bf16 tile."""
        p = self.placement
        parts = ["+".join("x".join(map(str, s)) for s in self.inputs) or "no_inputs"]
        parts += [f"{k}={_compact(v)}" for k, v in sorted(self.attrs.items())]
        parts += [p.dtype.value] if p.dtype is not DType.BFLOAT16 else []
        parts += [p.layout.value] if p.layout is not Layout.TILE else []
        parts.append(p.memory_text if p.output_memory is OutputMemory.SAME else f"{p.memory_text}>{p.output_text}")
        parts += ["nhwc"] if p.channels_last else []
        parts += [f"l1_small={p.l1_small_bytes}"] if p.l1_small_bytes else []
        parts += [f"to={p.output_dtype}"] if p.output_dtype else []
        parts += [f"in{number}={operand}" for number, operand in enumerate(p.operands, 1) if operand != AS_CASE]
        return "-".join(parts)

    def merged(self, other: Case) -> Case:
        """Joins the same case of two catalogs: all sources, and a known OOM and a listed shape of either; altered as the
        one that is less.

        Raises:
            InvalidCase: They are two calls with the same key, so that one record would stand for both.
        """
        if not self.is_same_call(other):
            raise InvalidCase(
                f"two calls have the key {self.key}, by which records are distinguished: "
                f"{self.id} and {other.id} of {self.name}; leave out one of them, or run them in separate runs"
            )
        return replace(
            self,
            sources=(*self.sources, *other.sources),
            known_oom=self.known_oom or other.known_oom,
            listed_shape=self.listed_shape or other.listed_shape,
            altered=min((one for one in (self.altered, other.altered) if one is not None), key=len, default=None),
        )


def _compact(value: Any) -> str:
    if isinstance(value, Mapping):
        return "_".join(f"{name}={_compact(item)}" for name, item in sorted(value.items()))
    if isinstance(value, (list, tuple)):
        return "x".join(_compact(v) for v in value)
    return re.sub(r"[^A-Za-z0-9_.+-]", "", str(value))


def call_text(case: Case) -> str:
    """Returns the call in one line, for people."""
    p = case.placement
    shapes = " ".join(operand_text(case, position) for position in range(len(case.inputs)))
    attrs = " ".join(f"{k}={value_text(v)}" for k, v in case.attrs.items())
    placed = [str(p.dtype), str(p.layout), p.memory_text]
    placed += [f"result {p.output_text}"] if p.output_memory is not OutputMemory.SAME and p.output_sharding else []
    placed += [f"result {p.output_dtype}"] if p.output_dtype else []
    return " ".join(x for x in (case.name, shapes, attrs, f"({', '.join(placed)})") if x)


def operand_text(case: Case, position: int) -> str:
    """Returns the shape of an operand, with what differs from the others."""
    placed = str(case.placement.operand(position))
    return format_shape(case.inputs[position]) + (f"/{placed}" if placed else "")
