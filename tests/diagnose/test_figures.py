"""What the figures of a message imply, each worked out by hand in the test, and that none of them is dropped."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from ssinghal.core.tensors import BufferType, DType, Layout, MemoryConfig, TensorSpec
from ssinghal.core.verdict import Resource, Status, Verdict
from ssinghal.device.error_patterns import translate_error
from ssinghal.diagnose.explanation import Explanation, explain
from ssinghal.diagnose.log_reader import read_log
from ssinghal.diagnose.model import Failure, MlirValue, Operation
from ssinghal.diagnose.odd_figures import signed
from ssinghal.diagnose.small_region import sufficient_size

SAMPLES: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parents[1] / "data" / "error_samples.yaml").read_text())
MEMORY = [sample for sample in SAMPLES if "resource" in sample["verdict"]]


def explained(verdict: Verdict) -> Explanation:
    return explain(Failure(verdict, line=1))


def text_of(verdict: Verdict) -> str:
    explanation = explained(verdict)
    return "\n".join((explanation.headline, *explanation.lines()))


def buffer(memory: str, banks: int, each: int, bank: int | None = None, *, total: int | None = None, **stats: int) -> Verdict:
    """The verdict of a buffer that does not fit, with as many figures as the text had."""
    resource = {"DRAM": Resource.DRAM_BUFFER, "L1": Resource.L1_BUFFER, "L1_SMALL": Resource.L1_SMALL_BUFFER}[memory]
    return Verdict(
        Status.OOM,
        resource,
        total_bytes=banks * each if total is None else total,
        banks=banks,
        bytes_per_bank=each,
        bank_bytes=bank,
        **stats,
    )


def clash(address: int, end: int, cores: str = "[0-0 - 7-7]") -> Verdict:
    return translate_error(
        "RuntimeError",
        f"Statically allocated circular buffers in program 7 clash with L1 buffers on core range {cores}. L1 buffer allocated"
        f" at {address} and static circular buffer region ends at {end}",
    )


# ---- no figure is dropped ----


@pytest.mark.parametrize("sample", MEMORY, ids=lambda sample: f"{sample['id']}-{sample['release']}".replace(" ", "_"))
def test_every_figure_of_every_wording_is_in_the_explanation(sample: dict[str, Any]) -> None:
    verdict = translate_error(sample.get("type", "RuntimeError"), sample["text"])
    numbers = set(re.findall(r"\d+", text_of(verdict).replace(",", "")))
    figures = {name: value for name, value in sample["verdict"].items() if isinstance(value, int)}
    assert {name for name, value in figures.items() if str(value) not in numbers} == set()


@pytest.mark.parametrize("resource", [Resource.DRAM_BUFFER, Resource.FRAGMENTATION])
def test_free_bytes_without_the_largest_block_mean_fragmentation(resource: Resource) -> None:
    """1,194,396,480 free and 469,762,048 requested: no hole has more than 469,762,047, so there are three at least."""
    verdict = replace(
        buffer("DRAM", 8, 469_762_048, 4_273_390_016, allocated_bytes=3_078_993_536, free_bytes=1_194_396_480),
        resource=resource,
    )
    explanation = explained(verdict)
    assert explanation.buffer is not None
    assert (explanation.buffer.fragmented, explanation.buffer.least_holes) == (True, 3)
    assert explanation.headline == "DRAM bank needs 469,762,048 B, 1,194,396,480 B free, in no block of that size"
    text = "\n".join(explanation.lines())
    assert "3,078,993,536 B allocated, 1,194,396,480 B free" in text
    assert "fragmented: 1,194,396,480 B are free, but in at least 3 holes, none of 469,762,048 B" in text
    assert "what is already allocated" not in text


def test_too_few_free_bytes_are_no_fragmentation() -> None:
    """54 MiB requested, 30,000,000 B free in two numbers alone: 26,623,104 B are missing, or more."""
    text = text_of(buffer("DRAM", 12, 56_623_104, 1_000_000_000, allocated_bytes=970_000_000, free_bytes=30_000_000))
    assert "missing in each bank: 25.39 MiB (26,623,104 B), or more" in text
    assert "it fits into an empty bank: the cause is what is already allocated" in text
    assert "fragmented" not in text


def test_holes_that_would_not_do_together_are_no_fragmentation() -> None:
    """12,582,912 - 10,250,880 = 2,332,032."""
    verdict = buffer(
        "DRAM", 12, 12_582_912, 1_071_821_792,
        allocated_bytes=1_061_570_912, free_bytes=10_250_880, largest_free_bytes=5_740_000,
    )  # fmt: skip
    text = text_of(verdict)
    assert "it is no fragmentation: all free bytes in one block would be 2,332,032 B too few" in text
    assert "fragmented:" not in text


@pytest.mark.parametrize("memory", ["L1", "DRAM"])
def test_a_headline_names_the_memory_that_is_fragmented(memory: str) -> None:
    bank = 1_329_888 if memory == "L1" else 1_071_821_792
    stats = {"allocated_bytes": bank - 900_000, "free_bytes": 900_000, "largest_free_bytes": 500_000}
    verdict = replace(buffer(memory, 12, 600_000, bank, **stats), resource=Resource.FRAGMENTATION)
    assert explained(verdict).headline == f"{memory} bank needs 600,000 B, 900,000 B free, largest block 500,000 B"


# ---- only the size of a bank, or not even that ----


def test_a_bank_s_size_alone_shows_what_is_taken_at_least() -> None:
    """1,331,936 - 780,800 = 551,136: with one byte less in use, the buffer would fit."""
    explanation = explained(buffer("L1", 64, 780_800, 1_331_936, total=49_971_200))
    assert explanation.buffer is not None
    assert explanation.buffer.least_taken_bytes == 551_137
    assert any("at least 551,137 B of it are taken" in line for line in explanation.lines())
    assert explanation.to_json()["buffer"]["least_taken_bytes"] == 551_137


def test_a_buffer_that_exceeds_the_bank_shows_nothing_of_what_is_taken() -> None:
    explanation = explained(buffer("L1", 64, 1_350_784, 1_330_944))
    assert explanation.buffer is not None
    assert explanation.buffer.least_taken_bytes is None
    assert any("1.01 times its size" in line for line in explanation.lines())


@pytest.mark.parametrize(
    ("each", "says"),
    [
        (835_584, "the buffer would fit into it"),
        (1_300_000, "less any L1_SMALL region: the buffer may fit into it"),  # not beside a region of 256 KiB
        (1_395_000, "less any L1_SMALL region: the buffer may fit into it"),  # in some builds
        (1_396_481, "the buffer would exceed it"),
    ],
)
def test_without_a_bank_s_size_the_builds_show_whether_it_fits_an_empty_one(each: int, says: str) -> None:
    """Wormhole: 1,499,136 - 105,824 (0.81.1) to 1,499,136 - 102,656 (December 2025)."""
    text = text_of(buffer("L1", 64, each))
    assert "an empty L1 bank has 1,393,312 to 1,396,480 B in the builds known here" in text
    assert says in text


# ---- L1_SMALL ----


@pytest.mark.parametrize(
    ("need", "region", "exact", "rounded"),
    [
        (19_808, 65_536, 45_729, 45_760),  # 65,536 - 19,808 + 1; as multiples of 32 or 64 at least 65,536 - 19,776
        (16, 8_000, 7_985, 8_000),  # a free block of 32 would have held it
        (800, 8_192, 7_393, 7_424),  # on a Wormhole 8,192 - 768, on a Blackhole 8,192 - 832 + 64: the same
    ],
)
def test_a_region_that_is_full_is_shown_as_taken(need: int, region: int, exact: int, rounded: int) -> None:
    text = text_of(buffer("L1_SMALL", 64, need, region))
    assert f"at least {exact:,} B ({rounded:,} B as the allocator rounds) of the {region:,} B" in text
    assert "config_tensors_in_dram=True" in text


@pytest.mark.parametrize(
    ("need", "region", "stats", "size"),
    [
        (19_808, 65_536, {}, 85_344),  # all of the region may be in use
        (16, 0, {}, 32),
        (33_792, 32_768, {}, 66_560),
        (8_000, 8_000, {"allocated_bytes": 2_016, "free_bytes": 5_984, "largest_free_bytes": 5_856}, 10_144),  # + 2,144
        (8_000, 8_000, {"allocated_bytes": 2_016, "free_bytes": 5_984}, 10_016),  # at most: 8,000 - 5,984 + 8,000
        (800, 8_000, {"allocated_bytes": 2_016, "free_bytes": 5_984}, 8_800),  # no block of 800 among 5,984 free bytes
    ],
)
def test_a_region_of_the_advised_size_has_room(need: int, region: int, stats: dict[str, int], size: int) -> None:
    verdict = buffer("L1_SMALL", 64, need, region, **stats)
    assert sufficient_size(verdict) == size
    assert f"l1_small_size {size:,} has room for this buffer" in text_of(verdict)


def test_a_region_of_unknown_size_is_not_called_full() -> None:
    text = text_of(buffer("L1_SMALL", 12, 22_720))
    assert "the size of the region is not in the text: it has no free block of 22,720 B" in text
    assert "taken" not in text


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("10485760 B L1_SMALL buffer across 64 b...", ": this buffer takes at least 163,840 B of it"),  # 10,485,760 / 64
        ("100 B L1_SMALL buffer across 64 banks, whe...", ": this buffer takes at least 2 B of it"),
        ("10485760 B L1_SMALL buf...", ""),
    ],
)
def test_a_shortened_message_names_the_setting_too(text: str, advice: str) -> None:
    summary = f"FAILED tests/test_conv.py::test_conv - RuntimeError: Out of Memory: Not enough space to allocate {text}\n"
    (failure,) = read_log(io.BytesIO(summary.encode()), "log").failures
    lines = explain(failure).lines()
    assert f"open the device with a larger l1_small_size{advice}" in lines
    assert any("config_tensors_in_dram=True" in line for line in lines)


def test_no_region_at_all() -> None:
    text = text_of(buffer("L1_SMALL", 64, 16, 0))
    assert "without an L1_SMALL region" in text
    assert "taken" not in text


# ---- a program and the tensors in its way ----


def test_a_tiny_program_is_not_the_cause() -> None:
    """A tensor at 104,448 is above the reserved base: 103,744 to 104,224 of the known builds, on a Wormhole alone. So the
    program has 3,712 to 4,192 B and the tensors 1,499,136 - 104,448; they leave 224 to 704 B."""
    explanation = explained(clash(104_448, 107_936))
    assert explanation.program is not None
    assert sorted(need.program_bytes for need in explanation.program.needs) == [3_712, 4_096, 4_192]
    assert explanation.program.tensors_bytes == 1_394_688
    text = "\n".join(explanation.lines())
    assert "the tensors in L1 are the cause, not the program: they leave 224 to 704 B of a core" in text
    assert "needs only 3,712 to 4,192 B, 0.3 % of what a core has" in text


def test_a_program_that_takes_up_the_core_is_not_blamed_on_tensors() -> None:
    """1,563,264 - 111,744 = 1,451,520 of 1,461,120 B (99.3 %); above the tensor are 9,792 B (0.7 %)."""
    text = text_of(clash(1_563_072, 1_563_264))
    assert "the program takes up the core: its buffers need 99.3 % of what one has, the tensors take the top 0.7 %" in text


def test_a_program_that_exceeds_a_core_needs_no_tensor_to_fail() -> None:
    assert "the program is the cause: its buffers exceed a core without any tensor" in text_of(clash(1_167_360, 1_700_000))


def test_neither_side_alone_exceeds_a_core() -> None:
    text = text_of(clash(285_312, 296_160, "[(x=0,y=0) - (x=7,y=7)]"))
    assert "together they exceed a core, neither does alone" in text
    assert "is the cause" not in text


def test_where_either_chip_is_possible_the_tensors_are_sized_on_both() -> None:
    """1,499,136 - 1,378,048 = 121,088 and 1,572,864 - 1,378,048 = 194,816."""
    program = explained(clash(1_378_048, 1_430_656, "[0-0 - 0-0]")).program
    assert program is not None
    assert (program.tensors_bytes, program.tensors_by_chip) == (None, (("Wormhole", 121_088), ("Blackhole", 194_816)))


def test_beyond_l1_no_tensor_has_a_part() -> None:
    text = text_of(
        translate_error(
            "RuntimeError",
            "Statically allocated circular buffers on core range [0-0 - 7-7] grow to 1721472 B which is beyond max L1 size of"
            " 1499136 B",
        )
    )
    assert "no tensor has a part in it" in text
    assert "no tensor has a part in it" not in text_of(clash(285_312, 296_160))


# ---- kernel config ----


def test_the_room_on_an_ethernet_core_has_no_setting() -> None:
    text = text_of(
        translate_error("RuntimeError", "Program size (25680) too large for kernel config buffer (25600) on ACTIVE_ETH")
    )
    assert "25,680 B" in text
    assert "missing: 80 B" in text
    assert "constant of the build: no option of open_device changes it" in text
    assert "0.81.1 has 26,624 B" in text  # 26 x 1024, in its headers; 25 x 1024 in those of 0.66.0 and 0.75.0
    assert "B smaller" not in text


@pytest.mark.parametrize("core", ["ACTIVE_ETH", "IDLE_ETH"])
def test_another_release_is_named_only_where_it_has_room(core: str) -> None:
    text = text_of(
        translate_error("RuntimeError", f"Program size (27000) too large for kernel config buffer (25600) on {core}")
    )
    assert "constant of the build" in text
    assert "0.81.1" not in text


def test_the_room_on_a_tensix_core_grows_with_a_smaller_worker_l1_size() -> None:
    """79,760 - 70,656 = 9,104, in multiples of 64 B 9,152; 79,760 itself is 79,808."""
    text = text_of(translate_error("RuntimeError", "Program size (79760) too large for kernel config buffer (70656) on TENSIX"))
    assert "worker_l1_size of ttnn.device.get_max_worker_l1_unreserved_size() - 79,808, 9,152 B smaller than now" in text
    assert "constant" not in text


def test_runtime_arguments_have_a_constant_room() -> None:
    message = "1760 Bytes unique+common runtime args targeting kernel reshard_reader on (x=0,y=0) are too large."
    text = text_of(Verdict(Status.OOM, Resource.KERNEL_CONFIG, program_bytes=1760, limit_bytes=1024, message=message))
    assert "need 1.719 KiB (1,760 B) of 1 KiB (1,024 B)" in text
    assert "constant of the build" in text
    assert "B smaller" not in text


# ---- shards ----


@pytest.mark.parametrize(
    ("cores", "size", "bank", "tiles", "rectangle"),
    [
        # 552,960 = 270 x 2,048 = 135 x 4,096 = 960 x 576
        (48, 552_960, 1_329_888, {DType.BFLOAT16: 270, DType.FLOAT32: 135, DType.BFLOAT4_B: 960}, (8, 6)),
        # 487,424 = 238 x 2,048 = 119 x 4,096 = 448 x 1,088
        (100, 487_424, 1_395_968, {DType.BFLOAT16: 238, DType.FLOAT32: 119, DType.BFLOAT8_B: 448}, (10, 10)),
        (20, 6_001, 1_329_888, {}, (4, 5)),
    ],
)
def test_what_a_shard_can_be(cores: int, size: int, bank: int, tiles: dict[DType, int], rectangle: tuple[int, int]) -> None:
    verdict = buffer("L1", cores, size, bank, allocated_bytes=bank, free_bytes=0, largest_free_bytes=0)
    need = explained(verdict).buffer
    assert need is not None
    assert need.shard is not None
    assert dict(need.shard.tiles) == tiles
    assert rectangle in need.shard.rectangles or rectangle[::-1] in need.shard.rectangles
    assert "if it is sharded" in text_of(verdict)


def test_a_buffer_on_all_banks_of_a_board_or_in_uneven_parts_is_given_no_shards() -> None:
    assert "sharded" not in text_of(buffer("L1", 64, 552_960, 1_329_888))
    assert "if it is sharded" not in text_of(buffer("L1", 48, 552_960, 1_329_888, total=48 * 552_960 - 2_048))
    assert "if it is sharded" not in text_of(buffer("L1", 50, 20_655_277_568))  # more than any core has


# ---- figures that cannot be ----


def test_a_negative_size_is_shown_as_such() -> None:
    text = text_of(buffer("L1", 64, 2**58 - 32, total=2**64 - 2_048))
    assert "18,446,744,073,709,549,568 is -2,048 as a signed number of 64 bits" in text
    assert signed(2**63, 64) is None  # as near to one end as to the other
    assert signed(4_294_966_272, 32) == -1_024


def test_a_negative_address_is_shown_as_such() -> None:
    text = (
        "Statically allocated circular buffers on core range [0-0 - 7-7] grow to 4294966272 B which is beyond max L1 size of"
        " 1499136 B"
    )
    assert "4,294,966,272 is -1,024 as a signed number of 32 bits" in text_of(translate_error("RuntimeError", text))
    assert "signed number" not in text_of(buffer("DRAM", 12, 357_913_856, 1_073_741_792, total=4_294_966_272))  # 4 GiB can be


def test_contradictions_are_stated() -> None:
    stats = {"allocated_bytes": 417_792, "free_bytes": 912_000, "largest_free_bytes": 932_240}
    text = text_of(buffer("L1", 64, 552_960, 1_329_888, total=64 * 552_960 + 100, **stats))
    assert "64 banks of 552,960 B hold 100 B less than the buffer" in text
    assert "add up to 1,329,792 B, not to the bank's 1,329,888 B" in text
    assert "exceeds all free bytes by 20,240 B" in text


@pytest.mark.parametrize("sample", MEMORY, ids=lambda sample: f"{sample['id']}-{sample['release']}".replace(" ", "_"))
def test_the_figures_of_real_messages_do_not_contradict_each_other(sample: dict[str, Any]) -> None:
    verdict = translate_error(sample.get("type", "RuntimeError"), sample["text"])
    if sample["origin"] == "captured":
        assert "contradictory" not in text_of(verdict)
        assert "odd:" not in text_of(verdict)


def test_what_dependencies_leave_of_the_free_bytes_is_kept() -> None:
    """The largest block would hold the 65,536 B, but not where dependencies forbid it."""
    message = (
        "Out of Memory: Not enough space after considering dependencies to allocate 4194304 B L1 across 64 banks (65536 B per"
        " bank), bank size is 1393312 B (allocated: 1300000 B, free: 93312 B, largest free block: 93312 B). After subtracting 2"
        " dependency range(s) and 1 additional occupied range(s), 9000 B remained placeable across 3 window(s), largest 4096 B."
    )
    text = text_of(translate_error("RuntimeError", message))
    assert "the largest free block would hold it, but not where dependencies on other buffers allow it" in text
    assert "9000 B remained placeable across 3 window(s), largest 4096 B" in text
    assert "does not state why" not in text


def test_an_address_below_the_floor() -> None:
    text = text_of(
        translate_error("RuntimeError", "Out of Memory: Cannot allocate at an address below 105824. Allocation at 105600")
    )
    assert "would begin at address 105,600, 224 B below 105,824, the lowest allowed" in text


@pytest.mark.parametrize(
    ("each", "says"),
    [
        (455_751_680, "1,072,693,184 to 1,073,741,792 B in the builds known here, which are later ones: the buffer would fit"),
        (1_000_000_000, "less any trace region: the buffer may fit into it"),
        (1_073_741_793, "the buffer would exceed it"),
    ],
)
def test_without_a_bank_s_size_a_dram_bank_is_one_of_the_known_builds(each: int, says: str) -> None:
    """Of a Wormhole, by 12 banks: 0.75.0 and later, and 0.66.0."""
    assert says in text_of(buffer("DRAM", 12, each))
    assert "in the builds known here" not in text_of(buffer("DRAM", 12, each, 2**31))


def test_banks_that_a_grayskull_may_have_are_not_compared_with_another_chip_s() -> None:
    """98,304,000 B over 100 banks, of 2024: a Grayskull's L1 has 1 MiB."""
    assert "in the builds known here" not in text_of(buffer("L1", 100, 983_040))


