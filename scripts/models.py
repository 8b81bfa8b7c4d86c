"""Writes models/: well-known models at their full size as `pycandle codegen` emits them, the table of them, and the emitted code
that the documents show.

They are recorded on the meta device: code is about shapes, so no weights are needed, and a model of any size takes seconds.

    scripts/models.py [NAME ...]
"""

from __future__ import annotations

import argparse
import ast
import functools
import importlib.util
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import nn

from pycandle import GoldenRecorder

ROOT = Path(__file__).resolve().parents[1]
MODELS = ROOT / "models"
sys.path[:0] = [str(ROOT / "examples"), str(MODELS / "lstm_tagger")]

BATCH_SEQUENCE = {0: "batch", 1: "sequence"}


@dataclass(frozen=True)
class Model:
    name: str
    title: str
    make: Callable[[], nn.Module]
    inputs: dict[str, torch.Tensor]
    dynamic: dict
    stateful: bool = False  # the decode step, beside the model itself
    layers: int = 0  # of a model whose layers are all alike: `make` takes another number too

    def with_layers(self, layers: int) -> Model:
        return replace(self, make=functools.partial(self.make, layers))

    @property
    def header(self) -> Path:
        return MODELS / self.name / ("decode.hpp" if self.stateful else "model.hpp")

    @property
    def rust(self) -> Path:
        return self.header.with_suffix(".rs")


def torchvision_model(name: str, title: str) -> Model:
    def make() -> nn.Module:
        import torchvision

        return getattr(torchvision.models, name)(weights=None)

    return Model(name, title, make, {"x": torch.zeros(2, 3, 224, 224)}, {"x": {0: "batch"}})


def text_model(name: str, title: str, make: Callable, *inputs: str, layers: int = 0) -> Model:
    ids = torch.zeros(2, 9, dtype=torch.int64)
    sizes = dict.fromkeys(inputs, BATCH_SEQUENCE)
    return Model(name, title, make, dict.fromkeys(inputs, ids), sizes, layers=layers)


def gpt2(layers: int = 12) -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(n_layer=layers, use_cache=False))


def llama(layers: int = 32) -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=128256, hidden_size=4096, intermediate_size=14336, num_hidden_layers=layers,
        num_attention_heads=32, num_key_value_heads=8, max_position_embeddings=8192, rms_norm_eps=1e-5,
        rope_theta=500000.0, use_cache=False,
    )  # fmt: skip
    return LlamaForCausalLM(config)


def whisper() -> nn.Module:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    return WhisperForConditionalGeneration(WhisperConfig(use_cache=False))


def mixtral(layers: int = 32) -> nn.Module:
    from transformers import MixtralConfig, MixtralForCausalLM

    return MixtralForCausalLM(MixtralConfig(num_hidden_layers=layers, use_cache=False))


def minilm() -> nn.Module:
    from minilm import SentenceEncoder

    with torch.device("cpu"):
        return SentenceEncoder()


def vit(layers: int = 12) -> nn.Module:
    from torchvision.models import VisionTransformer

    return VisionTransformer(
        image_size=224, patch_size=16, num_layers=layers, num_heads=12, hidden_dim=768, mlp_dim=3072
    )


def tagger() -> nn.Module:
    from tagger import Tagger

    return Tagger()


GPT2 = text_model("gpt2", "GPT-2", gpt2, "input_ids", layers=12)
LLAMA = text_model("llama", "Llama 3, 8B", llama, "input_ids", layers=32)
ALL = [
    torchvision_model("resnet34", "ResNet-34"),
    torchvision_model("mobilenet_v2", "MobileNetV2"),
    GPT2,
    LLAMA,
    replace(GPT2, title="GPT-2, token by token", stateful=True),
    replace(LLAMA, title="Llama 3, token by token", stateful=True),
    Model(
        "whisper",
        "Whisper, tiny",
        whisper,
        {
            "input_features": torch.zeros(2, 80, 3000),
            "decoder_input_ids": torch.zeros(2, 9, dtype=torch.int64),
        },
        {"input_features": {0: "batch"}, "decoder_input_ids": BATCH_SEQUENCE},
    ),
    text_model("mixtral", "Mixtral 8x7B", mixtral, "input_ids", layers=32),
    text_model("minilm", "MiniLM-L6, sentence embeddings", minilm, "input_ids", "attention_mask"),
    replace(torchvision_model("vit_b_16", "ViT-B/16"), make=vit, layers=12),
    text_model("lstm_tagger", "LSTM tagger", tagger, "words"),
]


IN_RUST = [model for model in ALL if model.name not in ("lstm_tagger", "mixtral")]


def recorded(model: Model, folder: Path) -> Path:
    """Its manifest in the folder. A model and its decode step share one."""
    manifest = folder / f"{model.name}_manifest.json"
    if not manifest.exists():
        with torch.device("meta"):
            module = model.make().eval().to("meta")
        recorder = GoldenRecorder(folder, dynamic=model.dynamic, progress=lambda text: None)
        recorder.record(module, **{name: value.to("meta") for name, value in model.inputs.items()})
        recorder.save(model.name)
    return manifest


def emitted(model: Model, folder: Path, ending: str = ".hpp") -> str:
    """The header, or the Rust file, that codegen writes for the model; recordings are kept in the folder."""
    program = Path(sys.executable).with_name("pycandle")
    header = folder / f"model{ending}"
    command = [
        program,
        "codegen",
        "--without-weights",
        "--manifest",
        recorded(model, folder),
        "--out",
        header,
    ]
    command += ["--stateful"] if model.stateful else []
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return header.read_text()


# ---- the table

_PLACE = re.compile(r"^// \w+, (\S+\.py):(\d+)", re.MULTILINE)


