"""Other TTNN releases: adding and removing them without the network, and verdicts of those that were added."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import threading
import zipfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from ssinghal.core.device_facts import DeviceFacts, DeviceMode
from ssinghal.core.record import Record
from ssinghal.core.verdict import Resource, Status, Verdict
from ssinghal.device.modes import DeviceChoice, choose_device
from ssinghal.device.releases import (
    Release,
    add_release,
    added_releases,
    find_release,
    installed_release,
    release_in_use,
    releases_home,
    remove_release,
    why_not,
)
from ssinghal.device.session import Session
from ssinghal.device.virtual import environment_for
from ssinghal.errors import DeviceUnavailable, HarnessError
from ssinghal.operators.case_json import case_from_json
from ssinghal.runner.pool import Pool
from ssinghal.runner.tasks import PoolOptions, Task

WHEEL_FILES = {
    "ttnn/__init__.py": "",
    "ttnn/_ttnn.cpython-312-x86_64-linux-gnu.so": "",
    "ttnn/tt_metal/sfpi-version": "sfpi_version='1'\n",
}


# Add and remove ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def wheels(tmp_path, monkeypatch) -> Path:
    """An empty cache folder, and the only folder from which pip takes wheels."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    settings = {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder)}
    for name, value in (settings | {"XDG_CACHE_HOME": str(tmp_path / "cache")}).items():
        monkeypatch.setenv(name, value)
    return folder


def make_wheel(folder: Path, version: str, tag: str = "py3-none-any") -> Path:
    """Writes a wheel that pip installs, with the files that make a release."""
    info = f"ttnn-{version}.dist-info"
    files = WHEEL_FILES | {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: ttnn\nVersion: {version}\nRequires-Dist: nothing-that-is\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    wheel = folder / f"ttnn-{version}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return wheel


def program(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "ssinghal", *arguments], capture_output=True, text=True, timeout=120)


def left_behind() -> list[str]:
    return sorted(path.name for path in releases_home().glob("*"))


def test_a_release_is_added_once_and_removed(wheels):
    wheel = make_wheel(wheels, "0.75.9")
    added = add_release("0.75.9")
    assert (added.folder / "ttnn" / "__init__.py").is_file()
    assert (added_releases(), find_release("0.75.9"), left_behind()) == ([added], added, ["ttnn-0.75.9"])
    wheel.unlink()
    assert add_release("0.75.9") == added
    assert remove_release("0.75.9") == added
    assert (added_releases(), left_behind()) == ([], [])
    with pytest.raises(HarnessError, match=r"ttnn 0\.75\.9 was not added; added: none"):
        remove_release("0.75.9")


def test_a_release_in_use_is_not_removed(wheels):
    make_wheel(wheels, "0.75.9")
    added = add_release("0.75.9")
    with release_in_use(added), release_in_use(added):
        with pytest.raises(HarnessError, match=r"ttnn 0\.75\.9 is in use by another command: try again when that has ended"):
            remove_release("0.75.9")
        done = program("releases", "remove", "0.75.9")
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
        assert "in use by another command" in done.stderr
    assert (find_release("0.75.9"), left_behind()) == (added, ["ttnn-0.75.9"])
    assert remove_release("0.75.9") == added


def test_two_that_remove_a_release_at_once_are_two_answers(wheels):
    """Sixteen threads, each with a descriptor of its own, as processes have: one removes it, the others have a line each."""
    make_wheel(wheels, "0.75.9")
    added = add_release("0.75.9")
    start = threading.Barrier(16)

    def remove(_: int) -> str:
        start.wait(60)
        try:
            return "removed" if remove_release("0.75.9") == added else ""
        except HarnessError as error:
            return str(error)

    with ThreadPoolExecutor(16) as threads:
        answers = Counter(threads.map(remove, range(16)))
    assert answers.pop("removed") == 1
    assert set(answers) <= {
        "ttnn 0.75.9 was removed by another command",
        "ttnn 0.75.9 is in use by another command: try again when that has ended",
        "ttnn 0.75.9 was not added; added: none",
    }
    assert left_behind() == []


