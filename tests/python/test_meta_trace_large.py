"""The whole meta-trace workflow for a model of two billion parameters; no process takes 2 GiB."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from conftest import PYCANDLE
from memory import peaks_of
from safetensors.torch import save_file

CONFIG = {
    "vocab_size": 32000,
    "hidden_size": 2048,
    "intermediate_size": 5632,
    "num_hidden_layers": 38,
    "num_attention_heads": 32,
    "max_position_embeddings": 2048,
}
LIMIT = 2 * 2**30

RECORDER = f"""
import torch
import transformers
from spy import GoldenRecorder

with torch.device("meta"):
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**{CONFIG})).to(torch.bfloat16).eval()
recorder = GoldenRecorder(output_dir="../traces")
recorder.record(model, torch.zeros(1, 8, dtype=torch.long, device="meta"))
recorder.save("large")
"""


def write_shards(folder: Path) -> int:
    """Random bf16 weights, a shard for each layer; returns how many numbers there are."""
    import transformers

    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**CONFIG))
    shards: dict[str, dict] = {}
    for name, tensor in model.state_dict().items():
        layer = name.split(".")[2] if name.startswith("model.layers.") else "rest"
        shards.setdefault(layer, {})[name] = tensor
    folder.mkdir()
    weight_map, count = {}, 0
    generator = torch.Generator().manual_seed(0)
    for number, shard in enumerate(shards.values()):
        file = f"model-{number + 1:05}-of-{len(shards):05}.safetensors"
        made = {name: random(tensor.shape, generator) for name, tensor in shard.items()}
        save_file(made, folder / file)
        weight_map |= dict.fromkeys(made, file)
        count += sum(tensor.numel() for tensor in made.values())
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    return count


def random(shape: torch.Size, generator: torch.Generator) -> torch.Tensor:
    if len(shape) == 1:
        return (1 + 0.1 * torch.randn(shape, generator=generator)).bfloat16()
    return (torch.randn(shape, generator=generator) / shape[-1] ** 0.5).bfloat16()


@pytest.mark.full
def test_two_billion_parameters_need_less_than_2_gib_in_every_step(tmp_path, pycandle):
    try:
        assert write_shards(tmp_path / "checkpoint") >= 2e9
        peaks = run_workflow(tmp_path, pycandle)
    finally:
        shutil.rmtree(tmp_path / "checkpoint", ignore_errors=True)
        shutil.rmtree(tmp_path / ".pycandle/traces", ignore_errors=True)
    print(
        {
            step: {name: f"{peak / 1e6:.0f} MB" for name, peak in found.items()}
            for step, found in peaks.items()
        }
    )
    assert max(peak for found in peaks.values() for peak in found.values()) < LIMIT, peaks


def run_workflow(folder: Path, pycandle) -> dict[str, dict[str, int]]:
    pycandle("init", folder, "--no-env")
    (folder / ".pycandle/scripts/recorder.py").write_text(RECORDER)
    traces = folder / ".pycandle/traces"
    manifest, weights = traces / "large_manifest.json", traces / "large_weights.safetensors"
    steps = {
        "record": ["record", "--script", folder / ".pycandle/scripts/recorder.py"],
        "codegen": ["codegen", "--manifest", manifest, "--out", folder / "large"],
        "weights extract": ["weights", "extract", "--checkpoint", folder / "checkpoint", "--manifest", manifest, "--out", weights],
        "forward --param-budget 300MB": ["forward", manifest, "--param-budget", "300MB"],
        "verify --stream": ["verify", manifest, "--stream", "--param-budget", "300MB"],
    }  # fmt: skip
    return {step: peaks_of([PYCANDLE, *command]) for step, command in steps.items()}
