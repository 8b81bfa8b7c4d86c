"""pycandle record --script examples/smollm2_recorder.py --name smollm2 --out pycandle_trace"""

import torch
from smollm2 import smollm2

from pycandle import GoldenRecorder

PROMPT = [504, 3575, 282, 4649, 314]  # "The capital of France is"

recorder = GoldenRecorder(output_dir="pycandle_trace")
recorder.record(smollm2(), input_ids=torch.tensor([PROMPT]), use_cache=False)
recorder.save("smollm2")
