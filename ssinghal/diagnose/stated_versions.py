"""The versions of TTNN that a text states, as evidence of the build: ``ttnn==0.66.0``, ``tt-metal: v0.64.2``."""

from __future__ import annotations

import re
from collections.abc import Collection

from ssinghal.diagnose.builds import BUILDS, Clue

Version = tuple[int, ...]

_PRODUCT = r"(?<![\w-])(?:ttnn|tt[-_ ]?metal(?:ium)?)(?:[ ._-](?:version|release|wheel|tag))?"
_BETWEEN = r"""["'`*)|]{0,3}\s{0,20}(?:==|[:=@/|(-]|\bis\b|\bversion\b)?\s{0,20}["'`*]{0,3}"""
_STATED = re.compile(rf"{_PRODUCT}{_BETWEEN}v?(0\.\d{{2}}\.\d{{1,2}})(?![\d.]\d)", re.IGNORECASE)


_COMPILER = re.compile(r"(?<![a-z])(?:tt[-_ ]?(?:mlir|xla|forge|torch)|pjrt|stablehlo)(?![a-z])", re.IGNORECASE)


def names_compiler(text: str) -> bool:
    """Returns whether ``text`` names tt-mlir or one of its front ends, whose runtime executes operations.

    >>> names_compiler("/tt-xla/pjrt_implementation/src/api.cc"), names_compiler("ttnn.matmul(a, b)")
    (True, False)
    """
    return _COMPILER.search(text) is not None


def versions_stated(text: str) -> frozenset[str]:
    """Returns the versions of TTNN or TT-Metalium in ``text``.

    >>> sorted(versions_stated("ttnn==0.66.0, tt-metal: v0.64.2-rc3, torch 2.7.1"))
    ['0.64.2', '0.66.0']
    """
    if "0." not in text:  # a cheap test first
        return frozenset()
    return frozenset(_STATED.findall(text))


def clue_of(versions: Collection[str]) -> Clue | None:
    """Returns the builds that are of one of ``versions``; None for none. Several contradict nothing: some may work."""
    if not versions:
        return None
    allowed = frozenset().union(*(_positions(_parsed(version)) for version in versions))
    named = " and ".join(sorted(versions, key=_parsed))
    return Clue(allowed, f"the version that the text states, {named}", is_weak=len(versions) > 1)


def _parsed(version: str) -> Version:
    return tuple(map(int, version.split(".")))


def _positions(version: Version) -> frozenset[int]:
    """Returns the builds of a version: that of its release, else those between the releases before and after it."""
    wheels = [(at, _parsed(build.wheels[0]), _parsed(build.wheels[-1])) for at, build in enumerate(BUILDS) if build.wheels]
    exact = [at for at, first, last in wheels if first <= version <= last]
    if exact:
        return frozenset(exact)
    older = [at for at, _, last in wheels if last < version]
    newer = [at for at, first, _ in wheels if first > version]
    start = older[-1] if older else 0
    end = newer[0] if newer else len(BUILDS) - 1
    return frozenset(range(start, end + 1)) - (frozenset() if older else {end}) - (frozenset() if newer else {start})
