"""torchvision's detectors and other models that need patches: recorded, run on both backends beside eager torch, verified."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torchaudio
import torchvision
from test_codegen import compiled_and_run
from torch import nn
from torchvision.models.detection import _utils, roi_heads
from torchvision.ops import batched_nms, boxes, poolers
from zoo.detectors import DETECTORS, detector, images

from pycandle import GoldenRecorder, load_model, perturb
from pycandle.recording.tracing import detection_ops, patches
from pycandle.recording.tracing.patches import patched

QUICK = ("fasterrcnn_mobilenet_v3_large_320_fpn", "retinanet_resnet50_fpn")


def is_emitted(recording: Path, pycandle) -> None:
    """codegen writes only what it has read again and found to be the recorded program."""
    made = pycandle.json("codegen", "--manifest", recording, "--out", recording / "model.hpp")
    text = (recording / "model.hpp").read_text()
    assert f"struct {made['model']} " in text and "functional::batched_nms(" in text


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in QUICK else pytest.mark.full) for n in DETECTORS]
)
def test_a_detector_gives_torchs_boxes_at_other_images(name, tmp_path, pycandle):
    model, (example, *others) = detector(name), images(name)
    recorder = GoldenRecorder(tmp_path, progress=lambda text: None)
    recorder.record(model, [example])
    recorder.save("model")
    pycandle("verify", tmp_path)
    is_emitted(tmp_path, pycandle)
    for backend in ("reference", "cpu"):
        loaded = load_model(tmp_path, backend=backend)
        for image in others:
            with torch.no_grad():
                (expected,) = model([image])
            found = loaded([image])
            assert len(expected["boxes"]) > 0
            assert set(found) == {f"output.0.{key}" for key in expected}
            for key, value in expected.items():
                torch.testing.assert_close(found[f"output.0.{key}"], value, rtol=1e-4, atol=1e-4)


@pytest.mark.full
def test_an_emitted_detector_compiles_and_is_the_recorded_program(tmp_path, pycandle):
    name = "fasterrcnn_mobilenet_v3_large_320_fpn"
    recorder = GoldenRecorder(tmp_path / "recording", progress=lambda text: None)
    recorder.record(detector(name), [images(name)[0]])
    manifest = recorder.save("model").manifest
    assert compiled_and_run(manifest, tmp_path, pycandle) > 100


# ---- patches ------------------------------------------------------------------------------------------------------


def random_boxes(count: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    corners, sizes = torch.rand(2, count, 2, generator=generator) * 60
    labels = torch.randint(0, 4, (count,), generator=generator)
    return torch.cat([corners, corners + sizes], dim=1), torch.rand(count, generator=generator), labels


def pooled(count: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    features = {f"{i}": torch.randn(2, 5, 64 >> i, 64 >> i, generator=generator) for i in range(3)}
    pool = poolers.MultiScaleRoIAlign(list(features), 3, 2, canonical_scale=30)
    first, second = random_boxes(count)[0], random_boxes(3, seed=5)[0]
    return pool(features, [first, second], [(64, 64), (64, 64)])


def decoded(count: int) -> torch.Tensor:
    coder = _utils.BoxCoder((10.0, 10.0, 5.0, 5.0))
    return coder.decode(
        torch.randn(count, 8, generator=torch.Generator().manual_seed(1)), [random_boxes(count)[0]]
    )


def pasted(count: int) -> torch.Tensor:
    masks = torch.rand(count, 1, 7, 7, generator=torch.Generator().manual_seed(1))
    return roi_heads.paste_masks_in_image(masks, random_boxes(count)[0], (70, 80))


def keypoints(count: int) -> list[torch.Tensor]:
    maps = torch.randn(count, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    return list(roi_heads.heatmaps_to_keypoints(maps, random_boxes(count)[0]))


def normed(count: int, norm: Callable = nn.functional.batch_norm) -> torch.Tensor:
    x = torch.randn(count, 3, 7, 7, generator=torch.Generator().manual_seed(1))
    mean, variance, weight, bias = torch.rand(4, 3, generator=torch.Generator().manual_seed(2))
    return norm(x, mean, variance, weight, bias, eps=1e-3)


def masked(count: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    torch.manual_seed(0)
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2).eval()
    length = 2 + count % 7
    return encoder(
        torch.randn(length, 3, 8, generator=generator), mask=torch.randn(length, length, generator=generator)
    )


def heard(kind: Callable, ahead: int = 0) -> Callable:
    def run(count: int) -> torch.Tensor:
        torch.manual_seed(0)
        longest = 2 + count % 7
        lengths = torch.tensor([longest, 1, 2])[: 1 + count % 3]
        with torch.no_grad():
            return kind().eval()(torch.randn(len(lengths), longest + ahead, 8), lengths)[0]

    return run


def moved(count: int) -> torch.Tensor:
    torch.manual_seed(0)
    norm = nn.BatchNorm1d(8).eval().to("cpu", torch.float32).to(dtype=torch.float32)
    return norm.to(torch.ones(1))(torch.randn(count, 8))


SAME = {
    "torch.nn.modules.module.Module.to": moved,
    "torchaudio.models.conformer.Conformer.forward": heard(
        lambda: torchaudio.models.Conformer(8, 2, 16, 1, 3)
    ),
    "torchaudio.models.emformer._gen_padding_mask": heard(
        lambda: torchaudio.models.Emformer(8, 2, 16, 2, 2, right_context_length=1), ahead=1
    ),
    "torch.nn.modules.transformer._detect_is_causal_mask": masked,
    "torchvision.ops.boxes.batched_nms": lambda n: boxes.batched_nms(*random_boxes(n), 0.4),
    "torchvision.models.detection._utils.BoxCoder.decode": decoded,
    "torchvision.ops.poolers._multiscale_roi_align": pooled,
    "torchvision.models.detection.roi_heads.paste_masks_in_image": pasted,
    "torchvision.models.detection.roi_heads.heatmaps_to_keypoints": keypoints,
    "torch.nn.functional.batch_norm": normed,
}
KNOW_PLAIN_NUMBERS = ("decode", "batch_norm")  # these patches leave them to the original


@pytest.mark.parametrize("target", [patch.target for patch in patches.PATCHES])
@pytest.mark.parametrize("count", [0, 1, 40, 1500])
def test_a_patch_changes_no_bit(target, count):
    plain = SAME[target](count)
    used = []
    with patched(used):
        changed = SAME[target](count)
    for a, b in zip(*([t] if isinstance(t, torch.Tensor) else t for t in (plain, changed)), strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)
    assert target in [patch.target for patch in used] or target.endswith(KNOW_PLAIN_NUMBERS)


@pytest.mark.parametrize("count", [0, 1, 40])
def test_a_norm_over_as_many_boxes_as_there_are_changes_no_bit(count):
    def replacement(*args, eps):
        return detection_ops.by_statistics(*args, momentum=0.1, eps=eps)

    assert torch.equal(normed(count), normed(count, replacement))


class Normed(nn.Module):
    """The head of Faster R-CNN v2: a norm over what was chosen."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Sequential(nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(36, 2))

    def forward(self, x: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        return self.head(x[torch.where(scores > 0)[0]])


def test_a_norm_over_chosen_boxes_is_recorded(tmp_path, pycandle):
    torch.manual_seed(0)
    model, x = perturb(Normed().eval(), seed=0), torch.randn(6, 4, 5, 5)
    recorder = GoldenRecorder(tmp_path, progress=lambda text: None)
    recorder.record(model, x, torch.randn(6))
    recorder.save("m")
    assert "patch of torch.nn.functional.batch_norm" in recorder.manifest["notes"][0]
    pycandle("verify", tmp_path)
    for backend in ("reference", "cpu"):
        for scores in (torch.ones(6), -torch.ones(6), torch.tensor([1.0, -1, 1, 1, -1, -1])):
            with torch.no_grad():
                expected = model(x, scores)
            torch.testing.assert_close(load_model(tmp_path, backend=backend)(x, scores)["output"], expected)


@pytest.mark.parametrize("name", ["maskrcnn_resnet50_fpn", "keypointrcnn_resnet50_fpn"])
def test_a_patched_detector_gives_the_same_bits(name):
    model, (image, *_) = detector(name), images(name)
    with torch.no_grad():
        plain = model([image])[0]
        with patched():
            changed = model([image])[0]
    assert len(plain["boxes"]) > 0 and plain.keys() == changed.keys()
    assert all(torch.equal(plain[key], changed[key]) for key in plain)


class Suppressed(nn.Module):
    """As people write it: the function under a name of this module's own."""

    def forward(self, corners: torch.Tensor, scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        found = torch.where(scores > 0.1)[0]
        return corners[found][batched_nms(corners[found], scores[found], labels[found], 0.4)[:20]]


@pytest.mark.parametrize("count", [40, 1500])
def test_batched_nms_is_torchvisions_below_and_above_a_thousand_boxes(count, tmp_path, pycandle):
    recorder = GoldenRecorder(tmp_path, progress=lambda text: None)
    recorder.record(Suppressed(), *random_boxes(count))
    recorder.save("m")
    assert "batched_nms(" in pycandle("inspect", tmp_path, "--ptir").stdout
    pycandle("verify", tmp_path)
    for seed in (1, 2, 3):
        given = random_boxes(count + seed, seed)
        assert torch.equal(load_model(tmp_path)(*given)["output"], Suppressed()(*given))


class Ranked(nn.Module):
    def forward(self, corners: torch.Tensor, scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return batched_nms(corners, scores, labels, 0.4)


@pytest.mark.parametrize("count", [40, 1500])
def test_a_box_with_the_score_nan_comes_first_as_in_torch(count, tmp_path, pycandle):
    corners, scores, labels = random_boxes(count)
    scores[count // 2] = float("nan")
    recorder = GoldenRecorder(tmp_path, progress=lambda text: None)
    recorder.record(Ranked(), corners, scores, labels)
    recorder.save("m")
    found = load_model(tmp_path)(corners, scores, labels)["output"]
    assert torch.equal(found, Ranked()(corners, scores, labels)) and found[0] == count // 2


LOOKS = {
    "roi_align": lambda x, b: torchvision.ops.roi_align(x, [b], 7, spatial_scale=0.25, sampling_ratio=2),
    "roi_align of whole cells": lambda x, b: torchvision.ops.roi_align(
        x, [b], 5, spatial_scale=1 / 3, aligned=True
    ),
    "ps_roi_align": lambda x, b: torchvision.ops.ps_roi_align(
        x, [b], 2, spatial_scale=0.25, sampling_ratio=3
    ),
}


class Looks(nn.Module):
    def __init__(self, call: Callable) -> None:
        super().__init__()
        self.call = call

    def forward(self, x: torch.Tensor, corners: torch.Tensor) -> torch.Tensor:
        return self.call(x, corners)


@pytest.mark.parametrize("how", LOOKS)
def test_positions_that_torch_rounds_in_large_boxes_are_no_error(how, tmp_path, pycandle):
    """A unit in the last place of a position moves a value by far more than one in its own."""
    torch.manual_seed(0)
    given = torch.randn(1, 8, 64, 64), random_boxes(20)[0] * 2
    recorder = GoldenRecorder(tmp_path, progress=lambda text: None)
    recorder.record(Looks(LOOKS[how]), *given)
    recorder.save("m")
    pycandle("verify", tmp_path)
    found = load_model(tmp_path, backend="reference")(*given)["output"]
    torch.testing.assert_close(found, LOOKS[how](*given), rtol=1e-6, atol=1e-6)


def holders(function: Callable) -> list[object]:
    return [boxes.batched_nms, torchvision.ops.batched_nms, globals()["batched_nms"], function]


def test_patches_are_in_place_only_while_torch_exports(tmp_path):
    own, method = batched_nms, _utils.BoxCoder.decode
    with patched():
        assert all(f is not own for f in holders(own)[:3]) and _utils.BoxCoder.decode is not method
    assert all(f is own for f in holders(own)) and _utils.BoxCoder.decode is method

    seen: list[bool] = []

    class Watching(nn.Module):
        def forward(self, *given):
            seen.append(boxes.batched_nms is own)
            return Suppressed()(*given)

    GoldenRecorder(tmp_path, progress=lambda text: None).record(Watching(), *random_boxes(9))
    assert seen.count(False) == 1 and seen.count(True) > 1 and boxes.batched_nms is own
    with pytest.raises(KeyError), patched():
        raise KeyError
    assert boxes.batched_nms is own


def test_a_recording_says_which_patches_it_needed(tmp_path):
    recorder = GoldenRecorder(tmp_path, progress=lambda text: None)
    recorder.record(Suppressed(), *random_boxes(9))
    files = recorder.save("m")
    (note,) = json.loads(files.manifest.read_text())["notes"]
    assert "patch of torchvision.ops.boxes.batched_nms" in note and "1000 boxes" in note
    recorder.record(nn.ReLU(), torch.randn(2, 3))
    assert recorder.manifest["notes"] == []


def test_the_docs_list_every_patch():
    page = (Path(__file__).parents[2] / "docs" / "soundness.md").read_text()
    assert patches.table() in page
