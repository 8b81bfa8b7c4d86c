"""The overloads that published models are made of, as people write them, record, run and verify.

The list is what torch.export found before any decomposition in 509 models and modules of torchvision, timm,
transformers, torchaudio and torch.nn: in-place operators, views and factories included. Each has an expression in the
words of test_catalogue.py that must really use it; several share a model, each in a module of its own.
"""

from __future__ import annotations

import json
import warnings

import pytest
import torch
import torchaudio
from test_catalogue import Giver, Maker, evaluate, tensors_in
from torch import nn

from pycandle import GoldenRecorder

LAYERS = {  # modules that an expression may call
    "batch_norm": nn.BatchNorm2d(3).eval(),
    "lstm": nn.LSTM(4, 5, batch_first=True),
    "gru": nn.GRU(4, 5),
    "rnn": nn.RNN(4, 5, nonlinearity="relu"),
    "lstm_cell": nn.LSTMCell(4, 5),
    "gru_cell": nn.GRUCell(4, 5),
    "rnn_cell": nn.RNNCell(4, 5),
    "weight_norm": torch.nn.utils.weight_norm(nn.Linear(4, 3)),
    "fractional2d": nn.FractionalMaxPool2d(2, output_size=3),
    "fractional3d": nn.FractionalMaxPool3d(2, output_size=3),
    "dropout": nn.Dropout().eval(),
    "dropout_": nn.Dropout(inplace=True).eval(),
}


def _autocast(x):
    with torch.autocast("cpu", enabled=False):
        return x.float() @ x.float().T


FUNCTIONS = {"autocast": _autocast, "fresh": lambda x: x * torch.tensor([1.0, -2.0, 3.0])}

