"""On which boards and releases a failure is replayed, and where none counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from ssinghal.core.case import Case, OutputMemory, Placement
from ssinghal.core.sharding import memory_request
from ssinghal.core.tensors import BufferType
from ssinghal.device.error_patterns import translate_error
from ssinghal.device.releases import added_releases
from ssinghal.diagnose.model import Failure, LogReading
from ssinghal.diagnose.pipeline import Diagnosis, diagnose_failures
from ssinghal.diagnose.replay import LiveSource
from ssinghal.diagnose.replay_pools import ReplayPools
from ssinghal.diagnose.text import replay_lines
from ssinghal.operators import make_case
from ssinghal.remedy.search import Budget

pytestmark = pytest.mark.virtual_device

CLASH = (
    "Statically allocated dataflow buffers in program 3 clash with L1 buffers on core range [{cores}]."
    " L1 buffer allocated at {tensor} and static dataflow buffer region ends at {end}"
)
SHARDS = (
    "Out of Memory: Not enough space to allocate {total} B L1 buffer across {banks} banks, where each bank needs to store"
    " {each} B, but bank size is 1393312 B (allocated: {taken} B, free: {free} B, largest free block: {free} B)."
)
RELU = make_case("relu", ((1, 1, 32, 32),))


@pytest.fixture(scope="module")
def pools() -> Iterator[ReplayPools]:
    with ReplayPools() as opened:
        yield opened


def diagnosed(text: str, call: Case) -> Diagnosis:
    failure = Failure(translate_error("RuntimeError", text), line=1)
    assert failure.verdict.resource is not None
    (one,) = diagnose_failures(LogReading("log", 1, (failure,)), call)
    return one


def test_cores_that_no_virtual_board_has_are_not_replayed(pools: ReplayPools) -> None:
    """Columns 1 to 3 and rows 0 to 9 are workers of a Wormhole Galaxy, of which no virtual board has the 7x10 cores."""
    one = pools.replayed(diagnosed(CLASH.format(cores="1-0 - 3-9", tensor=567_488, end=754_528), RELU), None)
    assert one.replays == ()
    (line,) = replay_lines(one)
    assert line.startswith("no replay: no virtual board is one chip of a Wormhole Galaxy")


def in_shards(cores: int, call: Case) -> Diagnosis:
    """270 tiles on each of 48 cores, beside 1,000,000 B."""
    each, taken = 270 * 2_048, 1_000_000
    return diagnosed(SHARDS.format(total=cores * each, banks=cores, each=each, taken=taken, free=1_393_312 - taken), call)


def test_a_buffer_in_shards_counts_on_as_many_cores_alone(pools: ReplayPools) -> None:
    """[576, 23040] in 48 widths of 15 tiles: 18 x 15 tiles on each of 8x6 cores. Interleaved it is on all 64."""
    sharded = make_case(
        "relu", ((576, 23_040),), {}, Placement(memory=BufferType.L1, sharding=memory_request("l1:width@8x6").sharding)
    )
    one = pools.replayed(in_shards(48, sharded), None)
    assert one.is_explained
    assert {number.name for number in one.replays[0].numbers if number.equal} >= {"total_bytes", "banks", "bytes_per_bank"}
    everywhere = replace(sharded, placement=Placement(memory=BufferType.L1))
    (line,) = replay_lines(pools.replayed(in_shards(48, everywhere), None))
    assert line.startswith("no replay counts: no virtual board has as many L1 banks, and the message of the known call on ")
    assert line.endswith("is on 64")


def test_a_known_call_counts_with_a_buffer_on_as_many_banks_as_the_message(pools: ReplayPools) -> None:
    """Twice the bytes of the message, on its 48 cores: it is no other board's, and is said to request other bytes."""
    twice = make_case(
        "relu", ((1_152, 23_040),), {}, Placement(memory=BufferType.L1, sharding=memory_request("l1:width@8x6").sharding)
    )
    one = pools.replayed(in_shards(48, twice), None)
    assert one.replays[0].result.verdict.banks == 48
    assert replay_lines(one)[1] == "the given call does not explain the numbers: it requests other bytes"


