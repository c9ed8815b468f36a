"""The plan of the house: rooms in layers, without circles; few modules import torch, and one alone imports ttnn."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import ssinghal

PACKAGE = Path(ssinghal.__file__).parent
ROOT = PACKAGE.parent
MAX_ROOMS = 25
MAX_LINES = 500
SUITES = ("tests", "oom_tests")
SOURCES = [p for p in PACKAGE.rglob("*.py") if p.relative_to(PACKAGE).parts[0] not in SUITES]
CHILD = "capture/child"  # runs in a process of its own
DEVICE_FREE = [p for p in SOURCES if CHILD not in p.as_posix()]
MODULES = [".".join(p.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__") for p in DEVICE_FREE]


def test_rooms_import_downwards_and_in_no_circle():
    """The contracts in pyproject.toml, which ``lint-imports`` checks from the command line too."""
    pytest.importorskip("importlinter")
    code = "from importlinter.cli import lint_imports_command; lint_imports_command(['--no-cache'])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_house_stays_surveyable():
    rooms = {path.relative_to(PACKAGE).parts[0] for path in SOURCES} - {"__init__.py"}
    assert {"core", "cli", "errors.py"} <= rooms
    assert len(rooms) <= MAX_ROOMS


def test_modules_are_read_in_one_sitting():
    lines = {path.relative_to(PACKAGE).as_posix(): len(path.read_text().splitlines()) for path in SOURCES}
    assert {path: count for path, count in lines.items() if count > MAX_LINES} == {}


def test_importing_the_product_imports_neither_torch_nor_ttnn():
    """Both are imported when a device is opened or values are compared, and not before."""
    assert len(MODULES) > 40
    names = ", ".join(MODULES)
    code = f"""
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "ttnn"):
            raise AssertionError(name + " is imported")
sys.meta_path.insert(0, Refuse())
import {names}
from ssinghal.operators import operators
print(len(operators()))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100


def imported_by(path: Path) -> set[str]:
    """Top-level packages a module imports, by statement or by ``import_module``."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
        elif (
            isinstance(node, ast.Call)
            and getattr(node.func, "id", "") == "import_module"
            and isinstance(node.args[0], ast.Constant)
        ):
            found.add(str(node.args[0].value).partition(".")[0])
    return found


def test_conditions_are_errors_and_never_asserts():
    asserts = [p for p in SOURCES if any(isinstance(node, ast.Assert) for node in ast.walk(ast.parse(p.read_text())))]
    assert asserts == []


def test_one_module_of_ours_and_one_in_the_users_process_know_ttnns_private_module():
    users = [p for p in SOURCES if any(getattr(node, "attr", "") == "_ttnn" for node in ast.walk(ast.parse(p.read_text())))]
    assert {p.relative_to(PACKAGE).as_posix() for p in users} == {"device/session.py", "tracker/tracker.py"}


TORCH = {
    "pytest_plugin/virtual/read_backs.py",
    "precision/storage_error.py",
    "remedy/equivalence.py",
    "remedy/replicate_padding.py",
    "runner/numerics.py",
    "device/golden.py",
}


@pytest.mark.parametrize(("package", "owners"), [("ttnn", {"device/session.py"}), ("torch", TORCH)])
def test_one_module_imports_it(package, owners):
    importers = {str(p.relative_to(PACKAGE)) for p in SOURCES if package in imported_by(p)}
    assert {path for path in importers if not (package == "torch" and path.startswith(CHILD))} == owners


def test_every_folder_with_code_is_a_package():
    """Else an installed wheel would lack it: setuptools takes packages alone."""
    folders = {path.parent for path in SOURCES}
    assert PACKAGE / "runner/worker" in folders
    assert [str(folder.relative_to(PACKAGE)) for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []
