"""The two ways a recording ends without files: the model is refused, or it was asked for wrongly."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # places need torch, and an error can be caught without it
    from .recording.places import Place


class RecordingError(Exception):
    """The model cannot be recorded faithfully. Says what, where in the user's Python, and what to do."""

    def __init__(
        self, what: str, place: Place | None = None, hint: str | None = None, module: str | None = None
    ):
        self.what = what
        self.place = place
        self.hint = hint
        self.module = module
        super().__init__(what)

    def __str__(self) -> str:
        lines = [self.what]
        if self.module:
            lines.append(f"  in    {self.module}")
        if self.place:
            lines.append(f"  at    {self.place}")
        if self.hint:
            lines.append(f"  hint  {self.hint}")
        return "\n".join(lines)

    def as_json(self) -> dict:
        return {
            "error": self.what,
            "module": self.module,
            "file": self.place.shown_file if self.place else None,
            "line": self.place.line if self.place else None,
            "source": self.place.source if self.place else None,
            "hint": self.hint,
        }


class UsageError(ValueError):
    """Something about the request is wrong (an unknown input, a bad option), not about the model."""
