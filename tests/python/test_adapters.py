"""LoRA adapters as peft itself writes them: merged on extraction, or kept beside the base's weights."""

from __future__ import annotations

import json

import numpy as np
import peft
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import nn

from pycandle import GoldenRecorder, load_model, perturb
from pycandle.weights import extract

TOKENS = torch.tensor([[3, 1, 4, 1, 5, 9]])


def llama() -> nn.Module:
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48
    )
    return transformers.LlamaForCausalLM(config)


def gpt2() -> nn.Module:
    config = transformers.GPT2Config(
        vocab_size=64, n_embd=32, n_layer=1, n_head=4, n_positions=32, bos_token_id=0, eos_token_id=0
    )
    return transformers.GPT2LMHeadModel(config)


def convolutions() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 6, 1), nn.Flatten(), nn.Linear(96, 5))


EXAMPLES = {llama: TOKENS, gpt2: TOKENS, convolutions: torch.randn(2, 3, 6, 6)}

KINDS = {
    "plain": (llama, {"target_modules": ["q_proj", "v_proj", "down_proj"]}),
    "rslora": (llama, {"target_modules": ["q_proj"], "use_rslora": True}),
    "dora": (llama, {"target_modules": ["q_proj", "gate_proj"], "use_dora": True}),
    "ranks and alphas of their own": (
        llama,
        {
            "target_modules": ["q_proj", "v_proj"],
            "rank_pattern": {"layers.1.self_attn.q_proj": 2},
            "alpha_pattern": {"layers.1.self_attn.q_proj": 32, "v_proj": 5},
        },
    ),
    "an embedding, and a head trained as a whole": (
        llama,
        {"target_modules": ["embed_tokens", "q_proj"], "modules_to_save": ["lm_head"]},
    ),
    "weights stored as [in, out], and biases": (
        gpt2,
        {"target_modules": ["c_attn", "c_proj"], "fan_in_fan_out": True, "bias": "all"},
    ),
    "dora of weights stored as [in, out]": (
        gpt2,
        {"target_modules": ["c_attn"], "fan_in_fan_out": True, "use_dora": True},
    ),
    "convolutions": (convolutions, {"target_modules": ["0", "2", "4"]}),
    "dora of convolutions": (convolutions, {"target_modules": ["0", "2"], "use_dora": True}),
}


def base_of(build) -> nn.Module:
    torch.manual_seed(0)
    model = build().eval()
    perturb(model, 1)
    return model


def adapted(model: nn.Module, options: dict, folder) -> nn.Module:
    """The model with a trained adapter, which is saved in the folder."""
    config = peft.LoraConfig(r=4, lora_alpha=8, init_lora_weights=False, **options)
    wrapped = peft.get_peft_model(model, config).eval()
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in wrapped.parameters():
            if parameter.requires_grad:
                parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    wrapped.save_pretrained(folder)
    return wrapped


def recorded(model: nn.Module, example: torch.Tensor, folder):
    recorder = GoldenRecorder(output_dir=folder, weights="none")
    recorder.record(model, example)
    recorder.save("model")
    return folder


def outputs(model, example: torch.Tensor) -> np.ndarray:
    if isinstance(model, nn.Module):
        with torch.no_grad():
            found = model(example)
        return (found.logits if hasattr(found, "logits") else found).numpy()
    return next(iter(model(example.numpy()).values()))


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    """The program of each base model, recorded once, without weights."""
    made: dict = {}

    def trace(build):
        if build not in made:
            folder = tmp_path_factory.mktemp(build.__name__)
            made[build] = recorded(base_of(build), EXAMPLES[build], folder)
        return made[build]

    return trace


