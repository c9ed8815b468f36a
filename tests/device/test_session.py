"""Chooses, opens and proves devices, and checks that nothing is left behind."""

import json
import os
import subprocess
import sys
import textwrap
import time
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest

from ssinghal.core.boards import board_names, load_board
from ssinghal.core.device_facts import DeviceMode
from ssinghal.device.modes import MOCK_VARIABLE, SIMULATOR_VARIABLE, choose_device
from ssinghal.device.session import Session
from ssinghal.device.virtual import (  # fmt: skip
    apply_environment,
    environment_for,
    prepare_root,
    silicon_environment,
    ttnn_package,
)
from ssinghal.device.virtual_cache import virtual_home
from ssinghal.errors import DeviceError, DeviceUnavailable, InvalidCase
from ssinghal.runner.pool import Pool

NODE = ["/dev/tenstorrent/0"]


@pytest.mark.parametrize(
    ("mode", "environ", "nodes", "chosen"),
    [
        ("auto", {}, [], DeviceMode.VIRTUAL),
        ("auto", {}, NODE, DeviceMode.SILICON),
        ("auto", {SIMULATOR_VARIABLE: "/sim"}, [], DeviceMode.SIMULATOR),
        ("virtual", {}, NODE, DeviceMode.VIRTUAL),
        ("virtual", {MOCK_VARIABLE: "x.yaml"}, NODE, DeviceMode.VIRTUAL),
        ("silicon", {}, NODE, DeviceMode.SILICON),
        ("simulator", {SIMULATOR_VARIABLE: "/sim"}, NODE, DeviceMode.SIMULATOR),
    ],
)
def test_mode_is_chosen(mode, environ, nodes, chosen):
    choice = choose_device(mode, environ=environ, nodes=nodes)
    assert (choice.mode, choice.board) == (chosen, "n150")
    assert choice.reason


@pytest.mark.parametrize(
    ("mode", "environ", "nodes", "message"),
    [
        ("silicon", {}, [], "/dev/tenstorrent"),
        ("simulator", {}, NODE, SIMULATOR_VARIABLE),
        ("auto", {MOCK_VARIABLE: "x.yaml"}, NODE, MOCK_VARIABLE),
        ("auto", {SIMULATOR_VARIABLE: "/sim"}, NODE, SIMULATOR_VARIABLE),
        ("virtul", {}, [], "did you mean virtual"),
    ],
)
def test_an_unavailable_mode_is_rejected_not_replaced(mode, environ, nodes, message):
    with pytest.raises(DeviceUnavailable, match=message):
        choose_device(mode, environ=environ, nodes=nodes)


def test_unknown_board():
    with pytest.raises(InvalidCase, match="did you mean n150"):
        choose_device(board="n15")


@pytest.mark.parametrize("variable", ["TT_METAL_CACHE", "TT_METAL_RUNTIME_ROOT", "TT_METAL_HOME"])
def test_silicon_rejects_folders_of_the_virtual_device(variable):
    with pytest.raises(DeviceUnavailable, match=variable):
        silicon_environment({variable: str(virtual_home() / "ttnn-0.81.1-00000000" / "kernels")})
    assert MOCK_VARIABLE not in silicon_environment({variable: "/opt/elsewhere"})


@pytest.mark.virtual_device
def test_silicon_rejects_virtual_folders_in_another_cache_folder(monkeypatch):
    kernels = prepare_root().kernels
    monkeypatch.setenv("XDG_CACHE_HOME", "/another/cache")
    assert not kernels.is_relative_to(virtual_home())
    with pytest.raises(DeviceUnavailable, match="must never run on a card"):
        silicon_environment({"TT_METAL_CACHE": str(kernels)})


@pytest.mark.virtual_device
@pytest.mark.parametrize("folder", ["a cache", "it's", "$CACHE"])
def test_a_cache_folder_that_no_compiler_starts_from_is_rejected(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / folder))
    with pytest.raises(DeviceUnavailable, match="set XDG_CACHE_HOME to another folder"):
        prepare_root()


