"""The shell commands of the repository, run for real in a copy of it, with stand-ins for Python, pyenv and uv on PATH."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = ("run_all_tests.sh", "run_checks.sh")
LOCKS = ("requirements.lock", "requirements-docs.lock", "requirements-visualizer.lock")
SETUP_FILES = (*COMMANDS, "scripts/setup.sh", "pyproject.toml", *LOCKS)
BASIC_TOOLS = ["cat", "cut", "dirname", "ln", "mkdir", "readlink", "rm", "sed", "sha256sum", "sleep", "sort", "uname"]
TOOLS = [*BASIC_TOOLS, "bash", "flock", "getconf", "grep"]

# Answers -c as the real interpreter would if it were of another version, makes environments that link back to it, and logs
# the arguments of every module it is asked to run, one module a line. FAKE_<MODULE> is the command that then decides its exit.
FAKE_PYTHON = """#!{bash}
case "$1 $2" in
  "-c "*) exec {real} -I -S -c "import importlib.util, sys; sys.executable = '$0'; {pretence}
$2" ;;
  "-m venv")
    venv="${{@: -1}}"
    mkdir -p "$venv/bin" && ln -s "$(readlink -f "$0")" "$venv/bin/python" && ln -s python "$venv/bin/lint-imports"
    echo "prompt = 'ssinghal'" >"$venv/pyvenv.cfg" ;;
  "--no-cache "*) echo lint-imports >>"$FAKE_LOG" ;;
  *)
    IFS="|"
    echo "${{*:2}}" >>"$FAKE_LOG"
    outcome="FAKE_${{2^^}}"
    eval "${{!outcome:-true}}" ;;
esac
"""


def write_program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@dataclass
class Clone:
    """A copy of the set-up files in a folder with a space in its name, and the small world its commands see."""

    folder: Path
    home: Path
    log: Path

    @property
    def path(self) -> Path:
        return self.home / "bin"

    @property
    def stamp(self) -> Path:
        return self.folder / ".venv" / ".ssinghal-stamp"

    def add_python(self, version: str, where: Path | None = None, pretence: str = "") -> Path:
        pretence = f"sys.version_info = {tuple(map(int, version.split('.')))}; {pretence}"
        text = FAKE_PYTHON.format(bash=shutil.which("bash"), real=sys.executable, pretence=pretence)
        return write_program(where or self.path / f"python{version}", text)

    def environment(self, **variables: str) -> dict[str, str]:
        return {"HOME": str(self.home), "PATH": str(self.path), "FAKE_LOG": str(self.log), **variables}

    def run(self, command: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs a command of the copy from a folder outside it."""
        return subprocess.run(
            [self.folder / command, *arguments],
            cwd=self.home,
            env=self.environment(**variables),
            capture_output=True,
            text=True,
            timeout=30,
        )

    def modules_run(self) -> list[list[str]]:
        """The ``python -m`` calls so far: module and arguments."""
        return [line.split("|") for line in self.log.read_text().splitlines()] if self.log.exists() else []


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    folder = tmp_path / "a clone"
    for name in SETUP_FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    made = Clone(folder, tmp_path / "home", tmp_path / "log")
    made.path.mkdir(parents=True)
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found, f"{tool} is needed by the commands"
        (made.path / tool).symlink_to(found)
    write_program(made.path / "chromium", "#!/bin/sh\n")
    write_program(folder / "scripts" / "try_package.sh", "#!/bin/sh\n")  # it needs a real environment
    return made


@pytest.mark.parametrize("command", COMMANDS)
def test_help_needs_no_environment(clone: Clone, command: str) -> None:
    done = clone.run(command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Usage: ./{command}")
    assert not (clone.folder / ".venv").exists()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("run_all_tests.sh", "--frobnicate"), "--frobnicate"),
        (("run_all_tests.sh", "ssinghal/tests"), "ssinghal/tests"),
        (("run_all_tests.sh", "--board"), "--board"),
        (("run_all_tests.sh", "--memory="), "--memory"),
        (("run_all_tests.sh", "--device", "--setup-only"), "--device"),
        (("run_all_tests.sh", "--device", "", "--setup-only"), "--device"),
        (("run_checks.sh", "--frobnicate"), "--frobnicate"),
    ],
)
def test_bad_use_is_one_line_and_2(clone: Clone, arguments: tuple[str, ...], named: str) -> None:
    clone.add_python("3.12")
    done = clone.run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert named in done.stderr
    assert done.stderr.count("\n") == 1
    assert clone.modules_run() == []


