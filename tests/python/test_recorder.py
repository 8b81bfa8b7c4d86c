"""Every form of model and input that the recorder takes, and what the manifest then says."""

import dataclasses
import json
import math
from typing import NamedTuple

import pytest
import torch
from recording_checks import Calls, load_checked, ops, read_tensors
from torch import nn

from pycandle import GoldenRecorder
from pycandle.errors import RecordingError, UsageError
from pycandle.recording.files.manifest import value_range

torch.set_num_threads(1)


def names(entries) -> list[str]:
    return [entry["name"] for entry in entries]


# ---- inputs and outputs ---------------------------------------------------------------------------------------


class Keywords(nn.Module):
    def forward(self, x, *, scale, shift=None):
        y = x * scale
        return y if shift is None else y + shift


def test_keyword_arguments_keep_their_names(record):
    manifest, goldens = record(Keywords(), torch.randn(2, 3), scale=torch.randn(3), shift=torch.randn(2, 3))
    assert names(manifest["inputs"]) == ["x", "scale", "shift"]
    assert set(goldens) >= {"input:x", "input:scale", "input:shift", "output:output"}


class Nested(nn.Module):
    def forward(self, pair, table):
        a, b = pair
        return {"sum": a + table["left"], "rest": [b * 2, (table["right"][0], None, 7)]}


def test_nested_inputs_and_outputs(record):
    x = torch.randn(2, 3)
    manifest, _ = record(Nested(), (x, x + 1), {"left": x, "right": [x * 2]})
    assert names(manifest["inputs"]) == ["pair.0", "pair.1", "table.left", "table.right.0"]
    assert names(manifest["outputs"]) == ["output.rest.0", "output.rest.1.0", "output.sum"] or names(
        manifest["outputs"]
    ) == ["output.sum", "output.rest.0", "output.rest.1.0"]
    rest = manifest["output_tree"]["items"][manifest["output_tree"]["keys"].index("rest")]
    assert [item["kind"] for item in rest["items"][1]["items"]] == ["tensor", "literal", "literal"]
    assert rest["items"][1]["items"][2]["value"] == 7


@dataclasses.dataclass
class Pair:
    first: torch.Tensor
    second: torch.Tensor


class TakesDataclass(nn.Module):
    def forward(self, pair):
        return Pair(pair.second, pair.first + 1)


def test_dataclasses_are_looked_into(record):
    manifest, _ = record(TakesDataclass(), Pair(torch.randn(2, 3), torch.randn(2, 3)))
    assert names(manifest["inputs"]) == ["pair.first", "pair.second"]
    assert names(manifest["outputs"]) == ["output.first", "output.second"]
    assert manifest["output_tree"]["kind"] == "dataclass"
    assert manifest["outputs"][0]["value"] == manifest["inputs"][1]["value"]
    assert [entry["shape"] for entry in manifest["inputs"]] == [["s0", 3], ["s0", 3]]


def test_axes_of_dataclasses_inside_other_containers_stay_open(record):
    model = Calls(lambda pairs: [pair.first * pair.second for pair in pairs["all"]])
    manifest, _ = record(model, {"all": (Pair(*torch.randn(2, 4, 3)), Pair(*torch.randn(2, 4, 3)))})
    assert [entry["shape"] for entry in manifest["inputs"]] == [["s0", 3]] * 4


