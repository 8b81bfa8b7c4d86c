"""The screens of `pycandle dashboard`."""

from __future__ import annotations

import os
import shlex
import subprocess
import webbrowser
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.events import Resize
from textual.widgets import DataTable, Footer, Input, Static, Tree

from . import views
from .bench import bench_table
from .measuring import Measurer
from .profile import profile_table
from .results import VERDICTS, Follower, Layer, mark, style
from .screens import MeasuredPage, Page
from .verification import Verification

HELP = """\
[b]pycandle dashboard[/b]

  arrows, mouse    move; Tab changes between tree and layers
  Enter in the tree    only the layers of this module; the root: all
  /        filter by words in name, op, file or verdict; Esc ends it
  w        wrong layers only, or all again
  f        the first wrong layer
  s        open the layer's Python line in $EDITOR
  r        write the report (report.html), and open it where there is a screen
  d        keep the folder that runs this layer alone, in pycandle_repro
  p        where the time goes: a file of --profile, or measured now
  b        how fast it is: a file of --bench, or measured now; m in there measures again
  q        quit

A bar of the drift line is the error in rounding floors, from a hundredth to a million; 4 are allowed.

[dim]Esc closes this page.[/dim]"""


class Dashboard(App):
    TITLE = "pycandle"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #head { height: auto; padding: 0 1; }
    #main { height: 1fr; }
    #modules { width: 30%; min-width: 18; border-right: solid $panel; }
    #right { width: 1fr; }
    #layers { height: 1fr; }
    #details { height: 45%; border-top: solid $panel; padding: 0 1; }
    #filter { display: none; height: 3; }
    #filter.shown { display: block; }
    """
    BINDINGS: ClassVar = [
        Binding("slash", "filter", "filter", key_display="/"),
        Binding("w", "wrong_only", "wrong"),
        Binding("f", "first_wrong", "first wrong"),
        Binding("s", "open_source", "source", show=False),
        Binding("r", "report", "report"),
        Binding("d", "repro", "repro", show=False),
        Binding("p", "profile", "profile"),
        Binding("b", "bench", "bench"),
        Binding("question_mark", "help", "help", key_display="?"),
        Binding("q", "quit", "quit"),
        Binding("escape", "leave_filter", show=False),
    ]

    def __init__(
        self,
        follower: Follower,
        verification: Verification | None = None,
        profiles: list[Path] | None = None,
        benches: list[Path] | None = None,
        measurer: Measurer | None = None,
    ) -> None:
        super().__init__()
        self.follower, self.verification, self.measurer = follower, verification, measurer
        self.profiles, self.benches = profiles or [], benches or []
        self.words, self.module, self.only_wrong = "", (), False
        # Kept here: a query of the app looks into the page that is on top.
        self.head, self.detail = Static(id="head"), Static(id="detail")
        self.modules: Tree = Tree("all", id="modules")
        self.modules.root.expand()
        self.entry = Input(placeholder="words in name, op, file or verdict", id="filter")
        self.table: DataTable = DataTable(id="layers", cursor_type="row", zebra_stripes=True)
        self._shown: list[Layer] = []
        self._width = 0  # that names were cut for
        self._taken = 0  # layers of the result that were looked at
        self._source: object = None  # the result that these were of

    def compose(self) -> ComposeResult:
        yield self.head
        with Horizontal(id="main"):
            yield self.modules
            with Vertical(id="right"):
                yield self.entry
                yield self.table
                with VerticalScroll(id="details"):
                    yield self.detail
        yield Footer()

    def on_mount(self) -> None:
        for name, width in (("", 1), ("layer", None), ("op", None), ("floors", 8), ("python", None)):
            self.table.add_column(name, width=width)
        self.table.focus()
        self.refresh_result()
        self.set_interval(0.25, self.refresh_result)

    def on_resize(self, event: Resize) -> None:
        before, self._width = self._width, event.size.width
        if self._shown and before != self._width:  # names have other room
            row = self.table.cursor_row
            self._fill()
            self.table.move_cursor(row=row)

    # ---- what the files say

    def refresh_result(self) -> None:
        self.follower.poll()
        result = self.follower.result
        if self._source is not result:  # another run
            self._source, self._taken = result, 0
            self.modules.clear()
            self._fill()
        for layer in result.layers[self._taken :]:
            self._add_to_tree(layer)
            if self._is_shown(layer):
                self._add_row(layer)
        self._taken = len(result.layers)
        self._draw_head()

    def _draw_head(self) -> None:
        result = self.follower.result
        head = views.state(result)
        if self.verification and (problem := self.verification.problem()):
            head.append(f"\n{problem}", style="bold red")
        head.append("\n").append_text(views.counts(result))
        head.append("\ndrift ", style="dim").append_text(
            views.drift(result.layers, max(self.size.width - 8, 10))
        )
        self.head.update(head)

    def _is_shown(self, layer: Layer) -> bool:
        inside = tuple(layer.modules[: len(self.module)]) == self.module
        return inside and layer.matches(self.words) and (layer.is_wrong or not self.only_wrong)

    def _add_row(self, layer: Layer) -> None:
        where = str(layer.facts.get("python", "")).rsplit("/", 1)[-1]
        room = max(
            int((self._width or self.size.width) * 0.7) - 44, 22
        )  # so that the numbers beside it are in sight
        cells = (
            views.ending(layer.tap, room),
            str(layer.facts.get("op", "")),
            views.floors_text(layer),
            where,
        )
        row = [Text(mark(layer.verdict), style=style(layer.verdict)), *map(Text, cells)]
        self.table.add_row(*row, key=str(len(self._shown)))
        self._shown.append(layer)
        if len(self._shown) == 1:
            self._show_details(layer)

    def _fill(self) -> None:
        self.table.clear()
        self._shown = []
        self.detail.update("")
        for layer in self.follower.result.layers[: self._taken]:
            if self._is_shown(layer):
                self._add_row(layer)

    def _add_to_tree(self, layer: Layer) -> None:
        """A module is marked as the worst of its layers."""
        node = self.modules.root
        self._mark(node, "all", layer.verdict)
        for depth, name in enumerate(layer.modules):
            path = tuple(layer.modules[: depth + 1])
            found = next(
                (child for child in node.children if child.data and child.data["path"] == path), None
            )
            node = found or node.add(
                Text(name), data={"path": path, "worst": len(VERDICTS)}, expand=depth < 1
            )
            self._mark(node, name, layer.verdict)

    def _mark(self, node, name: str, verdict: str) -> None:
        rank = VERDICTS.index(verdict) if verdict in VERDICTS else len(VERDICTS) - 1
        node.data = node.data or {"path": (), "worst": len(VERDICTS)}
        if rank < node.data["worst"]:
            node.data["worst"] = rank
            node.set_label(Text.assemble((mark(verdict) + " ", style(verdict)), name))

    # ---- what the person does

    @property
    def selected(self) -> Layer | None:
        row = self.table.cursor_row
        return self._shown[row] if 0 <= row < len(self._shown) else None

    def _show_details(self, layer: Layer) -> None:
        self.detail.update(views.details(layer))

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        if self.selected:
            self._show_details(self.selected)

    def on_tree_node_selected(self, event: Tree.NodeSelected) -> None:
        self.module = (event.node.data or {"path": ()})["path"]
        self._fill()

    def on_input_changed(self, event: Input.Changed) -> None:
        self.words = event.value
        self._fill()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.table.focus()

    def action_filter(self) -> None:
        self.entry.add_class("shown")
        self.entry.focus()

    def action_leave_filter(self) -> None:
        self.entry.value = ""
        self.entry.remove_class("shown")
        self.table.focus()

    def action_wrong_only(self) -> None:
        self.only_wrong = not self.only_wrong
        self._fill()

    def action_first_wrong(self) -> None:
        wrong = self.follower.result.first_wrong()
        if wrong is None:
            self.say("no layer is wrong" + ("" if self.follower.result.complete else " so far"))
            return
        if wrong not in self._shown:
            self.words, self.module, self.only_wrong = "", (), False
            self._fill()
        self.table.move_cursor(row=self._shown.index(wrong))

    def action_open_source(self) -> None:
        layer = self.selected
        file, _, line = str(layer.facts.get("python", "") if layer else "").rpartition(":")
        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
        if not file or not Path(file).is_file():
            self.say(f"the file {file or 'of this layer'} is not on this machine", severity="warning")
        elif not editor:
            self.say(f"{file}:{line} (set $EDITOR to open it here)")
        else:
            with self.suspend():
                subprocess.run([*editor.split(), f"+{line}", file], check=False)

    def say(self, text: str, severity: str = "information") -> None:
        """Names are from outside: nothing in them is markup."""
        self.notify(text, severity=severity, markup=False)

    def action_report(self) -> None:
        if self.verification is None:
            self.say("start it with the recording to make a report: pycandle dashboard M", severity="warning")
        elif not self.follower.result.complete:
            self.say("the verification goes on: r once it is complete", severity="warning")
        else:
            self.say("writing report.html")
            self._write_report(self.verification)

    @work(thread=True, exclusive=True)
    def _write_report(self, verification: Verification) -> None:
        page = Path("report.html")
        problem = verification.report(self.follower.path, page)
        if not problem and (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            webbrowser.open(page.resolve().as_uri())
        made = problem or f"written: {page.resolve().as_uri()}"
        self.call_from_thread(self.say, made, "error" if problem else "information")

    def action_repro(self) -> None:
        made = self.verification.keep_repro(self.selected) if self.verification and self.selected else None
        self.say(
            f"pycandle replay {shlex.quote(str(made))}"
            if made
            else "a folder is written for each wrong layer whose cause was looked for"
        )

    def action_profile(self) -> None:
        self._measured("profile", self.profiles, profile_table, "pycandle forward M --profile --json")

    def action_bench(self) -> None:
        self._measured("bench", self.benches, bench_table, "pycandle bench M --json")

    def _measured(self, kind: str, files: list[Path], table, command: str) -> None:
        if files or self.measurer:
            self.push_screen(MeasuredPage(kind, files, table, self.measurer))
        else:
            self.say(f"give a file of {command} by --{kind}, or start it with the recording")

    def action_help(self) -> None:
        self.push_screen(Page(HELP))
