"""Python's names that C++, its headers or the front end use too: for modules, buffers, inputs, outputs, variables, numbers and
classes. The code compiles, and is the recorded program."""

from __future__ import annotations

import pytest
import torch
from emitted_models import emitted_together
from torch import nn

# What emitted code calls without a namespace, what it could be taken for, and what headers define.
FUNCTIONS = [
    "cat",
    "matmul",
    "where",
    "full",
    "arange",
    "unpack",
    "min",
    "max",
    "floordiv",
    "mod",
    "data_dim",
    "todo",
    "stack",
]
SPELLED = [
    "relu",
    "softmax",
    "linear",
    "reshape",
    "dim",
    "view",
    "flatten",
    "size",
    "tied",
    "get",
    "state",
    "begin",
    "first",
]
TYPES = [
    "Tensor",
    "Tensors",
    "Dim",
    "State",
    "Weights",
    "Checker",
    "DType",
    "Ints",
    "Numbers",
    "Config",
    "Output",
    "Module",
]
MODULES = [
    "Linear",
    "ReLU",
    "Sequential",
    "ModuleList",
    "nn",
    "functional",
    "std",
    "pycandle",
    "string",
    "vector",
    "tuple",
]
MINE = [
    "w",
    "c",
    "i",
    "checker",
    "path",
    "x",
    "v",
    "f",
    "F",
    "each",
    "block",
    "int64_t",
    "size_t",
    "operator",
    "template",
]
MACROS = [
    "EOF",
    "NULL",
    "stdin",
    "major",
    "minor",
    "unix",
    "linux",
    "errno",
    "INFINITY",
    "NAN",
    "TEST",
    "isnan",
    "M_PI",
]
OF_C = ["abs", "exp", "index", "time", "select", "signal", "log", "gamma"]
NAMES = [*FUNCTIONS, *SPELLED, *TYPES, *MODULES, *MINE, *MACROS, *OF_C]


def with_functions(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Uses the functions that have no namespace in the code."""
    y = torch.cat([y, x], 1)
    y = torch.where(y > 0, y, y * torch.arange(x.shape[0])[:, None])
    return y @ torch.full((12, 6), 0.5)


class Members(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        for name in NAMES:
            self.add_module(name, nn.Linear(6, 6))
        self.blocks = nn.ModuleList(nn.Linear(6, 6) for _ in range(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x
        for name in NAMES:
            y = torch.tanh(self.get_submodule(name)(y))
        for block in self.blocks:
            y = block(y)
        values, _ = torch.topk(y, 2)
        return with_functions(y, x) + values.sum(1, keepdim=True)


class Buffers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        for name in NAMES:
            self.register_buffer(name, torch.randn(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x
        for name in NAMES:
            y = torch.tanh(y + self.get_buffer(name))
        return with_functions(y, x)


class States(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        for name in ("cat", "w", "i", "c", "Tensor", "x"):
            self.register_buffer(name, torch.zeros(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for name in ("cat", "w", "i", "c", "Tensor", "x"):
            self.get_buffer(name).add_(x.sum(0))
        return with_functions(x * self.cat, x * self.w)


def class_named(name: str) -> type[nn.Module]:
    def init(self) -> None:
        nn.Module.__init__(self)
        self.inner = nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return with_functions(self.inner(x), x)

    return type(name, (nn.Module,), {"__init__": init, "forward": forward})


class Classes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.all = nn.ModuleList(class_named(name)() for name in NAMES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for module in self.all:
            x = torch.tanh(module(x))
        return with_functions(x, x)


def taking(names: list[str]) -> type[nn.Module]:
    """A model whose inputs have these names."""
    scope: dict = {}
    source = f"def forward(self, {', '.join(names)}): return self.of([{', '.join(names)}])"
    exec(source, scope)

    class Inputs(nn.Module):
        forward = scope["forward"]

        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(nn.Linear(6, 6) for _ in range(5))

        def of(self, tensors: list[torch.Tensor]) -> torch.Tensor:
            y = sum(tensor * i for i, tensor in enumerate(tensors, 1))
            for block in self.blocks:
                y = block(y)
            return with_functions(y, tensors[0])

    return Inputs


class Outputs(nn.Module):
    def forward(self, x: torch.Tensor) -> dict:
        names = ["f", "F", "each", "Tensor", "Output", "cat", "x", "operator", "EOF"]
        return {name: x * i for i, name in enumerate(names, 1)}


class Variables(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        cat = torch.sin(x) + 1
        w = cat * cat - cat
        Tensor = torch.tanh(w) + w
        EOF = Tensor * w + cat
        i = EOF * w
        where = with_functions(i, EOF)
        full = torch.where(where > 0, where, where * 2) + where
        min = full * full + where
        return min + torch.cat([full, i], 1)[:, :6] * Tensor


class Numbered(nn.Module):
    def __init__(self, k: int) -> None:
        super().__init__()
        self.w, self.c, self.i, self.cat = k, k + 1, k + 2, float(k)
        self.hs = nn.ModuleList(nn.Linear(6, 6) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for h in self.hs:
            x = h(x)
        return torch.cat([x * self.cat + self.w, x[:, : self.i] * self.c], 1)[:, :6]


class Numbers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.d = Numbered(1), Numbered(2), Numbered(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.a(x) + self.b(x) * self.d(x)


class Regions(nn.Module):
    def forward(self, v: torch.Tensor, cat: torch.Tensor) -> torch.Tensor:
        return torch.cond(
            v.sum() > 0,
            lambda v, cat: torch.cat([v, cat], 1) * 2,
            lambda v, cat: torch.cat([v, cat], 1) + v.sum(),
            (v, cat),
        )


class DataSizes(nn.Module):
    def forward(self, u0: torch.Tensor) -> torch.Tensor:
        return u0[torch.nonzero(u0[:, 0] > 0).squeeze(1)] * 2


X = {"x": torch.randn(2, 6)}


@pytest.mark.parametrize("kind", [Members, Buffers, Classes])
def test_members_and_classes_may_have_any_name(kind: type, tmp_path, pycandle) -> None:
    emitted_together({kind.__name__: (kind, X)}, tmp_path, pycandle)


def test_inputs_outputs_and_variables_may_have_any_name(tmp_path, pycandle) -> None:
    taken = [name for name in NAMES if name not in ("mod", "self")]  # torch.export calls its own argument mod
    groups = [taken[at : at + 12] for at in range(0, len(taken), 12)]
    models = {
        f"inputs{i}": (taking(names), {n: torch.randn(2, 6) for n in names}) for i, names in enumerate(groups)
    }
    others = {kind.__name__: (kind, X) for kind in (States, Outputs, Variables, Numbers)}
    regions = {"Regions": (Regions, {"v": X["x"], "cat": X["x"]}), "DataSizes": (DataSizes, {"u0": X["x"]})}
    texts = emitted_together({**models, **others, **regions}, tmp_path, pycandle)
    assert 'cat_(w.state("cat"))' in texts["States"], "renamed, its path is not"


def test_a_model_may_have_the_name_of_a_function(tmp_path, pycandle) -> None:
    names = [
        "Cat",
        "Index",
        "Time",
        "Nn",
        "Functional",
        "Std",
        "Min",
        "EOF",
        "Config",
        "Linear",
        "W",
        "Y0",
        "cat",
        "int",
    ]
    texts = emitted_together({name: (class_named(name), X) for name in names}, tmp_path, pycandle)
    assert (
        "namespace index_model {" in texts["Index"] and "struct Index : nn::Module<Index>" in texts["Index"]
    )
