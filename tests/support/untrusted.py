"""Every parser of text that others write: one function of bytes each, with texts that it reads.

``scripts/fuzz.py`` and tests/test_untrusted.py share the table. A parser raises what it declares, or nothing.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import islice
from pathlib import Path

from ssinghal.capacity.journal import Journal
from ssinghal.capture.trace import read_trace, trace_text
from ssinghal.catalog.csv_import import read_list
from ssinghal.catalog.loader import load_catalog
from ssinghal.catalog.placement_fields import PlacementModel
from ssinghal.catalog.recorded.importer import read_recording
from ssinghal.cli.diagnose import _reported
from ssinghal.cli.profile_report import _read_tried
from ssinghal.cli.requests import parse_attr
from ssinghal.core.boards import load_board
from ssinghal.core.case import OutputMemory
from ssinghal.core.cluster_descriptor import read_descriptor
from ssinghal.core.mesh import shard_dim_from_word
from ssinghal.core.parsing import dtype_named, parse_shape, seconds, size_in_bytes, whole_number
from ssinghal.core.sharding import memory_request
from ssinghal.core.tensors import DType, Layout
from ssinghal.diagnose.failed_call.own_run import read_own_run
from ssinghal.diagnose.log_reader import read_log
from ssinghal.diagnose.parse.mlir import read_module
from ssinghal.errors import HarnessError
from ssinghal.operators import find_operator, named
from ssinghal.operators.case_json import case_from_json, read_lines
from ssinghal.operators.settings.notation import read as read_setting
from ssinghal.plan.capacity import _journal_runs
from ssinghal.plan.policy import find_policy
from ssinghal.plan.steering import Headroom, Pin
from ssinghal.precision.tensor_files import read_tensors
from ssinghal.profile.reading import read_profiles
from ssinghal.profile.tried_changes import TriedChanges
from ssinghal.pytest_plugin.memory.baseline import Baseline
from ssinghal.pytest_plugin.settings import READERS as INI_READERS
from ssinghal.remedy.resident_buffers import live_set
from ssinghal.runs.index import Store
from ssinghal.runs.parsing import parse_record, stored_records
from ssinghal.runs.reader import read_run
from ssinghal.runs.resuming import UnfinishedRun
from tests.profile.records import NET, OUT_OF_MEMORY
from tests.support.hand_traces import Model
from tests.support.run_builder import a_record

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
SHAPES = ROOT / "ssinghal" / "shapes"
PIECE = 3_000  # bytes of a seed: a mutation in a longer one is seldom where it matters


@dataclass(frozen=True)
class Parser:
    """``read`` takes what a file, or an argument, holds. ``seeds`` makes texts that it reads. ``declared``: what it raises."""

    read: Callable[[bytes], object]
    seeds: Callable[[], Iterator[str | bytes]]
    declared: tuple[type[Exception], ...] = (HarnessError,)

    def corpus(self) -> list[bytes]:
        return [seed if isinstance(seed, bytes) else seed.encode() for seed in self.seeds()]

    def accepts(self, data: bytes) -> bool:
        """Returns whether it read the text; anything that it raises without declaring it comes out."""
        try:
            self.read(data)
        except self.declared:
            return False
        return True


PARSERS: dict[str, Parser] = {}


@cache
def scratch() -> Path:
    """A folder of this process. On a file system in memory where there is one: a parser of files gets a million of them."""
    shm = Path("/dev/shm")
    folder = tempfile.TemporaryDirectory(dir=shm if os.access(shm, os.W_OK) else None, prefix="ssinghal-fuzz-")
    _KEPT.append(folder)
    return Path(folder.name)


_KEPT: list[tempfile.TemporaryDirectory[str]] = []  # removed with the process


def written(name: str, data: bytes) -> Path:
    path = scratch() / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return path


def parser(
    name: str, seeds: Callable[[], Iterator[str | bytes]], *declared: type[Exception]
) -> Callable[[Callable[[bytes], object]], Callable[[bytes], object]]:
    def add(read: Callable[[bytes], object]) -> Callable[[bytes], object]:
        PARSERS[name] = Parser(read, seeds, declared or (HarnessError,))
        return read

    return add


def words(data: bytes) -> str:
    """What a shell passes on: any text without a NUL."""
    return data.decode("utf-8", "surrogateescape").replace("\0", "")


def pieces(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8", errors="replace")
    yield from (text[at : at + PIECE] for at in range(0, min(len(text), 5 * PIECE), PIECE))


# Catalogs -------------------------------------------------------------------------------------------------------------


def _excerpt(path: Path, lines: int) -> str:
    """The head of a captured catalog and the first lines of its first operators, which are a catalog again."""
    head, mark, rest = path.read_text().partition("\nops:\n")
    kept = rest.splitlines(keepends=True)[:lines]
    calls = [int(count) for line in kept for count in re.findall(r"\{n: (\d+)", line)]
    counts = f"counts: {{calls: {sum(calls)}, cases: {len(calls)}, left_out: {{}}}}"
    return re.sub(r"(?m)^counts: .*$", counts, head) + mark + "".join(kept)


def _catalogs() -> Iterator[str]:
    for path in sorted((SHAPES / "captured").glob("*.yaml"))[::3]:
        yield _excerpt(path, 2)
    head = "schema: 1\nkind: imported\ntitle: t\nplacement: {dtype: bfloat16, layout: tile, memory: l1, output_memory: same}\n"
    yield head + "operators:\n  relu:\n  - {in: [[1, 64, 32, 32]], n: 2, model: m, input: 1x2, at: a.b}\n"
    yield head + "operators:\n  softmax:\n  - {in: [[64, 64]], args: {dim: -1}, n: 1, placement: {memory: 'l1:block@8x8'}}\n"
    head = head.replace("imported", "crossed") + "traced_with: [torch==2.14.1]\norigins:\n- {shape: [2, 64], none: a reason}\n"
    yield head + "operators:\n  cat:\n  - {in: [[2, 64], [2, 64]], args: {dim: 1}}\n"


@parser("catalog", _catalogs)
def _catalog(data: bytes) -> object:
    return load_catalog(str(written("catalog.yaml", data)))


def _lists() -> Iterator[str | bytes]:
    yield 'operator,shapes,arguments,model,count\nadd,"[[1,64],[1,64]]","{}",m,3\nsoftmax,1x64,dim=-1,m,1\n'
    yield "op;input shapes\naten.relu.default;[1, 2, 3]\n".encode("utf-16")
    for path in sorted(SHAPES.rglob("*.csv"))[:6]:
        yield path.read_text()[:800]


@parser("csv", _lists)
def _csv(data: bytes) -> object:
    placement = PlacementModel.model_validate(
        {"dtype": "bfloat16", "layout": "tile", "memory": "dram", "output_memory": "same"}
    )
    return read_list(written("list.csv", data), placement)


def _recordings() -> Iterator[str | bytes]:
    for path in sorted((DATA / "recorded" / "trace").glob("*.json"))[::3]:
        text = path.read_text()
        yield text if len(text) <= 2 * PIECE else json.dumps(json.loads(text))[: 4 * PIECE]
    placed = ["BFLOAT16", "TILE", "L1", "INTERLEAVED", None, 1024]
    line = {"i": 0, "op": "ttnn.reshape", "at": ["a.py", 12, "f"]}
    yield json.dumps({**line, "in": [[[1, 32, 64, 64], *placed]], "out": [[[1, 1, 2048, 64], *placed]]})
    yield gzip.compress(
        json.dumps({**line, "op": "ttnn.relu", "in": [[[1, 32], *placed]], "out": [[[1, 32], *placed]]}).encode()
    )
    yield "\n".join(map(json.dumps, NET))
    yield json.dumps({"operations": {"ttnn.relu": {"configurations": [{"arguments": [{"arg0": "1"}], "source": "a"}]}}})


@parser("recording", _recordings)
def _recording(data: bytes) -> object:
    return read_recording(written("recording.json", data))


# Cases, words and settings --------------------------------------------------------------------------------------------


def _cases() -> Iterator[str]:
    yield '{"op": "add", "inputs": [[1, 64], [1, 64]], "memory": "l1", "operands": [null, {"dtype": "float32", "memory": "dram"}]}'  # noqa: E501
    yield '{"op": "max_pool2d", "inputs": [[1, 64, 80, 80]], "attrs": {"kernel_size": [3, 3], "stride": [2, 2], "padding": 1}}'
    yield '{"op": "matmul", "inputs": [[64, 64], [64, 64]], "attrs": {"program_config": "ttnn.MatmulMultiCoreReuseMultiCast1DProgramConfig(compute_with_storage_grid_size=(8, 8), in0_block_w=1, out_subblock_h=1, out_subblock_w=1, per_core_M=1, per_core_N=1, fuse_batch=True, mcast_in0=True)"}}'  # noqa: E501
    yield '{"op": "softmax", "inputs": [[2, 64]], "attrs": {"dim": -1}, "memory": "l1:height@8x8", "output_memory": "dram"}'
    yield '{"op": "conv2d", "inputs": [[1, 64, 8, 8], [32, 64, 3, 3]], "attrs": {"conv_config": {"type": "Conv2dConfig"}}, "l1_small_size": 16384}'  # noqa: E501
    yield '{"op": "cat", "inputs": [[1, 8], [1, 8]], "attrs": {"dim": 1}, "output_dtype": "bf8", "channels_last": true}'
    yield '{"op": "embedding", "inputs": [[64, 32], [1, 8]], "attrs": {}, "layout": "row_major"}'


@parser("case", _cases)
def _case(data: bytes) -> object:
    return read_lines(Path("cases.jsonl"), data.decode("utf-8", "replace").splitlines(), case_from_json)


def _words() -> Iterator[str]:
    yield from (
        "l1:block@8x8",
        "l1:height@49:64x64",
        "l1:width@[0-0 - 7-6]:32x64",
        "dram",
        "l1:block@0-0..7-7:col",
        "l1/h@8x8:4x4",
    )
    yield from ("1,64,80,80", "1x64x80", "[1, 2]", "bf16", "row_major", "900 KiB", "1.5GiB", "3", "0.5", "0", "-1,2", "none,1")
    yield from ("dim=-1", "size=1,64", 'value={"a": [1]}', "core_grid=8x8", "add,relu", "decoder.*=l1:block", "10%", "64KiB")
    yield from ("400MiB@dram", "64KiB@l1")


@parser("word", _words)
def _word(data: bytes) -> object:
    text, board = words(data), load_board("n150")
    readers: list[Callable[[str], object]] = [
        *(memory_request, shard_dim_from_word, parse_shape, dtype_named, size_in_bytes, whole_number, seconds),
        *(parse_attr, named, find_operator, Pin.of, Headroom.of, lambda text: live_set([text], board)),
    ]  # fmt: skip
    refused: list[Exception] = []
    for read in readers:
        try:
            read(text)
        except HarnessError as error:
            refused.append(error)
    return Layout, OutputMemory, DType, refused


def _ini_values() -> Iterator[str]:
    yield from ("n150", "l1", "dram,l1:block@8x8,height", "bfloat8_b", "strict", "1.5", "200000", "2/8", "virtual", "a/b.yaml")


@parser("ini", _ini_values)
def _ini(data: bytes) -> object:
    """The values of options of pytest, each read as the text of every option."""
    refused = 0
    for name, read in INI_READERS.items():
        try:
            read(words(data))
        except HarnessError as error:
            refused += name != "device" and bool(str(error))
    if refused > len(INI_READERS) - 3:  # a device and a folder are any text
        raise HarnessError("no option has this value")
    return refused


def _settings() -> Iterator[str]:
    yield "ttnn.SDPAProgramConfig(compute_with_storage_grid_size=ttnn.CoreCoord(8, 8), q_chunk_size=32, k_chunk_size=64)"
    yield "SDPAProgramConfig(compute_with_storage_grid_size=8-8, sub_core_grids=std::nullopt, q_chunk_size=32)"
    yield "{[0-0 - 7-6]}"
    yield "ttnn.MemoryConfig(ttnn.TensorMemoryLayout.BLOCK_SHARDED, ttnn.BufferType.L1, ttnn.ShardSpec(grid, [32, 2*64], 'x'))"
    yield "UnaryWithParam(op_type=UnaryOpType::RELU, params=[1.5e3, -.5]) # comment"


@parser("setting", _settings)
def _setting(data: bytes) -> object:
    return read_setting(words(data))


def _configs() -> Iterator[str]:
    yield "ttnn.Conv2dConfig(weights_dtype=ttnn.bfloat16, shard_layout=ttnn.TensorMemoryLayout.BLOCK_SHARDED, act_block_h_override=32)"  # noqa: E501
    yield "ttnn.Conv2dConfig(core_grid=ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(7, 7))}))"
    yield "Conv2dConfig(activation=UnaryWithParam(ttnn.UnaryOpType.RELU))"
    yield '{"type": "Conv2dConfig", "deallocate_activation": true}'


@parser("config", _configs)
def _config(data: bytes) -> object:
    fields = {"op": "conv2d", "inputs": [[1, 64, 8, 8], [32, 64, 3, 3]]}
    _, value = parse_attr("conv_config=" + words(data))
    return case_from_json({**fields, "attrs": {"conv_config": value}})


# Runs and what lies beside them ---------------------------------------------------------------------------------------


def _records() -> Iterator[str]:
    yield json.dumps(a_record())
    yield json.dumps(a_record("softmax", (2, 64), attrs={"dim": -1}, status="oom", verdict={"bytes_per_bank": 4096}))
    yield json.dumps(a_record(mode="none", status="error", memory="l1:block@8x8")) + "\n" + json.dumps(a_record())


@parser("records", _records)
def _record(data: bytes) -> object:
    return read_run(written("records/records.jsonl", data))


@parser("record", _records, ValueError)
def _one_record(data: bytes) -> object:
    return parse_record(data)


def _heads() -> Iterator[str]:
    facts = {"mode": "virtual", "board": "n150", "ttnn": "0.81.1"}
    yield json.dumps({"schema": 1, "selected": 2, "options": {"op": ["add"]}, "device": facts, "shard": "1/2"})
    yield json.dumps({"schema": 2})


@parser("compressed", lambda: (gzip.compress(seed.encode(), mtime=0) for seed in _records()))
def _compressed(data: bytes) -> object:
    return stored_records(written("records.jsonl.gz", data))


@parser("journal", _records)
def _call_journal(data: bytes) -> object:
    with Journal(written("journal.jsonl", data)) as journal:
        return journal


def _unfinished_runs() -> Iterator[str]:
    """The header of a run, and its records."""
    facts = {"mode": "virtual", "board": "n150", "ttnn": "0.81.1"}
    head = {"schema": 1, "run": "r", "selected": 2, "options": {"catalogs": ["a"]}, "device": facts, "selection_sha256": "0"}
    yield json.dumps(head) + "\n" + json.dumps(a_record("relu", (1, 64)))
    yield json.dumps(head | {"answerer": "x", "shard": "1/2"}) + "\n" + json.dumps(a_record()) + "\n"


@parser("resumed", _unfinished_runs)
def _resumed(data: bytes) -> object:
    head, _, records = data.partition(b"\n")
    folder = written("unfinished/run.json", head).parent
    written("unfinished/records.jsonl", records)
    with UnfinishedRun(folder) as run:
        return run.unanswered([])


@parser("run.json", _heads)
def _head(data: bytes) -> object:
    written("head/records.jsonl", json.dumps(a_record()).encode())
    written("head/run.json", data)
    return read_run(scratch() / "head")


@cache
def _index() -> Path:
    path, runs = scratch() / "seed.sqlite", scratch() / "runs"
    (runs / "one").mkdir(parents=True)
    (runs / "one" / "records.jsonl").write_text(json.dumps(a_record("relu", (1, 64, 640, 400))) + "\n")
    Store(path).sync(runs)
    return path


def _stores() -> Iterator[bytes]:
    yield _index().read_bytes()
    path = scratch() / "other.sqlite"
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE t (a)")
        db.commit()
    yield path.read_bytes()


def _rows() -> Iterator[str]:
    """What the rows of an index hold, by table and column."""
    with closing(sqlite3.connect(_index())) as db:
        db.row_factory = sqlite3.Row
        for tables in (("runs", "outcomes"), ("settings", "shapes", "results")):
            rows = {table: dict(db.execute(f"SELECT * FROM {table}").fetchone()) for table in tables}
            rows.get("outcomes", {}).pop("digest", None)
            yield json.dumps(rows)


def _with_rows(data: bytes, path: Path) -> None:
    """Writes an index in which the first row of each table is what a JSON text has, as far as a table can have that."""
    try:
        tables = json.loads(data)
        changes = [(table, column, value) for table, row in tables.items() for column, value in row.items()]
    except (AttributeError, RecursionError, TypeError, ValueError):
        return
    path.write_bytes(_index().read_bytes())
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for table, column, value in changes:
            if table in INDEXED and re.fullmatch(r"[a-z_]+", column):
                with suppress(sqlite3.Error, OverflowError, UnicodeEncodeError):
                    text = json.dumps(value) if isinstance(value, (dict, list)) else value
                    db.execute(f"UPDATE OR IGNORE {table} SET {column} = ?", [text])


INDEXED = ("runs", "settings", "cases", "shapes", "outcomes", "origins", "results")


def _stored() -> Iterator[str | bytes]:
    yield from _rows()
    yield from _stores()


@parser("store", _stored)
def _store(data: bytes) -> object:
    path = written("store.sqlite", data)
    for left in ("store.sqlite-journal", "store.sqlite-wal", "store.sqlite-shm"):
        (scratch() / left).unlink(missing_ok=True)
    if data[:1] == b"{":
        _with_rows(data, path)
    store = Store(path)
    return store.runs(), store.shapes("relu"), store.find("relu", [(1, 64, 640, 400)], None, None)


def _baselines() -> Iterator[str]:
    yield '{"format": 1, "device": "wormhole_b0 8x8", "ttnn": "0.81.1"}\n{"test": "a.py::t", "l1_bytes": 3, "dram_bytes": 4}\n'


@parser("baseline", _baselines)
def _baseline(data: bytes) -> object:
    return Baseline(written("baseline.jsonl", data))


def _edges() -> Iterator[str]:
    run = {"status": "fits", "message": "", "peak_bytes": 3, "peak_share": 0.1, "steps_sha256": "x", "resource": None}
    yield json.dumps({"kind": "plan edge", "key": "k", "input_shape": [1], **run}) + "\n"


@parser("plan-journal", _edges)
def _edge(data: bytes) -> object:
    return list(_journal_runs(written("edges.jsonl", data)))


@parser("tried", lambda: iter(["[null]", json.dumps([TriedChanges(why_not="none").to_json()])]))
def _tried(data: bytes) -> object:
    profiles = read_profiles(written("records-2.jsonl", "".join(json.dumps(record) + "\n" for record in NET).encode()))
    return _read_tried(profiles, written("tried.json", data))


@parser("profile", lambda: iter(["\n".join(map(json.dumps, NET)) + "\n"]))
def _profile(data: bytes) -> object:
    return read_profiles(written("records-1.jsonl", data))


def _own_notes() -> Iterator[str]:
    failed = {"error": ["RuntimeError", OUT_OF_MEMORY], "test": "", "n": 0, "arguments": []}
    more = {"site": {"text": "f()"}, "call": failed, "start": {"n": 0, "test": ""}}
    yield "\n".join(json.dumps({**more.get(record["k"], {}), **record}) for record in NET) + "\n"


@parser("notes", _own_notes)
def _notes(data: bytes) -> object:
    written("notes/records-1.jsonl", data)
    return read_own_run(scratch() / "notes", "n150")


# What other programs write --------------------------------------------------------------------------------------------


def _descriptors() -> Iterator[str]:
    for path in sorted((ROOT / "ssinghal" / "boards").glob("*cluster*.yaml")) or sorted(
        (ROOT / "ssinghal").rglob("*cluster*.yaml")
    ):
        yield path.read_text()[: 2 * PIECE]
    yield (
        "arch: {0: wormhole_b0}\nchips: {0: [0, 0, 0, 0]}\nethernet_connections: []\nchips_with_mmio: [{0: 0}]\n"
        "harvesting: {0: {noc_translation: true, harvest_mask: 65}}\n"
        "boards: [[{board_id: 0x100018000000001}, {board_type: n300}, {chips: [0]}]]\n"
    )


@parser("descriptor", _descriptors)
def _descriptor(data: bytes) -> object:
    return read_descriptor(written("cluster.yaml", data))


def _logs() -> Iterator[str]:
    for path in sorted((DATA / "logs").glob("*.log")):
        yield from pieces(path)


@parser("log", _logs)
def _log(data: bytes) -> object:
    return read_log(io.BytesIO(data), "log")


@parser("mlir", lambda: pieces(DATA / "logs" / "mochi_module.mlir"))
def _mlir(data: bytes) -> object:
    return read_module(io.BytesIO(data), "module")


def _traces() -> Iterator[str | bytes]:
    model = Model()
    x, w = model.input(1, 64), model.weight(32, 64)
    y = model.call("linear.default", (1, 32), input=x, weight=w)
    trace = model.trace(model.call("relu.default", (1, 32), self=y, dead=(y,)))
    yield trace_text(trace)
    yield gzip.compress(trace_text(trace).encode())


@parser("trace", _traces)
def _trace(data: bytes) -> object:
    return read_trace(written("model.trace.json.gz", data))


TENSOR_FILES = {b"PK": "a.pt", b"\x93N": "a.npy"}  # by their first bytes; all else is read as safetensors


def _tensor_files() -> Iterator[bytes]:
    numpy, torch = import_module("numpy"), import_module("torch")
    for dtype in (torch.float32, torch.bfloat16):
        file = io.BytesIO()
        torch.save({"a": torch.ones(2, 3, dtype=dtype), "b": [torch.zeros(4)[:1].expand(3, 1)]}, file)
        yield file.getvalue()
    file = io.BytesIO()
    numpy.save(file, numpy.ones((2, 3), "float32"))
    yield file.getvalue()
    yield import_module("safetensors.torch").save({"w": torch.ones(2, 3)})


@parser("tensors", _tensor_files)
def _tensors(data: bytes) -> object:
    return read_tensors(import_module("torch"), written(TENSOR_FILES.get(data[:2], "a.safetensors"), data))


def _policies() -> Iterator[str]:
    yield "base: l1\nheadroom: 10%\nweights: bfloat8_b\npins: {decoder.*: 'l1:block@8x8', encoder: dram}\n"
    yield "base: port\nlifetime: python\nrewrites: [sdpa]\nfold_batch_norm: false\n"


@parser("policy", _policies)
def _policy(data: bytes) -> object:
    return find_policy(str(written("policy.yaml", data)))


def _residents() -> Iterator[str]:
    yield '{"shape": [1, 64, 32, 32], "dtype": "bfloat16", "layout": "tile", "memory": "l1"}\n{"bytes_per_bank": 4096}\n'


@parser("live", _residents)
def _live(data: bytes) -> object:
    return live_set([str(written("live.jsonl", data))], load_board("n150"))


def _command_words() -> Iterator[str]:
    yield "ssinghal: ttnn.relu ran out of memory: OOM in L1\nssinghal:   the call of ttnn.relu: ssinghal probe relu 1,64\n"
    yield from islice(_logs(), 2)


@parser("report-in-log", _command_words)
def _own_report(data: bytes) -> object:
    reading = read_log(io.BytesIO(data), "log")
    return [_reported(failure, reading) for failure in reading.failures]
