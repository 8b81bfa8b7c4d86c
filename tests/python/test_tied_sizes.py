"""Sizes of inputs that are used together stay open together; where one is fixed, the reason is the real one."""

import pytest
import torch
from torch import nn

import pycandle as candle
from pycandle import GoldenRecorder
from pycandle.errors import UsageError


class Tokens(nn.Module):
    """Ids beside something of the same length, or of the same size by chance."""

    def __init__(self, combine, width: int = 6) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, width)
        self.flags = nn.Linear(8, 6)
        self.combine = combine

    def forward(self, ids: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return self.combine(self, self.embedding(ids), other)


def ids(batch: int = 2, length: int = 8) -> torch.Tensor:
    return torch.randint(0, 20, (batch, length))


def record(model: nn.Module, *inputs, folder="unused", **options):
    recorder = GoldenRecorder(folder, taps="none", **options)
    recorder.record(model.eval(), *inputs)
    return recorder


def open_axes(recorder) -> set:
    """(input, axis, symbol) of every axis that stayed open."""
    shapes = {entry["name"]: entry["shape"] for entry in recorder.manifest["inputs"]}
    return {(name, i, d) for name, shape in shapes.items() for i, d in enumerate(shape) if isinstance(d, str)}


TIED = {
    "a bool mask": (
        lambda m, x, o: x * o[..., None],
        torch.ones(2, 8, dtype=torch.bool),
        {("other", 1, "s1")},
    ),
    "a float mask": (lambda m, x, o: x * o[..., None], torch.ones(2, 8), {("other", 1, "s1")}),
    "features": (lambda m, x, o: x + o, torch.randn(2, 8, 6), {("other", 1, "s1")}),
    "features as wide as the sequence": (
        lambda m, x, o: x + m.flags(o),
        torch.randn(2, 8, 8),
        {("other", 1, "s1")},
    ),
    "a mask of pairs": (
        lambda m, x, o: (x @ x.transpose(1, 2)).masked_fill(~o, -1.0).softmax(-1) @ x,
        torch.ones(2, 8, 8, dtype=torch.bool),
        {("other", 1, "s1"), ("other", 2, "s1")},
    ),
    "a mask of pairs without a batch": (
        lambda m, x, o: (x @ x.transpose(1, 2)).masked_fill(~o, -1.0).softmax(-1) @ x,
        torch.ones(8, 8, dtype=torch.bool),
        {("other", 0, "s1"), ("other", 1, "s1")},
    ),
    "positions": (lambda m, x, o: x + m.embedding(o), torch.arange(8), {("other", 0, "s1")}),
    "positions of one batch": (
        lambda m, x, o: x + m.embedding(o),
        torch.arange(8)[None],
        {("other", 1, "s1")},
    ),
    "token types": (
        lambda m, x, o: x + m.embedding(o),
        torch.zeros(2, 8, dtype=torch.int64),
        {("other", 1, "s1")},
    ),
}


@pytest.mark.parametrize("what", TIED)
def test_a_size_is_tied_to_that_of_an_input_it_is_used_with(tmp_path, what) -> None:
    combine, other, expected = TIED[what]
    model = Tokens(combine)
    recorder = record(model, ids(), other, folder=tmp_path)
    batch = {("other", 0, "s0")} if other.shape[0] == 2 else set()
    assert open_axes(recorder) == {("ids", 0, "s0"), ("ids", 1, "s1")} | expected | batch
    assert not [f for f in recorder.manifest["fixed_dims"] if f["input"] == "ids"]
    shape = [5 if ("other", axis, "s1") in expected else size for axis, size in enumerate(other.shape)]
    changed = other[tuple(slice(size) for size in shape)]
    tokens = ids(2, 5)
    ours = candle.load_model(recorder.save("model").manifest)
    torch.testing.assert_close(ours(tokens, changed)["output"], model(tokens, changed))


APART = {
    "flags": (lambda m, x, o: x.sum(1) + m.flags(o.float()), torch.ones(2, 8, dtype=torch.bool)),
    "eight features": (lambda m, x, o: x.sum(1) + m.flags(o), torch.randn(2, 8)),
    "eight categories": (
        lambda m, x, o: x.sum(1) + sum(m.embedding(o[:, i]) for i in range(o.shape[1])),
        torch.zeros(2, 8, dtype=torch.int64),
    ),
    "a table that is looked up whole": (lambda m, x, o: x.sum(1) + o.sum(), torch.randn(3, 8)),
}


@pytest.mark.parametrize("what", APART)
def test_a_size_that_is_equal_by_chance_leaves_the_sequence_open(tmp_path, what) -> None:
    combine, other = APART[what]
    model = Tokens(combine)
    recorder = record(model, ids(), other, folder=tmp_path)
    assert {axis[:2] for axis in open_axes(recorder)} >= {("ids", 0), ("ids", 1)}
    assert not [axis for axis in open_axes(recorder) if axis[:2] == ("other", 1)]
    tokens = ids(2, 5)
    ours = candle.load_model(recorder.save("model").manifest)
    torch.testing.assert_close(ours(tokens, other)["output"], model(tokens, other))


def test_named_axes_say_which_other_axis_must_be_named(tmp_path) -> None:
    model = Tokens(lambda m, x, o: x * o[..., None])
    recorder = record(model, ids(), torch.ones(2, 8), folder=tmp_path, dynamic={"ids": {1: "seq"}})
    (fixed,) = recorder.manifest["fixed_dims"]
    assert fixed["reason"].startswith("axis 1 of ids must equal axis 1 of other: give both one label")
    assert """dynamic={"ids": {1: 'seq'}, "other": {1: 'seq'}}""" in fixed["reason"]


def test_the_line_that_fixes_both_sizes_is_the_one_that_is_named(tmp_path) -> None:
    def combine(m, x, other):
        x = x * other[..., None]
        return x.sum(1) + m.flags(other)  # this line

    recorder = record(Tokens(combine), ids(), torch.ones(2, 8), folder=tmp_path)
    sequence = [f for f in recorder.manifest["fixed_dims"] if (f["input"], f["axis"]) == ("ids", 1)]
    table = recorder.manifest["files_table"][sequence[0]["file"]]
    assert "this line" in table["lines"][str(sequence[0]["line"])]


class Graph(nn.Module):
    """The first axes look like a batch; that of x must have the size of the adjacency's last."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 3))

    def forward(self, x: torch.Tensor, adjacency: torch.Tensor) -> torch.Tensor:
        return torch.mm(adjacency, torch.mm(x, self.weight))


def test_an_axis_is_tied_to_another_than_the_one_it_was_grouped_with(tmp_path) -> None:
    model = Graph()
    recorder = record(model, torch.randn(5, 4), torch.randn(5, 5), folder=tmp_path)
    x, adjacency = (entry["shape"] for entry in recorder.manifest["inputs"])
    assert x == [adjacency[1], 4] and len({*adjacency}) == 2 and recorder.manifest["fixed_dims"] == []
    loaded = candle.load_model(recorder.save("m").manifest)
    x, adjacency = torch.randn(7, 4), torch.randn(3, 7)
    torch.testing.assert_close(loaded(x, adjacency)["output"], model(x, adjacency))


class Turned(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, points: torch.Tensor, rotation: torch.Tensor) -> torch.Tensor:
        return self.linear(points) @ rotation


def test_a_size_that_a_parameter_needs_says_so_and_leaves_the_batch_open() -> None:
    recorder = record(Turned(), torch.randn(3, 3), torch.eye(3))
    assert {(name, axis) for name, axis, _ in open_axes(recorder)} == {("points", 0)}
    (fixed,) = recorder.manifest["fixed_dims"]
    assert "a size of a parameter" in fixed["reason"]


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 6, batch_first=True)

    def forward(self, x: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor) -> torch.Tensor:
        return self.lstm(x, (hidden, cell))[0]


def test_a_batch_that_is_not_the_first_axis_is_tied_too(tmp_path) -> None:
    model = Recurrent().eval()
    recorder = record(
        model, torch.randn(3, 5, 4), torch.randn(1, 3, 6), torch.randn(1, 3, 6), folder=tmp_path
    )
    assert {("x", 0, "s0"), ("hidden", 1, "s0"), ("cell", 1, "s0")} <= open_axes(recorder)
    inputs = torch.randn(2, 5, 4), torch.randn(1, 2, 6), torch.randn(1, 2, 6)
    ours = candle.load_model(recorder.save("model").manifest)
    torch.testing.assert_close(ours(*inputs)["output"], model(*inputs))


class Plain(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


class AnyArguments(nn.Module):
    def forward(self, x: torch.Tensor, **options) -> torch.Tensor:
        return x * options["seed"]


@pytest.mark.parametrize(
    "option",
    ["dynamic", "taps", "seed", "weights", "output_dir", "golden_budget", "source", "decompositions"],
)
def test_an_option_given_to_record_says_where_it_belongs(option) -> None:
    with pytest.raises(
        UsageError, match=rf"{option} is an option of the recorder: GoldenRecorder\({option}="
    ):
        GoldenRecorder().record(Plain().eval(), torch.randn(2), **{option: None})


def test_an_option_that_forward_may_take_goes_to_forward_and_is_noted() -> None:
    recorder = GoldenRecorder()
    recorder.record(AnyArguments().eval(), torch.randn(2), seed=3)
    assert any("GoldenRecorder(seed=…)" in note for note in recorder.manifest["notes"])
