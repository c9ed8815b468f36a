"""Changes that are proposed for a call that ran out of memory: each is applied to the program itself, which then fits."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ssinghal.profile.failure import explain
from ssinghal.profile.findings import find
from ssinghal.profile.reading import read_profiles
from ssinghal.profile.tried_changes import TriedChange, TriedChanges
from tests.profile.measure import ROOT, run_ssinghal
from tests.profile.test_failure import CLASH, CONFIGURED, OPENED, POOL, PROLOGUE

pytestmark = pytest.mark.virtual_device


def profiled(tmp_path, source, name="program", board="n150"):
    """Runs a program that runs out of memory: what was tried, as the folder keeps it, and standard error."""
    (tmp_path / f"{name}.py").write_text(source)
    done = run_ssinghal(tmp_path, "profile", "--board", board, "-o", name, "--", "python", f"{name}.py")
    (values,) = json.loads((tmp_path / name / "tried.json").read_text())
    return TriedChanges.from_json(values), done.stderr


def fits(tmp_path, source, name="changed", board="n150"):
    (tmp_path / f"{name}.py").write_text(source)
    return run_ssinghal(tmp_path, "exec", "--board", board, "--", "python", f"{name}.py").returncode == 0


def codes(changes):
    return [change.code for change in changes]


def test_a_result_that_finds_no_room(tmp_path):
    """400 of 680 tiles are operands, 150 are of another tensor; the result needs 200."""
    source = OPENED + "a, b = tensor(200), tensor(200)\nc = tensor(150)\nd = ttnn.add(a, b)\n"
    source += "ttnn.relu(c, memory_config=ttnn.DRAM_MEMORY_CONFIG)\n"
    tried, printed = profiled(tmp_path, source)
    assert "\n".join(f"  {line}" for line in tried.text()) in printed
    found = codes(tried.found)
    assert "memory_config=ttnn.DRAM_MEMORY_CONFIG" in found
    assert fits(tmp_path, source.replace("add(a, b)", "add(a, b, memory_config=ttnn.DRAM_MEMORY_CONFIG)"))
    assert any(code.startswith("ttnn.to_memory_config into DRAM") for code in found)
    spilled = "s = ttnn.to_memory_config(c, ttnn.DRAM_MEMORY_CONFIG); ttnn.deallocate(c)\nd = ttnn.add"
    assert fits(tmp_path, source.replace("d = ttnn.add", spilled).replace("relu(c", "relu(s"))
    (in_place,) = (change for change in tried.found if change.code == "same tensor: in place")
    assert in_place.lines[-1] == "t0 = ttnn.add(a, b, output_tensor=a)"
    assert fits(tmp_path, source.replace("add(a, b)", "add(a, b, output_tensor=a)"))


def test_a_matmul_whose_program_buffers_clash(tmp_path):
    tried, _ = profiled(tmp_path, OPENED + CLASH + CONFIGURED)
    found = codes(tried.found)
    assert found[0] == "in0_block_w=4"
    assert fits(tmp_path, OPENED + CLASH + CONFIGURED.replace("in0_block_w=8", "in0_block_w=4"))
    assert not fits(tmp_path, OPENED + CLASH + CONFIGURED.replace("in0_block_w=8", "in0_block_w=8, out_block_w=16"))
    assert all("end at" in change.ended for change in tried.changes if change.ended)


BLOCKS = """
a, b = (ttnn.empty([4096, 4096], ttnn.bfloat16, ttnn.TILE_LAYOUT, device) for _ in range(2))
config = ttnn.MatmulMultiCoreReuseMultiCastProgramConfig(
    compute_with_storage_grid_size=(8, 8), in0_block_w=8, out_subblock_h=1, out_subblock_w=4, per_core_M=16, per_core_N=16,
    transpose_mcast=False, fused_activation=None)