@pytest.mark.parametrize(
    ("version", "pretence", "said"),
    [
        ("3.11", "", "is Python 3.11"),
        ("3.13", "", "is Python 3.13"),
        ("3.10", "sys.implementation.name = 'pypy'", "is Python pypy 3.10"),
        ("3.12", "importlib.util.find_spec = lambda name: None", "is Python 3.12 without venv"),
        ("2.7", "sys.exit(1)", "does not run as Python 3"),
    ],
)
def test_an_unfit_chosen_python_is_refused(clone: Clone, version: str, pretence: str, said: str) -> None:
    clone.add_python("3.12")  # a fit one on PATH does not silently take its place
    chosen = clone.add_python(version, clone.home / "chosen python", pretence)
    done = clone.run("run_all_tests.sh", "--setup-only", PYTHON=str(chosen))
    assert done.returncode == 2
    assert f"PYTHON={chosen} {said}; ttnn has wheels for" in done.stderr
    assert not (clone.folder / ".venv").exists()


def test_a_chosen_python_may_be_a_name_on_path(clone: Clone) -> None:
    clone.add_python("3.12")
    chosen = clone.add_python("3.10")
    done = clone.run("run_all_tests.sh", "--setup-only", PYTHON="python3.10")
    assert done.returncode == 0
    assert (clone.folder / ".venv/bin/python").resolve() == chosen


PYENV = ".pyenv/versions"
SEARCHES = {
    "3.12 before 3.10": ({"bin/python3.12": "3.12", "bin/python3.10": "3.10"}, "bin/python3.12"),
    "any name on PATH": ({"bin/python3": "3.11", "bin/python": "3.10"}, "bin/python"),
    "the name promises, the interpreter decides": ({"bin/python3.12": "3.13", "bin/python3.10": "3.10"}, "bin/python3.10"),
    "PATH before pyenv": ({"bin/python3.12": "3.12", f"{PYENV}/3.12.1/bin/python": "3.12"}, "bin/python3.12"),
    "pyenv": ({"bin/python3": "3.11", f"{PYENV}/3.10.13/bin/python": "3.10"}, f"{PYENV}/3.10.13/bin/python"),
    "3.12 of pyenv before 3.10 of PATH": ({"bin/python3": "3.10", f"{PYENV}/x/bin/python": "3.12"}, f"{PYENV}/x/bin/python"),
    "a shim that fails": ({"bin/python3.12": "broken", f"{PYENV}/x/bin/python": "3.12"}, f"{PYENV}/x/bin/python"),
    "uv": ({"bin/uv": "uv", "uv python/python": "3.12"}, "uv python/python"),
}


@pytest.mark.parametrize("search", SEARCHES)
def test_search(clone: Clone, search: str) -> None:
    programs, expected = SEARCHES[search]
    for name, kind in programs.items():
        if kind == "broken":
            write_program(clone.home / name, "#!/bin/sh\nexit 127\n")
        elif kind == "uv":
            write_program(clone.home / name, f'#!/bin/sh\necho "{clone.home}/uv python/python"\n')
        else:
            clone.add_python(kind, clone.home / name)
    done = clone.run("run_all_tests.sh", "--setup-only")
    assert done.returncode == 0, done.stderr
    assert (clone.folder / ".venv/bin/python").resolve() == clone.home / expected


def test_a_failed_search_says_where_it_looked(clone: Clone) -> None:
    clone.add_python("3.11", clone.path / "python3")
    clone.add_python("3.13", clone.home / PYENV / "3.13.0/bin/python")
    done = clone.run("run_all_tests.sh")
    assert done.returncode == 2
    for part in (
        "$PYTHON (not set)",
        "PATH (python3.12 python3.10 python3 python)",
        f"pyenv ({clone.home}/.pyenv/versions)",
        "uv (not installed)",
        f"{clone.path}/python3 is Python 3.11",
        f"{clone.home}/.pyenv/versions/3.13.0/bin/python is Python 3.13",
    ):
        assert part in done.stderr