def test_a_release_that_was_removed_while_it_was_opened_is_not_used(wheels, monkeypatch):
    """Another command removes it between the moment that its folder is opened and that it is locked."""
    make_wheel(wheels, "0.75.9")
    added = add_release("0.75.9")
    lock = fcntl.flock

    def removed_first(folder: int, kind: int) -> None:
        monkeypatch.setattr(fcntl, "flock", lock)
        remove_release("0.75.9")
        lock(folder, kind)

    monkeypatch.setattr(fcntl, "flock", removed_first)
    with pytest.raises(HarnessError, match=r"ttnn 0\.75\.9 was removed by another command"), release_in_use(added):
        pass
    with pytest.raises(HarnessError, match=r"ttnn 0\.75\.9 was removed by another command"), release_in_use(added):
        pass


def test_the_commands_list_what_is_available(wheels):
    for version in ("0.75.9", "0.100.0"):
        make_wheel(wheels, version)
    assert program("releases", "add", "0.100.0", "0.75.9").returncode == 0
    listed = json.loads(program("releases", "list", "--json").stdout)
    added = [row for row in listed if not row["installed"]]
    assert [(row["ttnn"], row["full_verdicts"]) for row in added] == [("0.75.9", True), ("0.100.0", True)]
    lines = program("releases", "list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["ttnn", *(row["ttnn"] for row in listed)]
    for row in added:
        files = [path for path in Path(row["folder"]).rglob("*") if path.is_file()]
        assert row["size_bytes"] == sum(path.stat().st_size for path in files)
    assert program("releases", "remove", "0.75.9", "0.100.0").returncode == 0
    assert left_behind() == []


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("0.65.0", "opens no virtual device"),
        ("0.67.0", "accepts programs that overflow L1"),
        ("0.74.3", "accepts programs that overflow L1"),
        ("latest", "'latest' is not a version of ttnn; expected one like 0.75.0"),
        ("0.75", "is not a version of ttnn"),
        ("0.75.0 --pre", "is not a version of ttnn"),
        ("../0.75.0", "is not a version of ttnn"),
    ],
)
def test_a_release_without_full_verdicts_is_rejected_before_any_download(wheels, version, message):
    make_wheel(wheels, "0.75.9")
    done = program("releases", "add", "0.75.9", version)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert message in done.stderr
    assert left_behind() == []
    with pytest.raises(HarnessError, match=message.replace("(", r"\(")):
        find_release(version)


@pytest.mark.parametrize("version", ["0.66.0", "0.75.0", "0.81.1", "0.82.0rc1", "1.0.0"])
def test_a_release_with_full_verdicts_or_unknown_is_not_rejected(version):
    assert why_not(version) == ""


def no_wheel(wheels):
    pass


def of_another_python(wheels):
    make_wheel(wheels, "0.79.0", "cp38-cp38-manylinux_2_34_x86_64")


def broken(wheels):
    make_wheel(wheels, "0.79.0").write_bytes(b"PK, but no more")


def of_something_else(wheels):
    make_wheel(wheels, "0.79.1").rename(wheels / "ttnn-0.79.0-py3-none-any.whl")


@pytest.mark.parametrize("offer", [no_wheel, of_another_python, broken, of_something_else], ids=lambda f: f.__name__)
def test_a_failure_of_pip_is_one_line_and_leaves_nothing(wheels, offer):
    offer(wheels)
    done = program("releases", "add", "0.79.9")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("ssinghal: ttnn 0.79.9 cannot be added: pip of Python ")
    assert left_behind() == []


def test_a_release_that_is_not_here_names_the_command_that_adds_it(wheels):
    done = program("probe", "relu", "1,64", "--ttnn", "0.78.9")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "ssinghal: ttnn 0.78.9 is not here; add it with: ssinghal releases add 0.78.9\n"


def test_a_timeline_adds_what_is_not_here_before_anything_runs(wheels, tmp_path):
    """One line for each that is not available; the others are kept. A wheel without TTNN has no verdicts at all."""
    make_wheel(wheels, "0.75.9")
    out = str(tmp_path / "out")
    done = program("releases", "known_changes", "--ttnn", "0.79.9,0.75.9,0.78.9", "-o", out)
    assert (done.returncode, done.stdout) == (2, "")
    adding, faults = done.stderr.splitlines()[:3], done.stderr.splitlines()[3:]
    assert adding == [f"adding ttnn {version}" for version in ("0.75.9", "0.78.9", "0.79.9")]
    assert [line.split(":")[1] for line in faults] == [f" ttnn {v} cannot be added" for v in ("0.78.9", "0.79.9")]
    assert (left_behind(), Path(out).exists()) == (["ttnn-0.75.9"], False)
    done = program("releases", "known_changes", "--ttnn", "0.75.9", "-o", out)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].startswith("ssinghal: ttnn 0.75.9: ")
    assert not Path(out).exists()


