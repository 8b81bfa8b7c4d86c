"""The benchmarks are run by hand; here they are kept from rotting."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import call_cost
import compile_time
import scaling


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scaling")
    return folder, scaling.recorded_llama(folder)


def test_a_manifest_grows_by_whole_layers_and_stays_a_valid_program(llama) -> None:
    folder, manifest = llama
    small, large = (scaling.measured(folder, scaling.repeated(manifest, count)) for count in (400, 800))
    assert 400 <= small["nodes"] < 500 and 800 <= large["nodes"] < 900
    assert small["nodes_after"] < large["nodes_after"]
    assert large["import_seconds"] > 0 and large["passes"]


@pytest.mark.full
@pytest.mark.parametrize("model", compile_time.MODELS)
def test_a_whole_model_compiles_in_under_twenty_seconds(model) -> None:
    for row in compile_time.measured(model, ["g++", "clang++-16"]):
        print(row)
        assert row["seconds"] < 20, row


def test_a_call_of_a_tiny_model_is_measured_with_one_and_two_threads(tmp_path) -> None:
    found = call_cost.measured(tmp_path, layers=2, seconds=0.05)
    assert found["steps"] > 10
    assert set(found["microseconds"]) == {1, 2}