class Point(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor


class GivesPoints(nn.Module):
    def forward(self, x):
        return Point(x + 1, x - 1)


class SwapsPoints(nn.Module):
    def forward(self, point):
        return point._replace(x=point.y * 2, y=point.x * 3)


def test_results_and_layers_name_the_fields_of_named_tuples(record):
    manifest, goldens = record(
        nn.Sequential(Calls(lambda p: p + 1), GivesPoints(), SwapsPoints()), torch.randn(2, 3)
    )
    assert names(manifest["outputs"]) == ["output.x", "output.y"]
    assert {"1@0/output.x", "1@0/output.y"} <= goldens.keys()


class VarArgs(nn.Module):
    def forward(self, *tensors, **named):
        return sum(tensors) + named["extra"]


def test_star_arguments(record):
    x = torch.randn(2, 3)
    manifest, _ = record(VarArgs(), x, x * 2, extra=x)
    assert names(manifest["inputs"]) == ["tensors.0", "tensors.1", "extra"]
    assert [s["name"] for s in manifest["symbols"]] == ["s0"]


def test_integer_and_bool_inputs(record):
    model = Calls(lambda ids, keep: torch.where(keep, ids, 0) + 1)
    manifest, _ = record(model, torch.tensor([[3, 5], [9, 4]]), torch.tensor([[True, False], [False, True]]))
    ids, keep = manifest["inputs"]
    assert (ids["dtype"], ids["range"]) == ("i64", [3, 9])
    assert keep["dtype"] == "bool" and "range" not in keep


FLOATS = {
    "an adjacency": (torch.eye(3), [0, 1]),
    "labels": (torch.tensor([3.0, -9.0, 4.0]), [-9, 4]),
    "halves": (torch.tensor([0.0, 1.0, 0.5]), None),
    "ones": (torch.ones(4), None),
    "floats too large for fractions": (torch.tensor([2.0**24, 2.0**30]), None),
    "infinite": (torch.tensor([0.0, 1.0, math.inf]), None),
    "not a number": (torch.tensor([0.0, 1.0, math.nan]), None),
    "bfloat16": (torch.tensor([1.0, 200.0], dtype=torch.bfloat16), [1, 200]),
    "bfloat16 without fractions": (torch.tensor([1.0, 256.0], dtype=torch.bfloat16), None),
}


@pytest.mark.parametrize("what", FLOATS)
def test_floats_that_stand_for_integers_have_a_range(what) -> None:
    tensor, expected = FLOATS[what]
    assert value_range(tensor) == expected


class Looked(nn.Module):
    """A graph's neighbours by an adjacency of floats, as libraries give it."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds = nn.Embedding(2, 5)

    def forward(self, adjacency):
        return self.kinds(adjacency.long()).sum(1)


def test_random_inputs_serve_a_model_that_indexes_with_floats(tmp_path, pycandle) -> None:
    recorder = GoldenRecorder(tmp_path, progress=lambda text: None)
    recorder.record(Looked().eval(), (torch.arange(9.0).reshape(3, 3) > 4).float())
    manifest = recorder.save("looked").manifest
    for seed in (1, 2):
        pycandle("forward", manifest, "--seed", seed)


def test_unused_inputs_are_said_to_be(record):
    manifest, goldens = record(Calls(lambda x, unused: x + 1), torch.randn(2, 3), torch.randn(4))
    assert [entry["used"] for entry in manifest["inputs"]] == [True, False]
    assert "input:unused" in goldens


def test_an_input_returned_as_output_names_its_value(record):
    manifest, goldens = record(Calls(lambda x: (x, x + 1, x)), torch.randn(2, 3))
    assert [entry["value"] for entry in manifest["outputs"]] == [0, 1, 0]
    assert torch.equal(goldens["output:output.0"], goldens["input:x"])
    assert torch.equal(goldens["output:output.2"], goldens["input:x"])


def test_python_numbers_are_baked_in_and_noted(record):
    manifest, _ = record(
        Calls(lambda x, n, flag=False, name="a": x * n), torch.randn(2, 3), 3, flag=True, name="b"
    )
    assert names(manifest["inputs"]) == ["x"]
    assert sum("baked in" in note for note in manifest["notes"]) == 3


def test_none_among_the_inputs(record):
    manifest, _ = record(Calls(lambda x, mask=None: x + 1), torch.randn(2, 3), None)
    assert names(manifest["inputs"]) == ["x"]


# ---- parameters, buffers, constants ---------------------------------------------------------------------------


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 4)
        self.head = nn.Linear(4, 10, bias=False)
        self.head.weight = self.embed.weight
        self.spare = nn.Linear(4, 4)

    def forward(self, ids):
        return self.head(self.embed(ids))


def test_tied_weights_are_one_parameter_with_an_alias(record):
    manifest, _ = record(Tied(), torch.randint(0, 10, (2, 3)))
    by_name = {p["name"]: p for p in manifest["parameters"]}
    assert by_name["embed.weight"]["aliases"] == ["head.weight"]
    assert "head.weight" not in by_name
    assert by_name["spare.weight"]["value"] is None


class Buffers(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("kept", torch.randn(3))
        self.register_buffer("table", torch.randn(3), persistent=False)
        self.plain = torch.randn(3)

    def forward(self, x):
        return x * self.kept + self.table + self.plain + torch.tensor([1.0, 2.0, 3.0])


def test_buffers_and_constants_have_their_kind(record):
    manifest, _ = record(Buffers(), torch.randn(2, 3))
    by_name = {p["name"]: (p["kind"], p["persistent"]) for p in manifest["parameters"]}
    assert by_name["kept"] == ("buffer", True)
    assert by_name["table"] == ("buffer", False)
    assert sorted(kind for kind, _ in by_name.values()) == ["buffer", "buffer", "constant", "constant"]
    assert all(p["file"] for p in manifest["parameters"])


class Accumulates(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x):
        self.total.add_(x.sum(0))
        return x + self.total


def test_a_mutated_buffer_is_a_state(record):
    model = Accumulates()
    manifest, _ = record(model, torch.randn(2, 3))
    (state,) = manifest["states"]
    assert state["name"] == "total" and state["updated"] != state["value"]
    assert not manifest["parameters"]
    assert torch.equal(model.total, torch.zeros(3)), "recording leaves the model as it was"


class WritesItsInput(nn.Module):
    def forward(self, x):
        x.add_(1)
        return x * 2


def test_a_model_that_writes_its_input_is_noted(record):
    x = torch.randn(2, 3)
    before = x.clone()
    manifest, _ = record(WritesItsInput(), x)
    assert torch.equal(x, before)
    assert any("writes into its input x" in note for note in manifest["notes"])


class Lazy(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.LazyLinear(4)

    def forward(self, x):
        return self.linear(x)


def test_lazy_modules_are_materialised(record):
    manifest, _ = record(Lazy(), torch.randn(2, 3))
    assert manifest["parameters"][0]["shape"] == [4, 3]


# ---- other values of the same model --------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 3])
def test_parts_of_complex_numbers_are_written_at_any_size(record, rows):
    """One element is contiguous whatever its stride."""
    model = Calls(lambda re, im: (torch.complex(re, im).conj() @ torch.complex(re, im).mT).real)
    x, y = torch.randint(-9, 10, (2, rows, 4)).float()  # sums in any order are exact
    record(model, x, y)
    assert torch.equal(
        read_tensors(record.recorder.add_goldens("m_other", x[:1], y[:1]))["output:output"],
        model(x[:1], y[:1]),
    )


def test_goldens_at_other_inputs_have_the_same_keys(record, tmp_path):
    model = Tied()
    _, goldens = record(model, torch.randint(0, 10, (1, 3)))
    ids = torch.randint(0, 10, (4, 7))
    path = record.recorder.add_goldens("m_other", ids)
    other = read_tensors(path)
    assert other.keys() == goldens.keys()
    assert torch.equal(other["output:output"], model(ids))
    with pytest.raises(UsageError):
        record.recorder.add_goldens("wrong", ids.float())


class ReadsWeight(nn.Module):
    """A number that is taken from a parameter while the model is traced."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([2.0]))
        self.steps = 2

    def forward(self, x):
        return x * self.scale * self.steps


def test_values_changed_after_recording_are_taken_over_by_refresh(record, tmp_path):
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    x = torch.randn(2, 4)
    record(model, x)
    with torch.no_grad():
        model[0].weight.mul_(3)
        model[1].running_mean.add_(1)
    with pytest.raises(RecordingError, match="was changed"):
        record.recorder.save("m")
    record.recorder.refresh()
    manifest, goldens = load_checked(record.recorder.save("m").manifest)
    assert torch.equal(goldens["output:output"], model(x))
    weights = read_tensors(tmp_path / manifest["files"]["weights"])
    assert torch.equal(weights["0.weight"], model[0].weight)
    assert torch.equal(weights["1.running_mean"], model[1].running_mean)


def test_refresh_refuses_a_model_that_is_no_longer_the_program(record):
    model = ReadsWeight()
    record(model, torch.randn(2, 4))
    model.steps = 3
    with pytest.raises(RecordingError, match="not the model"):
        record.recorder.refresh()


# ---- taps, budget, weights ------------------------------------------------------------------------------------


def mlp():
    return nn.Sequential(
        nn.Linear(4, 8), nn.ReLU(), nn.Sequential(nn.Linear(8, 8), nn.Tanh()), nn.Linear(8, 2)
    )


def test_taps_none_keeps_inputs_and_outputs(record):
    manifest, goldens = record(mlp(), torch.randn(2, 4), options={"taps": "none"})
    assert manifest["taps"] == [] and set(goldens) == {"input:input", "output:output"}


def test_taps_all_keeps_every_result(record):
    manifest, _ = record(
        Calls(lambda x: ((x + 1).relu() * 2).sum(1)), torch.randn(2, 4), options={"taps": "all"}
    )
    assert [tap["id"] for tap in manifest["taps"] if tap["id"].startswith("node:")] == [
        "node:1",
        "node:2",
        "node:3",
    ]


def test_a_golden_budget_keeps_outer_modules_and_says_what_is_missing(record):
    manifest, goldens = record(mlp(), torch.randn(2, 4), options={"golden_budget": 2 * 8 * 4 * 3})
    kept = {tap["id"] for tap in manifest["taps"]}
    assert {"@0/output", "0@0/output", "1@0/output", "2@0/output"} <= kept
    assert "2.0@0/output" not in kept
    assert "output:output" in goldens
    assert any(note.startswith("golden_budget: ") for note in manifest["notes"])


def test_weights_none(record):
    manifest, _ = record(mlp(), torch.randn(2, 4), options={"weights": "none"})
    assert manifest["files"]["weights"] is None
    assert {p["file"] for p in manifest["parameters"]} == {None}


def test_weights_ref_names_the_files_they_came_from(record, tmp_path):
    from safetensors.torch import save_file

    model = mlp()
    state = dict(model.state_dict())
    state.pop("3.bias")
    save_file(state, tmp_path / "checkpoint.safetensors")
    options = {"weights": "ref", "weights_files": [tmp_path / "checkpoint.safetensors"]}
    manifest, _ = record(model, torch.randn(2, 4), options=options)
    files = {p["name"]: p["file"] for p in manifest["parameters"]}
    assert files["0.weight"] == "checkpoint.safetensors" and files["3.bias"] == "m_weights.safetensors"


def test_one_element_of_a_strided_buffer_is_found_in_its_file(record, tmp_path):
    from safetensors.torch import save_file

    model = mlp()
    model.register_buffer("one", torch.arange(3.0)[::3])
    model.register_forward_hook(lambda module, args, output: output + module.one)
    assert model.one.stride() == (3,)
    save_file({"one": model.one.contiguous()}, tmp_path / "checkpoint.safetensors")
    options = {"weights": "ref", "weights_files": [tmp_path / "checkpoint.safetensors"]}
    manifest, _ = record(model, torch.randn(2, 4), options=options)
    assert {p["name"]: p["file"] for p in manifest["parameters"]}["one"] == "checkpoint.safetensors"


class Sparse(nn.Module):
    def __init__(self, used):
        super().__init__()
        self.linear, self.used = nn.Linear(4, 4), used
        self.register_buffer("edges", torch.eye(4).to_sparse())

    def forward(self, x):
        y = self.linear(x)
        return torch.sparse.mm(self.edges, y) if self.used else y  # HERE


def test_a_sparse_buffer_is_left_out_or_refused_by_name(record):
    manifest, _ = record(Sparse(False), torch.randn(4, 4))
    assert names(manifest["parameters"]) == ["linear.weight", "linear.bias"]
    with pytest.raises(RecordingError, match="edges is a tensor of the layout") as refusal:
        record(Sparse(True), torch.randn(4, 4))
    assert "# HERE" in refusal.value.place.source and "edges.to_dense()" in refusal.value.hint


def test_no_source(record):
    manifest, _ = record(mlp(), torch.randn(2, 4), options={"source": False})
    assert all("lines" not in entry for entry in manifest["files_table"])


# ---- other sources --------------------------------------------------------------------------------------------


def test_an_exported_program_and_its_file(tmp_path):
    model = Tied().eval()
    ids = torch.randint(0, 10, (3, 5))
    batch = torch.export.Dim("batch", min=2, max=64)
    program = torch.export.export(model, (ids,), dynamic_shapes=({0: batch},))
    torch.export.save(program, tmp_path / "tied.pt2")
    manifests = []
    for source in (program, str(tmp_path / "tied.pt2")):
        recorder = GoldenRecorder(tmp_path, progress=lambda text: None)
        recorder.record(source, ids)
        manifest, goldens = load_checked(recorder.save("tied").manifest)
        assert torch.equal(goldens["output:output"], model(ids))
        assert manifest["inputs"][0]["shape"] == ["s0", 5]
        assert [c["path"] for c in manifest["module_calls"]] == ["", "embed", "head"]
        assert manifest["module_calls"][1]["output"] == manifest["module_calls"][2]["args"][0][1]
        manifests.append(manifest)
    assert ops(manifests[0]) == ops(manifests[1])


def test_a_meta_model_records_shapes_only(record):
    with torch.device("meta"):
        model = Tied()
    manifest, _ = record(model, torch.zeros(2, 3, dtype=torch.long, device="meta"))
    assert manifest["soundness"]["status"] == "shapes-only"
    assert manifest["files"]["weights"] is None
    assert manifest["symbols"][0]["min"] == 1
    shapes = {tap["id"]: tap["shape"] for tap in manifest["taps"]}
    assert shapes["embed@0/output"][:2] == [2, 3] and shapes["head@0/output"] == [2, 3, 10]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_meta_model_keeps_what_no_checkpoint_holds(record, dtype):
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4, vocab_size=50
    )
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(config).to(dtype)
    manifest, _ = record(model, input_ids=torch.zeros(1, 8, dtype=torch.long, device="meta"))
    with_values = [p["name"] for p in manifest["parameters"] if p["file"]]
    assert with_values == ["model.rotary_emb.inv_freq"]
    assert [s["min"] for s in manifest["symbols"]] == [1, 1]


