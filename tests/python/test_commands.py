"""The commands, as a user types them."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from zoo.basics import BY_NAME, bert

from pycandle import GoldenRecorder, perturb

COMMANDS = [
    "record",
    "inspect",
    "forward",
    "trace",
    "verify",
    "replay",
    "codegen",
    "todos",
    "ops",
    "doctor",
    "completions",
    "man",
]


@pytest.fixture(scope="module")
def model() -> torch.nn.Module:
    torch.manual_seed(3)
    model = bert().eval()
    perturb(model, seed=3)
    return model


@pytest.fixture(scope="module")
def manifest(tmp_path_factory, model) -> Path:
    folder = tmp_path_factory.mktemp("bert")
    recorder = GoldenRecorder(folder)
    inputs = BY_NAME["bert"].inputs({"batch": 2, "seq": 9}, torch.Generator().manual_seed(0))
    recorder.record(model, **inputs)
    recorder.save("bert")
    return folder / "bert_manifest.json"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command: str, pycandle) -> None:
    text = pycandle(command, "--help").stdout
    assert re.search(rf"pycandle {command} ", text), text
    assert "xample" in text


def test_help_lists_every_command(pycandle) -> None:
    text = pycandle("--help").stdout
    assert all(command in text for command in COMMANDS)


def test_version_is_that_of_the_package_and_the_one_the_changelog_works_on(pycandle) -> None:
    import pycandle as package

    changelog = (Path(__file__).parents[2] / "CHANGELOG.md").read_text()
    assert pycandle("--version").stdout.strip() == f"pycandle {package.__version__}"
    assert re.search(r"^## (\S+)", changelog, re.MULTILINE)[1] == package.__version__


def test_inspect_shows_modules_ops_and_cost(manifest, model, pycandle) -> None:
    facts = pycandle.json("inspect", manifest)
    assert facts["name"] == "bert" and facts["soundness"] == "verified"
    assert facts["ops"]["linear"] == 13 and facts["ops"]["scaled_dot_product_attention"] == 2
    assert {i["name"]: i["shape"] for i in facts["inputs"]} == {
        "input_ids": ["s0", "s1"],
        "attention_mask": ["s0", "s1"],
    }
    assert facts["parameter_elements"] >= sum(p.numel() for p in model.parameters())
    multiply_adds = (
        sum(m.weight.numel() for m in model.encoder.modules() if isinstance(m, torch.nn.Linear)) * 18
    )
    assert 2 * multiply_adds < facts["flops"] < 3 * multiply_adds
    paths = [module["path"] for module in facts["modules"]]
    assert paths[0] == "" and "encoder.layer.1.attention.self" in paths
    text = pycandle("inspect", manifest).stdout
    assert "linear 13" in text and "encoder.layer.0" in text and "FLOP" in text


def test_an_option_that_can_be_repeated_leaves_the_model_after_it_alone(manifest, pycandle) -> None:
    run = pycandle("inspect", "--disable-pass", "recognise", "--disable-pass", "usual-scale", manifest)
    assert run.returncode == 0, run.stderr


def test_inspect_times_the_import_and_every_pass(manifest, pycandle) -> None:
    names = [timing["name"] for timing in pycandle.json("inspect", manifest, "--timing")["timings"]]
    assert names[:2] == ["import", "canonicalise"] and "remove-unused" in names
    assert "canonicalise" in pycandle("inspect", manifest, "--timing").stdout
    assert "timings" not in pycandle.json("inspect", manifest)


def test_inspect_prints_ptir_without_colour_codes(manifest, pycandle) -> None:
    text = pycandle("inspect", manifest, "--ptir").stdout
    assert text.startswith("ptir.v1") and "layer_norm(" in text and "\033" not in text


def test_forward_is_deterministic_and_follows_seed_and_sizes(manifest, tmp_path, pycandle) -> None:
    out = [tmp_path / f"{i}.safetensors" for i in range(3)]
    pycandle("forward", manifest, "--seed", 5, "--out", out[0])
    pycandle("forward", manifest, "--seed", 5, "--out", out[1])
    pycandle("forward", manifest, "--seed", 6, "--set", "s0=1", "--set", "s1=4", "--out", out[2])
    assert out[0].read_bytes() == out[1].read_bytes()
    first, third = load_file(out[0]), load_file(out[2])
    assert first["output.last_hidden_state"].shape == (2, 9, 32)
    assert third["output.last_hidden_state"].shape == (1, 4, 32)


def test_forward_takes_inputs_by_name_and_gives_what_torch_gives(manifest, model, tmp_path, pycandle) -> None:
    inputs = BY_NAME["bert"].inputs({"batch": 3, "seq": 6}, torch.Generator().manual_seed(9))
    save_file(inputs, tmp_path / "in.safetensors")
    pycandle(
        "forward", manifest, "--inputs", tmp_path / "in.safetensors", "--out", tmp_path / "out.safetensors"
    )
    with torch.no_grad():
        expected = model(**inputs)
    got = load_file(tmp_path / "out.safetensors")
    torch.testing.assert_close(
        got["output.last_hidden_state"], expected.last_hidden_state, rtol=1e-4, atol=1e-5
    )
    torch.testing.assert_close(got["output.pooler_output"], expected.pooler_output, rtol=1e-4, atol=1e-5)


def test_trace_has_every_tap_and_can_be_verified_against(manifest, tmp_path, pycandle) -> None:
    traced = pycandle.json("trace", manifest, "--seed", 1, "--out", tmp_path / "ours.safetensors")
    ours = load_file(tmp_path / "ours.safetensors")
    taps = json.loads(manifest.read_text())["taps"]
    keys = {tap["key"] for tap in taps if tap["id"] not in traced["inside"]}
    assert keys <= set(ours) and "output:output.last_hidden_state" in ours
    assert set(traced["inside"]) <= {"encoder@0/input.attention_mask"}, (
        "attention took in its mask, and nothing else"
    )
    result = pycandle.json("verify", manifest, "--trace", tmp_path / "ours.safetensors")
    assert result["counts"]["exact"] == len(result["layers"]), "our own values are exactly ours"


def test_verify_gives_a_row_per_tap(manifest, pycandle) -> None:
    result = pycandle.json("verify", manifest)
    assert result["status"] == "passed" and result["backend"] == "reference"
    assert sum(result["counts"].values()) == len(result["layers"])
    rows = {row["tap"]: row for row in result["layers"]}
    row = rows["encoder.layer.0.intermediate.dense@0/output"]
    assert row["op"] == "linear" and re.search(r"\.py:\d+$", row["python"]) and row["shape"] == [2, 9, 48]
    assert (
        row["cosine"] > 0.999999
        and row["max_abs"] < 1e-4
        and row["verdict"] in ("exact", "within rounding", "accumulated rounding")
    )
    assert len(pycandle.json("verify", manifest, "--all-taps")["layers"]) > len(result["layers"])
    every = pycandle("verify", manifest, "--all").stdout
    assert "encoder.layer.0.intermediate.dense@0" in every and "0 wrong" in every


def on_a_terminal(columns: int, *command) -> list[str]:
    """The lines that a command prints on a terminal of that width, without colours."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(list(map(str, command)), stdout=its, stderr=subprocess.DEVNULL)
    os.close(its)
    text = b""
    with contextlib.suppress(OSError):  # it ended
        while part := os.read(ours, 4096):
            text += part
    os.close(ours)
    assert process.wait() == 0
    return re.sub(r"\033\[[0-9;]*m", "", text.decode()).replace("\r", "").splitlines()


