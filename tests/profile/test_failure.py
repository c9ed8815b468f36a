"""What the profile of a program says of a call that ran out of memory; TTNN's allocator is the judge of what to free."""

from __future__ import annotations

import json

import pytest

from ssinghal.profile.failure import Role, explain
from ssinghal.profile.failure_text import failure_lines
from ssinghal.profile.reading import read_profiles
from tests.profile.measure import run_ssinghal

pytestmark = pytest.mark.virtual_device
TILE_ROW = 2_048  # a row of tiles over 64 columns of tiles has one bfloat16 tile of 2,048 B in each of 64 banks
BANK = 1_393_312  # of L1 on an n150: 1,499,136 less 105,824 that are reserved

PROLOGUE = """
import ttnn
def tensor(rows, memory=ttnn.L1_MEMORY_CONFIG):
    return ttnn.empty([32 * rows, 2048], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device, memory_config=memory)
"""
OPENED = PROLOGUE + "device = ttnn.open_device(device_id=0)\n"


def profiled(tmp_path, source, name="program"):
    (tmp_path / f"{name}.py").write_text(source)
    done = run_ssinghal(tmp_path, "profile", "-o", name, "--", "python", f"{name}.py")
    (one,) = read_profiles(tmp_path / name)
    assert one.differences == []
    return done, one


EVERY_SET = """
from itertools import combinations
import json, random
answers = []
for seed in range(8):
    chosen = random.Random(seed)
    rows = [chosen.choice((20, 50, 70, 90, 110)) for _ in range(5)]
    holes = [chosen.choice((0, 0, 25)) for _ in rows]
    need = chosen.randint(320, 560)
    def place():
        tensors, gaps = [], []
        for size, gap in zip(rows, holes):
            tensors.append(tensor(size))
            if gap: gaps.append(tensor(gap))
        for gap in gaps: ttnn.deallocate(gap)
        return tensors
    best = None
    for count in range(len(rows) + 1):
        for freed in combinations(range(len(rows)), count):
            tensors = place()
            for index in freed: ttnn.deallocate(tensors[index])
            try:
                tensors.append(tensor(need))
                size = sum(rows[index] for index in freed)
                best = size if best is None else min(best, size)
            except RuntimeError:
                pass
            for one in tensors: ttnn.deallocate(one)
    answers.append(best)
json.dump(answers, open("answers.json", "w"))
"""


def test_the_least_to_free_is_the_least_of_all_sets_that_ttnn_was_given(tmp_path):
    """For eight arrangements of five tensors and holes, every set of them was freed before the tensor that finds no room."""
    _, one = profiled(tmp_path, OPENED + EVERY_SET)
    firsts = [explain(one, call) for call in one.calls if call.error and len(call.before) == 5]  # nothing was freed
    answers = [best for best in json.loads((tmp_path / "answers.json").read_text()) if best]
    assert len(answers) >= 4
    assert [failure.least_bytes for failure in firsts] == [best * TILE_ROW for best in answers]


FULL = """
class Model:
    def __init__(self):
        self.kept = [tensor(rows) for rows in (100, 150, 200)]
    def forward(self, x):
        y = ttnn.relu(x)
        return self.grow(y)
    def grow(self, y):
        return ttnn.concat([y, y], 0, memory_config=ttnn.L1_MEMORY_CONFIG)
"""


