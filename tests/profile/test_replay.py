"""The replay of records: sums, and what is wrong with them."""

from __future__ import annotations

import json

import pytest

from ssinghal.errors import HarnessError
from ssinghal.profile.exports.collapsed import collapsed
from ssinghal.profile.failure import explain
from ssinghal.profile.model import is_at_most
from ssinghal.profile.reading import read_profiles
from ssinghal.profile.replay import replay
from ssinghal.profile.text import exactness, summary

HEADER = [
    {"k": "program", "version": 2, "argv": ["a.py"], "pid": 1, "folder": "."},
    {
        "k": "device",
        "ttnn": "0.81.1",
        "arch": "wormhole_b0",
        "mesh": [1, 1],
        "grid": [8, 8],
        "granule": 32,
        "l1_base": 1_000,
        "l1_top": 9_000,
        "memories": {"l1": [64, 8_000, 0]},
    },
    {"k": "stack", "n": 0, "sites": []},
]


def call(events, allocated, gap=(), **more):
    return {
        "k": "call",
        "name": "ttnn.f",
        "stack": 0,
        "in": [],
        "gap": list(gap),
        "ev": events,
        "view": {"l1": [allocated, 0]},
        "others": 0,
    } | more


def test_program_buffers_are_held_against_the_lowest_buffer():
    events = [
        ["+", "l1", 8_000, 1_000, 64_000],
        ["+", "l1", 5_000, 3_000, 9],
        ["p", "Program", 1_500, "measured"],
        ["-", "l1", 5_000],
    ]
    profile = replay([*HEADER, call(events, 1_000)])
    assert profile.fullest[1].headroom_bytes == 5_000 - 1_000 - 1_500
    assert profile.fullest[1].l1_bytes == 4_000
    assert profile.peaks["l1"].bank_bytes == 4_000
    assert not profile.differences


def test_an_allocation_that_was_missed_is_reported_as_our_fault():
    profile = replay([*HEADER, call([["+", "l1", 8_000, 1_000, 64_000]], 1_032)])
    (difference,) = profile.differences
    assert (difference.replayed_bytes, difference.allocator_bytes) == (1_000, 1_032)
    assert "a fault of this profiler: 1 of 1 checks" in summary(profile)[-1]


def test_a_free_of_an_unknown_buffer_is_counted():
    profile = replay([*HEADER, call([["-", "l1", 8_000]], 0)])
    assert profile.unknown_frees == 1
    assert "1 frees of unknown buffers" in summary(profile)[-1]


def test_programs_without_known_buffers_are_counted():
    profile = replay([*HEADER, call([["p", "Program", None, "unknown"]], 0)])
    lines = summary(profile)
    assert any("those of 1 runs of programs" in line for line in lines)
    assert any("least headroom in L1: at most 7.813 KiB (8,000 B) in" in line for line in lines), lines


def test_no_headroom_is_stated_beyond_what_the_lowest_buffer_leaves():
    """A known program leaves 7,000 - 1,000 - 500; of an unknown one a buffer at 3,000 leaves 2,000 at most."""
    known = [["+", "l1", 7_000, 2_000, 9], ["p", "Known", 500, "measured"]]
    unknown = [["+", "l1", 3_000, 4_000, 9], ["p", "Unknown", None, "unknown"], ["-", "l1", 3_000]]
    span, end = {"k": "span", "name": "part", "gap": [], "others": 0}, {"k": "end", "gap": [], "others": 0}
    profile = replay([*HEADER, call(known, 2_000), span, call(unknown, 2_000), end])
    assert [program.headroom_bytes for one in profile.calls for program in one.programs] == [5_500, 2_000]
    assert (profile.fullest, is_at_most(profile)) == ((profile.calls[1], profile.calls[1].programs[0]), True)
    (part,) = profile.spans
    assert (part.fullest, is_at_most(part)) == (profile.fullest, True)


def test_a_headroom_that_may_be_less_is_an_upper_bound():
    """The known program leaves least of what is known: the unknown one left 8,000 or less."""
    known = [["+", "l1", 7_000, 2_000, 9], ["p", "Known", 500, "measured"]]
    first = replay([*HEADER, call([["p", "Unknown", None, "unknown"]], 0), call(known, 2_000)])
    assert (first.fullest[1].headroom_bytes, is_at_most(first)) == (5_500, True)
    only = replay([*HEADER, call(known, 2_000)])
    assert (only.fullest[1].headroom_bytes, is_at_most(only)) == (5_500, False)


