"""What torchvision's detectors do once per box, or only above some number of boxes, as operators of our own.

How many boxes there are depends on data, so torch.export can trace neither a Python loop over them nor an `if` on their
number. The kernels here call torchvision's own functions; `patches` puts the operators where the detectors look for those.
"""

from __future__ import annotations

import torch
from torch.nn.functional import interpolate

from ..torch_compat.symbolic import free_unbacked_symbols

_library = torch.library.Library("pycandle", "FRAGMENT")


def original_of(function):
    """torchvision's own function, also while another one stands in its place."""
    return getattr(function, "replaces", function)


# ---- suppression, apart for each label -------------------------------------------------------------------------

_library.define("batched_nms(Tensor boxes, Tensor scores, Tensor labels, float iou_threshold) -> Tensor")


def _suppress(boxes, scores, labels, iou_threshold):
    from torchvision.ops.boxes import batched_nms

    return original_of(batched_nms)(boxes, scores, labels, iou_threshold).contiguous()


def _some_of(boxes, scores, labels, iou_threshold):
    kept = torch.library.get_ctx().new_dynamic_size()
    return scores.new_empty((kept,), dtype=torch.int64)


_library.impl("batched_nms", _suppress, "CompositeExplicitAutograd")
torch.library.register_fake("pycandle::batched_nms", _some_of, lib=_library)


def batched_nms(boxes, scores, idxs, iou_threshold):
    return torch.ops.pycandle.batched_nms(boxes, scores, idxs, iou_threshold)


# ---- boxes from a network's codes ------------------------------------------------------------------------------


def decode(coder, rel_codes, boxes):
    count = sum(part.size(0) for part in boxes)
    if isinstance(count, int):
        return NotImplemented
    torch._check(rel_codes.shape[0] == count)
    return coder.decode_single(rel_codes, torch.cat(boxes, dim=0)).unflatten(1, (-1, 4))


# ---- what lies inside boxes, each from the feature map of its size ---------------------------------------------


def multiscale_roi_align(x_filtered, boxes, output_size, sampling_ratio, scales, mapper):
    from torchvision.ops import poolers

    if len(x_filtered) == 1:
        return NotImplemented
    rois = poolers._convert_to_roi_format(boxes)
    levels = mapper(boxes)
    pooled = x_filtered[0].new_zeros((rois.shape[0], x_filtered[0].shape[1], *output_size))
    for level, (features, scale) in enumerate(zip(x_filtered, scales, strict=True)):
        here = torch.where(levels == level)[0]
        part = poolers.roi_align(features, rois[here], output_size, scale, sampling_ratio)
        pooled = pooled.index_put((here,), part.to(pooled.dtype))
    return pooled


# ---- masks laid into an image ----------------------------------------------------------------------------------

_library.define("paste_masks(Tensor masks, Tensor boxes, SymInt height, SymInt width) -> Tensor")


def _paste(masks, boxes, height, width):
    from torchvision.models.detection.roi_heads import paste_mask_in_image

    images = [paste_mask_in_image(m, b, height, width) for m, b in zip(masks, boxes, strict=True)]
    return torch.stack(images) if images else masks.new_empty((0, height, width))


def _images(masks, boxes, height, width):
    return masks.new_empty((masks.shape[0], height, width))


_library.impl("paste_masks", _paste, "CompositeExplicitAutograd")
torch.library.register_fake("pycandle::paste_masks", _images, lib=_library)


def paste_masks_in_image(masks, boxes, img_shape, padding=1):
    from torchvision.models.detection import roi_heads

    masks, scale = roi_heads.expand_masks(masks, padding=padding)
    boxes = roi_heads.expand_boxes(boxes, scale).to(torch.int64)
    return torch.ops.pycandle.paste_masks(masks[:, 0], boxes, *img_shape)[:, None]


# ---- the highest point of heat maps ----------------------------------------------------------------------------

_library.define("heatmap_peaks(Tensor maps, Tensor sizes) -> (Tensor, Tensor)")


def _peaks(maps, sizes):
    places = maps.new_zeros(maps.shape[:2], dtype=torch.int64)
    heights = maps.new_zeros(maps.shape[:2])
    for i, size in enumerate(sizes.tolist()):
        resized = interpolate(maps[i][:, None], size=size, mode="bicubic", align_corners=False)[:, 0].flatten(
            1
        )
        places[i] = resized.argmax(dim=1)
        heights[i] = resized.gather(1, places[i][:, None])[:, 0]
    return heights, places


def _one_for_each_map(maps, sizes):
    return maps.new_empty(maps.shape[:2]), maps.new_empty(maps.shape[:2], dtype=torch.int64)


_library.impl("heatmap_peaks", _peaks, "CompositeExplicitAutograd")
torch.library.register_fake("pycandle::heatmap_peaks", _one_for_each_map, lib=_library)


def heatmaps_to_keypoints(maps, rois):
    extent = (rois[:, 2:] - rois[:, :2]).clamp(min=1)  # width, height
    pixels = extent.ceil()
    heights, places = torch.ops.pycandle.heatmap_peaks(maps, pixels.flip(1).to(torch.int64))
    widths = pixels[:, :1].to(torch.int64)
    column = places % widths
    row = torch.div(places - column, widths, rounding_mode="floor")
    pixel = torch.stack((column, row), dim=2).float() + 0.5
    points = pixel * (extent / pixels)[:, None] + rois[:, None, :2]
    return torch.cat((points, torch.ones_like(points[:, :, :1])), dim=2), heights


# ---- norms over as many boxes as there are ---------------------------------------------------------------------


def batch_norm(
    input,
    running_mean,
    running_var,
    weight=None,
    bias=None,
    training=False,
    momentum=0.1,
    eps=1e-5,
):
    if training or not free_unbacked_symbols(input):
        return NotImplemented
    return by_statistics(input, running_mean, running_var, weight, bias, momentum, eps)


def by_statistics(input, mean, variance, weight, bias, momentum, eps):
    call = torch.ops.aten._native_batch_norm_legit_no_training
    return call(input, weight, bias, mean, variance, momentum, eps)[0]
