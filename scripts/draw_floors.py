"""Draws docs/images/floors.svg: golden, floor and error of a layer norm that is right and of one with another epsilon.

.venv/bin/python scripts/draw_floors.py
"""

from __future__ import annotations

import math
from pathlib import Path

import torch

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "floors.svg"
_SHOWN, _PANEL, _TOP, _LEFT, _HEIGHT = 56, 400, 46, 46, 220
_LOWEST, _HIGHEST = -9.0, -4.0  # powers of ten
_U = 2.0**-24


def normalised(x: torch.Tensor, epsilon: float, moved: float = 0.0) -> torch.Tensor:
    """A layer norm step by step in the dtype of x; with `moved`, each step moves by up to that part of itself."""

    def step(y: torch.Tensor, size: torch.Tensor | None = None) -> torch.Tensor:
        noise = torch.rand(y.shape, dtype=torch.float64, generator=_NOISE) * 2 - 1
        return (y.double() + moved * noise * (y if size is None else size).abs().double()).to(x.dtype)

    n = x.shape[-1]
    mean = step(x.sum(-1, keepdim=True), x.abs().sum(-1, keepdim=True)) / n
    centred = step(x - mean, x.abs() + mean.abs())
    variance = step((centred * centred).sum(-1, keepdim=True)) / n
    return step(centred * step(torch.rsqrt(step(variance + epsilon))))


def rms(values: torch.Tensor) -> float:
    return values.double().pow(2).mean().sqrt().item()


def measured(epsilon: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, float]:
    """Of a program with this epsilon, beside PyTorch's with 1e-5: value, error, furthest witness, floor."""
    x = torch.randn(8, 64, generator=torch.Generator().manual_seed(0))
    golden = torch.nn.functional.layer_norm(x, (64,), eps=1e-5).double()
    exact = normalised(x.double(), epsilon)
    runs = [normalised(x, epsilon), normalised(x, epsilon, _U), normalised(x, epsilon, _U)]
    witnesses = [(run.double() - exact).abs() for run in runs]
    floor = max(_U * rms(exact), *(rms(w) for w in witnesses))
    return exact, (golden - exact).abs(), torch.stack(witnesses).amax(0), floor


def height_of(value: float) -> float:
    power = min(max(math.log10(max(value, 1e-300)), _LOWEST), _HIGHEST)
    return _TOP + _HEIGHT * (_HIGHEST - power) / (_HIGHEST - _LOWEST)


def panel(left: float, title: str, epsilon: float) -> list[str]:
    exact, error, witness, floor = measured(epsilon)
    order = exact[0].abs().argsort()[:_SHOWN]
    width = _PANEL - 60
    ratio = rms(error) / floor
    verdict = "within rounding" if ratio <= 4 else "wrong here"
    parts = [
        f'<text x="{left}" y="18" font-weight="bold">{title}</text>',
        f'<text x="{left}" y="34">RMS of the error is {ratio:.2g} floors: {verdict}</text>',
        f'<rect x="{left}" y="{_TOP}" width="{width}" height="{_HEIGHT}" fill="none" stroke="#999"/>',
    ]
    for times, dash in ((1, ""), (4, ' stroke-dasharray="5 3"')):
        y = height_of(times * floor)
        parts.append(
            f'<line x1="{left}" x2="{left + width}" y1="{y:.1f}" y2="{y:.1f}" stroke="#2a7"{dash}/>'
            f'<text x="{left + width - 2}" y="{y - 3:.1f}" text-anchor="end" fill="#2a7">{"4 F" if times == 4 else "floor F"}</text>'
        )
    for i, element in enumerate(order.tolist()):
        x = left + width * (i + 0.5) / _SHOWN
        bar, dot = height_of(witness[0, element].item()), height_of(error[0, element].item())
        colour = "#c22" if verdict == "wrong here" else "#236"
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP + _HEIGHT}" y2="{bar:.1f}" stroke="#cde" stroke-width="4"/>'
            f'<circle cx="{x:.1f}" cy="{dot:.1f}" r="2.2" fill="{colour}"/>'
        )
    return parts


def svg() -> str:
    parts = [
        f'<text x="{_LEFT - 6}" y="{height_of(10.0**power) + 4:.1f}" text-anchor="end">1e{power:.0f}</text>'
        for power in (-9, -8, -7, -6, -5, -4)
    ]
    parts += panel(_LEFT, "right: epsilon 1e-5 in both", 1e-5)
    parts += panel(_LEFT + _PANEL, "wrong: epsilon 1e-6 in the program", 1e-6)
    text = (
        "a dot: |golden − exact| of one element; a bar: the furthest that rounding went there in three runs"
    )
    parts.append(f'<text x="{_LEFT}" y="{_TOP + _HEIGHT + 18}">{text}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + 2 * _PANEL - 50} {_TOP + _HEIGHT + 28}" '
        'font-family="sans-serif" font-size="11">\n<rect width="100%" height="100%" fill="white"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


_NOISE = torch.Generator().manual_seed(1)

if __name__ == "__main__":
    PICTURE.write_text(svg())
