"""What a change to a failed call is, and how its arguments are changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from ssinghal.core.verdict import Verdict
from ssinghal.diagnose.failed_call.state import FailedCall
from ssinghal.profile.failure import Failure


@dataclass(frozen=True)
class Change:
    """``code``: what to write; ``where``: in which part of the program, with ``{line}`` for that of the call; ``caution``: what
    else it changes, or what must hold."""

    code: str
    where: str
    call: FailedCall
    caution: str = ""


# Yields changes, the least first, and takes the verdict of each, until one fits.
Lever = Callable[[FailedCall, Failure], Generator[Change, Verdict, None]]


def named(name: str) -> dict[str, str]:
    """Returns an argument that is what ``ttnn`` has by this name."""
    return {"name": name}


def with_argument(call: FailedCall, keyword: str, value: Any) -> FailedCall:
    arguments = {**call.arguments, "kwargs": {**call.arguments["kwargs"], keyword: value}}
    return replace(call, arguments=arguments)


def objects(call: FailedCall, *kinds: str) -> Iterator[tuple[str | int, Mapping[str, Any]]]:
    """Yields the arguments that are objects of these classes of TTNN, with their position or keyword."""
    for key, value in (*enumerate(call.arguments["args"]), *call.arguments["kwargs"].items()):
        if isinstance(value, dict) and "object" in value and value["object"][1] in kinds:
            yield key, value


def with_object(call: FailedCall, key: str | int, value: Any) -> FailedCall:
    arguments = deepcopy(dict(call.arguments))
    arguments["args" if isinstance(key, int) else "kwargs"][key] = value
    return replace(call, arguments=arguments)


def with_fields(call: FailedCall, key: str | int, value: Mapping[str, Any], changed: Mapping[str, Any]) -> FailedCall:
    """Returns the call with other fields of one of its objects."""
    if "json" in value:
        return with_object(call, key, {**value, "json": json.dumps({**json.loads(value["json"]), **changed})})
    return with_object(call, key, {**value, "fields": {**value["fields"], **changed}})
