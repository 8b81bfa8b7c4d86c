"""`from spy import GoldenRecorder`: the name that recording scripts know the recorder by."""

from .recording.files.meta_buffers import parameters_on_meta
from .recording.recorder import GoldenRecorder

__all__ = ["GoldenRecorder", "parameters_on_meta"]
