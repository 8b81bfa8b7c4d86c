"""torchvision's detectors, small, with random weights that behave like trained ones."""

from __future__ import annotations

import torch
import torchvision
from torch import nn

from pycandle import perturb

SMALL = {"min_size": 64, "max_size": 64}
FEW = {"num_classes": 5}
# Proposals and detections, so that the heads have little to do.
HEADS = {
    "rpn_pre_nms_top_n_test": 40,
    "rpn_post_nms_top_n_test": 12,
    "box_score_thresh": 0.02,
    "box_detections_per_img": 6,
}
DETECTORS = {
    "fasterrcnn_mobilenet_v3_large_320_fpn": {**SMALL, **FEW, **HEADS},
    "fasterrcnn_mobilenet_v3_large_fpn": {**SMALL, **FEW, **HEADS},
    "fasterrcnn_resnet50_fpn": {**SMALL, **FEW, **HEADS},
    "fasterrcnn_resnet50_fpn_v2": {**SMALL, **FEW, **HEADS},
    "fcos_resnet50_fpn": {**SMALL, **FEW, "score_thresh": 0.02, "detections_per_img": 8},
    "keypointrcnn_resnet50_fpn": {**SMALL, **HEADS, "num_keypoints": 3},
    "maskrcnn_resnet50_fpn": {**SMALL, **FEW, **HEADS},
    "maskrcnn_resnet50_fpn_v2": {**SMALL, **FEW, **HEADS},
    "retinanet_resnet50_fpn": {**SMALL, **FEW, "score_thresh": 0.02, "detections_per_img": 8},
    "retinanet_resnet50_fpn_v2": {**SMALL, **FEW, "score_thresh": 0.02, "detections_per_img": 8},
    "ssd300_vgg16": {**FEW, "score_thresh": 0.05, "detections_per_img": 8},
    "ssdlite320_mobilenet_v3_large": {**FEW, "score_thresh": 0.05, "detections_per_img": 8},
}


def detector(name: str, seed: int = 0) -> nn.Module:
    """Random weights, conditioned as training leaves them. Norms know these images, or the signal would die on its way to the
    heads: every image would give the same boxes, with scores so close that rounding orders them. Residual branches add
    little, so that features stay near 1: as torch initialises them, the sum of 16 branches and a random head move a box by 1e-3
    where a pixel moves by one unit in its last place."""
    torch.manual_seed(seed)
    model = torchvision.models.get_model(name, weights=None, weights_backbone=None, **DETECTORS[name]).eval()
    perturb(model, seed=seed + 1)
    for path, module in model.named_modules():
        if path.endswith(".bn3"):
            module.weight.data *= 0.2
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    for norm in norms:
        norm.momentum = 1.0
        norm.train()
    with torch.no_grad():
        model(images(name))
    for norm in norms:
        norm.eval()
    for path, parameter in model.named_parameters():
        if path.endswith(("cls_score.weight", "cls_logits.weight")):
            parameter.data *= 10
        elif path.endswith(("bbox_pred.weight", "bbox_reg.weight")):
            parameter.data *= 0.3
        elif name == "ssd300_vgg16" and "classification_head" in path:
            parameter.data *= 0.05  # it has no norms: every score is near 1
    return model


def size_of(name: str) -> int:
    return {"ssd300_vgg16": 300, "ssdlite320_mobilenet_v3_large": 320}.get(name, 64)


def images(name: str, seed: int = 2, count: int = 3) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    size = size_of(name)
    return [torch.rand(3, size, size, generator=generator) for _ in range(count)]
