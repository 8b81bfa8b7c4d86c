"""Small language models of many architectures, with random weights, and a tokenizer for them."""

from __future__ import annotations

from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from tokenizers.decoders import ByteLevel

import pycandle as pc

VOCABULARY, END, POSITIONS = 320, 0, 256
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": POSITIONS,
    "bos_token_id": 1,
    "eos_token_id": END,
    "pad_token_id": 2,
}
GROUPED = {**SIZES, "num_key_value_heads": 2}
N = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": POSITIONS, "vocab_size": VOCABULARY}
SPECIAL = {name: SIZES[name] for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
BART = {
    **SPECIAL,
    "vocab_size": VOCABULARY,
    "d_model": 32,
    "max_position_embeddings": POSITIONS,
    "decoder_start_token_id": 3,
    "forced_eos_token_id": None,
    "tie_word_embeddings": False,
    **{f"{side}_{name}": n for side in ("encoder", "decoder") for name, n in (("layers", 2), ("attention_heads", 4), ("ffn_dim", 48))},
}  # fmt: skip
T5 = {
    **SPECIAL,
    "vocab_size": VOCABULARY,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": 2,
    "num_heads": 4,
    "decoder_start_token_id": 3,
    "tie_word_embeddings": False,
}
# Class, configuration, and its fields.
ARCHITECTURES = {
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", {**N, **SPECIAL}),
    "llama": ("LlamaForCausalLM", "LlamaConfig", GROUPED),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", {**GROUPED, "head_dim": 8}),
    "gemma3": ("Gemma3ForCausalLM", "Gemma3TextConfig", {**GROUPED, "head_dim": 8, "sliding_window": 16, "tie_word_embeddings": False}),
    "mistral": ("MistralForCausalLM", "MistralConfig", {**GROUPED, "sliding_window": 16}),
    "phi": ("PhiForCausalLM", "PhiConfig", SIZES),
    "falcon": ("FalconForCausalLM", "FalconConfig", {**SIZES, "new_decoder_architecture": True, "num_kv_heads": 2}),
    "gpt_neox": ("GPTNeoXForCausalLM", "GPTNeoXConfig", SIZES),
    "mixtral": ("MixtralForCausalLM", "MixtralConfig", {**GROUPED, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "t5": ("T5ForConditionalGeneration", "T5Config", T5),
    "bart": ("BartForConditionalGeneration", "BartConfig", BART),
}  # fmt: skip


WIDE = {"t5": 0.7}  # how far weights spread, where it is not as usual


def make(name: str, seed: int = 0, **changes) -> torch.nn.Module:
    """Weights of such a size that the model is sure of some tokens and not of others."""
    model_class, config_class, fields = ARCHITECTURES[name]
    model = getattr(transformers, model_class)(
        getattr(transformers, config_class)(**{**fields, **changes})
    ).eval()
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, WIDE.get(name, 0.35) / parameter.shape[-1] ** 0.25)
    model.generation_config.forced_eos_token_id = None
    return model


def record(model: torch.nn.Module, folder: Path) -> Path:
    tokens = {"input_ids": torch.randint(3, VOCABULARY, (2, 7))}
    if model.config.is_encoder_decoder:
        tokens["decoder_input_ids"] = torch.randint(3, VOCABULARY, (2, 5))
    recorder = pc.GoldenRecorder(folder)
    recorder.record(model, **tokens)
    recorder.save("model")
    return folder


def train_tokenizer(path: Path) -> Path:
    """Byte-level BPE with a few words; tokens 0 to 3 are special."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<end>", "<begin>", "<pad>", "<start>"],
        show_progress=False,
    )
    tokenizer.train_from_iterator(["the house on the hill, the dog and the street"] * 10, trainer)
    tokenizer.save(str(path))
    return path