def test_a_device_that_is_opened_again_is_empty():
    profile = replay([*HEADER, call([["+", "l1", 8_000, 1_000, 64_000]], 1_000), *HEADER[1:2], call([], 0)])
    assert not profile.differences


def test_what_was_resident_when_a_call_failed_is_not_what_unwinding_left():
    events = [["+", "l1", 8_000, 1_000, 64_000], ["-", "l1", 8_000]]
    profile = replay([*HEADER, call(events, 0, error=["RuntimeError", "no"])])
    assert [buffer.bank_bytes for buffer in profile.failure.resident] == [1_000]
    assert profile.resident() == []


def test_the_line_that_a_kill_truncated_is_left_out_and_a_damaged_one_is_named(tmp_path):
    file = tmp_path / "records-1.jsonl"
    lines = [json.dumps(record) for record in (*HEADER, call([], 0))]
    file.write_text("\n".join(lines) + '\n{"k":"ca')
    assert len(read_profiles(tmp_path)[0].calls) == 1
    file.write_text("\n".join([*lines, "damaged", *lines]) + "\n")
    with pytest.raises(HarnessError, match=r"records-1\.jsonl:5: expected a record of a profile"):
        read_profiles(tmp_path)


def test_records_of_no_process_of_two_or_without_a_device_are_named(tmp_path):
    file = tmp_path / "records-1.jsonl"
    complete = [*HEADER, call([["+", "l1", 8_000, 1_000, 64_000]], 1_000)]
    no_device = [record for record in complete if record["k"] != "device"]
    for records, why in (
        ([], "no records"),
        (no_device, r":\d+: not a complete record"),
        ([*complete, {**complete[0], "pid": 2}, *complete[1:]], f":{len(complete) + 1}: expected the records of one process"),
        (complete[1:], ":1: expected the records of one process"),
    ):
        file.write_text("".join(json.dumps(record) + "\n" for record in records))
        with pytest.raises(HarnessError, match=why):
            read_profiles(tmp_path)
    file.write_text("".join(json.dumps(record) + "\n" for record in complete + complete))
    assert len(read_profiles(tmp_path)[0].devices) == 2, "a process that replaced itself by another program"


def failing(text, kind="RuntimeError"):
    return call([], 0, error=[kind, text])


OUT_OF_MEMORY = (
    "TT_FATAL @ f.cpp:1: x\ninfo:\nOut of Memory: Not enough space to allocate 34078720 B L1 buffer across 64 banks,"
    " where each bank needs to store 532480 B, but bank size is 1393312 B"
    " (allocated: 1064960 B, free: 328352 B, largest free block: 328352 B)"
)


@pytest.mark.parametrize(("errors", "shown"), [([0, 1], 0), ([1, 0], 1), ([0, 0], 1), ([1, 1], 1)])
def test_the_failure_is_the_last_that_ran_out_of_memory_or_else_the_last(errors, shown):
    """0: out of memory; 1: another error."""
    texts = [OUT_OF_MEMORY, "shapes differ"]
    profile = replay([*HEADER, *(failing(texts[error]) for error in errors), call([], 0)])
    assert profile.failure is profile.calls[shown]
    assert profile.raised == 2


def test_what_other_threads_allocate_is_counted_and_no_fault():
    profile = replay([*HEADER, call([], 640, others=2), call([["+", "l1", 8_000, 1_000, 64_000]], 1_640, others=2)])
    assert (profile.others, profile.differences) == (2, [])
    assert any(line.startswith("2 calls of other threads") for line in summary(profile))
    end = "which leave out what 2 calls of other threads allocated; the allocator held up to 640 B of L1 per core more than"
    assert end in exactness(profile)


def test_what_other_threads_freed_again_is_no_longer_held():
    """They hold 640 B, then 1,640 - 1,000 + 300 B: the most is 940 B. What they hold on one device ends with it."""
    ours = ["+", "l1", 8_000, 1_000, 64_000]
    first = [call([], 640, others=1), call([ours], 1_640, others=1), call([], 1_940, others=2), call([], 1_000, others=3)]
    profile = replay([*HEADER, *first])
    assert (profile.others, profile.others_bytes, profile.differences) == (3, {"l1": 940}, [])
    assert replay([*HEADER, call([ours], 1_000)]).others_bytes == {}
    assert exactness(replay([*HEADER, call([ours], 1_000)])).endswith("checks after calls")


