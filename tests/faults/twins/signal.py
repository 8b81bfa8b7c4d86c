"""Sound, recurrence and scans."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from .twin import F32, PLAIN, Twin, Variant, random, stored, turned


class Spectrum(nn.Module):
    """The loudness of bands, then two convolutions over time."""

    def __init__(self, **knobs) -> None:
        super().__init__()
        window, size = knobs.get("window", torch.hann_window), 32
        self.register_buffer("window", window(size, periodic=knobs.get("periodic", True)))
        self.register_buffer("bands", torch.rand(10, 17, generator=torch.Generator().manual_seed(3)))
        self.hop, self.is_normal = knobs.get("hop", 16), knobs.get("is_normal", False)
        self.is_centred, self.mode = knobs.get("is_centred", True), knobs.get("mode", "reflect")
        self.least, self.power = knobs.get("least", 40.0), knobs.get("power", 2.0)
        self.log = knobs.get("log", torch.log10)
        self.first = nn.Conv1d(10, 12, 3, padding=1)
        self.second = nn.Conv1d(12, 8, 3, stride=2, padding=1)

    def spectrum(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stft(
            x, 32, self.hop, window=self.window, center=self.is_centred, pad_mode=self.mode,
            normalized=self.is_normal, return_complex=True,
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        loud = self.bands @ self.spectrum(x).abs().pow(self.power)
        y = self.log(loud.clamp(min=self.least))
        return F.gelu(self.second(F.gelu(self.first(y))))


SPECTRUM = (
    turned(
        "a Hamming window",
        "window or stored weight or wrong weight",
        is_buffer=True,
        window=torch.hamming_window,
    ),
    turned("a symmetric window", "window or stored weight or wrong weight", is_buffer=True, periodic=False),
    turned("normalised", "normalisation", is_normal=True),
    turned("padded with zeros", "padding mode", mode="constant"),
    turned("magnitude for power", "constant or operation", power=1.0),
    turned("another least loudness", "clamp bound", least=50.0),
    turned("natural logarithm", "log or function", log=torch.log),
    stored("flipped", "first.weight"),
    stored("rows swapped", "second.weight"),
    stored("bias zeroed", "first.bias"),
    stored("times 1.02", "second.weight"),
)


class HandGru(nn.Module):
    def __init__(self, **knobs) -> None:
        super().__init__()
        self.of_input, self.of_state = nn.Linear(10, 36), nn.Linear(12, 36)
        self.reset_first, self.order = knobs.get("reset_first", False), knobs.get("gates", (0, 1, 2))
        self.is_turned, self.act = knobs.get("is_turned", False), knobs.get("act", torch.tanh)
        self.out = nn.Linear(12, 5)

    def step(self, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        mine = self.of_input(x).chunk(3, -1)
        reset, update, new = (mine[i] for i in self.order)
        of_reset, of_update, of_new = self.of_state(h).chunk(3, -1)
        r, z = torch.sigmoid(reset + of_reset), torch.sigmoid(update + of_update)
        if self.reset_first:
            w, b = self.of_state.weight[24:], self.of_state.bias[24:]
            n = self.act(new + F.linear(r * h, w, b))
        else:
            n = self.act(new + r * of_new)
        return (1 - z) * h + z * n if self.is_turned else (1 - z) * n + z * h

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.zeros(x.shape[0], 12, dtype=x.dtype)
        for at in range(3):
            h = self.step(x[:, at], h)
        return self.out(h)


HAND_GRU = (
    turned("reset before the product", "gru reset", reset_first=True),
    turned("gates exchanged", "part order or gate order or operand order", gates=(1, 0, 2)),
    turned("update the other way", "operand order or wrong input", is_turned=True),
    turned("sigmoid for tanh", "activation", act=torch.sigmoid),
    stored("rows swapped", "of_state.weight"),
    stored("bias zeroed", "of_input.bias"),
    stored("rows reversed", "of_input.weight"),
)


class Recurrent(nn.Module):
    """torch's own cells."""

    def __init__(self, **knobs) -> None:
        super().__init__()
        self.gru = nn.GRU(8, 10, 2, batch_first=True)
        self.lstm = nn.LSTM(10, 6, batch_first=True, bidirectional=True)
        self.out, self.last = nn.Linear(12, 5), knobs.get("last", -1)
        self.is_reversed, self.state = knobs.get("is_reversed", False), knobs.get("state", "output")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, _ = self.gru(x.flip(1) if self.is_reversed else x)
        y, (h, c) = self.lstm(y)
        if self.state == "output":
            y = y[:, self.last]
        else:
            y = torch.cat([*(h if self.state == "hidden" else c)], -1)
        return self.out(y)