def source_of(path: str) -> Path:
    """A file by the name that emitted comments give it: below site-packages, or one of ours."""
    for folder in (ROOT / "examples", MODELS / "lstm_tagger"):
        if (folder / path).exists():
            return folder / path
    package = importlib.util.find_spec(path.split("/")[0])
    return Path(package.origin).parents[1] / path


def classes_of(header: str) -> dict[str, list[tuple[int, int]]]:
    """The Python classes that a header mirrors: of each file, the first and last lines."""
    found: dict[str, set[tuple[int, int]]] = {}
    for path, line in _PLACE.findall(header):
        tree = ast.parse(source_of(path).read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and int(line) in (
                node.lineno,
                *(d.lineno for d in node.decorator_list),
            ):
                found.setdefault(path, set()).add((node.lineno, node.end_lineno))
    return {path: sorted(lines) for path, lines in found.items()}


def table() -> str:
    rows = []
    for model in ALL:
        header = model.header.read_text()
        mirrors = classes_of(header)
        python = sum(last - first + 1 for lines in mirrors.values() for first, last in lines)
        places = "; ".join(
            f"`{path}` " + ", ".join(f"{first}–{last}" for first, last in lines)
            for path, lines in sorted(mirrors.items())
        )
        lines = len(header.splitlines())
        in_rust = "–"
        if model in IN_RUST:
            in_rust = f"[{len(model.rust.read_text().splitlines())}]({model.name}/{model.rust.name})"
        rows.append(
            f"| [{model.title}]({model.name}/{model.header.name}) | {lines} | {in_rust} | {python} | {places} |"
        )
    return "\n".join(rows)


README = """# Models as emitted

What `pycandle codegen` writes for well-known models at their full size; nobody has touched it. `make models` writes them again, and the
tests fail where that would change anything. [emitted-gpt2.md](../docs/emitted-gpt2.md) and [emitted-resnet34.md](../docs/emitted-resnet34.md) walk through two of them.

| model | lines of C++ | of Rust | of Python | the Python classes that it mirrors |
|---|---|---|---|---|
{table}

Lines of Python are those of the classes, all of them: constructors, docstrings, and branches that inference does not take.
The LSTM tagger is ours: [tagger.py](lstm_tagger/tagger.py). ResNet-34, MobileNetV2 and ViT are torchvision's, GPT-2, Llama, Whisper, Mixtral and MiniLM's
BERT are transformers'.
"""


def readme() -> str:
    return README.format(table=table())


# ---- what the documents show

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("emitted-*.md"))]
_SHOWN = re.compile(r"<!-- (\S+) (\w+) (\S+ )?-->\n\n```(?:cpp|rust)\n.*?^```", re.MULTILINE | re.DOTALL)
_PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def struct_of(header: str, name: str) -> str:
    """A class of a header with the comment above it."""
    return re.search(rf"^(// [^\n]*\n)?struct {name} .*?^}};$", header, re.MULTILINE | re.DOTALL).group()


def rust_struct_of(text: str, name: str) -> str:
    """A struct with its comment and its functions."""
    pattern = rf"^/// [^\n]*\n#\[derive[^\n]*\npub struct {name} .*?^}}\n\nimpl {name} .*?^}}$"
    return re.search(pattern, text, re.MULTILINE | re.DOTALL).group()


def showcase(file: str, name: str, sizes: str, source: str) -> str:
    """The classes that codegen writes for a model that a page shows in Python."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / file
        path.write_text(source.split("\n\n\nrecorder = ")[0] + "\n")  # the model; we record it ourselves
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
        x = torch.zeros([int(size) for size in sizes.split(",")])
        model = Model(path.stem, name, getattr(module, name), {"x": x}, {"x": {0: "batch"}})
        header = emitted(model, path.parent)
        del sys.modules[path.stem]
    return header[
        header.index("// ", header.index("using namespace")) : header.index("\n}  // namespace")
    ].strip()


def page(text: str) -> str:
    """The page with what it shows as codegen writes it: a class of models/, marked `<!-- gpt2 GPT2Block -->` or
    `<!-- gpt2/decode.hpp Cache -->`, or the model of
    the Python block above, marked `<!-- mixer.py Mixer 2,5,8 -->` with its file, its class and the sizes of x."""

    def shown(match: re.Match) -> str:
        place, name, sizes = match.groups()
        if sizes:
            code = showcase(place, name, sizes, _PYTHON.findall(text[: match.start()])[-1])
        else:
            path = MODELS / place if Path(place).suffix else MODELS / place / "model.hpp"
            of = rust_struct_of if path.suffix == ".rs" else struct_of
            code = of(path.read_text(), name)
        head = match.group().split("\n", 1)[0]
        return f"{head}\n\n```{'rust' if place.endswith('.rs') else 'cpp'}\n{code}\n```"

    return _SHOWN.sub(shown, text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="only these models")
    names = parser.parse_args().names
    with tempfile.TemporaryDirectory() as recordings:
        for model in ALL:
            if names and model.name not in names:
                continue
            header = model.header
            header.parent.mkdir(exist_ok=True)
            header.write_text(emitted(model, Path(recordings)))
            print(f"{header.relative_to(ROOT)}: {len(header.read_text().splitlines())} lines")
            if model in IN_RUST:
                model.rust.write_text(emitted(model, Path(recordings), ".rs"))
                print(f"{model.rust.relative_to(ROOT)}: {len(model.rust.read_text().splitlines())} lines")
    (MODELS / "README.md").write_text(readme())
    for path in PAGES:
        path.write_text(page(path.read_text()))


if __name__ == "__main__":
    main()
