"""What must be the same on each worker of a cluster, and what differs."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version

from ssinghal.core.code_digest import code_digest
from ssinghal.core.device_facts import DeviceFacts
from ssinghal.core.json_values import plain
from ssinghal.device.releases import find_release
from ssinghal.device.virtual import ttnn_package
from ssinghal.errors import HarnessError
from ssinghal.runner.tasks import PoolOptions


def environment(release_version: str, *, torch: bool) -> dict[str, str]:
    """Returns what decides the answers of this machine, by name. The digest of the code has the stand-in compiler in it.

    ``release_version``: the TTNN release of the run; empty for the installed one. ``torch``: whether values are compared.
    """
    names = {
        "Python": ".".join(map(str, sys.version_info[:2])),
        "ssinghal": _installed("ssinghal"),
        "the digest of ssinghal's code": code_digest()[:16],
        "ttnn": _ttnn(release_version),
        "distributed": _installed("distributed"),
    }
    return names | ({"torch": _installed("torch")} if torch else {})


def differences(found: Mapping[str, str], wanted: Mapping[str, str]) -> str:
    """Returns what differs, in words; empty where nothing does."""
    differ = [name for name in wanted if found.get(name) != wanted[name]]
    return "; ".join(f"{name} is {found.get(name, 'unknown')}, expected {wanted[name]}" for name in differ)


def device_differences(found: DeviceFacts, wanted: DeviceFacts) -> str:
    """Returns in which facts two opened devices differ; empty where in none. How they were chosen is no such fact."""
    texts = [{n: str(plain(v)) for n, v in facts.deciding().items()} for facts in (found, wanted)]
    names = dict.fromkeys([*texts[1], *texts[0]])
    differ = [name for name in names if texts[0].get(name) != texts[1].get(name)]
    return "; ".join(f"the device's {n} is {texts[0].get(n, 'none')}, expected {texts[1].get(n, 'none')}" for n in differ)


def options_here(options: PoolOptions, workers: int) -> PoolOptions:
    """Returns the options with the folder that the release has on this machine.

    Raises:
        HarnessError: It is not here.
    """
    release = None if options.release is None else find_release(options.release.version)
    return replace(options, workers=workers, release=release)


def _ttnn(release_version: str) -> str:
    try:
        return ttnn_package(find_release(release_version) if release_version else None)[1]
    except HarnessError as error:
        return f"missing ({str(error).splitlines()[0]})"


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "missing"
