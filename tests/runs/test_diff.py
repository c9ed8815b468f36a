"""Comparing two runs: changes, notes, and the output and exit codes of the command."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest
from click.testing import CliRunner

from ssinghal.cli import cli
from ssinghal.core.case import Source
from ssinghal.core.measured import PlacedTensor, Usage
from ssinghal.core.verdict import Resource
from ssinghal.errors import HarnessError
from ssinghal.runs.change_kinds import ChangeKind
from ssinghal.runs.diff import ByteChange, Changes
from ssinghal.runs.diff_text import lines, markdown, markdown_within
from ssinghal.runs.reader import read_run
from tests.support.run_builder import a_record, write_run

ONE, OTHER = "20260101T000000.000000Z", "20260202T000000.000000Z"
L1_END = 1_499_136  # of a Wormhole core; what lies below the reserved base is no bank's
BASE_076, BASE_081 = 105_664, 105_824  # as measured: banks of 1,393,472 and 1,393,312 B
DRAM_BANK = 1_072_693_184


def peaks(l1_bytes):
    """Peaks of a call that takes nothing else."""
    return {**dict.fromkeys((f.name for f in fields(Usage)), 0), "l1_bytes": l1_bytes}


def l1_oom(op, base, needed=2_000_000, held=0, **fields):
    """An operand that does not fit beside ``held`` bytes of others, with the message of the allocator."""
    bank = L1_END - base
    room = {"bank_bytes": bank, "allocated_bytes": held, "free_bytes": bank - held, "largest_free_bytes": bank - held}
    return a_record(
        op, status="oom", verdict={"total_bytes": 64 * needed, "bytes_per_bank": needed, "banks": 64, **room}, **fields
    )


def program_oom(op, base, size, resource=Resource.CIRCULAR_BUFFER, **verdict):
    """Program buffers that start at the base: TTNN reports their end address."""
    return a_record(
        op, status="oom", verdict={"resource": resource, "stage": "program", "program_bytes": base + size, **verdict}
    )


def release(base, **changed):
    """Six cases as a release with this reserved base records them. ``changed``: another record for an operator."""
    bank = L1_END - base
    dram = {"bank_bytes": DRAM_BANK, "free_bytes": DRAM_BANK, "largest_free_bytes": DRAM_BANK, "bytes_per_bank": 2 * DRAM_BANK}
    records = {
        "relu": a_record("relu", measured={"usage": peaks(4096), "resident": {"l1": 4096}}),
        "add": l1_oom("add", base, held=700_000, inputs=[[1, 64, 640, 400]] * 2),
        "gelu": l1_oom("gelu", base),
        "tanh": program_oom("tanh", base, 9_887_744, limit_bytes=L1_END),
        "silu": program_oom("silu", base, 200_000, Resource.CLASH, tensor_address=253_952),
        "cat": a_record(
            "cat",
            inputs=[[1, 64, 640, 400]] * 2,
            status="oom",
            verdict={"resource": Resource.CIRCULAR_BUFFER, "stage": "program", "program_bytes": 9_768_960, "limit_bytes": bank},
        ),
        "sigmoid": a_record("sigmoid", status="oom", memory="dram", verdict={"resource": Resource.DRAM_BUFFER, **dram}),
    }
    return list({**records, **changed}.values())


@pytest.fixture
def compared(tmp_path):
    """Two runs of these records, written, read and compared."""

    def compared(before, after, across=False, **info):
        one, other = (write_run(tmp_path, records, run, **info) for records, run in ((before, ONE), (after, OTHER)))
        return Changes.of(read_run(one), read_run(other), across=across)

    return compared


def named(changes):
    return [(change.kind, change.op) for change in changes.found]


def test_equal_runs_have_no_changes(compared):
    changes = compared(release(BASE_081), release(BASE_081))
    assert (named(changes), changes.notes, changes.cases) == ([], (), 7)
    assert changes.heads == ("virtual n150, ttnn 0.81.1: 7 cases in both; numerics not run: memory verdicts only",)


REGRESSIONS = {
    "verdict": ({"relu": l1_oom("relu", BASE_081)}, ChangeKind.NEW_OOM),
    "peak": ({"relu": a_record("relu", measured={"usage": peaks(4128), "resident": {"l1": 4096}})}, ChangeKind.GROWN),
    "need": ({"gelu": l1_oom("gelu", BASE_081, needed=2_000_032)}, ChangeKind.GROWN),
    "less need": ({"gelu": l1_oom("gelu", BASE_081, needed=1_999_968)}, ChangeKind.SHRUNK),
    "held by others": ({"add": l1_oom("add", BASE_081, held=700_032, inputs=[[1, 64, 640, 400]] * 2)}, ChangeKind.GROWN),
    "program": ({"tanh": program_oom("tanh", BASE_081, 9_887_776, limit_bytes=L1_END)}, ChangeKind.GROWN),
    "tensor lower": (
        {"silu": program_oom("silu", BASE_081, 200_000, Resource.CLASH, tensor_address=253_920)},
        ChangeKind.GROWN,
    ),
    "stage": ({"gelu": l1_oom("gelu", BASE_081) | {"stage": "input 1"}}, ChangeKind.CHANGED),
}


@pytest.mark.parametrize("base_before", [BASE_081, BASE_076], ids=["same base", "base grew"])
@pytest.mark.parametrize(("changed", "kind"), REGRESSIONS.values(), ids=REGRESSIONS)
def test_one_injected_change_is_the_only_one_reported(compared, base_before, changed, kind):
    changes = compared(release(base_before), release(BASE_081, **changed))
    assert named(changes) == [(kind, *changed)]
    shifted = [note for note in changes.notes if "base" in note]
    assert len(shifted) == (base_before != BASE_081)


@pytest.mark.parametrize(
    ("before", "after", "note"),
    [
        (BASE_076, BASE_081, "L1 banks 1,393,472 → 1,393,312 B on 5 cases: the reserved base grew by 160 B"),
        (BASE_081, BASE_076, "L1 banks 1,393,312 → 1,393,472 B on 5 cases: the reserved base shrank by 160 B"),
    ],
)
def test_a_moved_base_is_one_note(compared, before, after, note):
    """The numbers of add, gelu, tanh, silu and cat are counted from it; those of DRAM and of fits are not."""
    changes = compared(release(before), release(after))
    assert (named(changes), changes.notes) == ([], (note,))


def test_a_number_that_moves_against_the_base_is_a_change(compared):
    """An end address goes up with the base. One that goes down by as much is from a program that shrank by twice that."""
    smaller = program_oom("tanh", BASE_081, 9_887_744 - 2 * (BASE_081 - BASE_076), limit_bytes=L1_END)
    changes = compared(release(BASE_076), release(BASE_081, tanh=smaller))
    assert named(changes) == [(ChangeKind.SHRUNK, "tanh")]
    assert changes.found[0].figures == (ByteChange("program_bytes", BASE_076 + 9_887_744, BASE_076 + 9_887_744 - 160),)


def test_a_bank_without_a_reserved_base_grows_or_shrinks_itself(compared):
    """DRAM banks end where the trace region starts: there is no reserved base below them."""

    def dram(bank):
        numbers = {"bank_bytes": bank, "free_bytes": bank, "largest_free_bytes": bank, "bytes_per_bank": 2 * DRAM_BANK}
        return [a_record("relu", status="oom", memory="dram", verdict={"resource": Resource.DRAM_BUFFER, **numbers})]

    changes = compared(dram(DRAM_BANK), dram(DRAM_BANK - 64))
    assert (named(changes), changes.notes) == (
        [],
        (f"DRAM banks {DRAM_BANK:,} → {DRAM_BANK - 64:,} B on 1 case: a bank shrank by 64 B",),
    )


def test_one_bank_that_moved_alone_is_no_shift(compared):
    changes = compared(release(BASE_081), release(BASE_081, gelu=l1_oom("gelu", BASE_076)))
    assert (named(changes), changes.notes) == ([(ChangeKind.SHRUNK, "gelu")], ())


def test_the_shift_is_the_one_of_most_cases(compared):
    """Three cases of one bank against two of different banks, which moved alike."""
    before, after = (
        [
            *(l1_oom(op, base) for op in ("relu", "gelu", "silu")),
            l1_oom("tanh", 200_000 - back),
            l1_oom("sigmoid", 300_000 - back),
        ]
        for base, back in ((BASE_076, 0), (BASE_081, 32))
    )
    changes = compared(before, after)
    assert changes.notes == ("L1 banks 1,393,472 → 1,393,312 B on 3 cases: the reserved base grew by 160 B",)
    assert named(changes) == [(ChangeKind.SHRUNK, "sigmoid"), (ChangeKind.SHRUNK, "tanh")]


def test_a_budget_that_does_not_follow_the_base_is_judged_by_itself(compared):
    """It lost 32 B. If it had to move by 160 B with the bank, it would have gained."""
    before, after = (
        release(base, cat=program_oom("cat", 0, 9_768_960, limit_bytes=limit))
        for base, limit in ((BASE_076, 1_000_000), (BASE_081, 999_968))
    )
    changes = compared(before, after)
    assert named(changes) == [(ChangeKind.GROWN, "cat")]
    assert changes.found[0].figures == (ByteChange("limit_bytes", 1_000_000, 999_968),)


def test_a_case_that_no_longer_fits_because_of_the_base_is_a_new_oom(compared):
    needed = L1_END - BASE_076
    changes = compared(release(BASE_076), release(BASE_081, relu=l1_oom("relu", BASE_081, needed=needed)))
    assert named(changes) == [(ChangeKind.NEW_OOM, "relu")]
    assert changes.found[0].before == "fits"
    assert changes.found[0].after == "oom: L1 bank needs 1,393,472 B, 1,393,312 B free (output)"


def test_a_shift_without_a_bank_in_any_message_is_known_from_the_device(compared, tmp_path):
    runs = []
    for base, run in ((BASE_076, ONE), (BASE_081, OTHER)):
        device = {
            "mode": "virtual",
            "board": "n150",
            "ttnn": "0.81.1",
            "l1": {"num_banks": 64, "bank_bytes": L1_END - base, "alignment_bytes": 16},
        }
        runs.append(
            read_run(write_run(tmp_path, [program_oom("tanh", base, 9_000_000, limit_bytes=L1_END)], run, device=device))
        )
    changes = Changes.of(*runs)
    assert named(changes) == []
    assert changes.notes == ("L1 banks 1,393,472 → 1,393,312 B on 1 case: the reserved base grew by 160 B",)


LEAK = {"measured": {"left_allocated": {"l1": 64}}}


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ({}, {"status": "oom"}, ChangeKind.NEW_OOM),
        ({"status": "error"}, {"status": "oom"}, ChangeKind.NEW_OOM),
        ({"status": "unsupported"}, {"status": "oom"}, ChangeKind.NEW_OOM),
        ({}, {"status": "error"}, ChangeKind.NEW_FAULT),
        ({"status": "oom"}, {"status": "crash"}, ChangeKind.NEW_FAULT),
        ({"status": "error"}, {"status": "timeout"}, ChangeKind.NEW_FAULT),
        ({}, {"status": "mismatch"}, ChangeKind.NEW_FAULT),
        ({}, LEAK, ChangeKind.NEW_FAULT),
        ({"status": "oom"}, LEAK, ChangeKind.NEW_FAULT),
        ({"status": "oom"}, {}, ChangeKind.NOW_FITS),
        ({"status": "crash"}, {}, ChangeKind.NOW_FITS),
        ({}, {"status": "unsupported"}, ChangeKind.LOST_FIT),
        ({}, {"status": "invalid"}, ChangeKind.LOST_FIT),
        ({}, {"status": "not_run"}, ChangeKind.LOST_FIT),
        ({"status": "oom"}, {"status": "unsupported"}, ChangeKind.OTHER_VERDICT),
        ({"status": "oom"}, {"status": "not_run"}, ChangeKind.OTHER_VERDICT),
        ({"status": "not_run"}, {}, ChangeKind.OTHER_VERDICT),
        ({"status": "not_run"}, {"status": "oom"}, ChangeKind.OTHER_VERDICT),
        ({"status": "not_run"}, {"status": "error"}, ChangeKind.NEW_FAULT),
        ({"status": "oom"}, {"status": "oom", "verdict": {"resource": Resource.FRAGMENTATION}}, ChangeKind.CHANGED),
        ({"status": "error", "verdict": {"message": "a"}}, {"status": "error", "verdict": {"message": "b"}}, None),
        (LEAK, LEAK, None),
        (LEAK, {}, None),
    ],
)
def test_kinds(compared, before, after, kind):
    assert [change.kind for change in compared([a_record(**before)], [a_record(**after)]).found] == ([kind] if kind else [])


def test_tensors_on_the_device_are_compared(compared):
    placed = [PlacedTensor("output", (1, 64), "bfloat16", "tile", "l1", 128, size, 64) for size in (4096, 2048)]
    changes = compared(*([a_record(measured={"tensors": (tensor,)})] for tensor in placed))
    assert named(changes) == [(ChangeKind.SHRUNK, "relu")]
    assert changes.found[0].figures == (ByteChange("output: allocated_bytes", 4096, 2048),)


def test_cases_that_only_one_run_has(compared):
    """A fit without a record is lost; any other case has vanished."""
    before = [a_record("relu"), a_record("gelu"), a_record("exp", status="oom")]
    changes = compared(before, [a_record("relu"), a_record("silu", status="oom")])
    assert named(changes) == [(ChangeKind.LOST_FIT, "gelu"), (ChangeKind.NEW_CASE, "silu"), (ChangeKind.VANISHED, "exp")]
    assert [(c.before, c.after) for c in changes.found] == [
        ("fits", "no record"),
        ("", "oom: l1_buffer:  (output)"),
        ("oom: l1_buffer:  (output)", ""),
    ]


@pytest.mark.parametrize("turned", [False, True])
def test_cases_under_another_release_of_the_board_are_not_gone(compared, turned):
    """One run of two releases: cases that moved to the other are not compared, and are neither vanished nor new."""
    runs = [[a_record("relu"), a_record("gelu")], [a_record("relu"), a_record("gelu", ttnn="0.82.0")]]
    changes = compared(*(reversed(runs) if turned else runs))
    assert named(changes) == []
    assert "1 case of virtual n150, ttnn 0.82.0 without a counterpart, not compared" in changes.notes[0]


def test_in_an_incomplete_run_no_case_vanishes_but_fits_are_lost(compared):
    whole, killed = [a_record("relu"), a_record("gelu"), a_record("silu", status="oom")], [a_record("relu")]
    changes = compared(whole, killed, selected=3)
    assert named(changes) == [(ChangeKind.LOST_FIT, "gelu")]
    assert changes.found[0].after == f"no record: {OTHER} is incomplete"
    loss = "2 of 3 selected cases have no record: the run was interrupted or is still in progress"
    note = f"2 cases without a record in {OTHER}, which is incomplete: not counted as vanished"
    assert changes.notes == (f"{OTHER}: {loss}", note)


def test_fits_that_an_interrupted_run_did_not_reach_are_lost(tmp_path):
    """It has a record of every selected case, so that one without a record is gone."""
    whole = [a_record("relu"), a_record("gelu"), a_record("silu", status="oom")]
    unreached = a_record("gelu", status="not_run", mode="none", verdict={"message": "ended"})
    stopped = write_run(tmp_path, [a_record("relu"), unreached], OTHER, unreached=1)
    changes = Changes.of(read_run(write_run(tmp_path, whole, ONE)), read_run(stopped))
    assert named(changes) == [(ChangeKind.LOST_FIT, "gelu"), (ChangeKind.VANISHED, "silu")]
    assert changes.notes == (f"{OTHER}: interrupted: 1 of 2 cases were not run",)


def test_a_run_beside_itself_has_each_note_once(tmp_path):
    unreached = a_record("gelu", status="not_run", mode="none", verdict={"message": "ended"})
    run = read_run(write_run(tmp_path, [a_record("relu"), unreached], ONE, unreached=1))
    assert Changes.of(run, run).notes == (f"{ONE}: interrupted: 1 of 2 cases were not run",)


def test_a_change_names_the_models_that_make_the_call(compared):
    """The models that make the call and how often, and the key to look it up by; shape sweeps make no calls."""
    sources = [Source("a-640", "m/a", "640x640", 8), Source("crossed", "m/b", "640x640", 0)]
    before, after = a_record(sources=sources), a_record(status="oom", sources=sources)
    changes = compared([before], [after])
    (change,) = changes.found
    assert (change.calls, change.models) == (8, ("m/a",))
    assert "8 calls of m/a" in "\n".join(lines(changes))
    assert f"({after['key']})" in "\n".join(lines(changes))
    assert "| 8 calls of m/a |" in markdown(changes)
    assert changes.to_json()["changes"][0]["models"] == ["m/a"]


def test_after_an_incomplete_run_no_case_is_new(compared):
    changes = compared([a_record("relu")], [a_record("relu"), a_record("gelu")], selected=2)
    assert (named(changes), changes.notes[1:]) == (
        [],
        (f"1 case without a record in {ONE}, which is incomplete: not counted as new",),
    )


def test_releases_are_compared_and_named(compared):
    changes = compared([a_record(ttnn="0.80.0")], [a_record(ttnn="0.81.1")])
    assert changes.cases == 1
    assert changes.heads[0].startswith("virtual n150, ttnn 0.80.0 → virtual n150, ttnn 0.81.1: 1 case in both")


def test_groups_without_a_counterpart_are_noted_and_not_compared(compared):
    changes = compared([a_record(), a_record(board="p150", status="oom")], [a_record(), a_record(mode="silicon", status="oom")])
    assert (changes.cases, named(changes)) == (1, [])
    assert changes.notes == (
        f"{ONE}: 1 case of virtual p150, ttnn 0.81.1 without a counterpart, not compared",
        f"{OTHER}: 1 case of silicon n150, ttnn 0.81.1 without a counterpart, not compared",
    )


def test_of_two_releases_in_one_run_the_same_one_is_compared(compared):
    changes = compared([a_record(ttnn="0.80.0")], [a_record(ttnn="0.81.1", status="oom"), a_record(ttnn="0.80.0")])
    assert (changes.cases, named(changes)) == (1, [])
    assert changes.notes == (f"{OTHER}: 1 case of virtual n150, ttnn 0.81.1 without a counterpart, not compared",)


def test_two_releases_without_the_one_of_the_other_run_cannot_be_compared(compared):
    with pytest.raises(
        HarnessError, match=r"nothing to compare: .* has virtual n150, ttnn 0\.79\.0, .*; virtual n150, ttnn 0\.8"
    ):
        compared([a_record(ttnn="0.79.0")], [a_record(ttnn="0.81.1"), a_record(ttnn="0.80.0")])


def test_runs_with_nothing_in_common_are_an_error_unless_across(compared):
    with pytest.raises(HarnessError, match=r"has virtual n150, .* has silicon n150, .*; --across compares"):
        compared([a_record()], [a_record(mode="silicon")])


def test_a_comparison_across_modes_states_so_first(compared):
    changes = compared([a_record()], [a_record(mode="silicon", ttnn="0.80.0", status="oom")], across=True)
    assert named(changes) == [(ChangeKind.NEW_OOM, "relu")]
    assert changes.notes[0] == "across: virtual n150, ttnn 0.81.1 → silicon n150, ttnn 0.80.0"


def test_a_case_whose_bank_did_not_move_with_the_others_is_judged_by_itself(compared):
    """Its largest block lost 32 B. If it had to lose the 160 B that the banks of five others lost, it would have gained."""
    still = l1_oom("softplus", BASE_076)
    less = still | {"largest_free_bytes": still["largest_free_bytes"] - 32}
    changes = compared([*release(BASE_076), still], [*release(BASE_081), less])
    assert named(changes) == [(ChangeKind.GROWN, "softplus")]


def test_across_does_not_choose_between_two_remaining_groups(compared):
    """Neither has the board or mode of the group in the other run."""
    with pytest.raises(HarnessError, match=r"nothing to compare: .* has virtual n150, .*; simulator n300, [^-]*$"):
        compared([a_record()], [a_record(mode="silicon", board="p150"), a_record(mode="simulator", board="n300")], across=True)


def test_across_boards_bytes_per_bank_are_no_change(compared):
    """A p150 has other banks, and more of them: other bytes per bank are no growth, and their size is no moved base."""
    one, other = (
        [
            a_record(board=board, measured={"usage": peaks(l1_bytes)}),
            l1_oom("gelu", base, needed=needed, board=board, memory="l1") | {"total_bytes": 1},
        ]
        for board, l1_bytes, base, needed in (("n150", 4096, BASE_081, 2_000_000), ("p150", 2048, 30_000, 1_600_000))
    )
    changes = compared(one, other, across=True)
    assert (changes.cases, named(changes)) == (2, [])
    (note,) = changes.notes
    assert note.startswith("across: virtual n150, ttnn 0.81.1 → virtual p150, ttnn 0.81.1; bytes per bank are not")


def test_numbers_of_another_tensor_are_no_growth(compared):
    """If another tensor does not fit, its bytes are no growth of the first one; they are named."""
    changes = compared([l1_oom("gelu", BASE_081)], [l1_oom("gelu", BASE_081, needed=3_000_000) | {"stage": "input 1"}])
    assert [(change.kind, change.figures) for change in changes.found] == [
        (
            ChangeKind.CHANGED,
            (ByteChange("total_bytes", 64 * 2_000_000, 64 * 3_000_000), ByteChange("bytes_per_bank", 2_000_000, 3_000_000)),
        )
    ]


def test_json_has_every_kind_and_every_change(compared):
    document = json.loads(
        json.dumps(compared([a_record("relu")], [a_record("relu", status="oom"), a_record("gelu")]).to_json())
    )
    assert {kind: n for kind, n in document["counts"].items() if n} == {"new-oom": 1, "new-case": 1}
    assert set(document["counts"]) == {kind.value for kind in ChangeKind}
    assert [(c["kind"], c["op"], c["before"]) for c in document["changes"]] == [
        ("new-oom", "relu", "fits"),
        ("new-case", "gelu", ""),
    ]


HOSTILE = "a|b `c`\n# <script>alert(1)</script> [x](y)"


def test_markdown_has_no_markup_of_a_message(compared):
    document = markdown(compared([a_record()], [a_record(status="error", verdict={"message": HOSTILE})]))
    rows = [line for line in document.splitlines() if "script" in line]
    assert len(rows) == 1
    assert "<script" not in rows[0].replace("\\<", "")
    assert rows[0].replace("\\|", "").count("|") == 8  # seven columns
    assert "\\`c\\`" in rows[0]
    assert not any(line.startswith("# ") for line in document.splitlines())


def test_each_change_is_one_line_and_the_rest_a_count(compared):
    shapes = [(1, 32 * n) for n in range(1, 31)]
    hostile = {"status": "error", "verdict": {"message": HOSTILE}}
    changes = compared([a_record(shape=s) for s in shapes], [a_record(shape=s, **hostile) for s in shapes])
    text = list(lines(changes, 20))
    assert text[2] == "new-fault (30): fails now: error, mismatch, crash, timeout or leak"
    assert (len(text), text[-1]) == (3 + 20 + 1, "  … and 10 more")
    assert len(list(lines(changes, None))) == 3 + 30


def test_a_summary_stays_below_its_limit_and_counts_the_rest(compared):
    shapes = [(1, 32 * n) for n in range(1, 301)]
    changes = compared([a_record(shape=s) for s in shapes], [a_record(shape=s, status="oom") for s in shapes])
    assert len(markdown(changes).encode()) > 10_000
    short = markdown_within(changes, 10_000)
    shown = short.count("| `relu` |")
    assert len(short.encode()) <= 10_000
    assert shown > 10
    assert f"… and {300 - shown} more" in short
    assert "### new-oom (300)" in short
    assert markdown_within(changes, 100) is None


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Three runs in ``results``: a good one, one with a regression, one with an improvement."""
    monkeypatch.chdir(tmp_path)
    results = tmp_path / "results"
    write_run(results, release(BASE_081), "good")
    write_run(results, release(BASE_081, relu=l1_oom("relu", BASE_081)), "worse")
    write_run(results, release(BASE_081, gelu=a_record("gelu")), "better")
    (results / "latest").symlink_to("worse")
    return results