@pytest.mark.parametrize("kind", KINDS)
def test_an_adapter_is_merged_as_peft_merges_it(kind, traces, tmp_path):
    build, options = KINDS[kind]
    base, example = base_of(build), EXAMPLES[build]
    torch.save(base.state_dict(), tmp_path / "base.pt")
    plain = outputs(base, example)
    wrapped = adapted(base, options, tmp_path / "adapter")
    trace = traces(build)
    extract(tmp_path / "base.pt", trace, trace / "model_weights.safetensors", lora=tmp_path / "adapter")
    expected = outputs(wrapped.merge_and_unload(), example)
    assert not np.allclose(plain, expected, rtol=1e-2), "the adapter must matter"
    np.testing.assert_allclose(outputs(load_model(trace), example), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "kind", ["plain", "dora", "an embedding, and a head trained as a whole", "weights stored as [in, out], and biases"]
)  # fmt: skip
def test_an_adapter_is_kept_beside_the_base_of_a_recorded_peft_model(kind, tmp_path, pycandle):
    build, options = KINDS[kind]
    base, example = base_of(build), EXAMPLES[build]
    torch.save(base.state_dict(), tmp_path / "base.pt")
    wrapped = adapted(base, options, tmp_path / "adapter")
    trace = recorded(wrapped, example, tmp_path / "trace")
    done = extract(
        tmp_path / "base.pt", trace, trace / "model_weights.safetensors", lora=tmp_path / "adapter"
    )
    assert "computed" not in done.ledger["counts"]
    np.testing.assert_allclose(
        outputs(load_model(trace), example), outputs(wrapped, example), rtol=1e-4, atol=1e-4
    )
    pycandle("verify", trace)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"peft_type": "IA3"}, 'adapters of the kind "IA3" are not supported'),
        ({"init_lora_weights": "pissa"}, "init_lora_weights 'pissa' changes the base model"),
        ({"layer_replication": [[0, 2], [1, 2]]}, "adapters with layer_replication are not supported"),
        ({"lora_bias": True}, "adapters with lora_bias are not supported"),
        ({"alpha_pattern": {r"layers\.[01]\.q_proj": 4}}, "is a regular expression"),
        ({"lora_alpha": None}, "lora_alpha is not there"),
    ],
)
def test_what_is_not_merged_is_refused_by_name(fields, words, traces, tmp_path, pycandle):
    base = base_of(convolutions)
    torch.save(base.state_dict(), tmp_path / "base.pt")
    adapted(base, {"target_modules": ["4"]}, tmp_path / "adapter")
    config = tmp_path / "adapter/adapter_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | fields))
    said = pycandle("weights", "extract", "--checkpoint", tmp_path / "base.pt", "--manifest", traces(convolutions), "--out", tmp_path / "w.safetensors", "--lora", tmp_path / "adapter", status=2)  # fmt: skip
    assert words in said.stderr and not (tmp_path / "w.safetensors").exists()


def test_a_square_weight_whose_direction_is_not_known_is_refused(tmp_path, pycandle):
    """peft keeps one flag for all layers: a Conv1D beside a Linear makes it wrong for one of them."""
    wanted = {"a.weight": torch.ones(8, 8), "b.weight": torch.ones(4, 8)}
    save_file(wanted, tmp_path / "base.safetensors")
    (folder := tmp_path / "adapter").mkdir()
    thin = {}
    for layer, (rows, columns) in {"a": (8, 8), "b": (8, 4)}.items():
        thin[f"base_model.model.{layer}.lora_A.weight"] = torch.ones(2, columns)
        thin[f"base_model.model.{layer}.lora_B.weight"] = torch.ones(rows, 2)
    save_file(thin, folder / "adapter_model.safetensors")
    arguments = ("weights", "extract", "--checkpoint", tmp_path / "base.safetensors", "--manifest", tmp_path / "base.safetensors", "--out", tmp_path / "w.safetensors", "--lora", folder)  # fmt: skip
    (folder / "adapter_config.json").write_text(json.dumps({"lora_alpha": 2}))
    said = pycandle(*arguments, status=2).stderr
    assert "fan_in_fan_out of the configuration is wrong for b.weight" in said and "a.weight" in said
    (folder / "adapter_config.json").write_text(json.dumps({"lora_alpha": 2, "fan_in_fan_out": True}))
    pycandle(*arguments)
    assert torch.equal(load_file(tmp_path / "w.safetensors")["b.weight"], torch.full((4, 8), 3.0))
