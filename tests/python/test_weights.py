"""`pycandle weights` as a user types it: show, map, extract, diff; the ledger; the meta-trace way."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from emitted_models import LIBRARY, ROOT
from safetensors.torch import load_file, save_file
from torch import nn

from pycandle import GoldenRecorder, load_model, perturb
from pycandle.weights import extract, open_checkpoint


class Tower(nn.Module):
    """A tied head, a buffer that is saved, one that is not, and an unused parameter."""

    def __init__(self, width=8, words=11):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.norm = nn.BatchNorm1d(width)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.embed.weight
        self.spare = nn.Parameter(torch.zeros(3))
        self.register_buffer("scale", torch.arange(1.0, width + 1) / width)
        self.register_buffer("shift", torch.linspace(-1, 1, width), persistent=False)

    def forward(self, tokens):
        x = self.embed(tokens) * self.scale + self.shift
        for layer in self.layers:
            x = torch.relu(layer(x))
        x = self.norm(x.transpose(1, 2)).transpose(1, 2)
        return self.head(x)


TOKENS = torch.tensor([[1, 5, 3, 7]])


@pytest.fixture
def tower():
    torch.manual_seed(0)
    model = Tower().eval()
    perturb(model, 1)
    return model


@pytest.fixture
def recorded(tower, tmp_path):
    """The program of the tower without its weights, as a recording on the meta device is."""
    recorder = GoldenRecorder(output_dir=tmp_path / "trace", weights="none")
    recorder.record(tower, TOKENS)
    recorder.save("tower")
    return tmp_path / "trace"


def with_shift(state: dict, tower) -> dict:
    """No state dict holds the buffer that is not saved; a checkpoint for a recording without weights must."""
    return state | {"shift": tower.shift}


def fates(ledger: dict) -> dict[str, str]:
    return {p["name"]: p["fate"] for p in ledger["parameters"]}


def test_extracted_weights_complete_a_recording(tower, recorded, tmp_path, pycandle):
    checkpoint = tmp_path / "model.bin"
    torch.save(with_shift(tower.state_dict(), tower) | {"other": torch.ones(2)}, checkpoint)
    said = pycandle.json("weights", "extract", "--checkpoint", checkpoint, "--manifest", recorded, "--out", recorded / "w.safetensors")  # fmt: skip
    assert said["attached"] and said["ledger"]["complete"]
    known = fates(said["ledger"])
    assert known["embed.weight"] == "used as is"
    tensors = {t["name"]: t["fate"] for t in said["ledger"]["tensors"]}
    assert tensors["other"] == "unused" and tensors["head.weight"] == "tied to"
    model = load_model(recorded)
    with torch.no_grad():
        np.testing.assert_allclose(
            model(TOKENS.numpy())["output"], tower(TOKENS).numpy(), rtol=1e-5, atol=1e-6
        )
    assert "head.weight" not in load_file(recorded / "w.safetensors")
    assert pycandle("verify", recorded).returncode == 0


def test_every_tensor_and_parameter_has_one_fate(tower, recorded, tmp_path, pycandle):
    checkpoint = tmp_path / "model.safetensors"
    state = with_shift({k: v.clone() for k, v in tower.state_dict().items() if k != "head.weight"}, tower)
    state["layers.0.weight"] = state["layers.0.weight"].bfloat16()
    save_file(state, checkpoint)
    pycandle("weights", "extract", "--checkpoint", checkpoint, "--manifest", recorded, "--out", tmp_path / "w.safetensors", "--ledger", tmp_path / "ledger.json")  # fmt: skip
    ledger = json.loads((tmp_path / "ledger.json").read_text())
    assert fates(ledger)["layers.0.weight"] == "cast"
    assert len(ledger["tensors"]) == len(state)
    assert all(t["fate"] for t in ledger["tensors"]) and all(p["fate"] for p in ledger["parameters"])
    written = load_file(tmp_path / "w.safetensors")["layers.0.weight"]
    assert torch.equal(written, tower.layers[0].weight.detach().bfloat16().float())


def test_what_is_missing_is_an_error_with_the_nearest_names(tower, recorded, tmp_path, pycandle):
    state = with_shift(dict(tower.state_dict()), tower)
    state["layers.0.wieght"] = state.pop("layers.0.weight")
    state["layers.1.bias"] = torch.zeros(5)
    torch.save(state, tmp_path / "model.pt")
    said = pycandle("weights", "extract", "--checkpoint", tmp_path / "model.pt", "--manifest", recorded, "--out", tmp_path / "w.safetensors", status=2)  # fmt: skip
    assert "1 missing, 1 mismatched" in said.stderr
    assert "layers.0.weight (nearest: " in said.stderr and "layers.0.wieght" in said.stderr
    assert "f32[8]" in said.stderr and "f32[5]" in said.stderr
    assert not list(tmp_path.glob("w.safetensors*"))


def test_tied_names_with_other_values_are_refused(tower, recorded, tmp_path, pycandle):
    state = with_shift({k: v.clone() for k, v in tower.state_dict().items()}, tower)
    state["head.weight"] += 1
    torch.save(state, tmp_path / "model.pt")
    said = pycandle("weights", "extract", "--checkpoint", tmp_path / "model.pt", "--manifest", recorded, "--out", tmp_path / "w.safetensors", status=2)  # fmt: skip
    assert "other values under head.weight" in said.stderr


def test_strict_refuses_what_nothing_uses(tower, recorded, tmp_path, pycandle):
    torch.save(with_shift(dict(tower.state_dict()), tower) | {"extra": torch.ones(1)}, tmp_path / "model.pt")
    arguments = ("weights", "extract", "--checkpoint", tmp_path / "model.pt", "--manifest", recorded, "--out", tmp_path / "w.safetensors")  # fmt: skip
    said = pycandle(*arguments, "--strict", status=2)
    assert "extra (unused)" in said.stderr
    pycandle(*arguments)


def test_shards_and_another_dtype(tower, recorded, tmp_path):
    torch.save(with_shift(dict(tower.state_dict()), tower), tmp_path / "model.pt")
    out = tmp_path / "small" / "model.safetensors"
    out.parent.mkdir()
    done = extract(tmp_path / "model.pt", recorded, out, dtype="bf16", shard_bytes=300)
    assert fates(done.ledger)["layers.0.weight"] == "cast"
    assert len(done.files) > 2 and done.files[-1].name == "model.safetensors.index.json"
    again = open_checkpoint(out.parent, framework="torch")
    assert again.info["layers.0.weight"].dtype == "bf16"
    assert torch.equal(again["layers.0.weight"], tower.layers[0].weight.detach().bfloat16())
    assert all(f.stat().st_size < 1500 for f in done.files[:-1])


def test_rules_rename_and_change_tensors(tower, recorded, tmp_path, pycandle):
    state = {}
    for name, tensor in with_shift(dict(tower.state_dict()), tower).items():
        state["net." + name.replace("layers.", "l_")] = tensor.t() if name == "layers.0.weight" else tensor
    torch.save(state, tmp_path / "model.pt")
    rules = tmp_path / "names.map"
    rules.write_text(
        "# layers are called l_0\nlayers.0.weight = transpose(net.l_0.weight)\n"
        "layers.{n}.{leaf} = net.l_{n}.{leaf}   # all others\n* = net.*\n"
    )
    pycandle("weights", "extract", "--checkpoint", tmp_path / "model.pt", "--manifest", recorded, "--map", rules, "--out", tmp_path / "w.safetensors")  # fmt: skip
    written = load_file(tmp_path / "w.safetensors")
    assert torch.equal(written["layers.0.weight"], tower.layers[0].weight)
    assert torch.equal(written["layers.1.bias"], tower.layers[1].bias)


def test_the_options_of_the_page_do_what_it_says(tower, recorded, tmp_path, pycandle):
    """docs/weights.md: --section, --no-attach, --shard-size, --dtype, show --metadata."""
    full = with_shift({k: v.clone() for k, v in tower.state_dict().items()}, tower)
    other = {k: v + 1 if v.is_floating_point() else v for k, v in full.items()}
    torch.save({"params": full, "params_ema": other, "epoch": 3}, tmp_path / "model.ckpt")
    manifest = next(recorded.glob("*_manifest.json"))
    before = manifest.read_text()
    arguments = ("weights", "extract", "--checkpoint", tmp_path / "model.ckpt", "--manifest", recorded)
    unclear = pycandle(*arguments, "--out", tmp_path / "w.safetensors", status=2).stderr
    assert "params.embed.weight" in unclear and "params_ema.embed.weight" in unclear
    choose = "the weights are in params or in params_ema: choose with --section params"
    assert choose in unclear
    assert choose in pycandle("weights", "show", tmp_path / "model.ckpt").stdout
    assert (
        choose in pycandle("weights", "map", "-i", tmp_path / "model.ckpt", "-m", recorded, status=1).stdout
    )
    pycandle(*arguments, "--section", "params_ema", "--no-attach", "--out", recorded / "w.safetensors")
    assert manifest.read_text() == before
    assert torch.equal(load_file(recorded / "w.safetensors")["layers.0.bias"], other["layers.0.bias"])
    said = pycandle.json(*arguments, "--section", "params", "--dtype", "f16", "--shard-size", "0.2kB", "--out", tmp_path / "s.safetensors")  # fmt: skip
    assert len(said["files"]) > 2 and said["files"][-1].endswith("s.safetensors.index.json")
    shown = pycandle.json("weights", "show", said["files"][-1])
    assert {t["dtype"] for t in shown["tensors"] if t["name"].startswith("layers")} == {"f16"}
    save_file({"a": torch.ones(2)}, tmp_path / "m.safetensors", metadata={"author": "somebody"})
    assert "somebody" in pycandle("weights", "show", tmp_path / "m.safetensors", "--metadata").stdout


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("a b", "a rule is: parameter = tensor"),
        ("a = ", "a name is missing"),
        ("a = sort(b)", "there is no function sort"),
        ("a = transpose(b, c)", "transpose takes 1 tensors"),
        ("a = join(b, c", "the parenthesis is not closed"),
        ("a = b.{n}", "{n} does not stand in the parameter's name"),
        ('a = "b', "quotes are not closed"),
    ],
)
def test_a_wrong_rule_names_its_line(recorded, tmp_path, pycandle, rule, words):
    (tmp_path / "names.map").write_text(f"\n{rule}\n")
    torch.save({"b": torch.ones(1)}, tmp_path / "model.pt")
    said = pycandle("weights", "extract", "--checkpoint", tmp_path / "model.pt", "--manifest", recorded, "--map", tmp_path / "names.map", "--out", tmp_path / "w.safetensors", status=2)  # fmt: skip
    assert "names.map:2: " in said.stderr and words in said.stderr


def test_a_lora_adapter_is_merged(tower, recorded, tmp_path, pycandle):
    torch.save(with_shift(dict(tower.state_dict()), tower), tmp_path / "model.pt")
    a, b = torch.randn(2, 8), torch.randn(8, 2)
    folder = tmp_path / "adapter"
    folder.mkdir()
    stem = "base_model.model.layers.1"
    save_file({f"{stem}.lora_A.weight": a, f"{stem}.lora_B.weight": b}, folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 2, "lora_alpha": 6}))
    arguments = ("weights", "extract", "--checkpoint", tmp_path / "model.pt", "--manifest", recorded, "--out", tmp_path / "w.safetensors", "--lora", folder)  # fmt: skip
    said = pycandle.json(*arguments)
    assert fates(said["ledger"])["layers.1.weight"] == "computed"
    merged = tower.layers[1].weight.detach() + 3 * (b @ a)
    torch.testing.assert_close(load_file(tmp_path / "w.safetensors")["layers.1.weight"], merged)
    save_file({f"{stem}.lora_A.weight": a}, folder / "adapter_model.safetensors")
    assert "no lora_B" in pycandle(*arguments, status=2).stderr
    save_file({f"{stem}.lora_A.weight": a, f"{stem}.lora_B.weight": b}, folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps({"lora_alpha": 6, "use_dora": True}))
    assert "has no lora_magnitude_vector beside it" in pycandle(*arguments, status=2).stderr


class Adapted(nn.Module):
    """A linear layer with an adapter as peft builds it, under peft's names."""

    def __init__(self, width=8, rank=2):
        super().__init__()
        self.base_layer = nn.Linear(width, width)
        self.lora_A = nn.ModuleDict({"default": nn.Linear(width, rank, bias=False)})
        self.lora_B = nn.ModuleDict({"default": nn.Linear(rank, width, bias=False)})

    def forward(self, x):
        return self.base_layer(x) + 3 * self.lora_B["default"](self.lora_A["default"](x))


