"""One class of Python is one class of C++: calls that differ in an argument that is left out, or in an attribute."""

from __future__ import annotations

import re
from types import SimpleNamespace

import torch
from emitted_models import emitted_together
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    """Of x to itself, with or without a mask, or to other states."""

    def __init__(self, width: int, is_causal: bool = False) -> None:
        super().__init__()
        self.is_causal = is_causal
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)

    def forward(self, x, states=None):
        current = x if states is None else states
        q = self.q(x).unflatten(-1, (2, -1)).transpose(1, 2)
        k = self.k(current).unflatten(-1, (2, -1)).transpose(1, 2)
        v = self.v(current).unflatten(-1, (2, -1)).transpose(1, 2)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=self.is_causal)
        return self.out(attended.transpose(1, 2).flatten(2))


class Pair(nn.Module):
    """An encoder and a decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = Attention(8)
        self.decoder = Attention(8, is_causal=True)
        self.cross = Attention(8)

    def forward(self, x, y):
        x = self.encoder(x)
        return self.cross(self.decoder(y), x)


class Mix(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, a, b, c=None):
        return self.left(a) * self.right(b if c is None else c)


class GivenTwice(nn.Module):
    """One argument for two, and both: the class takes two."""

    def __init__(self) -> None:
        super().__init__()
        self.own, self.other = Mix(), Mix()

    def forward(self, x, y):
        return self.other(self.own(x, x), y)


class LeftOutBefore(nn.Module):
    """What is left out stands before what is given."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Gate(), Gate()

    def forward(self, x, y):
        return self.second(self.first(x, y, x + y), None, x)


class Gate(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x, gate, added):
        return self.up(x) * torch.sigmoid(self.down(x if gate is None else gate)) + added


class Secret(nn.Module):
    """What decides is no attribute that a reader could be shown: two classes."""

    def __init__(self, mode: list) -> None:
        super().__init__()
        self._mode = mode
        self.q = nn.Linear(8, 8)

    def forward(self, x):
        q = self.q(x).unflatten(-1, (2, -1)).transpose(1, 2)
        return F.scaled_dot_product_attention(q, q, q, is_causal=bool(self._mode)).transpose(1, 2).flatten(2)


