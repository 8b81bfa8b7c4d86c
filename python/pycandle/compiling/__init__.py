"""PyTorch and PyCandle in one process: `pycandle.compile` and `pycandle.lockstep`. Needs torch."""
