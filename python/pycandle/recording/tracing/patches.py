"""Library functions that torch.export cannot trace, and what stands in their place while a model is exported.

A patch computes what the function it replaces computes, to the bit or to rounding where it leads to another kernel. It is in place
only while torch.export runs; the model's own runs, which every recording is compared with, use the original. A recording's notes
name the patches it needed.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..torch_compat import parsed_move
from . import detection_ops, padding_masks


@dataclass(frozen=True)
class Patch:
    """`replacement` takes the function's arguments, and returns NotImplemented where the original will do."""

    module: str
    name: str
    reason: str
    instead: str
    replacement: Callable

    @property
    def target(self) -> str:
        return f"{self.module}.{self.name}"

    @property
    def note(self) -> str:
        return f"exported with a patch of {self.target}: {self.reason}; instead: {self.instead}"


def _moved(module, *args, **kwargs):
    device, dtype = parsed_move(*args, **kwargs)
    for tensor in itertools.chain(module.parameters(), module.buffers()):
        cast = dtype not in (None, tensor.dtype) and (tensor.is_floating_point() or tensor.is_complex())
        if cast or device not in (None, tensor.device):
            return NotImplemented
    return module


PATCHES = (
    Patch(
        "torch.nn.modules.module",
        "Module.to",
        "replaces parameters, which traced ones do not allow",
        "nothing, where they have this dtype and device already",
        _moved,
    ),
    Patch(
        "torch.nn.modules.transformer",
        "_detect_is_causal_mask",
        "compares a mask with the causal one, to choose a kernel",
        "the mask as it is given; a mask that the model makes itself is recognised as causal later",
        padding_masks.no_causal_hint,
    ),
    Patch(
        "torchaudio.models.conformer",
        "Conformer.forward",
        "takes the longest length as a Python number, the size of its mask",
        "a mask of the input's size, which the longest length has to be",
        padding_masks.conformer,
    ),
    Patch(
        "torchaudio.models.emformer",
        "_gen_padding_mask",
        "takes the most keys of a sequence as a Python number, the size of its mask",
        "the same number computed from sizes; a mask for a batch of one, too",
        padding_masks.emformer,
    ),
    Patch(
        "torchvision.ops.boxes",
        "batched_nms",
        "takes another algorithm above 1000 boxes, and returns early without any",
        "one operator, pycandle.batched_nms, that decides when it runs",
        detection_ops.batched_nms,
    ),
    Patch(
        "torchvision.models.detection._utils",
        "BoxCoder.decode",
        "skips its reshapes where there is no box",
        "the same reshapes for any number of boxes",
        detection_ops.decode,
    ),
    Patch(
        "torchvision.ops.poolers",
        "_multiscale_roi_align",
        "takes the number of boxes as a Python number, len(rois)",
        "rois.shape[0]",
        detection_ops.multiscale_roi_align,
    ),
    Patch(
        "torchvision.models.detection.roi_heads",
        "paste_masks_in_image",
        "resizes each mask in a Python loop to the size of its box",
        "one operator, pycandle.paste_masks",
        detection_ops.paste_masks_in_image,
    ),
    Patch(
        "torchvision.models.detection.roi_heads",
        "heatmaps_to_keypoints",
        "resizes each heat map in a Python loop to the size of its box",
        "one operator, pycandle.heatmap_peaks",
        detection_ops.heatmaps_to_keypoints,
    ),
    Patch(
        "torch.nn.functional",
        "batch_norm",
        "asks whether there is anything to normalize, and returns early if not",
        "aten._native_batch_norm_legit_no_training, where that size is data and the layer does not train",
        detection_ops.batch_norm,
    ),
)


@contextlib.contextmanager
def patched(used: list[Patch] | None = None) -> Iterator[None]:
    """Every patch whose library is loaded is in place; those that were called are added to `used`."""
    used = [] if used is None else used
    with contextlib.ExitStack() as stack:
        for patch in PATCHES:
            if patch.module in sys.modules:
                stack.enter_context(_in_place(patch, used))
        yield


@contextlib.contextmanager
def _in_place(patch: Patch, used: list[Patch]) -> Iterator[None]:
    *owners, name = patch.name.split(".")
    holder = functools.reduce(getattr, owners, sys.modules[patch.module])
    original = getattr(holder, name, None)
    if original is None:  # another release of the library, which may need no patch
        yield
        return

    @functools.wraps(original)
    def replaced(*args, **kwargs):
        result = patch.replacement(*args, **kwargs)
        if result is NotImplemented:
            return original(*args, **kwargs)
        if patch not in used:
            used.append(patch)
        return result

    replaced.replaces = original
    places = [(holder, name)] if owners else list(_holders(original))
    for place, attribute in places:
        setattr(place, attribute, replaced)
    try:
        yield
    finally:
        for place, attribute in places:
            setattr(place, attribute, original)


def _holders(function: Callable) -> Iterator[tuple[object, str]]:
    """Every module that knows the function by a name of its own: `from torchvision.ops import batched_nms` makes one."""
    for module in list(sys.modules.values()):
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if value is function:
                yield module, name


def table() -> str:
    """The patches as they are listed in docs/soundness.md."""
    rows = [f"| `{p.target}` | {p.reason} | {p.instead} |" for p in PATCHES]
    return "\n".join(["| patched | why torch.export cannot trace it | instead |", "|---|---|---|", *rows])
