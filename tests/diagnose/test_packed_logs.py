"""Logs and modules as archives, and those that cannot be read."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest

from ssinghal import api
from ssinghal.core import unpacked as module
from ssinghal.core.files import open_file
from ssinghal.core.unpacked import unpacked
from ssinghal.errors import HarnessError, InvalidCase

NEED, FREE = 532_480, 328_352
LOG = (
    f"Out of Memory: Not enough space to allocate {64 * NEED} B L1 buffer across 64 banks, where each bank "
    f"needs to store {NEED} B, but bank size is 1393312 B "
    f"(allocated: 1064960 B, free: {FREE} B, largest free block: {FREE} B)\n"
).encode()
PACKED = gzip.compress(LOG)


def zipped() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("failure.log", LOG)
    return file.getvalue()


OTHERS = {
    "zstd": b"\x28\xb5\x2f\xfd\x20\x04\x21\x00\x00" + b"Text" + bytes(4),
    "xz": lzma.compress(LOG),
    "bzip2": bz2.compress(LOG),
    "zip": zipped(),
    "7z": b"7z\xbc\xaf\x27\x1c\x00\x04" + bytes(24),
}


def diagnosed(folder: Path, *words: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "ssinghal", "diagnose", "--no-replay", *words]
    return subprocess.run(command, cwd=folder, input=given, capture_output=True, timeout=300)


def failures(path: Path) -> list[int]:
    """Their lines."""
    return [one.failure.line for one in api.diagnose_log(path, replay=False)]


@pytest.mark.parametrize("way", ["file", "standard input"])
def test_a_packed_log_is_read_as_its_text(way, tmp_path):
    (tmp_path / "failure.log.gz").write_bytes(PACKED)
    done = diagnosed(tmp_path, "failure.log.gz") if way == "file" else diagnosed(tmp_path, "-", given=PACKED)
    assert done.returncode == 1, done.stderr
    assert f"needs {NEED:,} B, {FREE:,} B free" in done.stdout.decode()
    assert b"NUL" not in done.stdout


def test_a_log_is_unpacked_from_a_pipe_whose_writer_writes_byte_by_byte(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def write() -> None:
        with pipe.open("wb", buffering=0) as file:
            for byte in PACKED:
                file.write(bytes([byte]))

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    assert failures(pipe) == [1]
    writer.join(10)


def test_archives_that_follow_one_another_are_one_log(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"first\n") + PACKED)
    assert failures(path) == [2]


@pytest.mark.parametrize("size", [0, 1, 5, 6, 7, 8_191, 8_192, 3_000_000])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_every_byte_comes_once(pack, size):
    text = bytes(32 + n % 90 for n in range(size))
    assert unpacked(io.BytesIO(pack(text)), "a").read() == text


@pytest.mark.parametrize("form", OTHERS)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_another_archive_is_named(form, pack, tmp_path):
    path = tmp_path / "failure.log"
    path.write_bytes(pack(OTHERS[form]))
    with pytest.raises(InvalidCase, match=rf"^{path}: is packed by {form}: .*unpack it first$"):
        failures(path)


def test_an_archive_in_an_archive_is_named():
    with pytest.raises(InvalidCase, match=r"^a: is a gzip archive in another one: unpack it first$"):
        unpacked(io.BytesIO(gzip.compress(PACKED)), "a")


def test_another_archive_is_one_line_of_the_command(tmp_path):
    done = diagnosed(tmp_path, "-", given=OTHERS["xz"])
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.splitlines() == [
        b"ssinghal: -: is packed by xz: expected a text, or a gzip archive of one: unpack it first"
    ]


@pytest.mark.parametrize(
    "data",
    [PACKED[:-12], PACKED[:3], PACKED[:20] + b"\xff" * 20 + PACKED[40:], PACKED[:-8] + bytes(8), PACKED + b"text"],
    ids=["cut off", "header alone", "damaged", "another checksum", "followed by text"],
)
def test_a_damaged_archive_is_one_line(data, tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(data)
    with pytest.raises(HarnessError, match=rf"^{path}: is a damaged archive: .+$"):
        failures(path)


def test_what_comes_out_of_an_archive_is_bounded(monkeypatch):
    monkeypatch.setattr(module, "FREE_BYTES", 1_000_000)
    monkeypatch.setattr(module, "MAX_RATIO", 250)
    full = unpacked(io.BytesIO(gzip.compress(bytes(8_000_000))), "a")  # gzip makes about 1/1,030 of zeros
    with pytest.raises(InvalidCase, match=r"^a: unpacks to more than 1,000,000 B and 250 times its size"):
        list(iter(lambda: full.read(1 << 16), b""))
    mixed = os.urandom(80_000) + bytes(8_000_000)  # about 100 times its size
    assert unpacked(io.BytesIO(gzip.compress(mixed)), "a").read() == mixed


@pytest.mark.parametrize("option", ["log", "module"])
def test_an_error_while_it_is_read_names_the_file(option, tmp_path):
    """The first page of a process' memory has no content."""
    (tmp_path / "f.log").write_bytes(LOG)
    done = diagnosed(tmp_path, *(["/proc/self/mem"] if option == "log" else ["f.log", "--module", "/proc/self/mem"]))
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"ssinghal: /proc/self/mem: Input/output error\n"


@pytest.mark.parametrize("read", [lambda file: file.read(), lambda file: file.read(9), lambda file: file.readline(9),
                                  lambda file: file.peek(1), list])  # fmt: skip
def test_whatever_reads_an_opened_file_names_it_in_its_error(read):
    with open_file(Path("/proc/self/mem")) as file, pytest.raises(OSError, match="Input/output error") as raised:
        read(file)
    assert raised.value.filename == "/proc/self/mem"
