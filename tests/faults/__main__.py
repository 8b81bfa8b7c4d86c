"""make faults: faults put into models on purpose. Is the layer found, the op, and the cause? And does nothing alarm
that is right?"""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .running import runner
from .sites import chosen, faults_of
from .source import BUILD, SourceFaults, chosen_edits

ROOT = Path(__file__).parents[2]
NO_EFFECT = 3e-6  # of a value's size: rounding does as much


def found_layer(fault: dict, row: dict) -> bool:
    named = (row["path"], row.get("diagnosis", {}).get("path"))
    return fault["path"] in named or (fault.get("outer") is not None and fault["outer"] in named)


def found_op(fault: dict, row: dict, inserted: list[str]) -> bool:
    """One op is named: that of the node, or one that the fault put into the program."""
    ops = {fault.get("original_op", fault["op"]), *fault["op"].split(" or "), *inserted}
    return row.get("diagnosis", {}).get("op") in ops


def judged(fault: dict, result: dict) -> dict:
    if "error" in result:
        return fault | {"result": "error", "error": result["error"]}
    if result["effect"] < NO_EFFECT:
        return fault | {"result": "no effect"}
    if not result["wrong"]:
        return fault | {"result": "missed", "effect": result["effect"]}
    row = result["wrong"][0]
    diagnosis = row.get("diagnosis", {})
    return fault | {
        "result": "found",
        "effect": result["effect"],
        "layer": found_layer(fault, row),
        "named_op": found_op(fault, row, result.get("inserted", [])),
        "cause": bool(fault["kind"]) and diagnosis.get("cause_kind") in fault["kind"].split(" or "),
        "invented": not fault["kind"] and bool(diagnosis.get("cause_kind")),
        "tap": row["tap"],
        "said": diagnosis,
    }


def percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f}%" if whole else "-"


class Suite:
    """`per_kind`: faults of each kind and place, a model; the half in source may have more of each."""

    def __init__(self, program: Path, per_kind: int, outside: int, per_kind_in_source: int = 0) -> None:
        self.program, self.per_kind, self.outside = program, per_kind, outside
        self.per_kind_in_source = per_kind_in_source or per_kind

    def faults(self, manifest: Path) -> list[dict]:
        name = manifest.name.removesuffix("_manifest.json")
        listings = [runner(self.program, manifest, form) for form in ("imported", "program")]
        (imported, program), parameters = [rows[:-1] for rows in listings], listings[1][-1]["parameters"]
        faults = chosen(list(faults_of(name, imported, program, parameters)), self.per_kind, self.outside)
        for index, fault in enumerate(faults):
            fault |= {"id": index, "model": name}
        # The runner takes `op` for the new one.
        lines = [{k: v for k, v in f.items() if k != "op" or "original_op" in f} for f in faults]
        results = runner(self.program, manifest, "run", lines=lines)
        return [judged(fault, result) for fault, result in zip(faults, results, strict=True)]

    def source_faults(self, manifest: Path, folder: Path) -> tuple[list[dict], list[dict]]:
        """Faults in the text of the emitted source, and the clean run of the source as it is."""
        name = manifest.name.removesuffix("_manifest.json")
        source = SourceFaults(
            BUILD / "bin" / "pycandle",
            manifest,
            folder / "source" / name,
            lambda edits: chosen_edits(name, edits, self.per_kind_in_source, self.outside),
        )
        faults = source.faults()
        for index, fault in enumerate(faults):
            fault |= {"id": index, "model": name}
        keys = ("id", "program", "unedited")
        lines = [{key: fault[key] for key in keys} for fault in faults]
        lines.append({"clean": True, "program": str(source.folder / "0.ptir")})
        *results, unedited = runner(self.program, manifest, "run", lines=lines)
        unedited |= {"model": manifest.name, "backend": "emitted source"}
        return [judged(fault, result) for fault, result in zip(faults, results, strict=True)], [unedited]

    def clean(self, manifest: Path, backends: list[str], seeds: int) -> list[dict]:
        traces = sorted(manifest.parent.glob("seed*_trace.safetensors"))[: seeds - 1]
        lines = [{"clean": True}, *({"clean": True, "trace": str(trace)} for trace in traces)]
        rows = []
        for backend in backends:
            for line, result in zip(
                lines, runner(self.program, manifest, "run", backend, lines=lines), strict=True
            ):
                rows.append({"model": manifest.name, "backend": backend, **line, **result})
        return rows


