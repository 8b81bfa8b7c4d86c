"""`from spy import GoldenRecorder`: the name that recording scripts know the recorder by."""

from .recording.recorder import GoldenRecorder

__all__ = ["GoldenRecorder"]
