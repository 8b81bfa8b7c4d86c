"""`pycandle dashboard`: a verification in the terminal, live.

Examples:
    pycandle dashboard pycandle_trace             starts pycandle verify and shows it
    pycandle dashboard result.jsonl               shows a result, or one that is still written
    pycandle dashboard pycandle_trace --backend cpu --profile profile.json
    pycandle dashboard result.jsonl --once        prints one view and ends, for logs

Exit: 0 fine, 1 a layer is wrong (with --once), 2 bad input or usage.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path

RESULT_NAMES = ("result.jsonl", "result.jsonl.partial")


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="pycandle dashboard", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument(
        "model",
        nargs="?",
        help="a recording, which is verified now, or a result of pycandle verify --out (result.jsonl here, or pycandle_trace)",
    )
    made.add_argument("--backend", help="of the verification that is started (reference)")
    made.add_argument("--out", type=Path, metavar="FILE", help="keep the result of that verification")
    made.add_argument(
        "--profile",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="what pycandle forward M --profile --json printed (repeatable)",
    )
    made.add_argument(
        "--bench",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="what pycandle bench M --json printed (repeatable)",
    )
    made.add_argument(
        "--once", action="store_true", help="print one view and end: for logs, and where there is no terminal"
    )
    return made


def main(arguments: list[str], program: str) -> int:
    options = parser().parse_args(arguments)
    with ExitStack() as stack:
        try:
            source = _source(options.model)
        except FileNotFoundError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        from .results import Follower

        verification = None
        if _is_result(source):
            if options.backend or options.out:
                print(
                    "error: --backend and --out belong to a verification that is started: give a recording",
                    file=sys.stderr,
                )
                return 2
            result = Path(str(source).removesuffix(".partial"))
        else:
            from .verification import Verification

            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="pycandle-result-"))
            result = options.out or Path(folder) / "result.jsonl"
            chosen = ["--backend", options.backend] if options.backend else []
            verification = stack.enter_context(closing(Verification(program, str(source), result, chosen)))
        follower = Follower(result)
        if options.once or not sys.stdout.isatty():
            return _print_once(follower, verification, options.profile, options.bench)
        from .app import Dashboard
        from .measuring import Measurer

        measurer = stack.enter_context(closing(Measurer(program, str(source)))) if verification else None
        Dashboard(follower, verification, options.profile, options.bench, measurer).run()
        return 0


def _source(given: str | None) -> Path:
    if given is not None:
        path = Path(given)
        if not path.exists() and not path.with_name(path.name + ".partial").exists():
            raise FileNotFoundError(
                f"there is no {given}: expected a recording, or a result of pycandle verify --out"
            )
        return path
    for name in (*RESULT_NAMES, "pycandle_trace"):
        if Path(name).exists():
            return Path(name)
    raise FileNotFoundError(
        "there is no result.jsonl and no pycandle_trace here: name a recording or a result"
    )


def _is_result(path: Path) -> bool:
    return path.name.removesuffix(".partial").endswith(".jsonl")


def _print_once(follower, verification, profiles: list[Path], benches: list[Path]) -> int:
    from rich.console import Console

    from . import views
    from .bench import bench_table
    from .profile import profile_table

    if verification:
        verification.wait()
    follower.poll()
    result = follower.result
    width = shutil.get_terminal_size((100, 24)).columns
    console = Console(width=width, highlight=False)
    if verification and (problem := verification.problem()):
        print(problem, file=sys.stderr)
        return 2
    if not result.header:
        print(f"error: {follower.path} is no result of pycandle verify --out", file=sys.stderr)
        return 2
    console.print(views.state(result), views.counts(result), sep="\n")
    console.print("drift", views.drift(result.layers, width - 6))
    wrong = [layer for layer in result.layers if layer.is_wrong]
    worst = wrong or sorted(result.layers, key=lambda layer: -layer.floors)[:8]
    console.print(views.layer_table(worst))
    for layer in wrong[:3]:
        console.print(views.details(layer, coloured=console.is_terminal and not console.no_color))
    if profiles:
        console.print(profile_table(profiles, width))
    if benches:
        console.print(bench_table(benches, width))
    return 1 if wrong or (result.complete or {}).get("status") == "wrong" else 0
