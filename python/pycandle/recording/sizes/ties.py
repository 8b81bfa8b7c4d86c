"""Axes of other inputs that must have the size of an axis that stays open: the mask beside the ids."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import sympy

from ..inputs import Inputs
from ..places import Place
from .dynamic import Group

# What torch makes of each axis when these groups stay open, and the line that fixes a size; None when it fails.
Trial = Callable[[list[Group]], "tuple[Callable[[tuple[int, int]], sympy.Expr | int], Place | None] | None"]


class Ties:
    """Finds such axes by opening them too: torch then says that both sizes are one, or fixes them all the same."""

    def __init__(self, inputs: Inputs, trial: Trial):
        self.inputs = inputs
        self.trial = trial
        self.place: Place | None = None  # the line that fixes the size even so
        self._tried: set[tuple] = set()

    def find(self, group: Group, groups: list[Group]) -> Group | None:
        """The group with the axes that are tied to it by use."""
        for more in self._candidates(group, groups):
            key = (group.axes, more)
            if key in self._tried:
                continue
            self._tried.add(key)
            found = self.trial([replace(group, axes=(*group.axes, *more)), *_others(groups, group, more)])
            if found is None:
                continue
            expression_of, self.place = found
            own = {expression_of(axis) for axis in group.axes}
            tied = tuple(axis for axis in more if expression_of(axis) in own)
            if tied and not any(isinstance(expression, int) for expression in own):
                return replace(group, axes=(*group.axes, *tied))
        return None

    def _candidates(self, group: Group, groups: list[Group]) -> Iterator[tuple[tuple[int, int], ...]]:
        """Axes of this size that are not in the group: all, those at the same place, those of other groups too."""
        taken = {axis for other in groups for axis in other.axes}
        equal = [
            (leaf, axis)
            for leaf, _, tensor in self.inputs.tensors()
            for axis, size in enumerate(tensor.shape)
            if size == group.size and (leaf, axis) not in group.axes
        ]
        places = {axis for _, axis in group.axes}
        free = [axis for axis in equal if axis not in taken]
        choices = [free] if group.size > 1 else []
        choices.append([axis for axis in free if axis[1] in places])
        if group.size > 1:
            choices.append(equal)
        for choice in dict.fromkeys(map(tuple, choices)):
            if choice:
                yield choice

    def explain(self, group: Group, joined: Group) -> str:
        """Why a size is fixed when only the user may open the other axis."""
        own, other = group.axes[0], joined.axes[len(group.axes)]
        label = repr(group.label)
        names = [(self.inputs.names[leaf], axis) for leaf, axis in (own, other)]
        wanted = ", ".join(f'"{name}": {{{axis}: {label}}}' for name, axis in names)
        (name, axis), (other_name, other_axis) = names
        return (
            f"axis {axis} of {name} must equal axis {other_axis} of {other_name}: "
            f"give both one label, dynamic={{{wanted}}}"
        )


def without(groups: list[Group], axes: set[tuple[int, int]]) -> list[Group]:
    kept = [replace(group, axes=tuple(axis for axis in group.axes if axis not in axes)) for group in groups]
    return [group for group in kept if group.axes]


def _others(groups: list[Group], group: Group, more: tuple) -> list[Group]:
    return without([other for other in groups if other != group], set(more))
