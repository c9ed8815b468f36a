"""Settings: every form becomes one, every fault is one line, and TTNN is called with what was stated."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from ssinghal.core.boards import load_board
from ssinghal.core.estimate import Prediction
from ssinghal.device.releases import known_releases
from ssinghal.errors import InvalidCase
from ssinghal.estimation.estimator import estimate
from ssinghal.operators import find_operator, make_case
from ssinghal.operators.binding import bind
from ssinghal.operators.case_json import case_from_json
from ssinghal.operators.settings import check_name
from ssinghal.operators.settings.notation import read
from ssinghal.operators.settings.table import table
from ssinghal.operators.settings.values import canonical, shown

PRODUCT = {"op": "matmul", "inputs": [[256, 256], [256, 512]]}
CONFIG = {
    "type": "MatmulMultiCoreReuseMultiCast1DProgramConfig",
    "compute_with_storage_grid_size": [8, 2],
    "in0_block_w": 2,
    "out_subblock_h": 1,
    "out_subblock_w": 1,
    "per_core_M": 8,
    "per_core_N": 1,
    "fuse_batch": True,
    "fused_activation": {"type": "UnaryWithParam", "op_type": "GELU", "params": [1.0]},
    "mcast_in0": True,
}
NUMBERS = "in0_block_w=2, out_subblock_h=1, out_subblock_w=1, per_core_M=8, per_core_N=1"
CLASS = "MatmulMultiCoreReuseMultiCast1DProgramConfig"
# What ports write, and what TTNN 0.81.1, 0.75.0 and 0.66.0 print of the same object
FORMS = {
    "Python": f"ttnn.{CLASS}(compute_with_storage_grid_size=(8, 2), {NUMBERS}, fuse_batch=True,\n    "
    "fused_activation=ttnn.UnaryWithParam(ttnn.UnaryOpType.GELU, 1.0), mcast_in0=True,  # as in the port\n)",
    "a tuple": f"ttnn.{CLASS}(compute_with_storage_grid_size=ttnn.CoreCoord(8, 2), {NUMBERS}, fuse_batch=True,"
    " fused_activation=(ttnn.UnaryOpType.GELU, True), mcast_in0=True)",
    "the module's full name": f"ttnn._ttnn.operations.matmul.{CLASS}(compute_with_storage_grid_size=ttnn.CoreCoord(x=8, y=2),"
    f" {NUMBERS}, fuse_batch=True, fused_activation=[ttnn.UnaryOpType.GELU, 1], mcast_in0=True)",
    "printed": f"{CLASS}(compute_with_storage_grid_size=8-2,{NUMBERS.replace(' ', '')},fuse_batch=1,"
    "fused_activation=UnaryWithParam(op_type=UnaryOpType::GELU, params=[1]),mcast_in0=1,out_block_h=std::nullopt)",
    "printed by 0.66.0": f"{CLASS}(compute_with_storage_grid_size=(x=8,y=2),{NUMBERS.replace(' ', '')},fuse_batch=1,"
    "fused_activation=BasicUnaryWithParam<float>(op_type=UnaryOpType::GELU,param={1}),mcast_in0=1)",
    "JSON": {
        **CONFIG,
        "compute_with_storage_grid_size": "8x2",
        "fused_activation": "ttnn.UnaryWithParam(ttnn.UnaryOpType.GELU, 1)",
    },
}


def settings_of(operator: str, inputs: list[list[int]], **attrs: object) -> dict:
    return dict(case_from_json({"op": operator, "inputs": inputs, "attrs": attrs}).attrs)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_config_is_the_same_case(form: str) -> None:
    plain = case_from_json({**PRODUCT, "attrs": {"program_config": CONFIG}})
    written = case_from_json({**PRODUCT, "attrs": {"program_config": FORMS[form]}})
    assert written.attrs == {"program_config": CONFIG}
    assert (written.key, written.id) == (plain.key, plain.id)


@pytest.mark.parametrize(
    ("name", "written", "kept"),
    [
        ("core_grid", "8x4", [8, 4]),
        ("core_grid", [8, 4], [8, 4]),
        ("core_grid", "ttnn.CoreGrid(y=4, x=8)", [8, 4]),
        ("core_grid", None, None),
        ("activation", "gelu", "gelu"),
        ("activation", "ttnn.UnaryOpType.RELU", {"type": "UnaryWithParam", "op_type": "RELU"}),
        (
            "compute_kernel_config",
            "ttnn.WormholeComputeKernelConfig(math_fidelity=ttnn.MathFidelity.HiFi2, packer_l1_acc=True)",
            {"type": "WormholeComputeKernelConfig", "math_fidelity": "HiFi2", "packer_l1_acc": True},
        ),
        (
            "compute_kernel_config",
            {"math_fidelity": "hifi4"},
            {"type": "WormholeComputeKernelConfig", "math_fidelity": "HiFi4"},
        ),
        (  # of which TTNN's default fidelity is another one
            "compute_kernel_config",
            "ttnn.init_device_compute_kernel_config(device.arch(), fp32_dest_acc_en=True)",
            {"type": "WormholeComputeKernelConfig", "math_fidelity": "LoFi", "fp32_dest_acc_en": True},
        ),
    ],
)
def test_a_setting_has_one_form(name: str, written: object, kept: object) -> None:
    assert settings_of("matmul", PRODUCT["inputs"], **{name: written})[name] == kept


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("4x4", "4x4"),
        ("0,0-3,3+5,5", "0,0-3,3+5,5"),
        ("ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(3, 3))})", "4x4"),
        ("ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(1, 0), ttnn.CoreCoord(3, 3))])", "1,0-3,3"),
        ("{[0-0 - 3-3], [5-5 - 5-5]}", "0,0-3,3+5,5"),
        ("{[(x=0,y=0) - (x=3,y=3)]}", "4x4"),
    ],
)
def test_core_ranges_are_written_as_in_memory_configs(written: str, kept: str) -> None:
    assert settings_of("relu", [[32, 32]], sub_core_grids=written)["sub_core_grids"] == kept


def test_lists_of_activations() -> None:
    relu, silu = ({"type": "UnaryWithParam", "op_type": name} for name in ("RELU", "SILU"))
    for written in ("relu,silu", ["relu", "silu"], "[ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU), ttnn.UnaryOpType.SILU]"):
        assert settings_of("add", [[32, 32], [32, 32]], activations=written)["activations"] == [relu, silu]
    power = settings_of("add", [[32, 32], [32, 32]], activations="(ttnn.UnaryOpType.POWER, 2)")["activations"]
    assert power == [{"type": "UnaryWithParam", "op_type": "POWER", "params": [2.0]}]


@pytest.mark.parametrize(
    ("op", "attrs", "fault"),
    [
        ("matmul", {"core_gird": "8x8"}, "unknown setting 'core_gird'; did you mean core_grid?"),
        ("relu", {"core_grid": "8x8"}, "core_grid is a setting of ttnn."),
        ("permute", {"dims": 1}, "attribute dims=1 is not ints"),
        ("matmul", {"core_grid": "8by8"}, "core_grid: expected a grid like 8x8"),
        ("matmul", {"core_grid": [8, 0]}, "core_grid: a grid of [8, 0]; expected columns and rows of at least 1"),
        ("matmul", {"core_grid": True}, "core_grid: expected a grid like 8x8 (columns x rows), none, got True"),
        (
            "matmul",
            {"program_config": "ttnn.SDPAProgramConfig(q_chunk_size=32)"},
            "SDPAProgramConfig is for ttnn.transformer.",
        ),
        (
            "matmul",
            {"program_config": "ttnn.MatmulMultiCoreProgramConfg()"},
            "unknown config class 'MatmulMultiCoreProgramConfg'",
        ),
        ("matmul", {"program_config": {**CONFIG, "in0_blok_w": 2}}, "unknown field 'in0_blok_w'; did you mean in0_block_w"),
        ("matmul", {"program_config": {**CONFIG, "in0_block_w": 0}}, "in0_block_w=0; expected at least 1"),
        ("matmul", {"program_config": {**CONFIG, "in0_block_w": 1.5}}, "in0_block_w: expected a whole number, got 1.5"),
        ("matmul", {"program_config": {**CONFIG, "in0_block_w": 2**40}}, "in0_block_w: 1099511627776 is beyond 32 bits"),
        ("matmul", {"program_config": {**CONFIG, "fuse_batch": "yes"}}, "fuse_batch: expected true or false, got yes"),
        ("matmul", {"program_config": {"type": CLASS, "in0_block_w": 2}}, "compute_with_storage_grid_size, out_subblock_h"),
        (
            "matmul",
            {"program_config": {"in0_block_w": 2}},
            "type is missing; expected one of MatmulMultiCoreReuseProgramConfig",
        ),
        ("matmul", {"program_config": f"ttnn.{CLASS}(8, 8)"}, "takes its fields by name"),
        ("matmul", {"program_config": f"ttnn.{CLASS}(in0_block_w=2, in0_block_w=2)"}, "in0_block_w is given twice"),
        ("matmul", {"program_config": f"ttnn.{CLASS}(in0_block_w=2"}, "unexpected 'the end'; expected ',' or ')'"),
        ("matmul", {"program_config": "get_config(8)"}, "unknown config class 'get_config'"),
        ("matmul", {"compute_kernel_config": {"math_fidelity": "HiFi5"}}, "unknown MathFidelity 'HiFi5'; did you mean HiFi4"),
        ("matmul", {"compute_kernel_config": {"math_fidelity": "ttnn.bfloat16"}}, "ttnn.bfloat16 is a DataType; expected a"),
        ("matmul", {"activation": "ttnn.UnaryOpType.RELUU"}, "unknown UnaryOpType 'RELUU'"),
        ("matmul", {"program_config": {}}, "MatmulMultiCoreReuseMultiCastProgramConfig and 3 others"),
        (
            "matmul",
            {"program_config": "ttnn.LayerNormDefaultProgramConfig()"},
            " others; expected MatmulMultiCoreReuseProgramConfig",
        ),
        ("relu", {"sub_core_grids": "4"}, "expected 8x8, or ranges such as"),
        ("relu", {"sub_core_grids": "0,0-3,3+2,2"}, "overlap"),
    ],
)
def test_bad_input_is_one_line_with_the_rule(op: str, attrs: dict, fault: str) -> None:
    inputs = PRODUCT["inputs"] if op == "matmul" else [[32, 32]]
    with pytest.raises(InvalidCase) as raised:
        bind(case_from_json({"op": op, "inputs": inputs, "attrs": attrs})).check()
    assert fault in str(raised.value)
    assert "\n" not in str(raised.value)
    assert str(raised.value).startswith(f"{op}: ")
    assert len(str(raised.value)) <= 300


def test_a_setting_of_another_call_with_the_name_that_it_has_here() -> None:
    with pytest.raises(InvalidCase, match=r"does not take it; did you mean dram_slice_config\?$"):
        check_name(find_operator("conv_transpose2d"), "slice_config")


def test_a_grid_beyond_the_board() -> None:
    case = make_case("matmul", ((64, 64), (64, 64)), {"core_grid": [9, 8]})
    bind(case, load_board("p150")).check()
    with pytest.raises(InvalidCase, match=r"core_grid: a grid of 9x8 cores; board n150 has 8x8 \(columns x rows\)"):
        bind(case, load_board("n150")).check()
    config = {**CONFIG, "compute_with_storage_grid_size": [8, 9]}
    with pytest.raises(InvalidCase, match="compute_with_storage_grid_size: a grid of 8x9 cores; board n150 has 8x8"):
        bind(case_from_json({**PRODUCT, "attrs": {"program_config": config}}), load_board("n150")).check()


CONVOLUTION = ((1, 64, 16, 16), (64, 64, 3, 3))


def test_attributes_of_convolutions_may_not_contradict_the_config() -> None:
    config = "ttnn.Conv2dConfig(act_block_h_override=32, weights_dtype=ttnn.bfloat8_b)"
    bind(make_case("conv2d", CONVOLUTION, {"act_block_h": 32, "weights_dtype": "bf8", "conv_config": config})).check()
    for attrs, fault in (
        ({"act_block_h": 64}, "act_block_h 64 contradicts act_block_h_override=32 of conv_config"),
        ({"weights_dtype": "bfloat16"}, "weights_dtype bfloat16 contradicts weights_dtype=bfloat8_b of conv_config"),
    ):
        with pytest.raises(InvalidCase, match=fault):
            bind(make_case("conv2d", CONVOLUTION, {**attrs, "conv_config": config})).check()
    sliced = {"slices": "l1", "slice_config": "ttnn.Conv2dL1FullSliceConfig"}
    with pytest.raises(InvalidCase, match="slices l1 and slice_config state the same"):
        bind(make_case("conv2d", CONVOLUTION, sliced)).check()


def test_the_function_of_the_call_decides_which_settings_it_takes() -> None:
    """A convolution over volumes has no conv_config, and a bias of the result's shape no fused activation."""
    with pytest.raises(InvalidCase, match=r"ttnn\.experimental\.conv3d, which this call runs"):
        bind(make_case("convolution", ((1, 32, 4, 8, 8), (32, 32, 3, 3, 3)), {"conv_config": {}})).check()
    row = make_case("addmm", ((64,), (32, 64), (64, 64)), {"activation": "relu"})
    bind(row).check()
    with pytest.raises(InvalidCase, match=r"ttnn\.addmm, which this call runs"):
        bind(make_case("addmm", ((32, 64), (32, 64), (64, 64)), {"activation": "relu"})).check()