def compare(*arguments, **environ):
    return CliRunner().invoke(cli, ["compare", *arguments], env=environ)


@pytest.mark.parametrize(
    ("arguments", "code", "finding"),
    [
        (["good", "worse"], 1, "ssinghal: finding: 1 new-oom"),
        (["good", "better"], 0, ""),
        (["good", "better", "--fail-on", "new-oom,now-fits"], 1, "ssinghal: finding: 1 now-fits"),
        (["good", "worse", "--fail-on", "none"], 0, ""),
        (["good", "worse", "--fail-on", "grown"], 0, ""),
        (["goo", "results/good/records.jsonl"], 0, ""),
        (["good", "latest"], 1, "ssinghal: finding: 1 new-oom"),
    ],
)
def test_exit_code_is_of_the_chosen_kinds(runs, arguments, code, finding):
    result = compare(*arguments)
    assert (result.exit_code, result.stderr.strip()) == (code, finding)


NOTHING = "nothing-compared"


@pytest.mark.parametrize("flags", [[], ["--json"], ["--markdown"]])
@pytest.mark.parametrize("select", [{}, {"catalogs": ["c6"]}], ids=["vanished", "not selected"])
@pytest.mark.parametrize(
    ("kinds", "code"),
    [
        (None, 0),
        ("none", 0),
        ("new-oom,new-fault", 0),
        (NOTHING, 1),
        (f"new-fault, {NOTHING}", 1),
        (f"{NOTHING},new-oom", 1),
    ],
)
def test_runs_without_a_common_case_are_a_finding_on_request(runs, flags, select, kinds, code):
    """Whether the cases of one run are counted as missing in the other, or not compared as other catalogs were selected."""
    write_run(runs, [a_record("tanh", (1, 32, 64), sources=[{"catalog": "c8"}])], "other", options={"catalogs": ["c8"]})
    write_run(runs, [{**a_record("relu"), "status": "unsupported"}], "mine", **({"options": select} if select else {}))
    result = compare("mine", "other", *flags, *([] if kinds is None else ["--fail-on", kinds]))
    text = "ssinghal: finding: nothing-compared: no case is in both runs" if code else ""
    assert (result.exit_code, result.stderr.strip()) == (code, text)