def test_a_custom_operator_is_recorded_by_name_or_decomposed(record):
    @torch.library.custom_op("pycandle_tests::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_fake(lambda x: torch.empty_like(x))
    model = Calls(lambda x: torch.ops.pycandle_tests.twice(x))
    manifest, _ = record(model, torch.randn(2, 3))
    assert ops(manifest) == ["pycandle_tests.twice.default"]
    table = {torch.ops.pycandle_tests.twice.default: lambda x: x + x}
    manifest, _ = record(model, torch.randn(2, 3), options={"decompositions": table})
    assert ops(manifest) == ["aten.add.Tensor"]


def test_data_bound_sizes_are_u_symbols(record):
    manifest, _ = record(Calls(lambda x: torch.nonzero(x > 0)), torch.randn(3, 4))
    assert manifest["outputs"][0]["shape"] == ["u0", 2]
    assert {"name": "u0", "min": 0, "max": None, "example": None, "bound_by": None} in manifest["symbols"]


# ---- files ----------------------------------------------------------------------------------------------------


def test_nothing_half_written_survives_a_failure(tmp_path, monkeypatch):
    recorder = GoldenRecorder(tmp_path, progress=lambda text: None)
    recorder.record(mlp().eval(), torch.randn(2, 4))

    def broken(*_):
        raise OSError(28, "disk full")

    monkeypatch.setattr("pycandle.recording.recorder.place_weights", broken)
    with pytest.raises(UsageError, match=r"cannot write into .*disk full"):
        recorder.save("m")
    assert list(tmp_path.iterdir()) == []


def test_an_older_recording_survives_a_failure(tmp_path, monkeypatch):
    recorder = GoldenRecorder(tmp_path, progress=lambda text: None)
    recorder.record(mlp().eval(), torch.randn(2, 4))
    recorder.save("m")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    recorder.record(mlp().eval(), torch.randn(2, 4))
    monkeypatch.setattr("pycandle.recording.recorder.write_manifest", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        recorder.save("m")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_model_changed_between_record_and_save_is_refused(tmp_path):
    model = mlp().eval()
    recorder = GoldenRecorder(tmp_path, progress=lambda text: None)
    recorder.record(model, torch.randn(2, 4))
    with torch.no_grad():
        model[0].weight.add_(1)
    with pytest.raises(RecordingError, match="changed between"):
        recorder.save("m")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "a b"])