def test_transposed_matrices_change_the_shape() -> None:
    assert bind(make_case("mm", ((96, 32), (96, 64)), {"transpose_a": True})).results == [(32, 64)]
    assert bind(make_case("matmul", ((2, 32, 96), (64, 96)), {"transpose_b": True})).results == [(2, 32, 64)]
    assert bind(make_case("bmm", ((2, 96, 32), (2, 64, 96)), {"transpose_a": True, "transpose_b": True})).results == [
        (2, 32, 64)
    ]
    with pytest.raises(InvalidCase, match="cannot multiply"):
        _ = bind(make_case("mm", ((96, 32), (96, 64)))).results
    weight = bind(make_case("linear", ((8, 96), (64, 96)), {"transpose_b": True})).inputs[1]
    assert weight.shape == (64, 96)


def test_estimates_with_settings_leave_program_buffers_to_a_probe() -> None:
    """Its tensors count: 4 MiB over 64 banks are 64 KiB each."""
    plain, on_cores = (make_case("relu", ((1024, 2048),), attrs) for attrs in ({}, {"sub_core_grids": "2x2"}))
    board = load_board("n150")
    assert estimate(plain, board).verdict is Prediction.FITS
    assert estimate(on_cores, board).verdict is Prediction.UNKNOWN
    assert "program buffers" in estimate(on_cores, board).reason
    assert estimate(on_cores, board).program_bytes is None
    assert estimate(on_cores, board).peak_bytes_per_bank == estimate(plain, board).peak_bytes_per_bank


