"""torch.compile with the weights frozen into the program."""

from __future__ import annotations

import torch

from ..recording.torch_compat import freeze_weights_in_compiled_modules
from .rebuilt import Rebuilt
from .torch_eager import version  # noqa: F401
from .worker import Job


def load(job: Job):
    torch.set_num_threads(job.threads)
    rebuilt = Rebuilt(job.manifest, job.tensors())
    return runs(rebuilt.module, rebuilt.inputs)


def runs(module: torch.nn.Module, inputs: list[torch.Tensor]):
    freeze_weights_in_compiled_modules()
    compiled = torch.compile(module)

    def run():
        with torch.no_grad():
            return compiled(*inputs)

    return run