def test_names_that_are_no_file_names_are_refused(tmp_path, name):
    recorder = GoldenRecorder(tmp_path, progress=lambda text: None)
    recorder.record(mlp().eval(), torch.randn(2, 4))
    with pytest.raises(UsageError):
        recorder.save(name)


def test_manifest_is_json_without_nan(record, tmp_path):
    record(Calls(lambda x: x.masked_fill(x > 0, float("nan"))), torch.randn(2, 3))
    text = (tmp_path / "m_manifest.json").read_text()
    assert text.endswith("}\n") and "NaN" not in text
    json.loads(text, parse_constant=lambda constant: pytest.fail(constant))


class Ranked(nn.Module):
    def forward(self, scores: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, ...]:
        best, order = torch.sort(scores.round(), -1, descending=True)
        return best, order, labels.argsort(dim=-1)


def test_the_order_of_equal_elements_is_that_of_stable_sorts(record) -> None:
    """On some processors torch.sort shuffles equal elements: a model that returns the order is recorded all the same."""
    scores, labels = torch.randn(2, 300), torch.randint(0, 5, (3, 200))
    manifest, goldens = record(Ranked(), scores, labels)
    expected = labels.argsort(dim=-1, stable=True)
    assert torch.equal(goldens["output:output.2"], expected)
    shuffles = not torch.equal(labels.argsort(dim=-1), expected)
    assert ("equal elements" in json.dumps(manifest)) == shuffles
