"""nn.LSTM, nn.GRU and nn.RNN as one operator each.

Traced through, they unroll over time and lose the dynamic sequence. Recording therefore puts a proxy where
`torch.nn.modules.rnn` reaches its kernels; the proxy calls operators of our own that know their result shapes.
"""

from __future__ import annotations

import contextlib

import torch
import torch.nn.utils.rnn as rnn_utils
from torch import nn

from ..torch_compat import recurrent_kernels, recurrent_kernels_replaced

_SETTINGS = "bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first"
_library = torch.library.Library("pycandle", "FRAGMENT")
_ONE_STATE = ("gru", "rnn_tanh", "rnn_relu")


def _define() -> None:
    lengths = "Tensor input, Tensor lengths"
    _library.define(
        f"padded_lstm({lengths}, Tensor[] hx, Tensor[] params, {_SETTINGS}) -> (Tensor, Tensor, Tensor)"
    )
    _library.impl("padded_lstm", _padded_kernel("lstm"), "CompositeExplicitAutograd")
    torch.library.register_fake("pycandle::padded_lstm", _padded_shapes(_lstm_shapes), lib=_library)
    for name in _ONE_STATE:
        _library.define(
            f"padded_{name}({lengths}, Tensor hx, Tensor[] params, {_SETTINGS}) -> (Tensor, Tensor)"
        )
        _library.impl(f"padded_{name}", _padded_kernel(name), "CompositeExplicitAutograd")
        torch.library.register_fake(
            f"pycandle::padded_{name}", _padded_shapes(_one_state_shapes), lib=_library
        )
    _library.define(
        f"lstm(Tensor input, Tensor[] hx, Tensor[] params, {_SETTINGS}) -> (Tensor, Tensor, Tensor)"
    )
    _library.impl("lstm", _run_lstm, "CompositeExplicitAutograd")
    torch.library.register_fake("pycandle::lstm", _lstm_shapes, lib=_library)
    for name in _ONE_STATE:
        _library.define(f"{name}(Tensor input, Tensor hx, Tensor[] params, {_SETTINGS}) -> (Tensor, Tensor)")
        _library.impl(name, _one_state_kernel(name), "CompositeExplicitAutograd")
        torch.library.register_fake(f"pycandle::{name}", _one_state_shapes, lib=_library)


def _run_lstm(input, hx, params, *settings):
    return tuple(t.contiguous() for t in recurrent_kernels.lstm(input, hx, params, *settings))


def _one_state_kernel(name):
    def run(input, hx, params, *settings):
        return tuple(t.contiguous() for t in getattr(recurrent_kernels, name)(input, hx, params, *settings))

    return run


def _padded_kernel(name):
    """As torch does it: packed by falling length, run, unpacked; all in the order of the batch."""

    def run(input, lengths, hx, params, *settings):
        batch_first = settings[-1]
        packed = rnn_utils.pack_padded_sequence(input, lengths.cpu(), batch_first, enforce_sorted=False)
        order = lambda states, indices: [s.index_select(1, indices) for s in states]  # noqa: E731
        is_list = isinstance(hx, (tuple, list))
        states = order(hx if is_list else [hx], packed.sorted_indices)
        kernel = getattr(recurrent_kernels, name)
        output, *last = kernel(
            packed.data, packed.batch_sizes, states if is_list else states[0], params, *settings[:-1]
        )
        packed = rnn_utils.PackedSequence(output, *packed[1:])
        steps = input.shape[1 if batch_first else 0]
        padded, _ = rnn_utils.pad_packed_sequence(packed, batch_first, total_length=steps)
        return tuple(t.contiguous() for t in (padded, *order(last, packed.unsorted_indices)))

    return run


def _padded_shapes(shapes):
    def fake(input, lengths, hx, params, *settings):
        torch._check(lengths.shape[0] == input.shape[0 if settings[-1] else 1])
        output, *last = shapes(input, hx, params, *settings)
        return output, *last

    return fake


def run_settings(layer: nn.RNNBase) -> tuple:
    """The settings of the operators above, but for batch_first."""
    return layer.bias, layer.num_layers, layer.dropout, layer.training, layer.bidirectional


def one_state_layers(name: str):
    return getattr(torch.ops.pycandle, name)


def _output(input, hidden, bidirectional):
    directions = 2 if bidirectional else 1
    return input.new_empty((input.shape[0], input.shape[1], directions * hidden.shape[-1]))


def _lstm_shapes(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    hidden, cell = hx
    output = _output(input, hidden, bidirectional)
    return output, hidden.new_empty(hidden.shape), cell.new_empty(cell.shape)


def _one_state_shapes(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    return _output(input, hx, bidirectional), hx.new_empty(hx.shape)


_define()


class _Kernels:
    """Stands where `torch.nn.modules.rnn` looks for its kernels; cells and the rest pass through."""

    def __getattr__(self, name):
        return getattr(recurrent_kernels, name)

    def lstm(self, input, hx, params, *settings):
        return torch.ops.pycandle.lstm(input, list(hx), list(params), *settings)

    def _one_state(self, name, input, hx, params, *settings):
        return getattr(torch.ops.pycandle, name)(input, hx, list(params), *settings)

    def gru(self, *call):
        return self._one_state("gru", *call)

    def rnn_tanh(self, *call):
        return self._one_state("rnn_tanh", *call)

    def rnn_relu(self, *call):
        return self._one_state("rnn_relu", *call)


@contextlib.contextmanager
def recurrent_layers_stay_whole():
    with recurrent_kernels_replaced(_Kernels()):
        yield