# overload, without ".default" -> what uses it
EXPRESSIONS = {
    "linear": "F.linear(t(2, 4), t(3, 4), t(3))",
    "add.Tensor": "t(2, 3) + t(3)",
    "conv2d": "F.conv2d(t(1, 3, 6, 6), t(4, 3, 3, 3), t(4), padding=1)",
    "mul.Tensor": "t(2, 3) * t(2, 1)",
    "dropout": "layer('dropout')(t(2, 3))",
    "flatten.using_ints": "torch.flatten(t(2, 3, 4), 1)",
    "transpose.int": "t(2, 3).transpose(0, 1)",
    "reshape": "t(2, 6).reshape(3, -1)",
    "view": "t(2, 6).view(3, 4)",
    "unsqueeze": "t(2, 3).unsqueeze(-1)",
    "batch_norm": "layer('batch_norm')(t(2, 3, 4, 4))",
    "adaptive_avg_pool2d": "F.adaptive_avg_pool2d(t(1, 2, 7, 5), (3, 2))",
    "layer_norm": "F.layer_norm(t(2, 5), (5,), t(5), t(5))",
    "py.operator.getitem": "torch.chunk(t(4, 3), 2)[1]",
    "gelu": "F.gelu(t(2, 3))",
    "cat": "torch.cat([t(2, 3), t(1, 3)])",
    "relu_": "t(2, 3).clone().relu_()",
    "permute": "t(2, 3, 4).permute(2, 0, 1)",
    "scaled_dot_product_attention": "F.scaled_dot_product_attention(t(1, 2, 5, 4), t(1, 2, 5, 4), t(1, 2, 5, 4), is_causal=True)",
    "slice.Tensor": "t(5, 4)[1:4:2]",
    "mean.dim": "t(3, 4).mean(-1, keepdim=True)",
    "pad": "F.pad(t(2, 3), (1, 2))",
    "_assert_tensor_metadata": "t(2, 3).to(torch.float64)",
    "contiguous": "t(2, 3).t().contiguous()",
    "expand": "t(1, 3).expand(4, -1)",
    "softmax.int": "torch.softmax(t(3, 4), -1)",
    "add_.Tensor": "t(2, 3).clone().add_(t(3), alpha=2)",
    "arange": "t(5) + torch.arange(5)",
    "to.dtype": "t(2, 3).to(torch.float64)",
    "max_pool2d": "F.max_pool2d(t(1, 2, 6, 6), 2)",
    "relu": "F.relu(t(2, 3))",
    "sigmoid": "torch.sigmoid(t(2, 3))",
    "sub.Tensor": "t(2, 3) - t(3)",
    "index.Tensor": "t(5, 3)[i(4, high=4)]",
    "select.int": "t(3, 4)[:, 1]",
    "matmul": "t(2, 3, 4) @ t(4, 5)",
    "alias": "torch.ops.aten.alias(t(2, 3)) + 1",
    "embedding": "F.embedding(i(2, 3), t(10, 4))",
    "to.dtype_layout": "t(2, 3).to('cpu') * 2",
    "div.Tensor": "t(2, 3) / t(3, low=1, high=2)",
    "squeeze.dim": "t(2, 1, 3).squeeze(1)",
    "pow.Tensor_Scalar": "t(2, 3) ** 3",
    "to.device": "t(2, 3).to('cpu', torch.float64)",
    "chunk": "torch.chunk(t(5, 2), 2)",
    "unbind.int": "t(3, 2).unbind(0)",
    "conv1d": "F.conv1d(t(1, 3, 8), t(4, 3, 3))",
    "__and__.Tensor": "m(2, 3) & m(2, 3)",
    "neg": "-t(2, 3)",
    "new_ones": "t(3).new_ones((2, 3)) * t(2, 3)",
    "zeros": "torch.zeros(2, 3) + t(3)",
    "avg_pool2d": "F.avg_pool2d(t(1, 2, 6, 6), 3, 2, 1)",
    "le.Tensor": "t(2, 3) <= t(3)",
    "abs": "t(2, 3).abs()",
    "sin": "t(2, 3).sin()",
    "cos": "t(2, 3).cos()",
    "silu": "F.silu(t(2, 3))",
    "sum.dim_IntList": "t(2, 3).sum(1)",
    "split_with_sizes": "t(5, 2).split([2, 3])",
    "group_norm": "F.group_norm(t(2, 4, 3), 2, t(4), t(4))",
    "rsqrt": "t(2, 3, low=1, high=2).rsqrt()",
    "ge.Scalar": "t(2, 3) >= 0.1",
    "lift_fresh_copy": "call('fresh')(t(2, 3))",
    "dropout_": "layer('dropout_')(t(2, 3).clone())",
    "stack": "torch.stack([t(2, 3), t(2, 3)], 1)",
    "masked_fill.Scalar": "t(2, 3).masked_fill(m(2, 3), -2.0)",
    "silu_": "F.silu(t(2, 3).clone(), inplace=True)",
    "cumsum": "t(2, 5).cumsum(-1)",
    "tanh": "t(2, 3).tanh()",
    "repeat": "t(2, 3).repeat(2, 1)",
    "exp": "t(2, 3).exp()",
    "ne.Scalar": "i(2, 3, high=2) != 1",
    "unflatten.int": "t(2, 6).unflatten(1, (2, 3))",
    "zeros_like": "torch.zeros_like(t(2, 3)) + t(3)",
    "_weight_norm": "layer('weight_norm')(t(2, 4))",
    "roll": "t(4, 3).roll((1, -1), (0, 1))",
    "eq.Scalar": "i(2, 3, high=2) == 1",
    "rsub.Scalar": "1 - t(2, 3)",
    "arange.start": "t(3) * torch.arange(2, 5)",
    "expand_as": "t(1, 3).expand_as(t(2, 3))",
    "clamp": "t(2, 3).clamp(-0.5, 0.5)",
    "type_as": "i(2, 3).type_as(t(1))",
    "where.ScalarOther": "torch.where(m(2, 3), t(2, 3), -1.5)",
    "stft": "torch.view_as_real(torch.stft(t(2, 64), 16, window=t(16), return_complex=True))",
    "linalg_vector_norm": "torch.linalg.vector_norm(t(2, 5), dim=-1)",
    "conv3d": "F.conv3d(t(1, 2, 4, 4, 4), t(3, 2, 3, 3, 3))",
    "upsample_bilinear2d.vec": "F.interpolate(t(1, 2, 4, 5), scale_factor=2, mode='bilinear', align_corners=False)",
    "hardsigmoid": "F.hardsigmoid(t(2, 3))",
    "clamp_min": "torch.clamp_min(t(2, 3), 0.1)",
    "new_zeros": "t(3).new_zeros((2, 3)) + t(3)",
    "fill_.Tensor": "t(2, 3).clone().fill_(t()) + t(3)",
    "bmm": "torch.bmm(t(2, 3, 4), t(2, 4, 5))",
    "adaptive_avg_pool3d": "F.adaptive_avg_pool3d(t(1, 2, 4, 5, 6), 2)",
    "einsum": "torch.einsum('bij,bjk->bik', t(2, 3, 4), t(2, 4, 2))",
    "instance_norm": "F.instance_norm(t(2, 3, 5), weight=t(3), bias=t(3))",
    "div_.Tensor": "t(2, 3).clone().div_(t(3, low=1, high=2))",
    "conv_transpose2d.input": "F.conv_transpose2d(t(1, 3, 4, 4), t(3, 2, 3, 3), stride=2)",
    "sign": "t(2, 3).sign()",
    "lt.Scalar": "t(2, 3) < 0.2",
    "index_put_": "t(5, 3).clone().index_put_((i(2, high=4),), t(3))",
    "conv_transpose1d": "F.conv_transpose1d(t(1, 3, 5), t(3, 2, 4), stride=2)",
    "broadcast_tensors": "torch.broadcast_tensors(t(2, 1), t(3))",
    "hardswish_": "F.hardswish(t(2, 3).clone(), inplace=True)",
    "detach_": "call('fresh')(t(2, 3))",
    "split.Tensor": "t(5, 2).split(2)",
    "hardtanh": "F.hardtanh(t(2, 3), -0.4, 0.6)",
    "lstm.input": "layer('lstm')(t(2, 6, 4))",
    "gt.Scalar": "t(2, 3) > 0.3",
    "topk": "t(2, 6).topk(3)",
    "sort": "t(2, 6).sort(-1)",
    "floor_divide": "i(2, 3, low=-9) // 4",
    "histc": "torch.histc(t(20), 5, -1, 1)",
    "transformers.grouped_mm_fallback": "torch.ops.transformers.grouped_mm_fallback(t(6, 4), t(3, 4, 5), torch.tensor([2, 3, 6], dtype=torch.int32))",
    "empty_like": "torch.empty_like(t(2, 3)).fill_(2.0) + t(3)",
    "istft": "torch.istft(torch.stft(t(2, 64), 16, window=torch.hann_window(16), return_complex=True), 16, window=torch.hann_window(16))",
    "repeat_interleave.self_int": "t(2, 3).repeat_interleave(2, 1)",
    "avg_pool3d": "F.avg_pool3d(t(1, 2, 4, 4, 4), 2)",
    "copy_": "torch.zeros(2, 3).copy_(t(3)) * t(2, 3)",
    "div.Tensor_mode": "torch.div(t(2, 3), t(3, low=0.1, high=0.5), rounding_mode='floor')",
    "gt.Tensor": "t(2, 3) > t(3)",
    "gather": "t(3, 4).gather(1, i(3, 2, high=3))",
    "where.self": "torch.where(m(2, 3), t(2, 3), t(3))",
    "log": "t(2, 3, low=0.5, high=2).log()",
    "softplus": "F.softplus(t(2, 3))",
    "max_pool3d": "F.max_pool3d(t(1, 2, 4, 4, 4), 2)",
    "meshgrid.indexing": "torch.meshgrid(t(3), t(4), indexing='xy')",
    "detach": "t(2, 3).detach() * 2",
    "linspace": "torch.linspace(-1, 1, 5) * t(5)",
    "hardswish": "F.hardswish(t(2, 3))",
    "amax": "t(2, 3).amax(1)",
    "avg_pool1d": "F.avg_pool1d(t(1, 2, 7), 3)",
    "full_like": "torch.full_like(t(2, 3), 0.5) + t(3)",
    "min.other": "torch.min(t(2, 3), t(3))",
    "t": "t(2, 3).t()",
    "index_select": "t(5, 3).index_select(0, i(2, high=4))",
    "log_softmax.int": "F.log_softmax(t(2, 5), -1)",
    "glu": "F.glu(t(2, 6))",
    "real": "torch.real(t(2, 3, dtype=torch.complex64))",
    "clone": "t(2, 3).clone()",
    "sqrt": "t(2, 3, low=0.1, high=2).sqrt()",
    "conv2d.padding": "F.conv2d(t(1, 2, 5, 5), t(3, 2, 3, 3), padding='same')",
    "upsample_nearest2d.vec": "F.interpolate(t(1, 2, 3, 4), scale_factor=2)",
    "bitwise_not": "~m(2, 3)",
    "pow.Scalar": "2 ** t(2, 3)",
    "ceil": "t(2, 3).ceil()",
    "masked_fill_.Scalar": "t(2, 3).clone().masked_fill_(m(2, 3), 0.5)",
    "ones": "torch.ones(2, 3) * t(3)",
    "eye": "torch.eye(3) + t(3)",
    "prelu": "F.prelu(t(2, 3, 2), t(3))",
    "gru.input": "layer('gru')(t(6, 2, 4))",
    "max.other": "torch.max(t(2, 3), t(3))",
    "log10": "t(2, 3, low=0.5, high=2).log10()",
    "conv_transpose3d.input": "F.conv_transpose3d(t(1, 2, 3, 3, 3), t(2, 2, 2, 2, 2))",
    "log_sigmoid": "F.logsigmoid(t(2, 3))",
    "zero_": "t(2, 3).clone().zero_() + t(3)",
    "im2col": "F.unfold(t(1, 2, 5, 5), 3)",
    "rms_norm": "F.rms_norm(t(2, 5), (5,), t(5))",
    "reshape_as": "t(2, 6).reshape_as(t(3, 4))",
    "rand": "torch.rand(2, 3) + t(3)",
    "adaptive_avg_pool1d": "F.adaptive_avg_pool1d(t(1, 2, 7), 3)",
    "rnn_relu.input": "layer('rnn')(t(6, 2, 4))",
    "hann_window": "torch.hann_window(8) * t(8)",
    "view_as_real": "torch.view_as_real(t(2, 3, dtype=torch.complex64))",
    "std.dim": "t(2, 5).std(-1)",
    "view_as_complex": "torch.view_as_complex(t(2, 3, 2))",
    "sub_.Tensor": "t(2, 3).clone().sub_(t(3))",
    "tensor_split.indices": "torch.tensor_split(t(7, 2), (2, 5))",
    "grid_sampler": "F.grid_sample(t(1, 2, 4, 4), t(1, 3, 3, 2, low=-1, high=1), align_corners=False)",
    "unfold": "t(2, 8).unfold(1, 3, 2)",
    "upsample_bicubic2d.vec": "F.interpolate(t(1, 2, 4, 4), scale_factor=2, mode='bicubic', align_corners=False)",
    "tile": "torch.tile(t(2, 3), (2, 2))",
    "max.dim": "t(3, 4).max(1)",
    "full": "torch.full((2, 3), 0.7) * t(3)",
    "le.Scalar": "t(2, 3) <= 0.1",
    "diff": "torch.diff(t(2, 5))",
    "eq.Tensor": "i(2, 3, high=1) == i(3, high=1)",
    "tril": "t(4, 4).tril()",
    "square": "t(2, 3).square()",
    "where.ScalarSelf": "torch.where(m(2, 3), 1.5, t(2, 3))",
    "empty.memory_format": "torch.empty(2, 3).fill_(1.0) + t(3)",
    "mul_.Tensor": "t(2, 3).clone().mul_(t(3))",
    "arange.start_step": "torch.arange(1, 9, 2) * t(4)",
    "remainder.Scalar": "i(2, 3, low=-9) % 4",
    "angle": "torch.angle(t(2, 3, dtype=torch.complex64))",
    "round": "(t(2, 3) * 3).round()",
    "polar": "torch.view_as_real(torch.polar(t(2, 3, low=0.5, high=1), t(2, 3)))",
    "adaptive_max_pool1d": "F.adaptive_max_pool1d(t(1, 2, 7), 3, return_indices=True)",
    "adaptive_max_pool2d": "F.adaptive_max_pool2d(t(1, 2, 7, 5), 3, return_indices=True)",
    "adaptive_max_pool3d": "F.adaptive_max_pool3d(t(1, 2, 5, 4, 6), 2, return_indices=True)",
    "celu": "F.celu(t(2, 3), 0.7)",
    "conv1d.padding": "F.conv1d(t(1, 2, 7), t(3, 2, 4), padding='same')",
    "conv3d.padding": "F.conv3d(t(1, 2, 4, 4, 4), t(2, 2, 3, 3, 3), padding='valid')",
    "cosine_embedding_loss": "F.cosine_embedding_loss(t(4, 3), t(4, 3), torch.ones(4))",
    "elu": "F.elu(t(2, 3))",
    "l1_loss": "F.l1_loss(t(2, 3), t(2, 3))",
    "smooth_l1_loss": "F.smooth_l1_loss(t(2, 3), t(2, 3))",
    "bilinear": "F.bilinear(t(2, 3), t(2, 4), t(5, 3, 4), t(5))",
    "max_pool1d": "F.max_pool1d(t(1, 2, 8), 2)",
    "kl_div": "F.kl_div(t(2, 3, low=-3, high=0), t(2, 3, low=0.1, high=1))",
    "mse_loss": "F.mse_loss(t(2, 3), t(2, 3))",
    "margin_ranking_loss": "F.margin_ranking_loss(t(4), t(4), torch.ones(4), margin=0.5)",
    "multilabel_margin_loss": "F.multilabel_margin_loss(t(2, 4), torch.tensor([[1, 2, -1, 0], [3, -1, 0, 1]]))",
    "multi_margin_loss": "F.multi_margin_loss(t(3, 4), i(3, high=3))",
    "soft_margin_loss": "F.soft_margin_loss(t(2, 3), torch.ones(2, 3))",
    "nll_loss_nd": "F.nll_loss(t(3, 4), i(3, high=3))",
    "poisson_nll_loss": "F.poisson_nll_loss(t(2, 3), t(2, 3, low=0, high=4))",
    "hinge_embedding_loss": "F.hinge_embedding_loss(t(4), torch.ones(4))",
    "huber_loss": "F.huber_loss(t(2, 3), t(2, 3), delta=0.5)",
    "binary_cross_entropy": "F.binary_cross_entropy(t(2, 3, low=0.1, high=0.9), t(2, 3, low=0, high=1))",
    "binary_cross_entropy_with_logits": "F.binary_cross_entropy_with_logits(t(2, 3), t(2, 3, low=0, high=1))",
    "cross_entropy_loss": "F.cross_entropy(t(3, 4), i(3, high=3))",
    "hardshrink": "F.hardshrink(t(2, 3))",
    "leaky_relu": "F.leaky_relu(t(2, 3))",
    "rnn_tanh_cell": "layer('rnn_cell')(t(2, 4))",
    "gru_cell": "layer('gru_cell')(t(2, 4))",
    "lstm_cell": "layer('lstm_cell')(t(2, 4))",
    "softshrink": "F.softshrink(t(2, 3))",
    "threshold": "F.threshold(t(2, 3), 0.1, -1.0)",
    "mish": "F.mish(t(2, 3))",
    "selu": "F.selu(t(2, 3))",
    "fractional_max_pool2d": "layer('fractional2d')(t(1, 2, 7, 7))",
    "fractional_max_pool3d": "layer('fractional3d')(t(1, 2, 7, 7, 7))",
    "swapaxes": "t(2, 3).swapaxes(0, 1)",
    "hardtanh_": "F.hardtanh(t(2, 3).clone(), inplace=True)",
    "addcmul": "torch.addcmul(t(2, 3), t(2, 3), t(3), value=0.5)",
    "HOP.wrap_with_autocast": "call('autocast')(t(3, 4))",
    "_upsample_bicubic2d_aa.vec": "F.interpolate(t(1, 2, 8, 8), size=(4, 5), mode='bicubic', antialias=True)",
    "leaky_relu_": "F.leaky_relu(t(2, 3).clone(), 0.2, inplace=True)",
    "col2im": "F.fold(t(1, 18, 9), (5, 5), 3)",
    "addmm": "torch.addmm(t(3), t(2, 4), t(4, 3))",
    "numpy_T": "t(2, 3).T",
    "pow.Tensor_Tensor": "t(2, 3, low=0.5, high=2) ** t(3)",
    "baddbmm": "torch.baddbmm(t(2, 3, 5), t(2, 3, 4), t(2, 4, 5), beta=0.5)",
    "reciprocal": "t(2, 3, low=0.5, high=2).reciprocal()",
    "argmax": "t(3, 4).argmax(-1)",
    "maximum": "torch.maximum(t(2, 3), t(3))",
    "bernoulli.p": "torch.bernoulli(t(20), 0.3)",
    "triu": "t(4, 4).triu(1)",
    "new_empty": "t(3).new_empty((2, 3)).fill_(0.5) + t(3)",
    "scatter_.value": "t(3, 4).clone().scatter_(1, i(3, 1, high=3), 2.5)",
    "multinomial": "torch.multinomial(t(3, 5, low=0.1, high=1), 2)",
    "ge.Tensor": "t(2, 3) >= t(3)",
    "log1p": "t(2, 3, low=0, high=1).log1p()",
    "flip": "t(3, 4).flip(0, 1)",
    "torchaudio._lfilter_core_loop": "torchaudio.functional.lfilter(t(1, 16), t(3, low=0.1, high=0.4), t(3))",
    "count_nonzero": "torch.count_nonzero(i(3, 4, high=1), 1)",
    "logical_and": "torch.logical_and(m(2, 3), m(2, 3))",
    "mean": "t(2, 3).mean()",
    "sum": "t(2, 3).sum()",
}
PER_MODEL = 25


