"""A case as the words of ``ssinghal probe``, so that a printed call can be copied and makes the same case."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from ssinghal.core.case import Case, OutputMemory
from ssinghal.core.json_values import value_text
from ssinghal.core.tensors import DType, Layout
from ssinghal.operators import find_operator


def probe_words(case: Case) -> list[str]:
    """Returns the arguments of ``probe`` for ``case``, without those that have their defaults."""
    p, traits = case.placement, find_operator(case.operator).traits
    words = [case.name]
    for position, shape in enumerate(case.inputs):
        own = str(p.operand(position))
        words.append(",".join(map(str, shape)) + (f"/{own}" if own else ""))
    for name, value in case.attrs.items():
        words += ["--attr", f"{name}={attr_text(value)}"]
    words += ["--dtype", p.dtype.value] if p.dtype is not DType.BFLOAT16 else []
    words += ["--layout", p.layout.value] if p.layout is not Layout.TILE else []
    words += ["--memory", str(p.request)] if str(p.request) != "dram" else []
    words += ["--output-memory", p.output_text] if p.output_memory is not OutputMemory.SAME else []
    words += ["--output-dtype", p.output_dtype.value] if p.output_dtype else []
    if p.channels_last is not None and p.channels_last is not bool(traits.nhwc):
        words.append("--channels-last" if p.channels_last else "--as-written")
    words += ["--l1-small", str(p.l1_small_bytes)] if p.l1_small_bytes not in (None, traits.l1_small_bytes) else []
    return words


def probe_command(case: Case) -> str:
    """Returns the command, quoted for a shell.

    >>> from ssinghal.operators import make_case
    >>> probe_command(make_case("softmax", ((2, 64),), {"dim": -1}))
    'ssinghal probe softmax 2,64 --attr dim=-1'
    """
    return shlex.join(["ssinghal", "probe", *probe_words(case)])


def attr_text(value: Any) -> str:
    """Returns the value of an attribute as users type it: numbers, words and lists of numbers without brackets, else JSON."""
    if isinstance(value, (list, tuple)) and len(value) > 1 and all(_is_number(one) for one in value):
        return ",".join(map(json.dumps, value))
    if value is None:
        return "none"
    if isinstance(value, str) and _is_plain(value):
        return value
    if isinstance(value, Mapping) and "type" in value:
        return value_text(value)
    return json.dumps(value, separators=(",", ":"))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_plain(text: str) -> bool:
    """Returns whether a text cannot be read as anything else."""
    if text.lower() in ("true", "false", "none"):
        return False
    for form in (text, f"[{text}]"):
        try:
            json.loads(form)
            return False
        except ValueError:
            continue
    return True
