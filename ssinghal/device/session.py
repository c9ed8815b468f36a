"""Opens a device. The only module that imports ttnn, and the only one that knows its private module and its allocator."""

from __future__ import annotations

import gc
import hashlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.metadata import version
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

from ssinghal.core.boards import load_board
from ssinghal.core.case import RequestedOutput
from ssinghal.core.closing import Closing
from ssinghal.core.device_facts import DeviceFacts, DeviceMode
from ssinghal.core.memory_config import BufferType, MemoryConfig
from ssinghal.core.mesh import ShardDim
from ssinghal.core.tensors import ONE_CHIP, Board, DType, Layout, MemoryRegion, TensorSpec
from ssinghal.device.conversion import layout_of, memory_config, spec_of
from ssinghal.device.error_patterns import translate_error
from ssinghal.device.modes import MOCK_VARIABLE, DeviceChoice
from ssinghal.errors import DeviceError, DeviceUnavailable, NotProven

READ_BACK = (1.0, 2.0, 3.0, 4.0)
# The first release with full verdicts that has what an older one lacks, where that was measured.
FIRST_RELEASES = {"ttnn.ShardDistributionStrategy.CONTIGUOUS_1D": "0.75.0"}
# One row-major row of 2 MiB: a copy kernel must hold it twice in one core's L1, which is too small on every board (1.5 MiB).
OVERFLOW_ROW = 2**20


@dataclass(frozen=True)
class MemoryView:
    """The state of one kind of memory in TTNN's allocator; bytes are per bank."""

    num_banks: int
    bank_bytes: int
    allocated_bytes: int
    free_bytes: int
    largest_free_bytes: int


