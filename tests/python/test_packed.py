"""pack_padded_sequence → a recurrent layer → pad_packed_sequence: recorded by lengths, exact to each sequence's end."""

import pytest
import torch
import torch.nn.utils.rnn as packing
from agreement import agrees
from test_codegen import compiled_and_run, recorded
from test_soundness import refuse
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from pycandle import GoldenRecorder

torch.set_num_threads(1)


class Tagger(nn.Module):
    """As people write it: embed, pack, run, unpack, project; the last states and the lengths too."""

    def __init__(
        self, kind="LSTM", batch_first=True, enforce_sorted=False, total=False, padding=0.0, **options
    ):
        super().__init__()
        self.embedding = nn.Embedding(20, 6)
        self.layer = getattr(nn, kind)(6, 5, batch_first=batch_first, **options)
        width = options.get("proj_size", 5) * (2 if options.get("bidirectional") else 1)
        self.out = nn.Linear(width, 3)
        self.batch_first, self.enforce_sorted, self.total, self.padding = (
            batch_first,
            enforce_sorted,
            total,
            padding,
        )

    def forward(self, ids, lengths):
        x = self.embedding(ids)
        if not self.batch_first:
            x = x.transpose(0, 1)
        packed = pack_padded_sequence(x, lengths, self.batch_first, enforce_sorted=self.enforce_sorted)
        output, last = self.layer(packed)
        output, sizes = pad_packed_sequence(
            output, self.batch_first, self.padding, total_length=ids.shape[1] if self.total else None
        )
        return self.out(output), last, sizes


def ids(batch, steps):
    return torch.randint(0, 20, (batch, steps))


KINDS = {
    "lstm": ("LSTM", {}),
    "lstm of two layers in both directions, padded with -1": (
        "LSTM",
        {"bidirectional": True, "num_layers": 2, "total": True, "padding": -1.0},
    ),
    "lstm with a projection": ("LSTM", {"proj_size": 4, "bidirectional": True, "total": True}),
    "gru, time first": ("GRU", {"batch_first": False, "bidirectional": True}),
    "gru without biases": ("GRU", {"bias": False, "padding": 2.5}),
    "rnn of sorted sequences": ("RNN", {"enforce_sorted": True, "total": True}),
    "rnn with relu": ("RNN", {"nonlinearity": "relu", "num_layers": 2}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_packed_layers_agree_with_torch_at_other_lengths_and_sizes(kind, tmp_path, pycandle):
    name, options = KINDS[kind]
    torch.manual_seed(len(kind))
    model = Tagger(name, **options)
    first = [6, 4, 1] if options.get("enforce_sorted") else [4, 6, 1]
    others = [
        (ids(3, 6), torch.tensor([3, 2, 1])),  # all shorter than the padded tensor
        (ids(5, 8), torch.tensor([5, 3, 3, 2, 1])),
        (ids(2, 7), torch.tensor([7, 2])),
        (ids(1, 7), torch.tensor([7])),
    ]
    if not options.get("enforce_sorted"):
        others.append((ids(4, 5), torch.tensor([1, 5, 2, 5])))
    agrees(tmp_path, pycandle, model, ids(3, 6), torch.tensor(first), others=others)


class PackedValues(nn.Module):
    """Looks into the packed form, changes its values, and packs them again."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 4)
        self.layer = nn.GRU(4, 5, batch_first=True)

    def forward(self, x, lengths, state):
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        values = self.first(packed.data).relu()
        packed = PackedSequence(values, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices)
        output, last = self.layer(packed, state)
        output = output._replace(data=output.data * 2)
        return pad_packed_sequence(output, batch_first=True)[0], last, packed.batch_sizes


def test_the_packed_values_themselves_can_be_used(tmp_path, pycandle):
    torch.manual_seed(0)
    other = (torch.randn(4, 5, 6), torch.tensor([4, 1, 3, 3]), torch.randn(1, 4, 5))
    dynamic = {"x": {0: "batch", 1: "steps"}, "lengths": {0: "batch"}, "state": {1: "batch"}}
    example = torch.randn(3, 6, 6), torch.tensor([2, 6, 3]), torch.randn(1, 3, 5)
    agrees(tmp_path, pycandle, PackedValues(), *example, others=[other], dynamic=dynamic)


class Attended(nn.Module):
    """Goes on with as many steps as the longest sequence has: a size that is data."""

    def __init__(self):
        super().__init__()
        self.layer = nn.LSTM(6, 5, batch_first=True)

    def forward(self, x, mask):
        lengths = mask.sum(1).cpu()
        output, _ = self.layer(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))
        output, sizes = pad_packed_sequence(output, batch_first=True)
        inside = torch.arange(output.size(1)) < sizes[:, None]
        weights = (output @ output.mT).masked_fill(~inside[:, None], -1e9).softmax(-1)
        last = output[torch.arange(output.size(0)), sizes - 1]
        return weights @ output, last, output.max(1)[0]


def test_the_longest_sequence_decides_a_size_that_the_rest_works_with(tmp_path, pycandle):
    def example(steps, lengths):
        return torch.randn(len(lengths), steps, 6), torch.arange(steps) < torch.tensor(lengths)[:, None]

    dynamic = {"x": {0: "batch", 1: "steps"}, "mask": {0: "batch", 1: "steps"}}
    torch.manual_seed(0)
    others = [example(5, [4, 1, 3, 3]), example(6, [2, 2])]
    agrees(tmp_path, pycandle, Attended(), *example(6, [2, 6, 3]), others=others, dynamic=dynamic)


class Listed(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.RNN(6, 5)

    def forward(self, a, b):
        output, last = self.layer(packing.pack_sequence([a, b], enforce_sorted=False))
        return packing.pad_packed_sequence(output)[0], last


def test_sequences_in_a_list_can_be_packed(tmp_path, pycandle):
    agrees(tmp_path, pycandle, Listed(), torch.randn(3, 6), torch.randn(5, 6), dynamic=False)


class Given(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.GRU(6, 5)

    def forward(self, packed):
        return self.layer(packed)[1]  # HERE


def test_a_packed_input_is_refused_with_what_to_pass(tmp_path):
    packed = pack_padded_sequence(torch.randn(4, 2, 6), torch.tensor([4, 2]))
    recorder = GoldenRecorder(tmp_path, progress=lambda text: None, dynamic=False)
    assert "pass the padded tensor and the lengths" in refuse(recorder, Given(), packed).hint


def test_packing_is_torchs_own_again_after_a_recording(tmp_path, pycandle):
    model, example = Tagger(), (ids(3, 6), torch.tensor([4, 6, 1]))
    before = [t.clone() for t in model(*example)[1]]
    agrees(tmp_path, pycandle, model, *example)
    packed = pack_padded_sequence(torch.randn(2, 3, 4), torch.tensor([3, 2]), batch_first=True)
    assert type(packed) is PackedSequence and packed.data.shape == (5, 4)
    assert all(torch.equal(a, b) for a, b in zip(before, model(*example)[1], strict=True))


def test_a_packed_lstm_is_emitted_with_its_lengths(tmp_path, pycandle):
    torch.manual_seed(0)
    model = Tagger(bidirectional=True, total=True)
    manifest = recorded(model, tmp_path, {"ids": ids(3, 6), "lengths": torch.tensor([4, 6, 1])})
    compiled_and_run(manifest, tmp_path, pycandle)
    assert "padded_lstm(" in (tmp_path / "model.hpp").read_text()