def test_a_lora_adapter_is_kept_beside_where_the_program_has_it(tmp_path, pycandle):
    torch.manual_seed(2)
    model = nn.ModuleDict({"layers": nn.Sequential(Adapted(), nn.LayerNorm(8))})
    perturb(model, 4)
    x = torch.randn(2, 8)
    recorder = GoldenRecorder(output_dir=tmp_path / "trace", weights="none")
    recorder.record(model["layers"].eval(), x)
    recorder.save("adapted")
    state = model["layers"].state_dict()
    base = {k.replace(".base_layer", ""): v for k, v in state.items() if "lora_" not in k}
    thin = {"base_model.model." + k.replace(".default", ""): v for k, v in state.items() if "lora_" in k}
    torch.save(base, tmp_path / "base.pt")
    (folder := tmp_path / "adapter").mkdir()
    save_file(thin, folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 2, "lora_alpha": 6}))
    arguments = ("weights", "extract", "--checkpoint", tmp_path / "base.pt", "--manifest", tmp_path / "trace", "--lora", folder)  # fmt: skip
    said = pycandle.json(*arguments, "--out", tmp_path / "trace/adapted_weights.safetensors")
    assert set(fates(said["ledger"]).values()) == {"used as is"}
    assert pycandle("verify", tmp_path / "trace").returncode == 0
    thin["base_model.model.7.lora_A.weight"] = torch.ones(2, 8)
    save_file(thin, folder / "adapter_model.safetensors")
    refused = pycandle(*arguments, "--out", tmp_path / "w.safetensors", status=2)
    assert "the program has no place for 'base_model.model.7.lora_A.weight'" in refused.stderr


