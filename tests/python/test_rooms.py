"""The rooms of the Python package: running needs NumPy alone, and a room of recording imports only rooms before it."""

from __future__ import annotations

import ast
import subprocess
import sys
import venv
from pathlib import Path

import numpy as np
import onnx
import onnx_files as files
import pytest
import torch

import pycandle
from pycandle import GoldenRecorder

PACKAGE = Path(pycandle.__file__).parent
NEEDED = (  # by onnx and onnxruntime
    "google",
    "protobuf*",
    "flatbuffers*",
    "ml_dtypes*",
    "typing_extensions*",
    "packaging*",
    "coloredlogs*",
    "sympy*",
    "mpmath*",
)
# What a room may import besides itself. Files in `recording` itself that every room uses are named one by one.
SHARED = {f"recording.{name}" for name in ("inputs", "eager", "places", "progress", "torch_compat")}
ALLOWED = {
    "running": {"_core"},
    "dashboard": set(),
    "recording.sizes": SHARED | {"errors"},
    "recording.tracing": SHARED | {"errors", "recording.sizes"},
    "recording.graph": SHARED | {"errors", "recording.sizes", "recording.tracing"},
    "recording.checking": SHARED | {"errors", "recording.sizes", "recording.tracing", "recording.graph"},
    "recording.files": SHARED
    | {"errors", "version", "_core"}
    | {f"recording.{room}" for room in ("sizes", "tracing", "graph", "checking")},
    "recording": {"errors", "version", "_core", "spy", "recording"},
}

RUN = """
import sys
import numpy as np
import pycandle

model = pycandle.load_model(sys.argv[1])
(y,) = model.forward(x=np.ones((3, 4), np.float32)).values()
np.save(sys.argv[2], y)
for name in ("Model", "Error", "RecordingError", "UsageError", "__version__"):
    getattr(pycandle, name)
"""


@pytest.fixture(scope="module")
def without_torch(tmp_path_factory) -> Path:
    """A Python in an environment of its own that has NumPy and this package, and nothing else."""
    return environment_with(tmp_path_factory.mktemp("environment"), "numpy*")


def environment_with(folder: Path, *packages: str) -> Path:
    """The Python of an environment that has this package and these, as they are installed here."""
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python3*/site-packages")
    for package in packages:
        for installed in Path(np.__file__).parents[1].glob(package):
            if not (site / installed.name).exists():
                (site / installed.name).symlink_to(installed)
    (site / "pycandle").symlink_to(PACKAGE)
    return folder / "bin" / "python"


def save_relu(path: Path) -> None:
    nodes = [files.node("Relu", "x", "h"), files.node("Neg", "h", "y")]
    onnx.save(files.model_of(nodes, [files.value("x", ["n", 4])], [files.value("y", ["n", 4])]), path)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> tuple[Path, np.ndarray]:
    folder = tmp_path_factory.mktemp("recorded")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 2)).eval()
    recorder = GoldenRecorder(folder)
    recorder.record(_NamedInput(model).eval(), torch.randn(2, 4))
    recorder.save("small")
    with torch.no_grad():
        return folder, model(torch.ones(3, 4)).numpy()


class _NamedInput(torch.nn.Module):
    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


def python(*arguments: object, program: object = sys.executable) -> subprocess.CompletedProcess:
    command = list(map(str, [program, *arguments]))
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_model_is_loaded_and_run_where_torch_is_not_installed(recorded, without_torch, tmp_path) -> None:
    folder, expected = recorded
    done = python("-c", RUN, folder, tmp_path / "y.npy", program=without_torch)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected, rtol=1e-5, atol=1e-6)


def test_names_that_need_torch_are_not_listed_without_it_and_say_what_is_missing(without_torch) -> None:
    done = python("-c", "import pycandle; print(dir(pycandle))", program=without_torch)
    assert "load_model" in done.stdout and "GoldenRecorder" not in done.stdout, done.stderr
    done = python("-c", "import pycandle; pycandle.GoldenRecorder", program=without_torch)
    assert "No module named 'torch'" in done.stderr


def test_an_onnx_file_is_recorded_where_onnxruntime_is_and_torch_is_not(tmp_path, pycandle) -> None:
    environment = environment_with(
        tmp_path / "with", "numpy*", "onnx*", "onnxruntime*", "safetensors*", *NEEDED
    )
    save_relu(tmp_path / "relu.onnx")
    named = ("--python", environment, "--out", tmp_path / "out")
    assert "2 nodes, 1 values" in pycandle("record", tmp_path / "relu.onnx", *named).stdout
    assert python("-c", "import torch", program=environment).returncode != 0
    pycandle("verify", tmp_path / "out")
    result = pycandle.json(
        "verify", tmp_path / "relu.onnx", "--against", "onnxruntime", "--python", environment
    )
    assert len(result["layers"]) == 2
    assert "No module named 'torch'" in pycandle("record", "--model", "a:b", *named, status=2).stderr


def test_recording_an_onnx_file_says_that_onnxruntime_is_missing(without_torch, tmp_path, pycandle) -> None:
    save_relu(tmp_path / "relu.onnx")
    said = pycandle("record", tmp_path / "relu.onnx", "--python", without_torch, status=2).stderr
    assert "No module named 'onnxruntime'" in said and "install onnxruntime, onnx, safetensors" in said


def imports_of(file: Path) -> set[str]:
    """Modules of the package that a file imports, dotted below `pycandle`."""
    me = file.relative_to(PACKAGE).with_suffix("").parts
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if not isinstance(node, ast.ImportFrom) or node.level == 0:
            continue
        base = [*me[: -node.level], *(node.module or "").split(".")]
        base = [part for part in base if part]
        if (PACKAGE / Path(*base)).is_dir():
            found |= {".".join([*base, alias.name]) for alias in node.names}
        else:
            found.add(".".join(base))
    return found


@pytest.mark.parametrize("room", ALLOWED)
def test_a_room_imports_only_what_comes_before_it(room: str) -> None:
    files = sorted((PACKAGE / room.replace(".", "/")).glob("*.py"))
    assert len(files) > 1
    for file in files:
        for name in imports_of(file):
            allowed = ALLOWED[room] | {room}
            assert any(name == one or name.startswith(f"{one}.") for one in allowed), (
                f"{file.name} imports {name}"
            )


def test_the_top_level_is_small_and_every_other_module_has_a_room() -> None:
    assert {file.name for file in PACKAGE.glob("*.py")} <= {
        "__init__.py",
        "errors.py",
        "gguf_tokenizer.py",
        "onnx_backend.py",
        "patches.py",
        "perturbation.py",
        "spy.py",
        "tekken.py",
        "text.py",
        "version.py",
        "weights.py",
    }


@pytest.mark.parametrize("name", ["spy", "patches", "perturbation"])
def test_modules_that_scripts_import_by_name_stay_where_they_are(name: str) -> None:
    done = python("-c", f"import pycandle.{name} as m; print(sorted(m.__all__))")
    assert done.returncode == 0 and "[" in done.stdout, done.stderr