@pytest.mark.parametrize(
    ("tool", "answer", "said"),
    [
        ("uname", "echo Linux aarch64", "this is Linux aarch64"),
        ("uname", "echo Darwin x86_64", "this is Darwin x86_64"),
        ("getconf", "echo glibc 2.31", "this system has glibc 2.31"),
        ("getconf", "exit 1", "this system has another C library"),
    ],
)
def test_platforms_without_wheels_are_refused(clone: Clone, tool: str, answer: str, said: str) -> None:
    clone.add_python("3.12")
    (clone.path / tool).unlink()
    write_program(clone.path / tool, f"#!/bin/sh\n{answer}\n")
    done = clone.run("run_all_tests.sh")
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("pytest_ends", "report_ends", "reported", "code"),
    [
        ("mkdir -p results && ln -s one results/latest", "", True, 0),
        ("mkdir -p results && ln -s one results/latest; exit 1", "", True, 1),
        ("mkdir -p results && ln -s one results/latest; exit 1", "exit 2", True, 2),
        ("exit 4", "", False, 2),
        ("", "", False, 0),
    ],
)
def test_a_new_run_is_reported(clone: Clone, pytest_ends: str, report_ends: str, reported: bool, code: int) -> None:
    """Whatever it found; where pytest wrote none, there is nothing to report."""
    clone.add_python("3.12")
    done = clone.run("run_all_tests.sh", FAKE_PYTEST=pytest_ends, FAKE_SSINGHAL=report_ends)
    assert done.returncode == code, done.stderr
    assert (["ssinghal", "report"] in clone.modules_run()) == reported


DEFAULT = "[device]" if any(Path("/dev").glob("tenstorrent/*")) else "[virtual]"


def installations(clone: Clone) -> list[str]:
    """What pip was told to install in editable form so far, without the folder."""
    return [call[-1].removeprefix(str(clone.folder)) for call in clone.modules_run() if "--editable" in call]


def extras_of(line: str) -> set[str]:
    """The extras that need a pin of a lock, as the comment that ends its line names them."""
    return set(line.rpartition(" # ")[2].split(","))


def test_without_hashes_the_lock_constrains(clone: Clone) -> None:
    """For an index with builds of its own."""
    clone.add_python("3.12")
    assert clone.run("run_all_tests.sh", "--setup-only", LOCK_HASHES="no").returncode == 0
    setuptools, project = clone.modules_run()
    assert setuptools[:3] == project[:3] == ["pip", "install", "--constraint"]
    assert (setuptools[-1], project[-2]) == ("setuptools", "--editable")
    pins = Path(project[3]).read_text()
    assert "--hash" not in pins
    assert {line.split(";")[0].strip() for line in pins.splitlines() if line} >= {"click==" + locked("3.12")["click"]}


def test_environment_is_made_once_from_the_lock(clone: Clone) -> None:
    clone.add_python("3.12")
    assert clone.run("run_all_tests.sh", "--setup-only").returncode == 0
    calls = clone.modules_run()
    packages, project = calls
    assert packages[:5] == ["pip", "install", "--require-hashes", "--no-deps", "--only-binary"]
    assert project[:5] == ["pip", "install", "--no-deps", "--no-index", "--no-build-isolation"]
    wanted = Path(packages[-1]).read_text().splitlines()
    lock = (clone.folder / "requirements.lock").read_text().splitlines()
    assert wanted == [line for line in lock if line[0] != "#" and {"base", DEFAULT[1:-1]} & extras_of(line)]
    again = clone.run("run_all_tests.sh", "--setup-only")
    assert (again.returncode, again.stderr) == (0, "")
    assert clone.modules_run() == calls
    assert installations(clone) == [DEFAULT]


@pytest.mark.parametrize(
    ("options", "environ", "installed"),
    [
        ([], {}, DEFAULT),
        (["--torch"], {}, "[device]"),
        ([], {"TT_METAL_SIMULATOR": "/sim"}, "[device]"),
        (["--no-torch"], {"TT_METAL_SIMULATOR": "/sim"}, "[virtual]"),
        (["--dev"], {}, "[device,dev]"),
    ],
)
def test_torch_is_installed_where_values_can_be_compared(clone: Clone, options, environ, installed) -> None:
    clone.add_python("3.12")
    assert clone.run("run_all_tests.sh", "--setup-only", *options, **environ).returncode == 0
    assert installations(clone) == [installed]


