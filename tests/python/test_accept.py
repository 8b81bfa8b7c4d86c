"""Emitted code that was changed: which ops differ, whether that can show, and `pycandle accept`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import torch
from torch import nn

from pycandle import GoldenRecorder, perturb

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "build" / "release" / "libpycandle.a"


class Scale(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        s = x.abs().mean(-1, keepdim=True)
        t = s.clamp(min=1)
        u = x.clamp(max=50)
        return u / (t.pow(2) + 0.5)


class Side(nn.Module):
    """Holds two modules that another one holds too."""

    def __init__(self, shared: nn.Module, act: nn.Module, size: int) -> None:
        super().__init__()
        self.shared = shared
        self.act = act
        self.own = nn.Linear(8, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.own(self.act(self.shared(x)))


class Changed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(6, 8)
        self.norm = nn.LayerNorm(8)
        self.scale = Scale()
        shared, act = nn.Linear(8, 8), nn.GELU()
        self.left = Side(shared, act, 8)
        self.right = Side(shared, act, 8)
        self.one = nn.Linear(8, 6, bias=False)
        self.two = nn.Linear(6, 4, bias=False)

    def forward(self, x: torch.Tensor, length: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.up(x))
        y = self.left(self.scale(x))
        z = self.right(self.left(y))
        mean = z / length.clamp(min=1).unsqueeze(-1)
        return self.two(self.one(mean + x))


def line_of(text: str) -> str:
    """Where this stands in the Python above, as reports say it."""
    lines = Path(__file__).read_text().splitlines()
    return f"test_accept.py:{next(i for i, line in enumerate(lines, 1) if text in line)}"


# What somebody writes in place of what codegen wrote.
EDITS = {
    "as_emitted": [],
    "square": [("functional::pow(t, 2.0)", "t * t")],
    "square_by_mul": [("functional::pow(t, 2.0)", "functional::mul(t, t)")],
    "swapped": [("mean + x", "x + mean")],
    "negated_twice": [("mean + x", "-(-(mean + x))")],
    "renamed": [
        ("Scale", "Shrink"),
        ("Tensor t =", "Tensor at_least_one ="),
        ("(t, 2.0)", "(at_least_one, 2.0)"),
    ],
    "reordered": [
        (
            "    const Tensor t = functional::clamp(s, {.min = 1});\n    const Tensor u = functional::clamp(x, {.max = 50});\n",
            "    const Tensor u = functional::clamp(x, {.max = 50});\n    const Tensor t = functional::clamp(s, {.min = 1});\n",
        )
    ],
    "gelu_by_formula": [
        (
            "return own(act(shared(x)));",
            "const Tensor h = shared(x);\n    return own(0.5 * h * (1.0 + functional::erf(h * 0.7071067811865476)));",
        )
    ],
    "split_in_two": [
        (
            "struct Scale : nn::Module<Scale> {\n  explicit Scale(const Weights& w)\n      : Module(w) {}\n",
            """struct AtLeast : nn::Module<AtLeast> {
  explicit AtLeast(const Weights& w) : Module(w) {}
  Tensor forward(const Tensor& x) const { return functional::clamp(functional::abs(x).mean({1}, true), {.min = 1}); }
};

