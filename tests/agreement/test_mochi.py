"""The Mochi decoder's padding, end to end: from the runtime's log to the call, why it fails, and a replacement that runs.

A Wormhole card, December 2025: an untilize of [4, 4884480], a step of replicate padding, ends the run before any convolution.
"""

import json
from pathlib import Path

import pytest

from ssinghal.core.verdict import Resource, Status
from ssinghal.device.modes import choose_device
from ssinghal.device.releases import find_release
from ssinghal.errors import HarnessError
from ssinghal.operators import make_case
from ssinghal.runner.pool import Pool
from ssinghal.runner.tasks import PoolOptions

pytestmark = pytest.mark.virtual_device
LOGS = Path(__file__).parents[1] / "data" / "logs"
OLD, NEW = "0.66.0", "0.81.1"
ROW = 768 * 60 * 106  # values: all dims but time, flattened


@pytest.fixture(scope="module")
def old_release():
    try:
        return find_release(OLD)
    except HarnessError as error:
        pytest.skip(str(error))


@pytest.fixture
def diagnosed(run, old_release):
    pytest.importorskip("torch")
    log, module = str(LOGS / "mochi_runtime.log"), str(LOGS / "mochi_module.mlir")
    done = run("diagnose", log, "--module", module, "--ttnn", OLD, "--ttnn", NEW, "--json")
    assert done.code == 1
    (failure,) = json.loads(done.out)["failures"]
    return failure


def test_from_the_log_to_what_runs_instead(diagnosed):
    """The steps of a diagnosis in order."""
    # which call
    assert (diagnosed["operation"]["name"], diagnosed["operation"]["results"]) == ("ttnn.to_layout", ["%9"])
    assert diagnosed["operation"]["location"].endswith("aten__index_workaround")
    assert diagnosed["cores"] == "7-6..7-6"
    assert diagnosed["case"]["inputs"] == [[4, ROW]]
    assert [op["name"] for op in diagnosed["never_ran"]][-2:] == ["ttnn.conv3d", "ttnn.to_layout"]
    # why: 4,884,480 / 32 tiles in a row, one row high; 2,414 tiles in and out are the last core's share
    explanation = diagnosed["explanation"]
    assert explanation["tensors"][0]["tiles"] == [ROW // 32, 1] == [152_640, 1]
    (need,) = explanation["program"]["needs"]
    assert need["program_bytes"] == 2_414 * (2_048 + 2_048) == 9_887_744
    assert need["base_bytes"] == 9_990_400 - 9_887_744 == 102_656
    assert explanation["program"]["overflow_bytes"] == 9_990_400 - 1_499_136
    lines = "\n".join(explanation["lines"])
    assert "6.66 times" in lines  # 9,990,400 / 1,499,136, both in bytes
    assert "7.08 times" in lines  # 9,887,744 / (1,499,136 - 102,656)
    # the same call on two releases: the older one fails as the card did, except for the bytes that it reserves
    old, new = diagnosed["replays"]
    figures = {figure["name"]: figure["replayed"] for figure in old["figures"]}
    assert figures == {"program_bytes": 9_991_296, "limit_bytes": 1_499_136, "cores": "7-6..7-6"}
    assert 9_991_296 - 9_990_400 == 103_552 - 102_656
    assert (old["same_kind"], old["same_figures"], new["status"]) == (True, False, "fits")
    # on today's release the call fits, but not the chain: the row-major reshape back needs an old and a new row
    later = [(step["operation"], step["status"]) for step in new["later"]]
    assert later == [("ttnn.embedding", "fits"), ("ttnn.reshape", "oom")]
    assert "19,538,320 B of 1,393,312 B" in new["later"][-1]["text"]
    # the gather that it is a step of, and the same without such rows
    assert "6 elements along dim 2 of [1,768,4,60,106] by indices 0 (3 times), 1, 2, 3" in diagnosed["gather"]
    assert [(p["ttnn"], p["fits"]) for p in diagnosed["padding"]] == [(OLD, True), (NEW, True)]
    for padding in diagnosed["padding"]:
        assert padding["values"]["composed"]["equal"] is True
        assert padding["values"]["composed"]["reduced"] is False
        assert padding["values"]["constant"]["equal"] is False
    # and remedies of the call itself, each of which ran
    remedies = diagnosed["remedies"]["remedies"]
    assert "re-arranged" in {r["contract"] for r in remedies}
    assert "other release or board" in {r["contract"] for r in remedies}
    assert all(r["results"] and r["code"] for r in remedies)


@pytest.mark.parametrize("version", [OLD, NEW])
def test_the_complete_padding_as_slices_and_concat(run, old_release, version):
    """F.pad(x, (1, 1, 1, 1, 2, 0), mode="replicate"); constant padding has 25,440 of 40,176 elements of the interior."""
    pytest.importorskip("torch")
    done = run("remedy", "replication_pad3d", "1,768,4,60,106", "--attr", "padding=1,1,1,1,2,0", "--ttnn", version)
    assert done.code == 0, done.err
    assert "it fits: there is nothing to remedy" in done.out
    assert "as slices and concat: equal values in torch at [1,768,4,60,106]\n" in done.out
    assert f"{1 - 25_440 / 40_176:.1%} of the result's elements differ" in done.out
    assert "its interior is equal" in done.out
    # 0.66.0 silently drops the padding of the third dim from the end; its result is not accepted
    wrong = "gives a wrong result (TTNN returned shape (1, 768, 4, 62, 108); expected (1, 768, 6, 62, 108))"
    assert (wrong in done.out) == (version == OLD)


def test_the_row_major_reshape_back_is_rejected_today():
    """Two rows of 9,768,960 B, the old and the new one, and their alignment; a core has 1,393,312 B."""
    from ssinghal.core.case import Placement
    from ssinghal.core.tensors import Layout

    placement = Placement(layout=Layout.ROW_MAJOR, channels_last=False)
    case = make_case("view", ((1, 6, ROW),), {"size": [6, 1, 768, 60, 106]}, placement)
    choice = choose_device("virtual", "n150")
    with Pool(choice, PoolOptions.of(choice, workers=1)) as pool:
        verdict = pool.submit(case).result().verdict
    assert (verdict.status, verdict.resource) == (Status.OOM, Resource.CIRCULAR_BUFFER)
    assert verdict.program_bytes - 2 * 2 * ROW == 19_538_320 - 19_537_920 == 400