def test_cases_without_settings_keep_their_keys() -> None:
    assert make_case("matmul", ((64, 64), (64, 64)), {}).attrs == {}
    assert make_case("softmax", ((8, 32),), {"dim": -1}).id == "8x32-dim=-1-dram"


def test_random_configs_survive_every_form() -> None:
    """Every class, with random fields: JSON, Python text and back are the same."""
    r = random.Random(7)
    samples = {"bool": True, "int": 3, "float": 0.5, "CoreCoord": [4, 2], "CoreRangeSet": "1,1-3,2", "DataType": "bfloat8_b"}
    operators = {
        "SoftmaxShardedMultiCoreProgramConfig": "softmax_in_place",
        "SDPAProgramConfig": "scaled_dot_product_attention",
    }
    tried = 0
    for _ in range(60):
        name = r.choice(
            [n for n in table().classes if n.startswith(("Matmul", "Softmax", "LayerNorm", "SDPA")) or n in operators]
        )
        operator = operators.get(name) or next(
            o
            for prefix, o in {"Matmul": "matmul", "LayerNorm": "rms_norm", "Softmax": "softmax_in_place"}.items()
            if name.startswith(prefix)
        )
        value = {"type": name}
        for field, kinds in table().classes[name].items():
            if kinds.required or r.random() < 0.5:
                kind = next(k for k in kinds.kinds if k != "None")
                value[field] = samples.get(kind) or {"UnaryWithParam": {"type": kind, "op_type": "RELU"}}.get(kind, "HiFi2")
        kept = make_case(operator, ((64, 64), (64, 64)), {"program_config": value}).attrs["program_config"]
        assert kept == value
        assert make_case(operator, ((64, 64),), {"program_config": shown(kept)}).attrs["program_config"] == kept
        assert (
            make_case(operator, ((64, 64),), {"program_config": json.loads(json.dumps(kept))}).attrs["program_config"] == kept
        )
        tried += 1
    assert tried == 60


