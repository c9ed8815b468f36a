"""Runs on the workers of a Dask scheduler: each is checked first, and a scheduler that is gone is one line."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from importlib.metadata import version
from itertools import cycle
from pathlib import Path

import pytest

import ssinghal
from ssinghal.core.code_digest import code_digest
from ssinghal.core.device_facts import DeviceFacts
from ssinghal.core.tensors import MemoryRegion
from ssinghal.core.verdict import Status
from ssinghal.errors import HarnessError
from ssinghal.runner.cluster.checks import device_differences, differences, environment
from ssinghal.runner.cluster.link import CONNECT_S, connected
from tests.support.cluster_runs import answers, cases, prober_on
from tests.support.processes import catalog_text, read_lines, wait_for

CATALOG = catalog_text({"relu": [{"shape": [1, 32, 64]}]})
Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start(tmp_path) -> Iterator[Start]:
    """Starts a process of Dask: ``start("scheduler", …)``; all end with the test."""
    with ExitStack() as stack:

        def started(*words: str, code: Path | None = None) -> subprocess.Popen[bytes]:
            environ = {**os.environ, **({"PYTHONPATH": os.pathsep.join([str(code), *sys.path])} if code else {})}
            log = stack.enter_context(open(tmp_path / f"{words[0]}.log", "ab"))
            command = [sys.executable, "-m", "distributed.cli.dask_" + words[0], *words[1:]]
            process = subprocess.Popen(command, cwd=tmp_path, env=environ, stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.send_signal, signal.SIGKILL)
            return process

        yield started


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def scheduler(start: Start) -> tuple[subprocess.Popen[bytes], str]:
    port = free_port()
    return start("scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"), f"tcp://127.0.0.1:{port}"


def worker(start: Start, address: str, code: Path | None = None) -> subprocess.Popen[bytes]:
    return start("worker", address, "--no-nanny", "--nthreads", "1", "--no-dashboard", code=code)


def changed_code(folder: Path) -> Path:
    """A copy of the package in which a line of the runner differs."""
    package = Path(ssinghal.__file__).parent
    shutil.copytree(package, folder / "code" / "ssinghal", ignore=shutil.ignore_patterns("__pycache__", "shapes"))
    with open(folder / "code" / "ssinghal" / "runner" / "probe.py", "a") as probe:
        probe.write("# another version\n")
    return folder / "code"


@pytest.mark.virtual_device
def test_a_worker_with_other_code_gets_no_case(start, tmp_path, run):
    """At the start of a run it is named in one line; joining later, in a note, while the others go on."""
    (tmp_path / "catalog.yaml").write_text(CATALOG)
    code = changed_code(tmp_path)
    _, address = scheduler(start)
    other = worker(start, address, code)
    with connected(address) as link:
        wait_for(lambda: len(link.workers()) == 1, "the first worker")
        (theirs,) = link.workers()
        done = run("run", "catalog.yaml", "--scheduler", address)
        assert (done.code, done.out) == (2, "")
        line = done.err.splitlines()[-1]
        assert line.startswith(f"ssinghal: worker {theirs}: the digest of ssinghal's code is ")
        assert line.endswith(f", expected {code_digest()[:16]}")
        swept = run("sweep", "catalog.yaml", "--scheduler", address)
        assert (swept.code, swept.out) == (2, f"n150, ttnn {version('ttnn')}: {line.removeprefix('ssinghal: ')}\n")
        assert not (tmp_path / "results").exists(), "no run was begun"
        other.kill()

        wait_for(lambda: not link.workers(), "the end of the first worker")
        worker(start, address)
        wait_for(lambda: len(link.workers()) == 1, "a worker with the same code")
        (ours,) = link.workers()
        notes: list[str] = []
        end = time.monotonic() + 60
        with prober_on(link, note=notes.append) as prober:
            worker(start, address, code)
            endless = enumerate(cycle(cases(20)))  # however long the other worker takes to join
            found = dict(prober.answers(endless, lambda: bool(notes) or time.monotonic() > end))
        (joined,) = link.workers() - {ours}
        assert notes[0].startswith(f"not used: worker {joined}: the digest of ssinghal's code is ")
        assert {record.status for record in found.values()} == {Status.FITS}


@pytest.mark.virtual_device
def test_a_scheduler_that_goes_away_ends_the_run(start, tmp_path):
    process, address = scheduler(start)
    worker(start, address)
    with connected(address) as link:
        wait_for(lambda: len(link.workers()) == 1, "the worker")
        with prober_on(link) as prober, pytest.raises(HarnessError, match=f"^the Dask scheduler {address} went away$"):
            answers(prober, cases(2000), after_first=process.kill)


def test_no_scheduler_and_no_worker_are_one_line(start, tmp_path, run):
    (tmp_path / "catalog.yaml").write_text(CATALOG)
    for command in (["run", "catalog.yaml"], ["sweep", "catalog.yaml", "--board", "n150,p150"]):
        done = run(*command, "--scheduler", "tcp://127.0.0.1:1")
        assert (done.code, done.out) == (2, "")
        (line,) = done.err.splitlines()
        assert line.startswith(f"ssinghal: no Dask scheduler at tcp://127.0.0.1:1 within {CONNECT_S:g} s: ")
        assert not (tmp_path / "results").exists()
    _, address = scheduler(start)
    with (
        connected(address) as link,
        pytest.raises(HarnessError, match=f"^the Dask scheduler {address} has no worker; none joined within 1 s$"),
        prober_on(link, wait_s=1.0),
    ):
        pass


# What is no scheduler, or hangs ---------------------------------------------------------------------------------------------


@contextmanager
def stranger(reply: bytes | None) -> Iterator[str]:
    """What takes connections and answers each with the same bytes and its end, or with nothing at all. Yields its address."""
    taken: list[socket.socket] = []

    def serve() -> None:
        with suppress(OSError):
            while True:
                taken.append(listener.accept()[0])
                if reply is not None:
                    taken[-1].sendall(reply)
                    taken[-1].shutdown(socket.SHUT_WR)

    with socket.create_server(("127.0.0.1", 0)) as listener, ExitStack() as stack:
        thread = threading.Thread(target=serve)
        thread.start()
        stack.callback(thread.join)
        stack.callback(listener.shutdown, socket.SHUT_RDWR)
        yield f"tcp://127.0.0.1:{listener.getsockname()[1]}"
    for connection in taken:
        connection.close()


def framed(*frames: bytes) -> bytes:
    """A message as Dask sends it: its bytes, the number of frames, the bytes of each, and the frames."""
    body = b"".join(number.to_bytes(8, "little") for number in (len(frames), *map(len, frames))) + b"".join(frames)
    return len(body).to_bytes(8, "little") + body


NO_DASK = "what listens there does not speak as Dask does"
OTHER_DASK = "Your Dask versions may not be in sync"  # words of Dask


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        pytest.param(None, "no answer", id="silence"),
        pytest.param(b"", "", id="end"),
        pytest.param(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", NO_DASK, id="http"),
        pytest.param((2**62).to_bytes(8, "little"), NO_DASK, id="message-of-2^62-bytes"),
        pytest.param((1).to_bytes(8, "little") + b"x", NO_DASK, id="message-without-frames"),
        pytest.param(framed(b"\x80", b"\x90"), OTHER_DASK, id="greeting-that-is-a-list"),
        pytest.param(framed(b"\x80", b"\x80"), OTHER_DASK, id="greeting-of-nothing"),
        pytest.param(framed(b"\x80", b"\xc1"), OTHER_DASK, id="no-msgpack"),
    ],
)
def test_what_is_no_scheduler_is_one_line(reply, why, run, tmp_path):
    (tmp_path / "catalog.yaml").write_text(CATALOG)
    with stranger(reply) as address:
        done = run("run", "catalog.yaml", "--scheduler", address)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert done.err.startswith(f"ssinghal: no Dask scheduler at {address} within {CONNECT_S:g} s: {why}")


def test_a_program_with_a_loop_of_its_own_may_connect():
    """As a notebook has, or a test beside one of a browser."""

    async def connect() -> str:
        with pytest.raises(HarnessError) as stated, connected("tcp://127.0.0.1:9"):
            pass
        return str(stated.value)

    with ThreadPoolExecutor(1) as thread:  # this one may have a loop
        stated = thread.submit(asyncio.run, connect()).result()
    assert stated == "no Dask scheduler at tcp://127.0.0.1:9 within 5 s: Connection refused"


@pytest.mark.parametrize("dial_s", [1e-6, 1e-3, 0.05])
@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "tls://127.0.0.1:9"])
def test_the_reason_is_the_system_s_when_the_last_attempt_was_cut(dial_s, address, monkeypatch):
    monkeypatch.setattr("ssinghal.runner.cluster.link._DIAL_S", dial_s)
    with pytest.raises(HarnessError) as stated, connected(address):
        pass
    assert str(stated.value) == f"no Dask scheduler at {address} within {CONNECT_S:g} s: Connection refused"


def test_a_worker_is_no_scheduler(start, run, tmp_path):
    (tmp_path / "catalog.yaml").write_text(CATALOG)
    _, address = scheduler(start)
    worker(start, address)
    with connected(address) as link:
        wait_for(lambda: len(link.workers()) == 1, "the worker")
        (theirs,) = link.workers()
    done = run("run", "catalog.yaml", "--scheduler", theirs)
    line = f"ssinghal: no Dask scheduler at {theirs} within {CONNECT_S:g} s: what listens there is a Worker of Dask\n"
    assert (done.code, done.out, done.err) == (2, "", line)


@pytest.mark.virtual_device
def test_a_run_ends_while_a_worker_hangs(start, tmp_path):
    """Its Ctrl-C waits for no worker that does not answer."""
    (tmp_path / "catalog.yaml").write_text(catalog_text({"relu": [{"shape": [1, 32, 32 * n]} for n in range(1, 2001)]}))
    _, address = scheduler(start)
    hung = worker(start, address)
    command = [sys.executable, "-m", "ssinghal", "run", "catalog.yaml", "--scheduler", address]
    process = subprocess.Popen(command, cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))  # fmt: skip
    written = tmp_path / "results" / "latest" / "records.jsonl"
    wait_for(lambda: written.exists() and len(written.read_text().splitlines()) > 10, "first records")
    hung.send_signal(signal.SIGSTOP)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, "Traceback" in err) == (130, False), err
    records = read_lines(written)
    reached = sum(record["status"] != "not_run" for record in records)
    assert (len(records), 10 < reached < 2000) == (2000, True)
    assert f"{reached:,} of 2,000 selected cases were run; interrupted: {2000 - reached:,} of 2,000 cases were not run\n" in out


@pytest.mark.virtual_device
@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("gone", ["scheduler", "workers"])
def test_a_run_whose_cluster_is_gone_shows_what_it_has_and_what_completes_it(gone, as_json, start, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(short_wait(tmp_path)), prepend=os.pathsep)
    (tmp_path / "catalog.yaml").write_text(catalog_text({"relu": [{"shape": [1, 32, 32 * n]} for n in range(1, 2001)]}))
    process, address = scheduler(start)
    only = worker(start, address)
    command = [
        sys.executable,
        "-m",
        "ssinghal",
        "run",
        "catalog.yaml",
        "--scheduler",
        address,
        *(["--json"] if as_json else []),
    ]
    run = subprocess.Popen(command, cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    written = tmp_path / "results" / "latest" / "records.jsonl"
    wait_for(lambda: written.exists() and len(written.read_text().splitlines()) > 10, "first records")
    (process if gone == "scheduler" else only).kill()
    out, err = run.communicate(timeout=120)
    why = (
        f"the Dask scheduler {address} went away"
        if gone == "scheduler"
        else "all workers were lost, and no other joined within 2 s"
    )
    last = err.splitlines()[-1]
    assert (run.returncode, last.startswith(f"ssinghal: {why}"), "Traceback" in err) == (2, True, False), err
    left = sum(record["status"] == "not_run" for record in read_lines(written))
    name = written.parent.resolve().name
    if as_json:
        found = json.loads(out)
        assert (found["run"], found["selected"], found["unreached"]) == (name, 2000, left)
        return
    lines = out.splitlines()
    interruption = f"interrupted: {left:,} of 2,000 cases were not run"
    assert lines[0] == f"run {name}: {2000 - left:,} of 2,000 selected cases were run; {interruption}"
    assert f"complete it with: ssinghal run --resume results/{name}" in lines
    assert lines[-1] == f"records: results/{name}/records.jsonl"


def short_wait(folder: Path) -> Path:
    """A folder for sys.path, by which commands wait two seconds for a worker."""
    (folder / "site").mkdir()
    change = "from ssinghal.runner.cluster.opening import Cluster\nCluster.__init__.__defaults__ = ('', 0, 2.0, str)\n"
    (folder / "site" / "sitecustomize.py").write_text(change)
    return folder / "site"


@pytest.mark.parametrize("command", ["run", "sweep"])
def test_a_scheduler_without_a_worker_is_a_line_at_once(command, start, tmp_path):
    (tmp_path / "catalog.yaml").write_text(CATALOG)
    _, address = scheduler(start)
    with connected(address):  # it is there
        pass
    arguments = [sys.executable, "-m", "ssinghal", command, "catalog.yaml", "--scheduler", address]
    began = time.monotonic()
    waiting = subprocess.Popen(arguments, cwd=tmp_path, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))  # fmt: skip
    assert waiting.stderr is not None
    line = f"the Dask scheduler {address} has no worker yet: waiting for one, up to 30 s\n"
    assert line in iter(waiting.stderr.readline, "")
    assert time.monotonic() - began < 25, "before the 30 s are over"
    waiting.send_signal(signal.SIGINT)
    waiting.communicate(timeout=60)
    assert waiting.returncode == 130


# Options --------------------------------------------------------------------------------------------------------------------


ADDRESS = "expected the address of a Dask scheduler, like tcp://host:8786 or tls://host:8786"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--scheduler", "tcp://h:1", "--cluster", "local"], "--scheduler and --cluster both name a cluster: give one of them"),
        (
            ["--scheduler", "h:1"],
            "--scheduler 'h:1': expected the address of a Dask scheduler, like tcp://host:8786 or tls://host:8786",
        ),
        (["--scheduler", "tcp://h:0"], "--scheduler 'tcp://h:0': 0 is not a port, from 1 to 65535; " + ADDRESS),
        (["--scheduler", "tls://h:99999"], "--scheduler 'tls://h:99999': 99999 is not a port, from 1 to 65535; " + ADDRESS),
        *[
            (["--scheduler", f"{kind}://h:9"], f"--scheduler '{kind}://h:9': {ADDRESS}")
            for kind in ("ucx", "ucxx", "ws", "wss")
        ],
        (
            ["--scheduler", "tcp://h"],
            "--scheduler 'tcp://h': expected the address of a Dask scheduler, like tcp://host:8786 or tls://host:8786",
        ),
        (
            ["--scheduler", "tcp://h:1", "--workers", "2"],
            "--workers counts processes of this machine: a scheduler has its own workers",
        ),
        (["--cluster", "remote"], "--cluster 'remote': expected local, or local:N with N from 1 to 64"),
        (["--cluster", "local:"], "--cluster 'local:': expected local, or local:N with N from 1 to 64"),
        (["--cluster", "local:0"], "--cluster 'local:0': expected local, or local:N with N from 1 to 64"),
        (["--cluster", "local:65"], "--cluster 'local:65': expected local, or local:N with N from 1 to 64"),
        (["--cluster", "local:4", "--workers", "2"], "--cluster local:4 and --workers 2 differ: give one of them"),
    ],
)
def test_options_that_name_no_cluster(run, arguments, message):
    assert run("run", "mochi", *arguments) == (2, "", f"ssinghal: {message}\n")


@pytest.mark.parametrize("arguments", [["--cluster", "local"], ["--scheduler", "tcp://127.0.0.1:1"]])
def test_without_dask_the_extra_is_named(run, monkeypatch, arguments):
    monkeypatch.setattr("ssinghal.runner.cluster.opening.find_spec", lambda name: None)
    message = "a Dask cluster needs the package distributed; install it with: pip install 'ssinghal[cluster]'"
    assert run("run", "mochi", *arguments) == (2, "", f"ssinghal: {message}\n")


# Checks ---------------------------------------------------------------------------------------------------------------------


def test_what_differs_in_an_environment():
    here = environment("", torch=False)
    assert differences(here, here) == ""
    assert here["Python"] == f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert differences(here | {"Python": "3.9", "ttnn": "0.1"}, here | {"Python": "3.12", "ttnn": "0.2"}) == (
        "Python is 3.9, expected 3.12; ttnn is 0.1, expected 0.2"
    )
    assert differences({}, {"torch": "2.7"}) == "torch is unknown, expected 2.7"


def test_a_release_that_was_not_added_is_missing():
    assert environment("0.99.0", torch=False)["ttnn"].startswith("missing (ttnn 0.99.0 is not here; add it with: ")


def test_what_differs_in_opened_devices():
    facts = DeviceFacts(board="n150", ttnn="0.81.1", l1=MemoryRegion(64, 1000, 16), reason="one")
    assert device_differences(facts, facts) == ""
    other = DeviceFacts(board="n150", ttnn="0.81.1", l1=MemoryRegion(64, 1000, 16), reason="another")
    assert device_differences(facts, other) == "", "the reason of the choice is no fact of the device"
    smaller = DeviceFacts(board="p150", ttnn="0.81.1", l1=MemoryRegion(64, 1000, 16))
    assert device_differences(smaller, facts) == "the device's board is p150, expected n150"
