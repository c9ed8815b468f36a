"""What others write: no parser raises what it does not declare, sizes are bounded, nothing in a text acts on a terminal."""

from __future__ import annotations

import gzip
import importlib
import json
import os
import pkgutil
import re
import time
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ssinghal
from ssinghal.cli.streams import echo, show
from ssinghal.core.cluster_descriptor import read_descriptor
from ssinghal.core.files import exists, is_file, read_limited, write_whole
from ssinghal.errors import HarnessError, InvalidCase, visible
from ssinghal.report.writer import FAILURES, WRITTEN, write_report
from ssinghal.runs.reader import read_run
from tests.support.mutations import mutated
from tests.support.run_builder import a_record, write_run
from tests.support.untrusted import PARSERS

EXAMPLES = {"log": 4, "report-in-log": 10, "catalog": 30, "word": 30, "mlir": 20, "store": 20}


# Parsers --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PARSERS)
def test_its_seeds_are_read(name):
    """Otherwise mutations of them would reach nothing."""
    assert any(PARSERS[name].accepts(seed) for seed in PARSERS[name].corpus())


@pytest.mark.parametrize("name", PARSERS)
def test_changed_documents_raise_what_is_declared(name):
    parser = PARSERS[name]
    corpus = parser.corpus()

    @settings(max_examples=EXAMPLES.get(name, 60), deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(corpus), st.integers(0, 2**32), st.integers(1, 3))
    def reads(seed, number, times):
        random = Random(number)
        for _ in range(times):
            seed = mutated(seed, random)
        parser.accepts(seed)

    reads()


@pytest.mark.parametrize("name", ["notes", "profile", "records", "run.json", "descriptor", "baseline"])
def test_a_number_that_is_0_raises_what_is_declared(name):
    """A size, a count of banks or a granule: what divides by it must refuse it."""
    parser = PARSERS[name]
    changed = 0
    for text in parser.corpus()[:20]:
        for number in re.finditer(rb"(?<=[:\[,] )[1-9][0-9]*", text):
            parser.accepts(text[: number.start()] + b"0" + text[number.end() :])
            changed += 1
    assert changed


FOUND = {
    "policy": ["base: {}\n", "base: []\n", "base: [l1]\n"],
    "baseline": ['{"format": 1, "device": "d", "ttnn": "1"}\n{"test": [], "l1_bytes": 1}\n'],
    "word": ["x" * 5000, "a/" * 3000],
    "trace": ["[" * 100_000, '{"kind": "trace", "schema": ' + "9" * 5000 + "}"],
    "profile": ["[" * 100_000 + "\n"],
    "notes": ["[" * 100_000 + "\n"],
    "plan-journal": ["[" * 100_000 + "\n\n", "[1]\n\n"],
    "descriptor": ["[" * 2000, "a: &a [*a]", "a: !!timestamp 1", "a: !!python/object:os.system x", ""],
    "records": ["[" * 100_000],
    "run.json": ["[" * 100_000],
    "case": ["[" * 100_000],
    "recording": ["[" * 100_000],
}


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in FOUND.items() for text in texts])
def test_what_ended_one_once_is_refused(name, text):
    PARSERS[name].accepts(text.encode())


@pytest.mark.parametrize("text", ["x" * 5000, "a/" * 3000, "\0", "no-such-file"])
def test_a_word_that_no_file_can_have_as_a_name_is_none(text):
    assert not is_file(text)
    assert not exists(text)


# Bounds ---------------------------------------------------------------------------------------------------------------


def test_an_archive_is_unpacked_up_to_the_limit_alone(tmp_path):
    bomb = tmp_path / "bomb.gz"
    bomb.write_bytes(gzip.compress(bytes(10_000_000)))
    assert bomb.stat().st_size < 20_000
    with pytest.raises(InvalidCase, match=r"bomb\.gz: holds more than 1,000,000 B$"):
        read_limited(bomb, 1_000_000, unpack=True)
    assert len(read_limited(bomb, 10_000_000, unpack=True)) == 10_000_000
    assert read_limited(bomb) == bomb.read_bytes()


@pytest.mark.parametrize(
    "data",
    [b"\x1f\x8b", gzip.compress(b"abc", mtime=0)[:-3], b"\x1f\x8b\x08\0" + bytes(20)],
    ids=["begun", "cut", "empty"],
)
def test_a_damaged_archive_is_one_line(tmp_path, data):
    (tmp_path / "a.gz").write_bytes(data)
    with pytest.raises(InvalidCase, match=r"a\.gz: is a damaged archive"):
        read_limited(tmp_path / "a.gz", unpack=True)


