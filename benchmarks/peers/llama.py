"""llama.cpp on GPT-2: the weights as a GGUF file, and a runner: python -m peers.llama <file> <threads> …"""

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
_TIED = ("model.lm_head.weight", "model.transformer.wte.weight")  # saved under one of its names


def write_gguf(weights: Path, file: Path) -> None:
    """f32 throughout; no vocabulary, since the runner is given tokens."""
    import gguf

    tensors = load_file(weights)
    tensors[_TIED[1]] = tensors.pop(_TIED[0], tensors.get(_TIED[1]))
    writer = gguf.GGUFWriter(file, "gpt2")
    writer.add_vocab_size(50257)
    writer.add_context_length(1024)
    writer.add_embedding_length(768)
    writer.add_feed_forward_length(3072)
    writer.add_block_count(12)
    writer.add_head_count(12)
    writer.add_layer_norm_eps(1e-5)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("none")
    for name, tensor in tensors.items():
        stem, kind = name.removeprefix("model.transformer.").rsplit(".", 1)
        if stem.startswith("h."):
            _, layer, part = stem.split(".", 2)
            tensor = tensor.T.copy() if part in _TRANSPOSED and kind == "weight" else tensor
            writer.add_tensor(f"blk.{layer}.{_NAMES[part]}.{kind}", tensor)
        else:
            writer.add_tensor(f"{_WHOLE[stem]}.{kind}", tensor)
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
