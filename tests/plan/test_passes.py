"""Rewrites keep what a model computes, and are not applied where they would not.

Small models are recorded by the real recorder, rewritten, and both traces are run in torch, step by step.
"""

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from ssinghal.capture.trace import ValueKind  # noqa: E402
from ssinghal.plan.passes.attention import fused_attention  # noqa: E402
from ssinghal.plan.passes.convolution import pad_into_convolution, whole_convolution  # noqa: E402
from ssinghal.plan.passes.depth_to_space import depth_to_space  # noqa: E402
from ssinghal.plan.passes.heads import split_heads  # noqa: E402
from ssinghal.plan.passes.registry import CHANGES, fold_batch_norm, rewritten  # noqa: E402
from ssinghal.plan.policy import POLICIES, Rewrite  # noqa: E402
from tests.support.real_traces import Net, checked, close, interpreted, recorded  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Uses one thread: several cost more for such small tensors."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def names(trace):
    return [step.overload.split(".")[1] for step in trace.steps]


def keeps_lifetimes(before, after):
    """Checks lifetimes: values still die, after their last reader; new values die; nothing dies that does not exist."""
    checked(after)
    existing = {n for n, value in enumerate(after.values) if value.kind is ValueKind.INPUT}
    existing |= {n for step in after.steps for n in step.results}
    dead = [n for step in after.steps for n in step.dead]
    assert len(set(dead)) == len(dead), "nothing dies twice"
    assert set(dead) <= existing - set(after.results)
    died = {n for step in before.steps for n in step.dead} | set(range(len(before.values), len(after.values)))
    assert died & existing == set(dead)
    assert all(after.last_object[n] >= after.last_use[n] for n in existing)


def changes(change, model, *inputs):
    """Returns the names of the rewritten calls, after checking that they compute the model."""
    recording = recorded(model, *inputs)
    before, after = recording.trace, change(recording.trace)
    keeps_lifetimes(before, before)
    keeps_lifetimes(before, after)
    assert close(interpreted(before, recording.given()), recording.results()), "the interpreter itself"
    assert close(interpreted(after, recording.given()), recording.results())
    return names(after)


def leaves(change, model, *inputs):
    recording = recorded(model, *inputs)
    assert close(interpreted(recording.trace, recording.given()), recording.results()), "the interpreter itself"
    return change(recording.trace) == recording.trace


# Batch norm -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("conv", "norm", "shape"),
    [
        (nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), (2, 3, 6, 5)),
        (nn.Conv2d(3, 8, 1, bias=False), nn.BatchNorm2d(8), (1, 3, 6, 5)),
        (nn.Conv2d(4, 8, 3, bias=False), nn.BatchNorm2d(8, affine=False), (1, 4, 6, 5)),
        (nn.Conv2d(4, 8, 3, groups=2, stride=2), nn.BatchNorm2d(8, affine=False, eps=0.1), (1, 4, 6, 5)),
        (nn.Conv1d(4, 8, 3, bias=False), nn.BatchNorm1d(8), (2, 4, 9)),
        (nn.Conv3d(2, 4, 3), nn.BatchNorm3d(4, eps=1e-3), (1, 2, 4, 5, 6)),
        (nn.Conv2d(3, 8, 3, padding="same"), nn.BatchNorm2d(8), (1, 3, 6, 5)),
    ],
)
def test_a_batch_norm_is_folded_into_the_convolution_before_it(conv, norm, shape):
    assert changes(fold_batch_norm, nn.Sequential(conv, norm, nn.ReLU()), shape) == [names_of(conv), "relu"]


def names_of(conv):
    return type(conv).__name__.lower()


