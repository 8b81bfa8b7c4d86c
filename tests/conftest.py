"""Before anything here imports torch: on some processors it dies in bf16 products unless told otherwise."""

from pycandle.recording.processor import make_bf16_safe

make_bf16_safe()
