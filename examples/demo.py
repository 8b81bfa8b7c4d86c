"""make demo: records a real model, runs it without PyTorch's kernels, verifies every layer, and shows what it says. Then a
real language model writes a sentence."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "build" / "demo"
REPORT = OUT / "report.html"
PYCANDLE = Path(sys.executable).with_name("pycandle")


def run(*command: str, status: int = 0, into: str = "", folder: str = "") -> None:
    """Shows a command and runs it; what it prints goes to the terminal, or into a file."""
    change = f"cd {folder} && " if folder else ""
    print(f"\n$ {change}pycandle {shlex.join(command)}{f' > {into}' if into else ''}", flush=True)
    with (ROOT / into).open("wb") if into else nullcontext() as file:
        finished = subprocess.run([PYCANDLE, *command], cwd=ROOT / folder, stdout=file, check=False)
    if finished.returncode != status:
        sys.exit(finished.returncode or 1)


def record_a_language_model(place: str) -> None:
    """SmolLM2 from its GGUF file to a recording, and its tokenizer beside it."""
    from smollm2 import gguf_file

    run("record", "--script", "examples/smollm2_recorder.py", "--name", "smollm2", "--out", place)
    convert = ["-m", "pycandle.gguf_tokenizer", gguf_file().relative_to(ROOT).as_posix(), place]
    print(f"\n$ python {shlex.join(convert)}", flush=True)
    subprocess.run([sys.executable, *convert], cwd=ROOT, check=True)


def write_a_sentence(place: str) -> None:
    """The recording as a bundle, and text from it by a program without Python."""
    bundle = f"{place}.pycandle"
    texts = []
    for option in ("tokenizer", "tokenizer-config", "generation-config"):
        texts += [f"--{option}", f"{place}/{option.replace('-', '_')}.json"]
    run("bundle", place, *texts, "--weights", "int8", "--out", bundle)
    run("generate", bundle, "--prompt", "The capital of France is", "--max-tokens", "8")
    run("generate", bundle, "--chat", "--prompt", "What is the capital of France?")


def broken_copy(manifest: Path) -> Path:
    """The recording with another GELU in one of its layers: what a careless importer would make of it."""
    folder = manifest.parent / "broken"
    folder.mkdir(exist_ok=True)
    document = json.loads(manifest.read_text())
    gelus = [node for node in document["nodes"] if node["op"] == "aten.gelu.default"]
    next(argument for argument in gelus[3]["args"] if argument[0] == "approximate")[1] = "tanh"
    for file in manifest.parent.glob("*.safetensors"):
        link = folder / file.name
        link.unlink(missing_ok=True)
        link.symlink_to(file)
    (folder / manifest.name).write_text(json.dumps(document))
    return folder


def show_similarity(sentences: list[str], similarity) -> None:
    """Each sentence with the one that is nearest to it; a pair that found each other is shown once."""
    shown = set()
    for i, sentence in enumerate(sentences):
        score, nearest = max((float(similarity[i, j]), j) for j in range(len(sentences)) if j != i)
        if (nearest, i) not in shown:
            shown.add((i, nearest))
            print(f"  {score:.2f} {'█' * round(score * 20):<16} {sentence}\n{'':24}{sentences[nearest]}")


def main() -> None:
    manifest = (OUT / "minilm_manifest.json").relative_to(ROOT).as_posix()
    print("1. Record: PyTorch runs the model once; its graph, weights and golden values are kept.")
    run(
        "record",
        "--script",
        "examples/minilm_recorder.py",
        "--name",
        "minilm",
        "--out",
        OUT.relative_to(ROOT).as_posix(),
    )
    print("\n2. What was recorded.")
    run("inspect", manifest, "--depth", "1")
    print("\n3. Verify: every layer against what PyTorch computed (--all lists them).")
    run("verify", manifest)

    print("\n4. Use it: six sentences (recorded with two), no PyTorch model involved.")
    sys.path.insert(0, str(Path(__file__).parent))
    from minilm import SENTENCES, SentenceEncoder, tokenize

    import pycandle

    tokens = tokenize(SENTENCES)
    model = pycandle.load_model(OUT)
    ours = model.forward(**{name: tensor.numpy() for name, tensor in tokens.items()})["output"]
    show_similarity(SENTENCES, ours @ ours.T)

    import torch

    with torch.no_grad():
        theirs = SentenceEncoder().eval()(**tokens).numpy()
    print(f"\n  largest difference from PyTorch: {abs(ours - theirs).max():.1e}")

    print("\n5. Broken on purpose: one of six GELUs is the tanh one. Which, and why?")
    broken = broken_copy(OUT / "minilm_manifest.json").relative_to(ROOT).as_posix()
    run("verify", ".", "--repro", "repro", "--out", "result.jsonl", status=1, folder=broken)

    print("\n6. A language model with real weights, SmolLM2-135M, recorded from its GGUF file.")
    language_model = (OUT / "smollm2").relative_to(ROOT).as_posix()
    record_a_language_model(language_model)
    print("\n7. Its decode step derived and proven, packed into a bundle, and asked.")
    write_a_sentence(language_model)

    print("\n8. The broken model as a page: Python, C++ and program, drift, time and weights.")
    run("codegen", "--manifest", broken, "--out", f"{broken}/emitted")
    run("forward", broken, "--profile", "--json", into=f"{broken}/profile.json")
    found = ["--result", f"{broken}/result.jsonl", "--profile", f"{broken}/profile.json"]
    page = REPORT.relative_to(ROOT).as_posix()
    run("report", broken, *found, "--code", f"{broken}/emitted", "-o", page)
    print("\n9. Try next:")
    print(f"  .venv/bin/pycandle dashboard {broken}     # the same in the terminal, live")
    print(f"  .venv/bin/pycandle inspect {manifest} --ptir | less")
    print(f"  .venv/bin/pycandle forward {manifest} --seed 1 --set s0=4")
    for layer in sorted((ROOT / broken / "repro").iterdir()):
        place = shlex.quote(layer.relative_to(ROOT).as_posix())
        print(f"  .venv/bin/python {place}/debug_layer.py     # the wrong layer in PyTorch")
    print(f"\nOpen the page: xdg-open {page}, or drop the file into any browser. It needs no server.")


if __name__ == "__main__":
    main()