@pytest.mark.virtual_device
def test_a_home_is_not_needed(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(virtual_home().parents[1]))
    monkeypatch.delenv("HOME")
    with Pool(choose_device("virtual")) as pool:
        assert pool.facts.mode == "virtual"


@pytest.mark.virtual_device
def test_virtual_environment_replaces_what_is_inherited(tmp_path):
    foreign = {"TT_METAL_SLOW_DISPATCH_MODE": "1", "TT_METAL_DRAM_BACKED_CQ": "1", "TT_VISIBLE_DEVICES": "3", "ARCH_NAME": "x"}
    inherited = {**foreign, "TTNN_CONFIG_PATH": "/no/file", "TT_METAL_CACHE": "/real/cache", "HOME": "/home/me"}
    apply_environment(environment_for(choose_device("virtual"), tmp_path, inherited), inherited)
    assert not {*foreign, "TTNN_CONFIG_PATH"} & set(inherited)
    assert inherited["HOME"] == "/home/me"
    assert Path(inherited["TT_METAL_CACHE"]).is_relative_to(virtual_home())
    assert Path(inherited["TT_METAL_RUNTIME_ROOT"]).is_relative_to(virtual_home())
    assert Path(inherited["TT_METAL_CACHE"]).name == "kernels"


@pytest.mark.virtual_device
def test_inherited_variables_do_not_reach_a_verdict(monkeypatch):
    """A command queue in DRAM would take 16 MiB of each bank; device 3 does not exist."""
    for name, value in {"TT_METAL_DRAM_BACKED_CQ": "1", "TT_VISIBLE_DEVICES": "3", "TT_METAL_SLOW_DISPATCH_MODE": "1"}.items():
        monkeypatch.setenv(name, value)
    with Pool(choose_device("virtual", "n150")) as pool:
        assert pool.facts.dram.bank_bytes == 1_072_693_184
        assert pool.facts.l1.num_banks == 64


@pytest.mark.virtual_device
def test_root_is_keyed_by_version_and_created_once():
    package, version = ttnn_package()
    virtual = prepare_root()
    assert f"ttnn-{version}-" in virtual.folder.name
    assert (virtual.root / "tt_metal").resolve() == (package / "tt_metal").resolve()
    stamp = (virtual.root / "runtime").stat().st_mtime_ns
    assert (prepare_root().root / "runtime").stat().st_mtime_ns == stamp
    assert not list(virtual.folder.glob("making-*"))


@pytest.mark.parametrize(
    ("use", "path"),
    [
        (lambda session: session.buffers(), "reports.get_buffers"),
        (lambda session: session._l1_base_bytes(), "reports.get_device_info"),
        (lambda session: session.can_capture, "graph"),
        (lambda session: session.capture_running(lambda: None), "graph"),
    ],
)
def test_a_release_that_lacks_a_private_function_is_named(use, path):
    pytest.importorskip("ttnn")
    session = Session.__new__(Session)
    session.ttnn = SimpleNamespace(_ttnn=SimpleNamespace(reports=SimpleNamespace()))
    session._device = None
    with pytest.raises(DeviceError) as error:
        use(session)
    assert str(error.value) == f"ttnn {version('ttnn')} has no ttnn._ttnn.{path}, which is needed here"


# A separate process for each of these: one board per process -------------------------------------------------------------


