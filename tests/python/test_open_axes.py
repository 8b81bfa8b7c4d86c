"""Models at sizes that were not recorded: splits, complex products, wrapped models, and how their inputs are given."""

import dataclasses
import functools
import math
from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import nn, tensor_split

import pycandle as candle
from pycandle import GoldenRecorder


class Function(nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


def loaded(folder, model: nn.Module, *inputs, dynamic=None, **named):
    recorder = GoldenRecorder(folder, dynamic=dynamic, taps="none")
    recorder.record(model.eval(), *inputs, **named)
    files = recorder.save("model")
    assert files.gaps == []
    return candle.load_model(files.manifest), recorder.manifest


SPLITS = {
    "a part in the middle": lambda x: x.tensor_split(3, 1)[1],
    "all parts": lambda x: torch.stack([part.sum(1) for part in torch.tensor_split(x, 3, dim=1)]),
    "by its keyword": lambda x: x.tensor_split(sections=4, dim=-1)[3],
    "by indices": lambda x: x.tensor_split((2,), -1)[1],
    "by the function's own name": lambda x: tensor_split(x, 4, 1)[2],
    "all by keywords": lambda x: torch.tensor_split(input=x, sections=3, dim=1)[0],
    "indices by keywords": lambda x: torch.tensor_split(input=x, indices=(2,), dim=1)[1],
    "chunks": lambda x: x.chunk(3, 1)[1],
    "sizes": lambda x: x.split([2, x.shape[1] - 2], 1)[1],
    "windows": lambda x: x.unfold(1, 3, 2),
    "narrow": lambda x: x.narrow(1, x.shape[1] // 3, x.shape[1] // 2),
}


@pytest.mark.parametrize("what", SPLITS)
def test_an_open_axis_is_split_as_torch_does_at_every_size(tmp_path, what) -> None:
    model = Function(SPLITS[what])
    ours, manifest = loaded(tmp_path, model, torch.randn(2, 9), dynamic={"x": {0: "batch", 1: "size"}})
    assert not manifest["fixed_dims"]
    for size in range(max(3, manifest["symbols"][1]["min"]), 20):
        x = torch.randn(1, size)
        torch.testing.assert_close(ours(x)["output"], model(x), msg=f"{size}")


TAKEN = {
    "an order": lambda x: torch.take_along_dim(x, x.argsort(1), 1),
    "one row of indices for all": lambda x: x.take_along_dim(torch.tensor([[2, 0]]), dim=-1),
    "along the open axis": lambda x: torch.take_along_dim(input=x, indices=x.argsort(0)[:1], dim=0),
    "of the flat tensor": lambda x: torch.take_along_dim(x, x.argsort(1)),
}


@pytest.mark.parametrize("what", TAKEN)
def test_elements_taken_along_an_axis_leave_the_batch_open(tmp_path, what) -> None:
    model = Function(TAKEN[what])
    ours, manifest = loaded(tmp_path, model, torch.randn(6, 4), dynamic={"x": {0: "batch"}})
    assert not manifest["fixed_dims"]
    for batch in (1, 2, 9):
        x = torch.randn(batch, 4)
        torch.testing.assert_close(ours(x)["output"], model(x), rtol=0, atol=0)


def triangle(indices, offset):
    def run(x):
        row, column = indices(x.shape[0], x.shape[0], offset)
        return x[row] - x[column]

    return run


COUNTED = {
    "kron": ((5, 3), lambda x: torch.kron(x, torch.arange(4.0).reshape(2, 2))),
    "kron of another rank": ((5, 3), lambda x: x[0].kron(x)),
    "pdist": ((5, 3), lambda x: F.pdist(x, 1.0)),
    "combinations": ((5,), torch.combinations),
    "combinations that repeat": ((5,), lambda x: torch.combinations(x, with_replacement=True)),
    **{
        f"{name} {offset}": ((5, 2), triangle(getattr(torch, f"{name}_indices"), offset))
        for name in ("triu", "tril")
        for offset in (-2, 0, 2)
    },
    "a pool of columns": ((2, 3, 6, 5), nn.AdaptiveMaxPool2d((1, None))),
    "a pool of rows": ((3, 6, 5), nn.AdaptiveMaxPool2d((None, 2))),
    "a pool of nothing": ((2, 3, 6, 5), nn.AdaptiveMaxPool2d((None, None))),
    "places of a pool": ((2, 3, 6, 5), lambda x: F.adaptive_max_pool2d(x, (2, None), True)[1]),
    "a pool of volumes": ((2, 3, 6, 5, 4), nn.AdaptiveMaxPool3d((2, None, 1))),
    "places of volumes": ((3, 6, 5, 4), lambda x: F.adaptive_max_pool3d(x, (None, 1, None), True)[1]),
}


FRACTIONS = {
    "1 / n": lambda x, n: x * (1 / n),
    "from the left": lambda x, n: (1 / n) - n / 2 / x,
    "a chain": lambda x, n: x + 0.5 * n * math.log(2 * math.pi) - (n / 3.0) ** 2 + 0.5**n,
    "math.sqrt": lambda x, n: (x / math.sqrt(n)).softmax(-1) * n**-0.5,
    "len": lambda x, n: x.view(len(x), -1).sum(0) / len(x) + torch.zeros(len(x), n) / len(x[0]),
    "full": lambda x, n: (
        torch.full((len(x), n), 1.0 / n) + x.new_full((n,), n / 2) - torch.full_like(x, 0.5 / n)
    ),
    "fill_": lambda x, n: torch.empty(len(x), n).fill_(1.0 / n),
    "torch.tensor": lambda x, n: x * torch.tensor(1 / n),
    "integers": lambda x, n: (torch.arange(n) * (2 / n), torch.arange(n) - (n - 1) / 2),
    "linspace": lambda x, n: torch.linspace(0.5, n - 0.5, n) / n,
    "compared": lambda x, n: ((x > 1 / n), torch.arange(n) >= n / 2),
    "chosen": lambda x, n: (
        torch.where(x > 0, x, 1 / n) + torch.where(x > 0, 1 / n, x).masked_fill(x > 1, n / 2)
    ),
    "powers": lambda x, n: x.abs() ** (1 / n),
    "f64": lambda x, n: x.double() * (1 / n),
}


class FractionOf(nn.Module):
    """The size is read in a part of the model."""

    def __init__(self, function) -> None:
        super().__init__()
        self.part = Function(lambda x: function(x, x.shape[1]))

    def forward(self, x):
        return self.part(x)


@pytest.mark.parametrize("what", FRACTIONS)
def test_fractions_of_sizes_leave_their_axes_open(tmp_path, what, pycandle) -> None:
    model = FractionOf(FRACTIONS[what])
    ours, manifest = loaded(tmp_path, model, torch.randn(3, 7), dynamic={"x": {0: "b", 1: "n"}})
    assert not manifest["fixed_dims"]
    for shape in ((3, 7), (1, 5), (4, 12), (2, 1)):
        x = torch.randn(shape)
        expected = model(x)
        for found, value in zip(
            ours(x).values(), expected if isinstance(expected, tuple) else [expected], strict=True
        ):
            torch.testing.assert_close(found, value)
    pycandle("verify", tmp_path)
    pycandle("codegen", "--manifest", tmp_path, "--out", tmp_path / "model.hpp")


def test_what_python_knows_by_itself_is_its_own_again(tmp_path) -> None:
    builtin = len, math.sqrt
    loaded(tmp_path, FractionOf(FRACTIONS["len"]), torch.randn(3, 7))
    with pytest.raises(candle.errors.UsageError):
        loaded(tmp_path, FractionOf(lambda x, n: x[9]), torch.randn(3, 7))
    assert (len, math.sqrt) == builtin


@pytest.mark.parametrize("what", COUNTED)
def test_what_takes_a_plain_number_in_torch_leaves_its_axes_open(tmp_path, what) -> None:
    shape, function = COUNTED[what]
    model = Function(function)
    names = {axis: f"size{axis}" for axis in range(len(shape))}
    ours, manifest = loaded(tmp_path, model, torch.randn(shape), dynamic={"x": names})
    assert not manifest["fixed_dims"]
    for more in (-4, -1, 0, 3):
        x = torch.randn([max(size + more, 1) for size in shape])
        torch.testing.assert_close(ours(x)["output"], model(x), rtol=1e-6, atol=1e-6)


def test_counts_of_classes_have_at_least_their_minlength(tmp_path, pycandle) -> None:
    model = Function(lambda x: torch.bincount(x, minlength=12)[:12])
    ours, manifest = loaded(tmp_path, model, torch.randint(0, 9, (7,)))
    assert manifest["outputs"][0]["shape"] == [12]
    for x in (torch.tensor([3, 3, 11]), torch.randint(0, 30, (99,))):
        assert torch.equal(ours(x)["output"], model(x))
    pycandle("codegen", "--manifest", tmp_path, "--out", tmp_path / "counts.hpp")


@pytest.mark.parametrize("part", [0, 1, 2])
def test_even_splits_of_an_open_axis(tmp_path, part) -> None:
    """hsplit and its like take only sizes that they can divide."""
    model = Function(
        lambda x: (torch.hsplit(x, 3)[part], x.vsplit(3)[part], x.mT.unsqueeze(0).dsplit(3)[part])
    )
    ours, manifest = loaded(tmp_path, model, torch.randn(6, 9), dynamic={"x": {0: "rows", 1: "columns"}})
    assert not manifest["fixed_dims"]
    for rows, columns in ((6, 9), (9, 12), (15, 21)):
        x = torch.randn(rows, columns)
        for found, expected in zip(ours(x).values(), model(x), strict=True):
            assert torch.equal(found, expected)


def test_a_shape_that_holds_from_some_size_on_bounds_the_axis(tmp_path) -> None:
    """torch writes s0 - 2 for what is empty at size 1."""
    model = Function(lambda x: x.tensor_split((2,), -1)[1])
    _, manifest = loaded(tmp_path, model, torch.randn(9), dynamic={"x": [0]})
    assert manifest["symbols"][0]["min"] >= 2
    model = Function(lambda x: torch.conv1d(x, torch.ones(1, 1, 5))[..., :2])
    _, manifest = loaded(tmp_path, model, torch.randn(1, 1, 12), dynamic={"x": [2]})
    assert manifest["symbols"][0]["min"] == 6, "shorter ones have fewer than two results"


def test_a_rank_that_only_size_one_has_is_the_reason_that_is_given(tmp_path) -> None:
    """torch.cov of one row is one number."""
    _, manifest = loaded(tmp_path, Function(torch.cov), torch.randn(3, 6))
    assert manifest["symbols"][0]["min"] == 2
    (note,) = manifest["notes"]
    assert "of size 1 is left out" in note and "is [] instead of [1, 1]" in note, note


COMPLEX = {
    "conj @ mT": lambda z: z.conj() @ z.mT,
    "mH": lambda z: z @ z.mH,
    "einsum": lambda z: torch.einsum("bij,bkj->bik", z, z.conj()),
    "view_as_real": lambda z: torch.view_as_real(z.conj() @ z.mT),
    "a sum of products": lambda z: (z.conj() * z).sum(-1),
}


@pytest.mark.parametrize("what", COMPLEX)
def test_complex_products_keep_an_open_batch(tmp_path, what) -> None:
    model = Function(COMPLEX[what])
    ours, manifest = loaded(tmp_path, model, torch.randn(3, 19, 33, dtype=torch.complex64))
    assert manifest["symbols"][0]["min"] == 1, manifest["notes"]
    for batch in (1, 2, 5):
        z = torch.randn(batch, 19, 33, dtype=torch.complex64)
        torch.testing.assert_close(ours(z)["output"], model(z), atol=1e-4, rtol=1e-4)


class Reordered(nn.Module):
    """Sums that torch.export traces in another order than eager mode runs them, as its products may."""

    def __init__(self, error: float = 0.0) -> None:
        super().__init__()
        self.error = error

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        if torch.compiler.is_exporting():
            return (z + z.conj() * 0.3) + z * (0.1 + self.error)
        return z + (z.conj() * 0.3 + z * 0.1)


def test_complex_values_may_differ_by_rounding_and_no_more() -> None:
    z = torch.randn(3, 4, dtype=torch.complex64)
    recorder = GoldenRecorder()
    recorder.record(Reordered().eval(), z)
    assert "within rounding" in {check["result"] for check in recorder.manifest["soundness"]["checks"]}
    with pytest.raises(candle.RecordingError, match="is not the model"):
        recorder.record(Reordered(1e-4).eval(), z)


class ReorderedAtOne(nn.Module):
    """As products of one matrix do on some processors."""

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        if torch.compiler.is_exporting() or z.shape[0] != 1:
            return (z + z.conj() * 0.3) + z * 0.1
        return z + (z.conj() * 0.3 + z * 0.1)


def test_a_batch_of_one_that_rounds_otherwise_stays_open(tmp_path) -> None:
    _, manifest = loaded(tmp_path, ReorderedAtOne(), torch.randn(3, 19, 33, dtype=torch.complex64))
    assert manifest["symbols"][0]["min"] == 1, manifest["notes"]


class Many(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, *xs: torch.Tensor) -> torch.Tensor:
        return sum(self.layer(x) for x in xs)


class Mixed(nn.Module):
    def forward(self, first, *rest, scale, **others) -> torch.Tensor:
        return (first - sum(rest)) * scale + others["shift"]


class Partial(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.forward = functools.partial(self.run, factor=2.0)

    def run(self, x: torch.Tensor, factor: float) -> torch.Tensor:
        return self.layer(x) * factor


def test_inputs_of_any_number_are_given_as_forward_takes_them(tmp_path) -> None:
    x, y, z = torch.randn(3, 2, 4)
    model = Many().eval()
    one, _ = loaded(tmp_path, model, x)
    torch.testing.assert_close(one(y)["output"], model(y))
    two, _ = loaded(tmp_path, model, x, y)
    torch.testing.assert_close(two(y, z)["output"], model(y, z))
    torch.testing.assert_close(two(xs=[y, z])["output"], model(y, z))
    mixed, _ = loaded(tmp_path, Mixed(), x, y, z, scale=x, shift=y)
    torch.testing.assert_close(mixed(x, y, z, scale=z, shift=x)["output"], Mixed()(x, y, z, scale=z, shift=x))
    with pytest.raises(TypeError, match="3 inputs are given"):
        two(x, y, z)
    partial = Partial().eval()
    ours, _ = loaded(tmp_path, partial, x)
    torch.testing.assert_close(ours(y)["output"], partial(y))


class Pair(NamedTuple):
    a: torch.Tensor
    b: torch.Tensor


@dataclasses.dataclass
class Parts:
    a: torch.Tensor
    b: torch.Tensor | None = None


class Sums(nn.Module):
    """The inputs are containers of any kind."""

    def forward(self, *xs):
        return sum(self.total(x) for x in xs)

    def total(self, x):
        values = x.values() if isinstance(x, dict) else [x.a, x.b] if isinstance(x, Parts) else x
        return (
            x
            if isinstance(x, torch.Tensor)
            else sum(v * (i + 1) for i, v in enumerate(values) if v is not None)
        )


class SumsOfOne(Sums):
    def forward(self, xs):
        return super().forward(*xs)


CONTAINERS = {
    "a dict": lambda a, b: ({"a": a, "b": b},),
    "two dicts": lambda a, b: ({"a": a, "b": b}, {"b": a}),
    "a named tuple and a tensor": lambda a, b: (Pair(a, b), b),
    "dataclasses": lambda a, b: (Parts(a, b), Parts(b)),
    "tuples and lists": lambda a, b: ((a, b), [b]),
}


@pytest.mark.parametrize("kind", [Sums, SumsOfOne])
@pytest.mark.parametrize("what", CONTAINERS)
def test_containers_are_given_as_forward_takes_them(tmp_path, what, kind) -> None:
    make = CONTAINERS[what] if kind is Sums else lambda *tensors: (CONTAINERS[what](*tensors),)
    ours, _ = loaded(tmp_path, kind().eval(), *make(*torch.randn(2, 2, 4)))
    others = make(*torch.randn(2, 3, 4))
    torch.testing.assert_close(ours(*others)["output"], kind()(*others))


@pytest.mark.parametrize("wrap", [torch.compile, nn.DataParallel])
def test_a_wrapped_model_is_recorded_as_what_it_wraps(tmp_path, wrap) -> None:
    inner = Partial().eval()
    x = torch.randn(2, 4)
    ours, manifest = loaded(tmp_path, wrap(inner), x)
    assert [entry["name"] for entry in manifest["inputs"]] == ["x"]
    assert [entry["name"] for entry in manifest["parameters"]] == ["layer.weight", "layer.bias"]
    torch.testing.assert_close(ours(x)["output"], inner(x))
    torch.testing.assert_close(candle.compile(wrap(inner), x)(x), inner(x))


def test_a_layer_inside_torch_compile_is_recorded_as_itself(tmp_path) -> None:
    model = nn.Sequential(nn.Linear(4, 4), torch.compile(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))).eval()
    wrapped = model[1]
    ours, manifest = loaded(tmp_path, model, torch.randn(2, 4))
    assert {entry["name"] for entry in manifest["parameters"]} >= {"1.0.weight"}
    assert any("torch.compile" in note for note in manifest["notes"])
    assert model[1] is wrapped, "the user's model stays as it was"
    x = torch.randn(5, 4)
    torch.testing.assert_close(ours(x)["output"], wrapped._orig_mod(model[0](x)))


class Pooled(nn.Module):
    """A set with a mask, and a picture: some axes are widths of weights, others the model leaves open."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.image = nn.Conv2d(3, 8, 3, stride=2)

    def forward(self, x: torch.Tensor, absent: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
        pixels = self.image(image).flatten(2).transpose(1, 2)
        return self.attention(pixels, x, x, key_padding_mask=absent)[0].mean(1)


def test_all_axes_are_open_that_the_model_leaves_open(tmp_path) -> None:
    def example(batch: int, count: int, height: int, width: int) -> tuple:
        absent = torch.arange(count)[None] >= torch.arange(1, batch + 1)[:, None]
        return torch.randn(batch, count, 8), absent, torch.randn(batch, 3, height, width)

    model = Pooled().eval()
    ours, manifest = loaded(tmp_path, model, *example(2, 8, 8, 9), dynamic="all")
    fixed = {(dim["input"], dim["axis"]) for dim in manifest["fixed_dims"]}
    assert fixed == {("x", 2), ("image", 1)}
    for sizes in ((1, 3, 11, 5), (3, 5, 5, 12)):
        inputs = example(*sizes)
        torch.testing.assert_close(ours(*inputs)["output"], model(*inputs))