def test_full_l1_within_the_function_of_a_model(tmp_path):
    """The bank has 680 tiles. 450 are kept, x has 60 and y 60, so 110 are left for the 120 of the result. Freeing x would not
    do, as it lies between what is kept and y, and neither would the 100."""
    source = OPENED + FULL + "model = Model()\nx = tensor(60)\nmodel.forward(x)\n"
    done, one = profiled(tmp_path, source)
    failure = explain(one)
    assert [site.function for site in failure.call.stack] == ["grow", "forward", "<module>"]
    assert (failure.need_bytes, failure.free_bytes) == (120 * TILE_ROW, BANK - 570 * TILE_ROW)
    roles = {resident.buffer.bank_bytes // TILE_ROW: resident.role for resident in failure.residents if resident.age > 1}
    assert roles == {100: Role.OTHER, 150: Role.OTHER, 200: Role.OTHER, 60: Role.OTHER}
    assert [(r.buffer.bank_bytes, r.age, r.unused) for r in failure.least] == [(150 * TILE_ROW, 4, None)]
    assert "made 4 calls before, not used since" in done.stderr
    assert "\n".join(failure_lines(failure)) in done.stderr
    fits = source.replace("y = ttnn.relu(x)", "y = ttnn.relu(x); ttnn.deallocate(self.kept[1])")
    assert profiled(tmp_path, fits, "fits")[0].returncode == 0


def test_nothing_to_free_where_a_bank_is_too_small(tmp_path):
    done, one = profiled(tmp_path, OPENED + "kept = tensor(10)\ntensor(700)\n")
    failure = explain(one)
    assert (failure.need_bytes, failure.least) == (700 * TILE_ROW, ())
    assert f"no freeing cures it: an empty bank has 1.329 MiB ({BANK:,} B)" in done.stderr


@pytest.mark.parametrize(
    ("kept", "why"),
    [
        ("a = tensor(400)", "no other buffer is resident that could be freed"),
        ("b = tensor(10)\na = tensor(400)", "even with every buffer freed that it does not need, the largest free block has"),
    ],
)
def test_freeing_alone_is_not_enough(tmp_path, kept, why):
    """The operand has 400 of 680 tiles, and the result needs as many."""
    done, one = profiled(tmp_path, OPENED + f"{kept}\nttnn.relu(a)\n")
    assert explain(one).least == ()
    assert why in done.stderr


def test_fragmented_l1(tmp_path):
    """Tensors of 100 rows, every other one freed: 300 and 80 tiles are free, in blocks of 100; 150 need the one between two."""
    source = "t = [tensor(100) for _ in range(6)]\nfor i in (0, 2, 4): ttnn.deallocate(t[i])\ntensor(190)\n"
    _, one = profiled(tmp_path, OPENED + source)
    failure = explain(one)
    assert (failure.memory, failure.resource.value) == ("l1", "fragmentation")
    assert failure.free_bytes == BANK - 300 * TILE_ROW
    assert [resident.buffer.bank_bytes for resident in failure.least] == [100 * TILE_ROW]
    index = [buffer.address for buffer in one.buffers[:6]].index(failure.least[0].buffer.address)
    fits = source.replace("(0, 2, 4)", f"(0, 2, 4, {index})")
    assert profiled(tmp_path, OPENED + fits, "fits")[0].returncode == 0


def test_full_dram(tmp_path):
    """A bank of DRAM has 1,072,693,184 B: 523,775 tiles of 2,048 B. 64 tiles a row over 12 banks."""
    rows = 523_775 * 12 // 64
    source = f"a = tensor({rows // 2}, ttnn.DRAM_MEMORY_CONFIG)\nb = tensor({rows // 4}, ttnn.DRAM_MEMORY_CONFIG)\n"
    source += f"c = tensor({rows // 3}, ttnn.DRAM_MEMORY_CONFIG)\n"
    _, one = profiled(tmp_path, OPENED + source)
    failure = explain(one)
    assert (failure.memory, failure.need_bytes) == ("dram", -(-(rows // 3) * 64 // 12) * TILE_ROW)
    assert [resident.buffer.bank_bytes for resident in failure.least] == [-(-(rows // 4) * 64 // 12) * TILE_ROW]
    fits = source.replace("c =", "del b; c =")
    assert profiled(tmp_path, OPENED + fits, "fits")[0].returncode == 0


def test_a_failure_that_was_handled_and_a_later_one(tmp_path):
    """The last is explained. What the program used after a failure that it handled is not for freeing."""
    source = "a, b = tensor(300), tensor(301)\n"
    source += "try: tensor(200)\nexcept RuntimeError: c = ttnn.relu(a, memory_config=ttnn.DRAM_MEMORY_CONFIG)\n"
    _, one = profiled(tmp_path, OPENED + source + "tensor(150)\n")
    handled, last = (call for call in one.calls if call.error)
    failure = explain(one, handled)
    assert [(r.buffer.bank_bytes // TILE_ROW, r.role) for r in failure.residents] == [(301, Role.OTHER), (300, Role.USED_LATER)]
    assert [r.buffer.bank_bytes // TILE_ROW for r in failure.least] == [301]
    assert failure.went_on == 2
    failure = explain(one)
    assert (failure.call, failure.went_on) == (last, 0)
    assert [r.buffer.bank_bytes // TILE_ROW for r in failure.least] == [300]
    assert json.loads(json.dumps(failure.to_json()))["least_bytes"] == 300 * TILE_ROW


CLASH = """
low = [tensor(rows) for rows in (200, 140, 100)]
a = ttnn.empty([1, 1, 512, 4096], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
b = ttnn.empty([1, 1, 4096, 4096], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
"""
CONFIGURED = """
config = ttnn.MatmulMultiCoreReuseMultiCastProgramConfig(
    compute_with_storage_grid_size=(8, 8), in0_block_w=8, out_subblock_h=1, out_subblock_w=4, per_core_M=2, per_core_N=16,
    transpose_mcast=False, fused_activation=None)
ttnn.matmul(a, b, program_config=config)
"""


def test_program_buffers_of_a_matmul_under_live_tensors(tmp_path):
    _, one = profiled(tmp_path, OPENED + CLASH + CONFIGURED)
    failure = explain(one)
    assert failure.resource.value == "clash"
    low = [resident for resident in failure.residents if resident.buffer.address < failure.program_end]
    assert list(failure.least) == low
    assert failure.missing_bytes == failure.program_end - failure.lowest_tensor > 0
    count = len(failure.least)
    fits = OPENED + CLASH + f"del low[{3 - count}:]\n" + CONFIGURED
    assert profiled(tmp_path, fits, "fits")[0].returncode == 0
    less = OPENED + CLASH + f"del low[{3 - count}:2]\n" + CONFIGURED
    assert profiled(tmp_path, less, "less")[0].returncode == 1, "the lowest one stays"


POOL = """
device = ttnn.open_device(device_id=0, l1_small_size=256)
x = ttnn.empty([1, 1, 112 * 112, 64], dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT, device=device,
               memory_config=ttnn.L1_MEMORY_CONFIG)
def pool(side, size):
    return ttnn.max_pool2d(input_tensor=x, batch_size=1, input_h=side, input_w=side, channels=64, kernel_size=[size, size],
                           stride=[2, 2], padding=[1, 1], dilation=[1, 1])
"""


def test_an_l1_small_that_is_used_up(tmp_path):
    _, one = profiled(tmp_path, PROLOGUE + POOL + "pool(112, 3)\npool(112, 2)\n")
    failure = explain(one)
    assert failure.memory == "l1_small"
    assert failure.least == ()
    assert {resident.role for resident in failure.residents} <= {Role.KEPT, Role.OWN}
    assert failure.why_none