class Session(Closing):
    """One device, open with one ``l1_small_size`` and ``trace_region_size`` at a time. Not thread-safe; one board per process.

    A board of several chips opens as a mesh. TTNN allocates the same in all chips, be it copies or parts of equal size, so the
    state of its memory is that of each chip. The chips are connected (``fabric``) for calls that need it.

    The environment of the chosen mode must be in force already (``device.virtual.apply_environment``).
    """

    def __init__(self, choice: DeviceChoice, *, with_torch: bool = False, l1_small_bytes: int = 0) -> None:
        self.choice = choice
        self._known = None if choice.descriptor else load_board(choice.board)
        self.ttnn = import_ttnn(with_torch)
        self.l1_small_bytes = l1_small_bytes
        self.trace_region_bytes = 0
        self.fabric: str | None = None
        self._device: Any = self._open()
        try:
            self.facts = self._prove()
        except BaseException:
            self.close()
            raise

    @property
    def board(self) -> Board:
        """The board as it is open now; the L1_SMALL and the trace region are not part of its banks."""
        board = self.facts.opened_board.with_l1_small(self.l1_small_bytes)
        if not self.trace_region_bytes:
            return board
        return replace(board, dram=replace(board.dram, bank_bytes=self.memory(BufferType.DRAM).bank_bytes))

    @property
    def device(self) -> Any:
        return self._device

    def _open(self) -> Any:
        mesh = self._known.mesh if self._known else None  # None: all chips that there are
        regions = {"l1_small_size": self.l1_small_bytes, "trace_region_size": self.trace_region_bytes}
        try:
            if self.fabric is not None:
                self.ttnn.set_fabric_config(getattr(self.ttnn.FabricConfig, self.fabric))
            if mesh == ONE_CHIP:
                return self.ttnn.open_device(device_id=0, **regions)
            return self.ttnn.open_mesh_device(mesh and self.ttnn.MeshShape(*mesh), **regions)
        except RuntimeError as error:
            first = str(error).splitlines()[-1] if str(error) else type(error).__name__
            raise DeviceUnavailable(f"cannot open a {self.choice.mode} device ({self.choice.board}): {first}") from error

    def close(self) -> None:
        if self._device is not None:
            close = self.ttnn.close_device if tuple(self._device.shape) == ONE_CHIP else self.ttnn.close_mesh_device
            close(self._device)
            self._device = None
            if self.fabric is not None:
                self.ttnn.set_fabric_config(self.ttnn.FabricConfig.DISABLED)

    def reopen(self) -> None:
        """Closes the device and opens it again."""
        self.close()
        self._device = self._open()

    def use_regions(self, l1_small_bytes: int, trace_region_bytes: int = 0, fabric: str | None = None) -> None:
        """Sets the sizes of the regions, and how the chips are connected, a name of TTNN's FabricConfig.

        A change closes and reopens the device (3 ms, for a fabric up to 1 s), but the board stays.
        """
        if (l1_small_bytes, trace_region_bytes, fabric) != (self.l1_small_bytes, self.trace_region_bytes, self.fabric):
            self.close()
            self.l1_small_bytes, self.trace_region_bytes, self.fabric = l1_small_bytes, trace_region_bytes, fabric
            self._device = self._open()

    # Proof of the mode ------------------------------------------------------------------------------------------------

    def _prove(self) -> DeviceFacts:
        """Reads a tensor back (zeros on a virtual device, the values on silicon) and runs a program that must be rejected."""
        ttnn = self.ttnn
        host = ttnn.Tensor(list(READ_BACK), [1, 1, 2, 2], ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT)
        values = [chip.to_list() for chip in ttnn.get_device_tensors(host.to(self._device))]
        is_virtual = self.choice.mode is DeviceMode.VIRTUAL
        kept = [chip == host.to_list() for chip in values]
        keeps_values = any(kept) if is_virtual else all(kept)
        if keeps_values == is_virtual:
            kind = "keeps values, so it is not virtual" if keeps_values else "does not keep values, so it is a mock"
            raise NotProven(f"a {self.choice.mode} device was requested, but the opened one {kind}")
        proof = f"read-back {'returned zeros' if is_virtual else 'returned the values'}"
        if is_virtual:
            self._prove_program_limits()
            proof += "; a program beyond L1 was rejected"
        l1, dram = self.memory(BufferType.L1), self.memory(BufferType.DRAM)
        grid = self._device.compute_with_storage_grid_size()
        if is_virtual:
            self._prove_board((grid.x, grid.y), l1.num_banks, dram.num_banks)
        descriptor = os.environ.get(MOCK_VARIABLE)
        return DeviceFacts(
            mode=self.choice.mode,
            board=self.choice.board,
            arch=self._device.arch().name.lower(),
            cluster=ttnn.cluster.get_cluster_type().name,
            grid=(grid.x, grid.y),
            ttnn=version("ttnn"),
            l1=MemoryRegion(l1.num_banks, l1.bank_bytes + self.memory(BufferType.L1_SMALL).bank_bytes, self._alignment("l1")),
            dram=MemoryRegion(dram.num_banks, dram.bank_bytes, self._alignment("dram")),
            l1_base_bytes=self._l1_base_bytes(),
            granule_bytes=self._granule(),
            mesh=tuple(self._device.shape),
            descriptor_sha256=hashlib.sha256(Path(descriptor).read_bytes()).hexdigest() if descriptor else "",
            reason=self.choice.reason,
            proof=proof,
        )

    def _alignment(self, region: str) -> int:
        """Returns the alignment from TTNN, or for releases before 0.75 from the board; it is the chip's."""
        get_alignment = getattr(self.ttnn, f"get_{region}_alignment", None)
        if get_alignment is not None:
            return int(get_alignment())
        if self._known is None:
            raise NotProven(f"ttnn {version('ttnn')} does not report the alignment of {region}; 0.75.0 and later do")
        known: MemoryRegion = getattr(self._known, region)
        return known.alignment_bytes

    def _granule(self) -> int:
        """Returns the bytes that the allocator books for the smallest possible page."""
        page = self.empty(TensorSpec((1, 1), DType.UINT8, Layout.ROW_MAJOR, MemoryConfig(BufferType.L1)))
        booked = self.memory(BufferType.L1).allocated_bytes
        page.deallocate()
        return booked

    def _prove_board(self, grid: tuple[int, int], l1_banks: int, dram_banks: int) -> None:
        """Checks grid and banks: slow dispatch gives a Wormhole 8x9 cores, and a second board in a process the first's grid."""
        board = self._known
        if board is None:
            return self._prove_cores(*grid)
        if (grid, l1_banks, dram_banks) != (board.grid, board.l1.num_banks, board.dram.num_banks):
            opened = f"grid {grid}, {l1_banks} L1 and {dram_banks} DRAM banks"
            expected = f"{board.grid}, {board.l1.num_banks} and {board.dram.num_banks}"
            hint = "slow dispatch, or another board opened before?"
            raise NotProven(f"board {board.name} opened with {opened}; expected {expected} ({hint})")

    def _prove_cores(self, columns: int, rows: int) -> None:
        """Checks that programs run on all cores: a mock may place tensors on more than that."""
        tiles = self.empty(TensorSpec((32, 32 * columns * rows)))
        try:
            self.ttnn.relu(tiles).deallocate()
        except RuntimeError as error:
            message = translate_error("RuntimeError", str(error)).message
            raise NotProven(f"TTNN rejects a program on all {columns}x{rows} cores that it opened: {message}") from error
        finally:
            tiles.deallocate()
            self.clear()

    def _prove_program_limits(self) -> None:
        """Checks that a program beyond L1 fails: in slow dispatch, as up to 0.74, a mock accepts every program."""
        row = self.empty(TensorSpec((1, 1, 1, OVERFLOW_ROW), DType.BFLOAT16, Layout.ROW_MAJOR))
        try:
            copied = self.ttnn.clone(row)
        except RuntimeError as error:
            if "beyond max L1 size" not in str(error):
                message = translate_error("RuntimeError", str(error)).message
                raise NotProven(f"the program that must overflow L1 failed for another reason: {message}") from error
        else:
            copied.deallocate()
            raise NotProven("a program that overflows L1 was accepted: program buffers are not checked (slow dispatch?)")
        finally:
            row.deallocate()
            self.clear()

    def missing_function(self, error: AttributeError) -> str | None:
        """Returns what this release of TTNN lacks, if that caused ``error``, else None."""
        owner = error.obj
        if isinstance(owner, ModuleType):
            root, name = owner.__name__, owner.__name__
        elif isinstance(owner, type):  # such as an enum
            root, name = owner.__module__, f"ttnn.{owner.__name__}"
        else:
            return None
        if root.partition(".")[0] != "ttnn":
            return None
        first = FIRST_RELEASES.get(f"{name}.{error.name}")
        return f"ttnn {self.facts.ttnn} has no {name}.{error.name}" + (f"; {first} has it" if first else "")

    # Tensors ----------------------------------------------------------------------------------------------------------

    def memory_config(self, config: MemoryConfig, ttnn: Any = None) -> Any:
        """Returns TTNN's memory config. ``ttnn``: that of a transcript, if calls are recorded."""
        return memory_config(ttnn or self.ttnn, config)

    def output_arguments(self, output: RequestedOutput, ttnn: Any = None) -> dict[str, Any]:
        """Returns the arguments that request a result's memory and dtype; empty where TTNN chooses them."""
        arguments = {} if output.memory is None else {"memory_config": self.memory_config(output.memory, ttnn)}
        if output.dtype is not None:
            arguments["dtype"] = getattr(ttnn or self.ttnn, output.dtype.value)
        return arguments

    def empty(self, spec: TensorSpec, ttnn: Any = None, shard_dim: ShardDim | None = None) -> Any:
        """Allocates ``spec`` on the device without host memory or values; raises TTNN's RuntimeError where it does not fit.

        ``shard_dim``: each chip of the mesh holds ``spec`` as its part of a tensor that is cut so; None: they hold copies. TTNN
        allocates the same for both, but collectives look at what it notes of that (since 0.75).
        """
        ttnn = ttnn or self.ttnn
        tensor = ttnn.empty(
            list(spec.shape),
            dtype=getattr(ttnn, spec.dtype.value),
            layout=layout_of(ttnn, spec.layout),
            device=self._device,
            memory_config=self.memory_config(spec.memory, ttnn),
        )
        if shard_dim is not None and hasattr(tensor, "update_tensor_topology"):
            tensor.update_tensor_topology(self._topology(shard_dim))
        return tensor

    def _topology(self, shard_dim: ShardDim) -> Any:
        """Returns what TTNN's mappers note of a tensor that is cut over the chips."""
        ttnn, mesh = self.ttnn, tuple(self._device.shape)
        chips = [ttnn.MeshCoordinate(row, column) for row in range(mesh[0]) for column in range(mesh[1])]
        if isinstance(shard_dim, int):
            return ttnn.TensorTopology(ttnn.MeshShape([len(chips)]), [ttnn.PlacementShard(shard_dim)], chips)
        placements = [ttnn.PlacementReplicate() if dim is None else ttnn.PlacementShard(dim) for dim in shard_dim]
        return ttnn.TensorTopology(ttnn.MeshShape(*mesh), placements, chips)

    def from_torch(self, values: Any, spec: TensorSpec) -> Any:
        """Returns a device tensor with ``values`` (a torch tensor of ``spec.shape``)."""
        ttnn = self.ttnn
        return ttnn.from_torch(
            values,
            dtype=getattr(ttnn, spec.dtype.value),
            layout=layout_of(ttnn, spec.layout),
            device=self._device,
            memory_config=self.memory_config(spec.memory),
        )

    def rounded(self, values: Any, spec: TensorSpec) -> Any:
        """Returns ``values`` as ``spec`` stores them, rounded by TTNN on the host."""
        ttnn = self.ttnn
        stored = ttnn.from_torch(values, dtype=getattr(ttnn, spec.dtype.value), layout=layout_of(ttnn, spec.layout))
        return ttnn.to_torch(stored)

    def to_torch(self, tensor: Any) -> Any:
        """Returns the values of a device tensor, those of the first chip of a mesh, as all chips hold the same."""
        return self.ttnn.to_torch(self.ttnn.get_device_tensors(tensor)[0])

    def spec_of(self, tensor: Any) -> TensorSpec:
        """Returns the spec of a device tensor, with its shards."""
        return spec_of(self.ttnn, tensor)

    # Memory -----------------------------------------------------------------------------------------------------------

    def memory(self, buffer: BufferType) -> MemoryView:
        """Returns the state of one kind of memory now."""
        view = self.ttnn.get_memory_view(self._device, getattr(self.ttnn.BufferType, buffer.name))
        return MemoryView(
            view.num_banks,
            view.total_bytes_per_bank,
            view.total_bytes_allocated_per_bank,
            view.total_bytes_free_per_bank,
            view.largest_contiguous_bytes_free_per_bank,
        )

    def allocated_in(self, buffer: BufferType) -> int:
        """Returns the bytes per bank that are allocated now in one kind of memory; a probe needs no more, a dozen times."""
        kind = getattr(self.ttnn.BufferType, buffer.name)
        return int(self.ttnn.get_memory_view(self._device, kind).total_bytes_allocated_per_bank)

    def allocated_bytes(self) -> dict[BufferType, int]:
        """Returns the bytes per bank that are allocated now, for each kind of memory that is in use."""
        sizes = {kind: self.allocated_in(kind) for kind in BufferType}
        return {kind: size for kind, size in sizes.items() if size}

    def clear(self) -> dict[BufferType, int]:
        """Empties the program cache (it keeps device buffers) and returns what is still allocated: normally nothing."""
        self._device.clear_program_cache()
        left = self.allocated_bytes()
        if left:
            gc.collect()  # an exception's traceback may still hold a tensor
            left = self.allocated_bytes()
        return left

    # TTNN's private module: the only place that knows it --------------------------------------------------------------

    def _private(self, path: str) -> Any:
        """Returns what TTNN has at ``path`` in its private module, which other releases may have elsewhere or not at all."""
        try:
            return attrgetter(path)(self.ttnn._ttnn)
        except AttributeError as error:
            raise DeviceError(f"ttnn {version('ttnn')} has no ttnn._ttnn.{path}, which is needed here") from error

    def _l1_base_bytes(self) -> int:
        """Returns the bytes that TTNN reserves at the bottom of each L1."""
        return int(self._private("reports.get_device_info")(self._device).address_at_first_l1_cb_buffer)

    def buffers(self) -> Iterable[Any]:
        """Returns TTNN's descriptions of all buffers on the device."""
        buffers: Iterable[Any] = self._private("reports.get_buffers")(self._device)
        return buffers

    @property
    def graph(self) -> Any:
        """TTNN's module of graph capture."""
        return self._private("graph")

    # Graph capture ----------------------------------------------------------------------------------------------------

    @property
    def can_capture(self) -> bool:
        """Whether graphs have each buffer's memory and bytes per bank: since their format has a version, not in 0.66."""
        return hasattr(self.graph, "REPORT_VERSION")

    def capture(self, call: Callable[[], object]) -> tuple[list[dict[str, Any]], Any]:
        """Runs ``call`` without dispatching or allocating; returns its graph and TTNN's own peaks per core.

        The graph of a call that is dispatched lacks its dataflow buffers and scratch (TTNN 0.81), so it has no such peaks.
        Nothing else may be allocated meanwhile (pooling then fails on buffers at address 0).
        """
        trace = self._captured(call, self.graph.RunMode.NO_DISPATCH)
        return trace, self.graph.extract_resource_usage_per_core(_without_arguments(trace))

    def capture_running(self, call: Callable[[], object]) -> list[dict[str, Any]]:
        """Runs ``call``; returns its graph with every buffer, including those inside TTNN's calls."""
        return self._captured(call, self.graph.RunMode.NORMAL)

    def _captured(self, call: Callable[[], object], mode: Any) -> list[dict[str, Any]]:
        self.graph.begin_graph_capture(mode)
        try:
            call()
        finally:
            trace: list[dict[str, Any]] = self.graph.end_graph_capture()
        return trace


