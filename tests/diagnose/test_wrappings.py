"""Every message in more than 60 wrappings, on top of each other too, and cut at either end: the same failure, or a cut one."""

from __future__ import annotations

import io
from dataclasses import fields, replace
from typing import Any

import pytest

from ssinghal.core.verdict import Resource, Verdict
from ssinghal.device.error_patterns import translate_error
from ssinghal.diagnose.log_reader import read_log
from ssinghal.diagnose.model import Failure, FailureKind
from tests.support.wrapped_messages import SAMPLES, message
from tests.support.wrapping_layers import CARRIERS, LAYERED

OF_MEMORY = [
    sample
    for sample in SAMPLES
    if sample["verdict"]["status"] == "oom" and sample["verdict"].get("resource") != str(Resource.HOST) and "type" not in sample
]
NAMES = list(LAYERED)
EVERY = 5  # each wrapping has one sample of so many, another set of them than the wrapping before
NOT_UNDERSTOOD = (FailureKind.CUT, FailureKind.SUSPECT, FailureKind.OTHER)


def read(text: str) -> tuple[Failure, ...]:
    return read_log(io.BytesIO(text.encode()), "log").failures


def figures(verdict: Verdict) -> dict[str, int]:
    values = {field.name: getattr(verdict, field.name) for field in fields(verdict)}
    return {name: value for name, value in values.items() if isinstance(value, int)}


def known(verdict: Verdict) -> Verdict:
    return replace(verdict, message="", thrown_at="")


def with_figures(sample: dict[str, Any]) -> bool:
    return bool(figures(translate_error("RuntimeError", sample["text"])))


FULL = [sample for sample in OF_MEMORY if with_figures(sample)]
WITHOUT = [sample for sample in OF_MEMORY if not with_figures(sample)]
COMMON = [sample for sample in FULL if message(sample).startswith(("Out of Memory", "Statically", "Creating", "Program size"))]


def test_there_are_enough() -> None:
    assert len(LAYERED) >= 60
    assert len(FULL) > 80


@pytest.mark.parametrize("name", NAMES)
def test_a_memory_failure_is_one_with_its_figures(name: str) -> None:
    for sample in FULL[NAMES.index(name) % EVERY :: EVERY]:
        text = LAYERED[name](sample)
        expected = translate_error("RuntimeError", sample["text"])
        assert [known(failure.verdict) for failure in read(text)] == [known(expected)], text


@pytest.mark.parametrize("name", [name for name in NAMES if name != "braces"])
def test_a_message_without_figures_is_not_lost(name: str) -> None:
    """Broken within its words it may not be understood."""
    for sample in WITHOUT[NAMES.index(name) % EVERY :: EVERY]:
        text = LAYERED[name](sample)
        found = read(text)
        assert found, text
        assert all(failure.verdict.resource is not None or failure.kind in NOT_UNDERSTOOD for failure in found), text


@pytest.mark.parametrize("name", CARRIERS)
def test_a_refusal_is_no_memory_failure(name: str) -> None:
    for sample in SAMPLES:
        if sample["verdict"]["status"] == "unsupported":
            assert not any(failure.verdict.resource for failure in read(CARRIERS[name](sample)))


@pytest.mark.parametrize("sample", COMMON[::3], ids=lambda sample: f"{sample['id']}-{sample['release']}".replace(" ", "_"))
def test_a_message_without_its_end(sample: dict[str, Any]) -> None:
    """It is a memory failure with figures that the text has in full, or its text is said to be cut; never another failure."""
    whole = f"RuntimeError: {sample['text']}"
    expected = translate_error("RuntimeError", sample["text"])
    start = len(whole) - len(message(sample))
    for end in range(start + 24, len(whole), 7):
        for failure in read(f"{whole[:end]}...\n"):
            assert failure.kind in (FailureKind.MEMORY, FailureKind.CUT, FailureKind.SUSPECT), whole[:end]
            assert figures(failure.verdict).items() <= figures(expected).items(), whole[:end]


@pytest.mark.parametrize("sample", [s for s in FULL if s["id"] in ("L1 add", "untilize wide rows", "L1_SMALL too small")][::2],
                         ids=lambda sample: f"{sample['id']}-{sample['release']}".replace(" ", "_"))  # fmt: skip
def test_a_message_without_its_start(sample: dict[str, Any]) -> None:
    """The figures that are left are those of the message."""
    whole = message(sample)
    expected = translate_error("RuntimeError", sample["text"])
    first = min(at for at, char in enumerate(whole) if char.isdigit())
    for start in range(5, first, 6):
        (failure,) = read(f"{whole[start:]}\n")
        assert failure.verdict.resource is expected.resource, whole[start:]
        assert figures(failure.verdict).items() <= figures(expected).items()
        assert len(figures(failure.verdict)) > 1


ENDING_IN_A_NUMBER = [
    ("L1 buffer allocated at 106496 and static circular buffer region ends at 115840", "program_bytes", 115_840),
    ("Out of Memory: Cannot allocate at an address below 163840. Allocation at 131072", "tensor_address", 131_072),
    ("Out of Memory: Not enough space to allocate 64 B L1 buffer across 2 banks, where each bank needs to store 835584 B",
     "bytes_per_bank", 835_584),
]  # fmt: skip
CLASH = "Statically allocated circular buffers in program 54 clash with L1 buffers on core range [(x=0,y=0) - (x=7,y=7)]. "


@pytest.mark.parametrize(("text", "name", "value"), ENDING_IN_A_NUMBER)
@pytest.mark.parametrize("prefix", ["", "I 2026-01-05 10:00:00 pod/vllm-0 app: ", "E       "])
def test_a_number_that_is_broken_at_its_end_is_read_in_full(text: str, name: str, value: int, prefix: str) -> None:
    """Only its first line has the prefix and is full: no width shows that a terminal broke it."""
    message = CLASH + text if "region ends" in text else text
    last = message.rindex(str(value))
    for at in range(last + 1, last + len(str(value))):
        (failure,) = read(f"{prefix}RuntimeError: {message[:at]}\n{message[at:]}\n")
        assert getattr(failure.verdict, name) == value, message[at:]


@pytest.mark.parametrize("after", ["1 failed in 3.21s", "2026-01-01 10:00:00 | info | Closing", "3 devices were closed", ""])
def test_a_line_that_begins_with_a_number_is_no_rest_of_one(after: str) -> None:
    (failure,) = read(f"RuntimeError: {CLASH}{ENDING_IN_A_NUMBER[0][0]}\n{after}\n")
    assert failure.verdict.program_bytes == 115_840
