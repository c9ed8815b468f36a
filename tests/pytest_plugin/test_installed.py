"""The plugin where ssinghal is installed: each way of loading it, projects that do not use it, and the suites of a wheel."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from importlib import import_module
from pathlib import Path

import pytest

from ssinghal.core.boards import DEFAULT_BOARD
from ssinghal.pytest_plugin.options import OPTIONS
from ssinghal.pytest_plugin.settings import READERS, OomPolicy
from ssinghal.runner.probe import Limits
from ssinghal.runner.tasks import DEFAULT_TIMEOUT_S
from tests.support.processes import CONFTEST, Suite, oom_module, operator_module, read_lines

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
SMALL, LARGE = [1, 32, 64], [1, 64, 640, 400]
ALONE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # no entry point counts
ESTIMATES = ("-k", "memory_estimation")


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> str:
    """A PYTHONPATH with this package and its entry points, which an environment that was installed earlier may lack."""
    folder = tmp_path_factory.mktemp("site")
    described = folder / "ssinghal-0.1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: ssinghal\nVersion: 0.1.0\n")
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    lines = [f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in some.items()) for group, some in points.items()]
    (described / "entry_points.txt").write_text("\n".join(lines))
    return os.pathsep.join([str(folder), str(ROOT)])


def run_pytest(folder: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rA", *arguments]
    return subprocess.run(command, cwd=folder, env={**os.environ, **environ}, capture_output=True, text=True, timeout=180)


# Ways of loading it -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "workers"),
    [
        ("entry point", ()),
        ("entry point", ("-n", "2")),
        ("conftest", ()),
        ("conftest", ("-p", "xdist", "-n", "2")),
        ("both", ()),
        ("both", ("-n", "2")),
        ("-p", ()),
    ],
)
def test_each_way_of_loading_gives_the_same_records(tmp_path, installed, how, workers):
    """pytest accepts one name for a module: the entry point's is the one that a conftest uses."""
    modules = {"test_oom_add.py": oom_module("add"), "test_add.py": operator_module("add")}
    suite = Suite(tmp_path, {"add": [{"shape": SMALL}, {"shape": LARGE}]}, modules)
    if how not in ("conftest", "both"):
        (tmp_path / "conftest.py").unlink()
    named = ("-p", "ssinghal.plugin") if how == "-p" else ()
    environ = ALONE if how in ("conftest", "-p") else {}

    code, output = suite.run(*named, *workers, *ESTIMATES, PYTHONPATH=installed, **environ)

    assert code == 0, output
    assert [record["status"] for record in suite.records] == ["not_run", "not_run"]
    assert len(re.findall("^=+ memory verdicts =+$", output, re.MULTILINE)) == 1
    assert "already registered" not in output
    if not workers:
        assert output.count("2 cases in the catalogs") == 1


def test_the_short_name_is_the_module_itself():
    """So that pluggy knows it by one name, and a second registration is an error, not a second set of options."""
    assert import_module("ssinghal.plugin") is import_module("ssinghal.pytest_plugin.plugin")
    assert (ROOT / "conftest.py").read_text() == CONFTEST


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["one process", "xdist"])
def test_a_mark_alone_uses_it(tmp_path, installed, workers):
    """Neither an option nor a conftest: the built-in catalogs, from which ``roll`` has few cases."""
    (tmp_path / "test_roll.py").write_text(oom_module("roll"))
    done = run_pytest(tmp_path, *workers, *ESTIMATES, PYTHONPATH=installed)
    assert done.returncode == 0, done.stdout
    assert "memory verdicts" in done.stdout
    header = re.findall(r"^ssinghal: \w+ n150 .* cases in the catalogs", done.stdout, re.MULTILINE)
    assert len(header) == (0 if workers else 1)  # under xdist, tests are collected elsewhere


def test_an_ini_value_uses_it(tmp_path, installed):
    (tmp_path / "pytest.ini").write_text("[pytest]\noom_board = n15\n")
    (tmp_path / "test_nothing.py").write_text("def test_nothing():\n    pass\n")
    done = run_pytest(tmp_path, PYTHONPATH=installed)
    assert done.returncode == 4
    assert "pytest.ini: unknown board 'n15'" in done.stderr


# Projects that do not use it ----------------------------------------------------------------------------------------------

