"""pycandle.compile: arguments that are no tensors, and calls that need another program."""

from __future__ import annotations

import collections
import enum
import math
import tempfile
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from recording_checks import load_checked
from torch import nn

import pycandle


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, scale: float = 1.0, flip: bool = False) -> dict:
        y = self.linear(x) * scale
        return {"y": -y if flip else y, "scale": scale}


@pytest.fixture
def module() -> nn.Module:
    torch.manual_seed(0)
    return Scaled().eval()


X = torch.randn(3, 4, generator=torch.Generator().manual_seed(1))


def same(found: object, expected: object) -> None:
    torch.testing.assert_close(found, expected)
    assert type(found) is type(expected)


CALLS = [
    ((X,), {"scale": 2.0}),
    ((X,), {"scale": 3.0}),
    ((X,), {}),
    ((X,), {"flip": True}),
    ((X, 7.0), {}),
    ((X,), {"scale": 7.0, "flip": True}),
    ((), {"x": X, "scale": 3.0}),
]


def test_every_value_of_an_argument_gives_what_torch_gives(module) -> None:
    compiled = pycandle.compile(module, X, scale=2.0)
    for _ in range(2):
        for args, kwargs in CALLS:
            same(compiled(*args, **kwargs), module(*args, **kwargs))


def test_values_that_are_equal_in_python_and_not_for_a_model_are_other_programs() -> None:
    class Kind(nn.Module):
        def forward(self, x: torch.Tensor, value=None) -> torch.Tensor:
            kinds = {bool: 1.0, int: 2.0, float: 3.0, str: 4.0, type(None): 5.0}
            sign = -1.0 if isinstance(value, float) and str(value).startswith("-") else 1.0
            return x * kinds[type(value)] * sign

    model = Kind()
    compiled = pycandle.compile(model, X, 1)
    for value in (1, True, 1.0, "1", None, 0.0, -0.0, 1, True, 1.0):
        same(compiled(X, value), model(X, value))
    with pytest.raises(pycandle.RecordingError, match="an argument is NaN"):
        compiled(X, float("nan"))


@dataclass
class Settings:
    scale: float
    tensors: list


Pair = collections.namedtuple("Pair", "first second")


class Unbounded(nn.Module):
    def forward(self, x: torch.Tensor, low: float, bounds: dict, fill: complex) -> tuple:
        filled = torch.full((2,), fill, dtype=torch.complex64)
        return x.clamp(low, bounds["high"]), torch.view_as_real(filled), low


def test_infinite_arguments_are_recorded(tmp_path) -> None:
    model, arguments = Unbounded(), (X, -math.inf, {"high": math.inf}, complex(math.inf, 1))
    recorder = pycandle.GoldenRecorder(tmp_path)
    recorder.record(model, *arguments)
    load_checked(recorder.save("unbounded").manifest)
    compiled = pycandle.compile(model, X, 0.0, {"high": 1.0}, 1j)
    for call in (arguments, (X, 0.5, {"high": math.inf}, complex(1, -math.inf))):
        same(compiled(*call), model(*call))


def test_values_within_containers_count_and_so_does_the_kind_of_container() -> None:
    class Nested(nn.Module):
        def forward(self, settings, more: dict) -> list:
            scale = settings.scale if isinstance(settings, Settings) else settings[0]
            tensors = settings.tensors if isinstance(settings, Settings) else settings[1]
            y = sum(tensors) * scale
            return [y + 1 if more.get("add") else y, len(tensors)]

    model = Nested()
    compiled = pycandle.compile(model, Settings(2.0, [X]), {"add": True})
    for settings in (
        Settings(3.0, [X]),
        Settings(2.0, [X, X]),
        (2.0, [X]),
        Pair(2.0, [X]),
        Settings(2.0, [X]),
    ):
        same(compiled(settings, {"add": True}), model(settings, {"add": True}))
    for more in ({"add": False}, {}):
        same(compiled(Settings(2.0, [X]), more), model(Settings(2.0, [X]), more))


