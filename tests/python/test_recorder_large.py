"""Memory and time of large recordings, each in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import pycandle

PACKAGE = Path(pycandle.__file__).parent.parent

MEASURE = """
import json, sys, torch
sys.path.insert(0, sys.argv[1])
from pycandle import GoldenRecorder

def memory():
    with open("/proc/self/status") as status:
        fields = dict(line.split(":", 1) for line in status)
    return {name: int(fields[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM")}

{build}
before = memory()["VmRSS"]
with open("/proc/self/clear_refs", "w") as reset:
    reset.write("5")  # the peak counts from here
recorder = GoldenRecorder(sys.argv[2], progress=lambda text: None)
recorder.record(model, **inputs)
files = recorder.save("large")
print(json.dumps({
    "added": memory()["VmHWM"] - before,
    "peak": memory()["VmHWM"],
    "model": sum(p.numel() * p.element_size() for p in model.parameters()),
    "nodes": len(recorder.manifest["nodes"]),
}))
"""

GPT2 = """
from transformers import GPT2Config, GPT2LMHeadModel
torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config()).eval()
inputs = {"input_ids": torch.randint(0, 50257, (1, 16))}
with torch.no_grad():
    model(**inputs, use_cache=False)
"""

LLAMA_7B = """
from transformers import LlamaConfig, LlamaForCausalLM
with torch.device("meta"):
    model = LlamaForCausalLM(LlamaConfig()).eval()
inputs = {"input_ids": torch.zeros(1, 16, dtype=torch.long, device="meta")}
"""


def measure(build: str, folder: Path) -> dict:
    script = MEASURE.replace("{build}", build)
    command = [sys.executable, "-c", script, str(PACKAGE), str(folder)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr[-3000:]
    return json.loads(finished.stdout.splitlines()[-1])


@pytest.mark.full
def test_recording_gpt2_needs_little_more_memory_than_the_model(tmp_path):
    found = measure(GPT2, tmp_path)
    assert found["added"] <= 1.5 * found["model"], found


@pytest.mark.full
def test_a_7_billion_parameter_meta_model_records_in_2_gib(tmp_path):
    found = measure(LLAMA_7B, tmp_path)
    assert found["model"] > 25e9
    assert found["peak"] < 2 * 2**30, found