ttnn.matmul(a, b, program_config=config)
"""


def test_every_block_of_a_matmul_is_tried(tmp_path):
    """Each of the three sizes alone makes it fit; the next larger divisor of the blocks of the result does not."""
    tried, _ = profiled(tmp_path, OPENED + BLOCKS)
    found = codes(tried.found)
    for name in ("out_block_w", "out_block_h"):
        (size,) = (int(code.partition("=")[2]) for code in found if code.startswith(name))
        other = "out_block_h" if name == "out_block_w" else "out_block_w"
        results = [
            fits(tmp_path, OPENED + BLOCKS.replace("in0_block_w=8", f"in0_block_w=8, {name}={part}, {other}=16"))
            for part in (size, 2 * size)
        ]
        assert results == [True, False]


def test_an_l1_small_region_is_exactly_as_large_as_needed(tmp_path):
    source = PROLOGUE + POOL + "pool(112, 3)\npool(112, 2)\n"
    tried, printed = profiled(tmp_path, source)
    (size,) = (int(code.partition("=")[2]) for code in codes(tried.found) if code.startswith("l1_small_size="))
    assert f"L1_SMALL region of 256 B: ttnn.max_pool2d fits with l1_small_size={size}" in printed
    (profile,) = read_profiles(tmp_path / "program")
    (of_region,) = (one for one in find(replace(profile, tried=None)) if one.kind == "region_size")
    assert "at least l1_small_size=" in of_region.title, "what the next buffer needs, which may be less"
    assert of_region.after_bytes <= size
    assert fits(tmp_path, source.replace("l1_small_size=256", f"l1_small_size={size}"))
    assert not fits(tmp_path, source.replace("l1_small_size=256", f"l1_small_size={size - 32}"))
    assert "config_tensor_in_dram=True" in codes(tried.found)
    assert fits(tmp_path, source.replace("dilation=[1, 1]", "dilation=[1, 1], config_tensor_in_dram=True"))


def test_fragments_are_moved(tmp_path):
    source = OPENED + "t = [tensor(100) for _ in range(6)]\nfor i in (0, 2, 4): ttnn.deallocate(t[i])\n"
    tried, _ = profiled(tmp_path, source + "tensor(190)\n", board="n150")
    assert any(code.startswith("ttnn.reallocate of 3200x2048") for code in codes(tried.found))
    assert fits(tmp_path, source + "t[1] = ttnn.reallocate(t[1])\ntensor(190)\n")


@pytest.mark.parametrize("options", ["trace_region_size=1 << 20", "trace_region_size=1_000_001, l1_small_size=16_384"])
def test_a_device_with_regions_is_opened_with_them(tmp_path, options):
    source = OPENED.replace("device_id=0", f"device_id=0, {options}") + "a = tensor(400)\nd = tensor(400)\n"
    assert options in source
    tried, _ = profiled(tmp_path, source)
    assert tried.why_not == ""
    assert "memory_config=ttnn.DRAM_MEMORY_CONFIG" in codes(tried.found)


def test_a_device_that_was_opened_otherwise_is_not_tried(tmp_path):
    source = PROLOGUE + "device = ttnn.open_device(device_id=0, worker_l1_size=800_000)\ntensor(400)\n"
    tried, printed = profiled(tmp_path, source)
    assert "the program opened its device with other options" in tried.why_not
    assert f"no change was tried: {tried.why_not}" in printed


def test_a_mesh_is_not_tried(tmp_path):
    source = PROLOGUE + "device = ttnn.open_mesh_device(ttnn.MeshShape(1, 2))\na = tensor(400)\ntensor(400)\n"
    tried, printed = profiled(tmp_path, source, board="n300")
    assert tried.why_not.startswith("the program opened a mesh of (1, 2) chips")
    assert f"no change was tried: {tried.why_not}" in printed


def test_buffers_of_unknown_sizes_are_left_to_a_profile(tmp_path):
    """Of a p150 TTNN lists rows of 32 B without the padding to 64: their sizes do not add up."""
    (tmp_path / "program.py").write_text(
        PROLOGUE
        + "device = ttnn.open_device(device_id=0)\n"
        + "rows = ttnn.empty([4096, 16], ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT, device)\na = tensor(700)\nb = tensor(700)\n"
    )
    done = run_ssinghal(tmp_path, "exec", "--board", "p150", "--", "python", "program.py")
    assert "were there before (DRAM per bank); ssinghal profile -- COMMAND records a program from its start" in done.stderr
    tried, _ = profiled(tmp_path, (tmp_path / "program.py").read_text(), board="p150")
    assert tried.why_not == ""


def test_the_text_where_no_change_fits():
    tried = TriedChanges((TriedChange("a=1", "here", ended="no room"),), trials=2)
    first, *rest = tried.text()
    assert first.endswith(": none of the changes makes it fit")
    assert rest == ["with each of them the call ends so:", "  a=1: no room"]
    both = replace(tried, changes=(*tried.changes, TriedChange("b=1", "there")))
    assert both.text()[1:] == ["  b=1, there", "and these do not:", "  a=1: no room"]


def test_json_and_back():
    tried = TriedChanges(
        (TriedChange("a=1", "here", "careful", ("b", "c")), TriedChange("a=2", "there", ended="no room")), trials=3
    )
    assert TriedChanges.from_json(json.loads(json.dumps(tried.to_json()))) == tried
    assert codes(tried.found) == ["a=1"]


RESNET50 = """
import sys
import ttnn
sys.argv = ["resnet50.py", "--batch", "20", "--runs", "1"]
CHANGES = {changes}  # calls of conv2d from 1: act_block_h_override
convolve, made = ttnn.conv2d, [0]
def conv2d(**arguments):
    made[0] += 1
    if made[0] in CHANGES:
        arguments["conv_config"].act_block_h_override = CHANGES[made[0]]
    return convolve(**arguments)