def test_a_build_of_unknown_base_must_agree_on_the_cause() -> None:
    """Builds before December 2025 reserve 70,656 B at least. With 102,656 the program has 135,000 - 102,656 = 32,344 B of
    1,396,480; with 70,656 it would have 64,344 B of 1,428,480: less than a tenth either way. With an end of 215,000 it is
    112,344 B (8.0 %) by the known base, but may be 144,344 B (10.1 %)."""
    cores = "[(x=0,y=0) - (x=7,y=7)]"
    assert "the tensors in L1 are the cause" in text_of(clash(120_000, 135_000, cores))
    assert "neither does alone" in text_of(clash(120_000, 215_000, cores))


def test_a_clash_below_every_known_base_is_bounded_by_the_tensor_and_the_least_base() -> None:
    """120,000 - 98,304 = 21,696 and 120,000 - 70,656 = 49,344; the tensors leave at most 98,304 - 70,656 = 27,648."""
    explanation = explained(clash(98_304, 120_000, "[(x=0,y=0) - (x=7,y=7)]"))
    assert explanation.program is not None
    assert explanation.program.needs == ()
    text = "\n".join(explanation.lines())
    assert "program buffers alone: 21,696 to 49,344 B, as no build is known to reserve less than 70,656 B by default" in text
    assert "the tensors in L1 are the cause, not the program: they leave 0 to 27,648 B of a core" in text