def test_one_convolution_before_two_norms_is_folded_twice():
    """Heads that share their convolutions over the levels of a pyramid, but not their norms."""
    model = Net(
        lambda m, x, y: (m.a(m.conv(x)), m.b(m.conv(y))), conv=nn.Conv2d(3, 8, 3), a=nn.BatchNorm2d(8), b=nn.BatchNorm2d(8)
    )
    recording = recorded(model, (1, 3, 6, 6), (1, 3, 8, 8))
    first, second = (step.args["ssinghal:folded"] for step in fold_batch_norm(recording.trace).steps)
    assert first[0] == second[0]
    assert not {*first[1:5]} & {*second[1:5]}
    assert changes(fold_batch_norm, model, (1, 3, 6, 6), (1, 3, 8, 8)) == ["conv2d", "conv2d"]


def read_twice(m, x):
    y = m.conv(x)
    return m.norm(y) + y


NORM = {"conv": nn.Conv2d(3, 8, 3), "norm": nn.BatchNorm2d(8)}


@pytest.mark.parametrize(
    ("model", "inputs"),
    [
        (Net(read_twice, **NORM), [(1, 3, 6, 6)]),
        (Net(lambda m, x: ((y := m.conv(x)), m.norm(y)), **NORM), [(1, 3, 6, 6)]),  # returned
        (Net(lambda m, x: m.norm(m.conv(x).relu()), **NORM), [(1, 3, 6, 6)]),
        (nn.Sequential(nn.ConvTranspose2d(3, 8, 3), nn.BatchNorm2d(8)), [(1, 3, 6, 6)]),
        (nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8)), [(4, 3)]),
        (nn.Sequential(nn.BatchNorm2d(3), nn.Conv2d(3, 8, 3)), [(1, 3, 6, 6)]),
        (nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8, track_running_stats=False)), [(2, 3, 6, 6)]),  # of the batch
        (
            Net(lambda m, x, w: m.norm(F.conv2d(x, w)), norm=nn.BatchNorm2d(8)),
            [(1, 3, 6, 6), (8, 3, 3, 3)],
        ),  # a weight computed
        (nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm1d(4)), [(3, 6, 5)]),  # no batch: the norm's channels are rows
    ],
)
def test_a_batch_norm_is_not_folded(model, inputs):
    assert leaves(fold_batch_norm, model, *inputs)


# Attention ------------------------------------------------------------------------------------------------------------------


def scores_by_scale(m, q, k, v):
    return (q @ k.transpose(-2, -1) * 0.2).softmax(-1) @ v


def scores_by_division(m, q, k, v):
    scores = torch.matmul(q, k.transpose(2, 3)) / 8.0
    weights = F.dropout(torch.softmax(scores, dim=3), 0.1, training=False)
    return torch.matmul(weights, v).transpose(1, 2)


def scores_by_two_factors(m, q, k, v):
    return ((q @ k.mT * 0.5) / 3).softmax(-1) @ v


def scaled_before(m, q, k, v):
    q = q * 0.2
    return (q @ k.transpose(-2, -1)).softmax(-1) @ v


def forgets_early(m, q, k, v):
    """Only the scores are left when the softmax is called."""
    q, k, v = q + 1, (k + 1).mT, v + 1
    scores = q @ k
    del q, k
    scores = scores.softmax(-1)
    return scores @ v


ATTENTION = [(2, 3, 10, 32), (2, 3, 12, 32), (2, 3, 12, 32)]


@pytest.mark.parametrize("forward", [scores_by_scale, scores_by_division, scores_by_two_factors, scaled_before, forgets_early])
def test_attention_is_fused(forward):
    calls = changes(fused_attention, Net(forward), *ATTENTION)
    assert calls.count("scaled_dot_product_attention") == 1
    assert not {"softmax", "matmul"} & set(calls)


def area(m, x):
    """YOLO12's attention: heads and their channels before the tokens, so the products are q^T k and v attn^T."""
    q, k, v = x.view(2, 3, 96, 10).split([32, 32, 32], dim=2)
    attn = (q.transpose(-2, -1) @ k) * 32**-0.5
    attn = attn.softmax(dim=-1)
    return (v @ attn.transpose(-2, -1)).reshape(2, 96, 10)


def test_attention_that_takes_the_weights_transposed_is_fused():
    turned = ["transpose"] * 3  # the queries as written; for the call, the keys and the values
    assert changes(fused_attention, Net(area), (2, 288, 10)) == [
        "view", "split_with_sizes", *turned, "scaled_dot_product_attention", "transpose", "reshape",
    ]  # fmt: skip


