"""Sets of cases: the parts that a run is split into, and the digest by which two runs have the same ones."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256

from ssinghal.errors import InvalidCase

Identity = tuple[str, str]  # the name that a case was selected by, and its key


@dataclass(frozen=True)
class Shard:
    """One of ``of`` parts of a selection, counted from 1. A case is in the part that its key decides, whatever else is
    selected, so that equal calls under several names are in one part."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Reads ``2/8``.

        Raises:
            InvalidCase: It is something else, or there is no such part.

        >>> Shard.parse("2/8")
        Shard(number=2, of=8)
        """
        found = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text)
        if not found or not 1 <= int(found[1]) <= int(found[2]):
            of = int(found[2]) if found else 0
            which = f"from 1/{of} to {of}/{of}" if of else "such as 2/8"
            raise InvalidCase(f"shard {text!r}: expected K/N, the part K of N, {which}")
        return cls(int(found[1]), int(found[2]))

    def has(self, key: str) -> bool:
        """Whether the case with this key (a hash, in hexadecimal) is in the part."""
        return int(key, 16) % self.of == self.number - 1

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


class CaseDigest:
    """A digest of a set of cases that are given one by one, the same in whatever order they come. It keeps none of them."""

    def __init__(self) -> None:
        self.cases = 0
        self._sum = 0

    def add(self, identity: Identity) -> None:
        """Adds a case. One that is added twice counts twice."""
        name, key = identity
        self.cases += 1
        self._sum += int.from_bytes(sha256(f"{name} {key}".encode()).digest(), "big")

    def hexdigest(self) -> str:
        """Returns 64 hexadecimal digits: of the number of cases, and of the sum of their hashes."""
        return sha256(f"{self.cases} {self._sum}".encode()).hexdigest()


def digest_of(identities: Iterable[Identity]) -> str:
    """Returns the digest of the cases, the same in whatever order they come."""
    digest = CaseDigest()
    for identity in identities:
        digest.add(identity)
    return digest.hexdigest()