def test_each_device_counts_the_calls_of_other_threads_from_0():
    """Three on the first device, none on the second, one on the third: four in all."""
    end = {"k": "end", "gap": []}
    first = [call([], 0, others=3), end | {"others": 3}]
    rest = [HEADER[1], call([], 0), end | {"others": 0}, HEADER[1], call([], 0, others=1), end | {"others": 1}]
    assert replay([*HEADER, *first]).others == 3
    assert replay([*HEADER, *first, *rest]).others == 4


def test_what_another_thread_made_may_be_freed_here():
    """A thread takes 640 B, which a call of ours frees: no fault, and the next call is exact again."""
    freed, ours = ["-", "l1", 4_000], ["+", "l1", 8_000, 1_000, 64_000]
    profile = replay([*HEADER, call([], 640, others=1), call([freed], 0, others=1), call([ours], 1_000, others=1)])
    assert (profile.differences, profile.unknown_frees) == ([], 0)
    assert replay([*HEADER, call([freed], 0)]).unknown_frees == 1


def test_a_difference_beside_other_threads_is_not_called_a_fault_of_this_profiler():
    profile = replay([*HEADER, call([], 0, others=1), call([], 640, others=1)])
    assert exactness(profile).startswith("not exact, with calls of other threads in between: 1 of 2 checks")


def test_a_recording_that_was_lost_is_named():
    profile = replay([*HEADER, call([], 0), {"k": "lost", "why": "no space"}])
    assert "the recording stopped before the program ended: no space" in summary(profile)


def test_control_characters_in_names_of_the_program_do_not_reach_the_terminal():
    site = {"k": "site", "n": 1, "file": "/a\x1b[31m\n.py", "line": 3, "function": "f\x07"}
    stack = {"k": "stack", "n": 2, "sites": [1]}
    profile = replay([*HEADER, site, stack, call([A_THOUSAND], 1_000, stack=2)])
    lines = summary(profile)
    assert any("/a\\x1b[31m\\n.py:3 (f\\x07)" in line for line in lines)
    assert all(line.isprintable() for line in lines)
    assert "".join(collapsed(profile, "l1")).replace("\n", "").isprintable()


def test_the_call_within_which_the_process_ended_is_named():
    profile = replay([*HEADER, {"k": "start", "n": 0, "name": "ttnn.relu", "stack": 0}])
    assert "it ended within ttnn.relu" in summary(profile)


NEGATIVE = {"stack": 0, "name": "f", "in": [], "gap": [["+", "l1", -4_096, 64, 64]], "ev": [], "view": {}, "others": 0}


@pytest.mark.parametrize(
    "record", [{"k": "call"}, {"k": "device"}, {"k": "stack", "n": 1}, {"k": "end"}, {"k": "call", **NEGATIVE}]
)
def test_an_incomplete_record_is_one_line(tmp_path, record):
    (tmp_path / "records-1.jsonl").write_text("".join(json.dumps(line) + "\n" for line in (*HEADER, record)))
    with pytest.raises(HarnessError, match=r"records-1\.jsonl:4: not a complete record of a profile"):
        read_profiles(tmp_path)


A_THOUSAND = ["+", "l1", 8_000, 1_000, 64_000]
A_FREE = ["-", "l1", 8_000]


def span(name, gap=(), others=0):
    return {"k": "span", "name": name, "gap": list(gap), "others": others}


def test_each_part_of_a_program_has_its_own_peaks():
    larger = ["+", "l1", 5_000, 3_000, 9]
    program = ["p", "Program", 1_500, "measured"]
    records = [call([larger, ["-", "l1", 5_000]], 0), span("one"), call([A_THOUSAND, program], 1_000), span("two", [A_FREE])]
    profile = replay([*HEADER, *records, call([], 0), {"k": "end", "gap": [], "others": 0}])
    one, two = profile.spans
    assert (one.name, one.first_call, one.end_call, one.before, one.after) == ("one", 1, 2, {"l1": 0}, {"l1": 0})
    assert one.peaks["l1"].bank_bytes == 1_000
    assert one.fullest[1].headroom_bytes == 8_000 - 1_000 - 1_500
    assert (two.first_call, two.end_call, two.peaks, two.fullest) == (2, 3, {}, None)
    assert profile.peaks["l1"].bank_bytes == 3_000


def test_a_part_that_begins_with_buffers_has_them_in_its_peak():
    profile = replay([*HEADER, call([A_THOUSAND], 1_000), span("one"), call([], 1_000)])
    (one,) = profile.spans
    assert (one.before, one.peaks["l1"].bank_bytes, one.end_call) == ({"l1": 1_000}, 1_000, None)


