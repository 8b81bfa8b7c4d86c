"""OpenVINO's CPU device in f32, from its own format, without its model cache."""

from __future__ import annotations

import openvino

from .worker import Job

version = f"openvino {openvino.__version__.split('-')[0]}"


def load(job: Job):
    core = openvino.Core()
    settings = {
        "INFERENCE_PRECISION_HINT": "f32",
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": job.threads,
        "NUM_STREAMS": 1,
    }
    model = core.compile_model(job.files / "model.xml", "CPU", settings)
    request = model.create_infer_request()
    arrays = job.arrays()
    # A compiled input has names of its optimised neighbours too.
    inputs = [next(arrays[name] for name in port.names if name in arrays) for port in model.inputs]

    def run():
        found = request.infer(inputs, share_inputs=True, share_outputs=True)
        return [found[index] for index in range(len(found))]

    return run