@pytest.mark.parametrize(("size", "fits"), [(10, True), (11, False)])
def test_the_limit_is_exact(tmp_path, size, fits):
    (tmp_path / "a").write_bytes(bytes(size))
    if fits:
        assert read_limited(tmp_path / "a", 10) == bytes(10)
    else:
        with pytest.raises(InvalidCase, match="holds more than 10 B"):
            read_limited(tmp_path / "a", 10)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a: &x [1]\nb: [*x, *x]\n", "1: anchors and aliases are not allowed"),
        ("a: !!binary 'AA=='\n", "1: the tag tag:yaml.org,2002:binary is not allowed"),
        ("a: " + "[" * 9 + "]" * 9, "1: nested more than 8 deep"),
        ("[" * 900, "1: nested more than 8 deep"),
    ],
)
def test_descriptors_have_no_yaml_that_grows(tmp_path, text, what):
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(InvalidCase, match=rf"c\.yaml:{what}; expected a cluster descriptor"):
        read_descriptor(tmp_path / "c.yaml")


# Texts that act -------------------------------------------------------------------------------------------------------

# C0 and C1 controls, DEL, an OSC 8 link, marks and overrides of direction, separators of lines and paragraphs
ACTING = "\x00\x07\x08\x0b\x0c\x1b]8;;http://x\x1b\\\x7f\x85\x9b31m\u061c\u200e\u200f\u2028\u2029\u202a\u202e\u2066\u2069"
SHOWN = {"\x1b": "\\u001b", "\x9b": "\\u009b", "\u202e": "\\u202e", "\x00": "\\u0000", "\r": "\\u000d"}


def acts(text: str) -> list[str]:
    """The characters that a terminal obeys, by the categories of Unicode and not by the list of the code under test."""
    import unicodedata

    bidi = {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}
    kinds = {"Cc", "Zl", "Zp"}
    return [c for c in text if c not in "\t\n" and (unicodedata.category(c) in kinds or unicodedata.bidirectional(c) in bidi)]


@given(st.text())
@settings(derandomize=True, deadline=None)
def test_visible_texts_have_nothing_that_acts(text):
    shown = visible(text)
    assert not acts(shown.replace("\r\n", ""))
    if not acts(text):
        assert re.sub(r"\\u061c|\\u200[ef]", "", shown) == re.sub("[\u061c\u200e\u200f]", "", text)


@pytest.mark.parametrize("one", SHOWN)
def test_they_are_shown_as_json_has_them(one):
    assert visible(f"a{one}b") == f"a{SHOWN[one]}b"
    assert json.loads(visible(json.dumps(f"a{one}b", ensure_ascii=False))) == f"a{one}b"


@pytest.mark.parametrize("printed", [echo, lambda text: show([text])])
def test_commands_print_none_of_them(capsys, printed):
    printed(f"message {ACTING}\ttab")
    out = capsys.readouterr().out
    assert not acts(out)
    assert "\ttab" in out


def test_errors_have_none_of_them():
    assert not acts(str(HarnessError(f"a.yaml: name {ACTING}")))


def test_written_texts_have_none_of_them(tmp_path):
    write_whole(tmp_path / "a.md", f"| {ACTING} |\r\nnext")
    text = (tmp_path / "a.md").read_bytes().decode()
    assert not acts(text.replace("\r\n", "\n"))
    assert text.endswith("|\r\nnext\n")


def test_no_file_of_a_report_acts_or_leaves_its_folder(tmp_path):
    """A run whose records have hostile texts in every place that takes text."""
    evil = f"../../evil {ACTING} </script><img src=x onerror=alert(1)> =SUM(A1) @x [a](javascript:x)"
    record = a_record("add", (1, 64), inputs=[(1, 64), (1, 64)], status="oom", verdict={"message": evil, "bytes_per_bank": 32})
    name = "".join(evil.splitlines())  # one of several lines is no record
    source = {"model": name, "catalog": name, "input_size": "=1+1", "count": 1, "modules": [{"path": name, "calls": 1}]}
    record = {**record, "op": f"../../{record['op']}", "sources": [source]}
    run = write_run(tmp_path / "results", [record])
    written = write_report(read_run(run), tmp_path / "report")
    assert [path for path in tmp_path.rglob("*evil*")] == []
    assert all(path.resolve().is_relative_to(tmp_path / "report") for path in written)
    for path in written:
        text = path.read_bytes().decode()
        assert not acts(text.replace("\r\n", "\n")), path
        assert path.suffix != ".html" or "<img" not in text
    cells = (tmp_path / "report" / FAILURES).read_text()
    assert not re.search(r"(?m)(^|,)\"?[=@+]", cells)


def test_the_list_of_a_folder_removes_files_of_reports_alone(tmp_path):
    run, folder = write_run(tmp_path / "results", [a_record()]), tmp_path / "report"
    kept = ["README.md", "data.json", "../outside.md", "per_operator/../../outside.md", "per_operator/x.py", "/tmp/x", "", "."]
    gone = ["per_operator/old.md", FAILURES]
    (folder / "per_operator").mkdir(parents=True)
    (tmp_path / "outside.md").touch()
    for name in ["README.md", "data.json", "per_operator/x.py", "per_operator/old.md"]:
        (folder / name).touch()
    (folder / WRITTEN).write_text("\n".join([*kept, *gone, "a\0b"]))
    write_report(read_run(run), folder)
    assert not (folder / "per_operator/old.md").exists()
    assert all((folder / name).exists() for name in ("README.md", "data.json", "per_operator/x.py"))
    assert (tmp_path / "outside.md").exists()


