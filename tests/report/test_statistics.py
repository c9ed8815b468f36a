"""Statistics of a report, against arithmetic written out here."""

import re
from pathlib import Path

import pytest

from ssinghal.core.case import ModuleCalls, Source
from ssinghal.report.placement_alternatives import Alternatives, Answer, PlacementRemedy, advice
from ssinghal.report.statistics import BANDS, OTHER, TIER_NAMES, UNKNOWN, Facts, Statistics, band_of, smallest_tier, tier_of
from ssinghal.runs.reader import read_run
from tests.support.run_builder import a_record, write_run

MIB = 2**20


def facts_of(tmp_path, records) -> Facts:
    (group,) = read_run(write_run(tmp_path, records)).groups
    return Facts.of(group)


def an_oom(shape, op="relu", needed=2_000_000, free=1_393_312, **fields):
    verdict = {"bytes_per_bank": needed, "free_bytes": free, "largest_free_bytes": free, "bank_bytes": 1_393_312}
    return a_record(op, shape, status="oom", verdict=verdict, **fields)


def test_cases_pairs_and_shapes_are_counted_separately(tmp_path):
    """Two cases of one pair (another dtype), one shape of two operators, one that fits."""
    shape = (1, 96, 2160, 3840)
    records = [
        an_oom(shape),
        an_oom(shape, dtype="float32"),
        an_oom(shape, op="silu"),
        an_oom((1, 64, 640, 400), op="silu"),
        a_record("silu", (1, 1, 32, 32)),
    ]
    facts = facts_of(tmp_path, records)
    assert (len(facts.oom), len(facts.pairs), len(facts.shapes), len(facts.failing_operators)) == (4, 3, 2, 2)
    assert [(o.op, len(o.oom), len(o.pairs)) for o in facts.failing_operators] == [
        ("silu", 2, 2),
        ("relu", 2, 1),
    ]
    assert (facts.shapes[0].shape, facts.shapes[0].cases, [p.op for p in facts.shapes[0].pairs]) == (shape, 3, ["relu", "silu"])
    relu = facts.pairs[0]
    assert relu.size.logical_bytes == 96 * 2160 * 3840 * 4  # the float32 case is the larger
    assert sum(map(len, facts.bands.values())) == len(facts.pairs)


@pytest.mark.parametrize(
    ("logical", "band"),
    [
        (0, "small"),
        (100 * MIB, "small"),
        (100 * MIB + 1, "medium"),
        (500 * MIB, "medium"),
        (500 * MIB + 1, "large"),
        (1024 * MIB, "large"),
        (1024 * MIB + 1, "critical"),
    ],
)
def test_bands_start_above_their_limit(logical, band):
    assert band_of(logical).name == band


def test_a_size_has_three_numbers(tmp_path):
    """[1, 3, 2176, 3840] channels last: 32 channels a tile; 2176 * 120 tiles of 2,048 B over 64 banks."""
    facts = facts_of(tmp_path, [an_oom((1, 3, 2176, 3840), channels_last=True)])
    (pair,) = facts.pairs
    tiles = 2176 * 3840 // 32
    assert pair.size.logical_bytes == 3 * 2176 * 3840 * 2
    assert pair.size.allocated_bytes == tiles * 2048
    assert pair.size.bytes_per_bank == tiles // 64 * 2048
    assert pair.size.padding == 32 / 3


@pytest.mark.parametrize(
    ("input_size", "tier"),
    [
        ("4320x7680", "8K"),
        ("7680x4320", "8K"),
        ("4320x3840", "4K"),
        ("2176x3840", "4K"),
        ("2160x3840", "4K"),
        ("1440x2560", "1440p"),
        ("1088x1920", "1080p"),
        ("1280x1280", "720p"),
        ("640x640", "below 720p"),
        ("4x60x106", OTHER),
        ("1x3x4320x7680", OTHER),
        ("large", OTHER),
        ("", UNKNOWN),
    ],
)
def test_a_tier_is_that_of_the_input_size(input_size, tier):
    assert tier_of(input_size) == tier


def test_catalogs_made_as_documented_have_a_resolution():
    inputs = re.findall(r"model: \S+, input: (\w+)", (Path(__file__).parents[2] / "docs" / "catalogs.md").read_text())
    assert inputs
    assert [tier_of(size) for size in inputs] == ["below 720p"] * len(inputs)


