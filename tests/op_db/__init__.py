"""torch's operator and module databases, run by the reference backend and compared with torch.

`make op-db` runs all of it, `docs/testing-operators.md` says what is compared and how closely.

    samples    entries, dtypes and calls
    tracing    a call → the recorded form → a manifest, in memory
    judging    our values beside torch's
    randomness what holds of random values
    errors     calls that torch refuses
    modules    torch's modules
    running    one entry → what came of it
    workers    many entries, in processes of their own
"""

from pycandle.recording.processor import make_bf16_safe

make_bf16_safe()  # before anything here imports torch