# ---- texts that lack a part of the message ----


def test_a_text_without_the_total_is_explained_by_the_rest() -> None:
    verdict = Verdict(
        Status.OOM, Resource.FRAGMENTATION, bytes_per_bank=552_960, bank_bytes=1_329_888,
        allocated_bytes=417_792, free_bytes=912_096, largest_free_bytes=522_240,
    )  # fmt: skip
    text = text_of(verdict)
    assert "L1 buffer: 552,960 B in the fullest bank" in text
    assert "fragmented: 912,096 B are free, but in at least 2 holes, the largest of 522,240 B" in text
    assert "None" not in text


def test_a_text_without_the_bank_is_explained_by_the_rest() -> None:
    """813,568 - 431,936 = 381,632."""
    text = text_of(Verdict(Status.OOM, Resource.L1_BUFFER, bytes_per_bank=813_568, free_bytes=431_936))
    assert "a bank, whose size is not in the text: 431,936 B free" in text
    assert "missing in each bank: 372.7 KiB (381,632 B), or more" in text


def test_a_text_that_ends_at_the_banks_shows_what_the_fullest_needs_at_least() -> None:
    """50,000,000 / 48 = 1,041,666.7."""
    text = text_of(Verdict(Status.OOM, Resource.L1_BUFFER, total_bytes=50_000_000, banks=48))
    assert "of the text: bytes requested 50,000,000, banks 48" in text
    assert "the fullest bank needs at least 1,041,667 B" in text