def test_show_names_dead_and_broken_tensors(tmp_path, pycandle):
    tensors = {
        "dead": torch.zeros(4),
        "same": torch.full((3,), 2.0),
        "broken": torch.tensor([1.0, math.nan]),
        "good": torch.tensor([1.0, -3.0]),
    }
    save_file(tensors, tmp_path / "w.safetensors")
    shown = pycandle.json("weights", "show", tmp_path / "w.safetensors", "--stats")
    odd = {t["name"]: t.get("odd") for t in shown["tensors"]}
    assert odd == {"dead": "all zero", "same": "constant", "broken": "1 NaN", "good": None}
    good = next(t for t in shown["tensors"] if t["name"] == "good")
    assert (good["min"], good["mean"], good["max"], good["std"]) == (-3.0, -1.0, 1.0, 2.0)
    text = pycandle("weights", "show", tmp_path / "w.safetensors", "--stats").stdout
    assert "4 tensors" in text and "all zero" in text and "3 tensors are odd" in text


def test_diff_names_what_differs(tmp_path, pycandle):
    base = {"a": torch.ones(2), "b": torch.ones(3), "c": torch.ones(2, 2), "gone": torch.ones(1)}
    tuned = {"a": torch.ones(2), "b": torch.tensor([1.0, 1.5, 1.0]), "c": torch.ones(4), "new": torch.ones(1)}
    save_file(base, tmp_path / "a.safetensors")
    torch.save(tuned, tmp_path / "b.pt")
    said = pycandle.json("weights", "diff", tmp_path / "a.safetensors", tmp_path / "b.pt", status=1)
    assert said["equal"] == 1
    assert {d["name"]: d["largest"] for d in said["different"]} == {"b": 0.5, "c": 0, "gone": 0, "new": 0}
    assert pycandle("weights", "diff", tmp_path / "b.pt", tmp_path / "b.pt").stdout.startswith(
        "4 tensors equal"
    )


