"""Python runs this when it starts, where its folder is first on PYTHONPATH: the program itself stays as it is."""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec


def run_users_own() -> None:
    """Runs the ``sitecustomize`` that Python would have run without this one."""
    here = os.path.dirname(os.path.abspath(__file__))
    spec = PathFinder.find_spec("sitecustomize", [path for path in sys.path if os.path.abspath(path) != here])
    if spec is not None and spec.loader is not None:
        module = sys.modules["sitecustomize"] = module_from_spec(spec)
        spec.loader.exec_module(module)


run_users_own()
if os.environ.get("SSINGHAL_PROFILE"):  # start.FOLDER_VARIABLE
    from ssinghal.tracker.start import watch_imports

    watch_imports(os.environ["SSINGHAL_PROFILE"])