@pytest.mark.parametrize("columns", [60, 80])
def test_the_summary_of_a_healthy_model_fits_on_a_screen(columns, manifest, pycandle) -> None:
    layers = pycandle.json("verify", manifest)["layers"]
    assert len(layers) > 24, "more than a screen has lines"
    lines = on_a_terminal(columns, pycandle.path, "verify", manifest)
    assert len(lines) <= 20 and max(map(len, lines)) <= columns
    assert any(line.startswith("  largest drift") for line in lines)
    assert lines[-1] == f"{len(layers)} right, 0 wrong"
    every = on_a_terminal(columns, pycandle.path, "verify", manifest, "--all")
    assert len(every) > len(layers) and max(map(len, every)) <= columns


def test_the_summary_counts_verdicts_and_says_what_was_not_judged(manifest, pycandle) -> None:
    result = pycandle.json("verify", manifest)
    text = pycandle("verify", manifest).stdout
    for verdict, count in result["counts"].items():
        said = re.search(rf"^  {verdict.replace('_', ' ')} +(\d+)", text, re.MULTILINE)
        assert (int(said[1]) if said else 0) == count, verdict
    (skipped,) = {tap["why"] for tap in result["skipped"]}
    assert f"not judged     {result['skipped'][0]['tap']}" in text and skipped in text


