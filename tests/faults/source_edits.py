"""Faults as edits of emitted source text: which ones fit a model's header. An edit says which struct it is in, which module
of it, what a person would call the mistake, and how the text reads afterwards. It knows C++ text, and nothing of PTIR."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

# Designated initialisers keep the order of the fields.
FIELDS = {
    "Linear": ["bias", "weight_order"],
    "LayerNorm": ["eps", "elementwise_affine", "bias"],
    "RMSNorm": ["eps", "elementwise_affine", "compute_dtype", "round_before_weight", "weight_offset"],
    "GroupNorm": ["eps", "affine"],
    "BatchNorm2d": ["eps", "affine"],
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
}  # fmt: skip
OPS = {
    "Linear": "linear",
    "LayerNorm": "layer_norm",
    "RMSNorm": "rms_norm",
    "GroupNorm": "group_norm",
    "BatchNorm2d": "batch_norm",
    "Conv1d": "conv1d",
    "Conv2d": "conv2d",
    "MaxPool2d": "max_pool2d",
    "AvgPool2d": "avg_pool2d",
    "Upsample": "interpolate",
    "GELU": "gelu",
    "ReLU": "relu",
    "ReLU6": "relu6",
    "SiLU": "silu",
    "Tanh": "tanh",
    "LeakyReLU": "leaky_relu",
    "Embedding": "embedding",
    "RNN": "rnn_tanh",
    "LSTM": "lstm",
    "GRU": "gru",
}
ACTIVATIONS = ["relu", "silu", "gelu", "tanh", "sigmoid"]


@dataclass(frozen=True)
class Edit:
    struct: str
    member: str  # below the struct's path; "" is the struct itself
    op: str  # what the changed place computes
    kind: str | None  # None: outside of what the verifier looks for
    what: str  # for people
    start: int
    end: int
    text: str  # in place of header[start:end]
    is_call: bool = False  # the struct's forward() calls the member otherwise: that is a mistake of both

    def applied(self, header: str) -> str:
        return header[: self.start] + self.text + header[self.end :]


@dataclass(frozen=True)
class Piece:
    text: str
    start: int  # in the header
    end: int


def closing(text: str, at: int) -> int:
    """The index behind the bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(text)):
        depth += text[i] in "({["
        depth -= text[i] in ")}]"
        if depth == 0:
            return i + 1
    raise ValueError("a bracket that nothing closes")


def parts(header: str, start: int, end: int, separator: str = ",") -> list[Piece]:
    """What stands between separators outside of brackets."""
    found, depth, begin = [], 0, start
    for i in range(start, end + 1):
        if i == end or (depth == 0 and header.startswith(separator, i)):
            piece = header[begin:i]
            left = len(piece) - len(piece.lstrip())
            found.append(Piece(piece.strip(), begin + left, begin + left + len(piece.strip())))
            begin = i + len(separator)
        if i < end:
            depth += header[i] in "({["
            depth -= header[i] in ")}]"
    return [piece for piece in found if piece.text]


def options_of(args: list[Piece]) -> dict[str, str]:
    text = next((arg.text for arg in args if arg.text.startswith("{.")), "{}")
    return dict(field.text[1:].split(" = ", 1) for field in parts(text, 1, len(text) - 1))


def option_of(args: list[Piece], name: str) -> str | None:
    return options_of(args).get(name)


def with_option(args: list[Piece], fields: list[str], name: str, value: str | None, last: bool) -> str:
    """The arguments with one option set, or without it. `last`: options come last, else before the last argument."""
    texts = [arg.text for arg in args if not arg.text.startswith("{.")]
    options = options_of(args) | {name: value}
    made = ", ".join(f".{f} = {options[f]}" for f in fields if options.get(f) is not None)
    if made:
        texts.insert(len(texts) if last else len(texts) - 1, f"{{{made}}}")
    return ", ".join(texts)