def test_garbage_is_one_error() -> None:
    r = random.Random(3)
    pieces = [
        "ttnn.",
        "CoreGrid",
        "(",
        ")",
        "x=",
        "8",
        ",",
        "{",
        "}",
        "-",
        "[",
        "]",
        "'a'",
        "<",
        ">",
        "::",
        "None",
        " ",
        "#",
        "é",
    ]
    for _ in range(2000):
        text = "".join(r.choice(pieces) for _ in range(r.randint(1, 12)))
        try:
            read(text)
        except InvalidCase as error:
            assert "\n" not in str(error)  # noqa: PT017  # both outcomes are right
    with pytest.raises(InvalidCase, match="nested too deep"):
        read("[" * 500)


def test_references_have_the_fused_activations() -> None:
    torch = pytest.importorskip("torch")
    a, b = torch.tensor([[-2.0, 3.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    fused = {"program_config": {**CONFIG, "fused_activation": "relu"}}
    for operator, tensors, attrs, expected in (
        ("matmul", (a, b), {"activation": "relu"}, [[0.0, 3.0]]),
        ("matmul", (a, b), fused, [[0.0, 3.0]]),
        ("add", (a, a), {"activations": "relu"}, [[0.0, 6.0]]),
        ("add", (a, a), {"input_tensor_a_activations": "relu"}, [[-2.0, 6.0]]),
        ("add", (a, a), {"input_tensor_b_activations": "square,neg"}, [[-6.0, -6.0]]),
    ):
        call = bind(make_case(operator, tuple(tuple(x.shape) for x in tensors), attrs))
        assert call.reference(torch, tensors)[0].tolist() == expected
    with pytest.raises(InvalidCase, match="activation xielu: its values are not known here"):
        bind(make_case("matmul", ((1, 2), (2, 2)), {"activation": "ttnn.UnaryOpType.XIELU"})).reference(torch, (a, b))


def test_json_of_any_form_is_a_value_or_one_error() -> None:
    """No value of JSON or text in place of a setting ends in another error, in any kind of setting that TTNN has."""
    r = random.Random(4)
    texts = [
        "²x8",
        "9" * 5000,
        f"{'9' * 5000}x8",
        "8,",
        "ttnn.CoreRangeSet(1, 2)",
        "f(f(f(",
        "ttnn.UnaryWithParam(1)",
        "'a'",
        "{name: 1}",
    ]
    keys = ["args", "name", "x", "y", "start", "end", "op_type", "params"]
    types = [*table().classes, "CoreGrid", "CoreCoord", "CoreRange", "CoreRangeSet", "UnaryWithParam", 5, None, [], {}]
    owners = [*table().functions.values(), *table().classes.values()]
    fields = {field.kinds: field for owner in owners for field in owner.values()}

    def drawn(depth: int) -> Any:
        form = r.random() if depth else 0
        if form < 0.45:
            return r.choice([None, True, -1, 0, 8, 2**40, 1.5, *texts])
        if form < 0.65:
            return [drawn(depth - 1) for _ in range(r.randrange(4))]
        members = {r.choice(keys): drawn(depth - 1) for _ in range(r.randrange(4))}
        return {"type": r.choice(types), **members} if r.random() < 0.7 else members

    refused = 0
    for field in fields.values():
        for _ in range(300):
            try:
                json.dumps(canonical(drawn(3), field, "relu: setting"))
            except InvalidCase as error:
                refused += 1
                assert len(str(error)) <= 300, str(error)  # noqa: PT017
    assert refused > 1000


# On the device ----------------------------------------------------------------------------------------------------------


@pytest.mark.virtual_device
def test_the_report_of_a_core_grid(run, tmp_path: Path) -> None:
    """tt-metal#36426: the end of the circular buffers as in the user's log; it fits from 0.75.0 on."""
    words = ["probe", "mm", "8192,11008", "8192,4096", "--attr", "transpose_a=true", "--attr", "core_grid=8,8", "--json"]
    releases = {release.version for release in known_releases()}
    if not {"0.66.0", "0.75.0"} <= releases:
        pytest.skip("needs: ssinghal releases add 0.66.0 0.75.0")
    old = json.loads(run(*words, "--ttnn", "0.66.0").out)
    assert (old["status"], old["resource"], old["program_bytes"]) == ("oom", "circular_buffer", 1_721_472)
    assert json.loads(run(*words, "--ttnn", "0.75.0").out)["status"] == "fits"


@pytest.mark.virtual_device
def test_a_setting_that_a_release_lacks_is_unsupported(run) -> None:
    if "0.66.0" not in {release.version for release in known_releases()}:
        pytest.skip("needs: ssinghal releases add 0.66.0")
    config = json.dumps({**CONFIG, "stream_in1": True})
    for words, message in (
        (
            ["relu", "32,32", "--attr", "sub_core_grids=1x1"],
            "has no setting sub_core_grids of ttnn.relu; 0.75.0 and later have it",
        ),
        (["matmul", "256,256", "256,512", "--attr", f"program_config={config}"], f"has no field stream_in1 of ttnn.{CLASS}"),
    ):
        record = json.loads(run("probe", *words, "--json", "--ttnn", "0.66.0").out)
        assert record["status"] == "unsupported"
        assert message in record["message"]


@pytest.mark.virtual_device
def test_a_script_of_a_remedy_has_the_settings(run) -> None:
    """10 MiB more than L1 has: in DRAM it runs on the cores that the call states."""
    found = run("remedy", "relu", "1,64,1280,800", "--memory", "l1", "--attr", "sub_core_grids=4x4")
    cores = "sub_core_grids=ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(3, 3))])"
    assert f"ttnn.relu(a, memory_config=ttnn.DRAM_MEMORY_CONFIG, {cores})" in found.out


@pytest.mark.parametrize("value", ["config", "self.config", "ttnn.SDPAProgramConfig(compute_with_storage_grid_size=grid)"])
def test_a_variable_of_a_program_is_not_guessed(value: str) -> None:
    with pytest.raises(InvalidCase, match="if that is a variable, write out its value"):
        make_case("scaled_dot_product_attention", ((1, 8, 64, 64),) * 3, {"program_config": value})


def test_products_of_whole_numbers() -> None:
    written = "ttnn.Conv2dConfig(act_block_h_override=32 * 5, act_block_w_div=2*3*4)"
    assert read(written) == {"type": "Conv2dConfig", "act_block_h_override": 160, "act_block_w_div": 24}
    for text in ("32 *", "32 * x", "x * 32", "C(*args)", "C(a=1, **kwargs)", "* 3", "1.5 * 2", "9" + "*9" * 9_000):
        with pytest.raises(InvalidCase):
            read(text)
