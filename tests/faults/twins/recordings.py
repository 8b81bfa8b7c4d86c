"""Records the right model once, and each wrong one beside it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn

from pycandle import GoldenRecorder, perturb

from .effect import Effect, effect
from .stored_weights import CHANGES, changed_recording
from .twin import Twin, Variant, Wrong

SEED = 7
SIZES = (1.0, 1.0, 1.0, 1.0, 0.1, 10.0, 0.01, 100.0)  # of the inputs; the first is the recorded one
SEEDS = len(SIZES) - 1  # further inputs of each right model
OUTLIER = 100.0  # times the other channels


@dataclass
class Pair:
    """One model in one dtype: the right recording, and the wrong ones."""

    twin: Twin
    variant: Variant
    folder: Path  # of this model and dtype

    @property
    def name(self) -> str:
        return f"{self.twin.name}_{self.variant.name}"

    @cached_property
    def right(self) -> nn.Module:
        torch.manual_seed(SEED)
        model = self.twin.make().eval()
        perturb(model, seed=SEED)
        if self.variant.outlier:
            weight = dict(model.named_parameters())[self.twin.outlier]
            with torch.no_grad():
                (weight if weight.dim() == 2 else weight[0])[..., 3 % weight.shape[-1]] *= OUTLIER
        return model.to(self.variant.dtype)

    def wrong(self, wrong: Wrong) -> nn.Module:
        torch.manual_seed(SEED)
        model = self.twin.make(**wrong.knobs).eval().to(self.variant.dtype)
        learned = dict(self.right.named_parameters())
        learned |= {name: b for name, b in self.right.named_buffers() if "running" in name}
        model.load_state_dict(learned, strict=False)
        if wrong.weights:
            change, parameter = wrong.weights
            values = dict(model.named_parameters()) | dict(model.named_buffers())
            with torch.no_grad():
                values[parameter].copy_(CHANGES[change](values[parameter].detach().clone()))
        return model

    def inputs(self, seed: int = 0) -> dict:
        given = self.twin.inputs(torch.Generator().manual_seed(seed))
        size = SIZES[seed] if not self.twin.is_vacuous else 1.0
        return {
            k: (v * size).to(self.variant.dtype) if v.is_floating_point() else v for k, v in given.items()
        }

    def recorded(self, model: nn.Module, folder: Path, seeds: int = 0) -> Path:
        manifest = folder / f"{self.twin.name}_manifest.json"
        if not manifest.exists() or (not (folder / f"seed{seeds}_trace.safetensors").exists() and seeds):
            recorder = GoldenRecorder(folder, dynamic=False)
            recorder.record(model, **self.inputs())
            recorder.save(self.twin.name)
            for seed in range(1, seeds + 1):
                recorder.add_goldens(f"seed{seed}", **self.inputs(seed))
        return manifest

    @cached_property
    def manifest(self) -> Path:
        """Of the right model."""
        return self.recorded(self.right, self.folder / "right", 0 if self.twin.is_vacuous else SEEDS)

    @cached_property
    def traces(self) -> list[Path]:
        """Goldens of the recorded input, and those that the recorder added where it proves nothing."""
        first = self.manifest.with_name(f"{self.twin.name}_trace.safetensors")
        others = sorted(self.manifest.parent.glob("*_trace.safetensors"))
        return [first, *(file for file in others if file != first and not file.name.startswith("seed"))]

    def folder_of(self, wrong: Wrong) -> Path:
        return self.folder / wrong.name.replace(" ", "_").replace(":", "")

    def wrong_manifest(self, wrong: Wrong) -> Path:
        folder = self.folder_of(wrong)
        if not wrong.weights:
            return self.recorded(self.wrong(wrong), folder)
        manifest = folder / self.manifest.name
        if not manifest.exists():
            change, parameter = wrong.weights
            changed_recording(self.manifest, folder, parameter, CHANGES[change])
        return manifest

    def effect_of(self, wrong: Wrong) -> Effect:
        kept = self.folder_of(wrong) / "moved.json"
        if not kept.exists():
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(
                json.dumps(effect(self.right, self.wrong(wrong), self.exercising_inputs()).json())
            )
        facts = json.loads(kept.read_text())
        return Effect(**facts | {"paths": tuple(facts["paths"])})

    def exercising_inputs(self) -> dict:
        """The recorded ones, or the last that the recorder added where those prove nothing."""
        if len(self.traces) == 1 or not self.twin.is_vacuous:
            return self.inputs()
        goldens = load_file(self.traces[-1])
        return {
            key.removeprefix("input:"): golden for key, golden in goldens.items() if key.startswith("input:")
        }

    def wrongs(self) -> list[Wrong]:
        is_half = self.variant.dtype is not torch.float32
        return [wrong for wrong in self.twin.wrongs if is_half or not wrong.half_only]


def pairs(folder: Path, twins: list[Twin]) -> list[Pair]:
    return [Pair(t, v, folder / t.name / v.name) for t in twins for v in t.variants]
