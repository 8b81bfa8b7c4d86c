"""torch's module database: float32, eval."""

from __future__ import annotations

from functools import cache

import torch

from .running import Outcome, rotated, run_call
from .samples import Call, seed


@cache
def modules() -> dict[str, object]:
    from torch.testing._internal.common_modules import module_db

    return {info.name: info for info in module_db}


def run_module(name: str, limit: int | None = None, turn: int = 0, backend: str = "reference") -> Outcome:
    info = modules()[name]
    outcome = Outcome("modules", name, "f32", backend, touches=True)
    seed(name)
    samples = info.module_inputs_func(
        info, device="cpu", dtype=torch.float32, requires_grad=False, training=False
    )
    for sample in rotated([s for s in samples if s.forward_input is not None], limit, turn):
        made = sample.constructor_input
        module = info.module_cls(*made.args, **made.kwargs).eval()
        given = sample.forward_input
        if isinstance(module, torch.nn.modules.lazy.LazyModuleMixin):
            module(*given.args, **given.kwargs)
        state = {**dict(module.named_parameters()), **dict(module.named_buffers())}

        def call(state, args, kwargs, module=module):
            return torch.func.functional_call(module, state, args, kwargs)

        run_call(Call.of(call, (state, given.args, given.kwargs), {}), outcome)
    return outcome
