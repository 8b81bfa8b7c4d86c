"""torch.cond, while_loop and scan, as users write them: recorded, imported, verified, and right at other shapes."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch._higher_order_ops import while_loop
from torch._higher_order_ops.scan import scan
from zoo.check import check
from zoo.entry import Entry, floats


class CondOnData(nn.Module):
    """Branches that own parameters; the seeds' values take both."""

    def __init__(self) -> None:
        super().__init__()
        self.yes, self.no = nn.Linear(6, 4), nn.Linear(6, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: self.yes(x).relu(), lambda x: self.no(x) * 2, (x,))


class CondWithSeveralResults(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        def positive(x):
            return x.exp(), x.sum(-1)

        def negative(x):
            return x - 1, x.amax(-1)

        return torch.cond(x[0, 0] > 0, positive, negative, (x,))


class NestedCond(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def inner(x):
            return torch.cond(x[0, 1] > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))

        return torch.cond(x[0, 0] > 0, inner, lambda x: x * 3, (x,))


class WhileOnCounter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def more(i, x):
            return i < 3

        def step(i, x):
            return i + 1, torch.tanh(self.linear(x))

        return while_loop(more, step, (torch.tensor(0), x))[1]


class WhileOnData(nn.Module):
    """Newton's iteration: how often it runs depends on the values."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        target = x.abs() + 0.5

        def more(i, guess):
            return ((guess * guess - target).abs().max() > 1e-3) & (i < 50)

        def step(i, guess):
            return i + 1, 0.5 * (guess + target / guess)

        return while_loop(more, step, (torch.tensor(0), target.clone()))


class Recurrence(nn.Module):
    """An RNN as a scan over time: the carry uses parameters, every step has an output."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.read = nn.Linear(11, 5), nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        def step(state, now):
            state = torch.tanh(self.cell(torch.cat([state, now], -1)))
            return state, self.read(state)

        start = x.new_zeros(x.shape[0], 5)
        return scan(step, start, x.transpose(0, 1), dim=0)


class ReversedScan(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        def step(total, now):
            total = total * 0.9 + now
            return total, total.clone()

        return scan(step, torch.zeros(6), x, dim=0, reverse=True)


class ScanOfSeveral(nn.Module):
    """Two carries, two inputs and two outputs, scanned along axis 1."""

    def forward(self, x: torch.Tensor) -> tuple:
        def step(carry, now):
            a, b = carry
            u, v = now
            a, b = a + u * v, torch.maximum(b, u - v)
            return (a, b), (a * b, a - b)

        start = (torch.zeros(x.shape[0]), torch.full((x.shape[0],), -1.0))
        return scan(step, start, (x, x.cos()), dim=1)


ROWS = floats(x=("batch", 6))
STEPS = floats(x=("batch", 7, 6))
CASES = [
    (CondOnData, ROWS),
    (CondWithSeveralResults, ROWS),
    (NestedCond, ROWS),
    (WhileOnCounter, ROWS),
    (WhileOnData, ROWS),
    (Recurrence, STEPS),
    (ReversedScan, ROWS),
    (ScanOfSeveral, ROWS),
]


@pytest.mark.parametrize("model, inputs", CASES, ids=[model.__name__ for model, _ in CASES])
def test_control_flow_runs_as_in_pytorch(model, inputs, tmp_path) -> None:
    entry = Entry("basics", model.__name__, "control flow", model, inputs, {"batch": 2})
    facts = check(entry, tmp_path, lambda _: None)
    assert facts["status"] == "passed", facts["detail"]
