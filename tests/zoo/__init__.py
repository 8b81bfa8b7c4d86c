"""The zoo: published models, each recorded, imported, run and verified. `make zoo` runs it; docs/zoo.md is what came out.

entry.py                 what an entry is
basics.py … .py          one file per source of models
check.py                 what one model must satisfy
runner.py                a process, a time limit and a memory limit per model; goes on where it was interrupted
report.py                the rows as Markdown and JSON
suite.py                 options and exit status, the same for every suite of models
recordings.py            recordings that are kept for the next run
on_backend.py            `--backend cpu`: what one model must satisfy on another backend; docs/zoo-cpu.md is what came out
zoo_emit.py              `make zoo-emit`: the same models as C++ source; docs/zoo-emit.md is what came out
zoo_onnx.py              `make zoo-onnx`: the same models as ONNX files, written and read; docs/zoo-onnx.md is what came out
emit.py                  what one model must satisfy as source code
reading.py               how that code reads beside its Python, in numbers
sampling.py              a few of the models, for `make test`
"""

import os

from pycandle.recording.processor import make_bf16_safe

make_bf16_safe()  # before anything here imports torch
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