class Use(nn.Module):
    """One expression; it hands out the tensors it is given."""

    def __init__(self, name: str):
        super().__init__()
        self.expression = EXPRESSIONS[name]
        self.layers = nn.ModuleDict({key: LAYERS[key] for key in LAYERS if f"'{key}'" in self.expression})

    def forward(self, *tensors):
        names = {"layer": self.layers.__getitem__, "call": FUNCTIONS.__getitem__, "torchaudio": torchaudio}
        return tensors_in(evaluate(self.expression, Giver(tensors), **names))


class Uses(nn.Module):
    def __init__(self, names: list[str]):
        super().__init__()
        self.uses = nn.ModuleList(Use(name) for name in names)
        self.counts = [len(inputs_of(name)) for name in names]

    def forward(self, tensors):
        outputs, at = [], 0
        for use, count in zip(self.uses, self.counts, strict=True):
            outputs.append(use(*tensors[at : at + count]))
            at += count
        return outputs


def inputs_of(name: str) -> list[torch.Tensor]:
    maker = Maker(len(name), torch.float32)
    names = {"layer": LAYERS.__getitem__, "call": FUNCTIONS.__getitem__, "torchaudio": torchaudio}
    with torch.no_grad():
        evaluate(EXPRESSIONS[name], maker, **names)
    return maker.made


