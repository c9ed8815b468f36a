"""The device-free part of the product imports neither torch nor ttnn, and one module alone imports ttnn."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import ssinghal

PACKAGE = Path(ssinghal.__file__).parent
DEVICE_FREE = (
    "specs", "boards", "cases", "caselines", "catalog", "expand", "estimate", "baseline", "records", "results", "text", "operators",
    "plugin", "harness", "recorder", "cli", "doctor", "pool", "device.errors", "device.modes", "device.virtual", "device.standin",
)  # fmt: skip


def test_device_free_modules_import_neither_torch_nor_ttnn():
    names = ", ".join(f"ssinghal.{m}" for m in DEVICE_FREE)
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


@pytest.mark.parametrize(("package", "owners"), [("ttnn", {"device/session.py"}), ("torch", {"numerics.py"})])
def test_one_module_imports_it(package, owners):
    sources = [p for p in PACKAGE.rglob("*.py") if "meta_tests" not in p.parts]
    assert {str(p.relative_to(PACKAGE)) for p in sources if package in imported_by(p)} == owners
