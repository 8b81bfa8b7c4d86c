"""What the runners load, made once for each model: the recording, ONNX, OpenVINO's format, GGUF, the weights alone."""

from __future__ import annotations

import hashlib
import importlib.metadata
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from safetensors.torch import save_file, save_model

from pycandle import GoldenRecorder
from pycandle.peers.exports import export

from . import llama, models
from .models import Entry

_DECIDE = ("torch", "transformers", "timm", "onnxruntime", "openvino")


@dataclass(frozen=True)
class Files:
    """Of one model. ONNX and OpenVINO's files lie in `folder`, under the names that `pycandle bench --keep` knows."""

    folder: Path
    recording: Path

    @property
    def manifest(self) -> Path:
        return self.recording / "model_manifest.json"

    @property
    def weights(self) -> Path:
        return self.recording / "weights.safetensors"

    @property
    def gguf(self) -> Path:
        return self.recording / "model.gguf"

    @property
    def inputs(self) -> Path:
        return self.folder / "given.safetensors"

    def bytes_of(self, runner: str) -> int:
        """What must lie on disk for that runner to run the model."""
        ours = [self.manifest, self.recording / "model_weights.safetensors"]
        of = {
            "onnxruntime": [self.folder / "model.onnx"],
            "openvino": [self.folder / "model.xml", self.folder / "model.bin"],
            "llama.cpp": [self.gguf],
            "pycandle": ours,
        }
        return sum(file.stat().st_size for file in of.get(runner, [self.weights]))


def made(entry: Entry, root: Path, peers: list[str]) -> Files:
    files = Files(root / entry.name, root / entry.recorded_as)
    stamp = _stamp()
    for folder in {files.folder, files.recording}:
        kept = folder / "stamp"
        if folder.exists() and not (kept.exists() and kept.read_text() == stamp):
            shutil.rmtree(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "stamp").write_text(stamp)
    wanted = [files.manifest, files.weights, files.inputs]
    wanted += [files.folder / "model.onnx"] if "onnxruntime" in peers else []
    wanted += [files.folder / "model.xml"] if "openvino" in peers else []
    wanted += [files.gguf] if "llama.cpp" in peers and entry.gguf else []
    if any(not file.exists() for file in wanted):
        print(f"  making the files of {entry.title}", flush=True)
        _make(entry, files, [file for file in wanted if not file.exists()])
    return files


def compiled(command: str, files: Files, threads: list[int], environment: dict[str, str]) -> None:
    """Lets torch.compile fill its cache, for all numbers of threads side by side: minutes that no turn is to wait for."""
    missing = {
        n: files.folder / f"compiled-{n}" for n in threads if not (files.folder / f"compiled-{n}").exists()
    }
    running = []
    for n in missing:
        words = [
            *shlex.split(command.format(threads=n)),
            "--inputs",
            files.inputs,
            "--outputs",
            files.folder / f"first-{n}",
        ]
        running.append(
            subprocess.Popen(
                words,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        )
    for process, done in zip(running, missing.values(), strict=True):
        process.wait()
        done.touch()  # what failed fails again, with its reason, when it is measured


def _make(entry: Entry, files: Files, missing: list[Path]) -> None:
    module = models.built(entry)
    inputs = models.inputs_of(entry)
    for file in missing:
        if file == files.manifest:
            recorder = GoldenRecorder(files.recording, progress=lambda text: None)
            recorder.record(module, *inputs.values())
            recorder.save("model")
        elif file == files.weights:
            save_model(module, str(file))
        elif file == files.inputs:
            save_file(inputs, file)
        elif file == files.gguf:
            llama.write_gguf(files.weights, file)
        else:
            export(module, list(inputs.values()), list(inputs), file)


def _stamp() -> str:
    """Files are made again when a library or the list of models is another."""
    text = " ".join(f"{name} {_version(name)}" for name in _DECIDE)
    return text + " " + hashlib.sha256(Path(models.__file__).read_bytes()).hexdigest()[:16]


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "none"