RECURRENT = (
    turned("the step before the last", "slice offset or index offset or off by one", last=-2),
    turned("time reversed", "direction order", is_reversed=True),
    turned("hidden for output", "", state="hidden"),
    turned("cell for output", "", state="cell"),
    stored("gates exchanged", "gru.weight_ih_l0"),
    stored("bias zeroed", "gru.bias_hh_l1"),
    stored("negated", "lstm.weight_hh_l0_reverse"),
    stored("times 1.02", "lstm.weight_ih_l0"),
    stored("rows swapped", "lstm.bias_ih_l0"),
)


class Scan(nn.Module):
    """A state space, summed in logarithms."""

    def __init__(self, **knobs) -> None:
        super().__init__()
        self.mix, self.step, self.out = nn.Linear(12, 24), nn.Linear(12, 12), nn.Linear(12, 6)
        self.decay = nn.Parameter(torch.linspace(-1, 1, 12))
        self.threshold, self.beta = knobs.get("threshold", 20.0), knobs.get("beta", 1.0)
        self.act, self.share = knobs.get("act", "softplus"), knobs.get("share", torch.sigmoid)
        self.taps = nn.Conv1d(12, 12, 4, groups=12)
        self.before, self.is_exclusive = knobs.get("before", 3), knobs.get("is_exclusive", False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, gate = self.mix(x).chunk(2, -1)
        y = self.taps(F.pad(y.transpose(1, 2), (self.before, 3 - self.before))).transpose(1, 2)
        step = self.step(y)
        if self.act == "softplus":
            step = F.softplus(step, self.beta, self.threshold)
        elif self.act == "relu":
            step = F.relu(step)
        total = torch.cumsum(-step * torch.exp(self.decay) * 0.1, 1)
        if self.is_exclusive:
            total = F.pad(total[:, :-1], (0, 0, 1, 0))
        y = torch.exp(total) * torch.cumsum(y * torch.exp(-total), 1)
        return self.out(y * self.share(gate))


SCAN = (
    turned("another threshold", "softplus threshold", threshold=0.2),
    turned("another beta", "softplus beta or constant or scale", beta=1.5),
    turned("ReLU for softplus", "activation", act="relu"),
    turned("no softplus", "activation or missing activation", act=""),
    turned("SiLU for sigmoid", "activation", share=F.silu),
    turned("padding behind", "padding side", before=0),
    turned("one step of padding moved", "padding side or constant", before=2),
    turned(
        "sums without the own step", "direction order or slice offset", is_listed=False, is_exclusive=True
    ),
    stored("flipped", "taps.weight"),
    stored("negated", "decay", "stored weight or operation"),
    stored("rows swapped", "taps.weight"),
)


class Wave(nn.Module):
    """A vocoder's blocks: dilated convolutions with snake and leaky units."""

    def __init__(self, **knobs) -> None:
        super().__init__()
        self.first = nn.Conv1d(4, 8, 5, padding=2)
        dilation = knobs.get("dilation", 3)
        self.wide = nn.Conv1d(8, 8, 3, padding=dilation, dilation=dilation)
        self.up = nn.ConvTranspose1d(8, 6, 4, 2, 1)
        self.alpha, self.slope = nn.Parameter(torch.ones(8, 1)), knobs.get("slope", 0.1)
        self.small, self.half = knobs.get("small", 1e-3), knobs.get("half", 2)
        self.end = knobs.get("end", torch.tanh)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        x = x + torch.sin(self.alpha * x).pow(self.half) / (self.alpha + self.small)
        x = x + self.wide(F.leaky_relu(x, self.slope))
        return self.end(self.up(F.leaky_relu(x, 0.01)))


WAVE = (
    turned("another dilation", "dilation", dilation=2),
    turned("another slope", "slope", slope=0.2),
    turned("a slope of the default", "slope", slope=0.01),
    turned("another small number", "constant or epsilon", small=1e-2),
    turned("sine to the first power", "constant or operation", half=1),
    turned("no tanh", "activation or missing activation", end=lambda x: x),
    turned("sigmoid for tanh", "activation", end=torch.sigmoid),
    stored("flipped", "wide.weight"),
    stored("columns swapped", "up.weight"),
    stored("bias zeroed", "up.bias"),
)

TWINS = (
    Twin("spectrum", Spectrum, random(2, 160), SPECTRUM, (Variant(F32),)),
    Twin("hand_gru", HandGru, random(4, 3, 10), HAND_GRU),
    Twin("recurrent", Recurrent, random(3, 6, 8), RECURRENT),
    Twin("scan", Scan, random(2, 9, 12), SCAN),
    Twin("wave", Wave, random(2, 4, 24), WAVE, (*PLAIN, Variant(F32, True)), "first.weight"),
)