def test_runs_with_a_common_case_compare_something(runs):
    for other in ("good", "worse", "better"):
        result = compare("good", other, "--fail-on", NOTHING)
        assert (result.exit_code, result.stderr) == (0, "")
    both = compare("good", "worse", "--fail-on", f"{NOTHING},new-oom")
    assert (both.exit_code, both.stderr.strip()) == (1, "ssinghal: finding: 1 new-oom")


def test_the_text_has_only_the_regression(runs):
    result = compare("good", "worse")
    assert result.stdout.splitlines() == [
        "good → worse: 1 new-oom",
        "  virtual n150, ttnn 0.81.1: 7 cases in both; numerics not run: memory verdicts only",
        "new-oom (1): runs out of memory now",
        "  relu 1x64x640x400-l1 (7be2d2b04498): fits → oom: L1 bank needs 2,000,000 B, 1,393,312 B free (output)",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["good", "worse", "--fail-on", "new-oops"], "unknown kind of change 'new-oops'; did you mean new-oom"),
        (["good", "worse", "--fail-on", ""], "unknown kind of change ''"),
        (["good", "nothing"], "no run 'nothing'"),
        (["good", "worse", "--github-summary"], "GITHUB_STEP_SUMMARY is not set"),
    ],
)
def test_bad_input_is_one_line(runs, arguments, message):
    result = compare(*arguments, GITHUB_STEP_SUMMARY="")
    assert isinstance(result.exception, HarnessError)
    assert message in str(result.exception)


