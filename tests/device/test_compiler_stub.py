"""The stand-in compiler behaves as TT-Metalium expects, and it links a well-formed ELF."""

import struct
import subprocess

import pytest

from ssinghal.device.compiler_stub import minimal_elf, sfpi_version, write_standin


@pytest.fixture
def package(tmp_path):
    folder = tmp_path / "ttnn package"
    (folder / "tt_metal").mkdir(parents=True)
    (folder / "tt_metal" / "sfpi-version").write_text("# facts\nsfpi_version='7.60.0'\nsfpi_build='1234'\nsfpi_repo='x'\n")
    return folder


@pytest.fixture
def compiler(tmp_path, package):
    write_standin(tmp_path / "a root" / "sfpi", package)
    return tmp_path / "a root" / "sfpi" / "compiler" / "bin" / "riscv-tt-elf-g++"


def run(compiler, *arguments, cwd=None):
    return subprocess.run([compiler, *arguments], capture_output=True, text=True, timeout=30, cwd=cwd, check=True).stdout


def test_version_is_that_of_the_wheels_own_compiler(compiler):
    assert run(compiler, "--version") == "riscv-tt-elf-g++ (tenstorrent/sfpi:7.60.0[1234]) 15.1.0\n"


def test_a_wheel_without_a_compiler_version(tmp_path):
    assert sfpi_version(tmp_path) == "[]"


def test_compiling_writes_an_object_and_its_dependencies(compiler, tmp_path):
    run(compiler, "-O2", "-MF", "k.d", "-c", "-o", "k.o", "k.cc", cwd=tmp_path)
    assert (tmp_path / "k.o").read_bytes() == b""
    assert (tmp_path / "k.d").read_text() == "k.o:\n"


def test_linking_writes_the_executable(compiler, tmp_path):
    run(compiler, "-Wl,-T,x.ld", "a.o", "b.o", "-o", "k.elf", cwd=tmp_path)
    assert (tmp_path / "k.elf").read_bytes() == minimal_elf()


def test_elf_is_a_loadable_riscv_executable():
    elf = minimal_elf()
    kind, machine, _, entry, segments_at, sections_at, _, _, _, segments, section_bytes, sections, names_index = (
        struct.unpack_from("<HHIIIIIHHHHHH", elf, 16)
    )
    assert elf[:7] == b"\x7fELF\x01\x01\x01"  # 32-bit, little endian
    assert (kind, machine, segments) == (2, 243, 1)  # ET_EXEC, EM_RISCV
    load, offset, address, _, file_bytes, memory_bytes, flags, _ = struct.unpack_from("<8I", elf, segments_at)
    assert (load, address, file_bytes, memory_bytes, flags) == (1, entry, 16, 16, 5)  # PT_LOAD, readable and executable
    assert elf[offset : offset + 4] == bytes.fromhex("67800000")  # ret
    headers = [struct.unpack_from("<10I", elf, sections_at + i * section_bytes) for i in range(sections)]
    assert sections_at + sections * section_bytes == len(elf)
    names_at = headers[names_index][4]
    names = [elf[names_at + h[0] : elf.index(b"\0", names_at + h[0])] for h in headers]
    assert names == [b"", b".text", b".rela.text", b".symtab", b".strtab", b".shstrtab"]
    relocations = headers[2]
    assert (relocations[5], relocations[6], relocations[7]) == (0, 3, 1)  # empty, symbols in section 3, applies to .text
    assert headers[3][5] == 2 * 16  # the null symbol and the section symbol