def test_attention_to_tokens_that_are_weights_is_fused():
    """Learned keys, and their values."""
    model = Net(lambda m, q: (q @ m.k.mT).softmax(-1) @ m.v, k=torch.empty(2, 3, 12, 32), v=torch.empty(2, 3, 12, 32))
    assert changes(fused_attention, model, ATTENTION[0]) == ["transpose", "scaled_dot_product_attention"]


def masked(m, q, k, v, mask):
    return (q @ k.mT * 0.2 + mask).softmax(-1) @ v


def scores_read_twice(m, q, k, v):
    scores = q @ k.mT
    return scores.softmax(-1) @ v, scores.amax(-1)


def weights_read_twice(m, q, k, v):
    weights = (q @ k.mT).softmax(-1)
    return weights @ v, weights.mean(1)


def scores_between(m, q, k, v):
    """The scaled scores are read again after the first product."""
    scores = q @ k.mT * 0.2
    return scores.softmax(-1) @ v + scores.mean()


def weights_scaled(m, q, k, v):
    return ((q @ k.mT).softmax(-1) * 2) @ v


def other_dim(m, q, k, v):
    return (q @ k.mT).softmax(1) @ v


def weights_on_the_right(m, q, k, v):
    return v.mT @ (k @ q.mT).softmax(-1)


def weights_and_themselves(m, q, k, v):
    weights = (q @ q.mT).softmax(-1)
    return weights @ weights


@pytest.mark.parametrize(
    ("forward", "inputs"),
    [
        (masked, [*ATTENTION, (10, 12)]),
        (scores_read_twice, ATTENTION),
        (scores_between, ATTENTION),
        (weights_read_twice, ATTENTION),
        (weights_scaled, ATTENTION),
        (other_dim, ATTENTION),
        (weights_on_the_right, ATTENTION),
        (weights_and_themselves, ATTENTION),
        (scores_by_scale, [(2, 3, 10, 16), (2, 3, 12, 16), (2, 3, 12, 16)]),  # a head of half a tile
        (scores_by_scale, [(2, 3, 10, 48), (2, 3, 12, 48), (2, 3, 12, 48)]),
        (scores_by_scale, [(2, 3, 10, 32), (2, 3, 12, 32), (2, 3, 12, 64)]),  # values of another size
        (scores_by_scale, [(2, 3, 10, 32), (1, 3, 12, 32), (1, 3, 12, 32)]),  # one set of keys for the whole batch
        (scores_by_scale, [(2, 3, 10, 32), (2, 1, 12, 32), (2, 1, 12, 32)]),
        (scores_by_scale, [(1, 3, 10, 32), (2, 3, 12, 32), (2, 3, 12, 32)]),
        (lambda m, q, k, v: (q @ k.mT).softmax(-1) @ v, [(3, 10, 32), (3, 12, 32), (3, 12, 32)]),  # no heads
    ],
)
def test_attention_is_not_fused(forward, inputs):
    assert leaves(fused_attention, Net(forward), *inputs)


# Heads ----------------------------------------------------------------------------------------------------------------------


