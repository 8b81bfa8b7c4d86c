"""Renaming between the files that people have: found in full, and the loaded model gives the original's outputs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import timm
import torch
import torchvision
import transformers
from safetensors.torch import load_file, save_file
from torch import nn

from pycandle import perturb
from pycandle.weights import extract, map_names


@dataclass(frozen=True)
class Pair:
    """A checkpoint in one style, and a model in another that must give the same outputs with it."""

    source: nn.Module  # computes the outputs that count
    checkpoint: dict[str, torch.Tensor]  # its weights, named and laid out as the other side stores them
    target: nn.Module
    inputs: tuple
    heads: tuple[int, int] = (0, 0)
    output: Callable = lambda result: result


def outputs(model: nn.Module, pair: Pair) -> torch.Tensor:
    with torch.no_grad():
        result = model.eval()(*pair.inputs)
    if hasattr(result, "keys"):
        result = result[next(iter(result.keys()))]
    return pair.output(result)


def renamed(state: dict[str, torch.Tensor], *steps: tuple[str, str]) -> dict[str, torch.Tensor]:
    out = {}
    for name, tensor in state.items():
        for pattern, new in steps:
            name = re.sub(pattern, new, name)
        out[name] = tensor.detach().clone().contiguous()
    return out


def checkpoint_of(model: nn.Module) -> dict[str, torch.Tensor]:
    return renamed(model.state_dict())


def made(build: Callable[[], nn.Module], seed: int = 1) -> nn.Module:
    """With weights of its own: a fresh norm would hide a mistake."""
    torch.manual_seed(seed)
    model = build().eval()
    perturb(model, seed)
    return model


IMAGE = (torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0)),)
TOKENS = (torch.tensor([[3, 7, 1, 9, 4, 2]]),)


# ---- the models, tiny


def bert(kind=transformers.BertModel):
    return kind(transformers.BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=40, max_position_embeddings=16))  # fmt: skip


def gpt2():
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=50, n_positions=16, n_embd=16, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0))  # fmt: skip


def llama(kind=transformers.LlamaForCausalLM, config=transformers.LlamaConfig, **more):
    return kind(config(vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=48, max_position_embeddings=32, **more))  # fmt: skip


def hf_vit():
    return transformers.ViTForImageClassification(transformers.ViTConfig(hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=40, image_size=32, patch_size=8, num_labels=5, layer_norm_eps=1e-6))  # fmt: skip


def timm_vit():
    return timm.models.VisionTransformer(img_size=32, patch_size=8, embed_dim=16, depth=2, num_heads=4, mlp_ratio=2.5, num_classes=5)  # fmt: skip


def torchvision_vit():
    return torchvision.models.VisionTransformer(32, 8, 2, 4, 16, 40, num_classes=5)


def clip():
    config = transformers.CLIPConfig(
        text_config={"vocab_size": 50, "hidden_size": 16, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 12, "eos_token_id": 9, "bos_token_id": 1, "pad_token_id": 0},
        vision_config={"hidden_size": 24, "intermediate_size": 60, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 32, "patch_size": 8},
        projection_dim=20,
    )  # fmt: skip
    return transformers.CLIPModel(config)


def hf_resnet():
    return transformers.ResNetForImageClassification(transformers.ResNetConfig(embedding_size=64, hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2], layer_type="basic", num_labels=5))  # fmt: skip


def torchvision_resnet():
    return torchvision.models.resnet18(num_classes=5)


# ---- how the other side stores them


def openai_gpt2(model: nn.Module) -> dict[str, torch.Tensor]:
    """The names and layouts of OpenAI's TensorFlow release: `model/h0/attn/c_attn/w`, with an axis of one in front."""
    state = renamed(
        {k: v for k, v in model.state_dict().items() if not k.startswith("lm_head")},
        (r"^transformer\.h\.(\d+)\.", r"model/h\1/"), (r"^transformer\.", "model/"), (r"\.", "/"),
        (r"(ln_\w+)/weight$", r"\1/g"), (r"(wte|wpe)/weight$", r"\1"), (r"/weight$", "/w"), (r"/bias$", "/b"),
    )  # fmt: skip
    return {k: v[None].clone() if k.endswith("/w") else v for k, v in state.items()}


def nano_gpt(model: nn.Module) -> dict[str, torch.Tensor]:
    """As a GPT-2 with nn.Linear instead of Conv1D stores it: the same names, matrices the other way round."""
    turned = re.compile(r"(c_attn|c_proj|c_fc)\.weight$")
    return {k: v.t().contiguous() if turned.search(k) else v.clone() for k, v in model.state_dict().items()}


