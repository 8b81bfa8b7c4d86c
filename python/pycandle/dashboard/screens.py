"""Pages over the dashboard: help, profiles, benchmarks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from rich.console import RenderableType
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from .measuring import Measurer


class Page(ModalScreen):
    """Text over the dashboard."""

    BINDINGS: ClassVar = [Binding("escape,q,question_mark", "dismiss", "close")]
    DEFAULT_CSS = "Page { align: center middle; } Page > VerticalScroll { width: 95%; height: 95%; border: round $accent; padding: 0 1; background: $surface; }"

    def __init__(self, content: RenderableType) -> None:
        super().__init__()
        self.content = Static(content)

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield self.content


class MeasuredPage(Page):
    """What files say, or what a command finds that is started now."""

    BINDINGS: ClassVar = [Binding("p,b", "dismiss", "close"), Binding("m", "measure", "measure again")]

    def __init__(
        self,
        kind: str,
        files: list[Path],
        table: Callable[[list[Path], int], RenderableType],
        measurer: Measurer | None,
    ) -> None:
        super().__init__("")
        self._kind, self._files, self._table, self._measurer = kind, files, table, measurer

    def on_mount(self) -> None:
        self._draw()
        self.set_interval(0.25, self._draw)

    def on_resize(self) -> None:
        self._draw()

    def action_measure(self) -> None:
        if self._measurer is None:
            self.notify("start it with the recording to measure: pycandle dashboard M", severity="warning")
            return
        self._measurer.forget(self._kind)
        self._files = []
        self._draw()

    def _draw(self) -> None:
        """Drawn again only when there is news: a page that a person scrolls stays where it is."""
        shown = self._content()
        if shown != getattr(self, "_shown", None):
            self._shown = shown
            files, text = shown
            width = max(int(self.app.size.width * 0.95) - 6, 20)
            self.content.update(self._table(list(files), width) if files else Text(text))

    def _content(self) -> tuple[tuple[Path, ...], object]:
        if self._files or self._measurer is None:
            return tuple(self._files), self.app.size.width
        running = self._measurer.measurement(self._kind)
        if not running.is_done:
            return (), f"measuring: {running.text}"
        if problem := running.problem():
            return (), f"{running.text}\n{problem}\n\nm measures again"
        return (running.file,), self.app.size.width
