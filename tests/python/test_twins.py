"""A part of `make twins`: how wrong models are made, measured and judged. The whole of it is slow."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from faults import figures, smollm2
from faults.clean import is_alarm, runs_of
from faults.twins import vacuous
from faults.twins.effect import effect
from faults.twins.findings import Finding, TwinVerifier
from faults.twins.odd import THICK, Thick
from faults.twins.recordings import Pair, pairs
from faults.twins.stored_weights import CHANGES, changed_recording, rounded
from faults.twins.suite import TWINS
from faults.twins.sweeps import Sum
from faults.twins.twin import F32, Twin, Variant, stored, tokens
from torch import nn

RUNNER = Path(__file__).parents[2] / "build/release/tests/fault_runner"


@pytest.fixture(scope="module")
def thick(tmp_path_factory) -> Pair:
    twin = Twin("thick", Thick, tokens(64, 2, 12), (THICK[0], stored("times 1.02", "ups.0.weight")))
    return Pair(twin, Variant(F32), tmp_path_factory.mktemp("thick"))


def test_a_wrong_twin_is_found_at_its_layer_with_its_cause_by_both_routes(thick: Pair) -> None:
    found = TwinVerifier(RUNNER).findings(thick)
    assert [f.route for f in found] == ["manifest", "manifest", "program"]
    assert all(f.result == "found" and f.has_layer for f in found), found
    assert found[0].has_cause and found[0].kind == "operation" and found[2].has_cause, found


def test_a_right_twin_does_not_alarm_on_any_backend(thick: Pair) -> None:
    for backend, isa in (("reference", ""), ("cpu", "portable")):
        runs = runs_of(RUNNER, thick, backend, isa)
        assert len(runs) == 8 and not any(is_alarm(run) for run in runs), runs


def test_weights_of_a_long_sum_that_are_rounded_to_16_bits_are_found(tmp_path) -> None:
    (twin,) = [t for t in TWINS if t.name == "sum_1024" and t.variants[0].dtype is F32]
    pair = Pair(twin, Variant(F32), tmp_path)
    (wrong,) = [w for w in pair.wrongs() if w.name.startswith("rounded to 16 bits")]
    assert TwinVerifier(RUNNER).by_manifest(pair, wrong).result == "found"
    assert not any(is_alarm(run) for run in runs_of(RUNNER, pair, "reference", ""))


def test_a_changed_weight_has_a_right_checksum(thick: Pair, tmp_path) -> None:
    changed = changed_recording(thick.manifest, tmp_path / "changed", "ups.0.weight", CHANGES["times 1.02"])
    pycandle = Path(sys.executable).parent / "pycandle"
    said = subprocess.run([pycandle, "verify", changed], capture_output=True, text=True, check=False)
    assert said.returncode == 1 and "checksum" not in said.stdout + said.stderr, said.stdout


@pytest.mark.parametrize("twin", vacuous.TWINS, ids=lambda twin: twin.name)
def test_a_fault_that_the_recorded_input_hides_is_found_at_an_added_one(twin: Twin, tmp_path) -> None:
    pair = Pair(twin, Variant(F32), tmp_path)
    found = TwinVerifier(RUNNER).findings(pair)
    assert len(pair.traces) > 1 and [f.route for f in found] == ["manifest", "program"]
    assert all(f.result == "found" and f.op for f in found), "by a wrong layer, not by having no evidence"
    assert not any(is_alarm(run) for run in runs_of(RUNNER, pair, "reference", ""))


def test_what_moves_a_layer_less_than_another_order_of_summation_does_not_count() -> None:
    torch.manual_seed(0)
    right = Sum(4096, False).to(torch.float16)
    inputs = {"x": torch.randn(400, 4096).to(torch.float16)}

    def changed(row: int, factor: float) -> nn.Module:
        wrong = Sum(4096, False).to(torch.float16)
        wrong.load_state_dict(right.state_dict())
        with torch.no_grad():
            wrong.fc.weight[row] *= factor
        return wrong

    assert not effect(right, changed(0, 1.0), inputs).is_real
    assert not effect(right, changed(0, 1.00001), inputs).is_real
    little = effect(right, changed(0, 1.01), inputs)
    assert little.is_real and little.noise > 0 and little.paths == ("fc", "")


def test_weights_are_rounded_to_so_many_bits_of_mantissa() -> None:
    x = torch.tensor([1.0, 1.03125, -1.1, 3.0e-3, 0.0])
    assert rounded(x, 24).equal(x)
    assert rounded(torch.tensor([1.0 + 2**-4, 1.0 + 2**-6]), 5).tolist() == [1.0 + 2**-4, 1.0]


def test_every_model_has_a_name_of_its_own_and_every_changed_parameter_exists(tmp_path) -> None:
    names = [pair.name for pair in pairs(tmp_path, TWINS)]
    assert len(set(names)) == len(names)
    for twin in TWINS:
        model = twin.make()
        stored_names = {*dict(model.named_parameters()), *dict(model.named_buffers())}
        assert {w.weights[1] for w in twin.wrongs if w.weights} <= stored_names, twin.name
        assert not twin.outlier or twin.outlier in stored_names, twin.name


def finding(**facts) -> Finding:
    base = {
        "model": "sum_64_float32",
        "variant": "float32",
        "wrong": "negated: fc.weight",
        "route": "manifest",
    }
    base |= {
        "change": 1.0,
        "torchs_own": 0.0,
        "result": "found",
        "reproduce": "",
        "expected": "stored weight",
    }
    return Finding(**base | {"parameter": "fc.weight"} | facts)


def test_a_cause_is_right_when_it_names_the_parameter_or_is_of_an_expected_kind() -> None:
    assert finding(kind="scale", cause="looks like fc.weight times -1").has_cause
    assert finding(kind="stored weight", cause="looks like another weight").has_cause
    assert finding(kind="scale", cause="looks like another scale").is_wrong_cause
    assert not finding().has_cause and not finding().is_wrong_cause and not finding().is_fine


def test_the_table_counts_what_was_measured_and_keeps_the_rest(tmp_path) -> None:
    rounded_away = finding(wrong="rounded to 14 bits: fc.weight", expected="", result="missed")
    findings = [finding(kind="stored weight"), rounded_away, finding(result="no effect")]
    measured = figures.parts(findings, [{}, {"is": "bad"}], [{"is": "bad"}], "")
    facts = {what: figure for part in measured for what, _, figure in part.rows}
    assert facts["found, f32"] == "1 of 2 (50.0 %)" and facts["false alarms, of clean runs"] == "1 of 2"
    assert facts["weights of long sums rounded, f32"] == "0 of 1 (0.0 %)"
    file, page = tmp_path / "results.json", tmp_path / "page.md"
    page.write_text(f"before\n{figures.BEGIN}\nold\n{figures.END}\nafter\n")
    figures.write(measured, "today", file, page)
    figures.write(figures.parts([], [], [], "60 of 60"), "tomorrow", file, page)
    text = page.read_text()
    assert "old" not in text and text.endswith("after\n")
    assert "| found, f32 | 99.5 % | 1 of 2 (50.0 %) |" in text and "60 of 60" in text
    assert "Measured: twins, clean runs: today. SmolLM2: tomorrow." in text
    (missed,) = json.loads(file.read_text())["twins"]["notes"]
    assert missed["wrong"] == "rounded to 14 bits: fc.weight" and missed["result"] == "missed"


def test_the_table_of_the_page_is_that_of_the_results() -> None:
    page = figures.PAGE.read_text()
    assert figures.with_table(page, json.loads(figures.RESULTS.read_text())) == page


def test_changes_of_smollm2_are_of_all_kinds_and_parameters(tmp_path) -> None:
    names = [f"model.layers.{n}.{part}.weight" for n in range(30) for part in smollm2.NAMES.values()]
    names += ["model.embed_tokens.weight", "model.norm.weight"]
    manifest = tmp_path / "manifest.json"
    manifest.write_text('{"parameters": [' + ", ".join(f'{{"name": "{name}"}}' for name in names) + "]}")
    chosen = smollm2.changes(manifest, 60)
    assert len(set(chosen)) == 60 and {change for change, _ in chosen} == set(smollm2.KINDS)
    assert {name.split(".")[-2] for _, name in chosen} == {n.split(".")[-2] for n in names}


@pytest.mark.full
def test_single_parameters_of_smollm2_are_found_and_named() -> None:
    assert smollm2.main([]) == 0
