"""Records of two versions stand in for each other only where no module that decides a verdict differs."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ssinghal
from ssinghal.core import code_digest as module
from ssinghal.core.code_digest import DECIDING, SEARCHING, code_digest

PACKAGE = Path(ssinghal.__file__).parent
ANSWERS = "import ssinghal.runner.pool, ssinghal.runner.probe, ssinghal.runner.golden_probe, ssinghal.runner.worker.__main__"
SEARCHES = "import ssinghal.remedy.solver, ssinghal.remedy.record_remedies"


def modules_of(statement: str) -> set[str]:
    """Returns the files of this package that a new process reads for an import."""
    code = f"{statement}; import sys; print(*(m.__file__ for n, m in sys.modules.items() if n.startswith('ssinghal.')))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120).stdout
    return {Path(file).relative_to(PACKAGE).as_posix() for file in out.split()}


@pytest.mark.parametrize(("statement", "rooms"), [(ANSWERS, DECIDING), (SEARCHES, DECIDING + SEARCHING)])
def test_every_module_that_answers_is_in_the_digest(statement: str, rooms: tuple[str, ...]) -> None:
    read = modules_of(statement)
    assert {"core/record.py", "core/verdict.py", "operators/operator_info.py", "runner/probe.py"} <= read
    assert sorted(file for file in read if file.partition("/")[0] not in rooms) == []


def test_the_digest_follows_every_file_of_its_rooms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One byte more in any of them, its absence, and another name of it each make another digest."""
    package = tmp_path / "ssinghal"
    for room in DECIDING:
        copy = shutil.copy if (PACKAGE / room).is_file() else shutil.copytree
        package.mkdir(exist_ok=True)
        copy(PACKAGE / room, package / room)
    monkeypatch.setattr(module, "__file__", str(package / "core" / "code_digest.py"))
    digest = code_digest.__wrapped__
    known = digest()
    assert known == code_digest(DECIDING)
    rooms = [package / "core", package / "errors.py", package / "operators", package / "runner"]
    files = [file for room in rooms for file in ([room] if room.is_file() else sorted(room.rglob("*.py")))]
    assert len(files) > 80
    for file in files:
        content = file.read_bytes()
        file.write_bytes(content + b"\n")
        assert digest() != known, file
        file.write_bytes(content)
        if file.parent != package:
            other = file.rename(file.with_name("renamed.py"))
            assert digest() != known, file
            other.rename(file)
    assert digest() == known
