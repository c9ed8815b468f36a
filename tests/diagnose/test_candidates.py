"""Candidates for numbers without a call: calls of models first, then shapes by arithmetic."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from ssinghal.catalog.loader import load_catalogs
from ssinghal.catalog.schema import Catalog
from ssinghal.core.boards import load_board
from ssinghal.core.case import OutputMemory
from ssinghal.core.tensors import TILE_EDGE, BufferType, DType, Layout, TensorSpec
from ssinghal.core.verdict import Resource, Status, Verdict
from ssinghal.diagnose.candidate import Candidate
from ssinghal.diagnose.candidates import candidates
from ssinghal.diagnose.fingerprint import fingerprint_of
from ssinghal.diagnose.model import PythonCall
from ssinghal.diagnose.source_calls import source_calls
from ssinghal.diagnose.ttnn_functions import operators_calling
from ssinghal.estimation.estimator import estimate
from ssinghal.operators import families

ADD = Verdict(
    Status.OOM,
    Resource.L1_BUFFER,
    total_bytes=34_078_720,
    bytes_per_bank=532_480,
    banks=64,
    bank_bytes=1_362_816,
    allocated_bytes=1_064_960,
    free_bytes=297_856,
    largest_free_bytes=297_856,
)
MOCHI = Verdict(Status.OOM, Resource.CIRCULAR_BUFFER, program_bytes=9_990_400, limit_bytes=1_499_136, cores="7-6..7-6")


@pytest.fixture(scope="module")
def catalogs() -> list[Catalog]:
    return load_catalogs()


@pytest.fixture(scope="module")
def adds(catalogs: list[Catalog]) -> list[Candidate]:
    """All candidates for the add."""
    return candidates(ADD, fingerprint_of(ADD), 999, catalogs)


def test_an_add_of_two_maps_by_its_three_numbers(adds: list[Candidate]) -> None:
    """16,640 tiles of [1,64,640,400] as NHWC: 34,078,720 B, 532,480 B a bank; two operands take 1,064,960 B."""
    (first, *_) = [one for one in adds if one.case and one.case.name == "add"]
    assert first.case is not None
    assert first.case.inputs == ((1, 64, 640, 400),) * 2
    assert (first.label, first.as_allocated, first.case.placement.memory) == ("output", True, BufferType.L1)


def test_candidates_request_exactly_these_bytes(adds: list[Candidate]) -> None:
    """By the estimate of the complete call, which leaves results out where TTNN cannot make it."""
    board = load_board("n150").with_l1_small(32_768)
    seen = 0
    for one in (one for one in adds if one.case is not None):
        allocations = {a.label: a for a in estimate(one.case, board).allocations}  # type: ignore[arg-type]
        if one.label in allocations:
            seen += 1
            assert (allocations[one.label].allocated_bytes, allocations[one.label].bytes_per_bank) == (34_078_720, 532_480), (
                one.line()
            )
            assert allocations[one.label].spec.memory.buffer is BufferType.L1
    assert seen > 20


def test_those_that_models_make_most_come_first_after_those_that_fit_what_is_allocated(adds: list[Candidate]) -> None:
    ranked = [(not one.as_allocated, -one.calls) for one in adds if not one.by_arithmetic]
    assert ranked == sorted(ranked)
    assert len(set(ranked)) > 5


def test_a_limit_and_no_catalog(catalogs: list[Catalog], adds: list[Candidate]) -> None:
    assert candidates(ADD, fingerprint_of(ADD), 3, catalogs) == adds[:3]
    assert candidates(ADD, fingerprint_of(ADD), 0, catalogs) == []
    assert {one.by_arithmetic for one in candidates(ADD, fingerprint_of(ADD), 9, [])} == {True}


def test_the_source_of_a_candidate_is_named(catalogs: list[Catalog]) -> None:
    """The Mochi decoder's own rows, 5-D maps of [1,768,4,60,106], in DRAM: 768 x 4 x 2 x 4 tiles of 2,048 B over 12 banks."""
    tiles = 768 * 4 * math.ceil(60 / 32) * math.ceil(106 / 32)
    verdict = Verdict(
        Status.OOM,
        Resource.DRAM_BUFFER,
        total_bytes=tiles * 2_048,
        bytes_per_bank=math.ceil(tiles / 12) * 2_048,
        banks=12,
        bank_bytes=1_073_741_792,
    )
    (first, *_) = candidates(verdict, fingerprint_of(verdict), 5, catalogs)
    assert first.case is not None
    assert math.prod(first.case.inputs[0]) == 4 * 768 * 60 * 106
    assert first.line().startswith("candidate: ")
    assert "diffusers/mochi-decoder at 4x60x106, decoder." in first.line()


