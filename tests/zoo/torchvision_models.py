"""Every builder of torchvision that is not quantised, at the smallest images it takes."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torchvision
from torch import nn
from torchvision.models import maxvit, regnet, vision_transformer
from torchvision.models.video import mvit

from . import detectors
from .entry import Entry, Sizes, floats, image, overriding

IMAGE_SIZE = {"maxvit_t": 64, "alexnet": 64, "inception_v3": 75, "googlenet": 64, "vit_h_14": 28}

# Builders that fix their own sizes, made smaller: (owner, helper, overrides, note)
SMALLER: dict[str, tuple[object, str, dict, str]] = {
    "vit_h_14": (vision_transformer, "_vision_transformer", {"num_layers": 3}, "3 of 32 layers"),
    "vit_l_16": (vision_transformer, "_vision_transformer", {"num_layers": 4}, "4 of 24 layers"),
    "vit_l_32": (vision_transformer, "_vision_transformer", {"num_layers": 4}, "4 of 24 layers"),
    "maxvit_t": (maxvit, "_maxvit", {"partition_size": 2}, "windows of 2 instead of 7"),
    "mvit_v1_b": (mvit, "_mvit", {"spatial_size": (64, 64), "temporal_size": 4}, "4 frames of 64 × 64"),
    "mvit_v2_s": (mvit, "_mvit", {"spatial_size": (64, 64), "temporal_size": 4}, "4 frames of 64 × 64"),
    "regnet_y_128gf": (
        regnet.BlockParams,
        "from_init_params",
        {"w_0": 136, "w_a": 40.2, "group_width": 68},
        "a quarter as wide",
    ),
}


def entries() -> list[Entry]:
    return [entry(name) for name in torchvision.models.list_models() if not name.startswith("quantized_")]


def entry(name: str) -> Entry:
    builder = torchvision.models.get_model_builder(name)
    package = builder.__module__.split(".")[2]
    if package in ("detection", "optical_flow", "segmentation", "video"):
        return globals()[package](name, builder)
    size = IMAGE_SIZE.get(name, 32)
    return Entry(
        "torchvision", name, "classification", lambda: build(name, builder, **sized(name, size)),
        image(size), {"batch": 2}, note=SMALLER.get(name, ("",) * 4)[3],
    )  # fmt: skip


def sized(name: str, size: int) -> dict:
    if name.startswith("vit_"):
        return {"image_size": size}
    if name == "maxvit_t":
        return {"input_size": (size, size)}
    return {"init_weights": False} if name in ("googlenet", "inception_v3") else {}


def build(name: str, builder: Callable, **kwargs) -> nn.Module:
    if name not in SMALLER:
        return builder(weights=None, **kwargs)
    owner, helper, overrides, _ = SMALLER[name]
    with overriding(owner, helper, **overrides):
        return builder(weights=None, **kwargs)


def segmentation(name: str, builder: Callable) -> Entry:
    def make() -> nn.Module:
        return builder(weights=None, weights_backbone=None, num_classes=5)

    return Entry("torchvision", name, "segmentation", make, image(32), {"batch": 2})


def video(name: str, builder: Callable) -> Entry:
    frames, size, note = 4, 32, SMALLER.get(name, ("",) * 4)[3]
    if name.startswith("mvit"):
        size = 64
    if name == "s3d":
        frames, size, note = 16, 64, "its last pool has a window of 2 × 2 instead of 7 × 7"

    def make() -> nn.Module:
        model = build(name, builder)
        if name == "s3d":
            model.avgpool = nn.AvgPool3d((2, 2, 2), stride=1)
        return model

    return Entry(
        "torchvision",
        name,
        "video",
        make,
        floats(x=("batch", 3, frames, size, size)),
        {"batch": 2},
        note=note,
    )


class Flow(nn.Module):
    """RAFT with two updates, and its last flow alone among the outputs' list."""

    def __init__(self, raft: nn.Module) -> None:
        super().__init__()
        self.raft = raft

    def forward(self, first: torch.Tensor, second: torch.Tensor) -> list[torch.Tensor]:
        return self.raft(first, second, num_flow_updates=2)


def optical_flow(name: str, builder: Callable) -> Entry:
    shape = ("batch", 3, 128, 128)
    return Entry(
        "torchvision", name, "optical flow", lambda: Flow(builder(weights=None)),
        floats(first=shape, second=shape), {"batch": 1}, further={"batch": (2, 3, 4)}, note="2 updates",
    )  # fmt: skip


class Detector(nn.Module):
    """Detectors take a list of images; one tensor stands for a list of one."""

    def __init__(self, detector: nn.Module) -> None:
        super().__init__()
        self.detector = detector

    def forward(self, x: torch.Tensor) -> list[dict[str, torch.Tensor]]:
        return self.detector([x])


def detection(name: str, builder: Callable) -> Entry:
    """With weights that are conditioned like trained ones, where `perturb` alone would leave scores that tie."""

    def make() -> nn.Module:
        return Detector(detectors.detector(name, torch.initial_seed()))

    def inputs(sizes: Sizes, generator: torch.Generator) -> dict:
        size = detectors.size_of(name)
        return {"x": torch.rand(3, size, size, generator=generator)}

    note = "few proposals and detections" if "rcnn" in name else "few detections"
    return Entry("torchvision", name, "detection", make, inputs, {}, dynamic={}, note=note, real_weights=True)
