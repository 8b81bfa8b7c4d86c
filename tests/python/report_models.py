"""Small recordings for the tests of `pycandle report`, right ones and broken ones."""

from __future__ import annotations

import json
import re
from pathlib import Path

import torch
from torch import nn

from pycandle import GoldenRecorder

SCRIPT = "</script><script>alert(1)</script><!--"  # a model's name has no slash: classes, notes and source lines have
HOSTILE = "<script>alert(1)<img src=x onerror=alert(2)>\"'`|<!-- \u202e" + "\u05d0\u05d1" + "x" * 300


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.up = nn.Linear(16, 32)
        self.act = nn.GELU()
        self.down = nn.Linear(32, 16)

    def forward(self, x):
        return x + self.down(self.act(self.up(self.norm(x))))


class Stack(nn.Module):
    def __init__(self, depth: int = 3) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(depth))
        self.head = nn.Linear(16, 8)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def recorded(folder: Path, depth: int = 3) -> Path:
    torch.manual_seed(0)
    recorder = GoldenRecorder(folder, progress=lambda text: None)
    recorder.record(Stack(depth).eval(), torch.randn(2, 5, 16))
    return Path(recorder.save("stack").manifest)


def edited(manifest: Path, folder: Path, change) -> Path:
    """A copy of the recording whose manifest was changed."""
    folder.mkdir(parents=True, exist_ok=True)
    document = json.loads(manifest.read_text())
    change(document)
    for file in manifest.parent.glob("*.safetensors"):
        (folder / file.name).symlink_to(file)
    copy = folder / manifest.name
    copy.write_text(json.dumps(document))
    return copy


def with_tanh_gelu(document: dict) -> None:
    """The GELU of the second block is another one than the model's."""
    gelus = [node for node in document["nodes"] if node["op"] == "aten.gelu.default"]
    next(argument for argument in gelus[1]["args"] if argument[0] == "approximate")[1] = "tanh"


def with_hostile_texts(document: dict) -> None:
    document["name"] = HOSTILE
    document["notes"].append(SCRIPT)
    for call in document["module_calls"]:
        call["class"] = SCRIPT


def data_of(page: str) -> dict:
    """The document inside a page."""
    found = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert len(found) == 1
    return json.loads(found[0])