# ---- the call's tensors ----


def pooled(known_layout: bool) -> Operation:
    spec = TensorSpec((1, 1, 76_800, 64), DType.BFLOAT16, Layout.TILE, MemoryConfig(BufferType.DRAM))
    value = MlirValue("%1", spec, known_layout=known_layout)
    return Operation("ttnn.max_pool2d", (value,), (value,))


def test_a_table_of_a_program_is_no_tensor_of_the_call() -> None:
    explanation = explain(Failure(buffer("L1_SMALL", 64, 19_808, 65_536), line=1, operation=pooled(True)))
    assert explanation.tensors
    text = "\n".join(explanation.lines())
    assert "temporary" not in text
    assert "input 1" not in text


@pytest.mark.parametrize(("known", "says"), [(True, "it is a temporary"), (False, "it may be a temporary")])
def test_a_temporary_tensor_is_certain_only_where_all_layouts_are_known(known: bool, says: str) -> None:
    failure = Failure(buffer("L1", 64, 780_800, 1_331_936), line=1, operation=pooled(known))
    assert any(says in line for line in explain(failure).lines())


def test_a_kernel_config_message_without_its_core_keeps_its_numbers_and_names_both_cores() -> None:
    text = text_of(translate_error("RuntimeError", "Program size (25680) too large for kernel config buffer (25600)"))
    assert "25.08 KiB (25,680 B) of 25 KiB (25,600 B) per core" in text
    assert "on a Tensix core, a worker_l1_size" in text
    assert "else no setting does" in text


@pytest.mark.parametrize(
    ("address", "end", "says"),
    [
        (1_563_072, 1_563_264, "an l1_small_size that is 192 B smaller"),  # tt-metal#54876: from 4,096 to 2,048 it worked
        (285_312, 296_160, "an l1_small_size that is 10,880 B smaller"),  # 10,848 in multiples of 64
        (709_760, 1_364_672, ""),  # more than any such region has
    ],
)
def test_a_small_overlap_may_be_taken_from_the_l1_small_region(address: int, end: int, says: str) -> None:
    text = text_of(clash(address, end))
    assert says in text
    assert says or "l1_small_size" not in text


def test_one_bank_is_one_core() -> None:
    text = text_of(buffer("L1", 1, 552_960, 1_329_888))
    assert "L1 buffer of 540 KiB (552,960 B) in one bank: 552,960 B" in text
    assert "if it is sharded, the one core holds 552,960 B" in text
    assert "rectangle" not in text
