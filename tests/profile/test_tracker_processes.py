"""Signals, threads and processes: the program sees what it would see without a recording, and the records stay exact."""

from __future__ import annotations

import os
import signal
import sys
import sysconfig

import pytest

from ssinghal.profile.reading import read_profiles
from ssinghal.tracker.interrupts import HeldSignals
from tests.profile.measure import run_ssinghal

TILE_ROW = 2_048  # a row of tiles over 64 columns of tiles has one bfloat16 tile of 2,048 B in each of 64 banks
PROLOGUE = """
import os, signal, sys, ttnn
def opened():
    return ttnn.open_device(device_id=0)
def tensor(device, rows=1):
    return ttnn.empty([32 * rows, 2048], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device,
                      memory_config=ttnn.L1_MEMORY_CONFIG)
"""


def profiled(tmp_path, source, *command, **variables):
    (tmp_path / "program.py").write_text(PROLOGUE + source)
    return run_ssinghal(tmp_path, "profile", "-o", "out", "--", *(command or (sys.executable, "program.py")), **variables)


INTERRUPTS = """
import random, threading, time
SIGNALS = (signal.SIGINT, signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP)
device = opened()
x = tensor(device)
armed, ended, random = False, False, random.Random(1)
raised = dict.fromkeys(SIGNALS, 0)
class Late(Exception): pass
def handler(number, frame):
    global armed
    if armed:
        armed = False
        raised[number] += 1
        raise KeyboardInterrupt if number in (signal.SIGINT, signal.SIGUSR1) else Late
for number in SIGNALS:
    signal.signal(number, handler)
def send():
    while not ended:
        os.kill(os.getpid(), random.choice(SIGNALS))
        time.sleep(random.random() / 500)
sender = threading.Thread(target=send)
sender.start()
seen = {KeyboardInterrupt: 0, Late: 0}
while sum(seen.values()) < 500:
    try:
        armed = True
        while True:
            y = ttnn.relu(x)
    except (KeyboardInterrupt, Late) as error:
        seen[type(error)] += 1
ended = True
sender.join()
assert sum(seen.values()) == sum(raised.values()) == 500 and min(raised.values()) > 10, (seen, raised)
assert all(signal.getsignal(number) is handler for number in SIGNALS)
del y
z = ttnn.relu(x)
ttnn.close_device(device)
print("end")
"""


@pytest.mark.virtual_device
def test_interrupts_at_any_time(tmp_path):
    done = profiled(tmp_path, INTERRUPTS)
    assert (done.stdout, done.returncode) == ("end\n", 0), done.stderr[-2000:]
    (one,) = read_profiles(tmp_path / "out")
    assert (one.differences, one.unknown_frees, one.lost, one.ended) == ([], 0, "", True)
    assert one.raised > 50, "within calls; the others came between them"
    assert [call.name for call in one.calls[1:]] == ["ttnn.relu"] * (len(one.calls) - 1)


@pytest.mark.virtual_device
@pytest.mark.parametrize("end", [256, 1024])
def test_a_program_that_closes_inherited_descriptors_is_recorded_to_its_end(tmp_path, end):
    """As a daemon does. What it opens afterwards has the lowest descriptors, and nothing of the recording in it.

    The pipes and event queues that Open MPI's threads wait on stay open: without them TTNN itself may wait forever
    ("epoll_wait: Invalid argument"), with a recording or without.
    """
    source = f"""
def of_threads(descriptor):
    return os.readlink(f"/proc/self/fd/{{descriptor}}").startswith(("anon_inode:", "pipe:", "socket:"))
device = opened()
x = tensor(device, 3)
for descriptor in range(3, {end}):
    if os.path.lexists(f"/proc/self/fd/{{descriptor}}") and not of_threads(descriptor): os.close(descriptor)
files = [open(f"own{{n}}.txt", "w") for n in range(8)]
y = ttnn.relu(x)
for file in files: print("mine", file=file, flush=True)
z = ttnn.relu(y)
ttnn.close_device(device)
"""
    done = profiled(tmp_path, source)
    assert done.returncode == 0, done.stderr[-2000:]
    assert {path.read_text() for path in tmp_path.glob("own*.txt")} == {"mine\n"}
    (one,) = read_profiles(tmp_path / "out")
    assert [call.name for call in one.calls] == ["ttnn.empty", "ttnn.relu", "ttnn.relu"]
    assert (one.differences, one.lost, one.ended) == ([], "", True)


@pytest.mark.virtual_device
def test_ctrl_c_ends_the_program_as_without_a_recording(tmp_path):
    source = """
device = opened()
x = tensor(device, 3)
import threading
threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    while True: ttnn.relu(x)
finally:
    print("cleaned up")
"""
    done = profiled(tmp_path, source)
    assert done.stdout == "cleaned up\n"
    assert done.returncode == 128 + signal.SIGINT
    (one,) = read_profiles(tmp_path / "out")
    assert (one.differences, one.lost) == ([], "")


