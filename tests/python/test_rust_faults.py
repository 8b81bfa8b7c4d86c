"""Mistakes put into emitted Rust on purpose: all are found, and named where they are. One program has them all, a module each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import generating_models
import pytest
import torch
from rust_crates import cargo, passes
from torch import nn

from pycandle import GoldenRecorder, perturb


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(out)) + x)


class Cnn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.blocks = nn.ModuleList(Residual(8) for _ in range(2))
        self.fc = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.max_pool2d(self.stem(x), 3, 2, 1)
        for block in self.blocks:
            x = block(x)
        return self.fc(x.mean((2, 3)))


# What is wrong: a pattern in emitted code, and what stands there instead. Each place where it fits is a mistake.
MISTAKES = {
    "another eps of a norm": (r"(norm\([^()]*?, )(c\.\w*eps\w*|1e-5)(, )", r"\g<1>1e-2\3"),
    "the other GELU": (r"\.gelu\(\)\?", ".gelu_erf()?"),
    "ReLU for SiLU": (r"\.silu\(\)\?", ".relu()?"),
    "GELU for ReLU": (r"\.relu\(\)\?", ".gelu()?"),
    "not causal": (
        r"ops::causal_attention\((.*?)\)\?",
        r"ops::scaled_dot_product_attention(\1, Default::default())?",
    ),
    "half of the heads": (r"(ops::split_heads\(&query_states, self\.\w+)\)", r"\1 / 2)"),
    "heads of the wrong axis": (r"ops::merge_heads\(&(\w+)\)", r"ops::merge_heads(&\1.flip(&[1])?)"),
    "cos and sin swapped in use": (r"ops::rotary\(&(\w+), cos, sin\)", r"ops::rotary(&\1, sin, cos)"),
    "cos and sin swapped": (r"emb\.cos\(\)\?, emb\.sin\(\)\?", "emb.sin()?, emb.cos()?"),
    "positions begin at one": (r"Tensor::arange\(0, (\S+) as i64,", r"Tensor::arange(1, 1 + \1 as i64,"),
    "positions for each sequence": (r"position_ids\.unsqueeze\(0\)\?", "position_ids.unsqueeze(0)?.repeat((2, 1))?"),
    "queries for keys": (r"\[query_states, key_states, value_states\]", "[key_states, query_states, value_states]"),
    "values for keys": (r"\[query_states, key_states, value_states\]", "[query_states, value_states, key_states]"),
    "a residual left out": (r"\((&?\w+) \+ (&?\w+)\)\?", r"(\1 * 1.0)?"),
    "a branch left out": (r"\((&?\w+) \+ (&?\w+)\)\?", r"(\2 * 1.0)?"),
    "the last residual left out": (r"(?m)^( +)(&\w+) \+ (&\w+)$", r"\1\2 * 1.0"),
    "the last branch left out": (r"(?m)^( +)(&\w+) \+ (&\w+)$", r"\1\3 * 1.0"),
    "a difference for a sum": (r"\((&?\w+) \+ (&?\w+)\)\?", r"(\1 - \2)?"),
    "a missing transpose": (r"nn::linear_in_out\(c\.n_embd, c\.n_embd, true, ", "candle_nn::linear(c.n_embd, c.n_embd, "),
    "a layer twice": (r'layer\.forward\(&hidden_states, &cos, &sin\)\?', "layer.forward(&layer.forward(&hidden_states, &cos, &sin)?, &cos, &sin)?"),
    "mean for max": (r"ops::max_pool2d\(&(\w+), 3, 2, 1\)", r"ops::avg_pool(&\1, &[3, 3], ops::Pool { stride: &[2, 2], padding: &[1, 1], ..Default::default() })"),
}  # fmt: skip
# Weights of one shape, each read in the place of the other.
SWAPPED = [("ln_1", "ln_2"), ("k_proj", "v_proj"), ("gate_proj", "up_proj"), ("q_proj", "o_proj"), ("bn1", "bn2"), ("conv1", "conv2"), ("input_layernorm", "post_attention_layernorm")]  # fmt: skip
MISTAKES |= {
    f"{a} reads {b}": (rf'vb\.pp\("{a}"\)', f'vb.pp("{b}")') for x, y in SWAPPED for a, b in ((x, y), (y, x))
}


@dataclass(frozen=True)
class Fault:
    model: str
    what: str
    text: str
    layer: str  # the last part of its path, or the struct that gives the value


def faults_of(model: str, text: str) -> list[Fault]:
    found = []
    for what, (pattern, replacement) in MISTAKES.items():
        for match in re.finditer(pattern, text):
            changed = text[: match.start()] + match.expand(replacement) + text[match.end() :]
            found.append(Fault(model, what, changed, layer_at(text, match.start())))
    return found


def layer_at(text: str, place: int) -> str:
    """Where the checks see it: the field that is loaded, else the next check, else the struct."""
    begin, end = text.rindex("\n", 0, place) + 1, text.index("\n    }\n", place)
    if text.rfind("    pub fn load", 0, place) > text.rfind("    pub fn forward", 0, place) or (
        text.rfind("    pub fn with_config", 0, place) > text.rfind("    pub fn forward", 0, place)
    ):
        return re.findall(r"^ {12}(\w+): ", text[:place] + text[place : text.index("\n", place)], re.M)[-1]
    check = re.search(r'py_check!\(\s*self\.checker,\s*(?:"([\w.]+)"|format!\("(\w+)\.)', text[begin:end])
    if check:
        return (check[1] or check[2]).split(".")[-1]
    return re.findall(r"^impl (\w+) ", text[:place], re.M)[-1]


MAIN = """#![allow(warnings)]
use candle_core::{DType, Device, Result, Tensor};
use candle_nn::VarBuilder;
use pycandle::PyChecker;
%s
type Weights = VarBuilder<'static>;

