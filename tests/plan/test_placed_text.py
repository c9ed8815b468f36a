"""Placements as text: a few lines with the answer, then a line for each step; nothing that was not run is worded as fitting."""

from dataclasses import replace

from ssinghal.core.boards import load_board
from ssinghal.core.verdict import Resource, Status, Verdict
from ssinghal.plan.lowering import planned_steps
from ssinghal.plan.placed_result import Moved, NotChosen, PlacementReport, ResultPlace, StepPlacement
from ssinghal.plan.placed_text import WIDTH, placement_lines, results_text, table_lines, why_not_better
from ssinghal.plan.placing.reporting import placement_of
from ssinghal.plan.planner import Plan
from ssinghal.plan.result import CallFailure, PlanResult
from ssinghal.plan.text import lines, table, verdict_line
from tests.plan.placements import IMAGE, MAP, NOWHERE, POOLED, WEIGHTS, found, run, small_trace

LONG = "l1:height@0,0-7,5+0,6:64x256"
DRAM = ResultPlace("dram", "", (), (1, 1, 64, 64), "bfloat16", "tile", 8_192, 0, False)
L1 = ResultPlace("l1", "", (), (1, 1, 64, 64), "bfloat16", "tile", 8_192, 2_048, True)


def report(result=None, measured: PlanResult | None = None, **more) -> PlacementReport:
    trace = small_trace()
    board = load_board("n150").with_l1_small(32_768)
    return placement_of(result or found(), measured, trace=trace, steps=planned_steps(trace), board=board, **more)


def text(result: PlanResult) -> list[str]:
    out = lines(Plan(result))
    table = out[out.index(next(line for line in out if line.startswith("step  "))) :] if "results in" in "\n".join(out) else out
    assert max(map(len, table)) <= WIDTH
    return out


def step(number: int, at: str, operator: str = "convolution", **more) -> StepPlacement:
    """Returns a step in L1 that moves only its weights."""
    given = {
        "calls": ("ttnn.conv2d",), "results": (L1,), "settings": "", "config": {}, "moves": (), "dram_bytes": 12_288,
        "activations_bytes": 0, "resharded_bytes": 0, "layout_changes": 0, "limit_bytes": 1_360_544,
        "expected_peak_bytes": 100_000, "l1_peak_bytes": 100_000, "program_bytes": 1, "headroom_bytes": 1_260_544,
    }  # fmt: skip
    return StepPlacement(number, operator, at, **{**given, **more})


# The answer --------------------------------------------------------------------------------------------------------------


def test_the_answer_has_shares_traffic_peak_and_effort():
    port = run(policy="port", steps=tuple(replace(use, dram_moved_bytes=4 * MAP) for use in run().steps))
    one = report(None, run(), port=port, probes=40, search_s=1.5, run_s=0.25)
    out = text(run(placement=one))
    moved = IMAGE + WEIGHTS + 2 * MAP + 2 * POOLED
    for line in (
        "results stay in L1: 44.4 % of their bytes, 1 of 3 steps that make calls (33.3 %)",  # 1,605,632 of 3,612,672
        f"through DRAM {moved:,} B, {moved / (12 * MAP):.3f} of port's {12 * MAP:,} B",
        f"  weights {WEIGHTS:,}, inputs {IMAGE:,}, results {POOLED:,}, activations written and read {2 * MAP + POOLED:,} B",
        "resharded 0 B, 2 changes of layout or shards (port: 0 B, 2)",
        "search 1.5 s: 40 calls tried alone, 321 states; 1 run of the complete model 0.2 s",
    ):
        assert line in out, line
    joined = " ".join(" ".join(out).split())
    assert "L1 peak 131,488 of 1,360,544 B per core with program buffers, 1,229,056 B free, at step 0 convolution" in joined
    assert f"may exist, down to {moved - 1_000:,} B (these: {moved:,} B)" in joined
    assert out[1].startswith("FITS: peak")


