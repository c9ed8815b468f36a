"""Computes docs/seed_figures.md again: the cards' counts, the same calls today, and the sizes in the document."""

import csv
import json
import re
from collections import Counter
from pathlib import Path

import pytest

from ssinghal.catalog.expansion import expand
from ssinghal.catalog.loader import load_catalogs
from ssinghal.core.boards import load_board
from ssinghal.core.tensors import BufferType, MemoryConfig, TensorSpec
from ssinghal.device.modes import choose_device
from ssinghal.report.statistics import Facts, band_of
from ssinghal.runner.pool import Pool
from ssinghal.runner.tasks import PoolOptions
from ssinghal.runs.reader import read_run
from tests.agreement.test_hardware import case_of
from tests.support.run_builder import write_run

HARDWARE = Path(__file__).parents[1] / "data" / "hardware"
DOCUMENT = Path(__file__).parents[2] / "docs" / "seed_figures.md"
CROSSED = ("1280-class", "yolo12x-2176x3840", "yolo12x-4320x7680")
MIB = 2**20
L1 = MemoryConfig(BufferType.L1)

# What the cards' counts and the same calls today differ by, as the document explains.
MORE_LOGS = {
    (1, 96, 4320, 1920), (1, 96, 2160, 1920), (1, 192, 1080, 960), (1, 384, 540, 480), (1, 96, 540, 960), (1, 768, 270, 240),
    (1, 192, 270, 480), (1, 32400, 768), (16200, 1536), (64800, 768),
}  # fmt: skip
CLAMPED = {(1, 1152, 136, 120), (1, 1152, 135, 120)}


def rows_of(name: str) -> list[dict[str, str]]:
    with (HARDWARE / name).open(newline="") as file:
        return list(csv.DictReader(file))


R3 = rows_of("crossed_lists_r3.csv")


def listed(row: dict[str, str]) -> tuple[str, tuple[int, ...]]:
    return row["operator"], tuple(json.loads(row["listed_shape"]))


def facts_of(cases, names, folder: Path) -> Facts:
    """Returns the facts of ``cases`` on a virtual n150, each under its operator and shape."""
    with Pool(choose_device("virtual", "n150"), PoolOptions(workers=2)) as pool:
        records = [record.to_json() for record in pool.map(cases)]
    named = [
        {**record, "op": op, "operator": op, "listed_shape": list(shape), "key": f"{record['key']}-{number}"}
        for number, (record, (op, shape)) in enumerate(zip(records, names, strict=True))
    ]
    (group,) = read_run(write_run(folder, named)).groups
    return Facts.of(group)


@pytest.fixture(scope="module")
def as_the_cards(tmp_path_factory) -> Facts:
    """Returns the calls of R3 as its cards ran them: for some, the operands alone."""
    return facts_of([case_of(row) for row in R3], map(listed, R3), tmp_path_factory.mktemp("cards"))


def in_bands(pairs) -> dict[str, int]:
    return dict(Counter(pair.band.name for pair in pairs))


@pytest.mark.virtual_device
def test_the_first_seed_by_the_cards_counts(as_the_cards):
    """1,014 calls ran out, two of split's shapes twice: 1,012 pairs. Today's differ, each for a cause."""
    counts = {row["operator"]: float(row["true_oom"]) for row in rows_of("hardware_counts.csv") if row["run"].startswith("R3")}
    assert sum(counts.values()) == 1014
    today = {results.op: len(results.pairs) for results in as_the_cards.failing_operators}
    differ = {op: today.get(op, 0) - n for op, n in counts.items() if today.get(op, 0) != n}
    assert differ == {"log": 10, "softmax": 1, "hardtanh": -2, "split": -2}
    twice = Counter(listed(row) for row in R3 if row["operator"] == "split")
    assert sum(n - 1 for n in twice.values()) == 2

    assert len(as_the_cards.pairs) == 1021
    assert in_bands(as_the_cards.pairs) == {"critical": 56, "large": 113, "medium": 412, "small": 440}
    assert len(as_the_cards.shapes) == 74
    assert (1,) not in {failures.shape for failures in as_the_cards.shapes}

    logs = [pair for pair in as_the_cards.pairs if pair.op == "log" and pair.shape in MORE_LOGS]
    assert in_bands(logs) == {"critical": 1, "large": 1, "medium": 2, "small": 6}
    clamped = {band_of(TensorSpec(shape).logical_bytes).name for shape in CLAMPED}
    fitting = {r.shape for r in as_the_cards.records if r.op == "hardtanh" and not r.is_oom}
    assert fitting >= CLAMPED
    assert clamped == {"small"}
    assert len(as_the_cards.pairs) - len(logs) - 1 + len(CLAMPED) == 1012
    on_the_cards = Counter(in_bands(as_the_cards.pairs)) - Counter(in_bands(logs)) - Counter(small=1) + Counter(small=2)
    assert on_the_cards == {"critical": 55, "large": 112, "medium": 410, "small": 435}


