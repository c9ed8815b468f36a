"""``profile.json``: every figure is that of the records."""

from __future__ import annotations

import json
import tracemalloc

import pytest

from ssinghal.errors import HarnessError
from ssinghal.profile.finding import Finding, FindingKind
from ssinghal.profile.json_report import json_text, write_json
from ssinghal.profile.model import Site
from ssinghal.profile.reading import read_profiles
from ssinghal.profile.replay import replay
from tests.profile.measure import ROOT, run_ssinghal
from tests.profile.records import DEVICE, L1_BANK, NET, PROGRAM, call, profile, sites


def document(*profiles, findings=()):
    return json.loads("".join(json_text(profiles, findings)))


def test_calls_and_buffers_are_those_of_the_records():
    (process,) = document(profile())["processes"]
    assert (process["program"], process["ttnn"], process["ended"]) == (["net.py", "--batch", "1"], "0.81.1", True)
    assert process["counts"] == {
        "calls": 5, "differences": 0, "raised": 1, "others": 0, "elsewhere": 0, "skipped": 0, "checks": 10,
        "unknown_frees": 0, "unsized_frees": 0,
        "unknown_programs": 1,
    }  # fmt: skip
    matmul = process["calls"][2]
    assert (matmul["name"], matmul["us"]) == ("ttnn.matmul", 7)
    assert matmul["after"] == {"dram": 40_000, "l1": 4_000}
    assert matmul["largest_free"]["l1"] == L1_BANK - 4_000
    headroom = 5_000 - 1_000 - 1_500
    assert matmul["programs"] == [{"name": "Matmul", "program_bytes": 1_500, "l1_bytes": 4_000, "headroom_bytes": headroom}]
    assert [process["sites"][site] for site in process["stacks"][matmul["stack"]]] == [
        ["/home/me/net.py", 30, "block", ""], ["/home/me/net.py", 20, "load", ""], ["/home/me/net.py", 10, "main", ""],
    ]  # fmt: skip
    operands = [(process["specs"][number]["shape"], address) for number, address in matmul["operands"]]
    assert operands == [([32, 32], 8_000), ([320, 32], 50_000)]
    weights, first, second, third = process["buffers"]
    assert (weights["memory"], weights["bank_bytes"], weights["total_bytes"], weights["freed"]) == (
        "dram",
        40_000,
        480_000,
        None,
    )
    assert (first["call"], first["last_use"], first["freed"], first["freed_between"]) == (1, 2, 3, True)
    assert (second["tensor"], second["last_use"]) == ("64x32 bfloat16 tile", 3)
    assert third["address"] == 3_000


def test_peaks_and_the_failure_refer_to_buffers_by_number():
    (process,) = document(profile())["processes"]
    assert process["peaks"]["l1"] == {"bank_bytes": 5_000, "call": 3, "resident": [2, 3]}
    assert (process["fullest"]["call"], process["fullest"]["at_most"]) == (3, True), (
        "3,000 - 1,000 or less of what is not reported"
    )
    failure = process["failure"]
    assert (failure["call"], failure["out_of_memory"], failure["resident"]) == (4, True, [0, 2, 3])
    assert (failure["verdict"]["bytes_per_bank"], failure["verdict"]["largest_free_bytes"]) == (5_000, 3_000)


def test_findings_and_several_processes():
    finding = Finding(FindingKind.LATE_FREE, "l1", 1_000, Site("net.py", 3, "main"), "freed late", "by arithmetic", (1, 2))
    first, second = document(profile(), replay([PROGRAM, DEVICE]), findings=[[finding]])["processes"]
    (written,) = first["findings"]
    assert (written["kind"], written["memory"], written["bank_bytes"], written["site"]) == (
        "late_free", "l1", 1_000, ["net.py", 3, "main", ""],
    )  # fmt: skip
    assert (written["title"], written["proof"], written["calls"]) == ("freed late", "by arithmetic", [1, 2])
    assert (second["calls"], second["failure"], second["peaks"]) == ([], None, {})


def test_a_large_profile_is_written_without_a_second_copy(tmp_path):
    many = replay([PROGRAM, DEVICE, *sites("main"), *(call("ttnn.relu", 100, [], 0) for _ in range(20_000))])
    tracemalloc.start()
    write_json(tmp_path / "profile.json", [many])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200_000 < (tmp_path / "profile.json").stat().st_size
    assert len(json.loads((tmp_path / "profile.json").read_text())["processes"][0]["calls"]) == 20_000


def test_a_text_that_is_no_unicode_is_kept(tmp_path):
    odd = [PROGRAM | {"argv": ["a\udc80.py"]}, *NET[1:]]
    write_json(tmp_path / "profile.json", [profile(odd)])
    assert json.loads((tmp_path / "profile.json").read_text())["processes"][0]["program"] == ["a\udc80.py"]


def test_a_folder_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(HarnessError, match=r"cannot write .*profile\.json: No such file or directory"):
        write_json(tmp_path / "none" / "profile.json", [profile()])


@pytest.mark.virtual_device
def test_the_command_writes_it(tmp_path):
    """Five tensors of 64 tiles, a tile of bfloat16 in each of 64 banks: 2,048 B each."""
    program = ROOT / "tests" / "profile" / "programs" / "faults" / "clean" / "chain.py"
    done = run_ssinghal(tmp_path, "profile", "-o", "out", "--", "python", program)
    assert done.returncode == 0, done.stderr
    (process,) = json.loads((tmp_path / "out" / "profile.json").read_text())["processes"]
    (one,) = read_profiles(tmp_path / "out")
    assert process["counts"]["differences"] == 0
    assert process["peaks"]["l1"]["bank_bytes"] == 2 * 16 * 2_048, "as test_seeded computes"
    resident = process["peaks"]["l1"]["resident"]
    assert sum(process["buffers"][number]["bank_bytes"] for number in resident) == 2 * 16 * 2_048
    assert [call["name"] for call in process["calls"]] == [call.name for call in one.calls]
    assert all(process["specs"][number]["memory"] in ("l1", None) for call in process["calls"] for number, _ in call["results"])