def test_held_signals_reach_their_handlers_afterwards():
    came = []
    before = signal.signal(signal.SIGALRM, lambda number, frame: came.append(number))
    try:
        handler, held = signal.getsignal(signal.SIGALRM), HeldSignals()
        with held.held():
            held.hold()
            os.kill(os.getpid(), signal.SIGALRM)
            assert came == []
        assert (came, signal.getsignal(signal.SIGALRM)) == ([signal.SIGALRM], handler)
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.virtual_device
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_each_process_that_opens_a_device_has_its_records(tmp_path, method):
    source = f"""
import multiprocessing
def work(rows):
    device = opened()
    x = tensor(device, rows)
    y = ttnn.relu(x)
    ttnn.close_device(device)
if __name__ == "__main__":
    context = multiprocessing.get_context("{method}")
    for rows in (1, 2):
        child = context.Process(target=work, args=(rows,))
        child.start(); child.join()
        assert child.exitcode == 0
    print("end")
"""
    done = profiled(tmp_path, source)
    assert (done.stdout, done.returncode) == ("end\n", 0), done.stderr[-2000:]
    peaks = sorted(one.peaks["l1"].bank_bytes for one in read_profiles(tmp_path / "out"))
    assert peaks == [2 * TILE_ROW, 4 * TILE_ROW]


@pytest.mark.virtual_device
def test_a_fork_while_a_device_is_open_leaves_the_records_alone(tmp_path):
    source = """
device = opened()
x = tensor(device)
child = os.fork()
if not child:
    ttnn.Tensor([1.0], [1], ttnn.float32, ttnn.ROW_MAJOR_LAYOUT).reshape([1, 1])
    os._exit(3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
y = ttnn.relu(x)
ttnn.close_device(device)
print("end")
"""
    done = profiled(tmp_path, source)
    assert (done.stdout, done.returncode) == ("end\n", 0), done.stderr[-2000:]
    (one,) = read_profiles(tmp_path / "out")
    assert ([call.name for call in one.calls], one.differences, one.ended) == (["ttnn.empty", "ttnn.relu"], [], True)


OWN_DEVICE = "device = opened()\nx = tensor(device)\nprint('end')\n"


@pytest.mark.virtual_device
@pytest.mark.parametrize("option", ["-S", "-I", "-E"])
def test_python_that_is_not_followed_is_named(tmp_path, option):
    """Without the module site there is no sitecustomize, and with -I or -E no PYTHONPATH; the program runs as it would."""
    packages = f"import sys\nsys.path.append({sysconfig.get_paths()['purelib']!r})\n"
    done = profiled(tmp_path, "", sys.executable, option, "-c", packages + PROLOGUE + OWN_DEVICE)
    assert (done.stdout, done.returncode) == ("end\n", 0), done.stderr[-2000:]
    assert "nothing was recorded" in done.stderr
    assert "-I, -E or -S" in done.stderr


@pytest.mark.virtual_device
def test_children_without_the_python_path_are_not_followed_and_their_parent_is(tmp_path):
    source = """
import subprocess
device = opened()
x = tensor(device)
environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
code = "import sys; assert 'ssinghal.tracker.start' not in sys.modules; import ttnn; print('child')"
print(subprocess.run([sys.executable, "-c", code], env=environ, check=True, capture_output=True, text=True).stdout, end="")
y = ttnn.relu(x)
ttnn.close_device(device)
"""
    done = profiled(tmp_path, source)
    assert (done.stdout, done.returncode) == ("child\n", 0), done.stderr[-2000:]
    (one,) = read_profiles(tmp_path / "out")
    assert (len(one.calls), one.differences) == (2, [])


SUITE = (
    PROLOGUE
    + """
import pytest
@pytest.fixture(scope="module")
def device():
    device = opened()
    yield device
    ttnn.close_device(device)
@pytest.fixture(scope="module")
def weights(device):
    return tensor(device, 10)
def test_small(device, weights):
    x = tensor(device, 1)
    y = ttnn.relu(x)
def test_large(device, weights):
    x = tensor(device, 5)
    del x
    y = tensor(device, 7)
    z = ttnn.relu(y)
"""
)


@pytest.mark.virtual_device
def test_each_test_of_a_suite_is_a_part_with_its_peak(tmp_path):
    """Its weights are made in the first test's set-up and stay; what a body made is freed when it returns."""
    (tmp_path / "test_it.py").write_text(SUITE)
    done = profiled(tmp_path, "", sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py")
    assert done.returncode == 0, done.stdout
    (one,) = read_profiles(tmp_path / "out")
    peaks = {}
    for span in one.spans:
        name = span.name.rpartition("::")[2]
        peaks[name] = max(peaks.get(name, 0), span.peaks["l1"].bank_bytes if "l1" in span.peaks else 0)
    assert peaks == {"test_small": 12 * TILE_ROW, "test_large": (10 + 7 + 7) * TILE_ROW}
    assert one.differences == []