@pytest.mark.parametrize(
    ("options", "installed"),
    [
        (["--capture", "--no-torch"], "[virtual,capture]"),
        (["--ultralytics", "--torch"], "[device,ultralytics]"),
        (["--dev", "--ultralytics"], "[device,dev,ultralytics]"),
    ],
)
def test_environment_with_what_captures(clone: Clone, options: list[str], installed: str) -> None:
    clone.add_python("3.12")
    assert clone.run("run_all_tests.sh", "--setup-only", *options).returncode == 0
    assert installations(clone) == [installed]


def test_extras_are_added_to_an_environment_and_none_is_lost(clone: Clone) -> None:
    clone.add_python("3.12")
    runs = (["--dev"], ["--capture"], [], ["--no-torch"], ["--ultralytics"], ["--capture"])
    for options in runs:
        assert clone.run("run_all_tests.sh", "--setup-only", *options).returncode == 0
    first, second, third = installations(clone)
    assert first == "[device,dev]"
    assert set(second.strip("[]").split(",")) == {"virtual", "device", "dev", "capture"}
    assert set(third.strip("[]").split(",")) == {"virtual", "device", "dev", "capture", "ultralytics"}


@pytest.mark.parametrize("changed", ["requirements.lock", "pyproject.toml"])
def test_environment_follows_its_inputs(clone: Clone, changed: str) -> None:
    clone.add_python("3.12")
    clone.run("run_all_tests.sh", "--setup-only")
    file = clone.folder / changed
    file.write_text("# changed\n" + file.read_text())
    clone.run("run_all_tests.sh", "--setup-only")
    assert len(installations(clone)) == 2


def test_settings_of_tools_leave_the_environment(clone: Clone) -> None:
    clone.add_python("3.12")
    clone.run("run_all_tests.sh", "--setup-only")
    file = clone.folder / "pyproject.toml"
    file.write_text(file.read_text() + "[tool.other]\n")
    clone.run("run_all_tests.sh", "--setup-only")
    assert len(installations(clone)) == 1


def test_environment_follows_the_chosen_python(clone: Clone) -> None:
    clone.add_python("3.12")
    other = clone.add_python("3.10")
    for _ in range(2):
        clone.run("run_all_tests.sh", "--setup-only", PYTHON=str(other))
    assert len(installations(clone)) == 1
    clone.run("run_all_tests.sh", "--setup-only", PYTHON="python3.12")
    assert len(installations(clone)) == 2


def test_environment_is_made_anew_where_the_folder_moved(clone: Clone) -> None:
    clone.add_python("3.12")
    clone.run("run_all_tests.sh", "--setup-only")
    clone.folder = clone.folder.rename(clone.home / "moved clone")
    clone.run("run_all_tests.sh", "--setup-only")
    installed = [call[-1] for call in clone.modules_run() if "--editable" in call]
    assert installed[1:] == [f"{clone.folder}{DEFAULT}"]


def test_of_two_at_once_one_installs(clone: Clone) -> None:
    clone.add_python("3.12")
    command, environment = str(clone.folder / "run_all_tests.sh"), clone.environment(FAKE_PIP="sleep 0.3")
    both = [subprocess.Popen([command, "--setup-only"], env=environment, stderr=subprocess.DEVNULL) for _ in range(2)]
    assert [run.wait(timeout=30) for run in both] == [0, 0]
    assert installations(clone) == [DEFAULT]


def test_a_failed_installation_is_1_and_done_again(clone: Clone) -> None:
    clone.add_python("3.12")
    done = clone.run("run_all_tests.sh", FAKE_PIP="echo no space left; exit 1")
    assert done.returncode == 1
    assert "no space left" in done.stderr
    assert "pip could not install" in done.stderr
    assert not clone.stamp.exists()
    assert clone.run("run_all_tests.sh", "--setup-only").returncode == 0
    assert clone.stamp.exists()