def raw_overloads(model: nn.Module, tensors: list[torch.Tensor]) -> set[str]:
    """What torch.export alone writes down, as the keys of EXPRESSIONS spell it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported = torch.export.export(model, (tensors,), strict=False)
    found = set()
    for module in exported.graph_module.modules():
        if not isinstance(module, torch.fx.GraphModule):
            continue
        for node in module.graph.nodes:
            if node.op == "call_function":
                found.add(_spelled(node.target))
    return found


def _spelled(target) -> str:
    if isinstance(target, torch._ops.OpOverload):
        return str(target).removeprefix("aten.").removesuffix(".default")
    if isinstance(target, torch._ops.HigherOrderOperator):
        return f"HOP.{target.name()}"
    return f"py.{target.__module__.lstrip('_')}.{target.__name__}"


def _groups() -> list[list[str]]:
    names = list(EXPRESSIONS)
    return [names[at : at + PER_MODEL] for at in range(0, len(names), PER_MODEL)]


@pytest.mark.parametrize("names", _groups(), ids=lambda names: f"from-{names[0]}")
def test_what_published_models_use_records_and_verifies(names: list[str], tmp_path, pycandle) -> None:
    torch.manual_seed(0)
    model = Uses(names).eval()
    tensors = [tensor for name in names for tensor in inputs_of(name)]
    unused = set(names) - raw_overloads(model, tensors)
    assert not unused, f"not used by its own expression: {', '.join(sorted(unused))}"
    recorder = GoldenRecorder(tmp_path, dynamic=False, progress=lambda text: None)
    recorder.record(model, tensors)
    recorder.save("model")
    result = pycandle.json("verify", tmp_path)
    assert result["status"] == "passed", json.dumps(result)[:4000]


def test_the_list_is_whole() -> None:
    assert len(EXPRESSIONS) == 248
