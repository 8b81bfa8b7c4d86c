"""Which axes of the inputs stay open, and examples with those axes at other sizes."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ...errors import UsageError
from ..inputs import Inputs


@dataclass(frozen=True)
class Group:
    """Axes of inputs that have one size: the batch, or the sequence of tokens and mask. (leaf, axis) each."""

    label: str
    size: int
    axes: tuple[tuple[int, int], ...]


def find_groups(inputs: Inputs, dynamic: object) -> list[Group]:
    """The axes that may stay open.

    None or True   batch (axis 0 of tensors), sequence (axis 1) of integer inputs and their masks, and axes of other
                   inputs that must have one of these sizes (ties.py)
    "all"          every axis that the model leaves open
    "batch"        batch only
    False, "none"  nothing
    {"input_ids": {0: "batch", 1: "seq"}, "mask": [0, 1]}   exactly these; one label, one size
    """
    if dynamic is None or dynamic is True:
        return _collect(inputs, [*_batch_axes(inputs), *_token_axes(inputs)])
    if dynamic == "all":
        return _collect(inputs, _all_axes(inputs))
    if dynamic is False or dynamic == "none":
        return []
    if dynamic == "batch":
        return _collect(inputs, _batch_axes(inputs))
    if isinstance(dynamic, dict):
        return _collect(inputs, _given_axes(inputs, dynamic))
    raise UsageError(
        f"dynamic={dynamic!r} is none of True, False, 'all', 'batch', 'none' or a dict of axes per input"
    )


def _batch_axes(inputs: Inputs) -> list[tuple[str, int, int]]:
    return [("batch", leaf, 0) for leaf, _, tensor in inputs.tensors() if tensor.dim() >= 1]


def _token_axes(inputs: Inputs) -> list[tuple[str, int, int]]:
    """Sequence axes. A decoder's tokens have their own length even when the example's are equal."""
    tokens = [(leaf, name, t) for leaf, name, t in inputs.tensors() if _is_token_input(t)]
    lengths = {(t.shape[1], _side(name)) for _, name, t in tokens}
    axes = []
    for leaf, name, tensor in inputs.tensors():
        belongs = _is_mask(name, tensor) and (tensor.shape[1], _side(name)) in lengths
        if _is_token_input(tensor) or belongs:
            axes.append((f"{_side(name)}sequence", leaf, 1))
    return axes


def _all_axes(inputs: Inputs) -> list[tuple[str, int, int]]:
    """The default's axes first, so that they are the last to be given up."""
    axes = [*_batch_axes(inputs), *_token_axes(inputs)]
    known = {(leaf, axis) for _, leaf, axis in axes}
    for leaf, name, tensor in inputs.tensors():
        axes += [
            (f"axis {axis} of {name}", leaf, axis)
            for axis in range(tensor.dim())
            if (leaf, axis) not in known
        ]
    return axes


def _is_mask(name: str, tensor: torch.Tensor) -> bool:
    return tensor.dim() == 2 and ("mask" in name or tensor.dtype is torch.bool)


def _is_token_input(tensor: torch.Tensor) -> bool:
    return tensor.dim() == 2 and not tensor.dtype.is_floating_point and tensor.dtype is not torch.bool


def _side(name: str) -> str:
    return "decoder " if name.startswith("decoder_") else ""


def _given_axes(inputs: Inputs, dynamic: dict) -> list[tuple[str, int, int]]:
    leaf_of = {name: (leaf, tensor) for leaf, name, tensor in inputs.tensors()}
    axes = []
    for name, given in dynamic.items():
        if name not in leaf_of:
            raise UsageError(f"dynamic names the input {name!r}; the inputs are {', '.join(leaf_of)}")
        leaf, tensor = leaf_of[name]
        if isinstance(given, (list, tuple, set)):
            given = {axis: f"axis {axis}" for axis in given}
        if not isinstance(given, dict):
            raise UsageError(f"dynamic[{name!r}] is a list of axes or a dict axis → label, not {given!r}")
        for axis, label in given.items():
            axis = int(axis)
            if not -tensor.dim() <= axis < tensor.dim():
                raise UsageError(f"dynamic: {name} has {tensor.dim()} axes, no axis {axis}")
            axes.append((str(label), leaf, axis % tensor.dim()))
    return axes


def _collect(inputs: Inputs, axes: list[tuple[str, int, int]]) -> list[Group]:
    """Axes of one label and one size are one group: equal sizes of different inputs are tied."""
    groups: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for label, leaf, axis in axes:
        size = inputs.leaves[leaf].shape[axis]
        if size > 0:
            members = groups.setdefault((label, size), [])
            if (leaf, axis) not in members:
                members.append((leaf, axis))
    return [Group(label, size, tuple(members)) for (label, size), members in groups.items()]


def derived_sizes(groups: list[Group]) -> list[int]:
    """Distinct sizes of at least 2 (torch fixes 0 and 1), the user's own where it is one."""
    taken: set[int] = set()
    sizes = []
    for group in groups:
        wanted = group.size if group.size >= 2 else 3
        nearby = [wanted, *range(wanted - 1, 1, -1), *range(wanted + 1, wanted + 2 + len(groups))]
        size = next(n for n in nearby if n not in taken)
        taken.add(size)
        sizes.append(size)
    return sizes


def resized(inputs: Inputs, groups: list[Group], sizes: list[int]) -> Inputs:
    """The inputs with each group's axes at another size, values repeated in a cycle."""
    leaves = list(inputs.leaves)
    for group, size in zip(groups, sizes, strict=True):
        for leaf, axis in group.axes:
            old = leaves[leaf].shape[axis]
            if old != size:
                index = torch.arange(size, device="cpu") % old
                leaves[leaf] = leaves[leaf].index_select(axis, index.to(leaves[leaf].device))
    return inputs.with_leaves(leaves)


def with_integers_up_to(inputs: Inputs, most: int) -> Inputs:
    """Integer values that are larger become this one; a length is at least 1."""
    kinds = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
    leaves = [
        leaf.clamp(max=most) if isinstance(leaf, torch.Tensor) and leaf.dtype in kinds else leaf
        for leaf in inputs.leaves
    ]
    return inputs.with_leaves(leaves)


def permuted(inputs: Inputs, seed: int) -> Inputs:
    """Other values of the same kind: each tensor's elements in another order, so integers stay in range."""
    generator = torch.Generator().manual_seed(seed)
    leaves = []
    for leaf in inputs.leaves:
        if isinstance(leaf, torch.Tensor) and leaf.numel() > 1 and not leaf.is_meta:
            leaves.append(_shuffled(leaf, generator))
        else:
            leaves.append(leaf)
    return inputs.with_leaves(leaves)


def _shuffled(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    order = torch.randperm(tensor.numel(), generator=generator)
    shuffled = tensor.flatten()[order].reshape(tensor.shape)
    if torch.equal(shuffled, tensor) and tensor.dtype.is_floating_point:
        # A constant tensor has no other order; small steps around it do.
        noise = torch.randn(tensor.shape, generator=generator).to(tensor.dtype)
        shuffled = tensor + 0.1 * noise
    return shuffled
