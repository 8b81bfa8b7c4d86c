"""How import and the program pipeline grow with the graph.

A tiny Llama is recorded, its last layer is repeated until the manifest has the number of nodes asked for, and each
manifest goes through `pycandle inspect --timing`.

    .venv/bin/python benchmarks/scaling.py
    .venv/bin/python benchmarks/scaling.py --nodes 5000 40000 --json
"""

import argparse
import copy
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pycandle

PROGRAM = Path(sys.executable).with_name("pycandle")
LAYER = "model.layers.1"


def recorded_llama(folder):
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=64,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        use_cache=False,
    )
    torch.manual_seed(0)
    recorder = pycandle.GoldenRecorder(folder, taps="none")
    recorder.record(LlamaForCausalLM(config).eval(), input_ids=torch.randint(0, 64, (2, 8)))
    recorder.save("llama")
    return json.loads((folder / "llama_manifest.json").read_text())


def renamed(entry, values):
    """The JSON entry with every reference to a value, and every value it defines, under its new id."""
    if isinstance(entry, list):
        return [renamed(item, values) for item in entry]
    if not isinstance(entry, dict):
        return entry
    return {
        key: values.get(item, item) if key in ("v", "value") else renamed(item, values)
        for key, item in entry.items()
    }


def repeated(manifest, nodes_wanted):
    """The manifest with its last layer repeated until it has at least that many nodes."""
    layer_call = next(i for i, call in enumerate(manifest["module_calls"]) if call["path"] == LAYER)
    call = manifest["module_calls"][layer_call]
    stream_in = dict(call["args"])["hidden_states"]["v"]
    stream_out = call["output"]["v"]
    inside = {
        i
        for i, c in enumerate(manifest["module_calls"])
        if c["path"] == LAYER or c["path"].startswith(LAYER + ".")
    }
    of_layer = [i for i, node in enumerate(manifest["nodes"]) if node["call"] in inside]
    begin, end = of_layer[0], of_layer[-1] + 1
    layer, rest = manifest["nodes"][begin:end], manifest["nodes"][end:]
    copies = -(-(nodes_wanted - len(manifest["nodes"])) // len(layer))
    defined = [result["value"] for node in layer for result in node["results"]]
    next_value, previous_out = defined[-1] + 1, stream_out
    calls = [copy.deepcopy(c) for c in manifest["module_calls"]]
    first_new_call = len(calls)

    nodes = manifest["nodes"][:end]
    for number in range(copies):
        values = {stream_in: previous_out}
        for value in defined:
            values[value] = next_value
            next_value += 1
        new_call = {old: len(calls) + place for place, old in enumerate(sorted(inside))}
        for old in sorted(inside):
            c = renamed(manifest["module_calls"][old], values)
            c["path"] = c["path"].replace(LAYER, f"model.layers.{number + 2}", 1)
            c["parent"] = new_call.get(c["parent"], c["parent"])
            calls.append(c)
        nodes += [{**renamed(node, values), "call": new_call[node["call"]]} for node in layer]
        previous_out = values[stream_out]

    values = {stream_out: previous_out}
    for node in rest:
        for result in node["results"]:
            values[result["value"]] = next_value
            next_value += 1
    late = {k: v for k, v in values.items() if k != stream_out}
    before = [renamed(c, late) for c in calls[:first_new_call]]
    return {
        **manifest,
        "nodes": nodes + [renamed(node, values) for node in rest],
        "module_calls": before + calls[first_new_call:],
        "outputs": renamed(manifest["outputs"], values),
        "output_tree": renamed(manifest["output_tree"], values),
        "taps": [],
    }


def measured(folder, manifest):
    (folder / "llama_manifest.json").write_text(json.dumps(manifest))
    shown = subprocess.run(
        [PROGRAM, "inspect", folder, "--json", "--timing"], capture_output=True, text=True, check=True
    )
    timings = json.loads(shown.stdout)["timings"]
    return {
        "nodes": len(manifest["nodes"]),
        "nodes_after": timings[-1]["nodes_after"],
        "import_seconds": timings[0]["seconds"],
        "pipeline_seconds": sum(t["seconds"] for t in timings[1:]),
        "passes": {t["name"]: t["seconds"] for t in timings[1:]},
    }


def main():
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--nodes", type=int, nargs="+", default=[5_000, 10_000, 20_000, 40_000])
    options.add_argument("--json", action="store_true")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        manifest = recorded_llama(folder)
        rows = [measured(folder, repeated(manifest, count)) for count in chosen.nodes]
    if chosen.json:
        print(json.dumps(rows, indent=2))
        return
    print(f"{'nodes':>8} {'after':>8} {'import':>9} {'pipeline':>9} {'µs/node':>8}")
    for row in rows:
        total = row["import_seconds"] + row["pipeline_seconds"]
        print(
            f"{row['nodes']:>8} {row['nodes_after']:>8} {row['import_seconds']:>7.2f} s {row['pipeline_seconds']:>7.2f} s"
            f" {total / row['nodes'] * 1e6:>8.1f}"
        )


if __name__ == "__main__":
    main()
