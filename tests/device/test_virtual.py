"""The folders of the virtual device repair themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from ssinghal.core.verdict import Status
from ssinghal.device.modes import choose_device
from ssinghal.device.virtual import prepare_root, ttnn_package
from ssinghal.operators import make_case
from ssinghal.runner.pool import Pool

pytestmark = pytest.mark.virtual_device

COMPILER = Path("runtime", "sfpi", "compiler", "bin", "riscv-tt-elf-g++")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def remove_compiler(root):
    (root / COMPILER).unlink()


def empty_compiler(root):
    (root / COMPILER).write_text("")


def forbid_compiler(root):
    (root / COMPILER).chmod(0o600)


def remove_link(root):
    (root / "tt_metal").unlink()


def break_link(root):
    (root / "ttnn").unlink()
    (root / "ttnn").symlink_to(root / "gone")


def another_wheel(root):
    (root / "ttnn").unlink()
    (root / "ttnn").mkdir()


def remove_hardware(root):
    (root / "runtime" / "hw").unlink()


@pytest.mark.parametrize(
    "damage",
    [remove_compiler, empty_compiler, forbid_compiler, remove_link, break_link, another_wheel, remove_hardware],
    ids=lambda f: f.__name__,
)
def test_a_damaged_runtime_root_is_rebuilt(damage):
    virtual = prepare_root()
    before = {path.relative_to(virtual.root): path.lstat().st_mode for path in virtual.root.rglob("*") if not path.is_symlink()}
    kernel = virtual.kernels / "kernel"
    kernel.touch()
    damage(virtual.root)
    assert prepare_root() == virtual
    after = {path.relative_to(virtual.root): path.lstat().st_mode for path in virtual.root.rglob("*") if not path.is_symlink()}
    assert after == before
    assert (virtual.root / "ttnn").resolve() == (ttnn_package()[0] / "ttnn").resolve()
    assert (virtual.root / "runtime" / "hw").resolve() == (ttnn_package()[0] / "runtime" / "hw").resolve()
    assert kernel.exists()
    assert {path.name for path in virtual.folder.iterdir()} == {"root", "kernels", "kernels-here-do-nothing"}


def test_a_device_opens_on_a_rebuilt_root():
    remove_compiler(prepare_root().root)
    with Pool(choose_device("virtual")) as pool:
        assert pool.submit(make_case("relu", ((1, 1, 64, 64),))).result().status is Status.FITS


@pytest.mark.parametrize("board", ["n150", "p150"])
def test_another_process_links_no_kernel_again(board):
    """A link replaces the file, also by an equal one, so that its time changes. TT-Metalium writes a copy when it loads one."""

    def linked():
        with Pool(choose_device("virtual", board)) as pool:
            assert pool.submit(make_case("relu", ((1, 1, 64, 64),))).result().status is Status.FITS
        kernels = (path for path in prepare_root().kernels.rglob("*.elf") if not path.name.endswith(".xip.elf"))
        return {path: path.stat().st_mtime_ns for path in kernels}

    first = linked()
    assert {path.name for path in first} == {"brisc.elf", "ncrisc.elf", "trisc0.elf", "trisc1.elf", "trisc2.elf"}
    assert linked() == first
