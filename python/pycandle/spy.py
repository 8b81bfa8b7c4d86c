"""`from spy import GoldenRecorder`: the name that recording scripts know the recorder by."""

from pycandle.recorder import GoldenRecorder

__all__ = ["GoldenRecorder"]
