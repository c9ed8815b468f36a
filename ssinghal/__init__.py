"""Which TTNN operator at which shape runs out of which memory on a Tenstorrent board, by how many bytes, and why.

``__all__`` is the public interface; every other module is internal. Its names are imported when they are first used: ``import
ssinghal`` takes a moment, and needs neither torch nor ttnn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ssinghal.api import compare_runs, diagnose_log, find_remedies, open_pool, plan_model, probe, profiling, read_run
    from ssinghal.catalog.expansion import expand
    from ssinghal.catalog.loader import load_catalogs
    from ssinghal.core.boards import board_names, load_board
    from ssinghal.core.case import Case, OperandPlacement, OutputMemory, Placement
    from ssinghal.core.estimate import Prediction
    from ssinghal.core.memory_config import Cores, MemoryRequest, Orientation, Sharding, ShardKind, ShardSpec
    from ssinghal.core.record import Record
    from ssinghal.core.sharding import memory_request
    from ssinghal.core.tensors import Board, BufferType, DType, Layout, MemoryConfig, TensorSpec
    from ssinghal.core.verdict import Resource, Status, Verdict
    from ssinghal.diagnose.pipeline import Diagnosis
    from ssinghal.errors import (
        CaptureError,
        CaptureUnavailable,
        CatalogError,
        DeviceError,
        DeviceUnavailable,
        HarnessError,
        InvalidCase,
        NoGolden,
        NotProven,
        RegistryError,
        SeveralFaults,
    )
    from ssinghal.estimation.estimator import MemoryEstimate, estimate
    from ssinghal.operators import make_case
    from ssinghal.operators.case_json import case_from_json
    from ssinghal.plan.planner import Plan
    from ssinghal.profile.recording import Recording
    from ssinghal.remedy.solver import Unsolved
    from ssinghal.remedy.text import RemedyReport
    from ssinghal.runner.pool import Pool
    from ssinghal.runs.diff import Changes
    from ssinghal.runs.reader import Run

__version__ = "0.1.0"

__all__ = [
    "Board",
    "BufferType",
    "CaptureError",
    "CaptureUnavailable",
    "Case",
    "CatalogError",
    "Changes",
    "Cores",
    "DType",
    "DeviceError",
    "DeviceUnavailable",
    "Diagnosis",
    "HarnessError",
    "InvalidCase",
    "Layout",
    "MemoryConfig",
    "MemoryEstimate",
    "MemoryRequest",
    "NoGolden",
    "NotProven",
    "OperandPlacement",
    "Orientation",
    "OutputMemory",
    "Placement",
    "Plan",
    "Pool",
    "Prediction",
    "Record",
    "Recording",
    "RegistryError",
    "RemedyReport",
    "Resource",
    "Run",
    "SeveralFaults",
    "ShardKind",
    "ShardSpec",
    "Sharding",
    "Status",
    "TensorSpec",
    "Unsolved",
    "Verdict",
    "board_names",
    "case_from_json",
    "compare_runs",
    "diagnose_log",
    "estimate",
    "expand",
    "find_remedies",
    "load_board",
    "load_catalogs",
    "make_case",
    "memory_request",
    "open_pool",
    "plan_model",
    "probe",
    "profiling",
    "read_run",
]

_MODULES = {
    "api": ("compare_runs", "diagnose_log", "find_remedies", "open_pool", "plan_model", "probe", "profiling", "read_run"),
    "catalog.expansion": ("expand",),
    "catalog.loader": ("load_catalogs",),
    "core.boards": ("board_names", "load_board"),
    "core.case": ("Case", "OperandPlacement", "OutputMemory", "Placement"),
    "core.estimate": ("Prediction",),
    "core.memory_config": ("Cores", "MemoryRequest", "Orientation", "ShardKind", "ShardSpec", "Sharding"),
    "core.record": ("Record",),
    "core.sharding": ("memory_request",),
    "core.tensors": ("Board", "BufferType", "DType", "Layout", "MemoryConfig", "TensorSpec"),
    "core.verdict": ("Resource", "Status", "Verdict"),
    "diagnose.pipeline": ("Diagnosis",),
    "errors": (
        "CaptureError",
        "CaptureUnavailable",
        "CatalogError",
        "DeviceError",
        "DeviceUnavailable",
        "HarnessError",
        "InvalidCase",
        "NoGolden",
        "NotProven",
        "RegistryError",
        "SeveralFaults",
    ),
    "estimation.estimator": ("MemoryEstimate", "estimate"),
    "operators": ("make_case",),
    "operators.case_json": ("case_from_json",),
    "plan.planner": ("Plan",),
    "profile.recording": ("Recording",),
    "remedy.solver": ("Unsolved",),
    "remedy.text": ("RemedyReport",),
    "runner.pool": ("Pool",),
    "runs.diff": ("Changes",),
    "runs.reader": ("Run",),
}

if not TYPE_CHECKING:  # else every attribute would count as known

    def __getattr__(name: str) -> object:
        from importlib import import_module

        for module, names in _MODULES.items():
            if name in names:
                value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
                return value
        from ssinghal.errors import unknown

        raise AttributeError(unknown(f"attribute of {__name__}", name, __all__))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
