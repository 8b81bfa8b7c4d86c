"""pack_padded_sequence → a recurrent layer → pad_packed_sequence, recorded by lengths.

A PackedSequence has sizes that depend on values. While a model is traced, `pack_padded_sequence` gives one that keeps the padded
tensor and the lengths; recurrent layers take both (`pycandle::padded_lstm` and its like), and `pad_packed_sequence` gives the padded
result back. What only a packed form has (`data`, `batch_sizes`) is computed when somebody asks for it.
"""

from __future__ import annotations

import contextlib
import functools
import types

import torch
import torch.nn.functional as F
import torch.nn.utils.rnn as packing
from torch import nn

from ...errors import RecordingError
from ..places import place_here
from .rnn_ops import one_state_layers, run_settings


class PaddedSequences(packing.PackedSequence):
    """A PackedSequence by the padded tensor [N, T, …] or [T, N, …] and the length of each sequence."""

    def __new__(cls, padded, lengths, batch_first, sorts, is_clean):
        self = tuple.__new__(cls, (None, None, None, None))
        self.padded, self.lengths, self.batch_first = padded, lengths, batch_first
        self.sorts = sorts  # the packed form is by falling length, whatever the order of the batch
        self.is_clean = is_clean  # zeros behind the ends
        return self

    def __iter__(self):
        return iter((self.data, self.batch_sizes, self.sorted_indices, self.unsorted_indices))

    def __getitem__(self, index):
        return tuple(self)[index]

    def by_time(self) -> torch.Tensor:
        return self.padded.transpose(0, 1) if self.batch_first else self.padded

    def alive(self, lengths: torch.Tensor) -> torch.Tensor:
        """[T, N]: does sequence n have a step t?"""
        steps = self.padded.shape[1 if self.batch_first else 0]
        return torch.arange(steps).unsqueeze(1) < lengths.unsqueeze(0)

    @functools.cached_property
    def sorted_indices(self):
        return torch.sort(self.lengths, descending=True)[1] if self.sorts else None

    @functools.cached_property
    def unsorted_indices(self):
        return packing.invert_permutation(self.sorted_indices)

    @functools.cached_property
    def _alive_in_order(self):
        return self.alive(self.lengths if not self.sorts else self.lengths[self.sorted_indices])

    @functools.cached_property
    def data(self):
        rows = self.by_time()
        return (rows[:, self.sorted_indices] if self.sorts else rows)[self._alive_in_order]

    @functools.cached_property
    def batch_sizes(self):
        sizes = _to_the_longest(self._alive_in_order.sum(1), self.lengths)
        _origins.append((sizes, self))
        return sizes

    def with_data(self, data):
        """The same sequences with other values in the packed form."""
        alive = self._alive_in_order
        mask = alive.reshape(*alive.shape, *[1] * (data.dim() - 1))
        rows = data.new_zeros(*alive.shape, *data.shape[1:]).masked_scatter(mask, data)
        rows = rows[:, self.unsorted_indices] if self.sorts else rows
        padded = rows.transpose(0, 1) if self.batch_first else rows
        return PaddedSequences(padded, self.lengths, self.batch_first, self.sorts, True)

    def _replace(self, **fields):
        return self.with_data(fields["data"])

    def to(self, *args, **kwargs):
        padded = self.padded.to(*args, **kwargs)
        return PaddedSequences(padded, self.lengths, self.batch_first, self.sorts, self.is_clean)


_origins: list[tuple[torch.Tensor, PaddedSequences]] = []


_library = torch.library.Library("pycandle", "FRAGMENT")
_library.define("first_rows(Tensor x, Tensor count, int axis) -> Tensor")
_library.impl(
    "first_rows", lambda x, count, axis: x.narrow(axis, 0, int(count)).clone(), "CompositeExplicitAutograd"
)


def _first_rows_shape(x, count, axis):
    shape = list(x.shape)
    shape[axis] = torch.library.get_ctx().new_dynamic_size(min=1)
    torch._check(shape[axis] <= x.shape[axis])
    return x.new_empty(shape)


torch.library.register_fake("pycandle::first_rows", _first_rows_shape, lib=_library)