def test_diff_sees_the_last_element_of_a_large_tensor(tmp_path, pycandle):
    """Tensors are compared in pieces."""
    large = torch.zeros(1_200_001)
    save_file({"w": large}, tmp_path / "a.safetensors")
    np.savez_compressed(tmp_path / "packed.npz", w=large.numpy())
    large[-1] = 2
    torch.save({"w": large}, tmp_path / "b.pt")
    for other in ("a.safetensors", "packed.npz"):
        said = pycandle.json("weights", "diff", tmp_path / "b.pt", tmp_path / other, status=1)
        assert said["different"][0]["largest"] == 2
    pycandle("weights", "diff", tmp_path / "a.safetensors", tmp_path / "packed.npz")


def test_a_meta_model_gets_its_weights_from_a_checkpoint(tmp_path, pycandle):
    """The way of docs/meta-trace.md: recorded on meta, completed by the extractor script."""
    config = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48, "max_position_embeddings": 64}  # fmt: skip
    import transformers

    torch.manual_seed(3)
    real = transformers.LlamaForCausalLM(transformers.LlamaConfig(**config)).eval()
    perturb(real, 5)
    checkpoint = tmp_path / "large_model.bin"
    torch.save(real.state_dict(), checkpoint)
    traces = tmp_path / ".pycandle/traces"
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**config)).eval()
        recorder = GoldenRecorder(output_dir=traces)
        recorder.record(model, torch.zeros(1, 6, dtype=torch.long, device="meta"))
    recorder.save("my_large_model_meta")
    manifest = traces / "my_large_model_meta_manifest.json"
    assert pycandle("init", tmp_path, "--no-env").returncode == 0
    script = tmp_path / ".pycandle/scripts/weight_extractor.py"
    out = traces / "my_large_model_weights.safetensors"
    ran = subprocess.run(
        [sys.executable, script, "--checkpoint", checkpoint, "--manifest", manifest, "--out", out, "--ledger", tmp_path / "ledger.json"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "used as is" in ran.stdout
    assert json.loads((tmp_path / "ledger.json").read_text())["complete"]
    tokens = torch.tensor([[3, 1, 4, 1, 5, 9]])
    with torch.no_grad():
        expected = real(tokens).logits.numpy()
    found = load_model(manifest)(tokens.numpy())
    np.testing.assert_allclose(next(iter(found.values())), expected, rtol=1e-4, atol=1e-4)
    built = outputs_of_emitted_code(manifest, {"input_ids": tokens}, tmp_path, pycandle)
    np.testing.assert_allclose(next(iter(built.values())), expected, rtol=1e-4, atol=1e-4)


EMITTED = """#include <pycandle/pycandle.h>
#include "model.hpp"

int main(int, char** arguments) {
  using namespace pycandle;
  const SPACE::MODEL model(Weights::open(arguments[1]));
  save_arrays(arguments[3], compile(model, signature_of(arguments[1])).run(load_arrays(arguments[2])));
}
"""


def outputs_of_emitted_code(manifest: Path, inputs: dict, folder: Path, pycandle) -> dict[str, torch.Tensor]:
    made = pycandle.json("codegen", "--manifest", manifest, "--out", folder / "model.hpp")
    text = EMITTED.replace("SPACE", made["namespace"]).replace("MODEL", made["model"])
    (folder / "main.cpp").write_text(text)
    command = ["g++", "-std=c++20", "-O0", f"-I{ROOT / 'include'}", folder / "main.cpp", LIBRARY, "-lpthread", "-o", folder / "main"]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    save_file(inputs, folder / "inputs.safetensors")
    subprocess.run([folder / "main", manifest, folder / "inputs.safetensors", folder / "outputs.safetensors"], check=True)  # fmt: skip
    return load_file(folder / "outputs.safetensors")


def test_one_layer_of_a_large_model_is_verified_with_its_weights(tmp_path, pycandle):
    """docs/meta-trace.md: a slice that fits is recorded with values; its weights come out of the large checkpoint."""
    torch.manual_seed(4)
    large = nn.Sequential(*[nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8)) for _ in range(3)]).eval()
    perturb(large, 6)
    torch.save({f"model.layers.{name}": t for name, t in large.state_dict().items()}, tmp_path / "large.bin")
    recorder = GoldenRecorder(output_dir=tmp_path / "layer", weights="none")
    recorder.record(large[1], torch.randn(2, 8))
    recorder.save("layer")
    arguments = ("verify", tmp_path / "layer", "--checkpoint", tmp_path / "large.bin", "--map", tmp_path / "layer.map")  # fmt: skip
    (tmp_path / "layer.map").write_text("* = model.layers.1.*\n")
    assert "8 of 12 tensors unused" in pycandle(*arguments).stdout
    (tmp_path / "layer.map").write_text("* = model.layers.2.*\n")
    pycandle(*arguments, status=1)