FOREIGN_CONFTEST = """
import sys

import pytest


@pytest.fixture
def device():
    return "a lamp"


@pytest.fixture(params=["red", "green"])
def estimate(request):
    return request.param


def pytest_generate_tests(metafunc):
    if metafunc.function.__name__ == "test_generated":
        metafunc.parametrize("case", ["lower", "upper"])


def pytest_terminal_summary(terminalreporter):
    mine = sorted(name for name in sys.modules if name.startswith("ssinghal"))
    third = sorted({"numpy", "pydantic", "rich", "torch", "ttnn", "yaml"} & set(sys.modules))
    terminalreporter.write_line(f"imported: {' '.join(mine)}; {' '.join(third)}")
"""
FOREIGN_TESTS = """
import pytest


@pytest.mark.parametrize("case", [1, 2])
def test_parametrised(case, device):
    assert (case in (1, 2), device) == (True, "a lamp")


@pytest.mark.parametrize(("other", "case"), [(1, 2)])
@pytest.mark.operator("plus")
def test_marked(case, other):
    assert case == other + 1


@pytest.mark.parametrize(argnames="case", argvalues=[[]])
def test_empty(case):
    assert case == []


def test_generated(case, estimate):
    assert case in ("lower", "upper") and estimate in ("red", "green")


class TestOwn:
    @pytest.fixture
    def case(self):
        return {"of": "law"}

    @pytest.fixture
    def compare(self):
        return str

    def test_fixture(self, case, compare):
        assert compare(case) == "{'of': 'law'}"
"""
LIGHT = {"ssinghal", "ssinghal.errors", "ssinghal.plugin", "ssinghal.pytest_plugin"}
LIGHT |= {f"ssinghal.pytest_plugin.{name}" for name in ("options", "plugin", "recorder", "state")}
LIGHT |= {f"ssinghal.pytest_plugin.{name}" for name in ("virtual", "virtual.hooks", "virtual.options")}
LIGHT |= {f"ssinghal.pytest_plugin.{name}" for name in ("memory", "memory.hooks", "memory.options")}


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["one process", "xdist"])
def test_a_project_that_has_nothing_to_do_with_it_is_left_alone(tmp_path, installed, workers):
    """Nine tests of the project, with fixtures, parameters and marks by the names that the plugin has too."""
    (tmp_path / "conftest.py").write_text(FOREIGN_CONFTEST)
    (tmp_path / "test_foreign.py").write_text(FOREIGN_TESTS)
    before = {path.name for path in tmp_path.iterdir()}

    done = run_pytest(tmp_path, *workers, PYTHONPATH=installed, PYTHONDONTWRITEBYTECODE="1")

    assert done.returncode == 0, done.stdout + done.stderr
    assert " 9 passed" in done.stdout
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("imported: ")]
    mine, _, third = line.removeprefix("imported: ").partition(";")
    assert set(mine.split()) == LIGHT
    assert third.strip() == ""
    mentions = [text for text in done.stdout.splitlines() if "ssinghal" in text and "ssinghal-" not in text and text != line]
    assert [text for text in mentions if not text.startswith("plugins: ")] == []
    assert {path.name for path in tmp_path.iterdir()} == before


def test_a_case_without_a_mark_is_still_an_error_where_our_fixtures_judge_it(tmp_path, installed):
    own = 'import pytest\n\n\n@pytest.mark.parametrize("case", [1])\n'
    for fixture in ("compare", "expect_oom", "estimate", "memory_record"):
        test = f"def test_it(case, {fixture}):\n    pass\n"
        (tmp_path / f"test_{fixture}.py").write_text(test)
        (tmp_path / f"test_{fixture}_own.py").write_text(own + test)
    done = run_pytest(tmp_path, PYTHONPATH=installed)
    assert done.returncode == 4
    errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR: ")]
    assert len(errors) == 8
    assert {line.partition(": a test")[2] for line in errors} == {
        ' that takes a case needs a mark like pytest.mark.operator("add")'
    }


def test_defaults_are_those_of_the_commands():
    """The options name them once more, since a foreign run must not import where they are."""
    defaults = {option.name: option.default for option in OPTIONS}
    assert defaults["board"] == DEFAULT_BOARD
    assert defaults["timeout"] == DEFAULT_TIMEOUT_S
    assert defaults["host-tiles"] == Limits().host_tiles
    assert defaults["policy"] == OomPolicy.SKIP.value
    assert defaults.keys() == READERS.keys()


# The wheel ----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Built from a copy, without a network: setuptools is installed."""
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT / "ssinghal", folder / "ssinghal", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "tests" / "support", folder / "tests")  # what must stay outside
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", "out", "."]
    done = subprocess.run(build, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = (folder / "out").iterdir()
    return built


def test_the_wheel_holds_the_package_with_its_suites_and_data(wheel):
    held = set(zipfile.ZipFile(wheel).namelist())
    ours = [path for path in (ROOT / "ssinghal").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert {path.relative_to(ROOT).as_posix() for path in ours} == {name for name in held if name.startswith("ssinghal/")}
    for name in ("py.typed", "tests/test_add.py", "oom_tests/test_oom_add.py", "boards/n150.yaml", "baselines/n150.jsonl"):
        assert f"ssinghal/{name}" in held
    described = {name for name in held if name not in {path.relative_to(ROOT).as_posix() for path in ours}}
    assert {name.partition("/")[0] for name in described} == {"ssinghal-0.1.0.dist-info"}
    assert any(name.endswith("/LICENSE") for name in described)


@pytest.fixture(scope="module")
def unpacked(wheel) -> str:
    """A pure wheel is installed by unpacking it."""
    folder = wheel.parents[1] / "site"
    zipfile.ZipFile(wheel).extractall(folder)
    return str(folder)


def test_the_suites_of_a_wheel_are_found(tmp_path, unpacked):
    suites = ("--pyargs", "ssinghal.tests", "ssinghal.oom_tests", "-k", "add")
    listed = run_pytest(tmp_path, "--co", "-q", *suites, PYTHONPATH=unpacked)
    assert listed.returncode == 0, listed.stdout + listed.stderr
    modules = set(re.findall(r"(test_\w+\.py)::", listed.stdout))
    assert {"test_add.py", "test_addmm.py", "test_oom_add.py", "test_oom_addmm.py"} <= modules


@pytest.mark.virtual_device
def test_the_suites_of_a_wheel_run(tmp_path, unpacked):
    selection = ("--pyargs", "ssinghal.tests", "-k", "add", "--oom-sample", "1", "--oom-results", "results")
    done = run_pytest(tmp_path, *selection, PYTHONPATH=unpacked)
    assert done.returncode == 0, done.stdout + done.stderr
    records = read_lines(tmp_path / "results" / "latest" / "records.jsonl")
    assert {"add", "addmm"} <= {record["op"] for record in records}