def test_a_proven_optimum_and_a_headroom_are_stated():
    one = replace(report(None, run(), headroom_bytes=136_054), exact=True)
    joined = " ".join(" ".join(placement_lines(one)).split())
    assert "proven by the search: no placements of its candidates move less" in joined
    assert "136,054 B were to stay free" in joined


def test_a_bound_that_is_reached_proves_the_bytes():
    one = report(None, run())
    reached = "proven by the search: no placements of its candidates move fewer bytes; some may change fewer layouts"
    assert reached in placement_lines(replace(one, exact=False, bound_bytes=one.cost_bytes))
    assert reached not in placement_lines(replace(one, exact=False, bound_bytes=one.cost_bytes - 1))


def test_nouns_agree_with_their_numbers():
    one = report(None, run())
    out = placement_lines(replace(one, states=1, probes=1, moved=replace(one.moved, layout_changes=1)))
    assert any("1 call tried alone, 1 state; 1 run of" in line for line in out)
    assert any("1 change of layout or shards" in line for line in out)


def test_a_run_that_moves_other_bytes_than_the_search_expected_says_so():
    expected = IMAGE + WEIGHTS + 2 * MAP + 2 * POOLED
    line = f"the search expected {expected:,} B to be moved and resharded; the run moved and resharded {expected + 64:,} B"
    first, *others = run().steps
    more = run(steps=(replace(first, resharded_bytes=64), *others))
    assert line in " ".join(" ".join(placement_lines(report(None, more))).split())
    assert "the search expected" not in " ".join(placement_lines(report(None, run())))


def test_runs_that_failed_and_what_was_learned_are_listed():
    attempts = [(2, "no room\nfor it", 0), (2, "no room", 2_048)]
    out = placement_lines(report(None, run(), failed_runs=attempts))
    start = out.index("runs of the complete model that failed, and what the search learned: 2")
    assert out[start + 1 : start + 3] == [
        "  step 2 max_pool2d in maxpool: tensors in L1 are moved together before it; no room",
        "  step 2 max_pool2d in maxpool: it may hold 2,048 B less; no room",
    ]
    assert any("3 runs of the complete model" in line for line in out)


# What is not known to fit ------------------------------------------------------------------------------------------------


def test_without_a_placement_nothing_is_said_to_fit():
    one = report(NOWHERE)
    out = text(run(status=Status.OOM, message=str(NOWHERE), steps=(), peak_bytes=0, peak_step=-1, placement=one))
    joined = " ".join(" ".join(out).split())
    assert "FITS" not in joined
    assert "stay in L1" not in joined
    assert "differ by 0 B" not in joined
    assert out[1].startswith("NO PLACEMENT: step 2 max_pool2d in maxpool: ")
    assert "needs 45,056 B of a core's L1 more than the 1,224,490 B it may take, of which other values take 28,672 B" in joined
    assert "nothing was run, so nothing is known to fit" in out
    assert "the smallest choice there: result in l1" in out[4]
    assert [line for line in out if line.startswith("rejected: ")] == [
        "rejected: pool needs an even grid", "rejected: L1 bank needs 2,000,000 B, 1,360,544 B free (ttnn.conv2d)",
    ]  # fmt: skip
    assert out[out.index("largest values in L1 then, of each core:") + 1].endswith(": l1:height@8x7:224x64, 28,672 B")
    assert "placements that it did not see may exist" in joined


