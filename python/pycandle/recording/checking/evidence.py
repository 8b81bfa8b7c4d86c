"""Which values prove nothing at the recorded inputs, and other inputs at which they may. docs/evidence.md has the rules."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import torch

from ..graph.program import Program, is_size, producer
from ..inputs import Inputs
from ..torch_compat import OpOverload, name_of

Key = tuple[torch.fx.Node, int]  # a result of a node

# They have the shape of what they are given, and none of its numbers.
_SHAPE_ALONE = ("empty", "full", "new", "ones", "rand", "randint", "randn", "zeros")
# Functions that come to a plain number where their argument is large.
_LIMITED = ("clamp", "erf", "hardsigmoid", "hardtanh", "sigmoid", "softmax", "tanh")
_TRIES = 3


class Watch:
    """The values among `keys` that prove nothing, noted while the program runs."""

    def __init__(self, program: Program, keys: Iterable[Key]):
        depends = _from_inputs(program)
        self._keys = {key for key in keys if key[0] in depends}
        self.vacuous: set[Key] = set()

    def see(self, node: torch.fx.Node, results: list) -> None:
        for index, tensor in enumerate(results):
            if (node, index) in self._keys and proves_nothing(tensor, _is_limited(node)):
                self.vacuous.add((node, index))

    def see_inputs(self, inputs: Inputs) -> None:
        """Nothing is proven by a run that begins with nothing but 0."""
        tensors = [tensor for _, _, tensor in inputs.tensors()]
        if tensors and all(t.is_floating_point() and _is_zero(t) for t in tensors):
            self.vacuous |= self._keys


def keys_of_outputs(program: Program) -> list[Key]:
    return [producer(out) for out in program.outputs if isinstance(out, torch.fx.Node)]


def proves_nothing(tensor: object, is_limited: bool = False) -> bool:
    """The rules of src/verify/judging/vacuity.cpp that need no run of the reference."""
    if not isinstance(tensor, torch.Tensor) or not (tensor.is_floating_point() or tensor.is_complex()):
        return False
    if tensor.numel() == 0:
        return True
    flat = (torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor).detach().flatten()
    low, high = (bound.item() for bound in torch.aminmax(flat))
    if math.isnan(low):
        return bool(flat.isnan().all())
    if low == high:
        return flat.numel() > 1 or low == 0 or math.isinf(low)
    is_two = is_limited and flat.numel() > 2 and _is_plain(low) and _is_plain(high)
    return is_two and bool(((flat == low) | (flat == high)).all())


def other_inputs(inputs: Inputs, seed: int) -> Iterator[Inputs]:
    """Inputs of the same shapes and ranges that exercise more: noise, other tokens, masks that hide something."""
    for number in range(_TRIES):
        generator = torch.Generator().manual_seed(seed + number)
        yield inputs.with_leaves([_other(leaf, number, generator) for leaf in inputs.leaves])


def _from_inputs(program: Program) -> set[torch.fx.Node]:
    begin = {node for node in program.user_inputs if node is not None}
    begin |= {node for state in program.states() for node in state.nodes}
    depends = set()
    for node in program.graph.nodes:
        is_new = is_size(node) or _word(node) in _SHAPE_ALONE
        if node in begin or (not is_new and any(used in depends for used in node.all_input_nodes)):
            depends.add(node)
    return depends


def _word(node: torch.fx.Node) -> str:
    """The first word of an operator: `new` of aten.new_zeros.default."""
    return name_of(node.target).strip("_").split("_")[0] if isinstance(node.target, OpOverload) else ""


def _is_limited(node: torch.fx.Node) -> bool:
    return _word(node) in _LIMITED


def _is_zero(tensor: torch.Tensor) -> bool:
    return tensor.numel() > 0 and not tensor.any()


def _is_plain(number: float) -> bool:
    return math.isfinite(number) and (math.frexp(number)[0] * 16).is_integer()


def _other(leaf: object, number: int, generator: torch.Generator) -> object:
    if not isinstance(leaf, torch.Tensor) or leaf.numel() == 0:
        return leaf
    if leaf.is_floating_point() or leaf.is_complex():
        return _moved(leaf, number, generator)
    if leaf.unique().numel() == 1:
        return _with_another_end(leaf)
    if number == 0 or leaf.dtype == torch.bool:
        return leaf.flatten()[torch.randperm(leaf.numel(), generator=generator)].reshape(leaf.shape)
    low, high = int(leaf.min()), int(leaf.max())
    return torch.randint(low, high + 1, leaf.shape, generator=generator).to(leaf.dtype)


def _moved(tensor: torch.Tensor, number: int, generator: torch.Generator) -> torch.Tensor:
    """By noise of its own size; then normal numbers alone, of size 1 and large: a layer may be saturated or dead."""
    if not tensor.isfinite().all() or _is_mask(tensor):
        return tensor
    size = tensor.abs().double().square().mean().sqrt().item() or 1.0
    noise = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
    moved = (tensor + size * noise, noise, 16 * max(size, 1) * noise)[number]
    return moved.to(tensor.dtype)


def _is_mask(tensor: torch.Tensor) -> bool:
    return bool(((tensor == 0) | (tensor == 1)).all()) and bool((tensor == 0).any()) and bool(tensor.any())


def _with_another_end(tensor: torch.Tensor) -> torch.Tensor:
    """A mask that hides nothing hides the last third; 0 is in the range of any index."""
    if tensor.dim() == 0 or tensor.shape[-1] < 2:
        return tensor
    other = tensor.clone()
    end = other[..., -max(1, tensor.shape[-1] // 3) :]
    if tensor.dtype == torch.bool:
        end.logical_not_()
    else:
        end.zero_()
    return other