def meta_llama(model: nn.Module, heads: int, key_heads: int) -> dict[str, torch.Tensor]:
    def pairs(weight: torch.Tensor, count: int) -> torch.Tensor:
        half = weight.shape[0] // count // 2
        return weight.view(count, 2, half, -1).transpose(1, 2).reshape(weight.shape).contiguous()

    state = renamed(
        model.state_dict(), (r"^model\.", ""), ("self_attn", "attention"), (r"([qkvo])_proj", r"w\1"),
        ("mlp.gate_proj", "feed_forward.w1"), ("mlp.down_proj", "feed_forward.w2"), ("mlp.up_proj", "feed_forward.w3"),
        ("input_layernorm", "attention_norm"), ("post_attention_layernorm", "ffn_norm"),
        ("embed_tokens", "tok_embeddings"), ("lm_head", "output"),
    )  # fmt: skip
    for name, weight in state.items():
        if name.endswith(("wq.weight", "wk.weight")):
            state[name] = pairs(weight, heads if "wq" in name else key_heads)
    return state


def openai_clip(model: nn.Module) -> dict[str, torch.Tensor]:
    """The names of OpenAI's CLIP and of open_clip: fused projections, matrices without modules."""
    state = renamed(
        model.state_dict(), (r"^text_model\.encoder\.layers", "transformer.resblocks"),
        (r"^vision_model\.encoder\.layers", "visual.transformer.resblocks"), ("self_attn", "attn"),
        ("layer_norm1", "ln_1"), ("layer_norm2", "ln_2"), (r"mlp\.fc1", "mlp.c_fc"), (r"mlp\.fc2", "mlp.c_proj"),
        ("^text_model.embeddings.token_embedding", "token_embedding"),
        ("^text_model.embeddings.position_embedding.weight", "positional_embedding"),
        ("^text_model.final_layer_norm", "ln_final"), ("^vision_model.embeddings.class_embedding", "visual.class_embedding"),
        ("^vision_model.embeddings.patch_embedding", "visual.conv1"),
        ("^vision_model.embeddings.position_embedding.weight", "visual.positional_embedding"),
        ("^vision_model.pre_layrnorm", "visual.ln_pre"), ("^vision_model.post_layernorm", "visual.ln_post"),
        ("^visual_projection.weight", "visual.proj"), ("^text_projection.weight", "text_projection"),
    )  # fmt: skip
    for name in [n for n in state if ".q_proj." in n]:
        parts = [state.pop(name.replace(".q_proj.", f".{p}_proj.")) for p in "qkv"]
        stem, leaf = name.split(".q_proj.")
        state[f"{stem}.in_proj_{leaf}"] = torch.cat(parts)
    for name in ("visual.proj", "text_projection"):
        state[name] = state[name].t().contiguous()
    return state


def old_vit(model: nn.Module) -> dict[str, torch.Tensor]:
    """ViT as transformers 4 names it."""
    return renamed(
        model.state_dict(), (r"^vit\.layers\.", "vit.encoder.layer."), (r"attention\.q_proj", "attention.attention.query"),
        (r"attention\.k_proj", "attention.attention.key"), (r"attention\.v_proj", "attention.attention.value"),
        (r"attention\.o_proj", "attention.output.dense"), (r"mlp\.fc1", "intermediate.dense"), (r"mlp\.fc2", "output.dense"),
    )  # fmt: skip


def whisper():
    return transformers.WhisperForConditionalGeneration(transformers.WhisperConfig(vocab_size=60, num_mel_bins=8, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=40, decoder_ffn_dim=40, d_model=16, max_source_positions=10, max_target_positions=12, decoder_start_token_id=1, eos_token_id=2, pad_token_id=0, bos_token_id=1))  # fmt: skip


def openai_whisper(model: nn.Module) -> dict[str, torch.Tensor]:
    state = renamed(
        model.state_dict(), (r"^model\.", ""), (r"\.layers\.", ".blocks."), (r"\.fc1", ".mlp.0"), (r"\.fc2", ".mlp.2"),
        (r"(blocks\.\d+)\.final_layer_norm", r"\1.mlp_ln"), ("encoder_attn_layer_norm", "cross_attn_ln"),
        ("self_attn_layer_norm", "attn_ln"), ("encoder_attn", "cross_attn"), ("self_attn", "attn"), ("q_proj", "query"),
        ("k_proj", "key"), ("v_proj", "value"), ("out_proj", "out"), (r"encoder\.layer_norm", "encoder.ln_post"),
        (r"decoder\.layer_norm", "decoder.ln"), (r"embed_positions\.weight", "positional_embedding"),
        ("embed_tokens", "token_embedding"),
    )  # fmt: skip
    del state["proj_out.weight"]  # the embedding
    return state


class Convolutions(nn.Module):
    def __init__(self, norm: Callable | None) -> None:
        super().__init__()
        wrap = norm or (lambda module: module)
        self.first = wrap(nn.Conv1d(3, 8, 3))
        self.second = wrap(nn.Linear(8, 5))

    def forward(self, x):
        return self.second(torch.relu(self.first(x)).mean(-1))


