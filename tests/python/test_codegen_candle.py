"""Recorded models as Rust source on Candle: how it reads, what is refused, and (full) that cargo test agrees with torch."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import generating_models
import pytest
import torch
from rust_crates import cargo, passes
from torch import nn
from zoo.basics import BY_NAME

from pycandle import GoldenRecorder, perturb


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.up(self.norm(x)))
        return x + self.down(hidden)


class Mixer(nn.Module):
    def __init__(self, width: int = 8, depth: int = 3) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Linear(width, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1))


class Scale(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.gamma


class Halves(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x[:, :, :4] + x[:, :, 4:]
        return torch.tanh(x)


class Corners(nn.Module):
    """One class with weights of several shapes, a module without weights, a variable with a layer's name, booleans as numbers,
    a module that gives two values."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Scale(8), Scale(4)
        self.halves = Halves()
        self.two = Two()

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        embedding = self.first(x)
        y = self.second(self.halves(embedding))
        mean, spread = self.two(y)
        return y, y * spread + mean, (y > 0).long() * 16 + 1


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        up = self.up(x)
        return up.mean(1, keepdim=True), up.exp()


class Spectrum(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.fft.rfft(x).abs()


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        return x * self.count


TINY_GPT2 = """from transformers import GPT2Config, GPT2LMHeadModel


def make_model() -> torch.nn.Module:
    return GPT2LMHeadModel(GPT2Config(vocab_size=61, n_positions=32, n_embd=16, n_layer=2, n_head=2, use_cache=False))


def example_inputs() -> tuple:
    return (torch.randint(0, 61, (2, 7)),)


"""


def recorded(model: nn.Module, folder: Path, *inputs: torch.Tensor, dynamic=None) -> Path:
    torch.manual_seed(0)
    perturb(model.eval(), seed=0)
    recorder = GoldenRecorder(folder, dynamic=dynamic)
    recorder.record(model, *inputs)
    recorder.save("model")
    return folder / "model_manifest.json"


@pytest.fixture(scope="module")
def mixer(tmp_path_factory) -> Path:
    return recorded(Mixer(), tmp_path_factory.mktemp("mixer"), torch.randn(2, 5, 8))


def test_a_rust_file_reads_as_the_seeds_have_it(mixer, tmp_path, pycandle):
    out = tmp_path / "src" / "lib.rs"
    pycandle("codegen", "--manifest", str(mixer), "--out", str(out))
    text = out.read_text()
    for line in (
        "/// Block, test_codegen_candle.py:",
        "pub struct Mixer {",
        "pub blocks: Vec<Block>,",
        "pub fn load(vb: VarBuilder, checker: Option<PyChecker>) -> Result<Self> {",
        'up: linear(8, 32, vb.pp("up"))?,',
        "for (i, block) in self.blocks.iter().enumerate() {",
        'x = py_check!(self.checker, format!("blocks.{i}"), block.forward(&x)?);',
        'py_check!(self.checker, "head", self.head.forward(&x.mean(1)?)?)',
    ):
        assert line in text, line
    assert max(map(len, text.splitlines())) <= 100


def test_what_does_not_fit_the_usual_form_is_written_so_that_it_compiles(tmp_path, pycandle):
    """The full test below compiles it."""
    manifest = recorded(Corners(), tmp_path, torch.randn(2, 5, 8))
    out = tmp_path / "lib.rs"
    pycandle("codegen", "--manifest", manifest, "--out", out)
    text = out.read_text()
    for line in (
        'gamma: vb.get_unchecked_dtype("gamma", DType::F32)?,',
        'let (mean, spread) = py_check!(self.checker, "two", self.two.forward(&y)?);',
        ".to_dtype(DType::I64)?",
    ):
        assert line in text, line
    assert "embedding, " not in text and "let [x, x]" not in text


def test_a_model_without_weights_takes_none(tmp_path, pycandle):
    manifest = recorded(Halves(), tmp_path, torch.randn(2, 5, 8))
    out = tmp_path / "lib.rs"
    pycandle("codegen", "--manifest", manifest, "--out", out)
    assert "pub fn load(_vb: VarBuilder, checker: Option<PyChecker>)" in out.read_text()


def test_a_folder_becomes_a_crate_with_its_tests(mixer, tmp_path, pycandle):
    out = tmp_path / "mixer-rs"
    pycandle("codegen", "--manifest", str(mixer), "--target", "candle", "--out", str(out))
    assert {p.name for p in out.iterdir()} >= {"Cargo.toml", "Cargo.lock", "README.md", "src", "tests"}
    assert pycandle("--crate-dir").stdout.strip() in (out / "Cargo.toml").read_text()
    assert "use mixer_rs::Mixer;" in (out / "tests" / "parity.rs").read_text()
    assert (mixer.parent / "model_floors.json").exists()
    again = pycandle(
        "codegen", "--manifest", str(mixer), "--out", str(out), "--check"
    )  # Cargo.toml is there: Rust
    assert "lib.rs" in again.stdout


@pytest.mark.parametrize(
    ("folder", "package"),
    [("my-mixer", "my-mixer"), ("crate", "crate_"), ("3d", "model_3d"), ("a.b", "model_a_b")],
)
def test_the_package_has_the_name_of_its_folder_where_that_is_a_name(
    mixer, folder, package, tmp_path, pycandle
):
    pycandle("codegen", "--manifest", mixer, "--target", "candle", "--out", tmp_path / folder)
    assert f'name = "{package}"' in (tmp_path / folder / "Cargo.toml").read_text()


def test_programs_are_written_beside_a_rust_file(mixer, tmp_path, pycandle):
    """The steps of the seeds: codegen --out src/lib.rs, then gen-test and gen-bench."""
    (tmp_path / "Cargo.toml").write_text('[package]\nname = "my-llm"\n')
    pycandle("codegen", "--manifest", str(mixer), "--out", str(tmp_path / "src" / "lib.rs"))
    pycandle("gen-test", "--manifest", str(mixer), "--out", str(tmp_path / "tests" / "parity.rs"))
    pycandle("gen-bench", "--manifest", str(mixer), "--out", str(tmp_path / "benches" / "inference.rs"))
    assert "PyChecker::collecting(" in (tmp_path / "tests" / "parity.rs").read_text()
    assert "criterion_main!(benches);" in (tmp_path / "benches" / "inference.rs").read_text()
    assert 'name = "inference"' in (tmp_path / "Cargo.toml").read_text()


@pytest.mark.parametrize(
    ("model", "said"), [(Spectrum(), "of (c64"), (Counter(), "the buffer count")], ids=["fft", "state"]
)
def test_what_the_crate_lacks_is_refused_by_name(model, said, tmp_path, pycandle):
    manifest = recorded(model, tmp_path, torch.randn(2, 8))
    result = pycandle("codegen", "--manifest", str(manifest), "--out", str(tmp_path / "m.rs"), status=1)
    assert said in result.stderr
    assert not (tmp_path / "m.rs").exists()


def test_gaps_are_todos_that_are_listed(tmp_path, pycandle):
    manifest = recorded(Mixer(), tmp_path, torch.randn(2, 5, 8))
    text = json.loads(manifest.read_text())
    relu = next(node for node in text["nodes"] if node["op"].startswith("aten.relu"))
    relu["op"] = "aten.no_such_operator.default"
    manifest.write_text(json.dumps(text))
    out = tmp_path / "lib.rs"
    pycandle("codegen", "--manifest", str(manifest), "--out", str(out), status=1)
    pycandle("codegen", "--manifest", str(manifest), "--out", str(out), "--allow-gaps")
    assert 'todo!("aten.no_such_operator.default' in out.read_text()
    assert "aten.no_such_operator" in pycandle("todos", str(out)).stdout


def test_a_decode_step_has_a_cache(tmp_path, pycandle):
    manifest = generating_models.record(generating_models.make("llama"), tmp_path)
    out = tmp_path / "decode"
    pycandle("codegen", "--manifest", manifest, "--stateful", "--target", "candle", "--out", out)
    text = (out / "src" / "lib.rs").read_text()
    for line in (
        "pub struct LlamaAttentionCache {",
        "pub key: nn::CacheRows,",
        "pub layers: nn::CacheList<LlamaAttentionCache>,",
        "pub fn forward(&self, input_ids: &Tensor, cache: &mut Cache) -> Result<Tensor> {",
        "cache.layers.at(i)",
        "ops::cached_attention(&q_embed, &k_embed, &value_states)?",
        "cache.seen += input_ids.dim(1)?;",
    ):
        assert line in text, line
    assert "fn agrees_token_by_token()" in (out / "tests" / "parity.rs").read_text()


def test_new_makes_a_crate_that_codegen_fills(mixer, tmp_path, pycandle):
    pycandle("new", "my_llm", "--model", "GPT2", "--target", "candle", cwd=tmp_path)
    crate = tmp_path / "my_llm"
    assert {p.name for p in crate.iterdir()} >= {
        "Cargo.toml",
        "Cargo.lock",
        "README.md",
        "src",
        "tests",
        "benches",
    }
    toml = crate / "Cargo.toml"
    toml.write_text(toml.read_text().replace('name = "my_llm"', 'name = "renamed"'))
    pycandle("codegen", "--manifest", mixer, "--model", "GPT2", "--out", "src/lib.rs", cwd=crate)
    assert "use renamed::GPT2;" in (crate / "tests" / "parity.rs").read_text()
    assert (crate / "README.md").read_text().startswith("# my_llm\n\nGPT2, from PyTorch to Rust")
    pycandle("codegen", "--manifest", mixer, "--model", "GPT2", "--out", "src/lib.rs", "--check", cwd=crate)


# ---- with cargo


def emitted_crate(manifest: Path, folder: Path, pycandle) -> Path:
    crate = folder / f"emitted_{re.sub(r'[^a-z0-9]', '_', folder.name)}"
    pycandle("codegen", "--manifest", str(manifest), "--target", "candle", "--out", str(crate))
    return crate


def of_zoo(name: str, folder: Path) -> Path:
    case = BY_NAME[name]
    torch.manual_seed(0)
    inputs = case.inputs(case.recorded, torch.Generator().manual_seed(0))
    model = case.make()
    perturb(model.eval(), seed=0)
    recorder = GoldenRecorder(folder, dynamic=case.dynamic)
    recorder.record(model, **inputs)
    recorder.save("model")
    return folder / "model_manifest.json"


SHOWN = ["gpt2", "llama", "bert", "resnet34", "mobilenet_v2", "vit_b_16", "minilm", "lstm"]


def test_a_small_crate_agrees_with_torch(mixer, tmp_path, pycandle):
    """Not optimised: Candle compiles in a third of the time."""
    crate = emitted_crate(mixer, tmp_path, pycandle)
    run = cargo(crate, "test")
    passes(run)
    assert "warning" not in run.stderr, run.stderr
    before = "hidden.relu()?"
    source = crate / "src" / "lib.rs"
    source.write_text(source.read_text().replace(before, "hidden.gelu()?", 1))
    run = cargo(crate, "test")
    assert "wrong first: blocks.0.down@0/output" in run.stdout, run.stdout[-2000:] + run.stderr[-2000:]


@pytest.mark.full
@pytest.mark.parametrize("name", SHOWN)
def test_emitted_crates_agree_with_torch_layer_by_layer(name, tmp_path, pycandle):
    manifest = of_zoo(name, tmp_path)
    crate = emitted_crate(manifest, tmp_path, pycandle)
    run = cargo(crate, "test", "--release")
    passes(run)
    assert "warning" not in run.stderr, run.stderr
    lint = subprocess.run(
        ["rustfmt", "--check", "--edition", "2021", str(crate / "src/lib.rs")],
        capture_output=True,
        check=False,
    )
    assert lint.returncode == 0, lint.stdout


@pytest.mark.full
@pytest.mark.parametrize("model", [Corners, Halves])
def test_what_does_not_fit_the_usual_form_compiles_and_agrees(model, tmp_path, pycandle):
    crate = emitted_crate(recorded(model(), tmp_path, torch.randn(2, 5, 8)), tmp_path, pycandle)
    run = cargo(crate, "test", "--release")
    passes(run)
    assert "warning" not in run.stderr, run.stderr
    lines = [json.loads(line) for line in (crate / "target" / "result.jsonl").read_text().splitlines()]
    layers = {line["layer"]["tap"] for line in lines if "layer" in line}
    if model is Corners:
        assert {"two@0/output.0", "two@0/output.1", "first@0/output"} <= layers


FAULTS = [
    ("x.mean(1)?", "x.mean(2)?.repeat((1, 2))?.narrow(1, 0, 8)?", "head"),
    ("layer_norm(8, 1e-5", "layer_norm(8, 1e-1", "blocks.0.norm"),
    ("hidden.relu()?", "hidden.gelu()?", "blocks.0.down"),
    ('vb.pp("up")', 'vb.pp("down").root().pp("blocks.1.up")', "blocks.0.up"),
    ("x + &down_output", "Ok(down_output)", "blocks.0"),
]


@pytest.mark.full
@pytest.mark.parametrize("name", ["gpt2", "llama", "mistral", "qwen3", "gpt_neox"])
def test_emitted_decode_steps_agree_token_by_token(name, tmp_path, pycandle):
    changes = {"sliding_window": None} if name == "mistral" else {}
    manifest = generating_models.record(generating_models.make(name, **changes), tmp_path)
    crate = tmp_path / f"{name}_decode"
    pycandle("codegen", "--manifest", manifest, "--stateful", "--target", "candle", "--out", crate)
    run = cargo(crate, "test", "--release")
    passes(run)
    assert "agrees_token_by_token ... ok" in run.stdout and "warning" not in run.stderr
    source = crate / "src" / "lib.rs"
    source.write_text(re.sub(r"cache\.seen \+= .*;", "", source.read_text()))
    run = cargo(crate, "test", "--release")
    assert "agrees_token_by_token ... FAILED" in run.stdout, run.stdout + run.stderr


@pytest.mark.full
def test_the_workflow_of_a_rust_crate(tmp_path, pycandle):
    """new, init, record, codegen --stateful, cargo test, gen-bench, dashboard: as the documentation has it."""
    pycandle("new", "my_llm", "--model", "GPT2", "--target", "candle", cwd=tmp_path)
    crate = tmp_path / "my_llm"
    pycandle("init", "--no-env", cwd=crate)
    script = crate / ".pycandle" / "scripts" / "recorder.py"
    text = script.read_text()
    start, end = text.index("def make_model"), text.index("torch.manual_seed(SEED)")
    script.write_text(text[:start] + TINY_GPT2 + text[end:])
    pycandle("record", "--script", script, "--name", "my_llm", cwd=crate)
    made = (
        "codegen",
        "--manifest",
        "pycandle_trace/my_llm_manifest.json",
        "--out",
        "src/lib.rs",
        "--stateful",
    )
    pycandle(*made, cwd=crate)
    run = cargo(crate, "test", "--release")
    passes(run)
    assert "agrees_token_by_token ... ok" in run.stdout
    pycandle("gen-bench", "--stateful", "--out", "benches/inference.rs", cwd=crate)
    passes(cargo(crate, "bench", "--no-run"))
    shown = pycandle("dashboard", "target/result.jsonl", "--once", cwd=crate).stdout
    assert "candle" in shown and "passed" in shown


@pytest.mark.full
def test_a_run_of_cargo_test_is_a_result_file(mixer, tmp_path, pycandle):
    crate = emitted_crate(mixer, tmp_path, pycandle)
    passes(cargo(crate, "test", "--release"))
    result = crate / "target" / "result.jsonl"
    lines = [json.loads(line) for line in result.read_text().splitlines()]
    layers = {line["layer"]["tap"]: line["layer"] for line in lines if "layer" in line}
    assert lines[0]["backend"] == "candle" and lines[-1]["complete"]["status"] == "passed"
    assert layers["blocks.1@0/output"]["python"].startswith("test_codegen_candle.py:")
    assert 0 < layers["blocks.1@0/output"]["floor_rms"] < 1e-5
    assert [line["output"]["name"] for line in lines if "output" in line] == ["output"]
    again = tmp_path / "verify.jsonl"
    verified = pycandle("verify", mixer, "--out", again, "--baseline", result).stdout
    assert "the manifest changed" not in verified and "the weights changed" not in verified
    assert "new @0/" not in verified and "gone" not in verified
    pycandle("report", mixer, "--result", result, "--format", "md", "--out", tmp_path / "report.md")
    text = result.read_text()
    result.write_text(text.replace("within rounding", "exact", 1))
    assert "changed after it was written" in pycandle("verify", mixer, "--baseline", result, status=2).stderr


@pytest.mark.full
def test_cargo_test_names_the_layer_that_is_wrong(tmp_path, pycandle):
    crate = emitted_crate(recorded(Mixer(), tmp_path, torch.randn(2, 5, 8)), tmp_path, pycandle)
    source = crate / "src" / "lib.rs"
    right = source.read_text()
    for before, after, layer in FAULTS:
        assert before in right
        source.write_text(right.replace(before, after, 1))
        run = cargo(crate, "test", "--release")
        assert run.returncode != 0, f"{after} was not found"
        assert f"wrong first: {layer}@0/output" in run.stdout, run.stdout[-2000:] + run.stderr[-2000:]
        assert (crate / "target/failures/failing_layer.safetensors").exists()
