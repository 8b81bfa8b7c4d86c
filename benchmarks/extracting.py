"""How fast `pycandle weights extract` writes, beside `cp` of the same bytes: 1 GB out of a checkpoint of 3 GB, both with their
source in the page cache and on the disk at the end. At least half of the speed of cp.

    .venv/bin/python benchmarks/extracting.py
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from safetensors.torch import save_file

PROGRAM = Path(sys.executable).with_name("pycandle")
SIZE, TENSORS, USED = 4096, 48, 16


def seconds_of(*commands):
    start = time.monotonic()
    for command in commands:
        subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - start


def measured(folder):
    checkpoint, wanted, out, copy = (
        folder / f"{name}.safetensors" for name in ("all", "wanted", "out", "copy")
    )
    tensors = {f"layers.{i}.weight": torch.full((SIZE, SIZE), float(i)) for i in range(TENSORS)}
    save_file(tensors, checkpoint)
    save_file({name: tensors[name] for name in list(tensors)[:USED]}, wanted)
    del tensors
    ours, theirs = [], []
    for _ in range(4):
        extract = [
            PROGRAM,
            "weights",
            "extract",
            "--checkpoint",
            checkpoint,
            "--manifest",
            wanted,
            "--out",
            out,
        ]
        ours.append(seconds_of(extract))
        theirs.append(seconds_of(["cp", "--reflink=never", out, copy], ["sync", copy]))
        out.unlink()
        copy.unlink()
    return min(ours[1:]), min(theirs[1:])  # the first run reads the disk


def main():
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = measured(Path(folder))
    print(f"extract {ours:.2f} s, cp and sync {theirs:.2f} s: {theirs / ours:.2f} of the speed of cp")
    sys.exit(ours > 2 * theirs)


if __name__ == "__main__":
    main()
