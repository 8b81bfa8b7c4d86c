"""A run as the generated part of docs/benchmarks.md, and as the page of all its rows, docs/tables/benchmarks.md."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from .chart import milliseconds
from .models import BY_NAME

BEGIN, END = "<!-- written by make bench -->", "<!-- until here -->"
RUNNERS = ("pycandle", "openvino", "onnxruntime", "torch-compile", "torch", "candle", "llama.cpp")


def put_into(page: Path, results: dict) -> None:
    text = page.read_text()
    before, rest = text.split(BEGIN, 1)
    _, after = rest.split(END, 1)
    page.write_text(f"{before}{BEGIN}\n{markdown(results)}{END}{after}")
    (page.parent / "tables").mkdir(exist_ok=True)
    (page.parent / "tables" / page.name).write_text(tables(results))


def markdown(results: dict) -> str:
    parts = [_machine(results)]
    for threads in results["threads"]:
        heading = f"{threads} thread{'s' if threads > 1 else ''}"
        parts.append(f"### {heading}: milliseconds, median\n\n{_matrix(results, threads)}")
        parts.append(f"![times with {heading}](images/benchmarks-{threads}.svg)")
    parts.append("### Aims\n\n" + _aims(results))
    parts.append("### Runtimes\n\n" + _runtimes(results))
    parts.append("[Every runner and every kernel](tables/benchmarks.md).")
    return "\n\n".join(parts) + "\n\n"


def tables(results: dict) -> str:
    parts = ["# Benchmarks: every runner and every kernel"]
    parts.append(f"Of the run that [benchmarks.md](../benchmarks.md#results) sums up: {results['date']}.")
    parts.append("## Runners\n\n" + _details(results))
    parts.append("## Kernels against the machine\n\n" + _kernels(results))
    return "\n\n".join(parts) + "\n"


def _machine(results: dict) -> str:
    limits = "; ".join(
        f"{r['threads']} thread{'s' if r['threads'] > 1 else ''}: FMA peak {r['fma_gflops']:.0f} GFLOP/s, reads "
        f"{r['read_huge_gbs']:.1f} GB/s from huge pages, {r['read_small_gbs']:.1f} from small ones"
        for r in results["roofline"]
    )
    measured = f"Measured in the same run: {limits}." if limits else "The machine's limits were not measured."
    return f"{results['date']}, {results['machine']} ({results['cores']} cores). {measured}"


def _matrix(results: dict, threads: int) -> str:
    rows = {(r["model"], r["runner"]): r for r in results["rows"] if r["threads"] == threads}
    lines = []
    for model in results["models"]:
        cells = [BY_NAME[model].title]
        done = {r: rows[model, r]["median_ms"] for r in RUNNERS if "median_ms" in rows.get((model, r), {})}
        for runner in RUNNERS:
            row = rows.get((model, runner))
            if runner in done:
                number = milliseconds(done[runner])
                cells.append(f"**{number}**" if done[runner] == min(done.values()) else number)
            else:
                cells.append("failed" if row else "")
        lines.append(cells)
    return _table(["model", *RUNNERS], lines)


def _aims(results: dict) -> str:
    lines = [
        [
            BY_NAME[a["model"]].title,
            a["threads"],
            "first output" if a["column"] == "first_ms" else "time",
            f"{a['ratio']:.2f} × {a['peer']}",
            f"{a['at_most']:.2f}",
            "yes" if a["holds"] else "**no**",
        ]
        for a in results["aims"]
    ]
    return _table(["model", "threads", "of", "PyCandle", "at most", "holds"], lines)


def _details(results: dict) -> str:
    lines = []
    for row in results["rows"]:
        start = [BY_NAME[row["model"]].title, row["threads"], row["runner"]]
        if "failed" in row:
            lines.append([*start, row["failed"].splitlines()[0].replace("|", "/")])
            continue
        lines.append(
            [
                *start,
                f"{row['median_ms']:.3f}",
                f"{row['best_ms']:.3f}",
                f"{100 * row['spread']:.0f} %",
                f"{row['ratio']:.2f}",
                f"{row['peak_mb']:.0f}",
                f"{row['load_ms']:.0f}",
                f"{row['first_ms']:.0f}",
                f"{row['import_ms']:.0f}",
                f"{row['bytes'] / 1e6:.0f}",
                f"{row['difference']:.0e}" if row["difference"] else "0",
            ]
        )
    head = "model,threads,runner,median ms,best ms,spread,ratio,peak MB,load ms,first output ms,imports ms,MB on disk,off by"
    return _table(head.split(","), lines)


def _runtimes(results: dict) -> str:
    lines = [[name, r["version"], r["megabytes"], r["remark"]] for name, r in results["runtimes"].items()]
    return _table(["runtime", "version", "MB installed", ""], lines)


def _kernels(results: dict) -> str:
    lines = [
        [
            k["kernel"],
            r["threads"],
            f"{k['ms']:.3f}",
            f"{k['rate']:.0f} {k['unit']}",
            f"{100 * k['share']:.0f} %",
        ]
        for r in results["roofline"]
        for k in r["kernels"]
        if k["share"] is not None
    ]
    return _table(["kernel", "threads", "ms", "rate", "of the machine"], lines)


def _table(head: list[str], lines: Iterable[list]) -> str:
    rows = [head, ["---"] * len(head), *([*line, *[""] * (len(head) - len(line))] for line in lines)]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows)
