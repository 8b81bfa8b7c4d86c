"""How models are called and what they give back: dicts, tuples, dataclasses, lists, options."""

from collections import namedtuple
from dataclasses import dataclass, field
from typing import Dict, List, NamedTuple, Optional, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F

from .entry import AXES, entry


@dataclass
class ModelOutput:
    logits: torch.Tensor
    hidden: Optional[torch.Tensor] = None
    extras: Dict[str, torch.Tensor] = field(default_factory=dict)


class DataclassOut(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x, return_hidden: bool = True):
        h = torch.relu(self.body(x))
        out = ModelOutput(logits=self.head(h))
        if return_hidden:
            out.hidden = h
        out.extras["norm"] = h.norm(dim=-1)
        return out


Boxes = namedtuple("Boxes", ["xyxy", "scores"])


class Detection(NamedTuple):
    boxes: Boxes
    labels: torch.Tensor


class BoxHead(nn.Module):
    def __init__(self, n=4):
        super().__init__()
        self.reg, self.score = nn.Linear(5, n), nn.Linear(5, 1)

    def forward(self, feats):
        return Boxes(xyxy=self.reg(feats).cumsum(-1), scores=self.score(feats).sigmoid().squeeze(-1))


class NamedTuples(nn.Module):
    def __init__(self):
        super().__init__()
        self.box, self.cls = BoxHead(), nn.Linear(5, 3)

    def forward(self, feats):
        boxes = self.box(feats)
        best = self.cls(feats).softmax(-1).max(dim=-1)
        return Detection(boxes._replace(scores=best.values * boxes.scores), labels=best.indices)


class MultiTask(nn.Module):
    """Heads by name in a ModuleDict, some with names that C++ keeps for itself."""

    def __init__(self, tasks={"age": 1, "class": 3, "new": 2, "int": 1, "price-eur": 1}):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(6, 8), nn.ReLU())
        self.heads = nn.ModuleDict({k: nn.Sequential(nn.Linear(8, 4), nn.Tanh(), nn.Linear(4, n)) for k, n in tasks.items()})
        self.log_vars = nn.ParameterDict({k: nn.Parameter(torch.zeros(())) for k in ("age", "new")})

    def forward(self, x):
        h = self.trunk(x)
        out = {name: head(h) for name, head in self.heads.items()}
        out["weighted"] = sum(torch.exp(-v) * out[k].pow(2).mean() + v for k, v in self.log_vars.items())
        return out


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.stages = nn.ModuleDict(
            {
                f"stage{i}": nn.ModuleList([nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.Linear(4, 4, bias=False)}) for _ in range(2)])
                for i in range(2)
            }
        )

    def forward(self, x):
        features = {}
        for name, stage in self.stages.items():
            for layer in stage:
                x = layer["a"](x).relu() + layer["b"](x)
            features[name] = [x, {"mean": x.mean(), "pair": (x.min(), x.max())}]
        return features


class OptionalMask(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(5, 5)

    def forward(self, x, mask: Optional[torch.Tensor] = None, *, scale: float = 1.0, bias: Optional[torch.Tensor] = None):
        y = self.lin(x) * scale
        if mask is not None:
            y = y.masked_fill(mask.logical_not(), 0.0)
        if bias is not None:
            y = y + bias
        return y


class ManyInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.ModuleList([nn.Linear(n, 4) for n in (3, 5, 2)])

    def forward(self, *xs, reduce="sum"):
        assert len(xs) == len(self.proj), f"expected {len(self.proj)} inputs, got {len(xs)}"
        ys = torch.stack([p(x) for p, x in zip(self.proj, xs)])
        return getattr(ys, reduce)(dim=0)


class KeywordSoup(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(4))

    def forward(self, x, **kwargs):
        out = x * self.w
        for name in sorted(kwargs):
            out = out + kwargs[name] * len(name)
        return out


class ListInput(nn.Module):
    """Frames in a list, states in a tuple, settings in a dict."""

    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(3, 5)

    def forward(self, frames: List[torch.Tensor], state: Tuple[torch.Tensor, torch.Tensor], config: Dict[str, torch.Tensor]):
        h, count = state
        outs = []
        for i, f in enumerate(frames):
            h = self.cell(f * config["gain"] + config["offset"], h)
            outs.append(h[:, : 5 - i])
        return outs, (h, count + len(frames))


@dataclass
class Observation:
    image: torch.Tensor
    speed: torch.Tensor
    goal: Optional[torch.Tensor] = None


class Policy(nn.Module):
    def __init__(self, actions=3):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, stride=2)
        self.fc = nn.Linear(4 * 9 + 1, 8)
        self.pi, self.v = nn.Linear(8, actions), nn.Linear(8, 1)

    def forward(self, obs: Observation):
        h = torch.cat([F.elu(self.conv(obs.image)).flatten(1), obs.speed.unsqueeze(-1)], 1)
        h = torch.tanh(self.fc(h))
        logp = self.pi(h).log_softmax(-1)
        return {"action": logp.argmax(-1), "entropy": -(logp.exp() * logp).sum(-1), "value": self.v(h).squeeze(-1)}


class EarlyExit(nn.Module):
    """Rows that are sure leave early; a mask keeps their answer."""

    def __init__(self, threshold=0.45):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(6, 6), nn.GELU()) for _ in range(3)])
        self.exits = nn.ModuleList([nn.Linear(6, 3) for _ in range(3)])
        self.threshold = threshold

    def forward(self, x):
        done = torch.zeros(x.shape[0], dtype=torch.bool, device=x.device)
        answer = x.new_zeros(x.shape[0], 3)
        level = torch.full((x.shape[0],), -1, dtype=torch.int64)
        for i, (block, exit) in enumerate(zip(self.blocks, self.exits)):
            x = x + block(x)
            p = exit(x).softmax(-1)
            sure = (p.amax(-1) > self.threshold) & ~done
            answer = torch.where(sure[:, None], p, answer)
            level[sure] = i
            done |= sure
        return answer, level, done


