"""`pycandle dashboard`: the files it follows, its screens through Textual's pilot, and --once as a user types it."""

from __future__ import annotations

import asyncio
import io
import json
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from rich.console import Console
from textual.widgets import Static, Tree

from pycandle.dashboard import heat, views
from pycandle.dashboard.app import Dashboard
from pycandle.dashboard.measuring import Measurer
from pycandle.dashboard.results import VERDICTS, Follower, Layer, Result, mark
from pycandle.dashboard.screens import Page
from pycandle.dashboard.verification import Verification

ROOT = Path(__file__).resolve().parents[2]

# ---- the files


def test_a_result_is_followed_while_it_grows_and_when_it_is_renamed(wrong: Path, tmp_path) -> None:
    lines = wrong.read_bytes().splitlines(keepends=True)
    follower = Follower(tmp_path / "r.jsonl")
    assert not follower.poll() and not follower.result.header
    with follower.partial.open("wb", buffering=0) as file:
        for line in lines:
            file.write(line[: len(line) // 2])
            follower.poll()
            before = len(follower.result.layers)
            file.write(line[len(line) // 2 :])
            assert follower.poll()
            assert len(follower.result.layers) - before == (b'{"layer"' in line[:10])
    assert follower.result.complete and follower.result.bad_lines == 0
    layers = follower.result.layers
    follower.partial.rename(follower.path)
    assert not follower.poll() and follower.result.layers is layers


def test_another_run_is_read_from_its_start(wrong: Path, tmp_path) -> None:
    follower = Follower(tmp_path / "r.jsonl")
    shutil.copy(wrong, follower.path)
    follower.poll()
    first = follower.result
    lines = wrong.read_bytes().splitlines(keepends=True)
    follower.partial.write_bytes(b"".join(lines[:3]))  # a run goes on
    assert follower.poll()
    assert follower.result is not first and len(follower.result.layers) == 2 and not follower.result.complete


@pytest.mark.parametrize(
    "text", [b"", b"\x00\xff\n\n[]\n", b'{"layer": 3}\n{"layer": {"tap"', b'{"layer": {"error_rms": "x"}}\n']
)
def test_what_is_no_result_is_no_traceback(text: bytes, tmp_path, pycandle) -> None:
    (tmp_path / "r.jsonl").write_bytes(text)
    refused = pycandle("dashboard", tmp_path / "r.jsonl", "--once", status=2)
    assert "is no result of pycandle verify --out" in refused.stderr


def test_verify_replaces_what_a_killed_run_left_and_says_how_much_is_planned(
    good, tmp_path, pycandle
) -> None:
    out, partial = tmp_path / "r.jsonl", tmp_path / "r.jsonl.partial"
    partial.write_text("of a run that was killed\n")
    pycandle("verify", good, "--out", out)
    assert out.exists() and not partial.exists()
    first, *lines = map(json.loads, out.read_text().splitlines())
    assert (
        0 < first["planned"] <= sum("layer" in line for line in lines)
    )  # the whole run's outputs come on top


# ---- --once


def test_once_prints_the_wrong_layer_with_its_line_and_cause(broken, pycandle) -> None:
    printed = pycandle("dashboard", broken, "--once", status=1).stdout
    assert "wrong here" in printed and "blocks.1" in printed and "GELU" in printed and "1 wrong" in printed
    assert "\x1b[" not in printed  # no colours into a pipe


def test_once_of_a_good_model_ends_with_0_and_keeps_the_result(good, pycandle, tmp_path) -> None:
    kept = tmp_path / "kept.jsonl"
    printed = pycandle("dashboard", good, "--once", "--backend", "cpu", "--out", kept).stdout
    assert "passed" in printed and "cpu" in printed
    assert pycandle("dashboard", kept, "--once").stdout.splitlines()[0] == printed.splitlines()[0]


def test_once_shows_where_the_time_goes(good, wrong, pycandle, tmp_path) -> None:
    profile = tmp_path / "profile.json"
    profile.write_text(pycandle("forward", good, "--backend", "cpu", "--profile", "--json").stdout)
    printed = pycandle("dashboard", wrong, "--once", "--profile", profile, status=1).stdout
    assert "by kernel" in printed and "gemm" in printed
    profile.write_text("[]")
    refused = pycandle("dashboard", wrong, "--once", "--profile", profile, status=1).stdout
    assert "no profile of" in " ".join(refused.split())


def test_once_draws_where_the_wrong_layer_differs(wrong, pycandle) -> None:
    printed = pycandle("dashboard", wrong, "--once", status=1).stdout
    assert "differences up to" in printed and printed.count("|\n") == 10
    assert "errors" in printed


def test_the_colours_of_a_difference_are_the_same_everywhere() -> None:
    stops = ", ".join("{" + ", ".join(map(str, stop)) + "}" for stop in heat.STOPS)
    assert stops in (ROOT / "src/verify/judging/difference.cpp").read_text()
    script = (ROOT / "src/verify/diagnosing/repro.cpp").read_text()
    assert ", ".join(map(str, heat.STOPS)) in script
    assert str([list(stop) for stop in heat.STOPS]) in (ROOT / "web/src/heat.ts").read_text()


def test_a_picture_that_is_none_is_not_drawn() -> None:
    for bad in [
        None,
        3,
        {},
        {"rows": 2, "columns": 2, "cells": "abc"},
        {"rows": 0, "columns": 0, "cells": ""},
    ]:
        assert not heat.picture({"picture": bad}, coloured=True)
    drawn = heat.picture({"picture": {"rows": 3, "columns": 2, "cells": "a.!zm.", "largest": 1.0}}, True)
    assert str(drawn).count("▀") == 4


def test_verdicts_have_the_marks_of_the_page() -> None:
    page = (ROOT / "web/src/document.ts").read_text()
    marks = re.findall(r'name: "([^"]+)", sign: "(?:\\u([0-9a-f]{4})|(.))"', page)
    assert [name for name, _, _ in marks] == list(reversed(VERDICTS))
    for name, code, character in marks:
        assert mark(name) == (chr(int(code, 16)) if code else character)


def test_the_time_that_is_left_is_said_while_layers_come(wrong: Path) -> None:
    result = Result(header={"name": "m", "planned": 40})
    result.began = (time.monotonic() - 10, 0)
    result.layers = [Layer({"verdict": "exact"})] * 10
    assert "10 of 40 layers so far" in str(views.state(result)) and "about 30 s left" in str(
        views.state(result)
    )
    result.complete = {"status": "passed"}
    assert "left" not in str(views.state(result))
    assert "100 %" in str(views.counts(result))
    assert [views.duration(seconds) for seconds in (9.4, 200, 3900)] == ["9 s", "3 min 20 s", "1 h 5 min"]


HOSTILE_LAYER = {
    "tap": "[bold]a[/nope].b@0/output",
    "verdict": "wrong here",
    "op": "[link=x]",
    "python": 3,
    "diagnosis": ["no"],
    "shape": {"a": 1},
    "ulps": ["many"],
    "errors": {"first": "x", "counts": 3},
    "picture": {"rows": 1, "columns": 2, "cells": "az", "largest": "inf"},
    "error_rms": [1],
    "cumulative": 7,
    "decisions": None,
}


def test_names_are_text_and_fields_of_another_kind_are_left_out(tmp_path, pycandle) -> None:
    file = tmp_path / "r.jsonl"
    lines = [{"result": "pycandle.result", "name": "[red]m[/x]", "planned": "many"}, {"layer": HOSTILE_LAYER}]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert "[bold]a[/nope].b@0/output" in pycandle("dashboard", file, "--once", status=1).stdout
    app = Dashboard(Follower(file))

    async def steps(pilot) -> None:
        assert "[red]m[/x]" in shown(app.head)
        for key in ("f", "s", "d", "r", "w"):
            await pilot.press(key)
            await pilot.pause()
        assert app.selected.tap == "[bold]a[/nope].b@0/output"

    drive(app, steps)


def test_names_are_cut_for_the_width_that_there_is(wrong: Path, tmp_path) -> None:
    long = tmp_path / "r.jsonl"
    long.write_text(wrong.read_text().replace('"tap":"blocks', '"tap":"model.encoder.layers.of.blocks'))
    app = Dashboard(Follower(long))

    async def steps(pilot) -> None:
        await pilot.press("f")
        row = app.table.cursor_row
        await pilot.resize_terminal(60, 20)
        await pilot.pause(0.3)
        assert any(str(app.table.get_row_at(at)[1]).startswith("…") for at in range(app.table.row_count))
        assert app.table.cursor_row == row and app.selected.is_wrong
        await pilot.resize_terminal(200, 60)
        await pilot.pause(0.3)
        assert not any(str(app.table.get_row_at(at)[1]).startswith("…") for at in range(app.table.row_count))

    drive(app, steps, (200, 60))


def test_the_report_and_the_folder_of_the_wrong_layer_are_kept(
    broken, pycandle, tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    verification = Verification(str(pycandle.path), str(broken), tmp_path / "r.jsonl", [])
    verification.wait()
    app = Dashboard(Follower(tmp_path / "r.jsonl"), verification)

    async def steps(pilot) -> None:
        await pilot.press("f", "d", "r")
        deadline = time.monotonic() + 30
        while not (tmp_path / "report.html").exists():
            assert time.monotonic() < deadline
            await pilot.pause(0.1)

    drive(app, steps)
    verification.close()
    (kept,) = (tmp_path / "pycandle_repro").iterdir()
    assert "blocks.1.act" in kept.name and (kept / "debug_layer.py").exists()


def test_what_is_not_there_is_said(pycandle, tmp_path) -> None:
    assert "there is no" in pycandle("dashboard", tmp_path / "none", "--once", status=2).stderr
    assert "name a recording" in pycandle("dashboard", "--once", status=2, cwd=tmp_path).stderr
    (tmp_path / "bad_manifest.json").write_text("{")
    refused = pycandle("dashboard", tmp_path / "bad_manifest.json", "--once", status=2)
    assert "error" in refused.stderr


# ---- the screens


def drive(app: Dashboard, steps, size=(80, 24)) -> None:
    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await steps(pilot)

    asyncio.run(run())


def shown(widget: Static) -> str:
    return str(widget.render())


def rendered(widget: Static) -> str:
    """What a Static shows, when it is more than text."""
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(widget.content)
    return " ".join(console.export_text().split())


@pytest.mark.parametrize("size", [(80, 24), (200, 60), (40, 12)])
def test_the_first_wrong_layer_is_one_key_away(wrong: Path, size) -> None:
    app = Dashboard(Follower(wrong))

    async def steps(pilot) -> None:
        assert "1 wrong" in shown(app.head)
        await pilot.press("f")
        await pilot.pause()
        assert app.selected.is_wrong
        assert "GELU" in shown(app.detail) and "blocks.1" in shown(app.detail)

    drive(app, steps, size)


def test_filter_tree_and_keys(wrong: Path) -> None:
    app = Dashboard(Follower(wrong))

    async def steps(pilot) -> None:
        table, tree = app.table, app.modules
        everything = table.row_count
        await pilot.press("slash", *"gelu")
        await pilot.pause()
        assert 0 < table.row_count < everything
        await pilot.press("escape")
        await pilot.pause()
        assert table.row_count == everything
        await pilot.press("w")
        await pilot.pause()
        assert table.row_count == 1
        await pilot.press("w")
        blocks = next(child for child in tree.root.children if child.data["path"] == ("blocks",))
        assert "✗" in str(blocks.label)  # as the worst of its layers
        head = next(child for child in tree.root.children if child.data["path"] == ("head",))
        assert "↑" in str(head.label)  # given wrong values
        app.on_tree_node_selected(Tree.NodeSelected(head))
        await pilot.pause()
        assert 0 < table.row_count < everything
        await pilot.press("question_mark")
        await pilot.pause()
        assert isinstance(app.screen, Page)
        app.refresh_result()  # the verification goes on behind the page
        await pilot.press("escape")
        await pilot.pause()
        assert not isinstance(app.screen, Page)
        await pilot.press("q")

    drive(app, steps)


def test_a_run_that_goes_on_fills_the_screen_and_may_be_damaged(wrong: Path, tmp_path) -> None:
    lines = wrong.read_bytes().splitlines(keepends=True)
    follower = Follower(tmp_path / "r.jsonl")
    app = Dashboard(follower)

    async def steps(pilot) -> None:
        assert "waiting" in shown(app.head)
        follower.partial.write_bytes(b"".join(lines[:4]))
        app.refresh_result()
        assert app.table.row_count == 3 and "so far" in shown(app.head)
        follower.partial.write_bytes(
            b"".join(lines[:2]) + b"\xff\x00 damaged\n" + b"".join(lines[2:])
        )  # shorter first
        app.refresh_result()
        await pilot.pause()
        assert "1 lines that are no result" in shown(app.head)
        follower.partial.unlink()
        app.refresh_result()  # nothing there any more: what was seen stays
        assert app.table.row_count > 3

    drive(app, steps)


def test_profile_and_bench_are_measured_when_a_person_asks(broken, wrong, pycandle) -> None:
    measurer = Measurer(str(pycandle.path), str(broken))
    app = Dashboard(Follower(wrong), measurer=measurer)

    async def steps(pilot) -> None:
        for key, kind, words in (("p", "profile", "by kernel"), ("b", "bench", "median")):
            await pilot.press(key)
            await pilot.pause()
            deadline = time.monotonic() + 60
            while not measurer.measurement(kind).is_done:
                assert time.monotonic() < deadline
                await pilot.pause(0.2)
            await pilot.pause(0.5)
            assert words in rendered(app.screen.content), rendered(app.screen.content)
            await pilot.press("escape")
            await pilot.pause()
            assert not isinstance(app.screen, Page)

    try:
        drive(app, steps)
    finally:
        measurer.close()


def test_a_measurement_that_takes_long_says_what_runs_and_ends_with_the_dashboard(wrong, tmp_path) -> None:
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nexec sleep 600\n")
    slow.chmod(0o755)
    measurer = Measurer(str(slow), "model")
    app = Dashboard(Follower(wrong), measurer=measurer)

    async def steps(pilot) -> None:
        await pilot.press("b")
        await pilot.pause()
        assert "measuring: pycandle bench model" in shown(app.screen.content)

    drive(app, steps)
    running = measurer.measurement("bench")
    assert not running.is_done
    measurer.close()
    assert running.is_done


def test_without_a_recording_the_screens_say_which_file_they_need(wrong: Path, tmp_path) -> None:
    app = Dashboard(Follower(wrong), benches=[tmp_path / "none.json"])

    async def steps(pilot) -> None:
        await pilot.press("p")
        await pilot.pause()
        assert not isinstance(app.screen, Page)
        await pilot.press("b")
        await pilot.pause()
        assert "no result of pycandle bench" in rendered(app.screen.content)

    drive(app, steps)


@pytest.mark.full
@pytest.mark.parametrize("columns, rows", [(80, 24), (200, 60)])
def test_in_a_real_terminal_beside_a_running_verification(columns, rows, broken, pycandle, tmp_path) -> None:
    name = f"pycandle-{columns}-{tmp_path.name}"

    def tmux(*words: object) -> str:
        return subprocess.run(["tmux", "-L", name, *map(str, words)], capture_output=True, text=True).stdout

    tmux(
        "new-session",
        "-d",
        "-x",
        columns,
        "-y",
        rows,
        f"env -u LINES -u COLUMNS {pycandle.path} dashboard {broken}; echo status $?; sleep 60",
    )

    def wait_for(text: str) -> None:
        deadline = time.monotonic() + 60
        while text not in (screen := tmux("capture-pane", "-p")):
            assert time.monotonic() < deadline, screen
            time.sleep(0.2)

    try:
        wait_for("1 wrong")
        tmux("send-keys", "f")
        wait_for("GELU")
        tmux("send-keys", "q")
        wait_for("status 0")
    finally:
        tmux("kill-server")
