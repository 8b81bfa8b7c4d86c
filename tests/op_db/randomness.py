"""What must hold of random results, whatever the numbers drawn."""

from __future__ import annotations

from collections.abc import Callable

import torch

Given = dict[str, object]


def random_problem(name: str, given: Given, results: list[torch.Tensor]) -> str | None:
    fact = _FACTS.get(name.removesuffix("_like"))
    if fact is None or not results or not results[0].numel() or results[0].is_complex():
        return None
    holds, rule = fact
    return None if bool(holds(given, results[0], results)) else f"random results where {rule} does not hold"


def _dropped(given: Given, y: torch.Tensor, results: list[torch.Tensor]) -> bool:
    x, p = given["input"], given["p"]
    if p == 0 or given["train"] is False:
        return torch.equal(y, x)
    kept = (x.double() * (1 / (1 - p) if p < 1 else 0)).to(y.dtype)
    close = torch.isclose(y.double(), kept.double(), rtol=4 * torch.finfo(y.dtype).eps)
    if len(results) > 1:  # the mask says which
        return bool(torch.where(results[1], close, y == 0).all())
    return bool((close | (y == 0)).all())


def _leaky(given: Given, y: torch.Tensor, _results: list[torch.Tensor]) -> bool:
    x, y = given["self"].double(), y.double()
    slack = x.abs() * 1e-2
    low, high = x * given["upper"] - slack, x * given["lower"] + slack
    return bool(torch.where(x > 0, y == x, (y >= low) & (y <= high)).all())


def _places(given: Given, y: torch.Tensor, _results: list[torch.Tensor]) -> bool:
    weights = given["self"]
    if y.min() < 0 or y.max() >= weights.shape[-1] or (weights.gather(-1, y) <= 0).any():
        return False
    return given["replacement"] or bool((y.sort(-1).values.diff(dim=-1) > 0).all())


_FACTS: dict[str, tuple[Callable, str]] = {
    "native_dropout": (_dropped, "each is 0 or x / (1 - p), and the mask says which"),
    "rrelu": (_leaky, "x where positive, else a slope between lower and upper"),
    "bernoulli": (lambda g, y, r: ((y == 0) | (y == 1)).all(), "0 or 1"),
    "rand": (lambda g, y, r: (y >= 0).all() and (y < 1).all(), "0 <= y < 1"),
    "randint": (lambda g, y, r: (y >= g.get("low", 0)).all() and (y < g["high"]).all(), "low <= y < high"),
    "randperm": (
        lambda g, y, r: torch.equal(y.sort().values.long(), torch.arange(y.numel())),
        "every number once",
    ),
    "uniform": (lambda g, y, r: (y >= g["from"]).all() and (y <= g["to"]).all(), "from <= y <= to"),
    "exponential": (lambda g, y, r: (y >= 0).all(), "y >= 0"),
    "log_normal": (lambda g, y, r: (y >= 0).all(), "y >= 0"),
    "geometric": (lambda g, y, r: (y >= 1).all() and torch.equal(y, y.round()), "1, 2, 3, …"),
    "multinomial": (_places, "places of positive weight, each once without replacement"),
    "scaled_dot_product_attention": (
        lambda g, y, r: g["dropout_p"] != 1 or (y == 0).all(),
        "0 at dropout_p=1",
    ),
}
