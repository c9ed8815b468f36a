"""Boards: grids and meshes that open, and a machine's own descriptor as a board."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import ssinghal
from ssinghal.core.boards import (
    board_names,
    cluster_descriptor,
    current_boards,
    facts_file,
    is_own,
    load_board,
    own_boards_home,
)
from ssinghal.core.case import Placement
from ssinghal.core.cluster_descriptor import MAX_BYTES, read_descriptor
from ssinghal.core.device_facts import DeviceFacts, DeviceMode
from ssinghal.core.record import Record
from ssinghal.core.tensors import BufferType, Layout
from ssinghal.core.verdict import Resource, Status, Verdict
from ssinghal.device.modes import DeviceChoice, choose_device
from ssinghal.device.session import Session
from ssinghal.device.virtual_cache import virtual_home
from ssinghal.errors import DeviceUnavailable, InvalidCase, NotProven
from ssinghal.operators import make_case
from ssinghal.runner.custom_boards import board_name
from ssinghal.runner.pool import Pool
from ssinghal.runner.tasks import PoolOptions, Task

L1 = Placement(memory=BufferType.L1)
DRAM = Placement()

# What fits and what does not: operands, results, temporaries, program buffers, the L1_SMALL region.
CASES = (
    make_case("add", ((1, 64, 640, 400),) * 2, {}, L1),
    make_case("relu", ((1, 96, 2160, 3840),), {}, DRAM),
    make_case("softmax", ((1, 12, 1024, 1024),), {"dim": -1}, L1),
    make_case("permute", ((1, 64, 160, 160),), {"dims": [0, 2, 3, 1]}, DRAM),
    make_case("mean", ((1, 64, 160, 160),), {"dim": [-1]}, L1),
    make_case("cat", ((1, 64, 80, 80),) * 2, {"dim": 1}, L1),
    make_case("mm", ((4096, 4096),) * 2, {}, L1),
    make_case("native_layer_norm", ((1, 1024, 4096), (4096,), (4096,)), {"normalized_shape": [4096]}, DRAM),
    make_case("topk", ((1, 1, 64, 8192),), {"k": 32}, DRAM),
    make_case("max_pool2d", ((1, 64, 160, 160),), {"kernel_size": [2, 2]}, DRAM),
    make_case("convolution", ((1, 64, 80, 80), (64, 64, 3, 3)), {"padding": [1, 1]}, DRAM),
    make_case("upsample_nearest2d", ((1, 64, 80, 80),), {"scale_factors": [2.0, 2.0]}, L1),
    make_case("to_layout", ((4, 4884480),), {"layout": "row_major"}, DRAM),
    make_case("embedding", ((1000, 64), (1, 4096)), {}, DRAM),
    make_case("clone", ((1, 1, 1, 2**20),), {}, Placement(layout=Layout.ROW_MAJOR)),
    make_case("place", ((1, 48, 8160, 8160),) * 3, {}, DRAM),
)


def comparable(record: Record) -> dict[str, Any]:
    """Returns a record without the board's name and mesh, and the time."""
    fields = record.to_json()
    return {name: value for name, value in fields.items() if name not in ("board", "mesh", "duration_s")}


@pytest.fixture(scope="module")
def on_n150() -> list[dict[str, Any]]:
    with Pool(choose_device("virtual", "n150")) as pool:
        records = list(pool.map(CASES))
    failed = {record.verdict.resource for record in records if record.status is Status.OOM}
    assert failed == {Resource.L1_BUFFER, Resource.CIRCULAR_BUFFER, Resource.DRAM_BUFFER}
    assert sum(record.status is Status.FITS for record in records) == len(CASES) - 4
    return list(map(comparable, records))


# Grids and meshes ----------------------------------------------------------------------------------------------------------


def test_boards_for_remedies_are_current_single_chips():
    assert current_boards() == ["n150", "n300", "p100", "p150"]
    assert {name: load_board(name).mesh for name in board_names() if "x" in name} == {
        "n300_1x2": (1, 2), "n300_8x7": (1, 1), "p150_12x10": (1, 1), "p150_13x10": (1, 1), "t3k_1x8": (1, 8),
        "t3k_2x4": (2, 4), "wh_galaxy_8x9": (1, 1),
    }  # fmt: skip


