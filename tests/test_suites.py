"""The two suites cover every operator name, hold no logic, and the committed baseline covers every case."""

import ast
from pathlib import Path

import pytest

import ssinghal
from ssinghal.catalog.expansion import expand
from ssinghal.catalog.loader import load_catalogs
from ssinghal.estimation.baseline import load_baseline
from ssinghal.operators import SUITE_ALIASES, families, find_operator, operators
from ssinghal.operators.unsupported import NOT_OPERATORS

PACKAGE = Path(ssinghal.__file__).parent
SUITES = {PACKAGE / "tests": "test_", PACKAGE / "oom_tests": "test_oom_"}
SEEDS = """
    add addmm bmm cat clamp clampmin clone concat copy div dropout expand gelu geluactivation hardtanh identity leakyrelu
    linalgvectornorm linear log maxpool2d mean mish mm mul native_batch_norm ones permute relu sigmoid silu silu_inplace softmax
    softplus split split_with_sizes splitwithsizes stack sub tanh topk transpose unsafeview unsqueeze upsample_nearest2d view
""".split()
# The rest of the list of 57 that are operators, and what the Mochi analysis needs.
ALSO = """
    SiLU ReLU GELU Mish LeakyReLU Identity Dropout Linear Concat Upsample upsamplenearest2d AdaptiveAvgPool1d AdaptiveAvgPool2d
    AdaptiveMaxPool1d AdaptiveMaxPool2d roll constantpadnd asstrided to_layout gather embedding slice conv2d conv3d group_norm
    replication_pad3d
""".split()


@pytest.fixture(scope="module")
def cases():
    return expand(load_catalogs(None)).cases


@pytest.mark.parametrize("name", [*SEEDS, *ALSO])
def test_every_name_of_the_seeds_is_selectable(name):
    assert name in find_operator(name).names


@pytest.mark.parametrize("name", sorted(NOT_OPERATORS))
def test_what_is_no_operator_says_why(name):
    assert name not in operators()
    with pytest.raises(Exception, match="is not an operator"):
        find_operator(name)


@pytest.mark.parametrize(("folder", "prefix"), SUITES.items(), ids=["tests", "oom_tests"])
def test_every_name_of_the_seeds_has_its_module_and_every_case_runs_in_one(folder, prefix, cases):
    modules = {path.stem.removeprefix(prefix) for path in folder.glob("test_*.py")}
    assert set(SEEDS) <= modules
    assert {case.name for case in cases} <= modules
    assert {info.name for members in families().values() for info in members} | SUITE_ALIASES == modules


@pytest.mark.parametrize("path", [p for f in SUITES for p in sorted(f.glob("test_*.py"))], ids=lambda p: p.stem)
def test_suite_modules_hold_no_logic(path):
    """An import, the operator's mark, and functions of one call each; all named after the module."""
    name = path.stem.removeprefix(SUITES[path.parent])
    kinds = {
        "tests": [("test_", "compare")],
        "oom_tests": [("test_oom_", "expect_oom"), ("test_memory_estimation_", "estimate")],
    }
    functions = "".join(f"\n\ndef {p}{name}(case, {fixture}):\n    {fixture}(case)\n" for p, fixture in kinds[path.parent.name])
    wanted = f'import pytest\n\npytestmark = pytest.mark.operator("{name}")\n{functions}'
    assert ast.dump(ast.parse(path.read_text())) == ast.dump(ast.parse(wanted))


def test_there_are_cases_enough_and_for_every_name(cases):
    assert len(cases) >= 1600
    assert set(SEEDS) <= {case.name for case in cases}


def test_ids_are_unique_within_a_name(cases):
    ids = [(case.name, case.id) for case in cases]
    assert len(ids) == len(set(ids))


def test_the_baseline_covers_every_case_and_no_other(cases):
    assert set(load_baseline("n150")) == {case.key for case in cases}


def test_every_refusal_in_the_baseline_is_a_known_one():
    """A catalog case may fit, run out, be a declared limitation or cost too much host work; anything else is a fault."""
    assert {entry.status for entry in load_baseline("n150").values()} <= {"fits", "oom", "unsupported", "not_run"}