fn run(number: usize, recording: &str, folder: &str, f: fn(Weights, PyChecker, &Tensor) -> Result<()>) -> Result<()> {
    let checker = PyChecker::collecting(recording, folder, &Device::Cpu)?;
    let x = &checker.inputs()?[0];
    let outcome = checker.placed(f(checker.weights(DType::F32)?, checker.clone(), x));
    match (checker.report().first_wrong(), outcome) {
        (Some(wrong), _) => println!("{number} {}", wrong.layer),
        (None, Err(error)) => println!("{number} error {}", error.to_string().replace('\\n', " ")),
        (None, Ok(())) => println!("{number} nothing"),
    }
    Ok(())
}

fn main() -> Result<()> {
%s
    Ok(())
}
"""


def in_one_program(faults: list[Fault], folders: dict[str, Path], crate: Path) -> None:
    mods, calls = [], []
    for number, fault in enumerate(faults):
        (crate / "src" / f"fault_{number}.rs").write_text(fault.text)
        root = re.findall(r"^pub struct (\w+)", fault.text, re.M)[-1]
        mods.append(f"mod fault_{number};")
        calls.append(
            f'    run({number}, "model", "{folders[fault.model]}", |vb, checker, x| {{ '
            f"fault_{number}::{root}::load(vb, Some(checker))?.forward(x).map(drop) }})?;"
        )
    (crate / "src" / "main.rs").write_text(MAIN % ("\n".join(mods), "\n".join(calls)))
    (crate / "src" / "lib.rs").unlink()


def structs_of(fault: Fault) -> dict[str, str]:
    """The last part of a layer's path → the struct that it is."""
    return dict(re.findall(r"^    pub (\w+): (?:Vec<)?(\w+)>?,", fault.text, re.M))


@pytest.mark.full
def test_mistakes_in_emitted_rust_are_found_where_they_are(tmp_path, pycandle):
    folders = {}
    for name in ("gpt2", "llama"):
        folders[name] = tmp_path / name
        folders[name].mkdir()
        model = perturb(generating_models.make(name), seed=2)
        generating_models.record(model, folders[name])
    folders["cnn"] = tmp_path / "cnn"
    recorder = GoldenRecorder(folders["cnn"])
    torch.manual_seed(1)
    recorder.record(perturb(Cnn().eval(), seed=1), torch.randn(2, 3, 17, 17))
    recorder.save("model")
    faults = []
    crate = tmp_path / "faults"
    for name, folder in folders.items():
        pycandle("codegen", "--manifest", folder, "--target", "candle", "--out", crate)
        source = crate / "src" / "lib.rs"
        faults += faults_of(name, source.read_text())
        source.unlink()
        (crate / "tests" / "parity.rs").unlink()
    (crate / "src" / "lib.rs").write_text("")
    assert len(faults) >= 40
    assert len({fault.what for fault in faults}) >= 25
    in_one_program(faults, folders, crate)
    run = cargo(crate, "run")
    passes(run)
    missed = []
    for line in run.stdout.splitlines():
        number, layer = line.split(" ", 1)
        fault = faults[int(number)]
        path = [part for part in layer.split("@")[0].split(".") if not part.isdigit()] or [""]
        named = (
            path[-1] == fault.layer
            or structs_of(fault).get(path[-1]) == fault.layer
            or (fault.layer in path[:1] and fault.what == "mean for max")  # before the first of them
            or layer.startswith("error after the layer")
        )
        if not named:
            missed.append(f"{fault.model}: {fault.what} in {fault.layer}: {layer}")
    assert len(run.stdout.splitlines()) == len(faults)
    assert not missed, "\n".join(missed)