def test_placements_whose_run_failed_are_not_confirmed():
    verdict = Verdict(
        Status.OOM, Resource.L1_BUFFER, "ttnn.relu", bytes_per_bank=28_672, free_bytes=20_480, largest_free_bytes=20_480,
        message="Out of Memory",
    )  # fmt: skip
    failure = CallFailure(1, "relu", "relu", "ttnn.relu", (), (), verdict)
    first, second, third = run().steps
    steps = first, replace(second, status=Status.OOM), replace(third, status=Status.NOT_RUN)
    failed = run(status=Status.OOM, message="Out of Memory", steps=steps, failure=failure)
    out = text(replace(failed, placement=report(None, failed)))
    joined = " ".join(out)
    assert "FITS" not in joined
    assert out[1] == "OOM at step 1 relu in relu: L1 bank needs 28,672 B, 20,480 B free (ttnn.relu)"
    assert "not confirmed: no run of the complete model decided that it fits; shares are what the search expected" in out
    assert "through DRAM" not in joined  # no run measured it
    row = next(line for line in out if line.startswith("   1  relu"))
    assert row.split()[-2:] == ["–", "–"]


def test_plans_side_by_side_have_figures_only_where_a_run_has_them():
    port = run(policy="port", steps=tuple(replace(use, dram_moved_bytes=4 * MAP) for use in run().steps))
    fits = run(placement=report(None, run(), port=port))
    unplaced = run(status=Status.OOM, message=str(NOWHERE), steps=(), placement=report(NOWHERE))
    out = [line.split() for line in table([Plan(fits), Plan(unplaced), Plan(run(policy="port"))])]
    assert out[2] == ["n150,", "l1", "v1", "no", "placement", *["–"] * 6]
    moved = IMAGE + WEIGHTS + 2 * MAP + 2 * POOLED
    assert out[6] == [
        "n150,", "l1", "v1", "44.4", "%", f"{moved:,}", f"{moved / (12 * MAP):.3f}", "0", "131,488", "1,229,056",
    ]  # fmt: skip
    assert out[7:] == [["n150,", "l1", "v1", *["–"] * 6]]
    assert not any("stays in L1" in line for line in table([Plan(run(policy="port"))]))


def test_another_plan_is_worded_as_before():
    assert verdict_line(run(policy="port")) == "FITS: peak 136.7 KiB (139,968 B) per DRAM bank, 0.0 % of the board"
    assert not any("stay in L1" in line for line in lines(Plan(run(policy="port"))))


# The table ---------------------------------------------------------------------------------------------------------------


def test_calls_are_listed_under_the_module_that_makes_them():
    out = table_lines(
        [step(0, "stem"), step(1, "layer1.0.conv1"), step(2, "layer1.0.relu", "relu"), step(3, "layer1.0", "add"), step(4, "")]
    )
    assert [" ".join(line.split()[:3]) for line in out[1:]] == [
        "(top)", "0 stem convolution", "layer1.0", "1 conv1 convolution", "2 relu l1", "3 add l1", "(top)", "4 convolution l1",
    ]  # fmt: skip


def test_views_are_left_out():
    assert len(table_lines([step(0, "a.b"), step(1, "a.c", calls=())])) == 3
    assert table_lines([step(0, "a", calls=())]) == []


def block(start: int, name: str, **more) -> list[StepPlacement]:
    return [step(start, f"{name}.conv"), step(start + 1, f"{name}.mlp.relu", "relu", **more), step(start + 2, name, "add")]


def test_blocks_that_are_alike_are_listed_once_with_their_names():
    steps = [*block(0, "layer.0"), *block(3, "layer.1"), *block(6, "layer.2"), step(9, "head")]
    out = table_lines(steps)
    assert [line for line in out if "[" in line] == ["layer.0  [the same 3 times: layer.0, layer.1, layer.2]"]
    assert [int(line.split()[0]) for line in out if line.startswith("   ")] == [0, 1, 2, 9]


def test_blocks_that_differ_in_anything_are_listed_each():
    for difference in ({"l1_peak_bytes": 100_001}, {"settings": "act_block_h 64"}, {"results": (DRAM,)}, {"dram_bytes": 1}):
        out = table_lines([*block(0, "layer.0"), *block(3, "layer.1", **difference)])
        rows = [line for line in out if line[:4].strip().isdigit()]
        assert len(rows) == 6, difference
        assert not any("[" in line for line in out)


