"""The text of a diagnosis: the kind of failure, its function, candidates for its call, and what a replay does not prove."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ssinghal.core.case import Case, Placement
from ssinghal.core.tensors import BufferType, DType, TensorSpec
from ssinghal.core.verdict import Status, Verdict
from ssinghal.device.error_patterns import translate_error
from ssinghal.device.modes import choose_device
from ssinghal.diagnose.lowered_gather import Gather
from ssinghal.diagnose.model import Failure, LogReading, MlirValue, Operation, PythonCall
from ssinghal.diagnose.pipeline import Diagnosis, diagnose_failures, with_replays
from ssinghal.diagnose.text import as_json, explanation_lines, replay_lines
from ssinghal.operators import make_case
from ssinghal.remedy.device_pools import DevicePools
from ssinghal.runner.tasks import PoolOptions

# A frame of 4,320 x 7,680 with its 3 channels last, which fill a tile: 4,320 x 240 tiles of 2,048 B are 2,123,366,400 B.
CLONE = (
    "Out of Memory: Not enough space to allocate 2123366400 B DRAM buffer across 12 banks, where each bank needs to store"
    " 176947200 B, but bank size is 1072693184 B (allocated: 917913600 B, free: 154779584 B, largest free block: 135548864 B)."
)
ADD = (
    "Out of Memory: Not enough space to allocate 34078720 B L1 buffer across 64 banks, where each bank needs to store 532480 B,"
    " but bank size is 1393312 B (allocated: 1064960 B, free: 328352 B, largest free block: 328352 B)."
)
OTHERS = {
    "trace": "Creating trace buffers of size 237371392B on MeshDevice 0, but only 235929600B is allocated for trace region",
    "kernel config": "Program size (79760) too large for kernel config buffer (70656) on TENSIX",
    "clash": "Statically allocated circular buffers in program 5 clash with L1 buffers on core range [(x=0,y=0) - (x=7,y=7)]."
    " L1 buffer allocated at 285312 and static circular buffer region ends at 296160",
    "host": "std::bad_alloc",
    "no sizes": "Workload exceeds L1 capacity",
    "a wrong argument": "TT_FATAL @ /a/b.cpp:1: false\ninfo:\nthe shapes do not match",
    "buffer": ADD,
}


def diagnosed(text: str, given_call: Case | None = None, **known: Any) -> Diagnosis:
    failure = Failure(translate_error("RuntimeError", text), line=7, **known)
    (one,) = diagnose_failures(LogReading("log", 9, (failure,)), given_call)
    return one


@pytest.mark.parametrize("text", OTHERS.values(), ids=OTHERS)
def test_no_line_is_repeated(text: str) -> None:
    lines = explanation_lines(diagnosed(text))
    unprefixed = [line.strip() for line in (lines[0].removeprefix("line 7: "), *lines[1:])]
    assert len(set(unprefixed)) == len(unprefixed)
    assert "why:" not in unprefixed or not unprefixed[unprefixed.index("why:") + 1].startswith("call:")


def test_a_crash_is_no_memory_failure() -> None:
    failure = Failure(Verdict(Status.CRASH, message="Segmentation fault"), line=3)
    (one,) = diagnose_failures(LogReading("log", 9, (failure,)))
    assert explanation_lines(one) == ["line 3: not a memory failure, but a crash of native code: Segmentation fault"]
    assert as_json(one)["memory_failure"] is False


def test_a_text_that_is_cut_before_its_message_is_unknown() -> None:
    failure = Failure(Verdict(Status.ERROR, message="TT_FATAL @ /project/tt_m..."), line=3, is_cut=True)
    (one,) = diagnose_failures(LogReading("log", 9, (failure,)))
    assert explanation_lines(one) == ["line 3: unknown: the text is cut before its message"]
    assert (as_json(one)["memory_failure"], as_json(one)["cut"]) == (None, True)


# The function -----------------------------------------------------------------------------------------------------------------


def test_the_function_that_the_source_line_calls_is_named_and_searched_for() -> None:
    one = diagnosed(CLONE, functions=("clone",), call=PythonCall("prog.py:10", "s = [ttnn.clone(y) for _ in range(20)]"))
    lines = explanation_lines(one)
    assert lines[0] == "line 7: ttnn.clone: DRAM bank needs 176,947,200 B, 154,779,584 B free"
    assert "  function: ttnn.clone, according to the source line" in lines
    assert {c.case.operator for c in one.candidates if c.case} == {"clone"}
    assert "specify the call with --call 'clone SHAPE … --memory dram|l1' (as for ssinghal probe)" in lines


def test_where_no_call_of_the_function_fits_none_of_another_is_replayed() -> None:
    one = diagnosed(CLONE, functions=("ttnn.max_pool2d",))
    assert not any(c.case for c in one.candidates)
    assert "  function: ttnn.max_pool2d, according to the log" in explanation_lines(one)
    assert "no call of the catalogs to ttnn.max_pool2d requests these bytes" in explanation_lines(one)


def test_where_the_text_leaves_several_functions_all_are_named_and_none_is_chosen() -> None:
    lines = explanation_lines(diagnosed(OTHERS["clash"], functions=("conv2d", "conv_transpose2d")))
    assert lines[0] == "line 7: circular buffers end at 296,160 B, an L1 tensor begins at 285,312 B"
    assert lines[1] == "  function: ttnn.conv2d, or ttnn.conv_transpose2d, according to the log"


def test_a_source_line_with_sizes_stands_before_the_catalogs() -> None:
    source = "x = ttnn.max_pool2d(x, batch_size=6, input_h=464, input_w=800, channels=64, kernel_size=[3, 3], stride=[2, 2])"
    one = diagnosed(ADD, functions=("max_pool2d",), call=PythonCall("model.py:1", source))
    document = [
        line for line in explanation_lines(one) if line.startswith("  from the source line: max_pool2d of [6,64,464,800] with ")
    ]
    ways = len(("rows", "tiles")) * len(("dram", "l1", "dram to l1"))
    assert len(document) == ways
    assert [c["told_by"] for c in as_json(one)["candidates"] if c["case"]] == ["the source line"] * ways


@pytest.mark.parametrize("text", [OTHERS[name] for name in ("trace", "host", "clash", "kernel config")])
def test_only_bytes_of_a_buffer_are_searched_for_in_the_catalogs(text: str) -> None:
    assert not any("of the catalogs" in line for line in explanation_lines(diagnosed(text, functions=("conv2d",))))


def test_the_number_of_candidates_is_shown() -> None:
    one = diagnosed(ADD, functions=("relu", "silu", "multiply", "add"))
    assert one.candidate_count > 5
    heading = f"candidates, not proven: what requests exactly these bytes, 5 of {one.candidate_count} calls"
    assert heading in explanation_lines(one)
    assert as_json(one)["candidate_count"] == one.candidate_count


def test_candidates_and_the_call_are_cases_in_json() -> None:
    document = json.loads(json.dumps(as_json(diagnosed(ADD))))
    assert document["case"] is None
    assert [c["case"]["inputs"] for c in document["candidates"] if c["case"]]
    call = make_case("add", ((1, 64, 640, 400),) * 2)
    document = as_json(diagnosed(ADD, call))
    assert (document["case"]["op"], document["case_given"]) == ("add", True)


@pytest.mark.parametrize("name", OTHERS)
def test_a_call_is_called_unknown_only_where_it_has_a_part_in_the_failure(name: str) -> None:
    is_called = any(line.startswith("call: unknown") for line in explanation_lines(diagnosed(OTHERS[name])))
    assert is_called is (name in ("kernel config", "clash", "no sizes", "buffer"))


@pytest.mark.parametrize(("need", "is_failure"), [(235_929_601, True), (235_929_600, False), (1_000, False)])
def test_a_trace_that_its_region_has_room_for_is_no_shown_failure(need: int, is_failure: bool) -> None:
    lines = explanation_lines(diagnosed(OTHERS["trace"].replace("237371392", str(need))))
    assert (f"  a device opened with trace_region_size {need:,} has room for this trace alone" in lines) is is_failure
    assert ("  the region is large enough for it: these figures do not show a failure" in lines) is not is_failure


def test_a_stated_call_is_a_probe_command_too() -> None:
    lines = explanation_lines(diagnosed(ADD, make_case("add", ((1, 64, 640, 400),) * 2)))
    assert lines[-2].startswith("call: add [1,64,640,400] [1,64,640,400]")
    assert lines[-1] == "  ssinghal probe add 1,64,640,400 1,64,640,400"


SUM = TensorSpec((1, 640, 400, 64), DType.BFLOAT16)


def test_tensors_that_the_text_shows_make_the_call() -> None:
    """Where they lie is not shown: in DRAM, in L1 as the buffer is, or from one to the other."""
    candidates = [c for c in diagnosed(ADD, functions=("from_torch", "add"), tensors=(SUM, SUM)).candidates if c.sizes_from]
    assert {c.case.inputs for c in candidates if c.case} == {((1, 640, 400, 64),) * 2}
    placed = [(c.case.placement.memory.value, c.case.placement.output_memory.value) for c in candidates if c.case]
    assert placed == [("dram", "same"), ("l1", "same"), ("dram", "l1")]
    assert [c for c in diagnosed(ADD, functions=("add",), tensors=(SUM,)).candidates if c.sizes_from] == []


# What never ran -----------------------------------------------------------------------------------------------------------


def ran(number: int) -> Operation:
    return Operation("ttnn.relu", (MlirValue(f"%{number}"),))


def failing(line: int, text: str, number: int) -> Failure:
    return Failure(translate_error("RuntimeError", text), line=line, operation=ran(number))


def never_ran(*failures: Failure) -> list[list[str]]:
    """Of each failure, where the module has %5 to %8 after the one that ran out of memory first."""
    reading = LogReading("log", 9, failures, never_ran=tuple(map(ran, (5, 6, 7, 8))))
    return [[op["results"][0] for op in as_json(one)["never_ran"]] for one in diagnose_failures(reading)]


def test_what_never_ran_belongs_to_the_first_memory_failure_alone() -> None:
    wrong, full, again = failing(1, OTHERS["a wrong argument"], 3), failing(2, ADD, 4), failing(3, CLONE, 4)
    assert never_ran(wrong, full, again) == [[], ["%5", "%6", "%7", "%8"], []]


def test_what_started_after_a_failure_that_was_caught_did_run() -> None:
    first = failing(2, ADD, 4)
    assert never_ran(first, failing(3, CLONE, 6))[0] == ["%7", "%8"]
    assert never_ran(first, failing(3, CLONE, 8))[0] == []
    assert never_ran(failing(1, OTHERS["a wrong argument"], 6), first)[1] == ["%5", "%6", "%7", "%8"]


# Gathers ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("indices", "known", "expected"),
    [
        ((0, 0, 0, 1, 2, 3), True, "the gather is replicate padding"),
        (
            (),
            False,
            "may be replicate padding (the indices are not in the text;"
            " 2 more elements than before, assumed to be all in front)",
        ),
    ],
)
def test_a_gather_of_unknown_indices_only_may_be_padding(indices: tuple[int, ...], known: bool, expected: str) -> None:
    gather = Gather(TensorSpec((1, 768, 4, 60, 106), DType.BFLOAT16), 2, 6, indices)
    assert gather.padding_line().endswith(expected)
    document = as_json(replace(diagnosed(ADD), gather=gather))
    assert document["indices_known"] is known


# Replays ----------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def replayed(request: pytest.FixtureRequest) -> Any:
    """A diagnosis tried on the installed release, without remedies."""
    from ssinghal.device.releases import installed_release

    here = installed_release()
    assert here is not None
    choice = choose_device("virtual", "n150")
    bench = DevicePools(choice, PoolOptions.of(choice, workers=1, timeout_s=120, release=here), no_values="not asked")
    with bench:
        yield lambda known: with_replays(known, bench, [here.version], None)


Replayed = Callable[[Diagnosis], Diagnosis]
L1 = Placement(memory=BufferType.L1)


@pytest.mark.virtual_device
def test_a_call_that_cannot_be_made_is_reported(replayed: Replayed) -> None:
    one = replayed(diagnosed(ADD, make_case("add", ((1, 2),))))
    assert one.replays == ()
    (line,) = replay_lines(one)
    assert line.startswith("no replay on ttnn ")
    assert line.endswith("add takes two tensors, or one tensor and the number other")
    assert as_json(one)["not_replayed"] == [line]


@pytest.mark.virtual_device
@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (make_case("add", ((1, 64, 32, 32),) * 2), "it fits"),
        (make_case("add", ((1, 64, 640, 800),) * 2, placement=L1), "it requests other bytes"),
        (make_case("add", ((1, 640, 400, 64),) * 2, placement=L1), ""),
    ],
)
def test_a_given_call_that_does_not_explain_the_numbers_is_named_as_such(call: Case, expected: str, replayed: Replayed) -> None:
    """The last is the one: 640 x 400 / 32 x 2 tiles of 2,048 B are 34,078,720 B less padding; 400 rows fill 13 tiles."""
    lines = [line for line in replay_lines(replayed(diagnosed(ADD, call))) if line.startswith("the given call")]
    assert lines == ([f"the given call does not explain the numbers: {expected}"] if expected else [])


@pytest.mark.virtual_device
def test_a_candidate_that_agrees_is_no_proof(replayed: Replayed) -> None:
    one = replayed(diagnosed(ADD, functions=("add",)))
    lines = replay_lines(one)
    assert "it fails with the same numbers, all 7" in lines[0]
    assert lines[1].startswith("  the candidate: add [1,64,640,400] [1,64,640,400] ")
    assert f"not proven: it was chosen for these bytes, one of {one.candidate_count} calls of the catalogs" in lines[1]


@pytest.mark.virtual_device
def test_what_the_text_shows_is_tried_before_what_the_catalogs_have(replayed: Replayed) -> None:
    one = replayed(diagnosed(ADD, functions=("add",), tensors=(SUM, SUM)))
    assert one.candidate is not None
    assert one.candidate.sizes_from == "the tensors in the text"
    assert "all 7" in replay_lines(one)[0]
    assert replay_lines(one)[1].endswith("its sizes are those of the tensors in the text, the rest is assumed")


@pytest.mark.virtual_device
def test_candidates_that_do_not_agree_are_not_passed_over(replayed: Replayed) -> None:
    one = replayed(diagnosed(ADD.replace("1393312", "1393440"), functions=("add",)))  # of another release
    assert one.replays == ()
    assert replay_lines(one) == [f"no candidate fails with these numbers on ttnn {one.notes[0].split()[-1]}"]
