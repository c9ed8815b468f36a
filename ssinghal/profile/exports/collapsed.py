"""Collapsed stacks, as flamegraph.pl, inferno and speedscope read them: a line for each stack, with its bytes at the peak."""

from __future__ import annotations

from ssinghal.profile.exports.stacks import Frame, peak_stacks
from ssinghal.profile.model import Profile


def collapsed(profile: Profile, memory: str) -> str:
    """Returns ``outer;inner;call BYTES`` for each stack that holds the memory at its peak, in alphabetical order."""
    stacks = peak_stacks(profile, memory)
    lines = [f"{';'.join(map(_text, stack))} {size}" for stack, size in stacks.items()]
    return "".join(f"{line}\n" for line in sorted(lines))


def _text(frame: Frame) -> str:
    """A frame without the separators of the format."""
    name, file, line = frame
    return (f"{name} ({file}:{line})" if file else name).replace(";", ",").replace("\n", " ")