def test_blocks_alike_that_are_not_next_to_each_other_are_listed_each():
    out = table_lines([*block(0, "layer.0"), step(3, "layer.1"), *block(4, "layer.2")])
    assert len([line for line in out if line[:4].strip().isdigit()]) == 7


def test_settings_moves_and_what_stops_better_placements_follow_a_row():
    other = NotChosen("result in l1", 45_678, 1_024, "needs 1,024 B of a core's L1 more than there is beside the others")
    out = table_lines(
        [
            step(
                7,
                "conv",
                settings="shards height",
                moves=("operand 1 to l1 before the call",),
                results=(DRAM,),
                not_chosen=(other,),
            )
        ]
    )
    how, why, rest = out[3:]
    assert how == "      shards height; operand 1 to l1 before the call"
    assert f"{why} {rest.lstrip()}" == f"      not better: result in l1 would move 45,678 B less, but {other.reason}"
    assert rest.startswith(" " * 8)


def test_the_table_is_as_wide_as_a_terminal():
    """Long names are cut before shards are."""
    wide = replace(L1, memory=LONG)
    size = 999_999_999
    big = {"dram_bytes": size, "activations_bytes": size, "resharded_bytes": size, "results": (wide,)}
    out = table_lines([step(1234, "layer1.a_module_with_a_very_long_name_indeed", "scaled_dot_product_attention", **big)])
    assert max(map(len, out)) <= WIDTH
    assert LONG in out[2]
    two = replace(L1, memory="l1:block@8x8:" + "9" * 90)
    assert (
        max(
            map(len, table_lines([step(1, "x" * 200, results=(two, wide), **{k: v for k, v in big.items() if k != "results"})]))
        )
        <= WIDTH
    )


def test_results_in_the_same_memory_are_counted():
    assert results_text((L1, L1, DRAM)) == "2 x l1, dram"


# Why not better ----------------------------------------------------------------------------------------------------------


def test_a_step_that_moves_only_the_models_own_bytes_needs_no_reason():
    """Nor does one whose result a later step moves to DRAM, which states why."""
    rule = NotChosen("result in l1:width", None, None, "a rule")
    for moved_later in (L1, replace(L1, stays=False)):
        assert why_not_better(step(0, "a", results=(moved_later,), not_chosen=(rule,))) == ""
    for worse in ({"results": (DRAM,)}, {"resharded_bytes": 1}, {"activations_bytes": 1}):
        assert why_not_better(step(0, "a", not_chosen=(rule,), **worse)) == "others are rejected: a rule"


def test_reasons_are_the_cheapest_alternative_then_each_rule_once():
    choices = (
        NotChosen("result in l1", 100, 64, "needs 64 B more"),
        NotChosen("result in l1 twice", 50, None, "fits here, but is no part of the best plan"),
        *(NotChosen(f"way {n}", None, None, f"rule {n % 4}") for n in range(8)),
    )
    assert why_not_better(step(0, "a", results=(DRAM,), not_chosen=choices)) == (
        "result in l1 would move 100 B less, but needs 64 B more; others are rejected: rule 0; rule 1; 2 more rules"
    )


def test_a_choice_that_fits_and_moves_less_here_is_named_so():
    fits = NotChosen("result in l1", 50, None, "fits here")
    assert why_not_better(step(0, "a", results=(DRAM,), not_chosen=(fits,))) == (
        "result in l1 would fit and move 50 B less here, but is no part of the best plan found"
    )


def test_without_any_reason_the_candidates_are_what_there_is():
    assert why_not_better(step(0, "a", results=(DRAM,))) == "none of the ways to call it that were tried moves less here"


def test_moved_bytes_that_are_not_the_models_own_are_activations():
    assert Moved(100, 20, 30, 10, 5, 1).activations_bytes == 40
