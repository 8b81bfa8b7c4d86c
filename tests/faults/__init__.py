from pycandle.recording.processor import make_bf16_safe

make_bf16_safe()  # before anything here imports torch
