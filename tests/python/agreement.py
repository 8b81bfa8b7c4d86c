"""A model recorded, run on both backends at the recorded and at other inputs, beside eager torch, and verified."""

from pathlib import Path

import torch
from torch.utils import _pytree as pytree

from pycandle import GoldenRecorder, load_model


def agrees(
    folder: Path, pycandle, model, *args, others=(), tolerance=1e-5, values=True, **options
) -> GoldenRecorder:
    """`others` are further argument tuples; `values=False` for a random model: then only types are compared."""
    recorder = GoldenRecorder(folder, progress=lambda text: None, **options)
    recorder.record(model.eval(), *args)
    manifest = recorder.save("m").manifest
    names = [entry["name"] for entry in recorder.manifest["inputs"]]
    for backend in ("reference", "cpu"):
        loaded = load_model(manifest, backend)
        for call in (args, *others):
            tensors = [leaf for leaf in pytree.tree_leaves(call) if isinstance(leaf, torch.Tensor)]
            found = loaded.forward(**dict(zip(names, tensors, strict=True)))
            with torch.no_grad():
                expected = pytree.tree_leaves(model(*call))
            for ours, theirs in zip(found.values(), expected, strict=True):
                ours, theirs = torch.as_tensor(ours), torch.as_tensor(theirs)
                assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape), backend
                if values:
                    torch.testing.assert_close(
                        ours,
                        theirs,
                        rtol=tolerance,
                        atol=tolerance,
                        equal_nan=True,
                        msg=lambda m, on=backend: f"{on}: {m}",
                    )
    if values:
        pycandle("verify", manifest)
    return recorder