def test_the_smallest_of_tiers():
    assert smallest_tier(["8K", "720p", "4K"]) == "720p"
    assert smallest_tier([OTHER, "8K"]) == "8K"
    assert smallest_tier([UNKNOWN]) == UNKNOWN
    assert set(TIER_NAMES) == {
        tier_of(size) for size in ("4320x7680", "2160x3840", "1440x2560", "1080x1920", "720x1280", "64x64", "a", "")
    }


def test_tiers_come_from_sources_and_first_here_adds_up(tmp_path):
    """The shape does not matter: a small shape of an 8K model is 8K, one without a source is of no known tier."""
    big, small = Source("c8", "m/yolo", "4320x7680"), Source("c6", "m/yolo", "640x640")
    records = [
        an_oom((1, 8, 64, 64), sources=[big]),
        an_oom((1, 96, 2160, 3840), sources=[big, small]),
        an_oom((1, 3, 4320, 7680)),
        a_record("relu", (1, 1, 32, 32), sources=[small]),
    ]
    facts = facts_of(tmp_path, records)
    tiers = {t.name: (t.input_sizes, t.cases, t.failing_cases, len(t.pairs), t.here) for t in facts.tiers}
    assert tiers == {
        "8K": (("4320x7680",), 2, 2, 2, 1),
        "below 720p": (("640x640",), 2, 1, 1, 1),
        UNKNOWN: ((), 1, 1, 1, 1),
    }
    assert sum(t.here for t in facts.tiers) == len(facts.pairs)


def test_models_are_those_that_make_the_calls(tmp_path):
    """A source of a shape sweep (count 0) only has the shape, and is counted separately."""
    makes, has = (
        Source.of_first("cap", "m/a", "640x640", 8, "model.0.attn"),
        Source.of_first("crossed", "m/b", "640x640", 0, "model.1"),
    )
    facts = facts_of(
        tmp_path, [an_oom((1, 8, 64, 64), sources=[makes, has]), a_record("relu", (1, 1, 32, 32), sources=[makes])]
    )
    (model,) = facts.models
    assert (model.model, model.calls, len(model.cases), len(model.oom), model.failing_calls) == ("m/a", 16, 2, 1, 8)
    assert [(m.path, m.record.op, m.calls) for m in model.modules] == [("", "relu", 7), ("model.0.attn", "relu", 1)]
    assert facts.shape_only_models == {("m/b", "640x640"): 1}


def test_failing_calls_are_those_of_every_module(tmp_path):
    """One shape in two blocks and at the top; two of the calls of another in modules that the catalog does not name."""
    relu = Source("cap", "m/a", "8x8", 4, (ModuleCalls("down.0", 2), ModuleCalls("dec.3", 1), ModuleCalls("(top)", 1)))
    gelu = Source("cap", "m/a", "8x8", 5, (ModuleCalls("dec.3", 3),), 2, 2)
    fits = Source("cap", "m/a", "8x8", 9, (ModuleCalls("dec.3", 9),))
    records = [
        an_oom((1, 8, 64, 64), sources=[relu]),
        an_oom((1, 8, 64, 64), op="gelu", sources=[gelu]),
        a_record("tanh", sources=[fits]),
    ]
    (model,) = facts_of(tmp_path, records).models
    assert [(m.path, m.record.op, m.calls) for m in model.modules] == [
        ("", "gelu", 2),
        ("(top)", "relu", 1),
        ("dec.3", "relu", 1),
        ("dec.3", "gelu", 3),
        ("down.0", "relu", 2),
    ]
    assert sum(m.calls for m in model.modules) == model.failing_calls == 9


def test_two_captures_of_a_model_are_not_added_up(tmp_path):
    """At the levels of ATen and torch, a model makes the same call; another input size is another run of the model."""
    aten, torch = (
        Source(name, "m/a", "640x640", n, (ModuleCalls("model.0", n),)) for name, n in (("a-640", 8), ("a-640-torch", 6))
    )
    larger = Source("a-1280", "m/a", "1280x1280", 2)
    facts = facts_of(tmp_path, [an_oom((1, 8, 64, 64), sources=[aten, torch, larger])])
    assert {m.catalog: (m.calls, m.failing_calls) for m in facts.models} == {
        "a-640": (8, 8),
        "a-640-torch": (6, 6),
        "a-1280": (2, 2),
    }
    assert facts.operators[0].failing_calls == 8 + 2


def test_statistics_of_bytes():
    assert Statistics.of([3, 4, 4]) == Statistics(3, 3, 4, 4)  # 11 / 3 = 3.67
    assert Statistics.of([]) is None