def test_mochis_untilize_by_its_numbers_alone(catalogs: list[Catalog]) -> None:
    """9,990,400 - 102,656 = 2,414 x 4,096 on core (7,6): 152,640 tiles wide is one of the widths, and the decoder has it."""
    (first, *_) = candidates(MOCHI, fingerprint_of(MOCHI), 5, catalogs)
    assert first.case is not None
    assert first.case.inputs == ((4, 4_884_480),)
    assert (first.case.name, dict(first.case.attrs)) == ("to_layout", {"layout": "row_major"})
    assert any(source.model for source in first.sources)


def test_widths_by_arithmetic_are_all_that_give_the_share() -> None:
    """Of T tiles, 62 cores get ceil(T / 63) each and the 63rd the other 2,414."""
    widths = [t for t in range(140_000, 160_000) if t - 62 * math.ceil(t / 63) == 2_414]
    (one,) = [one for one in candidates(MOCHI, fingerprint_of(MOCHI), 9, []) if "bfloat16 to bfloat16" in one.description]
    assert one.by_arithmetic
    assert f"{32 * (widths[0] - 1) + 1:,} to {32 * widths[-1]:,} columns wide" in one.line()


def test_shapes_by_arithmetic_have_these_bytes() -> None:
    """4,294,967,296 B over 12 banks, 357,916,672 B each: 2^20 tiles of float32; of bfloat16 a bank would hold 357,914,624 B."""
    verdict = Verdict(
        Status.OOM,
        Resource.DRAM_BUFFER,
        total_bytes=4_294_967_296,
        bytes_per_bank=357_916_672,
        banks=12,
        bank_bytes=1_071_821_792,
    )
    (one,) = candidates(verdict, fingerprint_of(verdict), 9, [])
    assert one.description == "a tensor of 1,048,576 tiles of 4,096 B (float32)"
    spec = TensorSpec((32_768, 32_768), DType.FLOAT32)
    assert spec.num_pages * spec.page_bytes == 4_294_967_296
    assert spec.num_pages == 32_768 * 32_768 // TILE_EDGE**2


# The function that the text names --------------------------------------------------------------------------------------------

FUNCTIONS = {
    "clone": {"clone"},
    "ttnn.reshape": {"view", "flatten", "unflatten"},
    "multiply": {"mul"},
    "ttnn.conv2d": {"convolution"},
    "scaled_dot_product_attention": {"scaled_dot_product_attention"},
    "transformer.scaled_dot_product_attention": {"scaled_dot_product_attention"},
    "dropout": {"dropout"},
    "from_torch": set(),
}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_operators_by_the_ttnn_function_that_they_call(function: str) -> None:
    assert operators_calling(function) == FUNCTIONS[function]


def test_every_declared_function_finds_its_operator() -> None:
    infos = [info for members in families().values() for info in members if info.ttnn]
    assert all(info.name in operators_calling(name) for info in infos for name in info.ttnn.split(", "))


@pytest.mark.parametrize("function", ["add", "relu", "ttnn.clone", "batch_norm", "multiply", "permute"])
def test_candidates_are_results_of_the_function_that_the_text_names(function: str, catalogs: list[Catalog]) -> None:
    matching = [one for one in candidates(ADD, fingerprint_of(ADD), 999, catalogs, [function]) if one.case]
    assert matching
    assert {one.case.operator for one in matching if one.case} <= operators_calling(function)
    assert all(one.label.startswith("output") for one in matching)


