"""Writes a stand-in for the SFPI kernel compiler, which the ttnn wheel lacks.

On a virtual device nothing that it emits is ever executed, but TT-Metalium compiles kernels before it allocates their program
buffers. The stand-in must answer ``--version`` like the wheel's own compiler (the answer is hashed into the build key, which
finds the wheel's precompiled firmware), write a dependency file for ``-MF``, and give a loadable ELF for every link.
"""

from __future__ import annotations

import os
import re
import struct
from pathlib import Path

_SCRIPT = """#!/bin/sh
# Compiles nothing: only a virtual Tenstorrent device may use what this writes.
out= deps= object=
while [ $# -gt 0 ]; do
  case "$1" in
    --version) echo "riscv-tt-elf-g++ (tenstorrent/sfpi:{version}) 15.1.0"; exit 0 ;;
    -o) out=$2; shift ;;
    -MF) deps=$2; shift ;;
    -c | c++-header) object=1 ;;
  esac
  shift
done
[ -z "$deps" ] || echo "$out:" > "$deps"
if [ -n "$object" ]; then : > "$out"; else printf '{elf}' > "$out"; fi
"""
COMPILER = Path("compiler", "bin", "riscv-tt-elf-g++")


def write_standin(folder: Path, ttnn_package: Path) -> None:
    """Writes the compiler under ``folder`` = ``<root>/runtime/sfpi``."""
    compiler = folder / COMPILER
    compiler.parent.mkdir(parents=True)
    compiler.write_text(_script(ttnn_package))
    compiler.chmod(0o755)


def is_standin(folder: Path, ttnn_package: Path) -> bool:
    """Returns whether ``folder`` has the compiler that ``write_standin`` writes, and it is executable."""
    compiler = folder / COMPILER
    return os.access(compiler, os.X_OK) and compiler.read_bytes() == _script(ttnn_package).encode()


def _script(ttnn_package: Path) -> str:
    """Returns the script, with the ELF in octal: the shell prints it without another process, for thousands of kernels."""
    return _SCRIPT.format(version=sfpi_version(ttnn_package), elf="".join(f"\\{byte:03o}" for byte in minimal_elf()))


def sfpi_version(ttnn_package: Path) -> str:
    """Returns ``<version>[<build>]`` of the compiler that built this wheel; ``[]`` for wheels that lack it (0.66)."""
    file = ttnn_package / "tt_metal" / "sfpi-version"
    text = file.read_text() if file.exists() else ""
    facts = dict(re.findall(r"^(sfpi_version|sfpi_build)='([^']*)'", text, re.M))
    return f"{facts.get('sfpi_version', '')}[{facts.get('sfpi_build', '')}]"


_LOAD_ADDRESS = 0x6000
_EM_RISCV = 243
_HEADER_BYTES, _SEGMENT_BYTES, _SECTION_BYTES = 52, 32, 40


def minimal_elf() -> bytes:
    """Returns a 32-bit RISC-V executable that TT-Metalium's loader accepts: one segment of four ``ret`` instructions.

    The loader needs ``.text``, an (empty) ``.rela.text`` that points to it, and a symbol table with a section symbol.
    """
    text = struct.pack("<I", 0x00008067) * 4
    section_symbol = struct.pack("<IIIBBH", 0, _LOAD_ADDRESS, 0, 3, 0, 1)
    names = b"\0.text\0.rela.text\0.symtab\0.strtab\0.shstrtab\0"
    contents = [text, b"", bytes(16) + section_symbol, b"\0", names]
    # sh_type, sh_flags, sh_addr, sh_link, sh_info, sh_addralign, sh_entsize of each section, in the order of contents
    kinds = [
        (b".text", 1, 6, _LOAD_ADDRESS, 0, 0, 16, 0),
        (b".rela.text", 4, 0x40, 0, 3, 1, 4, 12),
        (b".symtab", 2, 0, 0, 4, 2, 4, 16),
        (b".strtab", 3, 0, 0, 0, 0, 1, 0),
        (b".shstrtab", 3, 0, 0, 0, 0, 1, 0),
    ]
    body = bytearray()
    headers = [bytes(_SECTION_BYTES)]
    start = _HEADER_BYTES + _SEGMENT_BYTES
    for content, (name, kind, flags, address, link, info, align, entry) in zip(contents, kinds, strict=True):
        body += bytes(-(start + len(body)) % align)
        offset = start + len(body)
        body += content
        at = names.index(name + b"\0")
        headers.append(struct.pack("<10I", at, kind, flags, address, offset, len(content), link, info, align, entry))
        if kind == 1:
            segment = struct.pack("<8I", 1, offset, address, address, len(content), len(content), 5, align)
    body += bytes(-(start + len(body)) % 4)
    identity = b"\x7fELF" + bytes([1, 1, 1]) + bytes(9)
    header = identity + struct.pack(
        "<HHIIIIIHHHHHH", 2, _EM_RISCV, 1, _LOAD_ADDRESS, _HEADER_BYTES, start + len(body), 0,
        _HEADER_BYTES, _SEGMENT_BYTES, 1, _SECTION_BYTES, len(headers), len(headers) - 1,
    )  # fmt: skip
    return header + segment + bytes(body) + b"".join(headers)
