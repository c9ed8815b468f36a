"""Python runs this when it starts, where its folder is first on PYTHONPATH: the program itself stays as it is.

It imports the rest of the tracker together with ttnn: a program without ttnn, and pytest before it, see nothing of that.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any
from weakref import ref

FOLDER_VARIABLE = "SSINGHAL_PROFILE"  # these two as in ssinghal.tracker, which is not imported here
FAILURES_VARIABLE = "SSINGHAL_FAILURES"


class TtnnFinder(MetaPathFinder):
    """Finds ttnn as Python would, and has its module followed once it is imported; or only watched for calls that fail."""

    def __init__(self, folder: str, *, only_failures: bool = False) -> None:
        self.folder, self.only_failures = folder, only_failures
        self._follower: Callable[[], Any] = lambda: None  # a weak reference: ttnn complains at exit about what is still alive
        self._is_searching = False

    @property
    def follower(self) -> Any:
        """The follower of ttnn, None until it is imported."""
        return self._follower()

    def follow(self, module: ModuleType) -> None:
        if self.only_failures:
            with suppress(Exception):  # the program runs as without
                from ssinghal.tracker.failing_calls import watch

                watch(module, self.folder)
            return
        from ssinghal.tracker.start import Follower

        self._follower = ref(Follower(module, self.folder))

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != "ttnn" or self._is_searching:
            return None
        self._is_searching = True
        try:
            spec = find_spec("ttnn")
        finally:
            self._is_searching = False
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_and_follow(module: ModuleType) -> None:
                run(module)
                self.follow(module)

            spec.loader.exec_module = run_and_follow  # type: ignore[method-assign]
        return spec


def run_users_own() -> None:
    """Runs the ``sitecustomize`` that Python would have run without this one."""
    here = os.path.dirname(_absolute(__file__))
    spec = PathFinder.find_spec("sitecustomize", [path for path in sys.path if _absolute(path) != here])
    if spec is not None and spec.loader is not None:
        module = sys.modules["sitecustomize"] = module_from_spec(spec)
        spec.loader.exec_module(module)


def _absolute(path: str) -> str:
    try:
        return os.path.abspath(path)
    except FileNotFoundError:  # the working folder was removed
        return path


if __name__ == "sitecustomize":  # not where the pytest plugin takes the finder from here
    if os.environ.get(FOLDER_VARIABLE):
        sys.meta_path.insert(0, TtnnFinder(os.environ[FOLDER_VARIABLE]))
    elif os.environ.get(FAILURES_VARIABLE):
        sys.meta_path.insert(0, TtnnFinder(os.environ[FAILURES_VARIABLE], only_failures=True))
    run_users_own()
