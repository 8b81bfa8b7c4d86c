"""Faults as edits of emitted source text: which ones fit a model's header. An edit says which struct it is in, which module
of it, what a person would call the mistake, and how the text reads afterwards. It knows C++ text, and nothing of PTIR."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .source_text import Header, Piece, closing, flat, option_of, parts, path_text, with_option

# Designated initialisers keep the order of the fields.
FIELDS = {
    "Linear": ["bias", "weight_order"],
    "LayerNorm": ["eps", "elementwise_affine", "bias"],
    "RMSNorm": ["eps", "elementwise_affine", "compute_dtype", "round_before_weight", "weight_offset"],
    "GroupNorm": ["eps", "affine"],
    "BatchNorm2d": ["eps", "affine"],
    "ConvTranspose2d": ["stride", "padding", "output_padding", "dilation", "groups", "bias"],
    "Conv1d": ["stride", "padding", "dilation", "groups", "bias", "same"],
    "Conv2d": ["stride", "padding", "dilation", "groups", "bias", "same"],
    "MaxPool2d": ["stride", "padding", "dilation", "ceil_mode"],
    "AvgPool2d": ["stride", "padding", "ceil_mode", "count_include_pad", "divisor_override"],
    "Upsample": ["size", "scale_factor", "mode", "align_corners"],
    "GELU": ["approximate"],
    "RNN": ["num_layers", "bias", "batch_first", "bidirectional", "nonlinearity"],
    "attention": [
        "attn_mask", "key_mask", "alibi_slopes", "alibi_positions", "is_causal", "scale", "enable_gqa", "window", "query_offset",
        "masked_bias", "alibi_scale", "eager",
    ],
    "rotary": ["interleaved", "paired", "unsqueeze_dim"],
    "gelu": ["approximate"],
    "instance_norm": ["weight", "bias", "eps"],
    "interpolate": ["scales", "align_corners", "antialias"],
}  # fmt: skip
OPS = {
    "Linear": "linear",
    "LayerNorm": "layer_norm",
    "RMSNorm": "rms_norm",
    "GroupNorm": "group_norm",
    "BatchNorm2d": "batch_norm",
    "Conv1d": "conv1d",
    "Conv2d": "conv2d",
    "ConvTranspose2d": "conv_transpose2d",
    "MaxPool2d": "max_pool2d",
    "AvgPool2d": "avg_pool2d",
    "Upsample": "interpolate",
    "GELU": "gelu",
    "ReLU": "relu",
    "ReLU6": "relu6",
    "SiLU": "silu",
    "Mish": "mish",
    "Hardswish": "hardswish",
    "Tanh": "tanh",
    "LeakyReLU": "leaky_relu",
    "Embedding": "embedding",
    "RNN": "rnn_tanh",
    "LSTM": "lstm",
    "GRU": "gru",
}
# Parameters that may be taken for others of their type.
TIED = {
    "Linear": ["weight", "bias"],
    "Conv1d": ["weight"],
    "Conv2d": ["weight", "bias"],
    "Embedding": ["weight"],
    "LayerNorm": ["weight", "bias"],
    "RMSNorm": ["weight"],
    "GroupNorm": ["weight"],
    "BatchNorm2d": ["running_mean", "running_var", "weight"],
    "LSTM": ["weight_hh_l0", "weight_ih_l0", "bias_hh_l0"],
    "GRU": ["weight_hh_l0", "weight_ih_l0", "bias_hh_l0"],
    "RNN": ["weight_hh_l0", "bias_ih_l0"],
}
ACTIVATIONS = ["relu", "silu", "gelu", "tanh", "sigmoid", "mish", "hardswish"]
# Functions of one tensor that are taken for one another: what a person would call that, and the function.
MISTAKEN = {
    "floor": ("rounding mode", ["round", "ceil", "trunc"]),
    "exp": ("function", ["exp2", "expm1"]),
    "log1p": ("function", ["log"]),
    "sqrt": ("function", ["rsqrt"]),
    "cos": ("function", ["sin"]),
    "sin": ("function", ["cos"]),
    "reflection_pad": ("padding mode", ["replication_pad"]),
    "replication_pad": ("padding mode", ["reflection_pad", "circular_pad"]),
}


OPERATORS = {"*": "mul", "/": "div", "+": "add", "-": "sub"}


@dataclass(frozen=True)
class Edit:
    struct: str
    member: str  # below the struct's path; "" is the struct itself
    op: str  # what the changed place computes; "a or b" when both are changed by it
    kind: str | None  # None: outside of what the verifier looks for
    what: str  # for people
    start: int
    end: int
    text: str  # in place of header[start:end]
    is_call: bool = False  # the struct's forward() calls the member otherwise: that is a mistake of both

    def applied(self, header: str) -> str:
        return header[: self.start] + self.text + header[self.end :]


def edits_of(text: str) -> Iterator[Edit]:
    header = Header(text)
    for struct in header.structs:
        yield from constructor_edits(header, struct)
        yield from attention_edits(header, struct)
        yield from call_edits(header, struct)
        yield from statement_edits(header, struct)


def constructor_edits(header: Header, struct: str) -> Iterator[Edit]:
    members = header.members(struct)
    for name, whole, args in header.constructions(struct):
        cls = name.removeprefix("nn::") if name.startswith("nn::") else members.get(name, ("", ""))[0]
        path = path_text(args[-1].text)
        if cls not in OPS or path is None:
            continue

        def option(
            kind: str | None, field: str, value: str, cls=cls, path=path, whole=whole, args=args
        ) -> Edit:
            return Edit(
                struct, path, OPS[cls], kind, f"{cls} {path}: {field} = {value}", whole.start, whole.end,
                with_option(args, FIELDS[cls], field, value, last=False),
            )  # fmt: skip

        if cls in ("LayerNorm", "RMSNorm", "GroupNorm", "BatchNorm2d"):
            yield option("epsilon", "eps", "0.004" if cls != "BatchNorm2d" else "0.06")
        if cls == "LayerNorm" and option_of(args, "bias") != "false":
            yield option("missing bias", "bias", "false")
        if cls == "RMSNorm":
            yield option("missing weight", "elementwise_affine", "false")
            yield option("weight offset", "weight_offset", "1.0")
        if cls in ("Linear", "Conv1d", "Conv2d", "ConvTranspose2d") and option_of(args, "bias") != "false":
            yield option("missing bias", "bias", "false")
        if cls == "Linear" and args[0].text == args[1].text:
            now = option_of(args, "weight_order") or '"out_in"'
            yield option("transposed weight", "weight_order", '"in_out"' if now == '"out_in"' else '"out_in"')
        if cls == "GELU":
            now = option_of(args, "approximate") or '"none"'
            yield option("gelu form", "approximate", '"tanh"' if now == '"none"' else '"none"')
        if cls == "AvgPool2d":
            yield option("count include pad", "count_include_pad", "false")
            yield option(None, "divisor_override", "7")
        if cls in ("AvgPool2d", "MaxPool2d"):
            yield option("ceil mode", "ceil_mode", "true")
        if cls == "Upsample":
            yield option("align corners", "align_corners", "true")
        if cls == "RNN":
            yield option("activation", "nonlinearity", '"relu"')
        if cls == "Conv2d" and args[2].text == "3" and option_of(args, "padding") == "1":
            both = with_option(args, FIELDS[cls], "padding", "2", last=False)
            again = parts(both, 0, len(both))
            yield Edit(
                struct, path, OPS[cls], "dilation", f"{cls} {path}: dilated", whole.start, whole.end,
                with_option(again, FIELDS[cls], "dilation", "2", last=False),
            )  # fmt: skip
        if cls == "GroupNorm" and args[0].text == "4":
            yield Edit(struct, path, OPS[cls], "groups", "2 groups", args[0].start, args[0].end, "2")
        if cls == "LeakyReLU":
            yield Edit(struct, path, OPS[cls], "slope", "another slope", args[0].start, args[0].end, "0.3")
        if cls == "LayerNorm" and option_of(args, "bias") != "false":
            two = with_option(args, FIELDS[cls], "eps", "0.02", last=False)
            again = parts(two, 0, len(two))
            yield Edit(
                struct, path, OPS[cls], None, f"{cls} {path}: two mistakes", whole.start, whole.end,
                with_option(again, FIELDS[cls], "bias", "false", last=False),
            )  # fmt: skip
        for weight in TIED.get(cls, []):
            if weight == "bias" and option_of(args, "bias") == "false":
                continue
            yield Edit(
                struct, path, OPS[cls], "wrong weight", f"{cls} {path}: another {weight}", args[-1].start, args[-1].end,
                f'({args[-1].text}).tied("{weight}", "@LIKE {path}.{weight}@")',
            )  # fmt: skip


def attention_edits(header: Header, struct: str) -> Iterator[Edit]:
    def edit(kind: str | None, what: str, args: list[Piece], text: str, op: str) -> Edit:
        return Edit(struct, "", op, kind, what, args[0].start, args[-1].end, text)

    for _, _, args in header.calls(struct, "functional::scaled_dot_product_attention"):
        op, fields = "scaled_dot_product_attention", FIELDS["attention"]
        texts = [arg.text for arg in args]
        mask = next((name for name in ("attn_mask", "key_mask") if option_of(args, name)), None)
        causal = option_of(args, "is_causal") == "true"
        if causal or not mask:
            flipped = with_option(args, fields, "is_causal", None if causal else "true", last=True)
            yield edit("causal", "causal or not", args, flipped, op)
        yield edit("scale", "another scale", args, with_option(args, fields, "scale", "0.31", last=True), op)
        swapped = [texts[0], texts[2], texts[1], *texts[3:]]
        yield edit("operand order", "keys and values swapped", args, ", ".join(swapped), op)
        if option_of(args, "enable_gqa") != "true":
            swapped = [texts[1], texts[0], *texts[2:]]
            yield edit("operand order", "queries and keys swapped", args, ", ".join(swapped), op)
        turned = [texts[0], f"functional::reverse({texts[1]}, {{2}})", *texts[2:]]
        yield edit(None, "keys in reverse", args, ", ".join(turned), op)
        if mask:
            left_out = with_option(args, fields, mask, None, last=True)
            yield edit("missing mask or causal", "no mask", args, left_out, op)
            inverted = with_option(args, fields, mask, f"~{option_of(args, mask)}", last=True)
            yield edit("mask sign", "the mask inverted", args, inverted, op)
    for _, _, args in header.calls(struct, "functional::rotary_embedding"):
        now = option_of(args, "interleaved") == "true"
        other = with_option(args, FIELDS["rotary"], "interleaved", None if now else "true", last=True)
        yield edit("rotary pairing", "the other pairing", args, other, "rotary_embedding")
        texts = [arg.text for arg in args]
        back = ", ".join([texts[0], texts[1], f"-{texts[2]}", *texts[3:]])
        yield edit("rotary direction", "turned backwards", args, back, "rotary_embedding")
        swapped = ", ".join([texts[0], texts[2], texts[1], *texts[3:]])
        yield edit("operand order", "cosine and sine swapped", args, swapped, "rotary_embedding")
    for _, at, args in header.calls(struct, "functional::split_heads"):
        end = closing(header.text, at + len("functional::split_heads"))
        text = f"({args[0].text}).unflatten(-1, {{-1, {args[1].text}}}).permute({{0, 3, 1, 2}})"
        what = "width before heads"
        yield Edit(struct, "", "split_heads", "head split order", what, at, end, text)
    for _, at, args in header.calls(struct, "functional::merge_heads"):
        end = closing(header.text, at + len("functional::merge_heads"))
        text = f"({args[0].text}).permute({{0, 2, 3, 1}}).flatten(2)"
        what = "heads merged behind their width"
        yield Edit(struct, "", "merge_heads", "head split order", what, at, end, text)


def call_edits(header: Header, struct: str) -> Iterator[Edit]:
    members = header.members(struct)
    for m, at, args in header.calls(struct, r"(\w+)"):
        if m[1] not in members or len(args) != 1:
            continue
        cls, path = members[m[1]]
        op = OPS.get(cls, "")
        end, inner = closing(header.text, at + len(m[1])), args[0].text
        if op in (*ACTIVATIONS, "relu6", "leaky_relu"):
            kind = "missing layer or activation"
            yield Edit(struct, path, op, kind, f"no {path}", at, end, f"({inner})", True)
            for other in ("relu", "silu"):
                if other != op:
                    text = f"functional::{other}({inner})"
                    yield Edit(struct, path, op, "activation", f"{other} for {path}", at, end, text, True)
            yield Edit(struct, path, op, None, f"erf for {path}", at, end, f"functional::erf({inner})", True)
        if op in ("layer_norm", "rms_norm", "batch_norm", "group_norm"):
            yield Edit(struct, path, op, "missing layer", f"no {path}", at, end, f"({inner})", True)
        if op in ("linear", "conv2d"):
            sine = f"{m[1]}(functional::sin({inner}))"
            yield Edit(struct, path, op, None, f"sin before {path}", at, end, sine, True)
            low = f"{m[1]}(({inner}).to(DType::bf16).to(DType::f32))"
            yield Edit(struct, path, op, "accumulation dtype", f"bf16 before {path}", at, end, low, True)
        for other in like(header, struct, m[1], members):
            kind = "wrong layer or missing layer or wrong input or wrong weight"
            what = f"{other} for {m[1]}"
            yield Edit(struct, path, op, kind, what, at, end, f"{other}({inner})", True)
        if op == "embedding" and re.fullmatch(r"\w*position\w*", inner):
            yield Edit(struct, path, op, "index offset", "one further", at, end, f"{m[1]}({inner} + 1)", True)
    for m, at, args in header.calls(struct, r"functional::(\w+)"):
        name, end = m[1], closing(header.text, at + len(m[0]) - 1)
        texts = [arg.text for arg in args]
        if name in ACTIVATIONS:
            for other in ("relu", "silu"):
                if other != name:
                    text = f"functional::{other}({texts[0]})"
                    yield Edit(struct, "", name, "activation", f"{other} for {name}", at, end, text)
            yield Edit(struct, "", name, None, f"erf for {name}", at, end, f"functional::erf({texts[0]})")
        if name in ("softmax", "log_softmax") and texts[1] == "-1":
            yield Edit(struct, "", name, "dim", "another dim", args[1].start, args[1].end, "-2")
        kind, others = MISTAKEN.get(name, ("", []))
        for other in others:
            start = at + len("functional::")
            yield Edit(struct, "", name, kind, f"{other} for {name}", start, start + len(name), other)
        if name in ("reflection_pad", "replication_pad") and texts[1] != texts[2]:
            text = f"{texts[2]}, {texts[1]}"
            what = "padding in front and behind exchanged"
            yield Edit(struct, "", name, "padding side", what, args[1].start, args[2].end, text)
        if name == "cumsum":
            axis = "0" if texts[1] != "0" else "1"
            yield Edit(struct, "", name, "dim", "another axis", args[1].start, args[1].end, axis)
        if name == "roll":
            text = re.sub(r"\d+", lambda number: "-" + number[0], texts[1])
            what = "rolled the other way"
            yield Edit(struct, "", name, "direction order", what, args[1].start, args[1].end, text)
        for kind, field, value in functional_options(name, args):
            text = with_option(args, FIELDS[name], field, value, last=True)
            yield Edit(struct, "", name, kind, f"{field} = {value}", args[0].start, args[-1].end, text)
        if name == "interpolate" and texts[1] == '"linear"':
            text = '"cubic"'
            yield Edit(struct, "", name, "interpolation mode", "cubic", args[1].start, args[1].end, text)
    for _, _, args in header.calls(struct, "where"):
        if len(args) == 3:
            text = f"{args[2].text}, {args[1].text}"
            what = "the mask the other way"
            yield Edit(struct, "", "select", "mask sign", what, args[1].start, args[2].end, text)
    for _, _, args in header.calls(struct, "cat"):
        values = parts(header.text, args[0].start + 1, args[0].end - 1)
        if len(values) == 2 and values[0].text != values[1].text:
            text = f"{{{values[1].text}, {values[0].text}}}"
            yield Edit(
                struct, "", "concat", "part order", "cat the other way", args[0].start, args[0].end, text
            )


def like(header: Header, struct: str, name: str, members: dict) -> list[str]:
    """Other members of the same class and sizes: one may be called for another."""
    made = {}
    for member, _, args in header.constructions(struct):
        made[member] = [arg.text for arg in args[:-1]]
    cls = members[name][0]
    same = [m for m, (other, _) in members.items() if m != name and other == cls and cls in TIED]
    return [m for m in same if made.get(m) == made.get(name)]


def functional_options(name: str, args: list[Piece]) -> list[tuple[str, str, str | None]]:
    """(kind, option, another value of it) of a function with options."""
    if name == "gelu":
        is_tanh = option_of(args, "approximate") == '"tanh"'
        return [("gelu form", "approximate", None if is_tanh else '"tanh"')]
    if name == "instance_norm":
        return [("epsilon", "eps", "0.02")]
    if name == "interpolate":
        aligned = option_of(args, "align_corners") == "true"
        return [("align corners", "align_corners", None if aligned else "true")]
    return []


def statement_edits(header: Header, struct: str) -> Iterator[Edit]:
    start, end = header.forward(struct)
    body = header.text[start:end]
    for m in re.finditer(r"(?:return|\w+ =) ([^;{}]+(?:\{[^;{}]*\}[^;{}]*)*);", body):
        yield from sum_edits(header, struct, start + m.start(1), start + m.end(1))
        yield from product_edits(header, struct, start + m.start(1), start + m.end(1))
    yield from number_edits(struct, body, start)
    yield from state_edits(header, struct)
    for m in re.finditer(r"auto \[([\w, ]+)\] = ([^;]+\.(?:chunk|split)<\d>)", body):
        names = m[1].split(", ")
        turned = ", ".join([*names[1:], names[0]])
        # Queries and keys exchanged here or where they are read: the program is the same.
        kind, op = "part order or operand order", "split or scaled_dot_product_attention"
        yield Edit(struct, "", op, kind, "parts turned", start + m.start(1), start + m.end(1), turned)
        if len(names) > 2:
            swapped = ", ".join([names[1], names[0], *names[2:]])
            what = "the first two exchanged"
            yield Edit(struct, "", op, kind, what, start + m.start(1), start + m.end(1), swapped)
    for m in re.finditer(r"\.slice\((-?\d+), ([1-9]\d*), (\d+)\)", body):
        low, high = int(m[2]) - 1, int(m[3]) - 1
        text = f".slice({m[1]}, {low}, {high})"
        yield Edit(struct, "", "slice", "slice offset", text, start + m.start(), start + m.end(), text)
    for name, other, op in (("mean", "sum", "mean"), ("amax", "amin", "reduce_max")):
        for m in re.finditer(rf"\.{name}\(", body):
            text = f".{other}("
            yield Edit(
                struct, "", op, "reduction", f"{other} for {name}", start + m.start(), start + m.end(), text
            )
    for m in re.finditer(r"\.(mean|sum|amax)\(\{1\}\)", body):
        op = {"mean": "mean", "sum": "reduce_sum", "amax": "reduce_max"}[m[1]]
        yield Edit(
            struct, "", op, "dim", "over another dim", start + m.start(), start + m.end(), f".{m[1]}({{2}})"
        )
    for m in re.finditer(r"\.transpose\(1, 2\)(?= ([-+*/]) )", body):
        op, what = f"transpose or {OPERATORS[m[1]]}", "a transpose left out"
        yield Edit(struct, "", op, "dim order", what, start + m.start(), start + m.end(), "")


def sum_edits(header: Header, struct: str, start: int, end: int) -> Iterator[Edit]:
    """a + b + c without one of them, or with another sign. What stands in the terms may be products."""
    for sign, op in ((" + ", "add"), (" - ", "sub")):
        terms = parts(header.text, start, end, sign)
        if len(terms) < 2 or any(re.search(r"(?<![(,]) [-+] ", flat(term.text)) for term in terms):
            continue
        if any(re.fullmatch(r"[\d.e-]+", term.text) for term in terms):
            continue
        whole = (terms[0].start, terms[-1].end)
        texts = [term.text for term in terms]
        if op == "add":
            for i, text in enumerate(texts):
                kept = " + ".join(texts[:i] + texts[i + 1 :])
                yield Edit(struct, "", op, "missing residual", f"without {text}", *whole, kept)
        if len(texts) != 2:
            continue
        a, b = texts
        if op == "add":
            yield Edit(struct, "", op, "operation", "less for plus", *whole, f"{a} - {b}")
            text = f"functional::fmod({a}, {b})"
            yield Edit(struct, "", op, None, "a remainder for a sum", *whole, text)
        else:
            yield Edit(struct, "", op, "operand order", "the other way", *whole, f"{b} - {a}")
            yield Edit(struct, "", op, "operation", "plus for less", *whole, f"{a} + {b}")


def product_edits(header: Header, struct: str, start: int, end: int) -> Iterator[Edit]:
    for sign, op in ((" * ", "mul"), (" / ", "div")):
        sides = parts(header.text, start, end, sign)
        if len(sides) != 2 or any(re.search(r"(?<![(,]) [-+*/%] ", flat(side.text)) for side in sides):
            continue
        a, b = sides
        if any(re.fullmatch(r"[\d.e-]+", side.text) for side in sides):
            continue
        if op == "mul":
            text = f"{a.text} + {b.text}"
            yield Edit(struct, "", op, "operation", "plus for times", a.start, b.end, text)
        else:
            text = f"{b.text} / {a.text}"
            yield Edit(struct, "", op, "operand order", "the other way", a.start, b.end, text)


def number_edits(struct: str, body: str, start: int) -> Iterator[Edit]:
    """A fifth more of a number in a sum or product."""
    for m in re.finditer(r" ([-+*/]) (\d+\.\d+)(?![\d.]*f)", body):
        more = f"{float(m[2]) * 1.2:.4g}"
        op = OPERATORS[m[1]]
        more = more if "." in more else more + ".0"
        yield Edit(
            struct, "", op, "constant or scale", f"{m[1]} {more}", start + m.start(2), start + m.end(2), more
        )


def state_edits(header: Header, struct: str) -> Iterator[Edit]:
    """A state that is read before it was changed, where the model reads it afterwards."""
    start, end = header.forward(struct)
    first, last = header.structs[struct]
    states = re.findall(r"^  State ([\w, ]+);", header.text[first:last], re.M)
    for name in states[0].split(", ") if states else []:
        body = header.text[start:end]
        change = re.search(rf"^    {name} = [^;]+;\n", body, re.M)
        if not change:
            continue
        after = re.sub(rf"\b{name}\b", f"stale_{name}", body[change.end() :])
        text = f"{{\n    const Tensor stale_{name} = {name};" + body[1 : change.end()] + after
        read = re.search(rf"([-+*/]) stale_{name}\b", after)
        op = OPERATORS[read[1]] if read else ""
        yield Edit(struct, "", op, "stale buffer", f"{name} as it was", start, end, text)
