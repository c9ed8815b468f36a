"""The virtual device's folders mend themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from ssinghal.core.record import Status
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


def turn_link(root):
    (root / "ttnn").unlink()
    (root / "ttnn").symlink_to(root / "gone")


def another_wheel(root):
    (root / "ttnn").unlink()
    (root / "ttnn").mkdir()


@pytest.mark.parametrize(
    "damage",
    [remove_compiler, empty_compiler, forbid_compiler, remove_link, turn_link, another_wheel],
    ids=lambda f: f.__name__,
)
def test_a_damaged_runtime_root_is_made_anew(damage):
    made = prepare_root()
    whole = {path.relative_to(made.root): path.lstat().st_mode for path in made.root.rglob("*") if not path.is_symlink()}
    kernel = made.kernels / "kernel"
    kernel.touch()
    damage(made.root)
    assert prepare_root() == made
    again = {path.relative_to(made.root): path.lstat().st_mode for path in made.root.rglob("*") if not path.is_symlink()}
    assert again == whole
    assert (made.root / "ttnn").resolve() == (ttnn_package()[0] / "ttnn").resolve()
    assert kernel.exists()
    assert {path.name for path in made.folder.iterdir()} == {"root", "kernels", "kernels-here-do-nothing"}


def test_a_device_opens_on_a_root_made_anew():
    remove_compiler(prepare_root().root)
    with Pool(choose_device("virtual")) as pool:
        assert pool.submit(make_case("relu", ((1, 1, 64, 64),))).result().status is Status.FITS
