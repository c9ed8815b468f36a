"""Identifies what answers a case: records of the same answerer can stand in for each other."""

from __future__ import annotations

import json
from dataclasses import asdict
from hashlib import sha256

from ssinghal.core.code_digest import SEARCHING, code_digest
from ssinghal.core.device_facts import DeviceFacts
from ssinghal.core.json_values import plain
from ssinghal.core.versions import package_versions
from ssinghal.runner.tasks import PoolOptions


def answerer_of(facts: DeviceFacts, options: PoolOptions) -> str:
    """Returns a SHA-256 of all that decides an answer besides the case: the device (its mode, board, banks and TTNN release),
    the code, the stand-in compiler with it, and the limits of a case. The time that a case may take is not among it: a case
    that took too long has no answer."""
    device = plain(facts.deciding())
    torch = package_versions().get("torch", "") if options.numerics else ""
    limits = {**asdict(options.limits), "host_bytes": options.host_limit_bytes, "numerics": options.numerics, "torch": torch}
    return sha256(json.dumps([device, code_digest(), limits], sort_keys=True).encode()).hexdigest()


def searcher_of(answerer: str) -> str:
    """Returns a SHA-256 of what decides which remedies a search finds: the answerer, and the code of the search."""
    return sha256(f"{answerer} {code_digest(SEARCHING)}".encode()).hexdigest()
