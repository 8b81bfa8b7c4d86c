"""make zoo-onnx: models of the zoo as ONNX files, both ways, one row each.

out   `pycandle export` writes the recording, ONNX Runtime runs it, and the values are judged
in    torch.onnx.export writes the model, PyCandle reads it, and its values are judged by PyTorch's
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import json
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from pycandle.recording.inputs import gather_inputs
from pycandle.recording.preparation import prepared

from .check import PROGRAM, SEEDS, Failed, Stages, inputs_of, judged, prepared_model, seeded, text_of, verify
from .entry import Entry
from .recordings import Recordings
from .report import COUNTS, Count, Page, fact, parameters, seconds_of
from .runner import ROOT, Fingerprints
from .suite import quick_entries, quick_suite_parser, run_suite

STATE = ROOT / "build" / "zoo-onnx"
KEPT_BYTES = 64 << 20
OUT, TORCH, IN = "export", "torch.onnx.export", "verify"


def reached(stage: str) -> Count:
    return lambda count, rows: sum(row.get("stages", {}).get(stage) == "passed" for row in rows)


PAGE = Page(
    name="zoo-onnx",
    title="The zoo as ONNX files",
    made_by="make zoo-onnx",
    section="the-zoo-as-onnx-files",
    stages=("record", OUT, TORCH, IN),
    columns={
        "kind": fact("kind"),
        "parameters": parameters,
        "ONNX nodes": fact("nodes"),
        "sizes": fact("sizes"),
        "largest error": fact("error"),
        "torch's nodes": fact("torch_nodes"),
        "its goldens": fact("goldens"),
        "export s": seconds_of(OUT),
        "verify s": seconds_of(IN),
        "commit": fact("commit"),
        "torch.onnx.export says": fact("torch_says"),
    },
    counts={**COUNTS, "written": reached(OUT), "torch writes": reached(TORCH), "read": reached(IN)},
)


class OnnxCheck:
    """Called for each model, in a process of its own."""

    def __init__(self, recordings: Path):
        self.recordings = Recordings(recordings)

    def __call__(self, entry: Entry, folder: Path, at_stage: Callable[[str], None]) -> dict:
        return judged(at_stage, lambda stages, facts: self._check(entry, folder, stages, facts))

    def _check(self, entry: Entry, folder: Path, stages: Stages, facts: dict) -> None:
        recording = self.recordings.place(entry)
        try:
            facts |= stages.run("record", lambda: self.recordings.facts(entry))
            failures = []
            for way in (_written, _read):
                try:
                    way(entry, recording, folder, stages, facts)
                except Failed as failure:
                    facts["stages"][stages.now] = "failed"
                    failures.append(failure)
            if failures:
                raise failures[0]
        finally:
            if sum(f.stat().st_size for f in recording.glob("*")) > KEPT_BYTES:
                shutil.rmtree(recording)


def _written(entry: Entry, recording: Path, folder: Path, stages: Stages, facts: dict) -> None:
    made = stages.run(OUT, lambda: exported(recording / "model_manifest.json", folder / "ours.onnx"))
    outputs = made["check"]["outputs"]
    facts["nodes"] = made["nodes"]
    facts["sizes"] = len({o["sizes"] for o in outputs})
    facts["error"] = f"{max((o['error'] for o in outputs), default=0):.1e}"
    facts["within_rounding"] = all(o["within_rounding"] for o in outputs)


def exported(manifest: Path, file: Path) -> dict:
    command = [PROGRAM, "export", manifest, "--onnx", file, "--json"]
    run = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    facts = json.loads(run.stdout)
    if run.returncode != 0 or not facts["check"]["runner"]:
        error = facts.get("error", {})
        wrong = [o for o in facts.get("check", {}).get("outputs", []) if not o["passed"]]
        reason = (
            "not supported" if error.get("code") == "gap" else "wrong values" if wrong else "does not run"
        )
        raise Failed(reason, error.get("found") or json.dumps(wrong) or run.stderr)
    return facts


def _read(entry: Entry, recording: Path, folder: Path, stages: Stages, facts: dict) -> None:
    """What torch.onnx.export refuses is not ours to read: the row says why."""
    file = folder / "torch.onnx"
    manifest = json.loads((recording / "model_manifest.json").read_text())
    stages.now = TORCH
    try:
        names = stages.run(TORCH, lambda: torch_exported(entry, manifest, file))
    except Failed:
        raise
    except Exception as error:
        facts["stages"][TORCH] = "refused"
        facts["torch_says"] = " ".join(text_of(error).split())[:120]
        return
    graph = _graph_of(file)
    facts["torch_nodes"] = len(graph.node)
    facts["goldens"] = stages.run(IN, lambda: _verified(file, graph, names, manifest, recording, folder))


def torch_exported(entry: Entry, manifest: dict, file: Path) -> list[str]:
    """The file, and the recording's names of its inputs, in their order."""
    shapes = {i["name"]: i["shape"] for i in manifest["inputs"]}

    def dims(name: str, given: object) -> object:
        if isinstance(given, dict):
            return {key: dims(f"{name}.{key}", each) for key, each in given.items()}
        if isinstance(given, (list, tuple)):
            return type(given)(dims(f"{name}.{i}", each) for i, each in enumerate(given))
        opened = [axis for axis, size in enumerate(shapes.get(name, [])) if isinstance(size, str)]
        return dict.fromkeys(opened, torch.export.Dim.AUTO) if isinstance(given, torch.Tensor) else None

    model = prepared_model(entry, SEEDS[0])
    inputs = inputs_of(entry, model, entry.sizes, seeded(SEEDS[0]))
    with prepared(model, (), inputs, 0, []) as (_, kwargs), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        signature = inspect.signature(model.forward)
        names = [name for _, name, _ in gather_inputs(signature, (), kwargs).tensors()]
        by_name = {name: dims(name, given) for name, given in kwargs.items()}
        options = {"dynamo": True, "external_data": True, "verbose": False, "dynamic_shapes": by_name}
        torch.onnx.export(model, (), file, kwargs=kwargs, **options)
    return names