@pytest.mark.virtual_device
@pytest.mark.parametrize(
    ("name", "banks", "fits"), [("p150", 110, False), ("p150_12x10", 120, True), ("p150_13x10", 130, True)]
)
def test_columns_of_cores_are_banks(name, banks, fits):
    """A bank of 1,461,120 B holds 713 tiles of 2,048 B: 80,000 are 728 in each of 110 banks, 667 of 120 and 616 of 130."""
    assert (-(-80_000 // banks) <= 1_461_120 // 2_048) == fits
    with Pool(choose_device("virtual", name)) as pool:
        record = pool.submit(make_case("place", ((1, 1, 32, 32 * 80_000),), {}, L1)).result()
    assert record.status is (Status.FITS if fits else Status.OOM)
    assert record.tensors[0].booked_bytes == -(-80_000 // banks) * 2_048 if fits else record.verdict.banks == banks


@pytest.mark.virtual_device
@pytest.mark.parametrize(("name", "mesh"), [("n300_1x2", (1, 2)), ("t3k_1x8", (1, 8)), ("t3k_2x4", (2, 4))])
def test_each_chip_of_a_mesh_holds_as_much_as_one_chip(name, mesh, on_n150):
    with Pool(choose_device("virtual", name)) as pool:
        records = list(pool.map(CASES))
        assert pool.facts.mesh == pool.facts.opened_board.mesh == mesh
    assert list(map(comparable, records)) == on_n150
    assert {(record.board, record.mesh, tuple(record.to_json()["mesh"])) for record in records} == {(name, mesh, mesh)}


@pytest.mark.virtual_device
def test_doctor_shows_the_mesh(run):
    result = run("doctor", "--device", "virtual", "--board", "n300_1x2")
    assert result.code == 0
    assert "grid: 8x8 cores on each chip of a 1x2 mesh, wormhole_b0, cluster N300" in result.out
    assert "n150, n300, n300_1x2, n300_8x7, p100" in result.out


# A machine's own descriptor ------------------------------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    """A cache folder without boards, with the kernels compiled before."""
    folder = tmp_path / "cache"
    (folder / "ssinghal").mkdir(parents=True)
    virtual_home().mkdir(parents=True, exist_ok=True)
    (folder / "ssinghal" / "virtual").symlink_to(virtual_home())
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


@dataclass(frozen=True)
class SerializeTask(Task[bytes]):
    """Returns the descriptor of the worker's machine, as TTNN writes it."""

    def run(self, session: Session, options: PoolOptions) -> bytes:
        return Path(str(session.ttnn.cluster.serialize_cluster_descriptor())).read_bytes()

    def lost(self, verdict: Verdict, facts: DeviceFacts) -> bytes:
        raise AssertionError(verdict.message)


@pytest.fixture(scope="module")
def serialized() -> bytes:
    with Pool(choose_device("virtual", "n150")) as pool:
        return pool.run(SerializeTask()).result()


@pytest.mark.virtual_device
def test_a_machines_own_descriptor_is_its_board(cache, tmp_path, serialized, on_n150):
    path = tmp_path / "my machine.yaml"
    path.write_bytes(serialized)
    sha256 = hashlib.sha256(serialized).hexdigest()
    name = board_name(str(path))
    assert name == f"my_machine.yaml@{sha256[:12]}"
    assert replace(load_board(name), name="n150") == load_board("n150")
    with Pool(choose_device("virtual", name)) as pool:
        records = list(pool.map(CASES))
        assert pool.facts.descriptor_sha256 == sha256
    assert list(map(comparable, records)) == on_n150
    assert {record.board for record in records} == {name}
    path.unlink()
    assert load_board(name).grid == (8, 8)  # its files are here; the name of a record is enough
    assert cluster_descriptor(name).read_bytes() == serialized


@pytest.mark.virtual_device
def test_commands_take_a_descriptor(run, cache, tmp_path, serialized):
    (tmp_path / "machine.yaml").write_bytes(serialized)
    digest = hashlib.sha256(serialized).hexdigest()[:12]
    wide = ["relu", "1,1,38400,1024", "--memory", "l1", "--board", "machine.yaml"]
    assert f"on virtual machine.yaml@{digest}, ttnn" in run("probe", *wide).out
    assert run("estimate", *wide).out.splitlines()[0] == run("estimate", *wide[:-1], "n150").out.splitlines()[0]
    assert f"device: virtual machine.yaml@{digest}: auto: a cluster descriptor" in run("doctor", "--board", "machine.yaml").out
    edges = run("edge", "place", "1,1,32,32", "--max", "batch", "--upto", "2", "--board", "p150, machine.yaml", "--json")
    assert [json.loads(line)["board"] for line in edges.out.splitlines()] == ["p150", f"machine.yaml@{digest}"]
    done = run("exec", "--board", "machine.yaml", "true")
    assert (done.code, f"virtual machine.yaml@{digest}: memory verdicts" in done.err) == (0, True)
    made = run("run", "vgg16-1280x800", "--op", "relu", "--sample", "1", "--board", "machine.yaml", "--results", "made")
    assert made.code == 0, made.err
    assert f'"board": "machine.yaml@{digest}"' in (tmp_path / "made" / "latest" / "run.json").read_text()


@pytest.mark.virtual_device
def test_pytest_takes_a_descriptor(cache, tmp_path, serialized):
    (tmp_path / "machine.yaml").write_bytes(serialized)
    suite = Path(ssinghal.__file__).parent / "tests" / "test_relu.py"
    options = [
        "-p",
        "no:cacheprovider",
        "--oom-catalog",
        "vgg16-1280x800",
        "--oom-sample",
        "1",
        "--oom-board",
        str(tmp_path / "machine.yaml"),
    ]
    done = subprocess.run([sys.executable, "-m", "pytest", str(suite), *options], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout
    assert "virtual machine.yaml@" in done.stdout


@pytest.mark.virtual_device
def test_sizes_are_read_again_when_another_ttnn_is_installed(cache, tmp_path, serialized):
    path = tmp_path / "machine.yaml"
    path.write_bytes(serialized)
    file = facts_file(board_name(str(path)))
    measured = file.read_text()
    file.write_text(measured.replace("num_banks: 64", "num_banks: 60").replace(yaml.safe_load(measured)["ttnn"], "0.1.0"))
    board_name(str(path))
    assert file.read_text() == measured
    assert {p.name.partition(".")[2] for p in own_boards_home().iterdir()} == {"yaml", "cluster.yaml"}


def two_rows(tmp_path: Path) -> Path:
    """The descriptor of an n300 as on cards: two rows of each chip are harvested."""
    read = yaml.safe_load(cluster_descriptor("n300_1x2").read_text())
    for chip, mask in ((0, 65), (1, 5)):
        read["harvesting"][chip]["harvest_mask"] = mask
    path = tmp_path / "two_rows.yaml"
    path.write_text(yaml.safe_dump(read))
    return path


@pytest.mark.virtual_device
def test_an_n300s_own_descriptor_is_opened_with_all_its_cores(run, cache, tmp_path):
    """256 tiles run a program on all cores. The note is shown, and kept in the record."""
    path = two_rows(tmp_path)
    result = run("probe", "relu", "1,1,256,1024", "--board", path.name)
    assert (result.code, "FITS" in result.out) == (0, True)
    assert result.err.startswith("ssinghal: two_rows.yaml: two harvested rows of a chip are opened as one")
    board = load_board(board_name(str(path)))
    n300 = load_board("n300")
    assert (board.grid, board.l1, board.dram, board.mesh) == (n300.grid, n300.l1, n300.dram, (2, 1))
    assert "two harvested rows" in choose_device("virtual", board.name).reason


@pytest.mark.virtual_device
def test_a_descriptor_whose_cores_take_no_programs_is_rejected(cache, tmp_path):
    choice = DeviceChoice(DeviceMode.VIRTUAL, "as it is", "", descriptor=two_rows(tmp_path))
    with pytest.raises(NotProven, match=r"a program on all 8x8 cores that it opened: .*8x7"):
        Pool(choice)


def test_a_descriptor_is_never_silicon(cache):
    name = "machine.yaml@0123456789ab"
    own_boards_home().mkdir()
    for made, source in (
        (facts_file(name), facts_file("n150")),
        (own_boards_home() / "0123456789ab.cluster.yaml", cluster_descriptor("n150")),
    ):
        made.write_bytes(source.read_bytes())
    nodes = ["/dev/tenstorrent/0"]
    assert is_own(name)
    assert not is_own("n150")
    assert choose_device("auto", name, nodes=nodes, environ={}).mode is DeviceMode.VIRTUAL
    with pytest.raises(DeviceUnavailable, match="opens with --device virtual only"):
        choose_device("silicon", name, nodes=nodes, environ={})


def test_a_board_from_another_machine_is_unknown(cache):
    with pytest.raises(InvalidCase, match=r"not known here; give the descriptor that it was taken from: PATH/a\.yaml"):
        load_board("a.yaml@0123456789ab")


# Descriptors that are none -------------------------------------------------------------------------------------------------

GOOD = yaml.safe_load(cluster_descriptor("n300_1x2").read_text())


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in GOOD.items() if name != key}


BAD = {
    ":2: not YAML: did not find expected node content": b"arch: [\n",
    ":2: not YAML": b"arch: {0: wormhole_b0}\n\tx: 1\n",
    "not YAML: unacceptable": b"arch: \x00",
    "not YAML": b"\xff\xfe\xff",
    "expected a cluster descriptor, a mapping": b"",
    "a mapping with arch": b"- 1\n",
    f"more than {MAX_BYTES:,} B": b"#" * (MAX_BYTES + 1),
    "arch: Field required": without("arch"),
    "ethernet_connections: Field required": without("ethernet_connections"),
    "chips_with_mmio: Field required": without("chips_with_mmio"),
    "harvesting: Field required": without("harvesting"),
    "boards: Field required": without("boards"),
    "chips: no coordinates of chip 0; Wormhole": without("chips"),
    "chips: no coordinates of chip 1": {**GOOD, "chips": {0: [0, 0, 0, 0]}},
    "chips.1: List should have": {**GOOD, "chips": {0: [0, 0, 0, 0], 1: [0]}},
    "arch.0: Input should be 'wormhole_b0' or 'blackhole'": {**GOOD, "arch": {0: "grayskull", 1: "grayskull"}},
    "arch: Dictionary should have at least 1": {**GOOD, "arch": {}},
    "these are blackhole and wormhole_b0": {**GOOD, "arch": {0: "wormhole_b0", 1: "blackhole"}},
    "harvesting: no entry for chip 1": {**GOOD, "harvesting": {0: {"harvest_mask": 64}}},
    "harvesting.0.harvest_mask: Input should be a valid integer": {**GOOD, "harvesting": {0: {"harvest_mask": "x"}}},
    "boards: List should have at least 1": {**GOOD, "boards": []},
}  # fmt: skip


@pytest.mark.parametrize("says", BAD)
def test_other_files_are_rejected_in_one_line(says, tmp_path):
    content, path = BAD[says], tmp_path / "bad.yaml"
    path.write_bytes(content if isinstance(content, bytes) else yaml.safe_dump(content).encode())
    with pytest.raises(InvalidCase) as error:
        read_descriptor(path)
    assert str(error.value).startswith(str(path))
    assert says in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("board", "says"),
    [
        ("none.yaml", "ssinghal: none.yaml: No such file or directory; expected a cluster descriptor\n"),
        ("./", "ssinghal: .: Is a directory; expected a cluster descriptor\n"),
        ("bad.yml", "ssinghal: bad.yml: expected a cluster descriptor, a mapping with arch, harvesting, boards …\n"),
        ("n15", "ssinghal: unknown board 'n15'; did you mean n150"),
    ],
)
@pytest.mark.parametrize("command", [("probe", "relu", "1,32"), ("estimate", "relu", "1,32"), ("doctor",), ("exec", "true")])
def test_a_bad_descriptor_ends_a_command_with_2(run, cache, tmp_path, command, board, says):
    (tmp_path / "bad.yml").write_text("1")
    name, *rest = command
    result = run(name, "--board", board, *rest)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(says)
    assert result.err.count("\n") == 1
    assert not own_boards_home().exists()


@pytest.mark.virtual_device
def test_a_descriptor_that_ends_ttnn_ends_the_command_with_2(run, cache, tmp_path):
    """It is well formed, but has two chips in one place."""
    read = {**GOOD, "chips": {0: [0, 0, 0, 0], 1: [0, 0, 0, 0]}, "chips_with_mmio": [{7: 0}]}
    (tmp_path / "odd.yaml").write_text(yaml.safe_dump(read))
    result = run("probe", "relu", "1,32", "--board", "odd.yaml")
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert not facts_file("odd.yaml@" + hashlib.sha256((tmp_path / "odd.yaml").read_bytes()).hexdigest()[:12]).exists()


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**70) | st.text(max_size=5) | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.integers(-1, 3) | st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(key=st.sampled_from(sorted(GOOD)), value=VALUES)
def test_no_value_of_a_descriptor_crashes(key, value, tmp_path_factory):
    path = tmp_path_factory.mktemp("fuzz") / "made.yaml"
    path.write_text(yaml.safe_dump({**GOOD, key: value}))
    with suppress(InvalidCase):
        assert read_descriptor(path).name.startswith("made.yaml@")


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_crash(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("fuzz") / "made.yaml"
    path.write_bytes(content)
    with pytest.raises(InvalidCase):
        read_descriptor(path)
