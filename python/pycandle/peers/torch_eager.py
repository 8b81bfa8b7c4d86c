"""PyTorch's eager mode."""

from __future__ import annotations

import torch

from .rebuilt import Rebuilt
from .worker import Job

version = f"torch {torch.__version__.split('+')[0]}"


def load(job: Job):
    torch.set_num_threads(job.threads)
    rebuilt = Rebuilt(job.manifest, job.tensors())
    return runs(rebuilt.module, rebuilt.inputs)


def runs(module: torch.nn.Module, inputs: list[torch.Tensor]):
    def run():
        with torch.inference_mode():
            return module(*inputs)

    return run