def path_text(weights: str) -> str | None:
    """ "downsample.0" of `w / "downsample.0"`; nothing when numbers are computed there."""
    if not re.fullmatch(r'w( / "[\w.]+")+', weights):
        return None
    return ".".join(re.findall(r'"([\w.]+)"', weights))


class Header:
    def __init__(self, text: str) -> None:
        self.text = text
        self.structs = {
            m[1]: (m.start(), text.index("\n};", m.end()))
            for m in re.finditer(r"^struct (\w+) : nn::Module<\w+> \{", text, re.M)
        }

    def members(self, struct: str) -> dict[str, tuple[str, str]]:
        """name → (class, path) of the struct's own modules."""
        start, end = self.structs[struct]
        classes = {}
        for line in re.finditer(r"^  nn::(\w+) ([\w, ]+);", self.text[start:end], re.M):
            classes |= dict.fromkeys(line[2].split(", "), line[1])
        paths = {}
        for name, _, args in self.constructions(struct):
            path = path_text(args[-1].text)
            if name in classes and path is not None:
                paths[name] = (classes[name], path)
        return paths

    def constructions(self, struct: str) -> Iterator[tuple[str, Piece, list[Piece]]]:
        """(member or nn:: class, the whole argument list, its arguments) of what the constructor makes."""
        start, end = self.structs[struct]
        ctor = self.text.find(": Module(w", start, end)
        stop = self.text.find("{}\n", ctor, end)
        for m in re.finditer(r"((?:nn::)?\w+)\(", self.text[ctor:stop]):
            opening = ctor + m.end() - 1
            close = closing(self.text, opening)
            args = parts(self.text, opening + 1, close - 1)
            if args and 'w / "' in args[-1].text:
                yield m[1], Piece("", opening + 1, close - 1), args

    def forward(self, struct: str) -> tuple[int, int]:
        start, end = self.structs[struct]
        at = self.text.find(" forward(", start, end)
        if at < 0:
            return end, end
        return self.text.index("{\n", closing(self.text, at + len(" forward"))), end

    def calls(self, struct: str, pattern: str) -> Iterator[tuple[re.Match, int, list[Piece]]]:
        """(name, where it begins, arguments) of calls in forward()."""
        start, end = self.forward(struct)
        for m in re.finditer(rf"(?<![\w.:]){pattern}\(", self.text[start:end]):
            opening = start + m.end() - 1
            yield m, start + m.start(), parts(self.text, opening + 1, closing(self.text, opening) - 1)


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
        if cls in ("Linear", "Conv1d", "Conv2d") and option_of(args, "bias") != "false":
            yield option("missing bias", "bias", "false")
        if cls == "Linear" and args[0].text == args[1].text:
            now = option_of(args, "weight_order") or '"out_in"'
            yield option("transposed weight", "weight_order", '"in_out"' if now == '"out_in"' else '"out_in"')
        if cls == "GELU":
            now = option_of(args, "approximate") or '"none"'
            yield option("gelu form", "approximate", '"tanh"' if now == '"none"' else '"none"')
        if cls == "AvgPool2d":
            yield option("count include pad", "count_include_pad", "false")
        if cls == "Upsample":
            yield option("align corners", "align_corners", "true")
        if cls == "RNN":
            yield option("activation", "nonlinearity", '"relu"')
        if cls == "Conv2d" and args[2].text == "3" and option_of(args, "padding") == "1":
            both = with_option(args, FIELDS[cls], "padding", "2", last=False)
            again = parts(both, 0, len(both))
            yield Edit(
                struct, path, OPS[cls], None, f"{cls} {path}: dilated", whole.start, whole.end,
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
        if cls in ("Linear", "Conv2d", "LSTM", "GRU", "Embedding", "LayerNorm"):
            weight = "weight_hh_l0" if cls in ("LSTM", "GRU") else "weight"
            yield Edit(
                struct, path, OPS[cls], "wrong weight", f"{cls} {path}: another parameter", args[-1].start, args[-1].end,
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
            yield Edit(
                struct,
                path,
                op,
                None,
                f"sin before {path}",
                at,
                end,
                f"{m[1]}(functional::sin({inner}))",
                True,
            )
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
        if name == "reflection_pad":
            start = at + len("functional::")
            yield Edit(
                struct, "", name, "padding mode", "the nearest", start, start + len(name), "replication_pad"
            )
        if name in ("cos", "sin"):
            other = "sin" if name == "cos" else "cos"
            start = at + len("functional::")
            yield Edit(struct, "", name, "function", f"{other} for {name}", start, start + len(name), other)
    for _, _, args in header.calls(struct, "cat"):
        values = parts(header.text, args[0].start + 1, args[0].end - 1)
        if len(values) == 2 and values[0].text != values[1].text:
            text = f"{{{values[1].text}, {values[0].text}}}"
            yield Edit(
                struct, "", "concat", "part order", "cat the other way", args[0].start, args[0].end, text
            )


def statement_edits(header: Header, struct: str) -> Iterator[Edit]:
    start, end = header.forward(struct)
    body = header.text[start:end]
    for m in re.finditer(r"(?:return|\w+ =) ([^;{}]+);", body):
        for sign, op in ((" + ", "add"), (" * ", "mul"), (" - ", "sub")):
            sides = parts(header.text, start + m.start(1), start + m.end(1), sign)
            if len(sides) != 2 or any(re.search(r"(?<![(,]) [-+*/%] ", flat(side.text)) for side in sides):
                continue
            a, b = sides
            whole = (a.start, b.end)
            if any(re.fullmatch(r"[\d.e-]+", side.text) for side in sides):
                if op == "mul" and re.fullmatch(r"\d+\.\d+", (a if a.text[0].isdigit() else b).text):
                    number = a if a.text[0].isdigit() else b
                    more = f"{float(number.text) * 1.2:.4g}"
                    yield Edit(struct, "", op, "constant or scale", f"{more}", number.start, number.end, more)
                continue
            if op == "add":
                yield Edit(struct, "", op, "missing residual", f"only {b.text}", *whole, b.text)
                yield Edit(struct, "", op, "missing residual", f"only {a.text}", *whole, a.text)
                yield Edit(struct, "", op, "operation", "less for plus", *whole, f"{a.text} - {b.text}")
                yield Edit(
                    struct,
                    "",
                    op,
                    None,
                    "a remainder for a sum",
                    *whole,
                    f"functional::fmod({a.text}, {b.text})",
                )
            if op == "mul":
                yield Edit(struct, "", op, "operation", "plus for times", *whole, f"{a.text} + {b.text}")
            if op == "sub":
                yield Edit(struct, "", op, "operand order", "the other way", *whole, f"{b.text} - {a.text}")
    for m in re.finditer(r"auto \[([\w, ]+)\] = ([^;]+\.(?:chunk|split)<\d>)", body):
        names = m[1].split(", ")
        turned = ", ".join([*names[1:], names[0]])
        kind = "part order or operand order"
        yield Edit(struct, "", "split", kind, "parts turned", start + m.start(1), start + m.end(1), turned)
    for m in re.finditer(r"\.slice\((-?\d+), ([1-9]\d*), (\d+)\)", body):
        low, high = int(m[2]) - 1, int(m[3]) - 1
        text = f".slice({m[1]}, {low}, {high})"
        yield Edit(struct, "", "slice", "slice offset", text, start + m.start(), start + m.end(), text)
    for m in re.finditer(r"\.mean\(", body):
        yield Edit(struct, "", "mean", "reduction", "a sum", start + m.start(), start + m.end(), ".sum(")


def flat(text: str) -> str:
    """Without what stands in brackets."""
    while True:
        shorter = re.sub(r"[({\[][^()\[\]{}]*[)}\]]", "", text)
        if shorter == text:
            return text
        text = shorter
