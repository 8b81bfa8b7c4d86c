"""Recordings of models, kept for the next run: what is checked changes more often than the recorder."""

from __future__ import annotations

import contextlib
import inspect
import json
import shutil
from pathlib import Path

from torch import nn

from pycandle import GoldenRecorder

from .check import SEEDS, inputs_of, prepared_model, seeded
from .entry import Entry
from .runner import Fingerprints

RECORDED, FURTHER = "model_trace.safetensors", "further_trace.safetensors"
STAMP = "stamp.json"


class Recordings:
    def __init__(self, folder: Path):
        self.folder = folder
        self._fingerprints = Fingerprints()

    def traces(self, entry: Entry) -> list[Path]:
        """The goldens: at the recorded inputs, then at another shape (which recordings of before do not have)."""
        return [path for path in (self.place(entry) / name for name in (RECORDED, FURTHER)) if path.exists()]

    def place(self, entry: Entry) -> Path:
        return self.folder / entry.key.replace("/", ".")

    def facts(self, entry: Entry) -> dict:
        """Of the recording in `place(entry)`, which is made unless it is there, made by this recorder."""
        folder = self.place(entry)
        stamp, now = folder / STAMP, self._fingerprints.of(entry)
        with contextlib.suppress(OSError, ValueError):
            kept = json.loads(stamp.read_text())
            if kept.pop("fingerprint") == now:
                return kept
        shutil.rmtree(folder, ignore_errors=True)
        facts = record(entry, folder)
        stamp.write_text(json.dumps({**facts, "fingerprint": now}))
        return facts


def record(entry: Entry, folder: Path) -> dict:
    model = prepared_model(entry, SEEDS[0])
    recorder = GoldenRecorder(folder, dynamic=entry.dynamic)
    chosen = recorder.record(model, **inputs_of(entry, model, entry.sizes, seeded(SEEDS[0])))
    recorder.save("model")
    labels = {opened.group.label for opened in chosen.open}
    minimums = {opened.group.label: opened.minimum for opened in chosen.open}
    sizes = entry.further_sizes(labels, minimums)[1]
    name = FURTHER.removesuffix("_trace.safetensors")
    recorder.add_goldens(name, **inputs_of(entry, model, sizes, seeded(50)))
    return {
        "nodes": len(recorder.manifest["nodes"]),
        "parameters": sum(p.numel() for p in model.parameters()),
        "python_lines": python_lines(model),
    }


def python_lines(model: nn.Module) -> int:
    """Lines of the classes of the model's modules, without those of torch.nn."""
    classes = {type(m) for m in model.modules() if not type(m).__module__.startswith("torch.nn.")}
    lines = 0
    for found in classes:
        with contextlib.suppress(OSError, TypeError):
            lines += len(inspect.getsourcelines(found)[0])
    return lines