def test_optional_inputs_come_and_go() -> None:
    class Masked(nn.Module):
        def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None, *, bias=None) -> torch.Tensor:
            y = x if mask is None else x.masked_fill(mask, 0.0)
            return y if bias is None else y + bias

    model, mask = Masked(), X > 0
    compiled = pycandle.compile(model, X)
    for args, kwargs in [((X,), {}), ((X, mask), {}), ((X, None), {}), ((X,), {"mask": mask, "bias": X[0]})]:
        same(compiled(*args, **kwargs), model(*args, **kwargs))
    same(compiled(X[:2], mask[:2]), model(X[:2], mask[:2]))


def test_other_dtypes_ranks_and_numbers_of_tensors_are_other_programs() -> None:
    class Sum(nn.Module):
        def forward(self, *tensors: torch.Tensor, **more: torch.Tensor) -> torch.Tensor:
            return sum(tensors) + sum(t * len(name) for name, t in more.items())

    model = Sum()
    compiled = pycandle.compile(model, X)
    for args, kwargs in [
        ((X, X), {}),
        ((X, X, X), {}),
        ((X.double(),), {}),
        ((X[None],), {}),
        ((X,), {"ab": X}),
        ((X,), {"abc": X, "d": X}),
    ]:
        same(compiled(*args, **kwargs), model(*args, **kwargs))


def test_a_default_that_is_a_tensor_is_no_input() -> None:
    ramp = torch.arange(4.0)

    class Default(nn.Module):
        def forward(self, x: torch.Tensor, w: torch.Tensor = ramp) -> torch.Tensor:
            return x * w

    model = Default()
    compiled = pycandle.compile(model, X)
    same(compiled(X), model(X))
    same(compiled(X, X[0]), model(X, X[0]))


