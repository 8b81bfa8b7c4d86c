"""ONNX Runtime, all graph optimisations on."""

from __future__ import annotations

import onnxruntime

from .worker import Job

version = f"onnxruntime {onnxruntime.__version__}"


def load(job: Job):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = job.threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = onnxruntime.InferenceSession(
        job.files / "model.onnx", options, providers=["CPUExecutionProvider"]
    )
    arrays = job.arrays()
    feeds = {entry.name: arrays[entry.name] for entry in session.get_inputs()}
    return lambda: session.run(None, feeds)
