"""Models written as people write them, not taken from a library. `make people` runs all; docs/people.md is what came out.

entry.py                 how a model and its inputs are listed
language.py … .py        a file for each theme (THEMES)
check.py                 what one model must satisfy

The options, processes, limits and pages come from `zoo`.
"""

from pycandle.recording.processor import make_bf16_safe

make_bf16_safe()  # before anything here imports torch

THEMES = (
    "language", "recurrent", "transformers", "vision", "images", "generative", "graphs", "signals", "fields", "tables",
    "calls", "numbers", "states", "sequences", "sampling", "structures",
)  # fmt: skip
