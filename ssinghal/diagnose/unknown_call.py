"""Formats what is known of a call that is not: candidates, arguments in the text, and what would show it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Sequence

from ssinghal.core.tensors import BufferType
from ssinghal.core.verdict import Resource
from ssinghal.diagnose.kernel_config import is_on_ethernet_core
from ssinghal.diagnose.mlir_to_case import OP_MAPPINGS
from ssinghal.diagnose.pipeline import MAX_CANDIDATES, Diagnosis, requested_memory
from ssinghal.diagnose.ttnn_functions import PREFIX, operators_calling
from ssinghal.remedy.config_changes import PROGRAM_CONFIG
from ssinghal.remedy.strategies.configured import CORES


def unknown_call_lines(diagnosis: Diagnosis) -> list[str]:
    """Formats what the text and the catalogs have of the call of ``diagnosis``, and how to state it."""
    if not _makes_a_difference(diagnosis):
        return _candidate_lines(diagnosis)
    out = [f"call: unknown; {diagnosis.why_no_case}", *_candidate_lines(diagnosis)]
    words = "".join(f" {shlex.quote(word)}" for word in diagnosis.arguments.words()) if diagnosis.arguments else ""
    if diagnosis.arguments and diagnosis.arguments.left_out:
        out.append(f"arguments that are not carried: {'; '.join(diagnosis.arguments.left_out)}")
    quote = '"' if "'" in words else "'"
    call = f"{quote}{_call_to_specify(diagnosis.functions)}{words}{quote}"
    return [*out, f"specify the call with --call {call} (as for ssinghal probe)", *_untested(diagnosis)]


def ways_to_know(diagnoses: Iterable[Diagnosis], *, names_compiler: bool = False) -> list[str]:
    """Returns what shows the calls in the next run, where some are unknown now. ``names_compiler``: of the log's reading.

    Checked in TTNN's wheels, in which TT_LOGGER_LEVEL=debug shows no calls.
    """
    memory = [one for one in diagnoses if one.is_memory and _makes_a_difference(one)]
    unknown = [one for one in memory if one.case is None and one.candidate is None]
    if not unknown:
        return []
    out = ["to know the call next time: ssinghal exec -- python PROGRAM shows which one fails, with its tensors"]
    if any(not one.functions for one in unknown):
        settings = json.dumps({"enable_fast_runtime_mode": False, "enable_logging": True})
        out.append(f"  or log each function of TTNN before it runs: TTNN_CONFIG_OVERRIDES={shlex.quote(settings)}")
    if names_compiler:
        out.append("  or, of tt-xla and tt-forge, each operation with its tensors: TTMLIR_RUNTIME_LOGGER_LEVEL=DEBUG")
    return out


def _makes_a_difference(diagnosis: Diagnosis) -> bool:
    """Whether the call has a part in what ran out, so that it is worth knowing."""
    verdict = diagnosis.failure.verdict
    return verdict.resource not in (Resource.HOST, Resource.TRACE_BUFFER) and not is_on_ethernet_core(verdict)


def _candidate_lines(diagnosis: Diagnosis) -> list[str]:
    out, count, functions = [], diagnosis.candidate_count, diagnosis.functions
    if in_text := [c for c in diagnosis.candidates if c.sizes_from]:
        out += ["candidates, not proven: calls with sizes of the text", *(f"  {c.line()}" for c in in_text)]
    if of_models := [c for c in diagnosis.candidates if not c.sizes_from and not c.by_arithmetic]:
        more = f", {MAX_CANDIDATES} of {count} calls" if count > MAX_CANDIDATES else ""
        out += [f"candidates, not proven: what requests exactly these bytes{more}", *(f"  {c.line()}" for c in of_models)]
    out += [shape.line() for shape in diagnosis.shapes]
    if not diagnosis.shapes and (tensors := [c.description for c in diagnosis.candidates if c.by_arithmetic]):
        out.append(f"by arithmetic alone, these bytes may be {', or '.join(tensors)}")
    if functions and not count and not in_text and requested_memory(diagnosis) in (BufferType.L1, BufferType.DRAM):
        out.append(f"no call of the catalogs to {' or '.join(functions)} requests these bytes")
    return out


def _untested(diagnosis: Diagnosis) -> Iterator[str]:
    """Yields what the line of the program states of its cores and its program, which TTNN would choose otherwise."""
    arguments, of_program = diagnosis.arguments, (Resource.CIRCULAR_BUFFER, Resource.CLASH)
    if arguments is None or diagnosis.failure.verdict.resource not in of_program:
        return
    stated = {*arguments.attrs, *(text.partition("=")[0] for text in arguments.left_out)}
    if names := sorted(stated & {*CORES, PROGRAM_CONFIG}):
        yield f"not tested, as the call is unknown: without {' and '.join(names)} TTNN chooses cores and program itself"


def _call_to_specify(functions: Sequence[str]) -> str:
    name = functions[0].removeprefix(PREFIX) if functions else ""
    operators = [OP_MAPPINGS[name].operator] if name in OP_MAPPINGS else sorted(operators_calling(name))
    return f"{operators[0] if len(operators) == 1 else 'OPERATOR'} SHAPE … --memory dram|l1"