struct Scale : nn::Module<Scale> {
  AtLeast at_least;
  explicit Scale(const Weights& w) : Module(w), at_least(w / "at_least") {}
""",
        ),
        ("    const Tensor s = functional::abs(x).mean({1}, true);\n", ""),
        ("functional::clamp(s, {.min = 1});", "at_least(x);"),
    ],
    "selected": [("functional::clamp(s, {.min = 1})", "where(s < 1, 1.0, s)")],
    "merged": [
        ("two(one(mean + x))", "matmul(mean + x, matmul(one.weight.t(), two.weight.t()))"),
    ],
    "without_clamp": [("functional::clamp(s, {.min = 1})", "s")],
    "without_far_clamp": [("functional::clamp(x, {.max = 50})", "x")],
    "without_length_clamp": [("functional::clamp(length, {.min = 1})", "length")],
    "other_epsilon": [('norm(8, w / "norm")', 'norm(8, {.eps = 1e-3}, w / "norm")')],
    "other_type": [("two(one(mean + x))", "two(one(mean + x)).to(DType::f64)")],
    "wrong_in_second_holder": [
        ("own(act(shared(x)));\n  }\n};\n\n// Changed", "own(act(shared(x) * 1.5));\n  }\n};\n\n// Changed")
    ],
}

LOOK = """
template <class M> void look(const char* name) {
  const std::string manifest = "traces/m_manifest.json";
  const M model(Weights::open(manifest), Checker::load("m", "traces"));
  const Compiled run = compile(model, signature_of(manifest));
  const RoundTrip trip = round_trip(run, manifest, ".");
  run.save(std::string(name) + ".ptir");
  std::ofstream(std::string(name) + ".txt") << trip.difference;
}
"""


@pytest.fixture(scope="module")
def folder(pycandle, tmp_path_factory) -> Path:
    """All edits of one emitted model, compiled as one program; it has said of each how it differs."""
    folder = tmp_path_factory.mktemp("accept")
    torch.manual_seed(0)
    model = Changed().eval()
    perturb(model, seed=0)
    recorder = GoldenRecorder(folder / "traces", progress=lambda text: None)
    recorder.record(model, torch.randn(3, 6), torch.tensor([3, 1, 5]))
    recorder.save("m")
    pycandle("codegen", "--manifest", folder / "traces", "--out", folder / "model.hpp")
    emitted = (folder / "model.hpp").read_text()
    for name, edits in EDITS.items():
        text = emitted
        for old, new in edits:
            assert old in text, (name, old, text)
            text = text.replace(old, new)
        (folder / f"{name}.hpp").write_text(text.replace("namespace changed", f"namespace {name}"))
    source = "#include <fstream>\n" + "".join(f'#include "{name}.hpp"\n' for name in EDITS)
    calls = "".join(f'  look<{name}::Changed>("{name}");\n' for name in EDITS)
    (folder / "look.cpp").write_text(f"{source}using namespace pycandle;\n{LOOK}\nint main() {{\n{calls}}}\n")
    command = ["g++", "-std=c++20", "-O0", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}", "look.cpp"]
    built = subprocess.run(
        [*command, LIBRARY, "-lpthread", "-o", "look"], cwd=folder, capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr[:4000]
    ran = subprocess.run(["./look"], cwd=folder, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-4000:]
    return folder


def said(folder: Path, edit: str) -> str:
    return (folder / f"{edit}.txt").read_text()


def cpp_line(folder: Path, edit: str, text: str) -> str:
    lines = (folder / f"{edit}.hpp").read_text().splitlines()
    return f"{edit}.hpp:{next(i for i, line in enumerate(lines, 1) if text in line)}"


@pytest.mark.parametrize("edit", ["as_emitted", "renamed", "reordered", "gelu_by_formula", "split_in_two"])
def test_what_computes_the_same_is_the_recorded_program(folder, edit) -> None:
    assert said(folder, edit) == ""


@pytest.mark.parametrize("edit", ["square", "square_by_mul", "swapped", "negated_twice"])
def test_formulas_that_round_alike_are_proven_equal(folder, edit) -> None:
    assert "proven equal" in said(folder, edit), said(folder, edit)


def test_the_ops_that_differ_are_listed_with_both_lines(folder) -> None:
    lines = said(folder, "square").splitlines()
    assert lines[0] == "in scale@0, Scale"
    assert lines[1].split()[:3] == ["-", "pow(t,", "2.0)"] and line_of("t.pow(2)") in lines[1]
    assert lines[2].split()[:3] == ["+", "mul(t,", "t)"] and cpp_line(folder, "square", "t * t") in lines[2]
    assert len(lines) == 4, "what only reads the changed value is not listed"
    gone = said(folder, "without_clamp").splitlines()
    assert "- clamp(s, min=1)" in gone[1] and line_of("s.clamp(min=1)") in gone[1]
    assert not gone[2].startswith("  +")


def test_other_formulas_are_tried(folder) -> None:
    text = said(folder, "selected")
    assert "equal to the bit on the recorded inputs and on" in text and "not proven" in text, text


def test_what_rounds_otherwise_is_equal_but_for_rounding(folder) -> None:
    assert "equal but for rounding on the recorded inputs" in said(folder, "merged"), said(folder, "merged")


@pytest.mark.parametrize("edit", ["without_clamp", "other_epsilon", "wrong_in_second_holder"])
def test_a_difference_that_shows_comes_with_the_input_that_shows_it(folder, edit) -> None:
    text = said(folder, edit)
    assert "different for some input" in text, text
    for part in ("inputs", "x = f32[", "length = i64[", "expected", "found", "output at ["):
        assert part in text


@pytest.mark.parametrize(
    ("edit", "where", "input_text"),
    [
        (
            "without_far_clamp",
            "the result of scale@0 at",
            "norm@0/output = f32[",
        ),  # a layer norm stands before it
        (
            "without_length_clamp",
            "the result of one@0 at",
            "zeros: length = i64[3] 0 0 0",
        ),  # recorded: 1 to 5
    ],
)
def test_values_that_no_tried_input_reaches_are_tried_inside(folder, edit, where, input_text) -> None:
    text = said(folder, edit)
    assert "but not at every value inside" in text and where in text and input_text in text, text


def test_another_type_is_a_difference(folder) -> None:
    assert "expected output f32[s0, 4]" in said(folder, "other_type")
    assert "found    output f64[s0, 4]" in said(folder, "other_type")


def accept(pycandle, folder, edit, *options, status=0):
    program = folder / f"{edit}.ptir"
    arguments = ("--manifest", folder / "traces", "--reason", "it is the same", *options)
    return pycandle("accept", program, *arguments, status=status, cwd=folder)


def test_accepting_notes_who_and_why_and_refuses_what_shows(folder, pycandle) -> None:
    accepted = folder / "accepted.json"
    refused = accept(pycandle, folder, "without_clamp", status=1).stdout
    assert "refused" in refused and "--force" in refused and not accepted.exists()
    inside = json.loads(accept(pycandle, folder, "without_far_clamp", "--json", status=1).stdout)
    assert (inside["status"], inside["likeness"]) == ("refused", "different inside") and not accepted.exists()
    fine = json.loads(accept(pycandle, folder, "square", "--by", "Ann", "--json").stdout)
    assert (fine["status"], fine["likeness"], fine["by"]) == ("accepted", "proven equal", "Ann")
    (entry,) = json.loads(accepted.read_text())["accepted"].values()
    assert entry["program"] == fine["program"] and entry["reason"] == "it is the same"
    assert entry["differences"] == ["- pow(t, 2.0) in scale@0", "+ mul(t, t) in scale@0"]
    assert "forced" not in entry and len(entry["date"]) == 10
    again = subprocess.run(["./look"], cwd=folder, capture_output=True, text=True)
    assert again.returncode == 0
    assert said(folder, "square").startswith("output: "), "accepted: nothing was compared"
    assert "another program was accepted by Ann" in said(folder, "without_clamp")
    accept(pycandle, folder, "without_clamp", "--force", "--by", "Bob")
    (entry,) = json.loads(accepted.read_text())["accepted"].values()
    assert entry["forced"] and entry["verdict"] == "different" and entry["by"] == "Bob"
    same = accept(pycandle, folder, "as_emitted").stdout
    assert "nothing to accept" in same
    accepted.unlink()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["absent.ptir", "--reason", "x"], "no such project or program"),
        (["square.ptir", "--reason", "  "], "needs a reason"),
        (["square.ptir", "--reason", "x"], "from which recording"),
        ([".", "--reason", "x"], "no captured program"),
        (["square.hpp", "--reason", "x", "--manifest", "traces"], "square.hpp"),
    ],
)
def test_accept_says_what_it_needs(folder, pycandle, arguments, message) -> None:
    found = pycandle("accept", *arguments, status=2, cwd=folder)
    assert message in found.stderr, found.stderr


def verified(pycandle, folder, edit, status=0) -> dict[str, dict]:
    found = pycandle("verify", "traces", "--program", f"{edit}.ptir", "--json", cwd=folder, status=status)
    return {layer["tap"]: layer for layer in json.loads(found.stdout)["layers"]}


def test_verify_gives_the_line_of_the_op_in_python_and_in_cpp(folder, pycandle) -> None:
    layers = verified(pycandle, folder, "without_clamp", status=1)
    wrong = layers["scale@0/output"]
    assert wrong["verdict"] == "wrong here"
    assert wrong["python"].endswith(line_of("u / (t.pow(2)")), "not the line of def forward"
    assert wrong["cpp"] == cpp_line(folder, "without_clamp", "functional::pow(t, 2.0)")
    assert wrong["cpp_source"].startswith("return u / (functional::pow(t, 2.0)")
    norm = layers["norm@0/output"]
    assert norm["python"].endswith(line_of("self.norm(self.up(x))"))
    assert norm["cpp"] == cpp_line(folder, "without_clamp", "norm(up(x))")


def test_an_op_that_was_moved_into_a_class_of_its_own_keeps_its_line_in_python(folder, pycandle) -> None:
    text = (folder / "split_in_two.ptir").read_text()
    assert "scale.at_least" in text
    layers = verified(pycandle, folder, "split_in_two")
    assert layers["scale@0/output"]["python"].endswith(line_of("u / (t.pow(2)"))


def test_calls_of_a_module_that_two_others_hold_are_judged(folder, pycandle) -> None:
    layers = verified(pycandle, folder, "as_emitted")
    assert {f"left.shared@{call}/output" for call in range(3)} <= set(layers), sorted(layers)
    assert {f"left.act@{call}/output" for call in range(3)} <= set(layers), sorted(layers)
    wrong = verified(pycandle, folder, "wrong_in_second_holder", status=1)
    first = next(layer for layer in wrong.values() if layer["verdict"] == "wrong here")
    assert first["tap"].startswith("left.act@2/")
    assert first["cpp"] == cpp_line(folder, "wrong_in_second_holder", "shared(x) * 1.5")
