"""What stands in for library functions that torch.export cannot trace: the table in docs/recording.md."""

from .recording.tracing.patches import PATCHES, Patch, patched, table

__all__ = ["PATCHES", "Patch", "patched", "table"]
