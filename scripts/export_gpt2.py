"""GPT-2 as a bundle: recorded, its decode step derived and proven, with its tokenizer.

    scripts/export_gpt2.py --checkpoint model.safetensors --tokenizer tokenizer.json --out gpt2.pycandle
    scripts/export_gpt2.py --checkpoint folder_of_gpt2 --out gpt2.pycandle --weights int8

--checkpoint is a file of weights, or a folder as transformers saves it (config.json, model.safetensors, tokenizer.json). Without it
the weights are random, at GPT-2's size or with --tiny."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from known_models import KNOWN

import pycandle


def model_of(options: argparse.Namespace) -> torch.nn.Module:
    if options.checkpoint is not None and options.checkpoint.is_dir():
        from transformers import GPT2LMHeadModel

        return GPT2LMHeadModel.from_pretrained(options.checkpoint, use_cache=False).eval()
    return KNOWN["gpt2"].built(options.tiny, options.checkpoint)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--tokenizer", type=Path, help="tokenizer.json; the one of the folder otherwise")
    parser.add_argument("--weights", choices=("f32", "bf16", "f16", "int8", "int4"), default="f32")
    parser.add_argument("--single-file", action="store_true")
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args(arguments)
    files = {"--tokenizer": "tokenizer.json", "--tokenizer-config": "tokenizer_config.json"}
    files["--generation-config"] = "generation_config.json"
    given = {"--tokenizer": options.tokenizer} if options.tokenizer else {}
    if options.checkpoint is not None and options.checkpoint.is_dir():
        found = {option: options.checkpoint / name for option, name in files.items()}
        given = {option: path for option, path in found.items() if path.exists()} | given
    with tempfile.TemporaryDirectory() as folder:
        recorder = pycandle.GoldenRecorder(folder)
        recorder.record(model_of(options), **KNOWN["gpt2"].inputs(options.tiny))
        recorder.save("gpt2")
        command = [Path(sys.executable).with_name("pycandle"), "bundle", folder, "--out", options.out]
        command += ["--weights", options.weights, *(["--single-file"] if options.single_file else [])]
        for option, path in given.items():
            command += [option, path]
        return subprocess.run([str(word) for word in command], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
