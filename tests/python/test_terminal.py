"""What the commands write to a terminal: progress, colours, tables that fit."""

from __future__ import annotations

import re

from terminals import on_terminal, screen


def test_what_takes_long_says_how_long_it_still_takes_and_leaves_no_trace(pycandle, good) -> None:
    bench = [pycandle.path, "bench", good, "--seconds", 3.5, "--rounds", 7, "--starts", 1, "--threads", 1]
    said = on_terminal(bench)
    assert re.search(r"bench: measuring: \d of 7, \d s, about \d s left", said), said
    assert not any("measuring" in line for line in screen(said))
    assert screen(said)[0].strip() == "stack"
    narrow = on_terminal(bench, columns=24)
    shown = [part for part in re.split(r"\r\n|\r", narrow) if part.startswith("bench:")]
    assert shown and all(len(re.sub(r"\033\[K", "", part)) < 24 for part in shown)


def test_what_is_printed_fits_the_terminal_and_colours_can_be_refused(pycandle, good, broken) -> None:
    for columns in (80, 50):
        said = on_terminal([pycandle.path, "verify", good, "--all"], columns)
        assert "\033[" in said and "orm@0" in said
        assert max(map(len, screen(said))) <= columns, said
        said = on_terminal([pycandle.path, "verify", broken], columns)
        assert max(map(len, screen(said))) <= columns, said
    for command in (
        ["inspect", good, "--depth", "2"],
        ["diff", good, broken],
        ["forward", good, "--profile"],
        ["bench", good, "--seconds", "0", "--starts", "1"],
        ["ops"],
        ["doctor"],
        ["doctor", "--python", "/no/such/python"],
        ["--help"],
        ["forward", "--help"],
        ["weights", "map", "--help"],
    ):
        said = on_terminal([pycandle.path, *command], 80)
        assert max(map(len, screen(said))) <= 80, said
    assert "\033[3" not in on_terminal([pycandle.path, "verify", good], NO_COLOR="1")
    assert "\033[3" in on_terminal([pycandle.path, "verify", good], NO_COLOR="")
