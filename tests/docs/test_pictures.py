"""The committed pictures are what scripts/pictures.py draws, and their numbers are right."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.documents import DOCS, PAGES

PICTURES = sorted((DOCS / "pictures").glob("*.svg"))


@pytest.fixture
def pictures(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(DOCS.parent / "scripts")
    return import_module("pictures")


def texts(name: str) -> str:
    return "\n".join(
        element.text or "" for element in ET.parse(DOCS / "pictures" / name).iter("{http://www.w3.org/2000/svg}text")
    )


def test_pictures_are_current(pictures: ModuleType) -> None:
    assert pictures.stale() == [], "run: python scripts/pictures.py"
    assert [path.stem for path in PICTURES] == sorted(pictures.PICTURES)


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.stem)
def test_picture_is_shown_on_a_page(path: Path) -> None:
    assert any(f"(pictures/{path.name})" in page.read_text() for page in PAGES)


# By hand: tiles of 2,048 B, 12 banks of DRAM; L1 ends at 1,499,136 and TTNN reserves 105,824; [1, 640, 400, 64] has
# 640 * 13 * 2 tiles, ceil(16,640 / 64) = 260 in each bank.
@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        (
            "tiles.svg",
            ["4,000 B of values", "8,192 B in tiles: 2.05 times", "384 B of values", "4,096 B in tiles: 10.67 times"],
        ),
        ("banks.svg", ["20 tiles of 2,048 B", "booked 2 pages = 4,096 B", "40,960 B of values take 49,152 B"]),
        ("l1.svg", ["bank needs 532,480 B, 328,352 B free", "end at 1,185,120 B", "begins at 974,848 B"]),
        ("fragmentation.svg", ["594,592 B are free, the largest block has 266,240 B", "wanted: 532,480 B"]),
    ],
)
def test_numbers_of_a_picture(name: str, numbers: list[str]) -> None:
    assert [number for number in numbers if number not in texts(name)] == []


def test_layers_hold_every_package_once(pictures: ModuleType) -> None:
    names = [name for level in pictures.layers() for name in level]
    packages = [path.parent.name for path in pictures.PACKAGE.glob("*/__init__.py")]
    modules = [path.stem for path in pictures.PACKAGE.glob("*.py")]
    assert sorted(names) == sorted({*modules, *packages} - {"__init__", "__main__", "tests", "oom_tests"})
    assert (pictures.layers()[0], pictures.layers()[-1]) == (["errors"], ["cli"])


def test_every_package_states_its_purpose(pictures: ModuleType) -> None:
    names = [name for level in pictures.layers() for name in level]
    assert [name for name in names if len(pictures.purpose(name)) < 20] == []


def test_descriptions_of_packages_stay_within_their_boxes() -> None:
    """Boxes and texts follow each other in the file; a line of text needs 4 pixels below its base."""
    bottom, lines = 0.0, 0
    for element in ET.parse(DOCS / "pictures" / "architecture.svg").iter():
        if element.tag.endswith("rect"):
            bottom = float(element.attrib["y"]) + float(element.attrib["height"])
        elif element.tag.endswith("text") and bottom:
            lines += 1
            assert float(element.attrib["y"]) + 4 <= bottom, element.text
    assert lines > 40