class Secrets(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = Secret([]), Secret([1])

    def forward(self, x):
        return self.b(self.a(x))


def structs(text: str) -> list[str]:
    return re.findall(r"^struct (\w+) : nn::Module", text, re.M)


def test_arguments_that_are_left_out_and_attributes_make_no_second_class(tmp_path, pycandle) -> None:
    x, y = torch.randn(2, 5, 8), torch.randn(2, 3, 8)
    small = {"x": torch.randn(3, 4), "y": torch.randn(3, 4)}
    texts = emitted_together(
        {
            "pair": (Pair, {"x": x, "y": y}),
            "twice": (GivenTwice, small),
            "before": (LeftOutBefore, small),
            "secrets": (Secrets, {"x": x}),
        },
        tmp_path,
        pycandle,
    )
    pair = texts["pair"]
    assert structs(pair) == ["Attention", "Pair"]
    assert "Attention(bool is_causal, const Weights& w)" in pair
    assert "forward(const Tensor& x, const Tensor& states = {})" in pair
    assert "const Tensor current = states.defined() ? states : x;" in pair
    assert "return cross(decoder(y), x);" in pair
    assert structs(texts["twice"]) == ["Mix", "GivenTwice"] and "own(x, x)" in texts["twice"]
    assert structs(texts["before"]) == ["Gate", "LeftOutBefore"]
    assert "second(first(x, y, x + y), Tensor(), x)" in texts["before"]
    assert len(structs(texts["secrets"])) == 3, "a boolean is never invented"


class Attended(nn.Module):
    def __init__(self, config, heads: int) -> None:
        super().__init__()
        self.num_heads = heads
        self.head_dim = config.d_model // heads
        self.scaling = self.head_dim**-0.5
        self.q, self.k, self.v = (nn.Linear(config.d_model, config.d_model) for _ in range(3))

    def forward(self, x):
        q = self.q(x) * self.scaling
        q, k, v = (y.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for y in (q, self.k(x), self.v(x)))
        return F.scaled_dot_product_attention(q, k, v, scale=1.0).transpose(1, 2).flatten(2)


class EncoderLayer(nn.Module):
    def __init__(self, config) -> None:
        super().__init__()
        self.attn = Attended(config, config.encoder_attention_heads)

    def forward(self, x):
        return x + self.attn(x)


class DecoderLayer(nn.Module):
    def __init__(self, config) -> None:
        super().__init__()
        self.attn = Attended(config, config.decoder_attention_heads)
        self.fc = nn.Linear(config.d_model, config.decoder_ffn_dim)
        self.out = nn.Linear(config.decoder_ffn_dim, config.d_model)

    def forward(self, x):
        return x + self.out(self.fc(self.attn(x)).relu())


class Encoder(nn.Module):
    def __init__(self, config) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class Decoder(nn.Module):
    def __init__(self, config) -> None:
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class TwoHalves(nn.Module):
    """All numbers of the two halves are equal: nothing but names tells them apart."""

    def __init__(self) -> None:
        super().__init__()
        half = {"layers": 3, "attention_heads": 2, "ffn_dim": 16}
        sides = {f"{side}_{name}": n for side in ("encoder", "decoder") for name, n in half.items()}
        self.config = SimpleNamespace(d_model=8, **sides)
        self.encoder, self.decoder = Encoder(self.config), Decoder(self.config)

    def forward(self, x):
        return self.decoder(self.encoder(x))


def struct(text: str, name: str) -> str:
    return re.search(rf"^struct {name} .*?^}};$", text, re.M | re.S).group()


class Padded(nn.Module):
    """Layers of torch.nn that are one call each, and two that are given their state."""

    def __init__(self) -> None:
        super().__init__()
        self.reflected, self.zero = nn.ReflectionPad2d((1, 2, 0, 1)), nn.ZeroPad2d(1)
        self.constant, self.repeated = nn.ConstantPad2d((1, 0, 2, 0), 0.5), nn.ReplicationPad2d(2)
        self.circular, self.norm = nn.CircularPad2d(1), nn.InstanceNorm2d(3, affine=True)
        self.plain = nn.InstanceNorm2d(3)

    def forward(self, x):
        x = self.plain(self.constant(self.zero(self.reflected(x))))
        return self.norm(self.circular(self.repeated(x)))


class Stateful(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(4, 6, batch_first=True)
        self.lstm = nn.LSTM(6, 6, batch_first=True)

    def forward(self, x, h):
        y, h = self.gru(x, h)
        y, (h, c) = self.lstm(y, (h, h * 2))
        return y + h.transpose(0, 1) * c.transpose(0, 1)


class Repeats(nn.Module):
    """Its output is twice as long as its input, whose length is a product of two open sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        positions = torch.arange(x.shape[0] * 2).unsqueeze(1)
        twice = x.unsqueeze(1).expand(-1, 2, -1).reshape(x.shape[0] * 2, 4)
        return self.fc(twice) * positions


class Flattened(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Repeats()

    def forward(self, x):
        return self.inner(x.flatten(0, 1)).unflatten(0, (x.shape[0], -1))


class Smooth(nn.Module):
    def forward(self, x):
        return x * (1 - 0.9) + x.roll(1) * 0.9


def test_numbers_layers_and_sizes_are_said_as_python_says_them(tmp_path, pycandle) -> None:
    x = torch.randn(2, 5, 8)
    texts = emitted_together(
        {
            "halves": (TwoHalves, {"x": x}),
            "padded": (Padded, {"x": torch.randn(2, 3, 6, 6)}),
            "stateful": (Stateful, {"x": torch.randn(2, 5, 4), "h": torch.randn(1, 2, 6)}),
            "flattened": (Flattened, {"x": torch.randn(2, 5, 4)}),
            "smooth": (Smooth, {"x": torch.randn(3, 4)}),
        },
        tmp_path,
        pycandle,
    )
    halves = texts["halves"]
    assert "layers(c.encoder_layers, " in struct(halves, "Encoder")
    assert "layers(c.decoder_layers, " in struct(halves, "Decoder")
    assert "attn(c, c.encoder_attention_heads, " in struct(halves, "EncoderLayer")
    layer = struct(halves, "DecoderLayer")
    assert "attn(c, c.decoder_attention_heads, " in layer and "fc(c.d_model, c.decoder_ffn_dim, " in layer
    attended = struct(halves, "Attended")
    assert "scaling(std::pow(c.d_model / num_heads, -0.5))" in attended and "q(x) * scaling" in attended
    padded = texts["padded"]
    assert structs(padded) == ["Padded"]
    assert 'reflected({1, 2, 0, 1}, w / "reflected")' in padded and 'zero(1, w / "zero")' in padded
    assert (
        'constant({1, 0, 2, 0}, 0.5, w / "constant")' in padded
        and "nn::InstanceNorm2d plain, norm;" in padded
    )
    stateful = texts["stateful"]
    assert structs(stateful) == ["Stateful"] and "gru(x, h)" in stateful and "lstm(" in stateful
    assert structs(texts["flattened"]) == ["Repeats", "Flattened"] and "2 * x.dim(0)" in texts["flattened"]
    assert "x * (1 - 0.9)" in texts["smooth"] and "0.09999" not in texts["smooth"]