class InPlace(nn.Module):
    """Writes into slices, views and its own temporaries; the input stays as it was."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 6)

    def forward(self, x):
        y = self.fc(x).clone()
        y[:, 0] = 0
        y[:, 1:3] += x[:, 1:3]
        y[:, -1].mul_(2).add_(1)
        even = y[:, ::2]
        even -= even.mean(dim=1, keepdim=True)
        z = torch.empty_like(y)
        z[:] = y.sigmoid()
        z[..., 2:4] = y[..., [3, 2]]
        z[z < 0.3] = -1.0
        row = torch.zeros(6)
        row[torch.tensor([1, 4])] = torch.tensor([2.0, 3.0])
        return z.t_().mul(row[:, None]).T, y.clamp_(-1, 1)


class TiedAutoencoder(nn.Module):
    """One module called twice, a weight used transposed, a module under two names."""

    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(8, 4)
        self.shared = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
        self.also_shared = self.shared
        self.dec_bias = nn.Parameter(torch.zeros(8))

    def forward(self, x):
        z = self.also_shared(self.shared(self.enc(x)))
        return F.linear(z, self.enc.weight.t(), self.dec_bias)


class Residual(nn.Module):
    """Takes the module to apply as an argument."""

    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)

    def forward(self, x, sublayer):
        return x + sublayer(self.norm(x))


class AnnotatedLayer(nn.Module):
    """The Annotated Transformer's way: sublayers passed as lambdas and modules."""

    def __init__(self, d=8):
        super().__init__()
        self.sub = nn.ModuleList([Residual(d) for _ in range(2)])
        self.attn = nn.MultiheadAttention(d, 2, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(d, 16), nn.ReLU(), nn.Linear(16, d))

    def forward(self, x):
        x = self.sub[0](x, lambda t: self.attn(t, t, t, need_weights=False)[0])
        return self.sub[1](x, self.ff)


class SequentialsInAList(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(6, 6), nn.ReLU()) for _ in range(3)])

    def forward(self, x):
        for b in self.blocks:
            x = b(x)
        return x


class NamesOfFunctions(nn.Module):
    """Members named like functions of a library."""

    def __init__(self):
        super().__init__()
        self.cat, self.matmul, self.where = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)
        self.stack = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
        self.sum = nn.Parameter(torch.ones(4))

    def forward(self, x):
        y = torch.cat([self.cat(x), self.matmul(x)], -1).view(-1, 2, 4)
        for layer in self.stack:
            y = torch.where(y > 0, layer(y), y * self.sum)
        return torch.matmul(y, self.where(x).unsqueeze(-1)).sum(1)


_CELLS = " ".join(f"frames.{i}=f32[batch,3]" for i in range(3))

MODELS = [
    entry("dataclass_result", DataclassOut, "x=f32[batch,6]", batch=2),
    entry("dataclass_result_flag", DataclassOut, "x=f32[batch,6]", plain={"return_hidden": False}, batch=2),
    entry("namedtuple_result", NamedTuples, "feats=f32[batch,n,5]", dynamic=AXES, batch=2, n=(4, 1, 3, 7)),
    entry("multi_task_dict", MultiTask, "x=f32[batch,6]", batch=2),
    entry("nested_containers", Nested, "x=f32[batch,4]", batch=2),
    entry("optional_absent", OptionalMask, "x=f32[batch,5]", batch=2),
    entry(
        "optional_given",
        OptionalMask,
        "x=f32[batch,5] mask=bool[batch,5] bias=f32[5]",
        plain={"scale": 0.5},
        dynamic={"x": {0: "batch"}, "mask": {0: "batch"}},
        batch=2,
    ),
    entry("star_args", ManyInputs, "xs.0=f32[batch,3] xs.1=f32[batch,5] xs.2=f32[batch,2]", batch=2),
    entry("star_args_option", ManyInputs, "xs.0=f32[batch,3] xs.1=f32[batch,5] xs.2=f32[batch,2]", plain={"reduce": "mean"}, batch=2),
    entry("star_kwargs", KeywordSoup, "x=f32[batch,4] left=f32[batch,4] up=f32[batch,1]", batch=2),
    entry(
        "list_inputs",
        ListInput,
        f"{_CELLS} state.0=f32[batch,5] state.1=i64[]<9 config.gain=f32[] config.offset=f32[3]",
        dynamic={**{f"frames.{i}": {0: "batch"} for i in range(3)}, "state.0": {0: "batch"}},
        batch=2,
    ),
    entry(
        "dataclass_input",
        Policy,
        lambda s, g: {"obs": Observation(torch.randn(s["batch"], 1, 8, 8, generator=g), torch.randn(s["batch"], generator=g))},
        batch=3,
    ),
    entry("early_exit", EarlyExit, "x=f32[batch,6]", batch=6),
    entry("in_place_writes", InPlace, "x=f32[batch,6]", batch=3),
    entry("tied_autoencoder", TiedAutoencoder, "x=f32[batch,8]", batch=3),
    entry("annotated_transformer", AnnotatedLayer, "x=f32[batch,seq,8]", dynamic=AXES, batch=2, seq=(5, 1, 3, 9)),
    entry("sequentials_in_a_list", SequentialsInAList, "x=f32[batch,6]", batch=3),
    entry("names_of_functions", NamesOfFunctions, "x=f32[batch,4]", batch=3),
]
