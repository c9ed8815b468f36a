"""Profiles several programs in one process, each on a device that it opens and closes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ssinghal.profile.finding import Finding
from ssinghal.profile.findings import find
from ssinghal.profile.model import Call, Profile
from ssinghal.profile.reading import read_profiles
from tests.profile.measure import run_ssinghal

DRIVER = """
import runpy, sys
import ttnn
opened, devices = ttnn.open_device, []
def open_device(*args, **options):
    devices.append(opened(*args, **options))
    return devices[-1]
ttnn.open_device = open_device
closed = ttnn.close_device
def close_device(device):
    devices.remove(device)
    closed(device)
ttnn.close_device = close_device
for path in sys.argv[1:]:
    try:
        runpy.run_path(path, run_name="__main__")
    except RuntimeError as error:
        print(path, str(error)[:200].replace("\\n", " "))
    for device in list(devices):
        ttnn.close_device(device)
"""


@dataclass(frozen=True)
class Profiled:
    """The profile of all programs, with the device of each."""

    profile: Profile
    devices: Mapping[str, int]
    findings: list[Finding]
    raised: str  # what the programs that raised printed

    def of(self, name: str) -> list[Finding]:
        return [one for one in self.findings if one.device == self.devices[name]]

    def calls(self, name: str) -> list[Call]:
        ends = [*(one.first_call for one in self.profile.devices), len(self.profile.calls)]
        return self.profile.calls[ends[self.devices[name]] : ends[self.devices[name] + 1]]

    def peak(self, name: str, memory: str = "l1") -> int:
        """The most bytes per bank that were allocated in any call."""
        return max(call.peak.get(memory, 0) for call in self.calls(name))


def profiled(folder: Path, programs: Mapping[str, Path], board: str = "n150") -> Profiled:
    """Each program opens exactly one device; what one raises ends that program alone."""
    (folder / "driver.py").write_text(DRIVER)
    paths = [str(path) for path in programs.values()]
    done = run_ssinghal(folder, "profile", "--board", board, "-o", "out", "--", "python", "driver.py", *paths)
    assert done.returncode == 0, done.stderr[-2000:]
    (profile,) = read_profiles(folder / "out")
    assert (profile.differences, profile.unknown_frees) == ([], 0)
    assert len(profile.devices) == len(programs)
    return Profiled(profile, {name: index for index, name in enumerate(programs)}, find(profile), done.stdout)