def test_the_likeliest_function_comes_first(catalogs: list[Catalog]) -> None:
    matching = [one.case.operator for one in candidates(ADD, fingerprint_of(ADD), 999, catalogs, ["relu", "add"]) if one.case]
    assert matching == sorted(matching, key=["relu", "add"].index)
    assert set(matching) == {"relu", "add"}


def test_no_call_of_another_function_stands_in(catalogs: list[Catalog]) -> None:
    """Its tensors may serve as examples: a shape of a model is likelier than a factorization."""
    matching = candidates(ADD, fingerprint_of(ADD), 999, catalogs, ["from_torch"])
    assert {one.by_arithmetic for one in matching} == {True}
    assert "16,640 tiles of 2,048 B (bfloat16), such as [1,64,640,400] or" in matching[0].line().replace(
        "[1,640,400,64]", "[1,64,640,400]"
    )


@pytest.mark.parametrize("allocated", [0, 532_479, 532_480, 1_064_960])
def test_no_candidate_needs_more_before_it_than_is_allocated(allocated: int, catalogs: list[Catalog]) -> None:
    """By the estimate of the complete call: what is booked before the tensor is in the bank already."""
    verdict = replace(ADD, allocated_bytes=allocated, free_bytes=1_362_816 - allocated)
    board = load_board("n150").with_l1_small(32_768)
    matching = [one for one in candidates(verdict, fingerprint_of(verdict), 999, catalogs) if one.case is not None]
    assert matching
    for one in matching:
        allocations = [a for a in estimate(one.case, board).allocations if a.spec.memory.buffer is BufferType.L1]  # type: ignore[arg-type]
        labels = [a.label for a in allocations]
        if one.label in labels:
            before = sum(a.booked_bytes_per_bank for a in allocations[: labels.index(one.label)])
            assert before <= allocated, one.line()
            assert one.as_allocated == (0 < before == allocated), one.line()
            assert ("operands are what is allocated" in one.line()) == one.as_allocated


# Calls with their sizes in the source --------------------------------------------------------------------------------------

POOL = "batch_size=6, input_h=464, input_w=800, channels=64, kernel_size=[3, 3], stride=[2, 2], padding=[1, 1])"
SOURCES = {
    f"x = ttnn.max_pool2d(input_tensor=x, {POOL}": ("max_pool2d", ((6, 64, 464, 800),)),
    f"return ttnn.relu(ttnn.max_pool2d(x, {POOL})": ("max_pool2d", ((6, 64, 464, 800),)),
    f"with ttnn.max_pool2d(x, {POOL} as y:": ("max_pool2d", ((6, 64, 464, 800),)),
    "y = ttnn.avg_pool2d(x, batch_size=1, input_h=8, input_w=8, channels=32, kernel_size=(2, 2), stride=2)":
        ("avg_pool2d", ((1, 32, 8, 8),)),
    "ttnn.conv2d(input_tensor=x, weight_tensor=w, device=d, in_channels=32, out_channels=64, batch_size=1, input_height=108,"
    " input_width=192, kernel_size=(3, 3), padding=(1, 1), slice_config=s)":
        ("convolution", ((1, 32, 108, 192), (64, 32, 3, 3))),
    "ttnn.conv2d(x, w, bias_tensor=b, in_channels=32, out_channels=64, batch_size=1, input_height=8, input_width=8,"
    " kernel_size=(1, 1))": ("convolution", ((1, 32, 8, 8), (64, 32, 1, 1), (64,))),
}  # fmt: skip