ttnn.conv2d = conv2d
sys.path.insert(0, {ports!r})
import resnet50
resnet50.main()
"""
PORTS = str(ROOT / "examples" / "ports")


def resnet50(changes):
    return RESNET50.format(changes=changes, ports=PORTS)


# What was proposed, call by call: each was applied, and the next one is of the call that failed then.
WALLS = {3: 224, 13: 96, 15: 32, 26: 288, 30: 288, 33: 288, 36: 288, 39: 288, 42: 288}


@pytest.mark.parametrize("passed", [0, 1, 8])
def test_resnet50_at_batch_20_wall_by_wall(tmp_path, passed):
    """With the first changes applied, their calls pass, and the change of the next one is proposed for the call that fails."""
    numbers = list(WALLS)
    tried, printed = profiled(tmp_path, resnet50({number: WALLS[number] for number in numbers[:passed]}))
    (one,) = read_profiles(tmp_path / "program")
    failure = explain(one)
    convolutions = [call.number for call in one.calls if call.name == "ttnn.conv2d"]
    assert convolutions.index(failure.call.number) + 1 == numbers[passed]
    assert [site.function for site in failure.call.stack[:3]] == ["conv2d", "convolve", "bottleneck"]
    (change,) = (change for change in tried.found if change.code.startswith("act_block_h_override="))
    assert change.code == f"act_block_h_override={WALLS[numbers[passed]]}"
    assert f"{change.code}, in the Conv2dConfig of {failure.call.site}" in printed


def test_resnet50_at_batch_20_with_all_changes_fits(tmp_path):
    assert fits(tmp_path, resnet50(WALLS))


UNET = """
import sys
import ttnn
sys.argv = ["unet.py", "--scale", "2", "--runs", "1"]
sys.path.insert(0, {ports!r})
import unet
APPLIED = {applied}
keep, concat = unet.UNet.keep, unet.concat
def kept(self, x):
    if "spilled" in APPLIED and x.width == unet.WIDTH:
        return ttnn.to_memory_config(x.tensor, ttnn.DRAM_MEMORY_CONFIG)
    return keep(self, x)
def joined(upsampled, kept):
    return concat(upsampled, ttnn.reallocate(kept) if "reallocated" in APPLIED else kept)
unet.UNet.keep, unet.concat = kept, joined
unet.main()
"""


@pytest.mark.parametrize(
    ("applied", "name", "proposed"),
    [
        ([], "ttnn.reshard", "ttnn.to_memory_config into DRAM of 1x1x337920x64 bfloat8_b tile height_sharded of ttnn.move"),
        (["spilled"], "ttnn.concat", "ttnn.reallocate of 1x1x84480x64 bfloat16 row_major height_sharded of ttnn.to_layout"),
    ],
)
def test_unet_at_twice_its_size(tmp_path, applied, name, proposed):
    """The map at full size is kept in DRAM, as ``--fits`` has it; then the skip of half the size is moved up."""
    tried, _ = profiled(tmp_path, UNET.format(applied=applied, ports=PORTS))
    (one,) = read_profiles(tmp_path / "program")
    assert explain(one).call.name == name
    assert any(code.startswith(proposed) for code in codes(tried.found))


def test_unet_at_twice_its_size_with_both_changes_fits(tmp_path):
    assert fits(tmp_path, UNET.format(applied=["spilled", "reallocated"], ports=PORTS))


CONVOLUTION = """
import ttnn
device = ttnn.open_device(device_id=0, l1_small_size=16384)
x = ttnn.empty([1, 1, 128 * 128, 256], ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT, device)
weight = ttnn.zeros([256, 256, 3, 3], dtype=ttnn.bfloat16)
kept = ttnn.empty([32 * 300, 2048], ttnn.bfloat16, ttnn.TILE_LAYOUT, device, ttnn.L1_MEMORY_CONFIG)
config = ttnn.Conv2dConfig(shard_layout=ttnn.TensorMemoryLayout.HEIGHT_SHARDED)
ttnn.conv2d(input_tensor=x, weight_tensor=weight, device=device, in_channels=256, out_channels=256, batch_size=1,
            input_height=128, input_width=128, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), conv_config=config,
            slice_config=ttnn.Conv2dL1FullSliceConfig)
"""


def test_a_convolution_that_is_given_no_slices(tmp_path):
    """Its slice configuration, an object of a class within a class, is made again; what does not fit alone is stated."""
    tried, _ = profiled(tmp_path, CONVOLUTION)
    assert tried.why_not == ""
    (kept,) = (change for change in tried.changes if change.code.startswith("ttnn.deallocate of 9600x2048"))
    assert "end at" in kept.ended
    sliced = CONVOLUTION.replace(",\n            slice_config=ttnn.Conv2dL1FullSliceConfig", "")
    assert fits(tmp_path, sliced) == ("no slice_config" in codes(tried.found))
