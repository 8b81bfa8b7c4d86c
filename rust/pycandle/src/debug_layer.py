"""Shows where @LAYER@ differs from PyTorch: run it beside failing_layer.safetensors."""

from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

values = load_file(Path(__file__).parent / "failing_layer.safetensors")
ours, theirs = values["rust"], values["pytorch"]
print(f"@LAYER@: rust {ours.shape}, pytorch {theirs.shape}")
if ours.shape == theirs.shape and ours.size:
    error = np.abs(ours - theirs)
    plane = error.reshape(-1, error.shape[-1] if error.ndim else 1)
    at = np.unravel_index(error.argmax(), error.shape)
    print(
        f"largest difference {error.max():.3g} at {tuple(map(int, at))}: rust {ours[at]:.6g}, pytorch {theirs[at]:.6g}"
    )
    rows, columns = (
        np.array_split(np.arange(n), min(n, most)) for n, most in zip(plane.shape, (16, 64), strict=False)
    )
    largest = error.max() or 1.0
    for r in rows:
        cells = [plane[np.ix_(r, c)].max() / largest for c in columns]
        print("".join(" .:-=+*#%@"[min(9, int(cell * 9.999))] for cell in cells))