@pytest.mark.parametrize("source", SOURCES)
def test_a_call_whose_sizes_are_in_the_source(source: str) -> None:
    calls = list(source_calls(PythonCall("", source), None))
    assert [(one.case.operator, one.case.inputs) for one in calls] == [SOURCES[source]] * 2
    assert [one.case.placement.layout for one in calls] == [Layout.ROW_MAJOR, Layout.TILE]
    assert all(
        one.left_out == (("slice_config=s (s is not in the text)",) if "slice_config" in source else ()) for one in calls
    )
    assert "from the source line" in Candidate.from_source(calls[0]).line()


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("memory", [BufferType.L1, BufferType.DRAM])
def test_a_call_of_the_source_is_assumed_in_the_exhausted_memory_too(source: str, memory: BufferType) -> None:
    calls = list(source_calls(PythonCall("", source), memory))
    placements = {(one.case.placement.memory, one.case.placement.output_memory) for one in calls}
    from_dram = OutputMemory.L1 if memory is BufferType.L1 else OutputMemory.SAME
    assert placements == {(BufferType.DRAM, OutputMemory.SAME), (memory, OutputMemory.SAME), (BufferType.DRAM, from_dram)}
    assert len({one.case.key for one in calls}) == len(calls) == 2 * len(placements)


SIZELESS = {
    "nothing": "",
    "no call": "ttnn.",
    "another function": "ttnn.add(a, b)",
    "no syntax": "for x in ttnn.(((",
    "not of ttnn": f"max_pool2d(x, {POOL}",
    "a name for a size": f"ttnn.max_pool2d(x, {POOL.replace('464', 'h')}",
    "cut": f"ttnn.max_pool2d(x, {POOL[:-1]}",
    "below zero": f"ttnn.max_pool2d(x, {POOL.replace('464', '-1')}",
    "too large": f"ttnn.max_pool2d(x, {POOL.replace('464', '9' * 5000)}",
    "nested without end": "ttnn.max_pool2d(" + "(" * 300 + ")" * 301,
}


@pytest.mark.parametrize("source", SIZELESS.values(), ids=SIZELESS)
def test_a_line_without_its_sizes_is_no_call(source: str) -> None:
    assert list(source_calls(PythonCall("", source), BufferType.L1)) == []


@pytest.mark.parametrize(
    "verdict",
    [
        Verdict(Status.ERROR),
        Verdict(Status.OOM, Resource.HOST, total_bytes=10),
        Verdict(Status.OOM, Resource.L1_SMALL_BUFFER, total_bytes=4096, bytes_per_bank=64, banks=64, bank_bytes=64),
        Verdict(Status.OOM, Resource.CIRCULAR_BUFFER, program_bytes=2_000_000, limit_bytes=1_499_136, cores="0-0..7-7"),
    ],
)
def test_what_has_no_candidates(verdict: Verdict) -> None:
    assert candidates(verdict, fingerprint_of(verdict), catalogs=[]) == []


@pytest.mark.parametrize(
    ("source", "name", "inputs"),
    [
        ("y = ttnn.softmax(ttnn.reshape(x, (1, 12, 4096, 4096)), dim=-1)", "softmax", [(1, 12, 4096, 4096)]),
        ("y = ttnn.softmax(x.reshape(1, 8, 64, 96), dim=-1)", "softmax", [(1, 8, 64, 96)]),
        ("y = ttnn.add(ttnn.to_device(ttnn.zeros([2, 64]), d), ttnn.ones(ttnn.Shape([2, 64])))", "add", [(2, 64), (2, 64)]),
    ],
)
def test_a_call_whose_operands_are_made_in_the_source(source: str, name: str, inputs: list[tuple[int, ...]]) -> None:
    calls = list(source_calls(PythonCall("", source), None))
    assert [(one.case.name, list(one.case.inputs), one.sizes_from) for one in calls] == [(name, inputs, "the source line")]


@pytest.mark.parametrize(
    "source",
    [
        "y = ttnn.add(ttnn.reshape(x, (1, 64)), z)",
        "y = ttnn.softmax(ttnn.reshape(x, (1, -1, 64)), dim=-1)",
        "y = ttnn.softmax(ttnn.reshape(x, (b, 12, 64)), dim=-1)",
        "y = ttnn.softmax(ttnn.zeros((1, 64), dtype=ttnn.float32), dim=-1)",
    ],
)
def test_a_call_with_an_operand_that_is_not_known_is_none(source: str) -> None:
    assert list(source_calls(PythonCall("", source), None)) == []
