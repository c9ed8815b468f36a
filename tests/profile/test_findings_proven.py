"""What findings propose, done to the programs: they take what was predicted, and what failed runs."""

from __future__ import annotations

import pytest

from tests.profile import findings_programs as programs
from tests.profile.measure import ROOT
from tests.profile.several import profiled

pytestmark = pytest.mark.virtual_device
FAULTS = ROOT / "tests" / "profile" / "programs" / "faults"
CONFIG = "memory_config=ttnn.L1_MEMORY_CONFIG"

# A program, a text in it, and what takes its place.
CHANGES = {
    "late_free/function": ("    for _ in range(3):", "    ttnn.deallocate(image)\n    for _ in range(3):"),
    "late_free/attribute": ("    return ttnn.to_torch", "    assert not model.input.is_allocated()\n    return ttnn.to_torch"),
    "late_free/branch": ("    wider = ", "    ttnn.deallocate(wide)\n    wider = "),
    "leak/list": (f"KEPT.append(ttnn.relu(x, {CONFIG}))", f"ttnn.deallocate(ttnn.relu(x, {CONFIG}))"),
    "leak/cache": ("self.cache[number] = ", "_ = "),
    "few_pages/one_row": ("[1, 1, 1, 200_000]", "[1, 1, 64, 3_125]"),
    "few_pages/four_rows": ("rows, 65_536]", "16 * rows, 4_096]"),
    "fragmentation/comb": ("    wanted = ", "    tensors[9] = ttnn.move(tensors[9])\n    wanted = "),
    "fragmentation/nearly": (
        "    x = tensor(device, 32 * 100, 2048)",
        "    comb.teeth[0] = ttnn.move(comb.teeth[0])\n    x = tensor(device, 32 * 200, 2048)",
    ),
}
STEM = "        return ttnn.exp(x, memory_config=ttnn.L1_MEMORY_CONFIG)\n"
FREED = "        y = ttnn.exp(x, memory_config=ttnn.L1_MEMORY_CONFIG)\n        ttnn.deallocate(x)\n        return y\n"
MOVED = {
    "two to move": (
        "    tensor(350)",
        "    tensors[5], tensors[7] = ttnn.move(tensors[5]), ttnn.move(tensors[7])\n    tensor(350)",
    ),
    "program buffers below a hole": ("    ttnn.softmax", "    lower = ttnn.move(lower)\n    ttnn.softmax"),
    "pieces of DRAM": ("    tensor(50_000", "    tensors[1] = ttnn.move(tensors[1])\n    tensor(50_000"),
}


def region(size: int) -> tuple[str, str]:
    return f", l1_small_size={size}", programs.CONVOLUTION + "def main():\n    ttnn.to_torch(convolve(128))\n"


REGIONS = {f"a region of {size}": region(size) for size in (65_536, 160, 128, 0)}


@pytest.fixture(scope="module")
def before_and_after(tmp_path_factory):
    folder = tmp_path_factory.mktemp("proven")
    paths = {}
    for name, (old, new) in CHANGES.items():
        text = (FAULTS / f"{name}.py").read_text()
        assert text.count(old) == 1
        text = text.replace(STEM, FREED).replace("    ttnn.deallocate(model.input)\n", "")
        paths[name] = FAULTS / f"{name}.py"
        paths[f"{name} changed"] = folder / programs.file_name(name.replace("/", " "))
        paths[f"{name} changed"].write_text(text.replace(old, new))
    changed = {f"{name} changed": programs.PIECES[name].replace(*change) for name, change in MOVED.items()}
    return profiled(folder, {**paths, **programs.written(folder, {**programs.PIECES, **changed, **REGIONS})})


@pytest.mark.parametrize("name", sorted(name for name in CHANGES if not name.startswith("fragmentation")))
def test_the_change_takes_the_peak_to_what_was_predicted(before_and_after, name):
    one = before_and_after.of(name)[0]
    assert before_and_after.peak(name, one.memory) == one.before_bytes
    assert before_and_after.peak(f"{name} changed", one.memory) == one.after_bytes


def failures(profiled, program):
    return [call for call in profiled.calls(program) if call.error is not None]


@pytest.mark.parametrize("name", ["fragmentation/comb", *sorted(MOVED)])
def test_what_failed_fits_once_the_buffers_are_moved(before_and_after, name):
    assert failures(before_and_after, name)
    assert not failures(before_and_after, f"{name} changed")


def test_a_comb_with_a_tooth_moved_takes_twice_as_much(before_and_after):
    (one,) = before_and_after.of("fragmentation/nearly")
    assert one.after_bytes == 2 * one.before_bytes
    assert not failures(before_and_after, "fragmentation/nearly changed")


def test_the_exact_region_runs_and_less_fails(before_and_after):
    (large,) = before_and_after.of("a region of 65536")
    assert (large.before_bytes, large.after_bytes) == (65_536, 160)
    assert before_and_after.of("a region of 160") == []
    (short,) = before_and_after.of("a region of 128")
    assert (short.kind, short.before_bytes, short.after_bytes) == ("region_size", 128, 160)
    (none,) = before_and_after.of("a region of 0")
    assert (none.before_bytes, none.after_bytes) == (0, 32), "the least for the first table"
    assert before_and_after.raised.count("L1_SMALL buffer") == 2
