"""Generated tests and values that are rounding alone: the log-determinant of an orthogonal matrix."""

from __future__ import annotations

import subprocess

import pytest
import torch
from test_codegen_states import outcome_of
from torch import nn


def orthogonal(channels: int) -> torch.Tensor:
    """Of many matrices the one whose logarithm PyTorch computes worst: one in twenty is right to the last bit by chance."""

    def error(weight: torch.Tensor) -> float:
        exact = torch.linalg.slogdet(weight.double())[1]
        return float((torch.linalg.slogdet(weight)[1] - exact).abs())

    return max((torch.linalg.qr(torch.randn(channels, channels))[0] for _ in range(64)), key=error)


class InvertibleConv(nn.Module):
    """Glow's 1×1 convolution: its weight is orthogonal at first, so the logarithm is that of one."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(orthogonal(channels))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        height, width = x.shape[2:]
        log_determinant = torch.linalg.slogdet(self.weight)[1]
        return nn.functional.conv2d(x, self.weight[:, :, None, None]), height * width * log_determinant


class Flow(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = InvertibleConv(4), InvertibleConv(4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y, a = self.first(x)
        y, b = self.second(torch.tanh(y))
        return y, a + b


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(nn.Sequential(nn.Linear(32, 32), nn.Tanh()) for _ in range(3)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x) * 0.5


def test_an_edit_that_a_guessed_tolerance_lets_pass_is_found_by_the_floors(tmp_path, pycandle):
    """Off by 2e-4: less than the guess of 1e-3, and a thousand times what rounding does."""
    torch.manual_seed(0)
    inputs = {"x": torch.randn(8, 32)}
    ran = outcome_of(Scaled().eval(), tmp_path, pycandle, inputs, ("0.5", "0.5001"))
    wrong = "[  FAILED  ] Scaled.GivesTheRecordedOutput"
    assert wrong in ran.stdout and "rounding explains" in ran.stdout and "are guessed" not in ran.stdout
    (tmp_path / "model_floors.json").unlink()
    guessed = subprocess.run([tmp_path / "test_model"], cwd=tmp_path, capture_output=True, text=True)
    assert wrong not in guessed.stdout
    assert "note: tolerances are guessed, 0.001 for " in guessed.stdout
    assert "[  FAILED  ] Scaled.AgreesAtAnotherShape" in guessed.stdout, (
        "the recorded program is at hand there"
    )


@pytest.mark.parametrize("edit", [("", ""), ("a + b", "a - b - 0.01")])
def test_a_value_that_rounding_alone_moves_passes_with_a_note_and_hides_no_fault(edit, tmp_path, pycandle):
    torch.manual_seed(0)
    ran = outcome_of(Flow().eval(), tmp_path, pycandle, {"x": torch.randn(2, 4, 6, 6)}, edit)
    assert "note: second@0/output.1 is off by" in ran.stdout, ran.stdout
    assert "and unstable: rounding alone moves this value by" in ran.stdout
    if not edit[0]:
        assert ran.returncode == 0, ran.stdout
        verdicts = {
            row["tap"]: row["verdict"]
            for row in pycandle.json("verify", tmp_path / "model_manifest.json")["layers"]
        }
        assert verdicts["second@0/output.1"] == "reference unstable", "no input has a part in it"
    else:
        assert ran.returncode == 1 and "output.1 is off by" in ran.stdout