def in_process(code: str, tmp_path: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Runs ``code`` in a device environment with ``choice`` defined, in an empty working folder."""
    prelude = """
        import os, sys, json
        from dataclasses import asdict
        from pathlib import Path
        from ssinghal.device.modes import choose_device
        from ssinghal.device.session import Session
        from ssinghal.device.virtual import apply_environment, environment_for
        from ssinghal.errors import NotProven
        choice = choose_device("virtual", sys.argv[1] if len(sys.argv) > 1 else None)
        apply_environment(environment_for(choice, Path(os.environ["SCRATCH"])))
    """
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    work = tmp_path / "work"
    work.mkdir()
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(prelude) + textwrap.dedent(code)],
        capture_output=True, text=True, timeout=120, cwd=work, env={**os.environ, "SCRATCH": str(scratch), **environ},
    )  # fmt: skip


@pytest.mark.virtual_device
def test_slow_dispatch_is_not_trusted(tmp_path):
    done = in_process(
        """
        os.environ["TT_METAL_SLOW_DISPATCH_MODE"] = "1"
        try:
            Session(choice)
        except NotProven as error:
            print(error)
        """,
        tmp_path,
    )
    assert "expected (8, 8), 64 and 12" in done.stdout, done.stderr
    assert "72 L1" in done.stdout


@pytest.mark.virtual_device
def test_a_second_board_in_one_process_is_not_trusted(tmp_path):
    done = in_process(
        """
        Session(choice).close()
        second = choose_device("virtual", "p150")
        apply_environment(environment_for(second, Path(os.environ["SCRATCH"])))
        try:
            Session(second)
        except NotProven as error:
            print(error)
        """,
        tmp_path,
    )
    assert "board p150 opened with" in done.stdout, done.stderr


@pytest.mark.virtual_device
def test_a_mock_is_never_taken_for_silicon(tmp_path):
    """The environment of a mock, but silicon was requested: the read-back shows it."""
    done = in_process(
        """
        from dataclasses import replace
        from ssinghal.core.device_facts import DeviceMode
        try:
            Session(replace(choice, mode=DeviceMode.SILICON))
        except NotProven as error:
            print(error)
        """,
        tmp_path,
    )
    assert "a silicon device was requested, but the opened one does not keep values" in done.stdout, done.stderr


@pytest.mark.virtual_device
def test_nothing_is_left_behind(tmp_path):
    """Working folder, temporary folder, /dev/shm and site-packages after a pool has probed a case."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    package, _ = ttnn_package()
    shared = set(os.listdir("/dev/shm"))
    code = """
        from ssinghal.operators import make_case
        from ssinghal.runner.pool import Pool
        if __name__ == "__main__":
            os.environ.pop("TMPDIR")
            with Pool(choice) as pool:
                print(pool.submit(make_case("add", ((1, 1, 64, 64),) * 2)).result().status)
    """
    began = time.time()
    done = in_process(code, tmp_path, TMPDIR=str(temporary))
    assert done.stdout.split() == ["fits"], done.stderr
    assert list((tmp_path / "work").iterdir()) == []
    assert list(temporary.iterdir()) == []
    assert {n for n in set(os.listdir("/dev/shm")) - shared if n.startswith(("tt_", "sm_segment"))} == set()
    written = [p for p in package.rglob("*") if "__pycache__" not in p.parts and p.lstat().st_mtime > began]
    assert written == []


@pytest.mark.virtual_device
@pytest.mark.parametrize("name", board_names())
def test_board_files_match_what_ttnn_opens(name, tmp_path):
    code = """
        choice = choose_device("virtual", os.environ["BOARD"])
        apply_environment(environment_for(choice, Path(os.environ["SCRATCH"])))
        with Session(choice) as session:
            print(json.dumps(asdict(session.facts)))
    """
    done = in_process(code, tmp_path, BOARD=name)
    assert done.returncode == 0, done.stderr
    facts, board = json.loads(done.stdout), load_board(name)
    assert facts["mode"] == "virtual"
    assert facts["arch"] == board.arch
    assert tuple(facts["grid"]) == board.grid
    assert facts["l1"] == vars(board.l1)
    assert facts["dram"] == vars(board.dram)
    assert facts["l1_base_bytes"] == board.reserved_base_bytes
    assert board.l1_end_bytes == facts["l1_base_bytes"] + facts["l1"]["bank_bytes"]


@pytest.mark.virtual_device
def test_a_device_that_accepts_the_program_beyond_l1_is_not_trusted(tmp_path):
    """As slow dispatch does up to 0.74; here the program is small enough to fit."""
    done = in_process(
        """
        import ssinghal.device.session
        ssinghal.device.session.OVERFLOW_ROW = 32
        try:
            Session(choice)
        except NotProven as error:
            print(error)
        """,
        tmp_path,
    )
    assert "a program that overflows L1 was accepted" in done.stdout, done.stderr