def old_norm(module):
    return nn.utils.weight_norm(module)


def new_norm(module):
    return nn.utils.parametrizations.weight_norm(module)


# ---- the pairs


def simple(build: Callable[[], nn.Module], target: Callable[[], nn.Module], inputs: tuple) -> Pair:
    source = made(build)
    return Pair(source, checkpoint_of(source), target(), inputs)


def stored(build: Callable[[], nn.Module], store: Callable, inputs: tuple, heads=(0, 0)) -> Pair:
    """The same module, its checkpoint as others store it."""
    source = made(build)
    return Pair(source, store(source), build(), inputs, heads)


def timm_resnet():
    return timm.create_model("resnet18", num_classes=5)


def phi3():
    return llama(
        transformers.Phi3ForCausalLM,
        transformers.Phi3Config,
        pad_token_id=0,
        eos_token_id=0,
        rms_norm_eps=1e-6,
    )


def older_bert(model: nn.Module) -> dict[str, torch.Tensor]:
    steps = (
        (r"LayerNorm\.weight", "LayerNorm.gamma"),
        (r"LayerNorm\.bias", "LayerNorm.beta"),
        ("^", "bert."),
    )
    return renamed(model.state_dict(), *steps)


def bert_of_masked() -> Pair:
    whole = made(lambda: bert(transformers.BertForMaskedLM))
    target = transformers.BertModel(whole.config, add_pooling_layer=False)
    return Pair(whole.bert, checkpoint_of(whole), target, TOKENS)


def in_parallel(model: nn.Module) -> dict[str, torch.Tensor]:
    return renamed(model.state_dict(), ("^", "module."))


def convolutions(norm: Callable | None) -> Callable[[], nn.Module]:
    return lambda: Convolutions(norm)


SPEECH = (torch.randn(1, 8, 20, generator=torch.Generator().manual_seed(3)), None, torch.tensor([[1, 3, 4]]))
SOUND = (torch.randn(2, 3, 9, generator=torch.Generator().manual_seed(2)),)
PAIRS: dict[str, Callable[[], Pair]] = {
    "torchvision ResNet to timm": lambda: simple(torchvision_resnet, timm_resnet, IMAGE),
    "timm ResNet to torchvision": lambda: simple(timm_resnet, torchvision_resnet, IMAGE),
    "HF ResNet to torchvision": lambda: simple(hf_resnet, torchvision_resnet, IMAGE),
    "torchvision ResNet to HF": lambda: simple(torchvision_resnet, hf_resnet, IMAGE),
    "DataParallel": lambda: stored(torchvision_resnet, in_parallel, IMAGE),
    "older BERT": lambda: stored(bert, older_bert, TOKENS),
    "BERT out of a masked model": bert_of_masked,
    "OpenAI GPT-2 to HF": lambda: stored(gpt2, openai_gpt2, TOKENS),
    "GPT-2 with linear layers": lambda: stored(gpt2, nano_gpt, TOKENS),
    "Meta Llama to HF": lambda: stored(llama, lambda m: meta_llama(m, 4, 2), TOKENS, (4, 2)),
    "Phi-3 out of Llama": lambda: simple(llama, phi3, TOKENS),
    "Llama out of Phi-3": lambda: simple(phi3, llama, TOKENS),
    "timm ViT to HF": lambda: simple(timm_vit, hf_vit, IMAGE),
    "HF ViT to timm": lambda: simple(hf_vit, timm_vit, IMAGE),
    "older HF ViT": lambda: stored(hf_vit, old_vit, IMAGE),
    "torchvision ViT to timm": lambda: simple(torchvision_vit, timm_vit, IMAGE),
    "timm ViT to torchvision": lambda: simple(timm_vit, torchvision_vit, IMAGE),
    "OpenAI Whisper to HF": lambda: stored(whisper, openai_whisper, SPEECH),
    "OpenAI CLIP to HF": lambda: stored(clip, openai_clip, (TOKENS[0], *IMAGE)),
    "old weight norm to new": lambda: simple(convolutions(old_norm), convolutions(new_norm), SOUND),
    "new weight norm to old": lambda: simple(convolutions(new_norm), convolutions(old_norm), SOUND),
    "weight norm to plain": lambda: simple(convolutions(new_norm), convolutions(None), SOUND),
}


def wanted_file(model: nn.Module, path: Path) -> Path:
    """The names and shapes of the target; its values are of no use."""
    state, seen = {}, {}
    for name, tensor in model.state_dict().items():
        if tensor.data_ptr() not in seen or tensor.numel() == 0:  # tied ones once, as a manifest has them
            state[name] = tensor.detach().clone().contiguous()
            seen[tensor.data_ptr()] = name
    save_file(state, path)
    return path