@pytest.mark.parametrize(
    "lost", ["ttnn/__init__.py", "ttnn/_ttnn.cpython-312-x86_64-linux-gnu.so", "ttnn-0.75.9.dist-info/RECORD"]
)
def test_a_damaged_release_is_added_again(wheels, lost):
    make_wheel(wheels, "0.75.9")
    added = add_release("0.75.9")
    (added.folder / lost).unlink()
    assert added_releases() == []
    with pytest.raises(HarnessError, match="is not here"):
        find_release("0.75.9")
    assert add_release("0.75.9") == added
    assert (added.folder / lost).exists()
    assert left_behind() == ["ttnn-0.75.9"]


def test_leftovers_of_killed_processes_are_removed_and_those_of_others_are_not(wheels):
    code = (
        "import os, sys\nfrom ssinghal.core.locks import used_folder\nfrom ssinghal.device.releases import releases_home\n"
        "releases_home().mkdir(parents=True, exist_ok=True)\n"
        "with used_folder(releases_home(), 'making-') as folder:\n"
        "    (folder / 'made').mkdir()\n    print(folder.name, flush=True)\n    sys.stdin.read()\n"
    )
    killed, other = (
        subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in "12"
    )
    _, kept = (process.stdout.readline().strip() for process in (killed, other) if process.stdout is not None)
    killed.kill()
    killed.wait()
    make_wheel(wheels, "0.75.9")
    add_release("0.75.9")
    assert left_behind() == [kept, "ttnn-0.75.9"]
    other.communicate(timeout=60)
    assert left_behind() == ["ttnn-0.75.9"]


def test_a_card_runs_the_installed_release_only(tmp_path):
    card = DeviceChoice(DeviceMode.SILICON, "n150", "")
    with pytest.raises(DeviceUnavailable, match="is not installed, and other releases run on --device virtual only"):
        environment_for(card, tmp_path, {}, release=Release("0.75.0", tmp_path))
    assert environment_for(card, tmp_path, {}, release=Release("0.75.0", tmp_path, installed=True))


# Verdicts -------------------------------------------------------------------------------------------------------------------

pools = pytest.mark.virtual_device

UNTILIZE = {"op": "to_layout", "inputs": [[4, 4884480]], "attrs": {"layout": "row_major"}}
POOL = {
    "op": "max_pool2d",
    "inputs": [[6, 64, 464, 800]],
    "attrs": {"kernel_size": [3, 3], "stride": [2, 2], "padding": [1, 1]},
    "layout": "row_major",
    "l1_small_size": 65536,
}
ADD = {"op": "add", "inputs": [[1, 64, 640, 400]] * 2, "memory": "l1", "channels_last": True}


@pytest.fixture(scope="module", params=["0.66.0", "0.75.0", "installed"])
def pool(request) -> Iterator[Pool]:
    """A virtual n150 on this release."""
    version = request.param
    if version == "installed":
        release = installed_release()
    else:
        try:
            release = find_release(version)
        except HarnessError as error:
            pytest.skip(str(error))
    with Pool(choose_device("virtual", "n150"), PoolOptions(release=release)) as opened:
        yield opened


def probe(pool: Pool, case: dict[str, object]) -> Record:
    record = pool.submit(case_from_json(case)).result()
    assert record.ttnn == pool.facts.ttnn == pool.options.release.version
    return record


@pools
def test_a_row_of_152640_tiles_overflows_the_program_of_0_66_0_alone(pool):
    """The last core untilizes its share of one tile row, through program buffers as long as the share."""
    verdict = probe(pool, UNTILIZE).verdict
    if pool.facts.ttnn != "0.66.0":
        assert verdict.status is Status.FITS
        return
    assert (verdict.status, verdict.resource) == (Status.OOM, Resource.CIRCULAR_BUFFER)
    assert (verdict.program_bytes, verdict.limit_bytes, verdict.cores) == (9_991_296, 1_499_136, "7-6..7-6")
    assert verdict.program_bytes - pool.facts.l1_base_bytes == 9_887_744


