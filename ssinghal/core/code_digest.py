"""The digest of the code that decides how a case ends, so that records of another version are never taken for this one's."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path

# What places, calls and judges a case. Catalogs are not among it: a case is known by its key, whoever lists it.
DECIDING = ("boards", "core", "device", "errors.py", "estimation", "operators", "runner")
SEARCHING = ("precision", "remedy")  # what searches for remedies and judges what they lose, by such answers
_SUFFIXES = (".py", ".yaml", ".txt")


@cache
def code_digest(rooms: tuple[str, ...] = DECIDING) -> str:
    """Returns a SHA-256 of the files of these rooms of this package, with their names."""
    package = Path(__file__).parents[1]
    digest = sha256()
    for name in rooms:
        room = package / name
        files = [room] if room.is_file() else sorted(path for path in room.rglob("*") if path.suffix in _SUFFIXES)
        for path in files:
            content = path.read_bytes()
            digest.update(f"{path.relative_to(package).as_posix()} {len(content)}\n".encode())
            digest.update(content)
    return digest.hexdigest()
