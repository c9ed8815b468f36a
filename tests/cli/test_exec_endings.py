"""Which memory failures ``ssinghal exec`` reports: those that end the program, a test of it or a process that it starts."""

from __future__ import annotations

import pytest

from tests.cli.test_exec_report import BANK_BYTES, NOTICE, OPENED, TILE_BYTES, executed, report

pytestmark = pytest.mark.virtual_device

HANDLED = """
import gc
for tiles in (1000, 700, 600):
    try:
        kept = tensor(tiles)
    except RuntimeError:
        continue
print(held())
del kept
gc.collect()
print(held())
"""


def test_what_a_program_handles_is_a_note(tmp_path):
    done = executed(tmp_path, OPENED + HANDLED)
    assert done.returncode == 0
    assert done.stderr.startswith(NOTICE)
    assert done.stdout.split() == [str(600 * TILE_BYTES), "0"]
    lines = report(done.stderr)
    assert lines[0] == "the program went on after 2 calls that ran out of memory:"
    assert [line for line in lines if "ran out of memory: " in line] == [
        f"ttnn.empty ran out of memory: L1 bank needs {tiles * TILE_BYTES:,} B, {BANK_BYTES:,} B free" for tiles in (1000, 700)
    ]
    assert f"  the call of ttnn.empty: ssinghal probe place 32,{64 * 32 * 700} --memory l1" in lines
    assert not any("makes the call fit" in line for line in lines)
    done = executed(tmp_path, OPENED + HANDLED + "sys.exit(3)\n")
    assert done.returncode == 3
    assert report(done.stderr)[0] == "the program went on after 2 calls that ran out of memory, and ended with exit code 3:"


@pytest.mark.parametrize("ending", ["sys.exit(4)", "raise ValueError('no room') from None"])
def test_a_program_that_ends_while_it_handles_one_is(tmp_path, ending):
    source = f"try:\n    tensor(1000)\nexcept RuntimeError as error:\n    {ending}\n"
    done = executed(tmp_path, OPENED + HANDLED + source)
    assert done.returncode in (4, 1)
    lines = report(done.stderr)
    assert lines[0].startswith(f"ttnn.empty ran out of memory: L1 bank needs {1000 * TILE_BYTES:,} B")
    assert sum("ran out of memory" in line for line in lines) == 1


TESTS = """
import pytest
def test_expected():
    with pytest.raises(RuntimeError):
        tensor(1000)
@pytest.mark.xfail
def test_known():
    tensor(1001)
@pytest.mark.parametrize("tiles", [300, 400])
def test_sum(tiles):
    a = tensor(tiles)
    ttnn.add(a, a, memory_config=ttnn.L1_MEMORY_CONFIG)
def test_other():
    assert held() == 1
"""


def test_tests_that_fail_by_it_are_reported_with_their_names(tmp_path):
    command = ("pytest", "-q", "-p", "no:cacheprovider", "program.py")
    done = executed(tmp_path, OPENED + TESTS, command=command)
    assert done.returncode == 1
    assert "2 failed, 2 passed, 1 xfailed" in done.stdout
    heads = [line for line in report(done.stderr) if "ran out of memory" in line]
    free = BANK_BYTES - 400 * TILE_BYTES
    need = f"L1 bank needs {400 * TILE_BYTES:,} B, {free:,} B free"
    assert heads == [f"ttnn.add ran out of memory: {need} in test program.py::test_sum[400]"]


def test_a_process_that_the_program_starts(tmp_path):
    source = "import multiprocessing\ndef work():\n" + "".join(
        f"    {line}\n" for line in (OPENED + "tensor(1000)").split("\n")
    )
    source += "process = multiprocessing.get_context('fork').Process(target=work)\nprocess.start()\nprocess.join()\n"
    done = executed(tmp_path, source + "assert process.exitcode == 0\n")
    assert done.returncode == 1
    assert any(line.startswith("ttnn.empty ran out of memory: L1 bank needs 2,048,000 B") for line in report(done.stderr))


def test_without_a_report_of_what_is_raised_the_exception_that_ends_it_is_described(tmp_path):
    """As before Python 3.12. Where the device is closed by then, what was resident is not known."""
    taken = "import sys\nfor tool in (3, 4):\n    sys.monitoring.use_tool_id(tool, 'another')\n"
    body = "    keep = tensor(600)\n    ttnn.add(keep, keep)\n"
    done = executed(tmp_path, f"{taken}{OPENED}def run():\n{body}run()\n")
    lines = report(done.stderr)
    assert lines[0].startswith(f"ttnn.add ran out of memory: L1 bank needs {600 * TILE_BYTES:,} B")
    assert lines[3].startswith("  resident then, L1 per core: 1.172 MiB (1,228,800 B) in 1 buffer")
    done = executed(tmp_path, f"{taken}{OPENED}try:\n{body}finally:\n    ttnn.close_device(device)\n")
    lines = report(done.stderr)
    assert [lines[0], len(lines)] == [f"ttnn.add ran out of memory: L1 bank needs {600 * TILE_BYTES:,} B, 164,512 B free", 2]
    assert lines[1].endswith("(<module>): ttnn.add(keep, keep)")
