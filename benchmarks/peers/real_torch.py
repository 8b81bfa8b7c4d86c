"""The model as its library builds it, in torch: python -m peers.real_torch eager|compile <model> <weights> …"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
import torch._inductor.config
from safetensors.numpy import load_file
from safetensors.torch import load_model

from pycandle.peers import torch_compile, torch_eager
from pycandle.peers.worker import Answers, serve

from .models import BY_NAME

_MODES = {"eager": torch_eager, "compile": torch_compile}


class NoRandomNumbers(torch.overrides.TorchFunctionMode):
    """Loading is not to spend time on random weights that are replaced at once."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if getattr(function, "__name__", "") in (
            "normal_",
            "uniform_",
            "trunc_normal_",
            "kaiming_uniform_",
            "erfinv_",
        ):
            return args[0] if args else kwargs["tensor"]
        return function(*args, **(kwargs or {}))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=list(_MODES))
    parser.add_argument("model", choices=list(BY_NAME))
    parser.add_argument("weights", type=Path)
    parser.add_argument("threads", type=int)
    parser.add_argument("--inputs", type=Path, required=True)
    parser.add_argument("--outputs", type=Path, required=True)
    options = parser.parse_args()
    answers = Answers()
    mode = _MODES[options.mode]
    _import_libraries(options.model)

    def load():
        torch.set_num_threads(options.threads)
        with NoRandomNumbers():
            module = BY_NAME[options.model].build().eval()
        load_model(module, options.weights)
        inputs = [torch.from_numpy(array) for array in load_file(options.inputs).values()]
        run = mode.runs(module, inputs)
        return lambda: [run()]

    try:
        serve(answers, mode.version, options.outputs, load)
    except Exception as error:
        answers.refusal(error)


def _import_libraries(model: str) -> None:
    """Imports what building the model will: building one on the meta device does."""
    with torch.device("meta"):
        BY_NAME[model].build()


if __name__ == "__main__":
    main()