def test_verify_says_wrong_when_a_golden_is_changed(manifest, tmp_path, pycandle) -> None:
    trace = load_file(manifest.with_name("bert_trace.safetensors"))
    key = "encoder.layer.1.attention.self@0/output"
    key = (
        key
        if key in trace
        else next(k for k in trace if k.startswith("encoder.layer.1.attention.self@0/output"))
    )
    for change in (1e-3, float("nan")):
        changed = dict(trace)
        changed[key] = trace[key].clone()
        changed[key].view(-1)[7] += change
        save_file(changed, tmp_path / "changed.safetensors")
        result = pycandle.json("verify", manifest, "--trace", tmp_path / "changed.safetensors", status=1)
        wrong = [row["tap"] for row in result["layers"] if row["verdict"] == "wrong here"]
        assert (
            result["status"] == "wrong" and wrong and wrong[0].startswith("encoder.layer.1.attention.self@0")
        )


def test_dumps_show_the_program_after_each_pass(manifest, tmp_path, pycandle) -> None:
    pycandle("inspect", manifest, "--dump-dir", tmp_path / "all")
    names = sorted(path.name for path in (tmp_path / "all").iterdir())
    assert names[0].startswith("00-") and len(names) >= 3 and all(name.endswith(".ptir") for name in names)
    pycandle("forward", manifest, "--dump-dir", tmp_path / "final", "--dump-mode", "final")
    assert len(list((tmp_path / "final").iterdir())) <= 2
    text = pycandle("forward", manifest, "--timing").stdout
    assert re.search(r"canonicalise +\d", text)
    fewer = pycandle.json("inspect", manifest)["nodes"]
    assert pycandle.json("inspect", manifest, "--disable-pass", "canonicalise")["nodes"] >= fewer


def test_analysis_counts_everything(manifest, pycandle) -> None:
    analysis = pycandle.json("codegen", "--analyze-only", "--manifest", manifest)
    assert analysis["unsupported"] == 0 and analysis["coverage_percent"] == 100 and analysis["gaps"] == []
    assert analysis["supported"] == analysis["total"] > 20
    assert any(layer["path"] == "encoder.layer.0.attention.self" for layer in analysis["layers"])


def test_ops_lists_the_catalogue(pycandle) -> None:
    ops = {op["name"]: op for op in pycandle.json("ops")}
    assert (
        ops["layer_norm"]["kind"] == "functional" and "aten.layer_norm.default" in ops["layer_norm"]["aten"]
    )
    assert ops["dot_general"]["kind"] == "primitive"
    assert "aten.gelu.default" in pycandle("ops", "gelu").stdout


def test_ops_names_the_file_of_an_ops_paragraph(pycandle) -> None:
    (roll,) = pycandle("ops", "aten.roll").stdout.splitlines()
    assert roll.split() == ["aten.roll.default", "roll", "src/ops/shape/flips.cpp"]
    sources = Path(__file__).parents[2] / "src" / "ops"
    assert all((sources / f"{op['family']}.cpp").exists() for op in pycandle.json("ops"))


def test_ops_names_the_file_that_maps_an_overload(pycandle) -> None:
    """Many overloads are mapped in another file than their op's: aten.sum is reduce_sum, in reduction_aten.cpp."""
    root = Path(__file__).parents[2]
    rows = [line.split() for line in pycandle("ops", "aten.").stdout.splitlines()]
    assert ["aten.sum.default", "reduce_sum", "src/ops/reduction/reduction_aten.cpp"] in rows
    assert len(rows) > 700 and {len(row) for row in rows} == {3}
    texts = {file: (root / file).read_text() for file in {file for _, _, file in rows}}
    spelled = [(overload, file) for overload, _, file in rows if f'"{overload}' in texts[file]]
    assert len(spelled) > 350, "the file has the overload's name in it, where no loop makes it"


