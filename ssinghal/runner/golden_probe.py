"""Probes a case in a golden session: its values against torch's, and nothing else, as no memory is measured."""

from __future__ import annotations

import math
import time

from ssinghal.core.boards import load_board
from ssinghal.core.case import Case
from ssinghal.core.measured import Comparison
from ssinghal.core.record import Record
from ssinghal.core.verdict import DecidedBy, Status, Verdict
from ssinghal.device.error_patterns import translate_error
from ssinghal.device.session import Session
from ssinghal.errors import InvalidCase, NoGolden
from ssinghal.operators.binding import BoundCall, bind
from ssinghal.runner.numerics import compare_with_torch
from ssinghal.runner.probe import TTNN_ERRORS

AGREES = "the golden functions of TTNN agree with torch; no memory was measured"
MAX_ELEMENTS = 2**21  # of operands and results together, with the padding of tiles: a second or two of the host


def probe_golden(case: Case, session: Session) -> Record:
    """Returns a record with a comparison where the golden functions make the call; never with a memory verdict."""
    started = time.perf_counter()
    verdict, comparison = _compared(bind(case), session)
    return Record.of(
        case,
        verdict,
        device_mode=session.facts.mode,
        board=session.facts.board,
        ttnn=session.facts.ttnn,
        comparison=comparison,
        duration_s=round(time.perf_counter() - started, 6),
    )


def _compared(call: BoundCall, session: Session) -> tuple[Verdict, Comparison | None]:
    if call.is_distributed:
        return _decided(
            Status.UNSUPPORTED, DecidedBy.HARNESS, "golden functions run on the host, not on the chips of a mesh"
        ), None
    try:
        operands, results = call.specs()
    except InvalidCase as error:
        return _decided(Status.INVALID, DecidedBy.ARITHMETIC, str(error)), None
    for limitation in call.limitations(load_board(session.facts.board)):
        return _decided(Status.UNSUPPORTED, DecidedBy.REGISTRY, limitation.reason), None
    elements = sum(math.prod(spec.padded_shape) for spec in (*operands, *results))
    if elements > MAX_ELEMENTS:
        return _decided(Status.NOT_RUN, DecidedBy.HARNESS, f"{elements:,} elements are too many to compute on the host"), None
    if not results:
        return _decided(Status.NOT_RUN, DecidedBy.HARNESS, "the call has no result whose values could be compared"), None
    try:
        comparison = compare_with_torch(call, session)
    except NoGolden as error:
        return _decided(Status.UNSUPPORTED, DecidedBy.HARNESS, str(error)), None
    except TTNN_ERRORS as error:
        verdict = translate_error(type(error).__name__, str(error))
        if verdict.status is Status.OOM:  # only the host's memory is in use here
            return _decided(Status.NOT_RUN, DecidedBy.HARNESS, f"the host has too little memory: {verdict.message}"), None
        return verdict, None
    if comparison.fault:
        return Verdict(Status.MISMATCH, stage="output", decided_by=DecidedBy.TORCH, message=comparison.fault), comparison
    return Verdict(Status.AGREES, decided_by=DecidedBy.TORCH, message=AGREES), comparison


def _decided(status: Status, by: DecidedBy, message: str) -> Verdict:
    return Verdict(status, stage="call", decided_by=by, message=message)