def test_sizes_that_a_model_returns_are_those_of_the_call() -> None:
    class Sizes(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple:
            return x * 2, x.shape[0], 2 * x.shape[0] + 1, 5

    model = Sizes()
    compiled = pycandle.compile(model, X)
    for x in (X, X[:2], torch.cat([X, X])):
        same(compiled(x), model(x))


def test_every_program_has_its_own_output_structure() -> None:
    class Shaped(nn.Module):
        def forward(self, x: torch.Tensor, kind: str = "tensor"):
            return {
                "tensor": x,
                "tuple": (x, x + 1),
                "dict": {"a": x, "b": [None, x * 2]},
                "pair": Pair(x, 3),
            }[kind]

    model = Shaped()
    compiled = pycandle.compile(model, X)
    for kind in ("tuple", "dict", "pair", "tensor"):
        found, expected = compiled(X, kind), model(X, kind)
        assert type(found) is type(expected)
        torch.utils._pytree.tree_map(same, found, expected)


def test_strict_refuses_another_program_and_names_both_values(module) -> None:
    compiled = pycandle.compile(module, X, scale=2.0, strict=True)
    assert not any(value is module for value in vars(compiled._programs).values()), (
        "it is not needed any more"
    )
    same(compiled(X[:2], scale=2.0), module(X[:2], scale=2.0))
    same(compiled(X, 2.0), module(X, 2.0))
    for args, kwargs, words in [
        ((X,), {"scale": 3.0}, r"scale is 3\.0 instead of 2\.0"),
        ((X,), {}, r"scale is 1\.0 \(the default\) instead of 2\.0"),
        ((X,), {"scale": 2}, r"scale is 2 instead of 2\.0"),
        ((X, 2.0, True), {}, "flip is True instead of False"),
        ((X.double(), 2.0), {}, "x is a tensor of f64 with 2 axes instead of a tensor of f32 with 2 axes"),
    ]:
        with pytest.raises(pycandle.UsageError, match=words) as caught:
            compiled(*args, **kwargs)
        assert "strict=True" in str(caught.value)


def test_eight_programs_are_kept_and_the_least_recently_used_makes_room(monkeypatch) -> None:
    from pycandle import GoldenRecorder

    class Times(nn.Module):
        def forward(self, x: torch.Tensor, step: int) -> torch.Tensor:
            return x * step

    recorded = []
    record = GoldenRecorder.record
    monkeypatch.setattr(GoldenRecorder, "record", lambda self, *a: recorded.append(a[2]) or record(self, *a))
    compiled = pycandle.compile(Times(), X, 0)
    for step in range(8):
        same(compiled(X, step), X * step)
    same(compiled(X, 0), X * 0)
    assert recorded == list(range(8))
    with pytest.warns(UserWarning, match="more than 8 programs.* step is 8 instead of 1"):
        same(compiled(X, 8), X * 8)
    same(compiled(X, 0), X * 0)
    assert recorded == list(range(9))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same(compiled(X, 1), X * 1)
    assert recorded == [*range(9), 1]


def test_an_option_that_is_also_an_argument_of_forward_is_refused() -> None:
    class Threads(nn.Module):
        def forward(self, x: torch.Tensor, threads: int = 1, *, backend: str = "a") -> torch.Tensor:
            return x * threads + len(backend)

    model = Threads()
    with pytest.raises(pycandle.UsageError, match=r"threads=2 .*Threads\.forward its threads by place"):
        pycandle.compile(model, X, threads=2)
    with pytest.raises(pycandle.UsageError, match="wrap the model in a module whose forward has no backend"):
        pycandle.compile(model, X, backend="reference")
    with pytest.raises(pycandle.UsageError, match=r"threads=None"):
        pycandle.compile(model, X, threads=None)
    compiled = pycandle.compile(model, X, 3, threads=1)
    same(compiled(X, 3), model(X, 3))
    same(compiled(X, threads=2, backend="reference"), model(X, threads=2, backend="reference"))


def test_wrong_options_are_found_before_anything_is_recorded(module) -> None:
    with pytest.raises(pycandle.UsageError, match=r"abacus.*reference"):
        pycandle.compile(module, X, backend="abacus")
    with pytest.raises(ValueError, match="from 1 to 1024"):
        pycandle.compile(module, X, threads=0)
    with pytest.raises(pycandle.UsageError, match=r"do not fit forward.*speed"):
        pycandle.compile(module, X)(X, speed=2)


def test_a_call_in_inference_mode_can_make_a_program(module) -> None:
    compiled = pycandle.compile(module, X)
    with torch.inference_mode():
        same(compiled(X * 1, scale=4.0)["y"], module(X, scale=4.0)["y"])


def test_named_dynamic_axes_of_inputs_that_a_call_lacks_stay_out() -> None:
    class Added(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor | None = None) -> torch.Tensor:
            return x if y is None else x + y

    compiled = pycandle.compile(Added(), X, X, dynamic={"x": {0: "n"}, "y": {0: "n"}})
    same(compiled(X[:2], X[:2]), X[:2] * 2)
    same(compiled(X), X)
    same(compiled(X[:2]), X[:2])


class Rich(nn.Module):
    """Everything that compiling could change."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("steps", torch.zeros(2), persistent=False)
        self.dropout = nn.Dropout(0.5)
        self.config = type("Config", (), {"use_cache": True})()
        self.shared = {"a": 1}
        self.children_of = [self.shared]

    def forward(self, x: torch.Tensor, fail: bool = False, **more: torch.Tensor) -> torch.Tensor:
        self.count += 1
        self.steps[0] += 1
        if fail:
            self.seen = len(self.shared)
            self.shared["b"] = 2
            self.training = not self.training
            raise ValueError("on purpose")
        return self.dropout(x) * self.count + sum(more.values())


@pytest.mark.parametrize("fails", [False, True])
def test_the_module_stays_as_it_was(fails) -> None:
    model = Rich().eval()
    model(X)
    torch.manual_seed(5)
    shared, before, random = model.shared, set(vars(model)), torch.get_rng_state()
    if fails:
        with pytest.raises(pycandle.UsageError, match="on purpose"):
            pycandle.compile(model, X, fail=True)
    else:
        compiled = pycandle.compile(model, X, more=X)
        compiled(X, more=X, again=X)
        with pytest.raises(pycandle.UsageError, match="on purpose"):
            compiled(X, fail=True)
    assert model.count == 1 and model.steps.tolist() == [1, 0]
    assert not model.training and not model.dropout.training and model.config.use_cache is True
    assert set(vars(model)) == before and "forward" not in vars(model)
    assert model.shared is shared and model.children_of[0] is shared and shared == {"a": 1}
    assert torch.equal(torch.get_rng_state(), random)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_a_lazy_module_learns_its_sizes_and_its_other_buffers_stay() -> None:
    class Lazy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.LazyLinear(3)
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count += 1
            return self.linear(x) * self.count

    model = Lazy()
    compiled = pycandle.compile(model, X)
    assert model.count == 0
    same(compiled(X), model(X))
    same(compiled(X), model(X))


def test_later_programs_are_those_of_the_module_as_it_was_compiled(module) -> None:
    compiled = pycandle.compile(module, X)
    expected = module(X, scale=5.0)
    module.train()
    module.linear = nn.Linear(4, 4)
    same(compiled(X, scale=5.0), expected)
    assert module.training
    other = pycandle.compile(module.eval(), X)
    with torch.no_grad():
        module.linear.weight += 1
    with pytest.raises(pycandle.UsageError, match=r"parameter linear\.weight has changed since"):
        other(X, scale=5.0)


def test_weights_that_are_not_equal_to_themselves_have_not_changed(module) -> None:
    with torch.no_grad():
        module.linear.bias[0] = float("nan")
    compiled = pycandle.compile(module, X)
    torch.testing.assert_close(compiled(X, 2.0)["y"], module(X, 2.0)["y"], equal_nan=True)


def test_a_model_that_writes_into_its_input_is_told_so() -> None:
    class Writes(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.add_(1)

    with pytest.warns(UserWarning, match="writes into its input"):
        pycandle.compile(Writes(), X.clone())


def test_a_cache_that_is_asked_for_and_cannot_be_recorded_is_told() -> None:
    class Caches(nn.Module):
        def forward(self, x: torch.Tensor, use_cache: bool = False) -> dict:
            return {"y": x, "cache": x} if use_cache else {"y": x}

    compiled = pycandle.compile(Caches(), X)
    with pytest.warns(UserWarning, match="use_cache was set to False"):
        assert list(compiled(X, use_cache=True)) == ["y"]


def test_calls_within_autocast_have_programs_of_their_own() -> None:
    model = nn.Linear(4, 4).eval()
    compiled = pycandle.compile(model, X)
    for dtype in (torch.bfloat16, torch.float16, torch.bfloat16):
        with torch.no_grad(), torch.autocast("cpu", dtype=dtype):
            found, expected = compiled(X), model(X)
        assert found.dtype == expected.dtype == dtype
        torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-2)
        same(compiled(X), model(X).detach())


def test_files_go_with_the_compiled_model_or_with_a_failure(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    compiled = pycandle.compile(Scaled().eval(), X)
    assert len(list(tmp_path.iterdir())) == 1
    session = compiled.session()
    del compiled
    same(session(X, 2.0)["scale"], 2.0)
    mine = session._programs._folder
    assert mine.exists()
    del session
    assert not mine.exists() and not list(tmp_path.iterdir())
    with pytest.raises(pycandle.UsageError):
        pycandle.compile(Rich().eval(), X, fail=True)
    assert not list(tmp_path.iterdir())


def test_threads_that_need_another_program_get_it_once(module) -> None:
    compiled = pycandle.compile(module, X)
    expected = {scale: module(X, scale)["y"] for scale in (1.0, 2.0, 3.0)}

    def call(scale: float) -> None:
        for _ in range(5):
            torch.testing.assert_close(compiled(X, scale)["y"], expected[scale])

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(call, (1.0, 2.0, 2.0, 3.0)))  # raises what a thread raised
    assert len(compiled._programs._kept) == 3


def test_one_element_of_a_strided_buffer_is_in_every_program() -> None:
    module = Scaled().eval()
    module.register_buffer("one", torch.arange(3.0)[::3])
    module.register_forward_hook(lambda own, args, output: {**output, "y": output["y"] + own.one})
    compiled = pycandle.compile(module, X)
    for scale in (1.0, 2.0):
        same(compiled(X, scale), module(X, scale))


# ---- values of every kind ---------------------------------------------------------------------------------------


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 2
    HIGH = 3


class Mode(enum.StrEnum):
    FAST = "fast"
    SLOW = "slow"


class Takes(nn.Module):
    """Calls `use(x, option)`."""

    def __init__(self, use) -> None:
        super().__init__()
        self.use = use

    def forward(self, x: torch.Tensor, option: object) -> dict:
        return {"y": self.use(x, option)}


VALUES = {
    "torch.Size": (lambda x, size: x.new_ones(size) * size.numel(), torch.Size([2, 3]), torch.Size([3, 3])),
    "range": (lambda x, steps: sum(x * i for i in steps), range(3), range(1, 5, 2)),
    "slice": (lambda x, part: x[:, part] * 2, slice(0, 2), slice(None, None, 3)),
    "enum": (lambda x, colour: x * 2 if colour is Colour.RED else x * 3, Colour.RED, Colour.BLUE),
    "IntEnum": (lambda x, level: x * 2 if level is Level.LOW else x * 3, Level.LOW, Level.HIGH),
    "StrEnum": (lambda x, mode: x * 2 if mode is Mode.FAST else x * 3, Mode.FAST, Mode.SLOW),
    "np.float64": (lambda x, scale: x * scale.item(), np.float64(1.5), np.float64(2.5)),
    "np.int64": (lambda x, scale: x * scale.item(), np.int64(2), np.int64(3)),
    "dtype": (lambda x, dtype: x.to(dtype), torch.float64, torch.float16),
    "device": (lambda x, device: x.to(device) * 2, torch.device("cpu"), torch.device("cpu:0")),
    "complex": (lambda x, turn: x * turn, 1j, -2j),
    "function": (lambda x, function: function(x), torch.relu, torch.tanh),
    "nested": (
        lambda x, o: x * o["by"].numel() + o["b"][1],
        {"by": torch.Size([2]), "b": (Colour.RED, X)},
        None,
    ),
}


@pytest.mark.parametrize("kind", VALUES)
def test_values_that_torch_export_refuses_are_baked_in(kind: str) -> None:
    use, one, other = VALUES[kind]
    model = Takes(use)
    compiled = pycandle.compile(model, X, one)
    for option in (one, one if other is None else other, one):
        same(compiled(X, option), model(X, option))
        same(compiled(x=X, option=option), model(X, option))
    with pytest.raises(pycandle.UsageError, match="option"):
        pycandle.compile(model, X, one, strict=True)(X, 0.5)


def test_a_size_that_a_model_returns_is_a_size() -> None:
    class Shape(nn.Module):
        def forward(self, x):
            return x * 2, x.shape

    compiled = pycandle.compile(Shape(), X)
    for x in (X, X[:2]):
        assert compiled(x)[1] == x.shape
        assert type(compiled(x)[1]) is torch.Size


def test_values_that_can_change_are_refused_by_their_type() -> None:
    with pytest.raises(pycandle.RecordingError, match="set"):
        pycandle.compile(Takes(lambda x, numbers: x * sum(numbers)), X, {1, 2})


@pytest.mark.parametrize("nested", [False, True])
def test_a_module_as_an_argument_is_refused_by_its_name(nested) -> None:
    class Applies(nn.Module):
        def forward(self, x, layers):
            return layers["first"](x) if nested else layers(x)

    layer = nn.Linear(X.shape[-1], 2)
    with pytest.raises(pycandle.UsageError, match=r"input layers(\.first)? is a module \(Linear\)"):
        pycandle.compile(Applies(), X, {"first": layer} if nested else layer)