def _to_the_longest(rows: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    return torch.ops.pycandle.first_rows(rows, lengths.max(), 0)


def _pack(input, lengths, batch_first, enforce_sorted):
    lengths = lengths if isinstance(lengths, torch.Tensor) else torch.as_tensor(lengths, dtype=torch.int64)
    return PaddedSequences(input, lengths, batch_first, not enforce_sorted, False)


def _pad(sequence, batch_first, padding_value, total_length):
    if not isinstance(sequence, PaddedSequences):
        return _originals["pad_packed_sequence"](sequence, batch_first, padding_value, total_length)
    rows = sequence.by_time()
    if padding_value != 0 or not sequence.is_clean:
        alive = sequence.alive(sequence.lengths)
        mask = alive.reshape(*alive.shape, *[1] * (rows.dim() - 2))
        rows = rows.masked_fill(~mask, padding_value)
    if total_length is None:
        rows = _to_the_longest(rows, sequence.lengths)
    elif total_length != rows.shape[0]:
        missing = total_length - rows.shape[0]
        rows = F.pad(rows, [0, 0] * (rows.dim() - 1) + [0, missing], value=padding_value)
    return (rows.transpose(0, 1) if batch_first else rows), sequence.lengths


def _new(original):
    def make(cls, data, batch_sizes=None, sorted_indices=None, unsorted_indices=None):
        for sizes, sequences in _origins:
            if sizes is batch_sizes:
                return sequences.with_data(data)
        return original(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    return make


def _forward(original):
    @functools.wraps(original)
    def forward(self, input, hx=None):
        if not isinstance(input, packing.PackedSequence):
            return original(self, input, hx)
        if not isinstance(input, PaddedSequences):
            raise RecordingError(
                f"{self.mode} was given a PackedSequence that was made outside the model",
                place_here(),
                "pass the padded tensor and the lengths, and call pack_padded_sequence in forward",
            )
        batch = input.padded.shape[0 if input.batch_first else 1]
        runs = self.num_layers * (2 if self.bidirectional else 1)
        state = lambda size: input.padded.new_zeros(runs, batch, size)  # noqa: E731
        call = (input.padded, input.lengths)
        settings = (self._flat_weights, *run_settings(self), input.batch_first)
        if self.mode == "LSTM":
            hx = hx or (state(self.proj_size or self.hidden_size), state(self.hidden_size))
            output, *last = torch.ops.pycandle.padded_lstm(*call, list(hx), *settings)
            last = tuple(last)
        else:
            hx = state(self.hidden_size) if hx is None else hx
            output, last = one_state_layers(f"padded_{self.mode.lower()}")(*call, hx, *settings)
        return PaddedSequences(output, input.lengths, input.batch_first, input.sorts, True), last

    return forward


# Models hold these functions themselves (`from torch.nn.utils.rnn import …`), so what changes is their code.
def _pack_code(input, lengths, batch_first=False, enforce_sorted=True):
    return _pycandle_pack(input, lengths, batch_first, enforce_sorted)  # noqa: F821


def _pad_code(sequence, batch_first=False, padding_value=0.0, total_length=None):
    return _pycandle_pad(sequence, batch_first, padding_value, total_length)  # noqa: F821


_CODES = {"pack_padded_sequence": _pack_code, "pad_packed_sequence": _pad_code}
_originals = {
    name: types.FunctionType(
        getattr(packing, name).__code__, packing.__dict__, name, getattr(packing, name).__defaults__
    )
    for name in _CODES
}


@contextlib.contextmanager
def packed_by_lengths():
    """While a model is traced."""
    forwards = {kind: kind.forward for kind in (nn.LSTM, nn.GRU, nn.RNN)}
    make = packing.PackedSequence.__new__
    packing._pycandle_pack, packing._pycandle_pad = _pack, _pad
    for name, stand_in in _CODES.items():
        getattr(packing, name).__code__ = stand_in.__code__
    for kind, forward in forwards.items():
        kind.forward = _forward(forward)
    packing.PackedSequence.__new__ = _new(make)
    try:
        yield
    finally:
        packing.PackedSequence.__new__ = make
        for kind, forward in forwards.items():
            kind.forward = forward
        for name in _CODES:
            getattr(packing, name).__code__ = _originals[name].__code__
        del packing._pycandle_pack, packing._pycandle_pad
        _origins.clear()