@pytest.mark.virtual_device
def test_the_crossed_catalogs_today(as_the_cards, tmp_path):
    """Every call of the three catalogs, complete; they include the lists of R3's cards."""
    named = {(case.name, case.listed_shape): case for case in expand(load_catalogs(CROSSED)).cases if case.listed_shape}
    wanted = set(map(listed, R3))
    assert wanted <= named.keys()
    today = facts_of(list(named.values()), named, tmp_path)
    pairs, cards = ({(p.op, p.shape) for p in facts.pairs} for facts in (today, as_the_cards))
    assert cards - pairs == {("native_batch_norm", (1, 3, 1088, 1920))}
    assert len(pairs & wanted - cards) == 73
    same = [pair for pair in today.pairs if (pair.op, pair.shape) in wanted]
    assert (len(same), in_bands(same)) == (1093, {"critical": 56, "large": 113, "medium": 412, "small": 512})
    assert (len(pairs), in_bands(today.pairs)) == (1476, {"critical": 56, "large": 113, "medium": 472, "small": 835})
    assert (1,) not in {pair.shape for pair in today.pairs}
    largest = next(pair for pair in today.pairs if pair.op == "add" and pair.shape[0] == 1)
    assert (largest.shape, largest.size.logical_bytes) == ((1, 96, 2160, 3840), 1 * 96 * 2160 * 3840 * 2)


def test_the_second_seed_counted_twice_what_it_did_not_drop():
    rows = [row for row in rows_of("hardware_counts.csv") if row["run"].startswith("R2")]
    done, out = (
        sum(float(row[name]) for row in rows for name in names) for names in (("true_passed", "true_failed"), ("true_oom",))
    )
    assert (sum(int(row["printed_tests"]) for row in rows), done, out) == (680, 340, 368)
    (clamp_min,) = [row for row in rows if row["operator"] == "clampmin"]
    assert clamp_min["true_oom"] == "10"


def test_the_third_seed_swapped_view():
    rows = {row["operator"]: row for row in rows_of("hardware_counts.csv") if row["run"].startswith("R1")}
    view, sigmoid = rows["view"], rows["sigmoid"]
    swapped = f"`view` is swapped ({view['true_passed']} passed, {view['true_failed']} failed)"
    text = " ".join(DOCUMENT.read_text().split())
    assert f"{swapped}, and sigmoid has {sigmoid['true_tests']} cases, not 27" in text
    assert sum(int(row["true_oom"]) for row in rows.values()) == 81


@pytest.mark.parametrize(
    ("shape", "logical", "allocated"),
    [
        ((1, 96, 2160, 3840), 1518.75 * MIB, 1518.75 * MIB),
        ((1, 96, 2176, 1920), 765 * MIB, 765 * MIB),
        ((1, 3, 2176, 3840), 50_135_040, 510 * MIB),
        ((1, 3, 1280, 1280), 9.375 * MIB, 100 * MIB),
        ((1, 64, 1280, 800), 125 * MIB, 125 * MIB),
        ((1, 128, 640, 400), 62.5 * MIB, 65 * MIB),
        ((1, 256, 320, 200), 31.25 * MIB, 35 * MIB),
    ],
)
def test_sizes_that_the_document_names(shape, logical, allocated):
    """Channels last: [N, H, W, C] in tiles of 32 x 32, 2,048 B each."""
    n, c, h, w = shape
    spec = TensorSpec((n, h, w, c), memory=L1)
    tiles = n * h * -(-w // 32) * -(-c // 32)
    assert (
        (spec.logical_bytes, spec.allocated_bytes(load_board("n150")))
        == (logical, allocated)
        == (n * c * h * w * 2, tiles * 2048)
    )


def test_mochi_took_an_address_for_a_size():
    """The document's own numbers: an end address minus the reserved base, and divided by the size of L1."""
    text = " ".join(DOCUMENT.read_text().rpartition("## ")[2].split())
    end, base, size, _, limit = (int(number.replace(",", "")) for number in re.findall(r"\b\d{1,3}(?:,\d{3})+\b", text))
    assert end - base == size
    assert f"is {end / limit:.2f}" in text


def test_the_document_has_these_figures():
    """The document's table of bands is what the tests above compute."""
    text = DOCUMENT.read_text()
    for row in (
        "| the cards, from their counts | 1,012 | 55 | 112 | 410 | 435 |",
        "| the same calls, virtual n150, ttnn 0.81.1 | 1,021 | 56 | 113 | 412 | 440 |",
        "| complete calls of the shape sweeps, same lists | 1,093 | 56 | 113 | 412 | 512 |",
        "with the lists of R1 and R2 | 1,476 | 56 | 113 | 472 | 835 |",
    ):
        assert row in text
    assert re.search(r"`log`, 10 more.*`softmax`, 1 more.*`hardtanh`, 2 fewer", text, re.DOTALL)