@pools
def test_a_pool_from_dram_goes_through_l1_in_0_66_0_alone(pool):
    verdict = probe(pool, POOL).verdict
    if pool.facts.ttnn != "0.66.0":
        assert verdict.status is Status.FITS
        return
    assert (verdict.status, verdict.resource) == (Status.OOM, Resource.L1_BUFFER)
    assert (verdict.total_bytes, verdict.banks) == (6 * 464 * 800 * 64 * 2, 64)
    assert (verdict.bytes_per_bank, verdict.bank_bytes) == (4_454_400, 1_395_584 - 65_536)


@pools
def test_the_banks_are_the_releases_own(pool):
    """Two operands of 532,480 B per bank leave less than a third needs; the bank's size differs by release."""
    verdict = probe(pool, ADD).verdict
    bank_bytes = {"0.66.0": 1_395_584, "0.75.0": 1_393_600, "0.81.1": 1_393_312}[pool.facts.ttnn]
    assert (verdict.status, verdict.resource, verdict.stage) == (Status.OOM, Resource.L1_BUFFER, "output")
    assert (verdict.bank_bytes, verdict.free_bytes) == (bank_bytes, bank_bytes - 2 * 532_480)
    assert pool.facts.opened_board.l1.bank_bytes == bank_bytes
    assert pool.facts.l1_base_bytes + bank_bytes == 1_499_136


@pools
def test_peaks_are_reported_or_why_not(pool):
    record = probe(pool, {"op": "relu", "inputs": [[1, 1, 64, 64]], "memory": "l1"})
    assert record.status is Status.FITS
    if pool.facts.ttnn == "0.66.0":
        assert (record.usage, record.usage_note) == (None, "graphs of ttnn 0.66.0 have no bytes per bank")
    else:
        assert record.usage is not None
        assert record.usage.l1_bytes == 2 * 2048  # four tiles over 64 banks, and as many of the result


@pools
def test_group_norm_gets_its_grid_where_the_release_determines_none(pool):
    call = {"op": "group_norm", "inputs": [[1, 320, 64, 64], [320], [320]], "attrs": {"group": 32}}
    assert probe(pool, call).status is Status.FITS


@pools
def test_a_size_that_stays_is_not_a_huge_one(pool):
    """Up to 0.75 TTNN takes -1 for 2**32 - 1 where the call adds a dim, and runs out of memory; it cannot add one at all."""
    verdict = probe(pool, {"op": "expand", "inputs": [[2, 64, 96]], "attrs": {"size": [2, -1, -1, -1]}, "memory": "l1"}).verdict
    if pool.facts.ttnn in ("0.66.0", "0.75.0"):
        assert (verdict.status, verdict.message) == (Status.ERROR, "Only size 1 dimensions can be expanded in the output shape")
    else:
        assert verdict.status is Status.FITS


@dataclass(frozen=True)
class CallOfNothing(Task[str | None]):
    """Returns the report of a function that TTNN does not have."""

    def run(self, session: Session, options: PoolOptions) -> str | None:
        try:
            session.ttnn.operations.nothing()
        except AttributeError as error:
            return session.missing_function(error)
        return None

    def lost(self, verdict: Verdict, facts: DeviceFacts) -> str | None:
        return verdict.message


@pools
def test_a_function_that_a_release_lacks_is_named(pool):
    assert pool.run(CallOfNothing()).result() == f"ttnn {pool.facts.ttnn} has no ttnn.operations.nothing"


@pools
def test_the_command_runs_the_release(pool, tmp_path):
    version = pool.facts.ttnn
    cases, records = tmp_path / "cases.jsonl", tmp_path / "records.jsonl"
    cases.write_text(json.dumps(ADD) + "\n")
    done = program("probe", "--from", str(cases), "-o", str(records), "--ttnn", version, "--device", "virtual")
    assert done.returncode == 0, done.stderr
    record = json.loads(records.read_text())
    assert record["ttnn"] == version
    assert record["estimate"]["bank_bytes"] == record["bank_bytes"] == pool.facts.l1.bank_bytes
