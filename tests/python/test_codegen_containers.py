"""Modules in containers, shared and handed around: every instance in the emitted code has its own weights."""

from __future__ import annotations

import torch
from emitted_models import emitted_together
from torch import nn


def pair() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 6), nn.ReLU())


class InTurn(nn.Module):
    """Calls the modules of a container one after another."""

    def __init__(self, blocks) -> None:
        super().__init__()
        self.blocks = blocks

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks.values() if isinstance(self.blocks, nn.ModuleDict) else self.blocks:
            x = block(x)
        return x


class AsAWhole(nn.Module):
    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)


class ListsOfLists(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList(nn.ModuleList(pair() for _ in range(2)) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for stage in self.stages:
            for block in stage:
                x = x + block(x)
        return x


class AddedByName(nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.order = [pair() for _ in range(3)]
        for i, module in enumerate(self.order):
            self.add_module(f"{name}{i}", module)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for module in self.order:
            x = module(x)
        return x


class Parameters(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.matrices = nn.ParameterList(nn.Parameter(torch.randn(6, 6)) for _ in range(3))
        self.rows = nn.ParameterDict({name: nn.Parameter(torch.randn(6)) for name in "abc"})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for matrix in self.matrices:
            x = torch.tanh(x @ matrix)
        return x * self.rows["a"] + self.rows["b"] - self.rows["c"]


class Residual(nn.Sequential):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + super().forward(x)


class Block(nn.Module):
    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.ff = nn.Sequential(nn.Linear(6, width), nn.ReLU(), nn.Linear(width, 6))
        self.norm = nn.LayerNorm(6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x + self.ff(x))


def in_turn(make) -> tuple:
    return lambda: InTurn(nn.ModuleList(make(i) for i in range(6))), {"x": torch.randn(2, 6)}


def shared_linear() -> nn.Module:
    linear = nn.Linear(6, 6)
    return InTurn(nn.ModuleList(nn.Sequential(linear, nn.ReLU()) for _ in range(4)))


X = {"x": torch.randn(2, 6)}
CONTAINERS = {
    "list": in_turn(lambda i: pair()),
    "every_other": in_turn(lambda i: pair() if i % 2 else nn.LayerNorm(6)),
    "of_blocks": in_turn(lambda i: nn.Sequential(Block(), nn.GELU())),
    "nested": in_turn(lambda i: nn.Sequential(nn.Linear(6, 6), nn.Sequential(nn.Linear(6, 6), nn.ReLU()))),
    "residual": in_turn(lambda i: Residual(nn.Linear(6, 6), nn.ReLU())),
    "in_a_block": in_turn(lambda i: Block()),
    "in_blocks_of_widths": in_turn(lambda i: Block(4 + i)),
    "dict": (lambda: InTurn(nn.ModuleDict({name: pair() for name in "abc"})), X),
    "numbered_dict": (lambda: InTurn(nn.ModuleDict({str(i): pair() for i in range(3)})), X),
    "lists_of_lists": (ListsOfLists, X),
    "sequences": (lambda: InTurn(nn.Sequential(*(nn.Sequential(*pair(), pair()) for _ in range(3)))), X),
    "repeated_in_sequences": (
        lambda: AsAWhole(nn.Sequential(*(nn.Sequential(pair(), pair()) for _ in range(3)))),
        X,
    ),
    "added": (lambda: AddedByName("layer"), X),
    "added_numbers": (lambda: AddedByName("layer_"), X),
    "parameters": (Parameters, X),
    "one_block_many_times": (lambda: InTurn(nn.ModuleList([pair()] * 3)), X),
    "one_linear_in_many": (shared_linear, X),
}


def test_every_instance_in_a_container_has_its_own_weights(tmp_path, pycandle) -> None:
    texts = emitted_together(CONTAINERS, tmp_path, pycandle)
    assert 'blocks(6, w / "blocks")' in texts["list"], "a class, as a person would write it"
    assert "for (const Block& block : blocks) x = block(x);" in texts["list"]
    assert 'return Layer(w / ("layer_" + std::to_string(i)));' in texts["added_numbers"]


class Handed(nn.Module):
    """Gets a function of the model around it: its parameters are not below its own path."""

    def __init__(self) -> None:
        super().__init__()
        self.own = nn.Linear(6, 6)

    def forward(self, x: torch.Tensor, f) -> torch.Tensor:
        return x + (self.own(x) @ f if isinstance(f, torch.Tensor) else f(self.own(x)))


class Handing(nn.Module):
    def __init__(self, functions, subs: int = 1) -> None:
        super().__init__()
        self.functions = nn.ModuleList(functions)
        self.subs = nn.ModuleList(Handed() for _ in range(subs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for i in range(max(len(self.subs), len(self.functions))):
            x = self.subs[i % len(self.subs)](x, self.functions[i % len(self.functions)])
        return x


class HandingByName(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.sub = Handed()
        self.ff = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6))
        self.weight = nn.Parameter(torch.randn(6, 6))
        self.embedding = nn.Embedding(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.sub(self.sub(x, self.ff), self.weight)
        return self.sub(x, self.embedding.weight)


class TwoNames(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.c, self.sub = Block(), pair(), Handed()
        self.b, self.d = self.a, self.c
        self.blocks = nn.ModuleList([Block(), Block()])
        self.first = self.blocks[0]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.d(self.c(self.b(self.a(x))))
        return self.sub(self.blocks[1](self.first(x)), self.blocks[0])


def nested_sequence() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 6), pair(), Block())


HANDED = {
    "by_name": (HandingByName, X),
    "two_sequences": (lambda: Handing([pair(), pair()]), X),
    "modules": (lambda: Handing([Block(), nn.Linear(6, 6), nested_sequence()]), X),
    "a_repetition": (lambda: Handing([nn.Sequential(*(Block() for _ in range(3)))]), X),
    "one_to_all": (lambda: Handing([pair()], subs=3), X),
    "one_to_each": (lambda: Handing([pair() for _ in range(3)], subs=3), X),
    "two_names": (TwoNames, X),
}


def test_a_module_that_is_handed_to_another_keeps_its_weights(tmp_path, pycandle) -> None:
    texts = emitted_together(HANDED, tmp_path, pycandle)
    assert (
        'nn::Linear(6, 6, (w / "ff.0").tied("bias", "ff.0.bias").tied("weight", "ff.0.weight"))'
        in "".join(texts["by_name"].split("\n"))
    )