def _graph_of(file: Path):
    import onnx

    return onnx.load(file, load_external_data=False).graph


def _verified(file: Path, graph, names: list[str], manifest: dict, recording: Path, folder: Path) -> int:
    """How many sets of goldens it verified against: at the recorded inputs, and at other sizes where it has open ones."""
    stored = {tensor.name for tensor in graph.initializer}
    inputs = {i.name: i for i in graph.input if i.name not in stored}
    flat = {re.sub(r"\W", "_", name): name for name in names}
    if unknown := inputs.keys() - flat.keys():
        raise Failed("names", f"inputs {sorted(unknown)} are none of {sorted(flat)}")
    outputs = [o["name"] for o in manifest["outputs"]]
    if len(graph.output) != len(outputs):
        raise Failed("outputs", f"{len(graph.output)} outputs instead of {len(outputs)}")
    count = 0
    for trace in ("model_trace.safetensors", "further_trace.safetensors"):
        if not (recording / trace).exists():
            continue
        goldens = load_file(recording / trace)
        given = {f"input:{name}": goldens.get(f"input:{flat[name]}") for name in inputs}
        fits = all(_fits(inputs[key.partition(":")[2]], array) for key, array in given.items())
        if count and not fits:
            continue  # an axis that the recording leaves open, and torch.onnx.export does not
        kept = {
            f"output:output.{o.name}": goldens.get(f"output:{n}")
            for o, n in zip(graph.output, outputs, strict=True)
        }
        renamed = folder / "renamed.safetensors"
        save_file({k: v.contiguous() for k, v in {**given, **kept}.items() if v is not None}, renamed)
        verify(file, "--trace", str(renamed))
        count += 1
    return count


def _fits(value, array: torch.Tensor | None) -> bool:
    sizes = value.type.tensor_type.shape.dim
    with contextlib.suppress(AttributeError):
        return all(
            not d.HasField("dim_value") or d.dim_value == n for d, n in zip(sizes, array.shape, strict=True)
        )
    return False


def main() -> int:
    options = _options()
    prints = Fingerprints(PROGRAM, Path(__file__))
    page = PAGE if not options.filter and not options.source else None
    return run_suite(
        options, quick_entries(options), lambda: OnnxCheck(options.state / "recordings"), prints, page, 0.95
    )


def _options() -> argparse.Namespace:
    return quick_suite_parser("zoo.zoo_onnx", __doc__, STATE, within=60).parse_args()


if __name__ == "__main__":
    sys.exit(main())
