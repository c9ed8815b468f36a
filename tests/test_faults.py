"""The script that makes faults happen: each fault is in the documented table, and one that falls short is an exit code."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "scripts" / "faults.py"
SHORT = """
import sys
sys.path.insert(0, sys.argv.pop(1))
import faults
from fault_cases.base import Ended, Fault, NotHere, judged

def absent(place):
    raise NotHere("no such thing")

def kept(place):
    (place.folder / "file").write_text("")
    return judged("kept", Ended(2, "", "ssinghal: cannot write /home/someone/net.yaml | no space"), {2}, words=["no space"])

def short(place):
    return judged("short", Ended(1, "", "Traceback (most recent call last):"), {2}, words=["space"], expected=3, found=2)

faults.FAULTS = (Fault("absent", absent), Fault("kept", kept), Fault("short", short))
faults.main()
"""


def script(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, timeout=120)


def made(*arguments: str) -> tuple[int, list[str]]:
    command = [sys.executable, "-c", SHORT, str(SCRIPT.parent), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout.splitlines()[2:]


def test_every_fault_is_in_the_documented_table():
    names = script("--list").stdout.split()
    assert len(names) == len(set(names)) > 30
    text = (ROOT / "docs" / "reference" / "faults.md").read_text()
    assert re.findall(r"^\| ([a-z0-9-]+) \|", text, re.MULTILINE) == ["fault", *names]
    assert "fell short:" not in text


def test_a_fault_that_falls_short_is_an_exit_code_with_all_that_was_wrong():
    code, rows = made()
    assert code == 1
    assert rows == [
        "| absent | not made here: no such thing |  |  |  | not made |",
        "| kept | kept | 2 | cannot write …/net.yaml / no space |  | held |",
        "| short | short | 1 | Traceback (most recent call last): | 2 of 3 | fell short: exit code 1, not 2; a traceback; "
        "no word of 'space'; 2 records, not 3 |",
    ]
    assert made("kept", "absent") == (0, [rows[1], rows[0]])


def test_an_unknown_fault_is_bad_use():
    done = script("nosuch")
    assert done.returncode == 2
    assert "no fault 'nosuch'; known: run-killed" in done.stderr


@pytest.mark.virtual_device
def test_faults_of_streams_are_held():
    names = ["stdin-closed", "stdout-full", "catalog-damaged", "release-removed-twice"]
    done = script(*names)
    assert done.returncode == 0, done.stdout
    rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines()[2:]]
    assert [(row[0], row[-1]) for row in rows] == [(name, "held") for name in names]


PAGE = """Text.

All 43 held at commit 3c45d5a (30 November 2026).

| fault | what was done | exit code | message | records | verdict |
|---|---|---|---|---|---|
| old | as before | 0 | | | held |

More text.
"""
DOCUMENTED = """
import datetime, json, sys
sys.path.insert(0, sys.argv[1])
from faults import documented
print(documented(sys.argv[2], json.loads(sys.argv[3]), "abc1234", datetime.date(2026, 12, 1)), end="")
"""


@pytest.mark.parametrize(("verdict", "count"), [("held", "All 2"), ("fell short: a traceback", "1 of 2")])
def test_the_script_writes_the_table_of_the_page(verdict, count):
    rows = [["new", "done", "2", "", "", verdict], ["kept", "done", "0", "text", "3 of 3", "held"]]
    program = [sys.executable, "-c", DOCUMENTED, str(SCRIPT.parent)]

    def page(before: str) -> str:
        done = subprocess.run([*program, before, json.dumps(rows)], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    written = page(PAGE)
    assert written == PAGE.replace(
        "All 43 held at commit 3c45d5a (30 November 2026)", f"{count} held at commit abc1234 (1 December 2026)"
    ).replace(
        "| old | as before | 0 | | | held |\n",
        f"| new | done | 2 | | | {verdict} |\n| kept | done | 0 | text | 3 of 3 | held |\n",
    )
    assert page(written) == written


RESUMED = """
import json, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from fault_cases.base import CASES, SOON, Ended, Place, resumed

class Resuming(Place):
    def run(self, *arguments, **more):
        lines = path.read_text().splitlines(keepends=True)
        new = [line(number) for number in range(len(lines), CASES)]
        if how == "twice":
            new.append(line(3))
        elif how == "dropped":
            new.pop()
        elif how != "well":
            lines[3:4] = [line(3, "2")] if how == "replaced" else []
            new += [line(3, "2")] if how == "again" else []
        path.write_text("".join([*lines, *new]))
        return Ended(0, "", "")

def line(number, run="1"):
    return json.dumps({"op": "relu", "key": str(number), "device_mode": "virtual", "run": run}) + "\\n"

place, how = Resuming(Path(sys.argv[2])), sys.argv[3]
path = place.folder / "results" / "2026Z" / "records.jsonl"
path.parent.mkdir(parents=True)
path.write_text("".join(map(line, range(SOON))))
print(*resumed(place, "killed", Ended(-9, "", ""), {-9}).short, sep="; ")
"""


@pytest.mark.parametrize(
    ("how", "short"),
    [
        ("well", ""),
        ("twice", "several records of 1 case; 301 lines, not 300; 301 records, not 300"),
        ("dropped", "299 lines, not 300; 299 records, not 300"),
        ("replaced", "1 answers are no longer there"),
        ("again", "1 answers are no longer there"),
    ],
)
def test_a_resumed_run_that_loses_or_doubles_answers_falls_short(tmp_path, how, short):
    program = [sys.executable, "-c", RESUMED, str(SCRIPT.parent), str(tmp_path), how]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == short, done.stderr