def _without_arguments(trace: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns a graph with the numbers of its nodes and what its buffers take: TTNN reads back text, most of it arguments."""
    return [
        {**node, "arguments": [], "input_tensors": []}
        if node["node_type"] in _OF_MEMORY
        else {**_OTHER_NODE, "counter": node["counter"]}
        for node in trace
    ]


_OTHER_NODE: Mapping[str, Any] = {
    "node_type": "tensor",
    **{"params": {}, "connections": [], "arguments": [], "input_tensors": [], "stacking_level": 0},
}
_OF_MEMORY = frozenset(
    {"capture_start", "capture_end", "buffer", "buffer_allocate", "buffer_deallocate"}
    | {"circular_buffer_allocate", "circular_buffer_deallocate_all", "dataflow_buffer_allocate", "scratchpad_allocate"}
)


def import_ttnn(with_torch: bool) -> Any:
    """Imports ttnn, without torch unless values are needed: in 0.15 s and 100 MB instead of 2 s and 600 MB."""
    if "ttnn" not in sys.modules and not with_torch:
        sys.modules["torch"] = None  # type: ignore[assignment]  # Python's own mark for "do not import"
    try:
        return import_module("ttnn")
    except ImportError as error:
        raise DeviceUnavailable(f"ttnn cannot be imported: {error}") from error
