"""Models at the sizes at which they were published, one of each family: what `make zoo-bench` times."""

from __future__ import annotations

from collections.abc import Callable

import timm
import torch
import torchaudio
import torchvision
from torch import nn

from . import timm_models
from .entry import Entry, Inputs, floats, image

ONE = {"batch": 1}

# Of torchvision: the smallest of each family, and the side of its images.
CLASSIFIERS = {
    "alexnet": 224, "convnext_tiny": 224, "densenet121": 224, "efficientnet_b0": 224, "efficientnet_v2_s": 384,
    "googlenet": 224, "inception_v3": 299, "maxvit_t": 224, "mnasnet1_0": 224, "mobilenet_v2": 224,
    "mobilenet_v3_large": 224, "regnet_y_400mf": 224, "resnet34": 224, "resnet50": 224, "resnext50_32x4d": 224,
    "shufflenet_v2_x1_0": 224, "squeezenet1_0": 224, "swin_t": 224, "swin_v2_t": 256, "vgg16": 224, "vit_b_16": 224,
}  # fmt: skip
SEGMENTERS = ("deeplabv3_resnet50", "fcn_resnet50", "lraspp_mobilenet_v3_large")
VIDEO = {
    "r3d_18": (16, 112),
    "mc3_18": (16, 112),
    "r2plus1d_18": (16, 112),
    "s3d": (16, 224),
    "swin3d_t": (16, 224),
}

# Of timm: where tests of the zoo take a model made for tests, or a part of one, its published sibling.
SIBLINGS = {
    "byobnet": "repvgg_a0", "convnext": "convnextv2_atto", "efficientnet": "efficientnet_lite0",
    "mambaout": "mambaout_femto", "nfnet": "nfnet_l0", "resnet": "resnet26d", "vision_transformer": "vit_small_patch16_224",
    "beit": "beit_base_patch16_224", "vision_transformer_sam": "samvit_base_patch16_224",
}  # fmt: skip
LARGE = {
    "deepseek_vit",
    "gemma4_vit",
    "qwen3_vit",
    "naflexvit",
    "nasnet",
    "pnasnet",
    "mobilenetv5",
    "hieradet_sam2",
}


def entries() -> list[Entry]:
    return [*_torchvision(), *_timm(), *_audio(), *_small()]


def _entry(source: str, name: str, kind: str, make: Callable[[], nn.Module], inputs: Inputs) -> Entry:
    return Entry(source, name, kind, make, inputs, ONE, dynamic={})


def _torchvision() -> list[Entry]:
    def built(name: str) -> Callable[[], nn.Module]:
        parts = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
        if name in SEGMENTERS:
            parts = {"weights_backbone": None}
        return lambda: torchvision.models.get_model(name, weights=None, **parts)

    found = [
        _entry("torchvision", name, "classification", built(name), image(size))
        for name, size in CLASSIFIERS.items()
    ]
    found += [_entry("torchvision", name, "segmentation", built(name), image(224)) for name in SEGMENTERS]
    for name, (frames, size) in VIDEO.items():
        found.append(
            _entry("torchvision", name, "video", built(name), floats(x=("batch", 3, frames, size, size)))
        )
    return found


def _timm() -> list[Entry]:
    found = []
    for module, (small, _, _) in timm_models.MODELS.items():
        if module in LARGE:
            continue
        name = SIBLINGS.get(module, small)
        size = timm.get_pretrained_cfg(name).input_size
        found.append(
            _entry(
                "timm", name, module, lambda n=name: timm.create_model(n, pretrained=False), image(size[-1])
            )
        )
    return found


def _audio() -> list[Entry]:
    """Two seconds of sound at 8 kHz for what separates, at 16 kHz for what listens."""
    return [
        _entry("torchaudio", "conv_tasnet_base", "audio", torchaudio.models.conv_tasnet_base, floats(x=("batch", 1, 16000))),
        _entry("torchaudio", "wav2vec2_base", "audio", lambda: torchaudio.models.wav2vec2_base(aux_num_out=32),
               floats(waveforms=("batch", 32000))),
    ]  # fmt: skip


class UNet(nn.Module):
    """The network of Ronneberger et al., with transposed convolutions on its way up and padding that keeps sizes."""

    def __init__(self, width: int = 32, depth: int = 4) -> None:
        super().__init__()
        widths = [width * 2**level for level in range(depth + 1)]
        self.down = nn.ModuleList(self.block(a, b) for a, b in zip([3, *widths], widths, strict=False))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, stride=2) for w in reversed(widths[:-1]))
        self.merge = nn.ModuleList(self.block(2 * w, w) for w in reversed(widths[:-1]))
        self.head = nn.Conv2d(width, 2, 1)

    @staticmethod
    def block(made_of: int, width: int) -> nn.Module:
        layers: list[nn.Module] = []
        for channels in (made_of, width):
            layers += [nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        return nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        beside = []
        for level, block in enumerate(self.down):
            x = block(x if level == 0 else nn.functional.max_pool2d(x, 2))
            beside.append(x)
        beside.pop()
        for up, merge in zip(self.up, self.merge, strict=True):
            x = merge(torch.cat([beside.pop(), up(x)], 1))
        return self.head(x)


class Vocoder(nn.Module):
    """HiFi-GAN's generator, version 3: from 80 mel bands to sound, 256 samples a frame."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.first = nn.Conv1d(80, width, 7, padding=3)
        self.ups, self.blocks = nn.ModuleList(), nn.ModuleList()
        for stride in (8, 8, 4):
            self.ups.append(nn.ConvTranspose1d(width, width // 2, 2 * stride, stride, padding=stride // 2))
            width //= 2
            self.blocks.append(
                nn.ModuleList(nn.Conv1d(width, width, k, padding=k // 2 * d, dilation=d) for k, d in ((3, 1), (5, 2), (7, 3)))
            )  # fmt: skip
        self.last = nn.Conv1d(width, 1, 7, padding=3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for up, blocks in zip(self.ups, self.blocks, strict=True):
            x = up(nn.functional.leaky_relu(x, 0.1))
            x = sum(x + block(nn.functional.leaky_relu(x, 0.1)) for block in blocks) / len(blocks)
        return torch.tanh(self.last(nn.functional.leaky_relu(x)))


def _small() -> list[Entry]:
    return [
        _entry("own", "unet", "segmentation", UNet, image(256)),
        _entry("own", "vocoder", "audio", Vocoder, floats(x=("batch", 80, 64))),
    ]