def summary(faults: list[dict], clean: list[dict]) -> str:
    real = [fault for fault in faults if fault["result"] in ("found", "missed", "error")]
    listed = [fault for fault in real if fault["kind"]]
    false = [run for run in clean if run.get("wrong") or "error" in run]
    return (
        f"faults {len(real)} layer {percent(sum(f.get('layer', False) for f in real), len(real))}"
        f" op {percent(sum(f.get('named_op', False) for f in real), len(real))}"
        f" cause {percent(sum(f.get('cause', False) for f in listed), len(listed))}"
        f" clean {len(clean)} false {len(false)} invented {sum(f.get('invented', False) for f in real)}"
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", type=Path, default=ROOT / "build/release/tests/fault_runner")
    parser.add_argument("--folder", type=Path, default=ROOT / "build/faults")
    parser.add_argument(
        "--recordings", type=Path, help="take the recordings below this folder instead of making some"
    )
    parser.add_argument("--models", default="", help="only those whose names have this in them")
    parser.add_argument(
        "--per-kind", type=int, default=1, help="faults in nodes of each kind and place, a model"
    )
    parser.add_argument(
        "--per-kind-in-source", type=int, default=2, help="faults in source of each kind and op, a model"
    )
    parser.add_argument("--outside", type=int, default=5, help="faults outside the list, a model")
    parser.add_argument("--half", default="both", choices=["both", "nodes", "source"])
    parser.add_argument("--seeds", type=int, default=6, help="clean runs of each model")
    parser.add_argument("--backends", default="reference,cpu", help="of the clean runs")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--verbose", action="store_true", help="also those that were found as they should")
    parser.add_argument("--held-out", action="store_true", help="also the third that is kept from tuning")
    options = parser.parse_args(arguments)
    suite = Suite(options.program, options.per_kind, options.outside, options.per_kind_in_source)
    if options.recordings:
        subjects = calm = sorted(
            m for m in options.recordings.rglob("*_manifest.json") if options.models in m.name
        )
    else:
        from .models import CLEAN, FAULTED, recorded

        subjects = [recorded(s, options.folder) for s in FAULTED if options.models in s.name]
        calm = [recorded(s, options.folder) for s in CLEAN if options.seeds and options.models in s.name]
    with ThreadPoolExecutor(options.jobs) as pool:
        faults, clean = [], []
        if options.half in ("both", "nodes"):
            faults += [fault for group in pool.map(suite.faults, subjects) for fault in group]
        if options.half in ("both", "source"):
            for found, unedited in pool.map(lambda m: suite.source_faults(m, options.folder), subjects):
                faults += found
                clean += unedited
        clean += [
            run
            for group in pool.map(lambda m: suite.clean(m, options.backends.split(","), options.seeds), calm)
            for run in group
        ]
    for fault in faults:
        bad = fault["result"] != "found" or not (fault["layer"] and fault["named_op"]) or fault["invented"]
        bad = bad or (fault["kind"] and not fault["cause"])
        is_shown = options.held_out or fault["rank"] % 3 != 0
        if is_shown and fault["result"] != "no effect" and (bad or options.verbose):
            print(json.dumps({k: v for k, v in fault.items() if k not in ("rank", "id")}))
    for run in clean:
        if run.get("wrong") or "error" in run:
            print(json.dumps({k: v for k, v in run.items() if k != "counts"})[:1000])
    held_out = [fault for fault in faults if fault["rank"] % 3 == 0]
    nothing = sum(fault["result"] == "no effect" for fault in faults)
    print(f"{nothing} more changed nothing; {sum(not f['kind'] for f in faults)} are outside the list")
    in_source = [fault for fault in faults if fault["where"] == "source"]
    in_nodes = [fault for fault in faults if fault["where"] != "source"]
    print("in nodes: " + summary(in_nodes, []))
    print("in source text: " + summary(in_source, []))
    print("the third that is kept from tuning: " + summary(held_out, []))
    print(summary(faults, clean))
    missed = any(fault["result"] in ("missed", "error") for fault in faults)
    return 1 if missed or any(run.get("wrong") or "error" in run for run in clean) else 0


if __name__ == "__main__":
    sys.exit(main())
