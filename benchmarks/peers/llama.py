"""llama.cpp: weights as GGUF files, and a runner of whole prompts: python -m peers.llama <file> <threads> …"""

from __future__ import annotations

import argparse
import ctypes
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

_TRANSPOSED = ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")  # GPT-2 keeps these as [in, out]
_NAMES = {
    "ln_1": "attn_norm",
    "attn.c_attn": "attn_qkv",
    "attn.c_proj": "attn_output",
    "ln_2": "ffn_norm",
    "mlp.c_fc": "ffn_up",
    "mlp.c_proj": "ffn_down",
}
_WHOLE = {"wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm"}


def write_gguf(weights: Path, file: Path) -> None:
    """The GPT-2 of the benchmark of whole models."""
    tensors = load_file(weights)
    write_gpt2({name.removeprefix("model."): tensor for name, tensor in tensors.items()}, {}, file)


def write_gpt2(tensors: dict[str, np.ndarray], config: dict, file: Path) -> None:
    """f32 throughout; no vocabulary, since the runner is given tokens. `config`: what differs from GPT-2's own."""
    tied = ("lm_head.weight", "transformer.wte.weight")  # saved under one of its names
    tensors = dict(tensors)
    tensors[tied[1]] = tensors.pop(tied[0], tensors.get(tied[1]))
    width = config.get("n_embd", 768)
    writer = _writer(file, "gpt2", config.get("vocab_size", 50257), config.get("n_positions", 1024))
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(4 * width)
    writer.add_block_count(config.get("n_layer", 12))
    writer.add_head_count(config.get("n_head", 12))
    writer.add_layer_norm_eps(1e-5)
    for name, tensor in tensors.items():
        stem, kind = name.removeprefix("transformer.").rsplit(".", 1)
        if stem.startswith("h."):
            _, layer, part = stem.split(".", 2)
            tensor = tensor.T.copy() if part in _TRANSPOSED and kind == "weight" else tensor
            writer.add_tensor(f"blk.{layer}.{_NAMES[part]}.{kind}", tensor)
        else:
            writer.add_tensor(f"{_WHOLE[stem]}.{kind}", tensor)
    _finish(writer)


_LLAMA = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "embed_tokens": "token_embd",
    "norm": "output_norm",
    "lm_head": "output",
}


def write_llama(tensors: dict[str, np.ndarray], config: dict, file: Path) -> None:
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    writer = _writer(file, "llama", config["vocab_size"], config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_head_count(heads["q_proj"])
    writer.add_head_count_kv(heads["k_proj"])
    writer.add_rope_dimension_count(config["hidden_size"] // heads["q_proj"])
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-6)
    for name, tensor in tensors.items():
        stem, kind = name.removeprefix("model.").rsplit(".", 1)
        if stem == "lm_head" and config["tie_word_embeddings"]:
            continue
        prefix, part = "", stem
        if stem.startswith("layers."):
            _, layer, part = stem.split(".", 2)
            prefix = f"blk.{layer}."
        if count := heads.get(part.split(".")[-1]):  # its pairs of rotated numbers are neighbours
            halves = tensor.reshape(count, 2, tensor.shape[0] // count // 2, *tensor.shape[1:])
            tensor = halves.swapaxes(1, 2).reshape(tensor.shape).copy()
        writer.add_tensor(f"{prefix}{_LLAMA[part]}.{kind}", tensor)
    _finish(writer)


def _writer(file: Path, architecture: str, vocabulary: int, positions: int):
    import gguf

    writer = gguf.GGUFWriter(file, architecture)
    writer.add_vocab_size(vocabulary)
    writer.add_context_length(positions)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("none")
    return writer


def _finish(writer) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    import llama_cpp as lib

    from pycandle.peers.worker import Answers, serve

    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("threads", type=int)
    parser.add_argument("--inputs", type=Path, required=True)
    parser.add_argument("--outputs", type=Path, required=True)
    options = parser.parse_args()

    def load():
        (tokens,) = load_file(options.inputs).values()
        count = tokens.size
        ids = (ctypes.c_int32 * count)(*tokens.reshape(-1).tolist())
        settings = lib.llama_model_default_params()
        settings.n_gpu_layers = 0
        model = lib.llama_model_load_from_file(str(options.file).encode(), settings)
        context_settings = lib.llama_context_default_params()
        context_settings.n_ctx = context_settings.n_batch = context_settings.n_ubatch = max(count, 512)
        context_settings.n_threads = context_settings.n_threads_batch = options.threads
        context_settings.type_k = context_settings.type_v = 0  # f32, as everybody
        context = lib.llama_init_from_model(model, context_settings)
        memory = lib.llama_get_memory(context)
        width = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model))

        def run():
            lib.llama_memory_clear(memory, False)
            if lib.llama_decode(context, lib.llama_batch_get_one(ids, count)) != 0:
                raise RuntimeError("llama_decode failed")
            logits = lib.llama_get_logits_ith(context, -1)
            return [np.ctypeslib.as_array(logits, (width,))[None]]

        return run

    answers = Answers()
    lib.llama_backend_init()
    try:
        serve(answers, f"llama.cpp (llama-cpp-python {lib.__version__})", options.outputs, load)
    except Exception as error:
        answers.refusal(error)


if __name__ == "__main__":
    main()
