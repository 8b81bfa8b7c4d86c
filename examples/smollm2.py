"""SmolLM2-135M-Instruct with its real weights: a GGUF file, read by PyCandle, in transformers' Llama."""

from __future__ import annotations

import os
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from pycandle.gguf_tokenizer import read_metadata
from pycandle.weights import open_checkpoint

ROOT = Path(__file__).resolve().parent.parent
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
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
}


def gguf_file() -> Path:
    """`make demo` installs it, without what its package depends on."""
    return next((ROOT / "build/smollm2").rglob("*.gguf"))


def name_of(stored: str) -> str:
    """blk.3.attn_q.weight → model.layers.3.self_attn.q_proj.weight"""
    parts = stored.split(".")
    if parts[0] == "blk":
        return f"model.layers.{parts[1]}.{NAMES[parts[2]]}.{parts[3]}"
    return f"{NAMES[parts[0]]}.{parts[1]}"


def in_halves(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """Rows that rotate together lie side by side in GGUF, and half a head apart in transformers."""
    rows = weight.shape[0]
    return weight.reshape(heads, rows // heads // 2, 2, -1).transpose(1, 2).reshape(rows, -1)


def smollm2() -> LlamaForCausalLM:
    said = {key.removeprefix("llama."): value for key, value in read_metadata(gguf_file()).items()}
    stored = open_checkpoint(gguf_file(), framework="torch")
    weights = {name_of(name): stored[name].float() for name in stored}
    heads = {"q_proj": said["attention.head_count"], "k_proj": said["attention.head_count_kv"]}
    for name, value in weights.items():
        for part, count in heads.items():
            if part in name:
                weights[name] = in_halves(value, count)
    config = LlamaConfig(
        vocab_size=weights["model.embed_tokens.weight"].shape[0],
        hidden_size=said["embedding_length"],
        intermediate_size=said["feed_forward_length"],
        num_hidden_layers=said["block_count"],
        num_attention_heads=heads["q_proj"],
        num_key_value_heads=heads["k_proj"],
        max_position_embeddings=said["context_length"],
        rope_theta=said["rope.freq_base"],
        rms_norm_eps=said["attention.layer_norm_rms_epsilon"],
        tie_word_embeddings=True,
    )
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
    model.load_state_dict(weights, strict=True, assign=True)
    model.model.rotary_emb = type(model.model.rotary_emb)(config)  # its table is no weight
    model.tie_weights()
    return model.eval()
