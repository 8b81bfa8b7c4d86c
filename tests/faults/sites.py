"""Which faults fit which node. A fault says what is changed (`edit`: tests/faults/injector.cpp) and which kind of cause a
person would give; kinds that are None are outside of what the verifier looks for."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

ACTIVATIONS = ["relu", "silu", "gelu", "tanh", "sigmoid"]


def square(operand: dict | None) -> bool:
    return bool(operand) and len(operand["shape"]) >= 2 and operand["shape"][-1] == operand["shape"][-2]


Found = Iterator[tuple[str | None, dict]]  # (kind of cause, edit)


def given(operands: list, index: int) -> bool:
    return index < len(operands) and operands[index] is not None


def attribute(name: str, value: object) -> dict:
    return {"edit": "attribute", "name": name, "value": value}


def of_norms(node: dict) -> Found:
    """Norms, and the variance alone."""
    op, operands, attributes = node["op"], node["operands"], node["attributes"]
    if op in ("layer_norm", "rms_norm"):
        yield "epsilon", attribute("eps", 3e-3)
        if attributes.get("eps"):
            yield "epsilon place", {"edit": "epsilon outside"}
        if op == "layer_norm":
            yield "variance", {"edit": "unbiased"}
            if given(operands, 2):
                yield "missing bias", {"edit": "drop", "operand": 2}
        if given(operands, 1):
            yield "missing weight", {"edit": "drop", "operand": 1}
    if op == "batch_norm":
        yield "epsilon", attribute("eps", 0.05)
        yield "stale buffer", {"edit": "zero", "operand": 1}
        yield "stale buffer", {"edit": "one", "operand": 2}
    if op == "group_norm":
        yield "groups", attribute("groups", 2)
        yield "missing bias", {"edit": "drop", "operand": 2}
    if op in ("var", "std"):
        yield "variance", attribute("correction", 0.0)


def of_functions(node: dict) -> Found:
    """Activations and softmax."""
    op, operands, attributes = node["op"], node["operands"], node["attributes"]
    if op == "gelu":
        other = "tanh" if attributes["approximate"] == "none" else "none"
        yield "gelu form", attribute("approximate", other)
    if op in ACTIVATIONS or op == "relu6":
        for other in ("relu", "silu"):
            if other != op:
                yield "activation", {"edit": "op", "op": other}
    if op == "leaky_relu":
        yield "slope", attribute("negative_slope", 0.25)
    if op == "softmax":
        rank = len(operands[0]["shape"])
        if rank > 1:
            yield "dim", attribute("dim", rank - 2)


def of_layers(node: dict) -> Found:
    """Products, attention, embeddings, recurrent layers."""
    op, operands, attributes = node["op"], node["operands"], node["attributes"]
    if op == "linear":
        if square(operands[1]):
            yield "transposed weight", {"edit": "transpose", "operand": 1}
        if given(operands, 2):
            yield "missing bias", {"edit": "drop", "operand": 2}
        width = node["results"][0]["shape"][-1]
        if isinstance(width, int) and width % 2 == 0:
            yield "part order", {"edit": "result chunks", "axis": -1, "order": [1, 0]}
        yield "accumulation dtype", {"edit": "low precision"}
    if op == "scaled_dot_product_attention":
        yield "causal", attribute("is_causal", not attributes["is_causal"])
        yield "scale", attribute("scale", 0.29)
        yield "operand order", {"edit": "swap", "a": 1, "b": 2}
        for mask in (3, 4):
            if given(operands, mask):
                is_added = operands[mask]["dtype"] != "bool"
                yield "operation" if is_added else "mask sign", {"edit": "negate", "operand": mask}
                yield "missing mask or causal", {"edit": "drop", "operand": mask}
        yield "head order", {"edit": "result flip", "axis": -3}
    if op == "split_heads":
        yield "head split order", {"edit": "heads last"}
    if op == "rotary_embedding":
        yield "rotary pairing", attribute("interleaved", not attributes["interleaved"])
        yield "rotary direction", {"edit": "negate", "operand": 2}
    if op == "embedding":
        yield "index offset", {"edit": "shift index", "operand": 1}
    if op in ("lstm", "gru"):
        states, order = (2, [0, 1, 3, 2]) if op == "lstm" else (1, [1, 0, 2])
        runs = attributes["num_layers"] * (2 if attributes["bidirectional"] else 1)
        each = (len(operands) - 1 - states) // runs
        if each in (2, 4):  # no projection, whose rows are no gates
            yield "gate order", {"edit": "all chunks", "from": 1 + states, "order": order}
        if attributes["bidirectional"]:
            yield "direction order", {"edit": "directions", "from": 1 + states, "each": each}
    if op == "rnn_tanh":
        yield "activation", {"edit": "op", "op": "rnn_relu", "keep": True}


def of_images(node: dict) -> Found:
    """Convolutions, pools, padding, resizing."""
    op, operands, attributes = node["op"], node["operands"], node["attributes"]
    if op == "conv2d":
        kernel = operands[1]["shape"]
        if kernel[-1] > 1:
            yield "flipped kernel", {"edit": "flip", "operand": 1, "axes": [-1, -2]}
            yield "transposed weight", {"edit": "transpose", "operand": 1}
        if given(operands, 2):
            yield "missing bias", {"edit": "drop", "operand": 2}
    if op == "max_pool2d":
        keep = {name: attributes[name] for name in ("kernel_size", "stride", "padding")}
        yield "pool kind", {"edit": "op", "op": "avg_pool2d", "attributes": keep}
    if op == "avg_pool2d":
        yield "count include pad", attribute("count_include_pad", not attributes["count_include_pad"])
    if op == "interpolate":
        yield "align corners", attribute("align_corners", not attributes["align_corners"])
    if op == "reflection_pad":
        yield "padding mode", {"edit": "op", "op": "replication_pad", "keep": True}


def of_data(node: dict) -> Found:
    """Arithmetic, slices and joins."""
    op, operands, attributes = node["op"], node["operands"], node["attributes"]
    if op == "add" and operands[0]["value"] != operands[1]["value"]:
        is_index = operands[0]["dtype"].startswith("i")
        yield (
            "missing residual or index offset" if is_index else "missing residual",
            {"edit": "op", "op": "maximum", "operands": [0, 0]},
        )
        yield "operation", {"edit": "op", "op": "sub"}
    if op in ("sub", "div"):
        yield "operand order", {"edit": "swap", "a": 0, "b": 1}
    if op == "mul" and operands[0]["value"] != operands[1]["value"]:
        yield "operation", {"edit": "op", "op": "add"}
    if op == "slice":
        # [2:9] of the last dim becomes [1:8]
        starts, stops = attributes.get("starts"), attributes.get("stops")
        numbers = [text.strip(" []") for text in f"{starts},{stops}".split(",")]
        rank = len(operands[0]["shape"])
        if all(n.isdigit() for n in numbers[rank - 1 : rank] + numbers[-1:]) and isinstance(
            operands[0]["shape"][-1], int
        ):
            start, stop = int(numbers[rank - 1]), int(numbers[-1])
            if start > 0 and all(n.isdigit() for n in numbers):
                moved = [int(n) for n in numbers]
                moved[rank - 1], moved[-1] = start - 1, stop - 1
                yield (
                    "slice offset",
                    attribute("starts", moved[:rank]) | {"also": "stops", "also_value": moved[rank:]},
                )
    if op == "split" and len({str(result["shape"]) for result in node["results"]}) == 1:
        yield "part order", {"edit": "results turned"}
    if op == "concat" and len(operands) == 2 and operands[0]["shape"] == operands[1]["shape"]:
        yield "part order", {"edit": "swap", "a": 0, "b": 1}


def edits_of(node: dict) -> Found:
    """Everything that can be done to the node."""
    for family in (of_norms, of_functions, of_layers, of_images, of_data):
        yield from family(node)


def weight_faults(node: dict, parameters: list[dict]) -> Iterator[tuple[str, dict]]:
    by_name = {parameter["name"]: parameter for parameter in parameters}
    for operand in node["operands"]:
        used = by_name.get((operand or {}).get("parameter", ""))
        if not used:
            continue
        for other in parameters:
            if other["type"] == used["type"] and other["name"] != used["name"]:
                yield (
                    "wrong weight",
                    {"edit": "parameter", "name": used["name"], "file": other["file"], "key": other["key"]},
                )
                return


# Edits that leave one node where one was. Others put ops of their own beside it, which a backend hides and a program shows.
ONE_NODE = {"attribute", "op", "swap", "drop", "parameter"}
OUTSIDE = [
    {"edit": "corrupt", "how": "element", "amount": 0.01},
    {"edit": "corrupt", "how": "noise", "amount": 1e-3},
    {"edit": "corrupt", "how": "odd rows"},
    {"edit": "corrupt", "how": "last row"},
    {"edit": "square", "value": 0.01},
    {"edit": "smooth", "value": 0.02},
]
COMPUTES = {
    "layer_norm",
    "rms_norm",
    "linear",
    "gelu",
    "silu",
    "conv2d",
    "batch_norm",
    "scaled_dot_product_attention",
    "embedding",
    "softmax",
    "lstm",
    "gru",
    "rnn_tanh",
    "group_norm",
}


def number(*parts: object) -> int:
    """The same for the same fault, always."""
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=6).digest(), "big")


def faults_of(
    model: str, imported: list[dict], program: list[dict], parameters: list[dict]
) -> Iterator[dict]:
    """Every fault that fits the model."""
    in_program = {(node["op"], node["path"]) for node in program}
    for where, nodes in (("backend", program), ("program", imported)):
        for node in nodes:
            if where == "program" and (node["op"], node["path"]) not in in_program:
                continue  # the pipeline makes something else of it
            found = [*edits_of(node), *weight_faults(node, parameters)]
            if node["op"] in COMPUTES:
                # In the program itself such a fault is ops that the model does not have: there is a cause.
                found += [(None, edit) for edit in OUTSIDE if where == "backend"]
            for kind, edit in found:
                if where == "program" and edit["edit"] not in ONE_NODE:
                    continue
                if edit.get("how") == "odd rows" and not odd(node["results"][0]["shape"]):
                    continue
                yield {
                    "where": where,
                    "node": node["node"],
                    "op": node["op"],
                    "path": node["path"],
                    "kind": kind,
                    "rank": number(model, where, node["node"], kind, str(edit)),
                    **{key: value for key, value in edit.items() if key != "op"},
                    **({"op": edit["op"], "original_op": node["op"]} if "op" in edit else {}),
                }


def odd(shape: list) -> bool:
    return bool(shape) and isinstance(shape[-1], int) and shape[-1] % 2 == 1


def chosen(faults: list[dict], per_kind: int, outside: int) -> list[dict]:
    """A few of each kind and place, always the same ones."""
    taken: dict[tuple, int] = {}
    kept = []
    for fault in sorted(faults, key=lambda fault: fault["rank"]):
        key = (fault["kind"], fault["where"]) if fault["kind"] else ("outside", "")
        limit = per_kind if fault["kind"] else outside
        if taken.get(key, 0) < limit:
            taken[key] = taken.get(key, 0) + 1
            kept.append(fault)
    return kept