def qkv(m, x):
    """Swin's: windows, tokens, and 3 x heads x size."""
    b, n, c = x.shape
    qkv = m.qkv(x).reshape(b, n, 3, 2, c // 2).permute(2, 0, 3, 1, 4)
    q, k, v = qkv[0], qkv[1], qkv[2]
    return (q @ k.transpose(-2, -1)).softmax(-1) @ v


def qkv_unbound(m, x):
    q, k, v = m.qkv(x).unflatten(-1, (3, 2, -1)).transpose(2, 1).permute(1, 0, 3, 2, 4).contiguous().unbind(0)
    return q + 2 * k - v


def qkv_out_of_order(m, x):
    b, n, c = x.shape
    packed = m.qkv(x)
    parts = packed.view(b, n, 3, 2, c // 2).permute(2, 0, 3, 1, 4)
    v, k, q = parts[-1], parts[1], parts[0]
    return q - k, v


PACKED = {"qkv": nn.Linear(64, 192)}


@pytest.mark.parametrize("forward", [qkv, qkv_unbound, qkv_out_of_order])
def test_heads_are_split_by_one_call(forward):
    calls = changes(split_heads, Net(forward, **PACKED), (3, 49, 64))
    assert calls[:2] == ["linear", "chunk"]
    assert not {"view", "reshape", "permute", "select", "unbind"} & set(calls)


def attended(m, x):
    """Torch's own attention, which works on [N, B, C]."""
    return m.a(x, x, x, need_weights=False)[0]


def attended_in_order(m, x):
    """Tokens before the batch outside of it too: the layer after attention stays as it is."""
    return m.a(x, x, x, need_weights=False)[0] + x


def heads_of_tokens(m, x):
    n, b, _ = x.shape
    q, k, v = m.qkv(x).unflatten(-1, (3, 64)).permute(2, 0, 1, 3).unbind(0)
    return tuple(part.reshape(n, b * 2, 32).transpose(0, 1).view(b, 2, n, 32) for part in (q, k, v))


@pytest.fixture
def without_native_attention():
    """A capture sees the calls of attention one by one."""
    torch.backends.mha.set_fastpath_enabled(False)
    yield
    torch.backends.mha.set_fastpath_enabled(True)


@pytest.mark.usefixtures("without_native_attention")
@pytest.mark.parametrize("shape", [(3, 49, 64), (1, 49, 64), (3, 1, 64), (3, 3, 64)])
@pytest.mark.parametrize("bias", [True, False])
def test_heads_of_torchs_own_attention_are_split_by_one_call(shape, bias):
    """Its views around the call and around the layer after it are gone, but for transposes and one that joins the heads."""
    attention = nn.MultiheadAttention(64, 2, bias=bias, batch_first=True)
    calls = changes(split_heads, Net(attended, a=attention), shape)
    expected = ["transpose", "linear", "transpose", "chunk", "scaled_dot_product_attention", "transpose", "reshape", "linear"]
    assert calls == expected


@pytest.mark.usefixtures("without_native_attention")
def test_heads_are_split_where_the_batch_stays_second():
    calls = changes(split_heads, Net(attended_in_order, a=nn.MultiheadAttention(64, 2)), (49, 3, 64))
    assert calls[:4] == ["linear", "transpose", "chunk", "scaled_dot_product_attention"]
    assert changes(split_heads, Net(heads_of_tokens, **PACKED), (49, 3, 64)) == ["linear", "transpose", "chunk"]


def one_part_by_tokens(m, x):
    n, b, _ = x.shape
    q, k, v = m.qkv(x).unflatten(-1, (3, 64)).permute(2, 0, 1, 3).unbind(0)
    q, k = (part.reshape(n, b * 2, 32).transpose(0, 1).view(b, 2, n, 32) for part in (q, k))
    return q, k, v.reshape(n, b, 2, 32).transpose(0, 2)


def other_heads(m, x):
    n, b, _ = x.shape
    q, k, v = m.qkv(x).unflatten(-1, (3, 64)).permute(2, 0, 1, 3).unbind(0)
    q, k = (part.reshape(n, b * 2, 32).transpose(0, 1).view(b, 2, n, 32) for part in (q, k))
    return q, k, v.reshape(n, b, 64).transpose(0, 1).view(b, n, 1, 64).transpose(1, 2)


def part_read_before_its_views(m, x):
    n, b, _ = x.shape
    q, k, v = m.qkv(x).unflatten(-1, (3, 64)).permute(2, 0, 1, 3).unbind(0)
    return *(part.reshape(n, b * 2, 32).transpose(0, 1).view(b, 2, n, 32) for part in (q, k, v)), v.exp()


def batch_before_heads_mixed_up(m, x):
    """The heads of two images next to each other: [N, H B, d] is not [N, B H, d]."""
    n, b, _ = x.shape
    q, k, v = m.qkv(x).unflatten(-1, (3, 64)).permute(2, 0, 1, 3).unbind(0)
    return tuple(part.reshape(n, 2 * b, 32).transpose(0, 1).view(2, b, n, 32).transpose(0, 1) for part in (q, k, v))


@pytest.mark.parametrize("forward", [one_part_by_tokens, other_heads, part_read_before_its_views, batch_before_heads_mixed_up])
def test_heads_of_tokens_are_not_split(forward):
    assert leaves(split_heads, Net(forward, **PACKED), (49, 3, 64))


def heads_before_parts(m, x):
    """Each head has its query, key and value next to each other."""
    b, n, _ = x.shape
    parts = m.qkv(x).view(b, n, 2, 3, 32).permute(3, 0, 2, 1, 4)
    return parts[0] + parts[1] - parts[2]


def tokens_before_heads(m, x):
    b, n, _ = x.shape
    parts = m.qkv(x).view(b, n, 3, 2, 32).permute(2, 0, 1, 3, 4)
    return parts[0] + parts[1] - parts[2]


def one_part_unread(m, x):
    b, n, _ = x.shape
    parts = m.qkv(x).view(b, n, 3, 2, 32).permute(2, 0, 3, 1, 4)
    return parts[0] + parts[1]


def whole_read_too(m, x):
    b, n, _ = x.shape
    parts = m.qkv(x).view(b, n, 3, 2, 32).permute(2, 0, 3, 1, 4)
    return parts[0] + parts[1] - parts[2], parts.abs()


def part_cut_twice(m, x):
    b, n, _ = x.shape
    parts = m.qkv(x).view(b, n, 3, 2, 32).permute(2, 0, 3, 1, 4)
    first = parts[0].exp()
    return first + parts[1] - parts[2] + parts[0]


def packed_read_too(m, x):
    b, n, _ = x.shape
    packed = m.qkv(x)
    parts = packed.view(b, n, 3, 2, 32).permute(2, 0, 3, 1, 4)
    return parts[0] + parts[1] - parts[2], packed.mean(-1)


def parts_along_another_dim(m, x):
    b, n, _ = x.shape
    parts = m.qkv(x).view(b, n, 3, 2, 32).permute(2, 0, 3, 1, 4)
    return parts[:, 0], parts[0]


@pytest.mark.parametrize(
    "forward",
    [
        heads_before_parts, tokens_before_heads, one_part_unread, whole_read_too, part_cut_twice, packed_read_too,
        parts_along_another_dim,
    ],
)  # fmt: skip
def test_heads_are_not_split(forward):
    assert leaves(split_heads, Net(forward, **PACKED), (3, 49, 64))


def test_heads_of_half_a_tile_are_not_split():
    """TTNN: "The head size must be a multiple of the tile width (32)"."""
    assert leaves(split_heads, Net(qkv, qkv=nn.Linear(32, 96)), (3, 49, 32))


# Features spread over pixels ------------------------------------------------------------------------------------------------


def spread(m, x):
    """Mochi's: [N, C', T, H, W] by a linear layer to [N, C, T, 2, H, 2, W, 2]."""
    return spread_out(m.proj(x.permute(0, 2, 3, 4, 1)))


def spread_out(y):
    y = y.permute(0, 4, 1, 2, 3)
    n, _, t, h, w = y.shape
    y = y.view(n, -1, 1, 2, 2, t, h, w).permute(0, 1, 5, 2, 6, 3, 7, 4).contiguous()
    return y.view(n, -1, t, 2 * h, 2 * w)


def test_features_that_spread_over_pixels_are_marked():
    model = Net(spread, proj=nn.Linear(6, 20))
    recording = recorded(model, (1, 6, 2, 3, 4))
    marked = depth_to_space(recording.trace)
    assert [step.args.get("ssinghal:features_inner") for step in marked.steps if "linear" in step.overload] == [4]
    assert changes(depth_to_space, model, (1, 6, 2, 3, 4)) == names(recording.trace)


@pytest.mark.parametrize(
    ("forward", "inputs"),
    [
        (
            lambda m, x: (y := m.proj(x.permute(0, 2, 3, 4, 1))).mean() + spread_out(y),
            [(1, 6, 2, 3, 4)],
        ),  # read in torch's order
        (lambda m, x: m.proj(x).view(2, 5, 5, 4), [(2, 5, 6)]),  # heads, not pixels
        (lambda m, x: m.proj(x).transpose(1, 2), [(2, 5, 6)]),
        (lambda m, x: m.proj(x), [(2, 5, 6)]),
        (lambda m, x, w: spread_out(F.linear(x.permute(0, 2, 3, 4, 1), w)), [(1, 6, 2, 3, 4), (20, 6)]),  # weights are computed
    ],
)
def test_features_are_not_marked(forward, inputs):
    assert leaves(depth_to_space, Net(forward, proj=nn.Linear(6, 20)), *inputs)


# Convolutions of volumes in chunks ------------------------------------------------------------------------------------------


def by_slices(m, x):
    return torch.cat([m.conv(x[:, :, 0:5]), m.conv(x[:, :, 3:6]), m.conv(x[:, :, 4:])], 2)


def forgets_the_whole(m, x):
    x = x + 1
    first, second = x[:, :, :5], x[:, :, 3:]
    del x
    first = m.conv(first)
    return torch.cat([first, m.conv(second)], 2)


CONV3D = {"conv": nn.Conv3d(2, 3, 3)}
VOLUME = (1, 2, 8, 5, 6)


@pytest.mark.parametrize("forward", [by_slices, forgets_the_whole])
def test_one_convolution_takes_the_place_of_several(forward):
    assert changes(whole_convolution, Net(forward, **CONV3D), VOLUME)[-1] == "conv3d"
    assert (
        changes(whole_convolution, Net(forward, conv=nn.Conv3d(2, 3, 3, stride=(1, 2, 1), padding=(0, 1, 1))), VOLUME)[-1]
        == "conv3d"
    )


def test_chunks_with_the_frames_before_them_are_joined():
    def forward(m, x):
        a, b = x.chunk(2, dim=2)
        return torch.cat([m.conv(a), m.conv(torch.cat([a[:, :, -2:], b], 2))], 2)

    assert changes(whole_convolution, Net(forward, **CONV3D), VOLUME) == ["conv3d"]


def test_a_window_in_time_of_a_dilated_kernel():
    """It reaches over dilation x (kernel - 1) = 4 frames."""
    conv = nn.Conv3d(2, 3, (3, 1, 1), dilation=(2, 1, 1))
    model = Net(lambda m, x: torch.cat([m.conv(x[:, :, :6]), m.conv(x[:, :, 2:])], 2), conv=conv)
    assert changes(whole_convolution, model, VOLUME) == ["conv3d"]
    wrong = Net(lambda m, x: torch.cat([m.conv(x[:, :, :6]), m.conv(x[:, :, 4:9])], 2), conv=conv)
    assert leaves(whole_convolution, wrong, (1, 2, 9, 5, 6))


@pytest.mark.parametrize(
    "forward",
    [
        lambda m, x: torch.cat([m.conv(x[:, :, :5]), m.conv(x[:, :, 4:])], 2),  # a window lost between them
        lambda m, x: torch.cat([m.conv(x[:, :, :5]), m.conv(x[:, :, 2:])], 2),  # one done twice
        lambda m, x: torch.cat([m.conv(x[:, :, 3:]), m.conv(x[:, :, :5])], 2),  # not in this order
        lambda m, x: torch.cat([m.conv(x[:, :, :5]), m.conv(x[:, :, 3:7])], 2),  # not to the end
        lambda m, x: torch.cat([m.conv(x[:, :, 1:5]), m.conv(x[:, :, 3:])], 2),  # not from the start
        lambda m, x: torch.cat([m.conv(x[:, :, :5]), m.other(x[:, :, 3:])], 2),
        lambda m, x: torch.cat([m.conv(x[:, :, :5]), m.conv(x.abs()[:, :, 3:])], 2),  # of another volume
        lambda m, x: torch.cat([m.conv(x[:, :, :5]), m.conv(x[:, :, 3:])], 3 - 3),  # joined as a batch
        lambda m, x: ((a := m.conv(x[:, :, :5])), torch.cat([a, m.conv(x[:, :, 3:])], 2)),  # a part is read too
        lambda m, x: torch.cat([m.padded(x[:, :, :5]), m.padded(x[:, :, 5:])], 2),
        lambda m, x: torch.cat([m.strided(x[:, :, :4]), m.strided(x[:, :, 3:])], 2),
        lambda m, x: torch.cat([m.conv(x[:, :, :5:1]), m.conv(x[:, :, 3:])[:, :, :1]], 2),
    ],
)
def test_convolutions_that_are_not_joined(forward):
    parts = {
        "other": nn.Conv3d(2, 3, 3),
        "padded": nn.Conv3d(2, 3, 3, padding=1),
        "strided": nn.Conv3d(2, 3, 3, stride=(2, 1, 1)),
    }
    assert leaves(whole_convolution, Net(forward, **CONV3D, **parts), VOLUME)


# Padding --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("conv", "pad", "shape"),
    [
        (nn.Conv2d(3, 4, 3), (1, 1, 1, 1), (2, 3, 6, 5)),
        (nn.Conv2d(3, 4, 3, stride=2, bias=False), (2, 2, 0, 0), (1, 3, 6, 5)),
        (nn.Conv2d(3, 4, 3), (2, 2), (1, 3, 6, 5)),  # columns alone
        (nn.Conv2d(4, 4, 3, groups=4), (0, 0, 1, 1), (1, 4, 6, 5)),
        (nn.Conv1d(3, 4, 3), (1, 1), (2, 3, 6)),
        (nn.Conv3d(3, 4, 3), (1, 1, 2, 2, 3, 3), (1, 3, 3, 4, 5)),
    ],
)
def test_zeros_are_padded_by_the_convolution(conv, pad, shape):
    model = Net(lambda m, x: m.conv(F.pad(x, pad)), conv=conv)
    assert changes(pad_into_convolution, model, shape) == [names_of(conv)]


def pad_then_forget(m, x):
    x = x + 1
    x = F.pad(x, (1, 1, 1, 1))
    return m.conv(x)


def test_what_the_pad_read_lives_until_the_convolution_reads_it():
    """By Python's lifetimes it died with the pad."""
    recording = recorded(Net(pad_then_forget, conv=nn.Conv2d(3, 4, 3)), (1, 3, 6, 5))
    add, conv = pad_into_convolution(recording.trace).steps
    assert (add.dead, conv.dead) == ((), add.results)
    assert changes(pad_into_convolution, Net(pad_then_forget, conv=nn.Conv2d(3, 4, 3)), (1, 3, 6, 5)) == ["add", "conv2d"]


@pytest.mark.parametrize(
    ("pad", "calls"),
    [
        ((1, 1, 2, 2, 0, 0), ["conv3d"]),
        ((1, 1, 1, 1, 2, 0), ["pad", "conv3d"]),  # frames are still put before the first
        ((1, 1, 1, 1, 1, 1), ["pad", "conv3d"]),
        ((0, 0, 0, 0, 2, 0), ["pad", "conv3d"]),
    ],
)
def test_edges_are_copied_by_the_convolution_of_volumes(pad, calls):
    model = Net(lambda m, x: m.conv(F.pad(x, pad, mode="replicate")), conv=nn.Conv3d(2, 3, 3))
    recording = recorded(model, (1, 2, 4, 5, 6))
    assert changes(pad_into_convolution, model, (1, 2, 4, 5, 6)) == calls
    assert pad_into_convolution(recording.trace).steps[-1].args["ssinghal:padding_mode"] == "replicate"


@pytest.mark.parametrize(
    ("forward", "inputs"),
    [
        (lambda m, x: m.conv(F.pad(x, (0, 1, 0, 1))), [(1, 3, 6, 6)]),  # one side
        (lambda m, x: m.conv(F.pad(x, (1, 1, 1, 1), value=2.0)), [(1, 3, 6, 6)]),
        (lambda m, x: m.conv(F.pad(x, (1, 1, 1, 1), mode="replicate")), [(1, 3, 6, 6)]),  # of maps TTNN has no such mode
        (lambda m, x: m.conv(F.pad(x, (1, 1, 1, 1), mode="reflect")), [(1, 3, 6, 6)]),
        (lambda m, x: m.conv(F.pad(x, (-1, -1, -1, -1))), [(1, 3, 8, 8)]),  # a cut
        (lambda m, x: m.conv(F.pad(x, (1, 1, 1, 1, 1, 1))), [(1, 1, 6, 6)]),  # channels too
        (lambda m, x: m.conv(y := F.pad(x, (1, 1, 1, 1))).mean() + y.mean(), [(1, 3, 6, 6)]),
        (lambda m, x: m.conv(F.pad(x, (1, 1))), [(3, 6, 6)]),  # without a batch the last dim alone is padded
        (lambda m, x: m.same(F.pad(x, (1, 1, 1, 1))), [(1, 3, 6, 6)]),  # pads already
        (lambda m, x: m.valid(F.pad(x, (1, 1, 1, 1))), [(1, 3, 6, 6)]),  # says so in words
        (lambda m, x: m.turned(F.pad(x, (1, 1, 1, 1))), [(1, 3, 6, 6)]),
        (lambda m, x: m.volume(F.pad(x, (0, 1, 1, 1, 0, 0), mode="replicate")), [(1, 2, 4, 5, 6)]),
        (lambda m, x, w: F.conv3d(F.pad(x, (1, 1, 1, 1, 0, 0), mode="replicate"), w), [(1, 2, 4, 5, 6), (3, 2, 3, 3, 3)]),
    ],
)
def test_padding_that_stays_where_it_is(forward, inputs):
    convs = {
        "conv": nn.Conv2d(3, 4, 3),
        "same": nn.Conv2d(3, 4, 3, padding=1),
        "valid": nn.Conv2d(3, 4, 3, padding="valid"),
        "turned": nn.ConvTranspose2d(3, 4, 3),
        "volume": nn.Conv3d(2, 3, 3),
    }
    assert leaves(pad_into_convolution, Net(forward, **convs), *inputs)


# All together ---------------------------------------------------------------------------------------------------------------


def test_rewrites_go_together_in_any_policy():
    """A convolution and its norm, heads, attention, and padding in one model."""

    def forward(m, x):
        x = m.norm(m.conv(F.pad(x, (1, 1, 1, 1)))).flatten(2).transpose(1, 2)
        return qkv(m, x)

    model = Net(forward, conv=nn.Conv2d(3, 64, 3), norm=nn.BatchNorm2d(64), qkv=nn.Linear(64, 192))
    assert set(CHANGES) == set(Rewrite) - {Rewrite.SOFTMAX_IN_PLACE}, "each rewrite of the trace is tried here"
    recording = recorded(model, (1, 3, 6, 6))
    for policy in POLICIES.values():
        for rewrite in Rewrite:
            policy = policy.with_rewrite(rewrite)
            after = rewritten(recording.trace, policy)
            keeps_lifetimes(recording.trace, after)
            assert close(interpreted(after, recording.given()), recording.results()), str(policy)
    assert names(after) == ["conv2d", "batch_norm", "flatten", "transpose", "linear", "chunk", "transpose", "transpose",
                            "scaled_dot_product_attention"]  # fmt: skip


def test_a_wrong_rewrite_is_found_out():
    """An interpreter that accepted every trace would prove nothing."""
    recording = recorded(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)), (1, 3, 6, 6))
    after = fold_batch_norm(recording.trace)
    parts = after.steps[0].args["ssinghal:folded"]
    parts[1], parts[2] = parts[2], parts[1]
    assert not close(interpreted(after, recording.given()), recording.results())