def test_a_part_ends_with_its_device():
    records = [span("one"), call([A_THOUSAND], 1_000), {"k": "end", "gap": [], "others": 0}, HEADER[1], call([], 0)]
    profile = replay([*HEADER, *records])
    (one,) = profile.spans
    assert (one.end_call, one.after) == (1, {"l1": 1_000})
    assert [device.first_call for device in profile.devices] == [0, 1]


def test_a_call_has_its_operands_and_results():
    specs = [
        {"k": "spec", "n": 1, "shape": [2, 64], "dtype": "bfloat16", "layout": "tile", "memory": None},
        {
            "k": "spec", "n": 2, "shape": [64, 32], "dtype": "bfloat8_b", "layout": "tile", "memory": "l1",
            "memory_layout": "width_sharded", "shard": [[32, 32], "[(0,0)-(1,0)]"],
        },
    ]  # fmt: skip
    profile = replay([*HEADER, *specs, call([A_THOUSAND], 1_000, **{"in": [[1, None]], "out": [[2, 8_000]], "us": 70})])
    (one,) = profile.calls
    assert [(tensor.spec.shape, tensor.spec.memory, tensor.address) for tensor in one.operands] == [((2, 64), None, None)]
    assert one.results[0].spec.shard == ((32, 32), "[(0,0)-(1,0)]")
    assert (one.results[0].address, one.microseconds) == (8_000, 70)
    assert profile.buffers[0].tensor == "64x32 bfloat8_b tile width_sharded"


SPEC = {"k": "spec", "n": 1, "shape": [8], "dtype": "uint8", "layout": "tile", "memory": "l1", "memory_layout": "interleaved"}


def test_a_deallocation_is_no_use_and_what_was_made_in_a_gap_is_used_by_the_call_after_it():
    first, second = ["+", "l1", 8_000, 1_000, 64_000], ["+", "l1", 7_000, 1_000, 64_000]
    freed = call([["-", "l1", 8_000], ["-", "l1", 7_000]], 0, name="ttnn.deallocate", **{"in": [[1, 8_000]]})
    records = [call([first], 1_000), call([], 2_000, [second], **{"in": [[1, 7_000]]}), freed]
    a, b = replay([*HEADER, SPEC, *records]).buffers
    assert [(one.made_at, one.last_use, one.freed, one.freed_at) for one in (a, b)] == [(0, 0, 2, 2), (1, 1, 2, 3)]
    assert a.tensor == b.tensor == "8 uint8 tile"


def test_the_peak_of_a_call_is_without_what_was_freed_before_it():
    larger = ["+", "l1", 5_000, 3_000, 9]
    profile = replay([*HEADER, call([A_THOUSAND, larger], 4_000), call([], 1_000, gap=[["-", "l1", 5_000]])])
    assert [one.peak["l1"] for one in profile.calls] == [4_000, 1_000]
    assert profile.peaks["l1"].bank_bytes == 4_000


def test_the_peak_of_the_first_call_has_what_was_allocated_before_it():
    profile = replay([*HEADER, call([], 0, gap=[A_THOUSAND, A_FREE]), call([], 0)])
    assert [one.peak["l1"] for one in profile.calls] == [1_000, 0]


def test_what_a_failing_call_freed_before_it_failed_was_not_resident_then():
    """Its input was freed, the next buffer found no room among 2,000 B that are left, and then its own was freed."""
    text = (
        "Out of Memory: Not enough space to allocate 448000 B L1 buffer across 64 banks, where each bank needs to store 7000 B,"
        " but bank size is 8000 B (allocated: 2000 B, free: 6000 B, largest free block: 4000 B)"
    )
    made = [["+", "l1", 8_000, 1_000, 64_000], ["+", "l1", 7_000, 1_000, 64_000]]
    events = [["+", "l1", 5_000, 1_000, 64_000], ["-", "l1", 7_000], ["-", "l1", 5_000]]
    profile = replay([*HEADER, call(made, 2_000), call(events, 1_000, error=["RuntimeError", text])])
    assert [buffer.address for buffer in profile.failure.resident] == [8_000, 5_000]
    assert [buffer.address for buffer in profile.failure.before] == [8_000, 7_000]
    failure = explain(profile)
    assert (failure.need_bytes, failure.missing_bytes, failure.least) == (7_008, 3_000, ())  # of multiples of 32 B
    assert "made by the failing call" in [resident.role.value for resident in failure.residents]
    assert not profile.differences
