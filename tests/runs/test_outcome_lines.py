"""The outcome of a line, found without parsing: equal for equal outcomes, different for all others, and never a guess."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import pytest

from ssinghal.core.case import ModuleCalls, Source
from ssinghal.core.record import Record
from ssinghal.runs.outcome_lines import outcome_line
from ssinghal.runs.parsing import parse_record
from tests.support.run_builder import a_record

SOURCES = (Source("c", "m", "640x640", 3, (ModuleCalls("a[0]", 1), ModuleCalls('b{}, "duration_s": 2}', 2))), Source("d"))
# What no answer of a device is.
NO_OUTCOME = {
    "run": "another",
    "ttnn": "0.99.0",
    "duration_s": 12.5,
    "test": 'tests/test_relu.py::test[1x64-dram] "]}',
    "retried": "crash: SIGKILL",
    "taken_from": "20250101T000000.000000Z",
    "sources": [],
    "altered": ["dtype", "memory"],
}
# Another value for each field that belongs to the outcome, as a line has it.
OTHER = {
    "message": 'TT_FATAL: {"a": [1, 2}, "estimate": {, "sources": [ \\ "',
    "status": "error",
    "stage": "call",
    "usage_note": "not captured",
    "resident": {"l1": 32},
    "left_allocated": {"dram": 64},
    "key": "0123456789ab",
    "op": "gelu",
    "board": "p150",
    "attrs": {"estimate": {"verdict": "fits"}, "sources": [1]},
    "memory": "dram",
}


def line_of(record):
    return json.dumps(record).encode()


def with_value(record, name, value):
    """The record as it would be written with this value: keys stay in their order."""
    order = ["schema", "run", *(f.name for f in fields(Record))]
    values = {**record, name: value}
    if name in record:
        return values
    place = {key: number for number, key in enumerate(order)}
    after = [key for key in record if place.get(key, 0) < place[name]]
    head = list(record)[: list(record).index(after[-1]) + 1]
    return {**{key: values[key] for key in head}, name: value, **{key: values[key] for key in record if key not in head}}


@pytest.fixture
def record():
    return {**a_record(verdict={"message": 'a "text" of {braces} and \\'}), "sources": [source.to_json() for source in SOURCES]}


def test_a_line_has_its_release_time_and_origin(record):
    found = outcome_line(line_of(with_value(with_value(record, "taken_from", "run 1"), "duration_s", 0.25)))
    assert (found.ttnn, found.duration_s, found.taken_from, found.retried) == ("0.81.1", 0.25, "run 1", False)
    assert outcome_line(line_of(with_value(record, "retried", "timeout"))).retried


@pytest.mark.parametrize("name", NO_OUTCOME)
def test_what_is_no_outcome_does_not_change_the_digest(record, name):
    assert outcome_line(line_of(with_value(record, name, NO_OUTCOME[name]))).digest == outcome_line(line_of(record)).digest


@pytest.mark.parametrize("name", OTHER)
def test_another_outcome_has_another_digest_or_is_to_be_parsed(record, name):
    other = outcome_line(line_of(with_value(record, name, OTHER[name])))
    assert other is None or other.digest != outcome_line(line_of(record)).digest


def test_another_estimate_is_the_same_outcome(record):
    estimate = {**record["estimate"], "reason": "another", "allocations": []}
    assert outcome_line(line_of({**record, "estimate": estimate})).digest == outcome_line(line_of(record)).digest


def test_the_short_line_is_the_record_without_estimate_and_sources(record):
    line = line_of(with_value(record, "left_allocated", {"dram": 64}))
    assert parse_record(outcome_line(line).short(line)) == replace(parse_record(line), estimate=None, sources=())


@pytest.mark.parametrize("text", ['"reason": "}"', '"reason": "{"', '"reason": "}, \\"sources\\": ["', '"reason": "\\\\"'])
def test_brackets_in_the_texts_of_an_estimate_are_no_end_of_it(record, text):
    line = line_of(record)
    spoilt = line.replace(b'"estimate": {', b'"estimate": {' + text.encode() + b", ")
    found = outcome_line(spoilt)
    assert json.loads(spoilt)["status"] == "fits"
    assert found is None or found.digest == outcome_line(line).digest


@pytest.mark.parametrize("cut", [1, 2, 40, 400, 900])
def test_a_truncated_line_is_to_be_parsed(record, cut):
    assert outcome_line(line_of(record)[:-cut]) is None


@pytest.mark.parametrize(
    "line",
    [b"", b"{}", b"no JSON", b'{"schema": 2, "run": "x"}', b'{"schema": 1, "run": "x", "op": "relu"}', b"\xff" * 300],
)
def test_any_other_line_is_to_be_parsed(line):
    assert outcome_line(line) is None


def test_other_orders_of_the_keys_are_to_be_parsed(record):
    """An earlier version may have had another order: what stands between must not be left out of the digest."""
    last = {**{key: value for key, value in record.items() if key != "usage"}, "usage": record["usage"]}
    first = {"status": record["status"], **record}
    estimate_first = {**{"schema": 1, "run": "x", "estimate": record["estimate"]}, **record}
    for other in (last, first, estimate_first):
        found = outcome_line(line_of({**other, "key": "0123456789ab"}))
        assert found is None or found.digest != outcome_line(line_of(record)).digest
    assert outcome_line(line_of(last)) is None