def test_every_status_is_counted_once(tmp_path):
    statuses = ["fits", "oom", "mismatch", "unsupported", "invalid", "error", "crash", "timeout", "not_run"]
    facts = facts_of(tmp_path, [a_record(shape=(1, 1, 32, 32 * n), status=s) for n, s in enumerate(statuses, 1)])
    assert facts.statuses == dict.fromkeys(statuses, 1)
    (operator,) = facts.operators
    assert operator.statuses == facts.statuses


class TestAlternatives:
    """Changes that make a call fit, in bytes per bank of an n150."""

    def of(self, tmp_path, records, number=0):
        group = read_run(write_run(tmp_path, records)).groups[0]
        return {a.remedy: a for a in Alternatives(group.records).of(group.records[number])}

    def test_dram_by_arithmetic(self, tmp_path):
        """640 * 13 * 2 tiles each of operand and result, channels last, over 12 banks."""
        answers = self.of(tmp_path, [an_oom((1, 64, 640, 400), channels_last=True)])
        tiles = 640 * 13 * 2
        assert answers[PlacementRemedy.DRAM].bytes_per_bank == 2 * -(-tiles // 12) * 2048
        assert answers[PlacementRemedy.DRAM].bank_bytes == 1_072_693_184
        assert answers[PlacementRemedy.DRAM].answer in (Answer.FITS, Answer.UNKNOWN)

    def test_a_record_takes_precedence_over_arithmetic(self, tmp_path):
        tried = a_record("relu", (1, 64, 640, 400), memory="dram", channels_last=True)
        records = [an_oom((1, 64, 640, 400), channels_last=True), tried]
        assert self.of(tmp_path / "fits", records)[PlacementRemedy.DRAM].answer is Answer.TRIED
        records[1] = {**tried, "status": "oom", "resource": "dram_buffer"}
        assert self.of(tmp_path / "not", records)[PlacementRemedy.DRAM].answer is Answer.TRIED_FAILS
        records[1] = {**tried, "status": "not_run"}
        assert self.of(tmp_path / "never", records)[PlacementRemedy.DRAM].answer in (Answer.FITS, Answer.UNKNOWN)

    def test_torch_order_saves_the_padding_of_three_channels(self, tmp_path):
        """[1, 3, 640, 640]: 640 * 20 tiles channels last; 3 * 20 * 20 in torch's order, 19 in the fullest of 64 banks."""
        answers = self.of(tmp_path, [an_oom((1, 3, 640, 640), channels_last=True)])
        torch_order = answers[PlacementRemedy.TORCH_ORDER]
        assert torch_order.bytes_per_bank == 2 * -(-3 * 20 * 20 // 64) * 2048
        assert torch_order.answer is not Answer.EXCEEDS

    def test_a_tensor_larger_than_the_board_has_no_remedy(self, tmp_path):
        """8 * 8192 * 8192 * 64 numbers of 2 B twice are 128 GiB; the board has 12 GiB."""
        assert self.of(tmp_path, [an_oom((8, 8192, 8192, 64))])[PlacementRemedy.DRAM].answer is Answer.EXCEEDS

    def test_only_effective_changes_are_offered(self, tmp_path):
        """In DRAM, in torch's order, without padding, there is nothing to change. Attributes name dims in the given order."""
        assert self.of(tmp_path / "a", [an_oom((1, 32, 64, 64), memory="dram", channels_last=False)]) == {}
        softmax = an_oom((1, 3, 64, 64), op="softmax", attrs={"dim": -1}, channels_last=True)
        assert PlacementRemedy.TORCH_ORDER not in self.of(tmp_path / "b", [softmax])

    def test_advice_adds_up(self, tmp_path):
        model = Source("cap", "m/a", "640x640", 8)
        records = [an_oom((1, 3, 640, 640), channels_last=True, sources=[model]), an_oom((8, 8192, 8192, 64))]
        group = read_run(write_run(tmp_path, records)).groups[0]
        alternatives = Alternatives(group.records)
        advices = advice([(r, alternatives.of(r)) for r in group.records])
        dram = next(a for a in advices if a.remedy is PlacementRemedy.DRAM)
        assert dram.cases == 2
        assert dram.answers[Answer.EXCEEDS] == 1
        assert sum(dram.answers.values()) == 2


def test_bands_are_in_descending_order():
    limits = [band.above_bytes for band in BANDS]
    assert limits == sorted(limits, reverse=True)
