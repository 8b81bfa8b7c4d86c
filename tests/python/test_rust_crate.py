"""The Rust crate `pycandle`: each of its operators gives what torch gives."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from rust_crates import CRATE, cargo, passes
from safetensors.torch import save_file

NAN = float("nan")


def t(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape).to(dtype)


def positive(*shape: int) -> torch.Tensor:
    return torch.rand(shape) + 0.1


def ints(low: int, high: int, *shape: int) -> torch.Tensor:
    return torch.randint(low, high, shape)


def with_nan() -> torch.Tensor:
    x = t(2, 3, 4)
    x[0, 1, 2] = NAN
    return x


def sdpa(**options) -> Callable:
    return lambda q, k, v, *mask: F.scaled_dot_product_attention(q, k, v, *mask, **options)


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, -1)
    return x * cos[:, None] + torch.cat([-second, first], -1) * sin[:, None]


def recurrent(kind: type, **options: int) -> tuple:
    layer = kind(3, 4, 2, bidirectional=True, batch_first=True, **options)
    h0, c0 = t(4, 2, options.get("proj_size", 4)), t(4, 2, 4)
    start = (h0, c0) if kind is torch.nn.LSTM else h0
    with torch.no_grad():
        parameters = [p.detach().clone() for p in layer.parameters()]
        return [t(2, 5, 3), h0, c0, *parameters], lambda x, *_: layer(x, start)[0]


Cases = dict[str, tuple[list[torch.Tensor], Callable]]


def elementwise() -> Cases:
    return {
        "add_of_i64_and_f32": ([ints(-5, 5, 2, 3), t(3)], torch.add),
        "add_of_f16_and_0d_f32": ([t(3, dtype=torch.float16), t()], torch.add),
        "add_of_other_ranks": ([t(4, 1, 3), t(2, 1)], torch.add),
        "add_of_i64_and_float": ([ints(-5, 5, 4)], lambda a: a + 1.5),
        "sub_from_number": ([t(4)], lambda a: 2 - a),
        "div_of_integers": ([ints(-9, 9, 6), ints(1, 5, 6)], torch.div),
        "div_by_three": ([t(50)], lambda a: a / 3.0),
        "pow": ([positive(3, 4), t(4)], torch.pow),
        "maximum_with_nan": ([with_nan(), t(4)], torch.maximum),
        "minimum_with_nan": ([with_nan(), t(4)], torch.minimum),
        "remainder": ([t(20) * 5, t(20)], torch.remainder),
        "remainder_of_integers": ([ints(-9, 9, 40), ints(0, 2, 40) * 8 - 4], torch.remainder),
        "fmod": ([t(20) * 5, t(20)], torch.fmod),
        "floor_divide": ([t(20) * 5, t(20)], torch.floor_divide),
        "floor_divide_of_integers": ([ints(-9, 9, 40), ints(0, 2, 40) * 8 - 4], torch.floor_divide),
        "less_than_broadcast": ([t(2, 1), t(3)], lambda a, b: (a < b).to(torch.uint8)),
        "where_with_number": (
            [ints(0, 2, 2, 3).to(torch.uint8), t(3)],
            lambda c, a: torch.where(c.bool(), a, 0.0),
        ),
        "clamp_keeps_nan": ([with_nan()], lambda a: a.clamp(-0.5, 0.5)),
        "clamp_min_of_integers": ([ints(-5, 5, 6)], lambda a: a.clamp(min=1)),
        "round_half_to_even": ([torch.tensor([0.5, 1.5, -2.5, 2.4])], torch.round),
        "erf": ([t(20)], torch.erf),
        "log1p": ([positive(20)], torch.log1p),
        "rsqrt": ([positive(20)], torch.rsqrt),
        "gelu": ([t(40)], F.gelu),
        "gelu_bf16": ([t(40, dtype=torch.bfloat16)], F.gelu),
        "gelu_tanh": ([t(40)], lambda a: F.gelu(a, approximate="tanh")),
        "mish": ([t(40)], F.mish),
        "hardswish": ([t(40) * 4], F.hardswish),
        "softplus": ([t(40)], lambda a: F.softplus(a, 2.0, 1.0)),
        "elu": ([t(40)], lambda a: F.elu(a, 0.7)),
        "glu": ([t(3, 6)], F.glu),
        "prelu": ([t(2, 3, 4), t(3)], F.prelu),
    }


def moving_and_reducing() -> Cases:
    return {
        "reflection_pad": ([t(2, 3, 4)], lambda a: F.pad(a, (2, 1), mode="reflect")),
        "replication_pad": ([t(2, 3, 4)], lambda a: F.pad(a, (2, 1), mode="replicate")),
        "circular_pad": ([t(2, 3, 4)], lambda a: F.pad(a, (2, 1), mode="circular")),
        "constant_pad": ([t(2, 3, 4)], lambda a: F.pad(a, (-1, 2, 1, 0), value=0.5)),
        "roll": ([t(2, 3, 4)], lambda a: a.roll((1, -2), (0, 2))),
        "flip": ([ints(0, 9, 2, 3, 4)], lambda a: a.flip(1, 2)),
        "tril": ([t(2, 4, 5)], lambda a: a.tril(1)),
        "triu": ([t(2, 4, 5)], lambda a: a.triu(-1)),
        "unfold": ([t(2, 3, 4)], lambda a: a.unfold(-1, 2, 1).contiguous()),
        "unfold_of_the_middle": ([t(2, 5, 4)], lambda a: a.unfold(1, 2, 1).contiguous()),
        "diagonal": ([t(3, 2, 4)], lambda a: a.diagonal(1, 0, 2).contiguous()),
        "repeat_interleave": ([t(2, 3)], lambda a: a.repeat_interleave(3, 1)),
        "slice_scatter": ([t(2, 3, 4), t(2, 3, 2)], lambda a, b: a.slice_scatter(b, 2, 1, 4, 2)),
        "index": ([t(3, 4, 5), ints(-3, 3, 2, 2), ints(0, 4, 2, 2)], lambda a, i, j: a[i, j]),
        "index_apart": ([t(3, 4, 5), ints(0, 3, 6), ints(0, 5, 6)], lambda a, i, j: a[i, :, j].contiguous()),
        "index_select": ([t(3, 4), ints(0, 4, 7)], lambda a, i: a.index_select(1, i)),
        "gather": ([t(2, 3, 4), ints(0, 4, 2, 2, 6)], lambda a, i: a.gather(2, i)),
        "scatter_reduce_mean": (
            [t(2, 4), ints(0, 4, 2, 6), t(2, 6)],
            lambda a, i, s: a.scatter_reduce(1, i, s, "mean"),
        ),
        "index_put": (
            [t(4, 3), t(5, 3), ints(0, 4, 5)],
            lambda a, s, i: a.index_put((i,), s, accumulate=True),
        ),
        "cumsum": ([t(2, 9)], lambda a: a.cumsum(1)),
        "cumsum_of_integers": ([ints(-9, 9, 2, 9)], lambda a: a.cumsum(1)),
        "sort": ([t(3, 7)], lambda a: a.sort(-1, descending=True).values),
        "argsort": ([ints(0, 3, 2, 9)], lambda a: torch.argsort(a, dim=1, stable=True)),
        "topk": ([t(3, 7)], lambda a: a.topk(2).values),
        "one_hot": ([ints(0, 5, 2, 3)], lambda a: F.one_hot(a, 5)),
        "amax_with_nan": ([with_nan()], lambda a: a.amax((0, 2))),
        "sum_of_bf16": ([t(4, 300, dtype=torch.bfloat16)], lambda a: a.sum(-1, keepdim=True)),
        "argmax": ([t(3, 7)], lambda a: a.argmax(1)),
        "any": ([ints(0, 2, 5, 3).to(torch.uint8)], lambda a: a.bool().any(1).to(torch.uint8)),
        "all": ([ints(0, 2, 5, 3).to(torch.uint8)], lambda a: a.bool().all(1).to(torch.uint8)),
        "var": ([t(3, 7)], lambda a: a.var(1)),
        "vector_norm": ([t(3, 7)], lambda a: torch.linalg.vector_norm(a, 3, 1, keepdim=True)),
        "logsumexp": ([t(3, 7) * 30], lambda a: a.logsumexp(1)),
    }


def layers() -> Cases:
    qkv = [t(2, 4, 5, 6), t(2, 4, 5, 6), t(2, 4, 5, 6)]
    x = t(2, 4, 7, 6)
    return {
        "softmax": ([t(3, 7, 2)], lambda a: a.softmax(1)),
        "log_softmax_f16": ([t(3, 7, dtype=torch.float16)], lambda a: a.log_softmax(-1)),
        "layer_norm": ([t(2, 3, 4), t(3, 4), t(3, 4)], lambda a, w, b: F.layer_norm(a, (3, 4), w, b, 1e-3)),
        "rms_norm": ([t(2, 4), t(4)], lambda a, w: F.rms_norm(a, (4,), w, 1e-3)),
        "group_norm": ([t(2, 4, 5), t(4), t(4)], lambda a, w, b: F.group_norm(a, 2, w, b, 1e-3)),
        "batch_norm": (
            [t(2, 3, 5), t(3), positive(3), t(3), t(3)],
            lambda a, *p: F.batch_norm(a, *p, eps=1e-3),
        ),
        "max_pool": ([x], lambda a: F.max_pool2d(a, (3, 2), (2, 1), (1, 1), (1, 2))),
        "max_pool_ceil": ([x], lambda a: F.max_pool2d(a, 2, 2, ceil_mode=True)),
        "avg_pool": ([x], lambda a: F.avg_pool2d(a, 3, 2, 1, ceil_mode=True)),
        "avg_pool_without_padding": ([x], lambda a: F.avg_pool2d(a, 3, 2, 1, count_include_pad=False)),
        "adaptive_avg_pool": ([x], lambda a: F.adaptive_avg_pool2d(a, (3, 2))),
        "adaptive_max_pool": ([x], lambda a: F.adaptive_max_pool2d(a, (3, 2))),
        "matmul_broadcast": ([t(3, 1, 4, 5), t(2, 5, 6)], torch.matmul),
        "matmul_of_rank_5": ([t(2, 1, 3, 4, 5), t(2, 2, 1, 5, 6)], torch.matmul),
        "matmul_vector": ([t(3, 4, 5), t(5)], torch.matmul),
        "matmul_of_integers": ([ints(-5, 5, 2, 3, 4), ints(-5, 5, 2, 4, 2)], torch.matmul),
        "linear": ([t(2, 1, 2, 3, 4), t(5, 4), t(5)], F.linear),
        "tensordot": ([t(2, 3, 4), t(4, 2, 5)], lambda a, b: torch.tensordot(a, b, ([2, 0], [0, 1]))),
        "conv1d": ([t(2, 3, 9), t(4, 3, 3), t(4)], lambda a, w, b: F.conv1d(a, w, b, 2, 1)),
        "conv2d": (
            [t(2, 3, 9, 8), t(4, 3, 3, 2), t(4)],
            lambda a, w, b: F.conv2d(a, w, b, (2, 1), (1, 2), (1, 2)),
        ),
        "conv2d_same": (
            [t(2, 4, 9, 8), t(6, 2, 3, 2)],
            lambda a, w: F.conv2d(a, w, padding="same", groups=2),
        ),
        "conv2d_unbatched": ([t(3, 9, 8), t(4, 3, 3, 3)], F.conv2d),
        "conv3d": (
            [t(2, 3, 5, 6, 4), t(4, 3, 3, 2, 2)],
            lambda a, w: F.conv3d(a, w, None, (2, 1, 1), (1, 1, 0)),
        ),
        "conv_transpose1d": ([t(2, 3, 5), t(3, 4, 3)], lambda a, w: F.conv_transpose1d(a, w, None, 2, 1, 1)),
        "conv_transpose2d": (
            [t(2, 4, 3, 4), t(4, 3, 2, 3)],
            lambda a, w: F.conv_transpose2d(a, w, None, (2, 3), groups=2, dilation=(2, 1)),
        ),
        "attention": (qkv, sdpa()),
        "attention_causal": (qkv, sdpa(is_causal=True, scale=0.3)),
        "attention_grouped": ([qkv[0], t(2, 2, 5, 6), t(2, 2, 5, 6)], sdpa(enable_gqa=True)),
        "attention_masked": (
            [*qkv, torch.tril(torch.ones(5, 5), -1).to(torch.uint8)],
            lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m.bool()),
        ),
        "attention_biased": ([*qkv, t(4, 5, 5)], sdpa()),
        "rotary": ([t(2, 3, 5, 4), t(2, 5, 4), t(2, 5, 4)], rotate),
        "lstm": recurrent(torch.nn.LSTM),
        "lstm_projected": recurrent(torch.nn.LSTM, proj_size=2),
        "gru": recurrent(torch.nn.GRU),
    }


@pytest.mark.full
@pytest.mark.parametrize("feature", ["cuda", "flash-attn", "metal"])
def test_what_a_gpu_needs_is_in_the_lock_file(feature):
    """Not built: there is no nvcc here."""
    needs = cargo(CRATE, "tree", "--locked", "--features", feature, "--edges", "normal", "--target", "all")
    passes(needs)
    crate = {"cuda": "cudarc", "flash-attn": "candle-flash-attn", "metal": "candle-metal-kernels"}[feature]
    assert crate in needs.stdout


@pytest.mark.full
def test_every_operator_gives_what_torch_gives(tmp_path):
    torch.manual_seed(0)
    with torch.no_grad():
        for name, (inputs, function) in (elementwise() | moving_and_reducing() | layers()).items():
            tensors = {f"in{n}": x.contiguous() for n, x in enumerate(inputs)}
            save_file(
                {**{k: v.clone() for k, v in tensors.items()}, "out": function(*inputs).contiguous()},
                tmp_path / f"{name}.safetensors",
            )
    passes(cargo(CRATE, "test", "--release", "--locked", "--test", "goldens", PYCANDLE_GOLDENS=str(tmp_path)))


@pytest.mark.full
def test_the_cache_of_a_decode_step_keeps_its_rows_in_order():
    passes(cargo(CRATE, "test", "--release", "--locked", "--test", "cache"))
