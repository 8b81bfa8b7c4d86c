"""The weights of a model by name as a safetensors file, which `--checkpoint` takes.

    scripts/export_model_weights.py --model resnet34 --out resnet34.safetensors

Without --checkpoint they are drawn from --seed. With it they are read from any file of docs/weights.md (torch, GGUF, NumPy …) and
checked against the model: every tensor has to be there with its shape."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from known_models import KNOWN
from safetensors.torch import save_file


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", choices=sorted(KNOWN), required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--checkpoint", type=Path, help="in place of random weights")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tiny", action="store_true", help="a small model of the same architecture")
    options = parser.parse_args(arguments)
    model = KNOWN[options.model].built(options.tiny, options.checkpoint, options.seed)
    seen: set[int] = set()  # tied tensors once
    weights = {}
    for name, value in model.state_dict().items():
        if value.data_ptr() not in seen or value.numel() == 0:
            seen.add(value.data_ptr())
            weights[name] = value.detach().contiguous()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    save_file(weights, options.out)
    print(f"{len(weights)} tensors, {sum(w.nbytes for w in weights.values()) / 1e6:.1f} MB in {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