def test_remedies_of_a_call_that_fails_with_other_numbers_are_called_so(pools: ReplayPools) -> None:
    """A sum in L1 of tensors twice as large as the message's buffer."""
    text = SHARDS.format(total=64 * 532_480, banks=64, each=532_480, taken=1_064_960, free=1_393_312 - 1_064_960)
    sizes = {"as the message": (640, 400), "twice": (640, 800)}
    headings = {}
    for name, (height, width) in sizes.items():
        call = make_case("add", ((1, height, width, 64),) * 2, {}, Placement(memory=BufferType.L1))
        lines = replay_lines(pools.replayed(diagnosed(text, call), Budget()))
        (headings[name],) = [line for line in lines if line.startswith("what would make it fit")]
    assert headings == {
        "as the message": "what would make it fit:",
        "twice": "what would make it fit as it fails here, not with the numbers of the message:",
    }


TRACE = "Creating trace buffers of size 237371392B on MeshDevice 0, but only 235929600B is allocated for trace region"


@pytest.mark.parametrize("text", ["std::bad_alloc", TRACE])
def test_what_no_call_alone_takes_is_not_replayed(text: str, pools: ReplayPools) -> None:
    one = pools.replayed(diagnosed(text, RELU), None)
    assert (one.replays, one.not_replayed) == ((), ())


DECODE = make_case(
    "paged_scaled_dot_product_attention_decode",
    ((1, 1, 8, 512), (128, 2, 64, 512), (128, 2, 64, 512), (1, 128), (1,)),
    {},
    Placement(output_memory=OutputMemory.TTNN),
)


def test_a_build_between_two_releases_is_found_from_the_older_one(pools: ReplayPools) -> None:
    """The wording is of builds since May 2026, the call fits since 0.75.0; 0.66.0 reserves 105,280 B in each L1 of a Blackhole
    and has the report's end less 5,696 B: a base of 110,976 B, of which no known build is."""
    if not any(release.version == "0.66.0" for release in added_releases()):
        pytest.skip("needs ttnn 0.66.0")
    grown = "grow to 2318272 B which is beyond max L1 size of 1572864 B"
    text = f"Statically allocated circular buffers on core range [0-0 - 10-9] {grown}"
    one = pools.replayed(diagnosed(text, DECODE), None)
    assert one.is_explained
    assert [replay.result.works for replay in one.replays] == [True] * (len(one.replays) - 1) + [False]
    shift = one.replays[-1].shift
    assert shift is not None
    assert (one.replays[-1].result.ttnn, shift.here_bytes, shift.there_bytes) == ("0.66.0", 105_280, 110_976)
    assert not any(line.startswith("the given call") for line in replay_lines(one))


def test_a_call_that_fits_contradicts_no_report_of_another_build(pools: ReplayPools) -> None:
    """A clash without cores of a known build; and one that says by its bank that it is of 0.81.1."""
    old = "Statically allocated circular buffers in program 3 clash with L1 buffers on core range [(x=0,y=0) - (x=7,y=7)]."
    text = f"{old} L1 buffer allocated at 595712 and static circular buffer region ends at 631680"
    (line,) = [line for line in replay_lines(pools.replayed(diagnosed(text, RELU), None)) if line.startswith("the given call")]
    assert line == (
        "the given call does not explain the numbers on these releases (it fits); the report may be of another build"
    )
    text = SHARDS.format(total=64 * 532_480, banks=64, each=532_480, taken=1_064_960, free=1_393_312 - 1_064_960)
    (line,) = [line for line in replay_lines(pools.replayed(diagnosed(text, RELU), None)) if line.startswith("the given call")]
    assert line == "the given call does not explain the numbers: it fits"


def test_remedies_depend_on_what_is_only_the_least_that_was_allocated(pools: ReplayPools) -> None:
    """A message without what is allocated: a map and its result, 532,480 B each, fit into an empty bank."""
    text = SHARDS.partition(" (allocated")[0].format(total=64 * 532_480, banks=64, each=532_480)
    relu = make_case("relu", ((1, 640, 400, 64),), {}, Placement(memory=BufferType.L1))
    one = pools.replayed(diagnosed(text, relu), Budget())
    assert one.replays[0].live_from is LiveSource.LEAST
    assert one.replays[0].same_numbers
    assert "what would make it fit, if no more was allocated than this minimum:" in replay_lines(one)
