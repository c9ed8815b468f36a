"""TTNN's report database, as ttnn-visualizer opens it: operations, their tensors, and the buffers after each of them.

Tables and columns are those of ``ttnn/graph_report.py`` (schema 3.5) that ttnn-visualizer 0.108 reads. What a profile does not
record is left empty: the parameters of a call that are no tensors, and addresses and cores of program buffers.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from ssinghal.errors import InvalidCase
from ssinghal.profile.exports.timeline import Event, steps
from ssinghal.profile.model import Buffer, Call, Device, Profile, Spec, Tensor

SCHEMA_VERSION = "3.5"
BUFFER_TYPES = {"dram": 0, "l1": 1, "l1_small": 3, "trace": 4}
LAYOUTS = {"interleaved": 0, "height_sharded": 2, "width_sharded": 3, "block_sharded": 4}

TABLES = {
    "devices": (
        "device_id num_y_cores num_x_cores num_y_compute_cores num_x_compute_cores worker_l1_size l1_num_banks l1_bank_size "
        "address_at_first_l1_bank address_at_first_l1_cb_buffer num_banks_per_storage_core num_compute_cores num_storage_cores "
        "total_l1_memory total_l1_for_tensors total_l1_for_interleaved_buffers total_l1_for_sharded_buffers cb_limit rank"
    ),
    "operations": "operation_id name duration rank",
    "operation_arguments": "operation_id name value rank",
    "tensors": "tensor_id shape dtype layout memory_config device_id address buffer_type rank storage_type",
    "device_tensors": "tensor_id device_id address rank",
    "buffers": "operation_id device_id address max_size_per_bank buffer_type buffer_layout rank",
    "captured_graph": "operation_id captured_graph rank",
    "nodes": "operation_id unique_id node_operation_id name rank",
    "edges": "operation_id source_unique_id sink_unique_id source_output_index sink_input_index key rank",
    "report_metadata": "key value",
    "errors": "operation_id operation_name error_type error_message stack_trace timestamp rank",
    "stack_traces": "operation_id stack_trace source_file_id rank",
    "source_files": "id path contents",
    "input_tensors": "operation_id input_index tensor_id rank",
    "output_tensors": "operation_id output_index tensor_id rank",
    "local_tensor_comparison_records": "tensor_id golden_tensor_id matches desired_pcc actual_pcc rank",
    "global_tensor_comparison_records": "tensor_id golden_tensor_id matches desired_pcc actual_pcc rank",
}
COLUMN_TYPES = {
    **dict.fromkeys(("name", "value", "key", "shape", "dtype", "layout", "memory_config", "storage_type"), "text"),
    **dict.fromkeys(("operation_name", "error_type", "error_message", "stack_trace", "timestamp", "captured_graph"), "text"),
    **dict.fromkeys(("path", "contents"), "text"),
    **dict.fromkeys(("duration", "desired_pcc", "actual_pcc"), "float"),
}
RANK = 0
INTEGER_LIMIT = 2**63  # of the absolute value, exclusive for positive numbers

Rows = Iterator[tuple[str, tuple[Any, ...]]]


def write_report(profile: Profile, folder: Path) -> None:
    """Writes the database and its title into a new folder.

    Raises:
        InvalidCase: The profile has a number that no database holds.
        sqlite3.OperationalError: The database cannot be written.
    """
    folder.mkdir(parents=True)
    title = " ".join(profile.argv)
    (folder / "config.json").write_text(json.dumps({"report_name": title}) + "\n")
    with closing(sqlite3.connect(folder / "db.sqlite")) as database, database:
        for table, columns in TABLES.items():
            typed = (f"{column} {COLUMN_TYPES.get(column, 'int')}" for column in columns.split())
            database.execute(f"CREATE TABLE {table} ({', '.join(typed)})")
        _insert(database, _rows(profile, title))


def _insert(database: sqlite3.Connection, rows: Rows) -> None:
    for table, values in rows:
        statement = f"INSERT INTO {table} VALUES ({', '.join('?' * len(values))})"
        try:
            database.execute(statement, values)
        except UnicodeEncodeError:  # half of a character, as undecodable arguments have it
            database.execute(
                statement, [one.encode(errors="replace").decode() if isinstance(one, str) else one for one in values]
            )
        except OverflowError as error:
            raise InvalidCase(_beyond(table, values)) from error


def _beyond(table: str, values: tuple[Any, ...]) -> str:
    """Returns which number SQLite has no room for: its integers have 64 bits and a sign."""
    named = zip(TABLES[table].split(), values, strict=True)
    column, value = next(one for one in named if isinstance(one[1], int) and not -INTEGER_LIMIT <= one[1] < INTEGER_LIMIT)
    return f"{value} for {column} in the table {table}: expected at most {INTEGER_LIMIT - 1}, SQLite's largest integer"


def _rows(profile: Profile, title: str) -> Rows:
    facts = {"schema_version": SCHEMA_VERSION, "program": title, "ttnn": profile.ttnn, "rank": str(RANK)}
    for fact in facts.items():
        yield "report_metadata", fact
    for number, opened in enumerate(profile.devices):
        yield "devices", (number, *_device(opened), RANK)
    tensors = Tensors()
    device = -1
    for call, between, within in steps(profile):
        if call is None:
            break
        while device + 1 < len(profile.devices) and profile.devices[device + 1].first_call <= call.number:
            device += 1
        tensors.apply(between)
        inputs = [tensors.number(tensor, device) for tensor in call.operands]
        tensors.apply(within)
        outputs = [tensors.number(tensor, device) for tensor in call.results]
        yield from tensors.new_rows()
        yield from _operation(call, inputs, outputs)
        yield from tensors.buffer_rows(call.number + 1)


def _device(device: Device) -> tuple[Any, ...]:
    columns, rows = device.grid
    cores = columns * rows
    l1 = device.memories["l1"]
    size = l1.banks * l1.bank_bytes
    limits = device.l1_top, l1.banks, l1.bank_bytes, 0, device.l1_base, 1, cores, 0
    return (rows, columns, rows, columns, *limits, device.l1_top * cores, 0, size, size, device.l1_top - device.l1_base)


def _operation(call: Call, inputs: Iterable[int], outputs: Iterable[int]) -> Rows:
    number = call.number + 1
    yield "operations", (number, call.name, call.microseconds / 1e6, RANK)
    yield "nodes", (number, number, number, call.name, RANK)
    yield "captured_graph", (number, "[]", RANK)
    yield "stack_traces", (number, _stack(call), None, RANK)
    for index, tensor in enumerate(call.operands):
        yield "operation_arguments", (number, str(index), str(tensor.spec), RANK)
    for index, known in enumerate(inputs):
        yield "input_tensors", (number, index, known, RANK)
    for index, known in enumerate(outputs):
        yield "output_tensors", (number, index, known, RANK)
    if call.error:
        yield "errors", (number, call.name, *call.error, _stack(call), "", RANK)


def _stack(call: Call) -> str:
    """As TTNN writes it, innermost frame first."""
    return "\n".join(f'  File "{site.file}", line {site.line}, in {site.function}\n    {site.text}\n' for site in call.stack)


class Tensors:
    """Numbers the tensors: one for each spec of each buffer, and one for each time that one is on the host."""

    def __init__(self) -> None:
        self._live: dict[tuple[str, int], Buffer] = {}
        self._layouts: dict[int, int] = {}  # by the address of a buffer that is allocated, as its last tensor has it
        self._numbers: dict[tuple[int, Spec], int] = {}
        self._new: list[tuple[int, Spec, Buffer | None, int]] = []
        self._count = 0

    def apply(self, events: Iterable[Event]) -> None:
        for buffer, is_allocation in events:
            key = buffer.memory, buffer.address
            if is_allocation:
                self._live[key] = buffer
            else:
                self._live.pop(key, None)

    def number(self, tensor: Tensor, device: int) -> int:
        spec = tensor.spec
        buffer = None if spec.memory is None or tensor.address is None else self._live.get((spec.memory, tensor.address))
        if buffer is not None:
            known = self._numbers.get((id(buffer), spec))
            if known is not None:
                return known
        self._count += 1
        if buffer is not None:
            self._numbers[id(buffer), spec] = self._count
            self._layouts[id(buffer)] = LAYOUTS.get(spec.memory_layout, 0)
        self._new.append((self._count, spec, buffer, device))
        return self._count

    def new_rows(self) -> Rows:
        """Yields the tensors since the last time."""
        for number, spec, buffer, device in self._new:
            address = buffer.address if buffer else None
            memory = None if spec.memory is None else BUFFER_TYPES[spec.memory]
            place = (device, address, memory) if buffer else (None, None, memory)
            kind = "HOST" if spec.memory is None else "DEVICE"
            shape = f"Shape([{', '.join(map(str, spec.shape))}])"
            dtype, layout = f"DataType.{spec.dtype.upper()}", f"Layout.{spec.layout.upper()}"
            yield "tensors", (number, shape, dtype, layout, memory_config(spec), *place, RANK, kind)
            if buffer:
                yield "device_tensors", (number, device, address, RANK)
        self._new.clear()

    def buffer_rows(self, operation: int) -> Rows:
        """Yields what is allocated."""
        for buffer in self._live.values():
            kind, layout = BUFFER_TYPES[buffer.memory], self._layouts.get(id(buffer))
            yield "buffers", (operation, buffer.device, buffer.address, buffer.bank_bytes, kind, layout, RANK)


def memory_config(spec: Spec) -> str | None:
    """Returns a memory config as TTNN prints it; None on the host."""
    if spec.memory is None:
        return None
    shard = "std::nullopt"
    if spec.shard is not None:
        shard = f"ShardSpec{{grid={spec.shard[1]}, shape=[{', '.join(map(str, spec.shard[0]))}]}}"
    layout, memory = spec.memory_layout.upper(), spec.memory.upper()
    return f"MemoryConfig(memory_layout=TensorMemoryLayout::{layout},buffer_type=BufferType::{memory},shard_spec={shard})"