@pytest.mark.parametrize("arguments", [["--json", "--markdown"], ["-o", "file"]])
def test_contradicting_options_are_usage_errors(runs, arguments):
    assert compare("good", "worse", *arguments).exit_code == 2


@pytest.mark.parametrize(("form", "begins"), [("--json", "{"), ("--markdown", "## ")])
def test_a_document_is_printed_or_written(runs, tmp_path, form, begins):
    document = compare("good", "worse", form).stdout
    assert document.startswith(begins)
    summary = compare("good", "worse", form, "-o", "document").stdout
    assert (tmp_path / "document").read_text() == document
    assert summary.startswith("good → worse: 1 new-oom")
    assert [p.name for p in tmp_path.iterdir() if "document" in p.name] == ["document"]


def test_a_job_summary_is_appended(runs, tmp_path):
    summary = tmp_path / "summary.md"
    summary.write_text("# Before\n")
    assert compare("good", "worse", "--github-summary", GITHUB_STEP_SUMMARY=str(summary)).exit_code == 1
    assert summary.read_text().startswith("# Before\n## `good` → `worse`\n")


def test_a_full_job_summary_is_reported(runs, tmp_path):
    summary = tmp_path / "summary.md"
    summary.write_text("x" * (1024 * 1024 - 10))
    result = compare("good", "worse", "--github-summary", GITHUB_STEP_SUMMARY=str(summary))
    assert "has 1,048,566 B already" in str(result.exception)
    assert summary.stat().st_size == 1024 * 1024 - 10
