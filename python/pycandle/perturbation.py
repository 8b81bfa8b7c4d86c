"""Moves a model's parameters off their initial values. The same as `pycandle.perturb`."""

from .recording.perturbation import is_perturbed, perturb

__all__ = ["is_perturbed", "perturb"]
