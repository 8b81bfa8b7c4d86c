"""Golden values: inputs, outputs, taps and states, written while the program runs."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..checking.evidence import Watch, keys_of_outputs
from ..graph.interpreter import run_call
from ..graph.taps import is_node_tap, symbol_sizes, tap_bytes, tap_shape
from .tensor_files import TensorFile


@dataclass
class Goldens:
    """What one call left: the taps that were written, outputs, new states, what proves nothing, and the file's size."""

    taps: list
    outputs: list
    states: dict[str, torch.Tensor]
    vacuous: set  # of (node, index)
    size: int


def write_goldens(path, chosen, manifest, inputs, seed, budget, notes, meta, states=None) -> Goldens:
    """Runs the program once and writes inputs, outputs, taps and states as they appear.

    `states` are what the call begins with, by default the model's own. A meta model gives no values: its taps are
    those that `pycandle verify --stream` or another backend fills.
    """
    taps = within_budget(manifest.taps, chosen, inputs, budget, notes)
    if meta:
        taps = _with_shapes(taps, symbol_sizes(chosen.program, inputs))
    file = TensorFile(path)
    try:
        done = (
            ([], {}, set()) if meta else _stream(file, chosen.program, manifest, taps, inputs, seed, states)
        )
        return Goldens(taps, *done, file.finish())
    finally:
        file.close()


def _with_shapes(taps: list, sizes: dict) -> list:
    for tap in taps:
        tap.shape = tap_shape(tap, sizes)
    return [tap for tap in taps if tap.shape is not None]


def _stream(file: TensorFile, program, manifest, taps, inputs, seed, states) -> tuple[list, dict, set]:
    wanted: dict[tuple, list] = {}
    for tap in taps:
        wanted.setdefault((tap.node, tap.index), []).append(tap)
    output_keys = {f"output:{entry['name']}" for entry in manifest.fields["outputs"]}

    watch = Watch(program, [*wanted, *keys_of_outputs(program)])

    def see(node, value):
        results = flat_tensors(value)
        watch.see(node, results)
        for index, tensor in enumerate(results):
            for tap in wanted.get((node, index), ()):
                tap.shape = list(tensor.shape)
                if tap.key not in file.names and tap.key not in output_keys:
                    file.add(tap.key, tensor)

    for _, name, tensor in inputs.tensors():
        file.add(f"input:{name}", tensor)
    for state in program.states():
        file.add(f"state:{state.name}", (states or {}).get(state.name, state.tensor))
    outputs, updated = run_call(program, inputs.copied().leaves, seed, see, states)
    tensors = [output for output in outputs if isinstance(output, torch.Tensor)]
    for entry, tensor in zip(manifest.fields["outputs"], tensors, strict=True):
        file.add(f"output:{entry['name']}", tensor)
    for name, tensor in updated.items():
        file.add(f"updated:{name}", tensor)
    watch.see_inputs(inputs)
    return outputs, updated, watch.vacuous


def flat_tensors(value: object) -> list:
    """A node's results, numbered as in the manifest."""
    if not isinstance(value, (list, tuple)):
        return [value]
    flat = []
    for item in value:
        flat += item if isinstance(item, (list, tuple)) else [item]
    return flat


def within_budget(taps: list, chosen, inputs, budget: int | None, notes: list[str]) -> list:
    """The taps that fit: outer modules before inner ones, earlier before later. Inputs and outputs cost nothing."""
    if budget is None:
        return taps
    sizes = symbol_sizes(chosen.program, inputs)
    spent, kept, left_out, bytes_left_out = 0, set(), 0, 0
    order = sorted(range(len(taps)), key=lambda i: (is_node_tap(taps[i].id), taps[i].id.count("."), i))
    keys: set[str] = set()
    for i in order:
        tap = taps[i]
        cost = 0 if tap.key in keys or tap.key.startswith(("input:", "output:")) else tap_bytes(tap, sizes)
        if spent + cost > budget:
            left_out += 1
            bytes_left_out += cost
            continue
        spent += cost
        keys.add(tap.key)
        kept.add(i)
    if left_out:
        notes.append(f"golden_budget: {left_out} of {len(taps)} taps ({bytes_left_out} bytes) were left out")
    return [tap for i, tap in enumerate(taps) if i in kept]


def bytes_of(taps: list, chosen, inputs) -> int:
    """What these taps cost of a budget."""
    sizes = symbol_sizes(chosen.program, inputs)
    written = {tap.key: tap for tap in taps if not tap.key.startswith(("input:", "output:"))}
    return sum(tap_bytes(tap, sizes) for tap in written.values())