@pytest.mark.parametrize("name", PAIRS)
def test_the_mapped_model_gives_the_original_outputs(name, tmp_path):
    case = PAIRS[name]()
    checkpoint = tmp_path / "source.pt"
    torch.save(case.checkpoint, checkpoint)
    wanted = wanted_file(case.target, tmp_path / "wanted.safetensors")
    mapped = map_names(checkpoint, wanted, heads=case.heads[0], key_heads=case.heads[1])
    assert mapped.complete, mapped.rules
    rules = tmp_path / "rules.map"
    rules.write_text(mapped.rules)
    extract(checkpoint, wanted, tmp_path / "out.safetensors", rules=rules)
    loaded = load_file(tmp_path / "out.safetensors")
    missing, unexpected = case.target.load_state_dict(loaded, strict=False)
    tied = {k for k in case.target.state_dict() if k not in load_file(wanted)}
    assert set(missing) <= tied and not unexpected
    torch.testing.assert_close(outputs(case.target, case), outputs(case.source, case), rtol=1e-4, atol=1e-5)


BACK: dict[str, tuple] = {
    "HF GPT-2 to OpenAI": (gpt2, openai_gpt2, (0, 0)),
    "HF GPT-2 to linear layers": (gpt2, nano_gpt, (0, 0)),
    "HF Llama to Meta": (llama, lambda m: meta_llama(m, 4, 2), (4, 2)),
    "HF Whisper to OpenAI": (whisper, openai_whisper, (0, 0)),
    "HF CLIP to OpenAI": (clip, openai_clip, (0, 0)),
    "BERT to older names": (bert, older_bert, (0, 0)),
    "HF ViT to older names": (hf_vit, old_vit, (0, 0)),
}


@pytest.mark.parametrize("name", BACK)
def test_the_way_back_gives_the_file_that_the_others_store(name, tmp_path):
    """The reverse of the pairs above whose outputs were compared: here every tensor is."""
    build, store, heads = BACK[name]
    source = made(build)
    expected = store(source)
    torch.save(checkpoint_of(source), tmp_path / "source.pt")
    save_file(store(made(build, seed=7)), tmp_path / "wanted.safetensors")  # names and shapes; other values
    mapped = map_names(
        tmp_path / "source.pt", tmp_path / "wanted.safetensors", heads=heads[0], key_heads=heads[1]
    )
    assert mapped.complete, mapped.rules
    (tmp_path / "rules.map").write_text(mapped.rules)
    extract(
        tmp_path / "source.pt", tmp_path / "wanted.safetensors", tmp_path / "out.safetensors",
        rules=tmp_path / "rules.map",
    )  # fmt: skip
    loaded = load_file(tmp_path / "out.safetensors")
    assert [k for k in expected if not torch.equal(loaded[k], expected[k])] == []


def test_layers_are_one_line(tmp_path):
    source = made(llama)
    torch.save(meta_llama(source, 4, 2), tmp_path / "source.pt")
    mapped = map_names(
        tmp_path / "source.pt", wanted_file(llama(), tmp_path / "wanted.safetensors"), heads=4, key_heads=2
    )
    lines = [line for line in mapped.rules.splitlines() if line and not line.startswith("#")]
    assert len(lines) == 12
    assert any("layers.{n}.self_attn.q_proj.weight" in line and "rope_halves(layers.{n}.attention.wq.weight, 4)" in line for line in lines)  # fmt: skip


def test_llama_rows_need_the_number_of_heads(tmp_path, pycandle):
    torch.save(meta_llama(made(llama), 4, 2), tmp_path / "source.pt")
    wanted = wanted_file(llama(), tmp_path / "wanted.safetensors")
    with pytest.raises(Exception, match="number of heads is not known"):
        map_names(tmp_path / "source.pt", wanted)
    arguments = ("weights", "map", "-i", tmp_path / "source.pt", "-m", wanted, "-o", tmp_path / "names.map")
    pycandle(*arguments, "--heads", "4,2")
    assert "wk.weight, 2)" in (tmp_path / "names.map").read_text()
    (tmp_path / "params.json").write_text('{"n_heads": 4, "n_kv_heads": 2}')
    assert map_names(tmp_path / "source.pt", wanted).complete


def test_equal_candidates_are_reported_and_not_chosen_between(tmp_path):
    save_file(
        {"red.weight": torch.zeros(3, 3), "blue.weight": torch.ones(3, 3)}, tmp_path / "source.safetensors"
    )
    save_file({"green.weight": torch.zeros(3, 3)}, tmp_path / "wanted.safetensors")
    mapped = map_names(tmp_path / "source.safetensors", tmp_path / "wanted.safetensors")
    assert not mapped.complete
    assert mapped.ambiguous == ["green.weight"]
    assert "# green.weight = blue.weight" in mapped.rules and "# green.weight = red.weight" in mapped.rules