def test_an_interrupted_installation_is_130_and_done_again(clone: Clone) -> None:
    clone.add_python("3.12")
    running = subprocess.Popen(
        [clone.folder / "run_all_tests.sh"],
        env=clone.environment(FAKE_PIP="sleep 30"),
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # ignored where pytest runs in the background
    )
    deadline = time.monotonic() + 10
    while not clone.modules_run() and time.monotonic() < deadline:
        time.sleep(0.01)
    os.killpg(running.pid, signal.SIGINT)
    assert running.wait(timeout=10) == 130
    assert not clone.stamp.exists()
    assert clone.run("run_all_tests.sh", "--setup-only").returncode == 0


def test_an_environment_of_the_users_is_left_alone(clone: Clone) -> None:
    clone.add_python("3.12")
    theirs = clone.folder / ".venv" / "pyvenv.cfg"
    theirs.parent.mkdir()
    theirs.write_text("prompt = 'mine'\n")
    done = clone.run("run_all_tests.sh")
    assert done.returncode == 2
    assert "move it away" in done.stderr
    assert theirs.read_text() == "prompt = 'mine'\n"


@pytest.mark.parametrize(
    ("pytest_exit", "ours"),
    [
        ("exit 0", 0),
        ("exit 1", 1),  # tests failed
        ("exit 2", 1),  # interrupted, or a test module that cannot be imported
        ("exit 3", 1),  # internal error
        ("exit 4", 2),  # bad option or catalog
        ("exit 5", 2),  # nothing selected
        ("kill -SEGV $$", 1),
    ],
)
def test_exit_codes(clone: Clone, pytest_exit: str, ours: int) -> None:
    clone.add_python("3.12")
    assert clone.run("run_all_tests.sh", FAKE_PYTEST=pytest_exit).returncode == ours


def test_options_reach_pytest(clone: Clone) -> None:
    clone.add_python("3.12")
    options = ("--board", "p150", "--device=virtual", "--memory", "l1", "--", "-k", "add and l1", "--help")
    assert clone.run("run_all_tests.sh", *options).returncode == 0
    progress = ["-o", "console_output_style=classic", "--oom-progress"]
    ours = [*progress, "--oom-results", "results", "--oom-board", "p150", "--oom-device=virtual", "--oom-memory", "l1"]
    assert clone.modules_run()[-1] == ["pytest", *ours, "-k", "add and l1", "--help"]


def test_a_link_to_the_command_works(clone: Clone) -> None:
    clone.add_python("3.12")
    link = clone.home / "link"
    link.symlink_to(clone.folder / "run_all_tests.sh")
    done = subprocess.run([link, "--setup-only"], env=clone.environment(), capture_output=True, timeout=30)
    assert done.returncode == 0
    assert clone.stamp.exists()


def test_every_check_runs_and_is_named(clone: Clone) -> None:
    clone.add_python("3.12")
    done = clone.run("run_checks.sh", FAKE_MYPY="exit 1")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-11:] == [
        "ok\truff check",
        "ok\truff format",
        "FAILED\tmypy",
        "ok\timport layers",
        "ok\tother TTNN releases",
        "NOT THERE\tfuzzing: atheris has no wheel for this Python",
        "ok\tdocumentation",
        "ok\ttests",
        "ok\tthe package, built and used on its own",
        "ok\tmemory estimates without torch and ttnn",
        "ok\tboth suites on a virtual device, a sample",
    ]
    modules = [call[0] for call in clone.modules_run() if call[0] != "pip"]
    assert modules == ["ruff", "ruff", "mypy", "lint-imports", "ssinghal", "mkdocs", "pytest", "pytest", "pytest"]
    assert installations(clone) == ["[device,dev,ultralytics]", "", "[docs]", "[visualizer]"]
    assert clone.run("run_checks.sh").returncode == 0


def test_each_environment_of_the_checks_has_its_lock(clone: Clone) -> None:
    clone.add_python("3.12")
    assert clone.run("run_checks.sh").returncode == 0
    used = [Path(call[-1]).read_text().splitlines() for call in clone.modules_run() if "--require-hashes" in call]
    locks = [(clone.folder / LOCKS[number]).read_text().splitlines() for number in (0, 0, 1, 2)]
    extras = [{"device", "dev", "ultralytics", "base"}, {"base"}, {"docs", "base"}, {"visualizer", "base"}]
    pairs = zip(locks, extras, strict=True)
    expected = [[line for line in lock if line[0] != "#" and extras_of(line) & own] for lock, own in pairs]
    assert used == expected
    assert 0 < len(used[1]) < len(used[0])