@pytest.mark.parametrize(
    ("file", "option"),
    [
        ("docs/ops.md", "--markdown"),
        ("include/pycandle/functional.h", "--front-header"),
        ("src/capture/functional.cpp", "--front-source"),
    ],
)
def test_what_is_generated_from_the_catalogue_is_current(file: str, option: str, pycandle) -> None:
    written = (Path(__file__).parents[2] / file).read_text()
    assert written == pycandle("ops", option).stdout, "make build writes it again"


def test_doctor_finds_python_and_torch(pycandle) -> None:
    report = pycandle.json("doctor")
    found = {finding["what"]: finding["found"] for finding in report["findings"]}
    assert report["status"] == "fine" and torch.__version__.startswith(
        re.match(r"[\d.]+", found["torch in python"])[0]
    )
    assert found["torch in python"].endswith(", tested")
    assert "reference" in found["backends"]


def test_a_python_that_is_not_there_is_an_error_that_says_so(pycandle, monkeypatch) -> None:
    monkeypatch.setitem(os.environ, "PYCANDLE_PYTHON", "/nowhere/python")
    assert "/nowhere/python" in pycandle("record", "--script", "x.py", status=2).stderr
    assert pycandle.json("doctor", status=1)["status"] == "incomplete"


def change_argument(op: str, path: str, name: str, value: object):
    """A manifest in which one argument of one node of a module is another: what a wrong importer would make of it."""

    def change(manifest: dict) -> None:
        calls = [index for index, call in enumerate(manifest["module_calls"]) if call["path"] == path]
        (node,) = [node for node in manifest["nodes"] if node["op"] == op and node["call"] in calls]
        (argument,) = [argument for argument in node["args"] if argument[0] == name]
        assert argument[1] != value
        argument[1] = value

    return change


@pytest.mark.parametrize(
    ("change", "layer"),
    [
        (
            change_argument(
                "aten.layer_norm.default", "encoder.layer.1.output.LayerNorm", "eps", {"float": 1e-4}
            ),
            "LayerNorm",
        ),
        (
            change_argument(
                "aten.gelu.default", "encoder.layer.0.intermediate.intermediate_act_fn", "approximate", "tanh"
            ),
            "intermediate_act_fn",
        ),
        (
            change_argument(
                "aten.scaled_dot_product_attention.default",
                "encoder.layer.1.attention.self",
                "scale",
                {"float": 0.36},
            ),
            "attention.self",
        ),
    ],
    ids=["epsilon", "gelu", "scale"],
)
def test_a_wrong_argument_is_wrong_here_and_nowhere_else(
    change, layer: str, manifest, tmp_path, pycandle
) -> None:
    changed = json.loads(manifest.read_text())
    change(changed)
    for file in manifest.parent.glob("*.safetensors"):
        (tmp_path / file.name).symlink_to(file)
    (tmp_path / manifest.name).write_text(json.dumps(changed))
    result = pycandle.json("verify", tmp_path, status=1)
    wrong = [row["path"] for row in result["layers"] if row["verdict"] == "wrong here"]
    assert len(wrong) == 1 and layer in wrong[0]


def test_weights_by_reference_stay_where_they_are(tmp_path, pycandle) -> None:
    torch.manual_seed(0)
    small = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3)).eval()
    save_file(small.state_dict(), tmp_path / "checkpoint.safetensors")
    recorder = GoldenRecorder(
        tmp_path / "out", weights="ref", weights_files=[tmp_path / "checkpoint.safetensors"]
    )
    recorder.record(small, torch.randn(2, 4))
    recorder.save("small")
    assert pycandle.json("verify", tmp_path / "out")["status"] == "passed"
    fields = json.loads((tmp_path / "out" / "small_manifest.json").read_text())
    assert {entry["file"] for entry in fields["parameters"]} == {"../checkpoint.safetensors"}