# Code that is never used on what others write -------------------------------------------------------------------------

ROOT = Path(ssinghal.__file__).parent
# What runs: the user's model, which a capture imports and calls; and TTNN's own names in docs of signatures.
FORBIDDEN = re.compile(
    r"\b(?:eval|exec)\(|\bpickle\.loads?\(|\bmarshal\.|\bshelve\.|yaml\.(?:unsafe_load|full_load|load_all)|shell=True|os\.system"
)
ALLOWED = {"runner/", "pytest_plugin/memory/boards.py"}  # pools and forks: between this program's own processes, by a pipe


def test_nothing_of_others_is_evaluated_or_unpickled():
    for path in sorted(ROOT.rglob("*.py")):
        name = str(path.relative_to(ROOT))
        lines = [line.partition("#")[0] for line in path.read_text().splitlines()]
        found = [line for line in lines if FORBIDDEN.search(re.sub(r"\.eval\(|model\.exec\(", "", line))]
        assert not found or any(name.startswith(allowed) for allowed in ALLOWED), (name, found)


ROOMS = (
    "core",
    "catalog",
    "operators.settings",
    "diagnose",
    "device.error_patterns",
    "runs",
    "plan.steering",
    "remedy",
    "report",
)
REPEATED = ("a", "0", " ", "(", "[", "<", '"', ",", ".", "-", "/", "a,", "1x", "a ", "a=", "ttnn.", "\n", "0-")
LONG, SHORT = 6_000, 1_500
GENEROUS = 9  # four times the text: 4 is linear, 16 quadratic
SMALL_S = 0.02


def _patterns() -> dict[re.Pattern, str]:
    patterns = {}
    for found in pkgutil.walk_packages(ssinghal.__path__, "ssinghal."):
        if found.name.removeprefix("ssinghal.").startswith(ROOMS):
            for name, value in vars(importlib.import_module(found.name)).items():
                values = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else [value]
                patterns |= {one: f"{found.name}.{name}" for one in values if isinstance(one, re.Pattern)}
    return patterns


def test_regular_expressions_do_not_backtrack_beyond_the_text():
    """From one place of a text: what takes a noticeable time for a long one takes a quarter of it for a quarter of the text."""

    def cost_s(pattern, text):
        text = text.encode() if isinstance(pattern.pattern, bytes) else text
        costs = []
        for _ in range(2):
            start = time.process_time()
            pattern.match(text)
            costs.append(time.process_time() - start)
        return min(costs)

    slow = []
    for pattern, name in _patterns().items():
        for piece in REPEATED:
            text = piece * (LONG // len(piece)) + "\0"
            if (cost := cost_s(pattern, text)) > SMALL_S and cost > GENEROUS * cost_s(pattern, text[-SHORT:]):
                slow.append((name, piece, cost))
    assert not slow


# Caches ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "ssinghal"


def test_a_cache_is_its_users_alone(cache):
    from ssinghal.core.cache_folder import cache_folder, filling_cache

    with filling_cache("releases", "tests"):
        assert oct(cache.stat().st_mode & 0o777) == "0o700"
        assert oct((cache / "releases").stat().st_mode & 0o777) == "0o700"
    cache.chmod(0o755)  # as earlier versions made it
    with filling_cache("releases", "tests"):
        assert oct(cache.stat().st_mode & 0o777) == "0o700"
    assert cache_folder("releases") == cache / "releases"


@pytest.mark.parametrize("below", ["", "releases"])
@pytest.mark.parametrize("mode", [0o775, 0o757, 0o777])
def test_a_cache_that_others_can_write_is_refused(cache, below, mode):
    from ssinghal.device.releases import added_releases

    (cache / "releases").mkdir(parents=True)
    (cache / below).chmod(mode)
    with pytest.raises(HarnessError, match=r"can be written by others: .*chmod -R go-w .*; or set XDG_CACHE_HOME"):
        added_releases()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("below", ["", "virtual"])
def test_a_cache_of_another_user_is_refused(cache, below):
    from ssinghal.device.virtual_cache import virtual_home

    (cache / "virtual").mkdir(parents=True)
    os.chown(cache / below, 12345, -1)
    with pytest.raises(HarnessError, match=r"belongs to another user \(12345\): set XDG_CACHE_HOME"):
        virtual_home()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_release_that_another_user_put_there_is_refused(cache):
    from ssinghal.device.releases import added_releases

    planted = cache / "releases" / "ttnn-0.75.0"
    planted.mkdir(parents=True)
    os.chown(planted, 12345, -1)
    with pytest.raises(HarnessError, match=r"ttnn-0\.75\.0 belongs to another user"):
        added_releases()
