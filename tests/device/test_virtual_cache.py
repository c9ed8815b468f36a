"""The cache of the virtual device stays bounded, and nothing that a process uses is removed."""

from __future__ import annotations

import errno
import multiprocessing
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ssinghal.core.locks import LOCK
from ssinghal.device import virtual_cache
from ssinghal.device.virtual_cache import count_kernels, disk_bytes, scratch_folder, scratch_folders, virtual_home
from ssinghal.errors import HarnessError
from tests.support.other_host import python_elsewhere
from tests.support.processes import wait_for


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


HOLD = """
import sys
from ssinghal.device.virtual_cache import scratch_folder
with scratch_folder() as folder:
    print(folder, flush=True)
    sys.stdin.read()
"""


def holder() -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def folder_of(process: subprocess.Popen[str]) -> Path:
    assert process.stdout is not None
    return Path(process.stdout.readline().strip())


def ended(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def named(*parts: str, locked: bool = True, days: float = 0.0) -> Path:
    """Creates a scratch folder that no process of this machine holds, to which nothing was added for some days."""
    folder = virtual_home() / "scratch" / "-".join(parts)
    folder.mkdir(parents=True)
    if locked:
        (folder / LOCK).touch()
    then = time.time() - days * 86_400
    os.utime(folder, (then, then))
    return folder


def test_scratch_folder_is_gone_afterwards_and_so_are_those_of_killed_processes():
    process = holder()
    left = folder_of(process)
    ended(process)
    assert left.is_dir()
    with scratch_folder() as folder:
        assert folder.is_dir()
        assert not left.exists()
    assert not folder.exists()


def test_nothing_of_a_process_on_another_host_is_removed_while_it_runs(package, monkeypatch):
    """Its number is not in /proc here, or belongs to another process."""
    monkeypatch.setattr(virtual_cache, "MAX_KERNELS", 1)
    process = python_elsewhere(HOLD, stdin=subprocess.PIPE)
    other = folder_of(process)
    here = environment("here", package, 2)
    enter()
    assert other.is_dir()
    assert count_kernels(here / "kernels") == 2
    assert virtual_cache.remove_all() == [other]
    ended(process)
    wait_for(lambda: scratch_folders(in_use=True) == [], "the end of its lock")
    enter()
    assert not other.exists()
    assert count_kernels(here / "kernels") == 0


def test_a_process_on_another_host_removes_nothing_of_one_here(package):
    with scratch_folder() as folder:
        code = "from ssinghal.device.virtual_cache import *\nwith scratch_folder(): pass\nprint(remove_all())"
        process = python_elsewhere(code)
        assert process.communicate(timeout=60)[0] == f"[{folder!r}]\n"
        assert folder.is_dir()


@pytest.mark.parametrize(
    ("host", "boot", "locked", "days", "stays"),
    [
        ("another-host", "00000000", True, 0, True),  # whose locks may not be seen here
        ("another-host", "00000000", True, 6.9, True),
        ("another-host", "00000000", True, 7.1, False),
        (platform.node(), "00000000", True, 0, False),  # before this machine was started anew
        ("another-host", "00000000", False, 0, True),  # being made
        ("another-host", "00000000", False, 7.1, False),
    ],
)
def test_what_may_be_of_another_host_goes_only_when_it_is_old(package, monkeypatch, host, boot, locked, days, stays):
    monkeypatch.setattr(virtual_cache, "MAX_KERNELS", 1)
    cache = environment("here", package, 2)
    folder = named("4711", host.replace("-", "_"), boot, "abcdefgh", locked=locked, days=days)
    enter()
    assert folder.exists() == stays
    assert count_kernels(cache / "kernels") == (2 if stays else 0)


def test_folders_of_earlier_versions_go_only_when_they_are_old():
    young, old = named("4711", "abcdefgh", locked=False), named("4712", "abcdefgh", locked=False, days=8)
    enter()
    assert (young.exists(), old.exists()) == (True, False)


def test_a_file_system_without_locks_is_one_line(monkeypatch):
    def none(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", none)
    line = (
        rf"^cannot write {virtual_home()}/lock, for the files of virtual devices: no locks here "
        r"\(No locks available\); set XDG_CACHE_HOME to another folder$"
    )
    with pytest.raises(HarnessError, match=line):
        enter()


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