def test_an_environment_follows_its_own_lock_alone(clone: Clone) -> None:
    clone.add_python("3.12")
    clone.run("run_checks.sh")
    lock = clone.folder / "requirements-visualizer.lock"
    lock.write_text("# changed\n" + lock.read_text())
    clone.run("run_checks.sh")
    assert installations(clone)[4:] == ["[visualizer]"]


def test_checks_without_chromium_are_refused_with_the_command(clone: Clone) -> None:
    clone.add_python("3.12")
    (clone.path / "chromium").unlink()
    done = clone.run("run_checks.sh")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "apt-get update && apt-get install --yes --no-install-recommends chromium" in done.stderr
    assert clone.modules_run() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root installs packages")
@pytest.mark.parametrize(("answer", "code"), [("true", 0), ("exit 100", 2)])
def test_root_installs_chromium_where_it_is_missing(clone: Clone, answer: str, code: int) -> None:
    clone.add_python("3.12")
    (clone.path / "chromium").unlink()
    log = clone.home / "apt"
    write_program(clone.path / "apt-get", f'#!/bin/sh\necho "$*" >>"{log}"\n[ "$1" = update ] || {answer}\n')
    assert clone.run("run_checks.sh").returncode == code
    assert log.read_text().splitlines() == ["update", "install --yes --no-install-recommends chromium"]


REGISTRY = re.compile(r"https?://|pypi\.|pythonhosted|index-url|find-links|trusted-host", re.IGNORECASE)


def test_no_registry_is_named() -> None:
    for name in (*SETUP_FILES, ".ci/run", "scripts/lock.py"):
        assert not REGISTRY.search((ROOT / name).read_text()), name


def locked(python_version: str, lock: str = "requirements.lock") -> dict[str, str]:
    """Pinned version by package name, as pip reads the lock on a Python of that version."""
    pins: dict[str, str] = {}
    for line in (ROOT / lock).read_text().splitlines():
        if line.startswith("#"):
            continue
        assert re.search(r" --hash=sha256:[0-9a-f]{64}(?: --hash=sha256:[0-9a-f]{64})* # [a-z,]+$", line), line
        pin = Requirement(line.partition(" --hash")[0])
        (exact,) = pin.specifier
        assert exact.operator == "==", line
        if pin.marker is None or pin.marker.evaluate({"python_version": python_version}):
            assert canonicalize_name(pin.name) not in pins, f"{pin.name} is pinned twice for Python {python_version}"
            pins[canonicalize_name(pin.name)] = exact.version
    return pins


@pytest.mark.parametrize("lock", LOCKS)
@pytest.mark.parametrize("python_version", ["3.10", "3.12"])
def test_lock_agrees_with_the_project(python_version: str, lock: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = dict(project["project"]["optional-dependencies"])
    alone = {name: extras.pop(name) for name in ("docs", "visualizer")}
    own = lock.removeprefix("requirements").removeprefix("-").removesuffix(".lock")
    listed = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    listed += [line for extra in ([alone[own]] if own else extras.values()) for line in extra]
    pins = locked(python_version, lock)
    for dependency in map(Requirement, listed):
        applies = dependency.marker is None or dependency.marker.evaluate({"python_version": python_version})
        if applies and dependency.name != "ssinghal":
            assert dependency.specifier.contains(pins[canonicalize_name(dependency.name)]), dependency


@pytest.mark.parametrize("lock", LOCKS)
def test_lock_pins_what_its_packages_need(lock: str) -> None:
    """By the metadata of those that are installed here."""
    pins = locked(f"{sys.version_info.major}.{sys.version_info.minor}", lock)
    for name, pin in pins.items():
        try:
            found = distribution(name)
        except PackageNotFoundError:
            continue
        if found.version.partition("+")[0] != pin:  # another one has its needs
            continue
        needs = [Requirement(line) for line in found.requires or ()]
        names = {canonicalize_name(need.name) for need in needs if need.marker is None or need.marker.evaluate({"extra": ""})}
        assert names <= pins.keys(), f"{name} needs {sorted(names - pins.keys())}"
