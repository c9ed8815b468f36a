"""The cache of the virtual device stays bounded, and nothing that a process uses is removed."""

from __future__ import annotations

import multiprocessing
import subprocess
from pathlib import Path

import pytest

from ssinghal.device import virtual_cache
from ssinghal.device.virtual_cache import count_kernels, disk_bytes, scratch_folder, virtual_home


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def environment(name: str, package: Path, kernels: int) -> Path:
    """Creates a cache as TT-Metalium fills it, with this many kernels in two builds, for a package that is at ``package``."""
    folder = virtual_home() / f"ttnn-0.81.1-{name}"
    (folder / "root").mkdir(parents=True)
    for link in ("tt_metal", "ttnn"):
        (folder / "root" / link).symlink_to(package / link)
    for number in range(kernels):
        kernel = folder / "kernels" / f"tt-metal-cache{number % 2}" / "kernels" / "reader_unary" / str(number)
        kernel.mkdir(parents=True)
        (kernel / "brisc.elf").write_bytes(bytes(5000))
    return folder


@pytest.fixture
def package(tmp_path: Path) -> Path:
    for link in ("tt_metal", "ttnn"):
        (tmp_path / "package" / link).mkdir(parents=True)
    return tmp_path / "package"


def enter() -> None:
    with scratch_folder():
        pass


def killed_process_folder() -> Path:
    dead = subprocess.Popen(["true"])
    dead.wait()
    left = virtual_home() / "scratch" / f"{dead.pid}-left"
    left.mkdir(parents=True)
    return left


def test_scratch_folder_is_gone_afterwards_and_so_are_those_of_killed_processes():
    left = killed_process_folder()
    with scratch_folder() as folder:
        assert folder.is_dir()
        assert not left.exists()
    assert not folder.exists()


def test_caches_of_removed_environments_go_and_others_stay(package, tmp_path):
    here = environment("here", package, 3)
    gone = environment("gone", tmp_path / "removed", 3)
    enter()
    assert not gone.exists()
    assert count_kernels(here / "kernels") == 3


@pytest.mark.parametrize(("kernels", "kept"), [(4, 4), (5, 0)])
def test_kernels_beyond_the_bound_are_removed(package, monkeypatch, kernels, kept):
    monkeypatch.setattr(virtual_cache, "MAX_KERNELS", 4)
    folder = environment("here", package, kernels)
    assert count_kernels(folder / "kernels") == kernels
    enter()
    assert count_kernels(folder / "kernels") == kept
    assert (folder / "kernels").is_dir()


def hold(entered: object, leave: object) -> None:
    with scratch_folder():
        entered.set()  # type: ignore[attr-defined]
        leave.wait(60)  # type: ignore[attr-defined]


def test_nothing_is_removed_while_another_process_has_a_device_open(package, monkeypatch, tmp_path):
    monkeypatch.setattr(virtual_cache, "MAX_KERNELS", 1)
    context = multiprocessing.get_context("fork")
    entered, leave = context.Event(), context.Event()
    other = context.Process(target=hold, args=(entered, leave))
    other.start()
    assert entered.wait(60)
    kept = [environment("here", package, 2), environment("gone", tmp_path / "removed", 2)]
    enter()
    assert [count_kernels(folder / "kernels") for folder in kept] == [2, 2]
    assert virtual_cache.remove_all() != []
    assert [count_kernels(folder / "kernels") for folder in kept] == [2, 2]
    leave.set()
    other.join(60)
    enter()
    assert [folder.exists() for folder in kept] == [True, False]
    assert count_kernels(kept[0] / "kernels") == 0


def test_size_is_that_of_du(package):
    environment("here", package, 20)
    counted = subprocess.run(["du", "-s", "-B1", virtual_home()], capture_output=True, text=True, check=True).stdout
    assert disk_bytes(virtual_home()) == int(counted.split()[0])
